"""Functions and options of further papers, which their commands call. `import al_ray` does not offer them.

Each is imported on first use, as those of al_ray are: options load neither torch nor Ray.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from al_ray.api.papers.augmentation import augmentation_table, plan_augmentation
    from al_ray.api.papers.mining import count_line, mine_table, open_mining
    from al_ray.api.papers.paraphrase import (
        compare_models,
        evaluate_model,
        index_questions,
        search_questions,
        train_encoder,
        write_text,
    )
    from al_ray.api.papers.reproduction import ReproductionSpec, open_reproduction
    from al_ray.apps.papers.augmentation.options import AugmentConfig
    from al_ray.apps.papers.mining.options import MiningConfig
    from al_ray.apps.papers.paraphrase.options import ParaphraseConfig
    from al_ray.apps.papers.reproduction.options import ConcatConfig
    from al_ray.apps.papers.reproduction.targets import Target

__all__ = (
    "AugmentConfig",
    "plan_augmentation",
    "augmentation_table",
    "MiningConfig",
    "open_mining",
    "count_line",
    "mine_table",
    "ParaphraseConfig",
    "train_encoder",
    "index_questions",
    "search_questions",
    "evaluate_model",
    "compare_models",
    "write_text",
    "ConcatConfig",
    "Target",
    "ReproductionSpec",
    "open_reproduction",
)

# A name -> the module that defines it.
_MODULES = {
    "AugmentConfig": "al_ray.apps.papers.augmentation.options",
    "MiningConfig": "al_ray.apps.papers.mining.options",
    "ParaphraseConfig": "al_ray.apps.papers.paraphrase.options",
    **dict.fromkeys(("plan_augmentation", "augmentation_table"), "al_ray.api.papers.augmentation"),
    **dict.fromkeys(("open_mining", "count_line", "mine_table"), "al_ray.api.papers.mining"),
    "ConcatConfig": "al_ray.apps.papers.reproduction.options",
    "Target": "al_ray.apps.papers.reproduction.targets",
    **dict.fromkeys(("ReproductionSpec", "open_reproduction"), "al_ray.api.papers.reproduction"),
}


def __getattr__(name: str) -> Any:
    """Import a name on first use (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module 'al_ray.api.papers' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_MODULES.get(name, "al_ray.api.papers.paraphrase")), name)
