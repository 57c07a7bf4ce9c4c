"""What is added to the scorer.json of a round: evidence of its scores, w and b that were fitted again, thresholds."""

from collections.abc import Mapping, Sequence
from typing import Any

from al_ray.core.errors import BadFile
from al_ray.core.scorer import Scorer
from al_ray.storage.files import read_json, write_root
from al_ray.storage.uri import StoragePath


def add_evidence(
    path: StoragePath, evidence: Mapping[str, Mapping[str, Any]], thresholds: Sequence[Mapping[str, Any]]
) -> None:
    """Write evidence and thresholds into a scorer.json; other fields do not change.

    evidence: "calibration", the reliability of the trained w and b; "recalibration", w and b that were fitted again
    with their reliability; either, both or none. It replaces earlier evidence of the same name, and a threshold an
    earlier one that was chosen by the same rule.
    """
    content = read_json(path, ["digest"])
    rules = {one["rule"] for one in thresholds}
    others = [one for one in _thresholds(path, content) if one["rule"] not in rules]
    write_root(path, {**content, **evidence, "thresholds": [*others, *thresholds]})


def replaced_thresholds(path: StoragePath, thresholds: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the thresholds of a scorer.json that would give way to others of the same rule with another score."""
    scores = {one["rule"]: one["cosine"] for one in thresholds}
    stored = _thresholds(path, read_json(path, ["digest"]))
    return [one for one in stored if one["rule"] in scores and one.get("cosine") not in (None, scores[one["rule"]])]


def _thresholds(path: StoragePath, content: Mapping[str, Any]) -> list[dict[str, Any]]:
    stored = content.get("thresholds", [])
    if not isinstance(stored, list) or not all(isinstance(one, dict) and "rule" in one for one in stored):
        raise BadFile(f"{path}: the field thresholds is not a list of thresholds; restore it")
    return stored


def replace_recalibration(path: StoragePath, source: str, recalibration: Mapping[str, Any] | None) -> None:
    """Write the recalibration from a source of labels into a scorer.json; None removes the earlier one of this source.

    One of another source, such as an audit, is not replaced. Without a scorer.json nothing is written.
    """
    earlier = read_json(path, ["digest"]).get("recalibration") if path.exists() else None
    if isinstance(earlier, dict) and earlier.get("source") != source:
        return
    if recalibration is not None and path.exists():
        add_evidence(path, {"recalibration": recalibration}, [])
    elif earlier is not None:
        content = read_json(path, ["digest"])
        write_root(path, {name: value for name, value in content.items() if name != "recalibration"})


def calibrated_scorer(path: StoragePath, trained: Scorer) -> tuple[Scorer, str | None]:
    """Return what a scorer.json has of w and b fitted to drawn pairs, and the source of labels; else `trained`, None.

    The field calibration, which `evaluate --threshold-for` writes, is the reliability of the trained scorer on dev. It
    shows how far p is from a probability, and makes it none.
    """
    content = read_json(path, [])
    recalibration: dict[str, Any] | None = content.get("recalibration")
    if recalibration is None:
        return trained, None
    try:
        weight, bias = float(recalibration["weight"]), float(recalibration["bias"])
        # Of the score itself: p of a matcher is fitted as a score.
        ranks = {"neighbourhood": trained.neighbourhood, "both_sides": trained.both_sides}
        # Earlier versions knew no ceiling.
        scorer = Scorer(weight, bias, **ranks, ceiling=float(recalibration.get("ceiling", 1.0)))
        if not 0 < scorer.ceiling <= 1:
            raise ValueError(f"a ceiling of {scorer.ceiling}")
        return scorer, str(recalibration["source"])
    except (KeyError, TypeError, ValueError) as error:
        raise BadFile(f"{path} has a damaged calibration ({error!r}); restore it") from error
