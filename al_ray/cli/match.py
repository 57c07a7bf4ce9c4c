"""The command match: python -m jobs.match --model RUN --left FILE --out DIR

Two tables: python -m jobs.match --model RUN --left FILE --right FILE --out DIR (docs/match.md)
"""

from dataclasses import dataclass, field, replace
from typing import Annotated

import tyro

import al_ray
from al_ray.cli._shared.blocks import Block, SearchCluster
from al_ray.cli._shared.entry import as_called, parse_options
from al_ray.cli._shared.option_types import PathOrUri, RoundName
from al_ray.cli._shared.progress import Progress
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.llm import LlmConfig
from al_ray.core.config.oracle import OracleConfig
from al_ray.core.config.serialization import part
from al_ray.core.errors import BadOption

Calls = Annotated[tyro.conf.OmitArgPrefixes[OracleConfig], Block("calls", without=("llm", "release_actors"))]
"""Calls of an oracle that decides about uncertain pairs."""
Model = Annotated[LlmConfig, Block(without=("examples", "check_with", "least_kappa", "dry_run"))]
"""A language model as that oracle. Its examples and its check would need the labels of a run."""


@dataclass(frozen=True, kw_only=True)
class MatchCommand(al_ray.MatchOptions):
    """Match texts with each other, or two sets of texts, by a trained model."""

    model: PathOrUri | None = None
    """Run folder, of which the best model matches (docs/handover.md); or a model folder that was copied out of its run,
    which needs --text-columns and knows no labels and no training texts. Not with --into."""
    round: RoundName = None
    """Round of the run whose model matches; 0 is the untrained encoder, last the last one. Default: the best by the
    figures of the run."""
    out: PathOrUri | None = None
    """Folder of the matches. Rerun the same command after a stop."""
    into: PathOrUri | None = None
    """Folder of matches of known texts: match --left with those and with each other, by the model and the rules of
    those matches."""
    cluster: SearchCluster = field(default_factory=ClusterConfig)
    oracle_options: Calls = field(default_factory=OracleConfig)
    llm: Model = field(default_factory=LlmConfig)

    def __post_init__(self) -> None:
        """Raise BadOption for options that exclude or need one another."""
        super().__post_init__()
        if self.oracle is None and self.llm != LlmConfig():
            raise BadOption("the options of a language model (--llm.model, ...) go with --oracle llm; add it")
        for wrong, fix in (
            (self.into is None and self.out is None, "no folder of matches is given; give --out, or --into"),
            (self.into is not None and self.out is not None, "--out and --into exclude one another; give one of them"),
            (self.into is not None and self.model is not None, "--into has its model; leave out --model"),
            (self.into is not None and self.round is not None, "--into has its model; leave out --round"),
            (self.into is None and self.model is None, "no model is given; give --model RUN"),
            (self.into is None and self.complete, "--complete goes with --into; leave it out"),
        ):
            if wrong:
                raise BadOption(fix)


OPTIONS = MatchCommand


def main() -> None:
    """Parse the options, match, print and write."""
    options = parse_options(OPTIONS, "match", "Matches and clusters of texts, by a trained model.")
    own = part(options, al_ray.MatchOptions)
    own = replace(own, oracle_options=replace(own.oracle_options, llm=options.llm))
    if options.into is not None:
        written = al_ray.match_into(
            options.into, own, cluster=options.cluster, on_progress=Progress(), called=as_called
        )
    else:
        written = al_ray.match(
            options.model, own, options.out, round=options.round, cluster=options.cluster, on_progress=Progress(),
            called=as_called,
        )  # fmt: skip
    print(*map(as_called, written.summary), sep="\n")
    others = ", clusters.csv" * ("clusters" in written.record)
    print(f"wrote {written.path / 'matches.csv'}{others} and matches.html")
    for line in written.next_steps:
        print(as_called(line))
