"""The page on which people label while a run waits for them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import sleep
from typing import Any

from al_ray.active_learning.config import RunConfig
from al_ray.apps.annotating.annotator import Annotator, RunStatus
from al_ray.apps.annotating.options import PageOptions, remember
from al_ray.apps.annotating.server import announced, checked_token, serving
from al_ray.apps.annotating.sheets import RunSheets
from al_ray.apps.matching.model import match_command
from al_ray.core.errors import BadOption
from al_ray.core.naming import option
from al_ray.core.progress import OnProgress
from al_ray.running.run import OnRound
from al_ray.runs.advice import advice
from al_ray.runs.round_table import comparison, round_table
from al_ray.runs.run_folder import RunFolder, complete_rounds
from al_ray.storage.uri import StoragePath

FAREWELL = 2.5
"""Seconds for which the page is served after the end of a run, so that open pages show it."""
PREFIX = "page."


class RunPage:
    """The page of a run that goes on in this process: it shows what the callbacks of the run tell it."""

    def __init__(
        self,
        config: RunConfig,
        options: PageOptions,
        out: StoragePath,
        on_page: Callable[[str], None],
        called: Callable[[str], str],
    ) -> None:
        """Check the options; BadOption for an address that is open without a token.

        on_page: receives the address. called: turns a text that names a function or an option into what the page shows.
        """
        if not isinstance(out, Path):
            raise BadOption(f"`oracle='page'` needs a run folder on a local disk; {option('out', out)} is a URI")
        self.config, self.options, self.out = config, options, out
        self.on_page, self.called = on_page, called
        self.token, self.status = checked_token(options, PREFIX), RunStatus("start")

    @contextmanager
    def serve(self, journal: RunFolder) -> Iterator[None]:
        """Serve the page while the context is open, and print its address. The folder must be locked."""
        # A journal of its own: that of the run is used by another thread.
        sheets = RunSheets(RunFolder(self.out, journal.task), self.config.seed, people=True)
        annotator = Annotator(sheets, remember(self.out, self.options), lambda: self.status)
        with serving(annotator, self.options, self.token, PREFIX) as address, announced(self.out, address):
            self.on_page(address)
            yield
            why = self.called(journal.end_reason) if journal.end_reason else "All planned rounds are complete."
            step = match_command(journal)
            self.status = replace(self.status, stage="", ended=why, next_step="" if step is None else self.called(step))
            sleep(FAREWELL)

    def after_progress(self, first: OnProgress) -> OnProgress:
        """Return a callback that calls another one, and shows a stage of the run."""

        def on_progress(stage: str, done: int, total: int) -> None:
            first(stage, done, total)
            self.status = replace(self.status, stage=stage, done=done, total=total)

        return on_progress

    def after_round(self, first: OnRound) -> OnRound:
        """Return a callback that calls another one, and shows the table of complete rounds and lines about the last."""

        def on_round(line: dict[str, Any]) -> None:
            first(line)
            learnt = tuple(map(self.called, (*comparison(line), *advice(self.out))))
            self.status = RunStatus("choose pairs", rounds=round_table(complete_rounds(self.out)), learnt=learnt)

        return on_round
