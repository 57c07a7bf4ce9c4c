"""Read run and grid folders as runs. Nothing is written, and task folders may be missing."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.strategies import STRATEGIES
from al_ray.apps.reporting.dev_estimates import missing_estimate, read_dev_estimate
from al_ray.apps.reporting.labelled_examples import labelled_examples, read_labelled
from al_ray.apps.reporting.run_records import LABELLED, ExamplePair, Round, Run, SplitEvaluation, TaskSummary
from al_ray.apps.reporting.stored_figures import estimate_of, finite, finite_or_none
from al_ray.core.config.oracle import oracle_kind
from al_ray.core.config.serialization import as_dict, from_dict
from al_ray.core.errors import AlRayError, BadFile, BadOption, WrongFolder
from al_ray.core.labels import UNSURE, YES
from al_ray.core.task import SPLITS
from al_ray.datasets.task_folder import read_about
from al_ray.metrics.calibration import Bin
from al_ray.metrics.round_comparison import AGREEMENT, PREQUENTIAL
from al_ray.runs.candidate_figures import candidate_figures
from al_ray.runs.error_examples import read_examples
from al_ray.runs.importance import read_importance
from al_ray.runs.round_models import scorer_of
from al_ray.runs.run_state import at_its_end, bound_config, last_round
from al_ray.runs.untrained_figures import FILE, read_untrained
from al_ray.storage.files import file_in, read_json, read_parquet
from al_ray.storage.uri import StoragePath, storage_path

GRID, CONFIG = "grid.json", "config.json"
UNREADABLE = "cannot be read"
SHARED = ("encoder", "budget")  # Cells that agree in these have the same options but for strategy and seed.


def read_runs(folder: StoragePath) -> list[Run]:
    """Return the run of a run folder, or a run for every cell of a grid, failed and missing ones included."""
    if (folder / GRID).exists():
        return read_grid(folder, _recorded_failures(folder))
    if (folder / CONFIG).exists():
        return [read_run(folder, folder.resolve().name)]
    raise WrongFolder(
        f"{folder} holds neither {CONFIG} nor {GRID}; give folders that `al_ray.run` or `al_ray.run_grid` made (`out`)"
    )


def read_run(folder: StoragePath, name: str) -> Run:
    """Return a run with its complete rounds; `trouble` says what is damaged or still missing.

    name: of the run in tables. BadFile if its options cannot be read.
    """
    config = bound_config(folder)
    run = Run(name, config, _task_of(config, str(read_json(folder / CONFIG, ["task_digest"])["task_digest"])))
    rounds = list[Round]()
    try:
        run = replace(run, untrained=_untrained(folder))
        for number in range(1, last_round(folder) + 1):
            rounds.append(_round(folder, number, config, rounds))
        if rounds and not rounds[-1].splits:
            rounds[-1] = _with_labelled_examples(folder, run, rounds[-1])
        trouble = _progress(folder, config, len(rounds))
    except AlRayError as error:
        return replace(run, rounds=tuple(rounds), trouble=f"{UNREADABLE} after round {len(rounds)}: {error}")
    return replace(run, rounds=tuple(rounds), trouble=trouble)


def _untrained(folder: StoragePath) -> dict[str, float]:
    """Return AP of the encoder without labels on each measured split."""
    try:
        return {split: finite(one["average_precision"]["value"]) for split, one in read_untrained(folder).items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadFile(f"{folder / FILE} is not what a run writes ({error!r}); restore it") from error


def _progress(folder: StoragePath, config: RunConfig, complete: int) -> str:
    """Return what a run with this many complete rounds lacks or waits for; "" if it is at its end."""
    ended, (dev, of_people) = at_its_end(folder, config), missing_estimate(folder, config, complete)
    planned, home = len(config.batches), folder / f"round-{complete + 1:03d}"
    awaited = [dev] if of_people else []
    if (
        not ended
        and oracle_kind(config.oracle).people
        and (home / "batch.parquet").exists()
        and not (home / "labels.parquet").exists()
    ):
        awaited.insert(0, f"the labels of round {complete + 1} of {planned}")
    if awaited:
        return f"waits for {' and '.join(awaited)}"
    if ended:
        return f"lacks {dev}" if dev else ""
    return f"ended after round {complete} of {planned}" if complete else "no round is complete"


def read_grid(folder: StoragePath, failures: Mapping[str, tuple[str, int]]) -> list[Run]:
    """Return a run for every cell of grid.json, in its order; a cell without a run folder has options and no rounds.

    failures: cell -> the error of its trial, and its complete rounds when that was recorded. BadFile where the grid's
    cells or options cannot be read.
    """
    path, name = folder / GRID, folder.resolve().name
    about = read_json(path, ["options", "cells"])
    cells, runs, missing = about["cells"], dict[str, Run](), dict[str, str]()
    needed = {"name", "strategy", "seed"}
    if not isinstance(cells, list) or not all(isinstance(cell, dict) and needed <= set(cell) for cell in cells):
        raise BadFile(f"{path}: cells is not a list of cells; restore it")
    for cell in cells:
        key, home = cell["name"], file_in(folder / "runs", cell["name"], path, "restore it")
        error, rounds = failures.get(key, ("", 0))
        try:
            if (home / CONFIG).exists():
                run = read_run(home, f"{name}/{key}")
                # An error recorded before later rounds were completed is out of date.
                failed = run.trouble and error and len(run.rounds) == rounds
                runs[key] = replace(run, trouble=f"{run.trouble}: failed: {error}", error=error) if failed else run
            else:
                missing[key] = f"failed: {error}" if error else "failed or not begun: it has no run folder"
        except AlRayError as problem:
            missing[key] = f"{UNREADABLE}: {problem}"
    for cell in cells:
        if (key := cell["name"]) in missing:
            alike = [one["name"] for one in cells if all(one.get(axis) == cell.get(axis) for axis in SHARED)]
            known = next((runs[one] for one in alike if one in runs), None)
            config, task = _cell_options(path, about["options"], cell, known)
            error, _ = failures.get(key, ("", 0))
            runs[key] = Run(f"{name}/{key}", config, task, trouble=missing[key], error=error)
    return [runs[cell["name"]] for cell in cells]


def _recorded_failures(folder: StoragePath) -> dict[str, tuple[str, int]]:
    """Return cell -> (error, complete rounds) of the cells that failed, as the grid's summary.parquet has them."""
    path = folder / "summary.parquet"
    if not path.exists():
        return {}
    table, columns = read_parquet(path), ["run", "error", "rounds"]
    if not set(columns) <= set(table.column_names):
        raise BadFile(f"{path} has no columns {', '.join(columns)}; rerun the command of the grid to write it again")
    rows = table.select(columns).to_pylist()
    return {str(row["run"]).rpartition("/")[2]: (row["error"], row["rounds"]) for row in rows if row["error"]}


def _cell_options(
    path: StoragePath, options: Any, cell: Mapping[str, Any], known: Run | None
) -> tuple[RunConfig, TaskSummary]:
    """Return the options and the task of a cell without a run. known: a run of the same encoder and budget."""
    try:
        if known is not None:
            base, task = known.config, known.task
        else:
            stored = {key: value for key, value in options.items() if key in as_dict(RunConfig(task="-"))}
            base = replace(from_dict(RunConfig, stored), encoder=cell.get("encoder", stored.get("encoder", "")))
            base = _with_budget(base, cell.get("budget", sum(base.batches)))
            task = _task_of(base, str(options.get("task_digest", "")))
        return replace(base, strategy=cell["strategy"], seed=cell["seed"]), task
    except (BadOption, AttributeError, TypeError) as error:
        raise BadFile(f"{path}: the options of {cell['name']} cannot be read ({error}); restore it") from error


def _with_budget(config: RunConfig, labels: int) -> RunConfig:
    """Return the config with the first batch whose rounds have this number of labels; unchanged if there is none."""
    each = sum(config.growth**number for number in range(config.rounds))
    # A round's share is rounded down: all of them together lose less than a label a round.
    candidates = range(max(1, int(labels / each)), int((labels + config.rounds) / each) + 2)
    configs = (replace(config, first_batch=first) for first in candidates)
    return next((one for one in configs if sum(one.batches) == labels), config)


def _task_of(config: RunConfig, digest: str) -> TaskSummary:
    """Return the task of a run, with the counts of its folder if that still holds the same task."""
    home = storage_path(config.task)
    try:
        about = read_about(home)
    except AlRayError:
        return TaskSummary(digest, home.name)
    same = not digest or about["digest"] == digest
    return TaskSummary(about["digest"] if same else digest, about["name"], about["splits"] if same else {})


def _round(folder: StoragePath, number: int, config: RunConfig, before: Sequence[Round]) -> Round:
    home = folder / f"round-{number:03d}"
    path = home / "record.json"
    record = read_json(path, ["labels", "positives", "batch_positives", "seconds", "evaluations"])
    try:
        examples = read_examples(home)
        by_model = number > 1 and STRATEGIES[config.strategy].uses_model
        batch_p, batch_share = _batch_calibration(folder, number) if by_model else (None, None)
        return Round(
            number=number,
            labels=int(record["labels"]),
            positives=int(record["positives"]),
            batch=int(record["labels"]) - (before[-1].labels if before else 0),
            batch_positives=int(record["batch_positives"]),
            seconds={str(stage): finite(seconds) for stage, seconds in record["seconds"].items()},
            splits={SPLITS[SPLITS.index(split)]: _evaluation(one) for split, one in record["evaluations"].items()},
            batch_p=batch_p,
            batch_share=batch_share,
            boundary=finite_or_none(record.get("boundary")),
            index_recall=finite_or_none(record.get("index_recall")),
            agreement=finite_or_none(record.get(AGREEMENT)),
            prequential=finite_or_none(record.get(PREQUENTIAL)),
            examples=tuple(ExamplePair(**{k: v for k, v in row.items() if k != "split"}) for row in examples),
            examples_of=examples[0]["split"] if examples else "",
            dev=read_dev_estimate(folder, number),
            candidates=candidate_figures(record),
            importance=read_importance(home),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BadFile(f"{path} is not the record of a round ({error!r}); restore it") from error


def _with_labelled_examples(folder: StoragePath, run: Run, last: Round) -> Round:
    """Return the last round of a run with examples among all labels."""
    by_model = STRATEGIES[run.config.strategy].uses_model
    try:
        examples = labelled_examples(folder, last.number, by_model, run.task, storage_path(run.config.task))
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise BadFile(
            f"{folder} holds batches or labels that are not those of a run ({error!r}); restore them"
        ) from error
    return replace(last, examples=examples, examples_of=LABELLED)


def _evaluation(content: Mapping[str, Any]) -> SplitEvaluation:
    curve = content.get("curve") or {"recall": [], "precision": []}
    return SplitEvaluation(
        average_precision=estimate_of(content["average_precision"]),
        precision_at_recall_20=estimate_of(content["precision_at_recall_20"]),
        positives=int(content["positives"]),
        total_pairs=int(content["total_pairs"]),
        exact=bool(content["exact"]),
        near=sum(near) if (near := [one["population"] for one in content["strata"] if "near" in one["name"]]) else None,
        calibration_error=finite_or_none(content.get("calibration_error")),
        reliability=tuple(_bin(row) for row in content.get("reliability") or ()),
        recall=tuple(map(finite, curve["recall"])),
        precision=tuple(map(finite, curve["precision"])),
    )


def _bin(row: Mapping[str, Any]) -> Bin:
    share = estimate_of(row["share"])
    low, high, weight, mean_p = (finite(row[name]) for name in ("low", "high", "weight", "mean_p"))
    return Bin(low, high, weight, mean_p, share.value, share.low, share.high)


def _batch_calibration(folder: StoragePath, number: int) -> tuple[float | None, float | None]:
    """Return the mean p of a round's pairs under the previous round's model, and the share of them that match.

    Of the pairs that are labelled yes or no and have a cosine; None if there is none.
    """
    home = folder / f"round-{number:03d}"
    model = read_json(folder / f"round-{number - 1:03d}" / "record.json", ["model"])["model"]
    labels = read_parquet(home / "labels.parquet")["label"].fill_null(UNSURE).to_numpy()
    _, cosines = read_labelled(home)
    known = ~np.isnan(cosines) & (labels != UNSURE)
    if not known.any():
        return None, None
    p = scorer_of(model).probability(cosines[known])
    return float(p.mean()), float((labels[known] == YES).mean())
