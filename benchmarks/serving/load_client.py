"""Clients that send requests one after another, in a process of their own: python -m benchmarks.serving.load_client

It reads a Load as JSON from its standard input, and prints a Loaded as JSON.
"""

import asyncio
import json
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from itertools import cycle

import aiohttp


@dataclass(frozen=True)
class Load:
    """What to send: each client sends bodies in turn, its next one when the last was answered."""

    url: str
    bodies: list[str]
    clients: int
    warm_seconds: float
    seconds: float


@dataclass
class Loaded:
    """Answers that came within the measured time: milliseconds of those with code 200; the number of each code.

    cpu: CPU seconds of the clients for each second of measured time.
    """

    milliseconds: list[float] = field(default_factory=list[float])
    codes: dict[str, int] = field(default_factory=dict[str, int])
    seconds: float = 0.0
    cpu: float = 0.0


async def send(load: Load) -> Loaded:
    """Send requests for the seconds of the load, after the warm-up, and return what came back."""
    bodies = cycle([body.encode() for body in load.bodies])
    begin = time.perf_counter() + load.warm_seconds
    end, codes, loaded = begin + load.seconds, Counter[str](), Loaded(seconds=load.seconds)

    async def client(session: aiohttp.ClientSession) -> None:
        while (sent := time.perf_counter()) < end:
            async with session.post(load.url, data=next(bodies)) as answer:
                await answer.read()
            now = time.perf_counter()
            if begin <= now < end:
                codes[str(answer.status)] += 1
                if answer.status == 200:
                    loaded.milliseconds.append(1000 * (now - sent))

    async def cpu() -> None:
        await asyncio.sleep(load.warm_seconds)
        before = time.process_time()
        await asyncio.sleep(end - time.perf_counter())
        loaded.cpu = (time.process_time() - before) / load.seconds

    connections, headers = aiohttp.TCPConnector(limit=0), {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(connector=connections, headers=headers) as session:
        await asyncio.gather(cpu(), *(client(session) for _ in range(load.clients)))
    loaded.codes = dict(codes)
    return loaded


if __name__ == "__main__":
    print(json.dumps(asdict(asyncio.run(send(Load(**json.load(sys.stdin)))))))
