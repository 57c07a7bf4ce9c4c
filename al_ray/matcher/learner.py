"""The learners of the matcher, by name. A new one is a file, and a line here."""

from al_ray.matcher.forest import EXTRA_TREES
from al_ray.matcher.model import Learner

DEFAULT = "trees"
LEARNERS: dict[str, Learner] = {DEFAULT: EXTRA_TREES}
