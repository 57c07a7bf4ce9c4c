"""jobs.run --oracle llm killed with kill -9 while it buys: a stored answer is not bought again and counts once."""

import json
import signal
from collections import Counter
from pathlib import Path

import pytest

from al_ray.core.labels import CODES
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.runs.run_folder import RunFolder
from tests.oracles.llm_process import PAIRS, Judge, run_process_of
from tests.oracles.llm_server import KEY, TOKENS, LlmServer, Texts, pairs_of, serving

pytestmark = pytest.mark.faults

# A million tokens of a prompt, and of an answer.
PRICE = 2.0, 8.0
PAIR = (TOKENS[0] * PRICE[0] + TOKENS[1] * PRICE[1]) / 1e6
PER_CALL, AT_ONCE = 4, 2
OPTIONS = ("--llm.input-price", "2", "--llm.output-price", "8", "--calls-at-once", str(AT_ONCE), "--max-cost", "1")
ENVIRONMENT = {"OPENAI_API_KEY": KEY}


def stored(place: Path) -> set[Texts]:
    """The pairs whose answers are on disk."""
    files = (place / "run" / "llm").glob("*.json")
    return {texts for path in files for texts in pairs_of(json.loads(path.read_text())["request"])}


def killed(server: LlmServer, place: Path, *plan: str) -> set[Texts]:
    """Kill a run when two of its calls stall, and return the pairs of these calls."""
    server.plan.extend(plan)
    with run_process_of(server, place, OPTIONS, ENVIRONMENT) as process:
        process.await_stalls(server, AT_ONCE)
    return {texts for body in server.asked[-AT_ONCE:] for texts in pairs_of(body)}


def test_a_run_that_is_killed_while_it_buys_buys_no_stored_answer_again(make_task, tmp_path: Path):
    write_task(make_task(True), tmp_path / "task", {})
    with serving(Judge()) as server:
        # The calls that start third and fourth: the answers of the first two are in the ledger then.
        under_way = killed(server, tmp_path, "", "", "stall", "stall")
        assert len(stored(tmp_path)) == 2 * PER_CALL
        # It buys the rest of round 1, and ends when the last raw answer is written, before its labels count.
        with run_process_of(server, tmp_path, OPTIONS, ENVIRONMENT, dies_after=2) as process:
            assert process.end() == -signal.SIGKILL, process.printed
        assert len(stored(tmp_path)) == PAIRS[0]
        # In round 2, of which one call is answered.
        under_way |= killed(server, tmp_path, "", "stall", "stall")
        assert len(stored(tmp_path)) == PAIRS[0] + PER_CALL
        with run_process_of(server, tmp_path, OPTIONS, ENVIRONMENT) as process:
            assert process.end() == 0, process.printed
    assert len(under_way) == 2 * AT_ONCE * PER_CALL
    assert Counter(server.pairs) == Counter([*stored(tmp_path), *under_way])
    assert sorted(server.answered) == sorted(stored(tmp_path))
    journal = RunFolder(tmp_path / "run", read_task(tmp_path / "task"))
    for number, size in enumerate(PAIRS, start=1):
        batch = journal.ledger.batch(number)
        assert batch is not None
        texts = list(zip(*journal.task.texts_of(batch.pairs), strict=True))
        assert journal.ledger.labels(number).tolist() == [CODES[server.truth[one]] for one in texts]
        assert len(texts) == size
    assert journal.cost == pytest.approx(sum(PAIRS) * PAIR)
