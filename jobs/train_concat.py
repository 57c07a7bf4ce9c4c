"""What jobs.train --model concat does, and jobs.evaluate with the folder that it makes."""

from dataclasses import dataclass
from typing import Any

from al_ray.cluster import concat as work
from al_ray.cluster.concat import Bench, ShardedPairScorer
from al_ray.cluster.session import session
from al_ray.cluster.world import deployed_pool, evaluator
from al_ray.core.config import ClusterConfig, RunConfig
from al_ray.core.evaluation import comparison
from al_ray.core.records import Labelled
from al_ray.core.supervised import TrainConfig
from al_ray.core.task import Task
from al_ray.data.concat_folder import ConcatFolder
from al_ray.data.files import write_json
from al_ray.data.run_folder import RunFolder, trained
from al_ray.storage.lock import locked
from al_ray.storage.places import Place
from jobs import evaluate_words
from jobs.progress import Progress


@dataclass(frozen=True)
class Rerank:
    """A run whose last model retrieves, and how many pairs."""

    config: RunConfig
    folder: RunFolder
    top: int

    @staticmethod
    def of(path: Place | None, top: int, task: Task) -> "Rerank | None":
        """The run of a folder, refused unless it is of this task and has a model; None without a folder."""
        if path is None:
            return None
        config, folder = trained(path, task, "--rerank")
        return Rerank(config, folder, top)


def concat(
    config: TrainConfig, task: Task, labelled: Labelled, out: Place, cluster: ClusterConfig, rerank: Rerank | None
) -> None:
    """Train, measure, print and write, from wherever the folder is."""
    watch = Progress()
    with locked(out):
        folder = ConcatFolder(out)
        folder.bind(config, task, labelled)
        bench = Bench(folder, config, task, cluster, watch)
        # Beside the shards of a pool as many score pairs.
        with session(cluster, cluster.shards):
            work.trained(bench, labelled)
            if not config.evaluation.splits:
                return
            sets = work.evaluation_sets(bench, config.evaluation.splits)
            with work.deployed_scorer(bench) as scorer:
                for split, evalset in sets.items():
                    made = work.measured(bench, scorer, evalset)
                    watch.close()
                    evaluate_words.tell(made)
                    write_json(out / f"evaluation-{split}.json", made.as_dict())
                    if rerank is not None:
                        write_json(out / f"rerank-{split}.json", reranked(bench, scorer, rerank, split))


def reranked(bench: Bench, scorer: ShardedPairScorer, rerank: Rerank, split: str) -> dict[str, Any]:
    """Measure both stages and the first alone, print it, and say it as rerank-SPLIT.json holds it."""
    run, found = rerank.config, bench.task.measurable(split)
    with deployed_pool(run, bench.cluster, bench.task, rerank.folder.path, bench.watch) as pool:
        first = rerank.folder.model(rerank.folder.last)
        both = work.two_stages(scorer, pool, first, found, rerank.top, bench.config.seed)
        measure = evaluator(run, rerank.folder, pool)
        alone = measure.evaluate(first, split)
    print(f"the {rerank.top:,} highest of {rerank.folder.path}, in the order of {bench.folder.path}:")
    evaluate_words.tell(both)
    content = {"run": str(rerank.folder.path), "round": rerank.folder.last, "top": rerank.top, **both.as_dict()}
    if alone.exact:
        found_difference = comparison(both, alone)
        evaluate_words.tell_difference(found_difference)
        content |= {"first_stage": alone.as_dict(), "difference": found_difference.as_dict()}
    return content
