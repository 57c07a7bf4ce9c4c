"""A round reads its batch at most once, and its answers no more often than they change."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from al_ray.active_learning import labelling
from al_ray.core.errors import BadFile
from al_ray.core.labels import NO, YES, Answers, Batch, Model, State, make_answers
from al_ray.core.scorer import Scorer
from al_ray.core.task import Task
from al_ray.oracles.simulated import SimulatedOracle
from al_ray.runs import ledger_files, run_folder
from al_ray.runs.ledger import Ledger
from al_ray.runs.run_folder import RunFolder, opened

BATCH, LABELS, PIECE = "batch.parquet", "labels.parquet", "answers-00001.parquet"


@pytest.fixture
def reads(monkeypatch) -> Counter[str]:
    """How often the ledger read each Parquet file: ROUND/NAME in a folder of a round, else NAME."""
    count, read = Counter[str](), ledger_files.read_parquet

    def counted(path, *rest, **options):
        in_round = path.parent.name.startswith("round-")
        count[f"{path.parent.name}/{path.name}" if in_round else path.name] += 1
        return read(path, *rest, **options)

    monkeypatch.setattr(ledger_files, "read_parquet", counted)
    return count


@pytest.fixture
def folder(tmp_path: Path, task: Task) -> Iterator[RunFolder]:
    with opened(tmp_path / "run", task) as folder:
        yield folder


def batch_of(task: Task, number: int = 1) -> Batch:
    """Four pairs of train, other ones for each number."""
    space = task.split("train").space
    return Batch(space.pairs(space.at(np.arange(4) + 4 * number)), np.zeros(4), "near")


def bought(folder: RunFolder, number: int) -> None:
    """Choose and buy, as a run with the simulated oracle does."""
    folder.ledger.add_batch(number, batch_of(folder.task, number))
    labelling.label_batch(number, folder.ledger, SimulatedOracle(folder.task.split("train")))


def of_round(reads: Counter[str], number: int = 1) -> dict[str, int]:
    name = f"round-{number:03d}/"
    return {path.removeprefix(name): count for path, count in reads.items() if path.startswith(name)}


def test_a_round_that_this_process_chose_is_bought_without_a_read_of_its_batch(folder, reads):
    bought(folder, 1)
    # What the stage "label" asks for when it ends.
    assert folder.labels == 4
    assert reads[f"round-001/{BATCH}"] == 0
    # The piece for the labels to seal; what was sealed for the loop, and for `folder.labels`.
    assert of_round(reads) == {PIECE: 1, LABELS: 2}


def test_a_round_that_another_process_chose_is_read_once(folder, reads):
    Ledger(folder.path, folder.task).add_batch(1, batch_of(folder.task))
    labelling.label_batch(1, folder.ledger, SimulatedOracle(folder.task.split("train")))
    assert of_round(reads) == {BATCH: 1, PIECE: 1, LABELS: 1}


def test_a_round_that_is_sealed_already_is_read_once(folder, reads):
    bought(folder, 1)
    reads.clear()
    again = Ledger(folder.path, folder.task)
    labelling.label_batch(1, again, SimulatedOracle(folder.task.split("train")))
    assert of_round(reads) == {BATCH: 1, LABELS: 1}


def test_corrections_are_read_once_for_all_rounds(folder, reads):
    for number in (1, 2, 3):
        bought(folder, number)
    pairs = batch_of(folder.task, 2).pairs
    folder.ledger.correct(pairs[:1], 1 - folder.ledger.labels_of(pairs[:1]))
    reads.clear()
    assert Ledger(folder.path, folder.task).labels_of(pairs).tolist() == folder.ledger.labels(2).tolist()
    # Once for `held`, once for `labels`.
    assert reads["corrections-00001.parquet"] == 2
    assert [reads[f"round-{number:03d}/{BATCH}"] for number in (1, 2, 3)] == [1, 1, 1]


def test_labels_of_more_rounds_are_not_copied_more_often(folder, monkeypatch):
    sizes, join = list[int](), np.concatenate
    for number in range(1, 7):
        bought(folder, number)
    monkeypatch.setattr(np, "concatenate", lambda parts, *rest: sizes.append(len(parts)) or join(parts, *rest))
    copies = {}
    for last in (3, 6):
        sizes.clear()
        assert folder.ledger.labelled(last).rounds.tolist() == [number for number in range(1, last + 1) for _ in "four"]
        copies[last] = len(sizes)
    assert copies[3] == copies[6]


def test_a_round_is_recorded_with_one_read_of_the_metrics(folder, monkeypatch):
    reads, read = list[Path](), run_folder.read_lines
    monkeypatch.setattr(run_folder, "read_lines", lambda path: reads.append(path) or read(path))
    model = Model("model", "digest", Scorer(10.0, -5.0, 0.3, "fitted"))
    for number in (1, 2, 3):
        bought(folder, number)
        reads.clear()
        folder.record_round(State(number, folder.ledger.labelled(), model), {})
        assert len(reads) == 1
    assert [line["labels"] for line in folder.metrics()] == [4, 8, 12]


def test_a_batch_that_was_chosen_is_what_another_process_reads(folder):
    # Of nothing, too: then no row of the file says how it was chosen.
    for number, batch in ((1, batch_of(folder.task)), (2, Batch(np.empty((0, 2), dtype=np.int64), np.empty(0), "x"))):
        folder.ledger.add_batch(number, batch)
        here, there = folder.ledger.batch(number), Ledger(folder.path, folder.task).batch(number)
        assert there is not None
        assert here.source == there.source
        for mine, its in ((here.pairs, there.pairs), (here.cosines, there.cosines)):
            assert np.array_equal(mine, its)
            assert mine.dtype == its.dtype
            assert not mine.flags.writeable
            assert not its.flags.writeable


def test_a_batch_that_the_caller_changes_afterwards_stays_as_it_was_chosen(folder):
    batch = batch_of(folder.task)
    wanted = batch.pairs.copy()
    folder.ledger.add_batch(1, batch)
    batch.pairs[:] = 0
    assert np.array_equal(folder.ledger.batch(1).pairs, wanted)


@pytest.mark.parametrize("damage", ["cut", "gone", "another"])
def test_a_batch_that_is_changed_on_the_disk_is_noticed(folder, damage):
    bought(folder, 1)
    path = folder.round(1) / BATCH
    whole = path.read_bytes()
    if damage == "gone":
        path.unlink()
        assert folder.ledger.batch(1) is None
    elif damage == "cut":
        path.write_bytes(whole[:-9])
        for _ in range(2):
            with pytest.raises(BadFile, match=rf"{path} cannot be read .*; restore it"):
                folder.ledger.batch(1)
    else:
        table = pq.ParquetFile(path).read()
        pq.write_table(table.slice(1), path)
        with pytest.raises(BadFile, match=r"labels\.parquet holds other pairs than batch\.parquet beside it; restore"):
            folder.ledger.labels(1)
    path.write_bytes(whole)
    assert np.array_equal(folder.ledger.batch(1).pairs, batch_of(folder.task).pairs)


def test_who_only_reads_sees_at_each_call_what_the_writer_did(folder):
    reader, writer = Ledger(folder.path, folder.task), folder.ledger
    assert (reader.batch(1), reader.rounds) == (None, 0)
    writer.add_batch(1, batch_of(folder.task))
    chosen = reader.batch(1)
    assert chosen is not None
    assert (len(chosen.pairs), reader.rounds) == (4, 1)
    for row, label in enumerate((YES, NO, YES, NO)):
        writer.add_answers(1, said(row, label))
        assert reader.labels(1)[row] == label
        assert not reader.sealed(1)
    writer.seal(1)
    assert reader.sealed(1)
    writer.correct(batch_of(folder.task).pairs[:1], np.array([NO], dtype=np.uint8))
    assert reader.labels(1).tolist() == [NO, NO, YES, NO]


def said(row: int, label: int) -> Answers:
    return make_answers(np.array([row]), np.array([label], dtype=np.uint8), "me")
