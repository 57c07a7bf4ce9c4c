"""How a run waits for the page, and which process may serve it."""

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from al_ray.apps.annotating.sheets import RunSheets, read_sheet_pairs
from al_ray.apps.annotating.views import show_sides
from al_ray.core.labels import NO, YES
from al_ray.core.pairs import as_pairs
from al_ray.core.task import Corpus, Fields, Task
from al_ray.oracles.people import FileOracle, PageOracle, write_sheets
from al_ray.runs.run_folder import bound_config, opened
from tests.apps.annotating.page_process import PageProcess, free_port, page_process
from tests.apps.annotating.waiting_runs import page_of, waiting_run


class Waiting:
    """An oracle that waits for the page in a thread of its own, and stores what it gets, as the loop does."""

    def __init__(self, run) -> None:
        self.run = run
        self.thread = threading.Thread(target=self._label, daemon=True)
        self.thread.start()

    def _label(self) -> None:
        batch = self.run.ledger.batch(1)
        for piece in PageOracle(FileOracle(self.run.ledger)).label(1, batch, np.arange(len(batch.pairs))):
            self.run.ledger.add_answers(1, piece)

    def has_ended(self, seconds: float) -> bool:
        self.thread.join(seconds)
        return not self.thread.is_alive()


def test_a_run_waits_for_what_was_undone_also_after_a_restart(task, tmp_path):
    run = waiting_run(tmp_path, task, pairs=3)
    with page_of(run) as page:
        ann = page.person("ann")
        ann.answer("yes")
        ann.answer("yes")
    waiting = Waiting(run)
    with page_of(run) as page:
        ann = page.person("ann")
        ann.undo()
        # Not the undone pair, which waits in another window.
        ann.send("/answer", pair="r001-00003", request="third", label="no")
        assert not waiting.has_ended(1)
        ann.send("/answer", pair="r001-00002", request="second", label="no")
        assert waiting.has_ended(30)
    assert run.ledger.labels(1).tolist() == [YES, NO, NO]


def fill(sheet: Path, rows: range, label: str) -> str:
    """The text of a sheet with a label in some of its rows; a pair is at the beginning of its line."""
    text = sheet.read_text(encoding="utf-8-sig")
    for row in rows:
        text = text.replace(f"r001-{row:05d},", f"r001-{row:05d},{label}", 1)
    return text


def wait_through(run, monkeypatch, *steps: Callable[[], object]) -> None:
    """Let the oracle of a run wait while something happens at each of its pauses; an error if it waits longer."""
    batch, pauses = run.ledger.batch(1), iter(steps)
    monkeypatch.setattr("al_ray.oracles.people.sleep", lambda _: next(pauses)())
    for piece in PageOracle(FileOracle(run.ledger)).label(1, batch, np.arange(len(batch.pairs))):
        run.ledger.add_answers(1, piece)
    assert not list(pauses)


def test_a_run_reads_what_is_filled_in_the_sheet_while_it_waits(task, tmp_path, caplog, monkeypatch):
    run, sheet = waiting_run(tmp_path, task, oracle="page"), tmp_path / "run" / "round-001" / "batch.csv"

    def save_in_part() -> None:
        text = fill(sheet, range(1, 3), "no")
        sheet.write_text(text[: text.index("r001-00004")], encoding="utf-8")

    def save(text: str) -> None:
        assert "lacks r001-00004 and 2 pairs more" in caplog.text
        sheet.write_text(text, encoding="utf-8")

    def answer_the_others() -> None:
        with page_of(run) as page:
            ann, asked = page.person("ann"), list[str]()
            while ann.code:
                asked.append(ann.code)
                ann.answer("yes")
            assert asked == [f"r001-0000{row}" for row in (3, 4, 5, 6)]

    with page_of(run) as page:
        page.annotator.refresh()
    full = fill(sheet, range(1, 3), "no")
    wait_through(run, monkeypatch, save_in_part, lambda: save(full), answer_the_others)
    assert run.ledger.labels(1).tolist() == [NO, NO, YES, YES, YES, YES]


def test_a_run_ends_when_the_sheet_alone_is_filled(task, tmp_path, monkeypatch):
    run, sheet = waiting_run(tmp_path, task, oracle="page"), tmp_path / "run" / "round-001" / "batch.csv"

    def answer_and_take_back() -> None:
        with page_of(run) as page:
            page.person("ann").answer("yes")
            page.person("bob").send("/retract", name="ann", request="t")

    def save() -> None:
        sheet.write_text(fill(sheet, range(1, 7), "no"), encoding="utf-8")

    wait_through(run, monkeypatch, answer_and_take_back, save)
    assert run.ledger.labels(1).tolist() == [NO] * 6


def test_sheets_are_written_by_two_threads_at_once(task, tmp_path):
    for number in range(20):
        run = waiting_run(tmp_path / str(number), task)
        waiting = Waiting(run)
        (sheet,) = RunSheets(run, 0, people=True).new_sheets(())
        assert len(sheet.pairs) == 6
        with page_of(run) as page:
            ann = page.person("ann")
            while ann.code:
                ann.answer("no")
        assert waiting.has_ended(30)


def test_files_and_page_are_the_same_run(task, tmp_path):
    run = waiting_run(tmp_path, task, oracle="file")
    config = bound_config(run.path)
    with opened(run.path, run.task) as folder:
        folder.bind(type(config)(**{**vars(config), "oracle": "page"}))
    assert bound_config(run.path).oracle == "page"


def test_a_second_process_is_refused_with_the_address_of_the_page(make_task, tmp_path):
    waiting_run(tmp_path, make_task(True))
    port = str(free_port())
    words = ["jobs.annotate", "--run", "run", "--port", port]
    with page_process(words, tmp_path) as server:
        # By default both have the same port.
        with pytest.raises(AssertionError, match=r"is being written by another process; .*label on its page: ") as said:
            PageProcess(words, tmp_path)
        assert server.url in str(said.value)
        server.kill()
    with opened(tmp_path / "run", make_task(True)):
        # A page.json that a killed process has left is no address.
        with pytest.raises(AssertionError, match="is being written by another process") as said:
            PageProcess(words, tmp_path)
        assert "label on its page" not in str(said.value)


def test_fields_of_any_script_keep_their_titles_and_their_text(tmp_path):
    names, texts = (
        ("\u0446\u0435\u043d\u0430", "Größe", "left_text"),
        (("1 \u20bd", "7 g", "a"), ("1 \u20bd", "9 g", "b")),
    )
    lengths = np.array([list(map(len, one)) for one in texts])
    corpus = Corpus(["1", "2"], [" ".join(one) for one in texts], Fields(names, lengths))
    task = Task("t", True, corpus, corpus, {}, "digest")
    write_sheets(tmp_path, "batch", ["r001-00001"], as_pairs(np.array([0]), np.array([1])), task)
    pair = read_sheet_pairs(Path(tmp_path) / "batch.json")["r001-00001"]
    assert pair.left == tuple(zip(names, texts[0], strict=True))
    assert pair.right == tuple(zip(names, texts[1], strict=True))
    rows = show_sides(pair).rows
    assert [(left[0].title, "".join(part.text for part in left[0].parts)) for left, _ in rows] == list(pair.left)
