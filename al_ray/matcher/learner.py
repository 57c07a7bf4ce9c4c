"""The learners of the matcher, by name. A new one is a file, and a line here."""

from collections.abc import Mapping
from types import MappingProxyType

from al_ray.matcher.cosine_trees import COSINE_TREES
from al_ray.matcher.extra_trees import EXTRA_TREES
from al_ray.matcher.model import Learner
from al_ray.matcher.splines import SPLINES

DEFAULT = "trees"
"""The best of those in docs/matcher.md, "Which learner"."""
ONE_TEXT = "trees-and-cosine"
"""The best for texts of one column ("Texts of one column" there)."""
LEARNERS: Mapping[str, Learner] = MappingProxyType({DEFAULT: EXTRA_TREES, ONE_TEXT: COSINE_TREES, "splines": SPLINES})


def learner_of(fields: int) -> str:
    """Return the name of the learner for texts whose sides have this number of fields in common."""
    return DEFAULT if fields > 1 else ONE_TEXT
