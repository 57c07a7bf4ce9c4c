"""The run folder: the only code that writes and reads the files of a run. No file that is whole is ever deleted.

config.json                        every option, resolved; the folder is bound to it
state.json                         the last complete round; replaced atomically, after all other files of the round
metrics.jsonl                      one line for each complete round
ended.json                         why the last session stopped before the last planned round, and after which round
limits.json, seconds.json          limits and stop options (runs/limits.py); time before round 1 (runs/stage_seconds.py)
planned.json                       what the run was planned to use and has used, see runs/planned.py
round-NNN/*.parquet                pairs, answers and labels of the round, see runs/ledger.py
round-NNN/search, seconds.json     recall of the index (knn); time of stages of a process that ended
round-NNN/record.json              metrics of the round, its model's digest and scorer, each split's evaluation
round-NNN/examples.parquet         error examples, see runs/error_examples.py
dev-labels/                        labels of drawn dev pairs (--dev-labels), see runs/dev_labels.py
round-NNN/fit, scores.parquet      cosines of the labelled pairs under the round's model, see storage/pair_cosines.py
round-NNN/importance, why.json     with a matcher, see runs/importance.py and matcher/explanation_file.py
round-NNN/neighbourhood.json       what auto chose from, see cluster/pool/score_fit.py
round-NNN/model/                   weights and scorer.json (al_ray/training writes them; thresholds are added here);
                                   with a matcher matcher.safetensors, and weights, if it trained any, in encoder/
llm/, check/                       raw answers of --oracle llm and its check by people, see oracles/llm
page.json, page-options.json       address of the page on which people label, while it is served; its question, overlap
mlflow.json, wandb.json, events/   ids of the run on MLflow and W&B (runs/trackers); its metrics for TensorBoard
"""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.strategies import STRATEGIES
from al_ray.core.config.oracle import people_label
from al_ray.core.config.serialization import as_dict, differences
from al_ray.core.errors import BadFile, WrongFolder
from al_ray.core.labels import OPEN, Model, State
from al_ray.core.naming import Code, call
from al_ray.core.task import Task
from al_ray.metrics.error_examples import Examples
from al_ray.metrics.evaluation import Evaluation
from al_ray.metrics.round_comparison import drop_warnings
from al_ray.runs.dev_labels import DevLabels
from al_ray.runs.error_examples import write_examples
from al_ray.runs.ledger import Ledger
from al_ray.runs.presumed_figures import PRESUMED, PresumedFigures, presumed_warnings
from al_ray.runs.round_metrics import (
    compare_with_round_before,
    content_of,
    figures_of,
    gain_over,
    headline,
    read_lines,
)
from al_ray.runs.round_models import model_content, read_model_of, weight_folders
from al_ray.runs.run_state import ENDED, bound_config, last_round
from al_ray.runs.scorer_evidence import add_evidence
from al_ray.runs.stage_seconds import total_seconds, write_seconds
from al_ray.runs.untrained_figures import beside_untrained, read_untrained
from al_ray.runs.versions import began_elsewhere
from al_ray.storage.files import read_json, remove_unfinished, write_json, write_root, write_text
from al_ray.storage.lock import locked
from al_ray.storage.uri import StoragePath

logger = logging.getLogger(__name__)
BATCH_SIZES = ("rounds", "first_batch", "growth")  # They may change while a run is under way.
RECALL = "search.json"


class RunFolder:
    """The journal of a run (active_learning/ports.py)."""

    def __init__(self, path: StoragePath, task: Task) -> None:
        """Use a folder, new or with rounds in it; to write into it, use `opened`."""
        self.path, self.task = path, task
        self.ledger, self.dev_labels = Ledger(path, task), DevLabels(path, task)
        # Seconds of each stage of the current round in this process.
        self.seconds: dict[str, float] = {}
        # Of each measured split, what a run with a matcher knows of its candidates and of the cosine alone.
        self.candidates: dict[str, dict[str, Any]] = {}
        # Of the training of the current round, if it has any.
        self.presumed: PresumedFigures | None = None

    def round(self, number: int) -> StoragePath:
        """Return the folder of a round."""
        return self.ledger.round(number)

    def check_same_run(self, config: RunConfig) -> dict[str, Any] | None:
        """Return the options in config.json, None if there is none; WrongFolder if they, or the task, are others.

        More rounds than before are allowed, and extend the run; other batch sizes hold from the next batch on. The task
        may have another path, as on another machine: its digest tells that it is the same. Until the first pair is
        chosen, all may change: otherwise a wrong option could never be corrected.
        """
        path = self.path / "config.json"
        if not path.exists():
            return None
        # An option that al_ray gained after the folder was written counts as its default.
        stored = {**as_dict(bound_config(self.path)), "task_digest": read_json(path, ["task_digest"])["task_digest"]}
        # The last round of such a strategy took all pairs that were left.
        last, options = config.once or STRATEGIES[config.strategy].takes_all_stated, self._options(config)
        new = ["dev_labels", "most_unknown", *(() if last or stored["rounds"] > config.rounds else BATCH_SIZES)]
        new += ["oracle"] if people_label(stored["oracle"], config.oracle) else []
        same = stored["task_digest"] == self.task.digest
        new += ["task"] if same else []
        fixed = sorted(differences({**stored, **{name: options[name] for name in new}}, options))
        if fixed and self.ledger.rounds:
            fix = ", or the options that it has (config.json)" if same else self._transfer(config)
            raise WrongFolder(f"{self.path} is a run with other options ({'; '.join(fixed)}); give another `out`{fix}")
        return stored

    def bind(self, config: RunConfig) -> None:
        """Write config.json, or check that the folder is a run with these options; see `check_same_run`."""
        stored, options = self.check_same_run(config), self._options(config)
        if stored and self.ledger.rounds and any(stored[name] != options[name] for name in BATCH_SIZES[1:]):
            sizes = ", ".join(f"{size:,}" for size in config.batches[self.ledger.rounds :][:6])
            logger.info("batch sizes change: the next rounds have %s pairs", sizes or "no")
        if began_elsewhere(self.path / "config.json", self.ledger.rounds) or stored != options:
            write_root(self.path / "config.json", options)

    def _options(self, config: RunConfig) -> dict[str, Any]:
        return {**as_dict(config), "task_digest": self.task.digest}

    def _transfer(self, config: RunConfig) -> str:
        """Return how the labels of this run get into a run of another task, for an error."""
        labels = call("import_labels", run=Code("NEW"), task=config.task, labels=self.path)
        return f", and take the labels along: {labels}"

    @property
    def last(self) -> int:
        """Return the last complete round, 0 before the first."""
        return last_round(self.path)

    @property
    def labels(self) -> int:
        """Count the labels of the complete rounds and of the current one."""
        last = self.last
        complete, batch = self.metrics()[:last], self.ledger.batch(last + 1)
        current = 0 if batch is None else int((self.ledger.labels(last + 1) != OPEN).sum())
        return (complete[-1]["labels"] if complete else 0) + current

    @property
    def cost(self) -> float:
        """Return the total cost of all answers, those on dev pairs included."""
        return self.ledger.cost() + self.dev_labels.ledger.cost()

    def add_seconds(self, stage: str, seconds: float) -> None:
        """Add to the seconds of a stage in the record of the current round."""
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds

    def state(self) -> State:
        """Return the state of the run after its last complete round."""
        last, model = self.last, None
        for number in range(1, last + 1):
            batch = self.ledger.batch(number)
            if batch is None or not self.ledger.sealed(number):
                missing = "batch.parquet" if batch is None else "labels.parquet"
                raise BadFile(f"{self.round(number)} has no {missing}, though state.json counts it; restore it")
            model = self.model(number)
        return State(last, self.ledger.labelled(last), model)

    def model(self, number: int) -> Model:
        """Return the model of a complete round."""
        return read_model_of(self.round(number))

    def check_weights_exist(self, number: int) -> None:
        """BadFile if the weights of a complete round are missing, or those of the encoder of its matcher."""
        for folder in weight_folders(self.round(number)) if number else ():
            if not list(folder.glob("*.safetensors")):
                raise BadFile(f"{folder} has no weights (*.safetensors) any more; restore it")

    def record_round(
        self, state: State, evaluations: Mapping[str, Evaluation], examples: Examples | None = None
    ) -> None:
        """Write the round's examples, its record and its line of metrics, and state.json last."""
        assert state.model is not None
        assert state.model.scorer is not None
        scorer, recall = state.model.scorer, self.round(state.round) / RECALL
        presumed = {} if self.presumed is None else {PRESUMED: self.presumed.as_dict()}
        before, evaluated = None, dict[str, Any]()
        if number := state.round - 1:
            before = self.model(number).scorer
            evaluated = read_json(self.round(number) / "record.json", ["evaluations"])["evaluations"]
        figures: dict[str, Any] = {
            **figures_of(state, self.task.split("train").space),
            **headline(evaluations),
            **compare_with_round_before(self.ledger, state, before),
            **gain_over(evaluated, evaluations),
            **beside_untrained(read_untrained(self.path), evaluations),
            "boundary": scorer.shown(scorer.boundary) if np.isfinite(scorer.boundary) else None,
            "neighbourhood": scorer.neighbourhood,
            **({"candidates": self.candidates} if scorer.matcher else {}),
            **presumed,
            "index_recall": read_json(recall, ["index_recall"])["index_recall"] if recall.exists() else None,
            "warnings": state.labelled.warnings
            + presumed_warnings({"candidates": self.candidates, **presumed})
            + [f"{name}: {text}" for name, one in evaluations.items() for text in one.warnings],
            "seconds": total_seconds(self.round(state.round), self.seconds),
        }
        # The line of this round replaces that of an interrupted attempt at it.
        lines = [line for line in self.metrics() if line["round"] < state.round]
        for last in lines[state.round - 2 :]:
            figures["warnings"] += drop_warnings(last, figures)
        model = model_content(state.model)
        splits = {name: content_of(one) for name, one in evaluations.items()}
        if examples is not None:
            write_examples(self.round(state.round), examples, self.task)
        write_json(self.round(state.round) / "record.json", {**figures, "model": model, "evaluations": splits})
        write_text(self.path / "metrics.jsonl", "".join(json.dumps(line) + "\n" for line in [*lines, figures]))
        write_json(self.path / "state.json", {"round": state.round, "labels": len(state.labelled)})
        self.seconds.clear()

    def end(self, why: str | None) -> None:
        """Record why the run stopped before its last planned round: a limit, or lack of pairs; None when it goes on."""
        if why is not None or (self.path / ENDED).exists():
            write_json(self.path / ENDED, {"round": self.last, "why": why})

    @property
    def end_reason(self) -> str | None:
        """Return why the run stopped before its last planned round; None if it did not, or went on since."""
        if not (path := self.path / ENDED).exists():
            return None
        content = read_json(path, ["round", "why"])
        return content["why"] if content["round"] == self.last else None

    def keep_calibration(
        self, number: int, evidence: Mapping[str, Mapping[str, Any]], thresholds: Sequence[Mapping[str, Any]]
    ) -> None:
        """Write evidence and thresholds into the scorer.json of a complete round's model, so that exports have them.

        As `add_evidence` does. The weights, and the trained w and b, do not change.
        """
        path = self.round(number) / "model" / "scorer.json"
        if read_json(path, ["digest"])["digest"] != self.model(number).digest:
            raise BadFile(f"{path} belongs to another model than that of the round; restore it")
        add_evidence(path, evidence, thresholds)

    def keep_recall(self, share: float) -> None:
        """Write the index recall of the current round; a resumed round does not repeat the search."""
        write_json(self.round(self.last + 1) / RECALL, {"index_recall": share})

    def metrics(self) -> list[dict[str, Any]]:
        """Return the lines of metrics.jsonl, one for each round."""
        return read_lines(self.path)

    def complete_rounds(self) -> list[dict[str, Any]]:
        """Return the metrics of the rounds that state.json counts; an interrupted round may have left one line more."""
        return complete_rounds(self.path)


def complete_rounds(path: StoragePath) -> list[dict[str, Any]]:
    """Return the metrics of the complete rounds of a run folder, without reading its task."""
    return read_lines(path)[: last_round(path)]


@contextmanager
def opened(path: StoragePath, task: Task, patience: float = 0.0) -> Iterator[RunFolder]:
    """Open a run folder for writing, by one process at a time; the lock is released when the process ends or crashes.

    patience: seconds to wait for another process that has the folder open; then FolderInUse.
    """
    with locked(path, patience) as fenced:
        folder = RunFolder(fenced, task)
        remove_unfinished(fenced, "*/**/.*")
        try:
            yield folder
        finally:
            # Of actors that were killed.
            remove_unfinished(fenced, "*/**/.*")
            # Of a round that is not complete: a process that resumes it, such as after a wait for people, adds its own.
            if folder.seconds:
                write_seconds(folder.round(folder.last + 1), folder.seconds)
