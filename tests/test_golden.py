"""Digests, names on disk and draws of today, as constants: to move or rename code must not change a number.

A constant changes only on purpose, in a commit that says so: whoever has models, evaluation sets or draws from before
then has others. Where a Python name changes, the imports below and the section "access to private names" follow it, and
no constant does. Random weights are compared to 1e-4, not by digest: their last bits depend on the CPU.
"""

import ast
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.loop import make_request
from al_ray.active_learning.round_request import RoundRequest
from al_ray.active_learning.stopping import StopConfig
from al_ray.active_learning.strategies import STRATEGIES, stated_seed
from al_ray.apps.cross_encoder.folder import CrossEncoderFolder
from al_ray.apps.cross_encoder.options import TrainConfig
from al_ray.apps.grid.ray_tune import Grid
from al_ray.apps.grid.spec import Axes, GridConfig, cells
from al_ray.apps.papers.augmentation.folder import digest_of as gold_digest
from al_ray.apps.papers.augmentation.options import AugmentConfig, Gold, Scored
from al_ray.apps.papers.augmentation.student import StudentSpec, StudentTrainer
from al_ray.apps.papers.mining.miners import Pool, Random, balance_bins
from al_ray.apps.papers.mining.negatives import KnownMatches, NegativesConfig
from al_ray.apps.papers.paraphrase.batching import separate_batches
from al_ray.apps.papers.paraphrase.options import ParaphraseConfig
from al_ray.apps.papers.paraphrase.training import MetricTraining, Paraphrases
from al_ray.cluster.pool.sharded_evaluator import PoolEvaluator
from al_ray.cluster.token_store import parts_of, pool_folder
from al_ray.cluster.trial import seed_provenance
from al_ray.core.candidates import Candidates
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.config.oracle import OracleConfig
from al_ray.core.config.sections import SearchConfig, TrainingConfig
from al_ray.core.config.serialization import as_dict
from al_ray.core.hashing import hash_keys, uniform_at
from al_ray.core.labels import Labelled, Model, State
from al_ray.core.pairs import NO_KEYS, PairSpace, as_pairs
from al_ray.core.progress import no_progress
from al_ray.core.rng import generator
from al_ray.core.task import Corpus, Split, Task
from al_ray.datasets.splitting import deal, hold_out
from al_ray.datasets.synthetic import synthetic_task
from al_ray.datasets.task_folder import sealed
from al_ray.encoders.cross_encoder import CrossEncoder
from al_ray.encoders.encoder import learn_words, untrained
from al_ray.encoders.transformer import Encoder
from al_ray.metrics.audit.false_positives import draw_above
from al_ray.metrics.audit.score_bands import draw_ranks
from al_ray.metrics.average_precision import Counts, StratumSummary
from al_ray.metrics.bootstrap import poisson_weights
from al_ray.metrics.intervals import average_precision_interval
from al_ray.metrics.pair_sampling import sample_pairs
from al_ray.metrics.strata import make_evaluation_set, split_by_cosine
from al_ray.running.run import RunSpec
from al_ray.runs.evaluation_sets import EvaluationSets
from al_ray.runs.seed_sets import SeedSet, SeedSets
from al_ray.search.shard import PoolShard
from al_ray.search.shard_spec import ShardSpec
from al_ray.storage.result_cache import ResultCache
from al_ray.training.checkpoint import Checkpoint
from al_ray.training.cross_encoder import PairTrainer, PairTrainerSpec
from al_ray.training.cross_encoder import train as train_pairs
from al_ray.training.optimizer import Step
from al_ray.training.trainer import Trainer, TrainerSpec

ROOT = Path(__file__).resolve().parents[1]

# Access to private names.
trainer_digest = Trainer._made_from
pair_trainer_digest = PairTrainer._made_from
student_digest = StudentTrainer._made_from
evaluation_set_origin = PoolEvaluator._made_from
vectors_key = PoolShard._key


def digest_text(config: EncoderConfig) -> str:
    return config.digest_text


def network_of(model: Encoder | CrossEncoder) -> torch.nn.Module:
    return model.transformer


# Inputs, small and written out: positional where a field's name is no part of what is pinned.
BERT = EncoderConfig("random-bert", 1, 24, 8, 1)
BF16 = EncoderConfig("random-bert", 1, 24, 8, 1, "bf16", "fp16")
CNN = EncoderConfig("cnn-4", None, 24, 8, 1)
TEXTS = (("how tall is it", "what is its height"), ("who was first", "how deep is it"))
LABELS = np.array([1, 0], dtype=np.uint8)
MODEL = Model("round-001/model", "d" * 64)
PAIRS = as_pairs([0, 2, 4], [1, 3, 6])
LABELLED = Labelled(PAIRS, np.array([1, 1, 0], np.uint8), np.array([1, 1, 2], np.int32), ("random",) * 3)


def corpus(side: str, size: int) -> Corpus:
    return Corpus(
        tuple(f"{side}{row}" for row in range(size)), tuple(f"{side} text {row} \N{EURO SIGN}" for row in range(size))
    )


def symmetric_task() -> Task:
    """24 texts, of which each even row matches the next; 120 pairs in train, 28 in dev."""
    texts, splits = corpus("q", 24), dict[str, Split]()
    for name, start, stop in (("train", 0, 16), ("dev", 16, 24)):
        rows, even = np.arange(start, stop), np.arange(start, stop, 2)
        space = PairSpace(rows, rows, 24, True)
        splits[name] = Split(name, space, as_pairs(even, even + 1), as_pairs(even[:-1], even[:-1] + 2))
    return sealed("golden", True, texts, texts, splits)


def two_sided_task() -> Task:
    """8 questions and 6 answers: 36 pairs in train, 12 in dev."""
    splits = dict[str, Split]()
    for name, start, stop in (("train", 0, 6), ("dev", 6, 8)):
        rows = np.arange(start, stop)
        space = PairSpace(rows, np.arange(6), 6, False)
        splits[name] = Split(name, space, as_pairs(rows, rows % 6), as_pairs(rows, (rows + 1) % 6))
    return sealed("golden", False, corpus("q", 8), corpus("a", 6), splits)


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


class UntrainedPool:
    """What an evaluation set's origin asks of a pool."""

    search = SearchConfig()

    def untrained(self) -> Model:
        return MODEL


# Digests.

TOLD = "EncoderConfig(name='random-bert', layers=1, max_length=24, batch=8, threads=1)"
TOKENS = [2, 75, 176, 184, 87, 162, 173, 173, 34, 3]
DIGESTS: dict[str, Any] = {
    "task, symmetric": "04fdeccec4953459368713ba5b291c163d71bbde47c91e255c572a18b0123262",
    "task, two-sided": "3fc91318c055760abfada8f8c2621db1338e8f36ae9e75562ec7ca54a7d59106",
    "task, synthetic": "8aa0988cb744c3e5741820a11f72d531c198bb8a82cbf94d2cdb6beb7fa450ee",
    "words of cnn": "0ff1041914b94ec0d19c0f86f08b1aa7d468700d768f7b56c32b4053828c8793",
    "cnn with weights 0": "010b44c311efa0acbe92c35d75a1ff82c3196fe97716c48e37bfb090e9910f23",
    "bi-encoder": "b7d09b9c05b334a4a3fa8be8ff19f429477ac283d9ebf75256ced7f6b68f6b02",
    "bi-encoder, previous": "efbfb3da765180067acec47447e2faf4686957d095023c62adfda7dbff703c92",
    "cross-encoder": "f7f2ffd817e215c7cca66003f8b3be8f2cc3209cb80669dcc160aabf855cbf59",
    "student": "74fda13bfa668430f4f78feaea87623abf706bed4e39b7559af01de787f7d54c",
    "student cnn": "3c40cd89f38ec8fbc9bd93e4de31e5fbd424bf1c47575881e704d716de21fa30",
    "gold": "0e515872767f5d6bb18737b161499fb81c07faa72ff86a35377f58cc78d326b2",
    "pool folder": "8d4f53285704a538",
    "parts": [
        "left-f23d672bb9b3",
        "left-f23d672bb9b3",
        "left-028a802e273b",
        "left-028a802e273b",
        "left-f190072c5052",
        "right-f190072c5052",
        "left-6b2e10cb2111",
        "right-f190072c5052",
    ],
    "vectors": [
        "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd",
        "fp32",
        "pool-key",
        "left-1",
        "621e303f0a625dc3ffa39c5153d5e4a32af9abe174ffbd1ebbbee3380077389f",
        8,
    ],
    "places": [
        "cross/config.json",
        "cross/labels.parquet",
        "cross/scores/c4fc412124e6e411379c0ec1958180d4.parquet",
        "evaluation/dev-df86a0366e816417/0-near.parquet",
        "evaluation/dev-df86a0366e816417/1-random.parquet",
        "evaluation/dev-df86a0366e816417/set.json",
        "findings/name.json",
        "seeds/0999cef9c7f8a5d5/pairs.parquet",
        "seeds/0999cef9c7f8a5d5/set.json",
        '{"made_from": {"model": "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd"}, "found": 1}',
        "7af0c28bee42f0331d0619ce866499999fe67ac3083012fb29373960689b6ce1",
    ],
    "grid": "46962d39fe32",
    "cells": [
        {
            "name": "uncertainty-s1-cnn-b100",
            "strategy": "uncertainty",
            "seed": 1,
            "encoder": "cnn",
            "budget": 97,
            "after": None,
        },
        {
            "name": "stratified-match-s1-cnn-b100",
            "strategy": "stratified-match",
            "seed": 1,
            "encoder": "cnn",
            "budget": 97,
            "after": "uncertainty-s1-cnn-b100",
        },
        {
            "name": "uncertainty-s0-cnn-b300",
            "strategy": "uncertainty",
            "seed": 0,
            "encoder": "cnn",
            "budget": 299,
            "after": None,
        },
        {
            "name": "stratified-match-s0-cnn-b300",
            "strategy": "stratified-match",
            "seed": 0,
            "encoder": "cnn",
            "budget": 299,
            "after": "uncertainty-s0-cnn-b300",
        },
    ],
}


def digests(folder: Path) -> dict[str, Any]:
    """Names and digests under which tasks, models and what is kept of them are found again."""
    task, pool = symmetric_task(), folder / "pool"
    pool.mkdir()
    learn_words([text for pair in TEXTS for text in pair], CNN, pool)
    cnn: Any = untrained(CNN, pool)
    labelled, student = (TEXTS, LABELS), (TEXTS, LABELS.astype(np.float64), 3)
    focal = TrainingConfig(loss="focal")
    gold = Gold("g", Pool(("a", "b", "c"), np.array([0, 1]), np.array([1, 2])), Scored(PAIRS[:1], np.ones(1)), {})
    space = task.splits["train"].space
    shard = PoolShard(ShardSpec("there/pool-key", BERT, SearchConfig(), 0, 2))
    axes = Axes(("uncertainty", "stratified-match"), (0, 1), ("cnn", "org/bert base"), (100, 300))
    stop, how = StopConfig(labels=9), GridConfig(concurrent=1)
    grid = Grid(axes, RunSpec(RunConfig(task="t"), ClusterConfig(), OracleConfig(), stop), how, folder)
    return {
        "task, symmetric": task.digest,
        "task, two-sided": two_sided_task().digest,
        "task, synthetic": synthetic_task(100, 7).digest,
        "words of cnn": cnn.vocabulary.digest,
        "cnn with weights 0": zeroed(cnn, cnn.network).digest(),
        "bi-encoder": trainer_digest(Trainer(TrainerSpec("f", BERT, TrainingConfig(), 7, True)), LABELLED, 1, None),
        "bi-encoder, previous": trainer_digest(Trainer(TrainerSpec("f", BF16, focal, 7, True)), LABELLED, 2, MODEL),
        "cross-encoder": pair_trainer_digest(PairTrainer(PairTrainerSpec(BERT, TrainingConfig(), 7)), *labelled),
        "student": student_digest(StudentTrainer(StudentSpec(BERT, TrainingConfig(), 7, 1)), ["a"], *student),
        "student cnn": student_digest(StudentTrainer(StudentSpec(CNN, focal, 7, 0, 9)), ["a"], *student),
        "gold": gold_digest(gold),
        "pool folder": pool_folder(task, BERT, folder).name,
        "parts": [*parts_of(task).values(), *parts_of(two_sided_task()).values()],
        # The last is the hardware.
        "vectors": json.loads(vectors_key(shard, MODEL, "left-1", [np.arange(8), np.arange(9, 12)]))[:-1],
        "places": kept_at(folder / "kept", task, space.keys(PAIRS)),
        "grid": grid.digest,
        "cells": [cell.as_dict() for cell in cells(RunConfig(task="t"), axes)][2:6],
    }


def zeroed(model: Any, network: torch.nn.Module) -> Any:
    """The model with all weights 0: these are the same on every CPU, their names and sizes stay."""
    for weight in network.state_dict().values():
        weight.zero_()
    return model


def kept_at(folder: Path, task: Task, keys: Any) -> list[str]:
    """Where an evaluation set, pairs to start from, a finding and scores of a cross-encoder are kept."""
    dev, config, pool = task.splits["dev"], RunConfig(task="t"), UntrainedPool()
    sets = EvaluationSets([folder])
    # The pool is a stand-in, which pyright would refuse.
    evaluator: Any = PoolEvaluator(pool, task, config, sets)  # pyright: ignore[reportArgumentType]
    sets.write(make_evaluation_set(dev, {"near": NO_KEYS}, None, 3, 7), evaluation_set_origin(evaluator, dev))
    seeds = SeedSet(Candidates(keys, np.zeros(len(keys))), len(keys), None)
    SeedSets(folder).write(seeds, seed_provenance(config, task, MODEL))
    ResultCache(folder / "findings").write("name", {"model": MODEL.digest}, 1)
    cross = CrossEncoderFolder(folder / "cross")
    cross.bind(TrainConfig(task="t", labels="stated"), task, LABELLED)
    cross.write_scores(MODEL.digest, keys, np.zeros(len(keys)))
    labels = json.loads((folder / "cross" / "config.json").read_text())["labels_digest"]
    return [*files(folder), json.dumps(json.loads((folder / "findings" / "name.json").read_text())), labels]


def test_the_text_of_an_encoders_options_in_its_digest_is_todays():
    assert digest_text(BERT) == TOLD
    assert digest_text(BF16) == f"{TOLD} bf16"


def test_digests_and_names_on_disk_are_todays(tmp_path):
    assert digests(tmp_path) == DIGESTS


def test_a_transformers_digest_is_of_options_tokenizer_and_weights():
    # The rules of the tokenizer and the names of the weights are those of the installed libraries: no constant.
    encoder = Encoder.base(BERT)
    rules = hashlib.sha256(f"{encoder.tokenizer.backend_tokenizer.to_str()} 24".encode()).hexdigest()
    assert encoder.digest() == weights_digest([TOLD, rules], network_of(encoder))
    cross = CrossEncoder.base(BERT, 7)
    assert cross.digest() == weights_digest([rules], network_of(cross))
    assert encoder.tokenise(["How tall?"]).ids.tolist() == TOKENS


def weights_digest(words: list[str], network: torch.nn.Module) -> str:
    """The digest of words, and then of each weight's name and its bytes, in order of name."""
    content = json.dumps(words).encode()
    for name, weight in sorted(network.state_dict().items()):
        content += name.encode() + weight.numpy().tobytes()
    return hashlib.sha256(content).hexdigest()


# Options on disk.

OPTIONS: dict[str, str] = {
    "run": """
        {"encoder": "all-MiniLM-L6-v2", "encoder_layers": null, "max_length": 128, "encoder_batch": 64,
        "threads": 2, "arithmetic": "auto", "vectors": "fp32", "prompt_left": null, "prompt_right": null,
        "most_unknown": 0.3,
        "task": "t", "strategy": "uncertainty", "seed": 0, "rounds": 4, "first_batch": 2048, "growth": 1.5,
        "choose_ahead": false, "dev_labels": 0, "oracle": "simulated", "seeding": "retrieval", "matched": null,
        "train_every_budget": false,
        "matcher": "off", "encoder_every": 0, "candidates": {"cosine": 20, "trigrams": 20, "of_right": 5,
        "of_dense": "auto", "more_of_dense": "auto",
        "presumed": "auto", "least_recall": 0.9},
        "search": {"kind": "knn", "exact_pairs": 20000000000, "neighbours": 100, "index": "Flat",
        "nprobe": 10, "least_recall": 0.9, "block": 1024, "ordered_pairs": false},
        "scoring": {"neighbourhood": "off", "neighbourhood_sides": "left"}, "training":
        {"epochs": 2, "start": "pretrained", "batch": 16, "workers": 1, "learning_rate": 2e-05,
        "epsilon": 1e-06, "weight_decay": 0.0, "warmup": 0.1, "head_rate": 10000.0, "initial_weight": 10.0,
        "initial_bias": -50.0, "bias_correction": false, "clip_norm": 1.0,
        "worst_loss": 0.6, "tries": 3, "loss": "bce", "losses": {"focal_alpha": 0.25, "focal_gamma": 2.0,
        "ghm_bins": 30, "ghm_momentum": 0.75, "hardest": 0.25, "temperature": 0.07, "queue": 1024,
        "key_momentum": 0.99}, "frozen_layers": 0, "head": "batch-norm", "head_start": "fixed", "interpolation": 1.0,
        "l2_sp": 0.0, "presumed": 0.0},
        "evaluation": {"splits": ["dev"], "mode": "auto", "exact_pairs": 2000000000,
        "near_neighbours": 100, "near_pairs": null, "bands": [], "random_pairs": 10000000, "seed": 0,
        "examples": 20}}
    """,
    "cluster": """
        {"shards": 1, "cpus_per_shard": 1.0, "gpus_per_shard": 0.0, "timeout": 1800.0, "checkpoint_seconds": 120.0,
        "mapped_above": 16.0, "keep_vectors": false, "mixed_hardware": false, "ray": false, "shared_storage": false}
    """,
    "train": """
        {"encoder": "all-MiniLM-L6-v2", "encoder_layers": null, "max_length": 128, "encoder_batch": 64,
        "threads": 2, "arithmetic": "auto", "task": "t", "labels": "stated", "model": "concat", "seed": 0,
        "concat_batch": 32, "slice_pairs": 4096, "like": null, "search": {"kind": "knn", "exact_pairs":
        20000000000, "neighbours": 100, "index": "Flat", "nprobe": 10, "least_recall": 0.9, "block": 1024,
        "ordered_pairs": false}, "training": {"epochs": 2, "start": "pretrained", "batch": 16, "workers": 1,
        "learning_rate": 2e-05, "epsilon": 1e-06, "weight_decay": 0.0, "warmup": 0.1, "head_rate": 10000.0,
        "initial_weight": 10.0, "initial_bias": -50.0, "bias_correction": false, "clip_norm": 1.0,
        "worst_loss": 0.6, "tries": 3, "loss": "bce", "losses": {"focal_alpha": 0.25, "focal_gamma": 2.0,
        "ghm_bins": 30, "ghm_momentum": 0.75, "hardest": 0.25, "temperature": 0.07, "queue": 1024,
        "key_momentum": 0.99}, "frozen_layers": 0, "head": "batch-norm", "head_start": "fixed", "interpolation": 1.0,
        "l2_sp": 0.0, "presumed": 0.0},
        "evaluation": {"splits": ["dev"], "mode": "auto", "exact_pairs": 2000000000,
        "near_neighbours": 100, "near_pairs": 300000, "bands": [], "random_pairs": 300000, "seed": 0,
        "examples": 20}}
    """,
    "paraphrase": """
        {"task": "t", "encoder": "cnn", "words": 50000, "loss": "sdml", "miner": "model", "sample": 100, "distance":
        "squared", "smoothing": 0.3, "margin": 0.5, "batch": 512, "same_cluster": false, "learning_rate": 0.001,
        "epochs": 50, "patience": 3, "negatives": 10, "seed": 0, "max_length": 64, "encoder_batch": 256, "threads":
        2}
    """,
    "augment": """
        {"encoder": "cnn", "encoder_layers": null, "max_length": 128, "encoder_batch": 64, "threads": 2,
        "arithmetic": "auto", "gold": "stsb:there", "task": null, "labels": null, "gold_pairs": null,
        "pool": "gold", "sampler": "random", "per_text": 5, "most_per_bin": null, "words_from":
        "embeddings", "changed": 0.3, "fresh_layers": 0, "words": 50000, "teacher": "all-MiniLM-L6-v2",
        "teacher_layers": null, "same_steps": false, "seed": 0, "batch": 16, "epochs": 1, "learning_rate":
        2e-05, "warmup": 0.15, "teacher_epochs": 1, "teacher_rate": 2e-05, "teacher_warmup": 0.4,
        "weight_decay": 0.01, "slice_pairs": 4096}
    """,
    "negatives": """
        {"per_text": 5, "random_share": 0.0, "first_rank": 1, "last_rank": null, "ceiling": null, "margin": null}
    """,
    "oracle": """
        {"pairs_per_call": 16, "calls_at_once": 1, "calls_per_minute": null, "retries": 5, "retry_seconds": 1.0,
        "call_timeout": 120.0, "release_actors": false, "cost_per_pair": null, "max_cost": null,
        "llm": {"model": "", "base_url": null, "definition": "Two texts match if they describe the same thing.",
        "examples": 0, "both_orders": false, "requests_per_minute": null, "tokens_per_minute": null,
        "input_price": null, "output_price": null, "output_tokens": 64, "accept_model": "", "check_with": 0,
        "least_kappa": 0.6, "dry_run": false}}
    """,
    "stop": """
        {"labels": null, "hours": null, "patience": null, "gain": null, "match_share": null}
    """,
    "grid": """
        {"concurrent": null, "failures": 2, "mlflow": null, "wandb": null}
    """,
}


def options() -> dict[str, str]:
    """Each kind of options with its defaults, as config.json and digests hold them."""
    every = {
        "run": RunConfig(task="t"),
        "cluster": ClusterConfig(),
        "train": TrainConfig(task="t", labels="stated"),
        "paraphrase": ParaphraseConfig(task="t"),
        "augment": AugmentConfig(gold="stsb:there"),
        "negatives": NegativesConfig(),
        "oracle": OracleConfig(),
        "stop": StopConfig(),
        "grid": GridConfig(),
    }
    return {name: json.dumps(as_dict(config)) for name, config in every.items()}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_have_todays_names_and_defaults_on_disk(name):
    assert json.loads(options()[name]) == json.loads(OPTIONS[name])
    # In today's order, too: digests are of the text.
    assert options()[name] == json.dumps(json.loads(OPTIONS[name]))


# Draws.

PURPOSES: dict[str, list[int]] = {
    "0 bench-labelled": [1359672497, 1821044401, 1880332530],
    "0 bench-median": [1291238056, 733571927, 2036878221],
    "0 benchmark of comparisons": [729489982, 1430350691, 1188128604],
    "0 gpu-pairs": [545801210, 1077245748, 663878069],
    "0 gpu-sample": [378110626, 1505385155, 567325941],
    "0 gpu-texts": [291129446, 1705994931, 353881234],
    "0 gpu-tokens": [292647566, 1872598743, 26941940],
    "0 evaluation-guarantee": [850199429, 1091955262, 818596169],
    "0 interval-scores": [6544054, 1651840363, 2040966575],
    "0 measure": [1648618323, 911677463, 835046901],
    "0 measure-host": [305999680, 989174933, 1398740301],
    "0 measure-matcher": [399514751, 1048694274, 1928282446],
    "0 serve-changes": [60524534, 595112665, 1478557600],
    "0 serve-records": [1877378655, 212017660, 871433989],
    "0 measure-pairs": [1249411225, 1805027558, 2111392108],
    "0 random-order #": [96928258, 1829844094, 359361713],
    "0 serve-recall": [454633394, 1265266107, 1752567659],
    "0 simulated-folds": [844246656, 1146108008, 1485019145],
    "0 simulated-interval": [1792184813, 1643917511, 2083164242],
    "0 splits": [77863705, 329449485, 749421617],
    "0 timed-queries": [183250448, 1339929123, 181923532],
    "seed adapter-order #": [2133295811, 1417826925, 254248267],
    "seed audit-*": [354180077, 546975990, 684540349],
    "seed audit-band-* #": [233579974, 270650281, 433822618],
    "seed audit-clusters-*": [328480950, 960547472, 1132214466],
    "seed audit-estimate": [734128801, 1351577490, 565887281],
    "seed audit-forecast #": [20628678, 846147135, 448789697],
    "seed audit-guarantee-*": [1929337546, 445819906, 355582547],
    "seed audit-look #": [1340982271, 288163733, 334997294],
    "seed audit-looks": [320120986, 560338617, 253495096],
    "seed audit-matches-*": [460622770, 1393925702, 1805672973],
    "seed audit-order #": [1132626571, 2094434154, 1087019441],
    "seed audit-order": [595731756, 1257245618, 420602612],
    "seed audit-people-* #": [1469030130, 645512602, 1062710041],
    "seed audit-people-order": [1861048648, 484909704, 1028786570],
    "seed audit-recalibration": [724820965, 1072581872, 1405733406],
    "seed audit-second #": [1369656968, 219689362, 360512090],
    "seed audit-threshold": [1364083002, 1937639609, 1217299019],
    "seed balance": [1313645351, 1491159525, 109887653],
    "seed bench-annotate": [614758191, 233072472, 1021808682],
    "seed bench-members": [1504762133, 2048784542, 115322467],
    "seed bench-vectors": [1284490345, 1743655261, 1490277762],
    "seed calibrations-*": [645468317, 743851237, 1442992954],
    "seed cascade-errors": [199261120, 1876983810, 426700600],
    "seed cascade-order": [1630088562, 388826867, 1143967915],
    "seed chance": [1530651204, 876730879, 32062468],
    "seed cluster-audits #": [913445115, 1082822402, 2009818114],
    "seed cluster-population-*": [465933459, 802940691, 785716034],
    "seed concat-dropout #": [1165225422, 1523701958, 964969450],
    "seed concat-head": [1035535378, 82308747, 432265695],
    "seed concat-order #": [139683905, 1447132415, 180303431],
    "seed dev-labels #": [1527809531, 1697426715, 311353116],
    "seed drift-*-*": [1861025148, 685256737, 1026821026],
    "seed drift-new-pairs": [751010809, 450183166, 1974744779],
    "seed drift-training-pairs": [979561592, 1553552792, 334809393],
    "seed forest": [658517236, 670640869, 1740767141],
    "seed gold-subset": [8556085, 1402145686, 1133186924],
    "seed held-out": [551577575, 457032774, 1964300771],
    "seed interval-*": [417396031, 1312654366, 644891633],
    "seed intervals-*-*-*": [1946575473, 1042466067, 70690065],
    "seed known": [710875520, 845639387, 1646342572],
    "seed label-noise #": [1397440824, 1883364952, 825867646],
    "seed label-noise-second #": [663745362, 1806193458, 1006467036],
    "seed llm-check #": [891624007, 2132992048, 1712538861],
    "seed llm-examples #": [1541065262, 1035186747, 943886452],
    "seed llm-kappa #": [756240791, 1803912789, 779533215],
    "seed match-pairs": [173567683, 316730264, 1849634004],
    "seed match-pairs-bootstrap": [1423059360, 1819324759, 2008017446],
    "seed mined": [667479962, 1456717349, 813513639],
    "seed month": [51548859, 1837414755, 2108282874],
    "seed page-alpha": [871268986, 1090442397, 660614805],
    "seed page-kappa": [491251613, 1875674171, 1578265518],
    "seed page-overlap-*": [10861149, 903655873, 2028951276],
    "seed paraphrase-* #": [1748807739, 178975820, 1720003815],
    "seed paraphrase-dev": [459076242, 838440002, 1880585437],
    "seed paraphrase-mined #": [1533059388, 1871480259, 1321602142],
    "seed presumed": [63131059, 14316132, 679102747],
    "seed presumed-training #": [1805465776, 1966238763, 1150903954],
    "seed queries": [667321206, 1693579631, 526656739],
    "seed random #": [1749626977, 2076094181, 2130449616],
    "seed retry #": [476773577, 1774149786, 1285813729],
    "seed rewording": [1156795973, 1715938834, 1055835583],
    "seed sampler": [1834651277, 702057670, 1224676616],
    "seed shop-products": [499041685, 2015226519, 27326564],
    "seed shop-rows": [693848065, 1131733731, 1635460761],
    "seed promised-*": [2097642464, 1234848131, 1626376561],
    "seed promised-small": [1609069370, 760851225, 1752673420],
    "seed promises-*-*": [1261781868, 745181319, 1481694021],
    "seed simulated-audit": [1205813964, 2027581199, 2034381054],
    "seed simulated-distractors": [51652874, 835380198, 1156948588],
    "seed simulated-share": [1088375074, 695679421, 1735112251],
    "seed split": [1939371913, 710540015, 1265663397],
    "seed stated-seed": [1621216272, 386366399, 395587769],
    "seed stratified": [1545005465, 832331984, 51884978],
    "seed student": [728519617, 559356689, 758921213],
    "seed student-order #": [1312811182, 1498890381, 1135431019],
    "seed synthetic": [1211871210, 834649825, 1496418088],
    "seed training-order-*-* #": [80664990, 2012491668, 1196371431],
    "seed two-samples-*": [921087912, 771957110, 642687048],
    "seed two-samples-*-*": [865033938, 1808070155, 1145770481],
    "seed widths-*-* #": [1998214145, 1446149439, 1038947281],
    "seed widths-fixed-*-*": [54100866, 819670178, 23507252],
}
DRAWS: dict[str, Any] = {
    "random": [[107, 82, 52, 277, 12], [158, 54, 32, 279, 128, 30]],
    "stated": [[252, 302, 151, 2, 51], [201, 351, 102, 202, 251, 301, 101, 152, 52, 1]],
    "stated at once": [[1, 2, 51, 52, 101, 102, 151, 152, 201, 202, 251, 252, 301, 302, 351]],
    "stated seeding": [[252, 302, 151, 2, 51]],
    "stratified-all": [[133, 126, 151, 301, 279, 351, 251, 201, 51, 1, 5, 178, 157, 101, 7, 78]],
    "stratified-match": [[1, 201, 59, 101, 7, 126, 57]],
    "most of a space": [12, 77, 157, 56, 6, 103, 27, 277],
    "evaluation set": [
        ("near from 0.5", [403, 405, 426], 5),
        ("near below 0.5", [427, 428, 476], 5),
        ("random", [407, 478, 503, 526], 14),
    ],
    "interval": [0.4272710622710623, 0.03123029450873195, 0.5513988691873893],
    "hashes": [14776438654650163380, 1997560784136372675, 8565998620712633096],
    "draws by number": [257644688634005, 622915289966160, 923416926547263],
    "few of a space": [14, 38, 109, 134, 326],
    "bootstrap": [[2, 0, 3], [1, 5, 0], [1, 0, 3], [3, 1, 1]],
    "split": [0, 0, 2, 2, 0, 0, 0, 0, 1, 1, 0, 0, 2, 2, 0, 0, 0, 0, 1, 1, 2, 2, 1, 1],
    "held out": [1, 2, 1, 1, 1, 1, 0, 0, 2, 2, 0, 0, 0, 2, 0, 0, 1, 0, 0, 1, 2, 1, 1, 2, 2, 0, 2, 2, 2, 1],
    "audit": [8, 7, 6, 3],
    "band": [12, 16, 18, 26],
    "batches": [[8, 7, 10, 15, 2, 19, 1, 4], [9, 21, 11, 16, 3, 13, 0, 23], [6, 20, 14, 17, 18, 12, 5, 22]],
    "balance": [1, 4, 9, 12, 15, 16],
    "random pairs": [1, 2, 3, 0, 3, 2, 0, 4, 3],
    "gold subset": [0, 4, 0, 3],
}
WEIGHTS: dict[str, list[float]] = {
    "cnn embedding.weight": [-0.023232, 0.010496, -0.022382],
    "cnn projection.weight": [0.011553, -0.175526, -0.060613],
    "student cnn embedding.weight": [-0.006818, 0.030672, -0.008672],
    "student cnn projection.weight": [0.218135, 0.108653, -0.244176],
    "student bert encoder.layer.0.output.dense.weight": [-0.01988, 0.320773, 0.094134],
    "random-bert encoder.layer.0.output.dense.weight": [-0.554684, -0.081026, 0.041817],
    "cross-encoder classifier.weight": [-0.154839, 0.167952, 0.543005],
}
LOSSES: dict[str, list[float]] = {
    "bi-encoder": [0.65052, 1.9276, 2.10661, 0.73875],
    "cross-encoder": [0.71668, 0.66198, 0.73054, 0.66598],
    "student": [0.70518, 0.41154, 0.45989, 0.42176],
    "paraphrase": [2.04542, 1.09348],
}


def purposes() -> Iterator[tuple[str, str]]:
    """Where a generator is asked for, and for what: "SEED PURPOSE", with "#" where it is also by a number.

    SEED is a literal, or "seed"; "*" stands for what is put into an f-string.
    """
    for path in sorted(
        path for top in ("al_ray", "jobs", "benchmarks", "studies") for path in (ROOT / top).rglob("*.py")
    ):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call):
                continue
            name = getattr(call.func, "id", getattr(call.func, "attr", ""))
            if name in (generator.__name__, "rng"):
                named = [*call.args, *(keyword.value for keyword in call.keywords)]
                # A strategy asks its request for chance, which knows the seed.
                seed, purpose, *number = [ast.Name("seed"), *named] if name == "rng" else named
                number = [one for one in number if getattr(one, "value", None) != 0]
                literal = str(seed.value) if isinstance(seed, ast.Constant) else "seed"
                yield f"{path.name}:{call.lineno}", f"{literal} {template(purpose)}{' #' if number else ''}"


def template(purpose: ast.expr) -> str:
    parts = purpose.values if isinstance(purpose, ast.JoinedStr) else [purpose]
    fixed = [part.value if isinstance(part, ast.Constant) else "*" for part in parts]
    assert any(part != "*" for part in fixed), f"line {purpose.lineno}: a purpose is a string that stands in the call"
    return "".join(map(str, fixed))


def first_draws(purpose: str) -> list[int]:
    """Three numbers of what is asked for by "SEED PURPOSE" or "SEED PURPOSE #", with seed 7 and number 3."""
    seed, name, *number = purpose.split(" ")
    chance = generator(7 if seed == "seed" else int(seed), name, 3 if number else 0)
    return chance.integers(2**31, size=3).tolist()


def draws() -> dict[str, Any]:
    """What strategies, evaluation sets, audits, splits and miners draw."""
    train, dev = symmetric_task().splits["train"], symmetric_task().splits["dev"]
    near = np.sort(dev.space.at(np.arange(12)))
    evalset = make_evaluation_set(dev, split_by_cosine(near, np.linspace(1, 0, 12), (0.5,)), 3, 4, 7)
    counts = Counts(np.linspace(1, 0, 4), np.array([5, 9, 12, 20]), np.array([[0, 1, 2, 4], [0, 0, 1, 3]]))
    extents = (StratumSummary("near", 50, 200), StratumSummary("random", 100, 10_000))
    component, pool = np.arange(24) // 2, Pool(("a", "b", "c", "d", "e"), np.arange(3), np.arange(5))
    gold = Gold("g", pool, Scored(as_pairs(np.zeros(9), np.arange(9) % 5), np.ones(9)), {})
    found: dict[str, Any] = {
        name: [keys.tolist() for keys in rounds_of(config, train)] for name, config in strategies().items()
    }
    return found | {
        "most of a space": train.space.draw(80, NO_KEYS, generator(7, "random")).tolist()[:8],
        "evaluation set": [(stratum.name, stratum.keys.tolist(), stratum.population) for stratum in evalset.strata],
        "interval": list(average_precision_interval(counts, extents, generator(7, "interval-dev")).as_dict().values()),
        "hashes": hash_keys(np.array([0, 5, 2**40]), 7, "near-pairs-dev").tolist(),
        "draws by number": uniform_at(np.array([0, 5, 2**40]), 7, "random-pairs-dev", 10**15).tolist(),
        "few of a space": sample_pairs(train.space, 5, NO_KEYS, 7, "random-pairs-train").tolist(),
        "bootstrap": poisson_weights(np.array([0, 5, 2**40]), 7, 4).T.tolist(),
        "split": deal(component, (0.5, 0.25, 0.25), generator(7, "split")).tolist(),
        "held out": hold_out(np.arange(60) // 2, 10, generator(7, "held-out")).tolist()[::2],
        "audit": draw_above(np.linspace(0, 1, 9), 0.3, 4, generator(7, "audit-near"))[0].tolist(),
        "band": draw_ranks((10, 30), 4, generator(7, "audit-band-10")).tolist(),
        "batches": [batch.tolist() for batch in separate_batches(component, 8, generator(7, "paraphrase-order", 1))],
        "balance": balance_bins(np.linspace(0, 0.99, 20), 2, 3, generator(7, "balance")).tolist(),
        "random pairs": Random(pool, generator(7, "sampler")).mine(3).pairs[:, 1].tolist(),
        "gold subset": gold.subset(4, True, 7).train.pairs[:, 1].tolist(),
    }


def strategies() -> dict[str, RunConfig]:
    def config(**changed: Any) -> RunConfig:
        return RunConfig(task="t", seed=7, rounds=2, first_batch=5, growth=1.2, **changed)

    return {
        "random": config(strategy="random", train_every_budget=True),
        "stated": config(strategy="stated", train_every_budget=True),
        "stated at once": config(strategy="stated"),
        "stated seeding": config(seeding="stated"),
        "stratified-all": config(strategy="stratified-all"),
        "stratified-match": config(strategy="stratified-match", matched=(3, 4)),
    }


def request_of(config: RunConfig, split: Split, state: State, number: int) -> RoundRequest:
    """What a strategy that draws is given; it neither searches nor loads a model."""
    nowhere: Any = SimpleNamespace(trainer=SimpleNamespace(untrained=None))
    return make_request(config, split, nowhere, state, number)


def rounds_of(config: RunConfig, split: Split) -> Iterator[Any]:
    """The keys of each round that a strategy draws."""
    labelled = NO_KEYS
    for number in range(1, 1 + len(config.batches)):
        strategy = STRATEGIES[config.strategy]
        if config.seeding == "stated" and number > 1:
            return
        choose = stated_seed if config.seeding == "stated" else strategy.choose
        state = State(number - 1, Labelled(split.space.pairs(labelled), np.zeros(len(labelled), np.uint8)), None)
        keys = choose(request_of(config, split, state, number)).keys
        labelled = np.sort(np.concatenate([labelled, keys]))
        yield keys


def weights(folder: Path) -> dict[str, list[float]]:
    """A few of the random weights that untrained models have."""
    learn_words([text for pair in TEXTS for text in pair], CNN, folder)
    student = StudentTrainer(StudentSpec(CNN, TrainingConfig(), 7)).untrained([text for pair in TEXTS for text in pair])
    networks = {
        "cnn": untrained(CNN, folder).network,
        "student cnn": student.network,
        "student bert": StudentTrainer(StudentSpec(BERT, TrainingConfig(), 7, 1)).untrained([]).network,
        "random-bert": network_of(Encoder.base(BERT)),
        "cross-encoder": network_of(CrossEncoder.base(BERT, 7)),
    }
    names = ("projection.weight", "embedding.weight", "encoder.layer.0.output.dense.weight", "classifier.weight")
    return {
        f"{model} {name}": tensor[-1, :3].tolist()
        for model, network in networks.items()
        for name, tensor in network.state_dict().items()
        if name in names
    }


def losses(folder: Path) -> dict[str, list[float]]:
    """The losses of the steps of tiny trainings: they say in which order pairs came."""
    texts = [" ".join(f"{word * (row + 3) % 89:b}" for word in range(1, 3 + row % 4)) for row in range(18)]
    pairs, labels = as_pairs(np.arange(9), np.arange(9, 18)), np.arange(9) % 2
    labelled = Labelled(pairs, labels.astype(np.uint8), np.ones(9, np.int32), ("random",) * 9)
    of_texts = [(texts[left], texts[right]) for left, right in pairs.tolist()]
    # Steps so small that a loss is of the first weights and of the pairs that came, and hardly of the CPU.
    config = TrainingConfig(batch=4, learning_rate=1e-7, initial_weight=2.0, initial_bias=-1.0, worst_loss=1e6)
    student, bert = StudentTrainer(StudentSpec(BERT, config, 7)), Encoder.base(BERT)
    tokens = bert.tokenise(texts)
    (folder / "left").mkdir()
    tokens.write(folder / "left")
    trainer, cross = Trainer(TrainerSpec(str(folder), BERT, config, 7, True)), CrossEncoder.base(BERT, 7)
    # What is dropped out depends on how torch was built.
    for module in network_of(cross).modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    steps: dict[str, Iterator[Any]] = {
        "bi-encoder": trainer.train(labelled, 2, None, str(folder / "bi")),
        "cross-encoder": train_pairs(cross, (of_texts, labels.astype(np.uint8)), config, 7, unsaved(folder / "cross")),
        "student": student.train([], of_texts, labels.astype(np.float64), str(folder / "student"), 4),
    }
    # A trainer's last word is the model.
    found = {name: [step.loss for step in made if isinstance(step, Step)] for name, made in steps.items()}
    options = ParaphraseConfig(task="t", loss="triplet-random", batch=4, epochs=2, learning_rate=1e-7, seed=7)
    known = Paraphrases(
        pairs, np.arange(9), pairs[:4], pairs[4:], Pool((), NO_KEYS, NO_KEYS), KnownMatches(pairs, NO_KEYS)
    )
    metric = MetricTraining(bert, tokens, known, options, no_progress)
    found["paraphrase"] = [epoch.loss for epoch in metric.epochs([], unsaved(folder / "metric"))]
    return found


def unsaved(path: Path) -> Checkpoint:
    return Checkpoint(path, "", 1e6)


def test_every_purpose_of_chance_in_the_code_is_one_of_todays():
    # A new purpose is put into PURPOSES on purpose, one that goes is taken out; a new name of an old one changes draws.
    places = {purpose: place for place, purpose in purposes()}
    assert {purpose: places[purpose] for purpose in places if purpose not in PURPOSES} == {}
    assert set(PURPOSES) - set(places) == set()


def test_every_purpose_draws_todays_numbers():
    assert {purpose: first_draws(purpose) for purpose in PURPOSES} == PURPOSES


def test_draws_are_todays():
    found, wanted = draws(), dict(DRAWS)
    # The last bits of an interval depend on how a CPU computes logarithms.
    assert found.pop("interval") == pytest.approx(wanted.pop("interval"), rel=1e-6)
    assert found == wanted


def test_random_weights_are_todays(tmp_path):
    found = weights(tmp_path)
    assert set(found) == set(WEIGHTS)
    for name, wanted in WEIGHTS.items():
        assert found[name] == pytest.approx(wanted, abs=1e-4), name


def test_trainings_take_their_pairs_in_todays_order(tmp_path):
    found = losses(tmp_path)
    assert set(found) == set(LOSSES)
    for name, wanted in LOSSES.items():
        assert found[name] == pytest.approx(wanted, abs=1e-3), name
