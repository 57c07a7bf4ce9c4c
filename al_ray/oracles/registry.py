"""Make the oracle of a run, of any kind in ORACLES (core/config/oracle.py)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.ports import Oracle
from al_ray.core.config.oracle import OracleConfig, oracle_kind, oracle_name
from al_ray.core.progress import OnProgress
from al_ray.oracles.function import CallableOracle
from al_ray.oracles.llm.oracle import LlmOracle, llm_service, uncounted_cost
from al_ray.oracles.people import FileOracle, PageOracle
from al_ray.oracles.python_function import FunctionService
from al_ray.oracles.replies import Service
from al_ray.oracles.simulated import SimulatedOracle
from al_ray.runs.ledger import Ledger
from al_ray.runs.run_folder import RunFolder


@dataclass(frozen=True)
class OracleRequest:
    """What an oracle may be made from: the options and the folder of its run, and the callback for its progress.

    page: whether this process serves the page on which people label; if not, they are waited for as with `file`.
    """

    config: RunConfig
    oracle_options: OracleConfig
    journal: RunFolder
    watch: OnProgress
    split: Literal["train", "dev"] = "train"
    page: bool = False

    @property
    def ledger(self) -> Ledger:
        """Return the ledger of the split."""
        return self.journal.ledger if self.split == "train" else self.journal.dev_labels.ledger


def _model_oracle(request: OracleRequest) -> Oracle:
    # Not at the top: it loads torch, which no other oracle needs.
    from al_ray.oracles.cross_encoder import CrossEncoderOracle

    return CrossEncoderOracle(request.config.oracle, request.journal.task, request.config.threads, request.watch)


def _page_oracle(request: OracleRequest) -> Oracle:
    files = FileOracle(request.ledger)
    return PageOracle(files) if request.page else files


def _callable_oracle(request: OracleRequest, service: Service, spent: float) -> CallableOracle:
    journal = request.journal
    options, before_call = request.oracle_options, journal.ledger.prove_lock
    return CallableOracle(service, journal.task, options, request.config.seed, spent, request.watch, before_call)


def _llm_oracle(request: OracleRequest) -> LlmOracle:
    journal, options = request.journal, request.oracle_options
    service = llm_service(options, journal.path, journal.task)
    uncounted = uncounted_cost(service.store, journal)
    calls = _callable_oracle(request, service, journal.cost + uncounted)
    return LlmOracle(service, calls, journal, request.config.seed, options.pairs_per_call, uncounted)


def _function_oracle(request: OracleRequest) -> CallableOracle:
    name, journal = request.config.oracle, request.journal
    service = FunctionService(name, request.oracle_options, _highest_cost(name, journal))
    return _callable_oracle(request, service, journal.cost)


def _highest_cost(name: str, journal: RunFolder) -> float | None:
    """Return the cost of the most expensive pair that an oracle has answered in a run; None if it cost nothing."""
    ledgers = journal.ledger, journal.dev_labels.ledger
    pieces = (piece for ledger in ledgers for number in range(1, ledger.rounds + 1) for piece in ledger.answers(number))
    return max((piece.cost / len(piece.rows) for piece in pieces if piece.by == name and piece.cost), default=None)


MAKERS: Mapping[str, Callable[[OracleRequest], Oracle]] = {
    "simulated": lambda request: SimulatedOracle(request.journal.task.measurable(request.split)),
    "file": lambda request: FileOracle(request.ledger),
    "page": _page_oracle,
    "model": _model_oracle,
    "llm": _llm_oracle,
    "function": _function_oracle,
}
"""How the oracle of each kind is made, by the names of ORACLES."""


def make_oracle(request: OracleRequest) -> Oracle:
    """Make the oracle that the options of a run name; BadOption or BadFile if it cannot be loaded."""
    name = oracle_name(request.config.oracle)
    assert name is not None
    return MAKERS[name](request)


def make_dev_oracle(request: OracleRequest, oracle: Oracle) -> Oracle:
    """Make the oracle of dev pairs of a run whose training pairs `oracle` labels: the same, unless it is for one split.

    The same one, because it counts what all calls of the run cost.
    """
    return make_oracle(replace(request, split="dev")) if oracle_kind(request.config.oracle).by_split else oracle
