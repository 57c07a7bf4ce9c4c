"""The kinds of oracles, by the words of --oracle that name one, and options of calls of a Python function.

To add an oracle, write its module in al_ray/oracles, and add an entry to ORACLES here and one to MAKERS in
al_ray/oracles/registry.py: options, help, errors and the contract tests read ORACLES.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from al_ray.core.config.bounds import RARE, Between, Lifted, check_bounds
from al_ray.core.config.llm import LlmConfig

MODEL = "model:"
"""Before the path of a cross-encoder that is the oracle."""
# Seconds: no wait between tries is longer, however often a call has failed.
LONGEST_WAIT = 60.0


@dataclass(frozen=True)
class OracleConfig:
    """Calls of `--oracle module:function` and `llm`: their size and rate, retries, and what labels may cost."""

    pairs_per_call: Annotated[int, Between(1, 1_000_000)] = 16
    """Pairs per call of --oracle module:function; the answers of a call are stored as soon as it returns."""
    calls_at_once: Annotated[int, Between(1, 1024)] = 1
    """Maximum number of calls under way at a time, each in a thread of its own: the function must allow that."""
    calls_per_minute: Annotated[float | None, Between(0.001, 1e6)] = None
    """Maximum rate of all calls; no limit when not given."""
    retries: Annotated[int, Between(0, 100)] = 5
    """How often a pair is asked again after a failed call or an unreadable answer, before the run stops."""
    retry_seconds: Annotated[float, Between(0, LONGEST_WAIT), RARE] = 1.0
    """Longest wait after a failed call, in seconds; it doubles with every failure of the same pairs, up to 60 s."""
    call_timeout: Annotated[float, Between(0.001, 1e6)] = 120.0
    """Seconds after which a call counts as failed."""
    release_actors: bool = False
    """While a batch is labelled, end the run's actors, so that others can use their resources, and wait for room again
    afterwards: for labels that take long. Not in a grid."""
    # Costs are kept in the run folder (limits.json, runs/limits.py) and hold until another value is given.
    cost_per_pair: Annotated[float | None, Between(0, 1e9)] = None
    """Cost of asking one pair, in any currency, if the function does not return a cost. Default: as before, else 0;
    with --max-cost it must be known."""
    max_cost: Annotated[float | Lifted | None, Between(1e-9, 1e12)] = None
    """Stop before a call that would raise the total cost of the run's labels, or of the answers in the folder of match,
    above this. In a run it holds in later sessions too: give a higher value to go on, or none to lift it. Default: as
    before, else no limit."""
    llm: LlmConfig = field(default_factory=LlmConfig)

    def __post_init__(self) -> None:
        """Raise BadOption for a value out of bounds."""
        check_bounds(self)


@dataclass(frozen=True)
class OracleKind:
    """A kind of oracle: which words name it, and its properties on which other modules depend.

    form: how it is written after --oracle. summary: who labels, in a few words, for --help.
    is_named: whether a word names an oracle of this kind.
    people: people label. Batches are small by default, and `label` raises LabelsAwaited until all pairs have answers.
    serves_page: jobs.run serves the page on which they label, and waits for them.
    by_split: answers depend on the split of the pairs, or are read from its files: each split has an oracle of its own.
    free: labels cost neither money nor the time of people.
    knows_positives: answers with the task's own positives, so that all of them are known.
    resumed_with: options without which a run is not resumed, because no folder stores them, each with a word for its
    value.
    """

    form: str
    summary: str
    is_named: Callable[[str], bool]
    people: bool = False
    serves_page: bool = False
    by_split: bool = False
    free: bool = False
    knows_positives: bool = False
    resumed_with: tuple[tuple[str, str], ...] = ()


def _is_model(word: str) -> bool:
    """Return whether a word is model:PATH."""
    return word.startswith(MODEL) and bool(word.removeprefix(MODEL).strip()) and "\0" not in word


def _is_function(word: str) -> bool:
    """Return whether a word is module:function, where the module may be in packages."""
    module, _, function = word.partition(":")
    return all(part.isidentifier() for part in module.split(".")) and function.isidentifier()


ORACLES: Mapping[str, OracleKind] = {
    "simulated": OracleKind(
        "simulated",
        "the task's own positives",
        lambda word: word == "simulated",
        by_split=True,
        free=True,
        knows_positives=True,
    ),
    "file": OracleKind("file", "people", lambda word: word == "file", people=True, by_split=True),
    "page": OracleKind(
        "page",
        "people, on a page that jobs.run serves",
        lambda word: word == "page",
        people=True,
        serves_page=True,
        by_split=True,
    ),
    "model": OracleKind("model:PATH", "a cross-encoder trained by the command train or augment", _is_model, free=True),
    "llm": OracleKind(
        "llm",
        "a language model; docs/llm.md",
        lambda word: word == "llm",
        resumed_with=(("llm.model", "MODEL"), ("llm.definition", "TEXT")),
    ),
    # Last, because a word such as model:label could name a function, too.
    "function": OracleKind("module:function such as judge:label", "your function; docs/labels.md", _is_function),
}
"""All kinds of oracles by name, in the order of --help; a word names the first kind that it fits."""


def oracle_name(word: str) -> str | None:
    """Return the name of the kind of oracle that --oracle WORD names; None if it names none."""
    return next((name for name, kind in ORACLES.items() if kind.is_named(word)), None)


def oracle_kind(word: str) -> OracleKind:
    """Return the kind of oracle that --oracle WORD names; RunConfig refuses a word that names none."""
    name = oracle_name(word)
    assert name is not None
    return ORACLES[name]


def people_label(*words: str) -> bool:
    """Return whether people label by each of these words of --oracle: in files or on a page is the same to a run."""
    return all(oracle_kind(word).people for word in words)


def oracle_forms() -> str:
    """Return how each kind of oracle is written, for the error on a word that names none."""
    *others, last = (kind.form for kind in ORACLES.values())
    return f"{', '.join(others)}, or {last}"


def oracles_help() -> str:
    """Return the --help of --oracle: how each kind is written, and who labels."""
    *others, last = (f"{kind.form} ({kind.summary})" for kind in ORACLES.values())
    return f"Who labels: {', '.join(others)}, or {last}."
