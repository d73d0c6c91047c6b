"""Calls of a page, without a browser."""

import json
from typing import Any

from starlette.testclient import TestClient


def ask(client: TestClient, rater: str | None = None) -> dict[str, Any]:
    given = {} if rater is None else {"rater": rater}
    reply = client.get("/api/question", params=given)
    assert reply.status_code == 200, reply.text
    return reply.json()


def post(client: TestClient, call: str, status: int = 200, **given: Any) -> Any:
    kind = {"Content-Type": "application/json"}
    # Halves of characters too, as a script may send them.
    reply = client.post(f"/api/{call}", content=json.dumps(given), headers=kind)
    assert reply.status_code == status, reply.text
    return reply.json()
