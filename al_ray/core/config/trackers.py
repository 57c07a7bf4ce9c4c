"""Options of trackers, which show runs elsewhere (runs/trackers/registry.py)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TrackerOptions:
    """Trackers that get the metrics of each round; TensorBoard always does. Results do not depend on them."""

    mlflow: str | None = None
    """URI of an MLflow tracking server, such as http://127.0.0.1:5000, that gets the options, the metrics of each round
    and the last model of a run, tagged with its configuration. A resumed run continues its MLflow run."""
    wandb: str | None = None
    """Project of Weights & Biases that gets the options and the metrics of each round of a run; runs of a grid are
    grouped by configuration. WANDB_API_KEY names the account. A resumed run continues its run there."""


NO_TRACKERS = TrackerOptions()
