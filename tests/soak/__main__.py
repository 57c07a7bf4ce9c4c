"""Run trials until they have taken so many minutes: `make soak MINUTES=120 SEED=0`. One again: `--again NUMBER`.

A number draws the same scenario and faults everywhere; when exactly they strike depends on the machine.
A line of each is kept in --out, so the same command continues after a stop, and more MINUTES go on where fewer ended.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.cluster.processes import kill_all
from tests.soak.plan import KINDS, Plan, plan_of
from tests.soak.waiting import MARK, marked

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 900.0
"""Seconds after which the process of a trial is killed; it ends by itself before, unless it is the trial that hangs."""


def run_trial(plan: Plan, out: Path) -> dict[str, Any]:
    """Run a trial as a process, see that nothing is left of it, and return its line."""
    quiet = quiet_of(plan, out)
    place = Path(tempfile.mkdtemp(prefix="soak-"))
    mark, log = place.name, place / "trial.log"
    command = [sys.executable, str(Path(__file__).with_name("trial.py")), json.dumps(plan.as_dict()), str(quiet)]
    began = time.monotonic()
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [*command, str(place)], stdout=subprocess.PIPE, stderr=stderr, cwd=place, text=True,
            env={**os.environ, MARK: mark, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        try:
            said, _ = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            said, _ = process.communicate()
        finally:
            kill_all(marked(mark))
            while os.path.ismount(place / "disk"):
                subprocess.run(["umount", "--lazy", str(place / "disk")], check=False)
    try:
        line = json.loads(said.splitlines()[-1])
    except (IndexError, json.JSONDecodeError):
        wrong = f"the trial itself ended with {process.returncode}: {log.read_text(errors='replace')[-2000:]}"
        line = {**plan.as_dict(), "struck": [], "endings": [], "again": 0, "complaints": [wrong]}
    line["seconds"] = round(time.monotonic() - began, 1)
    if line["complaints"]:
        with suppress(shutil.Error):
            # Sockets among them cannot be copied.
            shutil.copytree(place, out / "failed" / f"{plan.name}-{mark}", symlinks=True, dirs_exist_ok=True)
    shutil.rmtree(place, ignore_errors=True)
    return line


def quiet_of(plan: Plan, out: Path) -> Path:
    """Return the folder of what the run comes to that nobody disturbs; made once for each state of the code."""
    key = hashlib.sha256()
    for path in sorted([*(ROOT / "al_ray").rglob("*.py"), *Path(__file__).parent.glob("*.py")]):
        key.update(path.read_bytes())
    folder = out / f"quiet-{key.hexdigest()[:12]}" / "run"
    if plan.faults and not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        line = run_trial(Plan(plan.seed, -1, "run"), out)
        if line["complaints"]:
            raise SystemExit(f"a run that nobody disturbs fails: {line['complaints']}")
    return folder


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of trials; a last one that a kill left half-written is none."""
    lines = list[dict[str, Any]]()
    for text in path.read_text().splitlines() if path.exists() else []:
        with suppress(json.JSONDecodeError):
            lines.append(json.loads(text))
    return lines


def summary(lines: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield a table of the kinds of faults, and each failure."""
    trials = Counter(one["scenario"] for one in lines)
    struck = Counter((one["scenario"], fault["kind"]) for one in lines for fault in one["struck"])
    names = list(KINDS)
    yield f"{'':<26}" + "".join(f"{name:>22}" for name in names) + f"{'all':>8}"
    for kind in dict.fromkeys(kind for name in names for kind in KINDS[name]):
        yield _row(kind, [struck[name, kind] for name in names])
    yield _row("faults", [sum(struck[one] for one in struck if one[0] == name) for name in names])
    yield _row("trials", [trials[name] for name in names])
    of = {
        "starts after an end": lambda one: max(0, len(one["endings"]) - 1),
        "ended with an error line": lambda one: one["endings"].count("2"),
        "labels paid for twice": lambda one: one["again"],
        "failed trials": lambda one: bool(one["complaints"]),
    }
    for words, count in of.items():
        yield _row(words, [sum(count(one) for one in lines if one["scenario"] == name) for name in names])
    yield f"{sum(one['seconds'] for one in lines) / 3600:.2f} hours of trials"
    for one in lines:
        for complaint in one["complaints"][:3]:
            yield f"trial {one['number']} ({one['scenario']}): {complaint[:300]}"


def _row(words: str, numbers: Sequence[int]) -> str:
    return f"{words:<26}" + "".join(f"{number:>22,}" for number in numbers) + f"{sum(numbers):>8,}"


def options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=120.0, help="of all trials of this seed, also those kept")
    parser.add_argument("--seed", type=int, default=0, help="of scenarios, faults and moments")
    parser.add_argument("--out", type=Path, default=Path(".soak"), help="folder of lines and failed trials")
    parser.add_argument("--again", type=int, help="number of a trial: run it once more, and keep no line of it")
    return parser.parse_args()


def main() -> int:
    """Run, print, and return 1 if a trial failed."""
    given = options()
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    if given.again is not None:
        line = run_trial(plan_of(given.seed, given.again), out)
        print(json.dumps(line, indent=1))
        return int(bool(line["complaints"]))
    path = out / f"seed-{given.seed}.jsonl"
    lines = read_lines(path)
    while sum(one["seconds"] for one in lines) < 60 * given.minutes:
        line = run_trial(plan_of(given.seed, len(lines)), out)
        with path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        lines.append(line)
        kinds = ", ".join(one["kind"] for one in line["struck"]) or "nothing"
        print(
            f"trial {line['number']}: {line['scenario']}; {kinds}; ended {', '.join(line['endings'])}; "
            f"{'FAILED' if line['complaints'] else 'as the quiet one'}; {line['seconds']:.0f} s",
            flush=True,
        )  # fmt: skip
    print(*summary(lines), sep="\n")
    return int(any(one["complaints"] for one in lines))


if __name__ == "__main__":
    sys.exit(main())
