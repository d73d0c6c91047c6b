"""Simulated judges who compare points by a known utility, and err in many ways."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from botorch_pref.errors import BotorchPrefError

Utility = Callable[[Tensor], Tensor]
"""Maps `batch_shape x d` points to `batch_shape` utilities."""


class Judge(ABC):
    """A person who prefers one of two points, or neither."""

    @abstractmethod
    def __call__(self, first: Tensor, second: Tensor) -> bool | None:
        """Answers whether the first of two `d`-points is preferred; None for a tie."""

    @abstractmethod
    def probability(self, first: Tensor, second: Tensor) -> float:
        """Returns the probability that the first of two `d`-points is preferred.

        Half of a tie's probability is in it.
        """

    def order(self, options: Tensor) -> Tensor:
        """Orders the places of options, the best first.

        Of two options it is the answer to a duel.

        Args:
            options: `k x d`.

        Raises:
            BotorchPrefError: The judge cannot order so many options, or sees no
                difference of two.
        """
        if len(options) != 2:
            raise BotorchPrefError(
                f"{type(self).__name__} cannot order {len(options)} options"
            )
        first_wins = self(options[0], options[1])
        if first_wins is None:
            raise BotorchPrefError("a judge who shrugs cannot order options")
        return torch.tensor([0, 1] if first_wins else [1, 0])


@dataclass(frozen=True)
class ProbitJudge(Judge):
    r"""Probit judge: prefers the point of larger utility plus fresh Gaussian noise.

    With independent noise :math:`N(0, \sigma^2)` on each presented item, and an
    advantage :math:`b` of the item that is shown first,

    .. math:: P(\text{first preferred}) =
        \Phi\Big(\frac{u_1 + b - u_2 - \delta}{\sqrt{2 \sigma^2}}\Big),

    the probit likelihood of Chu and Ghahramani (2005) with the threshold of Glenn and
    David (1960). Without noise and threshold the better point always wins, and the
    first wins an exact tie.

    Of more than two options the judge orders the perceived utilities. Where there is a
    threshold, each option is put where it belongs, from the best down, and a coin
    decides between two whose difference is not perceived.

    Attributes:
        utility: Maps `batch_shape x d` inputs to utilities.
        noise: Variance of the noise per presented item, at least 0.
        generator: Source of the noise.
        tie_threshold: Perceived differences of at most this are ties; 0 for a judge who
            always decides.
        advantage: Added to the utility of the option that is shown first; 0 for a judge
            without position bias.

    Raises:
        BotorchPrefError: A noise, threshold or advantage that is negative or not
            finite.
    """

    utility: Utility
    noise: float
    generator: Generator
    tie_threshold: float = 0.0
    advantage: float = 0.0

    def __post_init__(self) -> None:
        check_parameter("noise", self.noise, "variance")
        check_parameter("tie threshold", self.tie_threshold, "difference")
        check_parameter("advantage", self.advantage, "difference")

    def perceive(self, options: Tensor) -> Tensor:
        """Draws the utilities of `k x d` options as they are perceived, `k`.

        That is with noise, and for the first option with the advantage of being first.
        """
        perceived = self.utility(options)
        if self.noise > 0.0:
            draws = torch.randn(
                len(options), generator=self.generator, dtype=perceived.dtype
            )
            perceived = perceived + self.noise**0.5 * draws
        if self.advantage > 0.0:
            perceived = torch.cat([perceived[:1] + self.advantage, perceived[1:]])
        return perceived

    def __call__(self, first: Tensor, second: Tensor) -> bool | None:
        """Answers whether the first of two points is preferred; None for a tie.

        Without a threshold the first wins an exact tie.
        """
        perceived = self.perceive(torch.stack([first, second]))
        difference = float(perceived[0] - perceived[1])
        if self.tie_threshold > 0.0 and abs(difference) <= self.tie_threshold:
            return None
        return difference >= 0.0

    def probability(self, first: Tensor, second: Tensor) -> float:
        """Computes the probability that the first is preferred, with half of a tie's.

        That is the mean of two probabilities that the first wins, with the threshold
        taken from its utility and with the threshold added to it. Of an exact tie
        without noise it is 1/2, though the judge names the first: the two are equal,
        and either may be shown first.
        """
        gap = difference_of(self.utility, first, second) + self.advantage
        if self.noise == 0.0:
            return 0.5 if abs(gap) <= self.tie_threshold else float(gap > 0.0)
        ends = torch.stack([gap - self.tie_threshold, gap + self.tie_threshold])
        return float(torch.special.ndtr(ends / (2 * self.noise) ** 0.5).mean())

    def order(self, options: Tensor) -> Tensor:
        """Orders the places of options by perceived utilities, the best first."""
        if len(options) == 2:
            return super().order(options)
        perceived = self.perceive(options)
        if self.tie_threshold > 0.0:
            return self._order_of_alike(perceived)
        return perceived.argsort(descending=True, stable=True)

    def _order_of_alike(self, perceived: Tensor) -> Tensor:
        """Orders options, the best first, by utilities of which some look alike.

        Each option in turn goes down from the best of those before it, until it is in
        front of one. A coin decides beside one whose difference is no larger than the
        threshold, and is thrown anew beside the next one.
        """
        order: list[int] = []
        for new, value in enumerate(perceived.tolist()):
            place = 0
            while place < len(order):
                ahead = value - float(perceived[order[place]])
                if abs(ahead) <= self.tie_threshold:
                    ahead = float(torch.rand((), generator=self.generator)) - 0.5
                if ahead > 0.0:
                    break
                place += 1
            order.insert(place, new)
        return torch.tensor(order)


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
        """Answers whether the first of two points is preferred; never a tie."""
        if self.scale == 0.0:
            return bool(difference_of(self.utility, first, second) >= 0.0)
        draw = torch.rand((), generator=self.generator, dtype=torch.double)
        return float(draw) < self.probability(first, second)

    def probability(self, first: Tensor, second: Tensor) -> float:
        """Computes the logistic function of the difference of utilities, in scales.

        Of an exact tie it is 1/2, also at the scale 0, where the judge names the first:
        the two are equal, and either may be shown first.
        """
        gap = difference_of(self.utility, first, second)
        if self.scale == 0.0:
            return float(0.5 * (gap.sign() + 1.0))
        return float(torch.sigmoid(gap / self.scale))


@dataclass(frozen=True)
class LapsingJudge(Judge):
    """A judge who answers some questions without having looked, any way.

    Attributes:
        attentive: Who answers the others.
        rate: Share of the questions that are answered at random, in [0, 1]; at 1 the
            judge is a fair coin.
        generator: Source of lapses and random answers; another than that of the
            attentive judge, whose noise is then the same at any rate.

    Raises:
        BotorchPrefError: The rate is no share.
    """

    attentive: Judge
    rate: float
    generator: Generator

    def __post_init__(self) -> None:
        """Refuses a rate that is no share."""
        if not 0.0 <= self.rate <= 1.0:
            raise BotorchPrefError(
                f"the judge's rate of lapses is {self.rate}: give a share in [0, 1]"
            )

    def __call__(self, first: Tensor, second: Tensor) -> bool | None:
        """Answers as the attentive judge, or by a fair coin in a lapse."""
        # Both are drawn for every duel: whether one lapses moves no later draw.
        lapse, coin = torch.rand(2, generator=self.generator, dtype=torch.double)
        answer = self.attentive(first, second)
        return bool(coin < 0.5) if lapse < self.rate else answer

    def probability(self, first: Tensor, second: Tensor) -> float:
        """See base class."""
        attentive = self.attentive.probability(first, second)
        return (1.0 - self.rate) * attentive + 0.5 * self.rate

    def order(self, options: Tensor) -> Tensor:
        """Orders the places of options, the best first, or at random in a lapse."""
        if len(options) == 2:
            return super().order(options)
        # All is drawn for every question: whether one lapses moves no later draw.
        lapse = torch.rand((), generator=self.generator, dtype=torch.double)
        random = torch.randperm(len(options), generator=self.generator)
        attentive = self.attentive.order(options)
        return random if lapse < self.rate else attentive


@dataclass
class DriftingJudge(Judge):
    r"""A probit judge whose taste drifts in the course of the answers.

    Answer :math:`t`, from 0, is by the utility

    .. math:: u_t = (1 - s_t) u_\text{before} + s_t u_\text{after}, \qquad
        s_t = \min(1, t / T).

    Attributes:
        before: Utility at the first answer.
        after: Utility from answer :math:`T` on.
        course: :math:`T`, at least 1.
        noise: Variance of the noise per presented item.
        generator: Source of the noise.
        answered: How many questions were answered.

    Raises:
        BotorchPrefError: The course is shorter than one answer, or see `ProbitJudge`.
    """

    before: Utility
    after: Utility
    course: int
    noise: float
    generator: Generator
    answered: int = 0

    def __post_init__(self) -> None:
        """Refuses a course of no answer, and a noise that no judge has."""
        if self.course < 1:
            raise BotorchPrefError(
                f"the judge's taste drifts for {self.course} answers: give 1 or more"
            )
        self.present()

    def present(self) -> ProbitJudge:
        """Makes the judge who gives the next answer, by the taste of that moment.

        It stays what it is when more is answered.
        """
        share = min(self.answered / self.course, 1.0)

        def utility(X: Tensor) -> Tensor:
            return torch.lerp(self.before(X), self.after(X), share)

        return ProbitJudge(utility, self.noise, self.generator)

    def __call__(self, first: Tensor, second: Tensor) -> bool | None:
        """See base class."""
        judge = self.present()
        self.answered += 1
        return judge(first, second)

    def probability(self, first: Tensor, second: Tensor) -> float:
        """See base class; of the next answer."""
        return self.present().probability(first, second)

    def order(self, options: Tensor) -> Tensor:
        """See base class."""
        judge = self.present()
        self.answered += 1
        return judge.order(options)


@dataclass
class Panel(Judge):
    """Several raters who answer in turn.

    Attributes:
        raters: Who they are, in the order in which they answer.
        answered: How many questions were answered.

    Raises:
        BotorchPrefError: There is no rater.
    """

    raters: Sequence[Judge]
    answered: int = 0

    def __post_init__(self) -> None:
        if not self.raters:
            raise BotorchPrefError("a panel has no rater: give one or more")

    @property
    def place(self) -> int:
        """The place of the rater who answers next."""
        return self.answered % len(self.raters)

    def __call__(self, first: Tensor, second: Tensor) -> bool | None:
        """See base class."""
        rater = self.raters[self.place]
        self.answered += 1
        return rater(first, second)

    def probability(self, first: Tensor, second: Tensor) -> float:
        """See base class; of a rater who is drawn at random."""
        shares = [rater.probability(first, second) for rater in self.raters]
        return sum(shares) / len(shares)

    def order(self, options: Tensor) -> Tensor:
        """See base class."""
        rater = self.raters[self.place]
        self.answered += 1
        return rater.order(options)


def panel_with_contrarian(
    utility: Utility,
    clique: Utility,
    noise: float,
    generators: Sequence[Generator],
) -> Panel:
    """Makes six raters: three of one taste, a clique of two, and a contrarian.

    Args:
        utility: Of the three; the contrarian, who is the last, has its negative.
        clique: Utility that the fourth and the fifth share.
        noise: Variance of the noise of each rater per presented item.
        generators: Sources of noise, one a rater.

    Raises:
        BotorchPrefError: There are not six generators.
    """
    tastes = [*(utility,) * 3, *(clique,) * 2, lambda X: -utility(X)]
    if len(generators) != len(tastes):
        raise BotorchPrefError(
            f"a panel of {len(tastes)} raters has {len(generators)} generators: give "
            "one a rater"
        )
    raters = zip(tastes, generators, strict=True)
    return Panel([ProbitJudge(taste, noise, source) for taste, source in raters])


def difference_of(utility: Utility, first: Tensor, second: Tensor) -> Tensor:
    """Subtracts the utility of the second of two points from the first's, a scalar."""
    values = utility(torch.stack([first, second]))
    return values[0] - values[1]


def check_parameter(name: str, value: float, kind: str) -> None:
    """Checks that a parameter of a judge is finite and not negative."""
    if not 0.0 <= value < float("inf"):
        raise BotorchPrefError(
            f"the judge's {name} is {value}: give a finite {kind} >= 0"
        )
