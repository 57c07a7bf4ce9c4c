"""What `al_ray.match` and `al_ray.match_into` refuse before they start Ray, and the tables that a folder gives."""

from pathlib import Path

import pyarrow as pa
import pytest

import al_ray
from al_ray.core.errors import BadOption, WrongFolder
from al_ray.storage.files import write_parquet

TEXTS = al_ray.MatchOptions(left=Path("t.csv"), at_boundary=True)


@pytest.mark.parametrize("model", ["nowhere", Path("nowhere"), al_ray.Run(Path("nowhere"), al_ray.RunConfig(task="t"))])
def test_a_model_is_that_of_a_run(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WrongFolder, match=r"nowhere holds no config.json; give the folder of a run"):
        al_ray.match(model, TEXTS, "made")
    assert not list(tmp_path.iterdir())


def test_new_texts_need_matches_that_are_there(tmp_path):
    with pytest.raises(BadOption, match="holds no matches of tables to which new texts can be added"):
        al_ray.match_into(tmp_path, TEXTS)


def test_removed_texts_are_of_match_into(tmp_path):
    options = al_ray.MatchOptions(left=Path("t.csv"), complete=True)
    with pytest.raises(BadOption, match="complete is for match_into"):
        al_ray.match("run", options, tmp_path / "made")


def test_a_folder_gives_its_tables(tmp_path):
    matches, clusters = pa.table({"left_id": ["a"], "right_id": ["b"]}), pa.table({"id": ["a", "b"]})
    write_parquet(tmp_path / "matches.parquet", matches)
    write_parquet(tmp_path / "clusters.parquet", clusters)
    folder = al_ray.MatchFolder(tmp_path, {"matches": 1, "clusters": {"number": 1}}, ())
    assert (folder.matches(), folder.clusters()) == (matches, clusters)
    # Earlier versions made no clusters of two tables; a file that is there is of other matches.
    between = al_ray.MatchFolder(tmp_path, {"matches": 1}, ())
    with pytest.raises(BadOption, match="has no clusters, as an earlier al_ray made it"):
        between.clusters()
