"""Question paraphrase retrieval: python -m jobs.paraphrase {train|index|search|evaluate|compare} ...

python -m jobs.prepare qqp --source quora.tsv --held-out-pairs 5000 --out TASK
python -m jobs.paraphrase train --task TASK --out RUN
python -m jobs.paraphrase index --run RUN
python -m jobs.paraphrase search --run RUN --question "How do I learn to swim?"
python -m jobs.paraphrase evaluate --run RUN --split dev
python -m jobs.paraphrase compare --runs RUN RUN --split dev
"""

from al_ray.cli._paraphrase.options import Compare, Evaluate, Index, Search, Train
from al_ray.cli._shared import entry


def main() -> None:
    """Read the options, and do it."""
    about = "Question paraphrase retrieval: train an encoder by metric learning, index questions, search among them."
    given = entry.options(Train | Index | Search | Evaluate | Compare, "paraphrase", about)
    from al_ray.cli._paraphrase.commands import carry_out

    carry_out(given)
