"""A limit of cost on a real Ray: it holds until it is raised, ends a run in order, and an open round can be closed."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from al_ray.cli import labels, run
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.runs.limits import LIMITS
from al_ray.runs.run_folder import RunFolder
from al_ray.runs.run_state import at_its_end, bound_config

# Calls of 4 pairs, 0.4 each; every third pair is a match.
JUDGE = """
from al_ray.oracles.function import Reply
def label(left, right):
    return Reply([int(number % 3 == 0) for number in range(len(left))], 0.1 * len(left))
"""
OPTIONS = (
    "--task task --out out --oracle judge:label --pairs-per-call 4 --cost-per-pair 0.1 --rounds 2 --first-batch 8 "
    "--growth 1 --encoder random-bert --encoder-layers 1 --max-length 24 --encoder-batch 8 --threads 1 "
    "--search.neighbours 5 --training.epochs 1 --training.batch 4 --training.worst-loss 100 --evaluation.splits "
)
RESUMED = "--out out --config out"


@pytest.fixture
def do(call, make_task, tmp_path):
    """Run a command in a folder with a task and a judge."""
    (tmp_path / "judge.py").write_text(JUDGE)
    write_task(make_task(True), tmp_path / "task", {})
    return call


def pairs_bought(round_folder: Path) -> int:
    return sum(len(pq.read_table(path)) for path in round_folder.glob("answers-*.parquet"))


@pytest.mark.slow
def test_a_limit_of_cost_holds_until_it_is_raised_and_a_stop_is_no_error(do):
    code, printed = do(run, f"{OPTIONS} --max-cost 1.3")
    assert code == 0
    assert "plan: 2 rounds of 8, 8 pairs, 16 labels in all" in printed
    assert "at --cost-per-pair 0.1 they cost 1.6" in printed
    assert "stopped by --max-cost 1.3: labels cost 1.3 so far" in printed
    assert "to train on what is labelled: al-ray labels close --run out\n" in printed
    # The printed way to resume, and the same without an option, buy nothing: a last call of one pair spent the rest.
    for _ in range(2):
        code, printed = do(run, RESUMED)
        assert (code, "plan:" in printed) == (0, False)
        assert "stopped by --max-cost 1.3" in printed
    assert [pairs_bought(Path(f"out/round-00{number}")) for number in (1, 2)] == [8, 5]
    assert at_its_end(Path("out"), bound_config(Path("out")))
    assert "stopped by `max_cost=1.3`" in json.loads(Path("out/ended.json").read_text())["why"]
    assert "complete rounds: 1; cost: 1.3\nlimit: jobs.run --max-cost 1.3\n" in do(labels, "status --run out")[1]

    code, printed = do(run, f"{RESUMED} --max-cost none")
    assert (code, "stopped" in printed) == (0, False)
    assert pairs_bought(Path("out/round-002")) == 8
    assert "max_cost" not in json.loads(Path("out", LIMITS).read_text())


def test_an_open_round_is_closed_with_what_was_bought(do):
    do(run, f"{OPTIONS} --max-cost 1.3")
    code, printed = do(labels, "close --run out")
    assert (code, printed.splitlines()[0]) == (0, "round 2 is closed with 5 labels; 3 pairs leave it")
    assert do(labels, "close --run out")[0] == 2
    # A third round under the same limit buys nothing more, and the closed one is trained on.
    code, printed = do(run, f"{RESUMED} --rounds 3")
    assert code == 0
    assert "stopped by --max-cost 1.3" in printed
    folder = RunFolder(Path("out"), read_task(Path("task")))
    state = folder.state()
    assert (state.round, len(state.labelled), folder.ledger.cost()) == (2, 13, pytest.approx(1.3))
    # The pairs that left the round may be chosen again; those that were bought are not.
    third = folder.ledger.batch(3)
    assert third is not None
    keys = folder.ledger.space.keys
    assert not np.isin(keys(third.pairs), keys(state.labelled.pairs)).any()
    assert (folder.ledger.labels(2) != 3).sum() == 5


def test_people_have_small_rounds_and_may_change_their_size(do):
    line = OPTIONS.replace("judge:label --pairs-per-call 4 --cost-per-pair 0.1", "file").replace(
        "--first-batch 8 --growth 1 ", ""
    )
    code, printed = do(run, line.replace("--rounds 2 ", ""))
    assert code == 0
    assert "plan: 4 rounds of 50, 50, 50, 50 pairs, 200 labels in all" in printed
    assert "at 20 seconds a pair that is 1.1 hours of labelling" in printed
    sheet = Path("out/round-001/batch.csv")
    lines = sheet.read_text(encoding="utf-8-sig").splitlines()
    assert len(lines) == 51
    # Nine are answered, and the round is closed with them.
    answered = [line.replace(",,", ",yes," if number % 2 else ",no,", 1) for number, line in enumerate(lines[1:10])]
    sheet.write_text("\n".join([lines[0], *answered, *lines[10:]]))
    code, printed = do(labels, "close --run out")
    assert printed.splitlines()[0] == "round 1 is closed with 9 labels; 41 pairs leave it"
    code, printed = do(run, f"{RESUMED} --first-batch 12")
    assert "round 2: 12 of 12 pairs wait for an answer" in printed
    assert bound_config(Path("out")).first_batch == 12
