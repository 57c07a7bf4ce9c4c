"""Options of the command annotate."""

from dataclasses import dataclass
from pathlib import Path

from al_ray.apps.annotating.options import PageOptions
from al_ray.cli._shared.entry import PathOrUri


@dataclass(frozen=True, kw_only=True)
class Options(PageOptions):
    """Label pairs in the browser."""

    run: PathOrUri | None = None
    """Folder of a run that waits for people (jobs.run --oracle file or page): its open round is labelled."""
    audit: Path | None = None
    """Folder of an audit (jobs.audit sample): its sample is labelled."""
    matches: Path | None = None
    """Folder of matches (jobs.match --suggest N): the suggested pairs are labelled."""
    dry_run: bool = False
    """Check all that is given, print what would be labelled, and stop."""
