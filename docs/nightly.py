"""Match new rows every night, suggest pairs to label, and train the next round on the answers (docs/production.md).

    python nightly.py --run /data/runs/products --known /data/products.csv --inbox /data/inbox --work /data/nightly

All state is in files: a step is done when its last file is there, and that file is written in one step. So the same
command goes on after a stop, wherever it stopped. WORK has

    rows/NAME.csv          tables that were taken from the inbox
    drift/NAME/            matches of such a table with itself, by which its drift was measured
    round-000/matches/     all matches, by the model of --run
    round-001/batch/       suggested.csv: pairs to label. Save the answers as round-001/labelled.csv
    round-001/task, run    all rows, and a run with the labels of the round before and the answers
    round-001/matches/     all matches, by the model of this round
"""

import argparse
import csv
import fcntl
import io
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow.parquet as pq

import al_ray

DONE = "done"
"""File that ends a round: matches of all rows by its model are there."""


@dataclass(frozen=True)
class Nightly:
    """Options: the first model, the table of the rows known so far, and where new tables come and results go.

    id_column: of all tables, which are CSV. suggest: number of pairs of a batch. after: number of rows that the model
    was not trained on, from which on a batch is suggested. drift: compare each table with the training texts.
    """

    run: Path
    known: Path
    inbox: Path
    work: Path
    id_column: str = "id"
    suggest: int = 100
    after: int = 1000
    drift: bool = True

    def round(self, number: int) -> Path:
        """Return the folder of a round."""
        return self.work / f"round-{number:03d}"

    def model(self, number: int) -> Path:
        """Return the run whose model is that of a round; round 0 has that of --run."""
        return self.round(number) / "run" if number else self.run

    @property
    def last(self) -> int:
        """Return the number of the last round that is done, -1 before the first night."""
        return sum((folder / DONE).exists() for folder in self.work.glob("round-???")) - 1


def night(job: Nightly) -> Iterator[str]:
    """Do the work of a night, and yield a line for each step."""
    if not job.inbox.is_dir():
        raise SystemExit(f"error: --inbox {job.inbox} is no folder; create it, or give its absolute path")
    job.work.mkdir(parents=True, exist_ok=True)
    with (job.work / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"error: another night is at work in {job.work}; wait for its end") from None
        yield from steps(job)


def steps(job: Nightly) -> Iterator[str]:
    """Do each step that is due, and yield a line for each."""
    if job.last < 0:
        # The matches of the known rows, into which new rows are matched.
        yield from finish(job, 0, job.known)
    if (job.round(job.last + 1) / "labelled.csv").exists():
        yield from train(job, job.last + 1)
    for table in sorted(job.inbox.glob("*.csv")):
        yield from take(job, table)
    yield from suggest(job, job.last + 1)


def take(job: Nightly, table: Path) -> Iterator[str]:
    """Match the rows of a new table with all rows and with each other, and take the table from the inbox."""
    taken = job.work / "rows" / table.name
    if taken.exists():
        raise SystemExit(f"error: {table}: {taken} was taken on an earlier night; give the new table another name")
    # A table of one row has no pairs to compare.
    if job.drift and len(read(job, table)) > 1:
        # The rest of a stopped night, whose table may have been another.
        shutil.rmtree(job.work / "drift" / table.stem, ignore_errors=True)
        options = al_ray.MatchOptions(left=table, at_boundary=True)
        compared = al_ray.match(job.model(job.last), options, job.work / "drift" / table.stem)
        yield from (line for line in compared.summary if line.startswith("drift"))
    # Once more after a stop it changes nothing.
    found = al_ray.match_into(job.round(job.last) / "matches", al_ray.MatchOptions(left=table))
    yield f"{table.name}: {found.record['texts']['new']:,} new rows; now {found.record['matches']:,} matches"
    taken.parent.mkdir(exist_ok=True)
    os.replace(table, taken)


def suggest(job: Nightly, number: int) -> Iterator[str]:
    """Write pairs to label next, unless a batch waits for answers or the model was trained on almost all rows."""
    batch, answers = job.round(number) / "batch" / "suggested.csv", job.round(number) / "labelled.csv"
    if not batch.exists():
        rows = merged(job)
        trained = merged(job, known_only=True) if number == 1 else read(job, job.round(number - 1) / "rows.csv")
        new = len(rows.keys() - trained.keys())
        if not job.suggest or new < job.after:
            return
        # The rows of this moment, so that the step can go on after a stop, whatever came since.
        table = frozen(job.round(number) / "suggested-of.csv", rows)
        options = al_ray.MatchOptions(left=table, at_boundary=True, suggest=job.suggest)
        al_ray.match(job.model(number - 1), options, batch.parent)
    yield f"label {batch}, and save it as {answers}"


def train(job: Nightly, number: int) -> Iterator[str]:
    """Train on the labels of the round before and on the answers, and match all rows by the new model."""
    before, folder = job.model(number - 1), job.round(number)
    rows = frozen(folder / "rows.csv", merged(job))
    config = al_ray.load_run(before).config
    task = al_ray.prepare(al_ray.extension_of(config.task, rows), folder / "task").task
    if not (folder / "imported").exists():
        # Of an import that was stopped; the labels are in the run before and in the answers.
        shutil.rmtree(folder / "run", ignore_errors=True)
        labels = every_label(folder, before, dict(zip(task.left.ids, task.left.texts, strict=True)))
        imported = al_ray.import_labels(folder / "run", labels, task=folder / "task", columns="left_id,right_id,label")
        yield f"round {number}: {imported.labels} labels, {imported.matches} of them matches"
        (folder / "imported").touch()
    # The one round of the run is the import: no label is bought.
    al_ray.run(replace(config, task=str(folder / "task"), rounds=1), folder / "run")
    yield from finish(job, number, rows)


def finish(job: Nightly, number: int, rows: Path) -> Iterator[str]:
    """Match all rows by the model of a round, which ends the round."""
    found = al_ray.match(
        job.model(number), al_ray.MatchOptions(left=rows, at_boundary=True, drift=False), job.round(number) / "matches"
    )
    (job.round(number) / DONE).touch()
    yield f"round {number}: {found.record['matches']:,} matches of all rows by {job.model(number)}"


def every_label(folder: Path, before: Path, texts: Mapping[str, str]) -> Path:
    """Write the answers of a round and the labels of the run before in one table; texts: of the new task, by id."""
    old, answers, every = folder / "labels-before.csv", folder / "labelled.csv", folder / "labels.csv"
    al_ray.export_labels(al_ray.load_run(before), old, every_column=True)
    with old.open(newline="", encoding="utf-8") as file:
        rows = [
            (row["left_id"], row["right_id"], row["answer"])
            for row in csv.DictReader(file)
            # A label does not hold for a text that has changed since.
            if (texts[row["left_id"]], texts[row["right_id"]]) == (row["sentence1"], row["sentence2"])
        ]
    given = answers_of(answers)
    # By the code of a pair, because spreadsheets change ids such as 007, and with the texts that people saw.
    for shown in pq.read_table(folder / "batch" / "suggested.parquet").to_pylist():
        left, right, label = shown["left_id"], shown["right_id"], given.pop(shown["pair"], "")
        if label and (texts.get(left), texts.get(right)) == (shown["left_text"], shown["right_text"]):
            rows.append((left, right, label))
    if given:
        raise SystemExit(f"error: {answers}: {next(iter(given))!r} is no pair of {folder / 'batch'}; delete its row")
    with every.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("left_id", "right_id", "label"), *rows])
    return every


def answers_of(sheet: Path) -> dict[str, str]:
    """Return the answers that people gave in a sheet, by the codes of pairs."""
    content = sheet.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        # As a spreadsheet has saved it; codes and answers are the same in any of these encodings.
        text = content.decode("latin-1")
    reader, given = csv.DictReader(io.StringIO(text, newline="")), dict[str, str]()
    if not {"pair", "label"} <= set(reader.fieldnames or ()):
        raise SystemExit(f"error: {sheet} lacks one of the columns pair, label; save it with commas (CSV)")
    for row in reader:
        label = (row["label"] or "").strip()
        if label and given.setdefault(row["pair"], label) != label:
            raise SystemExit(f"error: {sheet} has two answers to {row['pair']!r}; keep one of them")
    return given


Rows = dict[str, dict[str, str]]


def merged(job: Nightly, known_only: bool = False) -> Rows:
    """Return all rows by id; a later table replaces rows of an earlier one."""
    later = [] if known_only else sorted((job.work / "rows").glob("*.csv"))
    return {id_: row for table in (job.known, *later) for id_, row in read(job, table).items()}


def read(job: Nightly, table: Path) -> Rows:
    """Return the rows of a table by id."""
    with table.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        if job.id_column not in (reader.fieldnames or ()):
            raise SystemExit(f"error: {table} has no column {job.id_column}; name that of the ids: --id-column")
        return {row[job.id_column]: row for row in reader}


def frozen(path: Path, rows: Rows) -> Path:
    """Write rows to a table in one step, unless it is there from before a stop."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(".aside")
        with aside.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(next(iter(rows.values()))), extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows.values())
        os.replace(aside, path)
    return path


def main() -> None:
    """Read the options, and do the work of a night."""
    parser = argparse.ArgumentParser(description="Match new rows, suggest pairs to label, train the next round.")
    parser.add_argument("--run", type=Path, required=True, help="run whose model is the first one")
    parser.add_argument("--known", type=Path, required=True, help="table (CSV) of the rows on which it was trained")
    parser.add_argument("--inbox", type=Path, required=True, help="folder of new tables; they are moved away")
    parser.add_argument("--work", type=Path, required=True, help="folder for everything that the nights write")
    parser.add_argument("--id-column", default="id", help="column of the ids in all tables (id)")
    parser.add_argument("--suggest", type=int, default=100, help="pairs of a batch to label; 0: no batch (100)")
    parser.add_argument("--after", type=int, default=1000, help="new rows from which on a batch is suggested (1000)")
    parser.add_argument("--no-drift", dest="drift", action="store_false", help="do not compare with training texts")
    job = Nightly(**vars(parser.parse_args()))
    try:
        for line in night(job):
            print(line, flush=True)
    except al_ray.AlRayError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
