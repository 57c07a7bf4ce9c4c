"""The suggested pairs of a match as a sheet of the page on which people label."""

from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path

from al_ray.apps.annotating.sheets import Sheet, answered_elsewhere, by_code, read_sheet_pairs
from al_ray.apps.drift.folder import STEM, TABLE, read_suggested
from al_ray.core.errors import BadFile

LETTER = "s"


@dataclass(frozen=True)
class SuggestedSheets:
    """The one sheet of a folder of matches."""

    path: Path

    def __post_init__(self) -> None:
        """Raise BadFile if the folder has no suggested pairs."""
        read_suggested(self.path)

    def new_sheets(self, known: Container[str]) -> Iterator[Sheet]:
        """Yield the suggested pairs."""
        if LETTER in known:
            return
        suggested = read_suggested(self.path)
        pairs = read_sheet_pairs(self.path / f"{STEM}.json")
        if [*pairs] != suggested.codes:
            raise BadFile(f"{self.path / STEM}.json holds other pairs than {TABLE} beside it; restore both")
        cosines, elsewhere = by_code(suggested.codes, suggested.scores), answered_elsewhere(self.path, STEM, pairs)
        yield Sheet(LETTER, "suggested pairs", self.path, STEM, pairs, 0, cosines, elsewhere)
