"""Which clusters, texts and edges the page shows, by hand."""

import numpy as np

from al_ray.apps.matching.clusters.clustering import Clusters, Decisions, cluster
from al_ray.apps.matching.clusters.edges import Edges
from al_ray.apps.matching.clusters.figures import ClusterFigures, figures
from al_ray.apps.matching.folder import Matches
from al_ray.apps.matching.page import clusters as shown
from al_ray.apps.matching.page.clusters import ClusterEdge, SizeGroup, group_sizes, summarize_clusters
from al_ray.apps.matching.page.examples import TextReader
from al_ray.core.pairs import Pairs, Rows
from al_ray.core.scored_pairs import ScoredPairs
from al_ray.core.task import Corpus, Task
from al_ray.core.text import Part


def table(texts: int) -> Task:
    corpus = Corpus(tuple(f"id{row}" for row in range(texts)), tuple(f"text {row}" for row in range(texts)))
    return Task("table", True, corpus, corpus, {}, "")


def clustered(
    texts: int, edges: dict[tuple[int, int], float], no: Pairs | None = None
) -> tuple[Matches, Clusters, ClusterFigures, Rows]:
    """The matches of these scores, none by label, and their components."""
    ordered = sorted(edges, key=lambda pair: -edges[pair])
    pairs, scores = np.array(ordered).reshape(-1, 2), np.array([edges[pair] for pair in ordered])
    decisions = Decisions(no=np.empty((0, 2), dtype=np.int64) if no is None else no)
    scored = ScoredPairs(pairs, scores)
    of = Edges.of(texts, scored)
    found = cluster(of, "components", 0.5, 0.0, decisions)
    by_label, by_rule = np.zeros((2, len(pairs)), dtype=bool)
    matches = Matches(scored, None, by_label, by_rule)
    # Ids that are no rows, as after other clusters have gone.
    return matches, found, figures(of, found.labels, 0.0, decisions), 100 + found.labels


# Two pairs 0-1 and 2-3, held together by 1-2.
CHAIN = {(0, 1): 0.9, (2, 3): 0.8, (1, 2): 0.6}


def test_a_cluster_shows_its_canonical_text_first_and_its_bridge_before_lower_edges():
    summary = summarize_clusters(*clustered(6, CHAIN), TextReader(table(6), True))
    (one,) = summary.largest
    # Text 1 has the highest mean score to the others: (0.9 + 0.6 + 0) / 3, where text 2 has (0.8 + 0.6 + 0) / 3.
    assert [text.id for text in one.texts] == ["id1", "id2", "id3", "id0"]
    assert one.texts[0].parts == (Part("text 1"),)
    # By the places of the texts: 1-2 is the bridge, then 2-3 and 0-1, the lower score first.
    assert one.edges == (
        ClusterEdge(1, 2, 0.6, False, True),
        ClusterEdge(2, 3, 0.8, False, False),
        ClusterEdge(1, 4, 0.9, False, False),
    )
    # (0.9 + 0.8 + 0.6) / 6 pairs
    assert (one.number, one.size, one.edge_count, one.pairs, round(one.cohesion, 6)) == (100, 4, 3, 6, 0.383333)
    assert (summary.number, summary.bridges, summary.others) == (1, 1, 0)


def test_the_largest_are_not_repeated_among_the_least_coherent_and_pairs_are_not_in_it(monkeypatch):
    monkeypatch.setattr(shown, "LARGEST", 1)
    edges = {
        **CHAIN,
        # 4-5-6: (0.9 + 0.9) / 3 = 0.6. 7-8-9: (0.7 + 0.8) / 3 = 0.5. 10-11 is a pair of 0.5.
        (4, 5): 0.9, (5, 6): 0.9, (7, 8): 0.7, (8, 9): 0.8, (10, 11): 0.5,
    }  # fmt: skip
    summary = summarize_clusters(*clustered(12, edges), TextReader(table(12), True))
    assert [one.number for one in summary.largest] == [100]
    assert [(one.number, round(one.cohesion, 6)) for one in summary.least_coherent] == [(107, 0.5), (104, 0.6)]
    assert (summary.number, summary.others) == (4, 2)


def test_a_large_cluster_shows_every_text_of_its_edges(monkeypatch):
    # A star of 100 texts: text 99 has an edge to all others.
    edges = {(row, 99): 0.5 + row / 1000 for row in range(99)}
    summary = summarize_clusters(*clustered(100, edges), TextReader(table(100), True))
    (one,) = summary.largest
    assert (one.size, one.edge_count, len(one.texts), len(one.edges)) == (100, 99, shown.TEXTS, shown.EDGES)
    assert [edge.score for edge in one.edges] == [0.5 + row / 1000 for row in range(shown.EDGES)]
    # The canonical text is 99, at place 1, and each edge leads from it to the text at place 2, 3, 4, ...
    assert one.texts[0].id == "id99"
    assert [(edge.left, edge.right) for edge in one.edges] == [(1, place) for place in range(2, shown.EDGES + 2)]
    assert [text.id for text in one.texts[1 : shown.EDGES + 1]] == [f"id{row}" for row in range(shown.EDGES)]


def test_conflicts_have_their_texts_and_are_sampled(monkeypatch):
    monkeypatch.setattr(shown, "CONFLICTS", 2)
    no = np.array([[0, 2], [3, 0], [1, 3], [0, 5]])
    summary = summarize_clusters(*clustered(6, CHAIN, no), TextReader(table(6), True))
    # 0-2, 0-3 and 1-3 are within the cluster of text 0; 0-5 is not. Of three the first and the last are shown.
    assert summary.conflict_count == 3
    assert [(one.cluster, one.pair.left.id, one.pair.right.id) for one in summary.conflicts] == [
        (100, "id0", "id2"),
        (100, "id1", "id3"),
    ]


def test_sizes_are_grouped():
    sizes, cohesion = np.array([2, 2, 5, 6, 10, 11, 200, 201]), np.array([0.9, 0.7, 0.5, 0.4, 0.2, 0.3, 0.1, 0.1])
    assert group_sizes(sizes, cohesion) == [
        SizeGroup(2, 2, 2, 4, 0.8),
        SizeGroup(5, 5, 1, 5, 0.5),
        SizeGroup(6, 10, 2, 16, (0.4 + 0.2) / 2),
        SizeGroup(11, 20, 1, 11, 0.3),
        SizeGroup(101, 200, 1, 200, 0.1),
        SizeGroup(201, 500, 1, 201, 0.1),
    ]
    assert group_sizes(sizes[:0], cohesion[:0]) == []
