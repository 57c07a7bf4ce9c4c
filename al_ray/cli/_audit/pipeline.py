"""Draw pairs of an audit, and estimate precision from their labels."""

from collections.abc import Iterator
from math import isfinite, log
from pathlib import Path
from typing import Any

import numpy as np

from al_ray.api.runs import Run, load_run
from al_ray.apps.audit.band_printout import format_bands
from al_ray.apps.audit.calibration import (
    choose_threshold,
    fit_scorer,
    format_bins,
    format_recalibration,
    format_threshold,
    parse_precision_rules,
    recalibration,
    reliability_bins,
)
from al_ray.apps.audit.folder import STEM, AuditFolder, AuditOptions, Record, SheetPairs, band_audit, putative
from al_ray.apps.audit.options import Estimate, Sample
from al_ray.apps.audit.printout import format_false_positives, format_sample
from al_ray.apps.audit.sampling import sample_bands, sample_false_positives
from al_ray.apps.audit.score_bands import BandAudit
from al_ray.cli._shared.progress import Progress
from al_ray.cluster.session import session
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.labels import OPEN
from al_ray.core.rng import generator
from al_ray.core.scorer import Labels
from al_ray.oracles.answer_files import answer_paths, read_answer_files
from al_ray.oracles.people import write_sheets
from al_ray.runs.place import refuse_inside, refuse_lost
from al_ray.storage.files import refuse_folder, write_json
from al_ray.storage.uri import storage_path


def run_command(options: Sample | Estimate) -> None:
    """Draw pairs to label, or estimate from their labels."""
    if isinstance(options, Sample):
        sample(options)
    else:
        estimate(options)


def sample(options: Sample) -> None:
    """Draw pairs, unless the folder holds this audit, and write the sheets that are missing."""
    run = load_run(options.run)
    folder, task_path = run.folder, storage_path(run.config.task)
    out = options.out or options.run / f"audit-{options.split}{'-by-score' if options.by_score else ''}"
    refuse_lost(out)
    refuse_inside(out, task_path)
    (folder.task.split if options.by_score else folder.task.measurable)(options.split)
    request, audit = audit_options(options, run), AuditFolder(out)
    exists = audit.holds(request)
    if not exists:
        folder.refuse_lost(request.round)
        draw = sample_bands if options.by_score else sample_false_positives
        with session(options.cluster):
            record, pairs, *scored = draw(run.config, options.cluster, folder, request, Progress())
        audit.keep(record, pairs, scored[0] if scored else None, folder.task)
    record, (codes, _, pairs) = audit.record(), audit.key()
    write_sheets(out, STEM, codes, pairs.pairs, folder.task)
    print(*format_sample(record, out, len(codes), exists), sep="\n")


def audit_options(options: Sample, run: Run) -> AuditOptions:
    """Return the options that identify an audit, with the defaults filled in."""
    number = run.complete_round(options.round)
    model, task = run.folder.model(number).digest if number else "", run.folder.task.digest
    if options.by_score:
        budget, top = options.budget or 300, options.top or 100_000
        return AuditOptions(options.split, number, options.seed, None, None, None, budget, top, model, task)
    near, rand = (50 if value is None else value for value in (options.near, options.rand))
    recall = options.at_recall or 0.2
    return AuditOptions(options.split, number, options.seed, recall, near, rand, None, None, model, task)


def estimate(options: Estimate) -> None:
    """Read the labels, print the estimate and write it; calibrate the scorer of the audited round, if so asked."""
    if options.audit is None and options.labels is None:
        raise BadOption("give --labels FILE, the labelled sheet, or --audit FOLDER; see --help")
    path = options.audit or (options.labels or Path()).parent
    out = options.out or path / "estimate.json"
    refuse_lost(out)
    refuse_folder("--out", out)
    audit = AuditFolder(path)
    record, (codes, ids, pairs) = audit.record(), audit.key()
    by_score = options.at_cosine or options.at_p or options.threshold_for or options.update_scorer
    if not record.asked.by_score and by_score:
        raise BadOption(
            "--at-cosine, --at-p, --threshold-for and --update-scorer go with audits by score, and "
            f"{path} is not one; leave them out"
        )
    files = [options.labels] if options.labels else answer_paths(path, STEM)
    labels: Labels = read_answer_files(files, codes, ids) if codes else np.empty(0, dtype=np.uint8)
    if codes and (labels == OPEN).all():
        raise BadFile(
            f"{files[0]} answers none of the {len(codes):,} pairs; fill its column label with yes, no or unsure"
        )
    if record.asked.by_score:
        content = estimate_bands(options, record, path, pairs, band_audit(record, pairs, audit.scored(), labels))
    else:
        rng = generator(record.asked.seed, "audit-estimate")
        lines, content = format_false_positives(record, putative(record, pairs, labels), labels, rng)
        print(*lines, sep="\n")
    write_json(out, {"asked": vars(record.asked), **content})
    print(f"wrote {out}")


def estimate_bands(
    options: Estimate, record: Record, path: Path, pairs: SheetPairs, bands: BandAudit
) -> dict[str, Any]:
    """Print the estimate of an audit by score, and calibrate the scorer; return the content of estimate.json."""
    rules, seed = parse_precision_rules(options.threshold_for), record.asked.seed
    # All that can be refused comes before anything is printed.
    run = audited_run(options, record, path) if rules or options.update_scorer else None
    scorer = fit_scorer(bands, pairs.cosines) if options.update_scorer else None
    at = list(thresholds(options, record, bands))
    lines, content = format_bands(bands, record, pairs.cosines, at, generator(seed, "audit-estimate"))
    print(*lines, sep="\n")
    if run is None:
        return content
    evidence: dict[str, dict[str, Any]] = {}
    if scorer is not None:
        bins = reliability_bins(bands, scorer, pairs.cosines, generator(seed, "audit-recalibration"))
        evidence = {"recalibration": recalibration(bands, record, scorer, bins)}
        print("", *format_recalibration(evidence["recalibration"], record), format_bins("p", bins), sep="\n")
    rng = generator(seed, "audit-threshold")
    chosen = [choose_threshold(bands, record, rule, rng) for rule in rules]
    print(*map(format_threshold, chosen), sep="\n", end="\n" if chosen else "")
    run.folder.keep_calibration(record.asked.round, evidence, chosen)
    print(f"wrote {run.folder.round(record.asked.round) / 'model' / 'scorer.json'}")
    return {**content, **evidence, "chosen_thresholds": chosen}


def audited_run(options: Estimate, record: Record, path: Path) -> Run:
    """Return the run whose model was audited; BadOption if that cannot be found, or if its model is another."""
    number = record.asked.round
    if not number:
        raise BadOption(
            f"{path} is an audit of the untrained encoder, which has no scorer.json; leave out --update-scorer and "
            "--threshold-for, or audit a trained round"
        )
    if options.run is None and not (path.resolve().parent / "config.json").is_file():
        raise BadOption(f"{path} does not lie in a run folder; give --run, the run that was audited")
    run = load_run(options.run or path.resolve().parent)
    if number > run.rounds or run.folder.model(number).digest != record.asked.model:
        raise BadOption(f"{path} is not an audit of round {number} of {run.path}; give --run, the run that was audited")
    return run


def thresholds(options: Estimate, record: Record, bands: BandAudit) -> Iterator[float]:
    """Yield the cosines to measure at: those given, or else the ends of bands and the model's boundary."""
    for cosine in options.at_cosine:
        bands.refuse_unranked(cosine)
        yield cosine
    scorer = record.scorer
    if options.at_p and (scorer is None or not scorer.weight):
        raise BadOption("--at-p: this model gives no score that rises with the cosine; give --at-cosine")
    for p in options.at_p:
        if not 0 < p < 1:
            raise BadOption(f"--at-p is {p}; give scores between 0 and 1")
        assert scorer is not None
        cosine = (log(p / (1 - p)) - scorer.bias) / scorer.weight
        if not bands.reaches(cosine):
            lowest, highest = (float(scorer.probability(np.array(end))) for end in (bands.floor, bands.cosines[0]))
            raise BadOption(
                f"--at-p is {p:g}, and the {bands.reach:,} ranked pairs reach from p = {highest:.3g} down to "
                f"{lowest:.3g}: pairs below are not ranked; give a p above that, or draw another audit with a larger "
                "--top and --out"
            )
        yield cosine
    if not options.at_cosine and not options.at_p:
        yield from bands.edges
        if scorer is not None and isfinite(scorer.boundary):
            yield scorer.boundary
