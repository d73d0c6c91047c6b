"""A page without a browser: its calls, and the experiment behind them."""

import json
from typing import Any

from starlette.testclient import TestClient
from tea import log

from botorch_pref.ax import PreferenceExperiment

KIND = {"Content-Type": "application/json"}


class Page:
    """Somebody's page.

    Args:
        client: Of the application.
        experiment: Whose questions it asks.
    """

    def __init__(self, client: TestClient, experiment: PreferenceExperiment) -> None:
        self.client = client
        self.experiment = experiment

    def get(self, call: str, status: int = 200, **arguments: Any) -> Any:
        reply = self.client.get(f"/api/{call}", params=arguments)
        assert reply.status_code == status, reply.text
        return reply.json()

    def post(self, call: str, status: int = 200, **arguments: Any) -> Any:
        # Halves of characters too, as a script may send them.
        return self.send(call, json.dumps(arguments), status)

    def send(self, call: str, body: Any, status: int) -> Any:
        """Posts a body as it is."""
        reply = self.client.post(f"/api/{call}", content=body, headers=KIND)
        assert reply.status_code == status, reply.text
        return reply.json()

    def ask(self, rater: str | None = None) -> dict[str, Any]:
        """Gets the question that a rater is asked, however busy the machine is."""
        keywords = {} if rater is None else {"rater": rater}
        tries = (self.client.get("/api/question", params=keywords) for _ in range(20))
        reply = next(
            (reply_ready for reply_ready in tries if reply_ready.status_code != 202),
            None,
        )
        assert reply is not None, "no question came"
        assert reply.status_code == 200, reply.text
        return reply.json()

    def answer(self, rater: str | None = None, **answer: Any) -> int:
        """Answers the question on display, and returns its number."""
        index = self.ask(rater)["question"]
        self.post("answer", question=index, rater=rater, **(answer or {"winner": 0}))
        return index

    @property
    def log(self) -> list[tuple[str, int, dict[str, Any]]]:
        return log(self.experiment)

    @property
    def happened(self) -> list[str]:
        """The kinds of what happened, in order."""
        return [kind for kind, *_ in self.log]
