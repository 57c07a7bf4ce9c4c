"""jobs.augment from gold pairs to a table of Spearman's rho, with real Ray and a small random BERT as the teacher."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from al_ray.core.augmentation import Gold
from al_ray.data.augment_folder import AugmentFolder
from al_ray.data.stsb import read_stsb
from jobs.augment import Options, augment

WORDS = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen"]


def write_stsb(folder: Path, pairs: int = 48) -> Path:
    """Pairs of three words each; the score is five times the share of words that both have, and so a fraction."""
    rng = np.random.default_rng(0)
    for number, split in enumerate(("train", "dev", "test")):
        lines = []
        for row in range(pairs if not number else pairs // 2):
            one, other = (rng.choice(WORDS, 3, replace=False).tolist() for _ in range(2))
            score = 5 * len({*one} & {*other}) / 3
            more = "\tof some source" if row % 3 == 0 else ""
            lines.append(f"captions\tfile\t2012\t{row:04d}\t{score:.3f}\t{' '.join(one)}\t{' '.join(other)}{more}\r\n")
        (folder / f"sts-{split}.csv").write_bytes("".join(lines).encode())
    return folder


@pytest.fixture(scope="module")
def stsb(tmp_path_factory) -> Path:
    return write_stsb(tmp_path_factory.mktemp("stsb"))


def asked(stsb: Path, out: Path) -> Options:
    return Options(
        gold=f"stsb:{stsb}", out=out, encoder="cnn-8", teacher="random-bert", teacher_layers=1, max_length=40,
        threads=1, learning_rate=1e-3, teacher_rate=1e-3, per_text=2, slice_pairs=16,
    )  # fmt: skip


@pytest.fixture(scope="module")
def made(stsb, tmp_path_factory, local_ray) -> Path:
    out = tmp_path_factory.mktemp("augment") / "out"
    augment(replace(asked(stsb, out), same_steps=True))
    return out


def gold_of(stsb: Path) -> Gold:
    return read_stsb(stsb)


def test_an_augmentation_ends_in_the_figures_of_every_model(made, stsb):
    results = json.loads((made / "results.json").read_text())
    silver = AugmentFolder(made).silver()
    assert silver is not None
    models = {line["model"]: line for line in results["models"]}
    assert list(models) == ["cross-encoder", "gold", "augmented", "same-steps"]
    assert {name: (line["gold"], line["silver"], line["steps"]) for name, line in models.items()} == {
        "cross-encoder": (48, 0, 3),
        "gold": (48, 0, 3),
        "augmented": (48, len(silver), (48 + len(silver)) // 16),
        "same-steps": (48, 0, (48 + len(silver)) // 16),
    }
    assert all(-1 <= rho <= 1 for line in models.values() for rho in line["spearman"].values())
    assert all(set(line["spearman"]) == {"dev", "test"} for line in models.values())
    assert len(gold_of(stsb).train) == results["gold_pairs"] == 48
