"""jobs.annotate and jobs.run --oracle page as processes of their own, which a test can kill."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class PageProcess:
    """A command that serves the page: .url, and what it has printed."""

    def __init__(self, words: list[str], folder: Path, **environment: str) -> None:
        self.words, self.printed = words, list[str]()
        self.process = subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.url = self.until(r"label at (\S+) ")

    def until(self, pattern: str) -> str:
        """Read what is printed up to a line with a pattern, and return what its group has matched."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.printed.append(line)
            if found := re.search(pattern, line):
                return found[1] if found.groups() else line
        self.process.wait()
        self.process.stdout.close()
        raise AssertionError("".join(self.printed))

    def kill(self) -> None:
        """Kill it as kill -9 does."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def end(self) -> str:
        """Ask it to end, and return the rest of what it prints."""
        self.process.send_signal(signal.SIGINT)
        return self.rest()

    def rest(self) -> str:
        """Wait for its end, and return what it prints until then."""
        rest, _ = self.process.communicate(timeout=120)
        return rest


@contextmanager
def page_process(words: list[str], folder: Path, **environment: str) -> Iterator[PageProcess]:
    """Start a command that serves the page, and kill it at the end."""
    process = PageProcess(words, folder, **environment)
    try:
        yield process
    finally:
        process.kill()
