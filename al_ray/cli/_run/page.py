"""The page on which people label while jobs.run waits for them."""

from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from time import sleep

from al_ray.active_learning.config import RunConfig
from al_ray.apps.annotating.annotator import Annotator, RunStatus
from al_ray.apps.annotating.options import PageOptions
from al_ray.apps.annotating.server import announced, checked_token, serving
from al_ray.apps.annotating.sheets import RunSheets, Sheet
from al_ray.core.errors import BadOption
from al_ray.datasets.task_folder import read_task
from al_ray.runs.run_folder import RunFolder
from al_ray.storage.uri import StoragePath, storage_path

FAREWELL = 2.5
"""Seconds for which the page is served after the end of a run, so that open pages show it."""


class RunPage:
    """What the page shows of a run that goes on in this process; it is told by the callbacks of the run."""

    def __init__(self, config: RunConfig, out: Path) -> None:
        """Show a run that has not begun."""
        self.config, self.out, self.status = config, out, RunStatus("starting")

    @cached_property
    def _sheets(self) -> RunSheets:
        return RunSheets(RunFolder(self.out, read_task(storage_path(self.config.task))), self.config.seed, True)

    def new_sheets(self, known: Container[str]) -> Iterator[Sheet]:
        """Yield the sheets of the run; none before its first pairs are chosen."""
        if (self.out / "round-001" / "batch.parquet").exists():
            yield from self._sheets.new_sheets(known)

    def on_progress(self, stage: str, done: int, total: int) -> None:
        """Show a stage of the run."""
        self.status = replace(self.status, stage=stage, done=done, total=total)

    def on_learnt(self, rounds: str, lines: Sequence[str]) -> None:
        """Show the table of complete rounds, and lines about them."""
        self.status = RunStatus("choose pairs", rounds=rounds, learnt=(*lines,))

    def on_end(self, why: str) -> None:
        """Show that no more pairs will come, and why."""
        self.status = replace(self.status, stage="", ended=why)
        sleep(FAREWELL)


@contextmanager
def run_page(config: RunConfig, options: PageOptions, out: StoragePath) -> Iterator[RunPage]:
    """Serve the page of a run while the context is open, and print its address."""
    if not isinstance(out, Path):
        raise BadOption(f"--oracle page needs a run folder on a local disk; --out {out} is a URI")
    token, page = checked_token(options, "--page."), RunPage(config, out)
    annotator = Annotator(page, options, lambda: page.status)
    out.mkdir(parents=True, exist_ok=True)
    with serving(annotator, options, token) as address, announced(out, address):
        print(f"label at {address} (every answer is stored as it is given)", flush=True)
        yield page
