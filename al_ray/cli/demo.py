"""The command demo: python -m jobs.demo

Makes a small synthetic task, labels pairs of it by three strategies with one budget, trains the encoder or a matcher on
the labels, and compares all over all pairs of dev: 2 to 4 minutes on 2 cores. It shows how al_ray works; the evidence
is in docs/results.md. Rerun the same command to resume.
"""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import al_ray
from al_ray.cli._shared.entry import parse_options
from al_ray.cli.run import run
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.encoder import EncoderOptions
from al_ray.core.config.sections import TrainingConfig
from al_ray.core.text_table import format_columns

logger = logging.getLogger(__name__)
MINUTES = "2 to 4 minutes on 2 cores, without a GPU"
# Half of the layers are trained, which takes less time: AP is 71.9, and 73.5 with all of them (docs/results.md).
TRAINED = TrainingConfig(frozen_layers="half")


class Compared(NamedTuple):
    """A run of the demonstration: the name of its folder, which pairs it labels, and what learns from them."""

    name: str
    strategy: Literal["random", "uncertainty", "static"]
    matcher: bool


# The quick ones first. Random pairs have no match, so that training the encoder on them would only take time.
COMPARED = (
    Compared("random", "random", matcher=True),
    Compared("matcher", "uncertainty", matcher=True),
    Compared("static", "static", matcher=False),
    Compared("uncertainty", "uncertainty", matcher=False),
)


@dataclass(frozen=True)
class DemoCommand:
    """The demonstration."""

    out: Path = Path(".demo")
    """Folder of the task and the runs."""
    texts: int = 4000
    """Questions of the task; half of them are in the training pool."""
    encoder: str = EncoderOptions.encoder
    """As in the command run."""
    first_batch: int = 128
    """As in the command run."""
    rounds: int = 3
    """As in the command run."""


OPTIONS = DemoCommand


def main() -> None:
    """Make the task, run the strategies and print a table."""
    options = parse_options(OPTIONS, "demo", "Watch active learning find rare pairs in a small synthetic task.")
    folder, cluster = options.out / "task", ClusterConfig()
    # Before anything is written, because a bad option raises here.
    configs = {one: config_of(options, folder, one) for one in COMPARED}
    # Logged, because an error, such as that of a folder that cannot be written, has nothing before it on stdout.
    logger.info("%d runs on %s questions: %s; rerun to resume", len(COMPARED), f"{options.texts:,}", MINUTES)
    task = al_ray.prepare(al_ray.Synthetic(texts=options.texts), folder).task
    rows = [("strategy", "learner", "labels", "positives", "AP %", "P@R20 %", "seconds")]
    for one, config in configs.items():
        logger.info("strategy %s, learner %s", one.strategy, learner_of(one))
        rows += rows_of(one, run(config, cluster, options.out / one.name), len(rows) == 1)
    pool = task.split("train")
    print(f"\n{len(pool.positives):,} of the pool's {pool.space.total:,} pairs match; results over all pairs of dev:\n")
    print(format_columns(rows))
    names = ",".join(one.name for one in COMPARED)
    print(f"\nruns: {options.out}/{{{names}}}  (metrics.jsonl, round-NNN/model, events/ for TensorBoard)")


def config_of(options: DemoCommand, task: Path, one: Compared) -> al_ray.RunConfig:
    """Return the config of a run of the demonstration."""
    return al_ray.RunConfig(
        task=str(task), strategy=one.strategy, matcher="on" if one.matcher else "off", rounds=options.rounds,
        first_batch=options.first_batch, encoder=options.encoder, max_length=32,
        training=TrainingConfig() if one.matcher else TRAINED,
    )  # fmt: skip


def learner_of(one: Compared) -> str:
    """Return what learns from the labels of a run."""
    return "matcher" if one.matcher else "encoder"


def rows_of(one: Compared, run: "al_ray.Run", first: bool) -> list[tuple[str, ...]]:
    """Return the row of a run for the table, after its last round; before the first run that of no labels."""
    lines, untrained = run.folder.complete_rounds(), run.untrained()
    last = lines[-1]
    rows = list[tuple[str, ...]]()
    if first and untrained is not None:
        rows.append(("(untrained)", "", "0", "", *shares(untrained), ""))
    seconds = sum(sum(line["seconds"].values()) for line in lines)
    counts = f"{last['labels']:,}", f"{last['positives']:,}"
    return [*rows, (one.strategy, learner_of(one), *counts, *shares(last), f"{seconds:.0f}")]


def shares(line: dict[str, Any]) -> list[str]:
    """Return AP and P@R20 in percent from a line of metrics.jsonl; `-` where dev has no match."""
    values = (line[name] for name in ("average_precision", "precision_at_recall_20"))
    return ["-" if value is None else f"{100 * value:.1f}" for value in values]
