"""The check of a language model by people, before it labels a round.

check/batch.csv, batch.json    the drawn pairs, for people (oracles/people.py); label-studio.xml is the interface
check/drawn.json               their round and rows
check/check.json               how far the model agrees with people, and the pairs on which they differ
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from al_ray.core.errors import BadFile, BadOption, LabellingStopped, LabelsAwaited
from al_ray.core.labels import NO, OPEN, WORDS, YES, Batch
from al_ray.core.naming import command
from al_ray.core.pairs import Rows
from al_ray.core.rng import generator
from al_ray.core.scorer import Labels
from al_ray.core.task import Task
from al_ray.metrics.agreement import cohen_kappa, tabulate
from al_ray.metrics.shares import share_estimate
from al_ray.oracles.answer_files import BATCH, read_answers
from al_ray.oracles.people import write_sheets
from al_ray.storage.files import read_json, write_json
from al_ray.storage.uri import StoragePath

FOLDER, DRAWN, CHECK = "check", "drawn.json", "check.json"


@dataclass(frozen=True)
class Drawn:
    """The pairs of a check: rows (k,) of the batch of a round, and the answers (k,) of people to them."""

    round: int
    rows: Rows
    people: Labels


def begun(run: StoragePath) -> bool:
    """Return whether pairs of a run were drawn for a check."""
    return (run / FOLDER / DRAWN).exists()


class Check:
    """The check of a run by people; in the folder of the run."""

    def __init__(self, run: StoragePath, task: Task, seed: int, pairs: int) -> None:
        """pairs: how many are drawn. BadOption if the run is on an object store, where people cannot open files."""
        if not isinstance(run, Path):
            raise BadOption(f"`llm.check_with` needs a run folder on a local disk; {run} is a URI")
        self.folder, self.task, self.seed, self.pairs = run / FOLDER, task, seed, pairs

    def result(self, subject: str) -> dict[str, Any] | None:
        """Return check.json if it is about this model and prompt; None if these were not checked yet."""
        path = self.folder / CHECK
        content = read_json(path, ["subject", "kappa"]) if path.exists() else None
        return content if content is not None and content["subject"] == subject else None

    def drawn(self, number: int, batch: Batch, missing: Rows) -> Drawn:
        """Return the drawn pairs with the answers of people; the first call draws them among the rows `missing` (m,).

        LabelsAwaited while people have not answered all; LabellingStopped if the check is of another round.
        """
        path = self.folder / DRAWN
        if not path.exists():
            chosen = generator(self.seed, "llm-check", number).permutation(missing)[: self.pairs]
            write_json(path, {"round": number, "rows": sorted(chosen.tolist())})
        content = read_json(path, ["round", "rows"])
        if content["round"] != number:
            raise LabellingStopped(
                f"stopped by `llm.check_with`: {self.folder} is the check of round {content['round']}, by another "
                "`llm.model` or `llm.definition`; move it away to check this one on pairs of this round"
            )
        rows = np.array(content["rows"], dtype=np.int64)
        if not len(rows) or rows.min() < 0 or rows.max() >= len(batch.pairs):
            raise BadFile(f"{path} names rows that the batch of round {number} does not have; restore it")
        codes = [f"c{number:03d}-{place:05d}" for place in range(1, len(rows) + 1)]
        write_sheets(self.folder, BATCH, codes, batch.pairs[rows], self.task)
        labels = read_answers(self.folder, codes, batch.pairs[rows], self.task)
        waiting = int((labels == OPEN).sum())
        if waiting:
            raise LabelsAwaited(
                f"before round {number} is sent to the model: {waiting:,} of {len(rows):,} pairs wait for an "
                f"answer of people\n"
                f"  on a page: {command('annotate', run=self.folder.parent)}\n"
                f"  or fill the column label of {self.folder / BATCH}.csv with yes, no or unsure, and save it\n"
                f"  or import {self.folder / BATCH}.json into Label Studio, and save its export beside it\n"
                f"  the check holds until {self.folder} is moved away"
            )
        return Drawn(number, rows, labels)

    def write(self, subject: str, name: str, drawn: Drawn, batch: Batch, model: Labels) -> dict[str, Any]:
        """Write check.json for the labels (k,) of a model on the drawn pairs, and return it."""
        table = tabulate(drawn.people, model, OPEN)
        agreement = cohen_kappa(table, generator(self.seed, "llm-kappa", drawn.round))
        left, right = self.task.ids_of(batch.pairs[drawn.rows])
        disputed = [
            {"left_id": one, "right_id": other, "people": WORDS[int(by_people)], "model": WORDS[int(by_model)]}
            for one, other, by_people, by_model in zip(left, right, drawn.people, model, strict=True)
            if by_people != by_model
        ]
        content = {
            "subject": subject,
            "model": name,
            "round": drawn.round,
            "pairs": agreement.n,
            "agreement": agreement.share,
            "kappa": None if agreement.kappa is None else asdict(agreement.kappa),
            "classes": {WORDS[label]: _shares(table, label) for label in (YES, NO)},
            # Rows: people. Columns: the model. In the order no, yes, unsure.
            "table": table.tolist(),
            "disputed": disputed,
        }
        write_json(self.folder / CHECK, content)
        return content

    def require_agreement(self, content: dict[str, Any], least: float) -> None:
        """Raise LabellingStopped if kappa, or the lower end of its interval, is below `least` or unknown."""
        kappa, path = content["kappa"], self.folder / CHECK
        fix = (
            f"improve `llm.definition`, give another `llm.model` or a lower `llm.least_kappa`, or move {self.folder} "
            "away to check more pairs"
        )
        if kappa is None:
            raise LabellingStopped(
                "stopped by `llm.check_with`: people and the model gave one and the same label to all "
                f"{content['pairs']:,} pairs, so that agreement cannot be told from chance ({path}); {fix}"
            )
        if kappa["low"] < least:
            raise LabellingStopped(
                f"stopped by `llm.least_kappa={least:g}`: on {content['pairs']:,} pairs kappa of the model and people "
                f"is {kappa['value']:.2f} (95%: {kappa['low']:.2f} to {kappa['high']:.2f}); {path} has the "
                f"{len(content['disputed']):,} pairs on which they differ; {fix}"
            )


def _shares(table: np.ndarray, label: int) -> dict[str, Any]:
    """Return precision and recall of a label, each with its interval; None where nothing counts for it."""
    right = int(table[label, label])
    counts: Sequence[tuple[str, int]] = (
        ("precision", int(table[:, label].sum())),
        ("recall", int(table[label].sum())),
    )
    return {name: asdict(share_estimate(right, n)) if n else None for name, n in counts}
