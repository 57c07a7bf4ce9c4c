"""Start the application on Ray Serve, print where it is, put a new model in on SIGHUP, and stop it on SIGTERM."""

import logging
import signal
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from math import inf
from typing import Any

from ray import serve
from ray.exceptions import RayActorError, RayError
from ray.serve.config import ProxyLocation
from ray.serve.exceptions import RayServeException

from al_ray.apps.http.address import LOOPBACK, check_port_is_free
from al_ray.apps.http.signals import received
from al_ray.apps.http.token import token_digest
from al_ray.apps.matching.cutoff import choose_service_cutoff
from al_ray.apps.matching.model import MatchingModel, open_model
from al_ray.apps.serving.app import NAME, PATIENCE, make_application
from al_ray.apps.serving.known import check_model_of_store, read_known, read_left
from al_ray.apps.serving.model_name import ModelName
from al_ray.apps.serving.options import ServeOptions
from al_ray.apps.serving.store import (
    Source,
    StoreWriter,
    Texts,
    check_store_folder,
    make_store,
    read_source,
    read_store,
)
from al_ray.cluster.session import require_shared_folders, session
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.errors import ActorLost, AlRayError, BadOption, WrongFolder
from al_ray.core.naming import option

logger = logging.getLogger(__name__)
LOGS: dict[str, Any] = {"log_level": "WARNING", "enable_access_log": False}
STARTS = 3  # Of Ray Serve.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Plan:
    """What would be loaded: the model, the known texts and their source, and whether the store must still be made.

    is_stale: whether `known` has changed since the store was made.
    """

    model: MatchingModel
    source: Source
    texts: Texts
    sequence: int
    is_new: bool
    is_stale: bool = False

    def lines(self, options: ServeOptions) -> Iterator[str]:
        """Yield what would be loaded, in words."""
        name = self.model.path if self.model.round is None else f"{self.model.path}, round {self.model.round}"
        yield f"model: {name}, digest {self.model.model.digest[:16]}"
        if self.model.choice is not None:
            yield f"chosen: {self.model.choice.words}"
        cutoff = choose_service_cutoff(options.for_matching(), self.model)
        yield f"cutoff: {cutoff.source}" + (f", score {cutoff.score:.4f}" if cutoff.score > -inf else "")
        where = f"from {options.known}" if self.is_new else f"in {options.store} after change {self.sequence:,}"
        characters = sum(len(known.text) for known in self.texts.values())
        yield f"known texts: {len(self.texts):,} {where}, {characters:,} characters"
        if self.is_stale:
            yield (
                f"{options.known} has changed since the store was made; the store keeps its texts: send the changes by "
                "PUT and DELETE /texts"
            )
        exact = len(self.texts) <= options.exact_texts or self.model.knows_both_sides
        yield "search: " + ("exact" if exact else f"by the Faiss index {options.index}; GET /model says its recall")


def plan(options: ServeOptions) -> Plan:
    """Check the model, the known texts and the store, and return what would be loaded; nothing is written.

    WrongFolder if the store was made from another `known` with other texts. If the same path has other texts now, those
    of the store are loaded: they have the changes that were acknowledged.
    """
    model = open_model(options.model, options.round)
    source, texts = read_known(options, model)
    choose_service_cutoff(options.for_matching(), model)
    if not texts:
        raise BadOption(f"{option('known', options.known)} has no texts; give a table with one at least")
    there = read_source(options.store)
    if there is None:
        check_store_folder(options.store)
        return Plan(model, source, texts, 0, True)
    changed = there.digest != source.digest
    if changed and there.known != source.known:
        raise WrongFolder(
            f"{options.store} was made from other texts ({there.known}) than {options.known} has now; give another "
            "`store`, or the `known` of this one"
        )
    check_model_of_store(model, there)
    content = read_store(options.store)
    return Plan(model, there, content.texts, content.reader.number, False, changed)


def run_server(options: ServeOptions, host: str, port: int, token: str | None) -> Iterator[str]:
    """Serve until SIGTERM or SIGINT; yield lines about what happens: the address when it is ready, each new model.

    On SIGHUP the model of `model` is put in anew: the best of the run by then, or what a link leads to now.
    """
    planned = plan(options)
    check_port_is_free(host, port)
    if planned.is_new:
        left = read_left(options, planned.model, planned.source.symmetric)
        make_store(options.store, planned.source, planned.texts, left)
    # Before Ray starts: a store that another process writes is refused here, and a lost writer names no model.
    with closing(StoreWriter(options.store)) as writer:
        writer.use_model(ModelName.of(planned.model))
    yield from planned.lines(options)
    replicas = options.most_replicas or options.replicas
    cluster = ClusterConfig(
        shards=replicas, cpus_per_shard=options.cpus_per_replica, gpus_per_shard=options.gpus_per_replica,
        shared_storage=options.shared_storage, ray=True,
    )  # fmt: skip
    with session(cluster, trainers=0):
        require_shared_folders([options.store, options.model], cluster)
        _check_only_service()
        logging.getLogger("ray.serve").setLevel(logging.WARNING)
        try:
            _start_serve(host, port)
            application = make_application(options, token_digest(token))
            serve.run(application, name=NAME, route_prefix="/", logging_config=LOGS)
            # Now: Ray has handlers of its own while it starts.
            with received(*SIGNALS) as next_signal:
                yield f"ready: http://{host}:{port} (documentation of the interface: /docs)"
                while next_signal() == signal.SIGHUP:
                    yield _new_model(options)
        finally:
            serve.shutdown()
    # All changes in one table: the next start reads it faster.
    StoreWriter(options.store, PATIENCE).close()
    yield f"stopped; the known texts are in {options.store}"


def _start_serve(host: str, port: int) -> None:
    """Start Ray Serve, again if a proxy is lost or not ready in time, as where a node is lost; at last ActorLost."""
    location = ProxyLocation.HeadOnly if host in LOOPBACK else ProxyLocation.EveryNode
    for left in reversed(range(STARTS)):
        try:
            serve.start(proxy_location=location, http_options={"host": host, "port": port}, logging_config=LOGS)
            return
        except (RayActorError, TimeoutError) as error:
            serve.shutdown()
            reason = str(error).splitlines()[0].rstrip(".")
            if not left:
                raise ActorLost(
                    f"Ray Serve did not start in {STARTS} tries ({reason}); look at the nodes of the cluster (ray "
                    "status), and give the same command again"
                ) from error
            logger.warning("Ray Serve did not start (%s) and is started again", reason)


def _check_only_service() -> None:
    """Raise BadOption if Ray Serve runs on this cluster: there is one on a cluster, with one address.

    The application would take the place of the one of another command, and the end of either would end both.
    """
    there = serve.status()
    if there.proxies or there.applications:
        names = ", ".join(sorted(there.applications)) or "none"
        raise BadOption(
            f"Ray Serve runs on this cluster (applications: {names}), and a cluster has one; stop it (ray job stop, "
            "serve shutdown), or leave out RAY_ADDRESS, so that `al_ray.serve` starts a Ray of its own"
        )


def _new_model(options: ServeOptions) -> str:
    """Name in the store the model that `model` leads to now; return what happened."""
    try:
        model = open_model(options.model, options.round)
        choose_service_cutoff(options.for_matching(), model)
        check_model_of_store(model, read_store(options.store).source)
    except AlRayError as error:
        return f"the model stays as it is: {error}"
    try:
        serve.get_deployment_handle("Writer", NAME).use_model.remote(ModelName.of(model)).result(timeout_s=PATIENCE)
    except TimeoutError:
        return f"the process that writes {options.store} has not answered in {PATIENCE:.0f} s; send SIGHUP again"
    except (AlRayError, RayError, RayServeException) as error:
        # Ray wraps the error of another process.
        reason = str(getattr(error, "cause", error)).partition("\n")[0]
        return f"the new model was not named in {options.store} ({reason}); send SIGHUP again"
    chosen = "" if model.choice is None else f" ({model.choice.words})"
    return f"new model: digest {model.model.digest[:16]}{chosen}; the old one answers until the new one is loaded"
