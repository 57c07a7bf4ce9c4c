"""jobs.augment from gold pairs to a table of Spearman's rho, with real Ray and a small random BERT as the teacher."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from scipy import stats

from al_ray.apps.papers.augmentation.folder import AugmentFolder
from al_ray.apps.papers.augmentation.gold import gold_of_task
from al_ray.apps.papers.augmentation.options import Gold, Sampler, Scored
from al_ray.apps.papers.augmentation.pipeline import spearman
from al_ray.apps.papers.augmentation.samplers import most_silver, sample_pairs
from al_ray.apps.papers.augmentation.stsb import read_stsb
from al_ray.apps.papers.augmentation.student import StudentSpec, StudentTrainer, tokenised
from al_ray.apps.papers.mining.miners import Pool, Random
from al_ray.cli.augment import AugmentCommand
from al_ray.cli.augment import run_command as augment
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.errors import BadFile, BadOption, WrongFolder
from al_ray.core.labels import Labelled
from al_ray.core.pairs import as_pairs
from al_ray.core.rng import generator
from al_ray.core.scorer import sigmoid
from al_ray.datasets.task_folder import write_task
from al_ray.encoders.cross_encoder import CrossEncoder
from al_ray.encoders.encoder import saved
from al_ray.training.bi_encoder import pair_cosines

WORDS = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen"]


def write_stsb(folder: Path, pairs: int = 48) -> Path:
    """Pairs of three words each; the score is five times the share of words that both have, and so a fraction."""
    rng = np.random.default_rng(0)
    for number, split in enumerate(("train", "dev", "test")):
        lines = []
        for row in range(pairs if not number else pairs // 2):
            one, other = (rng.choice(WORDS, 3, replace=False).tolist() for _ in range(2))
            score = 5 * len({*one} & {*other}) / 3
            more = "\tof some source" if row % 3 == 0 else ""
            lines.append(f"captions\tfile\t2012\t{row:04d}\t{score:.3f}\t{' '.join(one)}\t{' '.join(other)}{more}\r\n")
        (folder / f"sts-{split}.csv").write_bytes("".join(lines).encode())
    return folder


@pytest.fixture(scope="module")
def stsb(tmp_path_factory) -> Path:
    return write_stsb(tmp_path_factory.mktemp("stsb"))


def small_options(stsb: Path, out: Path) -> AugmentCommand:
    return AugmentCommand(
        gold=f"stsb:{stsb}", out=out, encoder="cnn-8", teacher="random-bert", teacher_layers=1, max_length=40,
        threads=1, learning_rate=1e-3, teacher_rate=1e-3, per_text=2, slice_pairs=16,
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(stsb, tmp_path_factory, in_process) -> Path:
    out = tmp_path_factory.mktemp("augment") / "out"
    augment(replace(small_options(stsb, out), same_steps=True))
    return out


def test_an_augmentation_writes_the_results_of_every_model(folder):
    results = json.loads((folder / "results.json").read_text())
    silver = AugmentFolder(folder).read("silver")
    assert silver is not None
    models = {line["model"]: line for line in results["models"]}
    both = 48 + len(silver)
    assert {name: (line["gold"], line["silver"], line["steps"]) for name, line in models.items()} == {
        "cross-encoder": (48, 0, 3),
        "untrained": (0, 0, 0),
        "gold": (48, 0, 3),
        "augmented": (48, len(silver), both // 16),
        "same-steps": (48, 0, both // 16),
    }
    assert all(-1 <= rho <= 1 for line in models.values() for rho in line["spearman"].values())
    assert all(set(line["spearman"]) == {"dev", "test"} for line in models.values())


def test_silver_scores_are_those_of_the_cross_encoder_on_new_pairs(folder, stsb):
    silver, gold = AugmentFolder(folder).read("silver"), read_stsb(stsb)
    assert silver is not None
    cross = CrossEncoder.saved(str(folder / "cross" / "model"))
    assert silver.scores == pytest.approx(sigmoid(cross.scores(list(silver.texts), 1)), abs=1e-5)
    assert len(np.unique(silver.scores.round(6))) > 10
    assert set(silver.sources.tolist()) == {"random"}
    known = {frozenset(pair) for part in (gold.train, *gold.measured.values()) for pair in part.pairs.tolist()}
    rows = {text: row for row, text in enumerate(gold.pool.texts)}
    pairs = [frozenset((rows[left], rows[right])) for left, right in silver.texts]
    assert not known & set(pairs), "gold became silver"
    assert len(set(pairs)) == len(pairs)


def test_the_results_are_those_of_the_saved_models(folder, stsb):
    gold, results = read_stsb(stsb), json.loads((folder / "results.json").read_text())
    texts = gold.pool.texts
    pairs = [(texts[left], texts[right]) for left, right in gold.measured["test"].pairs.tolist()]
    encoding = small_options(stsb, folder).encoding
    for line in results["models"]:
        if line["model"] == "cross-encoder":
            output = CrossEncoder.saved(str(folder / "cross" / "model")).scores(pairs, 1)
        elif line["model"] == "untrained":
            known = gold.pool.members
            spec = StudentSpec(encoding, small_options(stsb, folder).learning, 0)
            output = StudentTrainer(spec).cosines(None, pairs, known)
        else:
            encoder = saved(str(folder / line["model"] / "model"), encoding)
            tokens, rows = tokenised(encoder, pairs)
            output = pair_cosines(encoder, tokens, tokens, rows)
        assert line["spearman"]["test"] == pytest.approx(scipys(output, gold.measured["test"].scores))


def test_a_rerun_computes_nothing_and_shards_do_not_change_scores(either_way, folder, stsb, tmp_path, capsys):
    files = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}
    again = replace(small_options(stsb, folder), same_steps=True)
    augment(again)
    assert "augmented" in capsys.readouterr().out
    after = {path: path.stat().st_mtime_ns for path in files}
    assert [path for path in files if files[path] != after[path] and path.name != "results.json"] == []
    # A folder that is older than an option has its default.
    about = json.loads((folder / "config.json").read_text())
    assert about.pop("arithmetic") == "auto"
    (folder / "config.json").write_text(json.dumps(about))
    augment(again)
    with pytest.raises(WrongFolder, match="arithmetic: 'auto' there, 'bf16' here"):
        augment(replace(again, arithmetic="bf16"))
    with pytest.raises(WrongFolder, match="per_text: 2 there, 3 here"):
        augment(replace(again, per_text=3))
    # A killed job may have finished any part: here only the cross-encoder, one slice of its labels, and one student.
    shutil.copytree(folder, tmp_path / "part")
    for name in ("silver.parquet", "unlabelled.parquet", "results.json"):
        (tmp_path / "part" / name).unlink()
    shutil.rmtree(tmp_path / "part" / "augmented")
    for path in sorted((tmp_path / "part" / "cross" / "scores").iterdir())[1:]:
        path.unlink()
    augment(replace(again, out=tmp_path / "part", cluster=ClusterConfig(shards=2, cpus_per_shard=0.5)))
    assert (tmp_path / "part" / "results.json").read_text() == (folder / "results.json").read_text()
    assert (tmp_path / "part" / "silver.parquet").read_bytes() == (folder / "silver.parquet").read_bytes()


def scipys(one, other) -> float:
    result: Any = stats.spearmanr(one, other)
    return result.statistic


SAMPLERS = get_args(Sampler)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler_keeps_the_contract(sampler, stsb):
    config = replace(small_options(stsb, Path("out")), sampler=sampler).config
    gold = read_stsb(stsb).subset(20, False, 0)
    silver, again = sample_pairs(config, gold), sample_pairs(config, gold)
    assert len(silver) > 0
    assert silver.texts == again.texts, "the same seed, the same pairs"
    pairs = [frozenset(pair) for pair in silver.texts]
    assert len(set(pairs)) == len(pairs)
    assert all(len(pair) == 2 for pair in pairs), "a text with itself"
    texts = gold.pool.texts
    known = {
        frozenset((texts[one], texts[other]))
        for part in (gold.train, *gold.measured.values())
        for one, other in part.pairs.tolist()
    }
    assert not known & set(pairs)
    assert np.isnan(silver.scores).all(), "they are not labelled yet"
    assert len(silver.scores) <= most_silver(config, gold)
    first = {texts[row] for row in gold.train.pairs[:, 0].tolist()}
    second = {texts[row] for row in gold.train.pairs[:, 1].tolist()}
    if sampler in ("insertion", "substitution"):
        assert all(left in first or right in second for left, right in silver.texts)
        assert set(silver.sources.tolist()) == {sampler}
        longer = {len(text.split()) for pair in silver.texts for text in pair}
        assert longer == ({3, 4} if sampler == "insertion" else {3})
    else:
        assert all(left in first and right in second for left, right in silver.texts)
        names = {"bm25+neighbours": {"bm25", "neighbours"}, "uncertainty": {"bm25", "neighbours", "random"}}
        assert set(silver.sources.tolist()) == names.get(sampler, {sampler})
        assert (np.isnan(silver.similarities) == (silver.sources == "random")).all()


@pytest.mark.parametrize("seed", range(6))
def test_a_reworded_pair_that_is_gold_or_of_equal_texts_is_left_out(stsb, seed):
    # The pool's words are a, b and x: a becomes b, and (b, x) is gold; or x, and (x, x) is one text; and so does b.
    pool = Pool(("a", "b", "x", "y"), np.array([0, 1]), np.array([2]))
    gold = Gold(
        "letters",
        pool,
        Scored(np.array([[0, 2], [1, 2]]), np.zeros(2)),
        {"dev": Scored(np.array([[0, 3]]), np.ones(1))},
    )
    config = replace(small_options(stsb, Path("out")), sampler="substitution", per_text=1, seed=seed).config
    assert len(sample_pairs(config, gold)) == 0
    assert len(sample_pairs(replace(config, sampler="insertion"), gold)) == 2


def test_the_first_texts_of_gold_have_the_given_number_of_random_partners(stsb):
    gold = read_stsb(stsb)
    result = Random(gold.pool, np.random.default_rng(0)).mine(5)
    assert len(result) == 5 * len(np.unique(gold.train.pairs[:, 0]))


def test_uncertainty_selects_the_pairs_with_scores_nearest_one_half(stsb, tmp_path, in_process):
    out = tmp_path / "out"
    augment(replace(small_options(stsb, out), sampler="uncertainty", most_per_bin=30))
    sampled, selected = AugmentFolder(out).read("unlabelled"), AugmentFolder(out).read("silver")
    assert sampled is not None
    assert selected is not None
    queries = len(read_stsb(stsb).pool.queries)
    assert len(sampled) > 2 * queries >= len(selected)
    cross = CrossEncoder.saved(str(out / "cross" / "model"))
    scores = sigmoid(cross.scores(list(sampled.texts), 8))
    nearest = np.sort(np.abs(scores - 0.5))[: 2 * queries]
    assert np.abs(selected.scores - 0.5).max() <= nearest.max() + 1e-6
    assert np.bincount((selected.scores * 10).astype(int)).max() <= 30


def test_labels_of_a_task_become_gold_scores_zero_and_one(make_task, tmp_path, in_process, capsys):
    task = make_task(False)
    write_task(task, tmp_path / "task", {})
    options = replace(
        small_options(tmp_path, tmp_path / "out"), gold=None, task=str(tmp_path / "task"), labels="stated"
    )
    augment(replace(options, dry_run=True))
    assert not (tmp_path / "out").exists()
    augment(options)
    output = capsys.readouterr().out
    train = task.split("train")
    stated = len(train.positives) + len(train.stated_negatives)
    assert f"gold: {stated:,} pairs of small" in output
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    dev = task.split("dev")
    assert results["measured_pairs"] == {"dev": len(dev.positives) + len(dev.stated_negatives)}


def test_equal_texts_are_one_text_of_gold(make_task):
    task = make_task(True, twins=3)
    split, dev = task.split("train"), task.split("dev")
    stated_dev = replace(dev, stated_negatives=dev.space.pairs(dev.space.draw(3, dev.positive_keys, generator(0, "x"))))
    task = replace(task, splits={**task.splits, "dev": stated_dev})
    twins = [row for row in split.space.left.tolist() if task.left.texts[row] == "just the same"]
    pairs = np.array([[twins[0], twins[1]], [0, twins[2]], [0, 1]])
    labelled = Labelled().extended(pairs, np.array([1, 0, 1], dtype=np.uint8), 1, "hand")
    gold = gold_of_task(task, labelled)
    assert len(set(gold.pool.texts)) == len(gold.pool.texts) == len(task.left) - 2
    texts = gold.pool.texts
    assert [(texts[one], texts[other]) for one, other in gold.train.pairs.tolist()] == [
        (task.left.texts[0], "just the same"),
        (task.left.texts[0], task.left.texts[1]),
    ]
    assert gold.train.scores.tolist() == [0.0, 1.0]
    output = {frozenset((texts[one], texts[other])) for one, other in gold.measured["dev"].pairs[:-3].tolist()}
    assert output == {
        frozenset((task.left.texts[one], task.left.texts[other])) for one, other in dev.positives.tolist()
    }
    assert gold.measured["dev"].scores.tolist() == [1.0] * len(dev.positives) + [0.0] * 3


def test_a_measured_pair_whose_texts_are_a_training_pair_is_left_out(make_task):
    task = make_task(False)
    dev = task.split("dev")
    # The first stated pairs of dev, by their texts, are also labelled: their copies stand in other rows.
    pairs = np.concatenate([dev.positives[:1], dev.stated_negatives[:2]])
    left, right = list(task.left.texts), list(task.right.texts)
    train = task.split("train").space
    copies = as_pairs(train.left[:3], train.right[:3])
    for (one, other), (row, column) in zip(pairs.tolist(), copies.tolist(), strict=True):
        left[row], right[column] = left[one], right[other]
    task = replace(task, left=replace(task.left, texts=tuple(left)), right=replace(task.right, texts=tuple(right)))
    labelled = Labelled().extended(copies, np.array([1, 0, 0], dtype=np.uint8), 1, "hand")
    gold = gold_of_task(task, labelled)
    assert len(gold.train) == 3
    assert len(gold.measured["dev"]) == len(dev.positives) + len(dev.stated_negatives) - 3
    assert not np.isin(gold.pool.keys(gold.measured["dev"].pairs), gold.pool.keys(gold.train.pairs)).any()


def test_a_subset_of_gold_is_drawn_by_the_seed_and_its_texts_are_the_pool(stsb):
    gold = read_stsb(stsb)
    one, same, other = (gold.subset(10, False, seed) for seed in (1, 1, 2))
    assert one.train.pairs.tolist() == same.train.pairs.tolist() != other.train.pairs.tolist()
    assert set(one.pool.queries) == set(one.train.pairs[:, 0])
    assert set(one.pool.candidates) == set(one.train.pairs[:, 1])
    assert gold.subset(10, True, 1).pool.queries.tolist() == gold.pool.queries.tolist()
    assert one.measured["dev"].scores.tolist() == gold.measured["dev"].scores.tolist()
    with pytest.raises(BadOption, match="`gold_pairs=49` are more than the 48"):
        gold.subset(49, False, 0)


def test_scores_are_fractions_and_equal_sentences_are_one_text(tmp_path):
    for split in ("train", "dev", "test"):
        lines = 'a\tb\tc\td\t3.800\tOne "cat\tTwo\r\na\tb\tc\td\t0.0\tTwo\tThree\tx\ty'
        (tmp_path / f"sts-{split}.csv").write_text(lines)
    gold = read_stsb(tmp_path)
    # 3.8 / 5: the source's code would make it 0.
    assert gold.train.scores.tolist() == [0.76, 0.0]
    assert gold.pool.texts == ('One "cat', "Two", "Three")
    assert gold.train.pairs.tolist() == [[0, 1], [1, 2]] == gold.measured["test"].pairs.tolist()
    assert (gold.pool.queries.tolist(), gold.pool.candidates.tolist()) == ([0, 1], [1, 2])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a\tb\tc\td\t1.0\tone", "sts-dev.csv:2: it has 6 columns, not 7 or more"),
        ("a\tb\tc\td\t5.1\tone\ttwo", "its score is '5.1', not a number from 0 to 5"),
        ("a\tb\tc\td\tnan\tone\ttwo", "its score is 'nan'"),
        ("a\tb\tc\td\thigh\tone\ttwo", "its score is 'high'"),
        ("a\tb\tc\td\t1.0\t \ttwo", "a sentence is empty"),
        ("a\tb\tc\td\t1.0\t\udcff\ttwo", "is not UTF-8"),
    ],
)
def test_an_invalid_line_of_the_benchmark_is_named(tmp_path, line, words):
    write_stsb(tmp_path)
    good = (tmp_path / "sts-dev.csv").read_bytes().split(b"\n")[0]
    (tmp_path / "sts-dev.csv").write_bytes(good + b"\n" + line.encode(errors="surrogateescape") + b"\n")
    with pytest.raises(BadFile, match=words):
        read_stsb(tmp_path)


def test_a_missing_or_empty_file_of_the_benchmark_is_named(tmp_path):
    with pytest.raises(BadFile, match=r"sts-train.csv cannot be read .*; give `gold='stsb:FOLDER'`"):
        read_stsb(tmp_path)
    write_stsb(tmp_path)
    (tmp_path / "sts-test.csv").write_text("\n")
    with pytest.raises(BadFile, match=r"sts-test.csv holds no pair"):
        read_stsb(tmp_path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gold": None}, "give the gold pairs"),
        ({"task": "task"}, "give the gold pairs"),
        ({"labels": "stated"}, "give the gold pairs"),
        ({"gold": "glue:x"}, "`gold` is 'glue:x'; give stsb:FOLDER"),
        ({"gold": "stsb:"}, "`gold` is 'stsb:'; give stsb:FOLDER"),
        ({"gold_pairs": 1}, "`gold_pairs` is 1; give at least 2"),
        ({"per_text": 0}, "`per_text` is 0"),
        ({"changed": 2.0}, "`changed` is 2"),
        ({"changed": 0.5}, "`words_from` and `changed` are for `sampler='insertion'` and `sampler='substitution'`"),
        ({"words_from": "masked", "sampler": "bm25"}, "`words_from` and `changed` are for `sampler='insertion'`"),
        ({"words": 7, "encoder": "random-bert"}, "`words` is for `encoder='cnn'`, and that is random-bert"),
        ({"fresh_layers": 1}, "`fresh_layers=1`: all weights of cnn-8 are random"),
        ({"words_from": "masked", "sampler": "insertion"}, "has no mask"),
        ({"teacher": "cnn"}, "`teacher='cnn'` is not a transformer"),
        ({"encoder": "random-bert", "encoder_layers": 1, "fresh_layers": 2}, "random-bert has 1 layers; give fewer"),
    ],
)
def test_bad_options_are_refused_before_any_work(stsb, tmp_path, options, words):
    with pytest.raises((BadFile, BadOption), match=words):
        augment(replace(small_options(stsb, tmp_path / "out"), **{"dry_run": True, **options}))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("size", [1, 2, 5])
def test_spearman_of_a_constant_side_is_not_a_number(size):
    rising, same = np.arange(float(size)), np.full(size, 0.1)
    assert np.isnan(spearman(rising, same))
    assert np.isnan(spearman(same, rising))


def test_spearman_by_hand():
    # Ranks 1, 2.5, 2.5, 4 and 1, 2, 3, 4: less their mean -1.5, 0, 0, 1.5 and -1.5, -0.5, 0.5, 1.5.
    # 4.5 / sqrt(4.5 * 5)
    assert spearman(np.array([0.1, 0.2, 0.2, 0.9]), np.array([1.0, 2, 3, 4])) == pytest.approx(4.5 / 22.5**0.5)
    assert spearman(np.array([0.1, 0.2]), np.array([2.0, 1])) == pytest.approx(-1)
    with pytest.raises(BadFile, match="are not numbers"):
        spearman(np.array([0.1, np.nan]), np.array([1.0, 2]))
