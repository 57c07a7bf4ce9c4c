"""Folders of earlier versions are read as they were meant, and those of later ones are refused by name.

al_ray-VERSION.tar.xz has folders that this version wrote of 120 synthetic questions: task, run, grid, audit, and from
0.2.0 on matches and their audit; without what a run makes again (pool, events, Tune's state) and without most weights.
They were made by (0.1.0 is commit 7af69c9):

    jobs.prepare synthetic --texts 120 --out task
    jobs.run --task task --out run --encoder random-bert --encoder-layers 1 --max-length 16 --encoder-batch 8 \
      --threads 1 --rounds 2 --first-batch 16 --search.neighbours 5 --training.epochs 1 --training.batch 8 \
      --training.worst-loss 100 --evaluation.near-neighbours 3 --evaluation.random-pairs 50
    jobs.grid (with these options) --out grid --strategies random,static --seeds 0 --train-every-budget
    jobs.audit sample --run run --split dev --out audit
    jobs.match --model run --left task --out matches --best 20 --assign all
    jobs.audit sample --matches matches --budget 10 --out audit-matches
"""

import json
import re
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import al_ray
from al_ray.apps.cross_encoder.folder import CrossEncoderFolder
from al_ray.apps.cross_encoder.options import TrainConfig
from al_ray.apps.grid.folder import GridFolder
from al_ray.apps.grid.spec import read_grid_file
from al_ray.apps.matching.written import read_matches
from al_ray.apps.papers.augmentation.folder import AugmentFolder
from al_ray.apps.papers.augmentation.gold import Gold, Pool, Scored
from al_ray.apps.papers.augmentation.options import AugmentConfig
from al_ray.apps.papers.paraphrase.folder import ParaphraseFolder, write_about
from al_ray.apps.papers.paraphrase.options import ParaphraseConfig
from al_ray.apps.reporting.read_runs import read_runs
from al_ray.apps.serving.store import Source, StoreWriter, make_store
from al_ray.apps.serving.text_lines import KnownText, texts_digest
from al_ray.core.errors import BadFile
from al_ray.core.labels import YES, Labelled
from al_ray.core.pairs import as_pairs
from al_ray.core.task import Task
from al_ray.datasets.task_folder import read_task
from al_ray.metrics.average_precision import average_precision, count_scores
from al_ray.runs.run_folder import RunFolder
from al_ray.storage.files import read_json, written_by
from al_ray.training.saved_model import read_model

Bind = Callable[[Path, Task], Path]
HERE = Path(__file__).parent
FIRST, NOW = "0.1.0", "0.2.0"
VERSIONS = FIRST, NOW
# The file that describes each kind of folder, and who reads it first.
ROOTS: dict[str, Callable[[Path], object]] = {
    "task/task.json": lambda folders: read_task(folders / "task"),
    "run/config.json": lambda folders: al_ray.load_run(folders / "run"),
    "run/round-002/model/scorer.json": lambda folders: read_model(folders / "run/round-002/model"),
    "grid/grid.json": lambda folders: GridFolder(folders / "grid").axes(),
    "audit/audit-key.json": lambda folders: al_ray.estimate_audit(folders / "audit"),
    "audit-matches/audit-key.json": lambda folders: al_ray.estimate_audit(folders / "audit-matches"),
    "matches/match.json": lambda folders: read_matches(folders / "matches"),
}


def unpacked(version: str, folder: Path) -> Path:
    """The folders of a version."""
    with tarfile.open(HERE / f"al_ray-{version}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    for path in folder.rglob("*.json*"):
        path.write_text(path.read_text().replace("FOLDER", str(folder)))
    return folder


@pytest.fixture(params=VERSIONS)
def folders(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return unpacked(request.param, tmp_path)


def test_there_are_folders_of_this_version():
    assert al_ray.__version__.split(".")[:2] == VERSIONS[-1].split(".")[:2], "keep folders of the new version, too"


def test_a_run_has_its_task_options_metrics_and_labels(folders: Path):
    run = al_ray.load_run(folders / "run")
    assert run.folder.task.digest == read_task(folders / "task").digest
    assert (run.config.encoder, run.config.batches, run.rounds) == ("random-bert", (16, 24), 2)
    assert run.metrics()["labels"].to_pylist() == [16, 40]
    labels = run.labelled()
    assert (len(labels), int((labels.labels == YES).sum())) == (40, 1)
    # The labels are those that the task states.
    positives = run.folder.task.split("train").space.keys(run.folder.task.split("train").positives)
    keys = run.folder.task.split("train").space.keys(labels.pairs)
    assert (np.isin(keys, positives) == (labels.labels == YES)).all()


def test_a_model_scores_as_it_did_when_the_run_measured_it(folders: Path):
    """All pairs of dev, one by one: AP is that which the run stored."""
    run, model = al_ray.load_run(folders / "run"), al_ray.load_model(folders / "run")
    stored = json.loads((folders / "run/round-002/record.json").read_text())["evaluations"]["dev"]
    dev, texts = run.folder.task.split("dev"), run.folder.task.left.texts
    pairs = dev.space.pairs(np.sort(dev.space.at(np.arange(dev.space.total))))
    cosines = model.cosines(*([str(texts[int(row)]) for row in side] for side in pairs.T))
    match = np.isin(dev.space.keys(pairs), dev.space.keys(dev.positives))
    counts = count_scores(np.sort(cosines[match]), [np.sort(cosines[~match])])
    assert stored["exact"]
    # The same to the bit where it was made; on another CPU last bits may exchange two pairs.
    assert average_precision(counts, np.ones(1)) == pytest.approx(stored["average_precision"]["value"], abs=1e-3)


def test_a_run_that_0_1_0_began_goes_on_with_its_options_and_a_warning(tmp_path: Path, caplog):
    folder = unpacked(FIRST, tmp_path) / "run"
    run = al_ray.load_run(folder)
    journal = RunFolder(folder, run.folder.task)
    journal.bind(run.config)
    assert "was begun by al_ray 0.1.0: its labels, options and models hold, but evaluation sets" in caplog.text
    assert (written_by(folder / "config.json"), al_ray.load_run(folder).config) == (al_ray.__version__, run.config)
    caplog.clear()
    journal.bind(run.config)
    assert caplog.text == ""


def test_an_audit_has_its_pairs_and_takes_labels(folders: Path):
    sheet = folders / "audit" / "audit.csv"
    sheet.write_text(re.sub(r"(?m)^(a-\d+),,", r"\1,no,", sheet.read_text(encoding="utf-8-sig")))
    estimate = al_ray.estimate_audit(folders / "audit")
    # 4 positives reach the cosine, 56 near negatives of which 50 are drawn, and the other random ones, each for 8.28.
    random = estimate.figures["no"] - 50
    assert (random in (3, 4), estimate.figures["open"], estimate.figures["positives_above"]) == (True, 0, 4)
    assert estimate.figures["corrected_precision"]["value"] == pytest.approx(4 / (4 + 56 + random * 8.28))


def test_a_grid_of_today_is_read_and_one_of_0_1_0_says_how_to_renew_its_summary(tmp_path: Path):
    now, first = unpacked(NOW, tmp_path / "now"), unpacked(FIRST, tmp_path / "first")
    assert [one.name for one in read_runs(now / "grid")] == ["grid/random-s0", "grid/static-s0"]
    with pytest.raises(BadFile, match=r"summary.parquet has no columns .*rerun the command of the grid"):
        read_runs(first / "grid")
    assert read_grid_file(now / "grid/grid.json")["axes"]["strategies"] == ["random", "static"]
    assert GridFolder(first / "grid").axes() == GridFolder(now / "grid").axes()
    (first / "grid/summary.parquet").unlink()
    assert [one.name for one in read_runs(first / "grid")] == ["grid/random-s0", "grid/static-s0"]


def test_matches_are_read(tmp_path: Path):
    matches = read_matches(unpacked(NOW, tmp_path) / "matches")
    assert (len(matches.scores), matches.rule) == (20, "all")


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("later", ["0.3.0", "1.0.0", "0.3.0.dev1", "one"])
def test_a_folder_of_a_later_version_is_refused_by_name(tmp_path: Path, root: str, later: str):
    folders = unpacked(NOW, tmp_path)
    path = folders / root
    content = json.loads(path.read_text())
    assert content["al_ray"].startswith("0.2.")
    path.write_text(json.dumps({**content, "al_ray": later, "something": "new"}))
    refusal = f"{path} was written by al_ray {later}, and this is al_ray {al_ray.__version__}; install that version"
    with pytest.raises(BadFile, match=re.escape(refusal)):
        ROOTS[root](folders)


def of_version(path: Path, version: str) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), "al_ray": version}))


def bind_cross_encoder(folder: Path, task: Task) -> Path:
    CrossEncoderFolder(folder).bind(TrainConfig(task="task", labels="stated"), task, Labelled())
    return folder / "config.json"


def bind_augmentation(folder: Path, task: Task) -> Path:
    one = Scored(as_pairs(np.array([0]), np.array([1])), np.ones(1))
    gold = Gold("task", Pool(("one", "other"), np.array([0]), np.array([1])), one, {})
    AugmentFolder(folder).bind(AugmentConfig(task="task", labels="stated"), gold)
    return folder / "config.json"


def bind_paraphrase(folder: Path, task: Task) -> Path:
    ParaphraseFolder(folder).bind(ParaphraseConfig(task="task"), task)
    return folder / "config.json"


def bind_index(folder: Path, task: Task) -> Path:
    folder.mkdir()
    write_about(folder, {"index": "Flat"}, task.left)
    return folder / "index.json"


def bind_store(folder: Path, task: Task) -> Path:
    texts = {name: KnownText(text, None) for name, text in zip(task.left.ids, task.left.texts, strict=True)}
    make_store(folder, Source("table.csv", texts_digest(texts), symmetric=True), texts)
    return folder / "store.json"


@pytest.mark.parametrize("bind", [bind_cross_encoder, bind_augmentation, bind_paraphrase])
def test_the_folder_of_a_training_has_the_version_which_is_no_option(tmp_path: Path, bind: Bind):
    task = read_task(unpacked(NOW, tmp_path) / "task")
    path = bind(tmp_path / "own", task)
    assert written_by(path) == al_ray.__version__
    bind(tmp_path / "own", task)
    of_version(path, "1.0.0")
    with pytest.raises(BadFile, match=r"was written by al_ray 1\.0\.0"):
        bind(tmp_path / "own", task)


@pytest.mark.parametrize(("bind", "read"), [(bind_index, lambda path: read_json(path)),
                                            (bind_store, lambda path: StoreWriter(path.parent))])  # fmt: skip
def test_a_store_and_an_index_have_the_version(tmp_path: Path, bind: Bind, read: Callable[[Path], object]):
    path = bind(tmp_path / "own", read_task(unpacked(NOW, tmp_path) / "task"))
    assert written_by(path) == al_ray.__version__
    of_version(path, "1.0.0")
    with pytest.raises(BadFile, match=r"was written by al_ray 1\.0\.0"):
        read(path)


def test_a_patch_of_this_version_is_read(tmp_path: Path):
    folders = unpacked(NOW, tmp_path)
    of_version(folders / "run/config.json", "0.2.99")
    assert al_ray.load_run(folders / "run").rounds == 2
