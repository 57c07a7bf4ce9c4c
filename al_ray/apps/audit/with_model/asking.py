"""Ask a language model for the pairs of an audit. Its raw answers are stored in the audit folder as those of a run."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from al_ray.core.config.oracle import OracleConfig
from al_ray.core.errors import BadOption, DryRun, OracleFailed
from al_ray.core.labels import CODES, OPEN, Batch
from al_ray.core.progress import OnProgress
from al_ray.core.scorer import Floats, Labels
from al_ray.core.task import Task
from al_ray.metrics.audit.drawn_pairs import DrawnPairs
from al_ray.oracles.function import CallableOracle
from al_ray.oracles.llm.oracle import format_requests, llm_service, read_definition
from al_ray.oracles.llm.prompt import FORMAT, Prompts, digest_of, likely_tokens
from al_ray.oracles.llm.service import LlmService
from al_ray.oracles.replies import Texts

DIGITS = 16
LEAST_TRIES = 2
"""Replies without a readable answer after which a pair is left out, however few --retries."""


def check_oracle_options(options: OracleConfig) -> None:
    """Raise BadOption for options of a language model that an audit does not have, or that it lacks."""
    if not options.llm.model.strip():
        raise BadOption("`oracle='llm'` needs the name of a model; give `llm.model`")
    if options.llm.examples or options.llm.check_with:
        raise BadOption(
            "examples for a language model, and labels to check it with, are for runs; leave them out: people answer a "
            "part of the pairs anyway"
        )


def question_of(options: OracleConfig) -> str:
    """Return a digest of all that decides the answers of a model, beside the texts of a pair."""
    config = replace(options.llm, definition=read_definition(options.llm.definition))
    return digest_of([config.model, Prompts(config).system, FORMAT, config.both_orders])[:DIGITS]


class Questioner:
    """Asks a language model for the pairs of an audit in a folder; answers that are stored there are not bought again.

    Pairs with the same texts are asked as one.
    """

    def __init__(self, options: OracleConfig, folder: Path, task: Task, pairs: DrawnPairs, seed: int) -> None:
        """BadOption if an option is missing that the model needs."""
        self.options, self.task, self.pairs, self.seed = options, task, pairs, seed
        self.service: LlmService = llm_service(options, folder, task)
        self.texts: list[Texts] = list(zip(*task.texts_of(pairs.pairs), strict=True))

    @property
    def open_rows(self) -> list[int]:
        """Return the rows of pairs that are to be asked: the first one with each texts that has no answer."""
        first = dict[Texts, int]()
        for row, texts in enumerate(self.texts):
            first.setdefault(texts, row)
        return [row for texts, row in first.items() if self.service.known(texts) is None and not self._given_up(texts)]

    @property
    def cost(self) -> float:
        """Return what all requests so far have cost."""
        return self.service.store.cost

    def ask(self, watch: OnProgress) -> tuple[Labels, Floats]:
        """Ask for all pairs without an answer; return answers (n,), OPEN where none is readable, and confidences (n,).

        A pair without a readable answer in 1 + retries replies is left out. Raises what CallableOracle.label raises.
        """
        batch = Batch(self.pairs.pairs, self.pairs.cosines, "audit")
        while rows := self.open_rows:
            calls = CallableOracle(self.service, self.task, self.options, self.seed, self.cost, watch, lambda: None)
            try:
                for _ in calls.label(0, batch, np.array(rows, dtype=np.int64)):
                    # They are in the store.
                    pass
            except OracleFailed:
                # Unless pairs were given up meanwhile, the same would fail again.
                if not any(self._given_up(self.texts[row]) for row in rows):
                    raise
        known = [self.service.known(texts) for texts in self.texts]
        labels = np.array([OPEN if one is None else CODES[one[0]] for one in known], dtype=np.uint8)
        return labels, np.array([np.nan if one is None else one[1] for one in known])

    def show(self, people: int) -> DryRun:
        """Return the first prompts, and what an audit would ask and cost, in place of asking."""
        rows, size = self.open_rows, self.options.pairs_per_call
        texts = [self.texts[row] for row in rows]
        parts = [texts[start : start + size] for start in range(0, len(texts), size)]
        lines = format_requests(self.service, parts)
        stored = len(self.texts) - sum(self.service.known(one) is None for one in self.texts)
        lines += [
            "dry run: nothing was bought",
            f"  {self.service.name} answers {len(self.texts):,} pairs, of which {stored:,} are stored: "
            f"{len(parts):,} requests for {self._price(parts)}",
            f"  people answer {min(people, len(self.texts)):,} of these pairs",
        ]
        return DryRun("\n".join(lines))

    def _price(self, parts: Sequence[Sequence[Texts]]) -> str:
        config = self.options.llm
        if not config.priced:
            return "an unknown price (give `llm.input_price` and `llm.output_price`)"
        most = sum(map(self.service.expected_cost, parts))
        requests = [request for part in parts for request in self.service.requests(part)]
        likely = sum(config.cost(*likely_tokens(request, self.options.pairs_per_call)) for request in requests)
        return f"about {likely:,.4g} (4 bytes a token, no long answers), at most {most:,.4g} if none has to be repeated"

    def _given_up(self, texts: Texts) -> bool:
        return self.service.unreadable(texts) >= max(LEAST_TRIES, 1 + self.options.retries)
