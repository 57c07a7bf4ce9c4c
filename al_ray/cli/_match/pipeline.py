"""Match texts; print what was found and where it is."""

from al_ray.api.matching import match, match_into
from al_ray.apps.drift.suggestions import suggestion_lines
from al_ray.apps.matching.options import MatchOptions
from al_ray.apps.matching.summary import audit_command
from al_ray.apps.matching.texts import is_task
from al_ray.cli._match.options import Options
from al_ray.cli._shared.entry import as_called
from al_ray.cli._shared.progress import Progress
from al_ray.core.config.serialization import part


def run_command(options: Options) -> None:
    """Match, print and write."""
    own = part(options, MatchOptions)
    if options.into is not None:
        written = match_into(options.into, own, cluster=options.cluster, on_progress=Progress())
    else:
        assert options.model is not None
        assert options.out is not None
        written = match(
            options.model, own, options.out, round=options.round, cluster=options.cluster, on_progress=Progress()
        )
    print(*written.summary, sep="\n")
    others = ", clusters.csv" * ("clusters" in written.record)
    print(f"wrote {written.path / 'matches.csv'}{others} and matches.html")
    for line in suggestion_lines(written.record, written.path):
        print(as_called(line))
    audit = audit_command(written.record, written.path)
    # Without the texts of a task folder there is nothing to show to people.
    if audit is not None and (own.texts or options.model is None or not is_task(own)):
        print(f"are they right? label some: {as_called(audit)}")
