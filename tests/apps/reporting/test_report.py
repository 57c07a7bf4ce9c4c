"""What a report says: its tables by hand, every failed run in each of them, and texts that would be a page's code."""

import re
from dataclasses import replace

import pytest

from al_ray.active_learning.config import RunConfig
from al_ray.apps.reporting.html import LONGEST, page
from al_ray.apps.reporting.markdown import markdown
from al_ray.apps.reporting.published import PAPER, paper_results
from al_ray.apps.reporting.report import Report, report
from al_ray.apps.reporting.run_records import LABELLED, ExamplePair, Round, Run, SplitEvaluation, TaskSummary, settings
from al_ray.apps.reporting.tables.by_round import by_labels, recall, stability
from al_ray.apps.reporting.tables.comparisons import against_reference, efficiency
from al_ray.apps.reporting.tables.error_examples import error_examples
from al_ray.apps.reporting.tables.results import positives, results, stratified, task_sizes
from al_ray.apps.reporting.tables.table import Table, counts, percent, percents
from al_ray.core.config.sections import EvaluationConfig
from al_ray.metrics.average_precision import Estimate

CONFIG = RunConfig(task="wikiqa", rounds=3, first_batch=8, evaluation=EvaluationConfig(splits=("dev", "test")))
COUNTS = {"train": {"pairs": 1000, "positives": 40, "stated_negatives": 5}, "dev": {"pairs": 100, "positives": 0}}
TASK = TaskSummary("digest", "wikiqa", COUNTS)
LABELS = (8, 20, 38)


def shown(kind: str, row: int, p: float, label: int, text: str = "left") -> ExamplePair:
    return ExamplePair(kind, row, row + 1, label, p, p, text, "right")


def measured(ap: float, exact: bool = True) -> SplitEvaluation:
    return SplitEvaluation(Estimate(ap, ap - 0.05, ap + 0.05), Estimate(2 * ap, 2 * ap, 2 * ap), 4, 100, exact)


def run(strategy: str, seed: int, *aps: float, labels: tuple[int, ...] = LABELS, **changes) -> Run:
    """A run with such an AP on dev after each round, and half of it on test; 3 positives a round."""
    steps = labels[-len(aps) :] if strategy in ("random", "static") else labels
    rounds = [
        Round(number, count, 3 * number, count, 3, {"train": 60.0}, {"dev": measured(ap), "test": measured(ap / 2)})
        for number, (count, ap) in enumerate(zip(steps, aps, strict=False), start=1)
    ]
    config = replace(CONFIG, strategy=strategy, seed=seed)
    return Run(f"{strategy}-s{seed}", config, TASK, tuple(rounds), **changes)


# Two seeds of each but for one of adaptive that failed; static buys all at once.
RUNS = [
    run("static", 0, 0.3),
    run("static", 1, 0.5),
    run("uncertainty", 0, 0.1, 0.4, 0.6),
    run("uncertainty", 1, 0.1, 0.3, 0.4),
    run("adaptive", 0, 0.2, 0.2, 0.4),
    run("adaptive", 1, 0.1, trouble="ended after round 1 of 3"),
]


def cells(table: Table | None) -> dict[str, tuple[str, ...]]:
    assert table is not None
    assert all(len(row.cells) == len(table.head) for row in table.rows)
    return {row.cells[0]: row.cells[1:] for row in table.rows}


def setting(runs=RUNS):
    (only,) = settings(runs)
    return only


def test_main_results_are_means_with_deviations_beside_the_papers_by_hand():
    found = cells(results(setting(), "s1"))
    # AP 30 and 50: 40, and 20 / sqrt(2) = 14.1; on test half of it, P@R20 twice the AP. Grey: Table 3, WikiQA.
    assert found["static"] == ("2", "38", "80.0 ± 28.3", "40.0 ± 14.1", "40.0 ± 14.1", "20.0 ± 7.1", "13.9", "8.2")
    assert found["uncertainty"][3] == "50.0 ± 14.1"
    # One run is complete: there is no deviation, and the other's figures are not in it.
    assert found["adaptive"] == ("1 of 2", "38", "80.0", "40.0", "40.0", "20.0", "27.1", "15.1")
    assert found["adaptive, seed 1"] == ("not averaged: ended after round 1 of 3", *[""] * 7)
    table = results(setting(), "s1")
    assert [table.head[place] for place in sorted(table.paper)] == ["test P@R20 %", "test AP %"]
    assert [row.cells[0] for row in table.rows if row.broken] == ["adaptive, seed 1"]


def test_a_method_of_which_nothing_is_complete_stands_in_every_table():
    broken = [*RUNS[:2], run("uncertainty", 0, trouble="failed or not begun: it has no run folder")]
    made = report(broken, 10)
    for table in (table for section in made.sections for chapter in section.chapters for table in chapter.tables):
        if "method" in table.head:
            (row,) = [row for row in table.rows if row.cells[0] == "uncertainty"]
            assert row.broken
            assert row.cells[1] == "0 of 1"
        told = [cell for row in table.rows for cell in row.cells] + list(table.notes)
        assert any("failed or not begun" in words for words in told) or table.name == "s1-task"
    assert [row.broken for row in made.runs.rows] == [False, False, True]


def test_differences_are_paired_by_seed_by_hand():
    found = cells(against_reference(setting(), "s1"))
    # AP 60 - 30 and 40 - 50; P@R20 twice that; test half of it.
    assert found["uncertainty"] == (
        "2", "38",
        "+20.0 (-20.0 to +60.0)", "+10.0 (-10.0 to +30.0)", "+10.0 (-10.0 to +30.0)", "+5.0 (-5.0 to +15.0)",
    )  # fmt: skip
    assert found["adaptive"] == ("1 of 2", "38", "+20.0", "+10.0", "+10.0", "+5.0")
    assert "static" not in found


def test_labels_needed_are_interpolated_seed_by_seed_by_hand():
    found = cells(efficiency(setting(), "s1"))
    # Seed 0: 30 lies two thirds of the way from 10 to 40, at 8 + 2/3 * 12 = 16. Seed 1 ends at 40, below 50.
    assert found["uncertainty"][:3] == ("2", "16; not reached by 1 of 2", "42.1")
    # 30 lies half way from 20 to 40: 20 + 18 / 2 = 29 of 38 labels.
    assert found["adaptive"][:3] == ("1 of 2", "29", "76.3")
    early = cells(efficiency(setting([run("static", 0, 0.1), run("uncertainty", 0, 0.2, 0.3, 0.4)]), "s1"))
    assert early["uncertainty"][1] == "≤ 8"
    never = cells(efficiency(setting([run("static", 0, 0.9), run("uncertainty", 0, 0.2, 0.3, 0.4)]), "s1"))
    assert never["uncertainty"][1:3] == ("not reached", "-")
    alone = cells(efficiency(setting([run("static", 0, 0.9), run("uncertainty", 1, 0.2, 0.3, 0.4)]), "s1"))
    assert alone["uncertainty"][1:3] == ("-", "-")


def test_without_static_nothing_is_compared_with_it():
    without = setting([run("uncertainty", 0, 0.1, 0.2, 0.3)])
    assert against_reference(without, "s1") is None
    assert efficiency(without, "s1") is None


def test_positives_found_stand_beside_the_papers():
    found = cells(positives(setting(), "s1"))
    # 9 of 38 labels after three rounds, 3 of 38 at once.
    assert found["uncertainty"] == ("2", "9", "23.7", "38", "742")
    assert found["static"] == ("2", "3", "7.9", "38", "169")
    assert "The training pool has 40 positives." in positives(setting(), "s1").notes


def test_positives_that_nobody_knows_are_not_called_none():
    def notes(known: int, oracle: str) -> tuple[str, ...]:
        task = TaskSummary("digest", "shop", {"train": {"pairs": 1000, "positives": known}})
        people = [replace(one, task=task, config=replace(one.config, oracle=oracle)) for one in RUNS]
        return positives(setting(people), "s1").notes

    assert notes(0, "file")[1] == "How many positives the training pool has is not known."
    assert notes(7, "file")[1] == "The task states 7 positives of the training pool; there may be others."
    assert notes(7, "simulated")[1] == "The training pool has 7 positives."


def test_stratified_runs_have_a_table_where_there_are_any():
    assert stratified(setting(), "s1") is None
    odd = replace(RUNS[2], config=replace(CONFIG, strategy="stratified-all"))  # pyright: ignore[reportArgumentType]
    found = cells(stratified(setting([*RUNS, odd]), "s1"))
    assert list(found) == ["stratified-all (oracle)", "adaptive", "adaptive, seed 1", "uncertainty"]
    assert found["stratified-all (oracle)"][-2:] == ("13.7", "9.1")


def test_a_task_is_told_by_its_splits_beside_the_papers():
    found = cells(task_sizes(setting(), "s1"))
    assert found["train"] == ("40", "1,000", "25", "5", "-", "1,040", "56M", "19,320", "-")
    # Without a positive there is no ratio.
    assert found["dev"][:3] == ("0", "100", "-")


def test_a_row_of_labels_holds_the_methods_that_were_measured_there():
    # Of what is not complete there is no row.
    table = by_labels(setting([*RUNS, run("uncertainty", 2, 0.1, labels=(12,), trouble="ended")]), "s1", "dev")
    assert table is not None
    assert table.head == ("labels", "static (2)", "adaptive (1 of 2)", "uncertainty (2 of 3)")
    assert list(cells(table)) == ["8", "20", "38"]
    assert cells(table)["20"] == ("-", "20.0", "35.0 ± 7.1")
    assert cells(table)["38"] == ("40.0 ± 14.1", "40.0", "50.0 ± 14.1")
    assert (
        table.notes[-1]
        == "Not averaged, because they are incomplete: adaptive-s1 (ended after round 1 of 3); uncertainty-s2 (ended)."
    )


def test_where_runs_ended_early_it_is_told_how_many_were_measured():
    short = [run("uncertainty", 0, 0.1, 0.4, 0.6), run("uncertainty", 1, 0.1, 0.3)]
    table = by_labels(setting(short), "s1", "dev")
    assert table is not None
    assert [row.cells for row in table.rows] == [("8", "10.0"), ("20", "35.0 ± 7.1"), ("38", "60.0 (1)")]
    # And the curve ends where the first run does.
    (picture,) = [one for one in report(short, 10).pictures if one.name == "s1-ap-dev"]
    assert "uncertainty: 10.0% at 8 to 35.0% at 20" in picture.words
    assert cells(results(setting(short), "s1"))["uncertainty"][1] == "29 ± 13"


def test_an_index_that_nobody_measured_has_no_table():
    assert recall(setting(), "s1") is None
    known = [replace(one, rounds=tuple(replace(part, index_recall=0.9) for part in one.rounds)) for one in RUNS[2:4]]
    assert cells(recall(setting(known), "s1"))["uncertainty"] == ("2", "90.0", "90.0", "90.0")


def test_what_a_round_says_of_the_model_before_has_a_table():
    assert stability(setting(), "s1") is None
    figures = {1: (None, None), 2: (0.9, 0.5), 3: (0.8, None)}

    def compared(one: Run) -> Run:
        changed = [(part, *figures[part.number]) for part in one.rounds]
        rounds = [replace(part, agreement=alike, prequential=ap) for part, alike, ap in changed]
        return replace(one, rounds=tuple(rounds))

    table = stability(setting([compared(RUNS[2])]), "s1")
    assert cells(table)["uncertainty"] == ("1", "90.0; 50.0", "80.0; -")
    assert any(one.name == "s1-stability" for one in report([compared(RUNS[2])], 0).sections[0].chapters[1].tables)


def test_small_shares_keep_a_digit_more():
    assert [percent(share) for share in (0.5, 0.01, 0.0012, 0.0, None)] == ["50.0", "1.0", "0.12", "0.0", "-"]
    assert percents([0.18, 0.182]) == "18.1 ± 0.1"
    assert percents([0.001, 0.002]) == "0.15 ± 0.07"


def test_values_that_are_missing_are_in_no_mean():
    assert percents([None, float("nan")]) == counts([None]) == "-"
    assert percents([0.5, None]) == "50.0"
    assert counts([2, 2]) == "2"


def test_another_task_has_no_figures_of_the_paper():
    other = [replace(one, task=TaskSummary("digest", "mine")) for one in RUNS]
    assert not results(setting(other), "s1").paper
    assert paper_results("QQP") is PAPER["qqp"]


def test_an_estimate_stands_with_its_interval_and_a_count_alone():
    estimated = replace(RUNS[2], rounds=(Round(1, 8, 3, 8, 3, {}, {"dev": measured(0.2, exact=False)}),))
    made = report([RUNS[0], estimated], 10)
    assert [row.cells[-2] for row in made.runs.rows] == ["30.0", "20.0 (15.0 to 25.0)"]


def test_pairs_to_look_at_say_which_are_wrong_and_which_are_new_by_hand():
    before = [shown("high-negative", 1, 0.9, 0), shown("high-negative", 2, 0.8, 0), shown("low-positive", 3, 0.1, 1)]
    after = [shown("high-negative", 2, 0.9, 0), shown("high-negative", 5, 0.4, 0), shown("low-positive", 3, 0.6, 1)]
    rounds = [
        Round(number, 8, 0, 8, 0, {}, {}, examples=tuple(found), examples_of="dev")
        for number, found in enumerate((before, after), start=1)
    ]
    (found,) = error_examples(setting([replace(RUNS[2], rounds=tuple(rounds))]), 10)
    assert found.title == "uncertainty, seed 0, round 2, on dev"
    negatives, misses = found.groups
    assert [(pair.example.left, pair.new) for pair in negatives.pairs] == [(2, False), (5, True)]
    assert [one.left for one in negatives.gone] == [1]
    assert negatives.words == (
        "1 of 2 pairs are on the wrong side of p = 1/2. Since the previous round: 1 new, 1 no longer in the list."
    )
    assert [(pair.example.left, pair.new) for pair in misses.pairs] == [(3, False)]
    # A match at p = 0.6 is no miss.
    assert misses.words.startswith("0 of 1 pairs are on the wrong side of p = 1/2.")
    # In a first round nothing is new.
    (first,) = error_examples(setting([replace(RUNS[2], rounds=tuple(rounds[:1]))]), 1)
    assert [(pair.example.left, pair.new) for pair in first.groups[0].pairs] == [(1, False)]


def test_labelled_pairs_say_what_the_label_was_and_by_whom_they_are_scored():
    examples = (shown("yes-to-no", 1, 0.9, 0), replace(shown("similar-no", 2, 0.7, 0), p=None))
    last = Round(1, 8, 0, 8, 0, {}, {}, examples=examples, examples_of=LABELLED)
    made = report([replace(RUNS[2], rounds=(last,))], 10)
    (listed,) = made.sections[0].chapters[-2].examples
    assert listed.title == "uncertainty, seed 0, round 1, on its labelled pairs"
    assert (
        listed.groups[0].words
        == "The score is by the model that chose the pair, before it was labelled; no measured probability."
    )
    written = page(made)
    assert "labelled no; score 0.9, cosine 0.900; rows 1 and 2" in written
    assert "highest score first" in written
    assert ", p 0.9" not in written
    assert "labelled no; cosine 0.700; rows 2 and 3" in written
    assert "not a known match" not in written


HOSTILE = "<script>alert(1)</script> | **bold** `x` </p><img src=//evil.example/x> {{ 7 * 7 }}"


def hostile() -> Report:
    examples = (shown("high-negative", 1, 0.9, 0, HOSTILE), shown("low-positive", 2, 0.1, 1, "a" * 5000))
    rounds = (replace(RUNS[2].rounds[0], examples=examples, examples_of="dev"),)
    evil = replace(RUNS[2], name=HOSTILE, rounds=rounds, task=TaskSummary("digest", HOSTILE), trouble=HOSTILE)
    return report([evil], 10)


def test_texts_and_names_are_words_and_never_code():
    written = page(hostile())
    assert "<script" not in written
    assert "<img" not in written
    # A direction of its own, whatever stands beside it.
    assert "<bdi>&lt;script&gt;alert(1)&lt;/script&gt;" in written
    assert "{{ 7 * 7 }}" in written
    assert "a" * LONGEST + " ..." in written
    assert "a" * (LONGEST + 1) not in written
    # Every table of Markdown has as many cells in each line, whatever its words are.
    lines = [line for line in markdown(hostile(), "figures").splitlines() if line.startswith("| ")]
    assert any("script" in line for line in lines)
    for line in lines:
        assert "<script" not in line.replace("\\<", "")
    of_runs = [len(re.findall(r"(?<!\\)\|", line)) for line in lines[:3]]
    assert len(set(of_runs)) == 1


def test_a_page_holds_all_that_it_needs_and_names_of_its_own():
    written = page(report(RUNS, 10))
    assert re.findall(r"(?:src|href)=\"(?!#)", written) == []
    assert "http" not in re.sub(r"http-equiv|xmlns(:xlink)?=\"[^\"]*\"", "", written)
    ids = re.findall(r"\sid=\"([^\"]+)\"", written)
    assert len(set(ids)) == len(ids)
    assert set(re.findall(r"href=\"#([^\"]+)\"", written)) <= set(ids)
    assert written.count('role="img" aria-label="') == written.count("<figure")
    assert "prefers-color-scheme: dark" in written
    assert 'name="viewport"' in written


def test_a_report_is_the_same_each_time_it_is_made():
    assert page(report(RUNS, 10)) == page(report(RUNS, 10))


def test_runs_that_measured_nothing_have_their_positives_and_a_word_on_ap():
    silent = [replace(one, rounds=tuple(replace(part, splits={}) for part in one.rounds)) for one in RUNS]
    made = report(silent, 10)
    assert "there is no average precision" in made.sections[0].words
    assert [picture.name for picture in made.pictures] == ["s1-positives", "s1-share", "s1-time"]
    assert "No run was evaluated (`RunConfig.evaluation.splits`)" in page(made)
    shown = page(made.in_words(lambda text: text.replace("`RunConfig.evaluation.splits`", "--evaluation.splits")))
    assert shown.count("No run was evaluated (--evaluation.splits)") == 2
    assert "`RunConfig" not in shown


def test_in_short_the_best_method_is_named_and_one_seed_is_called_one():
    words = report(RUNS, 10).sections[0].words
    assert words.startswith(
        "6 runs, 5 complete. Mean AP on dev after the last round is highest for uncertainty: 50.0% ("
    )
    assert words.endswith("(static 40.0%, adaptive 40.0%).")
    # Two that print alike are not ranked, whichever is higher by less than can be seen.
    tied = [run("static", 0, 0.0621), run("uncertainty", 0, 0.1, 0.2, 0.0622)]
    assert " is 6.2% for uncertainty and static. All" in report(tied, 10).sections[0].words
    three = [*tied, run("adaptive", 0, 0.1, 0.2, 0.05)]
    assert "is highest for uncertainty and static: 6.2% (adaptive 5.0%)." in report(three, 10).sections[0].words
    alone = report([RUNS[0], RUNS[2]], 10).sections[0].words
    assert alone.endswith("All runs have one seed, so the variation between seeds is not known.")


def test_the_papers_figures_are_those_that_it_prints(real_data):
    """Each row of Tables 1, 3, 4 and 5 as the paper's text has it."""
    path = real_data.parent / "papers" / "001_3d3cef27c10e5c1d.txt"
    if not path.is_file():
        pytest.skip(f"no text of the paper at {path}")
    text = re.sub(r"[*$\\]|</?b>", "", path.read_text(encoding="utf-8"))
    # The text has the two rows of Table 5 cell by cell.
    for names in (("random",), ("stated",), ("static",), ("stratified-match", "stratified-all")):
        figures = ("precision_at_recall_20", "average_precision")
        of = [(PAPER[task].results, figure) for task in ("qqp", "wikiqa") for figure in figures]
        cells = [f"{100 * getattr(results[name], figure):.1f}%" for results, figure in of for name in names]
        assert re.search(r"\s+".join(map(re.escape, cells)), text), names
    for task in PAPER.values():
        assert f"{task.labels:,}" in text
        for size in task.sizes.values():
            assert f"{size.positives:,}" in text
            assert f"{size.stated_negatives:,}" in text
        for name in ("static", "adaptive", "uncertainty"):
            assert f"{task.results[name].positives:,}" in text
            for figure in (task.results[name].precision_at_recall_20, task.results[name].average_precision):
                assert f"{100 * figure:.1f}" in text


def test_the_paper_is_named_only_beside_its_figures():
    """Readers of a report of their own task have not read the paper."""
    own = [replace(one, task=TaskSummary("digest", "shop", COUNTS)) for one in RUNS]
    for written in (page(report(own, 10)), markdown(report(own, 10), "figures")):
        assert not re.search(
            r"(Table|Figure|appendix|section|Eq\.) ?[0-9A]|paper", re.sub(r"<style>.*</style>", "", written, flags=re.S)
        )
    of_paper = page(report(RUNS, 10))
    for number in (1, 3, 4):
        assert f"Table {number}" in of_paper
    assert not re.search(r"<(h\d|figcaption)[^>]*>[^<]*(<a[^>]*>)?[^<]*(Table|Figure) \d", of_paper)


def test_one_round_is_one_tick_and_not_a_range_around_it(drawn):
    """A run of two rounds has one batch that a model chose, the second."""
    rounds = Round(1, 8, 3, 8, 3, {}, {}), Round(2, 16, 6, 8, 3, {}, {}, batch_p=0.4, batch_share=3 / 8)
    made = report([replace(RUNS[2], rounds=rounds)], 10)
    (picture,) = [one for one in made.pictures if one.name == "s1-batches"]
    ticks = re.findall(r"<g id=\"xtick_\d+\">.*?<!-- (\S+) -->", picture.files["svg"].decode(), flags=re.S)
    assert ticks == ["2"]
