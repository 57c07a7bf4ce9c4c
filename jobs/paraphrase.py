"""Question paraphrase retrieval: python -m jobs.paraphrase {train|index|search|evaluate|compare} ...

python -m jobs.prepare qqp --source quora.tsv --held-out-pairs 5000 --out TASK
python -m jobs.paraphrase train --task TASK --out RUN
python -m jobs.paraphrase index --run RUN
python -m jobs.paraphrase search --run RUN --question "How do I learn to swim?"
python -m jobs.paraphrase evaluate --run RUN --split dev
python -m jobs.paraphrase compare --runs RUN RUN --split dev
"""

import hashlib
import json
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import torch

from al_ray.core.config import generator
from al_ray.core.errors import BadOption
from al_ray.core.mining import Pool
from al_ray.core.negatives import Known
from al_ray.core.paraphrase import ParaphraseConfig, best
from al_ray.core.plain import as_dict
from al_ray.core.retrieval import unrelated
from al_ray.core.task import Task
from al_ray.core.words import same_text
from al_ray.data.clusters import components
from al_ray.data.paraphrase_folder import ParaphraseFolder
from al_ray.data.run_folder import refuse_inside
from al_ray.data.tables import read_task
from al_ray.model.checkpoint import NAME, Checkpoint
from al_ray.model.cnn import filters_of, is_cnn
from al_ray.model.encoders import TextEncoder, learn_words, untrained
from al_ray.model.paraphrase import MetricTraining, Paraphrases
from al_ray.model.tokens import Tokens
from al_ray.storage.lock import locked
from al_ray.storage.places import place
from al_ray.storage.whole import whole
from jobs import entry
from jobs.paraphrase_compare import Compare
from jobs.paraphrase_search import Evaluate, Index, Search
from jobs.progress import Progress


@dataclass(frozen=True, kw_only=True)
class Train(ParaphraseConfig):
    """Train an encoder on a task's positives; the same command goes on after the last whole epoch."""

    out: Path
    """Folder of the model: made if it is not there, gone on with if it is."""
    device: str = "cpu"
    """Where it is trained: cpu, or cuda:0."""

    def carry_out(self) -> None:
        """Train to the end, a line an epoch."""
        config = ParaphraseConfig(**{field.name: getattr(self, field.name) for field in fields(ParaphraseConfig)})
        check_device(self.device)
        if is_cnn(config.encoder):
            filters_of(config.encoder)
        task = one_sided(read_task(place(self.task)))
        refuse_inside(self.out, place(self.task))
        known = known_of(task, config)
        torch.set_num_threads(config.threads)
        with locked(self.out):
            folder = ParaphraseFolder(self.out)
            folder.bind(config, task)
            if folder.trained() is None:
                trained(folder, config, task, known, self.device)
            (self.out / NAME).unlink(missing_ok=True)
            top = best(folder.epochs())
            print(f"best epoch: {top.epoch}, ROC AUC {top.roc_auc:.4f} on dev; model: {folder.model}")


def trained(folder: ParaphraseFolder, config: ParaphraseConfig, task: Task, known: Paraphrases, device: str) -> None:
    """Train and save, from wherever the folder is."""
    folder.words.mkdir(exist_ok=True)
    texts = [task.left.texts[row] for row in task.split("train").space.left]
    learn_words(texts, config.encoding, folder.words, config.words)
    encoder = untrained(config.encoding, folder.words, device, config.seed)
    tokens = Tokens.of([ids for block in encoder.tokenise(task.left.texts) for ids in block])
    watch = Progress()
    content = json.dumps([as_dict(config), task.digest])
    checkpoint = Checkpoint(folder.path / NAME, hashlib.sha256(content.encode()).hexdigest(), 0.0)
    for epoch in MetricTraining(encoder, tokens, known, config, watch).epochs(folder.epochs(), checkpoint):
        watch.close()
        folder.add(epoch)
        figures = f"epoch {epoch.epoch}: loss {epoch.loss:.4f}, dev ROC AUC {epoch.roc_auc:.4f}"
        print(f"{figures} ({epoch.batches} batches, {epoch.seconds:.0f} s)", flush=True)
    save(encoder, folder)


def save(encoder: TextEncoder, folder: ParaphraseFolder) -> None:
    """Write the model with its best epoch's figures, whole or not at all."""
    top = best(folder.epochs())
    with whole(folder.model) as aside:
        encoder.save(aside)
        about = {"epoch": top.epoch, "roc_auc": top.roc_auc, "digest": encoder.digest()}
        (aside / "model.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def one_sided(task: Task) -> Task:
    """The task, if it is one set of questions."""
    if not task.symmetric:
        raise BadOption(f"--task {task.name} has two sides, and paraphrases are of one set of questions; give another")
    return task


def known_of(task: Task, config: ParaphraseConfig) -> Paraphrases:
    """The pairs to learn from, and those of dev to watch: its positives, and random pairs of different clusters."""
    pairs, dev = task.measurable("train").positives, task.measurable("dev")
    component = components(len(task.left), np.concatenate([pairs, dev.positives]))
    rows, count = dev.space.left, config.negatives * len(dev.positives)
    drawn = unrelated(component[rows], count, generator(config.seed, "paraphrase-dev"))
    if not len(drawn):
        raise BadOption(f"the dev split of task {task.name!r} is one cluster; prepare a task with more dev questions")
    pool = Pool(task.left.texts, np.unique(pairs[:, 0]), task.split("train").space.left)
    same = same_text(task.left.texts)
    _, first = np.unique(same, return_index=True)
    # Questions of the same letters are no negatives of each other, whatever their ids.
    alike = np.stack([np.arange(len(same)), first[same]], axis=1)
    known = Known(pairs, components(len(task.left), np.concatenate([pairs, alike])))
    return Paraphrases(pairs, component[pairs[:, 0]], dev.positives, rows[drawn], pool, known)


def check_device(device: str) -> None:
    """BadOption for what is no device of this machine."""
    if device != "cpu" and not (device.startswith("cuda") and torch.cuda.is_available()):
        raise BadOption(f"--device {device} is not here; give cpu, or cuda:0 on a machine with a GPU")


def main() -> None:
    """Read the options and do it."""
    about = "Question paraphrase retrieval: train an encoder by metric learning, index questions, search among them."
    entry.options(Train | Index | Search | Evaluate | Compare, "paraphrase", about).carry_out()


if __name__ == "__main__":
    entry.job(main)
