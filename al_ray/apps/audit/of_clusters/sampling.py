"""Draw an audit of the clusters that match wrote, and read its labels."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from al_ray.apps.audit.folder import STEM, AuditFolder
from al_ray.apps.audit.labels import read_labels
from al_ray.apps.audit.of_clusters.drawing import Clusters, answers_of, draw_records
from al_ray.apps.audit.of_clusters.folder import (
    ClusterAuditFolder,
    ClusterAuditOptions,
    ClusterDraws,
    ClusterRecord,
    Known,
    known_of,
)
from al_ray.apps.matching.incremental.state import STATE, MatchState, read_state
from al_ray.apps.matching.written import FILE, digest_of, read_match_texts, read_matches
from al_ray.core.errors import BadFile, BadOption, WrongFolder
from al_ray.core.labels import NO, OPEN, YES
from al_ray.core.naming import Code, call, option
from al_ray.core.rng import generator
from al_ray.core.task import Task
from al_ray.metrics.audit.cluster_figures import ClusterFigures
from al_ray.oracles.answer_files import answer_paths, read_answer_files
from al_ray.oracles.people import write_sheets

CLUSTERS = "clusters.parquet"


@dataclass(frozen=True)
class ClusterSample:
    """The record of an audit of clusters, the pairs that wait, those known before, and whether the audit is new."""

    record: ClusterRecord
    waiting: int
    known: int
    written: bool


@dataclass(frozen=True)
class LabelledClusters:
    """An audit of clusters with the labels of its pairs, by their rows, the lower one first."""

    record: ClusterRecord
    drawn: ClusterDraws
    labels: Known

    @property
    def figures(self) -> ClusterFigures:
        """Return the estimates."""
        classes = self.record.classes
        answers = answers_of(classes, self.drawn.draws, self.labels)
        # A fresh generator, so that a figure depends on nothing else that is printed.
        return ClusterFigures(
            self.record.records, classes, answers, partial(generator, self.record.asked.seed, "audit-estimate")
        )


def sample_clusters(matches: Path, count: int, candidates: Path | None, seed: int, out: Path) -> ClusterSample:
    """Draw records of the clusters of a folder, and write the sheets of their pairs, unless they are there.

    candidates: another folder of matches of the same texts by the same model, mostly with a lower cutoff.
    """
    if any((out / name).exists() for name in (FILE, "config.json", "task.json")):
        raise BadOption(f"{option('out', out)} holds matches, a run or a task; give the audit a folder of its own")
    read_matches(matches)
    if not (matches / STATE).exists():
        raise BadOption(
            f"{matches} does not say which records its clusters have; match tables without "
            "`MatchOptions.search.kind='knn'`"
        )
    folder = ClusterAuditFolder(out)
    other = "" if candidates is None else digest_of(candidates)
    options = ClusterAuditOptions(count, seed, _digest(matches), other)
    exists = folder.holds(options)
    if not exists:
        state, task = read_state(matches)
        if not task.symmetric:
            raise BadOption(f"{matches} has clusters of two tables; clusters of one table can be audited")
        clusters = _read_clusters(matches, state, candidates)
        classes, draws = draw_records(clusters, count, seed)
        if not classes:
            raise BadOption(f"{matches} has no cluster of two and no candidate, so there is nothing to label")
        every = known_of(np.concatenate([state.yes, state.no]), [YES] * len(state.yes) + [NO] * len(state.no))
        every |= _answered(matches, task)
        pairs = {pair for draw in draws for pair in draw.pairs}
        drawn = ClusterDraws(tuple(draws), {pair: label for pair, label in every.items() if pair in pairs})
        delivered = len(np.unique(clusters.labels[clusters.sizes > 1]))
        record = ClusterRecord(options, str(matches.resolve()), len(clusters.labels), delivered, classes)
        folder.keep(record, drawn, task)
    else:
        _, task = read_state(matches)
    codes, _, sheet = AuditFolder(out).key()
    write_sheets(out, STEM, codes, sheet.pairs, task)
    return ClusterSample(folder.record(), len(codes), len(folder.draws().known), not exists)


def _read_clusters(matches: Path, state: MatchState, candidates: Path | None) -> Clusters:
    """Return the clusters; what match compared above its cutoffs, but did not join, are candidates."""
    written = read_matches(matches)
    _, pairs = read_match_texts(matches, np.arange(len(written.scores)))
    found, scores = [pairs, state.candidates.pairs], [written.scores, state.candidates.scores]
    if candidates is not None:
        if not (candidates / STATE).exists():
            raise WrongFolder(f"{candidates} holds no matches of tables; give `candidates` what `al_ray.match` wrote")
        other, _ = read_state(candidates)
        if (other.task, other.about.model.get("digest")) != (state.task, state.about.model.get("digest")):
            raise WrongFolder(
                f"{candidates} has matches of other texts or of another model than {matches}; match the same texts "
                "with a lower cutoff"
            )
        found.append(other.candidates.pairs)
        scores.append(other.candidates.scores)
    return Clusters.of(state.clusters, pairs, np.concatenate(found), np.concatenate(scores))


def _answered(matches: Path, task: Task) -> Mapping[tuple[int, int], int]:
    """Return the answers of an audit of these matches in their folder, by rows; they are not asked again."""
    folder = AuditFolder(matches / "audit")
    if not folder.of_matches or folder.match_record().asked.matches != digest_of(matches):
        return {}
    codes, ids, _ = folder.key()
    labels = read_answer_files(answer_paths(folder.path, STEM), codes, ids)
    rows = {one: row for row, one in enumerate(task.left.ids)}
    pairs = np.array([[rows[one] for one in pair] for pair in ids], dtype=np.int64).reshape(-1, 2)
    given = labels != OPEN
    return known_of(pairs[given], labels[given].tolist())


def _digest(folder: Path) -> str:
    """Return the digest of matches and clusters, which changes when either is replaced."""
    try:
        with (folder / CLUSTERS).open("rb") as file:
            clusters = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BadFile(
            f"{folder / CLUSTERS} cannot be read ({error}); match the texts again (`al_ray.match`)"
        ) from error
    return hashlib.sha256((digest_of(folder) + clusters).encode()).hexdigest()


def read_labelled_clusters(path: Path, sheet: Path | None) -> LabelledClusters:
    """Read an audit of clusters with its labels; WrongFolder if the clusters were replaced since it was drawn."""
    folder = ClusterAuditFolder(path)
    record, drawn = folder.record(), folder.draws()
    there = [place for place in (Path(record.folder), path.resolve().parent) if (place / FILE).is_file()]
    if not there:
        raise WrongFolder(f"{record.folder} holds no {FILE}, of which {path} is an audit; put the folder back")
    if record.asked.matches not in map(_digest, there):
        raise WrongFolder(
            f"the clusters in {there[0]} were replaced since {path} was drawn, and its labels say nothing of the new "
            f"ones; draw another audit: {call('sample_clusters', matches=there[0], out=Code('ANOTHER'))}"
        )
    codes, ids, pairs = AuditFolder(path).key()
    labels = read_labels(path, sheet, codes, ids)
    return LabelledClusters(record, drawn, {**drawn.known, **known_of(pairs.pairs, labels.tolist())})
