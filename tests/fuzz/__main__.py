"""Fuzz all readers: `make fuzz INPUTS=100000`. Read one failed input again: `python -m tests.fuzz --again FOLDER`.

Inputs are numbered, and each number is the same input everywhere. Finished parts are kept in --out, so the same command
continues after a stop, and more INPUTS go on where fewer ended; --first 100000 begins at other numbers.
"""

import argparse
import contextlib
import json
import logging
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

PART = 1_000
"""Inputs that one process reads."""


@dataclass(frozen=True)
class Part:
    """Inputs of a reader that one process reads, in order."""

    reader: str
    first: int
    last: int

    @property
    def name(self) -> str:
        """Return the name of the part's file."""
        return f"{self.reader}-{self.first}-{self.last}.json"


def parts(inputs: int, first: int, names: list[str]) -> list[Part]:
    """Divide inputs among readers by their shares."""
    from tests.fuzz.readers import READERS

    whole = sum(READERS[name].share for name in names)
    ends = {name: first + round(inputs * READERS[name].share / whole) for name in names}
    return [
        Part(name, start, min(start + PART, ends[name])) for name in names for start in range(first, ends[name], PART)
    ]


def memory() -> str | None:
    """Return a folder in memory, where files are written sooner than on a disk; None if there is none."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def read_part(part: Part, corpora: Path, out: Path, after: int) -> None:
    """Read the inputs of a part after number `after`, and write what became of them."""
    from tests.fuzz import harness
    from tests.fuzz.limits import cap_address_space

    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="al_ray-fuzz-", dir=memory()) as folder, open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
        harness.copy_corpora(corpora, Path(folder) / "work")
        os.chdir(Path(folder) / "work")
        cap_address_space(4 * 2**30)
        with (out / f"{part.name}.lines").open("a") as lines:
            for number in range(after + 1, part.last):
                lines.write(json.dumps({"number": number}) + "\n")
                lines.flush()
                began = time.monotonic()
                result = harness.run_input(part.reader, number, corpora)
                line = {"number": number, "outcome": result.outcome, "seconds": time.monotonic() - began}
                if result.fault:
                    line |= {"signature": harness.signature(result), "place": harness.keep(result, out / "failed").name}
                lines.write(json.dumps(line) + "\n")
                lines.flush()
        os.chdir("/")


def run_part(part: Part, corpora: Path, out: Path) -> None:
    """Read a part in processes of their own: one that dies has failed at its last input, and another one goes on."""
    from tests.fuzz import harness

    after, path = part.first - 1, out / f"{part.name}.lines"
    path.unlink(missing_ok=True)
    while after < part.last - 1:
        process = multiprocessing.get_context("fork").Process(target=read_part, args=(part, corpora, out, after))
        process.start()
        process.join()
        begun = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        done = [line for line in begun if "outcome" in line]
        after = max((line["number"] for line in done), default=part.first - 1)
        if after < part.last - 1:
            number, fault = after + 1, f"the process ended with {process.exitcode}"
            damage = harness.damage_of(part.reader, number, corpora)
            place = harness.keep(harness.Result(part.reader, number, "failed", damage, fault), out / "failed")
            line = {
                "number": number,
                "outcome": "failed",
                "seconds": 0.0,
                "signature": f"{part.reader}: {fault}",
                "place": place.name,
            }
            with path.open("a") as lines:
                lines.write(json.dumps(line) + "\n")
            after = number
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    (out / part.name).write_text(json.dumps([line for line in lines if "outcome" in line]))
    path.unlink()


def summary(out: Path, chosen: list[Part]) -> Iterator[str]:
    """Yield a table of the readers, and each kind of failure with an input that shows it."""
    counts, seconds, slowest, kinds = dict[str, Counter[str]](), Counter[str](), Counter[str](), dict[str, list[str]]()
    for part in chosen:
        if not (out / part.name).exists():
            continue
        for line in json.loads((out / part.name).read_text()):
            counts.setdefault(part.reader, Counter())[line["outcome"]] += 1
            seconds[part.reader] += line["seconds"]
            slowest[part.reader] = max(slowest[part.reader], line["seconds"])
            if "signature" in line:
                kinds.setdefault(line["signature"], []).append(line["place"])
    yield f"{'reader':<20}{'inputs':>9}{'read':>9}{'refused':>9}{'failed':>8}{'a second':>10}{'slowest':>9}"
    for name, of in [*counts.items(), ("all", sum(counts.values(), Counter()))]:
        time_of = seconds[name] if name in counts else sum(seconds.values())
        longest = slowest[name] if name in counts else max(slowest.values(), default=0)
        number = sum(of.values())
        rate = f"{number / time_of:.0f}" if time_of else "-"
        yield f"{name:<20}{number:>9,}{of['read']:>9,}{of['refused']:>9,}{of['failed']:>8,}{rate:>10}{longest:>8.2f}s"
    for kind, places in sorted(kinds.items(), key=lambda one: -len(one[1])):
        yield f"{len(places):>6,}  {kind}\n        python -m tests.fuzz --again {out / 'failed' / places[0]}"


def again(place: Path) -> int:
    """Read a failed input again, and print what becomes of it."""
    from tests.fuzz import corpora, harness

    name, number, damage = harness.kept(place)
    with tempfile.TemporaryDirectory(prefix="al_ray-fuzz-") as folder:
        corpora.make(Path(folder))
        with contextlib.chdir(folder):
            result = harness.run_damage(name, number, damage)
    print(result.outcome, result.fault, sep="\n")
    return int(bool(result.fault))


def options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=10_000, help="inputs of all readers")
    parser.add_argument("--first", type=int, default=0, help="number of the first input of each reader")
    parser.add_argument("--readers", nargs="*", default=None, help="their names; all by default")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--out", type=Path, default=Path(".fuzz"), help="folder of finished parts and failed inputs")
    parser.add_argument("--again", type=Path, help="folder of a failed input")
    return parser.parse_args()


def main() -> int:
    """Run, print, and return 1 if an input failed."""
    given = options()
    if given.again is not None:
        return again(given.again.resolve())
    out, began = given.out.resolve(), time.monotonic()
    (out / "failed").mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="al_ray-corpora-"))
    try:
        return _fuzz(given, out, work, began)
    finally:
        shutil.rmtree(work)


def _fuzz(given: argparse.Namespace, out: Path, work: Path, began: float) -> int:
    from tests.fuzz.readers import READERS

    unknown = set(given.readers or ()) - set(READERS)
    if unknown:
        sys.exit(f"--readers {', '.join(sorted(unknown))}: there is no such reader; give some of {', '.join(READERS)}")
    # Arrow imports it when it is first needed, which would be in each process anew.
    import_module("pandas")
    making = multiprocessing.get_context("fork").Process(target=_make, args=(work,))
    making.start()
    making.join()
    chosen = parts(given.inputs, given.first, given.readers or list(READERS))
    left = [part for part in chosen if not (out / part.name).exists()]
    running: list[Any] = []
    for part in left:
        while len(running) >= given.jobs:
            running = [one for one in running if one.is_alive()]
            time.sleep(0.05)
        running.append(multiprocessing.get_context("fork").Process(target=run_part, args=(part, work, out)))
        running[-1].start()
    for one in running:
        one.join()
    lines = list(summary(out, chosen))
    print(*lines, f"{time.monotonic() - began:,.0f} s on the clock", sep="\n")
    return int(any("--again" in line for line in lines))


def _make(work: Path) -> None:
    from tests.fuzz import corpora

    corpora.make(work)


if __name__ == "__main__":
    sys.exit(main())
