"""Candidates and the score of two stages over shards: as a double loop over all pairs has them, however many shards."""

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from al_ray.active_learning.config import RunConfig
from al_ray.cluster.candidates.matcher_trainer import MatcherTrainer
from al_ray.cluster.candidates.records import feature_names
from al_ray.cluster.pool.sharded_evaluator import PoolEvaluator
from al_ray.cluster.pool.sharded_retriever import PoolSearch, Query
from al_ray.cluster.services import deploy_pool
from al_ray.cluster.token_store import pool_folder
from al_ray.core.candidates import HIGHEST, Order
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import CandidatesConfig, EvaluationConfig, SearchConfig
from al_ray.core.labels import NO, YES, Labelled, Model
from al_ray.core.pairs import NO_KEYS, as_pairs
from al_ray.core.progress import no_progress
from al_ray.core.task import Split, Task
from al_ray.core.two_stage_score import TIE
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.matcher.model_file import NAME, read_model
from al_ray.runs.evaluation_sets import EvaluationSets
from al_ray.runs.importance import read_importance
from al_ray.runs.run_folder import RunFolder
from al_ray.search.candidate_ranks import FEW
from tests.ways import HERE, ON_RAY

KINDS = {
    "two-sided": (False, False, 0),
    "symmetric": (True, False, 0),
    "with a rule": (False, True, 0),
    "symmetric, rule": (True, True, 9),
    "equal texts": (True, False, 9),
}
K, OF_RIGHT, OF_DENSE, MORE = 5, 5, 12, 0.75


def config_of(folder: Path) -> RunConfig:
    return RunConfig(
        task=str(folder), rounds=2, first_batch=16, encoder="random-bert", encoder_layers=1, max_length=24,
        encoder_batch=8, threads=1, search=SearchConfig(neighbours=5, block=16), matcher="on",
        candidates=CandidatesConfig(cosine=K, trigrams=K, of_right=OF_RIGHT, of_dense=OF_DENSE, more_of_dense=MORE),
        evaluation=EvaluationConfig(splits=("dev",)),
    )  # fmt: skip


@pytest.fixture(scope="module", params=KINDS)
def folder(request, make_task, make_ruled, tmp_path_factory) -> Path:
    symmetric, ruled, twins = KINDS[request.param]
    to = tmp_path_factory.mktemp("task") / "task"
    write_task((make_ruled if ruled else make_task)(symmetric, clusters=18, twins=twins), to, {})
    return to


@contextmanager
def matched(folder: Path, shards: int, out: Path):
    """A pool with its candidates, and the trainer of a matcher."""
    config, task = config_of(folder), read_task(folder)
    with deploy_pool(config, ClusterConfig(shards=shards, timeout=600), task, out, no_progress) as pool:
        trainer = MatcherTrainer(
            config, pool, pool_folder(task, config.encoding, out), RunFolder(out, task), no_progress
        )
        trainer.candidates.prepare(task.split(name) for name in ("train", "dev"))
        yield pool, trainer


def all_pairs(split: Split) -> np.ndarray:
    return split.space.pairs(np.sort(split.space.at(np.arange(split.space.total))))


def labelled_of(split: Split) -> Labelled:
    """Every other match, and pairs that are none."""
    yes, every = split.positives[::2], all_pairs(split)
    other = every[~np.isin(split.space.keys(every), split.positive_keys)][::23]
    labels = np.concatenate([np.full(len(yes), YES, dtype=np.uint8), np.full(len(other), NO, dtype=np.uint8)])
    return Labelled(np.concatenate([yes, other]), labels, np.ones(len(labels), dtype=np.int32), ("x",) * len(labels))


def trained(trainer: MatcherTrainer) -> Model:
    return trainer.train(labelled_of(trainer.pool.task.split("train")), 1, trainer.untrained())


def nearest_twin(scores: np.ndarray, rows: np.ndarray, others: np.ndarray, count: int) -> set[tuple[int, int]]:
    """(rows, others) of the `count` highest scores of each row; -inf is no pair."""
    found = set()
    for line, row in enumerate(rows.tolist()):
        order = np.lexsort((others, -scores[line]))[:count]
        found |= {(row, int(others[at])) for at in order if scores[line, at] > -np.inf}
    return found


def dense_twin(cosines: np.ndarray, least: float, rows: np.ndarray, others: np.ndarray, symmetric: bool):
    """(rows, others) that reach a cosine, of the nearest of each row; of one set those with a text before it."""
    near = nearest_twin(cosines, rows, others, OF_DENSE)
    places = {row: at for at, row in enumerate(rows.tolist())}, {row: at for at, row in enumerate(others.tolist())}
    return {
        (row, other)
        for row, other in near
        if cosines[places[0][row], places[1][other]] >= least and not (symmetric and other > row)
    }


def least_twin(said: dict, task: Task) -> float:
    """The lowest of 2,048 cosines that the K-th nearest of few left texts of train reach, a 20th, or the highest.

    A lower one, which 30% reach, if by it a text has few more of its OF_DENSE nearest than K, on average MORE.
    """
    table, space = cosine_table(said, task, "train"), task.split("train").space
    kth = [sorted(line)[-K] for line in table.tolist()]
    known, near = (nearest_twin(table, space.left, space.right, count) for count in (K, OF_DENSE))
    places = [{row: at for at, row in enumerate(rows.tolist())} for rows in (space.left, space.right)]
    more = [
        table[places[0][row], places[1][other]] for row, other in near - known if not (task.symmetric and other > row)
    ]

    def lowest(scores: list[float], most: float) -> int:
        few = (step for step in range(-1024, 1024) if sum(one >= step / 1024 for one in scores) <= most)
        return next(few, 1023)

    step = min(lowest(kth, len(kth) / 20), max(lowest(kth, 0.3 * len(kth)), lowest(more, MORE * len(kth))))
    return step / 1024


def cosine_table(said: dict, task: Task, name: str) -> np.ndarray:
    """(left, right) cosines of the texts of a split; -inf where there is no pair."""
    space, pairs = task.split(name).space, all_pairs(task.split(name))
    table = np.full((len(task.left), len(task.right)), -np.inf)
    table[pairs[:, 0], pairs[:, 1]] = said[f"cosines {name}"]
    if task.symmetric:
        table[pairs[:, 1], pairs[:, 0]] = said[f"cosines {name}"]
    return table[np.ix_(space.left, space.right)]


@pytest.fixture(scope="module", params=[HERE, pytest.param(ON_RAY, marks=pytest.mark.more)])
def both(request, folder, tmp_path_factory):
    """What pools of one and of three shards say."""
    if request.param == ON_RAY:
        request.getfixturevalue("local_ray")
    answers = []
    for shards in (1, 3):
        out = tmp_path_factory.mktemp("run") / "run"
        with matched(folder, shards, out) as (pool, trainer):
            said, task = dict[str, object](), pool.task
            model = trained(trainer)
            said["names"] = trainer.candidates.names
            for name in ("train", "dev"):
                split, pairs = task.split(name), all_pairs(task.split(name))
                own = pool.candidates_of(trainer.untrained(), split)
                ways = [way for _, way in trainer.candidates._on_all(split, "ways_of", own, split.space.keys(pairs))]
                said[f"ways {name}"] = np.bitwise_or.reduce(ways)
                said[f"features {name}"] = trainer.candidates.features_of(split, pairs)
                said[f"cosines {name}"] = pool.scores(trainer.untrained(), split, pairs)
                said[f"scores {name}"] = pool.scores(model, split, pairs)
                for mode in ("exact", "estimate"):
                    options = replace(trainer.config.evaluation, mode=mode, random_pairs=300, near_neighbours=4)
                    run = replace(trainer.config, evaluation=options)
                    shelf = EvaluationSets([out / mode])
                    said[f"{mode} {name}"] = PoolEvaluator(pool, task, run, shelf).evaluate(model, name)
            split = task.split("train")
            search, labelled = PoolSearch(pool, split), np.sort(split.space.keys(labelled_of(split).pairs))
            said["highest"] = search.least(model, HIGHEST, 20, labelled)
            said["uncertain"] = search.least(model, Order(2.5), 20, labelled)
            said["all uncertain"] = search.least(model, Order(2.5), 100_000, labelled)
            said["examples"] = search.least_of_each(model, [Query(Order(2.5), 9, NO_KEYS)])[0]
            said["spread"] = trainer.spread(16, labelled)
            said["presumed"] = trainer.candidates.far(split, labelled)
            said["matcher"] = model.digest
            said["importance"] = read_importance(trainer.journal.round(1))
            features = trainer.candidates.features_of(task.split("train"), all_pairs(task.split("train")))
            added = read_model(trainer.journal.round(1) / "model" / NAME).contributions(features)
            said["base"], said["added"] = added.base, added.values
        answers.append(said)
    return task, answers[0], answers[1]


def test_answers_do_not_depend_on_shards(both):
    _, one, three = both
    for name, said in one.items():
        if isinstance(said, np.ndarray):
            assert said.tobytes() == three[name].tobytes(), name
        elif hasattr(said, "keys") and hasattr(said, "cosines"):
            assert (said.keys.tolist(), said.cosines.tolist()) == (
                three[name].keys.tolist(),
                three[name].cosines.tolist(),
            ), name
        elif hasattr(said, "average_precision"):
            assert said.average_precision.value == three[name].average_precision.value, name
            assert said.curve.as_dict() == three[name].curve.as_dict(), name
            assert said.over_queries.values.tolist() == three[name].over_queries.values.tolist(), name
        else:
            assert said == three[name], name


@pytest.mark.parametrize("name", ["train", "dev"])
def test_candidates_are_the_nearest_of_both_sides_by_both_ways(both, name):
    task, said, _ = both
    space, pairs = task.split(name).space, all_pairs(task.split(name))
    for bit, scores in enumerate((said[f"cosines {name}"], said[f"features {name}"][:, FEW].astype(np.float64))):
        table = np.full((len(task.left), len(task.right)), -np.inf)
        # A pair without a common 3-gram is found by no index of 3-grams.
        shown = scores if bit == 0 else np.where(scores > 0, scores, -np.inf)
        table[pairs[:, 0], pairs[:, 1]] = shown
        if task.symmetric:
            table[pairs[:, 1], pairs[:, 0]] = shown
        twin = nearest_twin(table[np.ix_(space.left, space.right)], space.left, space.right, K)
        if not task.symmetric:
            turned = nearest_twin(table[np.ix_(space.left, space.right)].T, space.right, space.left, OF_RIGHT)
            twin |= {(left, right) for right, left in turned}
        if bit == 0:
            dense = cosine_table(said, task, name), least_twin(said, task), space.left, space.right, task.symmetric
            # Each of nine equal texts has more of them than K, if they can match.
            assert name == "dev" or len(task.left) <= 72 or task.rule is not None or dense_twin(*dense) - twin
            twin |= dense_twin(*dense)
        wanted = set(space.keys(as_pairs(*zip(*twin, strict=True))).tolist())
        found = set(space.keys(pairs)[said[f"ways {name}"] >> bit & 1 > 0].tolist())
        assert found == wanted


@pytest.mark.parametrize("name", ["train", "dev"])
def test_ranks_are_differences_from_the_nearest(both, name):
    task, said, _ = both
    space, pairs = task.split(name).space, all_pairs(task.split(name))
    for at, scores in ((0, said[f"cosines {name}"]), (FEW, said[f"features {name}"][:, FEW].astype(np.float64))):
        for number in range(0, len(pairs), 37):
            mine = []
            for side in (0, 1):
                of_text = pairs[:, side] == pairs[number, side]
                if task.symmetric:
                    of_text = (pairs == pairs[number, side]).any(axis=1)
                near = np.sort(scores[of_text])[::-1]
                near = near[near > 0] if at else near
                mine.append((near[:FEW].mean() if len(near) else 0.0, near[0] if len(near) else 0.0))
            expected = [scores[number]]
            for kind in (0, 1):
                less = [scores[number] - one[kind] for one in mine]
                expected += sorted(less, reverse=True) if task.symmetric else less
            assert said[f"features {name}"][number, at : at + FEW] == pytest.approx(expected, abs=2e-6)
    assert space.total == len(pairs)


@pytest.mark.parametrize("name", ["train", "dev"])
def test_candidates_rank_above_all_others_and_ap_is_that_of_a_loop_over_all_pairs(both, name):
    task, said, _ = both
    split, pairs = task.split(name), all_pairs(task.split(name))
    scores, cosines, candidate = said[f"scores {name}"], said[f"cosines {name}"], said[f"ways {name}"] > 0
    assert (scores[candidate] >= 2).all()
    assert scores[~candidate].tolist() == cosines[~candidate].tolist()
    match = np.isin(split.space.keys(pairs), split.positive_keys)
    assert said[f"exact {name}"].average_precision.value == pytest.approx(
        slow_average_precision(scores, match), abs=1e-12
    )
    estimate = said[f"estimate {name}"].average_precision
    assert estimate.value == pytest.approx(said[f"exact {name}"].average_precision.value, abs=0.25)
    # Every pair has a probability, and those of all pairs add up in the reliability table.
    assert sum(row.weight for row in said[f"exact {name}"].reliability.table()) == len(pairs)


def slow_average_precision(scores: np.ndarray, match: np.ndarray) -> float:
    """AP with ties counted together, by the definition: a loop over the positives."""
    values = []
    for score in scores[match]:
        above = scores >= score
        values.append(match[above].sum() / above.sum())
    return float(np.mean(values))


def test_uncertain_pairs_are_of_different_left_texts_until_there_are_too_few(both):
    task, said, _ = both
    split, pairs = task.split("train"), all_pairs(task.split("train"))
    labelled = set(split.space.keys(labelled_of(split).pairs).tolist())
    keys = split.space.keys(pairs)
    rows = zip(keys.tolist(), said["scores train"].tolist(), said["ways train"].tolist(), strict=True)
    free = [(abs(score - 2.5), key) for key, score, way in rows if way and key not in labelled]
    first, used = [], set()
    for _, key in sorted(free):
        if key // split.space.width not in used:
            used.add(key // split.space.width)
            first.append(key)
    assert said["uncertain"].keys.tolist() == first[:20]
    assert len(set((said["uncertain"].keys // split.space.width).tolist())) == min(20, len(first))
    assert sorted(said["all uncertain"].keys.tolist()) == sorted(key for _, key in free)
    assert said["all uncertain"].keys.tolist()[: len(first)] == first


def test_the_first_batch_is_spread_and_holds_no_labelled_pair(both):
    task, said, _ = both
    split = task.split("train")
    chosen = said["spread"].keys.tolist()
    labelled = set(split.space.keys(labelled_of(split).pairs).tolist())
    assert len(set(chosen)) == len(chosen) == 16
    assert not labelled & set(chosen)
    pairs, ways = all_pairs(split), said["ways train"]
    candidates = split.space.keys(pairs)[ways > 0]
    assert set(chosen) <= set(candidates.tolist())
    assert not labelled & set(said["presumed"].tolist())


def test_a_grown_task_or_another_comparison_has_candidates_of_its_own(both, folder, tmp_path):
    task, said, _ = both
    assert said["names"] == feature_names(task.left, task.right)
    assert len(set(said["names"])) == len(said["names"])
    assert said["features train"].shape[1] == len(said["names"])
    assert np.isfinite(said["features train"]).all()


def test_p_is_the_base_and_what_the_comparisons_add(both):
    _, said, _ = both
    candidate = said["ways train"] > 0
    p = said["base"] + said["added"].sum(axis=1)
    # The score of a candidate is 2 and p, but for TIE of it, which is its cosine's.
    tie = TIE * (said["cosines train"] + 1) / 2
    assert said["scores train"][candidate] == pytest.approx((2 + (1 - TIE) * p + tie)[candidate], abs=1e-12)


def test_importance_is_the_mean_over_the_labelled_pairs(both):
    task, said, _ = both
    split, found = task.split("train"), said["importance"]
    labelled, keys = labelled_of(split), split.space.keys(all_pairs(split)).tolist()
    totals = dict.fromkeys(said["names"], 0.0)
    for key in split.space.keys(labelled.pairs).tolist():
        for name, adds in zip(said["names"], said["added"][keys.index(key)].tolist(), strict=True):
            totals[name] += abs(adds) / len(labelled)
    assert found.pairs == len(labelled)
    assert dict(zip(found.names, found.adds, strict=True)) == pytest.approx(totals)
    assert list(found.adds) == sorted(found.adds, reverse=True)
    assert found.adds[0] > 0
