"""The demonstration: what it says first, and its table."""

import logging
import sys

from al_ray.cli import demo
from al_ray.cli._shared import entry
from al_ray.runs.run_folder import complete_rounds

LINE = "--encoder random-bert --texts 200 --first-batch 8 --rounds 2"


def test_the_demonstration_says_how_long_it_takes_and_compares_choices_and_learners(
    tmp_path, monkeypatch, capsys, caplog
):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(sys, "argv", ["al-ray demo", *LINE.split(), "--out", str(tmp_path / "made")])
    entry.job(demo.main)
    assert caplog.messages[0] == ("4 runs on 200 questions: 2 to 4 minutes on 2 cores, without a GPU; rerun to resume")
    lines = capsys.readouterr().out.splitlines()
    start = next(number for number, line in enumerate(lines) if line.split()[:2] == ["strategy", "learner"])
    rows = [line.split() for line in lines[start + 1 : start + 6]]
    assert [row[:3] for row in rows] == [
        ["(untrained)", "0", rows[0][2]],
        ["random", "matcher", "20"],
        ["uncertainty", "matcher", "20"],
        ["static", "encoder", "20"],
        ["uncertainty", "encoder", "20"],
    ]
    last = complete_rounds(tmp_path / "made" / "static")[-1]
    assert rows[3][3:5] == [str(last["positives"]), f"{100 * last['average_precision']:.1f}"]
