"""Turns of threads, of which one at a time works with Ax."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_TURN = RLock()

if hasattr(os, "register_at_fork"):
    # A child of a thread that waits would wait for ever.
    os.register_at_fork(
        before=_TURN.acquire,
        after_in_parent=_TURN.release,
        after_in_child=_TURN.release,
    )


def one_at_a_time(function: Callable[P, T]) -> Callable[P, T]:
    """A function that threads call in turn, with all others of this kind.

    Seeds of generators, filters of warnings and settings of GPyTorch belong to the
    whole process: two threads that set them at once would ask other questions than
    each of them alone, or break each other.

    Args:
        function: What may call others of this kind.
    """

    @wraps(function)
    def in_turn(*args: P.args, **kwargs: P.kwargs) -> T:
        with _TURN:
            return function(*args, **kwargs)

    return in_turn
