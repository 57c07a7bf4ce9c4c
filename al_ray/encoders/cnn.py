"""The encoder `cnn`: word embeddings, one convolution, max pooling, a projection (paper 002, 2.1.1 and 4.2).

It is not pre-trained: its initial weights are random and depend on the seed alone. Its vocabulary comes from the texts
of a task and is saved beside the weights: `vocab.json` and `model.safetensors`. sentence-transformers cannot load it.

The untrained encoder finds the seed set. With torch's initial weights it finds none: the maximum of a filter is nearly
equal for all texts, and frequent words decide the rest. `Network.settle` therefore rescales the initial weights in
three ways; training may change them all. docs/paraphrase.md reports the effect.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from al_ray.core.config.encoder import CNN, EncoderConfig
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.naming import option
from al_ray.core.pairs import Rows
from al_ray.core.vectors import Vectors
from al_ray.encoders.frozen_layers import FrozenLayers
from al_ray.encoders.prompts import Side
from al_ray.encoders.tokens import Tokens, fetched_tokens
from al_ray.encoders.transformer import digest_of, mixed
from al_ray.encoders.vocabulary import Vocabulary
from al_ray.storage.download import fetched
from al_ray.storage.uri import StoragePath, storage_path

DIMENSION, WINDOW, FILTERS = 300, 5, 300
MOST_FILTERS = 100_000
WEIGHTS = "model.safetensors"
RARITY = 1e-3  # a in a / (a + p(w)), the initial weight of a word (Arora et al. 2017, A Simple but Tough-to-Beat ...).
AROUND = 0.3  # Initial factor of a filter's weights for the neighbours of the middle word.


class Network(torch.nn.Module):
    """Word numbers -> a vector: W_p max_i tanh(W x_{i-2:i+2} + b), with zeros beyond the ends of a text."""

    def __init__(self, words: int, filters: int, seed: int = 0) -> None:
        """Draw torch's initial weights. words: size of the vocabulary; number 0 is padding, always the zero vector."""
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.embedding = torch.nn.Embedding(words, DIMENSION, padding_idx=0)
            self.convolution = torch.nn.Conv1d(DIMENSION, filters, WINDOW, padding=WINDOW // 2)
            self.projection = torch.nn.Linear(filters, DIMENSION, bias=False)

    @torch.no_grad()
    def settle(self, vocabulary: Vocabulary) -> None:
        """Shrink frequent words, let the middle word of a window dominate, and centre the projection.

        A word's share p(w) is that among the occurrences of the words of the vocabulary; the others are not counted.
        """
        counts = torch.tensor(vocabulary.counts, dtype=torch.float64)
        share = counts / counts.sum()
        self.embedding.weight[1 + vocabulary.bins :] *= (RARITY / (RARITY + share)).float()[:, None]
        self.get_parameter("convolution.bias").zero_()
        neighbours = torch.arange(WINDOW) != WINDOW // 2
        self.convolution.weight[:, :, neighbours] *= AROUND
        # Otherwise the mean of all filters would be a part of every vector.
        self.projection.weight -= self.projection.weight.mean(dim=1, keepdim=True)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(r, l) word numbers and (r, l) mask of the words -> (r, 300)."""
        filtered = self.convolution(self.embedding(ids).transpose(1, 2))
        # tanh is increasing: its maximum is the tanh of the maximum.
        highest = filtered.masked_fill(~mask[:, None], -torch.inf).amax(dim=2)
        return self.projection(torch.tanh(highest))


class Cnn:
    """A network and its vocabulary, with the methods of TextEncoder; `base` and `saved` load one."""

    dimension = DIMENSION

    def __init__(self, network: Network, vocabulary: Vocabulary, config: EncoderConfig, device: str = "cpu") -> None:
        self.network = network.to(device).eval()
        self.vocabulary, self.config, self.device = vocabulary, config, device

    @staticmethod
    def base(config: EncoderConfig, vocabulary: Vocabulary, device: str = "cpu", seed: int = 0) -> "Cnn":
        """Make the untrained encoder; BadOption for an invalid name or for options it does not have."""
        if config.encoder_layers is not None:
            raise BadOption(
                f"{option('encoder_layers', config.encoder_layers)}: encoder {config.encoder} has no layers to leave "
                "out"
            )
        Cnn.check_prompts(config)
        network = Network(vocabulary.size, filters_of(config.encoder), seed)
        network.settle(vocabulary)
        return Cnn(network, vocabulary, config, device)

    @staticmethod
    def untrained(config: EncoderConfig, pool: StoragePath, device: str = "cpu", seed: int = 0) -> "Cnn":
        """Make the untrained encoder with the vocabulary of a pool folder."""
        return Cnn.base(config, Vocabulary.read(fetched_tokens(pool)), device, seed)

    @staticmethod
    def check_prompts(config: EncoderConfig) -> None:
        """Raise BadOption for options of prompts, which this encoder does not have."""
        if config.prompt_left or config.prompt_right:
            raise BadOption(f"encoder {config.encoder} has no prompts; leave `prompt_left` and `prompt_right` out")

    @staticmethod
    def with_left_prompt(config: EncoderConfig) -> EncoderConfig:
        """Return the options as they are, as this encoder has no prompts."""
        return config

    @staticmethod
    def check_frozen_layers(config: EncoderConfig, layers: int) -> None:
        """Raise BadOption for frozen layers, which this encoder does not have."""
        raise BadOption(
            f"{option('training.frozen_layers', layers)}: encoder {config.encoder} has no layers; leave it out"
        )

    @staticmethod
    def saved(folder: str, config: EncoderConfig, device: str = "cpu") -> "Cnn":
        """Load an encoder that `save` wrote, from a path or a URI; BadFile if it cannot be loaded."""
        local = fetched(storage_path(folder))
        vocabulary = Vocabulary.read(local)
        try:
            weights = load_file(local / WEIGHTS)
            network = Network(vocabulary.size, len(weights["convolution.bias"]))
            network.load_state_dict(weights)
        except (SafetensorError, OSError, KeyError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise BadFile(f"the model in {local} cannot be loaded ({reason}); restore the folder") from error
        return Cnn(network, vocabulary, config, device)

    @property
    def description(self) -> str:
        """Return a phrase for people about how vectors are made."""
        return f"max pooling over {self.network.get_parameter('convolution.bias').numel()} filters, no prompt"

    @property
    def sided(self) -> bool:
        """Whether left and right texts have different prompts: this encoder has none."""
        return False

    def use_left_prompt(self) -> None:
        """Do nothing, as this encoder has no prompts."""

    @property
    def unknown(self) -> int | None:
        """Return None: words that were not trained are hashed into bins, so that they differ."""
        return None

    @property
    def special(self) -> frozenset[int]:
        """Return no token ids: every one stands for a word."""
        return frozenset()

    def freeze(self, layers: FrozenLayers) -> int:
        """Raise BadOption for a number: this encoder has no transformer layers, of which half is none."""
        if layers != "half":
            self.check_frozen_layers(self.config, layers)
        return 0

    def tokenise(self, texts: Sequence[str], side: Side = "left") -> Tokens:
        """Return the word numbers of texts, at most max_length each; the same on both sides."""
        return Tokens.of([self.vocabulary.ids(text, self.config.max_length) for text in texts])

    def forward(self, tokens: Tokens, rows: Rows) -> torch.Tensor:
        """(r,) rows -> vectors (r, 300), not of unit length; with gradients if they are enabled."""
        ids, mask = tokens.padded(rows, 0)
        with mixed(self.config.arithmetic, self.device):
            return self.network(ids.to(self.device), mask.to(self.device)).float()

    @torch.inference_mode()
    def embed(self, tokens: Tokens, rows: Rows) -> Vectors:
        """Encode (r,) rows as one batch: unit vectors (r, 300)."""
        return torch.nn.functional.normalize(self.forward(tokens, rows)).cpu().numpy()

    def digest(self) -> str:
        """Return the digest of everything that decides a vector before rounding: weights, vocabulary, options."""
        return digest_of([self.config.digest_text, self.vocabulary.digest], self.network)

    def save(self, folder: Path) -> None:
        """Write weights and vocabulary into an existing, empty folder."""
        weights = {name: weight.detach().cpu().contiguous() for name, weight in self.network.state_dict().items()}
        save_file(weights, folder / WEIGHTS)
        self.vocabulary.write(folder)


def filters_of(name: str) -> int:
    """Return the number of filters in an encoder's name (the paper does not give its own), or raise BadOption."""
    match = CNN.fullmatch(name)
    assert match is not None, name
    filters = int(match[1] or FILTERS)
    if not 1 <= filters <= MOST_FILTERS:
        raise BadOption(
            f"{option('encoder', name)} asks for {filters:,} filters; give 1 to {MOST_FILTERS:,}, such as cnn-300"
        )
    return filters
