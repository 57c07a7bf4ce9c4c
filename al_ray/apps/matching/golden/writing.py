"""Write golden records into a folder of matches."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

from al_ray.apps.matching.clusters.nodes import Nodes
from al_ray.apps.matching.folder import write_golden, write_golden_overrides
from al_ray.apps.matching.golden.fields import CLUSTER, RECORDS, GoldenPlan, field_columns
from al_ray.apps.matching.golden.overrides import RecordId, Standing, applied, read_overrides, resolve
from al_ray.apps.matching.golden.records import NONE, ClusteredRecords, GoldenBatch, GoldenValues, golden_batches
from al_ray.core.pairs import Rows
from al_ray.storage.formulas import FormulaCells
from al_ray.storage.uri import StoragePath


def write_golden_records(
    folder: StoragePath, nodes: Nodes, plan: GoldenPlan, records: ClusteredRecords, cells: FormulaCells
) -> dict[str, Any]:
    """Write golden records with the overrides of the folder; return what match.json says of them."""
    standing = standing_overrides(folder, nodes, records)
    symmetric = nodes.task.symmetric
    names = [CLUSTER, RECORDS, *(name for field in plan.fields for name in field_columns(field.name, symmetric))]
    batches = golden_batches(nodes, plan, records, applied(standing))
    write_golden(folder, (list(_columns(nodes, plan, batch)) for batch in batches), names, 2, cells)
    write_golden_overrides(folder, [_row(one, symmetric) for one in standing], cells)
    states = [one.state for one in standing]
    return {
        "escape_formulas": cells.escape,
        "rules": plan.record,
        "records": len(np.unique(records.clusters)),
        "overrides": {state.replace(" ", "_"): states.count(state) for state in sorted(set(states))},
    }


def standing_overrides(folder: StoragePath, nodes: Nodes, records: ClusteredRecords) -> list[Standing]:
    """Return what the overrides of a folder do in these clusters."""
    overrides = read_overrides(folder)
    return resolve(overrides, clusters_of(nodes, records, {record for one in overrides for record in one.records}))


def record_ids(nodes: Nodes, members: Rows) -> list[RecordId]:
    """Return the table and the id of each of (n,) nodes."""
    return list(zip(nodes.tables(members), nodes.ids(members), strict=True))


def clusters_of(nodes: Nodes, records: ClusteredRecords, sought: Collection[RecordId]) -> dict[RecordId, int]:
    """Return the numbers of the clusters of the records that are sought, of those that there are."""
    task, found = nodes.task, dict[RecordId, int]()
    if not sought:
        return found
    sides = [("left", task.left.ids, 0)] + ([] if task.symmetric else [("right", task.right.ids, nodes.first_right)])
    places = np.full(len(nodes), NONE)
    places[records.nodes] = records.clusters
    for table, ids, first in sides:
        # One by one, so that the ids of all records are never Python objects at once.
        for row, name in enumerate(ids):
            if (table, name) in sought and places[first + row] != NONE:
                found[table, name] = int(places[first + row])
    return found


def _columns(nodes: Nodes, plan: GoldenPlan, batch: GoldenBatch) -> Iterator[Any]:
    yield batch.clusters
    yield batch.sizes
    for field, chosen in zip(plan.fields, batch.fields, strict=True):
        yield chosen.values
        yield _named(chosen, nodes.ids)
        if not nodes.task.symmetric:
            yield _named(chosen, nodes.tables)
        rule = str(field.rule)
        yield [
            str(override) if override is not None else None if value is None else rule
            for value, override in zip(chosen.values, chosen.overrides, strict=True)
        ]


def _named(chosen: GoldenValues, names: Any) -> list[str | None]:
    """Return a name of the record of each value, None for a value of no record."""
    there = chosen.nodes != NONE
    own = iter(names(chosen.nodes[there]))
    return [next(own) if one else None for one in there.tolist()]


def _row(one: Standing, symmetric: bool) -> Sequence[str]:
    override = one.override
    records = [name if symmetric else f"{table}: {name}" for table, name in override.records]
    clusters = " ".join(map(str, one.clusters))
    return (override.field, override.value or "", override.by, override.at, one.state, clusters, ", ".join(records))
