"""Several people label at once on the page of jobs.annotate: answers a second, and whether one is lost or doubled."""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Annotated

import aiohttp
import numpy as np

import al_ray
from al_ray.active_learning.config import RunConfig
from al_ray.core.config.bounds import Between
from al_ray.core.labels import WORDS, Batch
from al_ray.core.rng import generator
from al_ray.datasets.task_folder import read_task
from al_ray.oracles.answer_files import BATCH
from al_ray.oracles.page_log import log_path, read_page_answers
from al_ray.runs.run_folder import opened
from benchmarks.timing import Figure

FIELD = re.compile(r'name="(csrf|request|pair)" value="([^"]*)"')
WORD = ("no", "yes", "unsure")


@dataclass(frozen=True)
class Annotate:
    """People at the page of jobs.annotate, who answer as fast as they can."""

    people: Annotated[int, Between(1, 64)] = 8
    """How many label at once."""
    pairs: Annotated[int, Between(1, 100_000)] = 1_000
    """Pairs of the batch."""
    port: Annotated[int, Between(1, 65_535)] = 8002
    """Port of the page."""
    seed: int = 0
    """Random seed of the pairs."""
    out: Path | None = None
    """File to write the figures to, as JSON."""

    def figures(self) -> list[Figure]:
        """Serve the page of a batch, label it, and count in the log what was stored."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            self._make_run(folder)
            began = perf_counter()
            words = ["-m", "jobs.annotate", "--run", str(folder / "run"), "--port", str(self.port)]
            # Not in the folder of this program's own figures.
            with subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, env=os.environ) as server:
                try:
                    assert server.stdout is not None
                    assert b"label at" in server.stdout.readline()
                    figures = asyncio.run(self._label(folder, began))
                finally:
                    server.terminate()
        return figures

    def _make_run(self, folder: Path) -> None:
        """Make a run whose first batch waits for people."""
        al_ray.prepare(al_ray.Synthetic(texts=2_000, seed=self.seed), folder / "task")
        task = read_task(folder / "task")
        space = task.split("train").space
        keys = generator(self.seed, "bench-annotate").choice(space.total, self.pairs, replace=False)
        pairs = space.pairs(space.at(np.sort(keys)))
        config = RunConfig(task=str(folder / "task"), oracle="file")
        with opened(folder / "run", task) as run:
            run.bind(replace(config, first_batch=self.pairs))
            run.ledger.add_batch(1, Batch(pairs, np.full(self.pairs, np.nan), "seed"))

    async def _label(self, folder: Path, began: float) -> list[Figure]:
        """Label as several people until no pair is left, and compare what they sent with the log."""
        sent, latencies, first = dict[str, str](), list[float](), list[float]()

        async def person(name: str) -> None:
            jar = aiohttp.CookieJar(unsafe=True)
            async with aiohttp.ClientSession(f"http://127.0.0.1:{self.port}", cookie_jar=jar) as session:
                page = await _read(session.get("/"))
                page = await _read(session.post("/sign-in", data={"csrf": page["csrf"], "name": name}))
                first.append(perf_counter() - began)
                while "pair" in page:
                    word, before = WORD[len(sent) % 3], perf_counter()
                    # Before it is sent, so that a pair that two people are shown is noticed.
                    assert page["pair"] not in sent
                    sent[page["pair"]] = word
                    page = await _read(session.post("/answer", data={**page, "label": word, "note": ""}))
                    latencies.append(perf_counter() - before)

        async with asyncio.TaskGroup() as group:
            for number in range(self.people):
                group.create_task(person(f"person {number}"))
        seconds = perf_counter() - began - min(first)
        log = read_page_answers(log_path(folder / "run" / "round-001", BATCH))
        kept = {code: WORDS[log.label(code)] for code in log.touched}
        return [
            Figure("people", (self.people,)),
            Figure("answers_a_second", (len(latencies) / seconds,)),
            Figure("milliseconds_p50", (1000 * float(np.quantile(latencies, 0.5)),)),
            Figure("milliseconds_p95", (1000 * float(np.quantile(latencies, 0.95)),)),
            Figure("milliseconds_p99", (1000 * float(np.quantile(latencies, 0.99)),)),
            Figure("seconds_to_first_pair", (min(first),)),
            Figure("lost", (sum(kept.get(code) != word for code, word in sent.items()),), "0"),
            Figure("doubled", (sum(len(log.of(code)) > 1 for code in kept) + len(latencies) - len(sent),), "0"),
        ]


async def _read(request: "aiohttp.client._RequestContextManager") -> dict[str, str]:
    """Return the fields of the forms of a page: that of the answer has the pair first."""
    async with request as answer:
        text = await answer.text()
        assert answer.status == 200, text
    fields = dict[str, str]()
    for name, value in FIELD.findall(text):
        # The first form with a pair is that of the answer; later ones have requests of their own.
        fields.setdefault(name, value)
    return fields
