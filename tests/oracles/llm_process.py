"""jobs.run --oracle llm as a process of its own with a Ray of its own, which a test, or it itself, can kill.

As a program: llm_process.py COUNT and the arguments of jobs.run. It kills itself when it has written so many raw
answers of the model, before the last one's labels are in the ledger.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from al_ray.cli import run
from al_ray.cli._shared.entry import run_process
from al_ray.oracles.llm.store import AnswerStore, RawAnswer
from tests.oracles.llm_server import MODEL, LlmServer, Texts
from tests.ray_ports import choose_ports

ROOT = Path(__file__).resolve().parents[2]
# Two rounds of 16 and 24 pairs, in calls of 4.
SMALL = (
    *("--task", "task", "--out", "run", "--oracle", "llm", "--rounds", "2", "--first-batch", "16"),
    *("--encoder", "random-bert", "--encoder-layers", "1", "--max-length", "24", "--encoder-batch", "8"),
    *("--threads", "1", "--search.neighbours", "5", "--training.epochs", "1", "--training.batch", "8"),
    *("--training.worst-loss", "100", "--evaluation.near-neighbours", "3", "--evaluation.random-pairs", "50"),
    *("--pairs-per-call", "4", "--retry-seconds", "0", "--llm.model", MODEL),
)
PAIRS = 16, 24


class Judge(dict[Texts, str]):
    """The answer to any pair, by its texts."""

    def __missing__(self, texts: Texts) -> str:
        left, right = texts
        if (len(left) + len(right)) % 7 == 0:
            return "unsure"
        return "yes" if len(set(left) & set(right)) > 0.7 * len(set(left)) else "no"


class RunProcess:
    """A process that runs; log: the file of what it prints."""

    def __init__(self, command: list[str], folder: Path, environment: Mapping[str, str]) -> None:
        self.log = folder / "printed.txt"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *command],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    @property
    def printed(self) -> str:
        return self.log.read_text(errors="replace")

    def await_stalls(self, server: LlmServer, count: int) -> None:
        """Wait until so many of its calls stall."""
        for _ in range(count):
            while not server.stalling.acquire(timeout=0.2):
                assert self.process.poll() is None, self.printed

    def kill(self) -> None:
        """Kill it as kill -9 does."""
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        """Wait for its end and return its exit code."""
        return self.process.wait(timeout=600)


@contextmanager
def run_process_of(
    server: LlmServer, folder: Path, options: Sequence[str], environment: Mapping[str, str], dies_after: int = 0
) -> Iterator[RunProcess]:
    """Start jobs.run in a folder that has a task, and kill it at the end. dies_after: COUNT of the program."""
    start = [str(Path(__file__)), str(dies_after)] if dies_after else ["-m", "jobs.run"]
    process = RunProcess([*start, *SMALL, "--llm.base-url", server.url, *options], folder, environment)
    try:
        yield process
    finally:
        process.kill()


def die_after(count: int) -> None:
    """Have this process kill itself when it has written so many raw answers."""
    add, written = AnswerStore.add, list[RawAnswer]()

    def add_and_die(self: AnswerStore, raw: RawAnswer) -> None:
        add(self, raw)
        written.append(raw)
        if len(written) == count:
            os.kill(os.getpid(), signal.SIGKILL)

    AnswerStore.add = add_and_die


if __name__ == "__main__":
    choose_ports()
    die_after(int(sys.argv.pop(1)))
    run_process(run.main)
