"""An audit with its labels, and the scorer.json of the audited round, which it may calibrate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from al_ray.apps.audit.calibration import choose_threshold, format_bins, format_recalibration, format_threshold
from al_ray.apps.audit.folder import AuditFolder, Record, band_audit
from al_ray.apps.audit.labels import read_labels, read_two_answers
from al_ray.apps.audit.promises import choose_promised, format_promise, second_draw_of
from al_ray.core.errors import BadOption
from al_ray.core.rng import generator
from al_ray.core.scorer import Labels, Scorer
from al_ray.metrics.audit.drawn_pairs import DrawnPairs
from al_ray.metrics.audit.label_errors import TwoAnswers
from al_ray.metrics.audit.recalibration import recalibration, reliability_bins
from al_ray.metrics.audit.score_bands import BandAudit
from al_ray.metrics.thresholds import Rule
from al_ray.runs.run_folder import RunFolder
from al_ray.runs.scorer_evidence import replaced_thresholds
from al_ray.storage.uri import StoragePath


@dataclass(frozen=True)
class LabelledAudit:
    """The folder, the record and the drawn pairs of an audit, and the labels (n,) of the pairs.

    answers: how often two people agreed, where the labels are those of the page and enough pairs have two answers.
    """

    path: Path
    record: Record
    pairs: DrawnPairs
    labels: Labels
    answers: TwoAnswers | None = None

    @property
    def bands(self) -> BandAudit:
        """Return the bands of an audit by score with the labels, and with the answers of the language model, if any."""
        folder = AuditFolder(self.path)
        if self.record.asked.oracle:
            first = folder.first()
            codes, _, _ = folder.key()
            labels = first.labels(codes, self.labels)
            return band_audit(self.record, first.drawn, folder.scored(), labels, first.answers)
        return band_audit(self.record, self.pairs, folder.scored(), self.labels)


def read_labelled(path: Path, sheet: Path | None, by_score: bool) -> LabelledAudit:
    """Read an audit and its labels; by_score: whether options are given that only an audit by score has."""
    audit = AuditFolder(path)
    record, (codes, ids, pairs) = audit.record(), audit.key()
    if by_score and not record.asked.by_score:
        raise BadOption(
            "`at_cosine`, `at_p`, `threshold_for` and `update_scorer` go with audits by score, and "
            f"{path} is not one; leave them out"
        )
    labels = read_labels(path, sheet, codes, ids)
    # How often people differ says nothing yet of the errors of people in cells.
    two = sheet is None and not record.asked.oracle
    return LabelledAudit(path, record, pairs, labels, read_two_answers(path, labels) if two else None)


def calibrate(
    audit: LabelledAudit, bands: BandAudit, run: RunFolder, scorer: Scorer | None, rules: Sequence[Rule]
) -> tuple[list[str], dict[str, Any], StoragePath]:
    """Write a fitted scorer and chosen thresholds to scorer.json.

    Returns them as lines and as part of estimate.json, and the path of scorer.json.
    """
    record, seed, cosines = audit.record, audit.record.asked.seed, audit.pairs.cosines
    lines, evidence = list[str](), dict[str, dict[str, Any]]()
    if scorer is not None:
        drawn = bands.without_known
        bins = reliability_bins(drawn, scorer, cosines, generator(seed, "audit-recalibration"))
        evidence = {"recalibration": recalibration(drawn, "audit", record.asked.split, scorer, bins)}
        lines = ["", *format_recalibration(evidence["recalibration"], record), format_bins("p", bins)]
    chosen, told = _choose(audit, bands, run, rules)
    path = run.round(record.asked.round) / "model" / "scorer.json"
    told += [_replaces(one, record.scorer) for one in replaced_thresholds(path, chosen)]
    run.keep_calibration(record.asked.round, evidence, chosen)
    return [*lines, *told], {**evidence, "chosen_thresholds": chosen}, path


def _replaces(earlier: Mapping[str, Any], scorer: Scorer | None) -> str:
    """Say which threshold gives way."""
    cosine = float(earlier["cosine"])
    words = f"cosine >= {cosine:.6f}" if scorer is None else scorer.threshold_words(cosine)
    return f"{earlier['rule']}: before it was {words}, which is replaced; to have that again, estimate its audit again"


def _choose(
    audit: LabelledAudit, bands: BandAudit, run: RunFolder, rules: Sequence[Rule]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Choose the thresholds of rules, and format them; BadOption if one cannot be promised."""
    record, chosen, lines = audit.record, list[dict[str, Any]](), list[str]()
    rng = generator(record.asked.seed, "audit-threshold")
    for rule in rules:
        if rule.guarantee is None:
            chosen.append(choose_threshold(bands, record, rule, rng))
            lines.append(format_threshold(chosen[-1], record.scorer))
            continue
        last = record.asked.round == run.last
        second_draw = second_draw_of(str(run.path), str(audit.path), record, rule, last)
        chosen.append(choose_promised(bands, record, rule, second_draw))
        lines += format_promise(chosen[-1], record.scorer, second_draw)
    return chosen, lines
