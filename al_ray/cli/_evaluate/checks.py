"""Options of evaluate that do not go together."""

from al_ray.api.files import check_out
from al_ray.cli._evaluate.options import EvaluateCommand
from al_ray.cli._shared.option_types import with_guarantee
from al_ray.core.errors import BadOption


def check_options(options: EvaluateCommand) -> None:
    """Raise BadOption for options that do not go together."""
    if (options.run is None) == (options.scores is None):
        raise BadOption("give either --run RUN or --scores FILE; see --help")
    of_runs = options.split, options.round, options.random_pairs, options.exact or None, options.estimate or None
    if options.scores is not None and of_runs != (None,) * 5:
        raise BadOption(
            "--split, --round, --exact, --estimate and --random-pairs go with --run; leave them out with --scores"
        )
    if options.run is not None and options.total_pairs is not None:
        raise BadOption("--total-pairs goes with --scores; leave it out with --run")
    if options.scores is not None and options.against is not None:
        raise BadOption("--against goes with --run; leave it out with --scores")
    if options.neighbourhood is not None and (options.run is None or options.heuristic or options.threshold_for):
        raise BadOption("--neighbourhood goes with --run, and not with --heuristic or --threshold-for; leave it out")
    if options.neighbourhood is not None and options.round == 0:
        raise BadOption(
            "--round 0 is measured by the cosine, and --neighbourhood goes with a trained round; leave one out"
        )
    if options.neighbourhood_sides is not None and not options.neighbourhood:
        raise BadOption("--neighbourhood-sides goes with --neighbourhood A, such as 0.5; leave it out")
    if options.out is not None:
        check_out(options.out)
    with_guarantee(options.threshold_for, options.guarantee)
    if options.threshold_for and (options.run is None or options.heuristic or options.against is not None):
        raise BadOption("--threshold-for goes with --run RUN, and not with --heuristic or --against")
    if options.heuristic and options.against is not None:
        raise BadOption("--against compares average precision over all pairs; leave it out with --heuristic")


def check_options_of_stated_pairs(options: EvaluateCommand) -> None:
    """Raise BadOption for options that are about all pairs, where only stated ones are evaluated."""
    of_all_pairs = options.exact, options.estimate, options.total_pairs is not None, options.random_pairs is not None
    if any(of_all_pairs):
        raise BadOption(
            "--exact, --estimate, --random-pairs and --total-pairs are about all pairs; leave them out with --heuristic"
        )
