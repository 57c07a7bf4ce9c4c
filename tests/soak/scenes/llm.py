"""jobs.run with a language model that labels, on a server that fails: what is bought once is never bought again."""

import json
from collections import Counter
from pathlib import Path

from tests.oracles.llm_process import Judge
from tests.oracles.llm_server import KEY, MODEL, LlmServer, Texts, pairs_of
from tests.soak.scenes.run import CALLS, RunScene, stored_answers
from tests.soak.scenes.seller import Seller


class ModelServer(LlmServer):
    """A server of a language model that notes in `seller` what it answered."""

    def __init__(self, seller: "ModelSeller", port: int) -> None:
        self.seller = seller
        super().__init__(Judge(), port)

    def note(self, pairs: list[Texts]) -> None:
        super().note(pairs)
        self.seller.note(pairs, "")


class ModelSeller(Seller):
    """What a language model has answered over all lives of its server."""

    def opened(self) -> ModelServer:
        """Return a server at the same port as before."""
        return ModelServer(self, self.port)


class LlmScene(RunScene):
    """A run whose pairs a language model labels."""

    def labelled_by(self) -> tuple[Seller, tuple[str, ...]]:
        seller = ModelSeller()
        url = f"http://127.0.0.1:{seller.port}/v1"
        return seller, ("--oracle", "llm", "--llm.model", MODEL, "--llm.base-url", url, *CALLS)

    def command(self) -> list[str]:
        return ["env", f"OPENAI_API_KEY={KEY}", *super().command()]

    def complaints(self, losing: set[int], killed: bool) -> tuple[list[str], int]:
        """Return what is wrong with the run, and with the raw answers that it has kept."""
        complaints, again = super().complaints(losing, killed)
        folder = self.place / "disk" / "run"
        stored = Counter(pair for path in (folder / "llm").glob("*.json") for pair in answered(path))
        complaints += [f"{count} raw answers to {pair}" for pair, count in stored.items() if count > 1]
        complaints += [
            f"no raw answer to {pair}" for pair, _ in stored_answers(self.place / "task", folder) if pair not in stored
        ]
        files = [path for path in folder.rglob("*") if path.is_file()]
        return complaints + [f"the key is in {path}" for path in files if KEY.encode() in path.read_bytes()], again


def answered(path: Path) -> list[Texts]:
    """Return the pairs of a raw answer that were answered."""
    raw = json.loads(path.read_text())
    return [pair for pair, one in zip(pairs_of(raw["request"]), raw["answers"], strict=True) if one is not None]
