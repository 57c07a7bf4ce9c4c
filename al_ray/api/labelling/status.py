"""Count the labels of a run, round by round."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from al_ray.api.labelling.resume import hint, resume_call
from al_ray.core.labels import NO, OPEN, UNSURE, YES
from al_ray.core.naming import call, options_of, run_at
from al_ray.core.text_table import format_columns
from al_ray.oracles.answer_files import BATCH, read_answers
from al_ray.oracles.people import codes_of
from al_ray.runs.advice import advice
from al_ray.runs.dev_labels import missing_labels
from al_ray.runs.ledger import Ledger
from al_ray.runs.limits import stored_limits
from al_ray.runs.other_runs import bound_task
from al_ray.runs.run_folder import RunFolder, bound_config
from al_ray.storage.uri import StoragePath, storage_path


@dataclass(frozen=True)
class RoundLabels:
    """Counts of the labels of a round: of its chosen pairs, or with split "dev" of the pairs that measure its model.

    open: pairs without a label; 0 in a round that was closed early. unread: open pairs whose answer lies in `folder`,
    where the next session of the run reads it. labellers: who answered. source: what chose the pairs.
    """

    round: int
    split: str
    source: str
    pairs: int
    yes: int
    no: int
    unsure: int
    open: int
    labellers: tuple[str, ...]
    cost: float
    unread: int
    folder: StoragePath


@dataclass(frozen=True)
class LabelStatus:
    """The labels of a run. complete: its complete rounds; limits: those that are stored in its folder.

    missing_dev: drawn dev pairs of the last round without a label; None if there are none to wait for. advice: whether
    more labels are worth their price, in words.
    """

    run: StoragePath
    rounds: tuple[RoundLabels, ...]
    corrections: int
    complete: int
    cost: float
    limits: Mapping[str, float]
    missing_dev: int | None
    advice: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        """Yield all of this in words, and the calls that go on from here."""
        rows: list[tuple[str, ...]] = [
            ("round", "chosen by", "pairs", "yes", "no", "unsure", "open", "answered by", "cost")
        ]
        for one in self.rounds:
            counts = (f"{count:,}" for count in (one.pairs, one.yes, one.no, one.unsure, one.open))
            rows.append((str(one.round), one.source, *counts, ", ".join(one.labellers) or "-", f"{one.cost:,.6g}"))
        yield format_columns(rows)
        for one in self.rounds:
            if one.unread:
                name = f"round {one.round}{', dev' * (one.split == 'dev')}"
                yield f"{name}: {one.unread:,} open pairs have an answer in {one.folder}, which the run reads"
        yield f"corrections: {self.corrections:,}; complete rounds: {self.complete}; cost: {self.cost:,.6g}"
        yield from (f"limit: {option} {limit:,.6g}" for option, limit in self.limits.items())
        yield from self.advice
        if self.complete:
            audit = call(
                "sample_audit", run=run_at(self.run), config=options_of("AuditConfig", split="train", by_score=True)
            )
            yield f"how many matches are left in each band of score: {audit}"
        if self.missing_dev:
            words = f"{self.missing_dev:,} dev labels, which say how good its model is"
            yield f"round {self.complete} waits for {words}"
        last = max((one.round for one in self.rounds if one.split != "dev"), default=0)
        if last > self.complete or self.missing_dev is not None:
            yield f"to resume{hint(bound_config(self.run))}: {resume_call(self.run, last)}"


def label_status(run: str | StoragePath) -> LabelStatus:
    """Count the labels of each round of a run, those of the round under way included.

    Examples:
        >>> status = al_ray.label_status(folder / "run")
        >>> [(one.round, one.pairs, one.open) for one in status.rounds]
        [(1, 16, 0), (2, 24, 0)]

    Raises:
        WrongFolder: if it is not the folder of a run.
        BadFile: if a file of the run is damaged.
    """
    path = storage_path(str(run))
    folder = RunFolder(path, bound_task(path))
    ledgers, last = (folder.ledger, folder.dev_labels.ledger), folder.last
    return LabelStatus(
        path, tuple(one for ledger in ledgers for one in _rounds(ledger)),
        sum(len(table) for ledger in ledgers for table in ledger.corrections()), last, folder.cost,
        stored_limits(path), missing_labels(path, last) if last and bound_config(path).dev_labels else None,
        tuple(advice(path)),
    )  # fmt: skip


def _rounds(ledger: Ledger) -> Iterator[RoundLabels]:
    for number, (batch, labels) in enumerate(ledger.read_rounds(range(1, ledger.rounds + 1)), start=1):
        pieces = list(ledger.answers(number))
        yes, no, unsure, waiting = (int((labels == label).sum()) for label in (YES, NO, UNSURE, OPEN))
        labellers = sorted({name for piece in pieces for name in piece.by.split(", ")})
        # Pairs without a label have left a round that was closed early.
        waiting = 0 if ledger.sealed(number) else waiting
        yield RoundLabels(
            number, ledger.split, batch.source, len(labels), yes, no, unsure, waiting, tuple(labellers),
            sum(piece.cost for piece in pieces), _unread(ledger, number), ledger.path / ledger.round(number).name,
        )  # fmt: skip


def _unread(ledger: Ledger, number: int) -> int:
    """Return how many pairs of an open round have an answer in its files that the ledger has not yet."""
    if number < ledger.rounds or ledger.sealed(number) or not isinstance(ledger.path, Path):
        return 0
    batch, folder, dev = ledger.batch(number), ledger.path / ledger.round(number).name, ledger.split != "train"
    if batch is None or not (folder / f"{BATCH}.csv").exists():
        return 0
    labels = read_answers(folder, codes_of(number, len(batch.pairs), dev), batch.pairs, ledger.task)
    return int(((labels != OPEN) & (ledger.first_labels(number) == OPEN)).sum())
