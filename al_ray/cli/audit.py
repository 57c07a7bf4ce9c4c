"""The command audit: python -m jobs.audit {sample,estimate} (docs/audit.md)

sample draws pairs to label into a folder: putative false positives (paper, A.3), or with --by-score pairs of bands of
score, for which no match need be known. estimate reads the labels. Every option: --help.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import tyro

import al_ray
from al_ray.cli._shared.blocks import Block, SearchCluster
from al_ray.cli._shared.entry import as_called, parse_options
from al_ray.cli._shared.option_types import Guarantee, PathOrUri, with_guarantee
from al_ray.cli._shared.progress import Progress
from al_ray.cli._shared.results import check_out, write_result
from al_ray.core.config.bounds import Between, check_bounds
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.llm import LlmConfig
from al_ray.core.config.oracle import OracleConfig
from al_ray.core.config.serialization import part
from al_ray.core.errors import BadOption

Answering = Annotated[
    tyro.conf.OmitArgPrefixes[OracleConfig],
    Block("oracle", without=("llm", "release_actors", "cost_per_pair", "calls_per_minute")),
]
"""Calls of an oracle that is a language model."""
Model = Annotated[LlmConfig, Block(without=("examples", "check_with", "least_kappa"))]
"""A language model whose answers are held against those of people."""


@dataclass(frozen=True, kw_only=True)
class Sample(al_ray.AuditConfig):
    """Draw pairs to label."""

    run: PathOrUri | None = None
    """Run folder, whose model is audited."""
    matches: Path | None = None
    """Folder that jobs.match wrote, in place of --run: draw from its matches. Goes with --budget, --seed and --out."""
    clusters: Annotated[int | None, Between(1, 1_000_000)] = None
    """With --matches, in place of --budget: draw so many records with their clusters, for precision, recall and F1 of
    the clusters (docs/clusters.md)."""
    candidates: Path | None = None
    """With --clusters: matches of the same texts by the same model with a lower cutoff, whose pairs between clusters
    are candidates, too, among which recall is estimated."""
    out: Path | None = None
    """Audit folder; RUN/audit-SPLIT, RUN/audit-SPLIT-by-score, RUN/audit-SPLIT-until-width, MATCHES/audit or
    MATCHES/audit-clusters when not given."""
    cluster: SearchCluster = field(default_factory=ClusterConfig)
    oracle_options: Answering = field(default_factory=OracleConfig)
    llm: Model = field(default_factory=LlmConfig)

    def __post_init__(self) -> None:
        """Validate options."""
        if (self.run is None) == (self.matches is None):
            raise BadOption("give --run, to audit a model, or --matches, to audit what jobs.match wrote")
        if self.clusters is not None and (self.matches is None or self.budget is not None):
            raise BadOption("--clusters goes with --matches and without --budget")
        if self.candidates is not None and self.clusters is None:
            raise BadOption("--candidates goes with --clusters; give both, or neither")
        if self.matches is None:
            super().__post_init__()
            return
        check_bounds(self)
        plain = al_ray.AuditConfig()
        names = (
            "split",
            "round",
            "at_recall",
            "near",
            "rand",
            "by_score",
            "top",
            "after",
            "threshold_for",
            "oracle",
            "answers",
            "until_width",
            "of",
        )
        others = [name for name in names if getattr(self, name) != getattr(plain, name)]
        if others:
            raise BadOption(f"--{others[0].replace('_', '-')} goes with --run; leave it out with --matches")


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Estimate precision from the labels."""

    labels: Path | None = None
    """The sheet, filled in, or the JSON export of Label Studio; both files of the audit folder when not given."""
    audit: Path | None = None
    """The folder that sample wrote; the folder of --labels when not given."""
    at_cosine: tuple[float, ...] = ()
    """For an audit by score: thresholds as cosines; the ends of bands and the model's boundary when not given."""
    at_p: tuple[float, ...] = ()
    """For an audit by score: thresholds as probabilities, if the round is calibrated (--update-scorer); else as scores
    p = sigmoid(w * cosine + b) of the model, or p of its matcher."""
    threshold_for: tuple[str, ...] = ()
    """For an audit by score: precision=P chooses the lowest threshold of this precision, and writes it to the round's
    scorer.json. With --guarantee also recall=R, ranked-recall=R (of the matches among the ranked pairs) and
    costs=MISS,ALARM."""
    guarantee: Guarantee = None
    """With --threshold-for: the confidence with which the threshold keeps its rule in truth, such as 0.95, although it
    is chosen after a look at the labels (docs/guarantees.md). If none can be promised, nothing is written."""
    update_scorer: bool = False
    """For an audit by score: fit w and b to the labels, and write them with their reliability to the round's
    scorer.json. load_model uses them; the run does not."""
    run: PathOrUri | None = None
    """With --threshold-for or --update-scorer: the run that was audited; the folder that the audit lies in when not
    given."""
    out: Path | None = None
    """JSON file; estimate.json in the audit folder when not given."""

    def __post_init__(self) -> None:
        """Raise BadOption for a value out of bounds."""
        check_bounds(self)


OPTIONS = Annotated[Sample, tyro.conf.subcommand("sample")] | Annotated[Estimate, tyro.conf.subcommand("estimate")]


def main() -> None:
    """Draw pairs to label, or estimate from their labels."""
    options = parse_options(OPTIONS, "audit", "Measure precision from a few labels of people.")
    if isinstance(options, Sample):
        sample(options)
    else:
        estimate(options)


def sample(options: Sample) -> None:
    """Draw pairs, unless the folder holds this audit, and print what to do with them."""
    if options.matches is not None and options.clusters is not None:
        audit = al_ray.sample_clusters(
            options.matches,
            clusters=options.clusters,
            candidates=options.candidates,
            seed=options.seed,
            out=options.out,
        )
    elif options.matches is not None:
        audit = al_ray.sample_matches(options.matches, budget=options.budget, seed=options.seed, out=options.out)
    else:
        run, config = al_ray.load_run(str(options.run)), part(options, al_ray.AuditConfig)
        oracle_options = replace(options.oracle_options, llm=options.llm)
        audit = al_ray.sample_audit(
            run,
            config,
            options.out,
            cluster=options.cluster,
            oracle_options=oracle_options,
            on_progress=Progress(),
        )
    print(*map(as_called, audit.lines()), sep="\n")


def estimate(options: Estimate) -> None:
    """Print the estimate from the labels and write it; calibrate the scorer of the audited round, if so asked."""
    if options.audit is None and options.labels is None:
        raise BadOption("give --labels FILE, the labelled sheet, or --audit FOLDER; see --help")
    path = options.audit or (options.labels or Path()).parent
    out = options.out or path / "estimate.json"
    check_out(out)
    result = al_ray.estimate_audit(
        path,
        options.labels,
        at_cosine=options.at_cosine,
        at_p=options.at_p,
        threshold_for=with_guarantee(options.threshold_for, options.guarantee),
        update_scorer=options.update_scorer,
        run=None if options.run is None else al_ray.load_run(options.run),
    )
    print(as_called(result.text))
    if result.scorer is not None:
        print(f"wrote {result.scorer}")
    write_result(out, result.figures)
