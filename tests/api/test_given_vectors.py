"""Vectors of one's own in a column of the tables: stored vectors of an encoder give what that encoder gives."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import al_ray
from al_ray.apps.matching.model import open_model
from al_ray.apps.serving.known import check_model_of_one_set
from al_ray.cluster.candidates.in_process import encode_side
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import CandidatesConfig
from al_ray.core.errors import BadOption
from al_ray.encoders.encoder import untrained
from al_ray.encoders.prompts import Side

WORDS = ("amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "heath", "inlet", "jetty", "knoll", "larch")
COUNT, DIMENSION = 24, 32
CONFIG = al_ray.RunConfig(
    task="-", rounds=2, first_batch=20, growth=1, encoder="random-bert", encoder_layers=1, max_length=24,
    encoder_batch=64, threads=1, matcher="on", evaluation=al_ray.EvaluationConfig(splits=("train",)),
    candidates=CandidatesConfig(cosine=6, trigrams=5, of_right=5),
)  # fmt: skip


def record(row: int, change: bool) -> dict[str, str]:
    name = f"{WORDS[row % 12]} {WORDS[(row * 5 + row // 12) % 12]} lamp" + " new" * change
    return {"name": name, "price": str(10 + 7 * row + (change and row % 4 == 0))}


def given(config: al_ray.RunConfig, task: Path, encoder: str = f"vectors-{DIMENSION}") -> al_ray.RunConfig:
    return replace(config, task=str(task), encoder=encoder, encoder_layers=None)


@pytest.fixture(scope="module")
def ran(in_process, tmp_path_factory) -> SimpleNamespace:
    """Runs on the same tables with an encoder, and with its vectors in a column."""
    root = tmp_path_factory.mktemp("given")
    tables, vectors, rows = {}, {}, {}
    encoder = untrained(CONFIG.encoding, root)
    sides: tuple[tuple[Side, bool], ...] = (("left", False), ("right", True))
    for side, change in sides:
        rows[side] = [record(row, change) for row in range(COUNT)]
        texts = tuple(f"{one['name']} {one['price']}" for one in rows[side])
        vectors[side] = encode_side(encoder, texts, side)
        columns = {"id": [f"{side[0]}{row:02}" for row in range(COUNT)]}
        columns |= {name: [one[name] for one in rows[side]] for name in ("name", "price")}
        columns["embedding"] = pa.FixedSizeListArray.from_arrays(pa.array(vectors[side].ravel()), DIMENSION)
        tables[side] = root / f"{side}.parquet"
        pq.write_table(pa.table(columns), tables[side])
    with (root / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("l", "r", "same"), *((f"l{row:02}", f"r{row:02}", 1) for row in range(COUNT))])
    source = al_ray.OwnTexts(
        **tables, labels=root / "labels.csv", label_columns="l,r,same", labels_are="complete", split="1,0,0",
        id_column="id", text_columns="name,price",
    )  # fmt: skip
    al_ray.prepare(source, root / "texts")
    al_ray.prepare(replace(source, vectors_column="embedding"), root / "vectors")
    runs = {
        "texts": al_ray.run(replace(CONFIG, task=str(root / "texts")), root / "run-texts"),
        "vectors": al_ray.run(given(CONFIG, root / "vectors"), root / "run-vectors"),
    }
    return SimpleNamespace(root=root, tables=tables, vectors=vectors, rows=rows, runs=runs, source=source)


def test_a_run_with_the_vectors_of_an_encoder_labels_the_same_pairs_and_has_the_same_figures(ran):
    texts, vectors = ran.runs["texts"], ran.runs["vectors"]
    assert vectors.labels().to_pylist() == texts.labels().to_pylist()
    for one, other in zip(vectors.metrics().to_pylist(), texts.metrics().to_pylist(), strict=True):
        assert {name: one[name] for name in one if "seconds" not in name and "train" in name} == {
            name: other[name] for name in other if "seconds" not in name and "train" in name
        }


def scored(path: Path) -> dict[tuple[str, str], float]:
    table = pq.read_table(path / "matches.parquet").to_pylist()
    return {(line["left_id"], line["right_id"]): line["score"] for line in table}


def test_tables_with_the_column_are_matched_as_by_the_encoder_and_records_with_vectors_are_scored_alike(ran):
    options = al_ray.MatchOptions(**ran.tables, at_boundary=True)
    for name, run in ran.runs.items():
        al_ray.match(run, options, ran.root / f"matches-{name}")
    found = scored(ran.root / "matches-vectors")
    assert found
    assert found == scored(ran.root / "matches-texts")
    model = al_ray.load_matcher(ran.runs["vectors"].path)
    sides = ran.rows["left"], ran.rows["right"]
    scores = model.score(*sides, vectors=(ran.vectors["left"], ran.vectors["right"]))
    by_texts = al_ray.load_matcher(ran.runs["texts"].path).score(*sides)
    np.testing.assert_array_equal(scores.pairs, by_texts.pairs)
    np.testing.assert_array_equal(scores.p, by_texts.p)
    # Vectors of any length are normalised, as prepare does, which rounds once more.
    longer = model.score(*sides, vectors=(3 * ran.vectors["left"], 2 * ran.vectors["right"]))
    np.testing.assert_allclose(longer.p, scores.p, rtol=1e-5)


def test_shards_do_not_change_the_labels_of_a_run_with_vectors(ran, in_process):
    again = al_ray.run(given(CONFIG, ran.root / "vectors"), ran.root / "run-of-two", cluster=ClusterConfig(shards=2))
    assert again.labels().to_pylist() == ran.runs["vectors"].labels().to_pylist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"matcher": "off"}, "cannot be trained; give `matcher='on'`"),
        ({"encoder_every": 1}, "cannot be trained; give `matcher='on'`"),
        ({"encoder": "vectors-31"}, "have 32 numbers"),
        ({"encoder": "vectors-0"}, "1 to 100,000 numbers"),
        ({"prompt_left": "query: "}, "has no prompts"),
        ({"encoder_layers": 1}, "has no layers"),
        ({"task": "texts"}, "have no vectors; prepare the task with their column"),
    ],
)
def test_a_run_refuses_what_stored_vectors_cannot_do(ran, tmp_path, change, message):
    task = ran.root / change.get("task", "vectors")
    config = replace(given(CONFIG, task), **{name: value for name, value in change.items() if name != "task"})
    with pytest.raises(BadOption, match=message):
        al_ray.run(config, tmp_path / "run")


def test_matcher_auto_is_on_for_vectors_that_are_given(ran, tmp_path):
    config = replace(given(CONFIG, ran.root / "vectors"), matcher="auto", rounds=1, first_batch=4)
    al_ray.run(config, tmp_path / "run")
    assert json.loads((tmp_path / "run/config.json").read_text())["matcher"] == "on"


def test_texts_without_vectors_are_refused_by_a_model_of_vectors_and_vectors_by_another(ran):
    model = al_ray.load_matcher(ran.runs["vectors"].path)
    sides = ran.rows["left"], ran.rows["right"]
    with pytest.raises(BadOption, match="reads no texts, only vectors"):
        model.score(*sides)
    with pytest.raises(BadOption, match=r"shapes \[\(24, 32\)\]; give \[\(24, 32\), \(24, 32\)\]"):
        model.score(*sides, vectors=(ran.vectors["left"],))
    with pytest.raises(BadOption, match="all zeros"):
        model.score(*sides, vectors=(ran.vectors["left"], 0 * ran.vectors["right"]))
    with pytest.raises(BadOption, match="leave out vectors"):
        al_ray.load_matcher(ran.runs["texts"].path).score(*sides, vectors=(ran.vectors["left"], ran.vectors["right"]))


def test_a_service_and_match_into_refuse_vectors_that_are_given(ran, tmp_path):
    options = al_ray.MatchOptions(**ran.tables, at_boundary=True)
    al_ray.match(ran.runs["vectors"], options, tmp_path / "matches")
    with pytest.raises(BadOption, match="cannot add texts whose vectors are given"):
        al_ray.match_into(tmp_path / "matches", al_ray.MatchOptions(left=ran.tables["left"]))
    with pytest.raises(BadOption, match="requests of a service have none"):
        check_model_of_one_set(open_model(ran.runs["vectors"].path), False)


def test_prepare_names_the_encoder_an_export_is_refused_and_a_plan_encodes_nothing(ran, tmp_path):
    prepared = al_ray.prepare(replace(ran.source, vectors_column="embedding"), tmp_path / "task")
    assert "next, by the vectors of the texts" in "\n".join(prepared.lines())
    assert f"encoder='vectors-{DIMENSION}'" in "\n".join(prepared.lines())
    with pytest.raises(BadOption, match="no encoder to export"):
        al_ray.export_model(ran.runs["vectors"], al_ray.ExportOptions(format="onnx"), tmp_path / "export")
    options = al_ray.PlanOptions(texts=10_000, matcher="on")
    by_texts, by_vectors = (al_ray.plan(one).plan for one in (options, replace(options, encoder="vectors-384")))
    assert by_texts.stage("embed").seconds > 0
    assert by_vectors.stage("embed").seconds == 0
