"""Options of the command serve."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from al_ray.apps.serving.options import ServeOptions
from al_ray.cli._shared.entry import PathOrUri
from al_ray.core.config.bounds import Between


@dataclass(frozen=True, kw_only=True)
class Options(ServeOptions):
    """Match texts over HTTP."""

    model: PathOrUri
    """Run folder, of which the best model answers (docs/handover.md); or a model folder, in its run or copied out of
    it."""
    known: PathOrUri
    """The known texts: a table (a file), a task folder, or a folder of matches, whose clusters are answered, too. Read
    when --store is made; after that the texts are those of --store."""
    store: Path
    """Folder of the known texts as they change: each change is on disk before it is acknowledged."""
    host: str = "127.0.0.1"
    """Address to listen on. An address that other machines can reach needs a token."""
    port: Annotated[int, Between(1, 65_535)] = 8000
    """Port to listen on."""
    dry_run: bool = False
    """Check all that is given, print what would be loaded, and stop. Nothing is written."""
