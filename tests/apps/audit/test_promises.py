"""What an audit promises, as scorer.json and the printed lines have it, and what it refuses to promise."""

from dataclasses import replace

import numpy as np
import pytest

from al_ray.apps.audit.folder import AuditOptions, Record
from al_ray.apps.audit.promises import choose_promised, format_promise, parse_rules, second_draw_of
from al_ray.core.errors import BadOption
from al_ray.core.labels import NO, YES
from al_ray.core.scorer import Scorer
from al_ray.metrics.audit.score_bands import BandAudit
from al_ray.metrics.thresholds import Rule, parse_rule, with_guarantee

RECORD = Record(AuditOptions("train", 1, 0, None, None, None, 9, 100, "model", "task"), 300, 20.0, -16.0)


def second_draw(labels: int) -> str:
    return f"draw {labels} more"


def audit(labels: list[int], total: int = 300, cosines: int = 100) -> BandAudit:
    """An audit whose labels are of pairs evenly spread over the `cosines` ranked ones."""
    none, ranks = np.empty(0), np.arange(len(labels)) * cosines // len(labels)
    ranked = np.linspace(0.99, 0.5, cosines)
    return BandAudit(ranked, total, none, none.astype(np.uint8), ranks, np.array(labels, np.uint8))


# The first 60 of 100 ranked pairs match, and the 40 others do not; all are labelled.
KNOWN = audit([YES] * 60 + [NO] * 40)


def chosen(audit: BandAudit, words: str):
    return choose_promised(audit, RECORD, parse_rule(f"{words} guarantee=0.95"), second_draw)


def test_where_every_ranked_pair_is_labelled_the_promise_is_the_truth():
    # Of the cuts at twentieths, 60 of 70 are 86%, and 60 of 75 are 80%.
    assert chosen(KNOWN, "precision=0.81")["cosine"] == pytest.approx(KNOWN.cosines[69])
    assert chosen(KNOWN, "ranked-recall=0.6")["cosine"] == pytest.approx(KNOWN.cosines[39])
    # At 60: 4 * 60 saved, no alarm.
    costs = chosen(KNOWN, "costs=4,1")
    assert (costs["cosine"], costs["promised"]) == (pytest.approx(KNOWN.cosines[59]), {"saving": 240})
    assert costs["guarantee"] == 0.95


def test_a_promise_in_words():
    content = chosen(KNOWN, "precision=0.81")
    (line,) = format_promise(content, RECORD.scorer, second_draw)
    assert line.startswith("precision=0.81 guarantee=0.95: cosine >= 0.64")
    assert "; precision at least 81% with 95% confidence; estimates there: precision 85.7%, " in line
    more = {"threshold": 0.7, "labels": 40, "now": 0.54, "then": 0.7, "found": 1.0}
    *_, line = format_promise({**content, "second_draw": more}, Scorer(1.0, 0.0), second_draw)
    assert "40 more labels at scores of 0.7000 and above" in line
    assert line.endswith("is promised from 0.54 to 0.70: draw 40 more")


@pytest.mark.parametrize(
    ("labels", "words", "expected"),
    [
        (
            [YES] * 9,
            "precision=0.9",
            r"with 9 labels; \d+ more at scores .* would probably be enough, for \d+% .*: draw \d+ more",
        ),
        ([NO] * 60, "precision=0.9", "the estimate reaches it nowhere or hardly; give a lower precision"),
        ([YES] * 60, "recall=0.5", "200 pairs are not ranked, and about 6 labels of them, all no, would be needed"),
        ([YES] * 2 + [NO] * 7, "ranked-recall=0.95", "draw an audit with a smaller `AuditConfig.top`"),
        ([NO] * 60, "costs=4,1", "it is not sure that any saves more than calling no pair a match"),
    ],
)
def test_what_cannot_be_promised_is_refused_with_what_to_do(labels, words, expected):
    with pytest.raises(BadOption, match=rf"`guarantee=0.95`: no threshold can be promised for {words}.*{expected}"):
        chosen(audit(labels), words)


def test_a_rule_has_its_guarantee_in_its_words():
    rule = parse_rule("costs=10,1 guarantee=0.9")
    assert rule == Rule("costs", (10, 1), 0.9)
    assert (str(rule), rule.target) == ("costs=10,1 guarantee=0.9", "costs=10,1")
    assert with_guarantee(["precision=0.9"], 0.95) == ("precision=0.9 guarantee=0.95",)
    assert with_guarantee(["precision=0.9"], None) == ("precision=0.9",)
    for words in ("precision=0.9 guarantee=1", "precision=0.9 guarantee=much", "precision=0.9 guarantee=0.1"):
        with pytest.raises(BadOption, match="`threshold_for`"):
            parse_rule(words)
    with pytest.raises(BadOption, match="`guarantee` goes with `threshold_for`; add a rule"):
        with_guarantee([], 0.95)


def test_without_a_guarantee_an_audit_chooses_for_a_precision_alone():
    assert parse_rules(["precision=0.9", "recall=0.5 guarantee=0.9"])[1].kind == "recall"
    for words in ("recall=0.5", "ranked-recall=0.5", "costs=1,1"):
        with pytest.raises(BadOption, match="an audit does not know the recall over all pairs; give precision=P"):
            parse_rules([words])


def test_the_call_of_a_second_draw():
    rule = parse_rule("precision=0.9 guarantee=0.95")
    second_draw = second_draw_of("runs/a", "runs/a/audit", RECORD, rule, last=False)
    assert second_draw(40) == (
        "`al_ray.sample_audit(run=al_ray.load_run('runs/a'), config=al_ray.AuditConfig(split='train', round=1, "
        "by_score=True, after='runs/a/audit', threshold_for='precision=0.9', budget=40), out='runs/a/audit-second')`"
    )


def test_the_command_names_a_folder_that_is_free(tmp_path):
    first, rule = str(tmp_path / "audit"), parse_rule("precision=0.9")
    for taken in ("audit-second", "audit-second-2"):
        (tmp_path / taken).mkdir()
    assert second_draw_of("runs/r", first, RECORD, rule, True)(40).endswith(f", out='{first}-second-3')`")


def test_a_recall_that_is_unknown_is_said_and_no_second_draw_is_offered():
    # The last 40 ranked pairs have no label.
    part = replace(KNOWN, ranks=KNOWN.ranks[:60], labels=KNOWN.labels[:60], top=60, uniform=True)
    content = chosen(part, "precision=0.81")
    (line,) = format_promise(content, RECORD.scorer, second_draw)
    assert (content["second_draw"], content["recall_of_ranked"]) == (None, None)
    assert line.endswith("estimates there: precision 100.0%, matches among the ranked pairs unknown")
