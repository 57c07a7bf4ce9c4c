"""The labels that people gave to the pairs of an audit."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from al_ray.apps.audit.folder import STEM
from al_ray.core.errors import BadFile
from al_ray.core.labels import OPEN
from al_ray.core.scorer import Labels
from al_ray.oracles.answer_files import answer_paths, read_answer_files


def read_labels(folder: Path, sheet: Path | None, codes: Sequence[str], ids: Sequence[tuple[str, str]]) -> Labels:
    """Read the labels (n,) of the pairs of an audit with these (n,) codes and ids; BadFile if none is answered.

    sheet: the sheet, or an export of Label Studio; both files of the folder if None.
    """
    files = [sheet] if sheet is not None else answer_paths(folder, STEM)
    labels: Labels = read_answer_files(files, [*codes], [*ids]) if codes else np.empty(0, dtype=np.uint8)
    if len(codes) and (labels == OPEN).all():
        raise BadFile(
            f"{files[0]} answers none of the {len(codes):,} pairs; fill its column label with yes, no or unsure"
        )
    return labels
