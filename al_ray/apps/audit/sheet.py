"""The sample of an audit as a sheet of the page on which people label."""

from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path

from al_ray.apps.annotating.sheets import Sheet, answered_elsewhere, by_code, read_sheet_pairs
from al_ray.apps.audit.folder import KEY, STEM, AuditFolder
from al_ray.core.errors import BadFile

LETTER = "a-"


@dataclass(frozen=True)
class AuditSheets:
    """The one sheet of an audit."""

    path: Path

    def __post_init__(self) -> None:
        """Raise WrongFolder if the folder holds no audit."""
        folder = AuditFolder(self.path)
        if not (folder.of_matches or folder.of_clusters):
            folder.record()

    def new_sheets(self, known: Container[str]) -> Iterator[Sheet]:
        """Yield the sample."""
        if LETTER in known:
            return
        codes, _, drawn = AuditFolder(self.path).key()
        pairs = read_sheet_pairs(self.path / f"{STEM}.json")
        if [*pairs] != codes:
            raise BadFile(f"{self.path / STEM}.json holds other pairs than {KEY} beside it; restore both")
        elsewhere = answered_elsewhere(self.path, STEM, pairs)
        yield Sheet(LETTER, "audit", self.path, STEM, pairs, 0, by_code(codes, drawn.cosines), elsewhere)
