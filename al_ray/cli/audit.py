"""How good a run's model really is, by a few labels of people: python -m jobs.audit {sample,estimate} (docs/audit.md)

sample draws pairs to label into a folder: putative false positives (paper, A.3), or with --by-score pairs of bands of
score, for which no match need be known. estimate reads the labels. Every option: --help.
"""

from collections.abc import Iterator
from math import log
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from al_ray.apps.audit.folder import STEM, AuditFolder, AuditOptions, Record, band_audit, putative
from al_ray.apps.audit.options import Estimate, Sample
from al_ray.apps.audit.printout import drawn_lines, of_bands, of_putative
from al_ray.apps.audit.sampling import bands_drawn, putative_drawn
from al_ray.apps.audit.score_bands import BandAudit
from al_ray.cli._shared.entry import options
from al_ray.cli._shared.progress import Progress
from al_ray.cluster.session import refuse_lost, session
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.labels import OPEN
from al_ray.core.rng import generator
from al_ray.core.scorer import Labels
from al_ray.datasets.task_folder import read_task
from al_ray.oracles.answer_files import EXPORT, existing, read_answer_files
from al_ray.oracles.people import write_sheets
from al_ray.runs.run_folder import RunFolder, bound_config, refuse_inside
from al_ray.storage.files import refuse_folder, write_json
from al_ray.storage.uri import storage_path


def main() -> None:
    """Do what the command says."""
    kinds = Annotated[Sample, tyro.conf.subcommand("sample")] | Annotated[Estimate, tyro.conf.subcommand("estimate")]
    asked = options(kinds, "audit", "How good a model really is, by labels of a few pairs.")
    if isinstance(asked, Sample):
        sample(asked)
    else:
        estimate(asked)


def sample(asked: Sample) -> None:
    """Draw, unless this very audit is there, and write the sheets that are not."""
    config = bound_config(asked.run)
    folder = RunFolder(asked.run, read_task(storage_path(config.task)))
    out = asked.out or asked.run / f"audit-{asked.split}{'-by-score' if asked.by_score else ''}"
    refuse_lost(out)
    refuse_inside(out, storage_path(config.task))
    (folder.task.split if asked.by_score else folder.task.measurable)(asked.split)
    wanted, audit = wanted_of(asked, folder), AuditFolder(out)
    stands = audit.holds(wanted)
    if not stands:
        folder.refuse_lost(wanted.round)
        with session(asked.cluster):
            if asked.by_score:
                record, drawn, scored = bands_drawn(config, asked.cluster, folder, wanted, Progress())
            else:
                (record, drawn), scored = putative_drawn(config, asked.cluster, folder, wanted, Progress()), None
        audit.keep(record, drawn, scored, folder.task)
    record, (codes, _, drawn) = audit.record(), audit.key()
    write_sheets(out, STEM, codes, drawn.pairs, folder.task)
    print(*drawn_lines(record, out, len(codes), stands), sep="\n")


def wanted_of(asked: Sample, folder: RunFolder) -> AuditOptions:
    """What is asked for, whole: by it an audit is known again."""
    last = folder.last
    number = last if asked.round is None else asked.round
    if not 0 <= number <= last:
        raise BadOption(
            f"--round {number}: {folder.path} has complete rounds 1 to {last}, and 0 is the untrained encoder"
        )
    model, task = folder.model(number).digest if number else "", folder.task.digest
    if asked.by_score:
        budget, top = asked.budget or 300, asked.top or 100_000
        return AuditOptions(asked.split, number, asked.seed, None, None, None, budget, top, model, task)
    near, rand = (50 if value is None else value for value in (asked.near, asked.rand))
    return AuditOptions(asked.split, number, asked.seed, asked.at_recall or 0.2, near, rand, None, None, model, task)


def estimate(asked: Estimate) -> None:
    """Read the labels, say what they say, write it."""
    if asked.audit is None and asked.labels is None:
        raise BadOption("give --labels FILE, the sheet that was filled in, or --audit FOLDER; see --help")
    path = asked.audit or (asked.labels or Path()).parent
    out = asked.out or path / "estimate.json"
    refuse_lost(out)
    refuse_folder("--out", out)
    audit = AuditFolder(path)
    record, (codes, ids, drawn) = audit.record(), audit.key()
    if not record.asked.by_score and (asked.at_cosine or asked.at_p):
        raise BadOption(f"--at-cosine and --at-p go with audits by score, and {path} is none; leave them out")
    files = [asked.labels] if asked.labels else [path / f"{STEM}.csv", *existing(path / EXPORT)]
    labels: Labels = read_answer_files(files, codes, ids) if codes else np.empty(0, dtype=np.uint8)
    if codes and (labels == OPEN).all():
        raise BadFile(
            f"{files[0]} answers none of the {len(codes):,} pairs; fill its column label with yes, no or unsure"
        )
    rng = generator(record.asked.seed, "audit-estimate")
    if record.asked.by_score:
        found = band_audit(record, drawn, audit.scored(), labels)
        lines, content = of_bands(found, record, list(thresholds_of(asked, record, found)), rng)
    else:
        lines, content = of_putative(record, putative(record, drawn, labels), labels, rng)
    print(*lines, sep="\n")
    write_json(out, {"asked": vars(record.asked), **content})
    print(f"wrote {out}")


def thresholds_of(asked: Estimate, record: Record, found: BandAudit) -> Iterator[float]:
    """The cosines to measure at: those asked for, or else the ends of bands and the model's boundary."""
    yield from asked.at_cosine
    scorer = record.scorer
    if asked.at_p and (scorer is None or not scorer.weight):
        raise BadOption("--at-p: this model gives no probability that rises with the cosine; give --at-cosine")
    for p in asked.at_p:
        if not 0 < p < 1:
            raise BadOption(f"--at-p is {p}; give probabilities between 0 and 1")
        assert scorer is not None
        yield (log(p / (1 - p)) - scorer.bias) / scorer.weight
    if not asked.at_cosine and not asked.at_p:
        yield from found.edges
        if scorer is not None and found.reaches(scorer.boundary):
            yield scorer.boundary
