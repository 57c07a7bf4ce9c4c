"""The folder of one augmentation (paper 003): its one writer and its readers. The same command goes on in it.

config.json            every option, and the digest of the gold pairs
unlabelled.parquet     the sampler's pairs, before the cross-encoder sees them: as silver.parquet, its score NaN
cross/model/           the cross-encoder; cross/scores/ what it said so far (apps/cross_encoder/folder.py)
silver.parquet         left, right, score, source, similarity, rank: the pairs kept, each with where it came from
gold/model/            the student of gold alone; augmented/model/ of both; same-steps/model/: see --same-steps
results.json           Spearman's rho of each model by split
"""

import hashlib
from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa

from al_ray.apps.augmentation.options import AugmentConfig, Gold, Line, Silver
from al_ray.apps.cross_encoder.folder import CrossEncoderFolder
from al_ray.core.config.serialization import as_dict
from al_ray.core.errors import WrongFolder
from al_ray.storage.files import read_json, read_parquet, write_json, write_parquet
from al_ray.storage.uri import StoragePath

SILVER = pa.schema(
    [
        *((side, pa.string()) for side in ("left", "right")),
        *(("score", pa.float64()), ("source", pa.string()), ("similarity", pa.float64()), ("rank", pa.int64())),
    ]
)
CONFIG = "config.json"


class AugmentFolder:
    """Where an augmentation is kept."""

    def __init__(self, path: StoragePath) -> None:
        """A folder, new or begun."""
        self.path = path
        self.cross = CrossEncoderFolder(path / "cross")

    def bind(self, config: AugmentConfig, gold: Gold) -> None:
        """Write config.json, or hold these options and pairs against those that stand there: WrongFolder."""
        path, wanted = self.path / CONFIG, {**as_dict(config), "gold_digest": digest_of(gold)}
        if not path.exists():
            write_json(path, wanted)
            return
        stands = read_json(path)
        if "gold_digest" not in stands:
            raise WrongFolder(f"{self.path} holds something else than an augmentation; give another --out")
        # An option that came after the folder was made has its default there.
        late = {one.name: one.default for one in fields(AugmentConfig) if one.name not in stands}
        stands = {**late, **stands}
        other = [
            f"{name}: {stands.get(name)!r} there, {wanted.get(name)!r} here"
            for name in sorted({*stands, *wanted})
            if stands.get(name) != wanted.get(name)
        ]
        if other:
            raise WrongFolder(f"{self.path} was made otherwise ({'; '.join(other)}); give another --out")

    def student(self, name: str) -> StoragePath:
        """Where a student's model is; resolved, for an actor may work in another folder."""
        return (self.path / name / "model").resolve()

    def unlabelled(self) -> Silver | None:
        """The sampler's pairs, if they are drawn."""
        return self._read("unlabelled")

    def silver(self) -> Silver | None:
        """The silver pairs, if all are labelled."""
        return self._read("silver")

    def keep_unlabelled(self, silver: Silver) -> None:
        """Keep what the sampler gave."""
        self._write("unlabelled", silver)

    def keep_silver(self, silver: Silver) -> None:
        """Keep what the cross-encoder labelled."""
        self._write("silver", silver)

    def keep_results(self, gold: Gold, lines: list[Line]) -> None:
        """Keep the figures."""
        content: dict[str, Any] = {"gold": gold.name, "gold_pairs": len(gold.train)}
        content["measured_pairs"] = {split: len(scored) for split, scored in gold.measured.items()}
        write_json(self.path / "results.json", {**content, "models": [line.as_dict() for line in lines]})

    def _read(self, name: str) -> Silver | None:
        path = self.path / f"{name}.parquet"
        if not path.exists():
            return None
        table = read_parquet(path, SILVER)
        texts = tuple(zip(table["left"].to_pylist(), table["right"].to_pylist(), strict=True))
        sources = np.array(table["source"].to_pylist(), dtype=np.str_)
        return Silver(texts, sources, *(table[column].to_numpy() for column in ("similarity", "rank", "score")))

    def _write(self, name: str, silver: Silver) -> None:
        left, right = ([pair[side] for pair in silver.texts] for side in (0, 1))
        columns = [left, right, silver.scores, silver.sources.tolist(), silver.similarities, silver.ranks]
        write_parquet(self.path / f"{name}.parquet", pa.table(columns, schema=SILVER))


def digest_of(gold: Gold) -> str:
    """Of the pairs that are learnt from and measured by, and of the pool."""
    content = hashlib.sha256("\0".join(gold.pool.texts).encode("utf-8", "surrogatepass"))
    for part in (gold.train, *(gold.measured[split] for split in sorted(gold.measured))):
        content.update(np.ascontiguousarray(part.pairs).data)
        content.update(np.ascontiguousarray(part.scores).data)
    for rows in (gold.pool.queries, gold.pool.candidates):
        content.update(np.ascontiguousarray(rows).data)
    return content.hexdigest()
