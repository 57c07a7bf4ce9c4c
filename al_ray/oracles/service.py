"""A program as the oracle: a user's own function, asked in small calls; an LLM, a service or a rule.

    def label(left: list[str], right: list[str]) -> Sequence[answer]

gives an answer to each pair (left[i], right[i]): 1 or 0, True or False, None (unsure), or a word of data/stated.py such
as "yes", "no", "match" or "unsure"; or (answer, confidence) with a confidence in 0..1. A function that knows what the
call cost returns Reply(answers, cost). What it raises, and what it says that cannot be read, is asked again.
"""

import inspect
import logging
import reprlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Thread
from types import TracebackType

import numpy as np

from al_ray.core.config import generator
from al_ray.core.errors import BadOption, CostReached, OracleFailed
from al_ray.core.pairs import Rows
from al_ray.core.records import NO, OPEN, UNSURE, YES, Answers, Batch
from al_ray.core.scoring import Floats, Labels
from al_ray.core.task import Task
from al_ray.data import stated

logger = logging.getLogger(__name__)

Watch = Callable[[str, int, int], None]
Function = Callable[[list[str], list[str]], object]
Number = int | float | np.integer | np.floating

# Seconds: no wait between tries is longer, however often a call has failed.
LONGEST_WAIT = 60.0
# Money is a sum of floats: a limit is not reached by their last bits.
SLACK = 1e-9
# Texts and answers in a message.
SHORT = reprlib.Repr()
SHORT.maxstring = SHORT.maxother = 60


@dataclass(frozen=True)
class OracleConfig:
    """How a function is asked for labels, and what they may cost."""

    pairs_per_call: int = 16
    """Pairs that --oracle module:function is given at a time; the answers of a call are kept before the next."""
    calls_per_minute: float | None = None
    """Calls start no closer together than 60 / this seconds; no limit when not given."""
    retries: int = 5
    """A pair whose call failed, or whose answer could not be read, is asked so many times more before the run stops."""
    retry_seconds: float = 1.0
    """Longest wait after a failed call; it doubles with every failure of the same pairs, up to 60 s."""
    call_timeout: float = 120.0
    """Seconds after which a call is given up, and has failed."""
    cost_per_pair: float = 0.0
    """What a pair asked costs, in any money, when the function does not say."""
    max_cost: float | None = None
    """Stop before a call that would bring the cost of all labels of the run above this; no limit when not given."""

    def __post_init__(self) -> None:
        """Refuse what cannot be, before any work."""
        for value, name, least, most in (
            (self.pairs_per_call, "--pairs-per-call", 1, 1_000_000),
            (self.calls_per_minute, "--calls-per-minute", 0.001, 1e6),
            (self.retries, "--retries", 0, 100),
            (self.retry_seconds, "--retry-seconds", 0, LONGEST_WAIT),
            (self.call_timeout, "--call-timeout", 0.001, 1e6),
            (self.cost_per_pair, "--cost-per-pair", 0, 1e9),
            (self.max_cost, "--max-cost", 0.0001, 1e12),
        ):
            if value is not None and not least <= value <= most:
                raise BadOption(f"{name} is {value}; give {least:g} to {most:,.15g}")


@dataclass(frozen=True)
class Reply:
    """Answers to the pairs of a call, and what the call cost in --max-cost's money (None: --cost-per-pair each)."""

    answers: Sequence[object]
    cost: float | None = None


@dataclass(frozen=True)
class Heard:
    """What came of a call: (k,) labels, OPEN where none could be read, (k,) confidences, the cost of it all.

    wrong: what was wrong first, and `at` which of the k pairs; "" when nothing was. returned: whether the call came
    back with anything. fatal: asking again would not help.
    """

    labels: Labels
    confidences: Floats
    cost: float = 0.0
    wrong: str = ""
    at: int = 0
    returned: bool = False
    fatal: bool = False


class CallableOracle:
    """Asks a function for labels and counts what they cost (core.ports.Oracle)."""

    def __init__(
        self, oracle: str, task: Task, config: OracleConfig, seed: int, spent_before: float, watch: Watch
    ) -> None:
        """oracle: module:function, loaded here (BadOption); spent_before: what all labels of the run cost so far."""
        self.oracle, self.task, self.config, self.seed, self.watch = oracle, task, config, seed, watch
        self.function = function_of(oracle)
        self.spent = spent_before
        # What a pair is expected to cost: what the user says, or more once a call cost more.
        self.price = config.cost_per_pair
        self.started = float("-inf")

    def sell(self, number: int, batch: Batch, missing: Rows) -> Iterator[Answers]:
        """Answers for the rows `missing`, in their order, an Answers for each call, before the next call is made.

        A call that raises is not counted as a cost; one that is given up after `call_timeout` is, at the price
        expected, for the service may have worked. Both, and answers that cannot be read, are asked again: each pair at
        most 1 + retries times, then OracleFailed. CostReached before a call that would go beyond `max_cost`.
        """
        chance = generator(self.seed, "retry", number)
        size, per_call = len(batch.pairs), self.config.pairs_per_call
        done = size - len(missing)
        for rows in (missing[start : start + per_call] for start in range(0, len(missing), per_call)):
            for failures in range(1, self.config.retries + 2):
                self._refuse_cost(len(rows), f"{size - done:,} pairs of round {number} are open")
                heard = self._heard(self._call(batch, rows), len(rows))
                self.spent += heard.cost
                if heard.returned or heard.cost:
                    yield Answers(rows, heard.labels, self.oracle, heard.confidences, heard.cost)
                unread = heard.labels == OPEN
                done += int((~unread).sum())
                self.watch("label", done, size)
                if heard.fatal or (unread.any() and failures > self.config.retries):
                    kept = f"{done:,} of {size:,} pairs of round {number} are answered and kept"
                    raise OracleFailed(self._complaint(heard, batch, rows, failures) + kept)
                rows = rows[unread]
                if not len(rows):
                    break
                logger.warning("%s; asked again (%s of %s)", heard.wrong, failures, self.config.retries)
                if not heard.returned:
                    # Up to halved by chance, so that runs that failed together do not come back together.
                    longest = min(LONGEST_WAIT, self.config.retry_seconds * 2.0 ** (failures - 1))
                    time.sleep(longest * chance.uniform(0.5, 1.0))

    def _refuse_cost(self, pairs: int, state: str) -> None:
        limit, due = self.config.max_cost, self.spent + pairs * self.price
        if limit is not None and (self.spent >= limit or due > limit * (1 + SLACK)):
            raise CostReached(
                f"labels cost {self.spent:,.6g} so far and the next {pairs:,} would make it {due:,.6g}, where "
                f"--max-cost is {limit:,.6g}; {state}: raise --max-cost, and the same command goes on"
            )

    def _call(self, batch: Batch, rows: Rows) -> "Outcome":
        """Ask, not too soon after the last call."""
        if self.config.calls_per_minute is not None:
            time.sleep(max(0.0, self.started + 60 / self.config.calls_per_minute - time.monotonic()))
            self.started = time.monotonic()
        left, right = batch.pairs[rows].T.tolist()
        texts = [self.task.left.texts[row] for row in left], [self.task.right.texts[row] for row in right]
        return within(self.config.call_timeout, partial(self.function, *texts))

    def _heard(self, outcome: "Outcome", pairs: int) -> Heard:
        """What a call of so many pairs gave."""
        unread, nothing = np.full(pairs, OPEN, dtype=np.uint8), np.full(pairs, np.nan)
        if not outcome.ended:
            wrong = f"no answer within {self.config.call_timeout:g} s (--call-timeout)"
            return Heard(unread, nothing, pairs * self.price, wrong)
        if outcome.error is not None:
            return Heard(unread, nothing, 0.0, f"{type(outcome.error).__name__}: {outcome.error}"[:500])
        said, cost = outcome.value, None
        if isinstance(said, Reply):
            said, cost = said.answers, said.cost
        labels, confidences, wrong = read(said, pairs)
        at = int(np.argmax(labels == OPEN))
        if cost is None:
            cost = pairs * self.config.cost_per_pair
        elif not isinstance(cost, Number | Decimal) or not 0 <= float(cost) < float("inf"):
            wrong = f"it says that the call cost {SHORT.repr(cost)}, not a number from 0, or None"
            return Heard(labels, confidences, pairs * self.price, wrong, at, returned=True, fatal=True)
        self.price = max(self.price, float(cost) / pairs)
        return Heard(labels, confidences, float(cost), wrong, at, returned=True)

    def _complaint(self, heard: Heard, batch: Batch, rows: Rows, tries: int) -> str:
        left, right = batch.pairs[rows[heard.at]].tolist()
        texts = f"{SHORT.repr(self.task.left.texts[left])} and {SHORT.repr(self.task.right.texts[right])}"
        times = f"tried {tries} times" if tries > 1 else "tried once"
        return (
            f"--oracle {self.oracle}: {heard.wrong} ({times}, last with the pair {texts}); mend the function or wait "
            "for its service, and the same command goes on: "
        )


def read(answers: object, pairs: int) -> tuple[Labels, Floats, str]:
    """What a function said of k pairs -> (k,) labels, OPEN where unreadable, (k,) confidences, what was wrong first.

    Of the wrong number of answers nobody knows which is whose: none is read.
    """
    labels, confidences = np.full(pairs, OPEN, dtype=np.uint8), np.full(pairs, np.nan)
    if hasattr(answers, "tolist"):
        # An array of NumPy, torch or pandas.
        answers = answers.tolist()  # type: ignore[union-attr]
    if not isinstance(answers, Sequence) or isinstance(answers, str | bytes):
        return labels, confidences, f"it gave {SHORT.repr(answers)}, not a list of {pairs} answers"
    if len(answers) != pairs:
        return labels, confidences, f"it gave {len(answers)} answers to {pairs} pairs"
    wrong = ""
    for place, answer in enumerate(answers):
        labels[place], confidences[place] = read_one(answer)
        if labels[place] == OPEN and not wrong:
            wrong = f"it said {SHORT.repr(answer)}, not 1, 0, yes, no, unsure or (answer, confidence from 0 to 1)"
    return labels, confidences, wrong


def read_one(answer: object) -> tuple[int, float]:
    """An answer -> label, OPEN when it cannot be read, and confidence, NaN when none is given."""
    confidence = nothing = float("nan")
    if isinstance(answer, tuple | list) and len(answer) == 2:
        answer, confidence = answer
        if not isinstance(confidence, Number) or isinstance(confidence, bool) or not 0 <= confidence <= 1:
            return OPEN, nothing
    if answer is None:
        label = UNSURE
    elif isinstance(answer, str):
        label = stated.MEANINGS.get(answer.strip().lower(), OPEN)
    elif isinstance(answer, Number | np.bool_) and answer in (0, 1):
        label = YES if answer else NO
    else:
        label = OPEN
    return label, nothing if label == OPEN else float(confidence)


@dataclass
class Outcome:
    """What came of code that is not ours: it may raise anything at all, or not end; here that is a value."""

    value: object = None
    error: BaseException | None = None
    ended: bool = False

    def __enter__(self) -> "Outcome":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        # In this order: whoever sees that it ended, from another thread, sees how.
        self.error, self.ended = error, True
        return not isinstance(error, KeyboardInterrupt)


def within(seconds: float, call: Callable[[], object]) -> Outcome:
    """What a call came to in so many seconds; nobody waits longer for its thread, nor does the end of the process."""
    outcome = Outcome()

    def work() -> None:
        with suppress(KeyboardInterrupt), outcome:
            outcome.value = call()

    thread = Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if isinstance(outcome.error, KeyboardInterrupt):
        raise outcome.error
    return outcome


def function_of(oracle: str) -> Function:
    """What module:function names, in the current folder or among what is installed; BadOption if there is none."""
    name, _, function = oracle.partition(":")
    here = str(Path.cwd())
    if not {"", here} & set(sys.path):
        sys.path.insert(0, here)
    with Outcome() as module:
        module.value = import_module(name)
    error, place = module.error, f"--oracle {oracle}"
    # A part of the name itself is missing, not what the module imports in its turn.
    if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
        raise BadOption(f"{place}: there is no module {error.name} in {here}, nor installed; go to its folder first")
    if error is not None:
        raise BadOption(f"{place}: {name} fails when imported: {type(error).__name__}: {error}; mend it") from error
    found, cure = getattr(module.value, function, None), f"define: def {function}(left, right)"
    if not callable(found) or inspect.iscoroutinefunction(found):
        what = "none" if found is None else "async" if callable(found) else f"{SHORT.repr(found)}, no function"
        raise BadOption(f"{place}: {function} of {getattr(module.value, '__file__', name)} is {what}; {cure}")
    with Outcome() as fit:
        inspect.signature(found).bind([], [])
    # A ValueError comes of a function written in C that does not say what it takes.
    if isinstance(fit.error, TypeError):
        raise BadOption(f"{place}: {function} does not take two lists of texts ({fit.error}); {cure}")
    return found
