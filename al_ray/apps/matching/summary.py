"""The lines that the command prints about its matches, from match.json."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from al_ray.core.naming import Code, call, option
from al_ray.storage.formulas import formula_advice
from al_ray.storage.uri import StoragePath

MOST_SIZES = 8
"""Sizes of clusters that are printed: the smallest, and the largest."""


def summary_lines(record: Mapping[str, Any], symmetric: bool) -> Iterator[str]:
    """Yield the lines of a summary."""
    sides = f"{record['left']:,} texts" + ("" if symmetric else f" x {record['right']:,} texts")
    if "texts" in record:
        texts = ", ".join(f"{count:,} {name}" for name, count in record["texts"].items())
        yield f"{sides} ({texts}), {record['pairs']:,} pairs; those of new and changed texts were compared"
    else:
        yield f"{sides}, {record['pairs']:,} pairs; {compared(record)}"
    # Matches of earlier versions have none.
    if (choice := record["model"].get("choice")) is not None:
        yield f"model: {choice['words']}"
    if record["model"]["round"] is None:
        yield (
            "labels, drift and the conditions of the task (`OwnTexts.same`, `different`) are left out, as "
            f"{record['model']['run']} is a copy of a model, without its run"
        )
    cutoff = record["cutoff"]
    yield f"cutoff: {cutoff['source']}" + ("" if cutoff["score"] is None else f", score {cutoff['score']:.4f}")
    yield from _match_lines(record)
    if "new_matches" in record:
        yield f"matches of new and changed texts: {record['new_matches']:,} (new_matches.csv)"
    if record.get("undecided"):
        yield (
            "pairs of different texts that the encoder cannot tell apart, which are no matches: "
            f"{record['undecided']:,} (undecided.csv; docs/languages.md)"
        )
    if record["labelled_no"]:
        yield f"pairs labelled no, which are no matches: {record['labelled_no']:,}"
    if record.get("overruled"):
        yield f"pairs of `always` that are labelled no, which are no matches: {record['overruled']:,}"
    if record["changed_texts"]:
        yield f"labels that are not used, as a text has changed since: {record['changed_texts']:,}"
    if record["unused_labels"]:
        sides = "one set" if symmetric else "two sets"
        yield f"labels that are not used, as they are not of {sides} of texts: {record['unused_labels']:,}"
    if "why" in record:
        yield (
            f"why: p is {record['why']['base']:.3f} and what the comparisons add; matches.csv has the strongest, "
            "matches.parquet all of them"
        )
    yield from _cluster_lines(record)
    yield from _golden_lines(record)
    if advice := formula_advice(record.get("formula_cells", 0), "the CSV files"):
        yield advice


def compared(record: Mapping[str, Any]) -> str:
    """Return which of the pairs were compared, and what share of the nearest an index finds."""
    # Those of earlier versions and of --into compared all.
    search = record.get("search", {"kind": "exact"})
    if search["kind"] == "exact":
        return "all pairs were compared"
    if search["kind"] == "candidates":
        return "a matcher compared the nearest of each text, by cosine and by 3-grams, and all other pairs rank below"
    nearest = "nearest" if search["neighbours"] == 1 else f"{search['neighbours']:,} nearest"
    compared_with = f"each text was compared with its {nearest} alone"
    if search["index"] == "Flat":
        return compared_with
    probed = f", nprobe {search['nprobe']}" if search["index"].startswith("IVF") else ""
    return (
        f"{compared_with}; the index ({search['index']}{probed}) finds {100 * search['recall']:.1f}% of these "
        f"(measured on {search['recall_texts']:,} texts)"
    )


def audit_command(record: Mapping[str, Any], out: StoragePath) -> str | None:
    """Return the call that draws some of the matches for people to label.

    None if neither the model nor an oracle decided any of them, or if people cannot open files there.
    """
    if record["matches"] == record["by_label"] + record.get("by_rule", 0) or not isinstance(out, Path):
        return None
    return call("sample_matches", matches=out, budget=100)


def _match_lines(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield the number of matches, and what an oracle was asked."""
    by_label = f", {record['by_label']:,} of them by their labels" if record["by_label"] else ""
    by_rule = f", {record['by_rule']:,} by `always`" if record.get("by_rule") else ""
    by_oracle = f", {record['by_oracle']:,} by the oracle" if record.get("by_oracle") else ""
    yield f"matches: {record['matches']:,} ({record['assign']}{by_label}{by_rule}{by_oracle})"
    if "oracle" in record:
        yield _oracle_line(record["oracle"])


def _oracle_line(oracle: Mapping[str, Any]) -> str:
    """Return what an oracle was asked about, what it said, and who decided about the rest."""
    answers = ", ".join(f"{oracle[word]:,} {word}" for word in ("yes", "no", "unsure"))
    limit = "`max_cost`" if oracle["stopped"] else option("oracle_budget", oracle["budget"])
    over = f", {oracle['open']:,} of them not asked ({limit})" if oracle["open"] else ""
    settled = f"; {oracle['settled']:,} more have a text with a sure match" if oracle["settled"] else ""
    cost = f"; all its answers cost {oracle['cost']:,.6g}" if oracle["cost"] else ""
    return (
        f"oracle {oracle['by']}: {oracle['uncertain']:,} uncertain pairs (score {oracle['low']:.4g} to "
        f"{oracle['high']:.4g}), {answers}; the model decided about {oracle['open'] + oracle['unsure']:,}{over}"
        f"{settled}{cost}"
    )


def _cluster_lines(record: Mapping[str, Any]) -> Iterator[str]:
    if "clusters" in record:
        sizes = [f"{count:,} of {size:,}" for size, count in record["clusters"]["sizes"]]
        if len(sizes) > MOST_SIZES:
            sizes[MOST_SIZES - 1 : -1] = ["..."]
        shown = f" ({', '.join(sizes)})" if sizes else ""
        yield f"clusters of two or more texts: {record['clusters']['number']:,}{shown}"
        if record["clusters"]["conflicts"]:
            count = f"{record['clusters']['conflicts']:,}"
            yield f"pairs labelled no that are in one cluster: {count} (listed in matches.html)"
        yield from _rule_lines(record["clusters"], record.get("cluster_rules", {}))
    if "changed_clusters" in record:
        new, gone, splits, merges = (record["changed_clusters"][name] for name in ("new", "gone", "splits", "merges"))
        yield f"clusters: {new:,} new, {merges:,} merged, {splits:,} split, {gone:,} gone (changes.csv)"


def _rule_lines(clusters: Mapping[str, Any], rules: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the rules of clusters did to the matches."""
    if "split_bridges" in clusters:
        lowest = option("split_bridges", Code(f"{rules['split_bridges']:g}"))
        yield (
            f"matches that join no clusters, as weak bridges ({lowest}): {clusters['split_bridges']:,} (bridges.csv)"
        )
    if "parted" in clusters:
        one_of = option("at_most_one", rules["at_most_one"])
        yield f"matches between two clusters ({one_of}): {clusters['parted']:,}"
    if clusters.get("twice"):
        yield f"clusters with two texts of one {rules['at_most_one']}, by labels: {clusters['twice']:,}"


def _golden_lines(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines about golden records."""
    if "golden" not in record:
        return
    golden, counts = record["golden"], record["golden"]["overrides"]
    yield f"golden records: {golden['records']:,} with {len(golden['rules']):,} fields (golden.csv)"
    if not counts:
        return
    yield f"values of golden records that people gave: {counts.get('in_effect', 0):,} in effect"
    for state, words in (
        ("split", "their records are in several clusters now"),
        ("conflict", "others were given to the same clusters"),
        ("gone", "their records are not there"),
    ):
        if state in counts:
            yield f"such values that are not used, because {words}: {counts[state]:,} (golden_overrides.csv)"
