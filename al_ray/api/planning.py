"""Plan the memory, time and cost of a run, by measured or built-in speeds."""

import logging
import platform
import time
from dataclasses import dataclass, replace
from itertools import chain

from al_ray.apps.planning import plan as planning
from al_ray.apps.planning.hardware import BUILT_IN, CPU, CUDA, Constants, Speed, as_content, read_constants
from al_ray.apps.planning.measure_hardware import MachineProbe, measure_constants
from al_ray.apps.planning.measure_matcher import matcher_speeds
from al_ray.apps.planning.options import NO_TASK, PlanOptions
from al_ray.core.config.encoder import EncoderOptions
from al_ray.core.errors import BadOption
from al_ray.core.text_table import format_columns
from al_ray.datasets.script_lines import script_lines
from al_ray.datasets.synthetic import synthetic_task
from al_ray.datasets.task_folder import read_task
from al_ray.runs.auto_matcher import with_matcher_chosen
from al_ray.runs.auto_recipe import with_recipe_chosen
from al_ray.storage.files import check_is_no_folder, write_json
from al_ray.storage.uri import storage_path

TEXTS, VECTORS, RECORDS = 512, 16384, 8192
NOT_COUNTED = "computed from sizes; Ray's object store takes another third of a machine's memory"
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunPlan:
    """The plan of a run; its str is what the command prints: reasons, memory, time, cost and warnings.

    scripts: lines about scripts that the encoder may not know.
    """

    options: PlanOptions
    plan: planning.Plan
    scripts: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return all of it in words."""
        plan, options = self.plan, self.options
        workers = plan.setting.config.trainers
        trainers = (
            "and no trainer" if not workers else "and a trainer" if workers == 1 else f"and {workers} training workers"
        )
        beside = " beside them" if workers else ""
        head = f"shards: {plan.setting.shards}, {trainers}{beside}; speeds of {plan.setting.constants.machine}"
        parts = (
            "\n".join([head, *planning.reasons(plan, options)]),
            f"{format_columns(planning.memory_rows(plan))}\n{NOT_COUNTED}",
            f"{format_columns(planning.time_rows(plan))}\n{planning.LEGEND}",
            format_columns(planning.cost_rows(plan, options.cost_per_pair, options.gpu_hour_cost)),
            "\n".join(planning.warnings(plan)),
        )
        return "\n".join(["\n\n".join(filter(None, parts)), *self.scripts])


def plan(options: PlanOptions) -> RunPlan:
    """Plan the memory, time and cost of a run, before anything starts; nothing is computed but what `measure` asks for.

    options: those of the run, and the sizes of its texts or its task. measure: measure the speeds of this machine (a
    minute or two), and write them to the file `constants`; without it they are read from there, or built in.

    Examples:
        >>> print(str(al_ray.plan(al_ray.PlanOptions(texts=10_000, recipe="paper"))).partition(";")[0])
        shards: 1, and a trainer beside them

    Raises:
        BadOption: if options do not fit together, or the workers do not fit into the GPUs.
        BadFile: if the file of speeds cannot be read.
        WrongFolder: if the task is none.
    """
    if options.recipe == "auto" and options.task != NO_TASK:
        options = with_recipe_chosen(options)
    if options.matcher == "auto":
        if options.task == NO_TASK:
            raise BadOption(
                "`matcher='auto'` depends on the fields of a task; give `task`, or `matcher='on'` or `matcher='off'`"
            )
        options = with_matcher_chosen(options, read_task(storage_path(options.task)), None)
    # Read first, because bad options raise before anything is measured.
    cluster, sizes = options.workers, options.sizes
    device, built_in = (CUDA, options.gpu) if options.gpus else (CPU, CPU)
    constants = measure(options) if options.measure else read_constants(options.constants, device, built_in)
    planned, scripts = planning.plan(planning.setting_of(options, sizes, cluster, constants)), tuple[str, ...]()
    if options.task != NO_TASK and options.encoder == EncoderOptions.encoder:
        scripts = tuple(script_lines(read_task(storage_path(options.task))))
    return RunPlan(options, planned, scripts)


def measure(options: PlanOptions) -> Constants:
    """Measure the speeds of this machine, and write them to `constants`."""
    if options.constants is None:
        raise BadOption("`measure=True` writes a file; name it: `constants=FILE`")
    check_is_no_folder("`constants`", options.constants)
    device = f"{CUDA}:0" if options.gpus else CPU
    threads, date = int(options.cpus_per_shard), time.strftime("%Y-%m-%d")
    machine = f"{platform.node()} ({platform.processor() or platform.machine()})"
    encoder = replace(options.encoding, threads=threads)
    source = f"{date}, {machine}, {device}, {threads} threads, {encoder.encoder}"
    logger.info("measuring %s; nothing else should use this machine", source)
    speeds: dict[str, Speed] = {"transfer": BUILT_IN[options.gpu if options.gpus else CPU].transfer}
    texts, records = (synthetic_task(count, 0).left.texts for count in (TEXTS, RECORDS))
    measured = measure_constants(MachineProbe(encoder, source, device, VECTORS), texts)
    of_matcher = ((name, Speed(value, True, source)) for name, value in matcher_speeds(records, threads))
    for name, speed in chain(measured, of_matcher):
        logger.info("%s: %s", name, f"{speed.value:,.4g}")
        speeds[name] = speed
    constants = Constants(CUDA if options.gpus else CPU, machine, threads, **speeds)
    write_json(options.constants, as_content(constants, date))
    return constants
