"""Notes of what models warned of, for who runs the experiment."""

from __future__ import annotations

import logging
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any, TypeVar

from botorch_pref.ax.one_at_a_time import one_at_a_time

T = TypeVar("T")

LOGGER = logging.getLogger("botorch_pref.web")
"""Where every warning goes."""

_SHOWN = 20


class ModelNotes:
    """Notes of warnings: each goes to `LOGGER`, and they are counted.

    Threads may use it at once.
    """

    def __init__(self) -> None:
        self._times: Counter[str] = Counter()
        self._lock = Lock()

    def add(self, texts: Iterable[str]) -> None:
        """Notes and logs warnings.

        Args:
            texts: One for each.
        """
        for text in texts:
            LOGGER.warning("%s", text)
            with self._lock:
                self._times[text] += 1

    def to_json(self) -> list[dict[str, Any]]:
        """The most frequent warnings, each a ``text`` and how many ``times``."""
        with self._lock:
            found = self._times.most_common(_SHOWN)
        return [{"text": text, "times": times} for text, times in found]


@one_at_a_time
def run_noted(notes: list[str], job: Callable[[], T]) -> T:
    """The result of a job, whose warnings are noted instead of printed.

    Args:
        notes: To which the texts of warnings are added, also if the job fails.
        job: Fits models, or asks what they say.
    """
    with warnings.catch_warnings(record=True) as caught:
        try:
            return job()
        finally:
            notes += [f"{one.category.__name__}: {one.message}" for one in caught]
