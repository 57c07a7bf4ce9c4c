"""From a model and texts to matches and clusters in a folder: all texts at once, or new ones into known ones."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from al_ray.active_learning.config import RunConfig
from al_ray.apps.matching.assignment_rules import ASSIGNMENTS
from al_ray.apps.matching.cascade.asking import Verdicts
from al_ray.apps.matching.cascade.band import choose_band
from al_ray.apps.matching.cascade.oracle import ask_pairs, make_pair_oracle, record_answers
from al_ray.apps.matching.clusters.nodes import Nodes
from al_ray.apps.matching.clusters.rules import ClusterRules
from al_ray.apps.matching.cutoff import check_split_bridges, choose_assignment, choose_cutoff, warn_of_no_cutoff
from al_ray.apps.matching.decisions import PairDecisions, always_pairs, known_decisions
from al_ray.apps.matching.folder import (
    Matches,
    check_made_from,
)
from al_ray.apps.matching.golden.fields import GoldenPlan
from al_ray.apps.matching.golden.overrides import read_overrides
from al_ray.apps.matching.incremental.about import MatchingRules, StateAbout
from al_ray.apps.matching.incremental.growth import GrownTask, grow
from al_ray.apps.matching.incremental.merging import best_of_texts, merge, plan_requery
from al_ray.apps.matching.incremental.rectangle import RectangleSearch, rectangles
from al_ray.apps.matching.incremental.renewal import cells_of, holds, old_clusters, renew, write_first
from al_ray.apps.matching.incremental.state import (
    MatchState,
    check_not_extended,
    read_state,
    removed_on_error,
    task_name,
)
from al_ray.apps.matching.model import MatchingModel, model_of, require_symmetric_model
from al_ray.apps.matching.options import MatchOptions, MatchSearchConfig
from al_ray.apps.matching.outputs import Matching, Outcome, cluster_texts, model_record, write_outcome
from al_ray.apps.matching.search import FIX, check_neighbour_search, cosines_of, exact_cosines, find_candidates
from al_ray.apps.matching.summary import summary_lines
from al_ray.apps.matching.texts import (
    as_matcher_reads,
    check_clustering,
    check_options_of_into,
    is_task,
    read_arrived,
    read_texts,
    table_record,
    task_folder,
    typed_as_known,
)
from al_ray.apps.matching.why.finding import check_why, reasons_of
from al_ray.cluster.candidates.sharded_candidates import ShardedCandidates
from al_ray.cluster.pool.sharded_pool import ShardedPool
from al_ray.cluster.services import deploy_pool
from al_ray.cluster.session import session
from al_ray.cluster.token_store import pool_folder
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import EvaluationConfig, ScoringConfig
from al_ray.core.errors import BadOption
from al_ray.core.labels import NO, YES
from al_ray.core.progress import OnProgress
from al_ray.core.scored_pairs import ScoredPairs
from al_ray.core.task import Task
from al_ray.datasets.task_folder import write_task
from al_ray.datasets.tsv import Report
from al_ray.runs.place import check_outside_task
from al_ray.storage.lock import locked
from al_ray.storage.uri import StoragePath, storage_path
from al_ray.training.saved_model import input_digest

Look = Callable[[StoragePath, ShardedPool, MatchOptions, Matching], dict[str, Any]]


def no_look(out: StoragePath, pool: ShardedPool, options: MatchOptions, matching: Matching) -> dict[str, Any]:
    """Return nothing more for match.json."""
    return {}


@dataclass(frozen=True)
class MatchResult:
    """What was matched and how: the matches, the task of the texts, and match.json as a value."""

    task: Task
    matches: Matches
    record: dict[str, Any]
    report: Report

    @property
    def summary(self) -> Iterator[str]:
        """Yield the lines that the command prints."""
        yield from self.report.lines()
        yield from summary_lines(self.record, self.task.symmetric)


def match_texts(
    options: MatchOptions,
    model: MatchingModel,
    out: StoragePath,
    cluster_config: ClusterConfig,
    watch: OnProgress,
    look: Look = no_look,
    called: Callable[[str], str] = str,
) -> MatchResult:
    """Match texts by a model, and write matches and clusters into a folder.

    The model's run decides the encoder, its maximum length and prompts. Rerun the same command after a stop; matches of
    other texts or of another model are not replaced. look: sees the pool of the texts once they are matched, and
    returns what match.json has besides. called: turns a text that names options into what the page shows.
    """
    if model.run is not None:
        check_outside_task(out, storage_path(model.config.task))
    elif options.suggest is not None:
        raise BadOption(
            f"`suggest` prefers texts unlike training, and {model.path} is a copy of a model, whose training texts are "
            "not known; give `model=RUN`, or leave out `suggest`"
        )
    check_why(options.why, model)
    model = model.allowing(options.most_unknown)
    task, report = read_texts(options, model)
    task = as_matcher_reads(task, options, model)
    split = task.split(options.split or "train")
    made_from = input_digest([model.model.digest, task.digest, split.name])
    check_made_from(out, made_from)
    check_not_extended(out, made_from, task)
    matching = _matching(options, model, task, out)
    if options.oracle is not None:
        # An oracle that cannot be made is an error before the search, which can take hours.
        make_pair_oracle(options, task, _answers_folder(options, out), model.config.threads, watch)
    with locked(out) as out, removed_on_error(out), session(cluster_config, trainers=0):
        check_made_from(out, made_from)
        number = check_not_extended(out, made_from, task)
        place = task_folder(options, task, out)
        config = replace(_searched(model.config, options.search), task=str(place))
        pool_of = pool_folder(task, config.encoding, out)
        with deploy_pool(config, cluster_config, task, out, watch, known=out / "vectors") as pool:
            ask = partial(_ask, options, out, watch)
            matching, matches, scored, search = _matched(pool, config, pool_of, matching, options.why, ask)
            seen = look(out, pool, options, matching)
        clustered = cluster_texts(matching, matches)
        write_first(out, number, matching, scored, clustered, _state_about(options, matching, made_from))
        why = {} if matches.reasons is None else {"why": matches.reasons.record}
        added = {"made_from": made_from, "search": search} | seen | why
        record = write_outcome(out, Outcome(matching, matches, scored, clustered, added, called))
    return MatchResult(task, matches, record, report)


def _state_about(options: MatchOptions, matching: Matching, made_from: str) -> StateAbout | None:
    """Return what new texts need to know to be added to the matches; None if they cannot be."""
    if is_task(options) or options.search.kind == "knn" or options.oracle is not None:
        return None
    rules = MatchingRules(matching.rule, matching.rules, matching.cutoff)
    model, table = matching.model, table_record(options, matching.model)
    return StateAbout(model_record(model), rules, table, made_from, cells_of(matching))


def _answers_folder(options: MatchOptions, out: StoragePath) -> StoragePath:
    """Return the folder of the answers of an oracle."""
    return options.oracle_answers or out / "oracle"


def _matched(
    pool: ShardedPool,
    config: RunConfig,
    pool_of: StoragePath,
    matching: Matching,
    why: bool,
    ask: Callable[[Matching, ScoredPairs], Matching] | None = None,
) -> tuple[Matching, Matches, ScoredPairs, Mapping[str, Any]]:
    """Return the matches of a pool, the candidates among which they were assigned, and how these were searched.

    pool_of: the folder of the pool. why: say of each match why it has its p. ask: has an oracle answer, if there is
    one; what decides about the pairs then is returned, too.
    """
    model, split, cutoff = matching.model, matching.split, matching.cutoff
    compared, shift = None, model.lowest_p
    if model.model.matcher is not None:
        compared = ShardedCandidates(pool, config, pool_of, model.model.by_cosine, model.model.matcher.reference)
        pool.find_candidates = lambda _, splits: compared.prepare(splits)
        compared.prepare([split])
    lowest, rule = cutoff.score, matching.rule
    if matching.verdicts is not None:
        # An answer can make a match of any uncertain pair, the best of its texts or not.
        lowest, rule = matching.verdicts.band.low, "all"
    searched = replace(cutoff, score=lowest + shift)
    found = find_candidates(pool, split, model.model, searched, rule, matching.decisions, model.config.seed)
    candidates = found.candidates
    pairs = split.space.pairs(candidates.keys)
    cosines = cosines_of(pool, split, model.model, candidates)
    exact = exact_cosines(pool_of, matching.task.symmetric, pairs, cosines)
    # p of a matcher does not change where the cosine of equal texts is made exact. A pair that a label or a rule alone
    # brought in is no candidate, and has p = 0.
    scores = np.maximum(candidates.cosines - shift, 0.0) if shift else candidates.cosines + (exact - cosines)
    if matching.verdicts is not None and ask is not None:
        matching = ask(matching, ScoredPairs(pairs, scores, exact))
    matches = matching.matches(ScoredPairs(pairs, scores, exact))
    if why and compared is not None:
        reasons = reasons_of(compared, split, model, matches.pairs, matches.scores)
        matches = replace(matches, reasons=reasons)
    scored = ScoredPairs(pairs, scores, exact if model.compares_all_again else None)
    return matching, matches, scored, found.search


def _matching(options: MatchOptions, model: MatchingModel, task: Task, out: StoragePath) -> Matching:
    """Return what decides about the pairs of a task; BadOption for options that do not fit to it.

    BadFile if overrides of golden records in `out` cannot be read.
    """
    split = task.split(options.split or "train")
    rule = choose_assignment(options, task.symmetric)
    cutoff = choose_cutoff(options, model, rule)
    check_neighbour_search(options.search, model.model, task, split, rule)
    check_clustering(options, task)
    if task.symmetric:
        require_symmetric_model(model)
    rules = ClusterRules.of_options(options)
    check_split_bridges(rules.split_bridges, cutoff)
    warn_of_no_cutoff(cutoff, rule, model)
    decisions = _decisions(model, task, split.name, rules, options.most)
    golden = _golden_plan(rules.golden, task, table_record(options, model), out) if rules.golden else None
    written = options.texts, options.escape_formulas
    band = choose_band(options, model, cutoff)
    verdicts = None if band is None else Verdicts(band)
    return Matching(model, task, split, rule, cutoff, rules, decisions, *written, golden, verdicts)


def _ask(
    options: MatchOptions, out: StoragePath, watch: OnProgress, matching: Matching, scored: ScoredPairs
) -> Matching:
    """Return what decides about the pairs once an oracle has answered. scored: all candidates, with their cosines."""
    verdicts = matching.verdicts
    assert verdicts is not None
    questions = matching.questions(scored)
    pairs, folder = scored.pairs[questions.order], _answers_folder(options, out)
    answers = ask_pairs(options, matching.task, pairs, folder, matching.model.config.threads, watch)
    keys = matching.split.space.keys(pairs)
    yes, no = (np.sort(keys[answers.labels == label]) for label in (YES, NO))
    record = record_answers(options, verdicts.band, answers, questions.settled)
    return replace(matching, verdicts=replace(verdicts, yes=yes, no=no, record=record))


def match_into(
    options: MatchOptions,
    out: StoragePath,
    cluster_config: ClusterConfig,
    watch: OnProgress,
    called: Callable[[str], str] = str,
) -> MatchResult:
    """Match new texts with those of a match folder and with each other, and write the matches of all of them there.

    The result is that of matching all texts at once, but for the last digits of scores. Texts with a known id replace
    the known ones; `complete`: known texts that are not in the tables are removed. Known texts are not encoded again,
    and if the score is the cosine, pairs of known texts are not compared again. Rerun the same command after a stop.
    called: as of `match_texts`.
    """
    with locked(out) as out, removed_on_error(out):
        state, known = read_state(out)
        model = model_of(state.about.model, out).allowing(options.most_unknown)
        check_why(options.why, model)
        check_options_of_into(options, state.about)
        rules = state.about.rules
        table = state.about.table, model.config.max_length, known.symmetric
        arrived, report = read_arrived(options, *table, state.about.columns)
        if model.model.matcher is not None:
            arrived = typed_as_known(arrived, known)
        grown = grow(known, arrived, options.complete)
        if known.symmetric and len(grown.task.left) < 2:
            raise BadOption("`complete`: one text would be left, and a pair needs two; give a table of more rows")
        grown = replace(grown, task=as_matcher_reads(grown.task, options, model))
        split = grown.task.split("train")
        decisions = _decisions(model, grown.task, split.name, rules.clusters, options.most)
        cutoff, words = replace(rules.cutoff, count=options.most), rules.clusters.golden
        golden = None if words is None else _golden_plan(words, grown.task, state.about.table, out)
        matching = Matching(
            model, grown.task, split, rules.assign, cutoff, rules.clusters, decisions, options.texts,
            options.escape_formulas, golden,
        )  # fmt: skip
        if model.compares_all_again:
            matches, scored = _compare_again(matching, state, out, cluster_config, watch, options.why)
        else:
            scored = _search_again(matching, state, known, grown, out, cluster_config, watch)
            matches = matching.matches(scored)
        clustered = cluster_texts(matching, matches, old_clusters(state, known, grown), state.next_cluster)
        added = {} if matches.reasons is None else {"why": matches.reasons.record}
        record = renew(out, Outcome(matching, matches, scored, clustered, added, called), state, grown)
    return MatchResult(grown.task, matches, record, report)


def _golden_plan(words: str, task: Task, table: Mapping[str, Any], out: StoragePath) -> GoldenPlan:
    """Return how golden records are made; an error, before any work, if the overrides of a folder cannot be read."""
    read_overrides(out)
    return GoldenPlan.of(words, task, table)


def _compare_again(
    matching: Matching, state: MatchState, out: StoragePath, cluster: ClusterConfig, watch: OnProgress, why: bool
) -> tuple[Matches, ScoredPairs]:
    """Return the matches of all texts by scores that depend on all of them, and the candidates that were assigned.

    New texts change the neighbourhoods of known ones, and so the scores of pairs of these: all texts are searched and
    compared again. Only the vectors of known texts are taken as they are. why: say why a match has its p.
    """
    # An earlier al_ray kept no cosines beside scores with a neighbourhood.
    if holds(state, matching) and state.candidates.other is not None and not why:
        scored = state.candidates
        return matching.matches(scored), scored
    task, place = matching.task, out / task_name(matching.task)
    write_task(task, place, {"command": "match", "into": str(out)})
    config = replace(_searched(matching.model.config, MatchSearchConfig()), task=str(place))
    pool_of = pool_folder(task, config.encoding, out)
    with (
        session(cluster, trainers=0),
        deploy_pool(config, cluster, task, out, watch, known=out / "vectors") as pool,
    ):
        return _matched(pool, config, pool_of, matching, why)[1:3]


def _search_again(
    matching: Matching,
    state: MatchState,
    known: Task,
    grown: GrownTask,
    out: StoragePath,
    cluster: ClusterConfig,
    watch: OnProgress,
) -> ScoredPairs:
    """Return the candidates of all texts: known ones that still hold, and those of texts that are searched again."""
    space = matching.split.space
    labelled = space.pairs(matching.decisions.certain), space.pairs(matching.decisions.no)
    best = ASSIGNMENTS[matching.rule].of_best
    requery = plan_requery(state, (len(known.left), len(known.right)), grown, *labelled, best)
    found = list[ScoredPairs]()
    parts = rectangles(grown.task, requery)
    if parts:
        with session(cluster, trainers=0):
            config, model = _searched(matching.model.config, MatchSearchConfig()), matching.model.model
            search = RectangleSearch(config, cluster, model, out / "work", out / "vectors")
            rules = matching.cutoff, matching.rule, matching.decisions
            found = [search.find(grown.task, rows, *rules, watch) for rows in parts]
    scored, cutoff = merge(requery.kept, *found), matching.cutoff
    if best:
        # As when all texts are matched at once, `most` is no limit of these.
        return best_of_texts(scored, space, (len(grown.task.left), len(grown.task.right)), matching.decisions.certain)
    if np.count_nonzero(scored.scores >= cutoff.score) > cutoff.count:
        raise BadOption(f"more than {cutoff.count:,} pairs are above the cutoff ({cutoff.source}); {FIX}")
    return scored


def _decisions(model: MatchingModel, task: Task, split: str, rules: ClusterRules, most: int) -> PairDecisions:
    """Return what labels and rules decide; BadOption for a rule that does not fit to the values of its column."""
    rules.canonical_rule.check_one_type(Nodes(task))
    space = task.split(split).space
    decisions = known_decisions(model, task, space)
    return decisions.with_rule(always_pairs(task, rules.always, space, most)) if rules.always else decisions


def _searched(config: RunConfig, options: MatchSearchConfig) -> RunConfig:
    """Return the options of the pool, searched as the options of matching say, however the run searched."""
    search = replace(config.search, **asdict(options))
    return replace(config, search=search, evaluation=replace(EvaluationConfig(), splits=()), scoring=ScoringConfig(0.0))
