"""The ledger of a run: which pairs were chosen, which labels they got, when and from whom. No file is ever changed.

round-NNN/batch.parquet            the pairs chosen: left, right (rows), left_id, right_id, score, source
round-NNN/answers-KKKKK.parquet    answers of one call of the oracle: row (of the batch), answer, by, confidence, cost
round-NNN/labels.parquet           left, right, label (null: unsure), round, source: the whole round, uncorrected; of a
                                   closed round the pairs that had an answer
round-NNN/closed.json              of a round closed early (labels close): how many pairs had none
corrections-KKKKK.parquet          corrected labels: left, right, was, label, after (round)

The last answer to a pair counts, and the last correction counts over every answer; all of them stay on disk.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from al_ray.core.errors import BadFile, BadOption
from al_ray.core.labels import CODES, NO, OPEN, TAKEN_BACK, UNSURE, WORDS, YES, Answers, Batch, Labelled, latest_labels
from al_ray.core.pairs import NO_KEYS, Keys, Pairs, PairSpace, as_pairs
from al_ray.core.scorer import Labels
from al_ray.core.task import Task
from al_ray.runs.ledger_files import (
    ANSWERS,
    CLOSED,
    CORRECTIONS,
    LABELS,
    batch_table,
    check_task_digest,
    piece_name,
    pieces_of,
    raise_damaged,
    read_batch,
    read_table,
)
from al_ray.storage.files import make_table, read_json, write_json, write_parquet
from al_ray.storage.uri import Stamp, StoragePath, Uri, stamp_of


class Ledger:
    """Stores the chosen pairs and their labels (active_learning/ports.py)."""

    def __init__(self, path: StoragePath, task: Task, split: str = "train") -> None:
        """Use the folder of a run of a task; split: that of the pairs."""
        self.path, self.task, self.split = path, task, split
        # A batch never changes once it is written, so each is read once; again only if its file was replaced.
        self._batches = dict[int, tuple[Stamp, Batch]]()

    @property
    def space(self) -> PairSpace:
        """Return the pairs that can be chosen; in a symmetric task (a, b) and (b, a) have one key."""
        return self.task.split(self.split).space

    def prove_lock(self) -> None:
        """FolderInUse, before any label is requested, if another process has taken over the run on an object store."""
        if isinstance(self.path, Uri) and self.path.fence is not None:
            self.path.fence.prove()

    def round(self, number: int) -> StoragePath:
        """Return the folder of a round."""
        return self.path / f"round-{number:03d}"

    @property
    def rounds(self) -> int:
        """Count the rounds that have a batch."""
        number = 0
        while (self.round(number + 1) / "batch.parquet").exists():
            number += 1
        return number

    def batch(self, number: int) -> Batch | None:
        """Return the batch of a round; None before it is chosen."""
        path = self.round(number) / "batch.parquet"
        stamp = stamp_of(path)
        if stamp is None:
            return None
        if number not in self._batches or self._batches[number][0] != stamp:
            self._batches[number] = stamp, self._batch(path, read_batch(path))
        return self._batches[number][1]

    def add_batch(self, number: int, batch: Batch) -> None:
        """Write the batch of a round; each round has one."""
        assert self.batch(number) is None
        columns = *batch.pairs.T, *self.task.ids_of(batch.pairs), batch.cosines, [batch.source] * len(batch.pairs)
        path, table = self.round(number) / "batch.parquet", batch_table(columns, self.task)
        write_parquet(path, table, new=True)
        stamp = stamp_of(path)
        assert stamp is not None
        # From the table, not the argument: the same value, by the same checks, as any other process reads.
        self._batches[number] = stamp, self._batch(path, table)

    def labels(self, number: int) -> Labels:
        """Return the labels (n,) of a round's batch, corrections included; OPEN for pairs without an answer."""
        ((_, labels),) = self.read_rounds([number])
        return labels

    def read_rounds(self, numbers: Iterable[int]) -> Iterator[tuple[Batch, Labels]]:
        """Yield the batch and the labels of each of these rounds; corrections are read once for all of them."""
        keys, labels = self._correction_history()
        for number in numbers:
            batch, answered = self._known_batch(number), self.first_labels(number)
            corrected = latest_labels(keys, labels, self.space.keys(batch.pairs))
            # In a symmetric task a correction of (a, b) holds for (b, a) too, but does not answer (b, a): a pair
            # without an answer stays open, so that the oracle is asked and the round can be sealed.
            yield batch, np.where((corrected != OPEN) & (answered != OPEN), corrected, answered)

    def labelled(self, last: int | None = None) -> Labelled:
        """Return the pairs with a label of rounds 1 to `last` (default: all), in the order labelled."""
        numbers = range(1, (self.rounds if last is None else last) + 1)
        pairs, every, rounds, sources = [Labelled().pairs], [Labelled().labels], [Labelled().rounds], list[str]()
        for number, (batch, labels) in zip(numbers, self.read_rounds(numbers), strict=True):
            answered = labels != OPEN
            pairs.append(batch.pairs[answered])
            every.append(labels[answered])
            rounds.append(np.full(len(every[-1]), number, dtype=np.int32))
            sources += [batch.source] * len(every[-1])
        # Once for all rounds: to extend the labels round by round would copy them as often as there are rounds.
        return Labelled(np.concatenate(pairs), np.concatenate(every), np.concatenate(rounds), tuple(sources))

    def corrected(self, labelled: Labelled) -> Labelled:
        """Return labelled pairs with the corrections made so far."""
        keys, labels = self._correction_history()
        if not len(keys):
            return labelled
        latest = latest_labels(keys, labels, self.space.keys(labelled.pairs))
        return replace(labelled, labels=np.where(latest == OPEN, labelled.labels, latest))

    def first_labels(self, number: int) -> Labels:
        """Return the answers (n,) to a round's batch, without corrections; OPEN for pairs without an answer."""
        batch = self._known_batch(number)
        if self.sealed(number):
            return self._sealed(number, batch)
        labels = np.full(len(batch.pairs), OPEN, dtype=np.uint8)
        for piece in self.answers(number):
            readable = piece.labels != OPEN
            labels[piece.rows[readable]] = np.where(piece.labels == TAKEN_BACK, OPEN, piece.labels)[readable]
        return labels

    def answers(self, number: int) -> Iterator[Answers]:
        """Yield the answers of a round, one value for each call of the oracle, in the order of the calls."""
        batch = self._known_batch(number)
        for path in pieces_of(self.round(number), "answers"):
            table = read_table(path, ANSWERS)
            rows, words = table["row"].to_numpy(), table["answer"].to_pylist()
            if not set(words) <= set(CODES):
                raise_damaged(path, f"holds other answers than {', '.join(CODES)}")
            if ((rows < 0) | (rows >= len(batch.pairs))).any():
                raise_damaged(path, f"answers more rows than the {len(batch.pairs):,} of its batch")
            labels = np.array([CODES[word] for word in words], dtype=np.uint8)
            by, cost = str(table["by"][0]) if words else "", float(table["cost"].to_numpy().sum())
            yield Answers(rows, labels, by, table["confidence"].to_numpy(), cost)

    def add_answers(self, number: int, answers: Answers) -> None:
        """Write the answers of one call of the oracle; the cost is divided equally among the rows."""
        count, pieces = len(answers.rows), len(pieces_of(self.round(number), "answers"))
        assert count or not answers.cost
        assert not self.sealed(number)
        words, cost = [WORDS[label] for label in answers.labels.tolist()], np.full(count, answers.cost / max(1, count))
        table = make_table(ANSWERS, (answers.rows, words, [answers.by] * count, answers.confidences, cost))
        write_parquet(self.round(number) / piece_name("answers", pieces + 1), table, new=True)

    def seal(self, number: int) -> None:
        """Write labels.parquet of a round in which every pair has an answer; do nothing if it is there."""
        if not self.sealed(number):
            labels = self.first_labels(number)
            assert not (labels == OPEN).any()
            self._write_labels(number, labels)

    def close(self, number: int, *, without_labels: bool = False) -> int:
        """Write labels.parquet with the pairs that have an answer, and return how many have none.

        Those leave the round: a later round may choose them again. BadOption if no pair has an answer, unless
        `without_labels`.
        """
        labels = self.first_labels(number)
        left = int((labels == OPEN).sum())
        if left == len(labels) and not without_labels:
            raise BadOption(f"no pair of round {number} has a label yet; label some of them before you close it")
        # Without this file a shorter labels.parquet is a damaged one.
        write_json(self.round(number) / CLOSED, {"pairs_without_label": left})
        self._write_labels(number, labels)
        return left

    def _write_labels(self, number: int, labels: Labels) -> None:
        """Write labels.parquet: the pairs of a round with their (n,) labels, without those that have none."""
        batch, done = self._known_batch(number), labels != OPEN
        known, rounds = labels[done], np.full(int(done.sum()), number, dtype=np.int32)
        label = pa.array(known, mask=known == UNSURE)
        table = make_table(LABELS, (*batch.pairs[done].T, label, rounds, [batch.source] * len(known)))
        write_parquet(self.round(number) / "labels.parquet", table)

    def sealed(self, number: int) -> bool:
        """Return whether labels.parquet of a round is written."""
        return (self.round(number) / "labels.parquet").exists()

    def cost(self) -> float:
        """Return the total cost of all answers."""
        return sum(piece.cost for number in range(1, self.rounds + 1) for piece in self.answers(number))

    def correct(self, pairs: Pairs, labels: Labels) -> int:
        """Correct the labels of (k, 2) pairs to (k,) NO, YES or UNSURE, and return how many labels change.

        If a pair is given twice, the later label is used. BadFile for a pair without a label: then none is changed.
        """
        corrected, (keys, history) = self.space.keys(pairs), self._all_labels()
        was = latest_labels(keys, history, corrected)
        if (was == OPEN).any():
            left, right = (ids[0] for ids in self.task.ids_of(pairs[was == OPEN]))
            more = int((was == OPEN).sum()) - 1
            raise BadFile(
                f"the pair {left}, {right} has no label"
                + (f", nor have {more:,} more of these pairs" if more else "")
                + "; leave it out (nothing was corrected; an open round is corrected in its batch.csv)"
            )
        # If (a, b) and (b, a) were both labelled, one of the two labels may be right already.
        change = (was != labels) | (latest_labels(keys[::-1], history[::-1], corrected) != labels)
        last = len(corrected) - 1 - np.unique(corrected[::-1], return_index=True)[1]
        change &= np.isin(np.arange(len(corrected)), last)
        if change.any():
            after = np.full(int(change.sum()), self.rounds, dtype=np.int32)
            table = make_table(CORRECTIONS, (*pairs[change].T, was[change], labels[change], after))
            piece = piece_name("corrections", len(pieces_of(self.path, "corrections")) + 1)
            write_parquet(self.path / piece, table, new=True)
        return int(change.sum())

    def labels_of(self, pairs: Pairs) -> Labels:
        """Return the label (k,) of each of (k, 2) pairs, either way round; OPEN for one without an answer."""
        return latest_labels(*self._all_labels(), self.space.keys(pairs))

    def corrections(self) -> Iterator[pa.Table]:
        """Yield the tables of corrections, in the order in which they were written."""
        for path in pieces_of(self.path, "corrections"):
            table = read_table(path, CORRECTIONS)
            self._pairs(path, table)
            for name in ("was", "label"):
                if not set(table[name].to_pylist()) <= {NO, YES, UNSURE}:
                    raise_damaged(path, f"holds an invalid {name}")
            yield table

    def _correction_history(self) -> tuple[Keys, Labels]:
        """Return keys (n,) and labels (n,) of all corrections, in their order."""
        tables = list(self.corrections())
        pairs = [as_pairs(table["left"].to_numpy(), table["right"].to_numpy()) for table in tables]
        # A task may have no pairs of this split; then there is no space and no correction.
        keys = np.concatenate([NO_KEYS, *(self.space.keys(some) for some in pairs)])
        return keys, np.concatenate([np.empty(0, dtype=np.uint8), *(table["label"].to_numpy() for table in tables)])

    def _all_labels(self) -> tuple[Keys, Labels]:
        """Return keys (n,) and corrected labels (n,) of all answered pairs, in the order of rounds and rows."""
        labelled = self.labelled()
        return self.space.keys(labelled.pairs), labelled.labels

    def _known_batch(self, number: int) -> Batch:
        """Return the batch of a round that has one."""
        batch = self.batch(number)
        assert batch is not None
        return batch

    def _batch(self, path: StoragePath, table: pa.Table) -> Batch:
        """Return the batch in a table, checked; its arrays are read-only, because callers share them."""
        check_task_digest(path, table, self.task)
        pairs, sources = self._pairs(path, table), table["source"].unique().to_pylist()
        if (table["left_id"].to_pylist(), table["right_id"].to_pylist()) != self.task.ids_of(pairs):
            raise_damaged(path, "holds other ids than the task has")
        if len(sources) > 1 or len(np.unique(pairs, axis=0)) < len(pairs):
            raise_damaged(path, "has a pair twice, or pairs of two sources")
        cosines = np.array(table["score"].to_numpy())
        for array in (pairs, cosines):
            array.flags.writeable = False
        return Batch(pairs, cosines, str(sources[0]) if sources else "")

    def _sealed(self, number: int, batch: Batch) -> Labels:
        """Return the labels (n,) of labels.parquet; OPEN for pairs that had none when the round was closed."""
        path = self.round(number) / "labels.parquet"
        table = read_table(path, LABELS, lacking="label")
        pairs, rows = self._pairs(path, table), np.arange(len(batch.pairs))
        closed = self.round(number) / CLOSED
        if len(pairs) < len(rows) and closed.exists():
            # Each pair as one number, (a, b) and (b, a) apart.
            codes, labelled = (one[:, 0] * len(self.task.right) + one[:, 1] for one in (batch.pairs, pairs))
            rows = np.flatnonzero(np.isin(codes, labelled))
            if len(batch.pairs) - len(rows) != read_json(closed, ["pairs_without_label"])["pairs_without_label"]:
                raise_damaged(path, f"holds other pairs than those that had a label, by {CLOSED} beside it")
        if not np.array_equal(pairs, batch.pairs[rows]):
            raise_damaged(path, "holds other pairs than batch.parquet beside it")
        labels = np.full(len(batch.pairs), OPEN, dtype=np.uint8)
        labels[rows] = table["label"].fill_null(UNSURE).to_numpy()
        # Unsure is written as null, never as 2.
        if set(table["label"].to_pylist()) - {NO, YES, None} or (table["round"].to_numpy() != number).any():
            raise_damaged(path, "holds other labels than 0, 1 and null, or another round's")
        return labels

    def _pairs(self, path: StoragePath, table: pa.Table) -> Pairs:
        """Return the pairs (n, 2) in the columns left and right; BadFile if the task does not have these rows."""
        pairs = as_pairs(table["left"].to_numpy(), table["right"].to_numpy())
        if ((pairs < 0) | (pairs >= [len(self.task.left), len(self.task.right)])).any():
            raise_damaged(path, "holds other pairs than the task has")
        return pairs
