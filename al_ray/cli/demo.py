"""Watch active learning find rare pairs: python -m jobs.demo

Makes a small synthetic task, runs three strategies on it with one budget of labels, and compares them over all pairs of
the test split. It shows how things work; the evidence is in docs/results.md. The same command goes on where an
earlier one stopped.
"""

from al_ray.cli._demo.options import Options
from al_ray.cli._shared.entry import options


def main() -> None:
    """Make the task, run the strategies, print a table."""
    asked: Options = options(Options, "demo", "Watch active learning find rare pairs in a small synthetic task.")
    from al_ray.cli._demo.pipeline import carry_out

    carry_out(asked)
