"""What al_ray.api.papers offers: each name is there, and a name that is not is refused with those that are."""

import pytest

from al_ray.api import papers


@pytest.mark.parametrize("name", papers.__all__)
def test_each_name_is_where_it_is_said_to_be(name):
    value = getattr(papers, name)
    assert name == "Target" or value.__name__ == name


def test_another_name_is_refused_with_those_that_there_are():
    with pytest.raises(AttributeError, match=r"no attribute 'fly'; it has AugmentConfig, .*open_reproduction"):
        papers.fly  # noqa: B018
