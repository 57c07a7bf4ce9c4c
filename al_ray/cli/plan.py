"""Memory, time and cost of a run, before anything starts: python -m jobs.plan --texts 1000000 --dim 384 --gpus 8

--measure measures the speeds of this machine (a minute or two). Speeds that nobody has measured are marked.
"""

from al_ray.apps.planning.options import Options
from al_ray.cli._shared.entry import parse_options


def main() -> None:
    """Parse the options, measure or read speeds, and print the plan."""
    options = parse_options(Options, "plan", "Memory, time and cost of a run, before anything starts.")
    from al_ray.cli._plan.pipeline import run_command

    run_command(options)
