"""What to do next in a folder: at most three commands, by the tasks and runs that it has."""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from al_ray.api.folders import MOST_FOLDERS, RunFound, TaskFound, find_folders
from al_ray.core.config.encoder import family_of
from al_ray.core.config.oracle import oracle_kind

MOST_STEPS = 3
"""Steps that are shown."""
BEST = 100
"""Pairs that a model without a boundary matches."""
START = (
    ("See how active learning finds rare pairs (2 to 4 minutes):", "python -m jobs.demo"),
    ("Make a small task of generated questions:", "python -m jobs.prepare synthetic --texts 4000 --out tasks/small"),
    ("See how to make a task of your own tables:", "python -m jobs.prepare pairs --help"),
)


@dataclass(frozen=True)
class Step:
    """What can be done next, in words, and the command that does it, as `python -m jobs.NAME`."""

    words: str
    command: str


def next_steps(folder: Path) -> list[Step]:
    """Return at most three steps: people's labels first, then runs to resume, models to use, tasks to run.

    Looked at are the folder, the folders in it, and those in its tasks/ and runs/. What cannot be read is left out.
    """
    tasks, runs = find_folders(folder)
    by_digest, used = {task.digest: task for task in tasks}, {run.task_digest for run in runs}
    of_runs = [(run.written, list(_of_run(run, by_digest))) for run in runs]
    of_tasks = [(task.written, list(_of_task(folder, task))) for task in tasks if task.digest not in used]
    # The step of the most recent folder of each kind of step, before those of other folders.
    recent = sorted([*of_runs, *of_tasks], key=lambda one: one[0], reverse=True)
    ranked, count = list[tuple[int, int, Step]](), Counter[int]()
    for kind, step in (one for _, steps in recent for one in steps):
        ranked.append((count[kind], kind, step))
        count[kind] += 1
    ranked.sort(key=lambda one: one[:2])
    return [step for _, _, step in ranked[:MOST_STEPS]] or [Step(*one) for one in START]


def _of_run(run: RunFound, tasks: Mapping[str, TaskFound]) -> Iterator[tuple[int, Step]]:
    """Yield the steps of a run, each with its kind: a lower number is shown first."""
    out, kind = shlex.quote(str(run.path)), oracle_kind(run.config.oracle)
    resume = f"python -m jobs.run --config {out} --out {out}"
    if run.open and kind.people:
        words = f"{_name(run.path)} waits for labels of people, who give them in the browser:"
        yield 0, Step(words, resume if kind.serves_page else f"python -m jobs.annotate --run {out}")
    elif not run.ended:
        options = "".join(f" --{name} {word}" for name, word in kind.resumed_with)
        words = f"{_name(run.path)} has {run.last} of its {len(run.config.batches)} rounds; resume it:"
        yield 1, Step(words, resume + options)
    elif task := tasks.get(run.task_digest):
        # A cutoff is needed within one table alone; an encoder whose words are those of its task cannot match.
        cutoff = (f" --best {BEST}" if run.untrained else " --at-boundary") * task.symmetric
        matches = shlex.quote(str(Path("../matches" if run.path == Path() else "matches", run.path.name or "run")))
        if not family_of(run.config.encoder).learns_words:
            words = f"{_name(run.path)} is complete; find the matches among the texts of its task:"
            command = f"python -m jobs.match --model {out} --left {shlex.quote(str(task.path))}{cutoff} --out {matches}"
            yield 2, Step(words, command)
        if task.positives.get("test"):
            words = f"Measure the model of {_name(run.path)} on the split test:"
            yield 4, Step(words, f"python -m jobs.evaluate --run {out} --split test")


def _of_task(folder: Path, task: TaskFound) -> Iterator[tuple[int, Step]]:
    """Yield the steps of a task without a run, each with its kind, as `_of_run` does."""
    path, inside = shlex.quote(str(task.path)), task.path == Path()
    runs, name = Path("../runs" if inside else "runs"), folder.resolve().name if inside else task.path.name
    free = (runs / f"{name}{end}" for end in ("", *(f"-{number}" for number in range(2, MOST_FOLDERS))))
    out = shlex.quote(str(next(one for one in free if not (folder / one).exists())))
    recipe, split = "--recipe records " * task.fields, "dev" if task.positives.get("dev") else "train"
    options = f"{recipe}--oracle page --first-batch 60 --rounds 5 --evaluation.splits"
    if task.answered:
        batches = "--growth 1 --first-batch 60 --rounds 5" if task.fields else "--first-batch 128"
        options = f"{recipe}{batches} --evaluation.splits {split}"
    who = "its own labels answer" if task.answered else "people label in the browser"
    words = f"{_name(task.path)} is a task without a run; run it ({who}):"
    yield 3, Step(words, f"python -m jobs.run --task {path} --out {out} {options}")
    yield 5, Step(f"Plan the memory and time of a run on {_name(task.path)}:", f"python -m jobs.plan --task {path}")


def _name(path: Path) -> str:
    """Return a path in words."""
    return "this folder" if path == Path() else str(path)
