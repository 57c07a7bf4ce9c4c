"""A new user's journey from a table to matches and an audit: every command of the pages as it is printed there.

A scripted person fills in the sheets, by the truth of products.py. The pages: README.md, docs/labels.md and
docs/audit.md. The other journeys: test_program_labels.py, and tests/cluster/test_submit.py.
"""

import csv
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

import al_ray
from tests.guides import ROOT, as_shown, block, commands, outputs
from tests.journeys.products import MATCHES, TEXTS, answer, product, shop, truth
from tests.journeys.terminal import Terminal, fill, numbers

pytestmark = pytest.mark.slow

LABELS, README = ("docs/labels.md", "## From a CSV to matches"), ("README.md", "## Your CSV to matches")
AUDIT = ("docs/audit.md", "## No match is known: an audit by score")
RUN = Path("runs", "products")


@dataclass
class Journey:
    """The terminal, what the commands of docs/labels.md printed, and what the person answered in each round."""

    terminal: Terminal
    printed: dict[str, str] = field(default_factory=dict)
    answers: list[list[str]] = field(default_factory=list)

    def label_round(self, resume: str) -> None:
        """Label the next round, and rerun the command of the page."""
        sheet = self.terminal.folder / RUN / f"round-{len(self.answers) + 1:03d}" / "batch.csv"
        self.answers.append(fill(sheet, answer))
        self.printed["end"] = self.terminal.run(resume)


@pytest.fixture(scope="module")
def journey(local_ray, minilm, tmp_path_factory) -> Journey:
    """The session of docs/labels.md, up to `labels status`."""
    journey = Journey(shop(tmp_path_factory.mktemp("journey")))
    folder = journey.terminal.folder
    prepare, run = commands(block(*LABELS, "$ python -m jobs.prepare"))
    resume, status = commands(block(*LABELS, "$ python -m jobs.run"))
    journey.printed["prepare"] = journey.terminal.run(prepare)
    journey.printed["run"] = journey.terminal.run(run)
    first = fill(folder / RUN / "round-001" / "batch.csv", answer, most=20)
    journey.printed["twenty"] = journey.terminal.run(resume)
    journey.label_round(resume)
    journey.answers[0] = first + journey.answers[0]
    for _ in range(3):
        journey.label_round(resume)
    journey.printed["status"] = journey.terminal.run(status)
    return journey


def test_the_truth_is_that_of_the_table():
    assert len(TEXTS) == 82
    assert len(MATCHES) == 51


def test_the_readme_has_the_commands_of_the_guide(tmp_path):
    guide = block(*LABELS, "$ python -m jobs.prepare")
    lines = commands(block(*README, "al-ray prepare"))
    assert [line.replace("al-ray ", "python -m jobs.") for line in lines] == commands(guide)
    # It names the next command as it was called itself.
    assert as_shown(outputs(guide)[0], shop(tmp_path).run(lines[0]).replace("al-ray ", "python -m jobs."))


def test_the_first_commands_print_what_the_guide_shows_and_two_sittings_are_one_round(journey):
    prepared, planned = outputs(block(*LABELS, "$ python -m jobs.prepare"))
    assert as_shown(prepared, journey.printed["prepare"])
    assert as_shown(planned, journey.printed["run"])
    assert "round 1: 40 of 60 pairs wait for an answer" in journey.printed["twenty"]
    assert "`40 of 60 pairs wait for an answer`" in (ROOT / LABELS[0]).read_text(encoding="utf-8")
    assert [len(answers) for answers in journey.answers] == [60] * 4


def test_the_sheet_begins_as_the_guide_shows(journey):
    page = (ROOT / LABELS[0]).read_text(encoding="utf-8")
    shown = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if "| r001-" in line]
    sheet = (journey.terminal.folder / RUN / "round-001" / "batch.csv").read_text(encoding="utf-8")
    rows = list(csv.reader(sheet.splitlines()))[1 : len(shown) + 1]
    assert shown == [[row[0], "", *row[2:]] for row in rows]
    assert len(shown) == 3


def test_status_counts_the_answers_of_the_person(journey):
    lines = journey.printed["status"].splitlines()
    for number, (line, answers) in enumerate(zip(lines[1:], journey.answers, strict=False), 1):
        counts = Counter(answers)
        of_round = [60, counts["yes"], counts["no"], counts["unsure"], 0]
        chosen_by = "seed" if number == 1 else "uncertainty"
        assert line.split() == [str(number), chosen_by, *map(str, of_round), "file", "0"]
    assert lines[5] == "corrections: 0; complete rounds: 4; cost: 0"
    assert lines[6].startswith(("label more, because ", "enough, because "))
    assert sum(answers.count("unsure") for answers in journey.answers) == 1
    yes = np.cumsum([answers.count("yes") for answers in journey.answers]).tolist()
    last = journey.printed["end"].splitlines()
    # The last table of rounds has them all.
    first = max(place for place, line in enumerate(last) if line.split()[:1] == ["round"]) + 1
    rounds = [line.split()[:3] for line in last[first : first + 4]]
    assert rounds == [[f"{n + 1}", f"{60 * n + 60}", f"{yes[n]}"] for n in range(4)]
    assert last[first + 4].startswith("planned by speeds of ")
    match = f"match with it: python -m jobs.match --model {RUN} --left FILE --at-boundary --out DIR"
    assert last[-2:] == [f"results: {RUN}", match]


def test_the_command_of_the_readme_writes_the_matches_and_clusters(journey):
    (line,) = commands(block(*README, "al-ray match"))
    assert f"`{line}`" in (ROOT / LABELS[0]).read_text(encoding="utf-8")
    assert "clusters of two or more texts: " in journey.terminal.run(line)
    with (journey.terminal.folder / "matches/products/matches.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    correct = sum(product(row["left_text"]) == product(row["right_text"]) for row in rows)
    # 50 pairs were found when this was written, all of them matches, of 51; people had labelled 48 of them.
    assert correct / len(rows) >= 0.9
    assert correct / len(MATCHES) >= 0.9
    people = sum(answers.count("yes") for answers in journey.answers)
    assert sum(row["decided_by"] == "label" for row in rows) == people


def test_the_program_of_the_guide_prints_the_matches(journey):
    printed = journey.terminal.execute(block(*LABELS, "import csv"))
    pairs = [line.split(" | ") for line in printed.splitlines()]
    correct = sum(product(left) == product(right) for left, right in pairs)
    # 49 pairs were printed when this was written, all of them matches, of 51.
    assert correct / len(pairs) >= 0.9
    assert correct / len(MATCHES) >= 0.85


def test_the_program_without_al_ray_prints_the_same_scores(journey):
    pytest.importorskip("sentence_transformers")
    printed = journey.terminal.execute(block(*LABELS, "import json"))
    model = al_ray.load_model(journey.terminal.folder / RUN)
    lines = [re.split(r"  +", line) for line in printed.splitlines()]
    for text, nearest, _, score in lines:
        assert model.score([text], [nearest])[0] == pytest.approx(numbers(score)[0], abs=0.011)
    known = [product(text) == product(nearest) for text, nearest, *_ in lines]
    assert known == [True, True, False]
    assert [numbers(score)[0] >= 0.5 for *_, score in lines] == known


def test_an_audit_prints_intervals_that_include_the_truth(journey):
    sample, estimate = commands(block(*AUDIT, "$ python -m jobs.audit sample --run runs/products"))
    journey.terminal.run(sample)
    fill(journey.terminal.folder / RUN / "audit-train-by-score" / "audit.csv", truth)
    printed = journey.terminal.run(estimate)
    vectors = al_ray.load_model(journey.terminal.folder / RUN).encode(list(TEXTS.values()))
    left, right = np.triu_indices(len(TEXTS), 1)
    cosines = (vectors @ vectors.T)[left, right]
    ids = list(TEXTS)
    match = np.array([frozenset((ids[a], ids[b])) in MATCHES for a, b in zip(left, right, strict=True)])

    rows = re.findall(r"^(?:boundary)? +-?\d\.\d{4} .*$", printed, re.MULTILINE)
    assert [row.startswith("boundary") for row in rows].count(True) == 1
    for row in rows:
        cosine, _, count, precision, low, high, _, share_low, share_high, recall_low, recall_high = numbers(row)
        # Cosines are printed with four digits.
        assert (cosines >= cosine + 6e-5).sum() <= count <= (cosines >= cosine - 6e-5).sum()
        above = np.argsort(-cosines)[: int(count)]
        holds(low, match[above].mean(), high)
        # The ranked pairs and those that the run labelled are all pairs: the share is recall.
        recall = match[above].sum() / match.sum()
        holds(share_low, recall, share_high)
        holds(recall_low, recall, recall_high)
        if row.startswith("boundary"):
            # All pairs above it are labelled, by the run or in the audit.
            assert (low, high) == (precision, precision)
            assert precision == pytest.approx(match[above].mean(), abs=6e-4)
    assert "these are all pairs" in printed
    line = re.findall("^average precision of these pairs.*", printed, re.MULTILINE)[0]
    value, low, high, low_over_all, high_over_all = numbers(line)
    ranked = match[np.argsort(-cosines)]
    average_precision = (np.cumsum(ranked) / np.arange(1, len(ranked) + 1))[ranked].mean()
    # No match is unlabelled.
    assert value == pytest.approx(average_precision, abs=0.006)
    holds(low, average_precision, high)
    holds(low_over_all, average_precision, high_over_all)


def holds(low: float, value: float, high: float) -> None:
    """Assert that a printed interval includes a value; some ends are rounded to a percent."""
    assert low - 0.006 <= value <= high + 0.006
    assert 0 <= low <= high <= 1
