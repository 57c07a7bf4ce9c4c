"""Carry out jobs.labels: read or write the labels of a run folder."""

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import numpy as np

from al_ray.active_learning.loop import buy_labels
from al_ray.active_learning.strategies import STRATEGIES
from al_ray.cli._labels.options import Close, Command, Correct, Export, Import, Status
from al_ray.core.config.oracle import OracleConfig, oracle_kind
from al_ray.core.errors import BadFile, BadOption, LabelsAwaited, WrongFolder
from al_ray.core.labels import CODES, NO, OPEN, UNSURE, WORDS, YES, Batch, make_answers
from al_ray.core.pairs import Pairs, as_pairs
from al_ray.core.progress import no_progress
from al_ray.core.scorer import Labels
from al_ray.core.text_table import format_columns
from al_ray.datasets.tables.label_tables import labels_table, read_task_labels, write_labels
from al_ray.datasets.task_folder import read_task
from al_ray.datasets.tsv import OR_SKIP, BadRowLog, Report
from al_ray.oracles.registry import OracleRequest, make_oracle
from al_ray.runs.ledger import Ledger
from al_ray.runs.limits import stored_limits
from al_ray.runs.place import refuse_inside
from al_ray.runs.run_folder import RunFolder, bound_config, opened
from al_ray.storage.uri import StoragePath, storage_path

SOURCE = "imported"


def run_command(options: Command) -> None:
    """Run the subcommand that the options belong to."""
    commands = {Status: status, Export: export, Import: import_labels, Correct: correct, Close: close}
    commands[type(options)](options)


def status(options: Status) -> None:
    """Print the counts of each round, and how to resume a run with an incomplete one."""
    folder = RunFolder(options.run, read_task(task_of(options.run, None)))
    ledger, last = folder.ledger, folder.last
    rows: list[tuple[str, ...]] = [
        ("round", "chosen by", "pairs", "yes", "no", "unsure", "open", "answered by", "cost")
    ]
    for number, (batch, labels) in enumerate(ledger.read_rounds(range(1, ledger.rounds + 1)), start=1):
        pieces = list(ledger.answers(number))
        counts = [f"{int((labels == label).sum()):,}" for label in (YES, NO, UNSURE, OPEN)]
        labellers = ", ".join(sorted({piece.by for piece in pieces})) or "-"
        cost = sum(piece.cost for piece in pieces)
        rows.append((str(number), batch.source, f"{len(labels):,}", *counts, labellers, f"{cost:,.6g}"))
    print(format_columns(rows))
    print(f"corrections: {sum(map(len, ledger.corrections())):,}; complete rounds: {last}; cost: {ledger.cost():,.6g}")
    for option, limit in stored_limits(options.run).items():
        print(f"limit: {option} {limit:,.6g}")
    if ledger.rounds > last:
        print(f"to resume: {run_line(options.run, ledger.rounds, None)}")


def export(options: Export) -> None:
    """Write all labels of a run, those of an incomplete round included."""
    folder = RunFolder(options.run, read_task(task_of(options.run, None)))
    labelled = folder.ledger.labelled()
    if not len(labelled):
        raise BadFile(f"{options.run} has no label yet; label a batch first (python -m jobs.labels status)")
    table = labels_table(labelled, folder.task, options.every_column)
    write_labels(options.out, table)
    decided = len(labelled.decided)
    unsure = f"{'and' if options.every_column else 'without'} {len(labelled) - decided:,} unsure"
    print(f"wrote {decided:,} labelled pairs ({labelled.positives:,} matches) {unsure} to {options.out}")


def import_labels(options: Import) -> None:
    """Write the labels of a table that the run lacks as a complete round."""
    with writing(options.run, options.task) as folder:
        refuse_unused(options.run)
        ledger, faults = folder.ledger, BadRowLog(options.bad_rows, OR_SKIP)
        table = read_task_labels(options.labels, options.names, options.reading, folder.task, faults)
        known = ledger.labels_of(table.pairs)
        table.sheet.reject(
            (known != OPEN) & (known != table.labels),
            lambda row: f"the run has the label {WORDS[known[row]]} for this pair (python -m jobs.labels correct)",
            faults,
        )
        fresh = known == OPEN
        if not fresh.any():
            raise BadFile(f"{options.labels} holds no label that {options.run} lacks; there is nothing to import")
        number = round_of(table.pairs[fresh], options.run, ledger)
        # A path may hold bytes that are not UTF-8.
        by = os.fsencode(options.labels).decode("utf-8", "backslashreplace")
        answers = make_answers(np.arange(int(fresh.sum())), table.labels[fresh], by)
        ledger.add_answers(number, answers)
        ledger.seal(number)
        matches, repeated = int((answers.labels == YES).sum()), int((known == table.labels).sum())
        print(f"round {number}: {len(answers.rows):,} labels, {matches:,} of them matches; {repeated:,} known before")
        for line in Report(tuple(faults.skipped), table.settled).lines():
            print(line)
        options_of_run = "" if (options.run / "config.json").exists() else " (add the options of the run)"
        print(f"to train on them{options_of_run}: {run_line(options.run, number, options.task)}")


def refuse_unused(run: StoragePath) -> None:
    """Raise BadOption for a run whose strategy chooses all of its pairs without a model: it trains on no other."""
    if (run / "config.json").exists():
        strategy = bound_config(run).strategy
        if not STRATEGIES[strategy].uses_model:
            raise BadOption(
                f"{run} is a run of the strategy {strategy}, which trains on the pairs that it chooses alone; import "
                "the labels into another run (--run)"
            )


def run_line(run: StoragePath, rounds: int, task: StoragePath | None) -> str:
    """Return the command that trains a run up to the last of these rounds; task: for a folder without a config.json."""
    out = shlex.quote(str(run))
    if not (run / "config.json").exists():
        return f"python -m jobs.run --task {shlex.quote(str(task))} --out {out}"
    if rounds > bound_config(run).rounds:
        return f"python -m jobs.run --out {out} --config {out} --rounds {rounds}"
    return f"python -m jobs.run --out {out} --config {out}"


def round_of(pairs: Pairs, run: StoragePath, ledger: Ledger) -> int:
    """Return the round of these imported pairs: a new one, or that of an import that was interrupted."""
    number = ledger.rounds
    if not number or ledger.sealed(number):
        ledger.add_batch(number + 1, Batch(pairs, np.full(len(pairs), np.nan), SOURCE))
        return number + 1
    batch = ledger.batch(number)
    assert batch is not None
    if batch.source != SOURCE:
        raise WrongFolder(f"round {number} of {run} waits for answers; answer it first, then import")
    if not np.array_equal(batch.pairs, pairs):
        raise WrongFolder(f"round {number} of {run} is an import that was interrupted; import the same table again")
    return number


def correct(options: Correct) -> None:
    """Correct the label of one pair, or those in a table."""
    with writing(options.run, None) as folder:
        pairs, labels = corrections(options, folder)
        changed = folder.ledger.correct(pairs, labels)
        print(f"corrected {changed:,} labels, {len(pairs) - changed:,} were correct; the next training uses them")


def corrections(options: Correct, folder: RunFolder) -> tuple[Pairs, Labels]:
    """Return the (k, 2) pairs to correct and their (k,) new labels."""
    left, right, label = options.left_id, options.right_id, options.label
    if options.labels is not None and (left, right, label) == (None, None, None):
        faults = BadRowLog(options.bad_rows, OR_SKIP)
        table = read_task_labels(options.labels, options.names, options.reading, folder.task, faults)
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
    with writing(options.run, None) as folder:
        ledger, number = folder.ledger, folder.last + 1
        if ledger.batch(number) is None or ledger.sealed(number):
            raise BadOption(f"{options.run} has no round that waits for labels; there is nothing to close")
        config = bound_config(options.run)
        if oracle_kind(config.oracle).people:
            with suppress(LabelsAwaited):
                buy_labels(number, ledger, make_oracle(OracleRequest(config, OracleConfig(), folder, no_progress)))
        left = 0 if ledger.sealed(number) else ledger.close(number)
        labels = ledger.labels(number)
        print(f"round {number} is closed with {int((labels != OPEN).sum()):,} labels; {left:,} pairs leave it")
        print(f"to train on them: python -m jobs.run --out {options.run} --config {options.run}")


@contextmanager
def writing(path: StoragePath, task: StoragePath | None) -> Iterator[RunFolder]:
    """Open a run folder for writing, with no other writer at the same time."""
    texts = task_of(path, task)
    refuse_inside(path, texts)
    with opened(path, read_task(texts)) as folder:
        yield folder


def task_of(path: StoragePath, task: StoragePath | None) -> StoragePath:
    """Return the task folder of a run folder: the one in its config.json, or for a new folder the one given."""
    if (path / "config.json").exists():
        bound = storage_path(bound_config(path).task)
        if task is not None and task.resolve() != bound.resolve():
            raise BadOption(f"--task {task}: {path} is a run of {bound}; leave --task out, or give another --run")
        return bound
    if task is None:
        raise BadOption(f"{path} holds no config.json: give a run folder, or for a new one the --task to import into")
    return task
