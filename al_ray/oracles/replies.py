"""What a service that labels returns, and what it says about itself: a Python function or a language model."""

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from al_ray.core.labels import NO, OPEN, UNSURE, YES
from al_ray.core.scorer import Floats, Labels
from al_ray.datasets.tables import pair_labels as stated

Number = int | float | np.integer | np.floating
Texts = tuple[str, str]
"""The left and the right text of a pair."""

# Texts and answers in a message.
SHORT = reprlib.Repr()
SHORT.maxstring = SHORT.maxother = 60


@dataclass(frozen=True)
class Reply:
    """Answers to the pairs of a call, and its cost in the currency of --max-cost (None: --cost-per-pair each).

    wrong: why an answer is unreadable, for the message; by default the message quotes the answer.
    """

    answers: Sequence[object]
    cost: float | None = None
    wrong: str = ""


@dataclass(frozen=True)
class CallResult:
    """The result of a call with k pairs: (k,) labels, OPEN where unreadable, (k,) confidences, and the cost.

    wrong: the first fault, at pair `at` of the k; "" if there is none. returned: whether the function returned a value.
    fatal: whether asking again would not help. wait: seconds for which the service asks, None if it does not say.
    """

    labels: Labels
    confidences: Floats
    cost: float = 0.0
    wrong: str = ""
    at: int = 0
    returned: bool = False
    fatal: bool = False
    wait: float | None = None


class ServiceFailed(Exception):
    """A call of a service that gave no answers.

    cost: what it is charged with. wait: seconds for which the service asks, None if it does not say. fatal: whether
    asking again would not help.
    """

    def __init__(self, message: str, cost: float = 0.0, wait: float | None = None, fatal: bool = False) -> None:
        super().__init__(message)
        self.cost, self.wait, self.fatal = cost, wait, fatal


class Service(Protocol):
    """Whom CallableOracle asks.

    name: of the labeller, for its answers. place, fix: the option and the remedy in an error. charges_by_pair: whether
    a part of a call's pairs costs that part of its price, so that a call may be split to stay within --max-cost.
    """

    name: str
    place: str
    fix: str
    charges_by_pair: bool

    def ask(self, left: list[str], right: list[str]) -> object:
        """Return answers to pairs, or a Reply; called in a thread. ServiceFailed says more than other exceptions."""
        ...

    def expected_cost(self, pairs: Sequence[Texts]) -> float:
        """Return what a call with these pairs is expected to cost."""
        ...

    @property
    def priced(self) -> bool:
        """Whether the expected cost is known, not a guess before the first call."""
        ...

    def charge(self, cost: float | None, pairs: int) -> float:
        """Return the cost of a call of `pairs` pairs that returned this cost, and learn from it.

        ServiceFailed if the cost is unknown, and there is a limit.
        """
        ...

    def expire(self, pairs: Sequence[Texts], cost: float) -> None:
        """Note that a call with these pairs has not ended in time and is charged with this cost; it may still end.

        ServiceFailed if it cannot be noted: the call is charged all the same, and no other may start.
        """
        ...

    def seconds_between(self, pairs: Sequence[Texts]) -> float:
        """Return the seconds from the start of a call with these pairs to that of the next call."""
        ...


def read_reply(answers: object, pairs: int) -> tuple[Labels, Floats, str]:
    """Return (k,) labels, OPEN where unreadable, (k,) confidences, and the first fault in a function's answers.

    If the number of answers is not k, none is read: they cannot be matched with pairs.
    """
    labels, confidences = np.full(pairs, OPEN, dtype=np.uint8), np.full(pairs, np.nan)
    if hasattr(answers, "tolist"):
        # An array or series of NumPy, torch or pandas.
        answers = answers.tolist()  # type: ignore[union-attr]
    if not isinstance(answers, Sequence) or isinstance(answers, str | bytes):
        return labels, confidences, f"it returned {SHORT.repr(answers)}, not a list of {pairs} answers"
    if len(answers) != pairs:
        return labels, confidences, f"it returned {len(answers)} answers to {pairs} pairs"
    wrong = ""
    for place, answer in enumerate(answers):
        labels[place], confidences[place] = read_answer(answer)
        if labels[place] == OPEN and not wrong:
            wrong = f"it returned {SHORT.repr(answer)}, not 1, 0, yes, no, unsure or (answer, confidence from 0 to 1)"
    return labels, confidences, wrong


def read_answer(answer: object) -> tuple[int, float]:
    """Return the label of an answer, OPEN if unreadable, and its confidence, NaN if it has none."""
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
