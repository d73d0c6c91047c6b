"""Threads and processes that ask, tell, save and load at once lose nothing."""

import os
import random
import signal
import time
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Barrier, Thread

import pytest
from espresso import QUICK_FIT
from showing import resumed, triangle

from botorch_pref.ax import PreferenceExperiment, Question
from botorch_pref.ax.events import TOLD
from botorch_pref.errors import StorageError

pytestmark = pytest.mark.slow
forking = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded", "ignore:os.fork.. was called"
)


def larger(question: Question) -> int:
    first, second = ([*option.values()] for option in question.options)
    return int(second > first)


def play(path: Path, seed: int, questions: int = 4) -> list[Question]:
    """Asks questions of an experiment that is loaded anew for each."""
    triangle(path, seed=seed, initial=3, fit_options=QUICK_FIT)
    asked_questions = []
    for _ in range(questions):
        asked_questions.append(resumed(path).ask(2))
        experiment = resumed(path)
        experiment.tell(asked_questions[-1], winner=larger(asked_questions[-1]))
    experiment.write_json(path.with_suffix(".json"))
    return asked_questions


def log(experiment: PreferenceExperiment) -> list[tuple]:
    return [(event.question, event.kind) for event in experiment.log.events]


THREADS = 2


def test_threads_with_their_own_experiments_ask_as_if_alone(tmp_path) -> None:
    def paths(kind: str) -> list[Path]:
        return [tmp_path / f"{kind}{i}.db" for i in range(THREADS)]

    filters = list(warnings.filters)
    with ThreadPoolExecutor(THREADS) as pool:
        together = [*pool.map(play, paths("together"), range(THREADS))]
    assert warnings.filters == filters
    alone = [*map(play, paths("alone"), range(THREADS))]
    assert together == alone
    for path in paths("together"):
        experiment = resumed(path)
        assert len(experiment.experiment.lookup_data().df) == 8
        assert [kind for _, kind in log(experiment)] == ["asked", "told"] * 4
        copy = PreferenceExperiment.read(
            path.with_suffix(".json"), storage=path.with_suffix(".copy")
        )
        assert log(copy) == log(experiment)


def test_threads_with_one_experiment_ask_in_turn(tmp_path) -> None:
    path = tmp_path / "triangle.db"
    experiment = triangle(path, initial=99)
    start = Barrier(THREADS)

    def ask_and_tell(_thread: int) -> list[Question]:
        start.wait()
        questions = []
        for _ in range(3):
            questions.append(experiment.ask(2))
            experiment.tell(questions[-1], winner=larger(questions[-1]))
        return questions

    with ThreadPoolExecutor(THREADS) as pool:
        questions = [
            q for questions in pool.map(ask_and_tell, range(THREADS)) for q in questions
        ]
    everything = log(resumed(path))
    assert log(experiment) == everything
    assert sorted(question.index for question in questions) == [*range(3 * THREADS)]
    assert Counter(everything) == Counter(
        (i, kind) for i in range(3 * THREADS) for kind in ("asked", "told")
    )


def test_a_log_can_be_read_at_any_moment_while_it_grows(tmp_path) -> None:
    """As the page counts answers while a question is being added."""
    experiment = triangle(tmp_path / "triangle.db", initial=99)
    grown = experiment.log

    class Read(list):
        """Events or questions, after each of which another thread reads the log."""

        def append(self, event: object) -> None:
            super().append(event)
            answers = [answer.question for answer in grown.answers()]
            calls.append((answers, [grown.titles_of(q) for q in grown.questions]))

    calls: list[tuple] = []
    grown.events, grown.questions = Read(), Read()
    experiment.tell(experiment.ask(2), winner=0)
    names = [["1 A", "1 B"]]
    assert calls == [([], names), ([], names), ([0], names)]


def insist(act: Callable[[], object]) -> object:
    """Repeats an act once what others have written meanwhile is loaded."""
    while True:
        try:
            return act()
        except StorageError as error:
            if "Another process" not in str(error):
                raise


def take_part(path: Path) -> None:
    experiment = resumed(path)
    for _ in range(3):
        question = insist(lambda: experiment.ask(2))
        insist(lambda question=question: experiment.tell(question, winner=1))


@forking
def test_processes_with_one_store_ask_in_turn(tmp_path) -> None:
    path = tmp_path / "triangle.db"
    triangle(path, initial=99)
    forked = get_context("fork")
    processes = [forked.Process(target=take_part, args=(path,)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    experiment = resumed(path)
    assert Counter(log(experiment)) == Counter(
        (i, kind) for i in range(9) for kind in ("asked", "told")
    )
    assert len(experiment.experiment.lookup_data().df) == 18


@forking
def test_a_process_that_is_forked_while_another_thread_works_goes_on(tmp_path) -> None:
    path = tmp_path / "triangle.db"
    triangle(path)
    thread = Thread(target=play, args=(tmp_path / "other.db", 0))
    thread.start()
    process = get_context("fork").Process(target=resumed, args=(path,))
    process.start()
    process.join(60)
    thread.join()
    assert process.exitcode == 0


def tell_all(path: Path, connection: Connection) -> None:
    """Says what was kept as soon as it was."""
    experiment = resumed(path)
    while True:
        for question in experiment.pending or [experiment.ask(2)]:
            connection.send(("asked", question.index))
            experiment.tell(question, winner=question.index % 2)
            connection.send(("told", question.index))


KILLS = int(os.environ.get("BOTORCH_PREF_TEST_KILLS", "4"))


@forking
def test_what_is_killed_at_any_time_has_lost_and_doubled_nothing(tmp_path) -> None:
    path = tmp_path / "triangle.db"
    triangle(path, initial=10**6)
    random_source = random.Random(0)
    answers: list[tuple[str, int]] = []
    for _ in range(KILLS):
        mine, theirs = get_context("fork").Pipe()
        process = get_context("fork").Process(target=tell_all, args=(path, theirs))
        process.start()
        theirs.close()
        time.sleep(random_source.uniform(0.05, 0.5))
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        while mine.poll():
            try:
                answers.append(mine.recv())
            except EOFError:
                break
        experiment = resumed(path)
        happened = [(kind, trial) for trial, kind in log(experiment)]
        assert set(answers) <= set(happened)
        assert len(happened) == len(set(happened))
        answered_events = [e for e in experiment.log.events if e.kind == TOLD]
        assert all(
            event.what == {"winner": event.question % 2} for event in answered_events
        )
        data = experiment.experiment.lookup_data().df
        twice = dict.fromkeys((event.question for event in answered_events), 2)
        assert Counter(data.trial_index) == Counter(twice)
    # A killed process can have kept one thing more than it could say.
    assert len(happened) - len(set(answers)) <= KILLS
