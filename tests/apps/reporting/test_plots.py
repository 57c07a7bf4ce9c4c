"""Pictures: whole files of both kinds, the same for the same figures, for tables and curves of every shape."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure

from al_ray.apps.reporting.plots.evaluation_plots import precision_recall_plot, reliability_plot
from al_ray.apps.reporting.plots.learning_curves import Plot
from al_ray.metrics.average_precision import count_scores, curve
from al_ray.metrics.calibration import reliability

# Sure and right; sure and wrong; no p above 10^-80; nothing but p = 1/2.
pytestmark = pytest.mark.usefixtures("drawn")
LOGITS = {
    "spread": (np.linspace(-200, 20, 500), np.arange(500) > 470),
    "surely-not": (np.full(9, -190.0), np.zeros(9)),
    "even": (np.zeros(4), np.array([0, 1, 0, 1])),
}


def text_of(svg: bytes) -> str:
    """All that is written in a picture: matplotlib puts each text beside its outlines, as a comment."""
    return svg.decode()


@pytest.mark.parametrize("name", LOGITS)
def test_a_table_is_drawn_whatever_is_in_it(name):
    logits, labels = LOGITS[name]
    table = reliability(logits, labels.astype(np.uint8), 1000.0).table()
    files = reliability_plot(table)
    assert files["png"].startswith(b"\x89PNG")
    ElementTree.fromstring(files["svg"])
    assert files == reliability_plot(table)
    for words in ("share of positives", "predicted p", "pairs", "calibrated", "p = 1/2"):
        assert f"<!-- {words} -->" in text_of(files["svg"])
    assert ("<!-- no positive -->" in text_of(files["svg"])) == any(row.share == 0 for row in table)
    # No axis goes below the least p that is told apart: a hundred decades would leave no room for the others.
    assert "10^{-20}" not in text_of(files["svg"])


def test_a_point_near_the_others_is_not_cut_by_the_top_of_the_axis():
    axes = Figure().add_subplot()
    axes.plot([60, 120, 180], [0.6, 0.56, 0.59])
    Plot("share", "Share", "share").scale(axes)
    assert axes.get_ylim() == (0, pytest.approx(1.05 * 0.6))


def test_each_curve_is_drawn_under_its_name():
    counts = count_scores(np.array([0.9, 0.5]), [np.array([0.7, 0.2])])
    files = precision_recall_plot({"round 1": curve(counts, np.ones(1)), "round 2": curve(counts, np.full(1, 9.0))})
    for words in ("recall", "precision", "round 1", "round 2"):
        assert f"<!-- {words} -->" in text_of(files["svg"])
    assert files["png"].startswith(b"\x89PNG")
