"""A new user's journey with a language model as labeller and a limit on its cost, by docs/labels.md.

The commands and the module judge.py are those of the page; the network is a function that counts what it is asked.
"""

import importlib
import io
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.request import Request

import pytest

from tests.guides import as_shown, block, commands, outputs
from tests.journeys.products import product, shop

pytestmark = pytest.mark.slow

PREPARE = ("docs/labels.md", "## From a CSV to matches", "$ python -m jobs.prepare")
PROGRAM = ("docs/labels.md", "## A program that labels")
PRICE = 0.0002
URL = "http://localhost/judge"


@dataclass
class Service:
    """A language model behind HTTP that knows the truth, and every pair that it was asked for."""

    pairs: list[tuple[str, str]] = field(default_factory=list)

    def urlopen(self, request: Request, timeout: float) -> io.BytesIO:
        assert request.full_url == URL
        assert timeout == 60
        assert isinstance(request.data, bytes)
        pairs = [(left, right) for left, right in json.loads(request.data)["pairs"]]
        self.pairs += pairs
        answers = [["yes" if product(left) == product(right) else "no", 0.9] for left, right in pairs]
        return io.BytesIO(json.dumps({"answers": answers, "cost": PRICE * len(pairs)}).encode())

    def bought_twice(self) -> list[tuple[str, ...]]:
        counts = Counter(tuple(sorted(pair)) for pair in self.pairs)
        return [pair for pair, count in counts.items() if count > 1]


@pytest.fixture
def service(monkeypatch, tmp_path) -> Iterator[Service]:
    service = Service()
    (tmp_path / "judge.py").write_text(block(*PROGRAM, "# judge.py: an LLM behind HTTP"), encoding="utf-8")
    monkeypatch.setenv("JUDGE_URL", URL)
    monkeypatch.setattr("urllib.request.urlopen", service.urlopen)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    importlib.invalidate_caches()
    yield service
    sys.modules.pop("judge", None)


def test_no_label_is_bought_beyond_the_limit_or_twice(local_ray, minilm, service, tmp_path):
    user = shop(tmp_path)
    user.run(commands(block(*PREPARE))[0])

    session = block(*PROGRAM, "$ python -m jobs.run")
    (run,) = commands(session)
    printed = user.run(run)
    # 64 pairs in round 1 and 32 of round 2: (64 + 32) x 0.0002 = 0.0192; 16 more would cost 0.0224 of 0.02.
    assert len(service.pairs) == 96
    # The seconds of a round differ.
    shown, seconds = outputs(session)[0], re.compile(r" +\d+$", re.MULTILINE)
    assert as_shown(seconds.sub("", shown), seconds.sub("", printed))
    assert (tmp_path / "runs" / "judge" / "ended.json").is_file()

    # The same command, and the one that closing the round prints, buy nothing more.
    user.run(run)
    assert len(service.pairs) == 96
    session = block(*PROGRAM, "$ python -m jobs.labels close")
    (close,) = commands(session)
    closed = user.run(close)
    assert as_shown(outputs(session)[0], closed)
    resume = closed.partition("to train on them: ")[2].strip()
    printed = user.run(resume)
    assert len(service.pairs) == 96
    assert "stopped by --max-cost 0.02" in printed

    # A higher limit buys the third round, of 144 pairs.
    printed = user.run(f"{resume} --max-cost 1")
    assert len(service.pairs) == 96 + 144
    assert service.bought_twice() == []
    status = user.run("python -m jobs.labels status --run runs/judge")
    # 240 x 0.0002
    assert "cost: 0.048\n" in status
