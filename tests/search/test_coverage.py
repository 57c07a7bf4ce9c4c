"""What an encoder does not see of texts, counted by hand; `random-bert` knows the letters of ASCII alone."""

import json
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import al_ray
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.errors import BadOption, LabelsAwaited
from al_ray.core.task import Corpus
from al_ray.core.text import read_alike
from al_ray.datasets.task_folder import sealed
from al_ray.encoders.transformer import Encoder
from al_ray.search.coverage import ChangingTexts, Coverage, CoverageCount, check_coverage, coverage_lines, prompt_length
from tests.apps.audit.test_audit_job import run_folder

CONFIG = EncoderConfig(encoder="random-bert", encoder_layers=1, max_length=8)


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder.base(CONFIG)


def covered(encoder: Encoder, *chunks: list[str]) -> Coverage:
    count = CoverageCount(encoder.unknown, encoder.special, CONFIG.max_length)
    for texts in chunks:
        count.add(encoder.tokenise(texts))
    return count.result([text for texts in chunks for text in texts])


def test_tokens_and_texts_are_counted_by_hand(encoder):
    # Tokens: 2 unknown words each; r e d and one unknown; r e d; the same; none; none.
    first, rest = ["ቀይ ጫማ", "ሰማያዊ ጃኬት", "red 😀"], ["red 🚀", "red", "R E D".replace(" ", ""), "", "\u200b"]
    found = covered(encoder, first, rest)
    assert (found.texts, found.tokens, found.unknown) == (8, 2 + 2 + 4 + 4 + 3 + 3, 2 + 2 + 1 + 1)
    assert found.share == 6 / 18
    assert found.empty == 2
    # The two Amharic texts, and the two with emoji; red and RED read alike, and so do texts of nothing.
    assert (found.alike, found.truncated) == (4, 0)
    assert found.examples == (("ቀይ ጫማ", "ሰማያዊ ጃኬት"), ("red 😀", "red 🚀"))
    assert covered(encoder, first + rest) == found
    assert Coverage.of_dict(found.as_dict) == found


def test_texts_of_both_sides_are_compared_and_a_prompt_is_no_text(encoder):
    count, prompted = (CoverageCount(encoder.unknown, encoder.special, 32) for _ in range(2))
    count.add(encoder.tokenise(["red 😀"]))
    count.add(encoder.tokenise(["red 🚀"]))
    assert count.result(["red 😀"], ["red 🚀"]).alike == 2
    asking = Encoder.base(replace(CONFIG, max_length=32, prompt_left="query: "))
    prompt = prompt_length(asking, "left")
    # [CLS] q u e r y :
    assert (prompt, prompt_length(encoder, "left")) == (7, 0)
    prompted.add(asking.tokenise(["ቀይ ጫማ", "\u200b"]), prompt)
    found = prompted.result(["ቀይ ጫማ", "\u200b"])
    assert (found.share, found.tokens, found.empty) == (1.0, 2, 1)


def test_a_text_of_both_sides_is_counted_once(encoder):
    # As the new texts of --into are: 1 of 2 texts is unknown, and not 2 of 3.
    count = CoverageCount(encoder.unknown, encoder.special, 32)
    count.add(encoder.tokenise(["ቀይ"]))
    count.add(encoder.tokenise(["ቀይ", "r"]))
    found = count.result(["ቀይ"], ["ቀይ", "r"])
    assert (found.texts, found.tokens, found.unknown, found.alike) == (2, 2, 1, 0)


def test_a_small_table_of_an_unknown_script_beside_a_large_one_is_refused(encoder, caplog):
    known = [f"text {number:03}" for number in range(100)]
    for sides, name in (((known, ["ቀይ", "ጫማ", "r"]), "right"), ((["ቀይ", "ጫማ", "r"], known), "left")):
        count = CoverageCount(encoder.unknown, encoder.special, CONFIG.max_length)
        for texts in sides:
            count.add(encoder.tokenise(texts))
        found = count.result(*sides)
        # "text 001" is cut after six of its letters: 2 of 603 tokens, but 2 of the 3 of the small table.
        assert found.share == 2 / 603
        assert found.shares == {"left texts": 0.0, "right texts": 0.0} | {f"{name} texts": 2 / 3}
        with pytest.raises(BadOption, match=rf"does not know 67% of the tokens of the {name} texts, such as"):
            check_coverage(found, CONFIG)
        assert f"66.7% of the tokens of the {name} texts" in caplog.text
        caplog.clear()
        check_coverage(found, replace(CONFIG, most_unknown=0.67))
        assert Coverage.of_dict(json.loads(json.dumps(found.as_dict))) == found


WORDS = st.lists(st.sampled_from(["ቀይ", "ጫማ", "red", "red ቀይ", "blue"]), max_size=5)


@given(WORDS, st.lists(st.tuples(WORDS, st.integers(0, 5)), max_size=4))
def test_texts_that_come_and_go_have_the_share_of_those_that_are_there(encoder, texts, changes):
    there = ChangingTexts(texts, lambda some: covered(encoder, list(some)), covered(encoder, texts))
    for come, number in changes:
        go = texts[:number]
        texts = texts[number:] + come
        expected = covered(encoder, texts).share
        assert there.share_after(come, go) == expected
        there.change(come, go)
        assert there.share == expected


def test_a_folder_of_an_earlier_version_is_read_and_has_one_share(encoder):
    content = covered(encoder, ["ቀይ ጫማ", "red"]).as_dict
    del content["sides"]
    assert Coverage.of_dict(content).shares == {"texts": 2 / 5}


def test_texts_that_differ_beyond_the_maximum_length_are_alike(encoder):
    # 8 tokens are two special ones and six letters.
    found = covered(encoder, ["abcdefg", "abcdefh", "abcdef", "abcdeg"])
    assert (found.alike, found.truncated, found.unknown) == (3, 3, 0)
    (line,) = coverage_lines(found)
    assert line == (
        "different texts with the token ids of another, which the encoder cannot tell apart: 3, 3 of them cut at "
        "`RunConfig.max_length`, such as 'abcdefg' and 'abcdefh' and 'abcdef'"
    )


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("Red Shoe", "red  shoe", True),
        ("café", "CAFE", True),
        ("shoe", "shoe\u200b", True),
        ("red 😀", "red 🚀", False),
        ("ቀይ ጫማ", "ቀይ ጃኬት", False),
        ("shoe 42", "shoe 43", False),
        # Marks that are vowels, and texts of which nothing is left.
        ("कुल", "कूल", False),
        ("\u200b", "\u2060", False),
        ("\u200b", "\u200b", True),
    ],
)
def test_case_accents_and_space_are_what_a_tokenizer_may_drop(one, other, alike):
    assert read_alike(one, other) is alike


def test_too_many_unknown_tokens_are_refused_with_what_to_do(encoder):
    found = covered(encoder, ["ቀይ ጫማ", "ሰማያዊ ጃኬት", "red"])
    # 4 of 7 tokens.
    with pytest.raises(BadOption, match=r"does not know 57% of the tokens .*most_unknown` .* allows 0\.3"):
        check_coverage(found, CONFIG)
    check_coverage(found, EncoderConfig(encoder="random-bert", encoder_layers=1, most_unknown=4 / 7))
    check_coverage(Coverage(), CONFIG)
    assert list(coverage_lines(covered(encoder, ["red", "blue"]))) == []


def test_a_run_is_refused_before_a_label_is_bought_and_goes_on_if_that_is_allowed(in_process, tmp_path):
    rows = [f"{number},{word} {number}" for number, word in enumerate(["ቀይ", "ጫማ", "ጃኬት", "ድንኳን", "ምድጃ", "መብራት"])]
    (tmp_path / "t.csv").write_text("\n".join(["id,t", *rows]), encoding="utf-8")
    source = al_ray.OwnTexts(left=tmp_path / "t.csv", id_column="id", text_columns="t", split="1,0,0")
    al_ray.prepare(source, tmp_path / "task")
    config = al_ray.RunConfig(
        task=str(tmp_path / "task"), encoder="random-bert", encoder_layers=1, max_length=8, rounds=1, first_batch=3,
        oracle="file", evaluation=al_ray.EvaluationConfig(splits=()),
    )  # fmt: skip
    with pytest.raises(BadOption, match="does not know 50% of the tokens"):
        al_ray.run(config, tmp_path / "run")
    assert not (tmp_path / "run/round-001").exists()
    with suppress(LabelsAwaited):
        al_ray.run(replace(config, most_unknown=0.5), tmp_path / "run")
    assert (tmp_path / "run/round-001/batch.csv").exists()
    # The share that is allowed can be changed for a run that has begun.
    with suppress(LabelsAwaited):
        al_ray.run(replace(config, most_unknown=0.6), tmp_path / "run")


def test_a_run_that_is_there_is_measured_whatever_its_encoder_knows(in_process, make_task, tmp_path, caplog):
    plain = make_task(True)
    texts = Corpus(plain.left.ids, tuple("ቀ" * len(text) for text in plain.left.texts))
    run = al_ray.load_run(run_folder(tmp_path, sealed(plain.name, True, texts, texts, plain.splits)))
    assert al_ray.evaluate(run, "dev").total_pairs > 0
    assert "does not know 100.0% of the tokens of the texts" in caplog.text
    config = al_ray.AuditConfig(split="dev", by_score=True, budget=5, top=20)
    assert al_ray.sample_audit(run, config, tmp_path / "audit").pairs == 5
