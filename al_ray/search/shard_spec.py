"""What a shard of a pool is made from."""

import math
from dataclasses import dataclass

from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.config.sections import SearchConfig
from al_ray.core.labels import Model
from al_ray.search.vector_files import DIGITS, TRAINED, UNTRAINED, vector_folder
from al_ray.storage.uri import StoragePath, storage_path


@dataclass(frozen=True)
class ShardSpec:
    """All that a shard is made from; small, so that a restarted actor rebuilds itself from storage.

    folder, a path or URI: token ids (`left/`, `right/`); rows of each part (`NAME.npy`, a name that begins with the
    side) in the order of their batches; the rule of which pairs can match, if there is one. Vectors, if they are kept,
    are in `vectors/` beside it.
    mapped_above, keep_vectors: as in ClusterConfig.
    sharer: the name of the run, where several share the folder: vectors of the untrained encoder are kept for all of
    them, and those of its models, if they are kept, are its own.
    known: a folder of vectors by digests of texts (search/known_vectors.py), to which those of new texts are added; ""
    for none.
    task: the folder of the task, whose texts are compared where a matcher ranks candidates.
    """

    folder: str
    encoder: EncoderConfig
    search: SearchConfig
    shard: int
    shards: int
    device: str = "cpu"
    mapped_above: float = math.inf
    keep_vectors: bool = False
    sharer: str = ""
    known: str = ""
    task: str = ""

    @property
    def vector_folders(self) -> dict[str, StoragePath]:
        """Kind of weights -> where its vectors are kept, if they are."""
        if not (self.keep_vectors or self.sharer):
            return {}
        folder = vector_folder(storage_path(self.folder))
        own = folder / self.sharer if self.sharer else folder
        return {UNTRAINED: folder, **({TRAINED: own} if self.keep_vectors else {})}

    def known_folder(self, model: Model) -> StoragePath | None:
        """Return the folder of the vectors of known texts under a model, if there is one."""
        folder = f"{model.weights[:DIGITS]}-{self.encoder.vectors}"
        return storage_path(self.known) / folder if self.known else None
