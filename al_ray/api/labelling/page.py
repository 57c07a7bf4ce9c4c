"""The page on which people label pairs of a run, of an audit or of matches."""

import signal
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from al_ray.api.labelling.resume import resume_call
from al_ray.apps.annotating.annotator import Annotator, RunStatus
from al_ray.apps.annotating.options import PageOptions, remember
from al_ray.apps.annotating.server import address_in, announced, checked_token, serving
from al_ray.apps.annotating.sheets import RunSheets, Sheet, SheetSource
from al_ray.apps.audit.sheet import AuditSheets
from al_ray.apps.drift.folder import TABLE, use_of_suggestions
from al_ray.apps.drift.sheet import SuggestedSheets
from al_ray.apps.golden.pages import golden_pages
from al_ray.apps.http.signals import received
from al_ray.apps.matching.folder import RECORD
from al_ray.apps.matching.golden.editor import GoldenEditor, has_golden
from al_ray.core.config.oracle import oracle_kind
from al_ray.core.errors import BadOption, FolderInUse, WrongFolder
from al_ray.core.naming import call, command, option
from al_ray.oracles.page_log import log_path, read_page_answers
from al_ray.runs.advice import advice
from al_ray.runs.other_runs import bound_task
from al_ray.runs.round_table import round_table
from al_ray.runs.run_folder import bound_config, opened
from al_ray.storage.files import read_json
from al_ray.storage.lock import locked
from al_ray.storage.uri import StoragePath, storage_path

PAGE = PageOptions()


@dataclass(frozen=True)
class MatchSheets:
    """What people do in a folder of matches: label suggested pairs, if there are any, and override golden records."""

    suggested: SuggestedSheets | None
    golden: GoldenEditor | None

    def new_sheets(self, known: Container[str]) -> Iterator[Sheet]:
        """Yield the suggested pairs."""
        if self.suggested is not None:
            yield from self.suggested.new_sheets(known)


@dataclass(frozen=True)
class LabelPage:
    """What people label in a folder, which is locked. next_step: the command for when all pairs have answers."""

    folder: Path
    source: SheetSource
    status: RunStatus
    options: PageOptions
    token: str | None
    learnt: Callable[[], tuple[str, ...]] = tuple
    """What else was learnt by now."""
    golden: GoldenEditor | None = None
    """Golden records of the folder, if it has any."""

    def now(self) -> RunStatus:
        """Return the status as it is now."""
        return replace(self.status, learnt=(*self.status.learnt, *self.learnt()))

    @property
    def next_step(self) -> str:
        """Return the command for when all pairs have answers."""
        return self.status.command

    def plan(self) -> list[str]:
        """Return a line for each sheet that would be labelled; BadOption if there is none. Nothing is written."""
        sheets, lines = list(self.source.new_sheets(())), list[str]()
        if not sheets and self.golden is None:
            raise self._nothing()
        for sheet in sheets:
            page = read_page_answers(log_path(sheet.folder, sheet.stem))
            answered = sum(code in sheet.elsewhere or page.complete(code) for code in sheet.pairs)
            lines.append(f"{sheet.title}: {answered:,} of {len(sheet.pairs):,} pairs have an answer")
        if self.golden is not None:
            lines.append(f"golden records: {len(self.golden.standing):,} values were given by people")
        return lines

    @contextmanager
    def serve(self) -> Iterator["OpenPage"]:
        """Serve the page while the context is open, in a thread; BadOption if no pair waits for an answer."""
        chosen = remember(self.folder, self.options)
        extra = None if self.golden is None else golden_pages(self.golden)
        annotator = Annotator(self.source, chosen, self.now, extra=extra)
        annotator.refresh()
        if not annotator.labellings and extra is None:
            raise self._nothing()
        with serving(annotator, chosen, self.token) as address, announced(self.folder, address):
            yield OpenPage(address, annotator)

    def _nothing(self) -> BadOption:
        return BadOption(f"{self.folder} has no pair that waits for an answer of people; go on with: {self.next_step}")


@dataclass(frozen=True)
class OpenPage:
    """A page that is served. address: where people open it."""

    address: str
    annotator: Annotator

    def wait(self) -> None:
        """Wait for SIGINT or SIGTERM."""
        with suppress(KeyboardInterrupt), received(signal.SIGINT, signal.SIGTERM) as next_signal:
            next_signal()

    def progress(self) -> list[str]:
        """Return how many pairs of each sheet are labelled, in words."""
        lines: list[str] = []
        for labelling in self.annotator.labellings.values():
            progress = labelling.progress
            lines.append(f"{labelling.sheet.title}: {progress.complete:,} of {progress.pairs:,} pairs are labelled")
        return lines


@contextmanager
def annotate(
    *,
    run: str | StoragePath | None = None,
    audit: str | Path | None = None,
    matches: str | Path | None = None,
    options: PageOptions = PAGE,
    called: Callable[[str], str] = str,
) -> Iterator[LabelPage]:
    """Lock a folder whose pairs people label: the open round of a run, a sample of an audit or suggested pairs.

    In a folder of matches with golden records people also override values of these (docs/golden.md). Give one of run,
    audit and matches. `plan` of the result says what would be labelled, and its `serve` serves the page. Every answer
    is on disk before the next pair is shown. called: turns a text that names a function or an option into what the page
    shows.

    Examples:
        >>> with al_ray.annotate(audit=folder / "run" / "audit-test-by-score") as page:
        ...     page.plan()
        ['audit: 0 of 10 pairs have an answer']

    Raises:
        BadOption: if not one folder is given, or an address that other machines can reach has no token.
        FolderInUse: if another process uses the folder; the message has the address of the page that it serves.
        WrongFolder: if the folder is not of that kind.
    """
    if (run, audit, matches).count(None) != 2:
        raise BadOption("give one folder: of a run (`run`), of an audit (`audit`) or of matches (`matches`)")
    token = checked_token(options)
    if run is not None:
        path, opening = local_folder(storage_path(str(run))), _run
    elif audit is not None:
        path, opening = Path(audit), _audit
    else:
        path, opening = Path(matches or ""), _matches
    try:
        with opening(path) as (source, status):
            shown = replace(status, command=called(status.command), learnt=tuple(map(called, status.learnt)))
            of_source = source.learnt if isinstance(source, AuditSheets) else tuple[str, ...]
            golden = source.golden if isinstance(source, MatchSheets) else None
            yield LabelPage(path, source, shown, options, token, lambda: tuple(map(called, of_source())), golden)
    except FolderInUse as error:
        raise FolderInUse(f"{error}{address_in(path)}") from error


@contextmanager
def _run(path: Path) -> Iterator[tuple[SheetSource, RunStatus]]:
    config = bound_config(path)
    with opened(path, bound_task(path)) as folder:
        people = oracle_kind(config.oracle).people
        rounds = round_table(folder.complete_rounds()) if folder.last else ""
        next_step = resume_call(path, folder.ledger.rounds)
        status = RunStatus(rounds=rounds, learnt=(*advice(path),), command=next_step)
        yield RunSheets(folder, config.seed, people), status


@contextmanager
def _audit(path: Path) -> Iterator[tuple[SheetSource, RunStatus]]:
    source = AuditSheets(path)
    with locked(path):
        yield source, RunStatus(command=call("estimate_audit", audit=path))


@contextmanager
def _matches(path: Path) -> Iterator[tuple[SheetSource, RunStatus]]:
    if not (path / RECORD).exists():
        raise WrongFolder(f"{path} holds no {RECORD}; give `matches` the folder that `al_ray.match` wrote")
    # Without golden records there must be pairs: the error says what is lacking.
    suggested = SuggestedSheets(path) if (path / TABLE).exists() or not has_golden(path) else None
    with locked(path):
        next_step = command("match", into=path, left="FILE")
        if suggested is not None:
            next_step = use_of_suggestions(read_json(path / RECORD, ["model"]), path)
        golden = GoldenEditor(path) if has_golden(path) else None
        try:
            yield MatchSheets(suggested, golden), RunStatus(command=next_step)
        finally:
            if golden is not None:
                golden.close()
                golden.write()


def local_folder(run: StoragePath) -> Path:
    """Return the folder of a run; BadOption if it is on an object store."""
    if not isinstance(run, Path):
        raise BadOption(f"{option('run', run)} is a URI; people label in a run folder on a local disk")
    return run
