"""The raw answers of a language model in a run folder: an answer that is paid for is never requested again.

llm/NNNNN.json    a request and the reply of the server, as it came; the answers that were read; tokens and cost

A file is on disk before a label counts. An answer is found by the digest of all that decides it (prompt.py: key), in
whatever groups the pairs are asked the next time.
"""

import re
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from al_ray.core.errors import BadFile
from al_ray.oracles.llm.prompt import Answer
from al_ray.storage.files import read_json, write_json
from al_ray.storage.uri import StoragePath

FOLDER = "llm"
NAME = re.compile(r"\d{5,}\.json")


@dataclass(frozen=True)
class RawAnswer:
    """A request and its reply.

    keys: digest of each pair of the request, in order; answers: to each, None where it has none. model: its name in the
    reply. reply: None if there was none. wrong: what is wrong with it; "" if nothing.

    A request that may have been charged and has no reply is written, too: all files together cost what was charged.
    """

    model: str
    keys: Sequence[str]
    answers: Sequence[Answer | None]
    cost: float
    wrong: str
    request: dict[str, Any]
    reply: Any


class AnswerStore:
    """Writes and finds the raw answers of a run; may be used by several threads."""

    def __init__(self, run: StoragePath, name: str = FOLDER) -> None:
        """Read the answers in a run folder, or in another one. name: of the folder in it that has their files.

        cost: of all answers. highest: the highest cost of a pair, None if none cost anything.
        """
        self.folder, self._lock = run / name, threading.Lock()
        self._answers = dict[str, Answer]()
        self.models, self.cost = set[str](), 0.0
        self.highest: float | None = None
        # How often the model that answers gave no readable answer to a pair.
        self.unreadable = Counter[str]()
        names = [path.name for path in self.folder.glob("*.json")] if self.folder.exists() else []
        self._last = max((int(name.removesuffix(".json")) for name in names if NAME.fullmatch(name)), default=0)
        for name in sorted(filter(NAME.fullmatch, names), key=lambda name: int(name.removesuffix(".json"))):
            self._read(self.folder / name)

    def answer(self, key: str) -> Answer | None:
        """Return the answer to a pair; None if there is none yet."""
        with self._lock:
            return self._answers.get(key)

    def add(self, raw: RawAnswer) -> None:
        """Write a raw answer."""
        with self._lock:
            self._last += 1
            number = self._last
        write_json(self.folder / f"{number:05d}.json", asdict(raw))
        with self._lock:
            self._take(raw)

    def _take(self, raw: RawAnswer) -> None:
        self.cost += raw.cost
        if raw.cost and raw.keys:
            self.highest = max(self.highest or 0.0, raw.cost / len(raw.keys))
        if raw.model and any(raw.answers):
            self.models.add(raw.model)
        if raw.reply is not None and (raw.model in self.models or not self.models):
            self.unreadable.update(key for key, one in zip(raw.keys, raw.answers, strict=True) if one is None)
        self._answers |= {key: one for key, one in zip(raw.keys, raw.answers, strict=True) if one is not None}

    def _read(self, path: StoragePath) -> None:
        content = read_json(path, list(RawAnswer.__dataclass_fields__))
        try:
            answers = [None if one is None else (str(one[0]), float(one[1])) for one in content["answers"]]
            raw = RawAnswer(**{**content, "answers": answers, "cost": float(content["cost"])})
            self._take(raw)
        except (TypeError, ValueError, LookupError) as error:
            raise BadFile(f"{path} is not a raw answer; restore it, or remove it to buy its answers again") from error
