"""What the model card says of a matcher."""

from collections.abc import Iterator, Mapping
from typing import Any

from al_ray.apps.exporting.folder import FOREST_GRAPH, NUMPY_CODE
from al_ray.apps.exporting.forest_graph import LIMIT, describe_forest_check
from al_ray.core.labels import MATCHER, REFERENCE


def matcher_lines(about: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a matcher is, what it compares, and what these files leave out. about: `matcher` of export.json."""
    graph = f", or by `{FOREST_GRAPH}` in float32" if "check" in about else ""
    yield f"- A forest of {about['trees']:,} trees (`{MATCHER}`). p of a pair comes from its comparisons by"
    yield f"  `{NUMPY_CODE}` (numpy, the same bits as al_ray){graph}."
    if "check" in about:
        check = describe_forest_check(about["check"])
        yield f"- Largest difference of p of the ONNX graph from al_ray on {check}; more than {LIMIT:g} is refused."
    for side, fields in about["fields"].items():
        words = ", ".join(f"{name} ({kind})" for name, kind in fields.items()) or "one text"
        yield f"- Fields of {'the records' if about['symmetric'] else f'{side} records'}: {words}."
    yield f"- Frequencies of values, words and 3-grams, by which records are compared: `{REFERENCE}`."
    counts = about["candidates"]
    yield (
        f"- **Not in these files**: finding candidates, and comparing records. A candidate is a pair of a left record "
        f"with its {counts['cosine']} nearest by cosine or {counts['trigrams']} by character 3-grams, or of a right "
        f"one with its {counts['of_right']} nearest by either; every other pair is no match. al_ray does both: "
        "`al_ray.load_matcher` for records in memory, `al-ray match` for tables."
    )
    yield f"- Comparisons, in the order of features ({len(about['comparisons'])}):"
    yield ""
    yield from (f"  {number}. {name}" for number, name in enumerate(about["comparisons"]))


def ceiling_factor(fit: Mapping[str, Any]) -> str:
    """Return the ceiling by which the sigmoid of a fit is multiplied, such as "0.8312 ", or nothing."""
    return f"{float(fit['ceiling']):.4f} " if "ceiling" in fit else ""


def matcher_scores(scorer: Mapping[str, Any]) -> Iterator[str]:
    """Yield how p becomes a score. scorer: the content of scorer.json."""
    yield (
        "Candidates have the p of the matcher, from 0 to 1; within 0.000001 of it the cosine orders those of equal p. "
        "`scorer.json` has the fit of the score of two stages, which is 2 + p."
    )
    if (fit := scorer.get("recalibration")) is not None:
        yield ""
        yield (
            f"The probability of a match, fitted to drawn pairs: {ceiling_factor(fit)}"
            f"sigmoid({float(fit['weight']):.4f} (2 + p) {float(fit['bias']):+.4f})."
        )
