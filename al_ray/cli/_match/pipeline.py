"""Match texts; print what was found and where it is."""

from al_ray.apps.matching.model import open_model
from al_ray.apps.matching.options import MatchOptions
from al_ray.apps.matching.pipeline import match_texts
from al_ray.cli._match.options import Options
from al_ray.cli._shared.progress import Progress
from al_ray.core.config.serialization import part


def run_command(options: Options) -> None:
    """Match, print and write."""
    model = open_model(options.model)
    result = match_texts(part(options, MatchOptions), model, options.out, options.cluster, Progress())
    print(*result.summary, sep="\n")
    others = ", clusters.csv" * result.task.symmetric
    print(f"wrote {options.out / 'matches.csv'}{others} and matches.html")
