"""Watch active learning find rare pairs: python -m jobs.demo

Makes a small synthetic task, labels pairs of it by three strategies with one budget, trains the encoder or a matcher on
the labels, and compares all over all pairs of dev: 2 to 4 minutes on 2 cores. It shows how al_ray works; the evidence
is in docs/results.md. Rerun the same command to resume.
"""

from al_ray.cli._demo.options import Options
from al_ray.cli._shared.entry import parse_options

OPTIONS = Options


def main() -> None:
    """Parse the options, make the task, run the strategies and print a table."""
    options = parse_options(OPTIONS, "demo", "Watch active learning find rare pairs in a small synthetic task.")
    from al_ray.cli._demo.pipeline import run_command

    run_command(options)
