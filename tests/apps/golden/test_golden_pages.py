"""The pages of golden records, as people use them: what they show, what a form changes, and what is refused."""

import html
import re
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from starlette.testclient import TestClient

import al_ray
from al_ray.api.labelling.page import MatchSheets
from al_ray.apps.annotating.access import Access
from al_ray.apps.annotating.annotator import Annotator, RunStatus
from al_ray.apps.annotating.options import PageOptions
from al_ray.apps.annotating.web import make_application
from al_ray.apps.golden.pages import golden_pages
from al_ray.apps.matching.golden.editor import GoldenEditor
from al_ray.apps.matching.golden.overrides import read_overrides
from al_ray.core.errors import BadOption
from tests.apps.annotating.waiting_runs import Person
from tests.apps.matching.incremental.loops import Matcher

# 1, 2 and 3 are one cluster: they have 3 of 4 letters in common (0.8) or 3 of 5 (0.6).
TEXTS = {"1": "abc", "2": "ab<i>cd", "3": "abce", "4": "xyz"}
CELLS = {"1": ("9", "web"), "2": ("10", ""), "3": ("", "shop"), "4": ("7", "web")}


@pytest.fixture
def matcher(tmp_path, monkeypatch):
    made = Matcher(tmp_path, monkeypatch).trained_on(TEXTS)
    made.cells["left"] = CELLS
    made.match("out", TEXTS, at_score=0.3, golden="*=longest,tax=most-frequent")
    return made


@contextmanager
def page_of(matcher):
    """The page of the matches: .person(NAME) opens it."""
    editor, options = GoldenEditor(matcher.folder / "out"), PageOptions()
    annotator = Annotator(MatchSheets(None, editor), options, RunStatus, extra=golden_pages(editor))
    application = make_application(annotator, Access(options.host, options.port, None))
    client = TestClient(application, base_url="http://127.0.0.1:8001")
    try:
        yield SimpleNamespace(person=lambda name: Person(client, name), editor=editor)
    finally:
        annotator.close()
        editor.close()


def give(person: Person, value: str, change: str = "give", **fields: str):
    """Send the form of the field text on the page of cluster 0 as it is now."""
    form = {"cluster": "0", "field": "text", "value": value, "change": change, "request": person.field("request")}
    return person.send("/golden", **(form | fields))


def shown(person: Person, name: str) -> str:
    """The card of a field in words."""
    (card,) = re.findall(rf'<section class="card" aria-label="{name}">(.*?)</section>', person.page, re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", card)).split())


def test_without_pairs_the_page_begins_with_the_clusters_and_each_shows_values_rules_and_records(matcher):
    with page_of(matcher) as page:
        ann = page.person("Ann")
        assert '<a href="/golden/0">Cluster 0</a>: 3 records' in ann.page
        assert 'href="/golden">Golden records</a>' in ann.page
        ann.open("/golden/0")
        assert "Cluster 0: 3 records" in ann.page
        # A text is shown as it is, and is no HTML.
        assert "ab&lt;i&gt;cd" in ann.page
        assert "<i>" not in ann.page
        assert "By the rule longest, from record 2" in shown(ann, "text")
        assert "3 different values" in shown(ann, "text")
        # 3 has no cell.
        assert shown(ann, "tax").startswith("tax 9 By the rule most-frequent, from record 1 2 different values")


def test_a_value_is_on_disk_once_by_whom_and_can_be_taken_back(matcher):
    with page_of(matcher) as page:
        ann = page.person("Ann")
        ann.open("/golden/0")
        request = ann.field("request")
        assert give(ann, " letters ").status_code == 200
        assert shown(ann, "text").startswith("text letters Given by ann, ")
        # The same form again, after a lost reply, counts once; a later form counts.
        give(ann, "other", request=request)
        assert [(one.value, one.by) for one in read_overrides(matcher.folder / "out")] == [("letters", "ann")]
        assert read_overrides(matcher.folder / "out")[0].records == (("left", "1"), ("left", "2"), ("left", "3"))
        give(ann, "", change="take back")
        assert "By the rule longest, from record 2" in shown(ann, "text")
        give(ann, "")
        assert "(empty)" in shown(ann, "text")
        page.editor.write()
    assert matcher.rows("out/golden.csv")[0]["text_by"].startswith("override: ann, ")


def test_values_that_are_not_used_are_named_on_both_pages(matcher):
    al_ray.override_golden(matcher.folder / "out", 0, {"text": "letters"}, by="bob")
    al_ray.override_golden(matcher.folder / "out", 1, {"text": "end"}, by="eve")
    matcher.labels = [("1", "4", 1)]
    matcher.into("out", left={"9": "mno"})
    with page_of(matcher) as page:
        ann = page.person("ann")
        assert "0 in effect, 2 not used" in ann.page
        assert "Other values were given to records of the same cluster: give the cluster one value." in ann.page
        ann.open("/golden/0")
        assert "Not used: letters , given by bob at" in shown(ann, "text")
        assert "Not used: end , given by eve at" in shown(ann, "text")
        give(ann, "alphabet")
        assert "Not used" not in ann.page
        assert shown(ann, "text").startswith("text alphabet Given by ann, ")
        ann.open("/golden")
        assert "1 in effect, 0 not used" in ann.page


@pytest.mark.parametrize(
    ("find", "words"),
    [
        ("3", 'The record <bdi>3</bdi> is in <a href="/golden/0">cluster 0</a>'),
        ("0", '<a href="/golden/0">Cluster 0</a></p>'),
        ("nobody", "There is no cluster and no record <bdi>nobody</bdi>"),
        ("9" * 40, "There is no cluster and no record"),
    ],
)
def test_clusters_are_found_by_number_and_by_the_id_of_a_record(matcher, find, words):
    with page_of(matcher) as page:
        ann = page.person("ann")
        assert words in ann.open(f"/golden?find={find}").text


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"cluster": "17"}, 409, "has no cluster 17"),
        ({"cluster": "x"}, 400, "which is no number"),
        ({"field": "price"}, 409, "no field &#39;price&#39;"),
        ({"change": "remove"}, 400, "not give or take back"),
        ({"request": ""}, 400, "the form lacks a valid request"),
        ({"csrf": "another"}, 403, "was not sent from this page"),
    ],
)
def test_other_forms_are_refused_and_nothing_is_stored(matcher, fields, code, words):
    with page_of(matcher) as page:
        ann = page.person("ann")
        ann.open("/golden/0")
        answer = give(ann, "letters", **fields)
        assert (answer.status_code, words in answer.text) == (code, True)
        assert ann.open("/golden/17").status_code == 404
    assert read_overrides(matcher.folder / "out") == []


def test_who_is_not_signed_in_sees_and_changes_nothing(matcher):
    with page_of(matcher) as page:
        ann = page.person("")
        assert "Cluster 0" not in ann.open("/golden/0").text
        assert give(ann, "letters").status_code == 401
    assert read_overrides(matcher.folder / "out") == []


def test_matches_without_suggestions_are_served_for_their_golden_records_alone(matcher):
    with al_ray.annotate(matches=matcher.folder / "out") as page:
        assert page.plan() == ["golden records: 0 values were given by people"]
        assert page.next_step == f"`al-ray match --into {matcher.folder / 'out'} --left FILE`"
    matcher.match("plain", TEXTS, at_score=0.3)
    with pytest.raises(Exception, match="suggested"), al_ray.annotate(matches=matcher.folder / "plain"):
        pass


def test_the_files_are_written_again_when_the_page_ends(matcher):
    with al_ray.annotate(matches=matcher.folder / "out") as page:
        assert page.golden is not None
        page.golden.override(0, "text", "letters", "ann")
        assert matcher.rows("out/golden.csv")[0]["text"] == "ab<i>cd"
        with pytest.raises(al_ray.AlRayError, match="is being written by another process"):
            al_ray.override_golden(matcher.folder / "out", 0, {"text": "x"}, by="bob")
    assert matcher.rows("out/golden.csv")[0]["text"] == "letters"
    with pytest.raises(BadOption, match="no cluster 9"):
        al_ray.override_golden(matcher.folder / "out", 9, {"text": "x"}, by="bob")
