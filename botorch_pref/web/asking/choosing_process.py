"""Process that chooses questions, so that answers need not wait for a model's fit."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from contextlib import suppress
from typing import IO

from botorch_pref.errors import BotorchPrefError

_LENGTH = 8
"""Bytes that say how long the message is that follows."""


# What Ax notes in passing, from its import on, would be in the terminal of who serves.
_COMMAND = (
    "import logging; logging.disable(logging.WARNING); "
    f"from {__name__} import choose_for_ever; choose_for_ever()"
)


class ChoosingProcess:
    """Process that chooses questions from states of an experiment.

    Starting takes seconds, in which it is not `ready`. It ends with this process,
    however this one ends.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _COMMAND],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # It finds what this process finds.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self._ready = threading.Event()
        self._waiting = threading.Thread(target=self._await, daemon=True)
        self._waiting.start()

    @property
    def ready(self) -> bool:
        """Whether it waits for a state."""
        return self._ready.is_set()

    def choose(self, state: bytes, size: int, rater: str | None) -> bytes:
        """Choice of the next question.

        Args:
            state: See `packed_state`.
            size: How many options to show.
            rater: The name of who is asked.

        Returns:
            See `packed_choice`.

        Raises:
            BotorchPrefError: There is no such question.
            EOFError: The process has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            send(self._process.stdin, pickle.dumps((state, size, rater)))
        except OSError as error:
            raise EOFError("The process that chooses questions has ended.") from error
        found = pickle.loads(receive(self._process.stdout))
        if isinstance(found, BotorchPrefError):
            raise found
        assert isinstance(found, bytes)
        return found

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
        raise EOFError("The process that chooses questions has ended.")
    return message


def choose_for_ever() -> None:
    """Chooses from every state that comes, until no more can come."""
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
            state, size, rater = pickle.loads(receive(sys.stdin.buffer))
            send(replies, pickle.dumps(_choice(state, size, rater)))


def _choice(state: bytes, size: int, rater: str | None) -> bytes | BotorchPrefError:
    """The choice, or why there is none."""
    from botorch_pref.ax.asking_elsewhere import packed_choice

    try:
        return packed_choice(state, size, rater)
    except BotorchPrefError as error:
        return error
