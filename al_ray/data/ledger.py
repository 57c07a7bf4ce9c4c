"""The ledger of a run: which pairs were chosen, what was said of them, when and by whom. Nothing in it is ever changed.

round-NNN/batch.parquet            the pairs chosen: left, right (rows), left_id, right_id, cosine, source
round-NNN/answers-KKKKK.parquet    a piece of answers, as it came: row (of the batch), answer, by, confidence, cost
round-NNN/labels.parquet           left, right, label (null: unsure), round, source: the whole round, as first answered
corrections-KKKKK.parquet          what was said wrongly, and what is right: left, right, was, label, after (round)

Of several answers or corrections of a pair the last holds, a correction over every answer, and all are kept.
"""

from collections.abc import Iterator
from typing import NoReturn

import numpy as np
import pyarrow as pa

from al_ray.core.errors import BadFile
from al_ray.core.pairs import NO_KEYS, Keys, Pairs, PairSpace, as_pairs
from al_ray.core.records import NO, OPEN, UNSURE, YES, Answers, Batch
from al_ray.core.scoring import Labels
from al_ray.core.task import Task
from al_ray.data.files import read_parquet, write_parquet
from al_ray.storage.places import Place

WORDS = {NO: "no", YES: "yes", UNSURE: "unsure", OPEN: "unreadable"}
CODES = {word: code for code, word in WORDS.items()}

BATCH = pa.schema(
    [
        *(("left", pa.int64()), ("right", pa.int64()), ("left_id", pa.string()), ("right_id", pa.string())),
        *(("cosine", pa.float64()), ("source", pa.string())),
    ]
)
LABELS = pa.schema(
    [("left", pa.int64()), ("right", pa.int64()), ("label", pa.uint8()), ("round", pa.int32()), ("source", pa.string())]
)
ANSWERS = pa.schema(
    [
        *(("row", pa.int64()), ("answer", pa.string()), ("by", pa.string())),
        *(("confidence", pa.float64()), ("cost", pa.float64())),
    ]
)
CORRECTIONS = pa.schema(
    [("left", pa.int64()), ("right", pa.int64()), ("was", pa.uint8()), ("label", pa.uint8()), ("after", pa.int32())]
)


class Ledger:
    """Keeps what was chosen and bought (core/ports.py)."""

    def __init__(self, path: Place, task: Task) -> None:
        """The folder of a run of a task."""
        self.path, self.task = path, task

    @property
    def space(self) -> PairSpace:
        """The pairs that can be chosen: in a symmetric task (a, b) and (b, a) are one."""
        return self.task.split("train").space

    def round(self, number: int) -> Place:
        """The folder of a round."""
        return self.path / f"round-{number:03d}"

    @property
    def rounds(self) -> int:
        """How many rounds have a batch."""
        number = 0
        while (self.round(number + 1) / "batch.parquet").exists():
            number += 1
        return number

    def chosen(self, number: int) -> Batch | None:
        """The batch of a round, once it is chosen."""
        path = self.round(number) / "batch.parquet"
        if not path.exists():
            return None
        table = _read(path, BATCH)
        pairs, sources = self._pairs(path, table), table["source"].unique().to_pylist()
        if (table["left_id"].to_pylist(), table["right_id"].to_pylist()) != self._ids(pairs):
            _refuse(path, "holds other ids than the task has")
        if len(sources) > 1 or len(np.unique(pairs, axis=0)) < len(pairs):
            _refuse(path, "holds a pair twice, or pairs of two sources")
        return Batch(pairs, table["cosine"].to_numpy(), str(sources[0]) if sources else "")

    def choose(self, number: int, batch: Batch) -> None:
        """Keep a batch; a round has one."""
        assert self.chosen(number) is None
        left_ids, right_ids = self._ids(batch.pairs)
        columns = {
            "left": batch.pairs[:, 0],
            "right": batch.pairs[:, 1],
            "left_id": left_ids,
            "right_id": right_ids,
            "cosine": batch.cosines,
            "source": [batch.source] * len(batch.pairs),
        }
        write_parquet(self.round(number) / "batch.parquet", pa.table(columns, schema=BATCH))

    def labels(self, number: int) -> Labels:
        """(n,) what holds of the batch of a round; OPEN where nothing is said yet."""
        batch = self.chosen(number)
        assert batch is not None
        labels, keys = self.told(number), self.space.keys(batch.pairs)
        for table in self.corrections():
            pairs = as_pairs(table["left"].to_numpy(), table["right"].to_numpy())
            corrected = last_said(self.space.keys(pairs), table["label"].to_numpy(), keys)
            labels = np.where(corrected != OPEN, corrected, labels)
        return labels

    def told(self, number: int) -> Labels:
        """(n,) what was answered of the batch of a round, corrections aside; OPEN where nothing was."""
        batch = self.chosen(number)
        assert batch is not None
        if self.sealed(number):
            return self._sealed(number, batch)
        told = np.full(len(batch.pairs), OPEN, dtype=np.uint8)
        for piece in self.answers(number):
            read = piece.labels != OPEN
            told[piece.rows[read]] = piece.labels[read]
        return told

    def answers(self, number: int) -> Iterator[Answers]:
        """The pieces of a round, in the order in which they came."""
        batch = self.chosen(number)
        assert batch is not None
        for path in _pieces(self.round(number), "answers"):
            table = _read(path, ANSWERS)
            rows, said = table["row"].to_numpy(), table["answer"].to_pylist()
            if not set(said) <= set(CODES):
                _refuse(path, f"holds other answers than {', '.join(CODES)}")
            if ((rows < 0) | (rows >= len(batch.pairs))).any():
                _refuse(path, f"answers more rows than the {len(batch.pairs):,} of its batch")
            labels = np.array([CODES[word] for word in said], dtype=np.uint8)
            by, cost = str(table["by"][0]) if len(said) else "", float(table["cost"].to_numpy().sum())
            yield Answers(rows, labels, by, table["confidence"].to_numpy(), cost)

    def keep(self, number: int, answers: Answers) -> None:
        """Write a piece of answers; its cost is spread over its rows."""
        count, pieces = len(answers.rows), len(_pieces(self.round(number), "answers"))
        assert count or not answers.cost
        assert not self.sealed(number)
        columns = {
            "row": answers.rows,
            "answer": [WORDS[label] for label in answers.labels.tolist()],
            "by": [answers.by] * count,
            "confidence": answers.confidences,
            "cost": np.full(count, answers.cost / max(1, count)),
        }
        write_parquet(self.round(number) / _piece("answers", pieces + 1), pa.table(columns, schema=ANSWERS))

    def seal(self, number: int) -> None:
        """Write the labels of a round of which every pair is answered; a sealed round stays as it is."""
        batch, told = self.chosen(number), self.told(number)
        assert batch is not None
        if self.sealed(number):
            return
        assert not (told == OPEN).any()
        columns = {
            "left": batch.pairs[:, 0],
            "right": batch.pairs[:, 1],
            "label": pa.array(told, mask=told == UNSURE),
            "round": np.full(len(told), number, dtype=np.int32),
            "source": [batch.source] * len(told),
        }
        write_parquet(self.round(number) / "labels.parquet", pa.table(columns, schema=LABELS))

    def sealed(self, number: int) -> bool:
        """Whether every pair of a round is answered, and kept so."""
        return (self.round(number) / "labels.parquet").exists()

    def cost(self) -> float:
        """What all answers cost."""
        return sum(piece.cost for number in range(1, self.rounds + 1) for piece in self.answers(number))

    def correct(self, pairs: Pairs, labels: Labels) -> int:
        """Say something else of (k, 2) labelled pairs: (k,) NO, YES or UNSURE. Returns how many it changes.

        Of a pair given twice the last holds. BadFile for a pair that has no label yet: then none is changed.
        """
        wanted, (keys, said) = self.space.keys(pairs), self._said()
        was = last_said(keys, said, wanted)
        for left, right in pairs[was == OPEN]:
            raise BadFile(
                f"the pair {self.task.left.ids[left]}, {self.task.right.ids[right]} has no label yet that could be "
                "corrected; leave it out (nothing was corrected)"
            )
        # Of a pair that was asked both ways round, one answer may be right already.
        change = (was != labels) | (last_said(keys[::-1], said[::-1], wanted) != labels)
        last = len(wanted) - 1 - np.unique(wanted[::-1], return_index=True)[1]
        change &= np.isin(np.arange(len(wanted)), last)
        if change.any():
            columns = {
                "left": pairs[change, 0],
                "right": pairs[change, 1],
                "was": was[change],
                "label": labels[change],
                "after": np.full(int(change.sum()), self.rounds, dtype=np.int32),
            }
            piece = _piece("corrections", len(_pieces(self.path, "corrections")) + 1)
            write_parquet(self.path / piece, pa.table(columns, schema=CORRECTIONS))
        return int(change.sum())

    def held(self, pairs: Pairs) -> Labels:
        """(k, 2) pairs -> (k,) what holds of each; OPEN for one that was never asked or is not answered."""
        return last_said(*self._said(), self.space.keys(pairs))

    def corrections(self) -> Iterator[pa.Table]:
        """All of them, in the order in which they were made."""
        for path in _pieces(self.path, "corrections"):
            table = _read(path, CORRECTIONS)
            self._pairs(path, table)
            for name in ("was", "label"):
                if not set(table[name].to_pylist()) <= {NO, YES, UNSURE}:
                    _refuse(path, f"holds a {name} that is no label")
            yield table

    def _said(self) -> tuple[Keys, Labels]:
        """Keys (n,) and labels (n,) of all that is answered, in the order bought, as it holds now."""
        keys, labels = [NO_KEYS], [np.empty(0, dtype=np.uint8)]
        for number in range(1, self.rounds + 1):
            batch, said = self.chosen(number), self.labels(number)
            assert batch is not None
            keys.append(self.space.keys(batch.pairs)[said != OPEN])
            labels.append(said[said != OPEN])
        return np.concatenate(keys), np.concatenate(labels)

    def _sealed(self, number: int, batch: Batch) -> Labels:
        """The labels as they were first bought, once every pair was answered."""
        path = self.round(number) / "labels.parquet"
        table = _read(path, LABELS, lacking="label")
        if not np.array_equal(self._pairs(path, table), batch.pairs):
            _refuse(path, "holds other pairs than batch.parquet beside it")
        labels = table["label"].fill_null(UNSURE).to_numpy()
        # Null is unsure; a 2 was never written.
        if set(table["label"].to_pylist()) - {NO, YES, None} or (table["round"].to_numpy() != number).any():
            _refuse(path, "holds other labels than 0, 1 and null, or another round's")
        return labels.copy()

    def _pairs(self, path: Place, table: pa.Table) -> Pairs:
        """(n, 2) of the columns left and right, which are rows of the task."""
        pairs = as_pairs(table["left"].to_numpy(), table["right"].to_numpy())
        if ((pairs < 0) | (pairs >= [len(self.task.left), len(self.task.right)])).any():
            _refuse(path, "holds other pairs than the task has")
        return pairs

    def _ids(self, pairs: Pairs) -> tuple[list[str], list[str]]:
        """What their owner calls the texts of (n, 2) pairs."""
        left, right = pairs.T.tolist()
        return [self.task.left.ids[row] for row in left], [self.task.right.ids[row] for row in right]


def last_said(keys: Keys, labels: Labels, wanted: Keys) -> Labels:
    """(k,) for each of the `wanted` keys the label that stands last beside it in keys (n,) and labels (n,), or OPEN."""
    if not len(keys):
        return np.full(len(wanted), OPEN, dtype=np.uint8)
    order = np.argsort(keys, kind="stable")
    place = order[np.maximum(np.searchsorted(keys, wanted, side="right", sorter=order) - 1, 0)]
    return np.where(keys[place] == wanted, labels[place], np.uint8(OPEN))


def _piece(kind: str, number: int) -> str:
    return f"{kind}-{number:05d}.parquet"


def _pieces(folder: Place, kind: str) -> list[Place]:
    """The files of a kind, in the order in which they were written; none may be missing among them."""
    there = {path.name for path in folder.glob(f"{kind}-*.parquet")}
    names = [_piece(kind, number) for number in range(1, len(there) + 1)]
    for name in names:
        if name not in there:
            stranger = max(there.difference(names))
            raise BadFile(f"{folder} has {stranger} and no {name}; restore the one, or take the other away")
    return [folder / name for name in names]


def _read(path: Place, schema: pa.Schema, lacking: str = "") -> pa.Table:
    """A table without nulls, but in the column `lacking`."""
    table = read_parquet(path, schema)
    if any(table[name].null_count for name in schema.names if name != lacking):
        _refuse(path, "lacks values")
    return table


def _refuse(path: Place, fault: str) -> NoReturn:
    raise BadFile(f"{path} {fault}; restore it")
