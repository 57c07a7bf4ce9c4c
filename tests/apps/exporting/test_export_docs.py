"""The code of docs/export.md as it stands there: vectors in a process without torch, and the run's scores by numpy."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import al_ray
from al_ray.core.scorer import Scorer
from al_ray.storage.files import write_json
from tests.apps.audit.test_audit_job import run_folder
from tests.guides import block

LEFT = ["how to swim", "a", "x y z " * 30, "the first king"]
RIGHT = ["how do i swim", "who was the first king", "b", "king of the north", "to swim in a lake", "x y", "swimming"]
# An import of one of these is an error in the process.
FORBIDDEN = ("torch", "transformers", "sentence_transformers", "al_ray")
PROGRAM = """
import sys
for name in {forbidden}:
    sys.modules[name] = None
FOLDER = {folder!r}
{encode}
{scores}
left, right = encode({left}), encode({right}, "right")
print(json.dumps([left.tolist(), right.tolist(), scores(left, right).tolist()]))
"""


@pytest.mark.parametrize("neighbourhood", [0.0, 0.5])
def test_the_code_of_the_page_gives_vectors_and_scores_without_torch(neighbourhood, make_task, tmp_path: Path):
    run = run_folder(tmp_path, make_task(False), Scorer(20.0, -18.0, 0.1, "fitted", neighbourhood))
    if neighbourhood:
        scorer = run / "round-001/model/scorer.json"
        content = {"weight": 5.0, "bias": -4.0, "source": "dev-labels", "ceiling": 0.7}
        write_json(scorer, {**json.loads(scorer.read_text()), "recalibration": content})
    folder = al_ray.export_model(run, al_ray.ExportOptions(format="onnx"), tmp_path / "out").path
    program = PROGRAM.format(
        forbidden=FORBIDDEN, folder=str(folder), left=LEFT, right=RIGHT,
        encode=block("docs/export.md", "## ONNX without torch", "import json"),
        scores=block("docs/export.md", "## Scores", "scorer ="),
    )  # fmt: skip
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    left, right, scores = map(np.array, json.loads(done.stdout))
    model = al_ray.load_model(run)
    assert left == pytest.approx(model.encode(LEFT), abs=1e-6)
    assert right == pytest.approx(model.encode(RIGHT, "right"), abs=1e-6)
    pairs = [(one, other) for one in LEFT for other in RIGHT]
    expected = model.score(*map(list, zip(*pairs, strict=True)), collection=RIGHT)
    assert scores.ravel() == pytest.approx(expected, abs=1e-5)


def test_torch_is_forbidden_in_that_process():
    program = PROGRAM.partition("FOLDER")[0].format(forbidden=FORBIDDEN) + "import torch"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "import of torch halted" in done.stderr
