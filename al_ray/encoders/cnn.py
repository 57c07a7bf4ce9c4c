"""The encoder `cnn`: words, one convolution, the greatest of every filter, a projection (paper 002, 2.1.1 and 4.2).

It needs no pre-training: its weights are random, always the same of a seed. It knows the words of the task it is made
for, so that it is saved with them: `model.safetensors` and `vocab.json`. sentence-transformers does not load it.

Its untrained vectors must find a seed set. With torch's own initial weights they do not: the greatest of each filter is
much the same for all texts, and frequent words decide the rest. So three things are settled at the start, all of which
a training may change; docs/paraphrase.md has what they bring.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.pairs import Rows
from al_ray.core.vectors import Vectors
from al_ray.encoders.tokens import Tokens
from al_ray.encoders.transformer import digest_of, mixed
from al_ray.encoders.vocabulary import Vocabulary

NAME = re.compile(r"cnn(?:-(\d+))?")
DIMENSION, WINDOW, FILTERS = 300, 5, 300
MOST_FILTERS = 100_000
WEIGHTS = "model.safetensors"
RARITY = 1e-3  # a of a / (a + p(w)), the length a word begins with (Arora et al. 2017, A Simple but Tough-to-Beat ...).
AROUND = 0.3  # What a filter's weights for a word's neighbours are at the start, to those for the word itself.


class Network(torch.nn.Module):
    """Word numbers -> a vector: W_p max_i tanh(W x_{i-2:i+2} + b), beyond a text's ends zeros."""

    def __init__(self, words: int, filters: int, seed: int = 0) -> None:
        """Random weights, as torch makes them; of the `words` numbers 0 is no word and stays the zero vector."""
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.embedding = torch.nn.Embedding(words, DIMENSION, padding_idx=0)
            self.convolution = torch.nn.Conv1d(DIMENSION, filters, WINDOW, padding=WINDOW // 2)
            self.projection = torch.nn.Linear(filters, DIMENSION, bias=False)

    @torch.no_grad()
    def settle(self, vocabulary: Vocabulary) -> None:
        """Make untrained vectors tell texts apart: frequent words short, each filter mostly of one word, no offset."""
        counts = torch.tensor(vocabulary.counts, dtype=torch.float64)
        share = counts / counts.sum()
        self.embedding.weight[1 + vocabulary.bins :] *= (RARITY / (RARITY + share)).float()[:, None]
        self.get_parameter("convolution.bias").zero_()
        neighbours = torch.arange(WINDOW) != WINDOW // 2
        self.convolution.weight[:, :, neighbours] *= AROUND
        # What all filters have in common would stand in every vector.
        self.projection.weight -= self.projection.weight.mean(dim=1, keepdim=True)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(r, l) word numbers and which of them are words -> (r, 300)."""
        filtered = self.convolution(self.embedding(ids).transpose(1, 2))
        # tanh rises: the greatest of it is the tanh of the greatest.
        greatest = filtered.masked_fill(~mask[:, None], -torch.inf).amax(dim=2)
        return self.projection(torch.tanh(greatest))


class Cnn:
    """A network and the words it knows."""

    def __init__(self, network: Network, vocabulary: Vocabulary, config: EncoderConfig, device: str = "cpu") -> None:
        """Hold the parts; see `base` and `saved`, which make them."""
        self.network = network.to(device).eval()
        self.vocabulary, self.config, self.device = vocabulary, config, device

    @staticmethod
    def base(config: EncoderConfig, vocabulary: Vocabulary, device: str = "cpu", seed: int = 0) -> "Cnn":
        """The untrained encoder, as every round starts from it; BadOption for a name or an option that cannot be."""
        if config.encoder_layers is not None:
            raise BadOption(f"--encoder-layers {config.encoder_layers}: encoder {config.encoder} has none to leave out")
        network = Network(vocabulary.size, filters_of(config.encoder), seed)
        network.settle(vocabulary)
        return Cnn(network, vocabulary, config, device)

    @staticmethod
    def saved(folder: Path, config: EncoderConfig, device: str = "cpu") -> "Cnn":
        """An encoder that `save` wrote."""
        vocabulary = Vocabulary.read(folder)
        try:
            weights = load_file(folder / WEIGHTS)
            network = Network(vocabulary.size, len(weights["convolution.bias"]))
            network.load_state_dict(weights)
        except (SafetensorError, OSError, KeyError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise BadFile(f"the model in {folder} cannot be loaded ({reason}); restore the folder") from error
        return Cnn(network, vocabulary, config, device)

    @property
    def dimension(self) -> int:
        """Numbers in a vector."""
        return DIMENSION

    def tokenise(self, texts: Sequence[str], block: int = 4096) -> Iterator[list[list[int]]]:
        """Texts -> lists of word numbers, at most max_length each, `block` texts at a time."""
        for start in range(0, len(texts), block):
            part = texts[start : start + block]
            yield [self.vocabulary.ids(text, self.config.max_length) for text in part]

    def forward(self, tokens: Tokens, rows: Rows) -> torch.Tensor:
        """(r,) rows -> their vectors (r, 300), not of unit length; gradients flow if they are on."""
        ids, mask = tokens.padded(rows, 0)
        with mixed(self.config.arithmetic, self.device):
            return self.network(ids.to(self.device), mask.to(self.device)).float()

    @torch.inference_mode()
    def embed(self, tokens: Tokens, rows: Rows) -> Vectors:
        """(r,) rows, encoded as one batch -> unit vectors (r, 300)."""
        return torch.nn.functional.normalize(self.forward(tokens, rows)).cpu().numpy()

    def digest(self) -> str:
        """Of everything that decides a vector before it is rounded: weights, words, options."""
        return digest_of([self.config.digest_text, self.vocabulary.digest], self.network)

    def save(self, folder: Path) -> None:
        """Write weights and words into a folder that exists and is empty."""
        weights = {name: weight.detach().cpu().contiguous() for name, weight in self.network.state_dict().items()}
        save_file(weights, folder / WEIGHTS)
        self.vocabulary.write(folder)


def is_cnn(name: str) -> bool:
    """Whether --encoder names this encoder: `cnn`, or `cnn-600` for another number of filters."""
    return NAME.fullmatch(name) is not None


def filters_of(name: str) -> int:
    """How many filters a name asks for; the paper does not say how many it had."""
    found = NAME.fullmatch(name)
    assert found is not None, name
    filters = int(found[1] or FILTERS)
    if not 1 <= filters <= MOST_FILTERS:
        raise BadOption(f"--encoder {name} asks for {filters:,} filters; give 1 to {MOST_FILTERS:,}, such as cnn-300")
    return filters
