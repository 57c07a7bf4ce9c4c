"""The sample of an audit as sheets of the page on which people label."""

import logging
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from al_ray.apps.annotating.sheets import Sheet, answered_elsewhere, by_code, read_sheet_pairs
from al_ray.apps.audit.folder import KEY, STEM, AuditFolder
from al_ray.apps.audit.until_width.folder import WidthAudit, looks_of
from al_ray.apps.audit.until_width.printout import learnt
from al_ray.core.errors import BadFile
from al_ray.storage.uri import stamp_of

logger = logging.getLogger(__name__)

LETTER = "a-"


@dataclass(frozen=True)
class AuditSheets:
    """The one sheet of an audit, or those of its looks, one after the other while its interval is too wide."""

    path: Path
    _seen: dict[str, Any] = field(default_factory=dict[str, Any], init=False, compare=False)
    """What the answers were when looks were last computed, and what they then said."""

    def __post_init__(self) -> None:
        """Raise WrongFolder if the folder holds no audit."""
        folder = AuditFolder(self.path)
        if not (folder.of_matches or folder.of_clusters):
            folder.record()

    @property
    def until_width(self) -> bool:
        """Return whether people label until an interval is narrow enough."""
        folder = AuditFolder(self.path)
        return not (folder.of_matches or folder.of_clusters) and folder.record().asked.until_width is not None

    def learnt(self) -> tuple[str, ...]:
        """Return what the looks so far say; nothing of an audit without looks."""
        return self._looked()[1] if self.until_width else ()

    def new_sheets(self, known: Container[str]) -> Iterator[Sheet]:
        """Yield the sample."""
        if self.until_width:
            yield from self._looks(known)
            return
        if LETTER in known:
            return
        codes, _, drawn = AuditFolder(self.path).key()
        pairs = read_sheet_pairs(self.path / f"{STEM}.json")
        if [*pairs] != codes:
            raise BadFile(f"{self.path / STEM}.json holds other pairs than {KEY} beside it; restore both")
        elsewhere = answered_elsewhere(self.path, STEM, pairs)
        yield Sheet(LETTER, "audit", self.path, STEM, pairs, 0, by_code(codes, drawn.cosines), elsewhere)

    def _looks(self, known: Container[str]) -> Iterator[Sheet]:
        """Yield the looks that are complete, and the next one while the interval is too wide."""
        shown, _ = self._looked()
        _, _, drawn = AuditFolder(self.path).key()
        for look in looks_of(self.path, len(drawn.ranks))[:shown]:
            if look.letter in known:
                continue
            pairs = read_sheet_pairs(look.folder / f"{STEM}.json")
            if [*pairs] != look.codes:
                raise BadFile(f"{look.folder / STEM}.json holds other pairs than {KEY} has of it; restore both")
            elsewhere, cosines = answered_elsewhere(look.folder, STEM, pairs), drawn.cosines[look.start : look.stop]
            yield Sheet(
                look.letter, f"audit, look {look.number}", look.folder, STEM, pairs, 0,
                by_code(look.codes, cosines), elsewhere,
            )  # fmt: skip

    def _looked(self) -> tuple[int, tuple[str, ...]]:
        """Return how many looks are shown, and what was learnt; computed again when answers changed."""
        files = [path for path in sorted(self.path.glob("look-*/*")) if path.suffix in (".csv", ".json", ".log")]
        stamps = tuple((str(path), stamp_of(path)) for path in files)
        if self._seen.get("stamps") != stamps:
            try:
                self._look()
            except BadFile as error:
                if not self._seen:
                    raise
                # A program may be writing the file just now; then it changes again.
                logger.warning("%s", error)
            self._seen["stamps"] = stamps
        return self._seen["found"]

    def _look(self) -> None:
        audit = WidthAudit.read(self.path)
        results = audit.results()
        # A forecast takes seconds, and changes with looks alone.
        key = [(result.look.number, result.estimate) for result in results]
        if self._seen.get("looks") != key:
            narrow = bool(results) and results[-1].narrow
            shown = len(results) if narrow else min(len(results) + 1, len(audit.looks))
            self._seen.update(looks=key, found=(shown, tuple(learnt(audit))))
