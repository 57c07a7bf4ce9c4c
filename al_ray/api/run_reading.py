"""Read what a run folder holds, without what a run computes with."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from al_ray.active_learning.config import RunConfig
from al_ray.core.config.sections import ScoringConfig, Sides
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.labels import Labelled
from al_ray.datasets.tables.label_tables import labels_table
from al_ray.metrics.handover import LAST, Choice, RoundName
from al_ray.runs.advice import advice
from al_ray.runs.dev_labels import format_estimate
from al_ray.runs.handover import choose_model
from al_ray.runs.other_runs import bound_task, count_classes
from al_ray.runs.round_table import round_table
from al_ray.runs.run_folder import RunFolder, bound_config
from al_ray.runs.run_state import last_round
from al_ray.runs.untrained_figures import untrained_line
from al_ray.storage.uri import StoragePath, storage_path

if TYPE_CHECKING:
    from al_ray.api.models import PairModel


@dataclass(frozen=True)
class Run:
    """A run folder: its options, its metrics by round, its labels and its models."""

    path: StoragePath
    config: RunConfig
    # Why the run ended before its last planned round; None if it did not, or was only loaded.
    stopped: str | None = None
    # The table of planned and used seconds and memory, if a job asked for it.
    planned_and_used: str = ""

    @cached_property
    def folder(self) -> RunFolder:
        """Open the folder for reading, with the task that it is bound to."""
        # Resolved: after a change of the working directory a relative path would be that of an empty run.
        return RunFolder(self.path.resolve(), bound_task(self.path))

    @property
    def rounds(self) -> int:
        """Return the number of complete rounds."""
        return self.folder.last

    def metrics(self) -> pa.Table:
        """Return the metrics of all complete rounds, one row each: the columns are the fields of metrics.jsonl.

        average_precision and precision_at_recall_20 are shares in [0, 1], null where nothing was evaluated; `seconds`
        is a struct of the seconds of each stage; average_precision_interval and average_precision_gain are structs of
        value, low and high, 95% over queries. A field that an earlier version of al_ray did not write is null.
        """
        rounds = self.folder.complete_rounds()
        names = dict.fromkeys(name for line in rounds for name in line)
        try:
            return pa.Table.from_pylist([{name: line.get(name) for name in names} for line in rounds])
        except (pa.ArrowException, OverflowError) as error:
            path = self.path / "metrics.jsonl"
            raise BadFile(f"{path} has values of several types in one field ({error}); restore it") from error

    def labels(self) -> pa.Table:
        """Return all labels, in the order of labelling, those of the round under way included, one row a pair.

        Columns: sentence1, sentence2, label (1 match, 0 no match, null unsure), left_id, right_id, answer, round,
        source.
        """
        return labels_table(self.labelled(), self.folder.task, every=True)

    def labelled(self) -> Labelled:
        """Return all labels as arrays, in the order of labelling, those of the round under way included."""
        return self.folder.ledger.labelled()

    def model(self, round: RoundName = None) -> "PairModel":
        """Load the model of a round, 0 for the untrained encoder, or "last"; the best by evidence by default.

        Which that is, and why, is `choice` of the model (docs/handover.md).

        Raises:
            BadOption: if the round is not complete, or if the model has a matcher (`load_matcher`).
        """
        # Not at the top: a run is read without torch.
        from al_ray.api.models import load_model

        return load_model(self.path.resolve(), round=round)

    def untrained(self) -> dict[str, Any] | None:
        """Return what was measured before the first round, without any label; None if nothing was."""
        rounds = self.folder.complete_rounds()
        return untrained_line(rounds[0]) if rounds else None

    def outcomes(self) -> tuple[int, int]:
        """Return the positives and negatives that were labelled: `matched` of a config with stratified-match.

        Raises:
            BadOption: if the run has not all of its rounds.
        """
        return count_classes(self.path)

    def other_choice(self) -> Choice | None:
        """Return which model the run hands over, and why, if that is not the last one (docs/handover.md)."""
        choice = choose_model(self.path) if last_round(self.path) else None
        return None if choice is None or choice.round == choice.last else choice

    def outlook(self) -> list[str]:
        """Return whether more labels are worth their price, in words; nothing before a round is complete."""
        return list(advice(self.path))

    def in_words(self) -> Iterator[str]:
        """Yield what the run command prints at its end: the table of all rounds, and what to do with the model."""
        # Not at the top: it loads torch.
        from al_ray.api.run_printout import result_lines

        yield round_table(self.folder.metrics())
        yield from map(format_estimate, self.folder.dev_labels.estimates())
        yield from filter(None, [self.planned_and_used])
        yield from result_lines(RunFolder(self.path, self.folder.task))

    def with_neighbourhood(self, neighbourhood: float, sides: Sides | None = None) -> "Run":
        """Return the same run, which `evaluate` and `compare` rank by other scores (docs/neighbourhood.md).

        neighbourhood: a, from 0 to 1; 0 for the cosine. w and b are fitted again to these scores; nothing is written.
        sides: "left" or "both", as --scoring.neighbourhood-sides; by default those of the run.

        Raises:
            BadOption: if it is beyond these bounds, or if a matcher ranks the pairs.
        """
        if self.config.matcher == "on":
            raise BadOption(
                f"`neighbourhood`: {self.path} has a matcher, whose p ranks the candidates (docs/matcher.md); leave it "
                "out; `round=0` without it is the cosine"
            )
        sides = sides or (self.config.scoring.neighbourhood_sides if neighbourhood else "left")
        config = replace(self.config, scoring=ScoringConfig(neighbourhood, sides))
        return replace(self, config=config)

    def complete_round(self, round: RoundName, first: int = 0) -> int:
        """Return the number of a complete round, the last one for "last" and by default; 0 is the untrained encoder.

        Raises:
            BadOption: if the round is before `first` or not complete.
        """
        last = self.rounds
        number = last if round in (None, LAST) else round
        if type(number) is not int or not first <= number <= last:
            raise BadOption(
                f"round {number}: {self.path} has complete rounds 1 to {last}; give one of these, last, or 0 for the "
                "untrained encoder"
            )
        return number


def load_run(path: str | StoragePath) -> Run:
    """Open the folder of a run.

    Examples:
        >>> al_ray.load_run(folder / "run").rounds
        2

    Raises:
        WrongFolder: if it is not the folder of a run.
        BadFile: if its config.json is damaged.
    """
    folder = storage_path(str(path))
    return Run(folder, bound_config(folder))
