"""A pool on one, two or three shards, without Ray: its answers against double loops in float64, bit for bit."""

from dataclasses import dataclass, replace
from itertools import chain
from math import fsum, inf
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.cluster.token_store import parts_of, write_pool
from al_ray.core.candidates import MARGIN, NO_CANDIDATES, Candidates, Order
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.config.sections import SearchConfig
from al_ray.core.errors import BadFile
from al_ray.core.labels import Model
from al_ray.core.pairs import NO_KEYS, Keys, PairSpace, as_pairs, distinct
from al_ray.core.scorer import Scorer
from al_ray.core.task import Split, Task
from al_ray.core.vectors import Block, dots, paired_scores
from al_ray.core.vectors import cosines as unit_cosines
from al_ray.datasets.task_folder import write_task
from al_ray.encoders.transformer import Encoder
from al_ray.metrics.average_precision import counts_above, thresholds_of
from al_ray.metrics.bootstrap import QueryBootstrap
from al_ray.metrics.calibration import reliability
from al_ray.metrics.estimator import CountRequest
from al_ray.search import counting as count_module
from al_ray.search.faiss_index import CosineIndex
from al_ray.search.knn_merge import KnnRequest, members, nearest, select, shortlist
from al_ray.search.knn_rounds import First, Portion, first_round, join_rounds
from al_ray.search.merge import Neighbors
from al_ray.search.shard import PoolShard
from al_ray.search.shard_spec import ShardSpec

SEARCH = SearchConfig(neighbours=4, block=25)
CENTRES = [inf, 0.9, -inf]


@dataclass(frozen=True)
class Pool:
    """A task's pool on some shards."""

    task: Task
    shards: list[PoolShard]
    model: Model
    search: SearchConfig
    portion: Portion = None

    def part(self, split: str, side: str) -> str:
        return parts_of(self.task)[split, side]

    def blocks(self, split: str):
        for shard in self.shards:
            part = self.part(split, "left")
            for start in range(0, len(shard.rows(part)), self.search.block):
                yield shard, shard.block(self.model, part, start, start + self.search.block)

    def least(self, split: Split, space: PairSpace, order: Order, count: int, labelled: Keys) -> Candidates:
        request = KnnRequest(space, self.task.symmetric, self.search.neighbours, order, count)
        right, every = self.part(split.name, "right"), NO_CANDIDATES
        for _, block in self.blocks(split.name):
            answers = self.nearest(request, right, block)
            bound = float(order.cost(every.cosines[-1:])[0]) if len(every) == count else inf
            listed = shortlist(request, bound, block.rows, labelled, answers)
            cosines = [shard.cosines(self.model, right, block, listed.pairs) for shard in self.shards]
            every = every.joined(select(request, listed, cosines)).least(order, count)
        return every

    def nearest(self, request: KnnRequest, right: str, block: Block) -> list[Neighbors]:
        """In one round, or in two where shards give a portion first."""
        arguments = self.model, right, block, request.neighbours + request.symmetric, None
        answers = [shard.nearest(*arguments, self.portion) for shard in self.shards]
        if self.portion is None:
            return answers
        first = first_round(request, block.rows, answers)
        return [
            join_rounds(first, [self.shards[shard].nearest(*arguments, rest) for shard, rest in first.rests.items()])
        ]

    def near(self, split: Split) -> Keys:
        request = KnnRequest(split.space, self.task.symmetric, self.search.neighbours, Order(inf), split.space.total)
        right, every = self.part(split.name, "right"), [NO_KEYS]
        for _, block in self.blocks(split.name):
            answers = self.nearest(request, right, block)
            certain, listed = members(request, block.rows, answers)
            cosines = [shard.cosines(self.model, right, block, listed.pairs) for shard in self.shards]
            every += [certain, select(request, listed, cosines).keys]
        return distinct(np.concatenate(every))

    def vectors(self, split: str, side: str) -> dict[int, np.ndarray]:
        part, found = self.part(split, side), {}
        for shard in self.shards:
            held = shard.block(self.model, part, 0, len(shard.rows(part)))
            found.update(zip(held.rows.tolist(), held.vectors, strict=True))
        return found

    def cosines(self, split: str) -> dict[tuple[int, int], float]:
        """Of every left text with every right text, itself too, by one product at a time."""
        left, right = self.vectors(split, "left"), self.vectors(split, "right")
        return {(a, b): float(unit_cosines(x[None], y[None])[0]) for a, x in left.items() for b, y in right.items()}


def pool(
    task: Task, folder: Path, encoder: EncoderConfig, shards: int, search: SearchConfig = SEARCH, device: str = "cpu"
) -> Pool:
    if not (folder / "pool").exists():
        write_task(task, folder / "task", {})
        write_pool(str(folder / "task"), encoder, str(folder / "pool"))
    specs = [ShardSpec(str(folder / "pool"), encoder, search, number, shards, device) for number in range(shards)]
    return Pool(task, [PoolShard(spec) for spec in specs], Model("", Encoder.base(encoder).digest()), search)


def least_by_loops(pool: Pool, split: Split, space: PairSpace, order: Order, count: int, labelled: Keys):
    """The keys and their cosines."""
    cosines, candidates = pool.cosines(split.name), {}
    for left in split.space.left.tolist():
        others = [right for right in split.space.right.tolist() if not (pool.task.symmetric and left == right)]
        if pool.task.rule is not None:
            others = [right for right in others if pool.task.rule.allows(as_pairs([left], [right]))[0]]
        others.sort(key=lambda right: (-cosines[left, right], right))
        for right in others[: pool.search.neighbours]:
            key = int(space.keys(as_pairs([left], [right]))[0])
            if key not in set(labelled.tolist()):
                candidates[key] = cosines[left, right]
    cost = {key: float(order.cost(np.array([cosine]))[0]) for key, cosine in candidates.items()}
    chosen = sorted(candidates, key=lambda key: (cost[key], key))[:count]
    return chosen, [candidates[key] for key in chosen]


@pytest.mark.parametrize("twins", [0, 30])
@pytest.mark.parametrize("centre", CENTRES)
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("make", ["make_task", "make_ruled"])
def test_the_least_are_those_of_a_double_loop_whatever_the_shards(
    tmp_path, letters, request, make, symmetric, centre, twins
):
    # 30 texts are one and the same: more at cosine 1 than a text's neighbours and than the spare ones.
    task = request.getfixturevalue(make)(symmetric, twins=twins)
    split, order = task.split("train"), Order(centre)
    pools = [pool(task, tmp_path, letters, shards) for shards in (1, 2, 3)]
    # And with the search of a GPU.
    pools += [pool(task, tmp_path, letters, 3, device="cpu:0")]
    pools += [
        replace(each, portion=First(first)) for each, first in zip(pools[2:] + pools[2:3], (1, 1, 3), strict=True)
    ]
    labelled = np.sort(np.concatenate([split.positive_keys[::2], split.space.keys(split.stated_negatives)]))
    for count, known in ((40, NO_KEYS), (25, labelled), (10_000, labelled)):
        keys, cosines = least_by_loops(pools[0], split, split.space, order, count, known)
        assert keys
        for each in pools:
            found = each.least(split, split.space, order, count, known)
            assert found.keys.tolist() == keys
            assert found.cosines.tolist() == cosines
    everything, _ = least_by_loops(pools[0], split, split.space, order, 10_000, NO_KEYS)
    assert [each.near(split).tolist() for each in pools] == [sorted(everything)] * 7


def test_ordered_pairs_are_found_both_ways(tmp_path, letters, make_task):
    task = make_task(True)
    split, one = task.split("train"), pool(task, tmp_path, letters, 2)
    ordered = replace(split.space, symmetric=False)
    found = one.least(split, ordered, Order(inf), 30, NO_KEYS)
    assert found.keys.tolist() == least_by_loops(one, split, ordered, Order(inf), 30, NO_KEYS)[0]
    pairs = {tuple(pair) for pair in ordered.pairs(found.keys).tolist()}
    assert sum((b, a) in pairs for a, b in pairs) >= 20


def test_vectors_are_the_same_bits_on_any_number_of_shards(tmp_path, letters, task):
    pools = [pool(task, tmp_path, letters, shards) for shards in (1, 2, 3, 50)]
    for split, side in parts_of(task):
        each = [pool.vectors(split, side) for pool in pools]
        rows = task.splits[split].space.left if side == "left" else task.splits[split].space.right
        assert all(sorted(vectors) == rows.tolist() for vectors in each)
        assert len({b"".join(vectors[row].tobytes() for row in rows.tolist()) for vectors in each}) == 1
        assert all(float(np.linalg.norm(vector)) == pytest.approx(1, abs=1e-6) for vector in each[0].values())


def test_every_text_is_dealt_to_one_shard_in_whole_batches(tmp_path, letters, task):
    shards = pool(task, tmp_path, letters, 3).shards
    part = parts_of(task)["train", "right"]
    rows = [shard.rows(part).tolist() for shard in shards]
    assert sorted(chain(*rows)) == task.split("train").space.right.tolist()
    # Only one shard can hold the last, partial batch.
    assert sum(len(own) % letters.encoder_batch > 0 for own in rows) <= 1


def test_the_nearest_are_there_within_the_margin_and_padded_where_there_are_fewer(tmp_path, letters, task):
    one = pool(task, tmp_path, letters, 1)
    (shard,), part = one.shards, one.part("dev", "right")
    everything, cosines = len(shard.rows(part)), one.cosines("dev")
    for _, block in one.blocks("dev"):
        found, rows = shard.nearest(one.model, part, block, everything + 3)
        assert (rows[:, everything:] == -1).all()
        assert (found[:, everything:] == -inf).all()
        for left, own, line in zip(block.rows.tolist(), found, rows, strict=True):
            assert sorted(line[:everything].tolist()) == shard.rows(part).tolist()
            exact = [cosines[left, right] for right in line[:everything].tolist()]
            assert own[:everything].tolist() == pytest.approx(exact, abs=MARGIN)


def alike(count: int) -> np.ndarray:
    """(100 + count, 64): the last `count` so near each other that float32 products say nothing of their order."""
    rng = np.random.default_rng(0)
    near = rng.standard_normal(64) / 8 + 1e-7 * rng.standard_normal((count, 64))
    return np.concatenate([rng.standard_normal((100, 64)) / 20, near]).astype(np.float32)


def nearest_of(vectors: np.ndarray, queries: Block, count: int, index: str, parts: int) -> tuple[Keys, int]:
    """The keys of the `count` nearest to each query by all steps of the merge; and how many pairs float64 looked at."""
    rows = np.arange(len(vectors)) * 3
    space = PairSpace(queries.rows, rows, 10_000, symmetric=False)
    request = KnnRequest(space, False, count, Order(inf), 10**9)
    helds = [Block(rows[part::parts], vectors[part::parts]) for part in range(parts)]
    answers = [nearest(CosineIndex(held.vectors, index, nprobe=1), held, queries, count) for held in helds]
    certain, listed = members(request, queries.rows, answers)
    known = []
    for held in helds:
        here = np.isin(listed.pairs[:, 1], held.rows)
        cosines = np.full(len(here), np.nan)
        right = np.searchsorted(held.rows, listed.pairs[here, 1])
        cosines[here] = paired_scores(queries.vectors, listed.lines[here], held.vectors, right)
        known.append(cosines)
    return distinct(np.concatenate([certain, select(request, listed, known).keys])), len(listed.pairs)


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("count", [1, 5, 120])
def test_what_float32_cannot_tell_apart_is_settled_in_float64(count, parts):
    vectors = alike(300)
    queries = Block(np.arange(10), vectors[200:210])
    keys, looked_at = nearest_of(vectors, queries, count, "Flat", parts)
    wanted = []
    for row, query in enumerate(queries.vectors):
        exact = unit_cosines(np.tile(query, (400, 1)), vectors)
        wanted += [row * 10_000 + 3 * place for place in np.lexsort((np.arange(400), -exact))[:count].tolist()]
    assert keys.tolist() == sorted(wanted)
    assert looked_at == 3000


def test_what_float32_tells_apart_is_not_looked_at_again():
    vectors = alike(0)
    keys, looked_at = nearest_of(vectors, Block(np.arange(20), vectors[:20]), 10, "Flat", 3)
    assert len(keys) == 200
    assert looked_at == 0


def test_what_an_index_of_codes_says_is_never_taken_for_a_cosine():
    vectors = alike(300)
    queries = Block(np.arange(10), vectors[90:100])
    held = Block(np.arange(400), vectors)
    for factory in ("SQ4", "PCA8,Flat", "IVF2,SQ8"):
        cosines, rows = nearest(CosineIndex(vectors, factory, nprobe=2), held, queries, 20)
        exact = unit_cosines(np.repeat(queries.vectors, rows.shape[1], axis=0), vectors[rows.ravel()]).reshape(
            rows.shape
        )
        assert cosines.tolist() == exact.tolist()
        assert (np.diff(cosines, axis=1) <= 0).all()


def test_cosines_are_a_shards_own_and_nan_elsewhere(tmp_path, letters, task):
    both = pool(task, tmp_path, letters, 2)
    split, by_loops = task.split("train"), both.cosines("train")
    for _, block in both.blocks("train"):
        pairs = split.positives[np.isin(split.positives[:, 0], block.rows)]
        answers = [shard.cosines(both.model, both.part("train", "right"), block, pairs) for shard in both.shards]
        assert (np.isnan(answers).sum(axis=0) == 1).all()
        assert np.nansum(answers, axis=0).tolist() == [by_loops[a, b] for a, b in pairs.tolist()]


@pytest.mark.parametrize("columns", [8192, 5])
@pytest.mark.parametrize("make", ["make_task", "make_ruled"])
@pytest.mark.parametrize("symmetric", [True, False])
def test_negative_counts_are_those_of_every_negative_whatever_the_shards(
    tmp_path, letters, request, make, symmetric, columns, monkeypatch
):
    monkeypatch.setattr(count_module, "COLUMNS", columns)
    task = request.getfixturevalue(make)(symmetric)
    pools = [pool(task, tmp_path, letters, shards) for shards in (1, 2, 3)]
    split, cosines = task.split("train"), pools[0].cosines("train")
    positives = {tuple(pair) for pair in split.positives.tolist()}
    cosines = {pair: cosine for pair, cosine in cosines.items() if split.space.holds(as_pairs([pair[0]], [pair[1]]))[0]}
    negatives = np.array(
        [cosine for (a, b), cosine in cosines.items() if (a, b) not in positives and (not task.symmetric or a < b)]
    )
    assert len(negatives) == split.space.total - len(positives)
    # Thresholds on the very scores of negatives too: >= must settle them as float64 does.
    thresholds = thresholds_of(np.concatenate([[cosines[pair] for pair in positives], negatives[::3]]))
    scorer = Scorer(weight=12.0, bias=-9.0)
    keys = [key for key in cosines if key not in positives and (not task.symmetric or key[0] < key[1])]
    questions = QueryBootstrap(np.arange(len(task.left)) // 3, task.symmetric, thresholds[::2])
    replicates = questions.of_negatives(np.array(keys), negatives)
    expected = reliability(scorer.logit(negatives), np.zeros(len(negatives), dtype=np.uint8), 1.0)
    for each in pools:
        model = replace(each.model, scorer=scorer)
        request, right = CountRequest(thresholds, questions), each.part("train", "right")
        counts = [
            shard.count_negatives(model, right, block, split.positives, request)
            for _, block in each.blocks("train")
            for shard in each.shards
        ]
        assert np.sum([part.above for part in counts], axis=0).tolist() == counts_above(thresholds, negatives).tolist()
        assert np.sum([part.replicates for part in counts], axis=0).tolist() == replicates.tolist()
        summed = [part.reliability for part in counts if part.reliability is not None]
        assert sum(part.weight.sum() for part in summed) == len(negatives)
        # A p within float32's reach of a bin's end may fall on its other side.
        assert sum(part.confidence.sum() for part in summed) == pytest.approx(expected.confidence.sum(), rel=1e-5)


def test_an_untrained_model_has_counts_but_no_reliability(tmp_path, letters, task):
    one = pool(task, tmp_path, letters, 1)
    thresholds = np.array([0.5])
    questions = QueryBootstrap(np.arange(len(task.left)), task.symmetric, thresholds)
    for shard, block in one.blocks("dev"):
        request, right = CountRequest(thresholds, questions), one.part("dev", "right")
        counts = shard.count_negatives(one.model, right, block, as_pairs([], []), request)
        assert counts.reliability is None


def test_embedding_tells_of_each_batch_and_embeds_once(tmp_path, letters, task):
    (shard,) = pool(task, tmp_path, letters, 1).shards
    part, model = parts_of(task)["train", "left"], Model("", Encoder.base(letters).digest())
    counts = list(shard.embed(model, part))
    assert sum(counts) == len(task.split("train").space.left)
    assert max(counts) == letters.encoder_batch
    held = shard.block(model, part, 0, 5).vectors
    assert list(shard.embed(model, part)) == []
    assert np.shares_memory(shard.block(model, part, 0, 5).vectors, held)


def test_other_weights_are_embedded_anew(tmp_path, letters, task):
    one = pool(task, tmp_path, letters, 1)
    other = Encoder.base(letters)
    for parameter in other.transformer.parameters():
        parameter.data = parameter.data.flip(0)
    (tmp_path / "other").mkdir()
    other.save(tmp_path / "other")
    changed = replace(one, model=Model(str(tmp_path / "other"), other.digest()))
    before, after, again = (each.cosines("train") for each in (one, changed, one))
    assert before == again
    assert before != after
    split = task.split("train")
    one.least(split, split.space, Order(inf), 40, NO_KEYS)
    # All candidates of all texts: a neighbour that an old index misses is missing here.
    found = changed.least(split, split.space, Order(inf), 10_000, NO_KEYS)
    assert found.keys.tolist() == least_by_loops(changed, split, split.space, Order(inf), 10_000, NO_KEYS)[0]


def test_weights_that_are_not_those_named_are_refused(tmp_path, letters, task):
    (shard,) = pool(task, tmp_path, letters, 1).shards
    with pytest.raises(BadFile, match="random-bert are not those the run made"):
        list(shard.embed(Model("", "0" * 64), parts_of(task)["train", "left"]))


@given(st.integers(1, 40), st.integers(1, 70), st.integers(0, 7), st.integers(0, 2**32 - 1))
def test_a_dot_product_has_the_same_bits_in_any_company(n, d, offset, seed):
    values = np.random.default_rng(seed).standard_normal((2, n * d + offset)).astype(np.float32)
    ones, others = (line[offset:].reshape(n, d) for line in values)
    together = dots(ones, others)
    assert [float(dots(a[None], b[None])[0]) for a, b in zip(ones, others, strict=True)] == together.tolist()
    assert dots(others, ones).tolist() == together.tolist()
    exact = [fsum(float(x) * float(y) for x, y in zip(a, b, strict=True)) for a, b in zip(ones, others, strict=True)]
    assert together == pytest.approx(exact, abs=1e-12)


def test_a_pool_written_twice_stands_as_the_first_wrote_it(tmp_path, letters, task):
    pool(task, tmp_path, letters, 1)
    write_pool(str(tmp_path / "task"), letters, str(tmp_path / "pool"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pool", "task"]
