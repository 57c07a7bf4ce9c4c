"""jobs.run --oracle page: one command serves, waits, trains, serves the next round, and says what was learnt."""

import re
import shlex
import sys
import threading
import time
from pathlib import Path

import httpx2
import pytest

from al_ray.cli import run
from al_ray.cli._shared import entry
from al_ray.core.labels import OPEN, WORDS
from al_ray.core.scorer import CANDIDATE
from al_ray.core.two_stage_score import TIE
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.matcher.explanation_file import read_explanations
from al_ray.oracles.page_log import read_page_answers
from al_ray.runs.run_folder import RunFolder
from tests.apps.annotating.page_process import free_port, page_process
from tests.apps.annotating.waiting_runs import Person

SMALL = (
    "--oracle page --encoder random-bert --encoder-layers 1 --max-length 24 --encoder-batch 8 --threads 1 --rounds 2 "
    "--first-batch 8 --search.neighbours 5 --training.epochs 1 --training.batch 8 --training.worst-loss 100 "
    "--evaluation.near-neighbours 3 --evaluation.random-pairs 50 --dev-labels 4 --timeout 600"
)


def label_until_the_end(url: str, answers: dict[str, str], seen: list[str], most: int = 1000) -> None:
    """Answer every pair that comes, until the page says that no more will, or `most` have come."""
    with httpx2.Client(base_url=url, follow_redirects=True, timeout=60) as client:
        ann = Person(client, "ann")
        while "All planned rounds are complete" not in ann.page and len(answers) < most:
            if not ann.code:
                seen.append(ann.page)
                time.sleep(0.1)
                ann.open("/")
                continue
            code, label = ann.code, "yes" if len(answers) % 3 == 0 else "no"
            ann.answer(label)
            answers[code] = label
        seen.append(ann.page)


@pytest.mark.usefixtures("in_process")
def test_one_command_labels_trains_and_labels_on(make_task, tmp_path, monkeypatch, capsys):
    write_task(make_task(True), tmp_path / "task", {})
    monkeypatch.chdir(tmp_path)
    port, answers, seen = free_port(), dict[str, str](), list[str]()
    line = f"--task task --out run {SMALL} --page.port {port}"
    monkeypatch.setattr(sys, "argv", ["run", *shlex.split(line)])

    def people() -> None:
        while True:
            try:
                httpx2.get(f"http://127.0.0.1:{port}/health")
                break
            except httpx2.ConnectError:
                time.sleep(0.1)
        label_until_the_end(f"http://127.0.0.1:{port}", answers, seen)

    labeller = threading.Thread(target=people, daemon=True)
    labeller.start()
    entry.job(run.main)
    labeller.join(60)
    printed = capsys.readouterr().out
    assert f"label at http://127.0.0.1:{port}" in printed
    folder = RunFolder(Path("run"), read_task(tmp_path / "task"))
    assert folder.last == 2
    # Two rounds of 8 and drawn pairs of dev after each.
    assert sorted({code.partition("-")[0] for code in answers}) == ["d001", "d002", "r001", "r002"]
    for ledger, letter in ((folder.ledger, "r"), (folder.dev_labels.ledger, "d")):
        for number in (1, 2):
            labels = ledger.labels(number).tolist()
            given = [answers[f"{letter}{number:03d}-{row:05d}"] for row in range(1, len(labels) + 1)]
            assert [WORDS[label] for label in labels] == given
    assert not (tmp_path / "run" / "page.json").exists()
    # What was learnt is on the page as it is in the terminal.
    assert "What was learnt" in seen[-1]
    assert any(re.search(r"label more|enough", page) for page in seen)


@pytest.mark.usefixtures("in_process")
def test_pairs_chosen_ahead_are_shown_at_once_while_a_matcher_learns(make_task, tmp_path, monkeypatch):
    write_task(make_task(False, clusters=18), tmp_path / "task", {})
    monkeypatch.chdir(tmp_path)
    port, codes, empty, said = free_port(), list[str](), list[str](), list[bool]()
    small = SMALL.replace("--training.epochs 1 --training.batch 8 --training.worst-loss 100 ", "")
    line = f"--task task --out run {small} --rounds 4 --dev-labels 0 --matcher on --choose-ahead --page.port {port}"
    monkeypatch.setattr(sys, "argv", ["run", *shlex.split(line)])

    def people() -> None:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", follow_redirects=True, timeout=60) as client:
            ahead = tmp_path / "run" / "round-002" / "batch.parquet"
            while not ahead.exists():
                time.sleep(0.1)
            ann = Person(client, "ann")
            while len(codes) < 32:
                # The pairs of the next round are chosen once the model of the round before has learnt.
                number = int(ann.code[1:4])
                while number < 4 and not (tmp_path / "run" / f"round-{number + 1:03}" / "batch.parquet").exists():
                    time.sleep(0.1)
                codes.append(ann.code)
                assert "Why p was" not in ann.page, "an answer is given without the model's"
                ann.answer("yes" if len(codes) % 3 == 0 else "no")
                said.append("Why p was" in client.get(f"/pair/{codes[-1]}").text)
                if not ann.code and len(codes) < 32:
                    empty.append(codes[-1])
                    return

    labeller = threading.Thread(target=people, daemon=True)
    labeller.start()
    entry.job(run.main)
    labeller.join(60)
    assert not empty, "a page without a pair between two rounds"
    assert [code[:4] for code in codes] == [f"r{number:03}" for number in (1, 2, 3, 4) for _ in range(8)]
    folder = RunFolder(Path("run"), read_task(tmp_path / "task"))
    assert folder.last == 4
    assert folder.ledger.labelled().sources == ("spread-seed",) * 16 + ("uncertainty",) * 16
    assert said == [False] * 16 + [True] * 16, "without a model there is no why"
    for number in (3, 4):
        batch, found = folder.ledger.batch(number), read_explanations(folder.round(number), 8)
        assert batch is not None
        assert [one.p for one in found] == pytest.approx(batch.cosines - CANDIDATE, abs=TIE)
        assert all(one.base + sum(part.adds for part in one.parts) == pytest.approx(one.p) for one in found)


@pytest.mark.faults
def test_a_run_that_is_killed_while_people_label_asks_nobody_again(make_task, tmp_path):
    write_task(make_task(True), tmp_path / "task", {})
    answers, seen = dict[str, str](), list[str]()
    words = ["jobs.run", *shlex.split(f"--task task --out run {SMALL} --dev-labels 0 --page.port {free_port()}")]
    log = tmp_path / "run" / "round-001" / "batch.page.log"
    for most in (3, 6):
        with page_process(words, tmp_path) as command:
            label_until_the_end(command.url, answers, seen, most)
        assert len(read_page_answers(log).touched) == most
    with page_process(words, tmp_path) as command:
        label_until_the_end(command.url, answers, seen)
        command.rest()
        assert command.process.returncode == 0
    assert len(answers) == 16
    folder = RunFolder(tmp_path / "run", read_task(tmp_path / "task"))
    assert folder.last == 2
    for number in (1, 2):
        labels = folder.ledger.labels(number).tolist()
        assert OPEN not in labels
        assert [WORDS[label] for label in labels] == [
            answers[f"r{number:03d}-{row:05d}"] for row in range(1, len(labels) + 1)
        ]
        page = read_page_answers(tmp_path / "run" / f"round-{number:03d}" / "batch.page.log")
        assert [len(page.of(code)) for code in sorted(page.touched)] == [1] * 8
