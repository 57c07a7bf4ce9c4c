"""The folder of one paraphrase model: its one writer and its readers.

config.json              the training's options, and the digest of the task
metrics.jsonl            a line an epoch
words/                   what an untrained encoder must know of the task
training.safetensors     while it trains: where it goes on from
model/                   the encoder of the best epoch, and model.json: which epoch, its ROC AUC, and the digest
index/                   index-000.faiss (and more, one a shard), index.json, questions.parquet (id, text; by place)
evaluation-SPLIT.json    figures of a search
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from al_ray.core.errors import BadFile, BadOption, WrongFolder
from al_ray.core.paraphrase import Epoch, ParaphraseConfig
from al_ray.core.plain import as_dict, from_dict
from al_ray.core.task import Corpus, Task
from al_ray.data.files import read_json, write_json, write_text
from al_ray.data.tables import read_corpus, read_task, write_corpus
from al_ray.storage.places import place

QUESTIONS, ABOUT = "questions.parquet", "index.json"


class ParaphraseFolder:
    """A folder on a disk; Faiss reads and writes no other place."""

    def __init__(self, path: Path) -> None:
        """Nothing is read yet."""
        self.path = path
        self.model, self.index, self.words = path / "model", path / "index", path / "words"

    def bind(self, config: ParaphraseConfig, task: Task) -> None:
        """Write config.json, or hold this config and task against those that stand there: WrongFolder."""
        path, wanted = self.path / "config.json", {**as_dict(config), "task_digest": task.digest}
        if not path.exists():
            write_json(path, wanted)
            return
        # An option that there was none of yet had what is now its default.
        stands = {**as_dict(ParaphraseConfig(task=config.task)), **read_json(path)}
        other = sorted(name for name in {**stands, **wanted} if stands.get(name) != wanted.get(name))
        if other and self.epochs():
            raise WrongFolder(
                f"{self.path} was trained with other options ({', '.join(other)}); give another --out, or those of "
                f"{path.name}"
            )
        if other:
            write_json(path, wanted)

    def config(self) -> ParaphraseConfig:
        """The options that it was made with."""
        path = self.path / "config.json"
        if not path.is_file():
            raise WrongFolder(
                f"{self.path} holds no paraphrase model; make one: python -m jobs.paraphrase train --help"
            )
        content = read_json(path, ["task_digest"])
        try:
            return from_dict(ParaphraseConfig, {name: content[name] for name in content if name != "task_digest"})
        except BadOption as error:
            raise BadFile(f"{path}: {error}; restore it") from error

    def task(self) -> Task:
        """The task that it was made of; WrongFolder when another one stands there."""
        found = read_task(place(self.config().task))
        if found.digest != self.task_digest():
            raise WrongFolder(f"{self.config().task} is not the task that {self.path} was made of; restore it")
        return found

    def task_digest(self) -> str:
        """The digest of the task that it was made of."""
        return read_json(self.path / "config.json", ["task_digest"])["task_digest"]

    def epochs(self) -> list[Epoch]:
        """The epochs so far, none before the first."""
        path = self.path / "metrics.jsonl"
        if not path.exists():
            return []
        try:
            return [from_dict(Epoch, json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
        except (OSError, ValueError, BadOption) as error:
            raise BadFile(f"{path} cannot be read ({error}); restore it, or start again in another --out") from error

    def add(self, epoch: Epoch) -> None:
        """Write an epoch's line, after those before it."""
        lines = [*self.epochs()[: epoch.epoch - 1], epoch]
        write_text(self.path / "metrics.jsonl", "".join(json.dumps(asdict(line)) + "\n" for line in lines))

    def trained(self) -> dict[str, Any] | None:
        """What model.json says: `epoch`, `roc_auc`, `digest`; None before the training's end."""
        path = self.model / "model.json"
        return read_json(path, ["epoch", "roc_auc", "digest"]) if path.exists() else None

    def indexed(self) -> tuple[dict[str, Any], Corpus]:
        """What index.json says (`index`, `nprobe`, `recall`, `digest` of the model ...), and the questions by place."""
        path, model = self.index / ABOUT, self.trained()
        if model is None or not path.exists():
            lacks, job = ("index", "index --run") if model else ("trained model", "train --out")
            raise WrongFolder(f"{self.path} has no {lacks}; make it: python -m jobs.paraphrase {job} {self.path}")
        about = read_json(path, ["index", "nprobe", "digest", "shards", "shared_storage"])
        if about["digest"] != model["digest"] or "recall" not in about:
            fault = "was never measured" if about["digest"] == model["digest"] else "is of another model"
            raise WrongFolder(f"{self.index} {fault}; make it again: jobs.paraphrase index --run {self.path}")
        try:
            return about, read_corpus(self.index / QUESTIONS)
        except BadFile as error:
            reason = str(error).partition(";")[0]
            raise BadFile(f"{reason}; make it again: python -m jobs.paraphrase index --run {self.path}") from error

    def evaluation(self, split: str) -> dict[str, Any]:
        """The figures of a search for a split's questions; WrongFolder before they were taken."""
        path = self.path / f"evaluation-{split}.json"
        if not path.exists():
            raise WrongFolder(
                f"{self.path} was not measured on {split}: python -m jobs.paraphrase evaluate --run {self.path} "
                f"--split {split}"
            )
        found = read_json(path, ["precision_at_1", "precision_at_10", "mean_reciprocal_rank", "query", "index"])
        if "recall" not in found["index"]:
            raise WrongFolder(
                f"{path} is by an index that was never measured; index and evaluate again: python -m jobs.paraphrase "
                f"index --run {self.path}"
            )
        return found


def write_about(folder: Path, about: dict[str, Any], questions: Corpus) -> None:
    """Write what stands beside an index, into a folder that exists."""
    write_corpus(questions, folder / QUESTIONS)
    write_json(folder / ABOUT, about)
