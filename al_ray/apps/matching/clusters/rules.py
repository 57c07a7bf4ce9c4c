"""The rules by which matches make clusters, as options give them and as match.json and state.json keep them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from al_ray.apps.matching.clusters.canonical import CanonicalRule
from al_ray.apps.matching.golden.rules import GoldenRules
from al_ray.apps.matching.options import Clustering, MatchOptions

CLUSTER_OPTIONS = ("clusters", "always", "at_most_one", "split_bridges", "canonical", "golden")
"""Fields of the options that give the rules; --into takes them from its folder."""


@dataclass(frozen=True)
class ClusterRules:
    """How matches make clusters, as the options of the same names say. always: the columns."""

    clustering: Clustering = "components"
    always: tuple[str, ...] = ()
    at_most_one: str | None = None
    split_bridges: float | None = None
    canonical: str = "score"
    golden: str | None = None

    @classmethod
    def of_options(cls, options: MatchOptions) -> "ClusterRules":
        """Return the rules that options give."""
        return cls(
            options.clusters or "components", options.always_columns, options.at_most_one, options.split_bridges,
            options.canonical or "score", options.golden,
        )  # fmt: skip

    @classmethod
    def kept(cls, rules: Mapping[str, Any]) -> "ClusterRules":
        """Return the rules of a state; earlier versions kept the clustering alone."""
        return cls(
            rules["clusters"], tuple(rules.get("always", ())), rules.get("at_most_one"), rules.get("split_bridges"),
            rules.get("canonical", "score"), rules.get("golden"),
        )  # fmt: skip

    @property
    def record(self) -> dict[str, Any]:
        """Return the rules as `kept` reads them; without golden records that rule is left out."""
        fields = asdict(self)
        if self.golden is None:
            del fields["golden"]
        return {"clusters": fields.pop("clustering"), **fields}

    def columns(self, text_columns: Sequence[str]) -> tuple[str, ...]:
        """Return the columns that the rules read, each once; golden records have the text columns without it."""
        golden = () if self.golden is None else GoldenRules.parse(self.golden).columns(text_columns)
        others = self.at_most_one, self.canonical_rule.column
        return tuple(dict.fromkeys([*self.always, *filter(None, others), *golden]))

    @property
    def canonical_rule(self) -> CanonicalRule:
        """Return the rule of the canonical text."""
        return CanonicalRule.parse(self.canonical)
