"""What a report says of runs with a matcher: the cosine beside it, its candidates, and which comparisons matter."""

from dataclasses import replace

import pytest

from al_ray.active_learning.config import RunConfig
from al_ray.apps.reporting.html import page
from al_ray.apps.reporting.plots.importance import importance, largest
from al_ray.apps.reporting.report import in_short, report
from al_ray.apps.reporting.run_records import Round, Run, SplitEvaluation, TaskSummary, settings
from al_ray.apps.reporting.tables.by_round import by_labels
from al_ray.apps.reporting.tables.matcher import matcher_and_cosine
from al_ray.core.config.sections import CandidatesConfig, EvaluationConfig
from al_ray.metrics.average_precision import Estimate
from al_ray.runs.candidate_figures import CandidateFigures, CandidateRecall
from al_ray.runs.importance import Importance

pytestmark = pytest.mark.usefixtures("drawn")
CONFIG = RunConfig(
    task="shops", rounds=2, first_batch=8, growth=1.0, matcher="on", evaluation=EvaluationConfig(splits=("dev",)),
    candidates=CandidatesConfig(least_recall=0.9),
)  # fmt: skip
RECALL = CandidateRecall(500, 40, {"cosine": 0.5, "3-grams": 0.75, "both": 0.8})
NAMES = (r"price $\no$: log difference", "cosine", "name: equal")


def run(seed: int, *aps: float, matcher: bool = True, trouble: str = "") -> Run:
    """A run with such an AP on dev after each round of 8 labels; the cosine alone has 20%, less a point a seed."""
    rounds = list[Round]()
    for number, ap in enumerate(aps, start=1):
        measured = SplitEvaluation(Estimate(ap, ap, ap), Estimate(1, 1, 1), 4, 100, True)
        alone = {"dev": CandidateFigures(RECALL, 0.2 - 0.01 * seed)} if matcher else {}
        adds = Importance(NAMES, (0.3 + 0.1 * seed, 0.2, 0.1), 8 * number) if matcher else None
        figures = Round(number, 8 * number, number, 8, 1, {"train": 1.0}, {"dev": measured}, candidates=alone)
        rounds.append(replace(figures, importance=adds))
    config = replace(CONFIG, seed=seed, matcher="on" if matcher else "off")
    return Run(f"s{seed}", config, TaskSummary("d", "shops"), tuple(rounds), trouble)


def test_the_matcher_and_the_cosine_stand_side_by_side_every_round_by_hand():
    (setting,) = settings([run(0, 0.8, 0.9), run(1, 0.7, 0.9), run(2, 0.1, trouble="ended after round 1 of 2")])
    table = matcher_and_cosine(setting, "s1", "dev")
    assert table is not None
    assert table.head == ("labels", "uncertainty (2 of 3): matcher", "uncertainty (2 of 3): cosine alone")
    # 80 and 70: 75, and 10 / sqrt(2) = 7.1; the cosine has 20 and 19: 19.5, and 1 / sqrt(2) = 0.7.
    assert [row.cells for row in table.rows] == [
        ("8", "75.0 ± 7.1", "19.5 ± 0.7"),
        ("16", "90.0", "19.5 ± 0.7"),
    ]
    assert "s2 (ended after round 1 of 2)" in table.notes[-1]


def test_the_summary_says_the_recall_of_candidates_and_warns():
    (setting,) = settings([run(0, 0.8)])
    words = in_short(setting)
    assert "Candidates of dev: 500 pairs, with 80.0% of the 40 known matches (50.0% by cosine, 75.0% by 3-g" in words
    assert "Warning: the candidates of dev have 0.800 of the known matches, less than 0.9 " in words
    enough = replace(run(0, 0.8), config=replace(CONFIG, candidates=CandidatesConfig(least_recall=0.8)))
    (setting,) = settings([enough])
    assert "Warning" not in in_short(setting)


def test_a_report_of_runs_without_a_matcher_says_nothing_of_one():
    (setting,) = settings([run(0, 0.8, matcher=False)])
    assert matcher_and_cosine(setting, "s1", "dev") is None
    assert importance(setting, setting.methods[0], "x") is None
    html = page(report([run(0, 0.8, matcher=False)], 5))
    for word in ("matcher", "omparisons", "cosine alone", "andidates"):
        assert word not in html


def test_comparisons_are_in_plain_words_and_means_over_runs_by_hand():
    few = Importance(("cosine",), (0.4,), 8)
    # The second run lacks two of them: 0.3 / 2, (0.2 + 0.4) / 2 and 0.1 / 2.
    assert largest([Importance(NAMES, (0.3, 0.2, 0.1), 8), few]) == [
        ("similarity of meaning (cosine)", pytest.approx(0.3)),
        (r"price $\no$: difference", pytest.approx(0.15)),
        ("name: equal", pytest.approx(0.05)),
    ]


def test_the_bars_are_of_complete_runs_and_names_of_columns_are_no_formulas():
    (setting,) = settings([run(0, 0.8, 0.9), run(1, 0.7, 0.9), run(5, 0.1, trouble="ended after round 1 of 2")])
    picture = importance(setting, setting.methods[0], "bars")
    assert picture is not None
    assert picture.title == "Which comparisons matter: uncertainty"
    # Seeds 0 and 1: (0.3 + 0.4) / 2.
    assert r"over 16 labelled pairs, last round. price $\no$: difference: 0.350; similarity" in picture.words
    # Matplotlib writes each text as a comment, beside its outlines; as a formula it would be an error.
    assert r"<!-- price $\no$: difference -->" in picture.files["svg"].decode()


def test_the_page_has_bars_and_the_line_of_the_cosine():
    html = page(report([run(0, 0.8, 0.9)], 5))
    assert '<h3 id="s1-4"><a href="#s1-4">Which comparisons matter</a></h3>' in html
    assert "<!-- no labels: the untrained encoder -->" in html
    assert "AP % on dev of the matcher and of the cosine alone" in html


def test_the_table_by_labels_begins_without_any():
    measured = replace(run(0, 0.8, 0.9), untrained={"dev": 0.25})
    (setting,) = settings([measured, run(1, 0.7, 0.9)])
    table = by_labels(setting, "s1", "dev")
    assert table is not None
    assert [row.cells for row in table.rows] == [("0", "25.0 (1)"), ("8", "75.0 ± 7.1"), ("16", "90.0")]
