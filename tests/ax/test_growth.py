"""What is done for a question does not grow with those that were asked before."""

from collections.abc import Callable

import pytest
from showing import triangle
from walk import watch

from botorch_pref.ax import PreferenceExperiment


def calls(act: Callable[[], object]) -> int:
    """How many functions of Python are called: work, counted without a clock."""
    count = 0

    def one_more(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event == "call"

    watch(act, one_more)
    return count


MORE = 12


def play(experiment: PreferenceExperiment, questions: int) -> None:
    for _ in range(questions):
        experiment.tell(experiment.ask(2), winner=0)


def counted(experiment: PreferenceExperiment) -> tuple[int, int]:
    questions = []
    asked = calls(lambda: questions.append(experiment.ask(2)))
    return asked, calls(lambda: experiment.tell(questions[0], winner=0))


@pytest.mark.slow
def test_asking_and_telling_do_no_more_after_many_questions(tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.db", initial=99)
    play(experiment, 3)
    first = counted(experiment)
    play(experiment, MORE)
    last = counted(experiment)
    # Looking at each answer once is nothing; encoding it, or its options, is hundreds.
    assert last[0] - first[0] < 10 * MORE
    assert last[1] - first[1] < 10 * MORE
