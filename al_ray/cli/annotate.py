"""Label pairs in the browser: python -m jobs.annotate --run RUN

A page for one person or several; each answer is on disk before the next pair is shown (docs/annotate.md)
"""

from importlib.util import find_spec

from al_ray.cli._annotate.options import Options
from al_ray.cli._shared.entry import fail, parse_options

OPTIONS = Options


def main() -> None:
    """Parse the options, and serve the page until the process is told to stop."""
    options = parse_options(OPTIONS, "annotate", "Label pairs in the browser. Every answer is stored as it is given.")
    if find_spec("uvicorn") is None:
        fail("the page is not installed here; install al_ray with its extra annotate (docs/install.md)")
    from al_ray.cli._annotate.pipeline import run_command

    run_command(options)
