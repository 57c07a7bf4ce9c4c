"""Audit matches and their clusters: draw some of them for people to label."""

from dataclasses import dataclass
from pathlib import Path

from al_ray.apps.audit import matches as app
from al_ray.apps.audit.folder import MatchRecord
from al_ray.apps.audit.match_printout import format_match_sample
from al_ray.apps.audit.of_clusters import sampling as of_clusters
from al_ray.apps.audit.of_clusters.printout import format_cluster_sample
from al_ray.apps.audit.options import MATCH_BUDGET, MOST
from al_ray.core.errors import BadOption
from al_ray.runs.place import check_lasting_path
from al_ray.storage.uri import local_path


@dataclass(frozen=True)
class MatchAudit:
    """The folder of an audit of matches, its options and counts. written: whether it is new."""

    path: Path
    record: MatchRecord
    written: bool

    def lines(self) -> list[str]:
        """Return what was drawn, and what to do with it."""
        return list(format_match_sample(self.record, self.path, not self.written))


def sample_matches(
    matches: str | Path, *, budget: int | None = None, seed: int = 0, out: str | Path | None = None
) -> MatchAudit:
    """Draw some of the matches of a folder for people to label, and write their sheets, unless they are there.

    budget: pairs to draw; 100 by default. out: a local folder; audit in the folder of the matches by default.
    `estimate_audit` reads the labels.

    Examples:
        >>> audit = al_ray.sample_matches(folder / "matches", budget=2)
        >>> audit.path.name, audit.written
        ('audit', True)

    Raises:
        BadOption: if the model decided none of the matches.
        WrongFolder: if the folder holds no matches with texts, or `out` another audit.
    """
    folder = local_path(matches, "`matches`")
    target = folder / "audit" if out is None else local_path(out, "`out`")
    check_lasting_path(target)
    drawn = app.sample_matches(folder, budget or MATCH_BUDGET, seed, target)
    return MatchAudit(target, drawn.record, drawn.written)


@dataclass(frozen=True)
class ClusterAudit:
    """The folder of an audit of clusters, and what was drawn."""

    path: Path
    sample: of_clusters.ClusterSample

    @property
    def written(self) -> bool:
        """Return whether it is new."""
        return self.sample.written

    def lines(self) -> list[str]:
        """Return what was drawn, and what to do with it."""
        return list(format_cluster_sample(self.sample, self.path))


def sample_clusters(
    matches: str | Path,
    *,
    clusters: int = MATCH_BUDGET,
    candidates: str | Path | None = None,
    seed: int = 0,
    out: str | Path | None = None,
) -> ClusterAudit:
    """Draw records with their clusters from matches of one table, and write the sheets of their pairs.

    clusters: records to draw, each with its cluster. People label the pairs of a record with others of its cluster, and
    with its candidates in others, for recall: pairs that match compared and did not join. candidates: another folder of
    matches of the same texts by the same model with a lower cutoff, whose pairs are candidates, too. out: a local
    folder; audit-clusters in the folder of the matches by default. `estimate_audit` reads the labels.

    Examples:
        >>> audit = al_ray.sample_clusters(folder / "matches", clusters=10)
        >>> audit.path.name, audit.written
        ('audit-clusters', True)

    Raises:
        BadOption: if there are fewer draws than classes of sizes, or two tables, or nothing to label.
        WrongFolder: if the folders hold no matches of tables, or of different texts or models, or `out` another audit.
    """
    if not 1 <= clusters <= MOST:
        raise BadOption(f"`clusters` is {clusters}; give 1 to {MOST:,}")
    folder = local_path(matches, "`matches`")
    target = folder / "audit-clusters" if out is None else local_path(out, "`out`")
    check_lasting_path(target)
    more = None if candidates is None else local_path(candidates, "`candidates`")
    return ClusterAudit(target, of_clusters.sample_clusters(folder, clusters, more, seed, target))
