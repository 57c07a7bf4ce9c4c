"""What a state says of its matches beside their pairs: the field about of state.json."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from math import inf
from typing import Any

from al_ray.apps.matching.assignment_rules import Assignment, Cutoff
from al_ray.apps.matching.clusters.ids import ClusterIds
from al_ray.apps.matching.clusters.rules import ClusterRules
from al_ray.apps.matching.golden.fields import text_columns
from al_ray.apps.matching.incremental.growth import TextCounts


@dataclass(frozen=True)
class MatchingRules:
    """The rules by which texts were matched, and by which new ones are."""

    assign: Assignment
    clusters: ClusterRules
    cutoff: Cutoff

    @classmethod
    def of_dict(cls, rules: Mapping[str, Any]) -> "MatchingRules":
        """Return the rules of a state, whose fields have been checked."""
        cutoff = rules["cutoff"]
        score = -inf if cutoff["score"] is None else cutoff["score"]
        given = Cutoff(score, cutoff.get("count", 0), cutoff["source"], cutoff["precision"], cutoff["recall"])
        return cls(rules["assign"], ClusterRules.kept(rules), given)

    def as_dict(self) -> dict[str, Any]:
        """Return the rules as JSON."""
        cutoff = asdict(self.cutoff)
        score = None if cutoff["score"] == -inf else cutoff["score"]
        return {"assign": self.assign, **self.clusters.record, "cutoff": cutoff | {"score": score}}


@dataclass(frozen=True)
class ClusterCounts:
    """Numbers of clusters that are new, gone, split and merged."""

    new: int
    gone: int
    splits: int
    merges: int

    @classmethod
    def of(cls, changes: ClusterIds) -> "ClusterCounts":
        """Count the changes."""
        return cls(*(len(getattr(changes, one.name)) for one in fields(cls)))


TEXTS, CLUSTERS = (tuple(one.name for one in fields(kind)) for kind in (TextCounts, ClusterCounts))


@dataclass(frozen=True)
class Arrival:
    """What new texts changed when they came; earlier versions kept `texts` alone.

    texts: how many of each kind. new_matches: matches of new and changed ones. arrived: digest of what arrived.
    """

    texts: TextCounts
    new_matches: int | None = None
    arrived: str | None = None
    clusters: ClusterCounts | None = None

    @classmethod
    def of_dict(cls, about: Mapping[str, Any]) -> "Arrival":
        """Return what the field about of a state says, whose fields have been checked."""
        texts, clusters = about["texts"], about.get("clusters")
        counts = None if clusters is None else ClusterCounts(*(clusters[name] for name in CLUSTERS))
        return cls(TextCounts(*(texts[name] for name in TEXTS)), about.get("new_matches"), about.get("arrived"), counts)

    @property
    def changes(self) -> dict[str, Any]:
        """Return the fields that match.json has, too, as JSON; clusters are apart."""
        found = {"texts": asdict(self.texts), "new_matches": self.new_matches}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def changed_clusters(self) -> dict[str, int] | None:
        """Return the counts of clusters as JSON."""
        return None if self.clusters is None else asdict(self.clusters)


@dataclass(frozen=True)
class StateAbout:
    """What a state says of its matches.

    model: outputs.model_record. table: texts.table_record. made_from: digest of the model and of the texts that were
    matched first. cells: digest of the cells of its texts, with a matcher. arrival: of the last new texts, if any came.
    """

    model: Mapping[str, Any]
    rules: MatchingRules
    table: Mapping[str, Any]
    made_from: str | None = None
    cells: str | None = None
    arrival: Arrival | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that the rules read besides the texts."""
        rules = self.rules.clusters
        return rules.columns(() if rules.golden is None else text_columns(self.table))

    @classmethod
    def of_dict(cls, about: Mapping[str, Any]) -> "StateAbout":
        """Return what state.json says in its field about, whose fields have been checked."""
        arrival = Arrival.of_dict(about) if "texts" in about else None
        rules = MatchingRules.of_dict(about["rules"])
        return cls(about["model"], rules, about["table"], about.get("made_from"), about.get("cells"), arrival)

    def as_dict(self) -> dict[str, Any]:
        """Return the field about of state.json."""
        fields_of = {
            "model": dict(self.model), "rules": self.rules.as_dict(), "cells": self.cells, "table": dict(self.table),
            "made_from": self.made_from,
        }  # fmt: skip
        if self.arrival is not None:
            fields_of |= self.arrival.changes | {"arrived": self.arrival.arrived}
            fields_of |= {"clusters": self.arrival.changed_clusters}
        return {name: value for name, value in fields_of.items() if value is not None}
