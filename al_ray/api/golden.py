"""Golden records of a folder of matches: override values."""

from collections.abc import Mapping

import pyarrow as pa

from al_ray.apps.matching.golden.editor import GoldenEditor
from al_ray.core.errors import BadOption
from al_ray.storage.files import read_parquet
from al_ray.storage.lock import locked
from al_ray.storage.uri import StoragePath, storage_path

LONGEST_NAME = 60


def override_golden(folder: str | StoragePath, cluster: int, values: Mapping[str, str | None], *, by: str) -> pa.Table:
    """Give fields of the golden record of a cluster values that the rules do not choose, and write golden.csv again.

    cluster: its number in clusters.csv. values: by field; "" for an empty field, and None takes back what people gave
    before, so that the rule decides. by: who gives them. Every value is on disk before the next one is taken, in
    golden.overrides.log, with the ids of the records of the cluster: it stays when more records come to the cluster
    (docs/golden.md). Returns the golden records.

    Examples:
        >>> options = al_ray.MatchOptions(left=folder / "questions.csv", id_column="id", text_columns="text",
        ...                               at_score=-1.0, golden="*=longest", drift=False)
        >>> found = al_ray.match(folder / "run", options, folder / "golden")
        >>> found.golden()["text_from"].to_pylist()
        ['3']
        >>> changed = al_ray.override_golden(folder / "golden", 0, {"text": "swimming"}, by="ann")
        >>> changed["text"].to_pylist(), changed["text_by"].to_pylist()[0][:13]
        (['swimming'], 'override: ann')

    Raises:
        BadOption: if the folder has no golden records of tables, no such cluster or no such field.
        FolderInUse: if another process uses the folder.
    """
    who, place = " ".join(by.casefold().split()), storage_path(str(folder))
    if not who or not who.isprintable() or len(who) > LONGEST_NAME:
        raise BadOption(f"`by` is {by!r}; give a name of at most {LONGEST_NAME} printable characters")
    with locked(place) as here:
        editor = GoldenEditor(here)
        try:
            editor.check(cluster, values)
            for field, value in values.items():
                editor.override(cluster, field, value, who)
            editor.write()
        finally:
            editor.close()
    return read_parquet(place / "golden.parquet")
