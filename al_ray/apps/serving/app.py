"""The application on Ray Serve: an interface for HTTP, replicas that match, and the one process that writes.

Api        FastAPI; it holds nothing that another replica would miss
Matcher    the model and all known texts; it follows the store before each batch, so it knows what was acknowledged
Writer     one replica, which alone writes the store

Each process loads what it needs from disk, so one that was killed answers as before when Ray Serve has replaced it.
The store names the model, too. A replica that finds another one there answers with the old model until it has loaded
the new one, and each batch is answered by one of them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any

from fastapi import FastAPI
from ray import serve
from ray.exceptions import RayActorError
from ray.serve import Application
from ray.serve.handle import DeploymentHandle

from al_ray.apps.http.token import VARIABLE, read_token, token_digest
from al_ray.apps.matching.cutoff import choose_service_cutoff
from al_ray.apps.matching.model import open_model
from al_ray.apps.serving.answers import MatchAnswer, PutCounts, RemovedCounts, ServedModel, StoredTable
from al_ray.apps.serving.arguments import options_of
from al_ray.apps.serving.http_api import NotReady, NotStored, Refused, make_api, require
from al_ray.apps.serving.known import check_model_of_store, fill_store
from al_ray.apps.serving.matcher import Matcher
from al_ray.apps.serving.model_name import ModelName, read_model_name
from al_ray.apps.serving.options import ServeOptions
from al_ray.apps.serving.questions import Batches, Checked, Put, Question
from al_ray.apps.serving.records.record_matcher import load_matcher
from al_ray.apps.serving.store import StoreWriter, read_source
from al_ray.core.errors import BadFile, BadOption

logger = logging.getLogger(__name__)
NAME = "al_ray"
"""The name of the application."""
PATIENCE = 60.0
"""Seconds that a new writer waits for the end of the one before it."""
TRIES = 10
"""Times that a call is made whose replica dies."""
FIRST = 2.0
"""Seconds that a request waits for the first answer of a replica, before it is refused as too early."""
AGAIN = 300.0
"""Seconds after which a replica loads a new model again that it could not load."""
HEAD = "node:__internal_head__"  # What only the head of a cluster has, by Ray's name.


class WriterReplica:
    """The one process that changes the store."""

    def __init__(self, options: ServeOptions, name: ModelName | None = None) -> None:
        """Open the store; make it of `known` if it is not there yet, which needs the name of the model.

        name: of the model that answers from now on. None: the store names it, as the command has written it there and
        changes it on SIGHUP; a writer that is started again in place of a lost one then changes nothing.
        """
        if name is not None and read_source(options.store) is None:
            fill_store(options, name.open())
        self._store = StoreWriter(options.store, PATIENCE)
        if name is not None:
            self._store.use_model(name)

    async def check_health(self) -> None:
        """Raise an error if this writer writes no more; Ray Serve then starts another one."""
        if self._store.broken:
            raise BadFile(self._store.broken)

    async def number(self) -> int:
        """Return the number of the last change."""
        return self._store.number

    async def use_model(self, model: ModelName) -> None:
        """Name another model in the store, which the replicas then load."""
        self._store.use_model(model)

    async def put(self, texts: Sequence[tuple[str, str]]) -> PutCounts:
        """Put texts by id; see StoreWriter."""
        return self._store.put(texts)

    async def remove(self, ids: Sequence[str]) -> RemovedCounts:
        """Remove texts; see StoreWriter."""
        return self._store.remove(ids)

    async def write_table(self, fields: Sequence[str]) -> StoredTable:
        """Write all known texts as a table; see StoreWriter."""
        return self._store.write_table_for_matching(fields)


class MatcherReplica:
    """A model and all known texts; a new model is loaded before the old one goes."""

    def __init__(self, options: ServeOptions, writer: DeploymentHandle) -> None:
        """Load nothing yet: Ray Serve calls `reconfigure` before the first request."""
        self._options, self._writer = options, writer
        self._matcher: Matcher | None = None
        self._name: ModelName | None = None
        self._loading: asyncio.Task[Matcher] | None = None
        self._problem, self._failed = "", 0.0
        # A matcher is not for two threads at a time.
        self._turn = asyncio.Lock()
        self._batches = Batches(self._answer, options.batch, options.batch_wait)

    async def reconfigure(self, config: Mapping[str, Any]) -> None:
        """Load the model that the store names, and the known texts."""
        if self._matcher is None:
            # The store is there when its writer is.
            await self._writer.number.remote()
            self._name = read_model_name(self._options.store)
            self._matcher = await asyncio.to_thread(self._load, self._name)

    async def check_health(self) -> None:
        """Look for a new model. Raise an error if this replica can follow the store no more: it is then replaced."""
        if self._matcher is not None and self._matcher.failed:
            raise BadFile(f"the changes of {self._options.store} could not be taken over")
        self._follow_model()

    async def match(self, question: Question) -> MatchAnswer:
        """Answer a question, together with others."""
        return await self._batches.answer(question)

    async def _answer(self, questions: list[Question]) -> list[MatchAnswer]:
        """Answer the questions of a batch, all by the same model."""
        self._follow_model()
        async with self._turn:
            assert self._matcher is not None
            return await asyncio.to_thread(self._matcher.answer, questions)

    async def check(self, put: Sequence[Put]) -> Checked:
        """Return texts or records that are to be put as the store has them, or why they must not be put."""
        async with self._turn:
            assert self._matcher is not None
            return await asyncio.to_thread(self._matcher.check, put)

    async def about(self) -> ServedModel:
        """Return the model and the known texts. problem: why the last new model was not loaded, or null."""
        self._follow_model()
        assert self._matcher is not None
        return replace(self._matcher.about(), loading=self._loading is not None, problem=self._problem)

    def _follow_model(self) -> None:
        """Begin to load the model that the store names, if that is another one and none is being loaded."""
        if self._matcher is None or self._loading is not None:
            return
        name = read_model_name(self._options.store)
        if name != self._name or (self._problem and monotonic() >= self._failed + AGAIN):
            self._name = name
            self._loading = asyncio.create_task(asyncio.to_thread(self._load, name))
            self._loading.add_done_callback(self._replace)

    def _replace(self, loading: asyncio.Task[Matcher]) -> None:
        """Answer by the model that was loaded. If there was any error, such as torch's of a full GPU, keep the old one.

        The task is dropped, because its error would keep what was loaded of the new model in memory.
        """
        self._loading = None
        if loading.cancelled():
            return
        if (error := loading.exception()) is None:
            self._matcher, self._problem = loading.result(), ""
            return
        self._problem, self._failed = str(error) or repr(error), monotonic()
        logger.error("the new model is not loaded, and the old one answers on: %s", self._problem)

    def _load(self, name: ModelName) -> Matcher:
        return load_matcher(self._options, name.open(), "cuda:0" if self._options.gpus_per_replica else "cpu")


class ServeService:
    """Calls the replicas of Matcher and Writer for the HTTP interface.

    A call whose replica dies is made again. That is safe: matching changes nothing, and a change that is made twice
    gives what it gives once.
    """

    def __init__(self, matcher: DeploymentHandle, writer: DeploymentHandle) -> None:
        """Call nothing yet."""
        self._matcher, self._writer = matcher, writer
        self._first: asyncio.Task[Any] | None = None
        self._loaded = False

    async def about(self) -> ServedModel:
        """Return what a replica says of itself; NotReady before the first one is loaded."""
        await self._require_loaded()
        return await _called(self._matcher.about.remote)

    async def match(self, question: Question) -> MatchAnswer:
        """Return the answer of a replica; NotReady before the first one is loaded."""
        await self._require_loaded()
        return await _called(self._matcher.match.remote, question)

    async def put(self, texts: Sequence[Put]) -> PutCounts:
        """Have the writer put texts or records, unless a replica refuses them."""
        await self._require_loaded()
        checked = require(await _called(self._matcher.check.remote, texts))
        return await self._stored(self._writer.put.remote, checked)

    async def remove(self, ids: Sequence[str]) -> RemovedCounts:
        """Have the writer remove texts."""
        return await self._stored(self._writer.remove.remote, ids)

    async def write_table(self) -> StoredTable:
        """Have the writer write a table, with the fields of the model that answers."""
        fields = (await self.about()).known_fields or ()
        return await self._stored(self._writer.write_table.remote, fields)

    async def _stored(self, call: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        try:
            return await _called(call, *arguments)
        except (BadFile, BadOption) as error:
            # Ray wraps the error of another process.
            kind = NotStored if isinstance(error, BadFile) else Refused
            raise kind(str(getattr(error, "cause", error))) from error

    async def _require_loaded(self) -> None:
        if self._loaded:
            return
        if self._first is None or (self._first.done() and self._first.exception() is not None):
            self._first = asyncio.ensure_future(_called(self._matcher.about.remote))
        await asyncio.wait([self._first], timeout=FIRST)
        self._loaded = self._first.done() and self._first.exception() is None
        if not self._loaded:
            raise NotReady("the model and the known texts are being loaded; send the request again later")


async def _called(call: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
    """Return the answer of a replica; the call is made again if its replica dies."""
    for _ in range(TRIES - 1):
        try:
            return await call(*arguments)
        except RayActorError as error:
            logger.warning("a replica has died, and its request is sent to another: %s", error)
    return await call(*arguments)


class ApiReplica:
    """The HTTP interface in a replica of Ray Serve."""

    def __init__(
        self, options: ServeOptions, digest: str | None, matcher: DeploymentHandle, writer: DeploymentHandle
    ) -> None:
        """digest: of the token."""
        self._options, self._digest = options, digest
        self._service = ServeService(matcher, writer)

    def __serve_build_asgi_app__(self) -> FastAPI:
        return make_api(self._service, self._options, self._digest)


def make_application(options: ServeOptions, digest: str | None, name: ModelName | None = None) -> Application:
    """Return the application for Ray Serve. digest: of the token. name: of the model, as WriterReplica takes it."""
    resources = {"num_cpus": options.cpus_per_replica, "num_gpus": options.gpus_per_replica}
    many: dict[str, Any] = {"num_replicas": options.replicas}
    if options.most_replicas is not None:
        scale = {"min_replicas": options.replicas, "max_replicas": options.most_replicas}
        many = {"autoscaling_config": {**scale, "target_ongoing_requests": options.batch}}
    # The head is lost only with the cluster. A request whose interface dies with another node would fail with 500; and
    # a writer on a node that is drained would stay there: Ray stops it when the next one has started, which waits for
    # its lock.
    single = {"num_cpus": 0, "resources": {HEAD: 0.001}}
    writer = _deployment(WriterReplica, "Writer", ray_actor_options=single).bind(options, name)
    matcher = _deployment(
        MatcherReplica, "Matcher", ray_actor_options=resources, max_ongoing_requests=2 * options.batch,
        user_config={"store": str(options.store)}, **many,
    ).bind(options, writer)  # fmt: skip
    waiting = options.most_waiting + 100
    api = _deployment(serve.ingress()(ApiReplica), "Api", ray_actor_options=single, max_ongoing_requests=waiting)
    return api.bind(options, digest, matcher, writer)


def _deployment(kind: type, name: str, **settings: Any) -> serve.Deployment:
    """Return a class as a deployment of Ray Serve."""
    made: Any = serve.deployment(name=name, **settings)(kind)
    return made


def build(arguments: dict[str, Any]) -> Application:
    """Return the application of a config file of Serve: `import_path: al_ray.apps.serving.app:build`.

    arguments: options of the command serve by their names with underscores, and `open: true` where no token is wanted.
    The token comes from token_file, or from AL_RAY_TOKEN of the nodes. BadOption for what is no option. Ray Serve
    calls this once for each deployment: the model is what `model` leads to then.
    """
    given = dict(arguments)
    is_open = given.pop("open", False)
    options = options_of(given)
    token = read_token(options.token_file, "`token_file`")
    if token is None and is_open is not True:
        raise BadOption(f"there is no token; give the argument token_file, set {VARIABLE}, or give open: true")
    model, there = open_model(options.model, options.round), read_source(options.store)
    choose_service_cutoff(options.for_matching(), model)
    if there is not None:
        check_model_of_store(model, there)
    return make_application(options, token_digest(token), ModelName.of(model))
