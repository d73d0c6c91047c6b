"""Raters who answer at once on the page of an experiment: nothing lost, and how soon.

Starts ``python -m botorch_pref serve`` on loopback and as many raters as ``--raters``,
each of whom takes a question, answers it and takes the next one, for ``--seconds``; the
server is then killed, and what is stored is compared with what was acknowledged.
Needs the extra ``web``. As a person never does, raters answer without a pause.

    OMP_NUM_THREADS=1 python benchmarks/page_load.py --raters 20 --seconds 60
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

NAME = "load"
PARAMETERS = ("a=0.0:1.0", "b=0.0:1.0", "c=0.0:1.0", "d=0.0:1.0")
Acknowledged = tuple[int, str, int]
"""A question, the rater, and the winner that was stored."""


def main() -> None:
    """Prints answers, and percentiles of how long they and questions took."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--raters", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        storage = Path(folder, "load.db")
        server, address = start(storage)
        end = time.monotonic() + given.seconds
        with ThreadPoolExecutor(given.raters) as threads:
            raters = [
                threads.submit(rate, address, f"rater {i}", end)
                for i in range(given.raters)
            ]
            found = [rater.result() for rater in raters]
        server.kill()
        server.communicate()
        acknowledged = [one for told, _, _ in found for one in told]
        by_model = compare(storage, acknowledged)
    answers = sorted(s for _, seconds, _ in found for s in seconds)
    waits = sorted(s for _, _, seconds in found for s in seconds)
    print(f"{given.raters} raters, {given.seconds:.0f} s: {len(acknowledged)} answers,")
    print(f"all stored, none twice; {by_model} questions chosen by the model")
    for what, seconds in (("answer stored", answers), ("next question", waits)):
        worst = seconds[int(0.95 * len(seconds))]
        median = 1000 * statistics.median(seconds)
        print(f"{what}: median {median:.0f} ms, 95 % within {1000 * worst:.0f} ms")


def start(storage: Path) -> tuple[subprocess.Popen[str], str]:
    """The server, and the address that it prints."""
    command = [sys.executable, "-m", "botorch_pref", "serve", str(storage)]
    options = [f"--parameter={parameter}" for parameter in PARAMETERS]
    server = subprocess.Popen(
        [*command, "--name", NAME, "--port", "0", "--size", "2", *options],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert server.stdout is not None
    for line in server.stdout:
        if line.startswith("questions: "):
            return server, line.split()[1]
    raise SystemExit("the server has not started")


def rate(
    address: str, rater: str, end: float
) -> tuple[list[Acknowledged], list[float], list[float]]:
    """Answers until the end; what was stored, and seconds of answers and questions."""
    parts = urlsplit(address)
    token = parse_qs(parts.query)["token"][0]
    connection = HTTPConnection(str(parts.hostname), parts.port, timeout=60)
    told, answers, waits = [], [], []
    while time.monotonic() < end:
        begun = time.monotonic()
        asked: dict[str, Any] = {"question": None}
        while asked["question"] is None and time.monotonic() < end:
            query = urlencode({"rater": rater, "token": token})
            asked = called(connection, "GET", f"/api/question?{query}", token)
        if asked["question"] is None:
            break
        waits.append(time.monotonic() - begun)
        first, second = (sum(option.values()) for option in asked["options"])
        winner = int(second > first)
        said = {"question": asked["question"], "rater": rater, "winner": winner}
        begun = time.monotonic()
        called(connection, "POST", "/api/answer", token, said)
        answers.append(time.monotonic() - begun)
        told.append((asked["question"], rater, winner))
    return told, answers, waits


def called(
    connection: HTTPConnection, method: str, path: str, token: str, given: Any = None
) -> dict[str, Any]:
    """The reply to a request that must succeed."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    body = None if given is None else json.dumps(given)
    connection.request(method, path, body, headers)
    reply = connection.getresponse()
    found = json.loads(reply.read())
    if reply.status not in (200, 202):
        raise SystemExit(f"{method} {path}: {reply.status} {found}")
    return dict(found)


def compare(storage: Path, acknowledged: list[Acknowledged]) -> int:
    """Checks that what is stored is what was acknowledged.

    Returns:
        How many questions the model chose.
    """
    from botorch_pref.ax import PreferenceExperiment

    log = PreferenceExperiment.resume(NAME, storage=storage).log.events
    told = [
        (event.question, event.what["rater"], event.fields["winner"])
        for event in log
        if event.kind == "told"
    ]
    if sorted(told) != sorted(acknowledged):
        raise SystemExit(f"{len(acknowledged)} acknowledged, but stored: {told}")
    return sum(event.what.get("chosen_by") == "Preference" for event in log)


if __name__ == "__main__":
    main()
