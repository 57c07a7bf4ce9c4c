"""Carry out jobs.plan: measure or read constants, plan, and print."""

import logging
import platform
import time
from dataclasses import replace

from al_ray.apps.planning import plan as planning
from al_ray.apps.planning.hardware import BUILT_IN, CPU, CUDA, CURE, Constants, Speed, as_content, from_content
from al_ray.apps.planning.measure_hardware import MachineProbe, measure_constants
from al_ray.apps.planning.options import Options
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.text_table import format_columns
from al_ray.datasets.synthetic import synthetic_task
from al_ray.storage.files import read_json, refuse_folder, write_json

TEXTS, VECTORS = 512, 16384
NOT_COUNTED = "worked out from sizes; besides it Ray's object store, a third of a machine's memory"
logger = logging.getLogger(__name__)


def carry_out(asked: Options) -> None:
    """Measure, or read constants; plan; print."""
    # What cannot be is refused before anything is measured.
    cluster, sizes = asked.workers, asked.sizes
    constants = measure(asked) if asked.measure else known(asked)
    print(told(asked, planning.plan(planning.setting_of(asked, sizes, cluster, constants))))


def told(asked: Options, made: planning.Plan) -> str:
    """The plan as text."""
    cost = planning.cost_rows(made, asked.label_cost, asked.gpu_hour_cost)
    workers = made.setting.config.training.workers
    beside = "a trainer" if workers == 1 else f"{workers} training workers"
    head = f"shards: {made.setting.shards}, and {beside} beside them; speeds of {made.setting.constants.machine}"
    parts = (
        "\n".join([head, *planning.reasons(made, asked)]),
        f"{format_columns(planning.memory_rows(made))}\n{NOT_COUNTED}",
    )
    times = f"{format_columns(planning.time_rows(made))}\n{planning.LEGEND}"
    return "\n\n".join([*parts, times, format_columns(cost), *filter(None, ["\n".join(planning.warnings(made))])])


def known(asked: Options) -> Constants:
    """Those of the file, or the built-in ones."""
    device = CUDA if asked.gpus else CPU
    if asked.constants is None:
        return BUILT_IN[asked.gpu if asked.gpus else CPU]
    try:
        content = read_json(asked.constants)
    except BadFile as error:
        raise BadFile(f"{asked.constants} cannot be read; {CURE}") from error
    found = from_content(content, str(asked.constants))
    if found.device != device:
        raise BadOption(f"{asked.constants} was measured on {found.device}, and --gpus {asked.gpus:g} means {device}")
    return found


def measure(asked: Options) -> Constants:
    """The constants of this machine, written to --constants."""
    if asked.constants is None:
        raise BadOption("--measure writes a file; say which: --constants FILE")
    refuse_folder("--constants", asked.constants)
    device = f"{CUDA}:0" if asked.gpus else CPU
    threads, date = int(asked.cpus_per_shard), time.strftime("%Y-%m-%d")
    machine = f"{platform.node()} ({platform.processor() or platform.machine()})"
    encoder = replace(asked.encoding, threads=threads)
    about = f"{date}, {machine}, {device}, {threads} threads, {encoder.encoder}"
    logger.info("measuring %s; nothing else should be busy here", about)
    found: dict[str, Speed] = {"transfer": BUILT_IN[asked.gpu if asked.gpus else CPU].transfer}
    for name, speed in measure_constants(
        MachineProbe(encoder, about, device, VECTORS), synthetic_task(TEXTS, 0).left.texts
    ):
        logger.info("%s: %s", name, f"{speed.value:,.4g}")
        found[name] = speed
    constants = Constants(CUDA if asked.gpus else CPU, machine, threads, **found)
    write_json(asked.constants, as_content(constants, date))
    return constants
