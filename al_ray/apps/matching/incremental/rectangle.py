"""Search of some texts among all: the rows of one side that are searched again, times the other side."""

from dataclasses import replace

import numpy as np

from al_ray.active_learning.config import RunConfig
from al_ray.apps.matching.assignment_rules import Assignment, Cutoff
from al_ray.apps.matching.decisions import PairDecisions
from al_ray.apps.matching.incremental.merging import Requery
from al_ray.apps.matching.incremental.order import task_of
from al_ray.apps.matching.search import exact_cosines, find_candidates
from al_ray.cluster.services import deploy_pool
from al_ray.cluster.token_store import pool_folder, read_coverage
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.labels import Model
from al_ray.core.pairs import Pairs, Rows, as_pairs
from al_ray.core.progress import OnProgress
from al_ray.core.scored_pairs import ScoredPairs
from al_ray.core.task import Corpus, Task, strings_at
from al_ray.datasets.task_folder import write_task
from al_ray.encoders.encoder import with_left_prompt
from al_ray.search.coverage import require_coverage
from al_ray.storage.uri import StoragePath


def rectangles(task: Task, requery: Requery) -> list[tuple[Rows, Rows]]:
    """Return left and right rows whose pairs, of all rectangles together, are those with a text that is searched again.

    With one set of texts one rectangle has them all; a pair of two such texts is then in it twice.
    """
    every = np.arange(len(task.right))
    if task.symmetric:
        return [(requery.left, every)] if len(requery.left) else []
    others = np.setdiff1d(np.arange(len(task.left)), requery.left)
    both = [(requery.left, every), (others, requery.right)]
    return [(left, right) for left, right in both if len(left) and len(right)]


class RectangleSearch:
    """Finds the candidates of a rectangle of a task by shards that take the vectors of known texts."""

    def __init__(
        self, config: RunConfig, cluster: ClusterConfig, model: Model, folder: StoragePath, known: StoragePath
    ) -> None:
        """folder: for files of the work; known: of vectors. config: of the model; its task is not used."""
        self.cluster, self.model, self.folder, self.known = cluster, model, folder, known
        self.config = config

    def find(
        self, task: Task, rows: tuple[Rows, Rows], cutoff: Cutoff, rule: Assignment, decisions: PairDecisions,
        watch: OnProgress,
    ) -> ScoredPairs:  # fmt: skip
        """Return the candidates among pairs of left and right rows of a task; see find_candidates."""
        left, right = rows
        inner = task_of(task.name, _part(task.left, left), _part(task.right, right), symmetric=False)
        split, place = inner.split("train"), self.folder / f"task-{inner.digest[:12]}"
        write_task(inner, place, {"command": "match", "part": "texts that are searched again"})
        config = replace(self.config, task=str(place))
        if task.symmetric:
            # Both sides are texts of one set, and have its prompt.
            prompts = with_left_prompt(config.encoding)
            config = replace(config, prompt_left=prompts.prompt_left, prompt_right=prompts.prompt_right)

        def keys(pairs: Pairs) -> Rows:
            both = np.concatenate([pairs, pairs[:, ::-1]]) if task.symmetric else pairs
            here = np.isin(both[:, 0], left) & np.isin(both[:, 1], right)
            own = as_pairs(np.searchsorted(left, both[here, 0]), np.searchsorted(right, both[here, 1]))
            return np.unique(split.space.keys(own))

        space = task.split("train").space
        no = space.pairs(decisions.no)
        if task.symmetric:
            # No text is its own partner.
            no = np.concatenate([no, as_pairs(left, left)])
            # A pair of two texts that are searched again is found from each of them.
            source = f"{cutoff.source}; a pair of two new texts counts twice here, so `most` counts twice, too"
            cutoff = replace(cutoff, count=2 * cutoff.count, source=source)
        asked = PairDecisions(keys(space.pairs(decisions.certain)), keys(no))
        every, tokens = replace(config, most_unknown=1.0), pool_folder(inner, config.encoding, self.folder)
        with deploy_pool(every, self.cluster, inner, self.folder, watch, known=self.known) as pool:
            # Of both sides together, as when all texts are matched at once: the new ones by themselves may be few.
            require_coverage(read_coverage(tokens), config.encoding, sides=False)
            found = find_candidates(pool, split, self.model, cutoff, rule, asked, config.seed).candidates
        pairs = split.space.pairs(found.keys)
        # The score is the cosine: models with other scores are refused.
        scores = exact_cosines(tokens, False, pairs, found.cosines)
        pairs = as_pairs(left[pairs[:, 0]], right[pairs[:, 1]])
        return ScoredPairs(np.sort(pairs, axis=1) if task.symmetric else pairs, scores)


def _part(corpus: Corpus, rows: Rows) -> Corpus:
    return Corpus(tuple(strings_at(corpus.ids, rows)), tuple(strings_at(corpus.texts, rows)))
