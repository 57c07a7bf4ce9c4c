"""What killed processes leave of files that are written without a lock."""

import os
import time
from pathlib import Path

from al_ray.storage.files import LEFTOVER_SECONDS, write_text


def leftover(path: Path, seconds: float) -> Path:
    path.write_text("half a")
    then = time.time() - seconds
    os.utime(path, (then, then))
    return path


def test_a_file_that_is_written_again_leaves_no_leftovers_of_earlier_writers(tmp_path):
    report = tmp_path / "report [1].html"
    write_text(report, "first")
    old, other = LEFTOVER_SECONDS + 60, "report [1].html.bak"
    gone = leftover(tmp_path / f".{report.name}.4194999-4194999", old)
    stays = [
        # Perhaps a process of another machine on the same disk is writing it.
        leftover(tmp_path / f".{report.name}.4194998-17", 60),
        leftover(tmp_path / f".{other}.4194999-17", old),
        leftover(tmp_path / f".{report.name}.notes", old),
        leftover(tmp_path / ".report 1.html.4194999-17", old),
    ]
    write_text(report, "second")
    assert report.read_text() == "second"
    assert not gone.exists()
    assert all(path.exists() for path in stays)
