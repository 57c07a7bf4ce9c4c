"""Read the matches that `match` wrote, to label some of them."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from al_ray.apps.matching.assignment_rules import ASSIGNMENTS
from al_ray.apps.matching.folder import MATCHES, RECORD, TEXTS
from al_ray.apps.matching.incremental.state import STATE
from al_ray.apps.matching.why.column import WHY
from al_ray.core.errors import BadFile, BadOption, WrongFolder
from al_ray.core.pairs import Pairs, Rows, as_pairs
from al_ray.core.scorer import Floats
from al_ray.core.task import Corpus, Task
from al_ray.datasets.task_folder import read_task
from al_ray.storage.files import file_in, read_json, read_parquet

FILE = "matches.parquet"
FIX = "match the texts again (`al_ray.match`)"


@dataclass(frozen=True)
class WrittenMatches:
    """The matches of a folder, the best first: their scores, cosines, and whether a label decided (n,).

    by_label: also those that a rule decided (`always`). An oracle can err as the model can: its matches count as those
    of the model. digest: of matches.parquet. rule: of assignment.
    """

    folder: Path
    digest: str
    rule: str
    scores: Floats
    cosines: Floats
    by_label: np.ndarray

    @property
    def by_model(self) -> Rows:
        """Return the places of the matches that the model decided, or an oracle in its place."""
        return np.flatnonzero(~self.by_label)


def read_matches(folder: Path) -> WrittenMatches:
    """Read the matches of a folder; WrongFolder if it has none, or if the command that writes them was stopped."""
    if not (folder / RECORD).is_file():
        raise WrongFolder(
            f"{folder} holds no {RECORD}; give `matches` the folder that `al_ray.match` wrote, and rerun "
            "`al_ray.match` if it was stopped"
        )
    rule = read_json(folder / RECORD, ["assign"], FIX)["assign"]
    if rule not in ASSIGNMENTS:
        raise BadFile(f"{folder / RECORD} has {rule!r} as its rule; {FIX}")
    digest = digest_of(folder)
    table = _table(folder)
    scores, cosines = (table[name].to_numpy().astype(np.float64) for name in ("score", "cosine"))
    by_label = np.array([who in ("label", "rule") for who in table["decided_by"].to_pylist()], dtype=np.bool_)
    return WrittenMatches(folder, digest, rule, scores, cosines, by_label)


def _table(folder: Path) -> pa.Table:
    """Read the file of matches, with or without texts; BadFile for other columns, or columns of other types.

    What `why` adds is left out.
    """
    table = read_parquet(folder / FILE, fix=FIX)
    if WHY in list(table.schema):
        table = table.drop_columns([WHY.name])
    there = list(zip(table.schema.names, table.schema.types, strict=True))
    own = list(zip(MATCHES.names, MATCHES.types, strict=True))
    if there not in (own, [*own, *TEXTS]):
        raise BadFile(f"{folder / FILE} holds {', '.join(table.schema.names)}, not what this al_ray wrote; {FIX}")
    return table


def digest_of(folder: Path) -> str:
    """Return the digest of the file of matches, which changes when they are replaced."""
    try:
        with (folder / FILE).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BadFile(f"{folder / FILE} cannot be read ({error}); {FIX}") from error


def read_match_texts(folder: Path, places: Rows) -> tuple[Task, Pairs]:
    """Return the texts of the matches (n,) at these places: a task, and the (n, 2) rows of the matches in it.

    The task is that of the folder, whose texts have their fields. Matches of a task folder have the texts that were
    written with them; BadOption if they were not.
    """
    table = _table(folder).take(places)
    left, right = (table[name].to_pylist() for name in ("left_id", "right_id"))
    if (folder / STATE).exists():
        task = read_task(file_in(folder, read_json(folder / STATE, ["task"], FIX)["task"], folder / STATE, FIX))
        return task, as_pairs(_rows_of(task.left, left, folder), _rows_of(task.right, right, folder))
    if TEXTS[0][0] not in table.schema.names:
        raise BadOption(
            f"{folder} has no texts to show (`MatchOptions.texts=False`); match the texts again with them, in another "
            "folder"
        )
    texts = [table[name].to_pylist() for name, _ in TEXTS]
    corpora = Corpus(tuple(left), tuple(texts[0])), Corpus(tuple(right), tuple(texts[1]))
    return Task("matches", False, *corpora, {}, ""), as_pairs(np.arange(len(left)), np.arange(len(left)))


def _rows_of(corpus: Corpus, ids: Sequence[str], folder: Path) -> Rows:
    """Return the rows (n,) of these ids in a corpus."""
    sought = set(ids)
    rows = {one: row for row, one in enumerate(corpus.ids) if one in sought}
    lacking = [one for one in ids if one not in rows]
    if lacking:
        raise BadFile(f"{folder}: the text {lacking[0]!r} of {FILE} is not in its task; {FIX}")
    return np.array([rows[one] for one in ids], dtype=np.int64)
