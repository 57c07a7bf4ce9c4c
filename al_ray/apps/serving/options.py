"""Options of the command serve, which are also the arguments of the application in a config file of Serve."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from al_ray.apps.matching.options import TABLE, CutoffOptions, MatchOptions
from al_ray.core.config.bounds import Between, Group
from al_ray.core.config.encoder import MOST_UNKNOWN, MostUnknown
from al_ray.core.config.index import SERVED_PROBES, ServedProbes
from al_ray.core.errors import BadOption
from al_ray.datasets.tables.format_options import ColumnNames
from al_ray.datasets.tables.reader import Format
from al_ray.metrics.handover import RoundName
from al_ray.storage.uri import StoragePath

LIMITS, RESOURCES = Group("limits"), Group("replicas")


@dataclass(frozen=True, kw_only=True)
class ServeOptions(CutoffOptions):
    """Which texts are matched by which model, what one request may ask for, and on how many replicas."""

    model: StoragePath
    """Run folder, of which the best model answers (docs/handover.md); or a model folder, in its run or copied out of
    it."""
    round: RoundName = None
    """Round of the run whose model answers; 0 is the untrained encoder, last the last one. Default: the best by the
    figures of the run."""
    known: StoragePath
    """The known texts: a table (a file), a task folder, or a folder of matches, whose clusters are answered, too. Read
    when --store is made; after that the texts are those of --store."""
    store: Path
    """Folder of the known texts as they change: each change is on disk before it is acknowledged."""
    limit: Annotated[int, Between(1, 10_000)] = 10
    """Matches of a text at most, the best first. A request may ask for fewer. Without a cutoff the lowest score is the
    one threshold that is stored with the model, or none."""
    most_unknown: MostUnknown = MOST_UNKNOWN
    """Refuse known texts of which the encoder does not know more than this share of the tokens; 1 to refuse none
    (docs/languages.md)."""
    exact_texts: Annotated[int, Between(0, 100_000_000)] = 200_000
    """Known texts up to which all are compared with each text of a request; more are searched by a Faiss index."""
    index: str = "auto"
    """Faiss index-factory string for more texts than --exact-texts. auto: IVF with about 4 times the square root of
    the number of texts as cells."""
    nprobe: ServedProbes = SERVED_PROBES
    """Cells of the index that are searched for a text."""
    most_texts: Annotated[int, LIMITS, Between(1, 100_000)] = 1_000
    """Texts or ids of a request at most."""
    most_characters: Annotated[int, LIMITS, Between(1, 10_000_000)] = 20_000
    """Characters of a text or an id at most."""
    most_bytes: Annotated[int, LIMITS, Between(1, 2**31)] = 8_000_000
    """Bytes of the body of a request at most."""
    most_waiting: Annotated[int, LIMITS, Between(1, 1_000_000)] = 200
    """Requests that are answered or wait at a time; further ones are refused with 429."""
    replicas: Annotated[int, RESOURCES, Between(1, 1_000)] = 1
    """Processes that match. Each has the model and all known texts in memory."""
    most_replicas: Annotated[int | None, RESOURCES, Between(1, 1_000)] = None
    """Let Ray Serve start up to this many replicas as requests come, and stop them again down to --replicas."""
    cpus_per_replica: Annotated[int, RESOURCES, Between(1, 1_000)] = 1
    """CPUs that a replica requests from Ray, and its threads."""
    gpus_per_replica: Annotated[float, RESOURCES, Between(0, 1)] = 0.0
    """Share of a GPU that a replica requests from Ray."""
    batch: Annotated[int, RESOURCES, Between(1, 1_000)] = 32
    """Requests that a replica answers together at most."""
    batch_wait: Annotated[float, RESOURCES, Between(0, 10)] = 0.005
    """Seconds that a replica waits for further requests of a batch."""
    shared_storage: Annotated[bool, RESOURCES] = False
    """The local paths given are on storage that all nodes mount. Without it a cluster of several nodes is refused."""
    token_file: Path | None = None
    """File whose only line is the token that requests must carry. Default: the environment variable AL_RAY_TOKEN."""
    text_columns: Annotated[ColumnNames | None, TABLE] = None
    """Text columns of a table. Default: those of the task on which the model was trained."""
    id_column: Annotated[str | None, TABLE] = None
    """Column of the ids. Default: that of the task on which the model was trained; else the row number from 0."""
    format: Annotated[Format | None, TABLE] = None
    """Format of the table, as in prepare pairs. Default: as for the task of the model."""

    def __post_init__(self) -> None:
        """Raise BadOption for a value out of bounds, or for options that exclude one another."""
        super().__post_init__()
        if self.most_replicas is not None and self.most_replicas < self.replicas:
            raise BadOption(
                f"`most_replicas` is {self.most_replicas} and `replicas` {self.replicas}; give as many or more"
            )

    def for_matching(self, **more: Any) -> MatchOptions:
        """Return the same cutoff and table as options of the command match."""
        names = *(one.name for one in fields(CutoffOptions)), "text_columns", "id_column", "format"
        return MatchOptions(left=self.known, **{name: getattr(self, name) for name in names} | more)
