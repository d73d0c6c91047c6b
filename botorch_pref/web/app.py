"""ASGI application of an experiment: its routes, and the guard before them."""

from __future__ import annotations

import asyncio
import hmac
import re
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qs, quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    Response,
)
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.errors import BotorchPrefError, ExperimentError
from botorch_pref.web.call_arguments import json_object, patience_seconds, status_of
from botorch_pref.web.description import describe
from botorch_pref.web.media import Media
from botorch_pref.web.rendering import NumberTable, Show
from botorch_pref.web.service import READS, WRITES, PreferenceService
from botorch_pref.web.texts import STATIC, PageTexts, page_html

MAX_BYTES = 64 * 1024
"""Most bytes of the body of a request: an answer has some hundred."""

BODY_SECONDS = 10.0
"""Seconds in which a body has to come: one that stalls is not waited for."""

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

_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([0-9a-z._-]+))(?::[0-9]{1,5})?", re.I | re.A)
"""A header ``Host``: an address of IPv6 in brackets, or a name, and perhaps a port."""

_TOKEN = re.compile("[!-~]([ -~]*[!-~])?")
"""Values that a header brings whole: signs of ASCII, with blanks between them."""


class Guard:
    """Middleware that refuses what may not come, and seals every reply.

    Another site can make a name of its own lead to this machine, and its scripts then
    read what is served here as their own (DNS rebinding). So the header ``Host`` must
    be ``localhost``, an address of IP, which nobody can redirect, or a given name.
    (Starlette's ``TrustedHostMiddleware`` knows names alone.)

    The token is looked for in the address (``?token=``) and in the header
    ``Authorization: Bearer``, and compared in constant time. Paths that begin with
    ``public`` need none, and are not counted.
    """

    def __init__(
        self, app: ASGIApp, token: str | None, hosts: Collection[str], public: str
    ) -> None:
        """Takes the application that is guarded, and what requests have to bring.

        Paths that begin with ``public`` need no token.
        """
        self._app = app
        self._token = None if token is None else token.encode()
        self._hosts = {"localhost", *(host.lower().rstrip(".") for host in hosts)}
        self._public = public
        # By address: how many requests it might make, and when that was counted.
        self._allowances: OrderedDict[str, tuple[float, float]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles a request as ASGI has it: refuses it, or passes it on.

        Every reply gets the headers that browsers obey.
        """
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        await (self._refusal(scope) or self._app)(scope, receive, sealed)

    def _refusal(self, scope: Scope) -> Response | None:
        """Returns the reply that refuses a request; None where it may come.

        Refused are a wrong host, too many requests, and a wrong token, in this order.
        """
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        headers = Headers(scope=scope)
        host = ", ".join(headers.getlist("host"))
        if not self._is_known(host):
            reason = (
                f"This page is not served under the name {host[:100]!r}. Open the "
                "address that was printed where it is served, or allow this name there "
                "with --allow-host."
            )
            return _refusal_response(path, 421, reason)
        if path.startswith(self._public):
            return None
        # Before the token, so that nobody can try many of them.
        if not self._is_allowed(scope):
            return _refusal_response(path, 429, "Too many requests; wait a second.")
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            query = parse_qs(scope["query_string"].decode("latin-1"))
            bearer = query.get("token", [""])[0]
        # Without a token of its own, whatever a request brings is right.
        token = bearer.encode() if self._token is None else self._token
        if not hmac.compare_digest(bearer.encode(), token):
            reason = (
                "The address has no token, or not that of this experiment; use the one "
                "that was printed where it is served."
            )
            return _refusal_response(path, 403, reason)
        return None

    def _is_known(self, host: str) -> bool:
        """Tells whether a header ``Host`` names this server."""
        match = _HOST.fullmatch(host)
        if match is None:
            return False
        address, name = match[1], (match[2] or "").lower().removesuffix(".")
        if name in self._hosts:
            return True
        try:
            return bool(ip_address(address or name))
        except ValueError:
            return False

    def _is_allowed(self, scope: Scope) -> bool:
        """Tells whether an address has not asked too often: a bucket that refills.

        It holds `BURST` requests, and gets `RATE` more a second.
        """
        address = (scope.get("client") or ("",))[0]
        now = time.monotonic()
        # Taken out and put in again: the first entry is the one quiet longest.
        allowance, since = self._allowances.pop(address, (BURST, now))
        allowance = min(BURST, allowance + RATE * (now - since))
        allowed = allowance >= 1.0
        self._allowances[address] = (allowance - allowed, now)
        if len(self._allowances) > _ADDRESSES:
            self._allowances.popitem(last=False)
        return allowed


def _refusal_response(path: str, status: int, reason: str) -> Response:
    """Returns a refusal for a script, or for a person who looks at it."""
    if path.startswith("/api"):
        return JSONResponse({"error": reason}, status)
    return PlainTextResponse(reason, status)


_PAUSE = 0.1
"""Seconds between looks whether a question is there."""


def make_app(
    experiment: PreferenceExperiment,
    *,
    show: Show | NumberTable | None = None,
    token: str | None = None,
    kinds: Collection[str] | None = None,
    size: int | None = None,
    plane: bool = False,
    hosts: Collection[str] = (),
    title: str | None = None,
    question: str | None = None,
    introduction: str | None = None,
    language: str | Mapping[str, str] = "en",
) -> Starlette:
    """Makes an application that asks people the questions of an experiment.

    ``GET /`` is the page, ``GET /report`` that for who runs the experiment. They call
    ``GET`` and ``POST`` of ``/api/...`` in JSON; ``docs/calls.md`` says what each call
    sends and gets, and ``GET /openapi.json`` describes them to programs. Errors are
    ``{"error": ...}``.

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
            default. With ``position``, questions are about lines, with a slider.
        size: How many options a question shows. By default
            `PreferenceExperiment.default_size`, or 2 where ``kinds`` has neither
            ``best`` nor ``ranking``.
        plane: Whether questions are galleries: nine designs, or ``size=25``, in rows,
            in which two parameters move.
        hosts: Names under which browsers may ask for the page, as that of a server with
            TLS before it; addresses of IP and ``localhost`` always may be used.
        title: Of the page, in place of the experiment's name.
        question: What is asked of the options, such as "Which tastes better?".
        introduction: A text above the question until somebody has answered one.
        language: Of the page: ``"en"``, ``"de"``, or a table of all of its texts, with
            ``lang`` and ``dir``. ``/report`` is in English.

    Raises:
        ExperimentError: The model does not take one of the kinds, ``size`` is less than
            two, ``show`` cannot be called or has a unit of no parameter, ``hosts`` is
            no list of names, ``token`` no text that every request can bring,
            ``title``, ``question`` or ``introduction`` no text, or ``language`` none
            that is there and no whole table.
    """
    _check_guard(token, hosts)
    suffix = "" if token is None else f"?token={quote(token)}"

    def address(index: int, option: int, part: int, medium: Media) -> str:
        return f"media/{index}/{option}/{part}{suffix}"

    texts = PageTexts(title, question, introduction, language)
    service = PreferenceService(
        experiment,
        address,
        show=show,
        kinds=kinds,
        size=size,
        plane=plane,
        texts=texts,
    )

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        service.open()
        yield
        service.close()

    app = Starlette(
        routes=_routes(service, texts),
        middleware=[Middleware(Guard, token=token, hosts=hosts, public="/static/")],
        exception_handlers=dict.fromkeys(
            (BotorchPrefError, HTTPException, ClientDisconnect, Exception),
            _error_response,
        ),
        lifespan=lifespan,
    )
    app.state.title = title or service.name
    return app


def _check_guard(token: object, hosts: Any) -> None:
    """Checks the user's token and names of hosts, by which `Guard` lets requests in."""
    listed = isinstance(hosts, Collection) and not isinstance(hosts, str)
    if not listed or not all(isinstance(host, str) for host in hosts):
        raise ExperimentError(f"hosts is {hosts!r}; give a list of names.")
    has_token = isinstance(token, str) and _TOKEN.fullmatch(token) is not None
    if token is not None and not has_token:
        raise ExperimentError(
            "token is empty or has characters that requests do not carry; give a long "
            "secret of letters, digits and signs of ASCII, or None where the "
            "application is guarded otherwise."
        )


def _routes(service: PreferenceService, texts: PageTexts) -> list[BaseRoute]:
    """Lists the addresses of an application and what answers at each."""
    media = "/media/{index:int}/{option:int}/{part:int}"
    calls = {"GET": READS, "POST": WRITES}
    return [
        Route("/", partial(_page, page_html(texts.table))),
        Route("/report", partial(_page, page_html(PageTexts().table))),
        Route(media, partial(_media, service)),
        Mount("/static", StaticFiles(directory=STATIC)),
        Route("/openapi.json", describe, include_in_schema=False),
        *(
            Route(f"/api/{name}", _endpoint(service, name), methods=[method])
            for method, names in calls.items()
            for name in names
        ),
    ]


async def _page(page: str, request: Request) -> Response:
    return HTMLResponse(page)


def _endpoint(
    service: PreferenceService, name: str
) -> Callable[[Request], Awaitable[Response]]:
    """Returns the function of a call's route.

    Its attribute ``call`` is the name by which the OpenAPI description finds the call.
    """

    async def endpoint(request: Request) -> Response:
        return await _call(service, name, request)

    endpoint.call = name  # type: ignore[attr-defined]
    return endpoint


async def _call(service: PreferenceService, name: str, request: Request) -> Response:
    """Answers a call with what the service's method of its name returns.

    The status is 202 while a question is being chosen. A call for a question looks
    again and again, without a thread meanwhile, so that any number of them may wait.
    """
    arguments: dict[str, Any] = dict(request.query_params)
    if name in WRITES:
        arguments = json_object(await _body(request))
    until = 0.0
    if name == "question":
        until = time.monotonic() + patience_seconds(arguments)
        arguments["patience"] = 0
    while True:
        reply = await run_in_threadpool(getattr(service, name), arguments)
        # Replies without the key are of other calls, and need no waiting.
        is_there = reply.get("question", 0) is not None
        if is_there or time.monotonic() >= until or await request.is_disconnected():
            return JSONResponse(reply, 200 if is_there else 202)
        await asyncio.sleep(_PAUSE)


async def _body(request: Request) -> bytearray:
    """Reads the JSON of a request, of which size and time are limited."""
    # A form of another site cannot send this type without asking first.
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind != "application/json":
        raise HTTPException(415, "Send JSON, as Content-Type: application/json.")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BYTES:
                    raise HTTPException(
                        413, f"A request has at most {MAX_BYTES} bytes."
                    )
    except TimeoutError as error:
        reason = (
            f"The body did not come within {BODY_SECONDS:g} seconds; send it again."
        )
        raise HTTPException(408, reason, {"Connection": "close"}) from error
    return body


async def _media(service: PreferenceService, request: Request) -> Response:
    """Answers a request for a picture, a sound or a film of an option."""
    try:
        medium = await run_in_threadpool(service.media, **request.path_params)
    except ExperimentError as error:
        raise HTTPException(404, str(error)) from error
    if isinstance(medium.data, bytes):
        return Response(medium.data, media_type=medium.mime)
    if not medium.data.is_file():
        raise HTTPException(404, f"There is no {medium.data.name} any more.")
    return FileResponse(medium.data, media_type=medium.mime)


def _error_response(request: Request, error: Exception) -> Response:
    """Returns the reply to a call that failed."""
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)
    if isinstance(error, ClientDisconnect):
        # Nobody gets it: the client left while it was sending.
        return Response(status_code=400)
    if isinstance(error, BotorchPrefError):
        details = getattr(error, "details", {})
        # A script may send halves of characters, which no reply can hold.
        message = str(error).encode(errors="replace").decode()
        return JSONResponse({"error": message, **details}, status_of(error))
    message = (
        "Something failed where this page is served. Whoever runs the experiment finds "
        "the reason in the terminal there."
    )
    return JSONResponse({"error": message}, 500)
