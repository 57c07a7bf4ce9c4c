"""What is checked before Ray starts, and how a replica takes a new model, in one process."""

import asyncio
import json
import socket
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from al_ray.apps.http.address import require_token
from al_ray.apps.http.token import is_token, read_token, token_digest
from al_ray.apps.matching.model import open_model
from al_ray.apps.serving import app
from al_ray.apps.serving.answers import ServedModel
from al_ray.apps.serving.app import MatcherReplica, WriterReplica
from al_ray.apps.serving.model_name import ModelName, read_model_name
from al_ray.apps.serving.options import ServeOptions
from al_ray.apps.serving.server import plan, run_server
from al_ray.apps.serving.store import StoreWriter
from al_ray.core.errors import BadFile, BadOption, FolderInUse, WrongFolder
from al_ray.storage.uri import storage_path
from tests.apps.audit.test_audit_job import run_folder
from tests.apps.serving.test_serve_killed import other_model
from tests.storage.s3 import served


@pytest.fixture(scope="module")
def run(make_task, tmp_path_factory) -> Path:
    return run_folder(tmp_path_factory.mktemp("run"), make_task(True, clusters=10, members=4))


@pytest.fixture
def options(run, tmp_path) -> ServeOptions:
    (tmp_path / "k.csv").write_text("key,words\na,how do i swim\nb,why\n")
    return ServeOptions(
        model=run, known=tmp_path / "k.csv", store=tmp_path / "store", text_columns="words", id_column="key"
    )


def made(options: ServeOptions) -> StoreWriter:
    """The store of the options, as its writer."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    # Up to the first line, before Ray starts.
    next(run_server(options, "127.0.0.1", port, None))
    return StoreWriter(options.store)


def test_a_plan_says_what_would_be_loaded_and_writes_nothing(options):
    lines = list(plan(options).lines(options))
    assert lines[1:] == [
        "chosen: round 1 of 1, the last one: the run has no figures by which models could be compared",
        "cutoff: none",
        f"known texts: 2 from {options.known}, 16 characters",
        "search: exact",
    ]
    assert not options.store.exists()
    bounded = replace(options, at_boundary=True, exact_texts=1)
    assert list(plan(bounded).lines(bounded))[2::2] == [
        "cutoff: `at_boundary=True`, score 0.9000",
        "search: by the Faiss index auto; GET /model says its recall",
    ]
    writer = made(options)
    writer.put([("c", "who")])
    writer.close()
    assert list(plan(options).lines(options))[3].startswith(f"known texts: 3 in {options.store} after change 1,")


def test_a_table_on_an_object_store_is_known_as_its_file_is(options):
    with served() as server:
        with server.store.open_output_stream(f"{server.bucket}/k.csv") as file:
            file.write(Path(str(options.known)).read_bytes())
        there = plan(replace(options, known=storage_path(server.uri("k.csv"))))
    here = plan(options)
    assert (there.texts, there.source.digest) == (here.texts, here.source.digest)


def test_known_texts_that_have_changed_are_told_of_and_those_of_the_store_stay(options):
    writer = made(options)
    writer.put([("c", "who")])
    writer.close()
    options.known.write_text("key,words\na,how do i swim\nb,another text\n")
    found = plan(options)
    assert [known.text for known in found.texts.values()] == ["how do i swim", "why", "who"]
    assert list(found.lines(options))[3:5] == [
        f"known texts: 3 in {options.store} after change 1, 19 characters",
        f"{options.known} has changed since the store was made; the store keeps its texts: send the changes by PUT and "
        "DELETE /texts",
    ]
    made(options).close()


def test_other_known_texts_than_those_of_the_store_are_refused(options, tmp_path):
    made(options).close()
    (tmp_path / "other.csv").write_text("key,words\na,how do i swim\nb,another text\n")
    with pytest.raises(WrongFolder, match=r"was made from other texts .* give another `store`, or the `known` of this"):
        plan(replace(options, known=tmp_path / "other.csv"))


def test_a_port_in_use_and_a_store_in_use_are_refused_before_ray_starts(options):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with pytest.raises(BadOption, match=r"cannot be listened on .*; give others"):
            next(run_server(options, "127.0.0.1", listener.getsockname()[1], None))
    assert not options.store.exists()
    writer = made(options)
    with pytest.raises(FolderInUse):
        made(options)
    writer.close()


def test_the_token_comes_from_a_file_or_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("AL_RAY_TOKEN", raising=False)
    assert read_token(None, "`token_file`") is None
    require_token("127.0.0.1", None)
    with pytest.raises(BadOption, match=r"`host='0.0.0.0'` is open to other machines"):
        require_token("0.0.0.0", None)
    monkeypatch.setenv("AL_RAY_TOKEN", "of-the-environment")
    (tmp_path / "token").write_text("of-the-file-12345\n")
    assert read_token(None, "`token_file`") == "of-the-environment"
    assert read_token(tmp_path / "token", "`token_file`") == "of-the-file-12345"
    monkeypatch.setenv("AL_RAY_TOKEN", "")
    with pytest.raises(BadOption, match="AL_RAY_TOKEN: the token is not 16 or more"):
        read_token(None, "`token_file`")
    with pytest.raises(BadFile, match="cannot be read"):
        read_token(tmp_path / "none", "`token_file`")
    digest = token_digest("of-the-file-12345")
    assert digest is not None
    assert is_token("Bearer of-the-file-12345", digest)
    assert is_token("bearer  of-the-file-12345", digest)
    for header in ("", "Bearer", "Bearer ", "of-the-file-12345", "Bearer of-the-file-1234", "Bearer \udcff"):
        assert not is_token(header, digest)


async def loaded(replica: MatcherReplica) -> ServedModel:
    """What a replica says when it has loaded what it is loading."""
    about = await replica.about()
    while about.loading:
        await asyncio.sleep(0)
        about = await replica.about()
    return about


def test_a_replica_takes_a_new_model_and_keeps_the_old_one_if_that_cannot_be_loaded(options, run, tmp_path):
    async def number() -> int:
        return 0

    async def swap() -> None:
        replica = MatcherReplica(options, SimpleNamespace(number=SimpleNamespace(remote=number)))  # type: ignore[arg-type]
        await replica.reconfigure({})
        first = await loaded(replica)
        assert (first.path, first.problem) == (str(run), "")
        # One that is not there: the old one answers on, and the reason is said.
        writer.use_model(ModelName(str(tmp_path / "nowhere"), None))
        await replica.check_health()
        about = await loaded(replica)
        assert about.model == first.model
        assert "nowhere holds no config.json" in about.problem
        june = other_model(run, tmp_path / "june")
        writer.use_model(ModelName.of(open_model(june)))
        second = await loaded(replica)
        while second.path != str(june):
            second = await loaded(replica)
        assert second.problem == ""
        assert second.model != first.model

    writer = made(options)
    writer.use_model(ModelName.of(open_model(run)))
    asyncio.run(swap())
    writer.close()
    assert json.loads((options.store / "model.json").read_text())["round"] is None


def test_an_error_of_torch_is_said_and_the_model_is_loaded_again_later(options, run, tmp_path, monkeypatch):
    async def number() -> int:
        return 0

    async def swap() -> None:
        replica = MatcherReplica(options, SimpleNamespace(number=SimpleNamespace(remote=number)))  # type: ignore[arg-type]
        await replica.reconfigure({})
        writer.use_model(ModelName.of(open_model(june)))
        with monkeypatch.context() as context:
            # More than there is: the real error of torch.
            context.setattr(replica, "_load", lambda name: torch.empty(2**60))
            await replica.check_health()
            about = await loaded(replica)
        assert "memory" in about.problem
        assert about.path == str(run)
        # Not at once.
        assert not (await replica.about()).loading
        monkeypatch.setattr(app, "AGAIN", 0.0)
        await replica.check_health()
        about = await loaded(replica)
        assert (about.path, about.problem) == (str(june), "")

    writer, june = made(options), other_model(run, tmp_path / "june")
    asyncio.run(swap())
    writer.close()


@pytest.mark.parametrize("is_command", [True, False], ids=["command", "config file"])
def test_a_writer_that_is_started_again_leaves_the_model_as_it_is(options, run, tmp_path, is_command):
    link, june = tmp_path / "current", other_model(run, tmp_path / "june")
    link.symlink_to(run)
    options = replace(options, model=link)
    if is_command:
        made(options).close()
    names = () if is_command else (ModelName.of(open_model(link)),)
    for model in (run, june):
        (tmp_path / "next").symlink_to(model)
        (tmp_path / "next").rename(link)
        writer = WriterReplica(options, *names)
        assert read_model_name(options.store) == ModelName.of(open_model(run))
        asyncio.run(writer.put([("c", "who")]))
        writer._store.close()
    # A command that is started again takes the new one.
    made(options).close()
    assert read_model_name(options.store) == ModelName.of(open_model(june))
