"""The folder of an audit of clusters: that of every audit (apps/audit/folder.py), and how its records were drawn.

audit-key.json        the options, the number of records and the classes
audit-clusters.json   draws: each drawn record with its pairs, by rows; known: left, right and label of the pairs that
                      had a label before, which are not in the sheet
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from al_ray.apps.audit.folder import RECORD, AuditFolder
from al_ray.apps.audit.of_clusters.drawing import RecordDraw, pairs_of
from al_ray.core.config.serialization import as_dict, differences, from_dict
from al_ray.core.errors import BadFile, BadOption, WrongFolder
from al_ray.core.pairs import Pairs, as_pairs
from al_ray.core.rng import generator
from al_ray.core.task import Task
from al_ray.metrics.audit.cluster_figures import SizeClass
from al_ray.metrics.audit.drawn_pairs import DrawnPairs
from al_ray.storage.files import read_json, write_json

DRAWS = "audit-clusters.json"
Known = Mapping[tuple[int, int], int]
"""Labels by the rows of a pair, the lower one first."""


@dataclass(frozen=True)
class ClusterAuditOptions:
    """The options of an audit of clusters. matches: digest of matches and clusters; candidates: of those given."""

    clusters: int
    seed: int
    matches: str
    candidates: str


@dataclass(frozen=True)
class ClusterRecord:
    """The content of audit-key.json of an audit of clusters.

    folder: of the matches, absolute. records: all. delivered: clusters of two and more. classes: of the records that
    there is something to ask about.
    """

    asked: ClusterAuditOptions
    folder: str
    records: int
    delivered: int
    classes: tuple[SizeClass, ...]

    @property
    def content(self) -> dict[str, Any]:
        """Return the record as JSON."""
        return {**as_dict(self), "classes": [as_dict(one) for one in self.classes]}

    @property
    def total(self) -> Mapping[str, int]:
        """Return how many pairs inside clusters there are: direct, implied, and both."""
        direct, implied = (round(sum(getattr(one, kind) for one in self.classes) / 2) for kind in ("direct", "implied"))
        return {"direct": direct, "implied": implied, "pairs": direct + implied}


@dataclass(frozen=True)
class ClusterDraws:
    """The drawn records, and the labels that their pairs had before."""

    draws: tuple[RecordDraw, ...]
    known: Known

    @property
    def open(self) -> Pairs:
        """Return the pairs (n, 2) that people are asked."""
        pairs = pairs_of(self.draws)
        return pairs[[tuple(pair) not in self.known for pair in pairs.tolist()]] if len(pairs) else pairs


class ClusterAuditFolder:
    """Read and write the files of an audit of clusters."""

    def __init__(self, path: Path) -> None:
        """Use a folder, new or with an audit in it."""
        self.path, self.audit = path, AuditFolder(path)

    def holds(self, options: ClusterAuditOptions) -> bool:
        """Return whether the folder holds this audit; WrongFolder for another one, or a sheet without a record."""
        if (self.path / RECORD).exists() and not self.audit.of_clusters:
            raise WrongFolder(f"{self.path} is another kind of audit; give another `out`")
        if not self.audit.is_there():
            return False
        other = [*differences(as_dict(self.record().asked), as_dict(options))]
        if other:
            raise WrongFolder(f"{self.path} is an audit with other options ({'; '.join(other)}); give another `out`")
        return True

    def keep(self, record: ClusterRecord, drawn: ClusterDraws, task: Task) -> None:
        """Write a new audit, its record last; the order of the sheet says nothing of clusters."""
        pairs = drawn.open
        nothing = np.full(len(pairs), -1, dtype=np.int64), np.full(len(pairs), np.nan)
        sheet = DrawnPairs(pairs, ("clusters",) * len(pairs), *nothing)
        known = [[*pair, label] for pair, label in sorted(drawn.known.items())]
        write_json(self.path / DRAWS, {"draws": [as_dict(one) for one in drawn.draws], "known": known})
        self.audit.keep(record, sheet.shuffled(generator(record.asked.seed, "audit-order")), None, task)

    def record(self) -> ClusterRecord:
        """Read the options and classes of the audit."""
        path = self.path / RECORD
        content: dict[str, Any] = read_json(path, ["asked", "classes"])
        try:
            classes = tuple(from_dict(SizeClass, one) for one in content["classes"])
            return replace(from_dict(ClusterRecord, {**content, "classes": []}), classes=classes)
        except (BadOption, TypeError) as error:
            raise BadFile(f"{path}: {error} (restore it)") from error

    def draws(self) -> ClusterDraws:
        """Read the drawn records; BadFile if they are not of the record or of the key."""
        path = self.path / DRAWS
        content: dict[str, Any] = read_json(path, ["draws", "known"], "restore it, or draw another audit")
        try:
            draws = tuple(from_dict(RecordDraw, one) for one in content["draws"])
            known = {(int(left), int(right)): int(label) for left, right, label in content["known"]}
        except (BadOption, TypeError, ValueError) as error:
            raise BadFile(f"{path}: {error} (restore it)") from error
        drawn = ClusterDraws(draws, known)
        counts = np.bincount([one.size_class for one in draws], minlength=len(self.record().classes)).tolist()
        sheet = self.audit.key()[2].pairs
        if counts != [one.drawn for one in self.record().classes] or {*map(tuple, sheet.tolist())} != {
            *map(tuple, drawn.open.tolist())
        }:
            raise BadFile(f"{path}, {RECORD} and the key beside them are not of one audit; restore all three")
        return drawn


def known_of(pairs: Pairs, labels: list[int]) -> dict[tuple[int, int], int]:
    """Return labels (n,) by the rows of (n, 2) pairs, the lower one first."""
    ordered = np.sort(as_pairs(pairs[:, 0], pairs[:, 1]), axis=1).tolist()
    return {(left, right): label for (left, right), label in zip(ordered, labels, strict=True)}
