"""A headless Chromium for the tests, driven over two pipes: no driver, no port, no network."""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")


class Browser:
    """One page of a browser: what it asks the network for, and what it complains of, is kept."""

    def __init__(self, write: BinaryIO, read: BinaryIO) -> None:
        self.write, self.read = write, read
        self.number, self.events = 0, list[dict[str, Any]]()
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.ask(f"{domain}.enable", self.session)
        self.ask("Page.setLifecycleEventsEnabled", self.session, enabled=True)

    def ask(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """A command's result; events that come before it are kept."""
        self.number += 1
        content = {"id": self.number, "method": method, "params": parameters}
        if session is not None:
            content["sessionId"] = session
        self.write.write(json.dumps(content).encode() + b"\0")
        self.write.flush()
        while True:
            said = self.next()
            if said.get("id") == self.number:
                assert "error" not in said, said
                return said["result"]

    def next(self) -> dict[str, Any]:
        """The next message; events are kept."""
        parts = bytearray()
        while (byte := self.read.read(1)) != b"\0":
            assert byte, "the browser is gone"
            parts += byte
        said = json.loads(parts)
        if "method" in said:
            self.events.append(said)
        return said

    def show(self, path: Path, width: int, height: int, scheme: str = "light") -> None:
        """Open a file in a window of so many pixels, as wide as a phone's when it is narrow."""
        self.events.clear()
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.ask("Emulation.setDeviceMetricsOverride", self.session, **size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.ask("Emulation.setEmulatedMedia", self.session, features=features)
        loader = self.ask("Page.navigate", self.session, url=path.resolve().as_uri())["loaderId"]
        # The empty page before it may only now say that it is loaded.
        while not any(self._is_loaded(event, loader) for event in self.events):
            self.next()

    @staticmethod
    def _is_loaded(event: dict[str, Any], loader: str) -> bool:
        about = event["params"]
        return event["method"] == "Page.lifecycleEvent" and (about["name"], about["loaderId"]) == ("load", loader)

    def value(self, script: str) -> Any:
        """What an expression is worth on the page."""
        return self.ask("Runtime.evaluate", self.session, expression=script, returnByValue=True)["result"].get("value")

    def picture(self, whole: bool = False) -> bytes:
        """A PNG of what is seen, or of the whole page."""
        shot = self.ask("Page.captureScreenshot", self.session, format="png", captureBeyondViewport=whole)
        return base64.b64decode(shot["data"])

    @property
    def requests(self) -> list[str]:
        """All addresses that the page asked for."""
        sent = [event["params"] for event in self.events if event["method"] == "Network.requestWillBeSent"]
        return [one["request"]["url"] for one in sent]

    @property
    def complaints(self) -> list[Any]:
        """What stands on the page's console, and exceptions."""
        kinds = ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")
        return [event["params"] for event in self.events if event["method"] in kinds]


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser with its profile in a folder; the test is skipped where none is installed."""
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("no Chromium is installed (on Debian: apt-get install chromium)")
    (its_read, our_write), (our_read, its_write) = os.pipe(), os.pipe()
    # It reads from 3 and writes to 4; a shell puts them there.
    words = f'exec 3<&{its_read} 4>&{its_write}; exec "$@"'
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
    flags += ["--disable-background-networking", "--no-first-run", f"--user-data-dir={folder}"]
    started = subprocess.Popen(
        ["bash", "-c", words, "bash", program, *flags, "--remote-debugging-pipe"],
        pass_fds=(its_read, its_write), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, "HOME": str(folder)},
    )  # fmt: skip
    os.close(its_read)
    os.close(its_write)
    with os.fdopen(our_write, "wb") as write, os.fdopen(our_read, "rb") as read:
        try:
            yield Browser(write, read)
        finally:
            started.kill()
            started.wait()
