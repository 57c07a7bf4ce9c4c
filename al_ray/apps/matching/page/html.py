"""matches.html: the page of matches, one file without scripts, as report.html is."""

from collections.abc import Callable, Iterator
from pathlib import Path

from al_ray.apps.matching.page.summary import MatchSummary
from al_ray.apps.matching.page.tables import band_table, drift_table, facts, name_of, size_table
from al_ray.apps.reporting.html import render
from al_ray.apps.reporting.plots.histogram import Axis, histogram
from al_ray.apps.reporting.plots.learning_curves import Picture

SHOWN_CHARACTERS = 300
"""Maximum number of characters of a text in the list of a cluster."""


def matches_page(summary: MatchSummary, called: Callable[[str], str] = str) -> str:
    """Return the HTML page of a match. All texts, ids and names are escaped.

    called: turns a text that names options in backticks, as Python, into what is shown; the backticks are left out.
    """

    def named(text: str) -> str:
        return called(text).replace("`", "")

    return render(
        Path(__file__).with_name("match.html"),
        summary=summary,
        record=summary.record,
        facts=facts(summary, named),
        pictures=list(_pictures(summary)),
        bands=band_table(summary.bands),
        sizes=None if summary.clusters is None else size_table(summary.clusters.sizes),
        drift=None if summary.drift is None else drift_table(summary.drift),
        name_of=name_of,
        named=named,
        characters=SHOWN_CHARACTERS,
    )


def _pictures(summary: MatchSummary) -> Iterator[Picture]:
    cutoff = summary.record["cutoff"]["score"]
    line = None if cutoff is None else ("cutoff", cutoff)
    if summary.scores is not None:
        axis = Axis("score", "matches", line)
        yield histogram("scores", "Scores of the matches", axis, summary.scores.edges, summary.scores.counts)
    if summary.best is not None:
        whose = "text" if summary.symmetric else "left text"
        axis = Axis(f"score of the best pair of a {whose}", f"{whose}s", line)
        yield histogram("best", f"Best score of each {whose}", axis, summary.best.edges, summary.best.counts)
