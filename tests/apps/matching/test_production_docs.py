"""The code of docs/production.md as it stands there: DataFrames, and a vector database, both against `al_ray.match`."""

import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import al_ray
from al_ray.core.scorer import Scorer
from tests.apps.audit.test_audit_job import run_folder
from tests.guides import ROOT, block, blocks

PAGE, FRAMES, DATABASE = "docs/production.md", "## A DataFrame in, matches out", "## In a vector database"


def run_block(code: str, **names: Any) -> dict[str, Any]:
    """Run a block of the page in the current folder, and return its names."""
    exec(compile(code, PAGE, "exec"), names)
    return names


def test_a_frame_of_either_library_is_ten_lines_from_its_matches(in_process, make_task, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # Its boundary is at cosine 0.99: random weights make all texts alike.
    run_folder(tmp_path, make_task(True), Scorer(100.0, -99.0, 0.1, "fitted"))
    Path("runs").mkdir()
    Path("runs/products").symlink_to(tmp_path / "run")
    shutil.copy(ROOT / "docs" / "products.csv", tmp_path)
    codes = blocks(PAGE, FRAMES)
    made = [run_block(code) for code in codes]
    assert all(len([line for line in code.splitlines() if line]) <= 10 for code in codes)
    assert [name for name in ("pd", "pl") for one in made if name in one] == ["pd", "pl"]
    for name in ("frame", "matches", "clusters", "deduplicated"):
        first, second = pl.from_pandas(made[0][name]), made[1][name]
        # A missing cell of pandas is a null of polars.
        assert first.fill_nan(None).equals(second), name
    clusters, kept = made[1]["clusters"], made[1]["deduplicated"]
    assert 1 < len(kept) == clusters["cluster"].n_unique() < len(clusters) == 82
    assert set(kept["sku"]) == set(clusters["canonical"])


@pytest.fixture(scope="module", params=[0.0, 0.5], ids=["cosine", "neighbourhood"])
def run(request, make_task, tmp_path_factory) -> Path:
    scorer = Scorer(20.0, -18.0, 0.1, "fitted", request.param)
    return run_folder(tmp_path_factory.mktemp("run"), make_task(False), scorer)


def test_the_database_finds_the_matches_of_al_ray(in_process, run: Path, make_task, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    Path("runs/w").symlink_to(run)
    sides = dict(zip(("left", "right"), (make_task(False).left.texts, make_task(False).right.texts), strict=True))
    for side, texts in sides.items():
        # Other ids than in the task, whose labels would count.
        pd.DataFrame({"id": [f"{side}-{row}" for row in range(len(texts))], "text": texts}).to_csv(f"{side}.csv")
    known = {"known_ids": [f"right-{row}" for row in range(len(sides["right"]))], "known_texts": sides["right"]}
    code = block(PAGE, DATABASE, "import al_ray")
    made = run_block(code, **known)
    every = {
        (f"left-{row}", id_): score
        for row, found in enumerate(made["matches"](sides["left"], cutoff=-2.0))
        for id_, score in found
    }
    assert len(every) == len(sides["left"]) * len(sides["right"])
    # A cutoff in the widest gap among the highest scores, where the last digits of a score decide nothing.
    highest = sorted(every.values(), reverse=True)[10:100]
    gap, cutoff = max((one - other, (one + other) / 2) for one, other in pairwise(highest))
    assert gap > 1e-5
    options = al_ray.MatchOptions(
        left=Path("left.csv"), right=Path("right.csv"), id_column="id", text_columns="text", at_score=cutoff,
        assign="all",
    )  # fmt: skip
    matches = al_ray.match(run, options, "matches").matches().to_pydict()
    expected = dict(zip(zip(matches["left_id"], matches["right_id"], strict=True), matches["score"], strict=True))
    assert 10 < len(expected) < 100
    assert {pair: score for pair, score in every.items() if score >= cutoff} == pytest.approx(expected, abs=1e-5)
    # The same from an export, at the cutoff of the page.
    exported = al_ray.export_model(run, al_ray.ExportOptions(format="sentence-transformers"), "export").path
    again = run_block(code.replace("runs/w", str(exported)), **known)
    texts = sides["left"][:3]
    assert list(again["matches"](texts)) == list(made["matches"](texts))
