"""Guard before the page: host, token, size, rate, and headers of answers."""

from __future__ import annotations

import hmac
import time
from collections import OrderedDict
from collections.abc import Collection
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
