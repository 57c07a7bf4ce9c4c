"""A run folder gives back what was bought and made, is one process's at a time, and names what is damaged."""

import json
import signal
import subprocess
import sys
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from al_ray.active_learning.config import RunConfig
from al_ray.core.config.sections import SearchConfig
from al_ray.core.config.trackers import NO_TRACKERS
from al_ray.core.errors import BadFile, FolderInUse, LabelsAwaited, WrongFolder
from al_ray.core.labels import Batch, Model, State, make_answers
from al_ray.core.scorer import Labels, Scorer
from al_ray.core.task import Task
from al_ray.metrics.average_precision import Counts, StratumSummary, count_scores
from al_ray.metrics.bootstrap import Replicates
from al_ray.metrics.evaluation import Evaluation, evaluate_counts
from al_ray.runs.round_table import format_round, round_table
from al_ray.runs.run_folder import RunFolder, bound_config, opened
from al_ray.runs.trackers.registry import tracking
from al_ray.storage import files
from al_ray.storage.pair_cosines import FIT, write_cosines

RUN = RunConfig(task="task", rounds=2, first_batch=5)


def evaluated(split: str) -> Evaluation:
    counts = Counts(np.array([0.9, 0.5]), np.array([1, 2]), np.array([[0, 2]]))
    return evaluate_counts(split, counts, [StratumSummary("all", 3, 3)], None, np.random.default_rng(0))


def batch_of(task: Task, number: int) -> Batch:
    """Five pairs of train, other ones in each round; the cosines of a first draw are unknown."""
    pairs = task.split("train").space.pairs(task.split("train").space.at(np.arange(5) + 5 * number))
    cosines = np.full(5, np.nan) if number == 1 else np.arange(5) / 7
    return Batch(pairs, cosines, "random" if number == 1 else "uncertainty")


def buy(folder: RunFolder, number: int, batch: Batch, labels: Labels) -> None:
    """All labels of a round at once."""
    folder.ledger.add_batch(number, batch)
    if len(labels):
        folder.ledger.add_answers(number, make_answers(np.arange(len(labels)), labels, "test"))
    folder.ledger.seal(number)


def played(folder: RunFolder, rounds: int) -> list[State]:
    """Complete rounds of made-up labels; the states after each, from the one before the first."""
    states = [folder.state()]
    for number in range(states[0].round + 1, rounds + 1):
        batch, labels = batch_of(folder.task, number), np.array([0, 1, 0, 0, 1], dtype=np.uint8)
        if folder.ledger.batch(number) is None:
            buy(folder, number, batch, labels)
        scorer = Scorer(20.0 + number, -10.0, 0.25, "fitted")
        model = Model(str(folder.round(number) / "model"), "d" * number, scorer)
        labelled = states[-1].labelled.extended(batch.pairs, labels, number, batch.source)
        states.append(State(number, labelled, model))
        folder.add_seconds("train", 1.23456)
        folder.record_round(states[-1], {"test": evaluated("test"), "dev": evaluated("dev")})
    return states


def same(one: State, other: State) -> bool:
    a, b = one.labelled, other.labelled
    arrays = ((a.pairs, b.pairs), (a.labels, b.labels), (a.rounds, b.rounds))
    alike = all(np.array_equal(x, y) and x.dtype == y.dtype for x, y in arrays)
    return alike and (one.round, one.model, a.sources) == (other.round, other.model, b.sources)


@pytest.fixture
def folder(tmp_path, task):
    with opened(tmp_path / "deep" / "run", task) as folder:
        yield folder


def test_a_new_folder_holds_nothing(folder):
    assert same(folder.state(), State())
    assert folder.ledger.batch(1) is None
    assert folder.ledger.rounds == 0
    assert folder.metrics() == []


def test_what_was_bought_and_made_comes_back(folder):
    states = played(folder, 2)
    again = RunFolder(folder.path, folder.task)
    assert same(again.state(), states[2])
    assert again.last == 2


def test_a_round_is_a_line_of_metrics_by_hand(folder):
    played(folder, 2)
    first, second = folder.metrics()
    # AP: half the recall at precision 1, half at 2 / (2 + 2). Recall 20% is reached at the first threshold.
    assert second == {
        "round": 2,
        "labels": 10,
        "positives": 4,
        "unlabelled": folder.task.split("train").space.total - 10,
        "batch_positives": 2,
        "batch_unsure": 0,
        "average_precision": 0.75,
        "precision_at_recall_20": 1.0,
        "boundary": pytest.approx(10 / 22),
        "calibration_error": None,
        # No training stored its cosines; the second and the fifth pair rank 4th and 1st: (1/1 + 2/4) / 2.
        "agreement": None,
        "prequential_average_precision": 0.75,
        "average_precision_gain": None,
        "average_precision_interval": None,
        "untrained": None,
        "gain_over_untrained": None,
        "neighbourhood": 0.0,
        "index_recall": None,
        "warnings": [],
        "seconds": {"train": 1.235},
    }
    assert list(first) == list(second)
    record = json.loads((folder.round(2) / "record.json").read_text())
    # One positive at precision 1, two at 2 / (2 + 2).
    curve = {"recall": [0.5, 1.0], "precision": [1.0, 0.5]}
    assert record["evaluations"]["test"] == {**evaluated("test").as_dict(), "curve": curve, "replicates": []}
    scorer = {"weight": 22.0, "bias": -10.0, "loss": 0.25, "outcome": "fitted", "neighbourhood": 0.0}
    assert record["model"] == {"digest": "dd", **scorer}


def test_a_round_is_compared_with_the_one_before_by_stored_cosines(folder):
    first, second = (batch_of(folder.task, number).pairs for number in (1, 2))
    # The boundaries are 10/21 and 10/22. Of the first five pairs, two cosines are on the two sides of their boundaries;
    # those of the second five under the first model are in the batch: 0 to 4/7, of which one is above 10/21.
    played(folder, 1)
    write_cosines(folder.round(1) / FIT, first, np.array([0.1, 0.2, 0.6, 0.7, 0.8]))
    both, now = np.concatenate([first, second]), np.array([0.9, 0.3, 0.1, 0.6, 0.9, *np.arange(5) / 7])
    write_cosines(folder.round(2) / FIT, both, now)
    played(folder, 2)
    assert folder.metrics()[0]["agreement"] is None
    line = folder.metrics()[1]
    assert line["agreement"] == pytest.approx(8 / 10)
    assert format_round(line).splitlines()[2] == (
        "compared with round 1: both models agree on 80.0% of the labelled pairs; AP of the earlier model on the pairs "
        "labelled since, 2 of them matches, is 75.0%"
    )
    # A fall since then is a warning of the next round, if no split is measured.
    more = np.concatenate([both, batch_of(folder.task, 3).pairs])
    write_cosines(folder.round(3) / FIT, more, np.concatenate([1 - now, np.zeros(5)]))
    (*_, last) = played(folder, 3)
    assert folder.metrics()[2]["warnings"] == []
    folder.record_round(last, {})
    assert "agree on fewer of the labelled pairs" in folder.metrics()[2]["warnings"][0]


def test_the_gain_over_the_round_before_is_paired_by_query(folder):
    def evaluation(value: float, values: list[float]) -> Evaluation:
        return replace(evaluated("dev"), over_queries=Replicates(value, np.array(values)))

    # One draw without a positive in either round, and 39 whose gain is -0.2 to 0.56 in steps of 0.02.
    earlier, gains = np.arange(40) / 80, np.concatenate([[np.nan], np.arange(-10, 29) / 50])
    rounds = [evaluation(0.75, earlier.tolist()), evaluation(0.825, (earlier + gains).tolist())]
    scorer, labelled = Scorer(20.0, -10.0, 0.25, "fitted"), State().labelled
    for number, made in enumerate(rounds, start=1):
        batch, labels = batch_of(folder.task, number), np.array([0, 1, 0, 0, 1], dtype=np.uint8)
        buy(folder, number, batch, labels)
        labelled = labelled.extended(batch.pairs, labels, number, batch.source)
        folder.record_round(State(number, labelled, Model("", "d" * number, scorer)), {"dev": made})
    first, second = folder.metrics()
    assert first["average_precision_gain"] is None
    # 2.5% of the 38 steps are 0.95 of a step from either end.
    ends = {"value": pytest.approx(0.075), "low": pytest.approx(-0.181), "high": pytest.approx(0.541)}
    assert second["average_precision_gain"] == ends
    # 2.5% of the 39 steps between 0 and 39 / 80 are 0.975 of a step; none of the draws is as high as AP.
    ends = {"value": 0.75, "low": pytest.approx(0.975 / 80), "high": 0.75}
    assert first["average_precision_interval"] == ends
    words = format_round(second).splitlines()[2]
    assert words.startswith("compared with round 1: AP +7.5 points (95%: -18.1 to +54.1); AP of")


def test_the_table_has_a_column_for_the_neighbourhood_where_a_round_ranks_by_one(folder):
    played(folder, 1)
    (line,) = folder.metrics()
    assert " a " not in round_table([line])
    earlier = {name: value for name, value in line.items() if name != "neighbourhood"}
    rows = [row.split() for row in round_table([{**line, "neighbourhood": 0.75}, line, earlier]).splitlines()]
    at = rows[0].index("a")
    # AP % and P@R20 % of the header are two words each.
    assert [row[at - 2] for row in rows[1:]] == ["0.75", "0", "-"]


def test_a_round_that_an_earlier_version_wrote_has_no_replicates_to_compare_with(folder):
    played(folder, 1)
    path = folder.round(1) / "record.json"
    record = json.loads(path.read_text())
    del record["evaluations"]["dev"]["replicates"]
    path.write_text(json.dumps(record))
    played(folder, 2)
    assert folder.metrics()[1]["average_precision_gain"] is None


def test_pairs_that_no_model_chose_are_compared_by_the_cosines_of_the_trainings_alone(folder):
    pairs = batch_of(folder.task, 1).pairs
    played(folder, 1)
    # Known cosines of another encoder, such as those of static: they are no scores of the model before.
    buy(folder, 2, replace(batch_of(folder.task, 2), source="static"), np.array([0, 1, 0, 0, 1], dtype=np.uint8))
    for number in (1, 2):
        write_cosines(folder.round(number) / FIT, pairs, np.array([0.1, 0.2, 0.3, 0.4, 0.46 + number / 100]))
    played(folder, 2)
    line = folder.metrics()[1]
    # The last cosine is below 10/21 in the first round and above 10/22 in the second.
    assert (line["agreement"], line["prequential_average_precision"]) == (pytest.approx(4 / 5), None)


def test_what_few_sampled_pairs_carry_is_told_with_the_round(folder):
    batch, labels = batch_of(folder.task, 1), np.ones(5, dtype=np.uint8)
    buy(folder, 1, batch, labels)
    # Ten positives with two sampled negatives of 900 among them.
    counts = count_scores(np.arange(10.0, 0.0, -1.0), [np.array([4.5, 6.5])])
    made = evaluate_counts("dev", counts, [StratumSummary("random", 2, 900)], None, np.random.default_rng(0))
    state = State().labelled.extended(batch.pairs, labels, 1, "random")
    folder.record_round(State(1, state, Model("", "d", Scorer(20.0, -10.0, 0.25))), {"dev": made})
    (line,) = folder.metrics()
    first, *others = line["warnings"]
    assert first.startswith("labels: all 5 are yes, so the model cannot learn what no match looks like; label more")
    assert [text.partition(" is carried by ")[0] for text in others[:2]] == ["dev: AP", "dev: P@R20"]
    # Four of ten positives are above both: 4 of 4 + 5 / 455 + 6 / 456 + 7 / 907 + 8 / 908 + 9 / 909 + 10 / 910.
    assert [text.partition("thresholds")[0] for text in others[2:]] == ["dev: 98% of AP comes from "]
    assert format_round(line).splitlines()[2:] == [f"warning: {said}" for said in line["warnings"]]


def test_a_boundary_without_slope_and_a_run_without_splits_are_null_in_valid_json(folder):
    batch, labels = batch_of(folder.task, 1), np.zeros(5, dtype=np.uint8)
    buy(folder, 1, batch, labels)
    state = State().labelled.extended(batch.pairs, labels, 1, "random")
    folder.record_round(State(1, state, Model("", "d", Scorer(0.0, -1.0, 0.1, "falling"))), {})

    def refuse(word: str) -> None:
        raise AssertionError(word)

    for name in ("metrics.jsonl", "round-001/record.json", "state.json"):
        about = json.loads((folder.path / name).read_text(), parse_constant=refuse)
    line = folder.metrics()[0]
    assert about == {"round": 1, "labels": 5}
    assert line["boundary"] is None
    assert line["average_precision"] is None


def test_state_is_written_last(folder, monkeypatch):
    # The power fails at each write in turn: until the very last, the round is not complete.
    states = played(folder, 1)
    write, written = files.in_one_step, list[str]()

    def breaking(after: float):
        def failing(path: Path, content: Any, new: bool = False) -> None:
            if len(written) == after:
                raise KeyboardInterrupt
            if path.suffix.startswith(".json"):
                written.append(path.name)
            write(path, content, new)

        written.clear()
        monkeypatch.setattr(files, "in_one_step", failing)

    for after in range(3):
        breaking(after)
        with pytest.raises(KeyboardInterrupt):
            played(folder, 2)
        assert same(RunFolder(folder.path, folder.task).state(), states[1])
    breaking(inf)
    again = played(folder, 2)
    assert written[-1] == "state.json"
    assert again[-1].round == folder.last == 2
    assert [line["round"] for line in folder.metrics()] == [1, 2], "a round written over is one line"


def test_events_hold_the_figures_of_each_round(folder):
    track = tracking(NO_TRACKERS, lambda run, _: run.path / "events")
    track(folder, "")
    played(folder, 2)
    # No round is written twice.
    for _ in range(2):
        track(folder, "")
    assert len(list((folder.path / "events").iterdir())) == 2, "one a round"
    events = b"".join(path.read_bytes() for path in (folder.path / "events").glob("events.out.tfevents.*"))
    # Names stand in the clear, as often in each round.
    assert events.count(b"precision_at_recall_20") == events.count(b"boundary") > 0
    assert b"calibration_error" not in events


HOLDER = """
import sys
from pathlib import Path
from al_ray.core.task import Corpus, Task
from al_ray.core.config.trackers import NO_TRACKERS
from al_ray.runs.trackers.registry import tracking
from al_ray.runs.run_folder import opened

with opened(Path(sys.argv[1]), Task("t", True, Corpus((), ()), Corpus((), ()), {}, "")):
    print("open", flush=True)
    sys.stdin.read()
"""


def test_a_folder_is_one_processs_until_it_dies(tmp_path, task):
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "run")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(FolderInUse, match="another process; wait"), opened(tmp_path / "run", task):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with opened(tmp_path / "run", task) as folder:
            assert folder.last == 0


def test_a_folder_that_cannot_be_is_refused(tmp_path, task):
    (tmp_path / "file").write_text("")
    with pytest.raises(WrongFolder, match=r"file cannot be written \(File exists\); give another folder"):
        opened(tmp_path / "file", task).__enter__()


def test_a_folder_is_bound_to_options_and_task(folder, make_task):
    config = replace(RUN, search=SearchConfig(neighbours=7))
    folder.bind(config)
    folder.bind(config)
    folder.ledger.add_batch(1, batch_of(folder.task, 1))
    assert bound_config(folder.path) == config
    other = replace(config, seed=3, search=SearchConfig(neighbours=8))
    with pytest.raises(WrongFolder, match=r"\(search\.neighbours: 7 there, 8 here; seed: 0 there, 3 here\)"):
        folder.bind(other)
    with pytest.raises(WrongFolder, match="task_digest"):
        RunFolder(folder.path, make_task(True, clusters=5)).bind(config)
    assert bound_config(folder.path) == config


def test_the_task_of_a_run_may_have_another_path_if_it_is_the_same_task(folder, make_task):
    """By its digest: "tasks/small/", an absolute path, or a copy on another machine."""
    folder.bind(RUN)
    folder.ledger.add_batch(1, batch_of(folder.task, 1))
    moved = replace(RUN, task="/mnt/tasks/small/")
    folder.bind(moved)
    assert bound_config(folder.path) == moved
    with pytest.raises(WrongFolder, match=r"task: '/mnt/tasks/small/' there, .*; task_digest: "):
        RunFolder(folder.path, make_task(True, clusters=5)).bind(RUN)
    assert bound_config(folder.path) == moved


def test_a_folder_in_which_nothing_was_chosen_is_bound_anew(folder):
    folder.bind(replace(RUN, encoder="nowhere"))
    folder.bind(RUN)
    assert bound_config(folder.path) == RUN


def test_complete_rounds_are_those_that_the_state_counts(folder):
    played(folder, 2)
    assert [line["round"] for line in folder.complete_rounds()] == [1, 2]
    # As a run leaves it that was interrupted just before the state of its second round.
    (folder.path / "state.json").write_text(json.dumps({"round": 1, "labels": 5}))
    assert [line["round"] for line in folder.complete_rounds()] == [1]


def test_labels_are_those_of_complete_rounds_and_of_the_one_under_way(folder):
    assert folder.labels == 0
    played(folder, 1)
    assert folder.labels == 5
    folder.ledger.add_batch(2, batch_of(folder.task, 2))
    folder.ledger.add_answers(2, make_answers(np.arange(3), np.array([1, 0, 2], dtype=np.uint8), "test"))
    # An unsure answer was bought too.
    assert folder.labels == 8


def test_a_run_may_get_more_rounds_and_not_fewer(folder):
    folder.bind(RUN)
    folder.ledger.add_batch(1, batch_of(folder.task, 1))
    folder.bind(replace(RUN, rounds=4))
    assert bound_config(folder.path).rounds == 4
    with pytest.raises(WrongFolder, match="rounds: 4 there, 2 here"):
        folder.bind(RUN)
    with pytest.raises(WrongFolder, match="seed: 0 there, 1 here"):
        folder.bind(replace(RUN, rounds=5, seed=1))
    assert bound_config(folder.path).rounds == 4


def test_what_is_bought_at_once_cannot_be_more_afterwards(folder):
    folder.bind(replace(RUN, strategy="static"))
    folder.ledger.add_batch(1, batch_of(folder.task, 1))
    with pytest.raises(WrongFolder, match="rounds: 2 there, 3 here"):
        folder.bind(replace(RUN, strategy="static", rounds=3))


@pytest.mark.parametrize(("strategy", "more"), [("static", True), ("random", True), ("stated", False)])
def test_more_rounds_are_taken_where_the_last_one_took_its_share(folder, strategy, more):
    run = replace(RUN, strategy=strategy, train_every_budget=True)
    folder.bind(run)
    played(folder, 2)
    if more:
        folder.bind(replace(run, rounds=3))
        return
    with pytest.raises(WrongFolder, match="rounds: 2 there, 3 here"):
        folder.bind(replace(run, rounds=3))


def test_an_option_that_a_folder_is_too_old_to_know_has_its_default_there(folder):
    folder.bind(RUN)
    folder.ledger.add_batch(1, batch_of(folder.task, 1))
    content = json.loads((folder.path / "config.json").read_text())
    del content["train_every_budget"]
    (folder.path / "config.json").write_text(json.dumps(content))
    folder.bind(RUN)
    with pytest.raises(WrongFolder, match="train_every_budget: False there, True here"):
        folder.bind(replace(RUN, train_every_budget=True))


def test_batch_sizes_may_change_and_hold_from_the_next_batch_on(folder):
    folder.bind(RUN)
    folder.ledger.add_batch(1, batch_of(folder.task, 1))
    folder.bind(replace(RUN, first_batch=7, growth=1.0))
    assert bound_config(folder.path).batches == (7,) * RUN.rounds
    # Fewer rounds than planned, and other sizes of a budget that is bought at once, are another run.
    with pytest.raises(WrongFolder, match="rounds"):
        folder.bind(replace(RUN, rounds=RUN.rounds - 1, first_batch=7))
    static = replace(RUN, strategy="static")
    other = RunFolder(folder.path / "other", folder.task)
    other.bind(static)
    other.ledger.add_batch(1, batch_of(folder.task, 1))
    with pytest.raises(WrongFolder, match="first_batch"):
        other.bind(replace(static, first_batch=7))


def test_no_run_folder_is_said_to_be_none(tmp_path):
    with pytest.raises(WrongFolder, match=r"holds no config\.json"):
        bound_config(tmp_path)


@pytest.mark.parametrize(
    "name", ["state.json", "round-001/record.json", "round-001/labels.parquet", "round-002/batch.parquet"]
)
@pytest.mark.parametrize("damage", ["cut", "empty", "other"])
def test_a_damaged_file_is_refused_by_name(folder, name, damage):
    played(folder, 2)
    path = folder.path / name
    whole = path.read_bytes()
    if damage == "other" and name.endswith("parquet"):
        pq.write_table(pa.table({"left": [1], "right": [2]}), path)
    else:
        path.write_bytes({"cut": whole[: len(whole) // 2], "empty": b"", "other": b"{}\n"}[damage])
    with pytest.raises(BadFile, match=rf"{folder.path}.*restore"):
        folder.state()


def test_labels_that_state_counts_and_nobody_finds_are_missed(folder):
    played(folder, 2)
    (folder.round(1) / "labels.parquet").unlink()
    with pytest.raises(BadFile, match=r"round-001 has no labels\.parquet"):
        folder.state()


def wait_after(path: Path, task: Task, seconds: dict[str, float]) -> None:
    """Spend so many seconds on stages of the current round, and wait for people."""
    with opened(path, task) as folder:
        for stage, time in seconds.items():
            folder.add_seconds(stage, time)
        raise LabelsAwaited("round 1: 5 of 5 pairs wait for an answer")


def test_the_time_before_a_wait_for_people_is_counted(tmp_path, task):
    # Three processes: the first chooses the pairs, the second waits still, the third trains.
    for seconds in ({"search": 40.0, "label": 0.5}, {"label": 0.25}):
        with pytest.raises(LabelsAwaited):
            wait_after(tmp_path / "run", task, seconds)
    with opened(tmp_path / "run", task) as folder:
        played(folder, 2)
        first, second = folder.metrics()
    assert first["seconds"] == {"search": 40.0, "label": 0.75, "train": 1.235}
    assert second["seconds"] == {"train": 1.235}


def test_what_killed_processes_were_writing_is_gone_when_a_folder_is_opened_and_nothing_else(tmp_path, task):
    ended = subprocess.Popen(["true"])
    ended.wait()
    run, round_1 = tmp_path / "run", tmp_path / "run" / "round-001"
    round_1.mkdir(parents=True)
    # What a kill leaves of a file and of a model, in this folder and in those below.
    gone = [
        *(
            tmp_path / "run" / f".config.json.{ended.pid}-5",
            round_1 / f".answers-00001.parquet.{ended.pid}-{ended.pid}",
        ),
        round_1 / f".model.{ended.pid}-ab1_cd2e",
    ]
    with subprocess.Popen(["sleep", "600"]) as living:
        stay = [
            *(
                round_1 / f".evaluation.json.{living.pid}-5",
                round_1 / ".answers-00001.parquet",
                round_1 / ".notes.12-a.b",
            ),
            round_1 / f"answers-00001.parquet.{ended.pid}-5",
        ]
        for path in [*gone[:-1], *stay]:
            path.touch()
        gone[-1].mkdir()
        (gone[-1] / "model.safetensors").touch()
        with opened(run, task):
            pass
        living.kill()
    assert [path for path in gone if path.exists()] == []
    assert [path for path in stay if not path.exists()] == []


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ({"labels_digest": "", "task_digest": ""}, r"a cross-encoder \(`al_ray.train_cross_encoder`\)"),
        ({"gold_digest": ""}, r"an augmentation \(`al-ray augment`\)"),
        ({"smoothing": 0.3, "task_digest": ""}, "a model of `al-ray paraphrase`"),
        ({"model_type": "bert"}, "a model, and not the run that trained it"),
    ],
)
def test_a_folder_of_another_kind_is_named(tmp_path, content, kind):
    (tmp_path / "config.json").write_text(json.dumps(content))
    with pytest.raises(WrongFolder, match=f"holds {kind}; give the folder of a run"):
        bound_config(tmp_path)
