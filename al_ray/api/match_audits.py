"""Audit matches: draw some of them for people to label."""

from dataclasses import dataclass
from pathlib import Path

from al_ray.apps.audit import matches as app
from al_ray.apps.audit.folder import MatchRecord
from al_ray.apps.audit.match_printout import format_match_sample
from al_ray.apps.audit.options import MATCH_BUDGET
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
