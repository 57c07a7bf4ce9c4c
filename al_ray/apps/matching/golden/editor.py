"""The golden records of a folder of matches, open for people who override some of their values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from al_ray.apps.matching.clusters.nodes import Nodes
from al_ray.apps.matching.folder import RECORD, canonical_records, remove_record, write_record
from al_ray.apps.matching.golden.fields import GoldenPlan
from al_ray.apps.matching.golden.overrides import LONGEST_VALUE, OverrideLog, Standing, applied, resolve
from al_ray.apps.matching.golden.records import ClusteredRecords, GoldenValues, golden_batches
from al_ray.apps.matching.golden.writing import clusters_of, record_ids, write_golden_records
from al_ray.apps.matching.incremental.state import STATE, read_state
from al_ray.core.errors import BadOption
from al_ray.core.pairs import Rows
from al_ray.storage.files import read_json
from al_ray.storage.formulas import FormulaCells
from al_ray.storage.uri import StoragePath


@dataclass(frozen=True)
class FieldView:
    """A field of one golden record. name, rule: as they were given. value: "" for none.

    record: of the record that it comes from, "" for a value of no record. override: who gave the value and when, "" if
    a rule chose it. values: the different values of the records that are not empty, with the ids of these, the first
    record's first. unused: the overrides that have records of the cluster and are not in effect.
    """

    name: str
    rule: str
    value: str
    record: str
    override: str
    values: tuple[tuple[str, tuple[str, ...]], ...]
    unused: tuple[Standing, ...]


class GoldenEditor:
    """Golden records of a folder of matches. The caller has locked the folder; not thread-safe.

    Every override is on disk before `override` returns; `write` brings the files of golden records up to date.
    """

    def __init__(self, folder: StoragePath) -> None:
        """Read the state of the folder; BadOption if it has no golden records of tables."""
        if not has_golden(folder):
            raise BadOption(
                f"{folder} has no golden records of tables; match the texts with `MatchOptions.golden`, and without "
                "`MatchOptions.search.kind='knn'`"
            )
        state, task = read_state(folder)
        words = state.about.rules.clusters.golden
        assert words is not None
        self.folder, self.nodes = folder, Nodes(task)
        self.plan = GoldenPlan.of(words, task, state.about.table)
        every = np.arange(len(self.nodes))
        self.records = ClusteredRecords(every, state.clusters, canonical_records(folder, not task.symmetric))
        self._log = OverrideLog(folder)
        sought = {record for one in self._log.overrides for record in one.records}
        self._clusters = clusters_of(self.nodes, self.records, sought)
        self._changed = False

    @property
    def standing(self) -> list[Standing]:
        """Return what the overrides do, in the order in which they were made."""
        return resolve(self._log.overrides, self._clusters)

    def members(self, cluster: int) -> Rows:
        """Return the nodes of a cluster; BadOption if there is none of this number."""
        members = self.records.nodes[self.records.clusters == cluster]
        if not len(members):
            raise BadOption(f"{self.folder} has no cluster {cluster}; its clusters are in clusters.csv")
        return members

    def has(self, cluster: int) -> bool:
        """Return whether there is a cluster of this number."""
        return bool(np.any(self.records.clusters == cluster))

    def cluster_of(self, name: str) -> int | None:
        """Return the number of the cluster of the first record with an id; None if there is no such record."""
        found = clusters_of(self.nodes, self.records, {("left", name), ("right", name)})
        return found.get(("left", name), found.get(("right", name)))

    def largest(self, count: int) -> list[tuple[int, int]]:
        """Return the number and the size of the largest clusters of two or more records, at most `count`."""
        clusters, sizes = np.unique(self.records.clusters, return_counts=True)
        order = np.lexsort((clusters, -sizes))[:count]
        return [(int(clusters[at]), int(sizes[at])) for at in order if sizes[at] > 1]

    def view(self, cluster: int) -> list[FieldView]:
        """Return the fields of the golden record of a cluster; BadOption if there is none of this number."""
        members, standing = self.members(cluster), self.standing
        records = self.records.of(cluster)
        (batch,) = golden_batches(self.nodes, self.plan, records, applied(standing))
        names = [_spelled(one, self.nodes.task.symmetric) for one in record_ids(self.nodes, members)]
        name_of = dict(zip(members.tolist(), names, strict=True))
        cells = self.plan.cells(self.nodes, members)
        unused = [one for one in standing if cluster in one.clusters and one.state != "in effect"]
        return [
            _view(field.name, str(field.rule), chosen, values, name_of, unused)
            for field, chosen, values in zip(self.plan.fields, batch.fields, cells, strict=True)
        ]

    def check(self, cluster: int, values: Mapping[str, str | None]) -> None:
        """Raise BadOption, before any value is stored, for a cluster or a field that there is not."""
        self.members(cluster)
        fields = [one.name for one in self.plan.fields]
        for field, value in values.items():
            if field not in fields:
                raise BadOption(f"golden records have no field {field!r}; they have {', '.join(map(repr, fields))}")
            if value is not None and not isinstance(value, str):
                raise BadOption(f"the value of {field!r} is {value!r}; give text, or None to let the rule decide")
            if value is not None and len(value) > LONGEST_VALUE:
                raise BadOption(f"the value of {field!r} has {len(value):,} characters; give at most {LONGEST_VALUE:,}")

    def override(self, cluster: int, field: str, value: str | None, by: str, request: str = "") -> None:
        """Give a field of the golden record of a cluster a value, on disk before this returns.

        value: None takes the values that people gave before back, so that the rule decides. request: of an id counts
        once. BadOption for a cluster or a field that there is not.
        """
        self.check(cluster, {field: value})
        records = record_ids(self.nodes, self.members(cluster))
        self._log.append(field, value, records, by, request)
        self._clusters |= dict.fromkeys(records, cluster)
        self._changed = True

    def write(self) -> None:
        """Write the golden records again if values were overridden since they were written."""
        if not self._changed:
            return
        content: dict[str, Any] = read_json(self.folder / RECORD, ["golden"])
        cells = FormulaCells(bool(content["golden"].get("escape_formulas")))
        remove_record(self.folder)
        content["golden"] = write_golden_records(self.folder, self.nodes, self.plan, self.records, cells)
        write_record(self.folder, content)
        self._changed = False

    def close(self) -> None:
        """Close the log."""
        self._log.close()


def has_golden(folder: StoragePath) -> bool:
    """Return whether a folder has golden records whose values can be overridden."""
    there = (folder / RECORD).exists() and (folder / STATE).exists()
    return there and "golden" in read_json(folder / RECORD)


def _spelled(record: tuple[str, str], symmetric: bool) -> str:
    table, name = record
    return name if symmetric else f"{table}: {name}"


def _view(
    name: str,
    rule: str,
    chosen: GoldenValues,
    values: Sequence[str],
    name_of: dict[int, str],
    unused: Sequence[Standing],
) -> FieldView:
    different = dict[str, list[str]]()
    for value, record in zip(values, name_of.values(), strict=True):
        if value:
            different.setdefault(value, []).append(record)
    override = chosen.overrides[0]
    return FieldView(
        name,
        rule,
        chosen.values[0] or "",
        name_of.get(int(chosen.nodes[0]), ""),
        "" if override is None else f"{override.by}, {override.at}",
        tuple((value, tuple(records)) for value, records in different.items()),
        tuple(one for one in unused if one.override.field == name),
    )
