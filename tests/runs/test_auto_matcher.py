"""--matcher auto: on for several fields, off for one text; a folder that has begun keeps its choice.

So it is with --candidates.more-of-dense auto.
"""

import json
import logging
from dataclasses import replace

import numpy as np
import pytest

from al_ray.active_learning.config import RunConfig
from al_ray.apps.grid.folder import GridFolder
from al_ray.apps.grid.spec import Axes
from al_ray.core.config.sections import MORE, CandidatesConfig, SearchConfig, TrainingConfig
from al_ray.core.errors import BadOption
from al_ray.core.task import Corpus, Fields, Task
from al_ray.runs.auto_matcher import with_dense_chosen, with_matcher_chosen, without_auto
from al_ray.runs.run_folder import RunFolder, bound_config

AUTO = RunConfig(task="task", matcher="auto")


def with_fields(task: Task, left: int, right: int) -> Task:
    """The task with so many fields of each side, the first of which is the whole text; 0: none are known."""
    sides = list[Corpus]()
    for corpus, count in ((task.left, left), (task.right, right)):
        lengths = np.zeros((len(corpus), max(1, count)), dtype=np.int64)
        lengths[:, 0] = [len(text) for text in corpus.texts]
        names = tuple(f"column{number}" for number in range(count))
        sides.append(replace(corpus, fields=Fields(names, lengths, ("text",) * count) if count else None))
    return replace(task, left=sides[0], right=sides[0] if task.symmetric else sides[1])


@pytest.fixture
def plain(make_task) -> Task:
    return make_task(False)


@pytest.mark.parametrize(
    ("left", "right", "choice", "reason"),
    [
        (2, 2, "on", "because the texts of both sides have 2 fields: column0 (text), column1 (text)"),
        (1, 1, "off", "because the texts of both sides have one field: column0 (text)"),
        (3, 2, "off", "because the two sides do not have the same fields"),
        (0, 0, "off", "because each text is one column"),
        (2, 0, "off", "because each text is one column"),
    ],
)
def test_fields_decide_and_the_log_says_why_and_what_changes_it(plain, caplog, left, right, choice, reason):
    caplog.set_level(logging.INFO)
    assert with_matcher_chosen(AUTO, with_fields(plain, left, right), None) == replace(AUTO, matcher=choice)
    other = "`matcher='off'` trains the encoder" if choice == "on" else "`matcher='on'` compares the whole texts"
    assert caplog.messages == [f"`matcher='auto'` is {choice}, {reason}; {other}"]


def test_fields_of_one_set_of_texts_count_once(make_task):
    assert with_matcher_chosen(AUTO, with_fields(make_task(True), 2, 2), None).matcher == "on"


@pytest.mark.parametrize("given", ["on", "off"])
def test_what_is_given_is_kept_without_a_word(plain, caplog, given):
    caplog.set_level(logging.INFO)
    config = replace(AUTO, matcher=given)
    assert with_matcher_chosen(config, with_fields(plain, 2, 2), replace(AUTO, matcher="off")) is config
    assert caplog.messages == []


def test_an_option_that_the_choice_cannot_use_is_refused_with_both_reasons(plain):
    config = replace(AUTO, training=TrainingConfig(epochs=7))
    assert with_matcher_chosen(config, plain, None).training.epochs == 7
    words = r"`matcher='auto'` is on here, because .* 2 fields.* leave out all options of .*or give `matcher='off'`"
    with pytest.raises(BadOption, match=words):
        with_matcher_chosen(config, with_fields(plain, 2, 2), None)


def test_a_run_that_has_begun_keeps_its_choice_whatever_the_task_is_now(plain, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    config = replace(AUTO, search=SearchConfig(kind="auto"))
    settled = without_auto(config, plain, tmp_path)
    assert (settled.matcher, settled.search.kind) == ("off", "exact")
    RunFolder(tmp_path, plain).bind(settled)
    assert json.loads((tmp_path / "config.json").read_text())["matcher"] == "off"
    # No pair is chosen yet.
    assert without_auto(config, with_fields(plain, 2, 2), tmp_path).matcher == "on"
    (tmp_path / "round-001").mkdir()
    assert without_auto(config, with_fields(plain, 2, 2), tmp_path) == settled == bound_config(tmp_path)
    assert caplog.messages[-1] == "`matcher='auto'` is off, as this folder began; `matcher='on'` needs another `out`"


def test_a_grid_keeps_the_choice_of_its_first_start(plain, tmp_path):
    folder = GridFolder(tmp_path)
    assert folder.options() is None
    first = with_matcher_chosen(AUTO, plain, folder.options())
    folder.bind(Axes(("uncertainty",), (0,), (AUTO.encoder,), ()), first, (), plain.digest)
    assert folder.options() == first
    assert with_matcher_chosen(AUTO, with_fields(plain, 2, 2), folder.options()).matcher == "off"


def test_a_new_run_stores_how_much_dense_texts_add_and_one_of_before_the_option_adds_as_it_did(plain, tmp_path):
    config = replace(AUTO, matcher="on")
    settled = without_auto(config, plain, tmp_path)
    assert (settled.candidates.more_of_dense, settled.candidates.more) == (MORE, MORE)
    given = replace(config, candidates=CandidatesConfig(more_of_dense=0.5))
    assert without_auto(given, plain, tmp_path).candidates.more == 0.5
    RunFolder(tmp_path, plain).bind(settled)
    (tmp_path / "round-001").mkdir()
    assert without_auto(config, plain, tmp_path) == bound_config(tmp_path) == settled
    stored = json.loads((tmp_path / "config.json").read_text())
    del stored["candidates"]["more_of_dense"]
    (tmp_path / "config.json").write_text(json.dumps(stored))
    old = without_auto(config, plain, tmp_path)
    assert old == bound_config(tmp_path)
    assert old.candidates.more == 0
    RunFolder(tmp_path, plain).check_same_run(old)


def test_all_new_runs_of_a_grid_have_the_same_dense_texts_and_without_a_matcher_there_are_none(plain, tmp_path):
    folder = GridFolder(tmp_path)
    on = replace(AUTO, matcher="on")
    first = with_dense_chosen(on, folder.options())
    assert first.candidates.more == MORE
    folder.bind(Axes(("uncertainty",), (0,), (AUTO.encoder,), ()), first, (), plain.digest)
    assert with_dense_chosen(on, folder.options()) == first
    off = replace(AUTO, matcher="off")
    assert with_dense_chosen(off, None) == off
