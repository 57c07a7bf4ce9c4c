"""Audit the matches that jobs.match wrote: draw some of them for people to label, and estimate their precision."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from al_ray.apps.audit.folder import KEY, RECORD, STEM, AuditFolder, MatchAuditOptions, MatchRecord
from al_ray.apps.audit.labels import read_labels
from al_ray.apps.matching.written import FILE, WrittenMatches, digest_of, read_match_texts, read_matches
from al_ray.core.errors import BadFile, BadOption, WrongFolder
from al_ray.core.naming import Code, call, option
from al_ray.core.rng import generator
from al_ray.core.scorer import Labels
from al_ray.metrics.audit.drawn_pairs import DrawnPairs
from al_ray.metrics.audit.match_precision import BandAnswers, count_answers_by_band, match_bands, match_precision
from al_ray.metrics.audit.score_bands import draw_ranks
from al_ray.metrics.average_precision import Estimate, Ints
from al_ray.oracles.people import write_sheets


@dataclass(frozen=True)
class MatchSample:
    """The record of an audit of matches, and whether the audit is new."""

    record: MatchRecord
    written: bool


@dataclass(frozen=True)
class LabelledMatches:
    """An audit of matches with the labels (n,) of those drawn, and their places (n,) among the model's matches."""

    record: MatchRecord
    places: Ints
    labels: Labels

    @property
    def answers(self) -> tuple[BandAnswers, ...]:
        """Return how many of each band were answered yes and no."""
        return count_answers_by_band(self.record.bands, self.places, self.labels)

    @property
    def shares(self) -> list[Estimate | None]:
        """Estimate the precision in each band."""
        return [self._precision(slice(band, band + 1)) for band in range(len(self.record.bands))]

    @property
    def cumulative(self) -> list[Estimate | None]:
        """Estimate the precision of all matches with at least the lowest score of each band."""
        return [self._precision(slice(band + 1)) for band in range(len(self.record.bands))]

    def _precision(self, bands: slice) -> Estimate | None:
        # A fresh generator, so that a figure depends on nothing else that is printed.
        return match_precision(self.answers[bands], generator(self.record.asked.seed, "audit-estimate"))


def sample_matches(matches: Path, budget: int, seed: int, out: Path) -> MatchSample:
    """Draw matches that the model decided, and write their sheets, unless the folder holds this audit.

    Sheets are never overwritten.
    """
    if any((out / name).exists() for name in (FILE, "config.json", "task.json")):
        raise BadOption(f"{option('out', out)} holds matches, a run or a task; give the audit a folder of its own")
    written, folder = read_matches(matches), AuditFolder(out)
    if not len(written.by_model):
        raise BadOption(f"no match in {matches} was decided by the model, so there is nothing to label")
    if folder.of_matches and folder.match_record().asked.matches != written.digest:
        raise WrongFolder(
            f"{matches} holds other matches than those that {out} was drawn from; give another `out`, or `matches`"
        )
    options = MatchAuditOptions(budget, seed, written.digest)
    exists = folder.holds(options)
    if not exists:
        _draw(written, options, folder)
    codes, _, drawn = folder.key()
    task, pairs = read_match_texts(matches, written.by_model[drawn.ranks])
    write_sheets(out, STEM, codes, pairs, task)
    return MatchSample(folder.match_record(), not exists)


def _draw(matches: WrittenMatches, options: MatchAuditOptions, folder: AuditFolder) -> None:
    """Draw from bands of score, shuffle, and write the key."""
    by_model = matches.by_model
    bands = match_bands(matches.scores[by_model], options.budget)
    ranks = [
        draw_ranks((band.start, band.stop), band.drawn, generator(options.seed, f"audit-matches-{band.start}"))
        for band in bands
    ]
    places = by_model[np.concatenate(ranks)]
    names = tuple(f"{band.start + 1}-{band.stop}" for band in bands for _ in range(band.drawn))
    task, pairs = read_match_texts(matches.folder, places)
    drawn = DrawnPairs(pairs, names, np.concatenate(ranks), matches.cosines[places])
    by_label = int(matches.by_label.sum())
    record = MatchRecord(options, str(matches.folder.resolve()), matches.rule, by_label, bands)
    folder.keep(record, drawn.shuffled(generator(options.seed, "audit-order")), None, task)


def read_labelled_matches(path: Path, sheet: Path | None) -> LabelledMatches:
    """Read an audit of matches with its labels; WrongFolder if the matches were replaced since it was drawn."""
    folder = AuditFolder(path)
    record, (codes, ids, drawn) = folder.match_record(), folder.key()
    _check_same_matches(path, record)
    for band in record.bands:
        own = (drawn.ranks >= band.start) & (drawn.ranks < band.stop)
        if own.sum() != band.drawn:
            raise BadFile(f"{path / KEY} and {RECORD} are not of one audit; restore both")
    return LabelledMatches(record, drawn.ranks, read_labels(path, sheet, codes, ids))


def _check_same_matches(path: Path, record: MatchRecord) -> None:
    """Raise WrongFolder if the matches are not those of which some were drawn, or are not there.

    They lie where they were when it was drawn, or in the folder above the audit.
    """
    places = [Path(record.folder), path.resolve().parent]
    there = [place for place in places if (place / FILE).is_file()]
    if not there:
        raise WrongFolder(
            f"{places[0]} holds no {FILE}, of which {path} is an audit; put the folder back, or move the audit into it"
        )
    if record.asked.matches not in map(digest_of, there):
        raise WrongFolder(
            f"the matches in {there[0]} were replaced since {path} was drawn, and its labels say nothing of the new "
            f"ones; draw another audit: {call('sample_matches', matches=there[0], out=Code('ANOTHER'))}"
        )
