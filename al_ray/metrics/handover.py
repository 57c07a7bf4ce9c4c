"""Which model of a run is handed over to match, serve and export: a rule on average precisions (docs/handover.md).

Of complete labels: the last round. An earlier one takes its place if its average precision is higher by more than the
paired 95% interval of the difference, of several such rounds the highest. The untrained encoder takes the place of
either unless that has a higher average precision than it: without a gain, labels are no reason for another model.
Of estimates: an earlier round takes the place of the last one only if its whole interval is above that of the last.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, cast, get_type_hints

from al_ray.core.config.serialization import fits
from al_ray.metrics.average_precision import Estimate

Reason = Literal["given", "uncompared", "last", "better", "untrained"]
Measured = Literal["dev", "train", "dev-labels"]
LAST: Literal["last"] = "last"
RoundName = int | Literal["last"] | None
"""What a user asks for: the number of a round, 0 for the untrained encoder; the last one; None: by evidence."""
Interval = tuple[float, float]
"""The low and the high end of a 95% interval."""


@dataclass(frozen=True)
class MeasuredModel:
    """A model that can be handed over: its round, 0 for the untrained encoder, and its average precision in [0, 1].

    gain: that less the average precision of the last round, with its paired 95% interval; None if it is not known.
    """

    round: int
    average_precision: float
    gain: Estimate | None = None


@dataclass(frozen=True)
class Choice:
    """The round whose model is handed over, 0 for the untrained encoder; the last round of the run; and why it is this.

    reason: "given" by the user; "uncompared": nothing was measured, and it is the last; "last": no other was better;
    "better": an earlier round, or "untrained": the untrained encoder, was better than the last. measured: on which
    figures models were compared, None if they were not. compared: how many models have figures. The average precisions,
    in [0, 1], are of the chosen, of the last and of the untrained model, None where they are not known; gain_low and
    gain_high: 95% interval of the first less the second. interval, interval_of_last: of estimates, the ends of the 95%
    intervals of average precision of the chosen and of the last model.
    """

    round: int
    last: int
    reason: Reason
    measured: Measured | None = None
    compared: int = 0
    average_precision: float | None = None
    average_precision_of_last: float | None = None
    average_precision_untrained: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    interval: Interval | None = None
    interval_of_last: Interval | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the dict that JSON files hold: the fields, and the same in words."""
        return {**asdict(self), "words": self.words}

    @staticmethod
    def of_dict(content: Mapping[str, Any]) -> "Choice":
        """Return the choice of such a dict; TypeError, KeyError or ValueError for any other."""
        values, kinds = {one.name: content[one.name] for one in fields(Choice)}, get_type_hints(Choice)
        for name, value in values.items():
            values[name] = tuple(cast(list[Any], value)) if isinstance(value, list) else value
            if not fits(values[name], kinds[name]):
                raise ValueError(f"{name} is {value!r}")
        return Choice(**values)

    @property
    def words(self) -> str:
        """Return in a line which model it is, and why."""
        name = f"round {self.round} of {self.last}" if self.round else "the untrained encoder's cosine (round 0)"
        if self.reason == "given":
            return f"{name}, as it was asked for"
        if self.reason == "uncompared":
            return f"{name}, the last one: the run has no figures by which models could be compared"
        if self.interval is not None and self.interval_of_last is not None:
            return self._of_intervals(name, self.interval, self.interval_of_last)
        figures = f"{name}: AP {_percent(self.average_precision)} on {self.measured}"
        if self.reason == "last":
            others = f"no other of the {self.compared} measured models is clearly better"
            return f"{figures}, {self._beside_untrained}; {others}"
        interval = ""
        if self.gain_low is not None and self.gain_high is not None:
            interval = f" (95%: {100 * self.gain_low:+.1f} to {100 * self.gain_high:+.1f} points)"
        beside = f", {self._beside_untrained}" if self.round else ""
        other = f"{_percent(self.average_precision_of_last)} of round {self.last}{interval}"
        return f"{figures}, against {other}{beside}; `round='last'` takes round {self.last}"

    def _of_intervals(self, name: str, own: Interval, of_last: Interval) -> str:
        figures = f"{name}: AP {_range(own)} (95%) by labels of dev pairs"
        rest = "; the untrained encoder was not measured by them"
        if self.reason == "last":
            return f"{figures}, and no earlier round is surely better{rest}"
        return f"{figures}, and {_range(of_last)} of round {self.last}{rest}; `round='last'` takes round {self.last}"

    @property
    def _beside_untrained(self) -> str:
        if self.average_precision_untrained is None:
            return "not compared with the untrained encoder"
        return f"{_percent(self.average_precision_untrained)} without labels"


def choose_by_precision(models: Sequence[MeasuredModel], measured: Measured) -> Choice:
    """Choose by average precision where labels are complete. models: any order; the highest round is the last one.

    Never a model with a lower average precision than the untrained encoder, if that is among the models.
    """
    by_round = {one.round: one for one in models}
    last = by_round[max(by_round)]
    best, reason = last, "last"
    clearly = [one for one in models if 0 < one.round < last.round and one.gain is not None and one.gain.low > 0]
    if clearly:
        # On ties the later one: it has more labels.
        best, reason = max(clearly, key=lambda one: (one.average_precision, one.round)), "better"
    untrained = by_round.get(0)
    if untrained is not None and untrained.average_precision >= best.average_precision:
        best, reason = untrained, "untrained"
    gain = best.gain if best is not last else None
    return Choice(
        best.round, last.round, reason, measured, len(models), best.average_precision, last.average_precision,
        None if untrained is None else untrained.average_precision,
        gain and gain.low, gain and gain.high,
    )  # fmt: skip


def choose_by_intervals(models: Sequence[tuple[int, Interval]]) -> Choice:
    """Choose by 95% intervals of average precision that are not paired. models: round and interval, the last included.

    An earlier round only if its low end is above the high end of the last one; of several that of the highest low end.
    """
    by_round = dict(models)
    last = max(by_round)
    above = [(low, number) for number, (low, _) in models if number < last and low > by_round[last][1]]
    number = max(above)[1] if above else last
    return Choice(
        number, last, "better" if above else "last", "dev-labels", len(models), interval=by_round[number],
        interval_of_last=by_round[last],
    )  # fmt: skip


def _percent(share: float | None) -> str:
    return "not known" if share is None else f"{100 * share:.1f}%"


def _range(interval: Interval) -> str:
    return f"{100 * interval[0]:.1f} to {100 * interval[1]:.1f}%"
