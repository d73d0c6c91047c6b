"""ASGI application of an experiment: its routes, and the guard before them."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.errors import BotorchPrefError, ExperimentError
from botorch_pref.web.contents import Media, NumberTable, Show
from botorch_pref.web.rendering import AnswerConflictError, AskError
from botorch_pref.web.service import (
    CALLS,
    PATIENCE,
    PreferenceService,
    given_object,
    given_patience,
)

STATIC = Path(__file__).parent / "static"
"""Folder of all of them."""

SCRIPT, STYLE = STATIC / "question.js", STATIC / "question.css"
PAGE = STATIC / "page.html"


MAX_BYTES = 64 * 1024
"""Of the body of a request: an answer has some hundred."""

RATE, BURST = 100.0, 400.0
"""Requests a second of one address, and how many at once."""

_ADDRESSES = 1024
"""Addresses whose rate is known; those that were quiet longest are forgotten."""

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; "
    "style-src 'self'; img-src 'self' data: blob:; media-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """Middleware that lets through what may come, and seals what goes.

    Another site can make a name of its own lead to this machine, and its scripts then
    read what is served here as their own (DNS rebinding). So the header ``Host`` must
    be ``localhost``, an address of IP, which nobody can redirect, or a given name.

    The token is looked for in the address (``?token=``) and in the header
    ``Authorization: Bearer``, and compared in constant time.

    Args:
        app: What is guarded.
        token: What a request needs; None if none does.
        hosts: Names under which browsers may ask for the page.
        public: Beginnings of paths that need no token and are not counted.
    """

    def __init__(
        self, app: ASGIApp, token: str | None, hosts: Collection[str], public: str
    ) -> None:
        self._app = app
        self._token = None if token is None else token.encode()
        self._hosts = {"localhost", *(host.lower().rstrip(".") for host in hosts)}
        self._public = public
        self._allowances: OrderedDict[str, tuple[float, float]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles a request as ASGI has it.

        Args:
            scope: Of the request.
            receive: Its body.
            send: Its answer.
        """
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, sealed)
            return
        await self._app(scope, receive, sealed)

    def _refusal(self, scope: Scope) -> Response | None:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        host = Headers(scope=scope).get("host", "")
        if not self._is_known(host):
            said = (
                f"This page is not served under the name {host[:100]!r}. Open the "
                "address that was printed where it is served, or allow this name there "
                "with --allow-host."
            )
            return _refused(path, 421, said)
        if path.startswith(self._public):
            return None
        if not self._is_allowed(scope):
            return refused(429, "Too many requests; wait a second.")
        if not self._has_token(scope):
            said = (
                "The address has no token, or not that of this experiment; use the one "
                "that was printed where it is served."
            )
            return _refused(path, 403, said)
        length = Headers(scope=scope).get("content-length", "0")
        if not length.isdigit() or int(length) > MAX_BYTES:
            return refused(413, f"A request has at most {MAX_BYTES} bytes.")
        return None

    def _is_known(self, host: str) -> bool:
        """Whether a header ``Host`` names this server."""
        try:
            name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
            return name in self._hosts or bool(ip_address(name))
        # No host at all, or the name of another one.
        except ValueError:
            return False

    def _has_token(self, scope: Scope) -> bool:
        if self._token is None:
            return True
        query = parse_qs(scope["query_string"].decode("latin-1"))
        given = query.get("token", [""])[0]
        scheme, _, bearer = Headers(scope=scope).get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            given = bearer
        return hmac.compare_digest(given.encode(), self._token)

    def _is_allowed(self, scope: Scope) -> bool:
        """Whether an address has not asked too often: a bucket that refills."""
        address = (scope.get("client") or ("",))[0]
        now = time.monotonic()
        left, since = self._allowances.pop(address, (BURST, now))
        left = min(BURST, left + RATE * (now - since))
        allowed = left >= 1.0
        self._allowances[address] = (left - allowed, now)
        if len(self._allowances) > _ADDRESSES:
            self._allowances.popitem(last=False)
        return allowed


def refused(status: int, why: str, **details: Any) -> JSONResponse:
    """Answer that says in JSON what was wrong.

    Args:
        status: Of HTTP.
        why: What was wrong, and what to do.
        details: What a page needs to know beside it.
    """
    return JSONResponse({"error": why, **details}, status)


def _refused(path: str, status: int, why: str) -> Response:
    """A refusal for a script, or for a person who looks at it."""
    api = path.startswith("/api")
    return refused(status, why) if api else PlainTextResponse(why, status)


_PAUSE = 0.1
"""Seconds between looks whether a question is there."""

_READS = ("progress", "history", "form", "findings")
_WRITES = ("answer", "skip", "undo", "own", "claim")


def make_app(
    experiment: PreferenceExperiment,
    *,
    show: Show | NumberTable | None = None,
    token: str | None = None,
    kinds: Collection[str] | None = None,
    size: int = 2,
    hosts: Collection[str] = (),
) -> Starlette:
    """Application that asks people the questions of an experiment.

    ``GET /`` is the page, ``GET /report`` that for who runs the experiment. They call,
    in JSON, ``GET /api/question``, ``/api/progress``, ``/api/history``, ``/api/form``
    and ``/api/findings``, and ``POST /api/answer``, ``/api/skip``, ``/api/undo``,
    ``/api/own`` and ``/api/claim``; see `PreferenceService`. ``rater`` is one parameter
    of each. Errors are ``{"error": ...}``.

    Args:
        experiment: Of the process that serves; the questions that are pending come
            first.
        show: From the parameters of an option to what is shown of it: a text, markup
            (`Markup`), a picture, sound or film (bytes, a `pathlib.Path`, a picture of
            Pillow, a figure of Matplotlib, SVG), or a list of these. `NumberTable` by
            default.
        token: What every request has to bring; None if none is needed, which is for
            applications that are guarded otherwise.
        kinds: Keywords of ``tell`` that are offered; all that the model takes by
            default.
        size: How many options a question shows.
        hosts: Names under which browsers may ask for the page, as that of a server with
            TLS before it; addresses of IP and ``localhost`` always may be used.

    Raises:
        ExperimentError: The model does not take one of the kinds, ``show`` cannot be
            called, or ``hosts`` is no list of names.
    """
    if isinstance(hosts, str):
        raise ExperimentError(f"hosts is {hosts!r}; give a list of names.")
    suffix = "" if token is None else f"?token={quote(token)}"

    def address(index: int, option: int, part: int, media: Media) -> str:
        return f"media/{index}/{option}/{part}{suffix}"

    service = PreferenceService(experiment, address, show=show, kinds=kinds, size=size)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        service.open()
        yield
        service.close()

    calls = [
        Route("/api/question", _question(service)),
        *(Route(f"/api/{name}", _read(service, name)) for name in _READS),
        *(
            Route(f"/api/{name}", _write(service, name), methods=["POST"])
            for name in _WRITES
        ),
    ]
    return Starlette(
        routes=[
            Route("/", _page),
            Route("/report", _page),
            Route("/media/{index:int}/{option:int}/{part:int}", _media(service)),
            Mount("/static", StaticFiles(directory=STATIC)),
            *calls,
        ],
        middleware=[Middleware(Guard, token=token, hosts=hosts, public="/static/")],
        exception_handlers={
            404: _not_found,
            405: _not_found,
            ClientDisconnect: _left,
            Exception: _failed,
        },
        lifespan=lifespan,
    )


def _read(service: PreferenceService, name: str) -> Callable[..., Any]:
    async def read(request: Request) -> Response:
        return await _called(service, name, dict(request.query_params))

    return read


def _question(service: PreferenceService) -> Callable[..., Any]:
    """Waits for a question without a thread: any number of raters may."""

    async def question(request: Request) -> Response:
        given = dict(request.query_params)
        try:
            until = time.monotonic() + given_patience(given, PATIENCE)
        except ExperimentError as error:
            return refused(400, str(error))
        at_once = {**given, "patience": 0}
        while True:
            reply = await _called(service, "question", at_once)
            waiting = reply.status_code == 202
            if not waiting or time.monotonic() >= until:
                return reply
            await asyncio.sleep(_PAUSE)

    return question


def _write(service: PreferenceService, name: str) -> Callable[..., Any]:
    async def write(request: Request) -> Response:
        # A form of another site cannot send this type without asking first.
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        if kind != "application/json":
            return refused(415, "Send JSON, as Content-Type: application/json.")
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BYTES:
                return refused(413, f"A request has at most {MAX_BYTES} bytes.")
        try:
            given = given_object(body)
        except ExperimentError as error:
            return refused(400, str(error))
        return await _called(service, name, given)

    return write


async def _called(
    service: PreferenceService, name: str, given: Mapping[str, Any]
) -> Response:
    try:
        found = await run_in_threadpool(CALLS[name], service, given)
    except AnswerConflictError as error:
        return refused(409, str(error))
    except AskError as error:
        return refused(400, str(error), **error.details)
    except ExperimentError as error:
        return refused(400, str(error))
    except BotorchPrefError as error:
        return refused(503, str(error))
    return JSONResponse(found, 202 if found.get("question", 0) is None else 200)


def _media(service: PreferenceService) -> Callable[..., Any]:
    async def media(request: Request) -> Response:
        where = request.path_params
        try:
            found = await run_in_threadpool(
                service.media, where["index"], where["option"], where["part"]
            )
        except ExperimentError as error:
            return refused(404, str(error))
        if isinstance(found.data, Path):
            if not found.data.is_file():
                return refused(404, f"There is no {found.data.name} any more.")
            return FileResponse(found.data, media_type=found.mime)
        return Response(found.data, media_type=found.mime)

    return media


async def _page(request: Request) -> Response:
    return FileResponse(PAGE)


def _not_found(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    return refused(status, f"There is no {request.method} {request.url.path} here.")


def _left(request: Request, error: Exception) -> Response:
    """Reply that nobody hears: the client left while it was sending."""
    return Response(status_code=400)


def _failed(request: Request, error: Exception) -> Response:
    return refused(
        500,
        "Something failed where this page is served. Whoever runs the experiment finds "
        "the reason in the terminal there.",
    )
