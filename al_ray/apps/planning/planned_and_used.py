"""What a run was planned to use beside what it has used: seconds of its stages, and peak memory of its processes."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from al_ray.active_learning.config import RunConfig
from al_ray.apps.planning.hardware import Constants
from al_ray.apps.planning.memory import HOST
from al_ray.apps.planning.options import sizes_of
from al_ray.apps.planning.plan import Plan, plan, setting_of, size_words
from al_ray.apps.planning.sizes import Sizes
from al_ray.cluster.token_store import ENCODER, pool_folder
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.encoder import family_of
from al_ray.core.errors import AlRayError, BadOption
from al_ray.core.text_table import format_columns
from al_ray.encoders.modules import read_file
from al_ray.encoders.pretrained import folder_of
from al_ray.encoders.random_bert import RANDOM_BERT
from al_ray.runs.planned import WHOLE, highest_peaks, used_seconds, write_planned
from al_ray.runs.round_models import read_model_of
from al_ray.runs.run_folder import RunFolder, bound_config
from al_ray.storage.files import check_fields, read_json
from al_ray.storage.uri import storage_path

# Stages of a plan -> the stages of a run that they cover. No plan knows the time of labelling.
STAGES = {
    "prepare": ("prepare",),
    "embed": ("embed",),
    "search": ("search", "examples"),
    "train": ("train",),
    "evaluate": ("evaluate",),
}
SIZES: dict[str, type] = dict.fromkeys(("hidden_size", "num_hidden_layers", "vocab_size"), int)
PROCESSES = ("driver", "shard", "trainer")
LIBRARIES = "libraries"  # A part of the memory of each process.
# All that a file of an unknown form can raise: a plan that cannot be made must not fail a run that is complete.
FAILURES = (AlRayError, ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError)


def compare_with_plan(
    folder: RunFolder, peaks: Mapping[str, int | None], cluster: ClusterConfig, constants: Constants
) -> str:
    """Write planned.json of a run, and return its table; a line with the reason if no plan can be made.

    peaks: peak memory in bytes of the driver, a shard and a trainer, as far as it is known, or of the one process that
    was all of them (runs/planned.py).
    """
    try:
        content = comparison(
            plan_of_run(folder, cluster, constants), used_seconds(folder), highest_peaks(folder, peaks)
        )
        write_planned(folder, content)
        return format_comparison(content)
    except FAILURES as error:
        return f"not compared with a plan: {' '.join(str(error).split())}"


def plan_of_run(folder: RunFolder, cluster: ClusterConfig, constants: Constants) -> Plan:
    """Return the plan of the complete rounds of a run; BadOption or BadFile if none can be made."""
    config = bound_config(folder.path)
    if not family_of(config.encoder).transformer:
        raise BadOption(f"encoder {config.encoder} is no transformer, and plans cover only these")
    if not folder.last:
        raise BadOption("no round is complete")
    sizes, workers = sizes_of_run(folder, config), replace(cluster, cpus_per_shard=config.threads)
    labels = [0, *(line["labels"] for line in folder.complete_rounds())]
    past_batches = tuple(after - before for before, after in pairwise(labels))
    return plan(replace(setting_of(config, sizes, workers, constants), past_batches=past_batches))


def sizes_of_run(folder: RunFolder, config: RunConfig) -> Sizes:
    """Return the sizes of a run, as its files and those of its encoder have them."""
    about = pool_folder(folder.task, config.encoding, folder.path) / ENCODER
    tokens = float(read_json(about, ["mean_tokens"], "another version wrote the pool folder")["mean_tokens"])
    width, layers, vocabulary, dense = _encoder_sizes(folder, config)
    vectors, hidden = {"fp32": 4, "fp16": 2}[config.vectors], None if dense is None else width
    texts, pairs = sizes_of(folder.task, config.evaluation.splits)
    return Sizes(*texts, dense or width, layers, tokens, vocabulary, vectors, hidden, *pairs)


def _encoder_sizes(folder: RunFolder, config: RunConfig) -> tuple[int, int, int, int | None]:
    """Return width, layers and vocabulary of the encoder, and the dimension that a Dense layer makes of the width.

    They are read from the files of the encoder that the last round trained, and of --encoder if no round trained one.
    """
    trained = read_model_of(folder.round(folder.last)).path
    if config.encoder == RANDOM_BERT and not trained:
        raise BadOption(f"encoder {RANDOM_BERT} has no files, where plans read the sizes of an encoder that stays")

    def read(name: str, subfolder: str = "") -> Any:
        if not trained:
            return read_file(folder_of(config.encoder), name, subfolder)
        path = storage_path(trained) / subfolder / name
        return read_json(path) if path.exists() else None

    modules = [(one["type"].rpartition(".")[2], one["path"]) for one in read("modules.json") or []]
    transformer = read("config.json", next((path for kind, path in modules if kind == "Transformer"), "")) or {}
    check_fields("its config.json", transformer, SIZES, "plans cover encoders that are like BERT")
    layers = transformer["num_hidden_layers"] if trained else config.encoder_layers or transformer["num_hidden_layers"]
    dense = [read("config.json", path)["out_features"] for kind, path in modules if kind == "Dense"]
    return transformer["hidden_size"], layers, transformer["vocab_size"], dense[-1] if dense else None


def comparison(run_plan: Plan, seconds: Mapping[str, float], peaks: Mapping[str, int]) -> dict[str, Any]:
    """Return the content of planned.json. seconds: of the stages of a run; peaks: of its processes, in bytes."""
    constants = run_plan.setting.constants
    used = {name: sum(seconds.get(stage, 0.0) for stage in covered) for name, covered in STAGES.items()}
    planned = {name: run_plan.stage(name).seconds for name in STAGES}
    memory = _planned_memory(run_plan)
    # Of a run that was continued in another way, all.
    shown = [name for name in memory if name in peaks] if WHOLE in peaks else PROCESSES
    return {
        "rounds": sum(one.labels > 0 for one in run_plan.rounds),
        "speeds": ", ".join([constants.machine, *constants.dates]),
        "assumed": sorted(run_plan.time.assumed),
        "seconds": {name: {"planned": round(planned[name], 3), "used": round(used[name], 3)} for name in STAGES},
        "memory": {name: {"planned": round(memory[name]), "used": peaks.get(name)} for name in shown},
    }


def _planned_memory(run_plan: Plan) -> dict[str, float]:
    """Return the bytes that each process needs, and those of one process that is all of them: it has libraries once."""
    parts = [part for part in run_plan.memory if part.where == HOST and part.holder in PROCESSES]
    memory = {name: sum(part.bytes for part in parts if part.holder == name) for name in PROCESSES}
    libraries = [part.bytes for part in parts if part.what == LIBRARIES]
    return {**memory, WHOLE: sum(memory.values()) - sum(libraries) + max(libraries)}


def format_comparison(content: Mapping[str, Any]) -> str:
    """Format the content of planned.json as a table; - for a peak that is unknown."""
    rows: list[tuple[str, ...]] = [("", "planned", "used")]
    rows += [(name, _seconds(one["planned"]), _seconds(one["used"])) for name, one in content["seconds"].items()]
    sums = [sum(one[which] for one in content["seconds"].values()) for which in ("planned", "used")]
    rows.append(("all", *map(_seconds, sums)))
    for name, one in content["memory"].items():
        rows.append((f"{name}, memory", *("-" if size is None else size_words(size) for size in one.values())))
    assumed = f" ({len(content['assumed'])} of them assumed)" if content["assumed"] else ""
    return f"planned by speeds of {content['speeds']}{assumed}, and used:\n{format_columns(rows)}"


def _seconds(seconds: float) -> str:
    return f"{seconds:,.{0 if seconds >= 10 else 2}f} s"
