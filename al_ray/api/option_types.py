"""Types of options of several public functions, and the tests of their values."""

from al_ray.datasets.tables.format_options import ColumnNames
from al_ray.datasets.tables.options import LABEL_COLUMNS
from al_ray.metrics.handover import RoundName
from al_ray.metrics.thresholds import Guarantee, with_guarantee

__all__ = ["LABEL_COLUMNS", "ColumnNames", "Guarantee", "RoundName", "with_guarantee"]
