"""Load test of jobs.serve on loopback, beside a plain service: FastAPI, sentence-transformers and Faiss."""

import csv
import json
import logging
import os
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from al_ray.apps.matching.model import MatchingModel, open_model
from al_ray.apps.serving.known import read_known
from al_ray.apps.serving.options import ServeOptions
from al_ray.core.config.bounds import Between, check_bounds
from al_ray.core.errors import AlRayError, BadOption
from al_ray.core.text_table import format_columns
from al_ray.datasets.synthetic import LEAST, synthetic_task
from al_ray.datasets.tables.format_options import ColumnNames
from benchmarks.row_file import append_rows, read_rows
from benchmarks.serving.figures import PERCENTS, WHOLE, shares, summary
from benchmarks.serving.load_client import Load
from benchmarks.serving.services import both_services, differences, run_clients, run_module

logger = logging.getLogger(__name__)
QUERIES, SHARE = 2_000, 5
"""Texts that are asked for, which are not among the known ones; of a table one in SHARE at most."""
SAMPLE = 100
"""Requests whose answers by both services are compared, and whose parts are timed."""
OURS, PLAIN = "jobs.serve", "plain"
REST = "Ray Serve, HTTP, and the wait for a batch"
FIGURES = ("requests_per_second", *(f"p{percent}" for percent in PERCENTS), "client_cpu")
COLUMNS = ("clients", "repeat", "service", *FIGURES, "codes", "load_average")


@dataclass(frozen=True)
class Serve:
    """Load test of jobs.serve on loopback, beside FastAPI with sentence-transformers and Faiss in the same run."""

    model: Path
    """Run folder, or a model folder, without --scoring.neighbourhood and prompts."""
    texts: Annotated[int, Between(LEAST, 10_000_000)] = 100_000
    """Known texts, synthetic. Both services compare all of them."""
    known: Path | None = None
    """Table of texts instead of synthetic ones. Its last 2,000, or the last fifth of fewer than 10,000, are asked for,
    and the others are known."""
    text_columns: ColumnNames | None = None
    """Text columns of --known. Default: those of the task on which the model was trained."""
    id_column: str | None = None
    """Column of the ids of --known. Default: that of the task on which the model was trained."""
    clients: tuple[int, ...] = (1, 8, 64)
    """Clients at a time. Each sends its next request when the last was answered."""
    seconds: Annotated[float, Between(0.1, 3600)] = 20.0
    """Seconds of each measurement."""
    warm_seconds: Annotated[float, Between(0, 600)] = 3.0
    """Seconds of the same load before each measurement."""
    texts_per_request: Annotated[int, Between(1, 1_000)] = 1
    repeats: Annotated[int, Between(1, 1_000)] = 2
    """Measurements of each, the two services in turn; medians are reported."""
    threads: Annotated[int, Between(1, 1_000)] = 1
    """Threads of each service for the model and the search."""
    index: bool = False
    """Let jobs.serve search by its index, the plain service still exactly; then their answers may differ, and the share
    that is equal is printed."""
    replicas: Annotated[int, Between(1, 1_000)] = 1
    """Replicas of jobs.serve, each with so many threads."""
    out: Path | None = None
    """CSV file of all measurements; it is added to."""

    def results(self) -> tuple[list[dict[str, Any]], dict[str, float]]:
        """Return the measurements, and the seconds of a request by one client and of its parts.

        AlRayError if the two services answer differently, though both search exactly.
        """
        check_bounds(self)
        if not self.clients or min(self.clients) < 1:
            raise BadOption("--clients: give numbers of 1 at least")
        read_rows(self.out, COLUMNS)
        model = open_model(self.model)
        known, queries = self.draw_texts(model)
        step = self.texts_per_request
        bodies = [json.dumps({"texts": queries[at : at + step]}) for at in range(0, len(queries) - step + 1, step)]
        with tempfile.TemporaryDirectory() as folder:
            options = self._options(Path(folder), known)
            with both_services(options, str(model.model.path)) as (ours, plain):
                self._compare(ours, plain, bodies[:SAMPLE])
                rows = self._measure({OURS: ours, PLAIN: plain}, bodies)
                content = {"options": options, "address": ours.removeprefix("http://"), "bodies": bodies[:SAMPLE]}
                return rows, run_module("benchmarks.serving.parts", content, self.threads)

    def draw_texts(self, model: MatchingModel) -> tuple[list[str], list[str]]:
        """Return the known texts, and those that are asked for."""
        if self.known is None:
            texts, queries = list(synthetic_task(self.texts + QUERIES, 0).left.texts), QUERIES
        else:
            options = ServeOptions(
                model=self.model, known=self.known, store=Path("-"), text_columns=self.text_columns,
                id_column=self.id_column,
            )  # fmt: skip
            texts = [known.text for known in read_known(options, model)[1].values()]
            queries = min(QUERIES, len(texts) // SHARE)
        if queries < self.texts_per_request:
            raise BadOption(
                f"--texts-per-request is {self.texts_per_request:,}, and there are {queries:,} texts to ask for; give "
                "fewer, or more texts"
            )
        return texts[:-queries], texts[-queries:]

    def _compare(self, ours: str, plain: str, bodies: Sequence[str]) -> None:
        differ = differences(ours, plain, bodies)
        if self.index:
            texts = len(bodies) * self.texts_per_request
            logger.info("the best match is that of exact search for %d of %d texts", texts - len(differ), texts)
        elif differ:
            raise AlRayError(f"{differ[0]}; figures of them would not compare")

    def _options(self, folder: Path, known: Sequence[str]) -> dict[str, Any]:
        """Write the known texts as a table, and return the options of jobs.serve by name."""
        with (folder / "known.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(("key", "words"))
            writer.writerows((f"t-{number}", text) for number, text in enumerate(known))
        return {
            "model": str(self.model.resolve()), "known": str(folder / "known.csv"), "store": str(folder / "store"),
            "text_columns": "words", "id_column": "key", "at_score": -2.0,
            "exact_texts": 0 if self.index else len(known),
            "cpus_per_replica": self.threads, "replicas": self.replicas, "most_waiting": max(200, *self.clients),
        }  # fmt: skip

    def _measure(self, services: dict[str, str], bodies: list[str]) -> list[dict[str, Any]]:
        rows = list[dict[str, Any]]()
        for clients in self.clients:
            for repeat in range(self.repeats):
                for name, address in services.items():
                    load = Load(f"{address}/match", bodies, clients, self.warm_seconds, self.seconds)
                    loaded = run_clients(load)
                    row: dict[str, Any] = {
                        "clients": clients, "repeat": repeat, "service": name,
                        **summary(loaded.milliseconds, loaded.seconds), "client_cpu": loaded.cpu,
                        "codes": json.dumps(loaded.codes), "load_average": os.getloadavg()[0],
                    }  # fmt: skip
                    logger.info("%s", row)
                    append_rows(self.out, COLUMNS, [row])
                    rows.append(row)
        return rows


def format_load(rows: Sequence[dict[str, Any]], parts: dict[str, float]) -> str:
    """Format medians of the measurements, the ratio of the services, and the parts of a request.

    parts: seconds of a request under the name WHOLE, and of its parts.
    """
    lines = [["clients", "service", "requests/s", "p50 ms", "p95 ms", "p99 ms", "client CPU", "ratio", "codes"]]
    for clients in dict.fromkeys(row["clients"] for row in rows):
        rates = dict[str, float]()
        for name in (PLAIN, OURS):
            own = [row for row in rows if (row["clients"], row["service"]) == (clients, name)]
            medians = [statistics.median(row[figure] for row in own) for figure in FIGURES]
            rates[name] = medians[0]
            numbers = [*(f"{value:,.1f}" for value in medians[:-1]), f"{medians[-1]:.2f}"]
            codes = "; ".join(row["codes"] for row in own)
            lines.append([str(clients), name, *numbers, f"{rates[name] / rates[PLAIN]:.2f}", codes])
    took = {name: 1000 * part for name, part in parts.items()}
    whole = took.pop(WHOLE)
    table = [["part of a request", "ms", "share %"]]
    for name, share in shares(whole, took, REST).items():
        table.append([name, f"{whole * share:.2f}", f"{100 * share:.0f}"])
    note = (
        f"Of a request by one client, {whole:.1f} ms in the median. Parts are timed one by one in a process without\n"
        "Ray Serve, in turn with such requests; the last is what they leave."
    )
    return f"{format_columns(lines)}\n\n{format_columns(table)}\n{note}"
