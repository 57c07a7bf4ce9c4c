"""The folder of one paraphrase model: its one writer and its readers.

config.json              training options, and the digest of the task
metrics.jsonl            one line per epoch
words/                   vocabulary of the untrained encoder
training.safetensors     checkpoint during training
model/                   the encoder of the best epoch, and model.json: which epoch, its ROC AUC, and the digest
index/                   index-000.faiss (one per shard), index.json, questions.parquet (id, text; by place)
evaluation-SPLIT.json    results of a search
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from al_ray.apps.papers.paraphrase.options import Epoch, ParaphraseConfig
from al_ray.core.config.serialization import as_dict, from_dict
from al_ray.core.errors import BadFile, BadOption, WrongFolder
from al_ray.core.naming import command
from al_ray.core.task import Corpus, Task
from al_ray.datasets.corpus_file import read_corpus, write_corpus
from al_ray.datasets.task_folder import read_task
from al_ray.storage.files import read_json, write_root, write_text
from al_ray.storage.uri import storage_path

QUESTIONS, ABOUT = "questions.parquet", "index.json"


class ParaphraseFolder:
    """A local folder: Faiss reads and writes local files only."""

    def __init__(self, path: Path) -> None:
        """path: the folder, which need not exist."""
        self.path = path
        self.model, self.index, self.words = path / "model", path / "index", path / "words"

    def bind(self, config: ParaphraseConfig, task: Task) -> None:
        """Write config.json; WrongFolder if an epoch was trained with other options or another task."""
        path, content = self.path / "config.json", {**as_dict(config), "task_digest": task.digest}
        # Options that are newer than the folder have their defaults there.
        defaults = as_dict(ParaphraseConfig(task=config.task))
        stored = {**defaults, **read_json(path)} if path.exists() else {}
        other = sorted(name for name in {**stored, **content} if stored.get(name) != content.get(name))
        # The task may have another path, as on another machine.
        refused = other if stored.get("task_digest") != task.digest else [name for name in other if name != "task"]
        if stored and refused and self.epochs():
            raise WrongFolder(
                f"{self.path} was trained with other options ({', '.join(refused)}); give another `out`, or those of "
                f"{path.name}"
            )
        if other:
            write_root(path, content)

    def config(self) -> ParaphraseConfig:
        """Read the options of the training."""
        path = self.path / "config.json"
        if not path.is_file():
            raise WrongFolder(f"{self.path} holds no paraphrase model; make one: `al-ray paraphrase train --help`")
        content = read_json(path, ["task_digest"])
        try:
            return from_dict(ParaphraseConfig, {name: content[name] for name in content if name != "task_digest"})
        except BadOption as error:
            raise BadFile(f"{path}: {error}; restore it") from error

    def task(self) -> Task:
        """Read the task; WrongFolder if it is not the one the model was trained on."""
        task = read_task(storage_path(self.config().task))
        if task.digest != self.task_digest():
            raise WrongFolder(f"{self.config().task} is not the task that {self.path} was made of; restore it")
        return task

    def task_digest(self) -> str:
        """Read the digest of the task the model was trained on."""
        return read_json(self.path / "config.json", ["task_digest"])["task_digest"]

    def epochs(self) -> list[Epoch]:
        """Read the results of all epochs so far."""
        path = self.path / "metrics.jsonl"
        if not path.exists():
            return []
        try:
            return [from_dict(Epoch, json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
        except (OSError, ValueError, BadOption) as error:
            raise BadFile(f"{path} cannot be read ({error}); restore it, or start again in another `out`") from error

    def add(self, epoch: Epoch) -> None:
        """Write an epoch's line after those of earlier epochs."""
        lines = [*self.epochs()[: epoch.epoch - 1], epoch]
        write_text(self.path / "metrics.jsonl", "".join(json.dumps(asdict(line)) + "\n" for line in lines))

    def trained(self) -> dict[str, Any] | None:
        """Read model.json: `epoch`, `roc_auc`, `digest`; None before training has ended."""
        path = self.model / "model.json"
        return read_json(path, ["epoch", "roc_auc", "digest"]) if path.exists() else None

    def indexed(self) -> tuple[dict[str, Any], Corpus]:
        """Read index.json (`index`, `nprobe`, `recall`, `digest` of the model ...) and the questions by place."""
        path, model = self.index / ABOUT, self.trained()
        if model is None or not path.exists():
            of_index, of_training = self._again, command("paraphrase train", out=self.path)
            lacks, make = ("index", of_index) if model else ("trained model", of_training)
            raise WrongFolder(f"{self.path} has no {lacks}; make it: {make}")
        about = read_json(path, ["index", "nprobe", "digest", "shards", "shared_storage"])
        if about["digest"] != model["digest"] or "recall" not in about:
            fault = "was never measured" if about["digest"] == model["digest"] else "is of another model"
            raise WrongFolder(f"{self.index} {fault}; make it again: {self._again}")
        try:
            return about, read_corpus(self.index / QUESTIONS)
        except BadFile as error:
            reason = str(error).partition(";")[0]
            raise BadFile(f"{reason}; make it again: {self._again}") from error

    @property
    def _again(self) -> str:
        """Return the command that makes the index."""
        return command("paraphrase index", run=self.path)

    def evaluation(self, split: str) -> dict[str, Any]:
        """Read the results of a search for a split's questions; WrongFolder if there are none."""
        path = self.path / f"evaluation-{split}.json"
        if not path.exists():
            measure = command("paraphrase evaluate", run=self.path, split=split)
            raise WrongFolder(f"{self.path} was not measured on {split}: {measure}")
        results = read_json(path, ["precision_at_1", "precision_at_10", "mean_reciprocal_rank", "query", "index"])
        if "recall" not in results["index"]:
            raise WrongFolder(f"{path} is by an index that was never measured; index and evaluate again: {self._again}")
        return results


def write_about(folder: Path, about: dict[str, Any], questions: Corpus) -> None:
    """Write index.json and the questions into an existing index folder."""
    write_corpus(questions, folder / QUESTIONS)
    write_root(folder / ABOUT, about)
