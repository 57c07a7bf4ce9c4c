"""The command paraphrase: python -m jobs.paraphrase {train|index|search|evaluate|compare} ...

python -m jobs.prepare qqp --source quora.tsv --held-out-pairs 5000 --out TASK
python -m jobs.paraphrase train --task TASK --out RUN
python -m jobs.paraphrase index --run RUN
python -m jobs.paraphrase search --run RUN --question "How do I learn to swim?"
python -m jobs.paraphrase evaluate --run RUN --split dev
python -m jobs.paraphrase compare --runs RUN RUN --split dev
"""

from al_ray.cli._paraphrase.options import Compare, Evaluate, Index, Search, Train
from al_ray.cli._shared.entry import parse_options

OPTIONS = Train | Index | Search | Evaluate | Compare


def main() -> None:
    """Parse the options and run the subcommand."""
    about = "Question paraphrase retrieval: train an encoder by metric learning, index questions, search among them."
    options = parse_options(OPTIONS, "paraphrase", about)
    from al_ray.cli._paraphrase.pipeline import run_command

    run_command(options)
