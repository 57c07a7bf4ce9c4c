"""Options of the page on which people label."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from al_ray.core.config.bounds import RARE, Between
from al_ray.storage.files import read_json, write_json

FILE = "page-options.json"
"""What holds in a folder until it is changed: the question and the share of pairs that two people answer."""
QUESTION = "Do these two match?"


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """The page on which people label: its address, and how pairs are shared among several people."""

    host: str = "127.0.0.1"
    """Address to listen on. An address that other machines can reach needs a token."""
    port: Annotated[int, Between(1, 65_535)] = 8001
    """Port to listen on."""
    token_file: Path | None = None
    """File whose only line is the token that people enter to sign in. Default: the environment variable AL_RAY_TOKEN;
    without both, whoever reaches the address may label."""
    question: str | None = None
    """What people are asked about each pair, such as "Are these the same product?". Default: as before, else "Do these
    two match?"."""
    overlap: Annotated[float | None, Between(0, 1)] = None
    """Share of the pairs that two people answer, so that their agreement is measured. Default: as before, else 0."""
    confirm_matches: bool = False
    """Ask a second person about each pair that was answered yes. It holds for a round, or an audit, until somebody goes
    on without second answers."""
    lease_minutes: Annotated[float, Between(0.1, 1440), RARE] = 10.0
    """Minutes for which a pair that is shown to one person is shown to nobody else."""


def remember(folder: Path, options: PageOptions) -> PageOptions:
    """Return the options with what was given before for this folder, and store what is given now.

    The folder must be locked.
    """
    path = folder / FILE
    stored = read_json(path, ["question", "overlap"]) if path.exists() else {"question": None, "overlap": None}
    given = {"question": options.question, "overlap": options.overlap}
    new = {name: stored[name] if value is None else value for name, value in given.items()}
    if new != stored:
        write_json(path, new)
    return replace(options, question=new["question"] or QUESTION, overlap=new["overlap"])
