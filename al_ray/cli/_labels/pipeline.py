"""Carry out jobs.labels: read or write the labels of a run folder."""

import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.labelling import buy_labels
from al_ray.active_learning.strategies import STRATEGIES
from al_ray.api.labels import export_labels, import_labels, refuse_open, writing
from al_ray.api.run_reading import load_run
from al_ray.cli._labels.options import Close, Command, Correct, Export, Import, Status
from al_ray.cli._shared.advice import advice
from al_ray.cli._shared.entry import as_called
from al_ray.core.config.oracle import OracleConfig, oracle_kind
from al_ray.core.errors import BadOption, LabelsAwaited
from al_ray.core.labels import CODES, NO, OPEN, UNSURE, YES
from al_ray.core.pairs import Pairs, as_pairs
from al_ray.core.progress import no_progress
from al_ray.core.scorer import Labels
from al_ray.core.text_table import format_columns
from al_ray.datasets.tables.label_tables import read_task_labels
from al_ray.datasets.tsv import OR_SKIP, BadRowLog
from al_ray.oracles.answer_files import BATCH, read_answers
from al_ray.oracles.people import FileOracle, codes_of
from al_ray.oracles.registry import OracleRequest, make_oracle
from al_ray.runs.dev_labels import format_estimate, missing_labels
from al_ray.runs.ledger import Ledger
from al_ray.runs.limits import stored_limits
from al_ray.runs.other_runs import bound_task
from al_ray.runs.run_folder import RunFolder, bound_config
from al_ray.storage.uri import StoragePath


def run_command(options: Command) -> None:
    """Run the subcommand that the options belong to."""
    commands = {Status: status, Export: export, Import: import_table, Correct: correct, Close: close}
    commands[type(options)](options)


def status(options: Status) -> None:
    """Print the counts of each round, and how to resume a run with an incomplete one."""
    folder = RunFolder(options.run, bound_task(options.run))
    ledger, dev, last = folder.ledger, folder.dev_labels.ledger, folder.last
    rows: list[tuple[str, ...]] = [
        ("round", "chosen by", "pairs", "yes", "no", "unsure", "open", "answered by", "cost")
    ]
    rows += [*_counts(ledger), *(_counts(dev) if dev.rounds else ())]
    print(format_columns(rows))
    corrected = sum(len(table) for one in (ledger, dev) for table in one.corrections())
    for one in (ledger, dev):
        print(*_unread(one), sep="", end="")
    print(f"corrections: {corrected:,}; complete rounds: {last}; cost: {folder.cost:,.6g}")
    for option, limit in stored_limits(options.run).items():
        print(f"limit: {option} {limit:,.6g}")
    for line in advice(options.run):
        print(line)
    if last:
        audit = f"python -m jobs.audit sample --run {shlex.quote(str(options.run))} --split train --by-score"
        print(f"how many matches are left in each band of score: {as_called(audit)}")
    missing = missing_labels(options.run, last) if last and bound_config(options.run).dev_labels else None
    if missing:
        print(f"round {last} waits for {missing:,} dev labels, which say how good its model is")
    if ledger.rounds > last or missing is not None:
        print(f"to resume{_hint(bound_config(options.run))}: {run_line(options.run, ledger.rounds, None)}")


def _counts(ledger: Ledger) -> Iterator[tuple[str, ...]]:
    """Yield a row for each round of a ledger: pairs, labels, labellers and cost."""
    for number, (batch, labels) in enumerate(ledger.read_rounds(range(1, ledger.rounds + 1)), start=1):
        pieces = list(ledger.answers(number))
        # Pairs without a label have left a round that was closed early.
        waits = 0 if ledger.sealed(number) else int((labels == OPEN).sum())
        counts = [*(f"{int((labels == label).sum()):,}" for label in (YES, NO, UNSURE)), f"{waits:,}"]
        labellers = ", ".join(sorted({name for piece in pieces for name in piece.by.split(", ")})) or "-"
        cost = sum(piece.cost for piece in pieces)
        yield (str(number), batch.source, f"{len(labels):,}", *counts, labellers, f"{cost:,.6g}")


def _unread(ledger: Ledger) -> Iterator[str]:
    """Yield how many pairs of an open round have an answer in its files that the ledger has not yet."""
    number = ledger.rounds
    if not number or ledger.sealed(number) or not isinstance(ledger.path, Path):
        return
    batch, folder, dev = ledger.batch(number), ledger.path / ledger.round(number).name, ledger.split != "train"
    if batch is None or not (folder / f"{BATCH}.csv").exists():
        return
    labels = read_answers(folder, codes_of(number, len(batch.pairs), dev), batch.pairs, ledger.task)
    fresh = int(((labels != OPEN) & (ledger.first_labels(number) == OPEN)).sum())
    if fresh:
        yield f"round {number}{', dev' * dev}: {fresh:,} open pairs have an answer in {folder}, which the run reads\n"


def export(options: Export) -> None:
    """Write all labels of a run, those of an incomplete round included."""
    labelled = export_labels(
        load_run(options.run),
        options.out,
        every_column=options.every_column,
        split=options.split,
        escape_formulas=options.escape_formulas,
    )
    decided = len(labelled.decided)
    unsure = f"{'and' if options.every_column else 'without'} {len(labelled) - decided:,} unsure"
    print(f"wrote {decided:,} labelled pairs ({labelled.positives:,} matches) {unsure} to {options.out}")


def import_table(options: Import) -> None:
    """Import a table of labels, and print how a run trains on them."""
    done = import_labels(options.run, options.labels, task=options.task, columns=options.columns, table=options)
    print(f"round {done.round}: {done.labels:,} labels, {done.matches:,} of them matches; {done.known:,} known before")
    for line in done.report.lines():
        print(line)
    if not done.labels and not done.corrected:
        print("nothing is new, so nothing was changed")
        return
    new = not (options.run / "config.json").exists()
    if new and (options.labels / "config.json").exists():
        other = bound_config(options.labels)
        print(f"to train on them{_hint(other)}: {_line_of_new_run(options, other)}")
        return
    options_of_run = " (add the options of the run)" if new else _hint(bound_config(options.run))
    print(f"to train on them{options_of_run}: {run_line(options.run, done.round, options.task)}")


def _line_of_new_run(options: Import, other: RunConfig) -> str:
    """Return the command of a new run on the labels of another one, with the config of that run."""
    out, task, config = (shlex.quote(str(path)) for path in (options.run, options.task, options.labels))
    if STRATEGIES[other.strategy].uses_model:
        return as_called(f"python -m jobs.run --config {config} --task {task} --out {out}{_not_stored(other)}")
    # Its strategy would train only on pairs that it chooses.
    start = f"python -m jobs.run --config {config} --task {task} --out {out} --strategy uncertainty"
    return as_called(f"{start}{_not_stored(other)}")


def run_line(run: StoragePath, rounds: int, task: StoragePath | None) -> str:
    """Return the command that trains a run up to the last of these rounds; task: for a folder without a config.json."""
    out = shlex.quote(str(run))
    if not (run / "config.json").exists():
        return as_called(f"python -m jobs.run --task {shlex.quote(str(task))} --out {out}")
    config = bound_config(run)
    if rounds > config.rounds:
        return as_called(f"python -m jobs.run --out {out} --config {out} --rounds {rounds}{_not_stored(config)}")
    return as_called(f"python -m jobs.run --out {out} --config {out}{_not_stored(config)}")


def _not_stored(config: RunConfig) -> str:
    """Return the options for the end of a command that resumes a run which no folder stores."""
    options = oracle_kind(config.oracle).resumed_with
    return f" {options}" if options else ""


def _hint(config: RunConfig) -> str:
    """Return what to say before such a command of the options that end it."""
    group = oracle_kind(config.oracle).resumed_with.partition(".")[0]
    return f" (with all {group} options as before)" if group else ""


def correct(options: Correct) -> None:
    """Correct the label of one pair, or those in a table."""
    config = bound_config(options.run)
    with writing(options.run, None) as folder:
        pairs, labels = corrections(options, folder)
        refuse_open(folder, pairs, options.split)
        if options.split == "dev":
            changed = folder.dev_labels.correct(pairs, labels, folder.model, config.seed)
            print(f"labels of dev: {changed:,} corrected, {len(pairs) - changed:,} correct before")
            for figures in folder.dev_labels.estimates():
                print(format_estimate(figures))
            return
        changed = folder.ledger.correct(pairs, labels)
        print(f"labels: {changed:,} corrected, {len(pairs) - changed:,} correct before; the next training uses them")


def corrections(options: Correct, folder: RunFolder) -> tuple[Pairs, Labels]:
    """Return the (k, 2) pairs to correct and their (k,) new labels."""
    left, right, label = options.left_id, options.right_id, options.label
    if options.labels is not None and (left, right, label) == (None, None, None):
        faults = BadRowLog(options.bad_rows, OR_SKIP)
        table = read_task_labels(options.labels, options.names, options.reading, folder.task, faults, options.split)
        return table.pairs, table.labels
    if options.labels is not None or left is None or right is None or label is None:
        raise BadOption("give --labels FILE, or one pair by --left-id, --right-id and --label")
    rows: list[int] = []
    for side, corpus, name in (("left", folder.task.left, left), ("right", folder.task.right, right)):
        if name not in corpus.ids:
            raise BadOption(f"--{side}-id {name!r} is not an id of the task's {side} texts; see its {side}.parquet")
        rows.append(corpus.ids.index(name))
    return as_pairs(*([row] for row in rows)), np.array([CODES[label]], dtype=np.uint8)


def close(options: Close) -> None:
    """End the open round with the labels that it has; what people have answered in its files is read first."""
    config = bound_config(options.run)
    with writing(options.run, None) as folder:
        ledger, number = folder.ledger, folder.last + 1
        batch = ledger.batch(number)
        if batch is None or ledger.sealed(number):
            raise BadOption(f"{options.run} has no round that waits for labels; there is nothing to close")
        if oracle_kind(config.oracle).people:
            with suppress(LabelsAwaited):
                buy_labels(number, ledger, make_oracle(OracleRequest(config, OracleConfig(), folder, no_progress)))
            if not ledger.sealed(number):
                for answers in FileOracle(ledger).label_without_second(number, batch):
                    ledger.add_answers(number, answers)
        left = 0 if ledger.sealed(number) else ledger.close(number)
        labels = ledger.labels(number)
        print(f"round {number} is closed with {int((labels != OPEN).sum()):,} labels; {left:,} pairs leave it")
        print(f"to train on them{_hint(config)}: {run_line(options.run, number, None)}")
        if config.dev_labels and (waiting := _open_dev_pairs(folder)):
            print(f"it asks for the labels of {waiting:,} dev pairs first; with --dev-labels 0 it goes on without them")


def _open_dev_pairs(folder: RunFolder) -> int:
    """Count the drawn pairs of dev that wait for a label."""
    ledger = folder.dev_labels.ledger
    return (
        int((ledger.labels(ledger.rounds) == OPEN).sum()) if ledger.rounds and not ledger.sealed(ledger.rounds) else 0
    )
