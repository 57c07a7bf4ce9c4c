"""What the encoder of a run is worth without labels is measured before its first round."""

import json
from dataclasses import replace

from al_ray.active_learning.config import RunConfig
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import TrainingConfig
from al_ray.datasets.task_folder import write_task
from al_ray.runs.untrained_figures import FILE
from tests.running import run

RUN = RunConfig(
    task="-", encoder="cnn-8", max_length=8, encoder_batch=4, rounds=1, first_batch=10, threads=1,
    training=TrainingConfig(epochs=1, batch=8, learning_rate=1e-3, worst_loss=100.0),
)  # fmt: skip


def test_other_options_before_the_first_pair_measure_again(make_task, tmp_path):
    write_task(make_task(True), tmp_path / "task", {})
    asked, out = replace(RUN, task=str(tmp_path / "task")), tmp_path / "run"
    run(asked, ClusterConfig(), tmp_path / "fresh")
    fresh = json.loads((tmp_path / "fresh" / FILE).read_text())
    # Another encoder's, of a run that was stopped before it chose a pair.
    stale = {"encoder": "e", "evaluations": json.loads(json.dumps(fresh["evaluations"]))}
    stale["evaluations"]["dev"]["average_precision"]["value"] = 2.0
    out.mkdir()
    (out / FILE).write_text(json.dumps(stale))
    folder = run(asked, ClusterConfig(), out)
    assert json.loads((out / FILE).read_text()) == fresh
    (line,) = folder.complete_rounds()
    assert line["untrained"]["average_precision"] == fresh["evaluations"]["dev"]["average_precision"]["value"]
