"""The model card: README.md with the metadata that the Hugging Face hub reads, filled from what is known of a model."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData

from al_ray.apps.exporting.check import describe_check
from al_ray.apps.exporting.facts import Facts, RunFacts
from al_ray.apps.exporting.folder import FOREST_GRAPH, NUMPY_CODE
from al_ray.apps.exporting.forest_graph import LIMIT, describe_forest_check
from al_ray.apps.exporting.int8 import describe_cost
from al_ray.apps.exporting.options import FOLDER
from al_ray.core.errors import BadFile
from al_ray.core.labels import MATCHER, REFERENCE
from al_ray.core.text_table import format_probability
from al_ray.encoders.prompts import Prompts
from al_ray.training.untrained_model import OUTCOME

UNKNOWN = "not known"
ENCODER = "A bi-encoder that scores whether two texts match, trained by al_ray from labelled pairs."
UNTRAINED = (
    "A pre-trained bi-encoder as it is: al_ray has not trained it, because its cosine ranked pairs at least as well as "
    "what labels made of it, or because it was asked for."
)
WITH_MATCHER = (
    "A matcher that gives the probability that two records match, trained by al_ray from labelled pairs, and the "
    "encoder of its candidates, which was not trained."
)
HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def make_card(facts: Facts, record: Mapping[str, Any], command: str) -> ModelCard:
    """Make the card of an export. record: the content of export.json. command: that made the folder.

    BadFile if figures of the run are damaged.
    """
    try:
        metadata, body = _metadata(facts, record), "\n".join(_body(facts, record, command))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadFile(f"the figures of {record['model']} cannot be read ({error!r}); restore its run folder") from error
    return ModelCard(f"---\n{metadata.to_yaml()}\n---\n\n{body}\n")


def _metadata(facts: Facts, record: Mapping[str, Any]) -> ModelCardData:
    run, results = facts.run, None
    if run is not None and run.evaluation is not None:
        results = [
            EvalResult(
                task_type="sentence-similarity", dataset_type=run.task, dataset_name=run.task, dataset_split="dev",
                metric_type="average_precision", metric_name="average precision over all pairs of dev",
                metric_value=float(run.evaluation["average_precision"]["value"]),
            )
        ]  # fmt: skip
    library = "sentence-transformers" if record["format"] == FOLDER else "onnx"
    is_on_hub = run is not None and HUB_NAME.fullmatch(run.encoder) and not Path(run.encoder).exists()
    return ModelCardData(
        license=record["licence"],
        library_name=library,
        pipeline_tag="sentence-similarity",
        tags=[library, "sentence-similarity", "feature-extraction", "entity-resolution", "al_ray"],
        base_model=run.encoder if run is not None and is_on_hub else None,
        model_name=_name(facts),
        eval_results=results,
    )


def _name(facts: Facts) -> str:
    return f"{facts.run.name}, round {facts.run.round}" if facts.run else f"model {facts.digest[:12]}"


def _body(facts: Facts, record: Mapping[str, Any], command: str) -> Iterator[str]:
    run = facts.run
    yield f"# {_name(facts)}"
    yield ""
    yield WITH_MATCHER if "matcher" in record else UNTRAINED if _is_untrained(facts.scorer) else ENCODER
    yield ""
    yield "```"
    yield command
    yield "```"
    yield from _section("Vectors", _of_vectors(record))
    if "matcher" in record:
        yield from _section("Matcher", _of_matcher(record["matcher"]))
    yield from _section("Data", _of_data(run))
    yield from _section("Labels", _of_labels(run))
    yield from _section("Which model of the run", _of_choice(facts.choice))
    yield from _section("Average precision on dev", _of_precision(run, record))
    yield from _section("Scores and thresholds", _of_scores(facts.scorer))
    yield from _section("Reliability of the probabilities", _of_reliability(facts.scorer))
    yield from _section("Limits", _of_limits(facts, record))
    yield from _section("Licences", _of_licences(run, record))


def _section(title: str, lines: Iterator[str]) -> Iterator[str]:
    yield from ("", f"## {title}", "")
    yield from lines


def _of_vectors(record: Mapping[str, Any]) -> Iterator[str]:
    yield f"- Dimensions: {record['dimension']}, unit length; the cosine is the inner product."
    yield f"- Maximum length: {record['max_length']} tokens; longer texts are truncated."
    yield f"- Pooling: {record['pooling']}."
    yield f"- Prompts: {Prompts(**record['prompts']).description}."
    if "check" in record:
        check = describe_check(record["check"])
        yield f"- Largest difference of the ONNX graph (opset {record['opset']}) from torch on {check}."


def _of_data(run: RunFacts | None) -> Iterator[str]:
    if run is None:
        yield f"Task, texts and splits: {UNKNOWN} (the model was exported from a copy outside of its run)."
        return
    made = f", made by `{run.prepared_by}`" if run.prepared_by else ""
    yield f"Task {run.task}{made}: pairs {'within one set' if run.symmetric else 'between two sets'} of texts."
    yield ""
    rows = [
        [split, *(f"{n[key]:,}" for key in ("left", "right", "pairs", "positives"))] for split, n in run.counts.items()
    ]
    yield from _table(("split", "left texts", "right texts", "pairs", "known matches"), rows)
    if run.labels_are == "partial":
        yield ""
        yield "The known matches are partial: a pair that is not known to match is unknown."


def _of_labels(run: RunFacts | None) -> Iterator[str]:
    if run is None:
        yield f"Number and source of the labels: {UNKNOWN}."
        return
    if not run.round:
        yield "None: this is the encoder as it was before the run."
        return
    yield f"Pairs were chosen by the strategy {run.strategy}."
    yield ""
    rows = [[by, *(f"{n[word]:,}" for word in ("yes", "no", "unsure"))] for by, n in run.labels.items()]
    yield from _table(("source", "yes", "no", "unsure"), rows)


def _of_choice(choice: Mapping[str, Any] | None) -> Iterator[str]:
    yield f"{UNKNOWN.capitalize()}." if choice is None else f"Model: {choice['words']}."


def _is_untrained(scorer: Mapping[str, Any]) -> bool:
    return scorer.get("outcome") == OUTCOME


def _of_precision(run: RunFacts | None, record: Mapping[str, Any]) -> Iterator[str]:
    evaluation, estimate = (None, None) if run is None else (run.evaluation, run.estimate)
    if evaluation is None and estimate is None:
        yield f"- {UNKNOWN.capitalize()}: " + (
            "there is no run." if run is None else "the run was not measured on dev."
        )
    if evaluation is not None:
        value, queries = evaluation["average_precision"], evaluation.get("average_precision_over_questions")
        counted = "every pair counted" if evaluation["exact"] else "estimated from a sample of pairs"
        interval = "" if evaluation["exact"] else f" (95%: {_percent(value['low'])} to {_percent(value['high'])})"
        yield f"- {_percent(value['value'])}{interval}, {counted}: {evaluation['total_pairs']:,} pairs, of which " + (
            f"{evaluation['positives']:,} match."
        )
        if queries:
            yield f"- 95% bootstrap interval over queries: {_percent(queries['low'])} to {_percent(queries['high'])}."
    if estimate is not None and estimate.average_precision is not None:
        ap = estimate.average_precision
        yield (
            f"- Among the {estimate.ranked:,} pairs of highest score, estimated from {estimate.labels:,} labels of "
            f"drawn pairs: {_percent(ap.value)} (95%: {_percent(ap.low)} to {_percent(ap.high)})."
        )
    if "int8" in record:
        yield f"- ONNX graphs, {describe_cost(record['int8'])}."


def _of_scores(scorer: Mapping[str, Any]) -> Iterator[str]:
    matched = bool(scorer.get("matcher"))
    a, fit = float(scorer.get("neighbourhood", 0)), scorer.get("recalibration") or scorer
    both = bool(scorer.get("both_sides"))
    of = f"(cosine - {a:g} h{f' - {a:g} k' if both else ''})" if a else "cosine"
    if matched:
        yield from _of_matcher_scores(scorer)
    elif _is_untrained(scorer):
        yield "The score is the cosine. p of `scorer.json` has the order of the cosines and was fitted to no label."
    else:
        rises = f"sigmoid({float(fit['weight']):.4f} {of} {float(fit['bias']):+.4f})"
        yield f"p = {_ceiling_factor(fit)}{rises} (`scorer.json`)."
    if a:
        yield ""
        yield (
            "h is the mean cosine of the left text with its 5 nearest among all right texts of the collection that is "
            "searched. It is computed from their vectors; only the number before it belongs to the model."
        )
    if a and both:
        yield (
            "k is the mean cosine of the right text with its 5 nearest among all left texts. In one set of texts both "
            "are of the other texts of the set."
        )
    yield ""
    thresholds = scorer.get("thresholds") or []
    if not thresholds:
        yield "No threshold was chosen."
        return
    rows = [
        [
            str(one["rule"]),
            "none reaches it" if one["cosine"] is None else f"{one.get('p') if matched else one['cosine']:.6f}",
            UNKNOWN if one.get("precision") is None else _with_interval(one["precision"]),
            UNKNOWN if one.get("recall") is None else _percent(_value(one["recall"])),
            str(one.get("split") or UNKNOWN),
        ]
        for one in thresholds
    ]
    yield from _table(
        ("rule", f"lowest {'p' if matched else 'score' if a else 'cosine'}", "precision (95%)", "recall", "chosen on"),
        rows,
    )


def _of_matcher(about: Mapping[str, Any]) -> Iterator[str]:
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


def _ceiling_factor(fit: Mapping[str, Any]) -> str:
    """Return the ceiling by which the sigmoid of a fit is multiplied, such as "0.8312 ", or nothing."""
    return f"{float(fit['ceiling']):.4f} " if "ceiling" in fit else ""


def _of_matcher_scores(scorer: Mapping[str, Any]) -> Iterator[str]:
    """Yield how p becomes a score. scorer: the content of scorer.json."""
    yield (
        "Candidates have the p of the matcher, from 0 to 1; within 0.000001 of it the cosine orders those of equal p. "
        "`scorer.json` has the fit of the score of two stages, which is 2 + p."
    )
    if (fit := scorer.get("recalibration")) is not None:
        yield ""
        yield (
            f"The probability of a match, fitted to drawn pairs: {_ceiling_factor(fit)}"
            f"sigmoid({float(fit['weight']):.4f} (2 + p) {float(fit['bias']):+.4f})."
        )


def _of_reliability(scorer: Mapping[str, Any]) -> Iterator[str]:
    found = scorer.get("recalibration") or scorer.get("calibration")
    if not found and _is_untrained(scorer):
        yield "There are none: the cosine ranks pairs, and no label was used."
        return
    if not found:
        yield "Not measured: p ranks pairs and is no probability, because the labelled pairs were chosen by a strategy."
        return
    if "recalibration" in scorer:
        yield f"Fitted to labels of pairs that were drawn at random ({found.get('source', 'audit')})."
    else:
        yield "p ranks pairs and is no probability: it was not fitted to the labels of dev by which it is checked."
    if found.get("calibration_error") is not None:
        yield f"Expected calibration error {float(found['calibration_error']):.3g}."
    rows = [
        [
            f"{format_probability(row['low'], 3)} to {format_probability(row['high'], 3)}",
            f"{row['weight']:,.0f}",
            format_probability(row["mean_p"], 3),
            _with_interval(row["share"]),
        ]
        for row in found.get("reliability") or []
    ]
    if rows:
        yield ""
        yield from _table(("p", "pairs", "mean p", "share of matches (95%)"), rows)


def _of_limits(facts: Facts, record: Mapping[str, Any]) -> Iterator[str]:
    run = facts.run
    where = "texts like those of its task" if run is None else f"texts like those of the task {run.task}"
    yield f"- The figures are of {where}, and of pairs of one pool. Of other texts they are {UNKNOWN}; label a sample."
    yield f"- A text is read up to {record['max_length']} tokens."
    yield f"- Languages of the texts: {UNKNOWN}. {_of_tokens(run)}"
    yield (
        "- Some texts are near to very many others (hubs). They can have high scores with texts that do not match them"
        + ("." if facts.scorer.get("neighbourhood") else "; the score of this model does not correct for that.")
    )
    if facts.scorer.get("neighbourhood"):
        yield "- Scores depend on the collection that is searched: with other right texts, thresholds do not hold."
    if run is not None and run.arithmetic == "bf16":
        yield "- The run computed in bf16, and this export computes in fp32: cosines are slightly different."


def _of_tokens(run: RunFacts | None) -> str:
    """Return what the encoder sees of the texts, in a sentence."""
    found = None if run is None else run.coverage
    if found is None:
        return f"Share of their tokens that the encoder does not know: {UNKNOWN}."
    return (
        f"The encoder does not know {found.share:.1%} of their tokens, and cannot tell {found.alike:,} of "
        f"{found.texts:,} texts from another one that reads differently. Texts of a script that its vocabulary lacks "
        "all look the same to it."
    )


def _of_licences(run: RunFacts | None, record: Mapping[str, Any]) -> Iterator[str]:
    encoder = UNKNOWN if run is None else f"{run.encoder}: {run.encoder_licence or UNKNOWN}"
    yield f"- This model: {record['licence'] or UNKNOWN}."
    yield f"- The encoder from which it was trained: {encoder}."
    yield f"- The texts and labels: {UNKNOWN}; a task does not record it."


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for row in (header, ["---"] * len(header), *rows):
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def _percent(share: float) -> str:
    return f"{100 * float(share):.1f}%"


def _value(figure: Any) -> float:
    return float(figure["value"] if isinstance(figure, Mapping) else figure)


def _with_interval(figure: Mapping[str, Any]) -> str:
    return f"{_percent(figure['value'])} ({_percent(figure['low'])} to {_percent(figure['high'])})"
