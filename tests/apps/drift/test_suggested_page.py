"""Suggested pairs are labelled on the page, and a run takes the answers."""

import numpy as np
import pytest
from starlette.testclient import TestClient

from al_ray.api.labels import import_labels
from al_ray.apps.annotating.access import Access
from al_ray.apps.annotating.annotator import Annotator, RunStatus
from al_ray.apps.annotating.options import PageOptions
from al_ray.apps.annotating.web import make_application
from al_ray.apps.drift.folder import may_hold_answers, read_suggested, write_suggested
from al_ray.apps.drift.sheet import SuggestedSheets
from al_ray.apps.matching.folder import write_record
from al_ray.core.errors import BadFile
from al_ray.core.labels import NO, OPEN, UNSURE, YES
from al_ray.datasets.task_folder import write_task
from al_ray.runs.run_folder import RunFolder
from tests.apps.annotating.waiting_runs import Person


@pytest.fixture
def suggested(task, tmp_path):
    """The folder of matches with three suggested pairs, and the pairs."""
    space, folder = task.split("train").space, tmp_path / "matches"
    pairs = space.pairs(space.at(np.array([0, 7, 13])))
    folder.mkdir()
    write_suggested(folder, task, pairs, np.array([0.9, 0.8, 0.7]), np.zeros((3, 2)))
    write_record(folder, {"model": {"run": "r"}})
    return folder, pairs


def page(folder) -> tuple[Annotator, Person]:
    annotator = Annotator(SuggestedSheets(folder), PageOptions(), lambda: RunStatus(command="import them"))
    application = make_application(annotator, Access("127.0.0.1", 8001, None))
    return annotator, Person(TestClient(application, base_url="http://127.0.0.1:8001"), "ann")


def test_answers_of_the_page_are_imported_from_the_folder(suggested, task, tmp_path):
    folder, pairs = suggested
    write_task(task, tmp_path / "task", {})
    with pytest.raises(BadFile, match="holds no label; there is nothing to import"):
        import_labels(tmp_path / "run", folder, task=tmp_path / "task")
    annotator, ann = page(folder)
    assert ann.code == "s00001"
    for answer in ("yes", "no", "unsure"):
        ann.answer(answer)
    assert "import them" in ann.page
    assert "Cosine 0.900" in ann.open("/pair/s00001").text
    annotator.close()

    done = import_labels(tmp_path / "run", folder, task=tmp_path / "task")
    assert (done.labels, done.matches) == (3, 1)
    labelled = RunFolder(tmp_path / "run", task).ledger.labelled()
    assert labelled.pairs.tolist() == pairs.tolist()
    assert labelled.labels.tolist() == [YES, NO, UNSURE]


def test_a_yes_that_is_not_confirmed_is_not_imported_and_what_is_settled_later_is(suggested, task, tmp_path):
    folder, _ = suggested
    write_task(task, tmp_path / "task", {})
    annotator = Annotator(SuggestedSheets(folder), PageOptions(confirm_matches=True), lambda: RunStatus())
    application = make_application(annotator, Access("127.0.0.1", 8001, None))
    ann = Person(TestClient(application, base_url="http://127.0.0.1:8001"), "ann")
    for answer in ("yes", "yes", "no"):
        ann.answer(answer)
    bob = Person(TestClient(application, base_url="http://127.0.0.1:8001"), "bob")
    assert bob.code == "s00001"
    bob.answer("no")

    def imported() -> list[int]:
        done.append(import_labels(tmp_path / "run", folder, task=tmp_path / "task"))
        return RunFolder(tmp_path / "run", task).ledger.labels_of(suggested[1]).tolist()

    done = []
    # People differ on the first pair, and the second waits for bob.
    assert imported() == [UNSURE, OPEN, NO]
    bob.send("/settle", pair="s00001", label="yes", request="s")
    assert imported() == [YES, OPEN, NO]
    assert "labels of pairs that were unsure before: 1" in list(done[-1].report.lines())
    bob.send("/answer", pair="s00002", label="yes", request="t")
    assert imported() == [YES, YES, NO]
    annotator.close()
    assert [(one.round, one.labels, one.matches) for one in done] == [(1, 2, 0), (1, 0, 0), (2, 1, 1)]


def test_an_answer_in_the_sheet_is_one_too_and_is_not_asked_again(suggested):
    folder, _ = suggested
    sheet = folder / "suggested.csv"
    sheet.write_text(sheet.read_text(encoding="utf-8-sig").replace("s00001,", "s00001,yes", 1), encoding="utf-8")
    annotator, ann = page(folder)
    assert ann.code == "s00002"
    annotator.close()


def test_pairs_with_answers_on_the_page_alone_are_kept(suggested):
    folder, _ = suggested
    annotator, ann = page(folder)
    ann.answer("yes")
    annotator.close()
    (folder / "suggested.csv").unlink()
    assert may_hold_answers(folder)


def test_new_suggestions_replace_the_tasks_of_those_whose_sheet_was_moved_away(suggested, task):
    folder, pairs = suggested
    (folder / "suggested.csv").unlink()
    assert not may_hold_answers(folder)
    write_suggested(folder, task, pairs[::-1], np.array([0.7, 0.8, 0.9]), np.zeros((3, 2)))
    (sheet,) = SuggestedSheets(folder).new_sheets(())
    assert [pair.ids for pair in sheet.pairs.values()] == read_suggested(folder).ids
    assert [*SuggestedSheets(folder).new_sheets({"s"})] == []


def test_tasks_of_other_pairs_are_refused(suggested):
    folder, _ = suggested
    tasks = folder / "suggested.json"
    tasks.write_text(tasks.read_text().replace("s00003", "s00009"))
    with pytest.raises(BadFile, match=r"suggested.json holds other pairs than suggested.parquet beside it; restore"):
        list(SuggestedSheets(folder).new_sheets(()))
