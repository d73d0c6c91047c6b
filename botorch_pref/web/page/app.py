"""ASGI application of an experiment: one page, and what it calls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.errors import BotorchPrefError, ExperimentError
from botorch_pref.web.asking.answer_conflict import AnswerConflictError
from botorch_pref.web.asking.ask_error import AskError
from botorch_pref.web.asking.given_json import given_object, given_patience
from botorch_pref.web.asking.preference_service import (
    CALLS,
    PATIENCE,
    PreferenceService,
)
from botorch_pref.web.page.guard import MAX_BYTES, Guard, refused
from botorch_pref.web.showing.content import Media
from botorch_pref.web.showing.number_table import NumberTable
from botorch_pref.web.showing.presenter import Show
from botorch_pref.web.static_files import PAGE, STATIC

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
