"""What only a worker sees, or what has no place on Ray: refused in one line, and the folder stays good."""

import json
import shlex
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

from al_ray.active_learning import loop
from al_ray.cli import run
from al_ray.cli._shared import entry
from al_ray.cluster import run as whole_run
from al_ray.cluster.workers import workers_in_this_process
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.task import Corpus
from al_ray.datasets.task_folder import sealed, write_task
from al_ray.encoders.transformer import Encoder

SMALL = (
    "--encoder-batch 8 --threads 1 --rounds 1 --first-batch 16 --search.neighbours 5 --training.epochs 1 "
    "--training.batch 8 --training.worst-loss 100 --timeout 600"
)
BARE = "--task task --out out --max-length 24"
SOUND = f"{BARE} --encoder random-bert --encoder-layers 1 {SMALL}"


def slow(*case: object) -> object:
    """One that starts actors anew to show what its neighbours show too."""
    return pytest.param(*case, marks=pytest.mark.slow)


@pytest.fixture(scope="module")
def world(tmp_path_factory, make_task) -> Path:
    """A task, a run of one round, and an encoder."""
    here = tmp_path_factory.mktemp("world")
    write_task(make_task(True), here / "task", {})
    (here / "good").mkdir()
    Encoder.base(EncoderConfig("random-bert", 1, 24, 8, 1)).save(here / "good")
    with pytest.MonkeyPatch.context() as patched, workers_in_this_process():
        patched.chdir(here)
        go(patched, SOUND.replace("--out out", "--out run"))
    return here


def go(monkeypatch, line: str) -> None:
    monkeypatch.setattr(sys, "argv", ["run", *shlex.split(line)])
    entry.job(run.main)


def begins(monkeypatch, line: str) -> None:
    """The same up to its first actor."""
    monkeypatch.setattr(whole_run, "deploy_services", lambda *_: nullcontext(SimpleNamespace(peak_memory=dict)))
    monkeypatch.setattr(loop, "run", lambda *_: iter(()))
    go(monkeypatch, line)


def refused(monkeypatch, capsys, line: str) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        go(monkeypatch, line)
    assert stop.value.code == 2
    output = capsys.readouterr()
    assert output.err.startswith("error: ")
    # Ray may print that an actor was ended while another refused.
    ours = [line for line in output.out.splitlines() if "(raylet)" not in line]
    assert (len(output.err.splitlines()), ours) == (1, []), output
    return output.err


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--encoder nowhere", "encoder 'nowhere' cannot be loaded"),
        ("--encoder random-bert --search.index IVF1000,Flat --evaluation.examples 0", "--search.index IVF1000,Flat on"),
        slow("--encoder HERE/good --encoder-layers 2", "--encoder-layers 2: {here}/good has 1 to 1"),
        slow("--encoder random-bert --max-length 999", "--max-length 999 is beyond random-bert's 160 positions; lower"),
        slow("--encoder random-bert --search.index Nonsense", "--search.index 'Nonsense' on"),
        slow("--encoder random-bert --search.index PQ7", "--search.index 'PQ7' on"),
    ],
)  # fmt: skip
def test_what_a_worker_refuses_leaves_the_folder_to_the_right_command(
    either_way, world, tmp_path, monkeypatch, capsys, line, words
):
    here = shutil.copytree(world, tmp_path / "here")
    monkeypatch.chdir(here)
    # The workers of this Ray stand elsewhere.
    output = refused(monkeypatch, capsys, f"{BARE} {SMALL} {line.replace('HERE', str(here))}")
    assert words.format(here=here) in output
    assert not list((here / "out").glob("round-*/batch.parquet"))
    assert not list((here / "out").glob("pool/*.*")), "nothing half-made"
    begins(monkeypatch, SOUND)
    assert json.loads((here / "out" / "config.json").read_text())["encoder"] == "random-bert"


def test_gpus_that_are_not_there_leave_the_folder_empty(local_ray, world, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(shutil.copytree(world, tmp_path / "here"))
    said = refused(monkeypatch, capsys, f"{SOUND} --gpus-per-shard 1 --timeout 2")
    assert "1.0 CPUs and 1.0 GPUs were not placed in 2 s" in said
    assert not list(Path("out").glob("round-*/batch.parquet"))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def other(path: Path) -> None:
    changed = bytearray(path.read_bytes())
    changed[-3] ^= 1
    path.write_bytes(changed)


@pytest.mark.parametrize(
    ("name", "damage", "words"),
    [
        ("round-001/model/model.safetensors", cut, "round-001/model cannot be loaded (SafetensorError"),
        slow(
            "round-001/model/model.safetensors", other, "round-001/model are not those the run made; restore the folder"
        ),
        slow("round-001/model/tokenizer.json", cut, "round-001/model cannot be loaded ("),
        slow("round-001/model/config.json", Path.unlink, "round-001/model cannot be loaded ("),
        ("pool/*/left/ids-00000.npy", Path.unlink, "ids-00000.npy"),
        slow("pool/*/left/starts-00000.npy", cut, "and run again"),
        slow("pool/*/left-*.npy", Path.unlink, ".npy: No such file or directory"),
    ],
)
def test_a_run_that_goes_on_finds_what_is_damaged(
    either_way, world, tmp_path, monkeypatch, capsys, name, damage, words
):
    here = shutil.copytree(world, tmp_path / "here")
    monkeypatch.chdir(here)
    path = min((here / "run").glob(name))
    whole = path.read_bytes()
    damage(path)
    output = refused(monkeypatch, capsys, "--config run --out run --rounds 2")
    assert words in output
    path.write_bytes(whole)
    begins(monkeypatch, "--config run --out run --rounds 2")
    assert json.loads((here / "run" / "config.json").read_text())["rounds"] == 2


@pytest.mark.slow
def test_huge_and_empty_texts_are_taken(in_process, world, make_task, tmp_path, monkeypatch):
    task = make_task(True)
    texts = ("a" * 2**20, "", "b c " * 2**18, " \0\u200b", *task.left.texts[4:])
    corpus = Corpus(task.left.ids, texts)
    write_task(sealed("odd", True, corpus, corpus, task.splits), tmp_path / "task", {})
    monkeypatch.chdir(tmp_path)
    everything = SOUND.replace("--first-batch 16", "--first-batch 99999")
    go(monkeypatch, f"{everything} --oracle file")
    sheet = tmp_path / "out" / "round-001" / "batch.csv"
    assert sheet.with_suffix(".json").stat().st_size > 2**20
    sheet.write_text(sheet.read_text(encoding="utf-8").replace("-00001,,", "-00001,yes,"), encoding="utf-8")
    go(monkeypatch, f"{everything} --oracle file")
    (first,) = pq.ParquetFile(tmp_path / "out" / "round-001" / "answers-00001.parquet").read().to_pylist()
    assert (first["row"], first["answer"]) == (0, "yes")
    go(monkeypatch, SOUND.replace("--out out", "--out other"))
    assert (tmp_path / "other" / "round-001" / "model").is_dir()
