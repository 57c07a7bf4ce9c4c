"""The pages as HTML: what each shows, and its template. All texts are escaped."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from al_ray.apps.annotating.agreement import disputed, people, sheet_agreement
from al_ray.apps.annotating.annotator import Annotator, RunStatus
from al_ray.apps.annotating.labelling import Labelling
from al_ray.apps.annotating.sheets import Fields, SheetPair
from al_ray.core.labels import WORDS
from al_ray.core.scorer import CANDIDATE
from al_ray.core.text import Part, differences, share_words
from al_ray.matcher.waterfall import waterfall

FOLDER = Path(__file__).parent / "templates"
MOST_DISPUTED = 200
"""Number of disputed pairs of a sheet on one page."""


@dataclass(frozen=True)
class ShownField:
    """A field of a text, with the words marked that the other text lacks."""

    title: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class ShownSides:
    """Both texts of a pair. rows: (left, right) field by field if both have the same fields, else one row."""

    rows: tuple[tuple[tuple[ShownField, ...], tuple[ShownField, ...]], ...]
    shares_words: bool


@cache
def environment() -> Environment:
    """Return the templates. An undefined name is an error."""
    pages = Environment(
        loader=FileSystemLoader(FOLDER), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    pages.filters |= {"number": lambda number: f"{number:,}", "word": WORDS.get}
    return pages


def render(template: str, **values: Any) -> str:
    """Return a page."""
    return environment().get_template(f"{template}.html").render(**values)


def show_sides(pair: SheetPair) -> ShownSides:
    """Return the texts of a pair, field beside field where both have the same fields."""
    one, other = (" ".join(text for _, text in fields) for fields in (pair.left, pair.right))
    sharing = share_words(one, other)
    left, right = _shown(pair.left, other, sharing), _shown(pair.right, one, sharing)
    if [field.title for field in left] == [field.title for field in right]:
        return ShownSides(tuple(((here,), (there,)) for here, there in zip(left, right, strict=True)), sharing)
    return ShownSides(((left, right),), sharing)


def _shown(fields: Fields, other: str, sharing: bool) -> tuple[ShownField, ...]:
    return tuple(ShownField(title, differences(text, other, sharing)) for title, text in fields)


def pair_page(labelling: Labelling, code: str, person: str, **values: Any) -> str:
    """Return the page of a pair; after the person's answer with the score of the pair on demand."""
    own, sheet = labelling.page.of(code).get(person), labelling.sheet
    why = None if own is None else sheet.why.get(code)
    return render(
        "pair",
        code=code,
        sides=show_sides(sheet.pairs[code]),
        own=own,
        score=None if own is None else score_words(sheet.cosines.get(code)),
        why=None if why is None else waterfall(why),
        title=sheet.title,
        progress=labelling.progress,
        pace=labelling.pace(person),
        person=person,
        **values,
    )


def score_words(score: float | None) -> str | None:
    """Return what is shown of the score of a pair; of a candidate that a matcher scored it is p."""
    if score is None:
        return None
    return f"p {score - CANDIDATE:.3f}" if score >= CANDIDATE else f"Cosine {score:.3f}"


def waiting_page(annotator: Annotator, person: str, **values: Any) -> str:
    """Return the page for a person for whom there is no pair now."""
    left, second = pairs_left(annotator)
    status, holders = annotator.status(), {name for one in annotator.open for name in one.holders(person)}
    return render(
        "waiting", person=person, status=status, second=second, left=left, disputes=count_disputes(annotator),
        state=waiting_state(annotator, status), holders=sorted(holders),
        lease=annotator.options.lease_minutes, **values,
    )  # fmt: skip


def pairs_left(annotator: Annotator) -> tuple[int, int]:
    """Return how many pairs need an answer, and how many of these have the first of two."""
    progress = [one.progress for one in annotator.open]
    return sum(one.pairs - one.complete for one in progress), sum(one.second for one in progress)


def waiting_state(annotator: Annotator, status: RunStatus) -> str:
    """Return what the waiting page shows beside the stage of the run: when it changes, the page is loaded again."""
    return json.dumps([*pairs_left(annotator), status.ended, status.command, len(status.rounds)])


def count_disputes(annotator: Annotator) -> int:
    """Return how many pairs people disagree on that nobody has settled."""
    return sum(
        code not in one.page.settled for one in annotator.labellings.values() for code in disputed(one.page)
    )  # fmt: skip


def disputes_page(annotator: Annotator, person: str, **values: Any) -> str:
    """Return the list of the pairs on which people disagree, and of those on which a language model differs."""
    sheets = list[tuple[str, list[dict[str, Any]], int]]()
    for one in annotator.labellings.values():
        by_model = one.by_model()
        if codes := list(dict.fromkeys([*disputed(one.page), *by_model])):
            shown = [_dispute(one, code, by_model.get(code)) for code in codes[:MOST_DISPUTED]]
            sheets.append((one.sheet.title, shown, len(codes)))
    return render("disputes", sheets=sheets, person=person, **values)


def _dispute(labelling: Labelling, code: str, by_model: str | None) -> dict[str, Any]:
    page = labelling.page
    answers = sorted(page.of(code).values(), key=lambda answer: answer.number)
    sides = show_sides(labelling.sheet.pairs[code])
    own = code not in labelling.sheet.elsewhere
    return {
        "code": code, "sides": sides, "answers": answers, "settled": page.settled.get(code), "model": by_model,
        "on_page": own,
    }  # fmt: skip


def progress_page(annotator: Annotator, person: str, **values: Any) -> str:
    """Return how far each sheet is, who has answered, and how far they agree."""
    sheets: Sequence[Labelling] = list(annotator.labellings.values())
    seed = sheets[0].sheet.seed if sheets else 0
    rows = [(one.sheet.title, one.progress, sheet_agreement(one.page, seed), one.sheet.is_final) for one in sheets]
    return render(
        "progress", rows=rows, people=people((one.page for one in sheets), seed), person=person,
        status=annotator.status(), disputes=count_disputes(annotator), **values,
    )  # fmt: skip
