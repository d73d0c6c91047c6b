"""The protocol of every likelihood."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Generic, Self, TypeVar

import torch
from gpytorch.likelihoods import Likelihood
from torch import Tensor
from torch.distributions import Distribution

from botorch_pref.errors import UnsupportedFeedbackError
from botorch_pref.feedback.choices import Choices
from botorch_pref.feedback.comparisons import Comparisons
from botorch_pref.feedback.feedback import Feedback
from botorch_pref.feedback.rankings import Rankings
from botorch_pref.feedback.validity import Validity
from botorch_pref.likelihoods.answer_density import answer_density
from botorch_pref.likelihoods.factors.factors import Factors
from botorch_pref.likelihoods.links.duel_link import DuelLink
from botorch_pref.likelihoods.links.quadrature_link import QuadratureLink
from botorch_pref.numerics.bend_quadrature import half_rise

FeedbackT = TypeVar("FeedbackT", bound=Feedback)

# Where a standard normal variable is above with probability a quarter.
_UPPER_QUARTILE = 0.6744897501960817


class PreferenceLikelihood(Likelihood, Generic[FeedbackT]):
    """A likelihood of answers given utilities.

    A likelihood of one's own names what it explains and gives :meth:`forward`;
    everything else follows from that by quadrature. Those of this package override what
    they know in closed form. For example, noise of Cauchy's distribution in duels::

        class PairwiseCauchyLikelihood(PreferenceLikelihood[Comparisons]):
            explains = {Comparisons: DensityFactors}

            def forward(self, function_samples):
                return Bernoulli(probs=0.5 + function_samples.atan() / math.pi)

    Parameters of ``batch_shape`` are broadcast against the last dimensions of the
    arguments of all methods but :meth:`factors`.

    Attributes:
        explains: The containers whose answers it explains, the one it is named for
            first, each with the factors it makes of them.

    Raises:
        UnsupportedFeedbackError: The class says nothing of what it explains.
    """

    explains: ClassVar[Mapping[type[Feedback], type[Factors]]]
    _like: Tensor

    def __init__(self) -> None:
        super().__init__()
        explains = getattr(self, "explains", None)
        if not (isinstance(explains, Mapping) and explains):
            raise UnsupportedFeedbackError(
                f"{type(self).__name__}.explains is {explains!r}; name the kinds of "
                "answers, each with its factors: explains = "
                "{Comparisons: DensityFactors}."
            )
        # Says what the dtype and the device are where there are no parameters.
        self.register_buffer("_like", torch.zeros(()), persistent=False)

    @classmethod
    def default_for(cls, feedback: Feedback | None) -> Self:
        """The likelihood of a model whose user named none.

        Args:
            feedback: The answers to explain; None where they are still to come.
        """
        return cls()

    @abstractmethod
    def forward(self, function_samples: Tensor) -> Distribution:
        """Distribution of the answers given their utilities.

        Args:
            function_samples: ``z``, any shape: the difference of two utilities for
                duels and strengths, one utility for absolute answers; for choices the
                utilities of a set, ``... x k``.

        Returns:
            Of duels a ``Bernoulli`` whose 1 is a win of the first item, of validity one
            whose 1 is a valid trial (given by ``logits``, both tails keep their digits;
            by ``probs``, that of a 1); of levels and choices a ``Categorical``; else
            the distribution of the number that is answered.
        """

    def factors(self, feedback: FeedbackT, num_points: int) -> Factors:
        """The rows and factors of a block of answers.

        By default :class:`DensityFactors` with the density of :meth:`forward`, for
        answers that see one number each.

        Args:
            feedback: Answers, of a type in :attr:`explains`.
            num_points: ``n``, the number of datapoints.

        Raises:
            UnsupportedFeedbackError: There is no default for such answers.
        """
        return answer_density(feedback, num_points, self.forward, self._like)

    @property
    def link(self) -> DuelLink:
        """The link of duels, between items one of which wins.

        By default of :meth:`forward` by quadrature: ties left out, or the choice out of
        a set of two.

        Raises:
            UnsupportedFeedbackError: The likelihood says nothing of duels or choices.
        """
        if Comparisons in self.explains:
            return QuadratureLink(self._decided)
        if self._explains_sets:
            return QuadratureLink(self._chosen_of_two)
        raise self._says_nothing("a duel", "Comparisons")

    @property
    def observation_variance(self) -> Tensor:
        """The variance of the noise with which one item is heard, ``batch_shape``.

        By default that of the Gaussian noise under which differences of utilities (of
        valid trials: utilities) have the same quartiles, which exists for heavy tails
        and lapses too.

        Raises:
            UnsupportedFeedbackError: The likelihood says nothing of duels, choices or
                valid trials.
        """
        if Validity in self.explains:
            return (half_rise(self._win, self._like) / _UPPER_QUARTILE).square()
        link = self.link
        quartile = half_rise(
            lambda u: link.win_probability(u, torch.zeros_like(u)), self._like
        )
        return 0.5 * (quartile / _UPPER_QUARTILE).square()

    def win_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        """Probability that the first of two items wins, ties being no wins.

        Args:
            mean: Of the difference of utilities, any shape.
            variance: Of the difference, nonnegative, broadcastable with ``mean``.

        Raises:
            UnsupportedFeedbackError: The likelihood says nothing of duels or choices.
        """
        if Comparisons in self.explains:
            return QuadratureLink(self._win).win_probability(mean, variance)
        return self.link.win_probability(mean, variance)

    def tie_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        """Probability that two items tie: that neither wins.

        Args:
            mean: Of the difference of utilities, any shape.
            variance: Of the difference, nonnegative, broadcastable with ``mean``.

        Raises:
            UnsupportedFeedbackError: The likelihood says nothing of duels or choices.
        """
        wins = self.win_probability(mean, variance)
        return (1 - wins - self.win_probability(-mean, variance)).clamp_min(0.0)

    def log_choice_probability(self, utilities: Tensor) -> Tensor:
        """Log probabilities that each item of a set is chosen as its best.

        Args:
            utilities: ``... x k``.

        Returns:
            ``... x k``.

        Raises:
            UnsupportedFeedbackError: The likelihood says nothing of sets.
        """
        if not self._explains_sets:
            raise self._says_nothing("a choice", "Choices")
        return self.forward(utilities).logits.log_softmax(-1)  # type: ignore[attr-defined]

    def log_order_probability(self, utilities: Tensor) -> Tensor:
        """Log probability that the items of a set are ranked as they are, best first.

        By default that of choosing the first, then the second out of the rest, and so
        on.

        Args:
            utilities: ``... x k``.

        Returns:
            ``...``.

        Raises:
            UnsupportedFeedbackError: The likelihood says nothing of sets.
        """
        if not self._explains_sets:
            raise self._says_nothing("a ranking", "Rankings")
        stages = range(utilities.shape[-1] - 1)
        each = [self.log_choice_probability(utilities[..., i:])[..., 0] for i in stages]
        return torch.stack(each).sum(0)

    @property
    def _explains_sets(self) -> bool:
        return Choices in self.explains or Rankings in self.explains

    def _win(self, difference: Tensor) -> Tensor:
        """Probability of a win given the difference."""
        return self.forward(difference).mean

    def _decided(self, difference: Tensor) -> Tensor:
        """Probability of a win given the difference, and that there is no tie."""
        win, loss = self._win(difference), self._win(-difference)
        return win / (win + loss)

    def _chosen_of_two(self, difference: Tensor) -> Tensor:
        pair = torch.stack([difference, torch.zeros_like(difference)], dim=-1)
        return self.log_choice_probability(pair)[..., 0].exp()

    def _says_nothing(self, of: str, kind: str) -> UnsupportedFeedbackError:
        return UnsupportedFeedbackError(
            f"The probability of {of} under {type(self).__name__} is not known; use a "
            f"likelihood that explains {kind}, or override the method."
        )
