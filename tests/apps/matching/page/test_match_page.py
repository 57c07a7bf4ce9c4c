"""matches.html: what it says, that texts are words and never code, how large it gets, and how a browser shows it."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from al_ray.apps.matching.clusters.clustering import Decisions, cluster
from al_ray.apps.matching.clusters.edges import Edges
from al_ray.apps.matching.clusters.figures import figures
from al_ray.apps.matching.clusters.nodes import Nodes
from al_ray.apps.matching.folder import Matches
from al_ray.apps.matching.page.examples import ShownText
from al_ray.apps.matching.page.html import matches_page
from al_ray.apps.matching.page.summary import (
    ClusterChange,
    ClusterChanges,
    DriftFigure,
    DriftFigures,
    MatchSummary,
    best_scores,
    drift_figures,
    summarize,
)
from al_ray.apps.matching.page.tables import estimate
from al_ray.apps.matching.why.reasons import Reasons
from al_ray.cli._shared.called import as_called
from al_ray.core.scored_pairs import ScoredPairs
from al_ray.core.task import Corpus, Task
from al_ray.core.text import Part, differences
from al_ray.matcher.splines import Splines
from tests.apps.reporting.browser import browser

HOSTILE = (
    "<script>alert(1)</script> </details><img src=//evil.example/x>", "{{ 7 * 7 }}\n\nsecond\tline", "שלום (עולם) 3.5",
    "\u202eoverridden \x1b[31m\x00", "x" * 100_000, "&amp; \"quoted\" 'text' onload=a", "long " * 20_000,
)  # fmt: skip


def corpus(texts: tuple[str, ...], prefix: str = "") -> Corpus:
    return Corpus(tuple(f"{prefix}{row}<b>" for row in range(len(texts))), texts)


def table(texts: tuple[str, ...]) -> Task:
    own = corpus(texts)
    return Task("table", True, own, own, {}, "")


def two_tables(left: tuple[str, ...], right: tuple[str, ...]) -> Task:
    return Task("tables", False, corpus(left, "l"), corpus(right, "r"), {}, "")


def record(task: Task, count: int, by_label: int = 0, cutoff: float | None = 0.5, **changed: Any) -> dict[str, Any]:
    return {
        "model": {"run": "runs/<i>shop", "round": 3, "digest": "d"}, "left": len(task.left), "right": len(task.right),
        "pairs": 10, "assign": "all", "clustering": "components", "matches": count, "by_label": by_label,
        "labelled_no": 2, "changed_texts": 0, "unused_labels": 0,
        "cutoff": {"source": "`at_score=0.5`", "score": cutoff, "precision": None, "recall": None},
    } | changed  # fmt: skip


def summary_of(
    task: Task,
    edges: dict[tuple[int, int], float],
    p: bool = False,
    texts: bool = True,
    no: tuple = (),
    reasons: Reasons | None = None,
    **changed: Any,
) -> MatchSummary:
    """The summary of these matches, of which the best is labelled yes, and of the clusters."""
    ordered = sorted(edges, key=lambda pair: -edges[pair])
    pairs = np.array(ordered, dtype=np.int64).reshape(-1, 2)
    scores = np.array([edges[pair] for pair in ordered], dtype=np.float64)
    by_label = np.arange(len(pairs)) == 0
    matches = Matches(ScoredPairs(pairs, scores), scores.clip(0, 1) if p else None, by_label, ~by_label & by_label)
    matches = replace(matches, reasons=reasons)
    changed |= {} if reasons is None else {"why": reasons.record}
    nodes, decisions = Nodes(task), Decisions(no=np.array(no, np.int64).reshape(-1, 2))
    of = Edges.of(len(nodes), ScoredPairs(nodes.of(pairs), scores))
    found = cluster(of, "components", 0.5, 0.0, decisions)
    clustered = found, figures(of, found.labels, 0.0, decisions), found.labels
    about = record(task, len(pairs), int(by_label.sum()), **changed)
    return summarize(matches, task, about, best_scores(task, pairs, scores), texts, clustered)


SMALL = {(0, 1): 0.91, (2, 3): 0.83, (1, 2): 0.61}
WORDS = ("red camping stove", "camping stove, red", "blue camping stove", "blue stove", "no match here")


def visible(page: str) -> str:
    """The words of the page without tags, styles and figures."""
    body = re.sub(r"<style>.*?</style>|<svg.*?</svg>", "", page, flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", body))


def test_the_words_are_marked_in_which_two_texts_differ():
    assert differences("Red camping stove", "camping stove, blue") == (Part("Red", True), Part(" camping stove", False))
    assert differences("one", "one") == (Part("one"),)
    # Without a common word there is nothing to compare.
    assert differences("some words", "other things") == (Part("some words"),)
    assert differences("", "other") == (Part(""),)


def test_best_scores_are_of_each_text_of_one_table_and_of_the_left_texts_of_two():
    pairs, scores = np.array([[0, 1], [1, 2]]), np.array([0.9, 0.7])
    nothing = -np.inf
    assert best_scores(table(WORDS), pairs, scores).tolist() == [0.9, 0.9, 0.7, nothing, nothing]
    task = two_tables(WORDS[:3], WORDS)
    assert best_scores(task, pairs, scores).tolist() == [0.9, 0.7, nothing]


def test_the_summary_counts_texts_and_scores():
    summary = summary_of(table(WORDS), SMALL, p=True)
    # Texts 0 to 3 have a match; text 4 has none, and no pair above the cutoff.
    assert (summary.matched, summary.without_best) == ((4, 4), 1)
    # The matches of the model: (0.83 + 0.61) / 2.
    assert summary.probability == pytest.approx(0.72)
    assert summary.scores is not None
    assert {name: int(count.sum()) for name, count in summary.scores.counts.items()} == {"by model": 2, "by label": 1}
    assert summary.best is not None
    # Best scores 0.91, 0.91, 0.83, 0.83: bins of 0.002 from 0.83 to 0.91.
    assert (summary.best.edges[0], summary.best.edges[-1], len(summary.best.edges)) == (0.83, 0.91, 41)
    assert summary.best.counts["with a match"][[0, -1]].tolist() == [2, 2]


def test_texts_that_are_candidates_without_a_match_have_a_series_of_their_own():
    task = two_tables(WORDS[:3], WORDS)
    pairs = np.array([[0, 0]])
    matches = Matches(ScoredPairs(pairs, np.array([0.9])), None, np.array([False]), np.array([False]))
    best = best_scores(task, np.array([[0, 0], [1, 0]]), np.array([0.9, 0.7]))
    summary = summarize(matches, task, record(task, 1), best, True)
    assert (summary.matched, summary.without_best) == ((1, 1), 1)
    assert summary.best is not None
    assert {name: int(n.sum()) for name, n in summary.best.counts.items()} == {"with a match": 1, "without a match": 1}


def test_the_page_says_what_was_matched_and_how():
    stored = {"source": "precision=0.9, chosen on dev", "score": 0.6, "recall": 0.42}
    stored["precision"] = {"value": 0.912, "low": 0.88, "high": 0.94}
    page = matches_page(summary_of(table(WORDS), SMALL, p=True, no=((0, 3),)))
    words = visible(page)
    assert "3 matches of 5 texts" in words
    assert "1 cluster " in words
    assert "1 bridge " in words
    assert "1 conflict " in words
    assert "72.0% on average, of the matches of the model" in words
    assert "Cluster 0: 4 texts cohesion 0.392, 3 of 6 pairs match" in words
    assert "Pairs labelled no that are in one cluster (1 of 1)" in words
    assert page.count('class="tag link">bridge<') == 1
    assert page.count('class="tag">canonical<') == 1
    assert re.search(r"camping stove, <mark>red</mark>", page)
    assert re.search(r"<mark>blue</mark> camping stove", page)
    summary = summary_of(table(WORDS), SMALL)
    words = visible(matches_page(replace(summary, record={**summary.record, "cutoff": stored})))
    assert "91.2% (95%: 88.0 to 94.0) of all pairs above the cutoff" in words
    assert "42.0% of all pairs that match" in words
    assert "not calibrated" in words


def test_an_estimate_without_an_interval_is_a_share():
    assert estimate({"value": 0.5, "low": 0.5, "high": 0.5}) == "50.0%"
    assert estimate(0.25) == "25.0%"


def test_texts_ids_and_names_are_words_and_never_code():
    edges = {(row, row + 1): 0.9 - row / 10 for row in range(len(HOSTILE) - 1)}
    summary = replace(
        summary_of(table(HOSTILE), edges, no=((0, 2),)),
        changes=ClusterChanges(1, 0, 0, 1, (ClusterChange("new", 7, (), (ShownText("<u>", (Part(HOSTILE[0]),)),)),)),
        drift=DriftFigures((DriftFigure("<s>figure", 0.1, None),), ("<script>warning",)),
    )
    page = matches_page(summary)
    assert "<script" not in page
    assert "<img" not in page
    assert not re.search(r"<(b|i|s|u)>[^<]*(?:shop|&lt;|figure|warning)", page)
    assert "{{ 7 * 7 }}" in page
    assert "&lt;script&gt;" in page
    assert "0&lt;b&gt;" in page
    assert page.count("<details") == page.count("</details>")


@pytest.mark.parametrize("symmetric", [True, False], ids=["one table", "two tables"])
def test_without_matches_the_page_says_so(symmetric):
    task = table(WORDS) if symmetric else two_tables(WORDS, WORDS)
    page = matches_page(summary_of(task, {}))
    assert "No pair is a match." in page
    assert "0 matches of" in page
    assert "No two texts are in one cluster." in page
    assert "<figure" not in page
    assert "nan" not in visible(page).lower().split()


def test_options_are_named_as_the_caller_names_them():
    found, none = summary_of(table(WORDS), SMALL), summary_of(table(WORDS), {})
    assert "(at_score=0.5)" in matches_page(found)
    assert "(--at-score 0.5)" in matches_page(found, as_called)
    assert "<code>best=N</code> and <code>assign=&#39;mutual&#39;</code> need no cutoff" in matches_page(none)
    assert "<code>--best N</code> and <code>--assign mutual</code> need no cutoff" in matches_page(none, as_called)


def test_of_two_tables_sides_are_named_also_in_clusters():
    page = matches_page(summary_of(two_tables(WORDS, WORDS[:4]), SMALL, cutoff=None))
    # Left 1 and right 2; left 2 and right 3; left 0 and right 1.
    assert "3 clusters" in visible(page)
    assert "right: r2" in visible(page)
    assert '<span class="id">left <bdi>l0&lt;b&gt;</bdi></span>' in page
    assert "no lowest score (at_score=0.5)" in page
    # Left texts 0, 1 and 2; right texts 1, 2 and 3.
    assert "3 of 5 left texts with a match" in visible(page)
    assert "3 of 4 right texts with a match" in visible(page)
    assert "cutoff" not in re.findall(r'aria-label="(Scores of the matches[^"]*)"', page)[0]


def test_scores_that_are_no_cosines_are_drawn():
    page = matches_page(summary_of(two_tables(WORDS, WORDS), {(0, 0): 0.31, (1, 1): -0.02, (2, 2): -0.4}, cutoff=-0.5))
    # -0.4 to 0.31 in bands of 0.1.
    assert "-0.4 to -0.3" in visible(page)
    (words,) = re.findall(r'aria-label="(Scores of the matches[^"]*)"', page)
    assert "cutoff at -0.5" in words


def reasons_with(names: tuple[str, ...], count: int, known: int) -> Reasons:
    """Of each match all comparisons are 1, and add log-odds of 0.1, -0.2, 0.3, ...; of the first `known`."""
    heights = np.zeros((len(names), 3))
    heights[:, 1] = 0.1 * np.arange(1, len(names) + 1) * (-1) ** np.arange(len(names))
    model = Splines(names, np.tile(np.arange(3.0), (len(names), 1)), heights, np.zeros(1))
    return Reasons(model, np.ones((count, len(names)), dtype=np.float32), np.arange(count) < known)


def test_the_page_says_why_a_pair_has_its_p():
    reasons = reasons_with(("cosine", "price: relative difference"), 3, 2)
    page = matches_page(summary_of(table(WORDS), SMALL, reasons=reasons))
    words = visible(page)
    # The log-odds are 0.1 - 0.2 = -0.1: p is 1 / (1 + e^0.1) = 0.4750, which is 0.025 less than 1/2. The second has
    # 2 / 1 of that, the first -1 / 1.
    expected = (
        "Why p is 0.48 a pair of which nothing is known 0.500 price: relative difference 1.00 -0.050 "
        "similarity of meaning (cosine) 1.00 +0.025 p 0.475"
    )
    assert words.count(expected) == 2
    # The axis is p from 0 to 1.
    assert page.count('<i class="against" style="left:45.00%;width:5.00%"></i>') == 2
    assert page.count('<i style="left:45.00%;width:2.50%"></i>') == 2
    assert "from 0.50, which is p of a pair of which nothing is known" in words
    without = matches_page(summary_of(table(WORDS), SMALL))
    assert 'class="why"' not in without
    assert "Why p" not in without


def test_fields_are_words_and_never_code():
    names = tuple(f"{text}: equal" for text in HOSTILE)
    page = matches_page(summary_of(table(WORDS), SMALL, reasons=reasons_with(names, 3, 3)))
    assert "<script" not in page
    assert "<img" not in page
    assert "{{ 7 * 7 }}" in page
    assert len(page.encode()) < 200_000


def test_without_texts_the_page_has_ids_only():
    page = matches_page(summary_of(table(WORDS), SMALL, texts=False, no=((0, 3),)))
    assert "stove" not in page
    assert "0&lt;b&gt;" in page
    assert "Marked words" not in page


def test_changes_and_drift_are_shown_when_they_are_given():
    summary = summary_of(table(WORDS), SMALL)
    assert 'id="drift"' not in matches_page(summary)
    assert 'id="changes"' not in matches_page(summary)
    shown = (ShownText("9", (Part("tent"),)),)
    examples = (
        ClusterChange("new", 7, (), shown), ClusterChange("split", 3, (3, 8)), ClusterChange("merge", 4, (4, 5)),
        ClusterChange("gone", 6),
    )  # fmt: skip
    words = visible(
        matches_page(
            replace(
                summary,
                changes=ClusterChanges(1_200, 1, 2, 3, examples),
                drift=DriftFigures((DriftFigure("median characters", 21, 1234.5),), ("Texts are longer.",)),
            )
        )
    )
    for text in (
        "1,200 new", "1 gone", "2 split", "3 merged", "Cluster 7 is new", "Cluster 3 was split into 3, 8",
        "Cluster 4 was merged from 4, 5", "Cluster 6 is gone", "median characters 21 1,234", "Texts are longer.",
    ):  # fmt: skip
        assert text in words


def test_figures_of_drift_are_named_by_their_texts():
    figures = [
        {"name": name, "subject": subject, "training": 0.5, "now": None}
        for name, subject in (("characters", "left texts"), ("cosine of random pairs", "random pairs"))
    ]
    drift = drift_figures({"drift": {"figures": figures, "warnings": []}})
    assert drift is not None
    assert [one.name for one in drift.figures] == ["left texts: characters", "cosine of random pairs"]


def test_the_page_of_many_matches_of_long_texts_is_of_bounded_size():
    texts = tuple(f"{row} " + "<>&'\" " * 5_000 for row in range(400))
    # 20 clusters of 20 texts, all pairs of each of them.
    edges = {
        (first + one, first + two): 0.5 + (first + one + two) / 1000
        for first in range(0, 400, 20)
        for one in range(20)
        for two in range(one + 1, 20)
    }
    page = matches_page(summary_of(table(texts), edges, no=tuple((row, row + 1) for row in range(0, 400, 2))))
    words = visible(page)
    assert "(5 of 20)" in words
    assert "(10 of 15)" in words
    assert "(20 of 200)" in words
    # 40 examples and 20 conflicts of two texts of 600 characters, and 15 clusters with 20 texts and 20 ends of edges.
    assert len(page.encode()) < 2_000_000


def test_a_page_holds_all_that_it_needs_and_names_of_its_own():
    page = matches_page(summary_of(table(WORDS), SMALL, no=((0, 3),)))
    assert re.findall(r"(?:src|href)=\"(?!#)", page) == []
    assert "http" not in re.sub(r"http-equiv|xmlns(:xlink)?=\"[^\"]*\"", "", page)
    ids = re.findall(r"\sid=\"([^\"]+)\"", page)
    assert len(set(ids)) == len(ids)
    assert set(re.findall(r"href=\"#([^\"]+)\"", page)) <= set(ids)
    assert page.count('role="img" aria-label="') == page.count("<figure") == 2
    assert page == matches_page(summary_of(table(WORDS), SMALL, no=((0, 3),)))


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """A browser; what needs it is skipped where there is none."""
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory):
    edges = {(row, row + 1): 0.9 - row / 10 for row in range(len(HOSTILE) - 1)}
    path = tmp_path_factory.mktemp("page") / "matches.html"
    reasons = reasons_with(tuple(f"{text}: equal" for text in HOSTILE), len(edges), len(edges))
    page = matches_page(summary_of(table(HOSTILE), edges, p=True, no=((0, 2),), reasons=reasons))
    path.write_bytes(page.encode())
    return path


@pytest.mark.parametrize("size", [(390, 844), (1280, 900)], ids=["phone", "desktop"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_asks_for_nothing_and_follows_the_dark(hostile_page, shown, size, scheme):
    shown.show(hostile_page, *size, scheme)
    shown.value("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert shown.requests == [hostile_page.resolve().as_uri()]
    assert shown.complaints == []
    assert shown.value("document.scripts.length + document.images.length") == 0
    # Texts without a space, and open details, are no wider than the window.
    assert shown.value("document.documentElement.scrollWidth") == size[0]
    assert (
        shown.value("Math.max(...[...document.querySelectorAll('figure svg')].map(one => one.clientWidth))") <= size[0]
    )
    ground = shown.value("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(18, 19, 23)" if scheme == "dark" else "rgb(246, 247, 249)")


def test_a_text_from_right_to_left_is_shown_so(hostile_page, shown):
    shown.show(hostile_page, 1280, 900)
    found = "[...document.querySelectorAll('.compared [dir=auto]')].filter(one => one.textContent.startsWith('שלום'))"
    assert shown.value(f"{found}.length") >= 1
    assert shown.value(f"getComputedStyle({found}[0]).direction") == "rtl"
