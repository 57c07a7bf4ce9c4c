"""The examples in the docstrings of the public functions run, in the order of a user's work."""

import doctest
import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

import al_ray

# The order of work: each example reads what those before it have written into `folder`.
FUNCTIONS = [
    al_ray.prepare,
    al_ray.load_task,
    al_ray.prepare_evaluation,
    al_ray.extension_of,
    al_ray.recipe,
    al_ray.plan,
    al_ray.run,
    al_ray.load_run,
    al_ray.run_job,
    al_ray.format_round,
    al_ray.evaluate,
    al_ray.compare,
    al_ray.evaluate_scores,
    al_ray.evaluate_stated_scores,
]
FUNCTIONS += [al_ray.label_status, al_ray.export_labels, al_ray.import_labels]
FUNCTIONS += [al_ray.correct_labels, al_ray.close_round]
FUNCTIONS += [al_ray.sample_audit, al_ray.annotate, al_ray.estimate_audit]
FUNCTIONS += [
    al_ray.match,
    al_ray.match_into,
    al_ray.override_golden,
    al_ray.sample_matches,
    al_ray.sample_clusters,
    al_ray.serve,
    al_ray.export_model,
]
FUNCTIONS += [
    al_ray.report,
    al_ray.load_model,
    al_ray.load_matcher,
    al_ray.run_grid,
    al_ray.plan_grid,
    al_ray.plan_training,
    al_ray.train_bi_encoder,
    al_ray.train_cross_encoder,
]


@pytest.fixture(scope="module")
def folder(in_process: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("examples")


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_the_example_runs(request: pytest.FixtureRequest, function: Callable[..., object], folder: Path):
    if function is al_ray.run_grid:
        # A grid has Ray.
        request.getfixturevalue("local_ray")
    names = {"al_ray": al_ray, "folder": folder}
    example = doctest.DocTestParser().get_doctest(
        inspect.getdoc(function) or "", names, function.__name__, inspect.getsourcefile(function), 0
    )
    assert example.examples, f"{function.__name__} has no example"
    lines: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example, out=lines.append)
    assert not result.failed, "".join(lines)
    assert result.attempted == len(example.examples)


def test_every_public_function_has_an_example_that_runs_here():
    functions = {name for name in al_ray.__all__ if inspect.isfunction(getattr(al_ray, name))}
    assert functions == {function.__name__ for function in FUNCTIONS}
