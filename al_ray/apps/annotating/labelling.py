"""People label one sheet: who is shown which pair, and what each answer changes.

Every answer is on disk (oracles/page_log.py) before a method returns. Which pair is shown to whom is kept in memory:
after a restart somebody may be shown a pair that another one has on the screen, and both answers are kept.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain, pairwise
from statistics import median

from al_ray.apps.annotating.options import PageOptions
from al_ray.apps.annotating.sheets import Sheet
from al_ray.core.errors import AlRayError
from al_ray.core.labels import OPEN, UNSURE, WORDS
from al_ray.core.rng import generator
from al_ray.oracles.page_log import append, log_path, open_page_log

LONGEST_GAP = 600.0
"""Seconds between two answers of a person after which they have made a pause, which is not part of their pace."""
LAST = 20
"""Number of last answers from which the pace is taken."""


class Refused(AlRayError):
    """A request on the page that cannot be carried out; the message says why."""


@dataclass(frozen=True)
class SheetProgress:
    """How far a sheet is: pairs, those that need no more answers, and those that wait for a second person."""

    pairs: int
    complete: int
    second: int


class Labelling:
    """The pairs of a sheet while people label them. Not thread-safe: the caller holds a lock."""

    def __init__(self, sheet: Sheet, options: PageOptions, clock: Callable[[], float]) -> None:
        """options: who answers what; a sheet that is final keeps what it had. clock: seconds."""
        self.sheet, self.lease, self.clock = sheet, 60 * options.lease_minutes, clock
        self.page, self._log = open_page_log(log_path(sheet.folder, sheet.stem))
        self._leases: dict[str, tuple[str, float]] = {}
        self._skipped: dict[str, list[str]] = {}
        self._times: dict[str, list[float]] = {}
        self._first: Mapping[str, int] | None = None
        # Both hold for pairs that are still to be answered.
        if not sheet.is_final:
            if options.overlap is not None:
                self._set_overlap(options.overlap)
            if options.confirm_matches and self.page.confirm is None:
                append(self._log, self.page, kind="confirm", on=True)
        self.reconcile()

    def _set_overlap(self, overlap: float) -> None:
        """Choose the pairs that two people answer, unless a share of this size was chosen before."""
        if overlap == (self.page.share or 0):
            return
        codes = [code for code in self.sheet.pairs if code not in self.sheet.elsewhere]
        order = generator(self.sheet.seed, f"page-overlap-{self.sheet.key}").permutation(len(codes))
        doubled = sorted(codes[place] for place in order[: math.ceil(overlap * len(codes))].tolist())
        append(self._log, self.page, kind="overlap", share=overlap, pairs=doubled)

    @property
    def progress(self) -> SheetProgress:
        """Return how far the sheet is; one whose labels were all read needs no more answers."""
        if self.sheet.is_final:
            return SheetProgress(len(self.sheet.pairs), len(self.sheet.pairs), 0)
        waiting = [code for code in self.sheet.pairs if not self._is_complete(code)]
        return SheetProgress(
            len(self.sheet.pairs),
            len(self.sheet.pairs) - len(waiting),
            sum(bool(self.page.of(code)) for code in waiting),
        )

    def _is_complete(self, code: str) -> bool:
        return code in self.sheet.elsewhere or self.page.complete(code)

    def next_pair(self, person: str) -> str | None:
        """Return the pair that a person is to answer next, and keep it for them; None if there is none for them.

        The one that they have on the screen already, if any: two windows of one person show the same pair.
        """
        skipped, now = self._skipped.get(person, []), self.clock()
        self._leases = {code: one for code, one in self._leases.items() if one[1] > now}
        own = [code for code, (by, _) in self._leases.items() if by == person]
        free = (code for code in self.sheet.pairs if code not in self._leases)
        first = (code for code in chain(own, free) if code in own or code not in skipped)
        # What was skipped comes again, at the end.
        code = next((one for one in chain(first, skipped) if self._is_free_for(person, one)), None)
        for one in own:
            del self._leases[one]
        if code is not None:
            self._leases[code] = person, now + self.lease
        return code

    def holders(self, person: str) -> set[str]:
        """Return which other people have a pair on the screen that needs an answer."""
        now = self.clock()
        return {
            by for code, (by, end) in self._leases.items() if end > now and by != person and not self._is_complete(code)
        }

    def _is_free_for(self, person: str, code: str) -> bool:
        """Return whether a person may be asked a pair that nobody else has on the screen."""
        return self._is_for(person, code) and self._leases.get(code, (person,))[0] == person

    def _is_for(self, person: str, code: str) -> bool:
        """Return whether a person may be asked a pair: it needs an answer, and they have not given one."""
        return not self._is_complete(code) and person not in self.page.of(code)

    def answer(self, person: str, code: str, label: int, note: str, request: str) -> None:
        """Store the answer of a person to a pair. It replaces their earlier one; a request counts once."""
        if self.was_carried_out(request):
            return
        self._check_changeable(code)
        append(
            self._log, self.page, kind="answer", pair=code, by=person, label=WORDS[label], note=note, request=request
        )
        self._leases.pop(code, None)
        self._times.setdefault(person, []).append(self.clock())
        self._unskip(person, code)
        self.reconcile(code)

    def was_carried_out(self, request: str) -> bool:
        """Return whether a request came before; if so, make the corrections that failed after its line was written."""
        known = request in self.page.requests
        if known:
            self.reconcile()
        return known

    def undo(self, person: str, code: str, request: str) -> None:
        """Take back the answer of a person to a pair, and keep the pair for them."""
        if self.was_carried_out(request):
            return
        self._check_changeable(code)
        if person not in self.page.of(code):
            raise Refused(f"you have not answered {code}")
        append(self._log, self.page, kind="undo", pair=code, by=person, request=request)
        # First, before the pair on the screen: if the reply is lost and the request comes again, this pair is shown.
        others = {one: lease for one, lease in self._leases.items() if one != code}
        self._leases = {code: (person, self.clock() + self.lease), **others}
        self.reconcile(code)

    def skip(self, person: str, code: str) -> None:
        """Show a person other pairs first; the pair is free for others."""
        self._check_known(code)
        if self._leases.get(code, ("",))[0] == person:
            del self._leases[code]
        self._unskip(person, code)
        self._skipped.setdefault(person, []).append(code)

    def settle(self, person: str, code: str, label: int, request: str) -> None:
        """Decide a pair on which people disagree."""
        if self.was_carried_out(request):
            return
        self._check_changeable(code)
        append(self._log, self.page, kind="settle", pair=code, by=person, label=WORDS[label], request=request)
        self.reconcile(code)

    def retract(self, by: str, person: str, request: str) -> None:
        """Take back all answers of a person, and what they have settled.

        Not of a sheet that can no longer be changed: what was read from it holds.
        """
        if self.sheet.is_final and not self._read:
            return
        if request not in self.page.requests:
            append(self._log, self.page, kind="retract", person=person, by=by, request=request)
        self.reconcile()

    def waive_second(self, by: str, request: str) -> None:
        """Wait for no second answer to pairs that have one."""
        if request not in self.page.requests:
            doubled = [code for code in sorted(self.page.doubled) if self.page.complete(code)]
            append(self._log, self.page, kind="overlap", share=self.page.share, pairs=doubled, by=by)
            append(self._log, self.page, kind="confirm", on=False, by=by, request=request)

    @property
    def _read(self) -> Mapping[str, int]:
        """Return by code the labels that a run has read from the sheet; none before it has read all of them."""
        recorder = self.sheet.recorder
        if self._first is None and recorder is not None and recorder.is_final:
            self._first = recorder.read_labels()
        return self._first or {}

    def reconcile(self, code: str | None = None) -> None:
        """Correct labels that have changed since a run has read them; code: of one pair, else of all.

        Only those that changed on the page: what jobs.labels has corrected stays until a new answer is given there.
        """
        recorder, read = self.sheet.recorder, self._read
        if recorder is None or not read:
            return
        touched = self.page.touched if code is None else self.page.touched & {code}
        labels = {one: self.page.label(one) for one in sorted(touched) if one in read}
        known = recorder.labels() if self.page.taken & labels.keys() else {}
        changed = dict[str, int]()
        for one, label in labels.items():
            last = self.page.recorded.get(one, read[one])
            if one in self.page.taken and known[one] not in (last, UNSURE):
                # A correction by somebody else is no answer of those who took theirs back.
                label = last
            elif label == OPEN:
                # Taken back: what is unknown is not a negative, nor what it was.
                label = UNSURE
            if label != last:
                changed[one] = label
        if changed:
            recorder.correct(changed)
            append(self._log, self.page, kind="recorded", labels={one: WORDS[label] for one, label in changed.items()})

    def answers_of(self, person: str) -> list[tuple[str, int, str]]:
        """Return time, line and code of a person's answers that count."""
        return [(of[person].at, of[person].number, code) for code, of in self.page.answers.items() if person in of]

    def by_model(self) -> Mapping[str, str]:
        """Return by code what a language model said of the pairs to which people gave another label."""
        return {} if self.sheet.recorder is None else self.sheet.recorder.by_model()

    def pace(self, person: str) -> float | None:
        """Return the median seconds between the last answers of a person, since the server started; None if unknown."""
        times = self._times.get(person, [])[-LAST:]
        gaps = [later - earlier for earlier, later in pairwise(times)]
        gaps = [gap for gap in gaps if gap <= LONGEST_GAP]
        return median(gaps) if gaps else None

    def close(self) -> None:
        """Close the log."""
        self._log.close()

    def _unskip(self, person: str, code: str) -> None:
        self._skipped[person] = [one for one in self._skipped.get(person, []) if one != code]

    def _check_known(self, code: str) -> None:
        if code not in self.sheet.pairs:
            raise Refused(f"{code} is no pair of {self.sheet.title}")

    def _check_changeable(self, code: str) -> None:
        """Raise Refused for a pair whose answer on the page would not count."""
        self._check_known(code)
        if self.sheet.is_final and code not in self._read:
            raise Refused(
                f"{self.sheet.title} is complete, and {code} is not changed here any more; for pairs that have a label "
                "there is the command labels correct"
            )
        if code in self.sheet.elsewhere:
            raise Refused(f"{code} has an answer in {self.sheet.stem}.csv, in an export or in the run; change it there")
