"""Work for a question, which does not grow with those that were asked before."""

from collections.abc import Callable, Iterable
from itertools import permutations

import pytest
from ax.core.arm import Arm
from showing import A, B, C, D, triangle
from torch import Tensor
from walk import watch

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.ax.generation.adapter import PreferenceAdapter


def calls(act: Callable[[], object]) -> int:
    """Counts how many functions of Python are called: work without a clock."""
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
    num_calls = calls(lambda: questions.append(experiment.ask(2)))
    return num_calls, calls(lambda: experiment.tell(questions[0], winner=0))


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


@pytest.mark.slow
def test_options_are_signed_and_transformed_once_in_many_questions(
    tmp_path, monkeypatch
) -> None:
    signed, transformed = [], []
    sign, transform = Arm.md5hash, PreferenceAdapter.points_of

    def count_signed(parameters: dict[str, object]) -> str:
        signed.append(parameters)
        return sign(parameters)

    def count_transformed(adapter: PreferenceAdapter, designs: Iterable) -> Tensor:
        some = [*designs]
        transformed.extend(some)
        return transform(adapter, some)

    monkeypatch.setattr(Arm, "md5hash", staticmethod(count_signed))
    monkeypatch.setattr(PreferenceAdapter, "points_of", count_transformed)
    experiment = triangle(tmp_path / "triangle.db", initial=1, repeat_rate=0.0)
    designs = [{"a": a, "b": b} for a, b in (A, B, C, D)]
    for winner, loser in permutations(designs, 2):
        experiment.record([winner, loser], winner=0)
    signed.clear()
    assert len(experiment.experiment.trials) == 12
    assert len(signed) == 4
    experiment.ask(2)
    assert sorted(map(str, transformed)) == sorted(map(str, designs))
