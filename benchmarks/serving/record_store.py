"""A store of drawn records with their vectors, and jobs.serve on it, for the times of records over HTTP."""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from al_ray.apps.matching.model import MatchingModel
from al_ray.apps.serving.records.known_records import Cells, KnownRecords, RecordSide, text_of
from al_ray.apps.serving.records.left_records import reference_of
from al_ray.apps.serving.records.record_text import encoded
from al_ray.apps.serving.records.stored_scores import StoredScores
from al_ray.apps.serving.store import Source, make_store
from al_ray.apps.serving.text_lines import KnownText, Texts, record_lines, texts_digest
from al_ray.encoders.encoder import TextEncoder
from al_ray.encoders.prompts import Side
from al_ray.search.known_vectors import KnownVectors
from benchmarks.serving.figures import summary
from benchmarks.serving.load_client import Load
from benchmarks.serving.services import one_service, run_clients

WARM_SECONDS = 3.0


class RecordStore:
    """A store in a folder, for a model with a matcher of several fields."""

    def __init__(self, folder: Path, model: MatchingModel, encoder: TextEncoder) -> None:
        """Write nothing yet."""
        self.table, self.store, self.model, self.encoder = folder / "known.jsonl", folder / "store", model, encoder

    def with_vectors(self, records: RecordSide, side: Side) -> RecordSide:
        """Write the vectors of records as a replica does when it has encoded them; return them as it reads them.

        Of records of equal token ids it reads one vector.
        """
        tokens = self.encoder.tokenise([text_of(cells) for cells in records.cells], side)
        folder = self.store / "vectors" / f"{self.model.model.weights[:16]}-{side}"
        known = KnownVectors(folder, records.vectors.dtype)
        known.add("drawn", tokens, records.vectors)
        known.refresh()
        there, vectors = known.take(tokens)
        assert there.all()
        return replace(records, vectors=vectors)

    def write(self, records: KnownRecords, known: RecordSide, others: RecordSide | None) -> None:
        """Write the store: the known records with their highest scores, and the left ones."""
        sides = reference_of(self.model).sides
        fields = tuple(one.name for one in sides.right)
        texts = _texts(known, fields)
        left = None if others is None else _texts(others, tuple(one.name for one in sides.left))
        self.table.write_bytes(b"".join(record_lines(texts, fields)))
        source = Source(str(self.table), texts_digest(texts), records.symmetric, matcher=True)
        # A store is made in an empty folder.
        vectors = (self.store / "vectors").rename(self.store.parent / "vectors")
        make_store(self.store, source, texts, left)
        vectors.rename(self.store / "vectors")
        StoredScores(self.store / "neighbours", records, known, others).write()

    def ask(self, asked: Sequence[Cells], names: Sequence[str], threads: int, seconds: float) -> str:
        """Start jobs.serve, send records one by one for some seconds, and return the times in words."""
        fields = [one.name for one in reference_of(self.model).sides.right]
        options: dict[str, Any] = {
            "model": str(self.model.path.resolve()), "known": str(self.table), "store": str(self.store),
            "format": "jsonl", "text_columns": ",".join(fields), "id_column": "id", "cpus_per_replica": threads,
        }  # fmt: skip
        options |= {} if self.model.round is None else {"round": self.model.round}
        bodies = [json.dumps({"records": [dict(zip(names, cells, strict=True))]}) for cells in asked]
        with one_service(options) as address:
            loaded = run_clients(Load(f"{address}/match", bodies, 1, WARM_SECONDS, seconds))
        found = summary(loaded.milliseconds, loaded.seconds)
        return (
            f"over HTTP, one client: p50 {found['p50']:.1f} ms, p95 {found['p95']:.1f} ms, "
            f"{len(loaded.milliseconds):,} requests in {seconds:g} s, codes {loaded.codes}, "
            f"load average {os.getloadavg()[0]:.1f}"
        )


def _texts(side: RecordSide, fields: Sequence[str]) -> Texts:
    return {one: KnownText(encoded(fields, cells)) for one, cells in zip(side.ids, side.cells, strict=True)}
