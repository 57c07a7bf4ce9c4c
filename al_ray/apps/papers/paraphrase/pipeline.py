"""Train a paraphrase model, resuming from its folder, and save its best epoch."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import torch

from al_ray.apps.papers.paraphrase.folder import ParaphraseFolder
from al_ray.apps.papers.paraphrase.options import Epoch, ParaphraseConfig, best_epoch
from al_ray.apps.papers.paraphrase.pairs import known_of, one_sided
from al_ray.apps.papers.paraphrase.training import MetricTraining, Paraphrases
from al_ray.core.config.encoder import is_cnn
from al_ray.core.config.serialization import as_dict
from al_ray.core.errors import BadOption
from al_ray.core.naming import option
from al_ray.core.progress import OnProgress
from al_ray.core.task import Task, strings_at
from al_ray.datasets.task_folder import read_task
from al_ray.encoders.cnn import filters_of
from al_ray.encoders.encoder import TextEncoder, learn_words, untrained
from al_ray.encoders.hardware import settle_arithmetic, settle_training
from al_ray.runs.place import check_outside_task
from al_ray.storage.atomic_folder import whole
from al_ray.storage.lock import locked
from al_ray.storage.uri import storage_path
from al_ray.training.checkpoint import NAME, Checkpoint


def train(
    config: ParaphraseConfig, out: Path, device: str, watch: OnProgress, on_epoch: Callable[[Epoch], None]
) -> ParaphraseFolder:
    """Train an encoder on a task's positives, unless it is trained; call it again to resume after the last whole epoch.

    device: "cpu", or "cuda:0".
    """
    config.check_unused_options()
    check_device(device)
    settle_arithmetic()
    settle_training(device)
    if is_cnn(config.encoder):
        filters_of(config.encoder)
    elif config.words != ParaphraseConfig.words:
        raise BadOption(f"`words` is for `encoder='cnn'`, and that is {config.encoder}; leave it out")
    task = one_sided(read_task(storage_path(config.task)))
    check_outside_task(out, storage_path(config.task))
    known = known_of(task, config)
    torch.set_num_threads(config.threads)
    with locked(out):
        folder = ParaphraseFolder(out)
        folder.bind(config, task)
        if folder.trained() is None:
            encoder, training, checkpoint = _training(folder, config, task, known, device, watch)
            for epoch in training.epochs(folder.epochs(), checkpoint):
                folder.add(epoch)
                on_epoch(epoch)
            save(encoder, folder)
        (out / NAME).unlink(missing_ok=True)
    return folder


def _training(
    folder: ParaphraseFolder, config: ParaphraseConfig, task: Task, known: Paraphrases, device: str, watch: OnProgress
) -> tuple[TextEncoder, MetricTraining, Checkpoint]:
    """Return the encoder, its training, and the checkpoint from which the training resumes."""
    folder.words.mkdir(exist_ok=True)
    texts = strings_at(task.left.texts, task.split("train").space.left)
    learn_words(texts, config.encoding, folder.words, config.words)
    encoder = untrained(config.encoding, folder.words, device, config.seed)
    encoder.use_left_prompt()
    tokens = encoder.tokenise(task.left.texts)
    content = json.dumps([as_dict(config), task.digest])
    checkpoint = Checkpoint(folder.path / NAME, hashlib.sha256(content.encode()).hexdigest(), 0.0)
    return encoder, MetricTraining(encoder, tokens, known, config, watch), checkpoint


def save(encoder: TextEncoder, folder: ParaphraseFolder) -> None:
    """Write the model and the results of its best epoch, atomically."""
    top = best_epoch(folder.epochs())
    with whole(folder.model) as aside:
        encoder.save(aside)
        about = {"epoch": top.epoch, "roc_auc": top.roc_auc, "digest": encoder.digest()}
        (aside / "model.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def check_device(device: str) -> None:
    """Raise BadOption for a device that this machine does not have."""
    if device != "cpu" and not (device.startswith("cuda") and torch.cuda.is_available()):
        raise BadOption(f"{option('device', device)} is not here; give cpu, or cuda:0 on a machine with a GPU")
