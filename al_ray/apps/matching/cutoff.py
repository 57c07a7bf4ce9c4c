"""From the options of a cutoff to the lowest score of a match."""

from dataclasses import replace
from logging import getLogger
from math import inf

from al_ray.apps.matching.assignment_rules import ASSIGNMENTS, Assignment, Cutoff
from al_ray.apps.matching.model import MatchingModel
from al_ray.apps.matching.options import MatchOptions
from al_ray.core.errors import BadOption
from al_ray.core.naming import Code, call, command, option
from al_ray.core.scorer import ceiling_words
from al_ray.metrics.handover import LAST
from al_ray.metrics.thresholds import parse_rule
from al_ray.training.untrained_model import OUTCOME

logger = getLogger(__name__)
FIX = (
    "label more pairs, both matches and others, and train again; or give `at_score=S`, or `best=N` for the N best pairs"
)
NO_VARIANCE = (
    "all its labelled pairs have the same score, so that no score separates matches from others. If it is the cosine "
    "1, the encoder gives their texts the same token ids, and more labels do not help: take them along to a run with "
    "an encoder that knows the language (`RunConfig.encoder`, `al_ray.import_labels`, docs/languages.md)"
)
# Of each outcome of core/scorer.py that can leave a scorer without a boundary.
WHY = {
    "one-class": "all its labels are the same: there are only matches, or none",
    "no-variance": NO_VARIANCE,
    "falling": "among its labelled pairs matches do not have the higher scores",
    "diverged": "scores of its labelled pairs are not numbers",
    "fitted": "so few of its labelled pairs match, or so few do not, that p is 1/2 at no score",
    "separable": "so few of its labelled pairs match, or so few do not, that p is 1/2 at no score",
    OUTCOME: "it is the untrained encoder, fitted to no label",
}

FIXES = {
    "no-variance": f"else {FIX}",
    OUTCOME: f"give `at_score=S`, or `best=N` for the N best pairs, or {option('round', LAST)} for the last round",
}


def choose_assignment(options: MatchOptions, symmetric: bool) -> Assignment:
    """Return the rule of output that is given, or the default for one or two sides."""
    if options.assign is not None:
        return options.assign
    return "all" if symmetric or options.best is not None else "mutual"


def choose_cutoff(options: MatchOptions, model: MatchingModel, assign: Assignment) -> Cutoff:
    """Return the cutoff that the options give; without one, none for a rule of best edges, else a stored threshold.

    BadOption, with the command that makes one, if a threshold or a calibration is not stored with the model; and for a
    cutoff above all scores, which no pair can reach.
    """
    cutoff = _given(options, model, assign)
    scorer = model.model.scorer
    assert scorer is not None
    highest = scorer.highest - model.lowest_p
    if cutoff.score > highest:
        raise BadOption(
            f"{cutoff.source} is a score of {cutoff.score:.4f}, and no pair can reach it: scores of {model.path} are "
            f"at most {highest:g}; give a lower `at_score`, or `best=N` for the N best pairs"
        )
    return cutoff


def choose_service_cutoff(options: MatchOptions, model: MatchingModel) -> Cutoff:
    """Return the cutoff of a service that the options give; without one the one threshold of the model, or none."""
    given = any(value is not None and value is not False for value in options.cutoffs.values())
    if not given and not model.thresholds:
        return Cutoff(-inf, 0, "none")
    if not given and len(model.thresholds) > 1:
        raise BadOption(
            f"{model.path} has several thresholds ({', '.join(model.thresholds)}); give `precision=P`, "
            "`recall=R` or `costs=(M, A)`, or `at_score=-2` for no cutoff"
        )
    return choose_cutoff(options, model, "all")


def _given(options: MatchOptions, model: MatchingModel, assign: Assignment) -> Cutoff:
    """Return the cutoff that the options give, whatever it is."""
    if options.at_score is not None:
        return Cutoff(options.at_score, options.most, option("at_score", _number(options.at_score)))
    if options.at_cosine is not None:
        return Cutoff(_cosine(options.at_cosine, model), options.most, option("at_cosine", _number(options.at_cosine)))
    if options.at_p is not None:
        raw = model.calibrated is None and model.model.matcher is not None
        source = option("at_p", _number(options.at_p)) + ", the p of a matcher that is not calibrated" * raw
        return Cutoff(_score_of(options.at_p, model), options.most, source)
    if options.at_boundary:
        return Cutoff(_boundary_of(model), options.most, "`at_boundary=True`")
    if options.best is not None:
        return Cutoff(-inf, options.best, option("best", options.best))
    if options.rule is not None:
        return _stored(str(options.rule), model, options)
    if ASSIGNMENTS[assign].of_best:
        return Cutoff(-inf, options.most, f"{option('assign', assign)} without a cutoff")
    if len(model.thresholds) == 1:
        return _stored(next(iter(model.thresholds)), model, options)
    stored = f"several thresholds ({', '.join(model.thresholds)})" if model.thresholds else "no threshold"
    raise BadOption(
        f"{model.path} has {stored}, and no cutoff is given: give `precision=P`, `recall=R`, `costs=(M, A)`, "
        "`at_p=P`, `at_score=S`, `at_cosine=C`, `at_boundary=True` or `best=N`, or `assign='mutual'`, which needs "
        "none; a threshold is chosen by `al-ray evaluate ... --threshold-for precision=0.9` or by "
        "`al_ray.estimate_audit`"
    )


def _cosine(cosine: float, model: MatchingModel) -> float:
    """Return a cosine as the score that it is; BadOption if scores are no cosines."""
    scorer = model.model.scorer
    assert scorer is not None
    if model.model.matcher is not None:
        raise BadOption(
            f"`at_cosine`: scores of {model.path} are p of its matcher (docs/matcher.md); give `at_score=P`, or "
            "another cutoff"
        )
    if scorer.neighbourhood:
        raise BadOption(
            f"`at_cosine`: scores of {model.path} are no cosines, as neighbours are part of them "
            "(docs/neighbourhood.md); give `at_score`, or another cutoff"
        )
    return cosine


def _score_of(p: float, model: MatchingModel) -> float:
    """Return the score, as users see it, at which a calibrated model gives a probability.

    That of a matcher is its p, which stands for the probability until it is calibrated.
    """
    matcher = model.model.matcher is not None
    if matcher and model.calibrated is None:
        return p
    if model.calibrated is None:
        raise BadOption(
            f"`at_p` needs probabilities, and those of {model.path} are not calibrated: label a sample of pairs "
            "(`RunConfig.dev_labels`, or `AuditConfig.by_score=True` and "
            "`al_ray.estimate_audit(..., update_scorer=True)`), or give `at_score`"
        )
    if not 0 < p < 1:
        raise BadOption(f"`at_p` is {p:g}; give a probability between 0 and 1")
    if model.calibrated.weight <= 0:
        raise BadOption(f"`at_p`: the probabilities of {model.path} do not rise with the score; give `at_score`")
    if p >= model.calibrated.ceiling:
        raise BadOption(
            f"`at_p` is {p:g}, and of pairs of {model.path} {ceiling_words(model.calibrated.ceiling)}; give a lower one"
        )
    score = model.calibrated.score_at(p) - model.lowest_p
    # Only candidates match, and those of the least score have p = 0.
    return max(score, 0.0) if matcher else score


def _boundary_of(model: MatchingModel) -> float:
    """Return the score at which p is 1/2."""
    scorer = model.calibrated or model.model.scorer
    assert scorer is not None
    assert model.model.scorer is not None
    trained = model.model.scorer
    # A calibrated w and b, for the scores of the trained one.
    ranks = {name: getattr(trained, name) for name in ("neighbourhood", "both_sides", "matcher")}
    if not replace(scorer, **ranks).has_boundary:
        why, fix = WHY.get(scorer.outcome, scorer.outcome), FIXES.get(scorer.outcome, FIX)
        if scorer.ceiling <= 0.5:
            why = f"of its pairs {ceiling_words(scorer.ceiling)}"
        raise BadOption(f"`at_boundary`: {model.path} has no boundary among the scores, because {why}; {fix}")
    return scorer.boundary - model.lowest_p


def _stored(rule: str, model: MatchingModel, options: MatchOptions) -> Cutoff:
    """Return the threshold that was chosen by a rule and stored with the model."""
    stored = model.thresholds.get(rule)
    if stored is None:
        there = f" (it has: {', '.join(model.thresholds)})" if model.thresholds else ""
        if model.round == 0:
            raise BadOption(
                f"{model.path} hands over its untrained encoder, for which no threshold is chosen; give "
                f"`at_score=S`, or {option('round', LAST)} for the last round"
            )
        raise BadOption(f"{model.path} has no threshold for {rule}{there}; choose one: {_how_to_choose(rule, model)}")
    if stored.get("cosine") is None:
        raise BadOption(f"no threshold of {model.path} satisfies {rule}; give another, or `at_score`")
    source = f"{rule}, chosen on {stored.get('split')}"
    score = float(stored["cosine"]) - model.lowest_p
    if model.model.matcher is not None and score < 0:
        raise BadOption(
            f"{rule} of {model.path} is reached only with pairs that are no candidates, and only candidates match "
            "(docs/matcher.md); give another, or more candidates to a new run "
            "(`RunConfig.candidates.cosine` and `candidates.trigrams`)"
        )
    return Cutoff(score, options.most, source, stored.get("precision"), stored.get("recall"))


def _how_to_choose(rule: str, model: MatchingModel) -> str:
    """Return the commands that choose a threshold by a rule and store it."""
    parsed = parse_rule(rule)
    run, again = (Code("RUN"), "; then copy the model again") if model.run is None else (model.path, "")
    audit = call("estimate_audit", audit=Code("FOLDER"), threshold_for=[str(parsed)])
    if parsed.kind == "ranked-recall":
        return f"{audit}{again}"
    # The last round is measured anyway.
    earlier = model.choice is not None and model.choice.round < model.choice.last
    evaluate = command(
        "evaluate", run=run, split="dev", threshold_for=parsed.target, guarantee=parsed.guarantee,
        round=model.round if earlier else None,
    )  # fmt: skip
    by_audit = parsed.guarantee is not None or parsed.kind == "precision"
    return f"{evaluate}{f', or {audit}' if by_audit else ''}{again}"


def _number(value: float) -> Code:
    """Return a number as a user would write it: 2, not 2.0."""
    return Code(f"{value:g}")


def check_split_bridges(score: float | None, cutoff: Cutoff) -> None:
    """Raise BadOption for a `split_bridges` below which there is no match."""
    if score is not None and score <= cutoff.score:
        raise BadOption(
            f"{option('split_bridges', _number(score))} is not above the cutoff {cutoff.score:.4g} ({cutoff.source}), "
            "so it takes no match out; give a higher score, or leave it out"
        )


def warn_of_no_cutoff(cutoff: Cutoff, assign: Assignment, model: MatchingModel) -> None:
    """Log that best partners are matches without a cutoff although the model cannot tell matches from others."""
    scorer, has_none = model.model.scorer, cutoff.score == -inf and ASSIGNMENTS[assign].of_best
    if has_none and scorer is not None and not scorer.has_boundary:
        why = WHY.get(scorer.outcome, scorer.outcome)
        logger.warning(
            "%s: the best partner of a text is a match at any score, and the model %s has no boundary among the "
            "scores, because %s; %s", cutoff.source, model.path, why, FIXES.get(scorer.outcome, FIX),
        )  # fmt: skip
