"""Contents of all options of a question."""

from __future__ import annotations

import base64
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any

from ax.core.search_space import SearchSpace

from botorch_pref.ax import Design, Question
from botorch_pref.errors import ExperimentError
from botorch_pref.web.modelling.model_notes import LOGGER
from botorch_pref.web.showing.content import Contents, Media
from botorch_pref.web.showing.contents_of import contents_of
from botorch_pref.web.showing.number_table import NumberTable

Show = Callable[[Design], Any]
"""A user's function, from the parameters of an option to what is shown of it; of a
catalogue, the option has the id of its row as ``id``."""

_KEPT = 128
"""Questions whose contents are kept, so that pictures are not drawn twice."""


class Presenter:
    """Contents of options, by a user's function or as a table of numbers.

    One thread calls the function, for one option after the other: nothing else waits
    for it, and it need not be made for several threads.

    Args:
        space: Ax's search space.
        show: See `contents_of` for what it may return; None for a table.

    Raises:
        ExperimentError: ``show`` cannot be called.
    """

    def __init__(self, space: SearchSpace, show: Show | NumberTable | None) -> None:
        if (
            show is not None
            and not isinstance(show, NumberTable)
            and not callable(show)
        ):
            raise ExperimentError(
                f"show is {show!r}; give a function of the parameters of an option."
            )
        self._space = space
        self._show: Show | NumberTable = NumberTable() if show is None else show
        self._kept: OrderedDict[int, Future[list[Contents]]] = OrderedDict()
        self._lock = Lock()
        # Drawing by pyplot, say, is not for several threads.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="show")

    def prepare(self, question: Question) -> Future[list[Contents]]:
        """Contents of each option, in the making.

        Args:
            question: Of the experiment.
        """
        with self._lock:
            found = self._kept.get(question.index)
            if found is None:
                found = self._thread.submit(self._made, question)
                self._kept[question.index] = found
            self._kept.move_to_end(question.index)
            self._forget()
            return found

    def contents(
        self, question: Question, patience: float | None = None
    ) -> list[Contents] | None:
        """Contents of each option of a question.

        Args:
            question: Of the experiment.
            patience: How many seconds to wait for them; None for as long as it takes.

        Returns:
            The contents; None if they are still in the making.

        Raises:
            ExperimentError: The user's function failed, or returned what cannot be
                shown. The next call tries again.
        """
        made = self.prepare(question)
        try:
            return made.result(patience)
        except TimeoutError:
            return None
        except Exception:
            with self._lock:
                if self._kept.get(question.index) is made:
                    del self._kept[question.index]
            raise

    def close(self) -> None:
        """Draws no more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _forget(self) -> None:
        """Forgets what was not asked for longest, but nothing that is in the making.

        Whoever waits for that would have it drawn anew, over and over.
        """
        made = [index for index, one in self._kept.items() if one.done()]
        for index in made[: max(0, len(self._kept) - _KEPT)]:
            del self._kept[index]

    def _made(self, question: Question) -> list[Contents]:
        if isinstance(self._show, NumberTable):
            return self._show.tables(self._space, question.options)
        made = []
        for option in question.options:
            try:
                made.append(contents_of(self._show(option.copy())))
            # Whatever a user's function raises; what ends a script ends no server.
            except (Exception, SystemExit) as error:
                ours = isinstance(error, ExperimentError)
                reason = f"{error}" if ours else f"{type(error).__name__}: {error}"
                LOGGER.warning("show failed for %s: %s", option, reason)
                raise ExperimentError(
                    "This question cannot be shown. Skip it, and tell whoever runs the "
                    f"experiment the reason: {reason}"
                ) from error
        return made


def data_address(media: Media) -> str:
    """Address that holds the bytes itself.

    Args:
        media: A picture, a sound or a film.
    """
    return f"data:{media.mime};base64,{base64.b64encode(media.bytes).decode()}"
