"""What evaluate says where no threshold can be promised."""

import pytest

from al_ray.cli._evaluate.calibration import choose_all, parse_rules
from al_ray.core.errors import BadOption
from tests.metrics.test_guaranteed_thresholds import FEW, without_a_good_one


def test_too_few_sampled_negatives_are_named_with_what_to_do():
    rules = parse_rules(["precision=0.9 guarantee=0.95"], "dev")
    with pytest.raises(BadOption, match=r"no threshold .* only 20 negatives were sampled; give `exact`"):
        choose_all(rules, FEW)


def test_what_no_counted_threshold_reaches_is_named():
    rules = parse_rules(["costs=1,99 guarantee=0.9"], "dev")
    with pytest.raises(BadOption, match="none reaches it among the pairs of dev; give another rule"):
        choose_all(rules, without_a_good_one())


def test_ranked_pairs_are_those_of_an_audit():
    with pytest.raises(BadOption, match="ranked pairs are those of an audit; give recall=R"):
        parse_rules(["ranked-recall=0.5 guarantee=0.9"], "dev")
