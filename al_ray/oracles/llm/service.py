"""A language model as a service that CallableOracle asks (oracles/replies.py): prompts, prices, rates, raw answers."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from al_ray.core.config.llm import LlmConfig
from al_ray.oracles.calls import Outcome
from al_ray.oracles.llm.client import Client, Completion
from al_ray.oracles.llm.prompt import Answer, Prompts, both_ways, most_tokens, read_content
from al_ray.oracles.llm.store import AnswerStore, RawAnswer
from al_ray.oracles.replies import Reply, ServiceFailed, Texts


@dataclass
class RunningCall:
    """A call under way: the cost of its raw answers, and whether it has expired, which charged it with its bound."""

    cost: float = 0.0
    expired: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


class LlmService:
    """Asks a language model for the labels of pairs. `prompts` changes from round to round, with the examples."""

    place = "`oracle='llm'`"
    fix, charges_by_pair = "fix it or wait for the server", False
    priced = True

    def __init__(self, config: LlmConfig, client: Client, store: AnswerStore, symmetric: bool) -> None:
        """symmetric: whether a pair may be asked either way round."""
        self.config, self.client, self.store = config, client, store
        self.both, self.name = config.both_orders and symmetric, f"llm:{config.model}"
        self.prompts = Prompts(config)
        # The last call with these pairs; a dict is written and read by several threads, one operation at a time.
        self._running = dict[tuple[Texts, ...], RunningCall]()

    def ask(self, left: list[str], right: list[str]) -> Reply:
        """Return the answers to pairs: those on disk, and the others from the server, each way round if asked."""
        pairs = list(zip(left, right, strict=True))
        call, cost, wrong = RunningCall(), 0.0, ""
        self._running[tuple(pairs)] = call
        for wanted in self._wanted(pairs):
            try:
                charged, fault = self._send_or_charge(wanted, call)
            except ServiceFailed as error:
                error.cost += cost
                raise
            cost, wrong = cost + charged, wrong or fault
        answers = [self.known(texts) for texts in pairs]
        return Reply([one or "no answer" for one in answers], cost, wrong)

    def known(self, texts: Texts) -> Answer | None:
        """Return the answer to a pair that is on disk; None if there is none."""
        one, *other = map(self._stored, self._ways(texts))
        if one is None or None in other:
            return None
        return both_ways(one, other[0]) if other and other[0] else one

    def unreadable(self, texts: Texts) -> int:
        """Return how many replies about a pair had no readable answer to it."""
        return max(self.store.unreadable[self.prompts.key(way)] for way in self._ways(texts))

    def expected_cost(self, pairs: Sequence[Texts]) -> float:
        """Return an upper bound of what a call with these pairs costs."""
        return sum(self._bound(self.prompts.request(wanted)) for wanted in self._wanted(pairs))

    def charge(self, cost: float | None, pairs: int) -> float:
        """Return the cost of a call, which `ask` always states."""
        assert cost is not None
        return cost

    def expire(self, pairs: Sequence[Texts], cost: float) -> None:
        """Write that a call has not ended in time, with the part of its cost that no raw answer has yet.

        Later raw answers of the call cost nothing more: all files together cost what the ledger counts. ServiceFailed
        if it cannot be written.
        """
        requests = self.requests(pairs)
        keys = [self.prompts.key(way) for texts in pairs for way in self._ways(texts)]
        call = self._running.get(tuple(pairs), RunningCall())
        with call.lock:
            rest, request = max(0.0, cost - call.cost), requests[0] if requests else {}
            self._write(RawAnswer("", keys, [None] * len(keys), rest, "no answer in time", request, None))
            call.expired = True

    def seconds_between(self, pairs: Sequence[Texts]) -> float:
        """Return the seconds that the limits of requests and of tokens a minute ask for after these pairs."""
        requests = [self.prompts.request(wanted) for wanted in self._wanted(pairs)]
        tokens = sum(sum(most_tokens(request)) for request in requests)
        rates = (len(requests), self.config.requests_per_minute), (tokens, self.config.tokens_per_minute)
        return max((60 * count / rate for count, rate in rates if rate is not None), default=0.0)

    def requests(self, pairs: Sequence[Texts]) -> list[dict[str, Any]]:
        """Return the requests that a call with these pairs would send."""
        return [self.prompts.request(wanted) for wanted in self._wanted(pairs)]

    def _ways(self, texts: Texts) -> list[Texts]:
        return [texts, _reverse(texts)] if self.both else [texts]

    def _stored(self, texts: Texts) -> Answer | None:
        """Return the answer on disk to a pair in this order, also that of an earlier version; None if there is none."""
        return self.store.answer(self.prompts.key(texts)) or self.store.answer(self.prompts.earlier_key(texts))

    def _wanted(self, pairs: Sequence[Texts]) -> Iterator[list[Texts]]:
        """Yield the pairs of each request that is to be sent: one way round, then the other.

        Pairs with the same texts are one.
        """
        for reverse in range(1 + self.both):
            ways = dict.fromkeys(_reverse(texts) if reverse else texts for texts in pairs)
            wanted = [texts for texts in ways if self._stored(texts) is None]
            if wanted:
                yield wanted

    def _bound(self, request: dict[str, Any]) -> float:
        return self.config.cost(*most_tokens(request))

    def _add(self, raw: RawAnswer, call: RunningCall) -> None:
        """Write a raw answer of a call; it costs nothing more if the call has expired."""
        with call.lock:
            raw = replace(raw, cost=0.0) if call.expired else raw
            self._write(raw)
            call.cost += raw.cost

    def _write(self, raw: RawAnswer) -> None:
        """Write a raw answer; ServiceFailed with its cost if that fails, because it is paid for and would be lost."""
        with Outcome() as written:
            self.store.add(raw)
        if written.error is not None:
            # The next request would be lost, too.
            raise ServiceFailed(f"a paid request cannot be stored: {written.error}", raw.cost, fatal=True)

    def _send_or_charge(self, pairs: list[Texts], call: RunningCall) -> tuple[float, str]:
        """Send as `_send` does; charge the upper bound for an unforeseen failure, because it may have been billed."""
        with Outcome() as outcome:
            return self._send(pairs, call)
        if isinstance(outcome.error, ServiceFailed):
            raise outcome.error
        request, keys = self.prompts.request(pairs), [self.prompts.key(texts) for texts in pairs]
        # It may quote the key.
        wrong = self.client.clean(f"{type(outcome.error).__name__}: {outcome.error}")[:500]
        bound = self._bound(request)
        self._add(RawAnswer("", keys, [None] * len(keys), bound, wrong, request, None), call)
        raise ServiceFailed(wrong, bound)

    def _send(self, pairs: list[Texts], call: RunningCall) -> tuple[float, str]:
        """Send one request, write its raw answer, and return its cost and what is wrong with it; "" if nothing."""
        request, keys = self.prompts.request(pairs), [self.prompts.key(texts) for texts in pairs]
        try:
            reply = self.client.complete(request, self._bound(request))
        except ServiceFailed as failure:
            if failure.cost:
                nothing = [None] * len(pairs)
                self._add(RawAnswer("", keys, nothing, failure.cost, str(failure), request, None), call)
            raise
        answers, wrong = read_content(reply.content, len(pairs))
        if reply.cut_off and wrong:
            wrong += (
                f"; it was cut off after {request['max_completion_tokens']:,} tokens: give more `llm.output_tokens`"
            )
        if reply.refusal:
            wrong = f"the model refuses: {self.client.clean(reply.refusal)[:200]}"
        cost, fatal = self._price(request, reply)
        fatal = fatal or self._other_model(reply.model)
        if reply.refusal or fatal:
            answers = [None] * len(pairs)
        self._add(RawAnswer(reply.model, keys, answers, cost, fatal or wrong, request, reply.raw), call)
        if fatal or not any(answers):
            raise ServiceFailed(fatal or wrong, cost, fatal=bool(fatal))
        return cost, wrong

    def _price(self, request: dict[str, Any], reply: Completion) -> tuple[float, str]:
        """Return the cost of a reply, and what is wrong if it is more than the bound by which --max-cost was kept."""
        bound = self._bound(request)
        if reply.tokens is None:
            return bound, ""
        cost = self.config.cost(*reply.tokens)
        if cost <= bound:
            return cost, ""
        most = most_tokens(request)
        used = f"{reply.tokens[0]:,} and {reply.tokens[1]:,} tokens"
        return cost, f"the server charges {used}, more than the {most[0]:,} and {most[1]:,} that were possible"

    def _other_model(self, name: str) -> str:
        known = self.store.models | ({self.client.clean_reply(self.config.accept_model)} - {""})
        if not self.store.models or name in known:
            return ""
        return (
            f"the server answers as {self.client.clean(name)!r}, and before as {', '.join(sorted(self.store.models))}; "
            "to go on with it give `llm.accept_model=NAME`"
        )


def _reverse(texts: Texts) -> Texts:
    return texts[1], texts[0]
