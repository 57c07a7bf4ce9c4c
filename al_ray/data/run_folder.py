"""A run folder: the one writer and reader of what a run bought and made. Nothing in it is ever deleted.

config.json                        every option, resolved; the folder is bound to it
state.json                         the last complete round; replaced last, in one step
metrics.jsonl                      one line a complete round
ended.json                         why a run came to its end with fewer rounds than planned, and after which
round-NNN/*.parquet                what the round bought, see data/ledger.py
round-NNN/search.json              what the index found of the truly nearest (knn)
round-NNN/record.json              figures of the round, its model's digest and scorer, each split's evaluation
round-NNN/examples.parquet         pairs to look at, see data/examples.py
round-NNN/model/                   weights and scorer.json (al_ray/model writes it; thresholds come in here)
events/                            the same figures for TensorBoard
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from al_ray.core.config import RunConfig
from al_ray.core.errors import BadFile, BadOption, WrongFolder
from al_ray.core.evaluation import Evaluation
from al_ray.core.examples import Examples, first_of
from al_ray.core.plain import as_dict, from_dict
from al_ray.core.records import OPEN, YES, Labelled, Model, State
from al_ray.core.scoring import Scorer
from al_ray.core.task import Task
from al_ray.data.events import add_events
from al_ray.data.examples import write_examples
from al_ray.data.files import read_json, write_json, write_text
from al_ray.data.ledger import Ledger
from al_ray.data.tables import read_task
from al_ray.storage.lock import locked
from al_ray.storage.places import Place, Uri, place

# Of a line of metrics.jsonl: what jobs read.
FIGURES = ("round", "labels", "positives", "average_precision", "precision_at_recall_20", "boundary", "seconds")

RECALL, ENDED = "search.json", "ended.json"


class RunFolder:
    """The journal of a run (core/ports.py)."""

    def __init__(self, path: Place, task: Task) -> None:
        """A folder, new or with rounds in it; see `opened`."""
        self.path, self.task = path, task
        self.ledger = Ledger(path, task)
        # Of the round under way, since this process began.
        self.seconds: dict[str, float] = {}

    def round(self, number: int) -> Place:
        """The folder of a round."""
        return self.ledger.round(number)

    def bind(self, config: RunConfig) -> None:
        """Write config.json, or hold this config and task against those that stand there.

        More rounds than before are the one change that is taken: they go on where the run ended. A folder in which no
        pair was chosen yet is bound anew, lest options that proved wrong, such as an encoder that is nowhere, stay.
        """
        path = self.path / "config.json"
        wanted = {**as_dict(config), "task_digest": self.task.digest}
        if not path.exists():
            write_json(path, wanted)
            return
        # An option that came after the folder was made has its default there.
        stands = {**as_dict(bound_config(self.path)), "task_digest": read_json(path, ["task_digest"])["task_digest"]}
        # The last round of `stated` took all there was.
        last = config.once or config.strategy == "stated"
        more = not last and isinstance(stands["rounds"], int) and stands["rounds"] < config.rounds
        other = sorted(differences({**stands, "rounds": config.rounds} if more else stands, wanted))
        if other and self.ledger.rounds:
            raise WrongFolder(f"{self.path} is a run with other options ({'; '.join(other)}); give another --out")
        if more or other:
            write_json(path, wanted)

    @property
    def last(self) -> int:
        """The last complete round, 0 before the first."""
        return last_round(self.path)

    @property
    def labels(self) -> int:
        """Labels of the complete rounds and of the one under way."""
        before, batch = self.complete_rounds(), self.ledger.chosen(self.last + 1)
        under_way = 0 if batch is None else int((self.ledger.labels(self.last + 1) != OPEN).sum())
        return (before[-1]["labels"] if before else 0) + under_way

    def state(self) -> State:
        """The run after its last complete round."""
        last = self.last
        labelled, model = Labelled(), None
        for number in range(1, last + 1):
            batch = self.ledger.chosen(number)
            if batch is None or not self.ledger.sealed(number):
                missing = "batch.parquet" if batch is None else "labels.parquet"
                raise BadFile(f"{self.round(number)} has no {missing}, though state.json counts it; restore it")
            labelled = labelled.extended(batch.pairs, self.ledger.labels(number), number, batch.source)
            model = self.model(number)
        return State(last, labelled, model)

    def model(self, number: int) -> Model:
        """The model of a complete round."""
        path, folder = self.round(number) / "record.json", self.round(number) / "model"
        made = read_json(path, ["model"])["model"]
        numbers, words = ("weight", "bias", "loss"), ("outcome", "digest")
        kinds = {**dict.fromkeys(numbers, (int, float)), **dict.fromkeys(words, str)}
        if not isinstance(made, dict) or not all(isinstance(made.get(name), kind) for name, kind in kinds.items()):
            raise BadFile(f"{path} does not say what model the round made; restore it")
        # Resolved, for an actor may work in another folder.
        return Model(str(folder.resolve()), made["digest"], Scorer(*(made[name] for name in (*numbers, "outcome"))))

    def refuse_lost(self, number: int) -> None:
        """BadFile when the weights of a complete round are gone."""
        if number and not list((self.round(number) / "model").glob("*.safetensors")):
            raise BadFile(f"{self.round(number) / 'model'} has no weights (*.safetensors) any more; restore it")

    def complete(self, state: State, evaluations: Mapping[str, Evaluation], examples: Examples | None = None) -> None:
        """Write the round's examples and record, its line of metrics, and last of all state.json."""
        assert state.model is not None
        assert state.model.scorer is not None
        scorer = state.model.scorer
        found = int((state.labelled.labels[state.labelled.rounds == state.round] == YES).sum())
        figures: dict[str, Any] = {
            "round": state.round,
            "labels": len(state.labelled),
            "positives": state.labelled.positives,
            "batch_positives": found,
            **_headline(evaluations),
            "boundary": scorer.boundary if np.isfinite(scorer.boundary) else None,
            "index_recall": self._index_recall(state.round),
            "warnings": [f"{name}: {said}" for name, made in evaluations.items() for said in made.warnings],
            "seconds": {stage: round(seconds, 3) for stage, seconds in self.seconds.items()},
        }
        made = {"digest": state.model.digest, **{name: getattr(scorer, name) for name in Scorer.__dataclass_fields__}}
        splits = {name: {**one.as_dict(), "curve": one.curve.as_dict()} for name, one in evaluations.items()}
        if examples is not None:
            write_examples(self.round(state.round), examples, self.task)
        write_json(self.round(state.round) / "record.json", {**figures, "model": made, "evaluations": splits})
        self._keep_figures(state.round, figures)
        write_json(self.path / "state.json", {"round": state.round, "labels": len(state.labelled)})
        self.seconds.clear()

    def end(self, why: str) -> None:
        """Keep that the run came to its end before its last planned round, as it was told to or for want of pairs."""
        write_json(self.path / ENDED, {"round": self.last, "why": why})

    def keep_calibration(
        self, number: int, calibration: Mapping[str, Any], thresholds: Sequence[Mapping[str, Any]]
    ) -> None:
        """Put them into the scorer.json of a complete round's model, whose weights stay: an export carries them.

        A threshold takes the place of one that was chosen by the same rule before.
        """
        path = self.round(number) / "model" / "scorer.json"
        content = read_json(path, ["digest"])
        before = content.get("thresholds", [])
        if not isinstance(before, list) or not all(isinstance(one, dict) and "rule" in one for one in before):
            raise BadFile(f"{path}: its thresholds are no list of them; restore it")
        if content["digest"] != self.model(number).digest:
            raise BadFile(f"{path} is not of the model that the round made; restore it")
        anew = {one["rule"] for one in thresholds}
        kept = [one for one in before if one["rule"] not in anew]
        write_json(path, {**content, "calibration": dict(calibration), "thresholds": [*kept, *thresholds]})

    def keep_recall(self, share: float) -> None:
        """Keep what share of the truly nearest the index finds in the round under way: no search is repeated."""
        write_json(self.round(self.last + 1) / RECALL, {"index_recall": share})

    def _index_recall(self, number: int) -> float | None:
        path = self.round(number) / RECALL
        return read_json(path, ["index_recall"])["index_recall"] if path.exists() else None

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl, a round each."""
        path = self.path / "metrics.jsonl"
        if not path.exists():
            return []
        try:
            lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        except (OSError, ValueError, RecursionError) as error:
            raise BadFile(f"{path} cannot be read ({error}); restore it") from error
        for number, line in enumerate(lines, start=1):
            if not isinstance(line, dict) or not set(FIGURES) <= set(line) or line["round"] != number:
                raise BadFile(f"{path}:{number} is no line of round {number}; restore it")
        return lines

    def complete_rounds(self) -> list[dict[str, Any]]:
        """The lines of the rounds that state.json counts: of one that was interrupted there may be a line more."""
        return self.metrics()[: self.last]

    def _keep_figures(self, number: int, figures: Mapping[str, Any]) -> None:
        """A round that was interrupted just before state.json is written over, not twice."""
        lines = [line for line in self.metrics() if line["round"] < number]
        text = "".join(json.dumps(line) + "\n" for line in [*lines, figures])
        write_text(self.path / "metrics.jsonl", text)
        add_events(self.path / "events", figures)


def refuse_inside(path: Place, task: Place) -> None:
    """BadOption for a run in a folder of texts: its files would lie among those that are never to change."""
    place = path.resolve()
    there = (place / "task.json").exists() if isinstance(place, Uri) else os.path.exists(place / "task.json")
    if there or task.resolve() in (place, *place.parents):
        raise BadOption(f"{path} is a task folder or lies in one ({task}); give a run a folder of its own")


@contextmanager
def opened(path: Place, task: Task, patience: float = 0.0) -> Iterator[RunFolder]:
    """A run folder for writing, by one process at a time: the lock ends with the process, however that ends.

    patience: seconds to wait for another process that has it.
    """
    with locked(path, patience):
        yield RunFolder(path, task)


def last_round(path: Place) -> int:
    """The last complete round of a run folder, 0 before the first."""
    state = path / "state.json"
    last = read_json(state, ["round"])["round"] if state.exists() else 0
    if not isinstance(last, int) or isinstance(last, bool) or last < 0:
        raise BadFile(f"{state} counts {last!r} rounds; restore it")
    return last


def at_its_end(path: Place, config: RunConfig) -> bool:
    """Whether a run has all rounds of its config, or ended with those it has; new limits may let it go on."""
    last, mark = last_round(path), path / ENDED
    return last >= len(config.batches) or (last > 0 and mark.exists() and read_json(mark, ["round"])["round"] == last)


def bound_config(path: Place) -> RunConfig:
    """The config that a run folder is bound to; WrongFolder when it is no run folder."""
    if not (path / "config.json").is_file():
        raise WrongFolder(f"{path} holds no config.json; give the folder of a run (made by: python -m jobs.run)")
    content = read_json(path / "config.json", ["task_digest"])
    if "labels_digest" in content:
        raise WrongFolder(f"{path} holds a concatenation model (jobs.train); give the folder of a run")
    try:
        return from_dict(RunConfig, {name: value for name, value in content.items() if name != "task_digest"})
    except BadOption as error:
        raise BadFile(f"{path / 'config.json'}: {error} (restore it)") from error


def trained(path: Place, task: Task, option: str) -> tuple[RunConfig, RunFolder]:
    """The run of a folder that an option names, refused unless it is of this task and has a model."""
    config = bound_config(path)
    if read_json(path / "config.json", ["task_digest"])["task_digest"] != task.digest:
        raise BadOption(f"{option} {path} is a run of another task; give one of the same task")
    folder = RunFolder(path, task)
    if not folder.last:
        raise BadFile(f"{option} {path} has no complete round, and so no model; go on with it first")
    folder.refuse_lost(folder.last)
    return config, folder


def bought_by(path: Place) -> tuple[int, int]:
    """How many positives and negatives a run bought; BadOption for one that is not at its end."""
    config = bound_config(path)
    lines = RunFolder(path, read_task(place(config.task))).complete_rounds()
    if not lines or not at_its_end(path, config):
        raise BadOption(f"{path} has {len(lines)} of {len(config.batches)} rounds; run it to its end first")
    return int(lines[-1]["positives"]), int(lines[-1]["labels"] - lines[-1]["positives"])


def _headline(evaluations: Mapping[str, Evaluation]) -> dict[str, Any]:
    """The figures of dev where it was measured, else of the first split, else none."""
    split = first_of(evaluations)
    if split is None:
        return {"average_precision": None, "precision_at_recall_20": None, "calibration_error": None}
    first = evaluations[split]
    return {
        "average_precision": first.average_precision.value,
        "precision_at_recall_20": first.precision_at_recall_20.value,
        "calibration_error": first.calibration_error,
    }


def differences(stands: Mapping[str, Any], wanted: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """`option: there, here` for each option that is not the same."""
    for name in {**stands, **wanted}:
        there, here = stands.get(name), wanted.get(name)
        if isinstance(there, dict) and isinstance(here, dict):
            yield from differences(there, here, f"{prefix}{name}.")
        elif there != here:
            yield f"{prefix}{name}: {there!r} there, {here!r} here"
