"""What is known of a model, for its card: from its run, or from a model folder alone, where much is not known."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from al_ray.apps.matching.model import MatchingModel
from al_ray.apps.reporting.dev_estimates import DevEstimate, read_dev_estimate
from al_ray.cluster.token_store import pool_folder, read_coverage
from al_ray.core.config.oracle import ORACLES, oracle_name
from al_ray.core.errors import BadFile
from al_ray.core.labels import IMPORTED, OPEN, WORDS
from al_ray.datasets.task_folder import counts, read_about
from al_ray.encoders.modules import find_file
from al_ray.encoders.pretrained import folder_of
from al_ray.encoders.random_bert import RANDOM_BERT
from al_ray.oracles.llm.oracle import PREFIX
from al_ray.runs.existing_labels import GIVEN
from al_ray.runs.ledger import Ledger
from al_ray.runs.untrained_figures import read_untrained
from al_ray.search.coverage import Coverage
from al_ray.storage.files import read_json
from al_ray.storage.uri import StoragePath, storage_path
from al_ray.training.saved_model import SCORER
from al_ray.training.untrained_model import is_untrained, untrained_scorer

DEV = "dev"
FRONT_MATTER = re.compile(r"\A---\s*\n(.*?)\n---\s*$", re.DOTALL | re.MULTILINE)
LICENCE = re.compile(r"^license:[ \t]*['\"]?([\w.+-]+)['\"]?[ \t]*$", re.MULTILINE)


@dataclass(frozen=True)
class RunFacts:
    """What a run folder says. labels: yes, no and unsure by source. evaluation: of dev, as record.json has it.

    estimate: of dev from drawn labels. counts: of each split. prepared_by: command that made the task, if recorded.
    coverage: what the encoder sees of the texts; None if the folder does not say it any more.
    """

    name: str
    round: int
    task: str
    symmetric: bool
    labels_are: str
    counts: Mapping[str, Mapping[str, int]]
    prepared_by: str | None
    strategy: str
    labels: Mapping[str, Mapping[str, int]]
    evaluation: Mapping[str, Any] | None
    estimate: DevEstimate | None
    encoder: str
    encoder_licence: str | None
    arithmetic: str
    coverage: Coverage | None


@dataclass(frozen=True)
class Facts:
    """What a card says of a model. run: None for a copied model. scorer: the content of scorer.json.

    choice: which round it is and why, as Choice.as_dict gives it; None for a copied model.
    """

    digest: str
    scorer: Mapping[str, Any]
    run: RunFacts | None = field(default=None)
    choice: Mapping[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the same as JSON values."""
        return asdict(self)


def read_facts(model: MatchingModel) -> Facts:
    """Read what is known of a model; BadFile for a damaged file of its run."""
    if is_untrained(model.model):
        scorer = untrained_scorer(model.model)
    else:
        scorer = read_json(folder_of_model(model) / SCORER, ["digest", "weight", "bias"])
    choice = None if model.choice is None else model.choice.as_dict()
    return Facts(str(scorer["digest"]), scorer, None if model.run is None else _read_run(model), choice)


def folder_of_model(model: MatchingModel) -> StoragePath:
    """Return the model folder of a model: that of its weights, or, if they are not trained, of its matcher.

    The model without labels has none.
    """
    matcher = model.model.matcher
    return storage_path(model.model.path) if matcher is None else storage_path(matcher.path).parent


def _read_run(model: MatchingModel) -> RunFacts:
    assert model.run is not None
    assert model.round is not None
    task, config, number = model.task, model.config, model.round
    path = model.run.round(number) / "record.json"
    evaluations = read_json(path, ["evaluations"])["evaluations"] if number else read_untrained(model.run.path)
    if not isinstance(evaluations, dict):
        raise BadFile(f"{path}: its evaluations are not by split; restore it")
    provenance = read_about(storage_path(config.task)).get("provenance", {})
    return RunFacts(
        name=model.run.path.resolve().name,
        round=number,
        task=task.name,
        symmetric=task.symmetric,
        labels_are=task.labels_are,
        counts={name: counts(split) for name, split in task.splits.items() if split.space.total},
        prepared_by=provenance.get("command"),
        strategy=config.strategy,
        labels=count_labels(model.run.ledger, number),
        evaluation=evaluations.get(DEV),
        estimate=read_dev_estimate(model.run.path, number),
        encoder=config.encoder,
        encoder_licence=encoder_licence(config.encoder),
        arithmetic=config.arithmetic,
        coverage=read_coverage(pool_folder(task, config.encoding, model.run.path)),
    )


def count_labels(ledger: Ledger, last: int) -> dict[str, dict[str, int]]:
    """Count the labels of rounds 1 to `last` by who gave them: yes, no and unsure, with corrections."""
    found: dict[str, dict[str, int]] = {}
    numbers = range(1, last + 1)
    for number, (batch, labels) in zip(numbers, ledger.read_rounds(numbers), strict=True):
        # Not those whose answer could not be read: somebody else may have given the label.
        source = {int(row): one.by for one in ledger.answers(number) for row in one.rows[one.labels != OPEN]}
        for row, label in enumerate(labels.tolist()):
            word = WORDS[label]
            if word in ("yes", "no", "unsure"):
                kind = found.setdefault(source_in_words(source[row], batch.source), {"yes": 0, "no": 0, "unsure": 0})
                kind[word] += 1
    return found


def source_in_words(by: str, chosen_by: str) -> str:
    """Return who gave an answer, by the name that is stored with it. chosen_by: source of the batch."""
    # Imported from a run, too.
    if by.startswith(PREFIX):
        return f"language model ({by.removeprefix(PREFIX)})"
    if chosen_by == IMPORTED:
        return f"imported from {Path(by).name}"
    if chosen_by == GIVEN:
        return "stated (existing labels)"
    # A cross-encoder adds the digest of its weights to its name.
    program = by.partition(" ")[0]
    name = oracle_name(program)
    # People on the page have any names, which a card does not tell.
    if name is None or ORACLES[name].people:
        return "people"
    return "simulated (from the positives of the task)" if ORACLES[name].knows_positives else f"program ({program})"


def encoder_licence(encoder: str) -> str | None:
    """Return the licence in the README.md of an encoder's folder, None if it names none or cannot be read here."""
    if encoder == RANDOM_BERT:
        return None
    try:
        path = find_file(folder_of(encoder), "README.md")
        text = "" if path is None else path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    front = FRONT_MATTER.search(text)
    licence = LICENCE.search(front.group(1)) if front else None
    return licence.group(1) if licence else None
