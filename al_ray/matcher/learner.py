"""The learners of the matcher, by name. A new one is a file, and a line here."""

from collections.abc import Mapping
from types import MappingProxyType

from al_ray.matcher.extra_trees import EXTRA_TREES
from al_ray.matcher.model import Learner
from al_ray.matcher.splines import SPLINES

DEFAULT = "trees"
"""The best of those in docs/matcher.md, "Which learner"."""
LEARNERS: Mapping[str, Learner] = MappingProxyType({DEFAULT: EXTRA_TREES, "splines": SPLINES})
