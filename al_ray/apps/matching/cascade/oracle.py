"""Ask an oracle about pairs in order, within a budget: every answer is on disk before the next is bought.

FOLDER/llm/NNNNN.json        raw answers of a language model (oracles/llm/store.py)
FOLDER/answers/NNNNN.json    answers of other oracles, in the same form
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from al_ray.active_learning.stopping import StopConfig
from al_ray.apps.matching.cascade.band import Band
from al_ray.apps.matching.cascade.options import CascadeOptions
from al_ray.core.config.oracle import OracleConfig, oracle_name
from al_ray.core.errors import CostReached, DryRun
from al_ray.core.labels import CODES, OPEN, WORDS, Answers, Batch
from al_ray.core.pairs import Pairs, Rows
from al_ray.core.progress import OnProgress
from al_ray.core.scorer import Labels
from al_ray.core.task import Task
from al_ray.oracles.cross_encoder import CrossEncoderOracle
from al_ray.oracles.function import CallableOracle
from al_ray.oracles.llm.oracle import llm_service
from al_ray.oracles.llm.prompt import Answer, digest_of
from al_ray.oracles.llm.service import LlmService
from al_ray.oracles.llm.store import AnswerStore, RawAnswer
from al_ray.oracles.python_function import FunctionService
from al_ray.oracles.replies import Texts
from al_ray.runs.limits import in_force, write_limits
from al_ray.storage.lock import locked
from al_ray.storage.uri import StoragePath

logger = logging.getLogger(__name__)
ANSWERS = "answers"
NO_ROUND = 0
"""The round of pairs that are those of no round."""


@dataclass(frozen=True)
class OracleAnswers:
    """(n,) labels of pairs, OPEN where nobody has answered; stopped: whether the limit of cost left some open.

    cost: of all answers in the folder.
    """

    labels: Labels
    cost: float
    stopped: bool = False


@dataclass(frozen=True)
class PairOracle:
    """An oracle of pairs with the store of its answers.

    label: as of active_learning/ports.py. name: of the labeller, None if the oracle itself writes and finds answers.
    """

    label: Callable[[int, Batch, Rows], Iterator[Answers]]
    store: AnswerStore
    service: LlmService | FunctionService | None
    name: str | None

    def known(self, texts: Texts) -> Answer | None:
        """Return the answer on disk to a pair; None if there is none."""
        if isinstance(self.service, LlmService):
            return self.service.known(texts)
        return self.store.answer(self._key(texts))

    def keep(self, texts: Sequence[Texts], piece: Answers) -> None:
        """Write the answers of a call to the pairs with these (k,) texts, unless the oracle did."""
        if self.name is None:
            return
        words = [None if label == OPEN else WORDS[int(label)] for label in piece.labels.tolist()]
        sure = np.nan_to_num(piece.confidences, nan=1.0).tolist()
        answers = [None if word is None else (word, one) for word, one in zip(words, sure, strict=True)]
        self.store.add(RawAnswer("", [self._key(one) for one in texts], answers, piece.cost, "", {}, None))

    def price(self, texts: Sequence[Texts], options: OracleConfig) -> str:
        """Say what these pairs cost at most."""
        if self.service is None or not texts:
            return "nothing"
        size = options.pairs_per_call
        parts = [texts[start : start + size] for start in range(0, len(texts), size)]
        llm = isinstance(self.service, LlmService)
        if not (options.llm.priced if llm else self.service.priced):
            return f"an unknown price (give {'`llm.input_price` and so on' if llm else '`cost_per_pair`'})"
        return f"at most {sum(map(self.service.expected_cost, parts)):,.6g}, if no request has to be repeated"

    def _key(self, texts: Texts) -> str:
        return digest_of([self.name, *texts])


def ask_pairs(
    options: CascadeOptions, task: Task, pairs: Pairs, folder: StoragePath, threads: int, watch: OnProgress
) -> OracleAnswers:
    """Return the answers to (n, 2) pairs in order: those on disk, and of the first `oracle_budget` also new ones.

    Pairs with the same texts are asked once. folder: of the answers. DryRun, before anything is bought, if the options
    say so; what CallableOracle.label raises, but that a limit of cost leaves pairs open. The price of a pair and the
    limit hold in this folder until others are given.
    """
    texts = list(zip(*task.texts_of(pairs), strict=True))
    calls, _ = in_force(folder, options.oracle_options, StopConfig())
    options = replace(options, oracle_options=calls)
    if options.shows_costs:
        oracle = make_pair_oracle(options, task, folder, threads, watch)
        raise DryRun(_dry_run(options, oracle, texts))
    with locked(folder) as held:
        write_limits(held, calls, StopConfig())
        oracle, stopped = make_pair_oracle(options, task, held, threads, watch), False
        _, missing = _open(options, oracle, texts)
        if len(missing):
            price = oracle.price([texts[row] for row in missing.tolist()], options.oracle_options)
            logger.info("the oracle is asked about %s pairs, which cost %s", f"{len(missing):,}", price)
            stopped = _label(oracle, pairs[missing], [texts[row] for row in missing.tolist()])
        found = [oracle.known(one) for one in texts]
        labels = np.array([OPEN if one is None else CODES[one[0]] for one in found], dtype=np.uint8)
        return OracleAnswers(labels, oracle.store.cost, stopped)


def make_pair_oracle(
    options: CascadeOptions, task: Task, folder: StoragePath, threads: int, watch: OnProgress
) -> PairOracle:
    """Make the oracle that the options name, with the answers in a folder; BadOption or BadFile if it cannot be."""
    assert options.oracle is not None
    name = oracle_name(options.oracle)
    assert name is not None
    return MAKERS[name](options, task, folder, threads, watch)


def _language_model(
    options: CascadeOptions, task: Task, folder: StoragePath, threads: int, watch: OnProgress
) -> PairOracle:
    calls = options.oracle_options
    service = llm_service(calls, folder, task)
    asked = CallableOracle(service, task, calls, 0, service.store.cost, watch, _nothing)
    return PairOracle(asked.label, service.store, service, None)


def _cross_encoder(
    options: CascadeOptions, task: Task, folder: StoragePath, threads: int, watch: OnProgress
) -> PairOracle:
    model = CrossEncoderOracle(str(options.oracle), task, threads, watch)
    return PairOracle(model.label, AnswerStore(folder, ANSWERS), None, model.by)


def _function(options: CascadeOptions, task: Task, folder: StoragePath, threads: int, watch: OnProgress) -> PairOracle:
    word, calls, store = str(options.oracle), options.oracle_options, AnswerStore(folder, ANSWERS)
    service = FunctionService(word, calls, store.highest)
    asked = CallableOracle(service, task, calls, 0, store.cost, watch, _nothing)
    return PairOracle(asked.label, store, service, word)


MAKERS: Mapping[str, Callable[[CascadeOptions, Task, StoragePath, int, OnProgress], PairOracle]] = {
    "llm": _language_model,
    "model": _cross_encoder,
    "function": _function,
}
"""How the oracle of each of KINDS is made."""


def record_answers(options: CascadeOptions, band: Band, answers: OracleAnswers, settled: int) -> dict[str, Any]:
    """Return what match.json says of the answers to uncertain pairs. settled: the number that sure matches settle."""
    words = {name: int((answers.labels == code).sum()) for code, name in WORDS.items() if name != "taken back"}
    return {
        "by": options.oracle, "low": band.low, "high": band.high, "cutoff": band.cutoff, "sources": list(band.sources),
        "budget": options.oracle_budget, "uncertain": len(answers.labels), "settled": settled, "yes": words["yes"],
        "no": words["no"], "unsure": words["unsure"], "open": words["unreadable"], "cost": answers.cost,
        "stopped": answers.stopped,
    }  # fmt: skip


def _nothing() -> None:
    """Let every call be made: the lock is held while they are."""


def _open(options: CascadeOptions, oracle: PairOracle, texts: Sequence[Texts]) -> tuple[int, Rows]:
    """Return how many pairs are within the budget, and the rows (k,) of those without an answer, one for each texts."""
    within = texts[: options.oracle_budget]
    first = {one: row for row, one in reversed(list(enumerate(within)))}
    return len(within), np.array(sorted(row for one, row in first.items() if oracle.known(one) is None), dtype=np.int64)


def _label(oracle: PairOracle, pairs: Pairs, texts: Sequence[Texts]) -> bool:
    """Ask about (n, 2) pairs with these texts, and return whether a limit of cost ended that."""
    batch = Batch(pairs, np.full(len(pairs), np.nan), "uncertain scores")
    try:
        for piece in oracle.label(NO_ROUND, batch, np.arange(len(pairs))):
            oracle.keep([texts[row] for row in piece.rows.tolist()], piece)
    except CostReached as error:
        logger.warning("%s; the model decides about the others", error)
        return True
    return False


def _dry_run(options: CascadeOptions, oracle: PairOracle, texts: Sequence[Texts]) -> str:
    """Say what would be asked, with the first requests of a language model, and what it would cost."""
    within, missing = _open(options, oracle, texts)
    asked, lines = [texts[row] for row in missing.tolist()], list[str]()
    if asked and isinstance(oracle.service, LlmService):
        [request, *_] = oracle.service.requests(asked[: options.oracle_options.pairs_per_call])
        lines = [f"[{message['role']}]\n{message['content']}" for message in request["messages"]]
    lines.append(
        f"dry run: nothing was bought. {len(texts):,} uncertain pairs could change the matches; the first {within:,} "
        f"would be asked (`oracle_budget={options.oracle_budget}`), of which {len(missing):,} have no answer yet and "
        f"would cost {oracle.price(asked, options.oracle_options)}"
    )
    return "\n".join(lines)
