"""One input after the other: damage files, read them, and see that they were read or refused by name, within limits."""

import contextlib
import hashlib
import json
import os
import shutil
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Literal

from al_ray.core.errors import AlRayError
from tests.fuzz.limits import TooLarge, TooLong, limits
from tests.fuzz.mutators import mutate
from tests.fuzz.readers import READERS, Reader

Outcome = Literal["read", "refused", "failed"]
Damage = dict[str, bytes | None]
"""Name of a file in the corpora -> its content, None for a file that is not there."""


@dataclass(frozen=True)
class Result:
    """What became of an input. fault: what is wrong, if it failed. seconds is not part of it: results are compared."""

    reader: str
    number: int
    outcome: Outcome
    damage: Damage
    fault: str = ""


def damage_of(name: str, number: int, corpora: Path) -> Damage:
    """Return the damage of input `number` of a reader; the same in every process."""
    reader, rng = READERS[name], Random(f"{name}-{number}")
    base = corpora / reader.path
    files = (
        [base]
        if base.is_file()
        else sorted({path for one in reader.files for path in base.glob(one) if path.is_file()})
    )
    files = [path for path in files if path.name != ".lock"]
    damage: Damage = {}
    for path in rng.sample(files, min(len(files), rng.choice([1, 1, 1, 1, 2]))):
        key = path.relative_to(corpora).as_posix()
        if len(files) > 1 and rng.random() < 0.03:
            damage[key] = None
        else:
            damage[key] = mutate(path.name, path.read_bytes(), rng, rng.choice(files).read_bytes())
    return damage


@contextlib.contextmanager
def _damaged(damage: Damage, reader: Reader) -> Iterator[None]:
    """Write damage into the current folder, and restore what was there."""
    base, aside = Path(reader.path), Path("before")
    before = {name: Path(name).read_bytes() for name in damage}
    if reader.writes:
        (shutil.copytree if base.is_dir() else shutil.copy2)(base, aside)
    for name, content in damage.items():
        if content is None:
            Path(name).unlink()
        else:
            Path(name).write_bytes(content)
    try:
        yield
    finally:
        if reader.writes:
            (shutil.rmtree if base.is_dir() else Path.unlink)(base)
            aside.rename(base)
        else:
            for name, content in before.items():
                Path(name).write_bytes(content)


def _tree(base: Path) -> dict[str, tuple[int, int]]:
    found = [base] if base.is_file() else [path for path in base.rglob("*") if path.name != ".lock"]
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in found if path.is_file()}


def run_input(name: str, number: int, corpora: Path) -> Result:
    """Read an input in the current folder, which is a copy of the corpora."""
    return run_damage(name, number, damage_of(name, number, corpora))


def run_damage(name: str, number: int, damage: Damage) -> Result:
    """Read damaged files in the current folder, which is a copy of the corpora."""
    reader = READERS[name]
    base, fault, outcome = Path(reader.path), "", "read"
    with _damaged(damage, reader), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = {} if reader.writes else _tree(base)
        try:
            with limits():
                found = reader.read(base)
                if reader.check is not None:
                    reader.check(base, found)
        except AlRayError as error:
            outcome, fault = "refused", _unnamed(str(error), damage, base)
        except (Exception, TooLong, TooLarge) as error:  # noqa: BLE001 - whatever it is, it is a finding
            fault = "".join(traceback.format_exception(error)[-12:])
        if not fault and not reader.writes and _tree(base) != before:
            fault = "reading has changed the folder"
    return Result(name, number, "failed" if fault else outcome, damage, fault)


def _unnamed(message: str, damage: Damage, base: Path) -> str:
    """Return what is wrong with the text of a refusal: it is to name a damaged file, or the folder that it is in."""
    places = [
        *(Path(name).name for name in damage),
        *(str(Path(name).parent) for name in damage if "/" in name),
        str(base),
    ]
    if len(message) > 20_000:
        return f"the error has {len(message):,} characters: {message[:200]}"
    if "\n" in message:
        return f"the error has several lines: {message[:300]!r}"
    # A run names its task, and an error about another task names that one.
    places.append("task.json")
    return "" if any(place in message for place in places) else f"the error names no file: {message[:300]}"


def copy_corpora(corpora: Path, place: Path) -> None:
    """Copy the corpora into a folder in which inputs can be read."""
    shutil.copytree(corpora, place)


def signature(result: Result) -> str:
    """Return what failures with one cause have in common: the last lines of code, and the kind of the error."""
    lines = [line.strip() for line in result.fault.splitlines() if "al_ray" in line and "File " in line]
    last = result.fault.strip().splitlines()[-1] if result.fault.strip() else ""
    return f"{result.reader}: {lines[-1] if lines else ''} {last[:60]}"


def keep(result: Result, folder: Path) -> Path:
    """Write a failed input and what is wrong with it; return its folder."""
    key = hashlib.sha256(signature(result).encode()).hexdigest()[:8]
    place = folder / f"{result.reader}-{key}-{result.number}"
    for name, content in result.damage.items():
        path = place / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is not None:
            path.write_bytes(content)
    about = {
        "reader": result.reader,
        "number": result.number,
        "missing": [name for name, one in result.damage.items() if one is None],
    }
    (place / "input.json").write_text(json.dumps(about))
    (place / "fault.txt").write_text(result.fault, errors="backslashreplace")
    return place


def kept(place: Path) -> tuple[str, int, Damage]:
    """Read a failed input back: reader, number and damage."""
    about = json.loads((place / "input.json").read_text())
    root = place / "files"
    damage: Damage = {
        path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }
    return about["reader"], about["number"], damage | dict.fromkeys(about["missing"])


def quiet() -> None:
    """Send what libraries print to nowhere."""
    os.environ["TQDM_DISABLE"] = "1"
