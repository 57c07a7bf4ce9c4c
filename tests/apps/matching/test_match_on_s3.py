"""jobs.match with tables on an object store."""

from collections.abc import Iterator

import pytest

from tests.apps.matching.test_match_job import do, ran, tables, written
from tests.storage.s3 import Server, served

__all__ = ["ran"]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served() as started:
        yield started


def test_tables_on_an_object_store_are_matched_as_those_on_a_disk(ran, server, monkeypatch, tmp_path):
    run, task = ran
    here = there = tables(task, tmp_path)
    for side in ("left", "right"):
        path = tmp_path / f"{side}.csv"
        if path.exists():
            key = f"{tmp_path.name}/{path.name}"
            with server.store.open_output_stream(f"{server.bucket}/{key}") as file:
                file.write(path.read_bytes())
            there = there.replace(str(tmp_path / side) + ".csv", f"'{server.uri(key)}'")
    do(monkeypatch, f"--model {run} {here} --assign best --out {tmp_path / 'here'}")
    do(monkeypatch, f"--model {run} {there} --assign best --out {tmp_path / 'there'}")
    assert list(written(tmp_path / "there").items()) == list(written(tmp_path / "here").items())
    left = there.split("--text-columns")[0]
    do(monkeypatch, f"--into {tmp_path / 'there'} {left}")
    assert list(written(tmp_path / "there").items()) == list(written(tmp_path / "here").items())
