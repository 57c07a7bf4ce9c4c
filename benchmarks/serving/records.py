"""Milliseconds of the answer to one record by a matcher: python -m benchmarks.serving.records --model RUN

The known records are drawn from the run's texts of their side: the words of each cell are those of one record, a part
of them exchanged for words of another. Their vectors are drawn from those of the two records, because encoding so many
takes long; the records that are asked about are left texts of the run, and are encoded. In one process, without Ray
Serve and HTTP; with --http the same records are then asked of jobs.serve by one client, too.
"""

import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from al_ray.apps.matching.model import open_model
from al_ray.apps.serving.catalogue import Catalogue
from al_ray.apps.serving.records.known_records import Cells, KnownRecords, RecordSide, text_of
from al_ray.apps.serving.records.left_records import reference_of
from al_ray.cli._shared.entry import parse_options
from al_ray.core.rng import generator
from al_ray.core.text_table import format_columns
from al_ray.core.vectors import Vectors
from al_ray.encoders.encoder import TextEncoder, embed_rows, load
from al_ray.encoders.prompts import Side
from al_ray.matcher.model_file import read_model
from al_ray.search.faiss_index import set_threads
from al_ray.storage.uri import storage_path
from benchmarks.serving.record_store import RecordStore
from benchmarks.timing import timed

EXCHANGED = 0.3  # Of the words of a cell.
WARM = 10  # Requests that are not counted.


@dataclass(frozen=True, kw_only=True)
class RecordTimings:
    """Ask for the matches of records one by one, and time each."""

    model: Path
    """A run with a matcher between two tables."""
    texts: int = 100_000
    """Known right records."""
    left: int = 20_000
    """Known left records: with few, a record is near to many right ones, as these have few others."""
    requests: int = 200
    """Records that are asked about."""
    threads: int = 2
    """Threads of torch, Faiss and the comparisons."""
    changes: int = 0
    """Known records that are changed, removed or added one by one, each timed without encoding; then the same records
    are asked about again."""
    http: bool = False
    """Start jobs.serve with the same known records, and ask it over HTTP."""
    seconds: float = 30.0
    """Seconds of the requests over HTTP."""


def main() -> None:
    """Print the times as a table."""
    options = parse_options(RecordTimings, "python -m benchmarks.serving.records", "Milliseconds of one record.")
    torch.set_num_threads(options.threads)
    set_threads(options.threads)
    model = open_model(storage_path(str(options.model)))
    assert model.model.matcher is not None
    task, reference = model.task, reference_of(model)
    left, right = (
        [tuple(cells) for cells in corpus.cells(np.arange(len(corpus)))] for corpus in (task.left, task.right)
    )
    encoder = load(model.model, model.config.encoding, model.path, "cpu")
    with tempfile.TemporaryDirectory() as folder:
        store, side = RecordStore(Path(folder), model, encoder), "left" if task.symmetric else "right"
        others = None if task.symmetric else _drawn(left, _encode(encoder, left, "left"), options.left)
        known = _drawn(right, _encode(encoder, right, side), options.texts)
        if options.http:
            others = None if others is None else store.with_vectors(others, "left")
            known = store.with_vectors(known, side)
        matcher = read_model(storage_path(model.model.matcher.path))
        records = KnownRecords(reference, matcher, known, others, model.config.candidates, options.threads)
        took, best = timed(records.find_best)
        records.use(best)
        print(f"{options.texts:,} known records, {options.left:,} left ones; their nearest were found in {took:.0f} s")
        if options.http:
            store.write(records, known, others)
        _ask(options, encoder, left, records)
        if options.changes:
            _change(options.changes, records, known)
            _ask(options, encoder, left, records)
        if options.http:
            names = tuple(one.name for one in reference.sides.left)
            print(store.ask(left, names, options.threads, options.seconds))


def _ask(options: RecordTimings, encoder: TextEncoder, left: Sequence[Cells], records: KnownRecords) -> None:
    """Print the times of records one by one, in this process."""
    times, found = dict[str, list[float]](), list[int]()
    for number in range(WARM + options.requests):
        asked, began, busy = left[number % len(left)], time.perf_counter(), time.process_time()
        [vector] = _encode(encoder, [asked], "left")
        encoded, middle = time.perf_counter(), time.process_time()
        found.append(len(records.candidates(asked, vector).rows))
        ended = time.perf_counter()
        if number >= WARM:
            parts = ("encoding", encoded - began), ("candidates, comparisons and p", ended - encoded)
            now = time.process_time()
            cpu = ("all, CPU", now - busy), ("candidates, comparisons and p, CPU", now - middle)
            for name, value in (*parts, ("all", ended - began), *cpu):
                times.setdefault(name, []).append(1000 * value)
    _print(times, "ms of one record")
    print(f"candidates of a record: median {statistics.median(found):,.0f}")


def _change(count: int, records: KnownRecords, known: RecordSide) -> None:
    """Print the times of changes of one record: half are of other values, a quarter goes, and a quarter is new."""
    rng, times = generator(0, "serve-changes"), dict[str, list[float]]()
    catalogue, ids = Catalogue(known.vectors.copy()), list(known.ids)
    catalogue.add_first(ids, [None] * len(ids))
    for number in range(count):
        kind = ("changed", "removed", "changed", "new")[number % 4]
        source, one = rng.integers(len(known.cells), size=2).tolist()
        name = f"new-{number}" if kind == "new" else ids[one]
        put = [] if kind == "removed" else [name]
        began, busy = time.perf_counter(), time.process_time()
        vectors = known.vectors[source : source + len(put)]
        gone = catalogue.remove([name])
        rows = catalogue.put(put, vectors)
        fresh = RecordSide([known.cells[source]] * len(put), vectors, put)
        records.change(gone, rows, fresh, catalogue.vectors, catalogue.present)
        times.setdefault(kind, []).append(1000 * (time.perf_counter() - began))
        times.setdefault("all, CPU", []).append(1000 * (time.process_time() - busy))
    _print(times, f"ms of one change, of {count:,}")


def _print(times: dict[str, list[float]], title: str) -> None:
    rows: list[tuple[str, ...]] = [(title, "p50", "p95", "least")]
    for name, values in times.items():
        p95 = statistics.quantiles(values, n=20)[-1]
        rows.append((name, f"{statistics.median(values):.1f}", f"{p95:.1f}", f"{min(values):.1f}"))
    print(format_columns(rows))


def _encode(encoder: TextEncoder, records: Sequence[Cells], side: Side) -> Vectors:
    tokens = encoder.tokenise([text_of(cells) for cells in records], side)
    return embed_rows(encoder, tokens, np.arange(len(tokens)))


def _drawn(records: Sequence[Cells], vectors: Vectors, count: int) -> RecordSide:
    """Return `count` records between two of these each, and vectors between theirs."""
    rng = generator(0, "serve-records")
    pairs = rng.integers(len(records), size=(count, 2))
    cells = [_between(records[one], records[other], rng) for one, other in pairs.tolist()]
    mixed = vectors[pairs[:, 0]] + 0.5 * vectors[pairs[:, 1]] + rng.normal(0, 0.01, (count, vectors.shape[1]))
    unit = (mixed / np.linalg.norm(mixed, axis=1, keepdims=True)).astype(np.float32)
    return RecordSide(cells, unit, tuple(map(str, range(count))))


def _between(one: Cells, other: Cells, rng: np.random.Generator) -> Cells:
    cells = list[str]()
    for cell, more in zip(one, other, strict=True):
        words, others = cell.split(), more.split()
        for place in np.flatnonzero(rng.random(len(words)) < EXCHANGED).tolist():
            if others:
                words[place] = others[place % len(others)]
        cells.append(" ".join(words))
    return tuple(cells)


if __name__ == "__main__":
    main()
