"""A language model as the oracle: its examples, answers that are on disk already, the check by people, the rest."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from al_ray.core.config.llm import LlmConfig
from al_ray.core.config.oracle import OracleConfig
from al_ray.core.errors import BadFile, BadOption, DryRun, LabellingStopped, LabelsAwaited
from al_ray.core.labels import CODES, NO, OPEN, UNSURE, WORDS, YES, Answers, Batch, make_answers
from al_ray.core.naming import option
from al_ray.core.pairs import Pairs, Rows
from al_ray.core.rng import generator
from al_ray.core.task import Task
from al_ray.oracles.function import SLACK, CallableOracle
from al_ray.oracles.llm.check import Check, begun
from al_ray.oracles.llm.client import Client
from al_ray.oracles.llm.prompt import Example, Prompts, digest_of
from al_ray.oracles.llm.service import LlmService
from al_ray.oracles.llm.store import AnswerStore, RawAnswer
from al_ray.oracles.replies import Texts
from al_ray.runs.ledger import Ledger
from al_ray.runs.run_folder import RunFolder
from al_ray.storage.uri import StoragePath

PREFIX = "llm:"
# Requests that a dry run shows.
SHOWN = 2


def llm_service(options: OracleConfig, place: StoragePath, task: Task) -> LlmService:
    """Return the service whose raw answers lie in a folder, of a run or not; BadOption if an option is missing."""
    config = options.llm
    if not config.model.strip():
        raise BadOption(
            "`oracle='llm'` needs the name of a model; give `llm.model` to `al_ray.run` or `al_ray.match` "
            "(`al_ray.run_grid` has no such option)"
        )
    if isinstance(options.max_cost, int | float) and not config.priced:
        raise BadOption(
            "`max_cost` needs `llm.input_price` and `llm.output_price`, or nothing tells what a label costs"
        )
    if config.both_orders and not task.symmetric:
        raise BadOption(
            "`llm.both_orders` needs a symmetric task; leave it out: left and right texts differ in kind here"
        )
    config = replace(config, definition=read_definition(config.definition))
    return LlmService(config, Client(config, options.call_timeout), AnswerStore(place), task.symmetric)


def format_requests(service: LlmService, parts: Sequence[Sequence[Texts]]) -> list[str]:
    """Return the messages of the first SHOWN requests for parts of pairs."""
    requests = [request for part in parts[:SHOWN] for request in service.requests(part)]
    lines = [f"[{message['role']}]\n{message['content']}" for one in requests for message in one["messages"]]
    return lines[: 2 * SHOWN]


def uncounted_cost(store: AnswerStore, journal: RunFolder) -> float:
    """Return the cost of raw answers that no label in the ledger counts: a process ended between the two.

    If the ledger counts more, because a raw answer could not be written, the difference is written as a raw answer:
    otherwise it would hide the same amount of cost that a later process pays and does not count.
    """
    ledgers = journal.ledger, journal.dev_labels.ledger
    pieces = (piece for ledger in ledgers for number in range(1, ledger.rounds + 1) for piece in ledger.answers(number))
    counted = sum(piece.cost for piece in pieces if piece.by.startswith(PREFIX))
    # Sums of the same costs in another order may differ by rounding.
    if counted > store.cost * (1 + SLACK):
        store.add(RawAnswer("", [], [], counted - store.cost, "its raw answer could not be written", {}, None))
    return max(0.0, store.cost - counted) if store.cost > counted * (1 + SLACK) else 0.0


def read_definition(text: str) -> str:
    """Return the definition of a match: the text, or what is in @FILE."""
    if not text.startswith("@"):
        return text
    try:
        content = Path(text[1:]).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise BadFile(
            f"{option('llm.definition', text)} cannot be read ({error}); give a file of UTF-8 text"
        ) from error
    if not content:
        raise BadFile(f"{option('llm.definition', text)} is empty; say in it what a match is")
    return content


@dataclass
class LlmOracle:
    """Labels by a language model (active_learning/ports.py: Oracle). calls: asks the service, with limits and retries.

    per_call: pairs of a request. seed: of the run. uncounted: the cost of raw answers that the ledger lacks.
    """

    service: LlmService
    calls: CallableOracle
    journal: RunFolder
    seed: int
    per_call: int
    uncounted: float = 0.0
    _config: LlmConfig = field(init=False)

    def __post_init__(self) -> None:
        self._config = self.service.config

    def label(self, number: int, batch: Batch, missing: Rows) -> Iterator[Answers]:
        """Yield the answers to the rows `missing`: first those on disk that an earlier process paid for.

        Raises what CallableOracle.label raises, LabellingStopped if the check forbids it, and DryRun.
        """
        self.service.prompts = Prompts(self._config, self._examples(number, batch))
        texts = list(zip(*self.journal.task.texts_of(batch.pairs), strict=True))
        if self.uncounted:
            cost, self.uncounted = self.uncounted, 0.0
            unread = np.array([OPEN], dtype=np.uint8)
            yield Answers(missing[:1], unread, self.service.name, np.array([np.nan]), cost)
        if self._config.dry_run:
            left = [texts[row] for row in missing.tolist() if self.service.known(texts[row]) is None]
            raise DryRun(self._dry_run(number, left))
        checked = yield from self._check(number, batch, missing)
        rest = np.setdiff1d(missing, checked)
        known = np.array([self.service.known(texts[row]) is not None for row in rest.tolist()], dtype=bool)
        if known.any():
            yield self._on_disk(rest[known], [texts[row] for row in rest[known].tolist()])
        yield from self.calls.label(number, batch, rest[~known])

    def _check(self, number: int, batch: Batch, missing: Rows) -> Generator[Answers, None, Rows]:
        """Have people and the model label drawn pairs of a round of train, and return the rows that have answers now.

        The answers of people come last, so that they count. LabellingStopped if the two agree too little. Pairs of dev
        are no part of a check, and are labelled after it.
        """
        nothing, subject = np.empty(0, dtype=np.int64), digest_of([self._config.model, self._config.definition])
        ours = self.journal.ledger.batch(number)
        # A check that was started applies, whether it is requested again or not.
        if not (self._config.check_with or begun(self.journal.path)):
            return nothing
        check = Check(self.journal.path, self.journal.task, self.seed, self._config.check_with)
        result, rows = check.result(subject), nothing
        if ours is None or not np.array_equal(ours.pairs, batch.pairs):
            if result is None:
                raise self._unchecked(number)
        elif result is None:
            drawn = check.drawn(number, batch, missing)
            rows, texts = drawn.rows, list(zip(*self.journal.task.texts_of(batch.pairs[drawn.rows]), strict=True))
            unknown = rows[[self.service.known(one) is None for one in texts]]
            # A batch of their own, because messages count its pairs: nobody has asked for the others of the round.
            part = Batch(batch.pairs[unknown], batch.cosines[unknown], batch.source)
            for piece in self.calls.label(number, part, np.arange(len(unknown))):
                # Its cost counts, and its labels do not: were they stored, and the process then ended, a round that is
                # checked as a whole would be complete without the answers of people.
                yield replace(piece, rows=unknown[piece.rows], labels=np.full(len(piece.rows), OPEN, dtype=np.uint8))
            model = self._on_disk(rows, texts).labels
            yield make_answers(rows, drawn.people, "people")
            result = check.write(subject, self.service.name, drawn, batch, model)
        check.require_agreement(result, self._config.least_kappa)
        return rows

    def _unchecked(self, number: int) -> LabelsAwaited | LabellingStopped:
        """Return the error for dev pairs of a round that are to be labelled before the check."""
        last = self.journal.ledger.rounds
        if not self.journal.ledger.sealed(last):
            return LabelsAwaited(
                f"round {number}, dev: its pairs are bought after the check of the model on pairs of round {last}"
            )
        return LabellingStopped(
            f"stopped by `llm.check_with`: the dev pairs of round {number} are not bought from a model that was not "
            "checked, and no round is open whose pairs could check it; give more `rounds`, or `dev_labels=0`"
        )

    def _on_disk(self, rows: Rows, texts: Sequence[Texts]) -> Answers:
        """Return the answers on disk to rows (k,) with these texts; all of them have one."""
        known = [one for one in map(self.service.known, texts) if one is not None]
        assert len(known) == len(rows)
        labels = np.array([CODES[word] for word, _ in known], dtype=np.uint8)
        return Answers(rows, labels, self.service.name, np.array([confidence for _, confidence in known]))

    def _dry_run(self, number: int, texts: list[Texts]) -> str:
        parts = [texts[start : start + self.per_call] for start in range(0, len(texts), self.per_call)]
        most = sum(map(self.service.expected_cost, parts))
        price = "an unknown price (give `llm.input_price` and so on)"
        if self._config.priced:
            price = f"at most {most:,.6g}, if no request has to be repeated"
        end = f"dry run: nothing was bought; the {len(texts):,} open pairs of round {number} would cost {price}"
        return "\n".join([*format_requests(self.service, parts), end])

    def _examples(self, number: int, batch: Batch) -> list[Example]:
        """Return examples for a round, half of them matches where there are as many: of train, and none of the batch.

        They are drawn from the pairs that the task states and from those labelled in earlier rounds by anyone but a
        language model.
        """
        if not self._config.examples:
            return []
        split, space = self.journal.task.split("train"), self.journal.ledger.space
        pairs = [split.stated_negatives, split.positives]
        labels = [np.full(len(some), label, dtype=np.uint8) for some, label in zip(pairs, (NO, YES), strict=True)]
        for earlier in range(1, number):
            rows, given = labels_of_others(self.journal.ledger, earlier)
            known = self.journal.ledger.batch(earlier)
            assert known is not None
            pairs.append(known.pairs[rows])
            labels.append(given)
        keys, all_labels = space.keys(np.concatenate(pairs)), np.concatenate(labels)
        # The last label of a pair counts.
        keys, last = np.unique(keys[::-1], return_index=True)
        all_labels = all_labels[::-1][last]
        # A batch may be of dev, whose rows are other texts; equal keys of another split leave out an example too many.
        usable = (all_labels != UNSURE) & ~np.isin(keys, space.keys(batch.pairs))
        return self._draw(number, space.pairs(keys[usable]), all_labels[usable])

    def _draw(self, number: int, pairs: Pairs, labels: np.ndarray) -> list[Example]:
        chance, count = generator(self.seed, "llm-examples", number), self._config.examples
        order = chance.permutation(len(labels))
        yes, no = (order[labels[order] == label] for label in (YES, NO))
        half = max(count - len(no), min(len(yes), (count + 1) // 2))
        chosen = chance.permutation(np.concatenate([yes[:half], no[: count - min(half, len(yes))]]))
        texts = zip(*self.journal.task.texts_of(pairs[chosen]), strict=True)
        return [Example(pair, WORDS[int(label)]) for pair, label in zip(texts, labels[chosen].tolist(), strict=True)]


def labels_of_others(ledger: Ledger, number: int) -> tuple[Rows, np.ndarray]:
    """Return the rows (k,) of a round whose last answer is not a language model's, and their labels (k,)."""
    batch = ledger.batch(number)
    assert batch is not None
    labels = np.full(len(batch.pairs), OPEN, dtype=np.uint8)
    for piece in ledger.answers(number):
        readable = piece.labels != OPEN
        labels[piece.rows[readable]] = OPEN if piece.by.startswith(PREFIX) else piece.labels[readable]
    rows = np.flatnonzero(labels != OPEN)
    # Corrections count.
    return rows, ledger.labels(number)[rows]
