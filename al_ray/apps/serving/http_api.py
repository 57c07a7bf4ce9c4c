"""The HTTP interface: from requests to calls of a service, and from what it raises to codes. It knows no Ray."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

from al_ray import __version__
from al_ray.apps.serving.answers import MatchAnswer, PutCounts, RemovedCounts, ServedModel, StoredTable
from al_ray.apps.serving.bodies import (
    Answer,
    DeleteAnswer,
    DeleteBody,
    MatchBody,
    Problem,
    PutAnswer,
    PutBody,
    TableAnswer,
    describe_errors,
    repeated,
)
from al_ray.apps.serving.gate import RETRY_AFTER, Gate, Metrics, error_response
from al_ray.apps.serving.options import ServeOptions
from al_ray.apps.serving.questions import Checked, Put, Question

TEXT_FORMAT = "text/plain; version=0.0.4; charset=utf-8"
CODES: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The body is not valid; the error names the place."},
    401: {"model": Problem, "description": "No token, or another one."},
    413: {"model": Problem, "description": "The body, a text or the number of texts is too large."},
    429: {"model": Problem, "description": "Too many requests wait. Header Retry-After."},
    503: {"model": Problem, "description": "A model is being loaded, or a change has not arrived. Header Retry-After."},
}
REFUSED = "The encoder would know too little of the known texts."
STORED: dict[int | str, dict[str, Any]] = {
    **CODES, 422: {"model": Problem, "description": REFUSED},
    507: {"model": Problem, "description": "The change could not be written to disk, and was not made."},
}  # fmt: skip


class NotReady(Exception):
    """Raised by a service that cannot answer yet; the message says why."""


class NotStored(Exception):
    """Raised by a service that could not write a change to disk, and has not made it; the message says why."""


class Refused(Exception):
    """Raised by a service for texts that it must not take; the message says why."""


class BadContent(Exception):
    """Raised by a service for texts or records that its model does not match; the message names the place."""


def require(checked: Checked) -> Sequence[tuple[str, str]]:
    """Return texts as the store keeps them; BadContent or Refused if something is wrong with them."""
    if checked.error:
        raise BadContent(checked.error)
    if checked.refusal:
        raise Refused(checked.refusal)
    return checked.texts


class Service(Protocol):
    """What answers requests: the replicas of Ray Serve, or in tests the same classes in one process."""

    async def about(self) -> ServedModel:
        """Return the model, the known texts and how they are searched; NotReady while they are loaded."""
        ...

    async def match(self, question: Question) -> MatchAnswer:
        """Return the answer to a question; NotReady while a model is loaded."""
        ...

    async def put(self, texts: Sequence[Put]) -> PutCounts:
        """Put texts or records by id; they are on disk when this returns. NotStored if they cannot be written.

        BadContent for what the model does not match, such as a field that it does not compare; Refused if the encoder
        would know too little of the known texts; NotReady while the first model is loaded.
        """
        ...

    async def remove(self, ids: Sequence[str]) -> RemovedCounts:
        """Remove texts; it is on disk when this returns. NotStored if it cannot be written."""
        ...

    async def write_table(self) -> StoredTable:
        """Write all known texts as a table."""
        ...


def make_api(service: Service, options: ServeOptions, token_digest: str | None) -> FastAPI:
    """Return the HTTP interface of a service. token_digest: of the token that requests must carry; None if none."""
    metrics = Metrics()
    bearer = [] if token_digest is None else [Depends(HTTPBearer(auto_error=False))]
    api = FastAPI(title="al_ray", version=__version__, redoc_url=None)
    api.add_middleware(
        Gate, token_digest=token_digest, most_bytes=options.most_bytes, most_waiting=options.most_waiting,
        metrics=metrics,
    )  # fmt: skip
    _add_errors(api)
    _add_work(api, service, options, bearer)
    _add_state(api, service, metrics, bearer)
    return api


def _add_work(api: FastAPI, service: Service, options: ServeOptions, bearer: list[Any]) -> None:
    # A match has `why` only where it is asked for.
    @api.post("/match", responses=CODES, dependencies=bearer, response_model_exclude_unset=True)
    async def match(body: MatchBody) -> Answer:
        """Return the known texts that match each text or record, the best first."""
        _limit(options, "texts", body.texts)
        _limit(options, "records", [_joined(record) for record in body.records])
        if body.limit is not None and body.limit > options.limit:
            raise HTTPException(400, f"limit: is {body.limit:,}; give at most {options.limit:,}")
        limit = body.limit or options.limit
        question = Question(tuple(body.texts), limit, body.at_least, tuple(body.records), body.why)
        answer = await service.match(question)
        if answer.error:
            raise HTTPException(400, answer.error)
        if answer.results is None:
            seen = answer.sequence
            raise NotReady(f"at_least: change {body.at_least:,} is not here yet; the last one here is {seen:,}")
        return Answer.of(answer)

    @api.put("/texts", responses=STORED, dependencies=bearer)
    async def put(body: PutBody) -> PutAnswer:
        """Add known texts or records, or replace those with the same ids. They are on disk before this is answered."""
        name = "texts" if body.texts else "records"
        _limit(options, "texts", [one.text for one in body.texts], ".text")
        _limit(options, "records", [_joined(one.record) for one in body.records])
        ids = [one.id for one in body.texts or body.records]
        _limit(options, name, ids, ".id")
        _require_distinct(ids, f"{name}[{{}}].id")
        texts: list[Put] = [(one.id, one.text) for one in body.texts]
        return PutAnswer(**asdict(await service.put([*texts, *((one.id, one.record) for one in body.records)])))

    @api.delete("/texts", responses=STORED, dependencies=bearer)
    async def delete(body: DeleteBody) -> DeleteAnswer:
        """Remove known texts. It is on disk before this is answered."""
        _limit(options, "ids", body.ids)
        _require_distinct(body.ids, "ids[{}]")
        return DeleteAnswer(**asdict(await service.remove(body.ids)))

    @api.post("/table", responses=STORED, dependencies=bearer)
    async def table() -> TableAnswer:
        """Write all known texts as a table into the store, for jobs.match --into DIR SIDE TABLE --complete."""
        return TableAnswer(**asdict(await service.write_table()))


def _add_state(api: FastAPI, service: Service, metrics: Metrics, bearer: list[Any]) -> None:
    @api.get("/health")
    async def health() -> dict[str, str]:
        """Return that this process answers."""
        return {"status": "ok"}

    @api.get("/ready", responses={503: CODES[503]})
    async def ready() -> dict[str, str]:
        """Return that requests are answered: a model and the known texts are loaded."""
        await service.about()
        return {"status": "ready"}

    @api.get("/model", responses={401: CODES[401], 503: CODES[503]}, dependencies=bearer)
    async def model() -> dict[str, Any]:
        """Return the model, the cutoff, the number of known texts, and how they are searched, with its recall."""
        return (await service.about()).as_dict()

    @api.get("/metrics", responses={401: CODES[401]}, dependencies=bearer)
    async def figures() -> Response:
        """Return counts for Prometheus: of the requests of this process, and of known texts."""
        try:
            about = await service.about()
        except NotReady:
            return Response(metrics.text(), media_type=TEXT_FORMAT)
        metrics.texts.set(about.texts)
        metrics.sequence.set(about.sequence)
        return Response(metrics.text(), media_type=TEXT_FORMAT)


def _limit(options: ServeOptions, name: str, texts: Sequence[str], part: str = "") -> None:
    """Raise 413 for too many texts, or one that is too long."""
    if len(texts) > options.most_texts:
        raise HTTPException(413, f"{name}: has {len(texts):,} entries; send at most {options.most_texts:,} at a time")
    for place, text in enumerate(texts):
        if len(text) > options.most_characters:
            most = f"{options.most_characters:,}"
            raise HTTPException(413, f"{name}[{place}]{part}: has {len(text):,} characters; send at most {most}")


def _joined(record: Mapping[str, Any]) -> str:
    """Return all values of a record, of which the characters are limited together."""
    return " ".join(map(str, record.values()))


def _require_distinct(ids: Sequence[str], name: str) -> None:
    error = repeated(ids, name)
    if error is not None:
        raise HTTPException(400, error)


def _add_errors(api: FastAPI) -> None:
    @api.exception_handler(RequestValidationError)
    async def bad_body(request: Request, error: RequestValidationError) -> Response:
        return error_response(400, describe_errors(error.errors()))

    @api.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        return error_response(error.status_code, str(error.detail))

    @api.exception_handler(BadContent)
    async def bad_content(request: Request, error: BadContent) -> Response:
        return error_response(400, str(error))

    @api.exception_handler(Refused)
    async def not_taken(request: Request, error: Refused) -> Response:
        return error_response(422, str(error))

    @api.exception_handler(NotReady)
    async def not_ready(request: Request, error: NotReady) -> Response:
        return error_response(503, str(error), "Retry-After", RETRY_AFTER)

    @api.exception_handler(NotStored)
    async def not_stored(request: Request, error: NotStored) -> Response:
        return error_response(507, str(error))
