"""The page as people use it: what an answer changes, what counts once, and what is refused."""

import sys

import numpy as np
import pytest

from al_ray.active_learning.labelling import label_batch
from al_ray.apps.annotating.annotator import RunStatus
from al_ray.apps.annotating.options import QUESTION, PageOptions, remember
from al_ray.cli import labels
from al_ray.cli._shared import entry
from al_ray.core.errors import LabelsAwaited
from al_ray.core.labels import NO, OPEN, UNSURE, YES, Batch, make_answers
from al_ray.oracles.page_log import read_page_answers
from al_ray.oracles.people import FileOracle
from tests.apps.annotating.waiting_runs import TOKEN, page_of, waiting_run


@pytest.fixture
def run(task, tmp_path):
    return waiting_run(tmp_path, task)


def log_of(run):
    return read_page_answers(run.round(1) / "batch.page.log")


def labels_read(run) -> list[int]:
    """What jobs.run reads: labels of the round, OPEN where people are still waited for."""
    try:
        return label_batch(1, run.ledger, FileOracle(run.ledger))[1].tolist()
    except LabelsAwaited:
        return run.ledger.labels(1).tolist()


def test_a_pair_is_shown_with_both_texts_and_without_a_score_and_an_answer_is_in_the_ledger(run):
    with page_of(run) as page:
        ann = page.person("Ann")
        assert ann.code == "r001-00001"
        left, right = run.task.texts_of(run.ledger.batch(1).pairs[:1])
        for text in (*left, *right):
            for word in text.split():
                assert word in ann.page
        assert "osine" not in ann.page
        ann.answer("yes", note="the same\nthing")
        assert ann.code == "r001-00002"
        ann.answer("no")
        ann.answer("unsure")
    assert labels_read(run) == [YES, NO, UNSURE, OPEN, OPEN, OPEN]
    (one,) = log_of(run).of("r001-00001").values()
    assert (one.by, one.note) == ("ann", "the same\nthing")
    assert {piece.by for piece in run.ledger.answers(1)} == {"ann"}


def test_the_score_is_shown_on_demand_after_the_answer(run):
    with page_of(run) as page:
        ann = page.person("ann")
        code = ann.code
        assert "osine" not in ann.open(f"/pair/{code}").text
        ann.answer("yes")
        assert "Cosine 0.500" in ann.open(f"/pair/{code}").text
        assert "Your answer is <b>yes</b>" in ann.page


@pytest.mark.parametrize(
    ("lowest", "source", "words"),
    [
        # The score of a candidate is 2 and p.
        (2.25, "uncertainty", "p 0.250, by the model that chose the pair"),
        (2.0, "uncertainty", "p 0.000, by the model"),
        (0.99, "uncertainty", "Cosine 0.990"),
        # Ranks of a batch before any label are no cosines.
        (0.25, "spread-seed", "No score is known"),
    ],
)
def test_the_score_of_a_matcher_is_shown_as_p(task, tmp_path, lowest, source, words):
    with page_of(waiting_run(tmp_path, task, lowest=lowest, source=source)) as page:
        ann = page.person("ann")
        code = ann.code
        assert words not in ann.open(f"/pair/{code}").text
        ann.answer("yes")
        assert words in ann.open(f"/pair/{code}").text


def test_a_request_that_comes_twice_counts_once(run):
    with page_of(run) as page:
        ann = page.person("ann")
        fields = {"pair": ann.code, "request": ann.field("request"), "label": "yes", "csrf": ann.field("csrf")}
        for _ in range(3):
            assert ann.client.post("/answer", data=fields).status_code == 200
        assert log_of(run).requests == {fields["request"]}
    # And after a server that was started again.
    with page_of(run) as page:
        again = page.person("ann")
        again.send("/answer", pair="r001-00001", request=fields["request"], label="no")
        assert log_of(run).label("r001-00001") == YES


def test_two_windows_of_one_person_show_one_pair_and_the_later_answer_counts(run):
    with page_of(run) as page:
        one, other = page.person("ann"), page.person("ann")
        assert one.code == other.code
        one.answer("yes")
        other.answer("no")
        assert log_of(run).label("r001-00001") == NO
        assert len(log_of(run).of("r001-00001")) == 1


def test_two_people_never_have_one_pair_until_a_lease_ends(run):
    with page_of(run, lease_minutes=10) as page:
        ann, bob = page.person("ann"), page.person("bob")
        assert (ann.code, bob.code) == ("r001-00001", "r001-00002")
        bob.answer("no")
        assert bob.code == "r001-00003"
        page.clock.now = 601
        bob.open("/")
        assert bob.code == "r001-00001"


def test_undo_takes_the_last_answer_back_and_shows_its_pair(run):
    with page_of(run) as page:
        ann = page.person("ann")
        ann.answer("yes")
        ann.answer("no")
        ann.undo()
        assert ann.code == "r001-00002"
        assert log_of(run).label("r001-00002") == OPEN
        ann.answer("unsure")
        ann.undo()
        ann.undo()
        assert ann.code == "r001-00001"
        assert ann.undo().status_code == 409
        assert [log_of(run).label(code) for code in log_of(run).touched] == [OPEN, OPEN]


def test_an_undo_that_is_sent_again_shows_the_same_pair(run):
    with page_of(run) as page:
        ann = page.person("ann")
        ann.answer("yes")
        ann.answer("no")
        assert ann.code == "r001-00003"
        fields = {"csrf": ann.field("csrf"), "request": "lost"}
        for _ in range(2):
            # The reply to the first one is lost.
            ann.send("/undo", **fields)
            assert ann.code == "r001-00002"
        assert log_of(run).label("r001-00001") == YES
        ann.answer("unsure")
        assert ann.code == "r001-00003"


def test_back_walks_through_the_answers_of_a_person(run):
    with page_of(run) as page:
        ann = page.person("ann")
        for _ in range(3):
            ann.answer("yes")
        for code in ("r001-00003", "r001-00002", "r001-00001"):
            assert f'data-key="b" href="/pair/{code}"' in ann.page
            ann.open(f"/pair/{code}")
        assert 'data-key="b"' not in ann.page


def test_the_question_and_the_overlap_of_a_folder_hold_until_others_are_given(tmp_path):
    assert remember(tmp_path, PageOptions()) == PageOptions(question=QUESTION, overlap=None)
    given = PageOptions(question="The same film?", overlap=0.5)
    assert remember(tmp_path, given) == given
    assert remember(tmp_path, PageOptions()) == given
    assert remember(tmp_path, PageOptions(overlap=0.0)) == PageOptions(question="The same film?", overlap=0.0)


def test_who_has_the_last_pair_on_the_screen_is_said(run):
    with page_of(run) as page:
        bob, ann = page.person("bob"), page.person("ann")
        while ann.code:
            ann.answer("no")
        assert "On the screen of: bob." in ann.page
        bob.answer("no")
        assert "On the screen" not in ann.open("/").text


def test_a_skipped_pair_comes_again_at_the_end(run):
    with page_of(run) as page:
        ann, seen = page.person("ann"), list[str]()
        ann.send("/skip", pair=ann.code)
        while ann.code:
            seen.append(ann.code)
            ann.answer("no")
        assert seen == [f"r001-0000{place}" for place in (2, 3, 4, 5, 6, 1)]
        assert "All pairs are labelled" in ann.page
        assert "al-ray run" in ann.page


def test_an_answer_in_the_sheet_is_not_asked_again_on_the_page(run):
    with page_of(run) as page:
        page.annotator.refresh()
        sheet = run.round(1) / "batch.csv"
    text = sheet.read_text(encoding="utf-8-sig").replace("r001-00001,", "r001-00001,yes", 1)
    sheet.write_text(text, encoding="utf-8")
    with page_of(run) as page:
        ann = page.person("ann")
        assert ann.code == "r001-00002"
        refused = ann.send("/answer", pair="r001-00001", request="x", label="no")
        assert (refused.status_code, "has an answer in batch.csv" in refused.text) == (409, True)
    assert labels_read(run)[:2] == [YES, OPEN]


def test_overlap_asks_pairs_twice_and_a_dispute_is_unsure_until_it_is_settled(run):
    with page_of(run, overlap=0.5) as page:
        ann = page.person("ann")
        while ann.code:
            ann.answer("yes")
        assert "Pairs without a label: 3; waiting for a second person: 3." in ann.page
        bob, asked = page.person("bob"), list[str]()
        while bob.code:
            asked.append(bob.code)
            bob.answer("no")
        assert len(asked) == 3
        assert set(asked) == log_of(run).doubled
        assert "3 pairs" in bob.open("/disputes").text or "round 1: 3" in bob.page
        assert [log_of(run).label(code) for code in asked] == [UNSURE] * 3
        bob.send("/settle", pair=asked[0], label="yes", request="s1")
        assert log_of(run).label(asked[0]) == YES
        assert "Settled by <bdi>bob</bdi>: <b>yes</b>" in bob.page
        figures = bob.open("/progress").text
        assert "<td>3</td><td>0%</td>" in figures
        assert "<td>0% of 3</td></tr>" in figures
    assert sorted(labels_read(run)) == [YES] * 4 + [UNSURE] * 2


def test_a_second_person_confirms_each_yes_until_somebody_goes_on_without(run):
    with page_of(run, confirm_matches=True) as page:
        ann = page.person("ann")
        for answer in ("yes", "no", "yes", "unsure", "yes", "no"):
            ann.answer(answer)
        assert "Pairs without a label: 3; waiting for a second person: 3." in ann.page
        # However often the run is started again, a yes is no label before it is confirmed.
        for _ in range(2):
            assert labels_read(run) == [OPEN, NO, OPEN, UNSURE, OPEN, NO]
        assert not run.ledger.sealed(1)
        bob = page.person("bob")
        assert bob.code == "r001-00001"
        bob.answer("yes")
        assert labels_read(run)[0] == YES
        bob.undo()
        assert labels_read(run)[0] == OPEN
        bob.answer("yes")
        assert bob.code == "r001-00003"
        bob.answer("no")
        assert bob.code == "r001-00005"
    # The one that is left is still asked after a restart, and then let go; it is not asked again after another one.
    with page_of(run, confirm_matches=True) as page:
        bob = page.person("bob")
        assert bob.code == "r001-00005"
        bob.send("/waive", request="w")
        assert "All pairs are labelled" in bob.page
    with page_of(run, confirm_matches=True) as page:
        assert not page.person("carl").code
    assert labels_read(run) == [YES, NO, UNSURE, UNSURE, YES, NO]
    assert run.ledger.sealed(1)


def test_status_counts_the_answers_of_the_page_that_the_run_has_not_read(run, monkeypatch, capsys):
    with page_of(run) as page:
        ann = page.person("ann")
        ann.answer("yes")
        ann.answer("no")
    monkeypatch.setattr(sys, "argv", ["labels", "status", "--run", str(run.path)])
    entry.job(labels.main)
    assert "round 1: 2 open pairs have an answer in" in capsys.readouterr().out
    labels_read(run)
    entry.job(labels.main)
    assert "open pairs have an answer" not in capsys.readouterr().out


def test_one_person_can_go_on_without_second_answers(run):
    with page_of(run, overlap=1.0) as page:
        ann = page.person("ann")
        while ann.code:
            ann.answer("yes")
        ann.send("/waive", request="w")
        assert "All pairs are labelled" in ann.page


def test_all_answers_of_a_person_are_taken_back_also_where_a_run_has_read_them(run):
    with page_of(run) as page:
        ann, bob = page.person("ann"), page.person("bob")
        ann.answer("yes")
        bob.answer("no")
        assert labels_read(run)[:2] == [YES, NO]
        bob.send("/retract", name="ann", request="t")
        # The pair is waited for again, and has no label until then.
        assert labels_read(run)[:2] == [OPEN, NO]
        assert labels_read(run)[:2] == [OPEN, NO]
        carl = page.person("carl")
        assert carl.code == "r001-00001"
        while carl.code:
            carl.answer("no")
    with page_of(run) as page:
        dora = page.person("dora")
        while dora.code:
            dora.answer("no")
    assert labels_read(run) == [NO] * 6
    assert run.ledger.sealed(1)
    # After the round is complete nobody is asked again, and nobody knows.
    with page_of(run) as page:
        page.person("bob").send("/retract", name="carl", request="u")
    assert run.ledger.labels(1).tolist()[:2] == [UNSURE, NO]


def test_an_answer_that_changes_after_the_round_is_complete_is_a_correction(run):
    with page_of(run) as page:
        ann = page.person("ann")
        while ann.code:
            ann.answer("no")
        assert labels_read(run) == [NO] * 6
        assert run.ledger.sealed(1)
        ann.send("/answer", pair="r001-00003", request="later", label="yes")
        assert run.ledger.labels(1).tolist() == [NO, NO, YES, NO, NO, NO]
        assert run.ledger.first_labels(1).tolist() == [NO] * 6
    # A run that goes on in this process trains on it.
    labelled = run.ledger.labelled()
    stale = labelled.__class__(labelled.pairs, np.full(6, NO, np.uint8), labelled.rounds, labelled.sources)
    assert run.ledger.corrected(stale).labels.tolist() == [NO, NO, YES, NO, NO, NO]


def test_what_the_command_labels_corrects_stays_when_the_page_is_opened_again(run):
    with page_of(run) as page:
        ann = page.person("ann")
        while ann.code:
            ann.answer("no")
    labels_read(run)
    pairs = run.ledger.batch(1).pairs
    run.ledger.correct(pairs[:1], np.array([YES], np.uint8))
    for _ in range(2):
        with page_of(run) as page:
            ann = page.person("ann")
        assert run.ledger.labels(1).tolist() == [YES, *[NO] * 5]
    # And a later answer on the page counts over it.
    with page_of(run) as page:
        page.person("ann").send("/answer", pair="r001-00001", request="x", label="unsure")
    assert run.ledger.labels(1).tolist() == [UNSURE, *[NO] * 5]
    assert len(list(run.ledger.corrections())) == 2


def test_the_last_pair_can_be_skipped_and_is_shown_again(run):
    with page_of(run) as page:
        ann = page.person("ann")
        while ann.code != "r001-00006":
            ann.answer("no")
        ann.send("/skip", pair=ann.code)
        for _ in range(3):
            ann.open("/status")
            ann.open("/")
            assert ann.code == "r001-00006"


def test_a_pair_that_left_a_closed_round_takes_no_answer(run):
    with page_of(run) as page:
        ann = page.person("ann")
        ann.answer("yes")
        assert labels_read(run)[0] == YES
        run.ledger.close(1)
        late = ann.send("/answer", pair="r001-00002", request="late", label="yes")
        assert (late.status_code, "round 1 is complete" in late.text) == (409, True)
        ann.open("/")
        assert ann.send("/answer", pair="r001-00001", request="again", label="no").status_code == 200
    assert run.ledger.labels(1).tolist() == [NO, *[OPEN] * 5]
    assert log_of(run).touched == {"r001-00001"}


def test_labels_that_the_run_has_from_elsewhere_are_not_asked_whenever_the_page_is_opened(run):
    run.ledger.add_answers(1, make_answers(np.arange(2), np.array([YES, NO], np.uint8), "somebody"))
    for _ in range(2):
        with page_of(run, overlap=1.0) as page:
            assert page.person("ann").code == "r001-00003"
    assert log_of(run).doubled == {f"r001-0000{row}" for row in (3, 4, 5, 6)}


def test_a_second_answer_is_waited_for_by_every_way_and_a_waiver_holds(run):
    with page_of(run, overlap=1.0) as page:
        ann = page.person("ann")
        while ann.code:
            ann.answer("no")
        for _ in range(2):
            assert labels_read(run) == [OPEN] * 6
        assert not run.ledger.sealed(1)
        ann.send("/waive", request="w")
    with page_of(run, overlap=1.0) as page:
        assert "All pairs are labelled" in page.person("ann").page
    labels_read(run)
    assert run.ledger.sealed(1)


def test_a_round_that_is_closed_keeps_answers_without_a_second_one(run, monkeypatch, capsys):
    with page_of(run, confirm_matches=True) as page:
        ann = page.person("ann")
        for answer in ("yes", "no", "unsure"):
            ann.answer(answer)
    monkeypatch.setattr(sys, "argv", ["labels", "close", "--run", str(run.path)])
    entry.job(labels.main)
    assert "round 1 is closed with 3 labels; 3 pairs leave it" in capsys.readouterr().out
    assert run.ledger.labels(1).tolist() == [YES, NO, UNSURE, OPEN, OPEN, OPEN]


def test_undo_after_a_restart_takes_back_the_latest_answer_of_all_sheets(run):
    space = run.task.split("dev").space
    with page_of(run) as page:
        ann = page.person("ann")
        ann.answer("yes")
    run.dev_labels.ledger.add_batch(1, Batch(space.pairs(space.at(np.arange(2))), np.full(2, 0.5), "dev-labels"))
    with page_of(run) as page:
        ann = page.person("ann")
        ann.send("/answer", pair="d001-00001", request="d", label="no")
        ann.send("/answer", pair="r001-00002", request="r", label="no")
    with page_of(run) as page:
        ann = page.person("ann")
        ann.undo()
        assert ann.code == "r001-00002"
        ann.undo()
        assert ann.code == "d001-00001"


@pytest.mark.parametrize(
    ("path", "fields", "code", "words"),
    [
        ("/answer", {"label": "yes", "request": "r"}, 400, "the form lacks pair"),
        ("/answer", {"pair": "r001-00001", "label": "maybe", "request": "r"}, 400, "not yes, no or unsure"),
        ("/answer", {"pair": "r001-00001", "label": "unreadable", "request": "r"}, 400, "not yes, no or unsure"),
        ("/answer", {"pair": "r009-00001", "label": "yes", "request": "r"}, 409, "there is no pair"),
        ("/answer", {"pair": "r001-00001", "label": "yes", "request": ""}, 400, "a valid request"),
        ("/answer", {"pair": "r001-00001", "label": "yes", "request": "r" * 81}, 400, "a valid request"),
        ("/answer", {"pair": "r001-00001", "label": "yes", "request": "r", "note": "n" * 2001}, 413, "2,001 char"),
        ("/answer", {"pair": "r001-00001", "label": "yes", "request": "r", "note": "n" * 70_000}, 413, "65,536 bytes"),
        ("/skip", {}, 400, "the form lacks pair"),
        ("/undo", {"request": "r"}, 409, "no answer that could be taken back"),
    ],
)  # fmt: skip
def test_a_bad_form_is_refused_and_changes_nothing(run, path, fields, code, words):
    with page_of(run) as page:
        ann = page.person("ann")
        before = (run.round(1) / "batch.page.log").read_bytes()
        answer = ann.send(path, **fields)
        assert (answer.status_code, words in answer.text) == (code, True), answer.text
        assert (run.round(1) / "batch.page.log").read_bytes() == before


def test_a_token_is_asked_for_and_nothing_is_shown_without_it(run):
    with page_of(run, token=TOKEN) as page:
        stranger = page.person("eve", "a wrong token")
        assert stranger.signed_in.status_code == 403
        for path in ("/", "/pair/r001-00001", "/progress", "/disputes", "/status"):
            assert 'name="token"' in stranger.open(path).text
        refused = stranger.send("/answer", pair="r001-00001", request="r", label="yes")
        assert refused.status_code == 401
        assert page.person("ann", TOKEN).code == "r001-00001"
        assert TOKEN not in page.person("ann", TOKEN).page
    # Whoever has signed in stays so after a restart with the same token, and not with another one.
    with page_of(run, token=TOKEN) as page:
        ann = page.person("ann", TOKEN)
        cookies = dict(ann.client.cookies)
    for token, known in ((TOKEN, True), (TOKEN + "x", False)):
        with page_of(run, token=token) as page:
            someone = page.person("nobody", "wrong")
            for name, value in cookies.items():
                someone.client.cookies.set(name, value)
            assert ("r001-00001" in someone.open("/").text) is known


def test_forms_of_other_sites_and_other_hosts_are_refused(run):
    with page_of(run) as page:
        ann = page.person("ann")
        form = {"pair": "r001-00001", "request": "r", "label": "yes", "csrf": ann.field("csrf")}
        for change, code in (
            ({"data": {**form, "csrf": "another"}}, 403),
            ({"data": {key: value for key, value in form.items() if key != "csrf"}}, 403),
            ({"data": form, "headers": {"Origin": "http://evil.example"}}, 403),
            ({"data": form, "headers": {"Host": "evil.example:8001"}}, 400),
            ({"data": form, "headers": {"Host": "[::1"}}, 400),
            ({"data": form, "headers": {"Origin": "http://["}}, 403),
            ({"data": form, "headers": {"Origin": "null"}}, 403),
            ({"json": form}, 400),
            ({"content": b"csrf=\xff", "headers": {"Content-Type": "application/x-www-form-urlencoded"}}, 400),
        ):
            assert ann.client.post("/answer", **change).status_code == code, change
        assert not log_of(run).touched
        headers = ann.open("/").headers
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        cookie = page.person("bob").client.get("/sign-in").headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie


@pytest.mark.parametrize(
    ("host", "kept", "shown", "answered"),
    [("127.0.0.2", True, 200, 200), ("127.0.0.2", False, 200, 403), ("127.0.0.1", True, 400, 400)],
)
def test_a_proxy_keeps_the_host_header_and_the_page_is_not_that_of_this_machine_alone(
    run, host, kept, shown, answered
):  # fmt: skip
    with page_of(run, token=TOKEN, host=host) as page:
        own = {"Host": "label.example.org:8443" if kept else f"{host}:8001"}
        ann = page.person("ann", TOKEN)
        assert ann.client.get("/", headers=own).status_code == shown
        form = {"pair": "r001-00001", "request": "r", "label": "yes", "csrf": ann.field("csrf")}
        sent = ann.client.post("/answer", data=form, headers={**own, "Origin": "https://label.example.org:8443"})
        assert sent.status_code == answered


@pytest.mark.parametrize("name", ["", "   ", "n" * 61, "a\x00b", "a\u202eb", "\u200d"])
def test_a_name_that_cannot_be_printed_is_refused(run, name):
    with page_of(run) as page:
        assert page.person(name).signed_in.status_code == 403


def test_names_are_the_same_in_any_case_and_spacing(run):
    with page_of(run) as page:
        page.person("  Ann  Lee ").answer("yes")
        page.person("ANN LEE").answer("no")
        # Persian, with a joiner within the name; and an accent that is a character of its own.
        assert page.person("\u0639\u0644\u06cc\u200c\u0631\u0636\u0627").code
        assert page.person("Jose\u0301").page.count("jos\u00e9") == 1
        assert {one.by for of in log_of(run).answers.values() for one in of.values()} == {"ann lee"}


def test_a_waiting_page_says_what_the_run_does(run):
    with page_of(run, status=RunStatus("train", 3, 10, learnt=("round 1: AP 40",))) as page:
        ann = page.person("ann")
        assert ann.open("/status").json()["state"] == "pair"
        ann.open("/")
        while ann.code:
            ann.answer("no")
        labels_read(run)
        assert "train" in ann.open("/").text
        assert "round 1: AP 40" in ann.page
        status = ann.open("/status").json()
        assert (status["stage"], status["done"], status["total"]) == ("train", 3, 10)
