"""What more labels may bring to a run: a guess from its figures on disk (docs/more-labels.md)."""

from al_ray.metrics.error_examples import main_split
from al_ray.metrics.more_labels import FEWEST, Guess, guess_more_labels, rule_of, usual_target
from al_ray.runs.round_metrics import read_lines
from al_ray.runs.run_state import bound_config, last_round
from al_ray.runs.untrained_figures import UNTRAINED
from al_ray.storage.uri import StoragePath


def guess_of_run(run: StoragePath) -> Guess | None:
    """Guess what 1,000 labels, or ten times those of a run, bring to the average precision of its last round.

    Never more labels than it has pairs. None without a matcher or with an encoder that is trained: the rule was not
    fitted on such curves. None if the last round was not measured on a split or has fewer than FEWEST labels, or if no
    pair is left.
    """
    config, lines = bound_config(run), read_lines(run)[: last_round(run)]
    split = main_split(config.evaluation.splits)
    if config.trains_encoder or split is None or not lines:
        return None
    line = lines[-1]
    now, labels, left = line["average_precision"], line["labels"], line.get("unlabelled")
    if now is None or labels < FEWEST or left == 0:
        return None
    target = usual_target(labels)
    # An earlier version did not write how many pairs have no label.
    target = target if left is None else min(target, labels + left)
    without = line.get(UNTRAINED)
    untrained = None if without is None else without["average_precision"]
    return guess_more_labels(labels, now, rule_of(split), target, untrained)
