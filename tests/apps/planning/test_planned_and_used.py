"""What a run prints at its end: what it was planned to use, and what it has used."""

import json
from dataclasses import replace

import pytest

from al_ray.active_learning.config import RunConfig
from al_ray.apps.planning.hardware import BUILT_IN
from al_ray.apps.planning.planned_and_used import (
    STAGES,
    compare_with_plan,
    comparison,
    format_comparison,
    plan_of_run,
    sizes_of_run,
    stage_factors,
)
from al_ray.apps.planning.sizes import Sizes
from al_ray.cluster.token_store import pool_folder
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import EvaluationConfig
from al_ray.core.config.serialization import as_dict
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.task import Task
from al_ray.runs.planned import FILE, used_seconds
from al_ray.runs.round_metrics import FIGURES
from al_ray.runs.run_folder import RunFolder, bound_config
from al_ray.runs.stage_seconds import write_seconds
from al_ray.storage.files import write_json, write_text
from tests.apps.planning.test_plan import CONSTANTS, ONE, made

CONFIG = RunConfig(task="task", rounds=3, first_batch=4, growth=1.0, evaluation=EvaluationConfig(examples=0))
USED = {
    "prepare": 0.5,
    "embed": 10.04,
    "search": 1.0,
    "label": 99.0,
    "train": 2000.4,
    "evaluate": 3.0,
    "examples": 0.25,
}


@pytest.fixture
def folder(tmp_path, make_task) -> RunFolder:
    """The files of a run of three rounds, two of which are complete, that its plan is made from."""
    task: Task = make_task(True)
    found = RunFolder(tmp_path / "run", task)
    write_json(found.path / "config.json", {**as_dict(CONFIG), "task_digest": task.digest})
    write_json(found.path / "state.json", {"round": 2, "labels": 8})
    seconds = {"embed": 4.0, "train": 20.0}, {"train": 10.5}
    lines = [
        {**dict.fromkeys(FIGURES, 1), "round": n, "labels": 4 * n, "seconds": one}
        for n, one in enumerate(seconds, start=1)
    ]
    write_text(found.path / "metrics.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    write_json(pool_folder(task, CONFIG.encoding, found.path) / "encoder.json", {"mean_tokens": 5.5})
    model = found.round(2) / "model"
    write_json(model / "config.json", {"hidden_size": 8, "num_hidden_layers": 2, "vocab_size": 90})
    write_json(model / "modules.json", [{"path": "", "type": "sentence_transformers.models.Transformer"}])
    scorer = {"weight": 1.0, "bias": 0.0, "loss": 0.5, "outcome": "", "digest": "d"}
    write_json(found.round(2) / "record.json", {"model": scorer})
    return found


def test_planned_and_used_are_a_short_table():
    content = comparison(made(), USED, {"driver": 3 * 2**20, "shard": 5 * 2**30})
    assert format_comparison(content).splitlines() == [
        "planned by speeds of paper, by hand, and used:",
        "                   planned     used",
        "        prepare     2.00 s   0.50 s",
        "          embed     9.00 s     10 s",
        # The examples are a part of the search.
        "         search     1.00 s   1.25 s",
        "          train     9.75 s  2,000 s",
        "       evaluate     1.00 s   3.00 s",
        # Without the 99 seconds of labelling.
        "            all       23 s  2,015 s",
        " driver, memory    1.5 KiB  3.0 MiB",
        "  shard, memory  153.7 KiB  5.0 GiB",
        "trainer, memory  610.4 KiB        -",
    ]
    assert content["rounds"] == 1
    assert content["seconds"]["search"] == {"planned": 1.0, "used": 1.25}
    assert list(content["seconds"]) == list(STAGES)


def test_a_run_in_one_process_has_one_line_of_memory():
    content = comparison(made(), USED, {"process": 3 * 2**20})
    planned = {name: one["planned"] for name, one in comparison(made(), USED, {})["memory"].items()}
    libraries = round(CONSTANTS.libraries.value)
    assert content["memory"] == {"process": {"planned": sum(planned.values()) - 2 * libraries, "used": 3 * 2**20}}
    assert format_comparison(content).splitlines()[-1].split()[:2] == ["process,", "memory"]
    # It was begun in one process, and continued in several.
    both = comparison(made(), USED, {"process": 7, "driver": 8, "shard": 9})["memory"]
    assert {name: one["used"] for name, one in both.items()} == {"driver": 8, "shard": 9, "process": 7}


def test_a_run_says_how_much_longer_its_long_stages_took(tmp_path):
    write_json(tmp_path / FILE, comparison(made(), USED, {}))
    # The search and the evaluation took less than five seconds; of preparing as little was used.
    expected = {"embed": 10.04 / 9, "train": 2000.4 / 9.75}
    assert stage_factors(str(tmp_path), CONSTANTS) == pytest.approx(expected)
    with pytest.raises(BadOption, match="by speeds of paper, by hand, not 2 cores of an AMD EPYC, 2026-11-21; give"):
        stage_factors(str(tmp_path), BUILT_IN["cpu"])
    write_json(tmp_path / FILE, comparison(made(), {"embed": 4.9}, {}))
    with pytest.raises(BadOption, match="took 5 seconds; name a longer run"):
        stage_factors(str(tmp_path), CONSTANTS)
    with pytest.raises(BadFile, match=r"planned\.json is missing; the command run writes it"):
        stage_factors(str(tmp_path / "none"), CONSTANTS)


def test_speeds_that_were_assumed_are_counted():
    cuda = replace(ONE, gpus_per_shard=1)
    (first, *_) = format_comparison(comparison(made(cluster=cuda, constants=BUILT_IN["h200"]), USED, {})).splitlines()
    assert first == "planned by speeds of H200 (never measured) (6 of them assumed), and used:"
    (first, *_) = format_comparison(comparison(made(constants=BUILT_IN["cpu"]), USED, {})).splitlines()
    assert first == "planned by speeds of 2 cores of an AMD EPYC, 2026-11-21, and used:"


def test_seconds_of_all_processes_of_a_run_are_used(folder):
    # Two processes prepared, one of which ended before the first round; and one waits in round 3.
    write_seconds(folder.path, {"prepare": 3.0, "embed": 1.0, "search": 0.5})
    write_seconds(folder.path, {"prepare": 0.25, "search": 0.0})
    write_seconds(folder.round(3), {"search": 7.0})
    folder.add_seconds("label", 2.0)
    assert used_seconds(folder) == {"prepare": 3.25, "embed": 5.0, "search": 7.5, "train": 30.5, "label": 2.0}


def test_a_run_is_planned_as_far_as_it_went(folder):
    task = folder.task
    left, dev = (len(task.split(name).space.left) for name in ("train", "dev"))
    pairs = [task.split(name).space.total for name in ("train", "dev")]
    assert sizes_of_run(folder, CONFIG) == Sizes(left, None, dev, None, 8, 2, 5.5, 90, 4, None, *pairs)
    found = plan_of_run(folder, ClusterConfig(shards=3), CONSTANTS)
    assert [one.labels for one in found.rounds] == [0, 4, 4]
    assert (found.setting.shards, found.setting.cores) == (3, 1.0), "two threads, as --threads says"
    model = folder.round(2) / "model"
    write_json(model / "modules.json", [{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}])
    write_json(model / "2_Dense" / "config.json", {"out_features": 6})
    other = sizes_of_run(folder, replace(CONFIG, vectors="fp16"))
    assert other == Sizes(left, None, dev, None, 6, 2, 5.5, 90, 2, 8, *pairs)


@pytest.fixture
def matched(folder, tmp_path) -> RunFolder:
    """The same with a matcher over an encoder of two layers, which stays."""
    write_json(tmp_path / "encoder" / "config.json", {"hidden_size": 12, "num_hidden_layers": 3, "vocab_size": 70})
    options = replace(CONFIG, matcher="on", encoder_every=0, encoder=str(tmp_path / "encoder"), encoder_layers=2)
    pool = pool_folder(folder.task, options.encoding, folder.path)
    write_json(pool / "encoder.json", {"mean_tokens": 5.5})
    write_json(folder.path / "config.json", {**as_dict(options), "task_digest": folder.task.digest})
    scorer = {"weight": 1.0, "bias": 0.0, "loss": 0.5, "outcome": "", "digest": "d", "matcher": True}
    write_json(folder.round(2) / "record.json", {"model": {**scorer, "encoder_digest": "e"}})
    return folder


def test_a_run_with_a_matcher_is_planned_by_the_encoder_that_stays(matched):
    config = bound_config(matched.path)
    sizes = sizes_of_run(matched, config)
    assert (sizes.dim, sizes.layers, sizes.vocabulary, sizes.hidden) == (12, 2, 70, None)
    assert sizes_of_run(matched, replace(config, encoder_layers=None)).layers == 3
    found = plan_of_run(matched, ClusterConfig(), CONSTANTS)
    assert [one.labels for one in found.rounds] == [0, 4, 4]
    assert found.rounds[0].times["search"].seconds > 0, "the candidates"
    said = compare_with_plan(matched, {"driver": 60}, ONE, CONSTANTS)
    assert said.startswith("planned by speeds of")
    assert json.loads((matched.path / FILE).read_text())["seconds"]["train"]["used"] == 30.5


def test_a_run_whose_rounds_train_encoder_and_matcher_is_planned_by_the_last_encoder(matched):
    """A folder with the files of an encoder as sentence-transformers writes one, in a run that a Dense layer ends."""
    model = {"weight": 1.0, "bias": 0.0, "loss": 0.5, "outcome": "", "digest": "d", "matcher": True}
    record = {"model": {**model, "encoder_digest": "e", "encoder_round": 2}}
    write_json(matched.round(2) / "record.json", record)
    trained = matched.round(2) / "encoder"
    write_json(trained / "0_Bert" / "config.json", {"hidden_size": 16, "num_hidden_layers": 1, "vocab_size": 50})
    kinds = {"0_Bert": "Transformer", "1_Pooling": "Pooling", "2_Dense": "Dense"}
    modules = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in kinds.items()]
    write_json(trained / "modules.json", modules)
    write_json(trained / "2_Dense" / "config.json", {"out_features": 5})
    sizes = sizes_of_run(matched, bound_config(matched.path))
    assert (sizes.dim, sizes.layers, sizes.vocabulary, sizes.hidden) == (5, 1, 50, 16)


def test_an_encoder_without_files_that_stays_is_not_planned(matched):
    options = replace(bound_config(matched.path), encoder="random-bert")
    write_json(matched.path / "config.json", {**as_dict(options), "task_digest": matched.task.digest})
    pool = pool_folder(matched.task, options.encoding, matched.path)
    write_json(pool / "encoder.json", {"mean_tokens": 5.5})
    assert "random-bert has no files, where plans read" in compare_with_plan(matched, {"driver": 1}, ONE, CONSTANTS)


def test_a_run_is_planned_by_the_labels_that_it_bought(folder):
    # Resumed with other batch sizes, which hold from the next round on.
    other = {**as_dict(replace(CONFIG, first_batch=2, growth=1.0)), "task_digest": folder.task.digest}
    write_json(folder.path / "config.json", other)
    found = plan_of_run(folder, ClusterConfig(), CONSTANTS)
    assert ([one.labels for one in found.rounds], found.setting.labels) == ([0, 4, 4], (4, 8))


def test_the_highest_peaks_stay_in_the_file_and_what_is_the_same_is_not_written_again(folder):
    def memory() -> list:
        return [one["used"] for one in json.loads((folder.path / FILE).read_text())["memory"].values()]

    compare_with_plan(folder, {"driver": 50, "shard": 70, "trainer": None}, ONE, CONSTANTS)
    assert memory() == [50, 70, None]
    compare_with_plan(folder, {"driver": 60, "shard": 10, "trainer": 5}, ONE, CONSTANTS)
    assert memory() == [60, 70, 5]
    before = (folder.path / FILE).stat().st_mtime_ns
    said = compare_with_plan(folder, {}, ONE, CONSTANTS)
    assert (folder.path / FILE).stat().st_mtime_ns == before
    assert said.splitlines()[-1].split() == ["trainer,", "memory", *said.split()[-4:]]
    assert said.endswith(" 5.0 B")


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("round-002/model/config.json", {"dim": 8}, "lacks hidden_size, num_hidden_layers, vocab_size; plans cover"),
        (
            "round-002/model/config.json",
            {"hidden_size": 8, "num_hidden_layers": "x", "vocab_size": 9},
            "has 'x' as num_hidden_layers",
        ),
        ("round-002/model/modules.json", [{"kind": 5}], "'type'"),
        ("state.json", {"round": 0}, "no round is complete"),
        ("planned.json", {"memory": 7}, "planned.json has 7 as memory"),
        (
            "config.json",
            {"task_digest": "", "encoder": "cnn", "task": "t"},
            "cnn is no transformer, and plans cover only",
        ),
    ],
)
def test_a_plan_that_cannot_be_made_says_so_in_one_line(folder, file, content, words):
    write_json(folder.path / file, content)
    said = compare_with_plan(folder, {"driver": 1}, ONE, CONSTANTS)
    assert said.startswith("not compared with a plan: ")
    assert words in said
    assert len(said.splitlines()) == 1


def test_a_folder_without_a_pool_is_not_planned(folder):
    (pool_folder(folder.task, CONFIG.encoding, folder.path) / "encoder.json").unlink()
    assert "another version wrote the pool folder" in compare_with_plan(folder, {}, ONE, CONSTANTS)


def test_seconds_that_are_damaged_do_not_stop_a_process_that_ends(folder):
    for content in ("[]", '{"search": "x"}', "{"):
        (folder.path / "seconds.json").write_text(content)
        write_seconds(folder.path, {"search": 1.0})
        assert (folder.path / "seconds.json").read_text() == content
