"""The walk of docs/annotate.md in a real browser: 240 pairs by keyboard, the server killed three times, to matches.

AL_RAY_PACE: seconds that the person takes for a pair, 0 by default. AL_RAY_PICTURES: a folder for pictures of the page.
"""

import os
import shlex
import time
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from al_ray.datasets.task_folder import read_task
from al_ray.oracles.page_log import read_page_answers
from al_ray.runs.run_folder import RunFolder
from tests.apps.annotating.page_process import PageProcess, free_port
from tests.apps.annotating.test_browser import browser, code_of, enter, press  # noqa: F401
from tests.guides import block, commands
from tests.journeys.products import MATCHES, product, shop

pytestmark = pytest.mark.slow

WALK = ("docs/annotate.md", "## From a CSV to matches, on the page")
PACE, PICTURES = float(os.environ.get("AL_RAY_PACE", "0")), os.environ.get("AL_RAY_PICTURES")
KILLS = (70, 135, 200)


def picture(page: Page, name: str) -> None:
    if PICTURES:
        page.screenshot(path=f"{PICTURES}/{name}.png")


def type_answer(page: Page) -> str:
    """Answer the pair on the page as somebody who knows the products; return the key."""
    time.sleep(PACE)
    titles = [text.inner_text() for text in page.locator(".text").all()]
    # Title and brand of the left and of the right product, field by field.
    left, right = (product(" ".join(titles[side::2])) for side in (0, 1))
    key = "y" if left == right else "n"
    press(page, key)
    return key


def test_the_walk_of_the_guide(browser: Browser, minilm, tmp_path):  # noqa: F811
    terminal = shop(tmp_path)
    prepare, run, match = commands("\n".join(block(*WALK, first) for first in ("$ al-ray prepare", "$ al-ray match")))
    terminal.run(prepare)
    typed, waits, killed, last = dict[str, str](), list[float](), 0, time.monotonic()
    words = ["al_ray", *shlex.split(run)[1:], "--page.port", str(free_port())]
    server = PageProcess(words, tmp_path)
    page = enter(browser, server.url, "ann", viewport={"width": 1100, "height": 620})
    first = time.time() - (tmp_path / "runs" / "page" / "round-001" / "batch.parquet").stat().st_mtime
    try:
        while True:
            if page.locator("form.answer").count():
                code = code_of(page)
                if len(typed) == 100:
                    picture(page, "annotate-pair")
                typed[code] = type_answer(page)
                last = time.monotonic()
            elif "All planned rounds are complete" in page.content():
                break
            else:
                picture(page, "annotate-waiting")
                page.wait_for_timeout(200)
                if page.locator("form.answer").count():
                    waits.append(time.monotonic() - last)
            if killed < len(KILLS) and len(typed) >= KILLS[killed] and page.locator("form.answer").count():
                killed += 1
                server.kill()
                server = PageProcess(words, tmp_path)
                page.goto(server.url)
        server.rest()
    finally:
        server.kill()
        page.context.close()
    print(f"the first pair was shown {first:.1f} s after it was chosen")
    print(f"{len(typed)} pairs, {killed} kills, seconds from the last answer of a round to the next pair: {waits}")
    folder = RunFolder(Path(tmp_path, "runs", "page"), read_task(tmp_path / "tasks" / "products"))
    assert (killed, folder.last, len(typed)) == (3, 4, 240)
    for number in range(1, 5):
        labels = folder.ledger.labels(number).tolist()
        keys = [typed[f"r{number:03d}-{row:05d}"] for row in range(1, len(labels) + 1)]
        assert labels == [int(key == "y") for key in keys]
        batch = folder.ledger.batch(number)
        assert batch is not None
        ids = zip(*folder.task.ids_of(batch.pairs), strict=True)
        assert labels == [int(frozenset(pair) in MATCHES) for pair in ids]
        log = read_page_answers(Path(str(folder.round(number))) / "batch.page.log")
        assert len(log.requests) == len(labels)
    assert "matches: " in terminal.run(match)
