"""Tests of pages of matches look at their figures."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def pictures(drawn: None) -> None:
    """All are drawn."""
