"""Judges by name: people who never err, who err, who look away, who shrug."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Generator, Tensor

from benchmarks.suite.cell import Setting
from benchmarks.suite.errors import SuiteError
from botorch_pref.simulation.judges import (
    Judge,
    LapsingJudge,
    LogisticJudge,
    ProbitJudge,
    Utility,
)


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


JUDGES: dict[str, Callable[[Utility, float, int], Judge]] = {
    "exact": _exact,
    "lapses": _lapses,
    "logistic": _logistic,
    "probit": _probit,
    "ties": _ties,
}
"""From a utility, the noise and the seed to a judge.

The noise is of ``probit`` the deviation per presented item, of ``logistic`` the scale,
of ``lapses`` the share of duels that a coin decides while the better point wins the
others, of ``ties`` the difference of utilities up to which both are the same to her.
"""

ERRING = ("lapses", "logistic", "probit")
"""Judges who name the worse point at times."""


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


def order_of(judge: Judge, options: Tensor) -> Tensor:
    """The places of options in a judge's order, the best first.

    Of two options it is her answer. Of more, she perceives the utility of each with an
    error of its own, as of two.

    Args:
        judge: Who answers; of more than two options, a `ProbitJudge` without ties.
        options: `k x d`.

    Raises:
        SuiteError: She cannot order so many options, or sees no difference.
    """
    if len(options) == 2:
        first_wins = judge(options[0], options[1])
        if first_wins is None:
            raise SuiteError("a judge who shrugs cannot order options")
        return torch.tensor([0, 1] if first_wins else [1, 0])
    if not isinstance(judge, ProbitJudge) or judge.tie_threshold > 0:
        raise SuiteError(f"{type(judge).__name__} cannot order {len(options)} options")
    perceived = judge.utility(options)
    if judge.noise > 0.0:
        errors = torch.randn(
            len(options), generator=judge.generator, dtype=perceived.dtype
        )
        perceived = perceived + judge.noise**0.5 * errors
    return perceived.argsort(descending=True, stable=True)
