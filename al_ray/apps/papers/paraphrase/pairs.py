"""The pairs that a paraphrase model is trained and evaluated on."""

import numpy as np

from al_ray.apps.papers.mining.miners import Pool
from al_ray.apps.papers.mining.negatives import KnownMatches
from al_ray.apps.papers.paraphrase.batching import random_negative_pairs
from al_ray.apps.papers.paraphrase.options import ParaphraseConfig
from al_ray.apps.papers.paraphrase.training import Paraphrases
from al_ray.core.errors import BadOption
from al_ray.core.graph import components_of_texts
from al_ray.core.naming import option
from al_ray.core.rng import generator
from al_ray.core.task import Task
from al_ray.core.text import same_text


def one_sided(task: Task) -> Task:
    """Return the task; BadOption unless it is one set of questions."""
    if not task.symmetric:
        raise BadOption(
            f"{option('task', task.name)} has two sides, and paraphrases are of one set of questions; give another"
        )
    return task


def known_of(task: Task, config: ParaphraseConfig) -> Paraphrases:
    """Return the positives of train, and of dev the positives and random pairs of different clusters."""
    pairs, dev = task.with_known_pairs("train").positives, task.with_known_pairs("dev")
    texts = tuple(task.left.texts)
    # Questions with the same text are no negatives of each other, whatever their ids.
    same = same_text(texts)
    component = components_of_texts(same, np.concatenate([pairs, dev.positives]))
    rows, count = dev.space.left, config.negatives * len(dev.positives)
    negatives = random_negative_pairs(component[rows], count, generator(config.seed, "paraphrase-dev"))
    if not len(negatives):
        raise BadOption(f"the dev split of task {task.name!r} is one cluster; prepare a task with more dev questions")
    pool = Pool(texts, np.unique(pairs[:, 0]), task.split("train").space.left)
    known = KnownMatches(pairs, components_of_texts(same, pairs))
    # Labels of dev decide nothing in training, not even which texts are negatives of each other.
    return Paraphrases(pairs, known.component[pairs[:, 0]], dev.positives, rows[negatives], pool, known)
