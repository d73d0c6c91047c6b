"""Judges by name: people who never err, who err, who look away, who shrug."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Generator, Tensor

from benchmarks.suite.cell import Setting
from benchmarks.suite.errors import SuiteError
from botorch_pref.errors import BotorchPrefError
from botorch_pref.simulation.judges import (
    Judge,
    ProbitJudge,
    Utility,
    check_parameter,
    difference_of,
)


@dataclass(frozen=True)
class LapsingJudge(Judge):
    """A judge who answers some duels without having looked, either way.

    Attributes:
        attentive: Who answers the others.
        rate: Share of the duels that are answered by a fair coin, in [0, 1].
        generator: Source of lapses and coins; another than that of the attentive
            judge, whose noise is then the same at any rate.

    Raises:
        BotorchPrefError: The rate is no share.
    """

    attentive: Judge
    rate: float
    generator: Generator

    def __post_init__(self) -> None:
        if not 0.0 <= self.rate <= 1.0:
            raise BotorchPrefError(
                f"the judge's rate of lapses is {self.rate}: give a share in [0, 1]"
            )

    def __call__(self, first: Tensor, second: Tensor) -> bool | None:
        """See base class."""
        # Both are drawn for every duel: whether one lapses moves no later draw.
        lapse, coin = torch.rand(2, generator=self.generator, dtype=torch.double)
        answer = self.attentive(first, second)
        return bool(coin < 0.5) if lapse < self.rate else answer

    def probability(self, first: Tensor, second: Tensor) -> float:
        """See base class."""
        attentive = self.attentive.probability(first, second)
        return (1.0 - self.rate) * attentive + 0.5 * self.rate


@dataclass(frozen=True)
class LogisticJudge(Judge):
    r"""Logistic judge, the noise of the protocols of Astudillo et al. (2023).

    .. math:: P(\text{first preferred}) =
        \frac{1}{1 + \exp(-(u_1 - u_2) / \lambda)}

    Attributes:
        utility: Maps `batch_shape x d` inputs to utilities.
        scale: :math:`\lambda`, at least 0; at 0 the better point always wins, and the
            first wins an exact tie.
        generator: Source of the noise.

    Raises:
        BotorchPrefError: A scale that is negative or not finite.
    """

    utility: Utility
    scale: float
    generator: Generator

    def __post_init__(self) -> None:
        check_parameter("scale", self.scale, "number")

    def __call__(self, first: Tensor, second: Tensor) -> bool:
        """See base class; never a tie."""
        if self.scale == 0.0:
            return bool(difference_of(self.utility, first, second) >= 0.0)
        draw = torch.rand((), generator=self.generator, dtype=torch.double)
        return float(draw) < self.probability(first, second)

    def probability(self, first: Tensor, second: Tensor) -> float:
        """See base class."""
        gap = difference_of(self.utility, first, second)
        if self.scale == 0.0:
            return float(0.5 * (gap.sign() + 1.0))
        return float(torch.sigmoid(gap / self.scale))


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


def order_of(judge: Judge, options: Tensor) -> Tensor:
    """The places of options in a judge's order, the best first.

    Of two options it is her answer. Of more, she perceives the utility of each with an
    error of its own, as of two. Who lapses gives any order. Who sees no difference has
    to choose: one by one she puts the options where they belong, from the best down,
    and a coin decides between two that are the same to her.

    Args:
        judge: Who answers; of more than two options, a `ProbitJudge` who may lapse.
        options: `k x d`.

    Raises:
        SuiteError: She cannot order so many options, or sees no difference of two.
    """
    if len(options) == 2:
        first_wins = judge(options[0], options[1])
        if first_wins is None:
            raise SuiteError("a judge who shrugs cannot order options")
        return torch.tensor([0, 1] if first_wins else [1, 0])
    if isinstance(judge, LapsingJudge):
        return _order_or_lapse(judge, options)
    if not isinstance(judge, ProbitJudge):
        raise SuiteError(f"{type(judge).__name__} cannot order {len(options)} options")
    perceived = judge.utility(options)
    if judge.noise > 0.0:
        errors = torch.randn(
            len(options), generator=judge.generator, dtype=perceived.dtype
        )
        perceived = perceived + judge.noise**0.5 * errors
    if judge.tie_threshold > 0.0:
        return _order_of_alike(judge, perceived)
    return perceived.argsort(descending=True, stable=True)


def _order_or_lapse(judge: LapsingJudge, options: Tensor) -> Tensor:
    """The order of an attentive judge, or any order of one who did not look."""
    lapse = torch.rand((), generator=judge.generator, dtype=torch.double)
    anyhow = torch.randperm(len(options), generator=judge.generator)
    attentive = order_of(judge.attentive, options)
    return anyhow if lapse < judge.rate else attentive


def _order_of_alike(judge: ProbitJudge, perceived: Tensor) -> Tensor:
    """The order of who sees no difference up to a threshold, by perceived utilities."""
    order: list[int] = []
    for new, value in enumerate(perceived.tolist()):
        place = 0
        while place < len(order):
            ahead = value - float(perceived[order[place]])
            if abs(ahead) <= judge.tie_threshold:
                ahead = float(torch.rand((), generator=judge.generator)) - 0.5
            if ahead > 0.0:
                break
            place += 1
        order.insert(place, new)
    return torch.tensor(order)
