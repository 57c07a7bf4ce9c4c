"""Calls of foreign code in threads, several at a time, each with a time limit."""

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Thread
from types import TracebackType
from typing import Generic, TypeVar

Request = TypeVar("Request")
# Seconds of one wait. Python notices a signal late that arrives just before a wait begins: after it.
LONGEST_WAIT = 1.0


@dataclass
class Outcome:
    """The result of a call of user code, as a value: its return value or its exception; or that it has not ended."""

    value: object = None
    error: BaseException | None = None
    ended: bool = False

    def __enter__(self) -> "Outcome":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        self.error, self.ended = error, True
        return not isinstance(error, KeyboardInterrupt)


@dataclass(eq=False)
class Call(Generic[Request]):
    """A call that is under way or has ended: the request, its outcome, and its deadline (monotonic seconds)."""

    request: Request
    deadline: float
    outcome: Outcome = field(default_factory=Outcome)


class Calls(Generic[Request]):
    """The calls under way; each ends when its function returns or raises, or at its deadline."""

    def __init__(self) -> None:
        """Begin with none."""
        self.running = list[Call[Request]]()
        self._ended = SimpleQueue[Call[Request]]()

    def start(self, request: Request, function: Callable[[], object], seconds: float) -> None:
        """Call the function in a daemon thread; after `seconds` the call counts as ended, and the thread may go on."""
        call = Call(request, time.monotonic() + seconds)

        def work() -> None:
            outcome = call.outcome
            with suppress(KeyboardInterrupt), outcome:
                outcome.value = function()
            self._ended.put(call)

        self.running.append(call)
        Thread(target=work, daemon=True).start()

    def wait(self, until: float = math.inf) -> Call[Request] | None:
        """Return the call that ends next; None if none ends until that time (monotonic).

        The outcome of a call whose time is over has not ended. An interrupt of a call is raised here.
        """
        while True:
            first = min(self.running, key=lambda call: call.deadline, default=None)
            limit = min(until, math.inf if first is None else first.deadline)
            try:
                call = self._ended.get(timeout=min(LONGEST_WAIT, max(0.0, limit - time.monotonic())))
            except Empty:
                if time.monotonic() < limit:
                    continue
                if first is None or first.deadline > until:
                    return None
                self.running.remove(first)
                # Its thread may still fill in the old one.
                first.outcome = Outcome()
                return first
            # The late result of a call whose time was over is dropped.
            if call in self.running:
                self.running.remove(call)
                if isinstance(call.outcome.error, KeyboardInterrupt):
                    raise call.outcome.error
                return call

    def returned(self) -> list[Call[Request]]:
        """Return the calls that have returned and were not taken yet, without waiting."""
        found = list[Call[Request]]()
        with suppress(Empty):
            while True:
                call = self._ended.get_nowait()
                if call in self.running and call.outcome.error is None:
                    self.running.remove(call)
                    found.append(call)
        return found
