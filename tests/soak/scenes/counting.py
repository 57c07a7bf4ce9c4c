"""An oracle of a grid, tests.soak.scenes.counting:label, that notes for which run and process it answered what.

It writes into the folder for temporary files, which all processes of a trial have in common.
"""

import json
import os
import tempfile
from pathlib import Path

from ray import tune

from tests.oracles.llm_process import Judge
from tests.soak.checks import Call

NAME = "counted.jsonl"


def counted() -> Path:
    """Return the file of the notes."""
    return Path(tempfile.gettempdir()) / NAME


def label(left: list[str], right: list[str]) -> list[str]:
    """Answer pairs; a note of a call is one write, so calls of several processes do not mix."""
    truth, pairs = Judge(), list(zip(left, right, strict=True))
    words = [truth[pair] for pair in pairs]
    note = json.dumps([tune.get_context().get_trial_name(), os.getpid(), list(zip(pairs, words, strict=True))])
    with counted().open("ab", buffering=0) as file:
        file.write(f"{note}\n".encode())
    return words


def calls() -> dict[str, list[Call]]:
    """Return run -> its calls; the start of a call is the number of its process among those of the run."""
    found, processes = dict[str, list[Call]](), dict[str, list[int]]()
    for line in counted().read_text().splitlines() if counted().exists() else []:
        run, process, answers = json.loads(line)
        known = processes.setdefault(run, [])
        known += [process] if process not in known else []
        answers = tuple(((left, right), word) for (left, right), word in answers)
        found.setdefault(run, []).append(Call(known.index(process), answers))
    return found
