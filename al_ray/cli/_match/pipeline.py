"""Match texts; print what was found and where it is."""

from al_ray.apps.matching.drift.suggestions import suggestion_lines
from al_ray.apps.matching.model import open_model
from al_ray.apps.matching.options import MatchOptions
from al_ray.apps.matching.pipeline import match_into, match_texts
from al_ray.apps.matching.summary import audit_command
from al_ray.apps.matching.texts import is_task
from al_ray.cli._match.options import Options
from al_ray.cli._shared.entry import as_called
from al_ray.cli._shared.progress import Progress
from al_ray.core.config.serialization import part


def run_command(options: Options) -> None:
    """Match, print and write."""
    own, out = part(options, MatchOptions), options.into or options.out
    assert out is not None
    if options.model is None:
        result = match_into(own, out, options.cluster, Progress())
    else:
        result = match_texts(own, open_model(options.model), out, options.cluster, Progress())
    print(*result.summary, sep="\n")
    others = ", clusters.csv" * result.task.symmetric
    print(f"wrote {out / 'matches.csv'}{others} and matches.html")
    for line in suggestion_lines(result.record, out):
        print(line)
    audit = audit_command(result.record, out)
    # Without the texts of a task folder there is nothing to show to people.
    if audit is not None and (own.texts or options.model is None or not is_task(own)):
        print(f"are they right? label some: {as_called(audit)}")
