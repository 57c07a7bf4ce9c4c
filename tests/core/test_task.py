"""What a task says of a split that it lacks: the fix is an option of a job that has it."""

from dataclasses import replace

import pytest

from al_ray.core.errors import MissingSplit


def test_a_split_without_pairs_may_be_left_out_of_what_is_measured(task):
    with pytest.raises(MissingSplit) as error:
        task.split("test")
    assert "has no test pairs (it has: train, dev); name another split" in str(error.value)
    assert "`OwnTexts.split`" in str(error.value)
    assert "`RunConfig.evaluation.splits` without a name" in str(error.value)


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("train", "or let people or a program label (`RunConfig.oracle='file'`, or `oracle='module:function'`)"),
        (
            "dev",
            "name another split, or label a sample (`RunConfig.evaluation.splits=[]` `dev_labels=N`, "
            "`AuditConfig.by_score=True`), or run without a measurement (`RunConfig.evaluation.splits` without a name)",
        ),
    ],
)
def test_a_split_without_positives_names_the_job_whose_option_helps(task, name, fix):
    bare = {one.name: replace(one, positives=one.positives[:0]) for one in task.splits.values()}
    with pytest.raises(MissingSplit) as error:
        replace(task, splits=bare).measurable(name)
    assert f"the {name} split of task 'small' has no positive pair" in str(error.value)
    assert str(error.value).endswith(fix)


@pytest.mark.parametrize("name", ["train", "dev", "test"])
def test_a_job_that_needs_known_pairs_names_the_job_that_prepares_them(task, name):
    assert task.with_known_pairs("train") is task.splits["train"]
    bare = {one.name: replace(one, positives=one.positives[:0]) for one in task.splits.values()}
    with pytest.raises(
        MissingSplit, match=rf"the {name} split of .* no positive pair; prepare .*\(`al_ray\.prepare`\)$"
    ):
        replace(task, splits=bare).with_known_pairs(name)


@pytest.mark.parametrize(
    ("name", "fix"), [("train", "`RunConfig.oracle='file'`"), ("dev", "`AuditConfig.by_score=True`")]
)
def test_a_pair_without_a_label_is_no_negative_where_labels_are_partial(task, name, fix):
    assert task.measurable(name) is task.splits[name], "the labels of the tests' task are complete"
    partial = replace(task, labels_are="partial")
    assert partial.with_positives(name) is task.splits[name]
    with pytest.raises(MissingSplit) as error:
        partial.measurable(name)
    assert f"a pair of {name} without a label is unknown and cannot count as a negative" in str(error.value)
    assert fix in str(error.value)
    assert str(error.value).endswith("`OwnTexts.labels_are='complete'`")
