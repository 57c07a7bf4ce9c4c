"""jobs.match and --into, night after night, against matching all texts at once; the pool is a few loops."""

import numpy as np
import pytest

from al_ray.apps.matching.incremental.state import read_state
from tests.apps.matching.incremental.loops import Matcher


@pytest.fixture
def matcher(tmp_path, monkeypatch) -> Matcher:
    return Matcher(tmp_path, monkeypatch)


@pytest.mark.parametrize("rule", ["best", "mutual"])
def test_candidates_are_the_best_pairs_of_the_texts_after_each_night(matcher, rule):
    rng = np.random.default_rng(0)
    left, right = ({f"{side}{row}": "".join(rng.choice(list("abcdefgh"), 5)) for row in range(8)} for side in "lr")
    matcher.trained_on(left, right).match("out", left, right, assign=rule, most=10)
    for night in range(4):
        # The best partner of some texts goes, and a new text comes.
        gone = list(right)[night]
        right = {name: text for name, text in right.items() if name != gone} | {f"n{night}": f"abc{night}d"}
        matcher.into("out", right=right, complete=True, most=10)
        matcher.match(f"once{night}", left, right, assign=rule, most=10)
        found, expected = (read_state(matcher.folder / name)[0].candidates for name in ("out", f"once{night}"))
        assert len(found.scores) == len(expected.scores) <= len(left) + len(right)
        assert matcher.matches("out") == matcher.matches(f"once{night}")
