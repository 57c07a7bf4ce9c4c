"""The cutoff that the options of match give."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import al_ray
from al_ray.api.run_printout import result_lines
from al_ray.apps.matching.cutoff import choose_cutoff, warn_of_no_cutoff
from al_ray.apps.matching.model import MatchingModel, open_model
from al_ray.apps.matching.options import MatchOptions
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.scorer import Scorer, refit
from al_ray.storage.files import read_json, write_json
from tests.apps.audit.test_audit_job import run_folder


def model(make_task, folder: Path, neighbourhood: float) -> MatchingModel:
    scorer = Scorer(20.0, -18.0, 0.1, "fitted", neighbourhood)
    return open_model(run_folder(folder, make_task(False), scorer))


def test_a_cosine_is_the_score_of_a_model_without_neighbourhoods(make_task, tmp_path):
    matching, options = model(make_task, tmp_path, 0.0), MatchOptions(left=Path("t.csv"), at_cosine=0.75)
    cutoff = choose_cutoff(options, matching, "all")
    assert (cutoff.score, cutoff.source) == (0.75, "`at_cosine=0.75`")
    assert replace(cutoff, source="") == replace(
        choose_cutoff(replace(options, at_cosine=None, at_score=0.75), matching, "all"), source=""
    )


def test_a_cosine_is_no_cutoff_where_neighbours_are_part_of_the_score(make_task, tmp_path):
    options = MatchOptions(left=Path("t.csv"), at_cosine=0.75)
    with pytest.raises(BadOption, match=r"`at_cosine`: scores of .* are no cosines.*give `at_score`"):
        choose_cutoff(options, model(make_task, tmp_path, 0.5), "all")


def test_an_evaluation_on_dev_makes_no_probabilities(make_task, tmp_path):
    run = run_folder(tmp_path, make_task(False), Scorer(20.0, -18.0, 0.1, "fitted"))
    path, options = run / "round-001/model/scorer.json", MatchOptions(left=Path("t.csv"), at_p=0.5)
    # Half of the pairs match where p is 0.99 on average.
    bins = [{"low": 0.9, "high": 1.0, "weight": 40.0, "mean_p": 0.99, "share": {"value": 0.5, "low": 0.4, "high": 0.6}}]
    evidence = {"calibration": {"source": "dev", "split": "dev", "pairs": 1000, "reliability": bins}}
    write_json(path, {**read_json(path, []), **evidence})
    assert open_model(run).calibrated is None
    with pytest.raises(BadOption, match=r"`at_p` needs probabilities.*`RunConfig\.dev_labels`, or `AuditConfig\.by"):
        choose_cutoff(options, open_model(run), "all")
    # An audit fitted w and b: p is 0.5 at 0.95.
    recalibration = {"source": "audit", "weight": 40.0, "bias": -38.0}
    write_json(path, {**read_json(path, []), "recalibration": recalibration})
    assert choose_cutoff(options, open_model(run), "all").score == pytest.approx(0.95)


def test_probabilities_that_no_score_has_are_refused(make_task, tmp_path):
    run = run_folder(tmp_path, make_task(False), Scorer(20.0, -18.0, 0.1, "fitted"))
    path = run / "round-001/model/scorer.json"
    content, recalibration = read_json(path, []), {"source": "audit", "weight": 40.0, "bias": -38.0}

    def chosen(ceiling, **options):
        write_json(path, {**content, "recalibration": {**recalibration, "ceiling": ceiling}})
        return choose_cutoff(MatchOptions(left=Path("t.csv"), **options), open_model(run), "all").score

    # 0.8 * sigmoid(0) is 0.4, and 0.8 * 5/8 is 0.5.
    assert chosen(0.8, at_p=0.4) == pytest.approx(0.95)
    assert chosen(0.8, at_boundary=True) == pytest.approx(0.95 + np.log(5 / 3) / 40)
    with pytest.raises(BadOption, match=r"`at_p` is 0.8, and of pairs of .* at most 80% match, however high the score"):
        chosen(0.8, at_p=0.8)
    with pytest.raises(BadOption, match=r"no boundary among the scores, because of its pairs at most 45% match"):
        chosen(0.45, at_boundary=True)
    for ceiling in (0, 1.5, "x", float("nan")):
        with pytest.raises(BadFile, match="damaged calibration"):
            chosen(ceiling, at_p=0.4)


@pytest.mark.parametrize(("neighbourhood", "highest"), [(0.0, 1.0), (0.5, 1.5)])
def test_a_cutoff_above_all_scores_is_refused_and_one_at_their_end_is_not(make_task, tmp_path, neighbourhood, highest):
    matching = model(make_task, tmp_path, neighbourhood)
    assert choose_cutoff(MatchOptions(left=Path("t.csv"), at_score=highest), matching, "all").score == highest
    with pytest.raises(
        BadOption, match=rf"`at_score=.*` is a score of .* no pair can reach it: scores of .* at most {highest:g}; give"
    ):
        choose_cutoff(MatchOptions(left=Path("t.csv"), at_score=highest + 0.01), matching, "all")


# 10 pairs of cosines 0.5 to 0.95 that do not match: p is 1/12 at their mean, and 1/2 at 0.725 + 0.144 ln 11 = 1.07.
@pytest.mark.parametrize("labels", [0, 1])
def test_labels_that_are_all_the_same_give_no_boundary_to_match_at(make_task, tmp_path, labels):
    cosines = np.arange(0.5, 1.0, 0.05)
    scorer = refit(cosines, np.full(10, labels, dtype=np.uint8))
    if not labels:
        assert scorer.boundary == pytest.approx(0.725 + cosines.std() * np.log(11))
        assert scorer.boundary > 1
    else:
        scorer = replace(scorer, bias=scorer.weight * 1.5)  # A boundary of -1.5: every pair is above it.
    matching = open_model(run_folder(tmp_path, make_task(False), scorer))
    with pytest.raises(BadOption, match=r"no boundary among the scores, because all its labels are the same.*`best=N`"):
        choose_cutoff(MatchOptions(left=Path("t.csv"), at_boundary=True), matching, "all")


def test_labels_of_one_cosine_have_no_boundary_and_the_run_and_the_error_say_why(make_task, tmp_path, capsys):
    scorer = refit(np.ones(4), np.array([0, 1, 0, 1], dtype=np.uint8))
    run = run_folder(tmp_path, make_task(False), scorer)
    matching = open_model(run)
    with pytest.raises(
        BadOption, match=r"have the same score.* the same token ids.*`RunConfig\.encoder`.*; else label"
    ):
        choose_cutoff(MatchOptions(left=Path("t.csv"), at_boundary=True), matching, "all")
    print(*result_lines(al_ray.load_run(run).folder), sep="\n")
    assert "no boundary: all its labelled pairs have the same score" in capsys.readouterr().out


def test_best_partners_without_a_cutoff_by_a_model_whose_labels_are_all_no_are_warned_of(make_task, tmp_path, caplog):
    scorer = refit(np.linspace(0.5, 0.9, 10), np.zeros(10, dtype=np.uint8))
    one_class = open_model(run_folder(tmp_path, make_task(False), scorer))
    for assign in ("mutual", "best"):
        cutoff = choose_cutoff(MatchOptions(left=Path("t.csv"), assign=assign), one_class, assign)
        warn_of_no_cutoff(cutoff, assign, one_class)
        assert (
            f"`assign={assign!r}` without a cutoff: the best partner of a text is a match at any score" in caplog.text
        )
        assert "because all its labels are the same" in caplog.text
        caplog.clear()
    warn_of_no_cutoff(replace(cutoff, score=0.8), "best", one_class)
    # As with the N best pairs of all.
    warn_of_no_cutoff(cutoff, "all", one_class)
    warn_of_no_cutoff(cutoff, "best", model(make_task, tmp_path / "fitted", 0.0))
    assert not caplog.text


def test_a_threshold_that_was_promised_is_another_than_the_one_that_was_estimated(make_task, tmp_path):
    run = run_folder(tmp_path, make_task(False), Scorer(20.0, -18.0, 0.1, "fitted"))
    path, left = run / "round-001/model/scorer.json", Path("t.csv")
    rules = {"precision=0.9": 0.8, "precision=0.9 guarantee=0.95": 0.85, "ranked-recall=0.5 guarantee=0.9": 0.7}
    thresholds = [{"rule": rule, "cosine": cosine, "split": "train"} for rule, cosine in rules.items()]
    write_json(path, {**read_json(path, []), "thresholds": thresholds})
    matching = open_model(run)
    given = [
        MatchOptions(left=left, precision=0.9),
        MatchOptions(left=left, precision=0.9, guarantee=0.95),
        MatchOptions(left=left, ranked_recall=0.5, guarantee=0.9),
    ]
    found = [choose_cutoff(options, matching, "all") for options in given]
    assert [cutoff.score for cutoff in found] == pytest.approx([0.8, 0.85, 0.7])
    assert found[1].source == "precision=0.9 guarantee=0.95, chosen on train"
    with pytest.raises(
        BadOption, match=r"no threshold for precision=0.9 guarantee=0.9 .* --guarantee 0.9`, or `al_ray.esti"
    ):
        choose_cutoff(MatchOptions(left=left, precision=0.9, guarantee=0.9), matching, "all")
    with pytest.raises(
        BadOption,
        match=r"estimate_audit\(audit=FOLDER, threshold_for=\['ranked-recall=0.6 guarantee=0.9'\]\)`",
    ):
        choose_cutoff(MatchOptions(left=left, ranked_recall=0.6, guarantee=0.9), matching, "all")
    with pytest.raises(BadOption, match="`guarantee` goes with `precision`, `recall`, `ranked_recall` or `costs`"):
        MatchOptions(left=left, guarantee=0.95)
    with pytest.raises(BadOption, match="`ranked_recall` goes with `guarantee`; add it"):
        MatchOptions(left=left, ranked_recall=0.5)
