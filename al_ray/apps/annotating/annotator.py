"""All sheets that one server has people label, in the order in which they are labelled."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any

from al_ray.apps.annotating.labelling import Labelling, Refused
from al_ray.apps.annotating.options import PageOptions
from al_ray.apps.annotating.sheets import SheetSource


@dataclass(frozen=True)
class RunStatus:
    """What a run does while no pair waits for an answer, and what it has learnt.

    stage: in words, "" if no run is under way. done, total: of the stage, 0 if unknown. rounds: table of complete
    rounds, "" without one. learnt: lines about them. command: which goes on when all pairs have answers, "" if the run
    goes on by itself. ended: why no more pairs will come, "" if some may.
    next_step: a command for after the end.
    """

    stage: str = ""
    done: int = 0
    total: int = 0
    rounds: str = ""
    learnt: tuple[str, ...] = ()
    command: str = ""
    ended: str = ""
    next_step: str = ""


@dataclass(frozen=True)
class ExtraPages:
    """Further pages of a folder, as another application makes them (web.py has the types of their functions).

    links: address and title of those in the navigation. pages: address -> what shows it. forms: address -> what a form
    changes, and the fields that it must have.
    """

    links: tuple[tuple[str, str], ...]
    pages: Mapping[str, Callable[..., Any]]
    forms: Mapping[str, tuple[Callable[..., str], tuple[str, ...]]]


class Annotator:
    """The sheets of a run or an audit. Every method is called under `locked`."""

    def __init__(
        self,
        source: SheetSource,
        options: PageOptions,
        status: Callable[[], RunStatus],
        clock: Callable[[], float] = monotonic,
        extra: "ExtraPages | None" = None,
    ) -> None:
        """status: of the run. clock: seconds. extra: further pages of the folder."""
        self.source, self.options, self.status, self.clock = source, options, status, clock
        self.extra = extra
        self.labellings: dict[str, Labelling] = {}
        self._final: set[str] = set()
        self._lock = threading.Lock()

    @contextmanager
    def locked(self) -> Iterator["Annotator"]:
        """Let one thread at a time in, and look for new sheets first."""
        with self._lock:
            self.refresh()
            yield self

    def refresh(self) -> None:
        """Open new sheets, and correct what changed while the run read a sheet."""
        for sheet in self.source.new_sheets(self.labellings.keys()):
            self.labellings[sheet.key] = Labelling(sheet, self.options, self.clock)
        for key, labelling in self.labellings.items():
            if key not in self._final and labelling.sheet.is_final:
                labelling.reconcile()
                self._final.add(key)

    @property
    def open(self) -> list[Labelling]:
        """Return the sheets that wait for answers."""
        return [one for key, one in self.labellings.items() if key not in self._final]

    def of(self, code: str) -> Labelling:
        """Return the sheet of a pair; Refused if there is none."""
        for labelling in self.labellings.values():
            if code in labelling.sheet.pairs:
                return labelling
        raise Refused(f"there is no pair {code[:40]!r} here")

    def next_pair(self, person: str) -> tuple[Labelling, str] | None:
        """Return the pair that a person is to answer next; None if there is none for them now."""
        for labelling in self.open:
            code = labelling.next_pair(person)
            if code is not None:
                return labelling, code
        return None

    def last_answer(self, person: str, before: str = "") -> tuple[Labelling, str] | None:
        """Return the last answer of a person that counts, whatever sheet it is on; None without one.

        before: code of a pair; of one that they have answered, the answer before that.
        """
        every = sorted((*answer, key) for key, one in self.labellings.items() for answer in one.answers_of(person))
        codes = [code for _, _, code, _ in every]
        place = codes.index(before) if before in codes else len(codes)
        if not place:
            return None
        _, _, code, key = every[place - 1]
        return self.labellings[key], code

    def close(self) -> None:
        """Close all logs."""
        with self._lock:
            for labelling in self.labellings.values():
                labelling.close()
