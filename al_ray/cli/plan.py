"""What a run would need, before anything starts: python -m jobs.plan --texts 1000000 --dim 384 --gpus 8

--measure makes the constants of this machine (a minute or two); what nobody has measured is marked.
"""

from al_ray.apps.planning.options import Options
from al_ray.cli._shared.entry import options


def main() -> None:
    """Measure, or read constants; plan; print."""
    asked: Options = options(Options, "plan", "What a run would need, before anything starts.")
    from al_ray.cli._plan.pipeline import carry_out

    carry_out(asked)
