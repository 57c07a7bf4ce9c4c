"""jobs.export of a run with a matcher: the encoder, the matcher for other programs, and a card that names its parts."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import al_ray
from al_ray.core.config.sections import CandidatesConfig
from al_ray.core.errors import BadOption
from al_ray.datasets.task_folder import write_task

TEXTS = ["how to swim", "how do i swim", "the first king"]


@pytest.fixture(scope="module")
def ran(in_process, make_task, tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("matcher")
    write_task(make_task(False, clusters=18), root / "task", {})
    config = al_ray.RunConfig(
        task=str(root / "task"), rounds=1, first_batch=16, encoder="random-bert", encoder_layers=1, max_length=24,
        encoder_batch=8, threads=1, matcher="on", candidates=CandidatesConfig(cosine=5, trigrams=6),
        evaluation=al_ray.EvaluationConfig(splits=("dev",)),
    )  # fmt: skip
    al_ray.run(config, root / "run")
    return root / "run"


@pytest.mark.parametrize("copied", [False, True], ids=["run", "copy"])
def test_an_onnx_export_gives_vectors_and_p(ran, tmp_path, copied):
    from onnxruntime import InferenceSession

    model = shutil.copytree(ran / "round-001/model", tmp_path / "copy") if copied else ran
    exported = al_ray.export_model(model, al_ray.ExportOptions(format="onnx"), tmp_path / "out")
    about = exported.record["matcher"]
    assert 0 <= about["check"]["largest_p"] <= 1e-5
    assert about["check"]["rows"] == 1000
    assert any("largest difference of p of the matcher's graph on 1,000 rows" in line for line in exported.summary)
    loaded = al_ray.load_matcher(tmp_path / "out")
    scores = loaded.score(TEXTS, TEXTS)
    assert about["comparisons"] == list(loaded.comparisons)
    expected = loaded.matcher.probability(scores.features)
    session = InferenceSession(str(tmp_path / "out/matcher.onnx"), providers=["CPUExecutionProvider"])
    p = np.array(session.run(["p"], {"features": scores.features})[0])
    assert p[:, 0] == pytest.approx(expected, abs=1e-5)
    names = dict[str, object]()
    exec((tmp_path / "out/matcher.py").read_text(), names)
    code = names["probability"](scores.features, tmp_path / "out/matcher.safetensors")  # pyright: ignore[reportCallIssue]
    assert code.tobytes() == expected.tobytes()
    card = (tmp_path / "out/README.md").read_text()
    assert "Not in these files" in card
    assert "nearest by cosine or 6 by character 3-grams" in card
    assert all(name in card for name in loaded.comparisons)
    assert ("average precision over all pairs of dev" in card) is not copied
    assert "sigmoid" not in card


def test_a_folder_export_has_the_encoder_and_the_matcher(ran, tmp_path):
    options = al_ray.ExportOptions(format="sentence-transformers", licence="mit")
    exported = al_ray.export_model(ran, options, tmp_path / "out")
    vectors = SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(TEXTS, normalize_embeddings=True)
    loaded = al_ray.load_matcher(ran)
    tokens = loaded.encoder.tokenise(TEXTS)
    assert vectors == pytest.approx(loaded.encoder.embed(tokens, np.arange(3)), abs=1e-6)
    assert "graph" not in exported.record["matcher"]
    assert {"matcher.safetensors", "records.safetensors", "matcher.py", "scorer.json"} <= set(exported.record["files"])
    assert json.loads((tmp_path / "out/export.json").read_text())["matcher"]["fields"] == {"left": {}, "right": {}}
    again = al_ray.export_model(ran, options, tmp_path / "out")
    assert any("already holds this export" in line for line in again.summary)


def test_int8_is_refused_beside_a_matcher(ran, tmp_path):
    with pytest.raises(BadOption, match=r"`int8` measures the AP of the cosine, and in .* a matcher ranks"):
        al_ray.export_model(ran, al_ray.ExportOptions(format="onnx", int8=True), tmp_path / "out")
    assert not (tmp_path / "out").exists()
