"""One contract for oracles of every kind in the registry; --help and errors have their words from there."""

import csv
import io
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from al_ray.active_learning.config import MACHINE, PEOPLE, RunConfig
from al_ray.active_learning.labelling import label_batch
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.config.llm import LlmConfig
from al_ray.core.config.oracle import ORACLES, OracleConfig, OracleKind, oracle_kind, oracle_name, oracles_help
from al_ray.core.config.sections import TrainingConfig
from al_ray.core.errors import BadOption, LabelsAwaited
from al_ray.core.labels import NO, OPEN, UNSURE, YES, Batch, make_answers
from al_ray.core.progress import no_progress
from al_ray.oracles.registry import MAKERS, OracleRequest, make_oracle
from al_ray.runs.run_folder import RunFolder
from al_ray.training.cross_encoder import PairTrainer, PairTrainerSpec
from tests.oracles.label_server import write
from tests.oracles.llm_server import serving

LETTERS = EncoderConfig(encoder="random-bert", encoder_layers=1, max_length=24, encoder_batch=8, threads=1)


def cross_encoder(folder: Path) -> str:
    """Train a cross-encoder and return the word that names it as an oracle."""
    trainer = PairTrainer(PairTrainerSpec(replace(LETTERS, max_length=40), TrainingConfig(epochs=1, batch=4), 0))
    texts, labels = [("aa", "aa"), ("aa", "zz")] * 4, np.tile([1, 0], 4).astype(np.uint8)
    assert list(trainer.train(texts, labels, str(folder / "cross" / "model")))
    return f"model:{folder / 'cross'}"


# Name of a kind -> what makes an oracle of it in a folder, and returns the word that names it.
BUILDERS: dict[str, Callable[[Path], str]] = {
    "simulated": lambda folder: "simulated",
    "file": lambda folder: "file",
    "page": lambda folder: "page",
    "model": cross_encoder,
    "llm": lambda folder: "llm",
    "function": lambda folder: f"{write('def label(left, right): return [1] * len(left)')}:label",
}


def fill(sheet: Path, first: int) -> None:
    """Answer the rows of a sheet from `first` on, as people do."""
    header, *rows = csv.reader(io.StringIO(sheet.read_text(encoding="utf-8-sig"), newline=""))
    file = io.StringIO()
    csv.writer(file).writerows([header, *rows[:first], *([row[0], "yes", *row[2:]] for row in rows[first:])])
    sheet.write_text(file.getvalue(), encoding="utf-8", newline="")


def test_every_kind_is_made_and_tested():
    assert set(MAKERS) == set(BUILDERS) == set(ORACLES)


@pytest.mark.parametrize("name", ORACLES)
def test_an_oracle_labels_each_missing_row_once(name, task, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    kind, word, journal = ORACLES[name], BUILDERS[name](tmp_path), RunFolder(tmp_path / "run", task)
    space = task.split("train").space
    batch = Batch(space.pairs(space.at(np.arange(12))), np.full(12, np.nan), "seed")
    journal.ledger.add_batch(1, batch)
    journal.ledger.add_answers(1, make_answers(np.arange(3), np.full(3, UNSURE, dtype=np.uint8), "earlier"))
    texts = zip(*task.texts_of(batch.pairs), strict=True)
    with serving(dict.fromkeys(texts, "yes")) as server:
        # A pair has 10 tokens of a prompt and 4 of an answer there.
        llm = LlmConfig(model="judge", base_url=server.url, input_price=0.05e6, output_price=0.0)
        options = OracleConfig(pairs_per_call=4, cost_per_pair=0.5, llm=llm)
        contract(kind, word, options, journal, batch)


def contract(kind: OracleKind, word: str, options: OracleConfig, journal: RunFolder, batch: Batch) -> None:
    """Have an oracle of a kind label a batch in which three rows have an answer."""
    task, space = journal.task, journal.task.split("train").space
    oracle = make_oracle(OracleRequest(RunConfig(task="t", oracle=word, threads=1), options, journal, no_progress))
    if kind.people:
        with pytest.raises(LabelsAwaited, match="9 of 12 pairs wait"):
            label_batch(1, journal.ledger, oracle)
        fill(Path(str(journal.round(1))) / "batch.csv", 3)
    _, labels = label_batch(1, journal.ledger, oracle)
    earlier, *pieces = journal.ledger.answers(1)
    assert earlier.by == "earlier"
    assert [row for piece in pieces for row in piece.rows.tolist()] == list(range(3, 12))
    assert all(piece.by and OPEN not in piece.labels for piece in pieces)
    assert labels[:3].tolist() == [UNSURE] * 3, "a row that has an answer is not asked again"
    assert set(labels.tolist()) <= {YES, NO, UNSURE}
    assert journal.ledger.cost() == (0 if kind.free or kind.people else 9 * 0.5)
    if kind.knows_positives:
        positives = np.isin(space.keys(batch.pairs[3:]), task.split("train").positive_keys)
        assert labels[3:].tolist() == positives.astype(int).tolist()


@pytest.mark.parametrize("name", ORACLES)
def test_facts_of_an_oracle_do_not_contradict_each_other_and_stand_in_the_help(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kind, word = ORACLES[name], BUILDERS[name](tmp_path)
    assert f"{kind.form} ({kind.summary})" in oracles_help()
    assert not (kind.people and (kind.free or kind.knows_positives))
    config = RunConfig(task="t", oracle=word)
    assert (config.first_batch, config.growth) == (PEOPLE if kind.people else MACHINE)


@pytest.mark.parametrize(
    ("word", "name"),
    [
        *(("simulated", "simulated"), ("file", "file"), ("judge:label", "function"), ("a.b:label", "function")),
        *(("model:a/b.c", "model"), ("model:s3://a/b", "model"), ("model:label", "model")),
    ],
)
def test_a_word_names_one_kind(word, name):
    assert oracle_name(word) == name
    assert oracle_kind(word) is ORACLES[name]


@pytest.mark.parametrize(
    "word", ["", "Simulated", "files", "model", "model:", "model: ", "model:a\0", "judge", "judge:", ":label", "a b:c"]
)
def test_an_unknown_word_is_refused_with_those_that_are_known(word):
    with pytest.raises(BadOption, match="`oracle` is") as refusal:
        RunConfig(task="t", oracle=word)
    assert all(kind.form in str(refusal.value) for kind in ORACLES.values())
