"""The model that matches: that of a round of a run, with the labels of the run, or a copy outside of its run."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from al_ray.active_learning.config import RunConfig
from al_ray.core.config.encoder import EncoderConfig, family_of
from al_ray.core.config.sections import CandidatesConfig, ScoringConfig
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.labels import Model
from al_ray.core.naming import Code, call, option, options_of
from al_ray.core.scorer import CANDIDATE, Scorer
from al_ray.core.task import Task
from al_ray.datasets.task_folder import read_about
from al_ray.encoders.encoder import saved
from al_ray.metrics.handover import Choice, RoundName
from al_ray.runs.handover import choose_model
from al_ray.runs.other_runs import bound_task, run_of_model
from al_ray.runs.run_folder import RunFolder, bound_config, last_round
from al_ray.runs.scorer_evidence import calibrated_scorer
from al_ray.runs.untrained_figures import untrained_digest
from al_ray.storage.files import read_json
from al_ray.storage.uri import StoragePath, storage_path
from al_ray.training.saved_model import SCORER, read_model, saved_encoding, saved_matching
from al_ray.training.untrained_model import UNTRAINED, untrained_model

# Of a folder of sentence-transformers.
MODULES = "modules.json"


@dataclass(frozen=True)
class MatchingModel:
    """The model of a complete round of a run, or a copy of a model outside of its run.

    path: of the run, or of the copy. calibrated: the scorer whose p is a probability, None if w and b were not fitted
    to drawn pairs. thresholds: those that were chosen and stored with the model, by their rule, such as
    "precision=0.9". run, round: None for a copy, which has no labels, no task and no options of tables; round 0 is the
    untrained encoder. choice: why it is this round; None for a copy.
    """

    path: StoragePath
    config: RunConfig
    model: Model
    calibrated: Scorer | None
    thresholds: Mapping[str, Mapping[str, Any]]
    run: RunFolder | None = None
    round: int | None = None
    choice: Choice | None = None

    def allowing(self, most_unknown: float) -> "MatchingModel":
        """Return the same model for texts with up to this share of unknown tokens."""
        return replace(self, config=replace(self.config, most_unknown=most_unknown))

    @property
    def lowest_p(self) -> float:
        """What is subtracted from a score for what users see: with a matcher, whose p is shown, the score of p = 0."""
        return CANDIDATE if self.model.matcher is not None else 0.0

    @property
    def compares_all_again(self) -> bool:
        """Whether a new text changes scores of pairs of other texts: those of a matcher, or with a neighbourhood."""
        scorer = self.model.scorer
        return self.model.matcher is not None or (scorer is not None and scorer.neighbourhood != 0)

    @property
    def knows_both_sides(self) -> bool:
        """Whether the score of a pair depends on other texts of both sides: a matcher, or a neighbourhood of both."""
        return self.model.matcher is not None or self.scores_both_sides

    @property
    def scores_both_sides(self) -> bool:
        """Whether the score is the cosine less the neighbourhood of both sides."""
        scorer = self.model.scorer
        return scorer is not None and scorer.neighbourhood != 0 and scorer.both_sides

    @property
    def task(self) -> Task:
        """Return the task of the run."""
        assert self.run is not None
        return self.run.task

    @property
    def table_options(self) -> Mapping[str, Any]:
        """Return the options by which the tables of the task were read; {} if it was made of no tables of texts."""
        options = {} if self.run is None else table_options(self.config)
        # Tables have the vectors of the task only where the encoder takes them.
        given = family_of(self.config.encoder).given
        return options if given or not options else {**options, "vectors_column": None}


def match_command(run: RunFolder) -> str | None:
    """Return the call that matches tables by the model that a run hands over, FILE and DIR left to fill in.

    None if the run has no model, or one that cannot match.
    """
    config = bound_config(run.path)
    if not run.last or family_of(config.encoder).learns_words:
        return None
    number = choose_model(run.path).round
    # Its weights are not needed here.
    model = run.model(number) if number else Model("", "", UNTRAINED)
    assert model.scorer is not None
    # Between two tables mutual best matches need no cutoff.
    two, boundary = not run.task.symmetric or needs_two_sides(model, config), model.scorer.has_boundary
    return call(
        "match", model=run.path,
        options=options_of(
            "MatchOptions", left=Code("FILE"), right=Code("FILE") if two else None,
            at_boundary=True if boundary and not two else None, best=None if boundary or two else Code("N"),
            text_columns=None if table_options(config) else Code("NAME"),
        ),
        out=Code("DIR"),
    )  # fmt: skip


def table_options(config: RunConfig) -> Mapping[str, Any]:
    """Return the options by which the tables of a run's task were read; {} if it was made of no tables of texts."""
    provenance = read_about(storage_path(config.task)).get("provenance", {})
    of_texts = provenance.get("command") == "prepare pairs" and provenance.get("source") is None
    return provenance if of_texts else {}


def needs_two_sides(model: Model, config: RunConfig) -> bool:
    """Return whether a model treats left and right texts in different ways, so that it cannot match one table."""
    scorer = model.scorer
    left_alone = scorer is not None and bool(scorer.neighbourhood) and not scorer.both_sides
    return left_alone or config.prompt_right is not None


def open_model(path: StoragePath, asked: RoundName = None) -> MatchingModel:
    """Open the model of a complete round of a run, by default the best by evidence; BadOption or BadFile if it cannot.

    path: of the run, of the model folder of a round, or of a copy of such a folder. asked: see `choose_model`; a model
    folder is of one round.
    """
    # A model folder of transformers holds a config.json, too.
    if not (path / SCORER).exists():
        if (path / MODULES).exists():
            raise BadOption(f"{path} is an encoder, without {SCORER}; give a run, or the model folder of a round")
        return _model_of_run(path, asked)
    of = run_of_model(path.resolve())
    if asked is not None and (of is None or of[1] != asked):
        raise BadOption(f"{option('round', asked)}: {path} is one model, and only a run has several; leave `round` out")
    return _copied_model(path.resolve()) if of is None else _model_of_run(*of)


def _model_of_run(run: StoragePath, asked: RoundName) -> MatchingModel:
    config = bound_config(run)
    choice = choose_model(run, asked)
    _check_encoder_of_any_words(run, config.encoding)
    folder, number = RunFolder(run, bound_task(run)), choice.round
    if not number:
        model = untrained_model(run, config.encoding, untrained_digest(run))
        return MatchingModel(run, by_cosine_alone(config), model, None, {}, folder, number, choice)
    folder.check_weights_exist(number)
    model, path = folder.model(number), folder.round(number) / "model"
    return MatchingModel(run, config, model, *_stored_scores(path, model), folder, number, choice)


def by_cosine_alone(config: RunConfig) -> RunConfig:
    """Return the options of a run by which pairs are ranked by the cosine, whatever ranks them in the run."""
    return replace(config, matcher="off", encoder_every=0, candidates=CandidatesConfig(), scoring=ScoringConfig(0.0))


def _copied_model(folder: StoragePath) -> MatchingModel:
    """Open a model folder that lies in no run: maximum length and prompts are those of its files."""
    if not isinstance(folder, Path):
        raise BadOption(f"{folder} is a copied model on an object store; copy it to a folder, or give its run")
    if (known := read_model(folder)) is not None and known.matcher is not None:
        encoding, candidates = saved_matching(folder)
        config = RunConfig(task=str(folder), matcher="on", candidates=candidates, **vars(encoding))
        return MatchingModel(folder, config, known, *_stored_scores(folder, known))
    encoding = saved_encoding(folder)
    _check_encoder_of_any_words(folder, encoding)
    assert known is not None
    # The stored digest is of the options of its run, which are not known here.
    model = replace(known, digest=saved(str(folder), encoding).digest())
    config = RunConfig(task=str(folder), **vars(encoding))
    return MatchingModel(folder, config, model, *_stored_scores(folder, model))


def _check_encoder_of_any_words(path: StoragePath, encoding: EncoderConfig) -> None:
    if family_of(encoding.encoder).learns_words:
        raise BadOption(
            f"{path} has the encoder {encoding.encoder}, which knows the words of its task only; give a model with "
            "another encoder"
        )


def _stored_scores(folder: StoragePath, model: Model) -> tuple[Scorer | None, Mapping[str, Mapping[str, Any]]]:
    """Return the calibrated scorer that is stored with a model, or None, and the thresholds by their rule."""
    assert model.scorer is not None
    scorer, calibrated_on = calibrated_scorer(folder / SCORER, model.scorer)
    thresholds = read_json(folder / SCORER, []).get("thresholds", [])
    try:
        by_rule = {str(one["rule"]): one for one in thresholds}
    except (KeyError, TypeError) as error:
        raise BadFile(f"{folder / SCORER}: the field thresholds is not a list of thresholds; restore it") from error
    return None if calibrated_on is None else scorer, by_rule


def model_of(about: Mapping[str, Any], out: StoragePath) -> MatchingModel:
    """Open the model by which the texts of a match folder were matched. about: what its state says of it."""
    run, number = storage_path(about["run"]), about["round"]
    try:
        model = open_model(run, number)
    except BadOption as error:
        if number is None or number <= last_round(run):
            raise
        fix = "restore it, or match all texts with another `out`"
        raise BadOption(f"{run} has no complete round {number}; {fix}") from error
    of_round = "" if about["round"] is None else f"of round {about['round']} of "
    if model.model.digest != about["digest"]:
        raise BadOption(
            f"the model {of_round}{about['run']} is not the one by which {out} was matched; match all texts with it: "
            "give another `out`"
        )
    # Why it was chosen then.
    try:
        choice = None if about.get("choice") is None else Choice.of_dict(about["choice"])
    except (KeyError, TypeError, ValueError) as error:
        raise BadFile(f"{out}: why its model was chosen cannot be read ({error!r}); restore the folder") from error
    return model if choice is None else replace(model, choice=choice)


def require_symmetric_model(model: MatchingModel) -> None:
    """Raise BadOption for a model that can only match two sets of texts."""
    scorer = model.model.scorer
    if scorer is not None and scorer.neighbourhood and not scorer.both_sides:
        raise BadOption(
            f"the scores of {model.path} compare left texts with right ones (`RunConfig.scoring.neighbourhood`), "
            "so it matches two sides; give `right`"
        )
    if model.config.prompt_right is not None:
        raise BadOption(
            f"{model.path} has a prompt for right texts (`RunConfig.prompt_right`), so it matches two sides; give "
            "`right`"
        )
