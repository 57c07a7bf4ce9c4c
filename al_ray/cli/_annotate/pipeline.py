"""Serve the page on which people label pairs of a run, an audit or matches, until the process is told to stop."""

import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from al_ray.apps.annotating.annotator import Annotator, RunStatus
from al_ray.apps.annotating.options import remember
from al_ray.apps.annotating.server import address_in, announced, checked_token, serving
from al_ray.apps.annotating.sheets import RunSheets, SheetSource
from al_ray.apps.audit.sheet import AuditSheets
from al_ray.apps.drift.folder import use_of_suggestions
from al_ray.apps.drift.sheet import SuggestedSheets
from al_ray.apps.http.signals import received
from al_ray.apps.matching.folder import RECORD
from al_ray.cli._annotate.options import Options
from al_ray.cli._labels.pipeline import run_line
from al_ray.cli._shared.advice import advice
from al_ray.cli._shared.entry import as_called
from al_ray.cli._shared.round_table import round_table
from al_ray.core.config.oracle import oracle_kind
from al_ray.core.errors import BadOption, FolderInUse, WrongFolder
from al_ray.oracles.page_log import log_path, read_page_answers
from al_ray.runs.other_runs import bound_task
from al_ray.runs.run_folder import bound_config, opened
from al_ray.storage.files import read_json
from al_ray.storage.lock import locked
from al_ray.storage.uri import StoragePath


def run_command(options: Options) -> None:
    """Serve the page, and print how many pairs have a label when it ends."""
    if (options.run, options.audit, options.matches).count(None) != 2:
        raise BadOption("give one folder: of a run (--run), of an audit (--audit) or of matches (--matches)")
    token = checked_token(options)
    with _opened(options) as (folder, source, status):
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
        answered = sum(code in sheet.elsewhere or page.complete(code) for code in sheet.pairs)
        yield f"{sheet.title}: {answered:,} of {len(sheet.pairs):,} pairs have an answer"


def _nothing(folder: Path, status: RunStatus) -> BadOption:
    return BadOption(f"{folder} has no pair that waits for an answer of people; go on with: {status.command}")


@contextmanager
def _opened(options: Options) -> Iterator[tuple[Path, SheetSource, RunStatus]]:
    """Open what is labelled; FolderInUse with the address of the page that another process serves."""
    path = options.audit or options.matches or local_folder(options.run)
    try:
        with _audit(path) if options.audit else _matches(path) if options.matches else _run(path) as (source, status):
            yield path, source, status
    except FolderInUse as error:
        raise FolderInUse(f"{error}{address_in(path)}") from error


@contextmanager
def _run(path: Path) -> Iterator[tuple[SheetSource, RunStatus]]:
    config = bound_config(path)
    with opened(path, bound_task(path)) as folder:
        people = oracle_kind(config.oracle).people
        command = run_line(path, folder.ledger.rounds, None)
        rounds = round_table(folder.complete_rounds()) if folder.last else ""
        status = RunStatus(rounds=rounds, learnt=(*advice(path),), command=command)
        yield RunSheets(folder, config.seed, people), status


@contextmanager
def _audit(path: Path) -> Iterator[tuple[SheetSource, RunStatus]]:
    source = AuditSheets(path)
    command = as_called(f"python -m jobs.audit estimate --audit {shlex.quote(str(path))}")
    with locked(path):
        yield source, RunStatus(command=command)


@contextmanager
def _matches(path: Path) -> Iterator[tuple[SheetSource, RunStatus]]:
    if not (path / RECORD).exists():
        raise WrongFolder(f"{path} holds no {RECORD}; give --matches the folder that jobs.match wrote")
    source = SuggestedSheets(path)
    command = as_called(use_of_suggestions(read_json(path / RECORD, ["model"]), path))
    with locked(path):
        yield source, RunStatus(command=command)


def local_folder(run: StoragePath | None) -> Path:
    """Return the folder of a run; BadOption if it is on an object store."""
    if not isinstance(run, Path):
        raise BadOption(f"--run {run} is a URI; people label in a run folder on a local disk")
    return run


def wait_for_signal() -> None:
    """Wait for SIGINT or SIGTERM."""
    with suppress(KeyboardInterrupt), received(signal.SIGINT, signal.SIGTERM) as next_signal:
        next_signal()
