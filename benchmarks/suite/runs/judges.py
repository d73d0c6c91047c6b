"""Judges by name: people who never err, who err in many ways, who shrug."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Generator, Tensor

from benchmarks.suite.cell import Setting
from benchmarks.suite.errors import SuiteError
from botorch_pref.simulation.judges import (
    DriftingJudge,
    Judge,
    LapsingJudge,
    LogisticJudge,
    ProbitJudge,
    Utility,
    panel_with_contrarian,
)


@dataclass(frozen=True)
class ShuffledLayout(Judge):
    """A judge to whom options are shown in a random layout.

    Attributes:
        judge: Who answers by what she is shown first.
        generator: Source of the layouts.
    """

    judge: Judge
    generator: Generator

    def __call__(self, first: Tensor, second: Tensor) -> bool | None:
        """See base class."""
        if torch.rand((), generator=self.generator) < 0.5:
            return self.judge(first, second)
        answer = self.judge(second, first)
        return None if answer is None else not answer

    def probability(self, first: Tensor, second: Tensor) -> float:
        """See base class."""
        swapped = self.judge.probability(second, first)
        return 0.5 * (self.judge.probability(first, second) + 1.0 - swapped)

    def order(self, options: Tensor) -> Tensor:
        """See base class."""
        layout = torch.randperm(len(options), generator=self.generator)
        return layout[self.judge.order(options[layout])]


def shifted(utility: Utility, shift: float) -> Utility:
    """Makes another taste: the utility of points that are shifted in every input."""
    return lambda X: utility((X + shift).clamp(0.0, 1.0))


def judge_generator(seed: int, stream: int = 0) -> Generator:
    """Source of a judge's draws in the run of a seed.

    Its draws are independent of those of ``Generator().manual_seed(seed)``, from which
    a run takes its points. torch's generator reads only the lowest 32 bits of a seed,
    so that a large number added to it may give the same draws again; NumPy's
    `SeedSequence` mixes all bits.

    Args:
        seed: Of the run, at least 0.
        stream: Sets several sources of one judge apart, at least 0.
    """
    (mixed,) = np.random.SeedSequence((seed, stream)).generate_state(1)
    return Generator().manual_seed(int(mixed))


def _exact(utility: Utility, noise: float, seed: int) -> Judge:
    if noise:
        raise SuiteError(f"an exact judge has noise 0, not {noise}")
    return ProbitJudge(utility, 0.0, judge_generator(seed))


def _probit(utility: Utility, noise: float, seed: int) -> Judge:
    return ProbitJudge(utility, noise**2, judge_generator(seed))


def _logistic(utility: Utility, noise: float, seed: int) -> Judge:
    return LogisticJudge(utility, noise, judge_generator(seed))


def _lapses(utility: Utility, noise: float, seed: int) -> Judge:
    attentive = ProbitJudge(utility, 0.0, judge_generator(seed))
    return LapsingJudge(attentive, noise, judge_generator(seed, stream=1))


def _ties(utility: Utility, noise: float, seed: int) -> Judge:
    return ProbitJudge(utility, 0.0, judge_generator(seed), tie_threshold=noise)


def _coin(utility: Utility, noise: float, seed: int) -> Judge:
    if noise:
        raise SuiteError(f"a coin has noise 0, not {noise}")
    return _lapses(utility, 1.0, seed)


def _drift(utility: Utility, noise: float, seed: int) -> Judge:
    before, source = shifted(utility, EARLY_SHIFT), judge_generator(seed)
    return DriftingJudge(before, utility, DRIFT, noise**2, source)


def _first(utility: Utility, noise: float, seed: int) -> Judge:
    biased = ProbitJudge(utility, noise**2, judge_generator(seed), advantage=noise)
    return ShuffledLayout(biased, judge_generator(seed, stream=1))


def _panel(utility: Utility, noise: float, seed: int) -> Judge:
    sources = [judge_generator(seed, stream) for stream in range(6)]
    clique = shifted(utility, CLIQUE_SHIFT)
    return panel_with_contrarian(utility, clique, noise**2, sources)


DRIFT, EARLY_SHIFT, CLIQUE_SHIFT = 30, 0.15, 0.3
"""After how many answers a taste has drifted, how far from the later one it was at
first, and how far the taste of a clique is from that of the others, as shares of the
range of each input."""

JUDGES: dict[str, Callable[[Utility, float, int], Judge]] = {
    "coin": _coin,
    "drift": _drift,
    "exact": _exact,
    "first": _first,
    "lapses": _lapses,
    "logistic": _logistic,
    "panel": _panel,
    "probit": _probit,
    "ties": _ties,
}
"""From a utility, the noise and the seed to a judge.

The noise is of ``probit`` the deviation per presented item, as of ``drift``, whose
taste changes in the first `DRIFT` answers, of ``first``, to whom what is shown first
seems better by as much, and of the raters of ``panel``; of ``logistic`` the scale, of
``lapses`` the share of duels that a coin decides while the better point wins the
others, of ``ties`` the difference of utilities up to which both are the same to her. A
``coin`` has none.
"""

ERRING = ("coin", "drift", "first", "lapses", "logistic", "panel", "probit")
"""Judges who name the worse point at times."""


def errs(setting: Setting, options: int) -> bool:
    """Whether the judge of a setting names the worse option at times.

    One who sees no difference does where she has to order more than two.

    Args:
        setting: Names her.
        options: How many a question has.
    """
    return setting.judge in ERRING or (setting.judge == "ties" and options > 2)


def make_judge(setting: Setting, utility: Utility, seed: int) -> Judge:
    """Makes the judge of a setting.

    Args:
        setting: Names her and her noise.
        utility: Of the setting's problem.
        seed: Of her draws.

    Raises:
        SuiteError: There is no judge of this name, or none with this noise.
    """
    if setting.judge not in JUDGES:
        raise SuiteError(f"unknown judge {setting.judge!r}: {', '.join(JUDGES)}")
    return JUDGES[setting.judge](utility, setting.noise, seed)
