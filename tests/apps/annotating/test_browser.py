"""People label in a real browser: by keyboard, on a phone, two at a time, and while the server is killed."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from al_ray.core.labels import OPEN, WORDS
from al_ray.oracles.page_log import PageAnswers, read_page_answers
from al_ray.runs.run_folder import RunFolder
from tests.apps.annotating.page_process import free_port, page_process
from tests.apps.annotating.waiting_runs import TOKEN, waiting_run

NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = next((path for name in NAMES if (path := shutil.which(name))), None)
    if program is None:
        pytest.skip("no Chromium is installed (on Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        # --no-sandbox: it does not start as root otherwise.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def run(make_task, tmp_path) -> RunFolder:
    return waiting_run(tmp_path, make_task(True))


def command(port: int) -> list[str]:
    return ["jobs.annotate", "--run", "run", "--port", str(port)]


def log_of(run: RunFolder) -> PageAnswers:
    return read_page_answers(Path(str(run.round(1))) / "batch.page.log")


def enter(browser: Browser, url: str, name: str, token: str = "", **context: Any) -> Page:
    """Somebody opens the page and signs in, by keyboard alone."""
    page = browser.new_context(**context).new_page()
    # A busy machine takes its time.
    page.set_default_timeout(60_000)
    page.goto(url)
    # The name has the focus.
    page.keyboard.type(name)
    if token:
        page.keyboard.press("Tab")
        page.keyboard.type(token)
    page.keyboard.press("Enter")
    page.wait_for_selector("form.answer")
    return page


def code_of(page: Page) -> str:
    return page.input_value("form.answer [name=pair]")


def press(page: Page, key: str) -> None:
    """Press a key that leads to another page, and wait for it."""
    with page.expect_navigation():
        page.keyboard.press(key)


def test_a_batch_is_labelled_by_keyboard_with_undo_reload_and_a_killed_server(browser, run, tmp_path):
    port, complaints = free_port(), list[str]()
    with page_process(command(port), tmp_path) as server:
        page = enter(browser, server.url, "ann")
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        press(page, "y")
        press(page, "n")
        press(page, "z")
        assert code_of(page) == "r001-00002"
        assert log_of(run).label("r001-00002") == OPEN
        press(page, "u")
        page.reload()
        assert code_of(page) == "r001-00003"
        # A note is typed, not taken for keys.
        page.click("summary")
        expect(page.locator("textarea")).to_be_focused()
        page.keyboard.type("yn")
        page.keyboard.press("Escape")
        page.keyboard.press("m")
        page.keyboard.press("m")
        expect(page.locator("textarea")).to_be_focused()
        page.keyboard.press("End")
        page.keyboard.type("y")
        page.keyboard.press("Escape")
        assert code_of(page) == "r001-00003"
        press(page, "n")
        assert complaints == []
        server.kill()
    # The answer waits in the browser until there is a server again, and counts once.
    page.keyboard.press("y")
    expect(page.locator("#trouble")).to_contain_text("not stored yet")
    with page_process(command(port), tmp_path) as server:
        page.wait_for_selector("form.answer [name=pair][value=r001-00005]", state="attached")
        press(page, "y")
        press(page, "y")
        expect(page.locator("h1")).to_have_text("All pairs are labelled")
        said = server.end()
    page.context.close()
    assert "round 1: 6 of 6 pairs are labelled" in said
    assert "go on with: python -m jobs.run --out run --config run" in said
    page_log = log_of(run)
    labels = [WORDS[page_log.label(code)] for code in sorted(page_log.touched)]
    assert labels == ["yes", "unsure", "no", "yes", "yes", "yes"]
    assert page_log.of("r001-00003")["ann"].note == "yny"


def test_two_people_label_at_once_and_never_the_same_pair(browser, run, tmp_path):
    with page_process(command(free_port()), tmp_path, AL_RAY_TOKEN=TOKEN) as server:
        ann, bob = (enter(browser, server.url, name, TOKEN) for name in ("ann", "bob"))
        for _ in range(3):
            assert code_of(ann) != code_of(bob)
            press(ann, "y")
            press(bob, "n")
        for page in (ann, bob):
            page.goto(server.url)
            expect(page.locator("h1")).to_have_text("All pairs are labelled")
            page.context.close()
        assert TOKEN not in "".join(server.printed)
    assert [len(log_of(run).of(code)) for code in sorted(log_of(run).touched)] == [1] * 6


def test_a_phone_in_the_dark_shows_both_texts_and_the_buttons_without_scrolling_sideways(browser, run, tmp_path):
    with page_process(command(free_port()), tmp_path) as server:
        view: dict[str, Any] = {"viewport": {"width": 360, "height": 740}, "color_scheme": "dark", "has_touch": True}
        page = enter(browser, server.url, "ann", **view)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        for button in page.locator("form.answer .buttons button").all():
            box = button.bounding_box()
            assert box is not None
            assert box["height"] >= 44
            assert box["y"] + box["height"] <= 740
        red, green, blue = (
            int(part) for part in page.evaluate("getComputedStyle(document.body).backgroundColor")[4:-1].split(",")[:3]
        )
        assert max(red, green, blue) < 60
        with page.expect_navigation():
            page.tap("button.no")
        assert code_of(page) == "r001-00002"
        page.context.close()


def test_every_control_has_a_name_and_every_page_a_heading(browser, run, tmp_path):
    with page_process([*command(free_port()), "--overlap", "1"], tmp_path) as server:
        ann, bob = enter(browser, server.url, "ann"), enter(browser, server.url, "bob")
        for _ in range(3):
            press(ann, "y")
            press(bob, "n")
        for address in ("/", "/progress", "/disputes", "/pair/r001-00001"):
            ann.goto(server.url + address)
            assert ann.locator("h1").count() == 1
            assert ann.evaluate("document.documentElement.lang") == "en"
            for control in ann.locator("button, input:not([type=hidden]), textarea, a").all():
                name = control.evaluate(
                    "c => c.ariaLabel || c.textContent.trim() || (c.labels && c.labels[0]?.textContent)"
                )
                assert name, control.evaluate("c => c.outerHTML")
        ann.goto(server.url + "/disputes")
        assert ann.locator("section.card").count() > 0
        with ann.expect_navigation():
            ann.locator("section.card").first.get_by_role("button", name="No").click()
        expect(ann.locator(".own")).to_contain_text("Settled by ann: no")
        for page in (ann, bob):
            page.context.close()
