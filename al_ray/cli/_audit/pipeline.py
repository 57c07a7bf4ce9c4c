"""Draw pairs of an audit, and estimate precision from their labels."""

from pathlib import Path

from al_ray.api.audits import estimate_audit, sample_audit
from al_ray.api.run_reading import load_run
from al_ray.apps.audit.match_printout import format_match_sample
from al_ray.apps.audit.matches import sample_matches
from al_ray.apps.audit.options import MATCH_BUDGET, AuditConfig
from al_ray.apps.audit.printout import format_sample
from al_ray.cli._audit.options import Estimate, Sample
from al_ray.cli._shared.entry import as_called
from al_ray.cli._shared.progress import Progress
from al_ray.core.config.serialization import part
from al_ray.core.errors import BadOption
from al_ray.metrics.thresholds import with_guarantee
from al_ray.runs.place import refuse_lost
from al_ray.storage.files import refuse_folder, write_json


def run_command(options: Sample | Estimate) -> None:
    """Draw pairs to label, or estimate from their labels."""
    if isinstance(options, Sample):
        sample(options)
    else:
        estimate(options)


def sample(options: Sample) -> None:
    """Draw pairs, unless the folder holds this audit, and print what to do with them."""
    if options.matches is not None:
        _sample_matches(options.matches, options)
        return
    assert options.run is not None
    run, config = load_run(options.run), part(options, AuditConfig)
    audit = sample_audit(run, config, options.out, cluster=options.cluster, on_progress=Progress())
    print(*map(as_called, format_sample(audit.record, audit.path, audit.pairs, not audit.written)), sep="\n")


def _sample_matches(matches: Path, options: Sample) -> None:
    """Draw some of the matches that jobs.match wrote."""
    out = options.out or matches / "audit"
    refuse_lost(out)
    drawn = sample_matches(matches, options.budget or MATCH_BUDGET, options.seed, out)
    print(*map(as_called, format_match_sample(drawn.record, out, not drawn.written)), sep="\n")


def estimate(options: Estimate) -> None:
    """Print the estimate from the labels and write it; calibrate the scorer of the audited round, if so asked."""
    if options.audit is None and options.labels is None:
        raise BadOption("give --labels FILE, the labelled sheet, or --audit FOLDER; see --help")
    path = options.audit or (options.labels or Path()).parent
    out = options.out or path / "estimate.json"
    refuse_lost(out)
    refuse_folder("--out", out)
    result = estimate_audit(
        path,
        options.labels,
        at_cosine=options.at_cosine,
        at_p=options.at_p,
        threshold_for=with_guarantee(options.threshold_for, options.guarantee),
        update_scorer=options.update_scorer,
        run=None if options.run is None else load_run(options.run),
    )
    print(as_called(result.text))
    if result.scorer is not None:
        print(f"wrote {result.scorer}")
    write_json(out, result.figures)
    print(f"wrote {out}")
