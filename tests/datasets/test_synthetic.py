"""The synthetic task: its laws at any size, and that its words cannot collide."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from al_ray.core.errors import BadOption
from al_ray.core.graph import components
from al_ray.core.task import SPLITS
from al_ray.datasets.splitting import pairs_within
from al_ray.datasets.synthetic import ENTITIES, LEAST, MOST, SIZES, synthetic_task
from al_ray.datasets.synthetic_vocabulary import DOMAINS, ENDS, STARTS


@given(st.integers(LEAST, 3000), st.integers(0, 3))
@settings(max_examples=15, deadline=None)
def test_any_size_and_seed_gives_a_sound_task(texts, seed):
    task = synthetic_task(texts, seed)
    splits = [task.splits[name] for name in SPLITS]
    assert task.symmetric
    assert len(task.left) == len(set(task.left.texts)) == len(set(task.left.ids)) == texts, "exact and distinct"
    rows = np.concatenate([split.space.left for split in splits])
    assert np.array_equal(np.sort(rows), np.arange(texts)), "each text has one split"
    for split in splits:
        for pairs in (split.positives, split.stated_negatives):
            assert split.space.holds(pairs).all(), "a split's pairs are its own"
        assert not set(split.space.keys(split.positives)) & set(split.space.keys(split.stated_negatives))
        component = components(texts, split.positives)
        assert np.array_equal(pairs_within(component), split.positives), "positives are closed"
        assert np.bincount(component).max() <= len(SIZES)
    positives = sum(len(split.positives) for split in splits)
    assert sum(len(split.stated_negatives) for split in splits) == positives, "near misses: as many as positives"


def test_splits_share_the_texts_half_and_quarters():
    task = synthetic_task(4000, 0)
    # A family has at most 6 cells of 6 questions.
    found = [len(task.splits[name].space.left) for name in SPLITS]
    assert np.abs(np.array(found) - [2000, 1000, 1000]).max() <= 36


def test_the_seed_decides_all():
    one, again, other = (synthetic_task(1000, seed) for seed in (0, 0, 1))
    assert one.digest == again.digest
    assert one.left.texts == again.left.texts
    assert len(set(one.left.texts) & set(other.left.texts)) < 10


def test_the_task_that_results_were_measured_on_is_the_same_for_ever():
    # Whoever changes this digest makes every earlier synthetic result incomparable: say so in docs/results.md.
    assert synthetic_task(4000, 0).digest[:12] == "f7ef676d66f8"


def test_positives_are_one_in_about_n():
    task = synthetic_task(4000, 0)
    positives = sum(len(task.splits[name].positives) for name in SPLITS)
    # Sum of s(s-1) p(s) = 1.23 over sum of s p(s) = 1.357: 0.906 partners a text, counted twice in 4000 texts.
    assert positives == pytest.approx(4000 * 0.906 / 2, rel=0.1)


@pytest.mark.parametrize("texts", [0, LEAST - 1, MOST + 1])
def test_a_size_that_cannot_be_is_refused(texts):
    with pytest.raises(BadOption, match=f"--texts is {texts}; give {LEAST} to {MOST}"):
        synthetic_task(texts, 0)


def test_words_cannot_collide():
    names = [start + end for start in STARTS for end in ENDS]
    assert len(names) == len(set(names))
    for domain in DOMAINS:
        assert len(domain.kinds) == len(set(domain.kinds))
        assert len(domain.variants) == len(set(domain.variants))
        phrases = [phrase for intent in domain.intents for phrase in intent]
        assert len(phrases) == len(set(phrases))
        assert all(phrase.count("{x}") == 1 for phrase in phrases)
        assert all(frame.count("{}") == 1 for frame in domain.frames)
        assert {len(intent) for intent in domain.intents} == {len(SIZES)}
    assert len({(len(domain.intents), len(domain.frames)) for domain in DOMAINS}) == 1, "templates are one table"


def test_there_are_entities_enough_for_the_largest_task():
    names = len(STARTS) * len(ENDS)
    least = min(names * len(domain.kinds) * (len(domain.variants) // ENTITIES) for domain in DOMAINS)
    # 6 cells of 1.357 questions make a family of 8.1; five domains share the families.
    assert least > 1.1 * MOST / 8.1 / len(DOMAINS)
