"""The ledger keeps every label that was bought, as it was said, and every correction, whatever happens on the way."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from al_ray.active_learning import labelling
from al_ray.core.errors import BadFile
from al_ray.core.labels import NO, OPEN, UNSURE, YES, Answers, Batch, make_answers
from al_ray.core.pairs import Pairs, as_pairs
from al_ray.core.scorer import Labels
from al_ray.core.task import Corpus, Task
from al_ray.datasets.task_folder import sealed
from al_ray.oracles.simulated import SimulatedOracle
from al_ray.runs import ledger_files
from al_ray.runs.ledger import Ledger
from al_ray.runs.ledger_files import open_pairs

MakeTask = Callable[..., Task]


def pairs_of(task: Task, number: int, count: int = 3) -> Pairs:
    """Pairs of train, other ones for each number; of a symmetric task the last is the first, the other way round."""
    space = task.split("train").space
    pairs = space.pairs(space.at(np.arange(count) + count * (number % 100)))
    return np.concatenate([pairs, pairs[:1, ::-1]]) if task.symmetric else pairs


def batch_of(task: Task, number: int = 1) -> Batch:
    pairs = pairs_of(task, number)
    cosines = np.full(len(pairs), np.nan) if number == 1 else np.linspace(-1, 1, len(pairs)) / 3
    return Batch(pairs, cosines, f"strategy-{number}")


def said(*labels: int) -> Labels:
    return np.array(labels, dtype=np.uint8)


def piece(rows: list[int], labels: list[int], cost: float = 0.0, by: str = "me") -> Answers:
    return Answers(np.array(rows, dtype=np.int64), said(*labels), by, np.linspace(0, 1, len(rows)), cost)


@pytest.fixture
def book(tmp_path: Path, task: Task) -> Ledger:
    return Ledger(tmp_path / "run", task)


def again(book: Ledger) -> Ledger:
    """What a new process sees."""
    return Ledger(book.path, book.task)


def bought(book: Ledger, number: int, labels: Labels) -> Batch:
    batch = batch_of(book.task, number)
    book.add_batch(number, batch)
    book.add_answers(number, make_answers(np.arange(len(labels)), labels, "test"))
    book.seal(number)
    return batch


def mixed(task: Task) -> Labels:
    """A label for each pair of batch_of."""
    return said(YES, NO, UNSURE, YES)[: len(batch_of(task).pairs)]


def test_pairs_are_not_those_of_a_task_with_the_same_ids_and_other_texts(book: Ledger):
    """As in a folder of imported labels, which has no config.json: they were given to the texts that people saw."""
    task, batch = book.task, bought(book, 1, mixed(book.task))
    left = Corpus(task.left.ids, ("of another kind", *task.left.texts[1:]))
    other = sealed(task.name, task.symmetric, left, left if task.symmetric else task.right, task.splits)
    for read in (lambda ledger: ledger.batch(1), lambda ledger: ledger.labelled(), lambda ledger: ledger.answers(1)):
        with pytest.raises(BadFile, match=r"batch.parquet has pairs of another task than .* is now.*restore that task"):
            list(read(Ledger(book.path, other)) or [])
    path = book.round(1) / "batch.parquet"
    pq.write_table(pq.read_table(path).replace_schema_metadata(None), path)
    chosen = Ledger(book.path, other).batch(1)
    assert chosen is not None, "earlier versions wrote no digest"
    assert np.array_equal(chosen.pairs, batch.pairs)


def test_what_was_chosen_and_said_comes_back(book: Ledger):
    for number in (1, 2):
        batch = bought(book, number, mixed(book.task))
        chosen = again(book).batch(number)
        assert chosen is not None
        assert np.array_equal(chosen.pairs, batch.pairs)
        assert chosen.pairs.dtype == np.int64
        assert np.array_equal(chosen.cosines, batch.cosines, equal_nan=True)
        assert chosen.source == batch.source
        labels = again(book).labels(number)
        assert labels.tolist() == mixed(book.task).tolist()
        assert labels.dtype == np.uint8
    assert again(book).rounds == 2
    assert again(book).batch(3) is None


def test_the_files_are_what_they_are_said_to_be(book: Ledger):
    batch = bought(book, 1, mixed(book.task))
    kept = pq.read_table(book.round(1) / "labels.parquet")
    assert kept.schema.names == ["left", "right", "label", "round", "source"]
    assert [str(kind) for kind in kept.schema.types] == ["int64", "int64", "uint8", "int32", "string"]
    assert kept["label"].to_pylist() == [1, 0, None, 1][: len(batch.pairs)]
    assert set(kept["round"].to_pylist()) == {1}
    assert set(kept["source"].to_pylist()) == {"strategy-1"}
    chosen = pq.read_table(book.round(1) / "batch.parquet")
    assert chosen.schema.names == ["left", "right", "left_id", "right_id", "score", "source"]
    assert chosen["left_id"].to_pylist() == [book.task.left.ids[row] for row in batch.pairs[:, 0]]
    assert chosen["right_id"].to_pylist() == [book.task.right.ids[row] for row in batch.pairs[:, 1]]
    # NaN says that nobody computed one; null would say that it was lost.
    assert chosen["score"].null_count == 0


def test_a_batch_of_an_earlier_version_whose_score_is_called_cosine_is_read(book: Ledger):
    bought(book, 1, mixed(book.task))
    path = book.round(1) / "batch.parquet"
    table = pq.read_table(path)
    scores = np.arange(len(table)) / 10
    pq.write_table(table.set_column(4, "cosine", [scores]), path)
    found = again(book).batch(1)
    assert found is not None
    assert found.cosines.tolist() == scores.tolist()
    assert open_pairs(book.round(1)) == 0
    pq.write_table(table.rename_columns({"score": "p"}), path)
    with pytest.raises(BadFile, match=r"batch.parquet holds .* p, source, not what this al_ray wrote"):
        again(book).batch(1)


def test_a_batch_of_nothing_is_a_round(book: Ledger):
    book.add_batch(1, Batch(np.empty((0, 2), dtype=np.int64), np.empty(0), "random"))
    book.add_answers(1, piece([], []))
    book.seal(1)
    assert again(book).labels(1).shape == (0,)
    chosen = again(book).batch(1)
    assert chosen is not None
    assert chosen.pairs.shape == (0, 2)
    assert (book.rounds, book.cost(), book.sealed(1)) == (1, 0.0, True)
    assert book.labels_of(pairs_of(book.task, 1)).tolist() == [OPEN] * len(pairs_of(book.task, 1))


def test_the_last_answer_holds_and_an_unreadable_one_takes_nothing_back(book: Ledger):
    book.add_batch(1, batch_of(book.task))
    rest = len(batch_of(book.task).pairs) - 2
    assert book.labels(1).tolist() == [OPEN] * (rest + 2)
    book.add_answers(1, piece([1], [YES], by="first"))
    book.add_answers(1, piece([0, 1], [UNSURE, OPEN], by="second"))
    assert again(book).labels(1).tolist() == [UNSURE, YES] + [OPEN] * rest
    book.add_answers(1, piece([1, 0], [NO, OPEN]))
    assert again(book).labels(1).tolist() == [UNSURE, NO] + [OPEN] * rest
    history = list(again(book).answers(1))
    assert [(p.by, p.rows.tolist(), p.labels.tolist()) for p in history] == [
        ("first", [1], [YES]), ("second", [0, 1], [UNSURE, OPEN]), ("me", [1, 0], [NO, OPEN]),
    ]  # fmt: skip
    assert history[1].confidences.tolist() == [0.0, 1.0]


def test_costs_add_up_over_pieces_and_rounds(book: Ledger):
    for number in (1, 2):
        book.add_batch(number, batch_of(book.task, number))
        book.add_answers(number, piece([0, 1, 2], [NO, OPEN, OPEN], cost=0.75))
    book.add_answers(2, piece([1], [OPEN], cost=0.5))
    # 0.75 in each round, and 0.5 for an answer that nobody could read.
    assert again(book).cost() == 2.0


def test_a_death_between_the_last_answer_and_the_seal_loses_nothing(book: Ledger):
    book.add_batch(1, batch_of(book.task))
    labels = mixed(book.task)
    for row, label in enumerate(labels.tolist()):
        assert not again(book).sealed(1)
        again(book).add_answers(1, piece([row], [label]))
    assert again(book).labels(1).tolist() == labels.tolist()
    again(book).seal(1)
    path = Path(str(book.round(1) / "labels.parquet"))
    written = path.stat()
    again(book).seal(1)
    assert path.stat() == written, "what is sealed is not written again"
    assert again(book).labels(1).tolist() == labels.tolist()


def test_a_correction_holds_and_the_history_keeps_both(book: Ledger):
    batch = bought(book, 1, mixed(book.task))
    assert book.correct(batch.pairs[1:3], said(YES, UNSURE)) == 1, "the third was unsure already"
    assert book.correct(batch.pairs[1:2], said(UNSURE)) == 1
    bought(book, 2, mixed(book.task))
    assert book.correct(batch.pairs[1:2], said(NO)) == 1
    assert again(book).labels(1).tolist() == mixed(book.task).tolist(), "no, yes, unsure, and no again"
    rows = [row for table in book.corrections() for row in table.to_pylist()]
    assert [(row["was"], row["label"], row["after"]) for row in rows] == [(0, 1, 1), (1, 2, 1), (2, 0, 2)]
    kept = pq.read_table(book.round(1) / "labels.parquet")["label"].to_pylist()
    assert kept == [1, 0, None, 1][: len(batch.pairs)], "as first answered"


def test_a_correction_before_the_seal_leaves_the_answer_as_it_was_given(book: Ledger):
    batch = batch_of(book.task)
    book.add_batch(1, batch)
    book.add_answers(1, piece([1], [NO]))
    assert book.labels_of(batch.pairs[:2]).tolist() == [OPEN, NO]
    book.correct(batch.pairs[1:2], said(YES))
    assert (book.labels(1)[1], book.first_labels(1)[1]) == (YES, NO)
    book.add_answers(1, piece([0, 1, 2, 3][: len(batch.pairs)], [NO] * len(batch.pairs)))
    book.seal(1)
    assert pq.read_table(book.round(1) / "labels.parquet")["label"].to_pylist() == [0] * len(batch.pairs)
    assert again(book).labels(1)[1] == YES


def test_a_correction_is_of_the_pair_either_way_round(tmp_path: Path, make_task: MakeTask):
    book = Ledger(tmp_path, make_task(True))
    batch = bought(book, 1, said(YES, NO, NO, NO))
    # The first pair and the last are one, and were answered otherwise: to say no changes the first answer.
    assert book.labels_of(batch.pairs[[0, 3]]).tolist() == [NO, NO]
    assert book.correct(batch.pairs[3:], said(NO)) == 1
    assert book.labels(1).tolist() == [NO, NO, NO, NO]
    assert book.correct(batch.pairs[1:2, ::-1], said(YES)) == 1
    assert book.labels(1).tolist() == [NO, YES, NO, NO]
    assert book.correct(batch.pairs[[0, 3]], said(YES, UNSURE)) == 1, "one pair, given twice: the last holds"
    assert book.labels(1).tolist() == [UNSURE, YES, NO, UNSURE]


def test_an_open_question_does_not_hide_an_earlier_answer(tmp_path: Path, make_task: MakeTask):
    book = Ledger(tmp_path, make_task(True))
    batch = bought(book, 1, said(NO, YES, NO, NO))
    book.add_batch(2, Batch(batch.pairs[1:2, ::-1], np.zeros(1), "uncertainty"))
    assert book.labels_of(batch.pairs[1:2]).tolist() == [YES]


def test_a_correction_of_a_pair_does_not_stand_for_an_answer_the_other_way_round(tmp_path: Path, make_task: MakeTask):
    # With --search.ordered_pairs (b, a) is chosen in a later round than (a, b), which was corrected meanwhile.
    task = make_task(True)
    book, oracle, pair = Ledger(tmp_path, task), SimulatedOracle(task.split("train")), pairs_of(task, 1)[:1]
    answer = YES if task.split("train").space.keys(pair)[0] in task.split("train").positive_keys else NO
    book.add_batch(1, Batch(pair, np.zeros(1), "seed"))
    assert labelling.label_batch(1, book, oracle)[1].tolist() == [answer]
    book.correct(pair, said(UNSURE))
    book.add_batch(2, Batch(pair[:, ::-1], np.zeros(1), "uncertainty"))
    assert book.labels(2).tolist() == [OPEN], "nobody was asked in this order"
    assert book.labels_of(pair[:, ::-1]).tolist() == [UNSURE]
    for _ in range(2):
        # A second time, as a resumed run does: nothing is bought twice.
        assert labelling.label_batch(2, again(book), oracle)[1].tolist() == [UNSURE], (
            "the correction stands over every answer"
        )
        assert oracle.labels_given == 2
    assert again(book).sealed(2)
    assert pq.read_table(book.round(2) / "labels.parquet")["label"].to_pylist() == [answer], "as first answered"


def test_a_pair_without_label_cannot_be_corrected(book: Ledger):
    batch = bought(book, 1, mixed(book.task))
    stranger = pairs_of(book.task, 5)[:1]
    assert book.labels_of(stranger).tolist() == [OPEN]
    name = book.task.left.ids[stranger[0, 0]]
    with pytest.raises(BadFile, match=rf"the pair {name}, .* has no label.*nothing was corrected"):
        book.correct(np.concatenate([batch.pairs[:1], stranger]), said(NO, YES))
    assert book.labels(1).tolist() == mixed(book.task).tolist()
    assert book.correct(batch.pairs[:1], mixed(book.task)[:1]) == (1 if mixed(book.task)[0] != YES else 0)
    assert list(book.path.glob("corrections-*")) == []


class Crowded(type(Path())):
    """A folder with more answers than its names have digits for."""

    def glob(self, pattern: str):
        """In no order."""
        assert pattern == "answers-*.parquet"
        return (self / f"answers-{number:05d}.parquet" for number in range(100_002, 0, -1))


def test_a_hundred_thousand_pieces_stay_in_order():
    last = [path.name for path in ledger_files.pieces_of(Crowded(), "answers")[-4:]]
    assert last == [f"answers-{number}.parquet" for number in ("99999", "100000", "100001", "100002")]


def test_a_thousand_rounds_are_no_matter(tmp_path: Path, make_task: MakeTask):
    book = Ledger(tmp_path, make_task(False))
    for number in range(1, 1000):
        folder = tmp_path / book.round(number).name
        folder.mkdir(parents=True)
        (folder / "batch.parquet").touch()
    bought(book, 1000, said(YES, NO, UNSURE))
    assert book.rounds == 1000
    assert again(book).labels(1000).tolist() == [YES, NO, UNSURE]


class Twin:
    """The same in lists and a dict: what was answered by round and row, and what was corrected by pair."""

    def __init__(self, symmetric: bool, pairs: dict[int, list[list[int]]]) -> None:
        self.key = frozenset[int] if symmetric else tuple[int, ...]
        self.pairs, self.corrected = pairs, dict[object, int]()
        self.said = {number: [OPEN] * len(rows) for number, rows in pairs.items()}

    def labels(self, number: int) -> list[int]:
        both = zip(self.pairs[number], self.said[number], strict=True)
        return [OPEN if label == OPEN else self.corrected.get(self.key(pair), label) for pair, label in both]

    def all_of(self, pair: list[int]) -> list[int]:
        """What is said of a pair, either way round, by round and row: the last holds."""
        every = [(p, label) for n in self.pairs for p, label in zip(self.pairs[n], self.labels(n), strict=True)]
        return [label for p, label in every if self.key(p) == self.key(pair) and label != OPEN]


STEP = st.tuples(
    st.sampled_from(["keep", "keep", "seal", "correct"]),
    st.integers(1, 2),
    st.dictionaries(st.integers(0, 2), st.sampled_from([NO, YES, UNSURE, OPEN]), max_size=3),
)
Step = tuple[str, int, dict[int, int]]


def take(step: Step, book: Ledger, twin: Twin) -> None:
    """One step, in both."""
    act, number, given_ = step
    if act == "keep" and not book.sealed(number):
        book.add_answers(number, piece(list(given_), list(given_.values())))
        for row, label in given_.items():
            twin.said[number][row] = twin.said[number][row] if label == OPEN else label
    elif act == "seal" and OPEN not in twin.said[number]:
        book.seal(number)
    elif act == "correct":
        rows = {row: label for row, label in given_.items() if label != OPEN}
        pairs = [twin.pairs[number][row] for row in rows]
        wanted = as_pairs([pair[0] for pair in pairs], [pair[1] for pair in pairs])
        if not all(map(twin.all_of, pairs)):
            with pytest.raises(BadFile):
                book.correct(wanted, said(*rows.values()))
            return
        last = {twin.key(pair): (pair, label) for pair, label in zip(pairs, rows.values(), strict=True)}
        change = [key for key, (pair, label) in last.items() if set(twin.all_of(pair)) != {label}]
        assert book.correct(wanted, said(*rows.values())) == len(change)
        twin.corrected |= {key: last[key][1] for key in change}


@pytest.mark.parametrize("symmetric", [True, False])
@settings(max_examples=30)
@given(steps=st.lists(STEP, max_size=12))
def test_any_sequence_is_as_lists_would_have_it(make_task: MakeTask, symmetric: bool, steps: list[Step]):
    task = make_task(symmetric)
    one, two = pairs_of(task, 1)[-3:], pairs_of(task, 2)[:3]
    if symmetric:
        # The other way round in one round, (a, b) and (b, a), and in the next.
        one, two = pairs_of(task, 1, 2), np.concatenate([two[:2], one[:1, ::-1]])
    with TemporaryDirectory() as folder:
        book, twin = Ledger(Path(folder), task), Twin(symmetric, {1: one.tolist(), 2: two.tolist()})
        for number, pairs in ((1, one), (2, two)):
            book.add_batch(number, Batch(pairs, np.zeros(3), "near"))
        for step in steps:
            take(step, again(book), twin)
            for number, pairs in ((1, one), (2, two)):
                assert book.labels(number).tolist() == twin.labels(number)
                assert book.labels_of(pairs).tolist() == [([OPEN, *twin.all_of(pair)])[-1] for pair in pairs.tolist()]


def test_a_split_without_pairs_has_no_labels(tmp_path, make_task):
    # small_task has no test pairs; jobs.match reads the labels of dev of a task that may have none.
    assert len(Ledger(tmp_path, make_task(True), "test").labelled()) == 0
