"""Questions of the same text under several ids, as own tables and QQP have them, are one question."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from al_ray.apps.papers.paraphrase.batching import separate_batches
from al_ray.apps.papers.paraphrase.evaluation import search_metrics
from al_ray.apps.papers.paraphrase.index import SearchResult
from al_ray.apps.papers.paraphrase.options import ParaphraseConfig
from al_ray.apps.papers.paraphrase.pairs import known_of
from al_ray.core.pairs import PairSpace, as_pairs
from al_ray.core.task import Corpus, Split, Task
from al_ray.datasets.task_folder import sealed

# In each split 12 meanings, of which each was asked in two ways and each way twice: rows 4m to 4m + 3. Labelled are
# 4m, 4m + 1 and 4m + 2, 4m + 3, so that nothing but their texts says that they mean the same.
MEANINGS = 12
TEXTS = tuple(f"{way} {split}{meaning}" for split in "ab" for meaning in range(MEANINGS) for way in ("how", "Why") * 2)


def doubled_task() -> Task:
    texts, splits = Corpus(tuple(f"q{row}" for row in range(len(TEXTS))), TEXTS), dict[str, Split]()
    for name, start in (("train", 0), ("dev", 4 * MEANINGS)):
        rows = np.arange(start, start + 4 * MEANINGS)
        space = PairSpace(rows, rows, len(TEXTS), True)
        splits[name] = Split(name, space, as_pairs(rows[::2], rows[1::2]), as_pairs([], []))
    return sealed("doubled", True, texts, texts, splits)


class ByMeaning:
    """Searches as a perfect model would: the nearest are those of the same meaning, the last rows first."""

    def nearest(self, texts: Sequence[str], count: int) -> SearchResult:
        meaning = np.array([text.split()[1] for text in TEXTS])
        rows = np.arange(len(TEXTS))
        asked = [text.split()[1] for text in texts]
        places = np.stack([np.lexsort((-rows, meaning != one))[:count] for one in asked])
        return SearchResult(np.zeros(places.shape, np.float32), places, 1.0, 1.0)


def test_a_perfect_model_is_right_about_paraphrases_under_other_ids():
    questions: Any = ByMeaning()
    found = search_metrics(doubled_task(), "dev", questions, 1)
    assert (found["queries"], found["queries_left_out"]) == (4 * MEANINGS, 0)
    assert (found["precision_at_1"], found["mean_reciprocal_rank"]) == (1.0, 1.0)


def test_paraphrases_by_equal_texts_are_negatives_neither_in_a_batch_nor_in_dev():
    known = known_of(doubled_task(), ParaphraseConfig(task="doubled"))
    meaning = np.array([text.split()[1] for text in TEXTS])
    for rows in separate_batches(known.component, 2 * MEANINGS, np.random.default_rng(0)):
        assert len(set(meaning[known.pairs[rows, 0]])) == len(rows)
    assert len(known.negatives)
    assert (meaning[known.negatives[:, 0]] != meaning[known.negatives[:, 1]]).all()


def with_a_text_of_train_in_dev() -> Task:
    """The doubled task, in which the first question of dev, of meaning b0, is one of train, of meaning a0."""
    task = doubled_task()
    texts = list(TEXTS)
    texts[4 * MEANINGS] = TEXTS[0]
    corpus = Corpus(task.left.ids, tuple(texts))
    return sealed("shared", True, corpus, corpus, task.splits)


def test_questions_of_dev_that_train_has_too_are_left_out():
    questions: Any = ByMeaning()
    found = search_metrics(with_a_text_of_train_in_dev(), "dev", questions, 1)
    assert (found["queries"], found["queries_left_out"]) == (4 * MEANINGS - 1, 1)


def test_a_label_of_dev_does_not_join_two_clusters_of_train():
    task = doubled_task()
    known = known_of(task, ParaphraseConfig(task="doubled"))
    texts = list(TEXTS)
    # Dev says that a question of meaning a0 and one of meaning a1 match.
    texts[4 * MEANINGS], texts[4 * MEANINGS + 1] = TEXTS[0], TEXTS[4]
    corpus = Corpus(task.left.ids, tuple(texts))
    joined = known_of(sealed("joined", True, corpus, corpus, task.splits), ParaphraseConfig(task="joined"))
    # As many clusters, whatever their numbers.
    assert len(np.unique(joined.component)) == len(np.unique(known.component)) == MEANINGS
