"""Measure precision from a few labels of people: python -m jobs.audit {sample,estimate} (docs/audit.md)

sample draws pairs to label into a folder: putative false positives (paper, A.3), or with --by-score pairs of bands of
score, for which no match need be known. estimate reads the labels. Every option: --help.
"""

from typing import Annotated

import tyro

from al_ray.cli._audit.options import Estimate, Sample
from al_ray.cli._shared.entry import parse_options

OPTIONS = Annotated[Sample, tyro.conf.subcommand("sample")] | Annotated[Estimate, tyro.conf.subcommand("estimate")]


def main() -> None:
    """Parse the options; draw pairs, or estimate from their labels."""
    options = parse_options(OPTIONS, "audit", "Measure precision from a few labels of people.")
    from al_ray.cli._audit.pipeline import run_command

    run_command(options)
