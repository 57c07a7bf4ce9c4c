"""F1 of a cascade against the pairs that an oracle is asked: answers are simulated, with stated rates of errors."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from al_ray.apps.matching.assignment import BY_MODEL, SAID_NO, SAID_YES, CandidateEdges, assign
from al_ray.apps.matching.assignment_rules import Assignment
from al_ray.apps.matching.cascade.asking import Verdicts, choose_questions
from al_ray.apps.matching.cascade.band import Band
from al_ray.cluster.token_store import parts_of, pool_folder
from al_ray.core.config.bounds import Between, Seed, check_bounds
from al_ray.core.labels import MATCHER, NO, YES
from al_ray.core.pairs import Keys, Mask, Rows, is_in
from al_ray.core.rng import generator
from al_ray.core.scored_pairs import ScoredPairs
from al_ray.core.text_table import format_columns
from al_ray.matcher.model_file import read_model
from al_ray.runs.other_runs import bound_task
from al_ray.runs.run_folder import RunFolder, bound_config, last_round
from al_ray.storage.uri import storage_path
from studies.match_quality import quality_figures
from studies.records.run_scores import pool_candidates


@dataclass(frozen=True)
class Cascade:
    """F1 over all pairs of match --oracle, by the number of pairs that are asked, of simulated oracles."""

    run: Path
    """Run with a matcher, whose scores are p, on a task whose positives are all matching pairs. Its last round is
    taken, and the labels of the run decide about their pairs, as in match."""
    split: str = "train"
    """The split whose texts are matched."""
    rules: tuple[Assignment, ...] = ("mutual", "all")
    """Rules of assignment."""
    low: Annotated[float, Between(0, 1)] = 0.2
    """Lowest score of an uncertain pair."""
    high: Annotated[float, Between(0, 1)] = 0.8
    """Lowest score of a sure match."""
    cutoff: Annotated[float, Between(0, 1)] = 0.5
    """Lowest score of a match where nobody is asked."""
    errors: tuple[str, ...] = ("0,0", "5,5", "10,20")
    """Oracles: the percentage of matches to which one says no, and of others to which it says yes, such as 10,20."""
    budgets: tuple[int, ...] = (0, 100, 300, 1_000)
    """Most pairs that are asked."""
    seeds: tuple[Seed, ...] = (0, 1, 2, 3, 4)
    """Seeds of the errors."""
    out: Path | None = None
    """JSON file for the figures."""

    def results(self) -> list[dict[str, Any]]:
        """Return a row for each rule, order, oracle and budget, with F1 in percent: mean, least and most of seeds."""
        check_bounds(self)
        band, rows = Band(self.low, self.high, self.cutoff, ("", "")), list[dict[str, Any]]()
        candidates = run_candidates(self.run, self.split)
        for rule in self.rules:
            for order in ("by chance of a change", "at random"):
                # The order is compared by a perfect oracle alone.
                for errors in self.errors if order == "by chance of a change" else self.errors[:1]:
                    for budget in self.budgets:
                        runs = [
                            _cascade(candidates, band, rule, Simulated(errors, budget, seed, order == "at random"))
                            for seed in self.seeds
                        ]
                        f1 = [one["f1"] for one in runs]
                        figures = {name: float(np.mean([one[name] for one in runs])) for name in runs[0]}
                        rows.append(
                            {"rule": rule, "order": order, "errors": errors, "budget": budget}
                            | figures | {"least": min(f1), "most": max(f1)}
                        )  # fmt: skip
        return rows


@dataclass(frozen=True)
class Candidates:
    """Candidates of a model: edges, their keys (n,), which match in truth (n,), and the number of all matches."""

    edges: CandidateEdges
    keys: Keys
    true: Mask
    positives: int


@dataclass(frozen=True)
class Simulated:
    """A simulated oracle. errors: as in Cascade. shuffled: whether pairs are asked in random order."""

    errors: str
    budget: int
    seed: int
    shuffled: bool = False

    def answers(self, true: Mask) -> Mask:
        """(n,) whether each pair matches -> (n,) whether the oracle says so: the same pair gets the same answer."""
        miss, alarm = (float(one) / 100 for one in self.errors.split(","))
        wrong = generator(self.seed, "cascade-errors").random(len(true)) < np.where(true, miss, alarm)
        return true ^ wrong

    def order(self, asked: Rows) -> Rows:
        """Return the positions that are asked."""
        order = generator(self.seed, "cascade-order").permutation(asked) if self.shuffled else asked
        return order[: self.budget]


def run_candidates(run: Path, name: str) -> Candidates:
    """Read the candidates of the last round of a run with a matcher, from its files; no text is encoded."""
    path = storage_path(str(run))
    config, journal = bound_config(path), RunFolder(path, bound_task(path))
    task, parts = journal.task, parts_of(journal.task)
    split = task.measurable(name)
    pool = Path(str(pool_folder(task, config.encoding, path)))
    owned = pool_candidates(pool / "candidates", f"{parts[name, 'left']}-{parts[name, 'right']}")
    model = journal.round(last_round(path)) / "model" / MATCHER
    matcher = read_model(model, owned[0].names)
    p = [matcher.probability(np.ascontiguousarray(chunk), config.threads) for one in owned for chunk in one.features]
    keys = np.concatenate([one.keys for one in owned])
    pairs, labelled = split.space.pairs(keys), journal.ledger.labelled()
    decisions = np.full(len(keys), BY_MODEL, dtype=np.uint8)
    for label, decided in ((YES, SAID_YES), (NO, SAID_NO)):
        own = split.space.keys(labelled.pairs[labelled.labels == label])
        decisions[is_in(keys, np.sort(own))] = decided
    edges = CandidateEdges(ScoredPairs(pairs, np.concatenate(p)), task.symmetric, decisions)
    return Candidates(edges, keys, is_in(keys, split.positive_keys), len(split.positives))


def _cascade(candidates: Candidates, band: Band, rule: Assignment, oracle: Simulated) -> dict[str, float]:
    """Return the figures of one cascade: precision, recall and F1 in percent, and how many pairs were asked."""
    edges = candidates.edges
    questions = choose_questions(edges, edges.scores, band, rule)
    asked = oracle.order(questions.order)
    yes = oracle.answers(candidates.true)[asked]
    keys = candidates.keys[asked]
    verdicts = Verdicts(band, np.sort(keys[yes]), np.sort(keys[~yes]))
    found = assign(verdicts.apply(candidates.keys, edges), rule, band.cutoff)
    right = int((found & candidates.true).sum())
    figures = quality_figures(right, int(found.sum()), candidates.positives)
    percents = {name: 100 * figures[name] for name in ("precision", "recall", "f1")}
    return percents | {"asked": len(asked), "uncertain": len(questions.order), "settled": questions.settled}


def format_cascade(rows: list[dict[str, Any]]) -> str:
    """Format a line for each rule, order, oracle and budget."""
    head = ["rule", "order", "errors %", "asked", "of", "precision %", "recall %", "F1 %", "least", "most"]
    return format_columns([head, *_lines(rows)])


def _lines(rows: list[dict[str, Any]]) -> Iterator[list[str]]:
    for one in rows:
        shares = [f"{one[name]:.1f}" for name in ("precision", "recall", "f1", "least", "most")]
        counts = [f"{one['asked']:,.0f}", f"{one['uncertain']:,.0f}"]
        yield [one["rule"], one["order"], one["errors"], *counts, *shares]
