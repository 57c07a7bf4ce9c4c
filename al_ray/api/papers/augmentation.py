"""Train a bi-encoder on gold and silver labels (Augmented SBERT, paper 003)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from al_ray.apps.papers.augmentation.folder import AugmentFolder
from al_ray.apps.papers.augmentation.gold import gold_of_task
from al_ray.apps.papers.augmentation.options import AugmentConfig, Gold, Line
from al_ray.apps.papers.augmentation.pipeline import AugmentationJob, augmented
from al_ray.apps.papers.augmentation.samplers import most_silver
from al_ray.apps.papers.augmentation.stsb import read_stsb
from al_ray.apps.papers.augmentation.student import StudentSpec, StudentTrainer
from al_ray.apps.papers.augmentation.word_replacement import Masked
from al_ray.cluster.session import session
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.encoder import family_of, is_cnn
from al_ray.core.errors import BadOption
from al_ray.core.naming import option
from al_ray.core.progress import OnProgress
from al_ray.core.text_table import format_columns
from al_ray.datasets.task_folder import read_task
from al_ray.encoders.cross_encoder import CrossEncoder
from al_ray.encoders.pretrained import layer_count
from al_ray.encoders.random_bert import RANDOM_BERT
from al_ray.runs.existing_labels import read_existing_labels
from al_ray.storage.lock import locked
from al_ray.storage.uri import StoragePath, storage_path


@dataclass(frozen=True)
class Augmentation:
    """An augmentation, checked and not begun: its options, and the gold pairs that they name."""

    config: AugmentConfig
    gold: Gold

    def lines(self) -> Iterator[str]:
        """Yield what there is to do: pairs, steps and models."""
        config, gold = self.config, self.gold
        pairs, pool = len(gold.train), gold.pool
        yield f"gold: {pairs:,} pairs of {gold.name}, mean score {gold.train.scores.mean():.3f}"
        yield "evaluated on: " + ", ".join(f"{len(scored):,} of {split}" for split, scored in gold.measured.items())
        steps = config.teaching.steps(pairs)
        yield f"cross-encoder: {config.teacher}, {config.teacher_epochs} epochs, {steps:,} steps"
        texts = f"{len(pool.queries):,} texts with {len(pool.candidates):,}"
        labelled, silver = most_silver(config, gold), config.per_text * len(pool.queries)
        chosen = f", chosen from {labelled:,} that the cross-encoder labels" if config.sampler == "uncertainty" else ""
        yield f"silver: at most {silver if chosen else labelled:,} pairs by {config.sampler}{chosen}, of {texts}"
        yield f"student: {config.encoder}, {config.epochs} epochs"

    def run(self, out: StoragePath, cluster: ClusterConfig, on_progress: OnProgress) -> list[Line]:
        """Train teacher and students, continuing from the folder, and return the line of each model.

        Raises:
            WrongFolder: if the folder holds another augmentation.
        """
        with locked(out):
            folder = AugmentFolder(out)
            folder.bind(self.config, self.gold)
            with session(cluster):
                return augmented(AugmentationJob(folder, self.config, self.gold, cluster, on_progress))


def plan_augmentation(config: AugmentConfig) -> Augmentation:
    """Check the options, and read the gold pairs and the models that they name; nothing is trained.

    Raises:
        BadOption: for options that do not go together, or for a model that does not exist or does not fit.
        BadFile: for gold pairs that cannot be read.
    """
    config.check_unused_options()
    _check_models(config)
    return Augmentation(config, _gold_of(config).subset(config.gold_pairs, config.pool == "all", config.seed))


def _check_models(config: AugmentConfig) -> None:
    """Raise an error for an encoder that does not exist or does not fit, before any work."""
    if config.words != AugmentConfig.words and not is_cnn(config.encoder):
        raise BadOption(f"`words` is for `encoder='cnn'`, and that is {config.encoder}; leave it out")
    teacher = config.teaching.run(1).encoding
    if not family_of(config.teacher).transformer:
        raise BadOption(
            f"{option('teacher', config.teacher)} is not a transformer, as a cross-encoder must be; give another"
        )
    layers = layer_count(replace(teacher, encoder_layers=None))
    if config.teacher != RANDOM_BERT and layers is not None and (config.teacher_layers or 0) > layers:
        raise BadOption(f"`teacher_layers` is {config.teacher_layers}; {config.teacher} has 1 to {layers}")
    CrossEncoder.base(teacher, 0)
    if config.words_from == "masked":
        Masked(teacher)
    spec = StudentSpec(config.encoding, config.learning, config.seed, config.fresh_layers, config.words)
    StudentTrainer(spec).untrained(["a word"])


def _gold_of(config: AugmentConfig) -> Gold:
    """Read the gold pairs that the options name."""
    if config.gold is not None:
        kind, _, folder = config.gold.partition(":")
        if kind != "stsb" or not folder:
            raise BadOption(f"`gold` is {config.gold!r}; give stsb:FOLDER, or `task` and `labels`")
        return read_stsb(Path(folder))
    assert config.task is not None
    assert config.labels is not None
    task = read_task(storage_path(config.task))
    return gold_of_task(task, read_existing_labels(config.labels, task))


def augmentation_table(lines: list[Line]) -> str:
    """Format a row for each model, with 100 rho on each split."""
    splits = list(lines[0].spearman)
    rows: list[tuple[str, ...]] = [("model", "gold", "silver", "steps", *(f"{split} rho" for split in splits))]
    for line in lines:
        counts = (f"{count:,}" for count in (line.gold, line.silver, line.steps))
        rows.append((line.model, *counts, *(f"{100 * line.spearman[split]:.2f}" for split in splits)))
    return format_columns(rows)
