"""What state.json says of its matches keeps its form: fields, their order, and what earlier versions left out."""

import json
from math import inf
from typing import Any

import pytest

from al_ray.apps.matching.assignment_rules import Cutoff
from al_ray.apps.matching.clusters.rules import ClusterRules
from al_ray.apps.matching.incremental.about import Arrival, ClusterCounts, MatchingRules, StateAbout
from al_ray.apps.matching.incremental.growth import TextCounts

MODEL = {"run": "runs/may", "round": 3, "digest": "abc", "choice": None}
TABLE = {"text_columns": "name", "left": ["t.csv"]}
RULES = MatchingRules("all", ClusterRules(always=("isbn",)), Cutoff(-inf, 9, "none", None, 0.5))
FIRST = StateAbout(MODEL, RULES, TABLE, "made of", "cells")
COUNTS = Arrival(TextCounts(1, 2, 0, 4), 5, "texts of June", ClusterCounts(1, 0, 2, 0))
# As it was written when it was a dict, up to commit 230faeb.
CONTENT = (
    '{"model": {"run": "runs/may", "round": 3, "digest": "abc", "choice": null}, "rules": {"assign": "all", '
    '"clusters": "components", "always": ["isbn"], "at_most_one": null, "split_bridges": null, "canonical": "score", '
    '"cutoff": {"score": null, "count": 9, "source": "none", "precision": null, "recall": 0.5}}, "cells": "cells", '
    '"table": {"text_columns": "name", "left": ["t.csv"]}, "made_from": "made of"'
)
CHANGES = (
    ', "texts": {"new": 1, "changed": 2, "removed": 0, "same": 4}, "new_matches": 5, "arrived": "texts of June", '
    '"clusters": {"new": 1, "gone": 0, "splits": 2, "merges": 0}'
)


@pytest.mark.parametrize(("arrival", "changes"), [(None, ""), (COUNTS, CHANGES)], ids=["first", "into"])
def test_its_json_is_as_it_was(arrival, changes):
    about = StateAbout(MODEL, RULES, TABLE, "made of", "cells", arrival)
    assert json.dumps(about.as_dict()) == CONTENT + changes + "}"
    assert StateAbout.of_dict(json.loads(CONTENT + changes + "}")) == about


def test_what_earlier_versions_left_out_stays_unknown():
    content: dict[str, Any] = json.loads(CONTENT + CHANGES + "}")
    for name in ("cells", "made_from", "new_matches", "arrived"):
        del content[name]
    del content["clusters"]
    content["rules"] = {name: content["rules"][name] for name in ("assign", "clusters", "cutoff")}
    about = StateAbout.of_dict(content)
    assert (about.cells, about.made_from, about.arrival) == (None, None, Arrival(TextCounts(1, 2, 0, 4)))
    assert about.rules.clusters == ClusterRules()
    # The rules are written with their values; nothing else is added.
    assert list(about.as_dict()) == ["model", "rules", "table", "texts"]
