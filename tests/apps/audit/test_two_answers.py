"""Pairs of an audit that two people answered: how they are counted on the page, and what the estimate says of them."""

import numpy as np

from al_ray.apps.audit.band_printout import format_bands
from al_ray.apps.audit.labels import LEAST, read_two_answers
from al_ray.core.rng import generator
from al_ray.core.scorer import Scorer
from al_ray.metrics.audit.label_errors import TwoAnswers
from al_ray.oracles.page_log import append, log_path, open_page_log
from tests.apps.audit.test_calibration import record
from tests.metrics.audit.test_label_errors import audit


def test_pairs_drawn_for_two_people_are_counted_by_their_first_two_answers(tmp_path):
    page, log = open_page_log(log_path(tmp_path, "audit"))
    codes = [f"a-{number:05d}" for number in range(1, 41)]

    def answer(code, by, label):
        append(log, page, kind="answer", pair=code, by=by, label=label)

    def counted():
        return read_two_answers(tmp_path, np.array([page.label(code) for code in codes], dtype=np.uint8))

    append(log, page, kind="overlap", share=0.75, pairs=codes[:30])
    for number, code in enumerate(codes):
        answer(code, "ann", "yes" if number % 2 else "no")
    # Three disagree, and one is unsure; a pair that was not drawn for two answers does not count.
    for number, code in enumerate([*codes[: LEAST - 1], codes[39]]):
        differs = number < 3
        answer(code, "bob", "unsure" if number == 3 else "yes" if (number % 2) != differs else "no")
    assert counted() is None, "too few"
    for number in range(LEAST - 1, 25):
        answer(codes[number], "bob", "yes" if number % 2 else "no")
        answer(codes[number], "eve", "no" if number % 2 else "yes")
    # Of the 24 pairs without the unsure one 21 are alike. A pair in dispute has no label.
    found = counted()
    assert found is not None
    assert (found.pairs, found.alike) == (24, 21)
    assert found.labels == sum(page.label(code) in (0, 1) for code in codes) == 40 - 4 - 6
    append(log, page, kind="confirm", on=True)
    assert counted() is None, "people err less on yes than on no"


def test_the_estimate_has_both_intervals_and_is_otherwise_as_before():
    bands, kept = audit(37, 9), record(Scorer(20.0, -14.0), total=1000, top=1000)
    cosines = bands.cosines[bands.ranks]
    plain, before = format_bands(bands, kept, cosines, [0.901], generator(0, "x"))
    lines, content = format_bands(bands, kept, cosines, [0.901], generator(0, "x"), None, TwoAnswers(60, 55, 100))
    errors = content.pop("with_errors")
    assert content == before
    said = [line for line in lines if line not in plain]
    assert said[0].startswith("two people answered 60 pairs alike in 55, so about 2.1% of the labels are wrong")
    own, old = errors["thresholds"][0]["precision"], before["thresholds"][0]["precision"]
    words = [f"{100 * one['low']:.3g}% to {100 * one['high']:.3g}%" for one in (own, old)]
    assert f"  cosine >= 0.901000: precision {words[0]} instead of {words[1]}, share of the matches in these" in said[1]
    assert len(said) == 2
    assert own["low"] < own["value"] < own["high"]
