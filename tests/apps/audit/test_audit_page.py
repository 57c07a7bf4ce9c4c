"""The sample of an audit is labelled on the page, and what is estimated reads the answers."""

import numpy as np
import pytest
from starlette.testclient import TestClient

from al_ray.apps.annotating.access import Access
from al_ray.apps.annotating.annotator import Annotator, RunStatus
from al_ray.apps.annotating.options import PageOptions
from al_ray.apps.annotating.web import make_application
from al_ray.apps.audit.folder import STEM, AuditFolder, AuditOptions, Record
from al_ray.apps.audit.labels import read_labels
from al_ray.apps.audit.sheet import AuditSheets
from al_ray.core.errors import BadFile
from al_ray.core.labels import NO, UNSURE, YES
from al_ray.metrics.audit.drawn_pairs import BandScores, DrawnPairs
from al_ray.oracles.people import write_sheets
from tests.apps.annotating.waiting_runs import Person


def test_a_sample_is_labelled_on_the_page_and_its_labels_are_read(task, tmp_path):
    folder, space = AuditFolder(tmp_path), task.split("dev").space
    pairs = space.pairs(space.at(np.arange(3)))
    options = AuditOptions("dev", 1, 0, None, None, None, 3, 4, "model", task.digest)
    drawn = DrawnPairs(pairs, ("near",) * 3, np.array([0, 3, 4]), np.array([0.9, 0.8, np.nan]))
    scored = BandScores(np.array([0.95, 0.9, 0.8, 0.7]), np.empty(0), np.empty(0, dtype=np.uint8))
    folder.keep(Record(options, space.total, 9.0, -8.0), drawn, scored, task)
    codes, ids, _ = folder.key()
    write_sheets(tmp_path, STEM, codes, pairs, task)
    with pytest.raises(BadFile, match="answers none of the 3 pairs"):
        read_labels(tmp_path, None, codes, ids)

    annotator = Annotator(AuditSheets(tmp_path), PageOptions(), lambda: RunStatus(command="estimate it"))
    application = make_application(annotator, Access("127.0.0.1", 8001, None))
    ann = Person(TestClient(application, base_url="http://127.0.0.1:8001"), "ann")
    assert ann.code == codes[0]
    for answer in ("yes", "no", "unsure"):
        ann.answer(answer)
    assert "estimate it" in ann.page
    assert "Cosine 0.900" in ann.open(f"/pair/{codes[0]}").text
    assert "No score is known" in ann.open(f"/pair/{codes[2]}").text
    annotator.close()
    assert read_labels(tmp_path, None, codes, ids).tolist() == [YES, NO, UNSURE]
