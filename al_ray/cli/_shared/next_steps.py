"""What to do next in a folder: at most three commands, by the tasks and runs that it has."""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from al_ray.active_learning.config import RunConfig
from al_ray.core.config.encoder import family_of
from al_ray.core.config.oracle import oracle_kind
from al_ray.core.errors import AlRayError
from al_ray.datasets.task_folder import labels_are_of, read_about
from al_ray.runs.config_file import read_config_file
from al_ray.runs.handover import choose_model
from al_ray.runs.run_state import at_its_end, bound_config, last_round

MOST_STEPS, MOST_FOLDERS, LARGEST = 3, 300, 2**20
"""Steps that are shown; entries of a folder that are looked at; bytes of a file of JSON that is read."""
BEST = 100
"""Pairs that a model without a boundary matches."""
BELOW = ("tasks", "runs")
"""Folders whose own folders are looked at, too."""
UNREADABLE = (AlRayError, OSError, ValueError, KeyError, TypeError, AttributeError)
"""What a folder raises that is none of ours, or is broken: it is left out."""
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


@dataclass(frozen=True)
class TaskFound:
    """A task folder: its path and digest, and when it was written.

    answered: whether its own labels can answer: every match of train is known, and there is one. fields: whether its
    texts are joined from several columns.
    """

    path: Path
    digest: str
    symmetric: bool
    positives: Mapping[str, int]
    answered: bool
    fields: bool
    written: float


@dataclass(frozen=True)
class RunFound:
    """A run folder: its path, its options, the digest of its task, its last complete round, and when that ended.

    ended: whether it has all its rounds, or a limit stopped it. open: whether pairs are chosen that have no labels yet.
    untrained: whether its figures hand over the untrained encoder, which has no boundary.
    """

    path: Path
    config: RunConfig
    task_digest: str
    last: int
    ended: bool
    open: bool
    written: float
    untrained: bool


def next_steps(folder: Path) -> list[Step]:
    """Return at most three steps: people's labels first, then runs to resume, models to use, tasks to run.

    Looked at are the folder, the folders in it, and those in its tasks/ and runs/. What cannot be read is left out.
    """
    tasks, runs = list[TaskFound](), list[RunFound]()
    for path in _folders(folder):
        with suppress(*UNREADABLE):
            if (task := _task(folder, path)) is not None:
                tasks.append(task)
            elif (run := _run(folder, path)) is not None:
                runs.append(run)
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


def _folders(folder: Path) -> Iterator[Path]:
    """Yield the folder and those below it, as paths from it; of many the first ones."""
    yield Path()
    for parent in (Path(), *map(Path, BELOW)):
        with suppress(OSError):
            names = sorted(path.name for path in islice((folder / parent).iterdir(), MOST_FOLDERS))
            # A name that a terminal would not show as it is could not be pasted.
            yield from (parent / name for name in names if name.isprintable() and not name.startswith((".", "-")))


def _is_small(path: Path) -> bool:
    """Return whether a file is there, and no larger than those of al_ray."""
    return path.is_file() and path.stat().st_size <= LARGEST


def _task(folder: Path, path: Path) -> TaskFound | None:
    """Read a task folder; None if it is none."""
    file = folder / path / "task.json"
    if not _is_small(file):
        return None
    about = read_about(folder / path)
    positives = {name: int(counts["positives"]) for name, counts in about["splits"].items()}
    if "train" not in positives:
        return None
    columns = str(about.get("provenance", {}).get("text_columns", ""))
    answered = labels_are_of(about, folder / path) == "complete" and positives["train"] > 0
    several = len(columns.replace(",", " ").split()) > 1
    digest, symmetric = str(about["digest"]), bool(about["symmetric"])
    return TaskFound(path, digest, symmetric, positives, answered, several, file.stat().st_mtime)


def _run(folder: Path, path: Path) -> RunFound | None:
    """Read a run folder; None if it is none."""
    place = folder / path
    files = [place / name for name in ("config.json", "state.json", "ended.json")]
    if not all(_is_small(file) for file in files if file == files[0] or file.exists()):
        return None
    digest, config, last = str(read_config_file(place)["task_digest"]), bound_config(place), last_round(place)
    rounds = place / f"round-{last + 1:03d}", place / "dev-labels" / f"round-{last:03d}"
    is_open = any((one / "batch.parquet").exists() and not (one / "labels.parquet").exists() for one in rounds)
    written = max(file.stat().st_mtime for file in files if file.exists())
    untrained = last > 0 and not choose_model(place).round
    return RunFound(path, config, digest, last, at_its_end(place, config), is_open, written, untrained)


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
