"""What is printed of the difference of two evaluations: an interval over sampled pairs decides nothing."""

import numpy as np
import pytest

from al_ray.cli._evaluate.printout import print_difference
from al_ray.metrics.average_precision import Counts, StratumSummary
from al_ray.metrics.bootstrap import Replicates
from al_ray.metrics.evaluation import compare, evaluate_counts


@pytest.mark.parametrize(("size", "queries"), [(300, 10), (3, 9)])
def test_warnings_of_both_are_printed_and_only_queries_are_called_significant(size, queries, capsys):
    values = np.linspace(0.1, 0.2, 200)

    def evaluated(more: float):
        counts = Counts(np.array([0.9, 0.5]), np.array([1, 2]), np.array([[0, 2]]))
        strata, rng = [StratumSummary("random", size, 300)], np.random.default_rng(0)
        samples = None if size == 300 else Replicates(more, values * more)
        return evaluate_counts("dev", counts, strata, None, rng, Replicates(more, values * more, queries), samples)

    one, other = evaluated(2.0), evaluated(1.0)
    print_difference(compare(one, other), "A", "B")
    lines = capsys.readouterr().out.splitlines()[1:]
    if size == 300:
        assert "over queries: 95%" in lines[0]
        assert "excludes 0 (significant at the 5% level)" in lines[0]
        assert lines[1:] == ["every pair counted: no difference comes from sampling pairs"]
    else:
        assert "over sampled pairs: 95%" in lines[0]
        assert "excludes 0; it is too narrow for 95%" in lines[0]
        assert lines[1] == "no bootstrap interval over queries: fewer than 10 of them have a match"
        assert len(one.warnings) >= 1
        assert lines[2:] == [f"warning: {name}: {words}" for name in "AB" for words in one.warnings]
        assert "significant" not in " ".join(lines)
    assert compare(one, other).as_dict()["warnings"] == [one.warnings, other.warnings]
