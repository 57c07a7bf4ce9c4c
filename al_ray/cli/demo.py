"""Watch active learning find rare pairs: python -m jobs.demo

Makes a small synthetic task, runs three strategies on it with one budget of labels, and compares them over all pairs of
the test split. It shows how al_ray works; the evidence is in docs/results.md. Rerun the same command to resume.
"""

from al_ray.cli._demo.options import Options
from al_ray.cli._shared.entry import parse_options

OPTIONS = Options


def main() -> None:
    """Parse the options, make the task, run the strategies and print a table."""
    options = parse_options(OPTIONS, "demo", "Watch active learning find rare pairs in a small synthetic task.")
    from al_ray.cli._demo.pipeline import run_command

    run_command(options)
