"""Active learning of rare text pairs on Ray: choose pairs to label, train a bi-encoder, evaluate it over all pairs.

    import al_ray

    al_ray.prepare(al_ray.Synthetic(texts=4000), "tasks/demo")
    run = al_ray.run(al_ray.RunConfig(task="tasks/demo"), "runs/first")
    run.metrics().to_pandas()
    evaluation = al_ray.evaluate(run, "test")
    model = al_ray.load_model("runs/first")
    model.score(["how do I learn to swim"], ["what is the best way to learn swimming"])

The names of `__all__` are imported on first use: `import al_ray` itself loads neither torch nor Ray nor Faiss.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from al_ray.active_learning.config import RunConfig
    from al_ray.active_learning.stopping import StopConfig
    from al_ray.api.audits import estimate_audit, sample_audit
    from al_ray.api.evaluation import compare, evaluate
    from al_ray.api.evaluation_sets import prepare_evaluation
    from al_ray.api.exporting import ExportFolder, export_model
    from al_ray.api.golden import override_golden
    from al_ray.api.grids import GridJob, plan_grid, run_grid
    from al_ray.api.labelling.changes import close_round, correct_labels
    from al_ray.api.labelling.page import annotate
    from al_ray.api.labelling.status import label_status
    from al_ray.api.labels import export_labels, import_labels
    from al_ray.api.match_audits import sample_clusters, sample_matches
    from al_ray.api.matchers import RecordModel, RecordScores, load_matcher
    from al_ray.api.matching import MatchFolder, match, match_into
    from al_ray.api.models import PairModel, load_model
    from al_ray.api.planning import plan
    from al_ray.api.reports import report
    from al_ray.api.run_reading import Run, load_run
    from al_ray.api.runs import RunJob, run, run_job
    from al_ray.api.scores import evaluate_scores, evaluate_stated_scores
    from al_ray.api.serving import serve
    from al_ray.api.tasks import load_task, prepare
    from al_ray.api.training import plan_training, train_bi_encoder, train_cross_encoder
    from al_ray.apps.annotating.options import PageOptions
    from al_ray.apps.audit.options import AuditConfig
    from al_ray.apps.cross_encoder.options import TrainConfig
    from al_ray.apps.exporting.options import ExportOptions
    from al_ray.apps.grid.spec import Axes, GridConfig
    from al_ray.apps.matching.options import MatchOptions
    from al_ray.apps.planning.options import PlanOptions
    from al_ray.apps.serving.options import ServeOptions
    from al_ray.core.config.cluster import ClusterConfig
    from al_ray.core.config.recipes import recipe
    from al_ray.core.config.sections import EvaluationConfig, SearchConfig, TrainingConfig
    from al_ray.core.errors import AlRayError, LabelsAwaited
    from al_ray.datasets.question_logs import QuestionLogs
    from al_ray.datasets.sources import Qqp, Synthetic, Wikiqa
    from al_ray.datasets.tables.extension import extension_of
    from al_ray.datasets.tables.format_options import TableOptions
    from al_ray.datasets.tables.options import OwnTexts
    from al_ray.runs.round_table import format_round

__version__ = "0.2.0"

__all__ = (
    # A task: texts, splits and known pairs.
    "Synthetic",
    "OwnTexts",
    "Qqp",
    "Wikiqa",
    "QuestionLogs",
    "extension_of",
    "prepare",
    "prepare_evaluation",
    "load_task",
    # A run: its options and results.
    "RunConfig",
    "SearchConfig",
    "TrainingConfig",
    "EvaluationConfig",
    "ClusterConfig",
    "recipe",
    "run",
    "RunJob",
    "run_job",
    "format_round",
    "StopConfig",
    "load_run",
    "Run",
    "plan",
    "PlanOptions",
    # Its labels: counts, tables, and the page on which people label.
    "label_status",
    "export_labels",
    "import_labels",
    "correct_labels",
    "close_round",
    "TableOptions",
    "annotate",
    "PageOptions",
    # Many runs, and models trained on existing labels.
    "Axes",
    "GridConfig",
    "run_grid",
    "plan_grid",
    "GridJob",
    "TrainConfig",
    "plan_training",
    "train_bi_encoder",
    "train_cross_encoder",
    # Evaluation, reports and models.
    "evaluate",
    "compare",
    "evaluate_scores",
    "evaluate_stated_scores",
    "report",
    "load_model",
    "PairModel",
    "load_matcher",
    "RecordModel",
    "RecordScores",
    # Matches and clusters of texts, by a model.
    "MatchOptions",
    "match",
    "match_into",
    "MatchFolder",
    "override_golden",
    # A model for other programs.
    "ExportOptions",
    "export_model",
    "ExportFolder",
    "serve",
    "ServeOptions",
    # Audits: precision from a few labels of people.
    "AuditConfig",
    "sample_audit",
    "estimate_audit",
    "sample_clusters",
    "sample_matches",
    # Errors.
    "AlRayError",
    "LabelsAwaited",
)

# A public name -> the module that defines it.
_MODULES = {
    "evaluate_stated_scores": "al_ray.api.scores",
    "evaluate_scores": "al_ray.api.scores",
    "plan_training": "al_ray.api.training",
    "sample_clusters": "al_ray.api.match_audits",
    "sample_matches": "al_ray.api.match_audits",
    "StopConfig": "al_ray.active_learning.stopping",
    "format_round": "al_ray.runs.round_table",
    "run_job": "al_ray.api.runs",
    "RunJob": "al_ray.api.runs",
    "prepare_evaluation": "al_ray.api.evaluation_sets",
    "QuestionLogs": "al_ray.datasets.question_logs",
    "Wikiqa": "al_ray.datasets.sources",
    "Qqp": "al_ray.datasets.sources",
    "PlanOptions": "al_ray.apps.planning.options",
    "plan": "al_ray.api.planning",
    "ServeOptions": "al_ray.apps.serving.options",
    "serve": "al_ray.api.serving",
    "AlRayError": "al_ray.core.errors",
    "AuditConfig": "al_ray.apps.audit.options",
    "Axes": "al_ray.apps.grid.spec",
    "ClusterConfig": "al_ray.core.config.cluster",
    "EvaluationConfig": "al_ray.core.config.sections",
    "ExportFolder": "al_ray.api.exporting",
    "ExportOptions": "al_ray.apps.exporting.options",
    "GridConfig": "al_ray.apps.grid.spec",
    "LabelsAwaited": "al_ray.core.errors",
    "MatchFolder": "al_ray.api.matching",
    "MatchOptions": "al_ray.apps.matching.options",
    "OwnTexts": "al_ray.datasets.tables.options",
    "extension_of": "al_ray.datasets.tables.extension",
    "PairModel": "al_ray.api.models",
    "RecordModel": "al_ray.api.matchers",
    "RecordScores": "al_ray.api.matchers",
    "Run": "al_ray.api.run_reading",
    "RunConfig": "al_ray.active_learning.config",
    "SearchConfig": "al_ray.core.config.sections",
    "Synthetic": "al_ray.datasets.sources",
    "TableOptions": "al_ray.datasets.tables.format_options",
    "TrainConfig": "al_ray.apps.cross_encoder.options",
    "TrainingConfig": "al_ray.core.config.sections",
    "PageOptions": "al_ray.apps.annotating.options",
    "annotate": "al_ray.api.labelling.page",
    "close_round": "al_ray.api.labelling.changes",
    "correct_labels": "al_ray.api.labelling.changes",
    "label_status": "al_ray.api.labelling.status",
    "compare": "al_ray.api.evaluation",
    "estimate_audit": "al_ray.api.audits",
    "evaluate": "al_ray.api.evaluation",
    "export_labels": "al_ray.api.labels",
    "export_model": "al_ray.api.exporting",
    "import_labels": "al_ray.api.labels",
    "load_matcher": "al_ray.api.matchers",
    "load_model": "al_ray.api.models",
    "load_run": "al_ray.api.run_reading",
    "load_task": "al_ray.api.tasks",
    "match": "al_ray.api.matching",
    "match_into": "al_ray.api.matching",
    "override_golden": "al_ray.api.golden",
    "prepare": "al_ray.api.tasks",
    "recipe": "al_ray.core.config.recipes",
    "report": "al_ray.api.reports",
    "run": "al_ray.api.runs",
    "run_grid": "al_ray.api.grids",
    "plan_grid": "al_ray.api.grids",
    "GridJob": "al_ray.api.grids",
    "sample_audit": "al_ray.api.audits",
    "train_bi_encoder": "al_ray.api.training",
    "train_cross_encoder": "al_ray.api.training",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module 'al_ray' has no attribute {name!r}; it has {', '.join(__all__)}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted({*globals(), *__all__})
