"""The audit folder: the pairs that people label, and inputs of the estimate that they must not see.

audit.csv, audit.json              the pairs, shuffled, for a spreadsheet and for Label Studio (oracles/people.py)
labelled.json, project-*.json      the export of Label Studio, which the user saves here
audit-key.parquet                  code, left, right (rows), left_id, right_id, stratum, rank, cosine
audit-key.json                     the options and counts, written last
audit-clusters.json                for an audit of clusters: the drawn records (of_clusters/folder.py)
audit-scores.parquet               for an audit by score: cosine, label (null for the ranked pairs, which come first)
audit-first.parquet, .json         with a language model: the pairs that it is asked, as in the key, and the record
llm/                               its raw answers (oracles/llm/store.py)
audit-answers.parquet              its answers to these pairs: answer, confidence (null: none readable), code in the key
estimate.json                      the last result of `jobs.audit estimate`
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from al_ray.core.config.serialization import as_dict, differences, from_dict
from al_ray.core.errors import BadFile, BadOption, WrongFolder
from al_ray.core.labels import NO, OPEN, YES
from al_ray.core.scorer import Floats, Labels, Scorer
from al_ray.core.task import Task
from al_ray.metrics.audit.drawn_pairs import BandScores, DrawnPairs
from al_ray.metrics.audit.false_positives import FalsePositiveSample
from al_ray.metrics.audit.looks import Measure
from al_ray.metrics.audit.match_precision import MatchBand
from al_ray.metrics.audit.score_bands import BandAudit
from al_ray.metrics.average_precision import Ints, StratumSummary
from al_ray.runs.dev_labels import read_band_scores, write_band_scores
from al_ray.storage.files import read_json, read_parquet, write_parquet, write_root

KEY, RECORD, SCORES, STEM = "audit-key.parquet", "audit-key.json", "audit-scores.parquet", "audit"
FIRST, FIRST_RECORD, ANSWERS = "audit-first.parquet", "audit-first.json", "audit-answers.parquet"
ANSWERED = pa.schema([("answer", pa.uint8()), ("confidence", pa.float64()), ("code", pa.string())])
SCHEMA = pa.schema(
    [
        *(("code", pa.string()), ("left", pa.int64()), ("right", pa.int64()), ("left_id", pa.string())),
        *(("right_id", pa.string()), ("stratum", pa.string()), ("rank", pa.int64()), ("cosine", pa.float64())),
    ]
)


@dataclass(frozen=True)
class AuditOptions:
    """The options of an audit; a rerun with the same options changes nothing. model: its digest, "" if untrained."""

    split: str
    round: int
    seed: int
    at_recall: float | None
    near: int | None
    rand: int | None
    budget: int | None
    top: int | None
    model: str
    task_digest: str
    after: str = ""
    """Of a second draw: the absolute path of the audit whose labels count as known. `top` is then where it ends."""
    oracle: str = ""
    """Of an audit with a language model: its name, as llm:MODEL."""
    answers: int = 0
    """With a language model: pairs that it answers; people answer `budget` of them."""
    question: str = ""
    """With a language model: digest of all that decides its answers beside the texts."""
    until_width: float | None = None
    """The width of the interval of `of` at which labelling ends; `budget` is then the most labels (until_width/)."""
    of: Measure | None = None

    @property
    def by_score(self) -> bool:
        """Return whether the audit draws from bands of score, not putative false positives."""
        return self.budget is not None


@dataclass(frozen=True)
class StratumCounts:
    """A stratum of the evaluation set; `above` of its sample reach the threshold, and `drawn` of these were drawn."""

    name: str
    size: int
    population: int
    above: int
    drawn: int


@dataclass(frozen=True)
class Record:
    """The content of audit-key.json. total_pairs: of the split. weight, bias: of the scorer, None if untrained.

    matcher: whether scores are of two stages (core/two_stage_score.py), as are then all that files call cosines.

    For putative false positives: the threshold, the recall there, the known positives and how many reach it.
    """

    asked: AuditOptions
    total_pairs: int
    weight: float | None = None
    bias: float | None = None
    threshold: float | None = None
    recall: float | None = None
    positives: int | None = None
    positives_above: int | None = None
    strata: tuple[StratumCounts, ...] = ()
    matcher: bool = False

    @property
    def scorer(self) -> Scorer | None:
        """Return the scorer, which turns cosines into scores; None for the untrained encoder."""
        if self.weight is None or self.bias is None:
            return None
        return Scorer(self.weight, self.bias, matcher=self.matcher)

    @property
    def content(self) -> dict[str, Any]:
        """Return the record as JSON."""
        content = {**as_dict(self), "strata": [as_dict(stratum) for stratum in self.strata]}
        # Earlier versions know no matcher, second draw, language model and width, and read all other records.
        names = ("after", "oracle", "answers", "question", "until_width", "of")
        newer = [name for name in names if not getattr(self.asked, name)]
        content["asked"] = {name: value for name, value in content["asked"].items() if name not in newer}
        return content if self.matcher else {name: value for name, value in content.items() if name != "matcher"}


@dataclass(frozen=True)
class MatchAuditOptions:
    """The options of an audit of matches; matches: digest of matches.parquet."""

    budget: int
    seed: int
    matches: str


@dataclass(frozen=True)
class MatchRecord:
    """The content of audit-key.json of an audit of matches.

    folder: of the matches, absolute. rule: of their assignment. by_label: how many a label decided. bands: of the
    others.
    """

    asked: MatchAuditOptions
    folder: str
    rule: str
    by_label: int
    bands: tuple[MatchBand, ...]

    @property
    def by_model(self) -> int:
        """Return how many matches the model decided."""
        return self.bands[-1].stop

    @property
    def content(self) -> dict[str, Any]:
        """Return the record as JSON."""
        return {**as_dict(self), "bands": [as_dict(band) for band in self.bands]}


class KeptRecord(Protocol):
    """A record of any kind of audit."""

    @property
    def content(self) -> dict[str, Any]:
        """Return the record as JSON."""
        ...


OF_FALSE_POSITIVES = ("threshold", "recall", "positives", "positives_above")
"""What the record of an audit of putative false positives has."""


@dataclass(frozen=True)
class FirstSample:
    """The pairs that a language model answered: its answers (n,), NO, YES, UNSURE or OPEN, and codes (n,) of people.

    codes: "" for a pair that people were not asked.
    """

    drawn: DrawnPairs
    answers: Labels
    codes: tuple[str, ...]

    def labels(self, codes: Sequence[str], labels: Labels) -> Labels:
        """Return (n,) labels of people from those of the pairs with these (k,) codes; OPEN for all others."""
        of_code = dict(zip(codes, labels.tolist(), strict=True))
        if set(of_code) != set(self.codes) - {""}:
            raise BadFile(f"{ANSWERS} and {KEY} are not of one audit; restore both")
        return np.array([of_code.get(code, OPEN) for code in self.codes], dtype=np.uint8)


def key_table(pairs: DrawnPairs, task: Task, letter: str) -> pa.Table:
    """Return drawn pairs as the table of a key, with codes such as a-00001."""
    left_ids, right_ids = task.ids_of(pairs.pairs)
    columns: dict[str, Any] = {
        "code": [f"{letter}-{number:05d}" for number in range(1, len(left_ids) + 1)],
        "left": pairs.pairs[:, 0],
        "right": pairs.pairs[:, 1],
        "left_id": left_ids,
        "right_id": right_ids,
        "stratum": list(pairs.strata),
        "rank": pairs.ranks,
        "cosine": pairs.cosines,
    }
    return pa.table(columns, schema=SCHEMA)


class AuditFolder:
    """Read and write the files of an audit."""

    def __init__(self, path: Path) -> None:
        """Use a folder, new or with an audit in it."""
        self.path = path

    @property
    def of_matches(self) -> bool:
        """Return whether the folder holds an audit of matches."""
        path = self.path / RECORD
        content = read_json(path) if path.exists() else None
        return isinstance(content, dict) and "bands" in content

    @property
    def of_clusters(self) -> bool:
        """Return whether the folder holds an audit of clusters (of_clusters/folder.py)."""
        path = self.path / RECORD
        content = read_json(path) if path.exists() else None
        return isinstance(content, dict) and "classes" in content

    def is_there(self) -> bool:
        """Return whether the folder holds an audit; WrongFolder for a sheet without a record."""
        if self.path.exists() and not self.path.is_dir():
            raise WrongFolder(f"{self.path} is a file; give the `out` of a folder")
        if not (self.path / RECORD).exists():
            if (self.path / f"{STEM}.csv").exists() or (self.path / f"{STEM}.json").exists():
                raise WrongFolder(
                    f"{self.path} holds a sheet and no {RECORD}; somebody may be labelling it: give another `out`"
                )
            return False
        return True

    def holds(self, options: AuditOptions | MatchAuditOptions) -> bool:
        """Return whether the folder holds this audit; WrongFolder for another audit, or a sheet without a record."""
        if not self.is_there():
            return False
        if self.of_clusters:
            raise WrongFolder(f"{self.path} is an audit of clusters; give another `out`")
        record = self.match_record() if self.of_matches else self.record()
        other = [*differences(as_dict(record.asked), as_dict(options))]
        if other:
            raise WrongFolder(f"{self.path} is an audit with other options ({'; '.join(other)}); give another `out`")
        return True

    def keep(self, record: KeptRecord, pairs: DrawnPairs, scored: BandScores | None, task: Task) -> None:
        """Write a new audit, its record last."""
        if scored is not None:
            write_band_scores(self.path / SCORES, scored)
        write_parquet(self.path / KEY, key_table(pairs, task, "a"))
        write_root(self.path / RECORD, record.content)

    def keep_first(self, record: Record, pairs: DrawnPairs, scored: BandScores, task: Task) -> None:
        """Write the pairs that a language model is to answer, the record last."""
        write_band_scores(self.path / SCORES, scored)
        write_parquet(self.path / FIRST, key_table(pairs, task, "m"))
        write_root(self.path / FIRST_RECORD, record.content)

    def keep_answers(self, answers: Labels, confidences: Floats, rows: Ints) -> None:
        """Write the answers (n,) of a language model; rows: (k,) of the pairs of people, in the order of the key."""
        codes = np.full(len(answers), "", dtype=object)
        codes[rows] = [f"a-{number:05d}" for number in range(1, len(rows) + 1)]
        known = pa.array(confidences, mask=np.isnan(confidences))
        columns = {"answer": answers, "confidence": known, "code": codes.tolist()}
        write_parquet(self.path / ANSWERS, pa.table(columns, schema=ANSWERED))

    def record(self) -> Record:
        """Read the options and counts of the audit; WrongFolder if there are none."""
        return self.read_record(RECORD)

    def read_record(self, name: str) -> Record:
        """Read a record: RECORD, or FIRST_RECORD."""
        path = self.path / name
        if not path.exists():
            raise WrongFolder(f"{self.path} holds no {name}; give `audit` the folder that `al_ray.sample_audit` wrote")
        content: dict[str, Any] = read_json(path, ["asked", "strata"])
        try:
            strata = tuple(from_dict(StratumCounts, stratum) for stratum in content["strata"])
            record = replace(from_dict(Record, {**content, "strata": []}), strata=strata)
        except (BadOption, TypeError) as error:
            raise BadFile(f"{path}: {error} (restore it)") from error
        counts = [name for name in OF_FALSE_POSITIVES if getattr(record, name) is None]
        if counts and not record.asked.by_score:
            raise BadFile(f"{path} lacks {', '.join(counts)}; restore it")
        if any(not 0 <= stratum.drawn <= stratum.above <= stratum.size for stratum in strata):
            raise BadFile(f"{path} holds impossible counts; restore it")
        return record

    def match_record(self) -> MatchRecord:
        """Read the options and bands of an audit of matches."""
        path = self.path / RECORD
        content: dict[str, Any] = read_json(path, ["asked", "bands"])
        try:
            bands = tuple(from_dict(MatchBand, band) for band in content["bands"])
            record = replace(from_dict(MatchRecord, {**content, "bands": []}), bands=bands)
        except (BadOption, TypeError) as error:
            raise BadFile(f"{path}: {error} (restore it)") from error
        ends = [0, *(band.stop for band in bands)]
        if not bands or any(
            not (start == band.start < band.stop and 0 < band.drawn <= band.size)
            for start, band in zip(ends, bands, strict=False)
        ):
            raise BadFile(f"{path} holds impossible counts; restore it")
        return record

    def key(self) -> tuple[list[str], list[tuple[str, str]], DrawnPairs]:
        """Read (n,) codes, (n,) ids of both texts, and the drawn pairs, in the order of the sheet."""
        return self._read_key(KEY)

    def first(self) -> FirstSample:
        """Read the pairs that a language model answered, and its answers; BadFile if they are not of this audit."""
        drawn = self.drawn(FIRST)
        table = read_parquet(self.path / ANSWERS, ANSWERED, lacking=["confidence"])
        if len(table) != len(drawn.ranks):
            raise BadFile(f"{self.path}: {FIRST} and {ANSWERS} are not of one audit; restore both")
        return FirstSample(drawn, table["answer"].to_numpy(), tuple(table["code"].to_pylist()))

    def drawn(self, name: str) -> DrawnPairs:
        """Read the drawn pairs of a key: KEY, or FIRST."""
        return self._read_key(name)[2]

    def _read_key(self, name: str) -> tuple[list[str], list[tuple[str, str]], DrawnPairs]:
        table = read_parquet(self.path / name, SCHEMA)
        pairs = np.stack([table["left"].to_numpy(), table["right"].to_numpy()], axis=1)
        strata = tuple(table["stratum"].to_pylist())
        ids = list(zip(table["left_id"].to_pylist(), table["right_id"].to_pylist(), strict=True))
        sheet = DrawnPairs(pairs, strata, table["rank"].to_numpy(), table["cosine"].to_numpy())
        return table["code"].to_pylist(), ids, sheet

    def scored(self) -> BandScores:
        """Read the scores of an audit by score."""
        return read_band_scores(self.path / SCORES)


def putative(record: Record, sheet: DrawnPairs, labels: Labels) -> tuple[FalsePositiveSample, ...]:
    """Count the labels (n,) of the drawn pairs, NO, YES, UNSURE or OPEN, by stratum."""
    strata = np.array(sheet.strata, dtype=object)
    samples: list[FalsePositiveSample] = []
    for stratum in record.strata:
        own = labels[strata == stratum.name]
        if len(own) != stratum.drawn:
            raise BadFile(f"{KEY} has {len(own):,} pairs of {stratum.name}, {RECORD} {stratum.drawn:,}; restore both")
        errors, matches = int((own == NO).sum()), int((own == YES).sum())
        extent = StratumSummary(stratum.name, stratum.size, stratum.population)
        samples.append(FalsePositiveSample(extent, stratum.above, errors, matches, len(own) - errors - matches))
    return tuple(samples)


def band_audit(
    record: Record, sheet: DrawnPairs, scored: BandScores, labels: Labels, model: Labels | None = None
) -> BandAudit:
    """Join the bands of score with the labels (n,) of the drawn pairs; model: answers (n,) of a language model."""
    total, reach = record.total_pairs - len(scored.known_labels), len(scored.cosines)
    if total < reach or ((sheet.ranks < 0) | (sheet.ranks > min(reach, total - 1))).any():
        raise BadFile(f"{KEY}, {SCORES} and {RECORD} are not of one audit; restore all three")
    known = scored.known_cosines, scored.known_labels
    uniform = bool(record.asked.after)
    return BandAudit(scored.cosines, total, *known, sheet.ranks, labels, record.asked.top, uniform, model)
