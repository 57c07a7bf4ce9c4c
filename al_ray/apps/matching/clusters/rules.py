"""The rules by which matches make clusters, as options give them and as match.json and state.json keep them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from al_ray.apps.matching.options import Clustering, MatchOptions

CLUSTER_OPTIONS = ("clusters", "always")
"""Fields of the options that give the rules; --into takes them from its folder."""


@dataclass(frozen=True)
class ClusterRules:
    """How matches make clusters. always: columns whose equal values make a match."""

    clustering: Clustering = "components"
    always: tuple[str, ...] = ()

    @classmethod
    def given(cls, options: MatchOptions) -> "ClusterRules":
        """Return the rules that options give."""
        return cls(options.clusters or "components", options.always_columns)

    @classmethod
    def kept(cls, rules: Mapping[str, Any]) -> "ClusterRules":
        """Return the rules of a state; earlier versions kept the clustering alone."""
        return cls(rules["clusters"], tuple(rules.get("always", ())))

    @property
    def record(self) -> dict[str, Any]:
        """Return the rules as `kept` reads them."""
        fields = asdict(self)
        return {"clusters": fields.pop("clustering"), **fields}

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that the rules read, each once."""
        return tuple(dict.fromkeys(self.always))
