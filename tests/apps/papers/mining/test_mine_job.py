"""jobs.mine: known positives, counts of false negatives, and the table of labels for training."""

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from al_ray.apps.papers.mining.options import MiningConfig
from al_ray.apps.papers.mining.task_pool import mining_task
from al_ray.cli.mine import run_command
from al_ray.core.errors import BadFile, BadOption, WrongFolder
from al_ray.datasets.tables.columns import BadRowLog
from al_ray.datasets.tables.reader import TableFormat
from al_ray.datasets.task_folder import write_task
from al_ray.runs.existing_labels import read_existing_labels


@pytest.fixture
def small(task, tmp_path) -> MiningConfig:
    write_task(task, tmp_path / "task", {})
    return MiningConfig(
        task=str(tmp_path / "task"), out=tmp_path / "out", encoder="random-bert", encoder_layers=1, max_length=24,
        per_text=2, sample=9, threads=1,
    )  # fmt: skip


def test_half_of_the_positives_is_known_and_their_texts_are_queries(task):
    result, again = (mining_task(task, "train", 0.5, None, 3) for _ in range(2))
    split = task.split("train")
    assert len(result.known.positives) == round(len(split.positives) / 2)
    assert result.known.positives.tolist() == again.known.positives.tolist()
    shift = 0 if task.symmetric else len(task.left)
    truth = {frozenset(((0, one), (shift > 0, other))) for one, other in split.positives.tolist()}
    assert len(truth) == len(result.positives)
    texts = result.pool.texts
    for one, other in result.known.positives.tolist():
        assert result.known.component[one] == result.known.component[other]
        assert texts[one] == task.left.texts[one]
        assert texts[other] == task.right.texts[other - shift]
        assert one in result.pool.queries
        assert other in result.pool.candidates
    assert len(mining_task(task, "train", 0.5, 3, 3).pool.queries) == 3


@pytest.mark.parametrize("symmetric", [True, False])
def test_pairs_that_cannot_match_are_not_mined(small, make_ruled, tmp_path, symmetric):
    task = make_ruled(symmetric)
    write_task(task, tmp_path / "ruled", {})
    assert task.rule is not None
    run_command(replace(small, task=str(tmp_path / "ruled")))
    left, right = ({name: row for row, name in enumerate(corpus.ids)} for corpus in (task.left, task.right))
    mined = [row for file in small.out.glob("*.parquet") for row in pq.read_table(file).to_pylist()]
    pairs = np.array([(left[row["left_id"]], right[row["right_id"]]) for row in mined if not row["label"]])
    assert len(pairs) > 10
    assert task.rule.allows(pairs).all()


def test_every_miner_is_evaluated_and_its_table_has_the_labels_for_training(small, task, capsys):
    run_command(small)
    output = capsys.readouterr().out
    content = json.loads((small.out / "mined.json").read_text())
    assert list(content["miners"]) == ["random", "bm25", "tfidf", "neighbours", "model"]
    assert (content["split"], content["run"], content["sample"]) == ("train", None, small.sample)
    split = task.split("train")
    for name, lines in content["miners"].items():
        assert list(lines) == ["none", "labelled", "component", "all"]
        assert lines["none"]["positives"] >= lines["component"]["positives"]
        labelled = read_existing_labels(
            str(small.out / f"{name}.parquet"), task, ("left_id", "right_id", "label"), TableFormat(), BadRowLog("fail")
        )
        known = round(len(split.positives) / 2)
        assert labelled.positives == known
        assert len(labelled) == known + lines["all"]["pairs"]
        keys = split.space.keys(labelled.pairs)
        true = np.isin(keys, split.positive_keys)
        assert true[labelled.labels == 1].all()
        assert true[labelled.labels == 0].sum() == lines["all"]["positives"], "the counts are those of the table"
        stated = split.space.keys(split.stated_negatives)
        assert np.isin(keys[labelled.labels == 0], stated).sum() == lines["all"]["stated"]
        rows = pq.read_table(small.out / f"{name}.parquet")
        assert set(rows["source"].to_pylist()) <= {None, name}
        share = f"{100 * lines['all']['positives'] / lines['all']['pairs']:.2f}" if lines["all"]["pairs"] else "-"
        assert any(line.split()[:2] == [name, "all"] and share in line.split() for line in output.splitlines())


def test_known_positives_are_never_mined(small):
    run_command(replace(small, known=1.0, miners=("bm25", "neighbours"), sample=1000, out=None, random_share=0.5))
    run_command(replace(small, known=1.0, miners=("bm25", "neighbours"), sample=1000, random_share=0.5))
    for lines in json.loads((small.out / "mined.json").read_text())["miners"].values():
        assert lines["labelled"]["positives"] == lines["component"]["positives"] == lines["all"]["positives"] == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"miners": ("bm26",)}, "`miners` is 'bm26'; give some of random, bm25"),
        ({"miners": ()}, "`miners` is ''"),
        ({"known": 0.0}, "`known` is 0.0"),
        ({"split": "all"}, "`split` is 'all'"),
        ({"encoder": "cnn"}, "`encoder='cnn'` is not pre-trained"),
        ({"queries": 0}, "`queries` is 0"),
        ({"random_share": 0.05}, "`random_share=0.05` of `per_text=2` is less than half a negative"),
        ({"miners": ("bm25",), "sample": 9}, "`run` and `sample` are for the miner model; add it to `miners`"),
        ({"run": True}, "config.json"),
        ({"max_length": 1000}, "`max_length=1000` is beyond random-bert's"),
    ],
)
def test_bad_options_are_refused(small, tmp_path, options, words):
    if "run" in options:
        options = {"run": tmp_path / "nothing", "miners": ("model",)}
    with pytest.raises((BadOption, BadFile, WrongFolder), match=words):
        run_command(replace(small, **options))
