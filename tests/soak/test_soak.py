"""The checks of the soak notice what they are for, a number draws the same trial everywhere, and some trials in CI.

`make soak MINUTES=120` runs more of them (tests/soak/__main__.py).
"""

import json
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.soak.__main__ import Player, read_lines, summary
from tests.soak.checks import Call, bought_once, ended_well, kept, same_folder, same_texts
from tests.soak.plan import KINDS, Fault, Plan, moments_of, plan_of
from tests.soak.scenes import counting
from tests.soak.scenes.llm import ModelSeller
from tests.soak.waiting import MARK, marked, titles

A, B, C = (("a", "a'"), "yes"), (("b", "b'"), "no"), (("c", "c'"), "unsure")


def test_what_a_killed_process_had_just_bought_may_be_bought_again_and_nothing_else():
    quiet = [Call(1, (A, B)), Call(1, (C,))]
    assert bought_once(quiet, []) == ([], 0)
    # The second call's answers went with the first process, which was killed.
    assert bought_once([*quiet, Call(2, (C,))], [1]) == ([], 1)
    # It was not killed, so they were to be on disk.
    (said,), again = bought_once([*quiet, Call(2, (C,))], [])
    assert (said, again) == (f"bought twice: {C[0]} in call 1 of start 1 and in call 2 of 2", 1)
    # Those of the call before were on disk when the second call began.
    assert len(bought_once([*quiet, Call(2, (A,))], [1])[0]) == 1
    # A process that lives has no reason to ask again.
    assert len(bought_once([Call(1, (A,)), Call(1, (A,))], [1])[0]) == 1


@pytest.mark.parametrize(
    ("ledger", "said"),
    [
        ([A, B], []),
        ([A], [f"lost: the label of {B[0]}"]),
        ([A, B, B], [f"stored 2 times: the label of {B[0]}"]),
        ([A, B, C], [f"never asked: {C[0]} has the label unsure"]),
        ([A, (B[0], "yes")], [f"changed: {B[0]} was answered no and has yes"]),
    ],
)
def test_each_answer_is_on_disk_once_and_no_other(ledger, said):
    assert kept([Call(1, (A,)), Call(2, (B,))], ledger) == said


def test_files_that_differ_in_more_than_their_times_are_named():
    quiet = {
        "metrics.jsonl": b'{"round": 1, "average_precision": 0.5, "seconds": 1}\n',
        "round-001/record.json": b'{"model": "m", "seconds": {"embed": 1}}',
        "round-001/answers-00001.parquet": b"",
        "round-001/model/scorer.json": b"{}",
        "round-001/batch.json": b"[1]",
        "round-001/batch.page.log": b"12:00",
        "events/1": b"",
        "llm/00001.json": b"{}",
    }
    again = {
        "metrics.jsonl": b'{"round": 1, "average_precision": 0.5, "seconds": 2}\n',
        "round-001/record.json": b'{"model": "m", "seconds": {"embed": 9}}',
        "round-001/model/scorer.json": b"{}",
        "round-001/batch.json": b"[1]",
    }
    assert same_folder(quiet, again) == []
    other = {**again, "metrics.jsonl": b'{"round": 1, "average_precision": 0.6}\n', "round-001/.model.new": b""}
    del other["round-001/model/scorer.json"]
    assert same_folder(quiet, other) == [
        "missing: round-001/model/scorer.json",
        "left behind: round-001/.model.new",
        "not as in the quiet run: metrics.jsonl",
    ]


def test_cosines_that_are_not_known_are_equal():
    batch = pa.BufferOutputStream()
    pq.write_table(pa.table({"cosine": [float("nan"), 0.5]}), batch)
    files = {"round-001/batch.parquet": batch.getvalue().to_pybytes()}
    assert same_folder(files, files) == []


def test_texts_that_are_lost_removed_in_vain_or_other_ones_are_named():
    assert same_texts({"a": "x"}, {"a": "x"}) == []
    assert same_texts({"a": "x", "b": "y"}, {"b": "z", "c": "x"}) == [
        "lost: the text a", "there: the text c", "changed: b is 'z' and not 'y'",
    ]  # fmt: skip


def test_a_command_ends_well_or_says_why_in_one_line_or_was_killed():
    assert (
        ended_well(0, "", False) == ended_well(2, "12:00 a line\nerror: why\n", False) == ended_well(-9, "", True) == []
    )
    trace = "Traceback (most recent call last):\n"
    for code, said in ((2, ""), (2, "error: a\nerror: b\n"), (2, f"{trace}error: why\n"), (1, trace), (-9, "")):
        assert len(ended_well(code, said, False)) == 1


def test_a_number_is_the_same_trial_everywhere_and_all_kinds_come():
    plans = [plan_of(0, number) for number in range(400)]
    assert plans == [plan_of(0, number) for number in range(400)]
    assert plans != [plan_of(1, number) for number in range(400)]
    for plan in plans:
        assert plan.faults == tuple(
            sorted(plan.faults, key=lambda fault: moments_of(plan.scenario).index(fault.moment))
        )
    drawn = {(plan.scenario, fault.kind) for plan in plans for fault in plan.faults}
    assert drawn == {(scenario, kind) for scenario, kinds in KINDS.items() for kind in kinds}


def test_a_process_that_is_left_of_a_trial_is_found():
    mark = "soak-of-a-test"
    with subprocess.Popen(["sleep", "600"], env={MARK: mark}) as process:
        try:
            assert titles(marked(mark)) == [f"{process.pid} sleep 600"]
        finally:
            process.kill()
    assert titles(marked(mark)) == []


def test_lines_of_trials_are_kept_and_summed(tmp_path):
    line = {
        **Plan(0, 0, "run").as_dict(), "faults": [], "struck": [{"kind": "kill shard"}, {"kind": "kill driver"}],
        "endings": ["-9", "0"], "again": 4, "seconds": 1800.0, "complaints": [],
    }  # fmt: skip
    failed = {**line, "scenario": "run on S3", "number": 7, "complaints": ["lost: a label"]}
    (tmp_path / "lines").write_text(json.dumps(line) + "\n" + json.dumps(failed) + "\n" + json.dumps(line)[:50])
    lines = read_lines(tmp_path / "lines")
    assert lines == [line, failed]
    rows = [row.split("  ") for row in summary(lines)]
    found = {words[0]: [word.strip() for word in words[1:] if word] for words in rows}
    assert found["kill shard"] == ["1", "1", *("0" * (len(KINDS) - 2)), "2"]
    assert found["labels paid for twice"] == ["4", "4", *("0" * (len(KINDS) - 2)), "8"]
    assert found["failed trials"] == ["0", "1", *("0" * (len(KINDS) - 2)), "1"]
    assert found["1.00 hours of trials"] == []
    assert ["trial 7 (run on S3): lost: a label"] in rows


def test_calls_of_a_grid_are_kept_apart_by_run_and_process(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert counting.calls() == {}
    notes = (("static-s0", 7, [A, B]), ("static-s1", 8, [A]), ("static-s0", 9, [B]), ("static-s0", 9, [C]))
    counting.counted().write_text("".join(f"{json.dumps(note)}\n" for note in notes))
    calls = counting.calls()
    assert calls == {"static-s0": [Call(0, (A, B)), Call(1, (B,)), Call(1, (C,))], "static-s1": [Call(0, (A,))]}
    assert bought_once(calls["static-s0"], [0, 1]) == ([], 1)


def test_a_language_models_server_notes_what_can_be_read_and_comes_back_at_its_port():
    seller = ModelSeller()
    url, texts = f"http://127.0.0.1:{seller.port}/v1/chat/completions", [A[0], B[0]]

    def ask() -> int:
        content = json.dumps([{"left": left, "right": right} for left, right in texts])
        body = json.dumps({"messages": [{"role": "user", "content": content}]}).encode()
        with (
            suppress(HTTPError),
            urlopen(Request(url, body, {"Content-Type": "application/json"}), timeout=60) as reply,
        ):
            return reply.status
        return 0

    try:
        seller.plan.extend(["500", "few"])
        assert [ask(), ask()] == [0, 200]
        seller.close()
        seller.start = 2
        seller.reopen()
        assert ask() == 200
        noted = [(call.start, [pair for pair, _ in call.answers]) for call in seller.calls]
        assert noted == [(0, texts[:1]), (2, texts)]
    finally:
        seller.close()


@pytest.mark.faults
def test_a_run_that_is_killed_and_badly_served_ends_as_the_quiet_one(tmp_path: Path):
    faults = (
        Fault("spoil answers", "start", target="500 word drop"),
        Fault("kill driver", "call 3"),
        Fault("kill shard", "labels 1"),
    )
    player = Player(tmp_path)
    try:
        line = player.play(Plan(0, 0, "run", faults))
    finally:
        left = player.close()
    assert line["complaints"] == left == []
    assert [one["kind"] for one in line["struck"]] == [fault.kind for fault in faults]
    assert line["endings"] == ["-9", "0"]
