"""The labels that people gave to the pairs of an audit."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from al_ray.apps.audit.folder import STEM
from al_ray.core.errors import BadFile
from al_ray.core.labels import NO, OPEN, UNSURE, YES
from al_ray.core.scorer import Labels
from al_ray.metrics.audit.label_errors import TwoAnswers
from al_ray.oracles.answer_files import answer_paths, read_answer_files
from al_ray.oracles.page_log import log_path, read_page_answers

LEAST = 20
"""Pairs with two answers below which the share of wrong labels is as good as unknown."""


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


def read_two_answers(folder: Path, labels: Labels) -> TwoAnswers | None:
    """Count on the page of an audit the pairs that were drawn for two people (--overlap), and had yes or no from both.

    labels: (n,) of the audit. None for fewer than LEAST. None too where each yes is to be confirmed: people then err
    less on pairs labelled yes than on others.
    """
    page = read_page_answers(log_path(folder, STEM))
    both = [sorted(page.of(code).values(), key=lambda one: one.first)[:2] for code in page.doubled]
    pairs = [{one.label for one in two} for two in both if len(two) > 1 and all(one.label != UNSURE for one in two)]
    if len(pairs) < LEAST or page.confirm:
        return None
    return TwoAnswers(len(pairs), sum(len(one) == 1 for one in pairs), int(np.isin(labels, (NO, YES)).sum()))
