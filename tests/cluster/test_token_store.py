"""Token ids that several workers make in chunks: the files of one process, and only what is missing is made."""

from pathlib import Path

import pytest

from al_ray.cluster import token_store
from al_ray.cluster.token_store import ENCODER, Chunk, pool_folder, prepare_pool, write_pool, write_tokens
from al_ray.core.chunks import LEAST_TEXTS
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.errors import BadFile
from al_ray.datasets.synthetic import synthetic_task
from al_ray.datasets.task_folder import read_task, write_task

TEXTS = 2 * LEAST_TEXTS + 100


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("task") / "task"
    write_task(synthetic_task(TEXTS, 0), path, {})
    return path


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("encoder", ["random-bert", "cnn"])
def test_several_workers_write_what_one_process_writes_and_say_how_far_they_are(either_way, folder, tmp_path, encoder):
    layers = None if encoder == "cnn" else 1
    config, heard = EncoderConfig(encoder, layers, 24, 8, 1), list[tuple[str, int, int]]()
    pool = prepare_pool(
        folder, read_task(folder), config, tmp_path, ClusterConfig(shards=2, timeout=600),
        watch=lambda stage, done, total: heard.append((stage, done, total)),
    )  # fmt: skip
    write_pool(str(folder), config, str(tmp_path / "alone"))
    made = files(tmp_path / "alone")
    assert isinstance(pool, Path)
    assert files(pool) == made
    assert sum(name.startswith("left/ids-") for name in made) == 3
    assert [stage for stage, _, _ in heard] == ["tokenise"] * 3
    assert heard[-1] == ("tokenise", TEXTS, TEXTS)


def test_chunks_that_are_there_are_not_made_again(folder, tmp_path, letters):
    pool = pool_folder(read_task(folder), letters, tmp_path)
    assert isinstance(pool, Path)
    write_pool(str(folder), letters, str(pool))
    made = files(pool)
    kept = {name: (pool / name).stat().st_ino for name in ("left/ids-00000.npy", "left/starts-00002.npy")}
    # As a process leaves it that died between two files of a chunk.
    for name in (ENCODER, "left/starts-00001.npy"):
        (pool / name).unlink()
    chunks: tuple[Chunk, ...] = ("left", 0, 0, LEAST_TEXTS), ("left", 2, 2 * LEAST_TEXTS, TEXTS)
    digest = read_task(folder).digest
    assert list(write_tokens(str(folder), letters, str(pool), digest, chunks)) == [LEAST_TEXTS, 100]
    write_pool(str(folder), letters, str(pool))
    assert files(pool) == made
    assert {name: (pool / name).stat().st_ino for name in kept} == kept


def test_texts_of_another_task_are_refused(folder, tmp_path, letters):
    with pytest.raises(BadFile, match="another task on this node"):
        next(write_tokens(str(folder), letters, str(tmp_path), "0" * 64, (("left", 0, 0, 100),)))


def test_token_ids_of_an_encoder_that_was_exchanged_are_made_again(folder, tmp_path, letters):
    pool = tmp_path / "pool"
    write_pool(str(folder), letters, str(pool))
    made = files(pool)
    (pool / ENCODER).unlink()
    (pool / "source.json").write_text('{"encoder": "another of the same name"}')
    for name in ("ids", "starts"):
        (pool / "left" / f"{name}-00000.npy").write_bytes((pool / "left" / f"{name}-00002.npy").read_bytes())
    write_pool(str(folder), letters, str(pool))
    assert files(pool) == made


def test_a_lost_chunk_at_the_end_is_no_complete_pool(folder, tmp_path, letters, monkeypatch):
    usual = token_store.write_tokens
    monkeypatch.setattr(
        token_store,
        "write_tokens",
        lambda folder, encoder, to, digest, chunks, base: usual(folder, encoder, to, digest, chunks[:-1], base),
    )
    with pytest.raises(BadFile, match=f"token ids of {2 * LEAST_TEXTS:,} of {TEXTS:,} texts; delete"):
        write_pool(str(folder), letters, str(tmp_path / "pool"))
    assert not (tmp_path / "pool" / ENCODER).exists()
