"""Serve the page on which people label a run or an audit, until the process is told to stop."""

import shlex
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from al_ray.apps.annotating.annotator import Annotator, RunStatus
from al_ray.apps.annotating.options import remember
from al_ray.apps.annotating.server import address_in, announced, checked_token, serving
from al_ray.apps.annotating.sheets import RunSheets, SheetSource
from al_ray.apps.audit.sheet import AuditSheets
from al_ray.cli._annotate.options import Options
from al_ray.cli._labels.pipeline import run_line
from al_ray.cli._run.pipeline import table
from al_ray.cli._shared.advice import advice
from al_ray.cli._shared.entry import as_called
from al_ray.core.config.oracle import oracle_kind
from al_ray.core.errors import BadOption, FolderInUse
from al_ray.core.labels import OPEN
from al_ray.datasets.task_folder import read_task
from al_ray.oracles.page_log import log_path, read_page_answers
from al_ray.runs.run_folder import bound_config, opened
from al_ray.storage.lock import locked
from al_ray.storage.uri import StoragePath, storage_path


def run_command(options: Options) -> None:
    """Serve the page, and print how many pairs have a label when it ends."""
    if (options.run is None) == (options.audit is None):
        raise BadOption("give --run, the folder of a run, or --audit, the folder of an audit; one of them")
    token = checked_token(options)
    with _run(options) if options.audit is None else _audit(options.audit) as (folder, source, status):
        if options.dry_run:
            print(*_plan(source, folder, status), sep="\n")
            return
        chosen = remember(folder, options)
        annotator = Annotator(source, chosen, lambda: status)
        annotator.refresh()
        if not annotator.labellings:
            raise _nothing(folder, status)
        with serving(annotator, chosen, token) as address, announced(folder, address):
            print(f"label at {address} (every answer is stored as it is given; Ctrl-C ends the page)", flush=True)
            wait_for_signal()
        for labelling in annotator.labellings.values():
            progress = labelling.progress
            print(f"{labelling.sheet.title}: {progress.complete:,} of {progress.pairs:,} pairs are labelled")
    print(f"go on with: {status.command}")


def _plan(source: SheetSource, folder: Path, status: RunStatus) -> Iterator[str]:
    """Yield what would be labelled; BadOption if there is nothing."""
    sheets = list(source.new_sheets(()))
    if not sheets:
        raise _nothing(folder, status)
    for sheet in sheets:
        page = read_page_answers(log_path(sheet.folder, sheet.stem))
        answered = sum(code in sheet.elsewhere or page.label(code) != OPEN for code in sheet.pairs)
        yield f"{sheet.title}: {answered:,} of {len(sheet.pairs):,} pairs have an answer"


def _nothing(folder: Path, status: RunStatus) -> BadOption:
    return BadOption(f"{folder} has no pair that waits for an answer of people; go on with: {status.command}")


@contextmanager
def _run(options: Options) -> Iterator[tuple[Path, SheetSource, RunStatus]]:
    """Open a run for the page; FolderInUse with the address of the page that another process serves."""
    assert options.run is not None
    run = local_folder(options.run)
    config = bound_config(run)
    try:
        with opened(run, read_task(storage_path(config.task))) as folder:
            people = oracle_kind(config.oracle).people
            command = run_line(run, folder.ledger.rounds, None)
            rounds = table(folder.complete_rounds()) if folder.last else ""
            status = RunStatus(rounds=rounds, learnt=(*advice(run),), command=command)
            yield run, RunSheets(folder, config.seed, people), status
    except FolderInUse as error:
        raise FolderInUse(f"{error}{address_in(run)}") from error


@contextmanager
def _audit(path: Path) -> Iterator[tuple[Path, SheetSource, RunStatus]]:
    """Open an audit for the page."""
    source = AuditSheets(path)
    command = as_called(f"python -m jobs.audit estimate --audit {shlex.quote(str(path))}")
    try:
        with locked(path):
            yield path, source, RunStatus(command=command)
    except FolderInUse as error:
        raise FolderInUse(f"{error}{address_in(path)}") from error


def local_folder(run: StoragePath) -> Path:
    """Return the folder of a run; BadOption if it is on an object store."""
    if not isinstance(run, Path):
        raise BadOption(f"--run {run} is a URI; people label in a run folder on a local disk")
    return run


def wait_for_signal() -> None:
    """Wait for SIGINT or SIGTERM."""
    ended = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    before: dict[int, Any] = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with suppress(KeyboardInterrupt):
            ended.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
