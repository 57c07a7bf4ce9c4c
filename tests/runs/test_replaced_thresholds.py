"""Which thresholds of a scorer.json give way to others of the same rule."""

from al_ray.runs.scorer_evidence import add_evidence, replaced_thresholds
from al_ray.storage.files import write_json


def test_a_threshold_of_the_same_rule_and_another_score_gives_way(tmp_path):
    path, rules = tmp_path / "scorer.json", ("precision=0.9", "precision=0.9 guarantee=0.95", "recall=0.5")
    write_json(path, {"digest": "d"})
    assert replaced_thresholds(path, [{"rule": rules[0], "cosine": 0.5}]) == []
    stored = [{"rule": rule, "cosine": 0.5} for rule in rules]
    add_evidence(path, {}, stored)
    new = [{"rule": rules[0], "cosine": 0.5}, {"rule": rules[1], "cosine": 0.75}, {"rule": "costs=1,1", "cosine": 0.25}]
    assert replaced_thresholds(path, new) == [stored[1]]
    # A rule that no threshold reaches keeps no score.
    assert replaced_thresholds(path, [{"rule": rules[2], "cosine": None}]) == [stored[2]]
