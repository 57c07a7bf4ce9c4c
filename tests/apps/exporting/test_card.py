"""The model card: metadata as huggingface_hub reads it, figures of the run, and `not known` where nothing is known."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from huggingface_hub import ModelCard, ModelCardData

import al_ray
from al_ray.apps.exporting.facts import count_labels, encoder_licence, source_in_words
from al_ray.cluster.token_store import pool_folder
from al_ray.core.labels import NO, OPEN, UNSURE, YES, Batch, make_answers
from al_ray.datasets.task_folder import read_task
from al_ray.runs.ledger import Ledger
from al_ray.search.coverage import Coverage
from al_ray.storage.files import write_json
from tests.apps.audit.test_audit_job import run_folder

PLAIN = al_ray.ExportOptions(format="sentence-transformers", licence="apache-2.0")
EVALUATION = {
    "average_precision": {"value": 0.412, "low": 0.398, "high": 0.431},
    "average_precision_over_questions": {"value": 0.412, "low": 0.35, "high": 0.47},
    "exact": False, "total_pairs": 192, "positives": 16,
}  # fmt: skip
SHARE = {"value": 0.8, "low": 0.7, "high": 0.9}
CALIBRATION = {
    "source": "dev", "calibration_error": 0.0123,
    "reliability": [{"low": 0.5, "high": 1.0, "weight": 20.0, "mean_p": 0.75, "share": SHARE}],
}  # fmt: skip
THRESHOLDS = [
    {"rule": "precision=0.9", "cosine": 0.8125, "precision": SHARE, "recall": 0.25, "split": "dev"},
    {"rule": "precision=0.99", "cosine": None, "precision": None, "recall": None, "split": "dev"},
]


@pytest.fixture
def run(make_task, tmp_path: Path) -> Path:
    """A run that was measured on dev and calibrated."""
    run = run_folder(tmp_path / "root", make_task(False, clusters=12))
    record, scorer = run / "round-001/record.json", run / "round-001/model/scorer.json"
    write_json(record, {**json.loads(record.read_text()), "evaluations": {"dev": EVALUATION}})
    added = {"calibration": CALIBRATION, "thresholds": THRESHOLDS}
    write_json(scorer, {**json.loads(scorer.read_text()), **added})
    return run


def load(path: Path) -> tuple[ModelCard, ModelCardData]:
    """A card and its metadata, as the hub reads them."""
    card = ModelCard.load(path)
    assert isinstance(card.data, ModelCardData)
    return card, card.data


def test_a_card_has_the_figures_of_the_run_and_metadata_of_the_hub(run, tmp_path):
    out = al_ray.export_model(run, PLAIN, tmp_path / "out").path
    card, metadata = load(out / "README.md")
    data = metadata.to_dict()
    assert (data["license"], data["library_name"]) == ("apache-2.0", "sentence-transformers")
    assert (data["pipeline_tag"], metadata.model_name) == ("sentence-similarity", "run, round 1")
    assert "base_model" not in data
    assert metadata.eval_results is not None
    (result,) = metadata.eval_results
    assert (result.metric_type, result.metric_value, result.dataset_split) == ("average_precision", 0.412, "dev")
    for line in (
        f"al-ray export --model {run} --format sentence-transformers --round 1 --licence apache-2.0 "
        f"--out {tmp_path / 'out'}",
        "| train | 16 | 24 | 384 | 32 |",
        "| dev | 8 | 24 | 192 | 16 |",
        "Pairs were chosen by the strategy uncertainty.",
        "| simulated (from the positives of the task) | 2 | 18 | 0 |",
        "- 41.2% (95%: 39.8% to 43.1%), estimated from a sample of pairs: 192 pairs, of which 16 match.",
        "- 95% bootstrap interval over queries: 35.0% to 47.0%.",
        "| precision=0.9 | 0.812500 | 80.0% (70.0% to 90.0%) | 25.0% | dev |",
        "| precision=0.99 | none reaches it | not known | not known | dev |",
        "p ranks pairs and is no probability: it was not fitted to the labels of dev by which it is checked.",
        "Expected calibration error 0.0123.",
        "| 0.5 to 1 | 20 | 0.75 | 80.0% (70.0% to 90.0%) |",
        "- A text is read up to 24 tokens.",
        "- This model: apache-2.0.",
        "- The encoder from which it was trained: random-bert: not known.",
    ):
        assert line in card.content.splitlines(), line


def test_an_estimate_from_dev_labels_stands_where_dev_was_not_counted(make_task, tmp_path):
    run = run_folder(tmp_path / "root", make_task(True, clusters=12))
    figure = {"value": 0.5, "low": 0.4, "high": 0.6}
    content = {
        "round": 1, "labels": 60, "known": 0, "ranked": 1000, "average_precision_of_ranked": figure,
        "average_precision": figure, "precision_at_boundary": None, "recall_of_ranked_at_boundary": None,
        "recall_at_boundary": None,
    }  # fmt: skip
    write_json(run / "dev-labels/round-001/estimate.json", content)
    card, metadata = load(al_ray.export_model(run, PLAIN, tmp_path / "out").path / "README.md")
    expected = "estimated from 60 labels of drawn pairs: 50.0% (95%: 40.0% to 60.0%)."
    assert f"- Among the 1,000 pairs of highest score, {expected}" in card.text.splitlines()
    assert "not measured on dev" not in card.text
    assert metadata.eval_results is None
    assert "- Prompts: no prompt." in card.text.splitlines()


def test_a_copied_model_says_what_is_not_known(run, tmp_path):
    copy = shutil.copytree(run / "round-001/model", tmp_path / "copy")
    out = al_ray.export_model(copy, al_ray.ExportOptions(format="sentence-transformers"), tmp_path / "out").path
    card, metadata = load(out / "README.md")
    assert not {"license", "base_model", "model-index"} & set(metadata.to_dict())
    for line in (
        "Task, texts and splits: not known (the model was exported from a copy outside of its run).",
        "Number and source of the labels: not known.",
        "- Not known: there is no run.",
        "- This model: not known.",
        "- The encoder from which it was trained: not known.",
        # scorer.json travels with a copy.
        "| precision=0.9 | 0.812500 | 80.0% (70.0% to 90.0%) | 25.0% | dev |",
    ):
        assert line in card.text.splitlines(), line
    assert "simulated" not in card.text


def test_damaged_figures_are_an_error_that_names_the_run(run, tmp_path):
    record = run / "round-001/record.json"
    write_json(record, {**json.loads(record.read_text()), "evaluations": {"dev": {"exact": True}}})
    with pytest.raises(al_ray.AlRayError, match=r"cannot be read .*average_precision.*restore its run folder"):
        al_ray.export_model(run, PLAIN, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_labels_are_counted_by_who_gave_them_with_corrections(make_task, tmp_path):
    task = make_task(False)
    space = task.split("train").space
    ledger, pairs = Ledger(tmp_path, task), space.pairs(space.at(np.arange(6)))
    ledger.add_batch(1, Batch(pairs[:4], np.full(4, 0.5), "seed"))
    ledger.add_answers(1, make_answers(np.array([0, 1]), np.array([YES, NO], np.uint8), "file"))
    ledger.add_answers(1, make_answers(np.array([2, 3]), np.array([UNSURE, NO], np.uint8), "judge:label"))
    # A call that was paid for and told nothing.
    ledger.add_answers(1, make_answers(np.array([1]), np.array([OPEN], np.uint8), "judge:label"))
    ledger.seal(1)
    ledger.add_batch(2, Batch(pairs[4:], np.full(2, 0.5), "random"))
    ledger.add_answers(2, make_answers(np.array([0, 1]), np.array([YES, YES], np.uint8), "file"))
    ledger.seal(2)
    ledger.correct(pairs[:1], np.array([NO], np.uint8))
    assert count_labels(ledger, 1) == {
        "people": {"yes": 0, "no": 2, "unsure": 0}, "program (judge:label)": {"yes": 0, "no": 1, "unsure": 1},
    }  # fmt: skip
    assert count_labels(ledger, 2)["people"] == {"yes": 2, "no": 2, "unsure": 0}


@pytest.mark.parametrize(
    ("by", "chosen_by", "words"),
    [
        ("simulated", "random", "simulated (from the positives of the task)"),
        ("model:runs/c 0123456789ab", "random", "program (model:runs/c)"),
        ("llm:qwen/qwen2.5-7b", "uncertainty", "language model (qwen/qwen2.5-7b)"),
        ("llm:judge", "uncertainty", "language model (judge)"),
        # On the page, in the check of a language model, and in files.
        ("ann", "uncertainty", "people"),
        ("ann, bob", "seed", "people"),
        ("people", "uncertainty", "people"),
        ("file", "seed", "people"),
        ("given", "given", "stated (existing labels)"),
        ("tables/answers.csv", "imported", "imported from answers.csv"),
        ("file", "imported", "imported from file"),
        ("llm:judge", "imported", "language model (judge)"),
    ],
)
def test_a_source_is_named_in_words(by, chosen_by, words):
    assert source_in_words(by, chosen_by) == words


@pytest.mark.parametrize(
    ("text", "licence"),
    [
        ("---\nlanguage: en\nlicense: apache-2.0\ntags:\n- a\n---\n# A\n", "apache-2.0"),
        ("---\nlicense: 'cc-by-4.0'\n---\n", "cc-by-4.0"),
        ("---\nlanguage: en\n---\nlicense: mit\n", None),
        ("license: mit\n", None),
        ("", None),
    ],
)
def test_the_licence_of_an_encoder_is_that_of_its_own_card(text, licence, tmp_path):
    (tmp_path / "README.md").write_text(text)
    assert encoder_licence(str(tmp_path)) == licence


def test_the_packaged_encoder_has_a_licence_and_others_may_have_none(minilm, tmp_path):
    assert encoder_licence(minilm) == "apache-2.0"
    assert encoder_licence("nobody/nothing") is None
    assert encoder_licence(str(tmp_path)) is None


def test_a_card_says_which_share_of_the_texts_the_encoder_knows(run, tmp_path):
    opened = al_ray.load_run(run)
    unknown = "Share of their tokens that the encoder does not know: not known."
    assert unknown in (al_ray.export_model(run, PLAIN, tmp_path / "before").path / "README.md").read_text()
    coverage = Coverage(texts=64, tokens=200, unknown=50, alike=4)
    folder = Path(str(pool_folder(read_task(Path(opened.config.task)), opened.config.encoding, run)))
    folder.mkdir(parents=True)
    write_json(folder / "encoder.json", {"description": "mean pooling", "coverage": coverage.as_dict})
    card = (al_ray.export_model(run, PLAIN, tmp_path / "out").path / "README.md").read_text()
    assert "The encoder does not know 25.0% of their tokens, and cannot tell 4 of 64 texts from another one" in card
    assert unknown not in card
