"""Run and grid folders -> runs as a report takes them. Nothing is written, and no task folder is needed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow.compute as pc

from al_ray.core.calibration import Bin
from al_ray.core.config import ONCE, RunConfig
from al_ray.core.errors import AlRayError, BadFile, BadOption, WrongFolder
from al_ray.core.metrics import Estimate
from al_ray.core.plain import as_dict, from_dict
from al_ray.core.runs import Facts, Measured, Round, Run, Shown
from al_ray.core.scoring import Scorer
from al_ray.core.task import SPLITS
from al_ray.data.examples import read_examples
from al_ray.data.files import read_json, read_parquet
from al_ray.data.run_folder import at_its_end, bound_config, last_round
from al_ray.data.tables import read_about
from al_ray.storage.places import Place, place

GRID, CONFIG = "grid.json", "config.json"
UNREADABLE = "cannot be read"


def read_runs(folder: Place) -> list[Run]:
    """The runs of a folder: its own, or all cells of a grid, also those that came to nothing."""
    if (folder / GRID).exists():
        return _of_grid(folder)
    if (folder / CONFIG).exists():
        return [read_run(folder, folder.resolve().name)]
    raise WrongFolder(
        f"{folder} holds neither {CONFIG} nor {GRID}; give folders that jobs.run or jobs.grid made (--out)"
    )


def read_run(folder: Place, name: str) -> Run:
    """A run with its complete rounds; what is wrong with it, or not there yet, is in its `trouble`.

    BadFile where even its options cannot be read.
    """
    config = bound_config(folder)
    run = Run(name, config, _facts(config, str(read_json(folder / CONFIG, ["task_digest"])["task_digest"])))
    rounds, planned = list[Round](), len(config.batches)
    try:
        for number in range(1, last_round(folder) + 1):
            rounds.append(_round(folder, number, config, rounds))
    except AlRayError as error:
        return replace(run, rounds=tuple(rounds), trouble=f"{UNREADABLE} after round {len(rounds)}: {error}")
    if not rounds:
        return replace(run, trouble="no round is complete")
    trouble = "" if at_its_end(folder, config) else f"ended after round {len(rounds)} of {planned}"
    return replace(run, rounds=tuple(rounds), trouble=trouble)


def _of_grid(folder: Place) -> list[Run]:
    """Every cell of grid.json, in its order; of one that has no run folder, the options are those of its like."""
    path, name = folder / GRID, folder.resolve().name
    about = read_json(path, ["options", "cells"])
    cells, found = about["cells"], dict[str, Run]()
    needed = {"name", "strategy", "seed"}
    if not isinstance(cells, list) or not all(isinstance(cell, dict) and needed <= set(cell) for cell in cells):
        raise BadFile(f"{path}: its cells are no list of cells; restore it")
    told, trouble = _told(folder), dict[str, str]()
    for cell in cells:
        key, home = cell["name"], folder / "runs" / str(cell["name"])
        error, rounds = told.get(key, ("", 0))
        try:
            if (home / CONFIG).exists():
                run = read_run(home, f"{name}/{key}")
                # Where it has come further since, that start knows nothing of it.
                failed = run.trouble and error and len(run.rounds) == rounds
                found[key] = replace(run, trouble=f"{run.trouble}: failed: {error}") if failed else run
            else:
                trouble[key] = f"failed: {error}" if error else "failed or not begun: it has no run folder"
        except AlRayError as problem:
            trouble[key] = f"{UNREADABLE}: {problem}"
    return [
        found.get(cell["name"])
        or _missing(path, about["options"], cell, f"{name}/{cell['name']}", cells, found, trouble)
        for cell in cells
    ]


def _told(folder: Place) -> dict[str, tuple[str, int]]:
    """Cell -> its error and its complete rounds, as the grid's last start that came to an end left it."""
    path = folder / "summary.parquet"
    if not path.exists():
        return {}
    table = read_parquet(path)
    if not {"name", "error", "rounds"} <= set(table.column_names):
        raise BadFile(f"{path} has no columns name, error and rounds; run the grid again, or restore it")
    rows = table.select(["name", "error", "rounds"]).to_pylist()
    return {str(row["name"]): (str(row["error"] or ""), row["rounds"]) for row in rows}


def _missing(
    path: Place,
    options: Any,
    cell: Mapping[str, Any],
    name: str,
    cells: Sequence[Mapping[str, Any]],
    found: Mapping[str, Run],
    trouble: Mapping[str, str],
) -> Run:
    """A cell without a run, placed beside a run of the same encoder and budget where there is one."""
    axes = ("encoder", "budget")
    like = [
        found[one["name"]] for one in cells if one["name"] in found and all(one.get(a) == cell.get(a) for a in axes)
    ]
    try:
        if like:
            base, task = like[0].config, like[0].task
        else:
            known = {key: value for key, value in options.items() if key in as_dict(RunConfig(task="-"))}
            told = replace(from_dict(RunConfig, known), encoder=cell.get("encoder", known.get("encoder", "")))
            base = _with_budget(told, cell.get("budget", sum(told.batches)))
            task = _facts(base, str(options.get("task_digest", "")))
        config = replace(base, strategy=cell["strategy"], seed=cell["seed"])
    except (BadOption, AttributeError, TypeError) as error:
        raise BadFile(f"{path}: the options of {cell['name']} cannot be read ({error}); restore it") from error
    return Run(name, config, task, trouble=trouble[cell["name"]])


def _with_budget(config: RunConfig, labels: int) -> RunConfig:
    """The config with the first batch of which all rounds together buy so many labels, where there is one."""
    each = sum(config.growth**number for number in range(config.rounds))
    # A round's share is rounded down: all of them together lose less than a label a round.
    tried = range(max(1, int(labels / each)), int((labels + config.rounds) / each) + 2)
    made = (replace(config, first_batch=first) for first in tried)
    return next((one for one in made if sum(one.batches) == labels), config)


def _facts(config: RunConfig, digest: str) -> Facts:
    """What a run's task is: with the counts of its folder where that is still there and the same."""
    home = place(config.task)
    try:
        about = read_about(home)
    except AlRayError:
        return Facts(digest, home.name)
    same = not digest or about["digest"] == digest
    return Facts(about["digest"] if same else digest, about["name"], about["splits"] if same else {})


def _round(folder: Place, number: int, config: RunConfig, before: Sequence[Round]) -> Round:
    home = folder / f"round-{number:03d}"
    path = home / "record.json"
    record = read_json(path, ["labels", "positives", "batch_positives", "seconds", "evaluations"])
    try:
        examples = read_examples(home)
        return Round(
            number=number,
            labels=int(record["labels"]),
            positives=int(record["positives"]),
            batch=int(record["labels"]) - (before[-1].labels if before else 0),
            batch_positives=int(record["batch_positives"]),
            seconds={str(stage): _finite(seconds) for stage, seconds in record["seconds"].items()},
            splits={SPLITS[SPLITS.index(split)]: _measured(one) for split, one in record["evaluations"].items()},
            batch_p=_batch_p(folder, number) if number > 1 and config.strategy not in ONCE else None,
            boundary=_number(record.get("boundary")),
            index_recall=_number(record.get("index_recall")),
            examples=tuple(Shown(**{k: v for k, v in row.items() if k != "split"}) for row in examples),
            examples_of=examples[0]["split"] if examples else "",
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BadFile(f"{path} is no record of a round ({error!r}); restore it") from error


def _measured(content: Mapping[str, Any]) -> Measured:
    curve = content.get("curve") or {"recall": [], "precision": []}
    return Measured(
        average_precision=_estimate(content["average_precision"]),
        precision_at_recall_20=_estimate(content["precision_at_recall_20"]),
        positives=int(content["positives"]),
        total_pairs=int(content["total_pairs"]),
        exact=bool(content["exact"]),
        near=sum(near) if (near := [one["population"] for one in content["strata"] if "near" in one["name"]]) else None,
        calibration_error=_number(content.get("calibration_error")),
        reliability=tuple(_bin(row) for row in content.get("reliability") or ()),
        recall=tuple(map(_finite, curve["recall"])),
        precision=tuple(map(_finite, curve["precision"])),
    )


def _estimate(content: Mapping[str, float]) -> Estimate:
    return Estimate(_finite(content["value"]), _finite(content["low"]), _finite(content["high"]))


def _bin(row: Mapping[str, Any]) -> Bin:
    share = _estimate(row["share"])
    low, high, weight, mean_p = (_finite(row[name]) for name in ("low", "high", "weight", "mean_p"))
    return Bin(low, high, weight, mean_p, share.value, share.low, share.high)


def _number(value: Any) -> float | None:
    return None if value is None else _finite(value)


def _batch_p(folder: Place, number: int) -> float | None:
    """The mean p of a round's batch by the model that chose it, the one before; None where no cosine was kept."""
    model = read_json(folder / f"round-{number - 1:03d}" / "record.json", ["model"])["model"]
    # Without the schema: the first batches had no column `source`.
    table = read_parquet(folder / f"round-{number:03d}" / "batch.parquet")
    cosines = pc.fill_null(table["cosine"], math.nan).to_numpy()
    known = cosines[~np.isnan(cosines)]
    return float(Scorer(model["weight"], model["bias"]).probability(known).mean()) if len(known) else None


def _finite(value: Any) -> float:
    """A number that can be drawn; ValueError for anything else."""
    found = float(value)
    if not math.isfinite(found):
        raise ValueError(f"{value} is no finite number")
    return found
