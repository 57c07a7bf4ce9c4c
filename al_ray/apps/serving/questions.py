"""What a request asks, and the questions that are answered together."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from al_ray.apps.serving.answers import MatchAnswer


@dataclass(frozen=True)
class Question:
    """Texts of one request. limit: matches of each at most. at_least: the change that must have been seen.

    records: in place of texts, for a model with a matcher. why: say what each comparison of a matcher adds to p.
    """

    texts: tuple[str, ...]
    limit: int
    at_least: int = 0
    records: tuple[Mapping[str, Any], ...] = ()
    why: bool = False


Put = tuple[str, str | Mapping[str, Any]]
"""An id, and the text or the record that is to be known by it."""


@dataclass(frozen=True)
class Checked:
    """Texts by id as the store keeps them, or what is wrong with them.

    error: what the body has that the model does not match. refusal: why the model must not know these texts.
    """

    texts: tuple[tuple[str, str], ...] = ()
    error: str = ""
    refusal: str = ""


class Batches:
    """Batches of questions: those that come while a batch is answered are answered together, next.

    `serve.batch` of Ray Serve closes a batch `wait` seconds after its first question, although the one before it is
    still being answered; under load nearly all of its batches had one question.
    """

    def __init__(
        self, answer: Callable[[list[Question]], Awaitable[list[MatchAnswer]]], most: int, wait: float
    ) -> None:
        """answer: of the questions of a batch. most: questions of a batch. wait: seconds that it waits for more."""
        self._answer, self._most, self._wait = answer, most, wait
        self._turn = asyncio.Lock()
        self._open: tuple[list[Question], asyncio.Task[list[MatchAnswer]]] | None = None

    async def answer(self, question: Question) -> MatchAnswer:
        """Return the answer to a question; an error of its batch is raised for each of its questions."""
        if self._open is None or len(self._open[0]) >= self._most:
            questions = list[Question]()
            self._open = questions, asyncio.create_task(self._run(questions))
        questions, task = self._open
        questions.append(question)
        place = len(questions) - 1
        # Whoever waits no more does not end the batch of the others.
        return (await asyncio.shield(task))[place]

    async def _run(self, questions: list[Question]) -> list[MatchAnswer]:
        async with self._turn:
            if len(questions) < self._most:
                await asyncio.sleep(self._wait)
            if self._open is not None and self._open[0] is questions:
                self._open = None
            return await self._answer(questions)
