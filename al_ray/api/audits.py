"""Audit a model: draw pairs for people to label, and estimate precision from their labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from al_ray.api.run_reading import Run, load_run
from al_ray.apps.audit.band_printout import format_bands
from al_ray.apps.audit.calibration import fit_scorer
from al_ray.apps.audit.folder import STEM, AuditFolder, AuditOptions, MatchRecord, Record, putative
from al_ray.apps.audit.labelled_audit import calibrate, read_labelled
from al_ray.apps.audit.match_printout import format_match_precision
from al_ray.apps.audit.matches import read_labelled_matches
from al_ray.apps.audit.of_clusters.folder import ClusterRecord
from al_ray.apps.audit.of_clusters.printout import format_cluster_figures
from al_ray.apps.audit.of_clusters.sampling import read_labelled_clusters
from al_ray.apps.audit.options import ANSWERS, BUDGET, SECOND_BUDGET, WIDTH_BUDGET, AuditConfig
from al_ray.apps.audit.printout import format_false_positives, format_sample
from al_ray.apps.audit.promises import parse_rules
from al_ray.apps.audit.thresholds import measured_at
from al_ray.apps.audit.until_width.folder import WidthAudit, write_looks
from al_ray.apps.audit.until_width.printout import format_looks, format_width_sample
from al_ray.apps.audit.with_model.asking import check_oracle_options, question_of
from al_ray.apps.audit.with_model.printout import format_cells, format_two_samples
from al_ray.apps.audit.with_model.sampling import sample_two
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.oracle import OracleConfig
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.labels import OPEN
from al_ray.core.naming import option
from al_ray.core.progress import OnProgress, no_progress
from al_ray.core.rng import generator
from al_ray.core.scorer import Scorer
from al_ray.core.task import Task
from al_ray.metrics.audit.drawn_pairs import BandScores, DrawnPairs
from al_ray.metrics.audit.second_draw import pairs_left
from al_ray.metrics.thresholds import parse_rule
from al_ray.oracles.llm.oracle import PREFIX
from al_ray.oracles.llm.store import AnswerStore
from al_ray.oracles.people import write_sheets
from al_ray.runs.place import check_lasting_path, check_outside_task
from al_ray.runs.scorer_evidence import calibrated_scorer
from al_ray.storage.uri import StoragePath, local_path, storage_path

CLUSTER, AUDIT, ORACLE = ClusterConfig(), AuditConfig(), OracleConfig()


@dataclass(frozen=True)
class Audit:
    """The folder of an audit, its options and counts, and how many pairs were drawn. written: whether it is new."""

    path: Path
    record: Record
    pairs: int
    written: bool

    @property
    def sheet(self) -> Path:
        """Return the path of the sheet that people fill in, of an audit until a width that of its first look."""
        return (self.path if self.record.asked.until_width is None else self.path / "look-1") / f"{STEM}.csv"

    def lines(self) -> list[str]:
        """Return what was drawn, and what to do with it; of an audit until a width also what it will probably cost."""
        if self.record.asked.until_width is not None:
            return format_width_sample(WidthAudit.read(self.path), not self.written)
        if self.record.asked.oracle:
            first, cost = AuditFolder(self.path).first(), AnswerStore(self.path).cost
            return format_two_samples(self.record, first, self.path, not self.written, cost)
        return list(format_sample(self.record, self.path, self.pairs, not self.written))


@dataclass(frozen=True)
class AuditEstimate:
    """The estimate of an audit: figures with 95% intervals, as in estimate.json, and as tables of text.

    scorer: the scorer.json that was calibrated, if any.
    """

    figures: Mapping[str, Any]
    text: str
    scorer: StoragePath | None = None


def sample_audit(
    run: Run,
    config: AuditConfig = AUDIT,
    out: str | Path | None = None,
    *,
    cluster: ClusterConfig = CLUSTER,
    oracle_options: OracleConfig = ORACLE,
    on_progress: OnProgress = no_progress,
) -> Audit:
    """Draw pairs of a split for people to label, and write their sheets, unless the folder holds this audit.

    out: a local folder; audit-SPLIT, audit-SPLIT-by-score or audit-SPLIT-until-width in the run folder by default.
    Sheets are never overwritten.
    oracle_options: of a language model (`oracle="llm"`), which answers many pairs before some of them are drawn for
    people; the same call continues after a failure, and asks for no answer twice (docs/llm.md).
    Works in this process, or on Ray (docs/api.md).

    Examples:
        >>> config = al_ray.AuditConfig(split="test", by_score=True, budget=10, top=100)
        >>> audit = al_ray.sample_audit(al_ray.load_run(folder / "run"), config)
        >>> audit.sheet.name, audit.pairs
        ('audit.csv', 10)

    Raises:
        MissingSplit: if the task lacks the split, or without by_score a positive pair in it.
        BadOption: if the round is not complete.
        WrongFolder: if the folder holds another audit.
        OracleFailed, CostReached: if a language model does not answer, or would cost more than allowed.
        DryRun: in place of a request to a language model, if that was to be shown alone; no error.
    """
    target = _folder_of(run, config) if out is None else local_path(out, "`out`")
    check_lasting_path(target)
    check_outside_task(target, storage_path(run.config.task))
    task = run.folder.task
    (task.split if config.by_score else task.with_positives)(config.split)
    if config.oracle is None and oracle_options != ORACLE:
        raise BadOption("options of a language model go with `oracle='llm'`; add it, or leave them out")
    request, folder = _request(config, run, oracle_options), AuditFolder(target)
    exists, draw = folder.holds(request), partial(_draw, request, run, cluster, on_progress)
    if not exists:
        run.folder.check_weights_exist(request.round)
        if request.oracle:
            sample_two(folder, request, task, oracle_options, draw, on_progress)
        else:
            folder.keep(*draw(), task)
    codes, _, pairs = folder.key()
    _write_sheets(request, target, codes, pairs, task)
    return Audit(target, folder.record(), len(codes), not exists)


def estimate_audit(
    audit: str | Path,
    labels: str | Path | None = None,
    *,
    at_cosine: Sequence[float] = (),
    at_p: Sequence[float] = (),
    threshold_for: Sequence[str] = (),
    update_scorer: bool = False,
    run: Run | None = None,
) -> AuditEstimate:
    """Estimate precision from the labels of an audit folder; calibrate the scorer of the audited round, if so asked.

    labels: the sheet, or an export of Label Studio; by default both. Of audits by score: at_cosine, at_p: thresholds to
    measure at, by default the ends of bands and the boundary; p: a probability if calibrated. threshold_for chooses one
    (docs/guarantees.md); it and update_scorer (w and b) write to scorer.json of `run`, by default the audited one.

    Examples:
        >>> sheet = folder / "run" / "audit-test-by-score" / "audit.csv"
        >>> _ = sheet.write_text(sheet.read_text(encoding="utf-8-sig").replace(",,", ",no,"))
        >>> estimate = al_ray.estimate_audit(sheet.parent)
        >>> estimate.figures["no"], estimate.figures["total_pairs"]
        (10, 1378)

    Raises:
        WrongFolder: if the folder holds no audit, or if the matches were replaced since it was drawn.
        BadFile: if an answer cannot be read, or there is none.
        BadOption: if labels do not determine a scorer or a promise, or options are of another kind of audit.
    """
    path, sheet = local_path(audit, "`audit`"), None if labels is None else local_path(labels, "`labels`")
    by_score = bool(at_cosine or at_p or threshold_for or update_scorer)
    if (other := _estimate_other_kind(path, sheet, by_score or run is not None)) is not None:
        return other
    labelled = read_labelled(path, sheet, by_score)
    record, rng = labelled.record, generator(labelled.record.asked.seed, "audit-estimate")
    if not record.asked.by_score:
        strata = putative(record, labelled.pairs, labelled.labels)
        return _estimate(record, *format_false_positives(record, strata, labelled.labels, rng))
    bands, rules = labelled.bands, parse_rules(threshold_for)
    # All that can be refused comes before the scorer is written.
    audited = _audited_run(run, record, labelled.path) if rules or update_scorer else None
    scorer = fit_scorer(bands, labelled.pairs.cosines) if update_scorer else None
    calibrated = scorer or _stored_calibration(run, record, labelled.path)
    at = list(measured_at(at_cosine, at_p, record, bands, calibrated))
    if record.asked.oracle:
        return _estimate(record, *format_cells(bands, record, labelled.labels, at, rng, calibrated))
    lines, content = format_bands(bands, record, labelled.pairs.cosines, at, rng, calibrated, labelled.answers)
    if audited is None:
        return _estimate(record, lines, content)
    more, kept, written = calibrate(labelled, bands, audited.folder, scorer, rules)
    return _estimate(record, [*lines, *more], {**content, **kept}, written)


def _write_sheets(request: AuditOptions, target: Path, codes: list[str], drawn: DrawnPairs, task: Task) -> None:
    """Write the sheet of an audit, or those of its looks; those that exist are not overwritten."""
    if request.until_width is None:
        write_sheets(target, STEM, codes, drawn.pairs, task)
    else:
        write_looks(target, drawn.pairs, task)


def _draw(
    request: AuditOptions, run: Run, cluster: ClusterConfig, on_progress: OnProgress
) -> tuple[Record, DrawnPairs, BandScores | None]:
    """Draw the pairs of an audit; the first sample of one with a language model."""
    # Not at the top: they load torch, which an estimate does not need.
    from al_ray.apps.audit.sampling import sample_bands, sample_false_positives
    from al_ray.cluster.session import session

    with session(cluster, trainers=0):
        if request.by_score:
            return sample_bands(run.config, cluster, run.folder, request, on_progress)
        return (*sample_false_positives(run.config, cluster, run.folder, request, on_progress), None)


def _estimate(
    record: Record | MatchRecord | ClusterRecord,
    lines: Sequence[str],
    content: Mapping[str, Any],
    scorer: StoragePath | None = None,
) -> AuditEstimate:
    return AuditEstimate({"asked": vars(record.asked), **content}, "\n".join(lines), scorer)


def _estimate_other_kind(path: Path, labels: Path | None, of_model: bool) -> AuditEstimate | None:
    """Estimate from an audit of matches, of clusters or until a width, None for others; of_model: see below."""
    folder = AuditFolder(path)
    if folder.of_matches or folder.of_clusters:
        return _estimate_matches(path, labels, of_model)
    if folder.record().asked.until_width is not None:
        return _estimate_looks(path, labels is not None or of_model)
    return None


def _estimate_looks(path: Path, more: bool) -> AuditEstimate:
    """Estimate what an audit until a width is about, at each complete look; more: whether other options are given."""
    if more:
        raise BadOption(
            "`labels`, `at_cosine`, `at_p`, `threshold_for`, `update_scorer` and `run` go with other audits, and "
            f"{path} is one until a width, whose looks are all read; leave them out"
        )
    audit = WidthAudit.read(path)
    if (audit.labels == OPEN).all():
        first = audit.looks[0].folder / f"{STEM}.csv"
        raise BadFile(
            f"{first} answers none of the {audit.looks[0].stop:,} pairs; fill its column label with yes, no or unsure"
        )
    return _estimate(audit.record, *format_looks(audit))


def _estimate_matches(path: Path, labels: Path | None, of_model: bool) -> AuditEstimate:
    """Estimate the quality of matches or clusters; of_model: whether options that they lack are given."""
    if of_model:
        raise BadOption(
            f"`at_cosine`, `at_p`, `threshold_for`, `update_scorer` and `run` go with audits of a model, and {path} is "
            "one of matches; leave them out"
        )
    if AuditFolder(path).of_clusters:
        clusters = read_labelled_clusters(path, labels)
        return _estimate(clusters.record, *format_cluster_figures(clusters))
    matches = read_labelled_matches(path, labels)
    return _estimate(matches.record, *format_match_precision(matches))


def _folder_of(run: Run, config: AuditConfig) -> Path:
    """Return the default folder of an audit; BadOption for a run on an object store, where people cannot open files."""
    if not isinstance(run.path, Path):
        raise BadOption(f"{run.path} is a URI, where people cannot open files; give `out`, a local folder")
    kind = "" if not config.by_score else "-by-score" if config.until_width is None else "-until-width"
    return run.path / f"audit-{config.split}{kind}"


def _request(config: AuditConfig, run: Run, oracle_options: OracleConfig) -> AuditOptions:
    """Return the options that identify an audit, with the defaults filled in."""
    number = run.complete_round(config.round)
    model, task = run.folder.model(number).digest if number else "", run.folder.task.digest
    if config.after is not None:
        return _second_request(config, run, number)
    if config.until_width is not None:
        budget, top, of = config.budget or WIDTH_BUDGET, config.top or 100_000, config.of or "precision"
        asked = AuditOptions(config.split, number, config.seed, None, None, None, budget, top, model, task)
        return replace(asked, until_width=config.until_width, of=of)
    if config.by_score:
        budget, top = config.budget or BUDGET, config.top or 100_000
        asked = AuditOptions(config.split, number, config.seed, None, None, None, budget, top, model, task)
        return _with_model(asked, config, oracle_options) if config.oracle else asked
    near, rand = (50 if value is None else value for value in (config.near, config.rand))
    recall = config.at_recall or 0.2
    return AuditOptions(config.split, number, config.seed, recall, near, rand, None, None, model, task)


def _with_model(asked: AuditOptions, config: AuditConfig, options: OracleConfig) -> AuditOptions:
    """Add the language model to the options of an audit by score."""
    check_oracle_options(options)
    answers = config.answers or ANSWERS
    assert asked.budget is not None
    if answers < asked.budget:
        raise BadOption(f"{option('answers', answers)} is less than the {asked.budget:,} pairs of people; give more")
    name, question = f"{PREFIX}{options.llm.model}", question_of(options)
    return replace(asked, oracle=name, answers=answers, question=question)


def _second_request(config: AuditConfig, run: Run, number: int) -> AuditOptions:
    """Return the options of a second draw: from the pairs without a label above the crossing of the first one."""
    assert config.after is not None
    rule, after = parse_rule(config.threshold_for or ""), local_path(config.after, "`after`").absolute()
    if rule.kind != "precision":
        raise BadOption(f"{option('threshold_for', rule)}: a second draw is for a precision; give precision=P")
    if AuditFolder(after).record().asked.until_width is not None:
        raise BadOption(f"{option('after', after)} is an audit until a width; give one without `until_width`")
    first = read_labelled(after, None, True)
    if first.record.asked.oracle:
        raise BadOption(f"{option('after', after)} is an audit with a language model; give one of people alone")
    asked, model = first.record.asked, run.folder.model(number).digest if number else ""
    if (asked.split, asked.model, asked.task_digest) != (config.split, model, run.folder.task.digest):
        raise BadOption(
            f"{option('after', after)} is an audit of {asked.split} by round {asked.round}, or of another run; give "
            "the same `split`, `round` and `run`"
        )
    left = pairs_left(first.bands, rule.numbers[0])
    if not left:
        raise BadOption(
            f"{option('after', after)}: its labels leave no pair to draw from, for the estimate reaches {rule} "
            "nowhere, or all pairs above are labelled; give another `threshold_for`"
        )
    budget = min(config.budget or SECOND_BUDGET, left)
    return AuditOptions(
        config.split, number, config.seed, None, None, None, budget, left, model, asked.task_digest, str(after)
    )


def _audited_run(run: Run | None, record: Record, path: Path) -> Run:
    """Return the run whose model was audited; BadOption if that cannot be found, or if its model is another."""
    number = record.asked.round
    if record.asked.oracle:
        raise BadOption(
            f"`threshold_for` and `update_scorer` go with audits that people alone label, and {path} is one with "
            f"{record.asked.oracle}; leave them out"
        )
    if not number:
        raise BadOption(
            f"{path} is an audit of the untrained encoder, which has no scorer.json; leave out `update_scorer` and "
            "`threshold_for`, or audit a trained round"
        )
    if run is None and not (path.resolve().parent / "config.json").is_file():
        raise BadOption(f"{path} does not lie in a run folder; give `run`, the run that was audited")
    run = run or load_run(path.resolve().parent)
    if number > run.rounds or run.folder.model(number).digest != record.asked.model:
        raise BadOption(f"{path} is not an audit of round {number} of {run.path}; give `run`, the run that was audited")
    return run


def _stored_calibration(run: Run | None, record: Record, path: Path) -> Scorer | None:
    """Return the calibrated scorer of the audited round; None without one, or if the run is not known."""
    number = record.asked.round
    if not number or (run is None and not (path.resolve().parent / "config.json").is_file()):
        return None
    run = run or load_run(path.resolve().parent)
    if number > run.rounds or run.folder.model(number).digest != record.asked.model or record.scorer is None:
        return None
    scorer, source = calibrated_scorer(run.folder.round(number) / "model" / "scorer.json", record.scorer)
    return None if source is None else scorer
