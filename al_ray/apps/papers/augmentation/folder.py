"""Read and write the folder of an augmentation (paper 003), in which a rerun of the same command resumes.

config.json            all options, and the digest of the gold pairs
unlabelled.parquet     pairs of the sampler, before they are labelled: as silver.parquet, with NaN scores
cross/model/           the cross-encoder; cross/scores/ the scores so far (apps/cross_encoder/folder.py)
silver.parquet         left, right, score, source, similarity, rank of each silver pair
gold/model/            the student trained on gold; augmented/model/ on both; same-steps/model/: see --same-steps
results.json           Spearman's rho of each model by split
"""

from dataclasses import asdict, fields
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from al_ray.apps.cross_encoder.folder import CrossEncoderFolder, check_same_options
from al_ray.apps.papers.augmentation.options import AugmentConfig, Gold, Line, Silver
from al_ray.core.config.serialization import as_dict
from al_ray.core.errors import WrongFolder
from al_ray.storage.files import read_json, read_parquet, write_json, write_parquet, write_root
from al_ray.storage.uri import StoragePath
from al_ray.training.saved_model import bytes_digest

SILVER = pa.schema(
    [
        *((side, pa.string()) for side in ("left", "right")),
        *(("score", pa.float64()), ("source", pa.string()), ("similarity", pa.float64()), ("rank", pa.int64())),
    ]
)
CONFIG = "config.json"


class AugmentFolder:
    """Reads and writes the folder of an augmentation."""

    def __init__(self, path: StoragePath) -> None:
        """path: the folder, which need not exist."""
        self.path = path
        self.cross = CrossEncoderFolder(path / "cross")

    def bind(self, config: AugmentConfig, gold: Gold) -> None:
        """Write config.json; WrongFolder if the folder has other options or gold pairs."""
        path, content = self.path / CONFIG, {**as_dict(config), "gold_digest": digest_of(gold)}
        if not path.exists():
            write_root(path, content)
            return
        stored = read_json(path)
        if "gold_digest" not in stored:
            raise WrongFolder(f"{self.path} is not the folder of an augmentation; give another `out`")
        # Options that are newer than the folder have their defaults there.
        stored = {**{option.name: option.default for option in fields(AugmentConfig)}, **stored}
        check_same_options(self.path, stored, content)

    def student(self, name: str) -> StoragePath:
        """Return the path of a student's model, resolved because an actor may run in another working directory."""
        return (self.path / name / "model").resolve()

    def write_results(self, gold: Gold, lines: list[Line]) -> None:
        """Write the results of all models."""
        content: dict[str, Any] = {"gold": gold.name, "gold_pairs": len(gold.train)}
        content["measured_pairs"] = {split: len(scored) for split, scored in gold.measured.items()}
        write_json(self.path / "results.json", {**content, "models": [asdict(line) for line in lines]})

    def read(self, name: Literal["unlabelled", "silver"]) -> Silver | None:
        """Read the pairs of the sampler, or the labelled silver pairs; None if they were not written."""
        path = self.path / f"{name}.parquet"
        if not path.exists():
            return None
        table = read_parquet(path, SILVER)
        texts = tuple(zip(table["left"].to_pylist(), table["right"].to_pylist(), strict=True))
        sources = np.array(table["source"].to_pylist(), dtype=np.str_)
        return Silver(texts, sources, *(table[column].to_numpy() for column in ("similarity", "rank", "score")))

    def write(self, name: Literal["unlabelled", "silver"], silver: Silver) -> None:
        """Write the pairs of the sampler, or the labelled silver pairs."""
        left, right = ([pair[side] for pair in silver.texts] for side in (0, 1))
        columns = [left, right, silver.scores, silver.sources.tolist(), silver.similarities, silver.ranks]
        write_parquet(self.path / f"{name}.parquet", pa.table(columns, schema=SILVER))


def digest_of(gold: Gold) -> str:
    """Return the digest of the gold pairs of all splits and of the pool."""
    parts = gold.train, *(gold.measured[split] for split in sorted(gold.measured))
    arrays = [array for part in parts for array in (part.pairs, part.scores)]
    texts = "\0".join(gold.pool.texts).encode("utf-8", "surrogatepass")
    return bytes_digest(texts, *arrays, gold.pool.queries, gold.pool.candidates)
