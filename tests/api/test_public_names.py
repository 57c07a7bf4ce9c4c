"""What `import al_ray` offers, and what it loads."""

import inspect
import pkgutil
import subprocess
import sys
from dataclasses import fields, is_dataclass

import pytest

import al_ray

HEAVY = {"torch", "ray", "faiss", "transformers", "sentence_transformers", "sklearn", "scipy", "pyarrow", "numpy"}


def test_all_names_exactly_these():
    """A name that is added or removed here is a change of the public face: say so in the changelog."""
    assert set(al_ray.__all__) == {
        *("Synthetic", "OwnTexts", "extension_of", "prepare", "load_task"),
        *("RunConfig", "SearchConfig", "TrainingConfig", "EvaluationConfig", "ClusterConfig"),
        "recipe",
        *(
            "Axes",
            "GridConfig",
            "run_grid",
            "plan_grid",
            "GridJob",
            "TrainConfig",
            "train_bi_encoder",
            "train_cross_encoder",
        ),
        *("run", "load_run", "Run", "evaluate", "compare", "report", "load_model", "PairModel"),
        *("load_matcher", "RecordModel", "RecordScores"),
        *("AuditConfig", "sample_audit", "estimate_audit", "TableOptions", "export_labels", "import_labels"),
        *("label_status", "correct_labels", "close_round", "annotate", "PageOptions"),
        *("MatchOptions", "match", "match_into", "MatchFolder", "override_golden"),
        *("ExportOptions", "export_model", "ExportFolder"),
        *("serve", "ServeOptions"),
        *("plan", "PlanOptions"),
        *("Qqp", "Wikiqa", "QuestionLogs"),
        *("prepare_evaluation",),
        *("RunJob", "run_job", "format_round", "StopConfig"),
        *("sample_matches", "sample_clusters"),
        *("plan_training",),
        *("evaluate_scores", "evaluate_stated_scores"),
        *("AlRayError", "LabelsAwaited"),
    }


@pytest.mark.parametrize("name", al_ray.__all__)
def test_a_public_name_is_there_and_documented(name: str):
    value = getattr(al_ray, name)
    assert value.__name__ == name
    assert name in dir(al_ray)
    documentation = inspect.getdoc(value) or ""
    assert len(documentation) > 20
    # A dataclass without a docstring has its signature for one.
    assert not documentation.startswith(f"{name}(")


def test_no_public_name_hides_a_package():
    """al_ray.NAME would be a module or a function, as it happens, depending on what was imported before."""
    assert not {module.name for module in pkgutil.iter_modules(al_ray.__path__)} & set(al_ray.__all__)


@pytest.mark.parametrize("name", [name for name in al_ray.__all__ if inspect.isfunction(getattr(al_ray, name))])
def test_a_public_function_is_typed_and_says_what_it_raises(name: str):
    function = getattr(al_ray, name)
    signature = inspect.signature(function)
    assert signature.return_annotation is not signature.empty
    assert all(argument.annotation is not argument.empty for argument in signature.parameters.values())
    assert "Raises:\n" in (inspect.getdoc(function) or "")


@pytest.mark.parametrize("kind", [al_ray.Run, al_ray.PairModel, al_ray.MatchFolder], ids=lambda kind: kind.__name__)
def test_every_method_of_a_public_value_is_documented(kind: type):
    assert is_dataclass(kind)
    methods = {name: value for name, value in vars(kind).items() if not name.startswith("_")}
    named = {field.name for field in fields(kind)}
    assert [name for name, value in methods.items() if name not in named and not inspect.getdoc(value)] == []


def test_a_name_that_is_not_public_is_refused_with_those_that_are():
    with pytest.raises(AttributeError, match=r"no attribute 'rum'; it has Synthetic, .*run"):
        al_ray.rum  # noqa: B018


def test_import_al_ray_loads_nothing_heavy():
    code = "import sys, al_ray; al_ray.__all__, dir(al_ray); print(*sorted({n.partition('.')[0] for n in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "al_ray" in loaded
    assert HEAVY & set(loaded) == set()


def test_the_options_of_a_run_load_neither_torch_nor_ray():
    """A notebook or a front builds options before it needs to compute."""
    code = (
        "import sys, al_ray; al_ray.RunConfig(task='t'), al_ray.Synthetic(), al_ray.ClusterConfig(), al_ray.AlRayError;"
        "print(*sorted({n.partition('.')[0] for n in sys.modules}))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"numpy"} < set(loaded)
    assert {"torch", "ray", "faiss", "transformers", "sentence_transformers"} & set(loaded) == set()


def test_the_driver_of_a_run_loads_no_networks_of_transformers():
    """They are 100 MB and a second, which only a process that encodes needs."""
    code = "import sys, al_ray.cluster.run; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "torch" in loaded
    assert {"transformers.modeling_utils", "torch._dynamo", "sympy", "pandas"} & set(loaded) == set()
