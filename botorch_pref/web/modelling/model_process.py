"""Process that fits models, so that answers need not wait for it."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import IO, Any, ParamSpec, TypeVar

from botorch_pref.errors import BotorchPrefError
from botorch_pref.web.modelling.model_notes import run_noted

P = ParamSpec("P")
T = TypeVar("T")
Notes = list[str]

_LENGTH = 8
"""Bytes that say how long the message is that follows."""


# What Ax notes in passing, from its import on, would be in the terminal of who serves;
# Ctrl-C there is for the process that serves, with which this one ends.
_COMMAND = (
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    "import logging; logging.disable(logging.WARNING); "
    f"from {__name__} import work_for_ever; work_for_ever()"
)


class ModelProcess:
    """Process that fits models, one job after the other.

    Starting takes seconds, in which it is not `ready`. It ends with this process,
    however this one ends. Threads may use it at once.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _COMMAND],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # It finds what this process finds.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self._turn = threading.Lock()
        self._ready = threading.Event()
        self._waiting = threading.Thread(target=self._await, daemon=True)
        self._waiting.start()

    @property
    def ready(self) -> bool:
        """Whether it has started, and not ended in doing so."""
        return self._ready.is_set()

    def started(self) -> bool:
        """Whether it is `ready`, once that is known."""
        self._waiting.join()
        return self.ready

    def run(
        self, notes: list[str], job: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Result of a job, once it is there.

        Args:
            notes: To which what the job warned of is added.
            job: A function of a module that can be imported there.
            args: Of the function.
            kwargs: Of the function.

        Raises:
            BotorchPrefError: Of the job.
            RuntimeError: Anything else that the job raised, with its traceback.
            EOFError: The process has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._turn:
            try:
                send(self._process.stdin, pickle.dumps((job, args, kwargs)))
                reply = receive(self._process.stdout)
            # Closed there, or here by another thread that has found that.
            except (OSError, ValueError) as error:
                raise EOFError("The process that fits models has ended.") from error
        found, failure, noted = pickle.loads(reply)
        notes += noted
        if isinstance(failure, BotorchPrefError):
            raise failure
        if failure is not None:
            raise RuntimeError(failure)
        result: T = found
        return result

    def close(self) -> None:
        """Ends the process, whatever it does."""
        self._process.kill()
        self._waiting.join()
        # What was not read by it any more is lost with it; leaving waits for its end.
        with suppress(BrokenPipeError), self._process:
            pass

    def _await(self) -> None:
        assert self._process.stdout is not None
        try:
            receive(self._process.stdout)
        except EOFError:
            return
        self._ready.set()


def send(stream: IO[bytes], message: bytes) -> None:
    """Writes a message with its length before it.

    Args:
        stream: To another process.
        message: Any bytes.
    """
    stream.write(len(message).to_bytes(_LENGTH, "big") + message)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes:
    """The next message.

    Args:
        stream: Of another process.

    Raises:
        EOFError: The other process has ended.
    """
    head = stream.read(_LENGTH)
    message = stream.read(int.from_bytes(head, "big")) if head else b""
    if not head or len(message) < int.from_bytes(head, "big"):
        raise EOFError("The process that fits models has ended.")
    return message


def work_for_ever() -> None:
    """Does every job that comes, until no more can come."""
    # What libraries print is no message.
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    import torch

    import botorch_pref.ax  # noqa: F401

    torch.set_num_threads(1)
    # Whoever started this may end at any time, and so does this then.
    with suppress(EOFError, BrokenPipeError):
        send(replies, b"")
        while True:
            job, args, kwargs = pickle.loads(receive(sys.stdin.buffer))
            send(replies, pickle.dumps(_done(partial(job, *args, **kwargs))))


def _done(job: Callable[[], Any]) -> tuple[Any, BotorchPrefError | str | None, Notes]:
    """Result of a job, or the reason that there is none, and its warnings."""
    notes: Notes = []
    try:
        return run_noted(notes, job), None, notes
    except BotorchPrefError as error:
        return None, error, notes
    # It goes on with the next one.
    except Exception:
        return None, traceback.format_exc(), notes
