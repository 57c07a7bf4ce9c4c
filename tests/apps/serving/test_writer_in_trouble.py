"""What the command says on SIGHUP if the writer of the store cannot name the new model, or does not answer."""

import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from ray import serve

from al_ray.apps.matching.model import open_model
from al_ray.apps.serving import server
from al_ray.apps.serving.app import NAME, WriterReplica
from al_ray.apps.serving.model_name import MODEL, ModelName, read_model_name
from al_ray.apps.serving.options import ServeOptions
from tests.apps.audit.test_audit_job import run_folder


@pytest.fixture
def options(local_ray, make_task, tmp_path) -> Iterator[ServeOptions]:
    """Of a service whose writer runs on Ray Serve."""
    run = run_folder(tmp_path, make_task(True, clusters=10, members=4))
    known = tmp_path / "k.csv"
    known.write_text("key,words\na,how do i swim\nb,why\n")
    options = ServeOptions(model=run, known=known, store=tmp_path / "store", text_columns="words", id_column="key")
    writer = serve.deployment(name="Writer", ray_actor_options={"num_cpus": 0})(WriterReplica)
    try:
        serve.run(writer.bind(options, ModelName.of(open_model(run))), name=NAME, route_prefix=None)
        yield options
    finally:
        serve.shutdown()


def writer_process() -> psutil.Process:
    [found] = [
        process
        for process in psutil.Process().children(recursive=True)
        if f"ServeReplica:{NAME}:Writer" in " ".join(process.cmdline())
    ]
    return found


def test_a_model_that_cannot_be_named_is_told_and_the_service_goes_on(options, monkeypatch):
    name = options.store / MODEL
    before = name.read_text()
    assert server._new_model(options).startswith("new model: digest ")
    name.write_text("{}")
    said = server._new_model(options)
    assert said == (
        f"the new model was not named in {options.store} ({name} lacks path, round; restore it, or make another "
        "`store`); send SIGHUP again"
    )
    # It does not answer: it is stopped.
    monkeypatch.setattr(server, "PATIENCE", 1.0)
    process = writer_process()
    process.send_signal(signal.SIGSTOP)
    try:
        said = server._new_model(options)
    finally:
        process.send_signal(signal.SIGCONT)
    assert said == f"the process that writes {options.store} has not answered in 1 s; send SIGHUP again"
    monkeypatch.undo()
    name.write_text(before)
    assert server._new_model(options).startswith("new model: digest ")
    assert read_model_name(options.store) == ModelName.of(open_model(Path(str(options.model))))
