"""Sources of tasks: each has its subcommand, and shares of splits are text."""

from typing import Any, get_args

import pytest

from al_ray.core.errors import BadOption
from al_ray.datasets.sources import COMMANDS, TaskSource, shares


def test_each_source_has_a_subcommand():
    assert set(COMMANDS) == set(get_args(TaskSource))


@pytest.mark.parametrize("split", ["0.5,0.5", "a,b,c", (1, 0, 0)])
def test_shares_that_are_no_three_numbers_in_a_text_are_refused(split: Any):
    with pytest.raises(BadOption, match="give three shares of 1, such as"):
        shares(split)
