"""Labels of drawn dev pairs, round by round: how good each round's model is, where not all matches of dev are known.

dev-labels/round-NNN/scores.parquet    cosine, label: the pairs of highest score under the model of the round (label
                                       null), and those labelled before
dev-labels/round-NNN/drawn.parquet     rank, stratum: of each pair of the batch
dev-labels/round-NNN/batch.parquet     and answers-KKKKK.parquet, labels.parquet: as in runs/ledger.py
dev-labels/round-NNN/estimate.json     what the labels say of the model

The pairs of a round are drawn by the bands of score of its model (metrics/audit/score_bands.py), among the pairs of dev
that have no label yet. Those that have one, stated in the task or of an earlier round, count with it: so every round's
figures rest on all labels so far, and on chances that are known. To the same labels w and b of the round's scorer are
fitted again (metrics/audit/recalibration.py), for its scorer.json; the run does not use them.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pyarrow as pa

from al_ray.core.errors import BadFile
from al_ray.core.labels import NO, UNSURE, YES, Batch, Model
from al_ray.core.pairs import Keys, Pairs
from al_ray.core.rng import generator
from al_ray.core.scorer import Floats, Labels, Scorer
from al_ray.core.task import Task
from al_ray.metrics.audit.drawn_pairs import BandScores, DrawnPairs
from al_ray.metrics.audit.ranking_quality import average_precision
from al_ray.metrics.audit.recalibration import recalibration, refit_to_bands, reliability_bins
from al_ray.metrics.audit.score_bands import BandAudit
from al_ray.metrics.average_precision import Estimate
from al_ray.runs.ledger import Ledger
from al_ray.runs.ledger_files import open_pairs
from al_ray.runs.scorer_evidence import replace_recalibration
from al_ray.storage.files import make_table, read_json, read_parquet, write_json, write_parquet
from al_ray.storage.uri import StoragePath

SPLIT, SOURCE, ESTIMATE = "dev", "dev-labels", "estimate.json"
SCORED = pa.schema([("cosine", pa.float64()), ("label", pa.uint8())])
DRAWN = pa.schema([("rank", pa.int64()), ("stratum", pa.string())])


def round_of(run: StoragePath, number: int) -> StoragePath:
    """Return the folder of a round's dev labels in a run folder."""
    return run / SOURCE / f"round-{number:03d}"


def missing_labels(run: StoragePath, number: int) -> int | None:
    """Return how many of a round's drawn dev pairs have no label; None if the round has its estimate."""
    folder = round_of(run, number)
    if (folder / ESTIMATE).exists():
        return None
    drawn, sealed = (folder / "batch.parquet").exists(), (folder / "labels.parquet").exists()
    return open_pairs(folder) if drawn and not sealed else 0


def write_band_scores(path: StoragePath, scores: BandScores) -> None:
    """Write the scores of bands."""
    label = np.concatenate([np.full(len(scores.cosines), UNSURE, dtype=np.uint8), scores.known_labels])
    cosines = np.concatenate([scores.cosines, scores.known_cosines])
    ranked = np.arange(len(label)) < len(scores.cosines)
    write_parquet(path, make_table(SCORED, (cosines, pa.array(label, mask=ranked))))


def read_band_scores(path: StoragePath) -> BandScores:
    """Read the scores of bands; BadFile if they are out of order."""
    table = read_parquet(path, SCORED, lacking=["label"])
    cosines, known = table["cosine"].to_numpy(), table["label"].is_valid().to_numpy()
    labels = table["label"].drop_null().to_numpy().astype(np.uint8)
    if (np.diff(cosines[~known]) > 0).any():
        raise BadFile(f"{path} is out of order; restore it")
    return BandScores(cosines[~known], cosines[known], labels)


class DevLabels:
    """Reads and writes the labels of drawn dev pairs of a run."""

    def __init__(self, run: StoragePath, task: Task) -> None:
        """Use the folder of a run of a task."""
        self.run, self.ledger, self.task = run, Ledger(run / SOURCE, task, SPLIT), task

    @property
    def top(self) -> int:
        """Return how many pairs of highest score are divided into bands: a power of ten, one or more a left text."""
        return min(max(1000, 10 ** math.ceil(math.log10(len(self.task.split(SPLIT).space.left)))), 100_000)

    def known(self, number: int) -> tuple[Keys, Labels]:
        """Return sorted keys and labels of the dev pairs that were labelled before round `number`.

        Labels of people replace those stated in the task. They are NO, YES or UNSURE: no pair is asked again.
        """
        split, before = self.task.split(SPLIT), self.ledger.labelled(min(number - 1, self.ledger.rounds))
        keys = split.space.keys(np.concatenate([before.pairs[::-1], split.positives, split.stated_negatives]))
        stated = np.repeat(np.array([YES, NO], np.uint8), [len(split.positives), len(split.stated_negatives)])
        keys, first = np.unique(keys, return_index=True)
        return keys, np.concatenate([before.labels[::-1], stated])[first]

    def add(self, number: int, drawn: DrawnPairs, scores: BandScores) -> None:
        """Write the pairs drawn for a round, the batch last: from then on they are asked."""
        # Rounds before the first one with such labels have a batch of no pairs.
        for earlier in range(self.ledger.rounds + 1, number):
            self.ledger.add_batch(earlier, Batch(drawn.pairs[:0], drawn.cosines[:0], SOURCE))
            self.ledger.seal(earlier)
        folder = self.ledger.round(number)
        write_band_scores(folder / "scores.parquet", scores)
        write_parquet(folder / "drawn.parquet", make_table(DRAWN, (drawn.ranks, drawn.strata)))
        self.ledger.add_batch(number, Batch(drawn.pairs, drawn.cosines, SOURCE))

    def audit(self, number: int) -> tuple[BandAudit, Floats]:
        """Return the bands of a round with all labels, and the cosines (n,) of its drawn pairs."""
        folder, batch = self.ledger.round(number), self.ledger.batch(number)
        assert batch is not None
        scores, drawn = read_band_scores(folder / "scores.parquet"), read_parquet(folder / "drawn.parquet", DRAWN)
        keys, labels = self.known(number)
        ranks, total = drawn["rank"].to_numpy(), self.task.split(SPLIT).space.total - len(keys)
        if (
            len(ranks) != len(batch.pairs)
            or len(keys) != len(scores.known_labels)
            or ((ranks < 0) | (ranks > min(len(scores.cosines), total - 1))).any()
        ):
            raise BadFile(f"{folder}: drawn.parquet, scores.parquet and batch.parquet do not agree; restore all three")
        # Labels may have been corrected since the pairs were drawn.
        scores = replace(scores, known_labels=labels).decided
        known = scores.known_cosines, scores.known_labels
        return BandAudit(scores.cosines, total, *known, ranks, self.ledger.labels(number), self.top), batch.cosines

    def estimate(self, number: int, scorer: Scorer, seed: int) -> dict[str, Any]:
        """Estimate how good the model of a round is from all labels so far, and write it to estimate.json.

        Also write w and b fitted to these labels to the scorer.json of the round; nothing if they determine none.
        """
        audit, cosines = self.audit(number)
        of_ranking, of_boundary, of_bins = generator(seed, "dev-labels", number).spawn(3)
        reach, over_all = (average_precision(audit, cosines, of_ranking, every) for every in (False, True))
        rest = audit.part(audit.bands[-1], audit.bands[-1]) if audit.total > audit.reach else None
        at = audit.at(scorer.boundary, of_boundary) if _within(audit, scorer) else None
        figures: dict[str, Any] = {
            "round": number,
            "labels": len(self.ledger.labelled(number)),
            "known": len(audit.known_labels),
            "ranked": audit.reach,
            "total_pairs": self.task.split(SPLIT).space.total,
            "average_precision_of_ranked": _as_dict(reach),
            # Where no match of the rest was drawn, only an interval is known.
            "average_precision": _as_dict(over_all, rest is None or rest.matches > 0),
            "boundary": scorer.shown(scorer.boundary) if at is not None else None,
            "precision_at_boundary": _as_dict(at and at.precision),
            "recall_of_ranked_at_boundary": _as_dict(at and at.recall_of_reach),
            "recall_at_boundary": _as_dict(at and at.recall),
        }
        path = self.run / self.ledger.round(number).name / "model" / "scorer.json"
        replace_recalibration(path, SOURCE, _recalibrated(audit, cosines, of_bins))
        write_json(self.ledger.round(number) / "estimate.json", figures)
        return figures

    def estimated(self, number: int) -> bool:
        """Return whether a round has an estimate."""
        return (self.ledger.round(number) / ESTIMATE).exists()

    def estimate_missing(self, model: Callable[[int], Model], seed: int) -> list[dict[str, Any]]:
        """Write the estimates that rounds with all their labels lack, and return them; model: that of a round."""
        figures = list[dict[str, Any]]()
        for number in range(1, self.ledger.rounds + 1):
            drawn = self.ledger.sealed(number) and (self.ledger.round(number) / "drawn.parquet").exists()
            if drawn and not self.estimated(number):
                scorer = model(number).scorer
                assert scorer is not None
                figures.append(self.estimate(number, scorer, seed))
        return figures

    def correct(self, pairs: Pairs, labels: Labels, model: Callable[[int], Model], seed: int) -> int:
        """Correct labels as Ledger.correct does, and rewrite all estimates; see `estimate_missing`."""
        # Removed first, so that a crash leaves no estimate of labels that were wrong.
        for number in filter(self.estimated, range(1, self.ledger.rounds + 1)):
            (self.ledger.round(number) / ESTIMATE).unlink()
        try:
            return self.ledger.correct(pairs, labels)
        finally:
            self.estimate_missing(model, seed)

    def estimates(self) -> list[Mapping[str, Any]]:
        """Return the estimates of all rounds that have one, in order."""
        rounds = filter(self.estimated, range(1, self.ledger.rounds + 1))
        return [read_json(self.ledger.round(number) / ESTIMATE, ["round"]) for number in rounds]


def format_estimate(figures: Mapping[str, Any]) -> str:
    """Format an estimate as a line: shares with 95% intervals, those over all pairs as intervals alone."""
    texts = [
        f"round {figures['round']}: {figures['labels']:,} dev labels drawn",
        f"average precision of the {figures['ranked']:,} pairs of highest score and {figures['known']:,} known before "
        f"{_percent(figures['average_precision_of_ranked'])}, over all pairs {_range(figures['average_precision'])}",
    ]
    if figures["boundary"] is not None:
        texts.append(
            f"at the boundary precision {_percent(figures['precision_at_boundary'])}, "
            f"recall {_range(figures['recall_at_boundary'])}"
        )
    return "; ".join(texts)


def _percent(share: Mapping[str, float] | None) -> str:
    return "unknown" if share is None else "{value:.1%} ({low:.1%} to {high:.1%})".format(**share)


def _range(share: Mapping[str, float] | None) -> str:
    return "unknown" if share is None else "{low:.1%} to {high:.1%}".format(**share)


def _recalibrated(audit: BandAudit, cosines: Floats, rng: np.random.Generator) -> dict[str, Any] | None:
    """Return w and b fitted to the labels of a round with their reliability; None if the labels determine none.

    If no "no" ranks above a "yes", they do not say how steeply p rises: in simulations of 15 labels 55 to 83% of the
    pairs matched to which such a fit gave p >= 0.9.
    """
    scorer = refit_to_bands(audit, cosines)
    if scorer is None or scorer.outcome == "separable":
        return None
    return recalibration(audit, SOURCE, SPLIT, scorer, reliability_bins(audit, scorer, cosines, rng))


def _within(audit: BandAudit, scorer: Scorer) -> bool:
    """Return whether all pairs at or above the boundary are ranked."""
    return math.isfinite(scorer.boundary) and audit.reaches(scorer.boundary)


def _as_dict(estimate: Estimate | None, known: bool = True) -> dict[str, Any] | None:
    return None if estimate is None else {**asdict(estimate), **({} if known else {"value": None})}
