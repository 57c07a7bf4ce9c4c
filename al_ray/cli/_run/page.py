"""The page on which people label while jobs.run waits for them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import sleep

from al_ray.active_learning.config import RunConfig
from al_ray.apps.annotating.annotator import Annotator, RunStatus
from al_ray.apps.annotating.options import PageOptions, remember
from al_ray.apps.annotating.server import announced, checked_token, serving
from al_ray.apps.annotating.sheets import RunSheets
from al_ray.apps.matching.model import match_command
from al_ray.cli._shared.entry import as_called
from al_ray.core.errors import BadOption
from al_ray.runs.run_folder import RunFolder
from al_ray.storage.uri import StoragePath

FAREWELL = 2.5
"""Seconds for which the page is served after the end of a run, so that open pages show it."""
PREFIX = "--page."


class RunPage:
    """The page of a run that goes on in this process: it shows what the callbacks of the run tell it."""

    def __init__(self, config: RunConfig, options: PageOptions, out: StoragePath) -> None:
        """Check the options; BadOption for an address that is open without a token."""
        if not isinstance(out, Path):
            raise BadOption(f"--oracle page needs a run folder on a local disk; --out {out} is a URI")
        self.config, self.options, self.out = config, options, out
        self.token, self.status = checked_token(options, PREFIX), RunStatus("start")

    @contextmanager
    def serve(self, journal: RunFolder) -> Iterator[None]:
        """Serve the page while the context is open, and print its address. The folder must be locked."""
        # A journal of its own: that of the run is used by another thread.
        sheets = RunSheets(RunFolder(self.out, journal.task), self.config.seed, people=True)
        annotator = Annotator(sheets, remember(self.out, self.options), lambda: self.status)
        with serving(annotator, self.options, self.token, PREFIX) as address, announced(self.out, address):
            print(f"label at {address} (every answer is stored as it is given)", flush=True)
            yield
            why = as_called(journal.end_reason) if journal.end_reason else "All planned rounds are complete."
            step = match_command(journal)
            self.status = replace(self.status, stage="", ended=why, next_step="" if step is None else as_called(step))
            sleep(FAREWELL)

    def on_progress(self, stage: str, done: int, total: int) -> None:
        """Show a stage of the run."""
        self.status = replace(self.status, stage=stage, done=done, total=total)

    def on_learnt(self, rounds: str, lines: Sequence[str]) -> None:
        """Show the table of complete rounds, and lines about them."""
        self.status = RunStatus("choose pairs", rounds=rounds, learnt=(*lines,))
