"""Run trials until they have taken so many minutes: `make soak MINUTES=120 SEED=0`. One again: `--again NUMBER`.

A number draws the same scenario and faults everywhere; when exactly they strike depends on the machine.
A line of each is kept in --out, so the same command continues after a stop, and more MINUTES go on where fewer ended.
"""

import argparse
import hashlib
import json
import os
import select
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
from tests.soak.plan import KINDS, QUIET, Plan, plan_of
from tests.soak.waiting import MARK, marked

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 1500.0
"""Seconds after which a trial is ended; it ends by itself before, unless it is not al_ray that hangs."""
LIVES = 20
"""Trials on one cluster."""


class Player:
    """A cluster and trials on it, as a process (trial.py), until one fails."""

    def __init__(self, out: Path) -> None:
        """out: folder of the quiet run and of failed trials."""
        self.out, self.quiet = out, quiet_of(out)
        self.place = Path(tempfile.mkdtemp(prefix="soak-"))
        self.log = self.place / "player.log"
        with self.log.open("w") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("trial.py")), str(self.quiet), str(self.place)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=self.place,
                env={**os.environ, MARK: self.place.name, "PYTHONPATH": str(ROOT)},
            )  # fmt: skip

    def play(self, plan: Plan) -> dict[str, Any]:
        """Play a trial, and return its line."""
        for scenario in QUIET.get(plan.scenario, ("run",)) if plan.faults else ():
            if not (self.quiet / scenario).exists():
                line = self.play(Plan(plan.seed, -1, scenario))
                if line["complaints"]:
                    return line
        assert self.process.stdin is not None
        began = time.monotonic()
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(plan.as_dict()) + "\n")
            self.process.stdin.flush()
        line = self._answer()
        if not isinstance(line, dict):
            said = self.log.read_text(errors="replace")[-2000:]
            line = {**plan.as_dict(), "struck": [], "endings": [], "again": 0, "complaints": [f"no answer: {said}"]}
        line["seconds"] = round(time.monotonic() - began, 1)
        place = self.place / plan.name
        if line["complaints"]:
            logs = self.place / "ray" / "session_latest" / "logs"
            for folder, name in ((place, plan.name), (logs, f"{plan.name}/ray")):
                with suppress(shutil.Error, FileNotFoundError):
                    shutil.copytree(folder, self.out / "failed" / name, symlinks=True, dirs_exist_ok=True)
        shutil.rmtree(place, ignore_errors=True)
        return line

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], LIMIT)[0]:
            return None
        with suppress(json.JSONDecodeError):
            return json.loads(self.process.stdout.readline())
        return None

    def close(self) -> list[str]:
        """End the cluster, and return the processes that were left of it."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        left = self._answer()
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        kill_all(marked(self.place.name))
        for disk in self.place.glob("*/disk"):
            if os.path.ismount(disk):
                subprocess.run(["umount", "--lazy", str(disk)], check=False)
        shutil.rmtree(self.place, ignore_errors=True)
        return left if isinstance(left, list) else []


def quiet_of(out: Path) -> Path:
    """Return the folder of what comes out where nobody disturbs anything; made once for each state of the code."""
    key = hashlib.sha256()
    for path in sorted([*(ROOT / "al_ray").rglob("*.py"), *(Path(__file__).parent / "scenes").glob("*.py")]):
        key.update(path.read_bytes())
    folder = out / f"quiet-{key.hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
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
    yield f"{'':<26}" + "".join(f"{name:>20}" for name in names) + f"{'all':>8}"
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
    return f"{words:<26}" + "".join(f"{number:>20,}" for number in numbers) + f"{sum(numbers):>8,}"


def options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=120.0, help="of all trials of this seed, also those kept")
    parser.add_argument("--seed", type=int, default=0, help="of scenarios, faults and moments")
    parser.add_argument("--out", type=Path, default=Path(".soak"), help="folder of lines and failed trials")
    parser.add_argument("--again", type=int, help="number of a trial: run it once more, and keep no line of it")
    return parser.parse_args()


def run_trials(given: argparse.Namespace, out: Path) -> list[dict[str, Any]]:
    """Run trials until there are enough, and return all lines of this seed."""
    path = out / f"seed-{given.seed}.jsonl"
    lines, player = read_lines(path), None
    while sum(one["seconds"] for one in lines) < 60 * given.minutes:
        player = player or Player(out)
        line = player.play(plan_of(given.seed, len(lines)))
        enough = sum(one["seconds"] for one in [*lines, line]) >= 60 * given.minutes
        if line["complaints"] or enough or len(lines) % LIVES == LIVES - 1:
            line["complaints"] += [f"a process is left: {one}" for one in player.close()]
            player = None
        lines.append(line)
        with path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        kinds = ", ".join(one["kind"] for one in line["struck"]) or "nothing"
        print(
            f"trial {line['number']}: {line['scenario']}; {kinds}; ended {', '.join(line['endings'])}; "
            f"{'FAILED' if line['complaints'] else 'as the quiet one'}; {line['seconds']:.0f} s",
            flush=True,
        )
    return lines


def main() -> int:
    """Run, print, and return 1 if a trial failed."""
    given = options()
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    if given.again is None:
        lines = run_trials(given, out)
        print(*summary(lines), sep="\n")
        return int(any(one["complaints"] for one in lines))
    player = Player(out)
    line = player.play(plan_of(given.seed, given.again))
    line["complaints"] += [f"a process is left: {one}" for one in player.close()]
    print(json.dumps(line, indent=1))
    return int(bool(line["complaints"]))


if __name__ == "__main__":
    sys.exit(main())
