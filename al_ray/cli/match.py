"""Matches and clusters of texts by a trained model: python -m jobs.match --model RUN --left FILE --out DIR

Two tables: python -m jobs.match --model RUN --left FILE --right FILE --out DIR (docs/match.md)
"""

from al_ray.cli._match.options import Options
from al_ray.cli._shared.entry import parse_options

OPTIONS = Options


def main() -> None:
    """Parse the options, match, print and write."""
    options = parse_options(OPTIONS, "match", "Matches and clusters of texts, by a trained model.")
    from al_ray.cli._match.pipeline import run_command

    run_command(options)
