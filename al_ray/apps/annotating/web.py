"""The page as an ASGI application: its addresses, what they show, and what their forms change."""

from collections.abc import Callable
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from al_ray.apps.annotating import views
from al_ray.apps.annotating.access import HEADERS, Access, Visitor, missing, new_csrf, valid_name
from al_ray.apps.annotating.annotator import Annotator
from al_ray.apps.annotating.options import QUESTION
from al_ray.core.errors import AlRayError
from al_ray.core.labels import CODES, NO, UNSURE, YES

STATIC = Path(__file__).parent / "static"
LONGEST_NOTE, LONGEST_REQUEST = 2_000, 80
ANSWERS = {word: code for word, code in CODES.items() if code in (YES, NO, UNSURE)}
Form = dict[str, str]
Show = Callable[[Annotator, Visitor, Request], str | Response]
Change = Callable[[Annotator, Visitor, Form], str]


def make_application(annotator: Annotator, access: Access) -> Starlette:
    """Return the application that has people label the sheets of an annotator."""
    pages: dict[str, Show] = {
        "/": _next,
        "/pair/{code}": _pair,
        "/disputes": lambda annotator, visitor, request: views.disputes_page(
            annotator, visitor.name, **page_values(annotator, visitor)
        ),
        "/progress": lambda annotator, visitor, request: views.progress_page(
            annotator, visitor.name, **page_values(annotator, visitor)
        ),
        "/status": _status,
    }
    forms: dict[str, tuple[Change, tuple[str, ...]]] = {
        "/answer": (_answer, ("pair", "label", "request")),
        "/skip": (_skip, ("pair",)),
        "/undo": (_undo, ("request",)),
        "/settle": (_settle, ("pair", "label", "request")),
        "/retract": (_retract, ("name", "request")),
        "/waive": (_waive, ("request",)),
    }
    if annotator.extra is not None:
        pages, forms = {**pages, **annotator.extra.pages}, {**forms, **annotator.extra.forms}
    routes = [
        *(Route(path, _shown(access, annotator, show)) for path, show in pages.items()),
        *(Route(path, _changed(access, annotator, *form), methods=["POST"]) for path, form in forms.items()),
        Route("/sign-in", _sign_in(access), methods=["GET", "POST"]),
        Route("/sign-out", _sign_out(access), methods=["POST"]),
        Route("/health", lambda request: JSONResponse({"status": "ok"})),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    handlers: Any = {HTTPException: _problem, AlRayError: _problem}
    return Starlette(routes=routes, exception_handlers=handlers)


def page_values(annotator: Annotator, visitor: Visitor) -> dict[str, Any]:
    """Return what every page of a visitor has: further links, and what its forms contain.

    That is proof that this server made them, and an id by which they count once.
    """
    links = () if annotator.extra is None else annotator.extra.links
    return {"csrf": visitor.csrf, "request_id": token_hex(8), "links": links}


def _last(annotator: Annotator, person: str, before: str = "") -> dict[str, Any]:
    last = annotator.last_answer(person, before)
    if last is None:
        return {"last": "", "last_label": None}
    labelling, code = last
    return {"last": code, "last_label": labelling.page.of(code)[person].label}


def _question(annotator: Annotator) -> dict[str, str]:
    return {"question": annotator.options.question or QUESTION}


def _next(annotator: Annotator, visitor: Visitor, request: Request) -> str | Response:
    if annotator.extra is not None and not annotator.labellings:
        return RedirectResponse(annotator.extra.links[0][0], 303)
    values = {**page_values(annotator, visitor), **_last(annotator, visitor.name)}
    found = annotator.next_pair(visitor.name)
    if found is None:
        return views.waiting_page(annotator, visitor.name, **values)
    labelling, code = found
    values |= _question(annotator)
    return views.pair_page(labelling, code, visitor.name, **values)


def _pair(annotator: Annotator, visitor: Visitor, request: Request) -> str:
    code = request.path_params["code"]
    values = {**page_values(annotator, visitor), **_last(annotator, visitor.name, code), **_question(annotator)}
    return views.pair_page(annotator.of(code), code, visitor.name, **values)


def _status(annotator: Annotator, visitor: Visitor, request: Request) -> Response:
    status, found = annotator.status(), annotator.next_pair(visitor.name)
    state = views.waiting_state(annotator, status) if found is None else "pair"
    return JSONResponse({"stage": status.stage, "done": status.done, "total": status.total, "state": state})


def _answer(annotator: Annotator, visitor: Visitor, form: Form) -> str:
    note = form.get("note", "").strip()
    if len(note) > LONGEST_NOTE:
        raise HTTPException(413, f"the note has {len(note):,} characters; write at most {LONGEST_NOTE:,}")
    code = form["pair"]
    annotator.of(code).answer(visitor.name, code, _label(form), note, form["request"])
    return "/"


def _skip(annotator: Annotator, visitor: Visitor, form: Form) -> str:
    annotator.of(form["pair"]).skip(visitor.name, form["pair"])
    return "/"


def _undo(annotator: Annotator, visitor: Visitor, form: Form) -> str:
    if any(one.was_carried_out(form["request"]) for one in annotator.labellings.values()):
        return "/"
    last = annotator.last_answer(visitor.name)
    if last is None:
        raise HTTPException(409, "you have no answer that could be taken back")
    labelling, code = last
    labelling.undo(visitor.name, code, form["request"])
    return f"/pair/{quote(code)}"


def _settle(annotator: Annotator, visitor: Visitor, form: Form) -> str:
    annotator.of(form["pair"]).settle(visitor.name, form["pair"], _label(form), form["request"])
    return "/disputes"


def _retract(annotator: Annotator, visitor: Visitor, form: Form) -> str:
    for labelling in annotator.labellings.values():
        labelling.retract(visitor.name, form["name"], form["request"])
    return "/progress"


def _waive(annotator: Annotator, visitor: Visitor, form: Form) -> str:
    for labelling in annotator.open:
        labelling.waive_second(visitor.name, form["request"])
    return "/"


def _label(form: Form) -> int:
    if form["label"] not in ANSWERS:
        raise HTTPException(400, f"the label is {form['label'][:40]!r}, not yes, no or unsure")
    return ANSWERS[form["label"]]


def _shown(access: Access, annotator: Annotator, show: Show) -> Any:
    """Return the endpoint of a page, for visitors who have signed in."""

    def work(visitor: Visitor, request: Request) -> str | Response:
        with annotator.locked():
            return show(annotator, visitor, request)

    async def endpoint(request: Request) -> Response:
        visitor = access.visitor(request)
        if not visitor.name or not visitor.csrf:
            return _plain(RedirectResponse("/sign-in", 303))
        found = await run_in_threadpool(work, visitor, request)
        return _plain(found if isinstance(found, Response) else HTMLResponse(found))

    return endpoint


def _changed(access: Access, annotator: Annotator, change: Change, fields: tuple[str, ...]) -> Any:
    """Return the endpoint of a form with these fields, for visitors who have signed in."""

    def work(visitor: Visitor, form: Form) -> str:
        with annotator.locked():
            return change(annotator, visitor, form)

    async def endpoint(request: Request) -> Response:
        visitor = access.visitor(request)
        if not visitor.name:
            raise HTTPException(401, "you are not signed in; sign in, and answer again")
        form = await access.form(request, visitor)
        lacking = missing(form, fields)
        if lacking is not None or not 0 < len(form.get("request", "-")) <= LONGEST_REQUEST:
            raise HTTPException(400, f"the form lacks {lacking or 'a valid request'}")
        return _plain(RedirectResponse(await run_in_threadpool(work, visitor, form), 303))

    return endpoint


def _sign_in(access: Access) -> Any:
    async def endpoint(request: Request) -> Response:
        visitor, error, name = access.visitor(request), "", ""
        if request.method == "POST":
            form = await access.form(request, visitor)
            name = form.get("name", "")[:200]
            if not valid_name(name):
                error = "Give a name of at most 60 printable characters."
            elif not access.may_enter(form.get("token", "")):
                error = "This is not the token of this server. Whoever started the server has it."
            else:
                response = RedirectResponse("/", 303)
                access.sign_in(response, valid_name(name))
                return _plain(response)
        visitor = Visitor("", visitor.csrf or new_csrf())
        values = {"error": error, "name": name, "needs_token": access.pass_digest is not None}
        page = views.render("sign_in", person="", csrf=visitor.csrf, **values)
        response = HTMLResponse(page, 403 if error else 200)
        access.add_csrf(response, visitor)
        return _plain(response)

    return endpoint


def _sign_out(access: Access) -> Any:
    async def endpoint(request: Request) -> Response:
        await access.form(request, access.visitor(request))
        response = RedirectResponse("/sign-in", 303)
        access.sign_out(response)
        return _plain(response)

    return endpoint


async def _problem(request: Request, error: Exception) -> Response:
    """Answer a request that was refused: with its code, or 409 for what the user can fix."""
    code, words = (error.status_code, str(error.detail)) if isinstance(error, HTTPException) else (409, str(error))
    return _plain(HTMLResponse(views.render("problem", person="", csrf="", error=words), code))


def _plain(response: Response) -> Response:
    response.headers.update(HEADERS)
    return response
