"""The commands: one entry each, from which the lists of commands, completion, `python -m jobs.NAME` and tests derive.

To add a command, write al_ray/cli/NAME.py and jobs/NAME.py, and add its entry.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Command:
    """A command: what it does, as the list of commands says it.

    papers: whether it is one of further papers, which have a list of their own, `al-ray papers`.
    """

    sentence: str
    papers: bool = False


COMMANDS: Mapping[str, Command] = {
    "annotate": Command("Label pairs in the browser"),
    "audit": Command("Measure precision from a few labels of people"),
    "augment": Command("Train a bi-encoder on gold and silver labels (Augmented SBERT)", papers=True),
    "demo": Command("Watch active learning find rare pairs"),
    "evaluate": Command("Average precision over all pairs"),
    "export": Command("Export of a trained model for other programs"),
    "grid": Command("A grid of runs"),
    "labels": Command("The labels of a run"),
    "match": Command("Matches and clusters of texts by a trained model"),
    "mine": Command("Mined negatives of a task, and how many of them are positives", papers=True),
    "paraphrase": Command("Question paraphrase retrieval", papers=True),
    "plan": Command("Memory, time and cost of a run, before anything starts"),
    "prepare": Command("Make a task folder"),
    "report": Command("Tables, curves and examples of runs and grids"),
    "reproduce": Command("A table or figure of the paper, of your task", papers=True),
    "run": Command("One active-learning run"),
    "serve": Command("Match texts over HTTP by a trained model"),
    "train": Command("Train a model on existing labels"),
}
"""All commands by name, in the order of the lists: the module of each is al_ray.cli.NAME."""
PAPERS = tuple(name for name, command in COMMANDS.items() if command.papers)


def main_of(name: str) -> Callable[[], None]:
    """Return the function that runs a command: it parses `sys.argv`, does the work and prints."""
    return import_module(f"al_ray.cli.{name}").main


def options_of(name: str) -> Any:
    """Return the class of options of a command, or a union of the classes of its subcommands."""
    return import_module(f"al_ray.cli.{name}").OPTIONS
