"""jobs.match --into by a matcher on a real Ray: p of all texts, as if they were matched at once."""

import csv
from pathlib import Path

import pytest

import al_ray
from al_ray.apps.matching import pipeline
from al_ray.apps.matching.incremental import renewal
from al_ray.core.config.sections import CandidatesConfig
from tests.apps.matching.test_match_job import do, written

WORDS = ("amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "heath", "inlet", "jetty", "knoll", "larch")
COUNT = 36
GROUP = "all the same lamp", 5
RULE = "--text-columns name,price --id-column id --assign all --at-score 0.1"
Rows = dict[str, tuple[str, object]]


def lamps() -> tuple[Rows, Rows]:
    """Lamps in two shops: the second adds a word to the name, and 1 to each fourth price."""
    names = [f"{WORDS[row % 12]} {WORDS[(row * 5 + row // 12) % 12]} lamp" for row in range(COUNT)]
    left: Rows = {f"l{row}": (name, 10 + 7 * row) for row, name in enumerate(names)}
    right: Rows = {f"r{row}": (f"{name} new", 10 + 7 * row + (row % 4 == 0)) for row, name in enumerate(names)}
    return left, right


def table(path: Path, rows: Rows) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("id", "name", "price"), *((name, *cells) for name, cells in rows.items())])
    return path


@pytest.fixture(scope="module", params=[True, False], ids=["one table", "two tables"])
def ran(request, in_process, tmp_path_factory) -> tuple[Path, dict[str, Rows]]:
    """A run with a matcher, and its tables by side."""
    root, (left, right) = tmp_path_factory.mktemp("ran"), lamps()
    # One table has a group of equal texts, whose pairs are all candidates.
    group: Rows = {f"s{row}": GROUP for row in range(12)}
    sides = {"left": left | right | group} if request.param else {"left": left, "right": right}
    labels = root / "labels.csv"
    with labels.open("w", newline="") as file:
        csv.writer(file).writerows([("l", "r", "same"), *((f"l{row}", f"r{row}", 1) for row in range(COUNT))])
    paths = {name: table(root / f"{name}.csv", rows) for name, rows in sides.items()}
    texts = al_ray.OwnTexts(
        left=paths["left"], right=paths.get("right"), labels=labels,
        label_columns="l,r,same", labels_are="complete", split="1,0,0", id_column="id", text_columns="name,price",
    )  # fmt: skip
    al_ray.prepare(texts, root / "task")
    config = al_ray.RunConfig(
        task=str(root / "task"), rounds=2, first_batch=24, growth=1, encoder="random-bert", encoder_layers=1,
        max_length=24, threads=1, matcher="on", candidates=CandidatesConfig(cosine=5, trigrams=5, of_right=5),
        evaluation=al_ray.EvaluationConfig(splits=()),
    )  # fmt: skip
    al_ray.run(config, root / "run")
    return root / "run", sides


def tables(folder: Path, sides: dict[str, Rows]) -> str:
    return " ".join(f"--{name} {table(folder / f'{name}.csv', rows)}" for name, rows in sides.items())


def earlier(sides: dict[str, Rows]) -> dict[str, Rows]:
    """Most of the rows; one of them is another at first, and one is there that goes later."""
    first = {name: dict(list(rows.items())[: 3 * len(rows) // 4]) for name, rows in sides.items()}
    first["left"] |= {"l0": ("of another name", 5), "gone": sides["left"]["l1"]}
    return first


def test_all_texts_have_the_p_that_they_have_when_matched_at_once(ran, monkeypatch, capsys, tmp_path):
    run, sides = ran
    out, once = tmp_path / "out", tmp_path / "once"
    do(monkeypatch, f"--model {run} {tables(tmp_path / 'first', earlier(sides))} {RULE} --out {out}")
    before = written(out)
    into = f"--into {out} {tables(tmp_path / 'whole', sides)} --complete"
    do(monkeypatch, f"{into} --shards 2")
    shown = capsys.readouterr().out
    assert "1 changed, 1 removed" in shown
    do(monkeypatch, f"--model {run} {tables(tmp_path / 'whole', sides)} {RULE} --out {once}")
    assert (out / "matches.csv").read_bytes() == (once / "matches.csv").read_bytes()
    after = written(out)
    assert {"model", "label"} == {row["decided_by"] for row in after.values()}
    moved = [pair for pair, row in before.items() if pair in after and row["score"] != after[pair]["score"]]
    assert any("l0" not in pair for pair in moved), "new neighbours change p of known pairs"
    # The same command again: nothing is compared, and nothing changes, until reasons are asked for.
    kept = [out / name for name in ("matches.csv", "new_matches.csv", "state.json")]
    content = [path.read_bytes() for path in kept]
    with monkeypatch.context() as context:
        context.setattr(pipeline, "session", None)
        do(context, into)
    assert content == [path.read_bytes() for path in kept]
    do(monkeypatch, f"{into} --why")
    assert (out / "state.json").read_bytes() == content[2]
    plain = {pair: {name: row[name] for name in row if name != "why"} for pair, row in written(out).items()}
    assert plain == after
    assert any(row["why"] for row in written(out).values())


@pytest.mark.slow
def test_cells_that_are_divided_in_another_way_are_another_text(ran, monkeypatch, capsys, tmp_path):
    run, sides = ran
    out = tmp_path / "out"
    do(monkeypatch, f"--model {run} {tables(tmp_path / 'first', sides)} {RULE} --out {out}")
    name, price = sides["left"]["l1"]
    moved = sides | {"left": sides["left"] | {"l1": (f"{name} {price}", "")}}
    do(monkeypatch, f"--into {out} --left {table(tmp_path / 'new.csv', {'l1': moved['left']['l1']})}")
    assert "1 changed" in capsys.readouterr().out
    do(monkeypatch, f"--model {run} {tables(tmp_path / 'whole', moved)} {RULE} --out {tmp_path / 'once'}")
    assert (out / "matches.csv").read_bytes() == (tmp_path / "once/matches.csv").read_bytes()


@pytest.mark.slow
def test_a_command_that_was_stopped_is_resumed(ran, monkeypatch, tmp_path):
    run, sides = ran
    first = tables(tmp_path / "first", earlier(sides))
    into = tables(tmp_path / "new", {"left": sides["left"]})
    for out in ("quiet", "stopped"):
        do(monkeypatch, f"--model {run} {first} {RULE} --out {tmp_path / out}")
    do(monkeypatch, f"--into {tmp_path / 'quiet'} {into}")

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for module, place in ((pipeline, "find_candidates"), (renewal, "write_state"), (renewal, "write_outcome")):
        with monkeypatch.context() as context:
            context.setattr(module, place, stop)
            with pytest.raises((KeyboardInterrupt, SystemExit)):
                do(context, f"--into {tmp_path / 'stopped'} {into}")
    do(monkeypatch, f"--into {tmp_path / 'stopped'} {into}")
    for file in ("matches.csv", "new_matches.csv", "changes.csv", "clusters.csv"):
        assert (tmp_path / "quiet" / file).read_bytes() == (tmp_path / "stopped" / file).read_bytes()
