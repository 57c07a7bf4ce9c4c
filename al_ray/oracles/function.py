"""A service as the oracle, called with a few pairs at a time: a user's function (python_function.py), or a language
model (llm/). Pairs are asked again if a call fails or an answer is unreadable.
"""

import logging
import math
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from time import monotonic

import numpy as np
import numpy.typing as npt

from al_ray.core.config.oracle import LONGEST_WAIT, OracleConfig
from al_ray.core.errors import AlRayError, CostReached, FolderInUse, OracleFailed
from al_ray.core.labels import OPEN, Answers, Batch
from al_ray.core.pairs import Rows
from al_ray.core.progress import OnProgress
from al_ray.core.rng import generator
from al_ray.core.task import Task
from al_ray.oracles.calls import Calls, Outcome
from al_ray.oracles.replies import SHORT, CallResult, Number, Reply, Service, ServiceFailed, Texts, read_reply

logger = logging.getLogger(__name__)

# Relative rounding error of a sum of costs, within which a limit is not exceeded.
SLACK = 1e-9


@dataclass(frozen=True)
class Request:
    """Rows (k,) of a batch to be asked in one call, not before `earliest` (monotonic); failures: of earlier calls.

    due: the expected cost of the call when it was started.
    """

    rows: Rows
    texts: tuple[Texts, ...]
    failures: int = 0
    earliest: float = -math.inf
    due: float = 0.0


class CallableOracle:
    """Ask a function for labels and count their cost (active_learning/ports.py: Oracle)."""

    def __init__(
        self,
        service: Service,
        task: Task,
        config: OracleConfig,
        seed: int,
        spent_before: float,
        watch: OnProgress,
        before_call: Callable[[], None],
    ) -> None:
        """Ask this service; spent_before: cost of the run's labels so far.

        before_call: raises if no call may be made: FolderInUse if another process has taken over the run.
        """
        self.service, self.task, self.config, self.seed, self.watch = service, task, config, seed, watch
        self.spent, self.before_call = spent_before, before_call
        # The time (monotonic) before which a limit of rates, or the service, allows no call.
        self.next_start = -math.inf

    def label(self, number: int, batch: Batch, missing: Rows) -> Iterator[Answers]:
        """Yield the answers to the rows `missing` of a round (0 for no round), one Answers for each call that ends.

        At most `calls_at_once` calls are under way; another starts after the answers of one were taken from here. With
        one at a time answers come in the order of rows. A call that raises costs nothing; one that times out counts
        with the expected cost, because the service may have charged for it. Failed and unreadable pairs are asked
        again, at most 1 + retries times each, then OracleFailed; CostReached before a call that would exceed
        `max_cost`. Errors, but for FolderInUse, are raised after the answers of all calls under way were yielded.
        """
        chance = generator(self.seed, "retry", number)
        size, per_call = len(batch.pairs), self.config.pairs_per_call
        texts = tuple(zip(*self.task.texts_of(batch.pairs[missing]), strict=True))
        parts = [slice(start, start + per_call) for start in range(0, len(missing), per_call)]
        waiting = deque(Request(missing[part], texts[part]) for part in parts)
        calls: Calls[Request] = Calls()
        done, fault = size - len(missing), ""
        while (waiting and not fault) or calls.running:
            start = math.inf
            if waiting and not fault and self._may_start(waiting[0], calls):
                if not calls.running:
                    self._check_cost(waiting, f"{size - done:,} pairs of {_subject(number, batch)} are open")
                start = max(waiting[0].earliest, self.next_start)
                if start <= monotonic():
                    fault = self._start(calls, waiting.popleft()) or ""
                    continue
            try:
                call = calls.wait(start)
            except KeyboardInterrupt:
                yield from self._returned(calls)
                raise
            if call is None:
                continue
            rows, failures = call.request.rows, call.request.failures + 1
            result = self._result_of(call.outcome, call.request)
            self.spent += result.cost
            if result.returned or result.cost:
                yield Answers(rows, result.labels, self.service.name, result.confidences, result.cost)
            unread = result.labels == OPEN
            done += int((~unread).sum())
            self.watch("label", done, size)
            if result.fatal or (unread.any() and failures > self.config.retries):
                fault = fault or self._complaint(result, batch, rows, failures)
            elif unread.any():
                logger.warning("%s; retrying (%s of %s)", result.wrong, failures, self.config.retries)
                # A random factor from 0.5 to 1, so that runs that failed together do not retry together.
                wait = 0.0 if result.returned else self._retry_seconds(failures) * chance.uniform(0.5, 1.0)
                waiting.appendleft(self._again(call.request, result, unread, wait))
        if fault:
            stored = f"{done:,} of {size:,} pairs of {_subject(number, batch)} are answered and stored"
            raise fault if isinstance(fault, AlRayError) else OracleFailed(f"{fault}{stored}")

    def _again(self, request: Request, result: CallResult, unread: npt.NDArray[np.bool_], wait: float) -> Request:
        """Return the request for the pairs of another that were not read, in `wait` seconds."""
        now = monotonic()
        if result.wait is not None:
            # The service asks for all calls to wait, not only this one.
            self.next_start = max(self.next_start, now + result.wait)
        texts = tuple(request.texts[place] for place in np.flatnonzero(unread).tolist())
        return Request(request.rows[unread], texts, request.failures + 1, now + wait)

    def _returned(self, calls: Calls[Request]) -> Iterator[Answers]:
        """Yield the answers of calls that have returned: they are paid for."""
        for call in calls.returned():
            rows, result = call.request.rows, self._result_of(call.outcome, call.request)
            yield Answers(rows, result.labels, self.service.name, result.confidences, result.cost)

    def _retry_seconds(self, failures: int) -> float:
        """Return the longest wait after this number of failures of a call."""
        return min(LONGEST_WAIT, self.config.retry_seconds * 2.0 ** (failures - 1))

    def _may_start(self, request: Request, calls: Calls[Request]) -> bool:
        """Return whether a call may start beside those under way: there is room, and the cost of all is in the limit.

        With a limit of cost, the first call of an unknown price is made alone.
        """
        if not calls.running or self.config.max_cost is None:
            return len(calls.running) < self.config.calls_at_once
        due = self._due(request) + sum(self._due(call.request) for call in calls.running)
        return len(calls.running) < self.config.calls_at_once and self.service.priced and not self._too_expensive(due)

    def _due(self, request: Request) -> float:
        """Return the expected cost of a call: that at its start, or more if the price is now known to be higher."""
        return max(request.due, self.service.expected_cost(request.texts))

    def _too_expensive(self, due: float) -> bool:
        limit = self.config.max_cost
        return isinstance(limit, int | float) and (self.spent >= limit or self.spent + due > limit * (1 + SLACK))

    def _split_to_limit(self, waiting: deque[Request]) -> None:
        """Split the first request if only the first of its pairs can be paid, and the service charges by the pair."""
        request = waiting[0]
        count = bisect_left(
            range(len(request.texts)),
            True,
            key=lambda last: self._too_expensive(self.service.expected_cost(request.texts[: last + 1])),
        )
        if self.service.charges_by_pair and 0 < count < len(request.texts):
            rest = replace(request, rows=request.rows[count:], texts=request.texts[count:])
            waiting[0] = replace(request, rows=request.rows[:count], texts=request.texts[:count])
            waiting.insert(1, rest)

    def _check_cost(self, waiting: deque[Request], state: str) -> None:
        """Raise CostReached if the first request is too expensive, and so is each part of it that may be asked."""
        self._split_to_limit(waiting)
        texts = waiting[0].texts
        due = self.service.expected_cost(texts)
        if self._too_expensive(due):
            raise CostReached(
                f"stopped by `max_cost={self.config.max_cost:.6g}`: labels cost {self.spent:,.6g} so far, and the next "
                f"{len(texts):,} would make it {self.spent + due:,.6g}; {state}. Rerun the command with a higher "
                "`max_cost` to buy them"
            )

    def _start(self, calls: Calls[Request], request: Request) -> AlRayError | None:
        """Start a call of the service with the texts of a request, or return the error for which none may start."""
        try:
            self.before_call()
        except FolderInUse:
            raise
        except AlRayError as error:
            return error
        request = replace(request, due=self.service.expected_cost(request.texts))
        self.next_start = max(self.next_start, monotonic() + self.service.seconds_between(request.texts))
        left, right = ([pair[side] for pair in request.texts] for side in (0, 1))
        calls.start(request, partial(self.service.ask, left, right), self.config.call_timeout)
        return None

    def _result_of(self, outcome: Outcome, request: Request) -> CallResult:
        """Return the result of a call."""
        pairs = len(request.texts)
        unread, nothing = np.full(pairs, OPEN, dtype=np.uint8), np.full(pairs, np.nan)
        if not outcome.ended:
            wrong = f"no answer within {self.config.call_timeout:g} s (`call_timeout`)"
            due = self._due(request)
            try:
                self.service.expire(request.texts, due)
            except ServiceFailed as error:
                return CallResult(unread, nothing, due, f"{wrong}, and {error}", fatal=True)
            return CallResult(unread, nothing, due, wrong)
        if isinstance(error := outcome.error, ServiceFailed):
            return CallResult(unread, nothing, error.cost, str(error), fatal=error.fatal, wait=error.wait)
        if outcome.error is not None:
            return CallResult(unread, nothing, 0.0, f"{type(outcome.error).__name__}: {outcome.error}"[:500])
        reply, cost, reason = outcome.value, None, ""
        if isinstance(reply, Reply):
            reply, cost, reason = reply.answers, reply.cost, reply.wrong
        labels, confidences, wrong = read_reply(reply, pairs)
        wrong = wrong and (reason or wrong)
        at = int(np.argmax(labels == OPEN))
        if cost is not None and (not isinstance(cost, Number | Decimal) or not 0 <= float(cost) < float("inf")):
            wrong = f"it returned the cost {SHORT.repr(cost)}, not a number from 0, or None"
            return CallResult(labels, confidences, self._due(request), wrong, at, returned=True, fatal=True)
        try:
            charged = self.service.charge(None if cost is None else float(cost), pairs)
        except ServiceFailed as error:
            return CallResult(labels, confidences, self._due(request), str(error), at, returned=True, fatal=True)
        return CallResult(labels, confidences, charged, wrong, at, returned=True)

    def _complaint(self, result: CallResult, batch: Batch, rows: Rows, tries: int) -> str:
        (left,), (right,) = self.task.texts_of(batch.pairs[rows[[result.at]]])
        times = f"tried {tries} times" if tries > 1 else "tried once"
        return (
            f"{self.service.place}: {result.wrong} ({times}, last with the pair {SHORT.repr(left)} "
            f"and {SHORT.repr(right)}); {self.service.fix}, then rerun the same command to resume: "
        )


def _subject(number: int, batch: Batch) -> str:
    """Return what a batch is of, in words: a round, or, as number 0, what its source names, such as the audit."""
    return f"round {number}" if number else f"the {batch.source}"
