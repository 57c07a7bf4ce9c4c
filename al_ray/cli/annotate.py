"""The command annotate: python -m jobs.annotate --run RUN

A page for one person or several; each answer is on disk before the next pair is shown (docs/annotate.md)
"""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import al_ray
from al_ray.cli._shared.entry import as_called, fail, parse_options
from al_ray.cli._shared.option_types import PathOrUri


@dataclass(frozen=True, kw_only=True)
class AnnotateOptions(al_ray.PageOptions):
    """Label pairs in the browser."""

    run: PathOrUri | None = None
    """Folder of a run that waits for people (jobs.run --oracle file or page): its open round is labelled."""
    audit: Path | None = None
    """Folder of an audit (jobs.audit sample): its sample is labelled."""
    matches: Path | None = None
    """Folder of matches (jobs.match --suggest N): the suggested pairs are labelled. Values of its golden records
    (jobs.match --golden) can be overridden."""
    dry_run: bool = False
    """Check all that is given, print what would be labelled, and stop."""


OPTIONS = AnnotateOptions


def main() -> None:
    """Serve the page until the process is told to stop, and print how many pairs have a label when it ends."""
    options = parse_options(OPTIONS, "annotate", "Label pairs in the browser. Every answer is stored as it is given.")
    if find_spec("uvicorn") is None:
        fail("the page is not installed here; install al_ray with its extra annotate (docs/install.md)")
    with al_ray.annotate(
        run=options.run, audit=options.audit, matches=options.matches, options=options, called=as_called
    ) as page:
        if options.dry_run:
            print(*page.plan(), sep="\n")
            return
        with page.serve() as served:
            print(
                f"label at {served.address} (every answer is stored as it is given; Ctrl-C ends the page)", flush=True
            )
            served.wait()
        print(*served.progress(), sep="\n")
    print(f"go on with: {page.next_step}")
