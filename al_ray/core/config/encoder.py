"""Options of the encoder, which maps a text to a vector, and the families of encoders.

To add a family, write its class in al_ray/encoders, and add an entry to FAMILIES here and one to LOADERS in
al_ray/encoders/encoder.py.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from al_ray.core.config.bounds import Between, check_bounds

Precision = Literal["fp32", "fp16"]


Arithmetic = Literal["auto", "fp32", "bf16"]


CNN = re.compile(r"cnn(?:-(\d+))?")
GIVEN = re.compile(r"vectors-(\d{1,9})")
MOST_NUMBERS = 100_000
MaxLength = Annotated[int, Between(3, 1_000_000)]
EncoderBatch = Annotated[int, Between(1, 1_000_000)]
Threads = Annotated[int, Between(1, 1_024)]
MostUnknown = Annotated[float, Between(0, 1)]
# Share of unknown tokens: scripts that all-MiniLM-L6-v2 knows by letters have up to 0.27 (docs/languages.md).
MOST_UNKNOWN = 0.3


@dataclass(frozen=True)
class EncoderOptions:
    """The model that encodes texts, and how it computes."""

    HEADING: ClassVar[str] = "encoder"

    encoder: str = "all-MiniLM-L6-v2"
    """Encoder to start from: a name on the Hugging Face hub, a local folder, 'all-MiniLM-L6-v2' (from the package of
    extra `demo`), 'cnn' (random weights over the words of the train split; 'cnn-600' for 600 filters instead of 300),
    'vectors-384' (the vectors of 384 numbers that prepare stored with the texts), or 'random-bert' (for tests)."""
    encoder_layers: Annotated[int | None, Between(1, 1_000)] = None
    """Number of transformer layers to keep, counted from the first. Default: all."""
    max_length: MaxLength = 128
    """Maximum number of tokens per text, special tokens included (paper, A.1); longer texts are truncated."""
    encoder_batch: EncoderBatch = 64
    """Texts encoded at a time. Affects the last bits of vectors, so it is fixed for a run."""
    threads: Threads = 2
    """CPU threads of an encoder. Affects the last bits of vectors, so it is fixed for a run, whatever the machine."""
    arithmetic: Arithmetic = "auto"
    """Precision of encoding and training: fp32; bf16 (mixed precision: weights, sums and losses stay fp32), faster on
    CPUs with AVX512-BF16 or AMX; or auto: bf16 on a GPU, fp32 on a CPU. Affects the last bits of vectors."""

    def __post_init__(self) -> None:
        """Raise BadOption for a value out of bounds."""
        check_bounds(self)


@dataclass(frozen=True)
class EncoderConfig(EncoderOptions):
    """The model that encodes texts, how it computes, and how vectors are stored."""

    HEADING: ClassVar[str] = "encoder"

    vectors: Precision = "fp32"
    """Precision of stored vectors. fp16 halves their memory: each vector is rounded once, and the cosines of search and
    evaluation are those of rounded vectors, up to 0.001 from those of fp32. Training does not round."""
    prompt_left: str | None = None
    """Text put before every left text, and before all texts of a symmetric task: the name of a prompt of the encoder's
    folder, such as query; a text, such as 'query: '; or '' for none. Default: the folder's prompt query, or its default
    prompt; without any, none."""
    prompt_right: str | None = None
    """The same for right texts. Default: the folder's prompt document, passage or corpus, or its default prompt."""
    most_unknown: MostUnknown = MOST_UNKNOWN
    """Refuse texts of which the encoder does not know more than this share of the tokens, as those of a script that its
    vocabulary lacks; 1 to refuse none (docs/languages.md)."""

    @property
    def digest_text(self) -> str:
        """The text of these options in a model's digest. It must never change: digests name files on disk.

        `vectors` is left out, for weights do not depend on it, and so is `auto`, the only arithmetic of early versions.
        The digest has the texts of prompts and not their names.
        """
        text = (
            f"EncoderConfig(name={self.encoder!r}, layers={self.encoder_layers!r}, max_length={self.max_length!r}, "
            f"batch={self.encoder_batch!r}, threads={self.threads!r})"
        )
        return text if self.arithmetic == "auto" else f"{text} {self.arithmetic}"

    def digested(self) -> dict[str, Any]:
        """The options that decide trained weights, as their digest takes them. Names and order must never change."""
        content: dict[str, Any] = {
            "name": self.encoder,
            "layers": self.encoder_layers,
            "max_length": self.max_length,
            "batch": self.encoder_batch,
            "threads": self.threads,
            "vectors": self.vectors,
        }
        if self.arithmetic != "auto":
            content["arithmetic"] = self.arithmetic
        return {**content, **self.prompts}

    @property
    def prompts(self) -> dict[str, Any]:
        """The options of prompts as digests take them: none if neither was given."""
        given = [self.prompt_left, self.prompt_right]
        return {} if given == [None, None] else {"prompts": given}


def is_cnn(name: str) -> bool:
    """Return whether --encoder names the encoder `cnn`, or `cnn-600` for another number of filters."""
    return CNN.fullmatch(name) is not None


@dataclass(frozen=True)
class EncoderFamily:
    """A family of encoders, by what other modules depend on.

    is_named: whether a value of --encoder names one of the family. pretrained: it can compare texts before any
    training; the weights of others are random. learns_words: its vocabulary is the words of the task, so that it
    encodes no texts of others. transformer: it has the layers of a transformer, which plans and cross-encoders need.
    given: its vectors are stored with the texts, so that it cannot be trained.
    """

    is_named: Callable[[str], bool]
    pretrained: bool = False
    learns_words: bool = False
    transformer: bool = False
    given: bool = False


FAMILIES: Mapping[str, EncoderFamily] = {
    "cnn": EncoderFamily(is_cnn, learns_words=True),
    "vectors": EncoderFamily(lambda name: GIVEN.fullmatch(name) is not None, pretrained=True, given=True),
    # Of every name that is of no other family.
    "transformer": EncoderFamily(lambda name: False, pretrained=True, transformer=True),
}


def family_name(encoder: str) -> str:
    """Return the name of the family that a value of --encoder is of."""
    return next((name for name, family in FAMILIES.items() if family.is_named(encoder)), "transformer")


def family_of(encoder: str) -> EncoderFamily:
    """Return the family that a value of --encoder is of."""
    return FAMILIES[family_name(encoder)]
