"""Agreement of people, by values worked by hand and by another way to compute them."""

from itertools import permutations

import numpy as np
import pytest

from al_ray.apps.annotating.agreement import disputed, label_counts, people, sheet_agreement
from al_ray.metrics.agreement import cohen_kappa, estimate_alpha, krippendorff_alpha
from al_ray.oracles.page_log import PageAnswers


def answers(rows: list[str], drawn: int | None = None) -> PageAnswers:
    """Answers of a, b, c to pairs: y, n, u, or - for none. drawn: how many pairs are drawn for two answers, or all."""
    words, page = {"y": "yes", "n": "no", "u": "unsure"}, PageAnswers()
    lines = [
        {"kind": "answer", "pair": f"r001-{row:05d}", "by": by, "label": words[word], "at": ""}
        for row, line in enumerate(rows)
        for by, word in zip("abc", line, strict=False)
        if word != "-"
    ]
    doubled = [f"r001-{row:05d}" for row in range(len(rows) if drawn is None else drawn)]
    page.apply([{"kind": "overlap", "share": 1.0, "pairs": doubled, "number": 0}])
    page.apply({**line, "number": number} for number, line in enumerate(lines, 1))
    return page


def by_definition(counts: np.ndarray) -> float:
    """Krippendorff's alpha of nominal labels: 1 - observed / expected disagreement, over all pairs of labels."""
    given = [np.repeat(np.arange(len(row)), row).tolist() for row in counts]
    observed = sum(sum(one != other for one, other in permutations(row, 2)) / (len(row) - 1) for row in given)
    every = [label for row in given for label in row]
    expected = sum(one != other for one, other in permutations(every, 2)) / (len(every) - 1)
    return 1 - observed / expected


def test_agreement_of_a_sheet():
    page = answers(["yy", "yn", "nn", "n-", "uu-", "yyn", *["nn"] * 8])
    found = sheet_agreement(page, 0)
    # Of 13 pairs with two answers or more, two are disputed.
    assert (found.n, found.share) == (13, pytest.approx(11 / 13))
    assert disputed(page) == ["r001-00001", "r001-00005"]
    assert found.alpha is not None
    shared = [of for of in page.answers.values() if len(of) > 1]
    assert found.alpha.value == pytest.approx(by_definition(label_counts(shared)))
    assert found.alpha.low < found.alpha.value < found.alpha.high
    # Of the first two answers 12 of 13 agree; shares of labels: yes 5, no 19, unsure 2 of 26.
    chance = (5**2 + 19**2 + 2**2) / 26**2
    assert found.fleiss == pytest.approx((12 / 13 - chance) / (1 - chance))


def test_agreement_of_each_person_is_with_all_others():
    a, b, c = people([answers(["yyn", "nn-", "y--"]), answers(["n-n"])], 0)
    assert (a.name, a.total, a.yes, a.no, a.unsure) == ("a", 4, 2, 2, 0)
    # a with b: yy, nn; with c: yn, nn.
    assert (a.with_others.n, a.with_others.share) == (4, 0.75)
    assert (b.with_others.n, b.with_others.share) == (3, pytest.approx(2 / 3))
    assert c.with_others.n == 3


def confirmed(overlap: float, only_drawn: bool = False) -> PageAnswers:
    """Answers of a and b, each wrong in 5% of 500 pairs, where each yes of a, and each drawn pair, has a second one."""
    rng = np.random.default_rng(0)
    truth, wrong = rng.random(500) < 0.15, rng.random((500, 2)) < 0.05
    drawn = round(500 * overlap)
    rows = [
        "ny"[one] + ("ny"[two] if place < drawn or (one and not only_drawn) else "-")
        for place, (one, two) in enumerate((truth[:, None] ^ wrong).tolist())
    ]
    return answers(rows, drawn)


def test_second_answers_to_a_yes_alone_say_nothing_about_agreement():
    found = sheet_agreement(confirmed(0.0), 0)
    assert (found.n, found.share, found.fleiss, found.alpha) == (0, None, None, None)
    a, b = people([confirmed(0.0)], 0)
    assert (a.total, a.with_others.n, a.with_others.kappa, b.with_others.kappa) == (500, 0, None, None)
    assert b.total == a.yes == found.first_yes
    # Of the 75 matches 68 have two answers yes, of the other 425 pairs 1.
    assert found.confirmed == b.yes
    assert found.confirmed / found.first_yes == pytest.approx(69 / 92, abs=0.1)


def test_second_answers_to_a_yes_change_no_agreement_of_drawn_pairs():
    both, alone = confirmed(0.2), confirmed(0.2, only_drawn=True)
    found, expected = sheet_agreement(both, 0), sheet_agreement(alone, 0)
    assert found.n == 100
    assert (found.share, found.fleiss, found.alpha) == (expected.share, expected.fleiss, expected.alpha)
    assert found.first_yes > expected.first_yes
    assert [one.with_others for one in people([both], 0)] == [one.with_others for one in people([alone], 0)]


def test_whoever_was_first_stays_so_when_they_add_a_note_or_change_their_answer():
    page, number = answers(["yn", "yy", "ny"]), 6

    def changed(kind: str, row: int, label: str = "") -> tuple[int, int]:
        """First answers yes, and those that are confirmed, after a changes an answer."""
        nonlocal number
        number += 1
        line = {"kind": kind, "by": "a", "pair": f"r001-{row:05d}", "at": "", "note": "see page 3", "number": number}
        page.apply([{**line, "label": label} if label else line])
        found = sheet_agreement(page, 0)
        return found.first_yes, found.confirmed

    assert changed("answer", 0, "yes") == (2, 1)
    assert changed("answer", 2, "no") == (2, 1)
    assert changed("answer", 0, "unsure") == (1, 1)
    assert changed("answer", 0, "yes") == (2, 1)
    # One that was taken back and given again comes last.
    assert changed("undo", 0) == (1, 1)
    assert changed("answer", 0, "yes") == (1, 1)


def test_few_pairs_or_one_label_say_nothing():
    assert estimate_alpha(np.array([[2, 0, 0]] * 30), np.random.default_rng(0)) is None
    assert estimate_alpha(np.array([[1, 1, 0]] * 9), np.random.default_rng(0)) is None
    assert sheet_agreement(answers(["y", "n"]), 0).n == 0


def test_the_interval_of_alpha_has_a_width_where_all_agree():
    few, many = (
        estimate_alpha(np.array([[2, 0, 0]] * (8 * size) + [[0, 2, 0]] * (2 * size)), np.random.default_rng(0))
        for size in (1, 50)
    )
    assert few is not None
    assert many is not None
    assert (few.value, few.high) == (1, 1)
    assert few.low < 0.8 < many.low < 1


def test_the_interval_of_alpha_is_about_that_of_kappa_of_two_people():
    table, rng = np.array([[80, 6], [6, 28]]), np.random.default_rng(0)
    counts = np.repeat([[2, 0], [1, 1], [0, 2]], [80, 12, 28], axis=0)
    found, kappa = estimate_alpha(counts, rng), cohen_kappa(table, rng).kappa
    assert found is not None
    assert kappa is not None
    assert (found.value, found.low, found.high) == pytest.approx((kappa.value, kappa.low, kappa.high), abs=0.015)


def test_alpha_is_that_of_the_published_example():
    """Krippendorff (2011), section C: four observers, twelve units, five categories; alpha is 0.743."""
    observers = ["123321412...", "1233224125.3", ".3332342251.", "12332441251."]
    units = ["".join(unit).replace(".", "") for unit in zip(*observers, strict=True)]
    counts = np.array([[unit.count(category) for category in "12345"] for unit in units])
    # The last unit has one label.
    assert krippendorff_alpha(counts) == pytest.approx(0.743, abs=5e-4)
