"""Models in a process of their own, so that answers need not wait for them."""

from __future__ import annotations

import logging
import math
import os
import pickle
import subprocess
import sys
import threading
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import IO, Any, ParamSpec, TypeVar

from ax.core.experiment import Experiment
from pandas import DataFrame

from botorch_pref.ax import PreferenceExperiment, Question
from botorch_pref.ax.asking_elsewhere import (
    ask_chosen,
    packed_choice,
    packed_state,
    unpacked_state,
)
from botorch_pref.ax.kept_log import one_at_a_time
from botorch_pref.ax.naming import acquisition_classes, model_classes
from botorch_pref.ax.projection import standing_answers
from botorch_pref.ax.report import preference_report, preferred
from botorch_pref.ax.settings import Settings
from botorch_pref.errors import BotorchPrefError, ExperimentError

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


def findings_of(state: bytes) -> dict[str, Any]:
    """Findings from the state of an experiment, see `experiment_findings`.

    Args:
        state: See `packed_state`.
    """
    return experiment_findings(*unpacked_state(state))


def experiment_findings(experiment: Experiment, settings: Settings) -> dict[str, Any]:
    """Findings of an experiment as JSON.

    Args:
        experiment: Ax's, with one answer at least.
        settings: Of the experiment.

    Returns:
        ``summary``, names and values; ``options``, the rows of the report's table;
        ``parameters``, the names of its columns that are parameters; and ``duels``,
        how often which option was said to be better than which, by name.

    Raises:
        ExperimentError: There is no answer yet.
    """
    report = preference_report(experiment, settings)
    space = experiment.search_space
    return {
        "summary": [
            [str(name), _plain(value)]
            for name, value in report.summary["value"].items()
        ],
        "options": _rows(report.options),
        "parameters": [name for name in space.parameters if name in report.options],
        "duels": duels(experiment),
    }


def _rows(table: DataFrame) -> list[dict[str, Any]]:
    return [
        {"name": str(name)} | {str(k): _plain(v) for k, v in row.items()}
        for name, row in table.to_dict(orient="index").items()
    ]


def _plain(value: Any) -> Any:
    """A value as JSON has it; None for what is no number."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | bool | None) else str(value)


def duels(experiment: Experiment) -> list[dict[str, Any]]:
    """The comparison graph of the answers that stand.

    Args:
        experiment: Ax's.

    Returns:
        For each pair of options that was decided its ``better`` and ``worse``, and for
        each that was not its ``tied`` pair, by name; and how often (``times``).
    """
    decided: Counter[tuple[str, str]] = Counter()
    equal: Counter[tuple[str, str]] = Counter()
    for names, answer in standing_answers(experiment):
        won, tied = preferred(answer, len(names))
        decided.update((names[better], names[worse]) for better, worse in won)
        equal.update((names[first], names[second]) for first, second in tied)
    return [
        *({"better": b, "worse": w, "times": n} for (b, w), n in decided.items()),
        *({"tied": [*pair], "times": n} for pair, n in equal.items()),
    ]


P = ParamSpec("P")

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


_PACKAGE = __name__.partition(".")[0]
_TRIALS = 3
"""Processes that end one after the other, before models are fitted without one."""

_LOST = "The process that fits models has ended, as for want of memory; "
_AGAIN = _LOST + "it is started again."
_WITHOUT = _LOST + (
    f"after {_TRIALS} in a row they are fitted in the process that serves, and answers "
    "may wait for them."
)


class ModelWorker:
    """Worker that fits models, in a process of its own: answers wait for no fit.

    A process that ends, as for want of memory, is started again; where several end one
    after the other, as where none can be started, models are fitted here, and so are
    those of a user's own, which another process does not know. What they warn of is
    noted.

    Threads may use it at once.

    Args:
        experiment: Whose models they are.
        apart: Whether to do so. In a notebook cells run beside it, and warnings are
            theirs as well: all work is done there as if by a cell.
    """

    def __init__(self, experiment: PreferenceExperiment, apart: bool = True) -> None:
        self.experiment = experiment
        self._apart = apart
        self._notes = ModelNotes()
        self._process: ModelProcess | None = None
        self._ended_in_a_row = 0
        self._lock = Lock()
        self._findings_turn = Lock()
        self._found: tuple[str, dict[str, Any]] | None = None
        settings = experiment.settings
        classes = (
            model_classes()[settings.model],
            acquisition_classes()[settings.acquisition],
        )
        modules = [one.__module__.partition(".")[0] for one in classes]
        self._can_move = apart and modules == [_PACKAGE, _PACKAGE]

    @property
    def num_answers(self) -> int:
        """Number of answers that stand."""
        return self.experiment.num_answers

    def start(self) -> ModelProcess | None:
        """Starts the other process if there is none; None if there cannot be one."""
        with self._lock:
            if self._process is None and self._can_move:
                try:
                    self._process = ModelProcess()
                except OSError:
                    self._can_move = False
            return self._process

    def awaited(self) -> bool:
        """Whether the other process is ready, once that is known.

        It is started, and started again, if need be.
        """
        while (process := self.start()) is not None:
            if process.started():
                return True
            self._replace(process)
        return False

    def elsewhere(self, job: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of a job in the other process, which was `awaited`.

        Args:
            job: A function of a module of this package.
            args: Of the function.
            kwargs: Of the function.

        Raises:
            BotorchPrefError: Of the job.
            EOFError: There is no other process, or it has ended.
        """
        process, notes = self._process, list[str]()
        try:
            if process is None:
                raise EOFError("There is no process that fits models.")
            result = process.run(notes, job, *args, **kwargs)
        except EOFError:
            self._replace(process)
            raise
        else:
            self._ended_in_a_row = 0
            return result
        finally:
            self._notes.add(notes)

    def here(self, job: Callable[[], T]) -> T:
        """The result of a job in this process.

        Args:
            job: Fits models, or asks what they say.

        Raises:
            RuntimeError: A user's model would end the process.
        """
        notes: list[str] = []
        try:
            return run_noted(notes, job) if self._apart else job()
        # What ends a script ends no server, and no thread that others wait for.
        except SystemExit as error:
            raise RuntimeError(f"A model has raised SystemExit: {error}") from error
        finally:
            self._notes.add(notes)

    def findings(self) -> dict[str, Any]:
        """Findings from the answers so far, see `experiment_findings`.

        Returns:
            Also ``warnings``: what models warned of since the start, each a ``text``
            and how many ``times``.

        Raises:
            ExperimentError: There is no answer yet.
        """
        # Who asks at the same time gets the same.
        with self._findings_turn:
            now = self.experiment.version
            if self._found is None or self._found[0] != now:
                self._found = (now, self._new_findings())
            return {**self._found[1], "warnings": self._notes.to_json()}

    def _new_findings(self) -> dict[str, Any]:
        while self.num_answers and self.awaited():
            with suppress(EOFError):
                return self.elsewhere(findings_of, packed_state(self.experiment))
        experiment = self.experiment
        return self.here(
            lambda: experiment_findings(experiment.experiment, experiment.settings)
        )

    def _replace(self, process: ModelProcess | None) -> None:
        """Lets the next `start` replace a process that has ended, if there were few.

        Nothing changes for one that was closed, or that another thread has replaced.
        """
        with self._lock:
            if process is None or self._process is not process:
                return
            self._process = None
            self._ended_in_a_row += 1
            self._can_move = self._ended_in_a_row < _TRIALS
            self._notes.add([_AGAIN if self._can_move else _WITHOUT])
        process.close()

    def close(self) -> None:
        """Ends the other process if there is one; further work is done here."""
        with self._lock:
            self._can_move = False
            process, self._process = self._process, None
        if process is not None:
            process.close()


_LEAD = 5
"""Answers before the model chooses at which its process starts, which takes seconds."""


class QuestionSource:
    """Source of questions: the spread's from here, the model's from the worker.

    Args:
        experiment: Whose questions they are.
        worker: Of the experiment.
        size: How many options a question shows.
    """

    def __init__(
        self, experiment: PreferenceExperiment, worker: ModelWorker, size: int
    ) -> None:
        self._experiment = experiment
        self._worker = worker
        self._size = size
        self._closed = False

    def prepare(self, num_raters: int) -> None:
        """Starts the worker's process in time for the first question of the model.

        Args:
            num_raters: How many people answer.
        """
        initial = self._experiment.settings.initial
        if self._worker.num_answers + num_raters + _LEAD >= initial:
            self._worker.start()

    def ask(self, rater: str | None, num_raters: int) -> Question:
        """The next question.

        Args:
            rater: Who is asked.
            num_raters: How many people answer.

        Raises:
            BotorchPrefError: There is none, or it cannot be kept, or the source was
                closed meanwhile.
        """
        self.prepare(num_raters)
        due = self._worker.num_answers >= self._experiment.settings.initial
        # The worker starts a process that has ended again, and gives up after a few.
        while due and self._worker.awaited():
            with suppress(EOFError):
                state = packed_state(self._experiment)
                choice = self._worker.elsewhere(packed_choice, state, self._size, rater)
                return ask_chosen(self._experiment, choice, rater)
        if self._closed:
            raise ExperimentError("No more questions are asked: this is being closed.")
        return self._worker.here(lambda: self._experiment.ask(self._size, rater=rater))

    def close(self) -> None:
        """Ends the worker's process, also for who waits for it now."""
        self._closed = True
        self._worker.close()
