"""Options of mining the negatives of a task."""

from dataclasses import dataclass
from typing import Annotated

from al_ray.apps.papers.mining.miners import MINERS
from al_ray.apps.papers.mining.negatives import NegativesConfig
from al_ray.core.config.bounds import Between, Seed, check_bounds
from al_ray.core.config.encoder import EncoderConfig, EncoderOptions
from al_ray.core.config.serialization import part
from al_ray.core.errors import BadOption
from al_ray.core.naming import option
from al_ray.core.task import SPLITS
from al_ray.storage.uri import StoragePath


@dataclass(frozen=True, kw_only=True)
class MiningConfig(NegativesConfig, EncoderOptions):
    """Mine negatives and report the share of false negatives."""

    task: str
    """A task folder made by jobs.prepare."""
    out: StoragePath | None = None
    """Folder for a table of labels of each miner and for the results. Default: nothing is written."""
    miners: tuple[str, ...] = MINERS
    """Miners: random, bm25, tfidf, neighbours (by --encoder, untrained), model (hardest of a sample, by the model of
    --run)."""
    split: str = "train"
    """Split that is mined."""
    known: Annotated[float, Between(1e-9, 1)] = 0.5
    """Share of the positives, drawn at random, that are given to the miners."""
    queries: Annotated[int | None, Between(1, 10**9)] = None
    """Number of texts, drawn at random, for which negatives are mined. Default: all with a known positive."""
    run: StoragePath | None = None
    """Run whose last model the miner `model` uses, without a matcher: it ranks by the cosine of the trained encoder.
    Default: --encoder, untrained."""
    sample: Annotated[int, Between(1, 10**9)] = 1000
    """Candidates of each text that `model` scores."""
    encoder: str = EncoderOptions.encoder
    """Encoder of `neighbours`, as in the command run; not cnn, which is not pre-trained."""
    seed: Seed = 0
    """Random seed."""

    def __post_init__(self) -> None:
        """Raise BadOption for a value out of bounds, and for miners and splits that do not exist."""
        super().__post_init__()
        check_bounds(self)
        wrong = [name for name in self.miners if name not in MINERS]
        if wrong or not self.miners or len(set(self.miners)) < len(self.miners):
            raise BadOption(f"`miners` is {' '.join(self.miners)!r}; give some of {', '.join(MINERS)}, each once")
        if self.random_share and not self.drawn:
            raise BadOption(
                f"{option('random_share', self.random_share)} of {option('per_text', self.per_text)} is less than half "
                "a negative, so none would be random; give more of either"
            )
        if "model" not in self.miners and (self.run is not None or self.sample != MiningConfig.sample):
            raise BadOption("`run` and `sample` are for the miner model; add it to `miners`, or leave them out")
        if self.split not in SPLITS:
            raise BadOption(f"`split` is {self.split!r}; give {', '.join(SPLITS)}")

    @property
    def encoding(self) -> EncoderConfig:
        """Return the options of the encoder."""
        return EncoderConfig(**vars(part(self, EncoderOptions)))

    @property
    def negatives(self) -> NegativesConfig:
        """Return the options of the negatives."""
        return part(self, NegativesConfig)
