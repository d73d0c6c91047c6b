"""Models in a process of their own, so that answers need not wait for them."""

from __future__ import annotations

import logging
import math
import os
import pickle
import subprocess
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any, TypeVar

from ax.core.parameter import Parameter
from pandas import DataFrame

from botorch_pref.asking.request import QuestionKind
from botorch_pref.ax import PreferenceExperiment, Question
from botorch_pref.ax.answer_kinds import preferred
from botorch_pref.ax.answer_table import parameter_columns
from botorch_pref.ax.events import Chosen
from botorch_pref.ax.findings import (
    DECIMALS,
    OPTION_COLUMNS,
    RATERS_LEGEND,
    distinct_options,
    effect_caption,
    effects_legend,
    options_legend,
    printed_options,
    printed_raters,
    printed_summary,
    representatives,
    unit_of_differences,
)
from botorch_pref.ax.generation.question_choice import chosen_questions
from botorch_pref.ax.line_choice import answers_before, chosen_of_kind
from botorch_pref.ax.log import Log
from botorch_pref.ax.naming import duel_classes, model_classes
from botorch_pref.ax.number_texts import cell_text, interval_text, value_text
from botorch_pref.ax.projection import Projection
from botorch_pref.ax.report import Report, preference_report
from botorch_pref.ax.report_page import FIGURES_LEGEND
from botorch_pref.ax.space.context import NO_CONTEXT, Context
from botorch_pref.ax.space.options import number_range
from botorch_pref.ax.stored_log import one_at_a_time
from botorch_pref.errors import BotorchPrefError, ExperimentError
from botorch_pref.threads import one_thread

T = TypeVar("T")
JSON = dict[str, Any]

LOGGER = logging.getLogger("botorch_pref.web")
"""Log of every warning of a model."""


# --- Findings


def findings_of(state: bytes, context: Context | None = None) -> JSON:
    """Reports on an experiment as JSON, for the page of findings.

    ``state`` is of `packed_state`, with one answer at least that compares or judges
    options. None of ``context`` is that of the latest answer. `docs/calls.md` describes
    the report, and `static/question.js` shows it by these names.
    """
    projection: Projection = pickle.loads(state)
    log = projection.log
    context = log.last_context if context is None else context
    report = preference_report(projection, context)
    parameters = log.space.parameters
    options = distinct_options(report.options)
    stands_for = representatives(report.options).to_dict()
    # The largest mean comes first; NaN is where no answer judges or compares an option.
    best = options.index[options["best"].notna()][0]
    # The name of the best judged option, and where it was first shown.
    recommended = next(
        {"name": str(best), "question": question.index, "place": place}
        for question in log.questions
        for place, title in enumerate(log.titles_of(question))
        if title == best
    )
    return {
        "summary": [[str(k), _plain(v)] for k, v in report.summary["value"].items()],
        "meanings": dict(report.summary["meaning"]),
        "options": [
            {"name": str(name)} | {str(k): _plain(v) for k, v in row.items()}
            for name, row in options.round(DECIMALS).to_dict(orient="index").items()
        ],
        "context": dict(context),
        "reference": report.reference,
        "recommended": recommended,
        "advice": report.advice,
        "effects": _effect_curves(report.effects, parameters),
        "parameters": [*parameter_columns(parameters, OPTION_COLUMNS).values()],
        # The options of each answered question, which has a number from 1.
        "asked": [
            {"question": question.index + 1, "options": names}
            for question in log.questions
            if question.standing is not None
            # The table has no options that constraints forbid in the context.
            and (names := [*filter(None, map(stands_for.get, log.titles_of(question)))])
        ],
        "duels": _duels(log, stands_for),
        "raters": _records(report.raters, "rater"),
        "rater_sentences": report.rater_sentences,
        "agreement": _agreements(report.agreement),
        "tables": _tables(report),
        "legends": _legends(report),
    }


def _tables(report: Report) -> JSON:
    """Returns the tables of a report as texts, which are those of its print."""
    tables = {
        "options": printed_options(report.options, report.reference),
        "summary": printed_summary(report.summary),
    }
    if report.raters is not None:
        tables["raters"] = printed_raters(report.raters)
    return {
        name: {
            "columns": [str(column) for column in table.columns],
            "rows": [
                [str(row), *map(cell_text, values)]
                for row, values in zip(
                    table.index, table.to_numpy(dtype=object), strict=True
                )
            ],
        }
        for name, table in tables.items()
    }


def _legends(report: Report) -> JSON:
    """Returns what explains each table and figure of a report, where it has one."""
    unit = unit_of_differences(report.summary["value"])
    legends = {"options": options_legend(report.options, report.reference, unit)}
    if report.effects is not None:
        legends["effects"] = f"{effects_legend(report.effects, unit)} {FIGURES_LEGEND}"
    if report.raters is not None:
        legends["raters"] = RATERS_LEGEND
    return legends


def _agreements(agreement: DataFrame | None) -> list[JSON]:
    """Lists how far each two raters agree, with its interval as a text, too."""
    return [
        {**pair, "text": interval_text(*row)}
        for pair, row in zip(
            _records(agreement),
            () if agreement is None else agreement.itertuples(index=False),
            strict=True,
        )
    ]


def _effect_curves(
    effects: DataFrame | None, parameters: Mapping[str, Parameter]
) -> list[JSON]:
    """Lists the effect of each parameter at its values; none without a table."""
    if effects is None:
        return []
    return [
        {
            "parameter": name,
            "is_choice": number_range(parameters[name]) is None,
            "log": getattr(parameters[name], "log_scale", False),
            "caption": effect_caption(table),
            "rows": [
                {**row, "text": str(value_text(row["value"]))}
                for row in _records(table[["value", "change", "lower", "upper"]])
            ],
        }
        for name, table in effects.groupby("parameter", sort=False)
    ]


def _records(table: DataFrame | None, name: str | None = None) -> list[JSON]:
    """Lists the rows of a table, with its index as a column; none without a table.

    The column has the ``name``, or else that of the index, or is called "index".
    """
    if table is None:
        return []
    rows = table.reset_index(names=name).to_dict(orient="records")
    return [{str(k): _plain(v) for k, v in row.items()} for row in rows]


def _plain(value: Any) -> Any:
    """Returns a value as JSON has it; None for a number that is not finite."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | bool | None) else str(value)


def _duels(log: Log, stands_for: Mapping[str, str]) -> list[JSON]:
    """Counts how often each pair was decided (``better``, ``worse``), or tied.

    Options that nobody could tell apart are one, by the name that ``stands_for`` has;
    it has none of options that the table leaves out.
    """
    decided: Counter[tuple[str, str]] = Counter()
    equal: Counter[tuple[str, ...]] = Counter()
    # In the order of the questions.
    for question in log.questions:
        if question.standing is not None:
            titles = [stands_for.get(title, "") for title in log.titles_of(question)]
            won, tied = preferred(question.standing.fields, len(titles))
            decided.update((titles[better], titles[worse]) for better, worse in won)
            # A tie has no first one.
            equal.update(tuple(sorted((titles[i], titles[j]))) for i, j in tied)
    return [
        *(
            {"better": better, "worse": worse, "times": times}
            for (better, worse), times in decided.items()
            if better != worse and better and worse
        ),
        *(
            {"tied": [*pair], "times": times}
            for pair, times in equal.items()
            if len({*pair}) > 1 and all(pair)
        ),
    ]


# --- Questions that another process chooses


@one_at_a_time
def packed_state(experiment: PreferenceExperiment) -> bytes:
    """Returns the log and Ax's experiment, from which another process can choose."""
    return pickle.dumps(experiment._stored.projection)


def packed_choices(
    state: bytes, size: int, raters: Sequence[str | None], context: Context
) -> bytes:
    """Chooses the next questions of raters in the process of models, and packs them.

    ``state`` is of `packed_state`, and `ask_chosen` asks them where the log is. Of one
    rater the choice is that of ``ask`` in the same state.
    """
    return pickle.dumps(chosen_questions(pickle.loads(state), size, raters, context))


def packed_choice(
    state: bytes,
    kind: QuestionKind,
    size: int,
    rater: str | None,
    context: Context,
) -> bytes:
    """Chooses the next question of a kind, and packs it as `packed_choices` does."""
    chosen = chosen_of_kind(pickle.loads(state), kind, size, rater, context)
    return pickle.dumps([chosen])


@one_at_a_time
def ask_chosen(
    experiment: PreferenceExperiment, choices: bytes, raters: Sequence[str | None]
) -> list[Question]:
    """Asks questions that another process has chosen, and packed."""
    chosen: list[Chosen] = pickle.loads(choices)

    def ask_all(log: Log) -> None:
        # There may be fewer questions than raters: the first ones are asked.
        for choice, rater in zip(chosen, raters, strict=False):
            log.ask(choice, rater)

    return experiment._add(ask_all)


# --- The process

# Ax logs messages from its import on, which would appear in the terminal of the server,
# and so would a warning of linear_operator's import, from torch 2.14 on.
# Ctrl-C there goes to the server, and this process ends with it.
_COMMAND = (
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    "import logging; logging.disable(logging.WARNING); "
    "import warnings; "
    "warnings.filterwarnings('ignore', '`torch.jit.script` is deprecated'); "
    f"from {__name__} import work_for_ever; work_for_ever()"
)


class ModelProcess:
    """Process that does one job after the other. Threads may use it at once.

    Starting takes seconds. The process ends with this one, however this one ends.
    `concurrent.futures` and `multiprocessing` would run a user's script once more
    there, leave the process behind where this one is killed, and (before Python 3.14)
    not end a job that is under way.
    """

    def __init__(self) -> None:
        """Starts the process; its first job waits until the package is imported."""
        self._process = subprocess.Popen(
            [sys.executable, "-c", _COMMAND],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # It imports from where this process does.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self._turn = Lock()

    def run(self, notes: list[str], job: Callable[..., T], *args: Any) -> T:
        """Runs a function that can be imported there, and returns its result.

        The texts of its warnings are added to ``notes``. Raises `BotorchPrefError` as
        the job does, `RuntimeError` with the traceback for any other error, and
        `EOFError` if the process has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        message = pickle.dumps((job, args))
        # A job and its reply belong together.
        with self._turn:
            try:
                self._process.stdin.write(message)
                self._process.stdin.flush()
                result, failure, noted = pickle.load(self._process.stdout)
            # It ended before the job, during it, or was closed by another thread.
            except (EOFError, OSError, ValueError, pickle.UnpicklingError) as error:
                raise EOFError("The process that fits models has ended.") from error
        notes += noted
        if isinstance(failure, BotorchPrefError):
            raise failure
        if failure is not None:
            raise RuntimeError(failure)
        value: T = result
        return value

    def close(self) -> None:
        """Ends the process at once."""
        self._process.kill()
        # A job that it has not read is lost; the `with` waits for its end.
        with suppress(BrokenPipeError), self._process:
            pass


def work_for_ever() -> None:
    """Does jobs, in the other process, from its standard input until this is closed.

    Replies go to the standard output, one for each job.
    """
    # What libraries print must not mix with the replies.
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # The process that started this one may end at any time, and so does this one then.
    with suppress(EOFError, BrokenPipeError), one_thread():
        while True:
            job, args = pickle.load(sys.stdin.buffer)
            replies.write(pickle.dumps(_run_job(job, args)))
            replies.flush()


def _run_job(
    job: Callable[..., Any], args: tuple[Any, ...]
) -> tuple[Any, BotorchPrefError | str | None, list[str]]:
    """Returns the result of a job, or why there is none, and its warnings."""
    notes: list[str] = []
    try:
        return run_noted(notes, lambda: job(*args)), None, notes
    except BotorchPrefError as error:
        return None, error, notes
    # It goes on with the next job.
    except Exception:
        return None, traceback.format_exc(), notes


@one_at_a_time
def run_noted(notes: list[str], job: Callable[[], T]) -> T:
    """Runs a job, whose warnings are added to the notes instead of printed.

    Other jobs that are `one_at_a_time` wait: filters of warnings are the process's.
    """
    with warnings.catch_warnings(record=True) as caught:
        try:
            return job()
        finally:
            notes += [
                f"{warning.category.__name__}: {warning.message}" for warning in caught
            ]


# --- The worker

_PACKAGE = __name__.partition(".")[0]
_NUM_WARNINGS, _LEAD, _TRIALS = 20, 5, 3
"""Warnings that are among the findings, the most frequent ones; answers before the
model chooses at which its process starts, which takes seconds; and processes that end
one after the other before models are fitted without one."""

_ENDED = "The process that fits models has ended, as for want of memory; "
_RESTARTED = _ENDED + "it is started again."
_GIVEN_UP = _ENDED + (
    f"after {_TRIALS} in a row they are fitted in the process that serves, and answers "
    "may wait for them."
)


class ModelWorker:
    """Chooses questions and finds what answers say, in a process of its own.

    A process that ends, as for want of memory, is started again; where several end one
    after the other, as where none can be started, models are fitted here, and so are
    those of a user's own, which another process does not know. Threads may use it.

    Without ``separate_process`` there is no other process: beside a notebook's cells
    all work is done as if by a cell, and warnings are theirs as well.
    """

    def __init__(
        self,
        experiment: PreferenceExperiment,
        size: int,
        separate_process: bool = True,
        kind: QuestionKind = "options",
    ) -> None:
        """Finds out whether another process can do the work; none starts yet."""
        self.experiment, self._size = experiment, size
        self._is_separate = separate_process
        self._kind: QuestionKind = kind
        self._notes: Counter[str] = Counter()
        self._process: ModelProcess | None = None
        self._ended_in_a_row, self._closed = 0, False
        self._lock, self._findings_turn = Lock(), Lock()
        self._findings: tuple[str, JSON] | None = None
        settings = experiment.settings
        self.initial = answers_before(settings, kind)
        model = model_classes()[settings.model]
        acquisition = duel_classes()[settings.acquisition_of(size)]
        # The other process may not be able to import classes of a user's own.
        modules = [part.__module__.partition(".")[0] for part in (model, acquisition)]
        self._can_move = separate_process and modules == [_PACKAGE, _PACKAGE]

    def prepare(self, num_raters: int) -> None:
        """Starts the process if the model may choose a few answers from now.

        Starting takes seconds, and each of so many raters may answer meanwhile.
        """
        answers = self.experiment.num_answers
        if answers + num_raters + _LEAD >= self.initial:
            self.start()

    def ask(
        self,
        raters: Sequence[str | None],
        num_raters: int,
        context: Context = NO_CONTEXT,
    ) -> list[Question]:
        """Asks questions of raters who need one, of the first of them at least.

        All are in one context. The model's questions come from the other process, which
        is started again if it ended. One question is chosen here while options are
        spread, and where there can be no such process.
        """
        self.prepare(num_raters)
        # Another process reads no proxies of dictionaries.
        context = dict(context)
        if self.experiment.num_answers >= self.initial:
            with suppress(EOFError):
                if self._kind == "options":
                    of_all = (self._size, raters, context)
                    choices = self.run_in_process(packed_choices, *of_all)
                else:
                    of_one = (self._kind, self._size, raters[0], context)
                    choices = self.run_in_process(packed_choice, *of_one)
                return ask_chosen(self.experiment, choices, raters)
        # This may have been closed while a job waited for the process.
        if self._closed:
            raise ExperimentError("No more questions are asked: this is being closed.")
        question = self.run_here(
            lambda: self.experiment.ask(
                self._size,
                rater=raters[0],
                line=self._kind == "line",
                plane=self._kind == "plane",
                context=context,
            )
        )
        return [question]

    def findings(self, context: Context | None = None) -> JSON:
        """Returns findings from the answers so far, and `warnings` since the start."""
        # Calls at the same time get the same.
        with self._findings_turn:
            now = f"{self.experiment.version}, {context}"
            if self._findings is None or self._findings[0] != now:
                self._findings = (now, self._new_findings(context))
            return {**self._findings[1], "warnings": self.warnings()}

    def warnings(self) -> list[JSON]:
        """Returns the most frequent warnings: each ``text``, and how many ``times``."""
        with self._lock:
            frequent = self._notes.most_common(_NUM_WARNINGS)
        return [{"text": text, "times": times} for text, times in frequent]

    def close(self) -> None:
        """Ends the process, also for a thread that waits for it."""
        with self._lock:
            self._closed, self._can_move = True, False
            process, self._process = self._process, None
        if process is not None:
            process.close()

    def start(self) -> ModelProcess | None:
        """Starts the other process if need be; None if there can be none."""
        with self._lock:
            if self._process is None and self._can_move:
                try:
                    self._process = ModelProcess()
                except OSError:
                    self._can_move = False
            return self._process

    def run_in_process(self, job: Callable[..., T], *args: Any) -> T:
        """Runs a job on the experiment's state, in the other process.

        Raises `EOFError` where there can be no such process.
        """
        while (process := self.start()) is not None:
            notes: list[str] = []
            try:
                # An empty job waits for the start, which takes seconds: answers that
                # come meanwhile are in the state that is packed after it.
                process.run(notes, int)
                result = process.run(notes, job, packed_state(self.experiment), *args)
            except EOFError:
                self._replace(process)
            else:
                self._ended_in_a_row = 0
                return result
            finally:
                self._note(notes)
        raise EOFError("There is no process that fits models.")

    def run_here(self, job: Callable[[], T]) -> T:
        """Runs a job in this process, and notes its warnings if there is another.

        A user's model that ends the process raises `RuntimeError` instead.
        """
        notes: list[str] = []
        try:
            return run_noted(notes, job) if self._is_separate else job()
        # A model that calls sys.exit ends neither the server nor this thread.
        except SystemExit as error:
            raise RuntimeError(f"A model has raised SystemExit: {error}") from error
        finally:
            self._note(notes)

    def _new_findings(self, context: Context | None) -> JSON:
        """Computes findings in the other process, or here where there is none.

        None of ``context`` is that of the latest answer.
        """
        if not any(question.compared for question in self.experiment.log.questions):
            raise ExperimentError(
                "Nobody has compared or judged options yet: there are findings from "
                "the first such answer on."
            )
        with suppress(EOFError):
            return self.run_in_process(findings_of, context)
        state = packed_state(self.experiment)
        return self.run_here(lambda: findings_of(state, context))

    def _replace(self, process: ModelProcess) -> None:
        """Lets `start` replace a process that has ended, unless `_TRIALS` did in a row.

        Nothing changes for one that was closed, or that another thread has replaced.
        """
        with self._lock:
            if self._process is not process:
                return
            self._process = None
            self._ended_in_a_row += 1
            self._can_move = self._ended_in_a_row < _TRIALS
        self._note([_RESTARTED if self._can_move else _GIVEN_UP])
        process.close()

    def _note(self, texts: Iterable[str]) -> None:
        for text in texts:
            LOGGER.warning("%s", text)
            with self._lock:
                self._notes[text] += 1
