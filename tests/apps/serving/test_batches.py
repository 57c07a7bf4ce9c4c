"""Questions that wait are answered together: which ones, and what a failed batch leaves."""

import asyncio
from typing import Any

import pytest

from al_ray.apps.serving.answers import MatchAnswer
from al_ray.apps.serving.questions import Batches, Question
from al_ray.core.errors import BadFile


def question(name: str) -> Question:
    return Question((name,), 1)


class Slow:
    """Answers of batches, each when `release` has a permit for it; a batch with `bad` fails."""

    def __init__(self) -> None:
        self.batches, self.began, self.release = list[list[str]](), asyncio.Event(), asyncio.Semaphore(0)

    async def answer(self, questions: list[Question]) -> list[MatchAnswer]:
        texts = [one.texts[0] for one in questions]
        self.batches.append(texts)
        self.began.set()
        await self.release.acquire()
        if "bad" in texts:
            raise BadFile("the store is gone")
        return [MatchAnswer(text, 0) for text in texts]


async def begin(batches: Batches, slow: Slow, names: str) -> list[asyncio.Task[MatchAnswer]]:
    """Ask "a" alone, and each of the names while it is answered."""
    tasks = [asyncio.create_task(batches.answer(question("a")))]
    await slow.began.wait()
    tasks += [asyncio.create_task(batches.answer(question(name))) for name in names.split()]
    # Tasks begin in their order; this one begins after them.
    await asyncio.create_task(asyncio.sleep(0))
    return tasks


@pytest.mark.parametrize("wait", [0.0, 0.001])
def test_questions_that_come_while_a_batch_is_answered_are_the_next_one(wait):
    async def run() -> tuple[list[list[str]], list[str]]:
        slow = Slow()
        tasks = await begin(Batches(slow.answer, 3, wait), slow, "b c d e f g h")
        for _ in range(4):
            slow.release.release()
        return slow.batches, [answer.model for answer in await asyncio.gather(*tasks)]

    batches, answers = asyncio.run(run())
    assert batches == [["a"], ["b", "c", "d"], ["e", "f", "g"], ["h"]]
    assert answers == list("abcdefgh")


def test_an_error_is_raised_for_the_questions_of_its_batch_alone():
    async def run() -> list[Any]:
        slow = Slow()
        batches = Batches(slow.answer, 2, 0.0)
        tasks = await begin(batches, slow, "b bad c d")
        for _ in range(4):
            slow.release.release()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        return [*answers, await batches.answer(question("later"))]

    a, b, bad, c, d, later = asyncio.run(run())
    assert [one.model for one in (a, c, d, later)] == ["a", "c", "d", "later"]
    assert [str(error) for error in (b, bad)] == ["the store is gone"] * 2


def test_a_question_that_is_given_up_leaves_the_others_of_its_batch():
    async def run() -> tuple[list[list[str]], MatchAnswer]:
        slow = Slow()
        a, b, c = await begin(Batches(slow.answer, 2, 0.0), slow, "b c")
        b.cancel()
        for _ in range(2):
            slow.release.release()
        await a
        return slow.batches, await c

    batches, answer = asyncio.run(run())
    assert batches == [["a"], ["b", "c"]]
    assert answer == MatchAnswer("c", 0)
