r"""Logistic likelihoods: Bradley and Terry's, with ties, and Plackett and Luce's.

A set with utilities ``f``, of which item 0 was chosen with probability
:math:`p_0 = e^{f_0} / \sum_j e^{f_j}`, has the log-likelihood Hessian

.. math::
    -(\mathrm{diag}(p) - p p') = -\sum_{i < j} p_i p_j (e_i - e_j)(e_i - e_j)' ,

exactly. So with a row :math:`f_i - f_j` for every pair of the set the curvature is
diagonal, and engines that work on rows need not know of softmax. A pair is one row, the
logistic factor.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass
from types import NoneType
from typing import ClassVar, Self

import torch
from gpytorch.priors import NormalPrior, Prior
from torch import Tensor
from torch.distributions import Bernoulli, Categorical
from torch.nn.functional import logsigmoid

from botorch_pref.errors import FeedbackError, UnsupportedFeedbackError
from botorch_pref.feedback import Choices, Comparisons, Rankings
from botorch_pref.likelihoods.factors import (
    Factors,
    GroupsOf,
    IntegratedFactors,
)
from botorch_pref.likelihoods.protocol import (
    FeedbackT,
    PositiveParameter,
    PreferenceLikelihood,
    QuadratureLink,
    register_likelihood,
    register_positive,
    register_prior,
)
from botorch_pref.linalg.sparse_design import SparseDesign, pair_rows, take_places
from botorch_pref.numerics.argument_checks import check_kind
from botorch_pref.numerics.logistic_normal import (
    expected_sigmoid_entropy,
    log_expected_sigmoid,
)
from botorch_pref.numerics.quadrature import (
    LogConcave,
    LogDerivatives,
    TiltedMoments,
    log_concave_integral,
)


class LogitLink(QuadratureLink):
    r"""Bradley and Terry's link :math:`g(u) = 1 / (1 + e^{-u})`.

    The logarithm of the win probability and the expected entropy are fast series that
    are right to rounding in both tails, see
    :mod:`botorch_pref.numerics.logistic_normal`.
    """

    def __init__(self) -> None:
        super().__init__(torch.sigmoid)

    def log_win_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; right to rounding in both tails."""
        return log_expected_sigmoid(mean, variance)

    def expected_entropy(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; right to rounding."""
        return expected_sigmoid_entropy(mean, variance)


class RaoKupperFactors(IntegratedFactors):
    r"""Rows whose answers are wins, losses and ties beyond or within a threshold.

    A tie is a win, a loss and a constant, so that a row with ``a`` wins, ``b`` losses
    and ``c`` ties has

    .. math:: p(y_i \mid z_i) = \sigma(z_i - \delta_i)^{a_i + c_i} \,
        \sigma(-z_i - \delta_i)^{b_i + c_i} \, (e^{2 \delta_i} - 1)^{c_i} .

    The numbers ``a``, ``b`` and ``c`` and the thresholds are ``batch_shape x m``; equal
    rows have equal thresholds.
    """

    takes_counts = True

    def __init__(
        self,
        rows: SparseDesign,
        answers: tuple[Tensor, Tensor, Tensor],
        threshold: Tensor,
    ) -> None:
        """Counts each tie as a win, a loss and a constant.

        With the threshold ``t`` and the logistic function ``s`` a tie has the
        probability ``s(z - t) s(-z - t) (exp(2 t) - 1)``: those of a win and of a loss
        times a constant. ``answers`` are numbers of wins, losses and ties of each row.
        """
        self.rows, self.threshold, self._answers = rows, threshold, answers
        won, lost, tied = answers
        self.wins, self.losses = won + tied, lost + tied
        # The logarithm of exp(2 threshold) - 1, for thresholds of any size.
        log_constant = 2 * threshold + torch.log(-torch.expm1(-2 * threshold))
        self._constant = torch.where(tied > 0, tied * log_constant, 0.0)

    def merged(self, counts: Tensor | None, groups_of: GroupsOf) -> RaoKupperFactors:
        """Merges equal rows: one has the sums of wins, losses and ties.

        A row of the opposite sign has its wins and losses exchanged.
        """
        groups = groups_of(self.rows)
        if groups is None and counts is None:
            return self
        won, lost, tied = self._answers
        if counts is not None:
            won, lost, tied = won * counts, lost * counts, tied * counts
        rows, threshold = self.rows, self.threshold
        if groups is not None:
            same_sign = groups.sign > 0
            sides = torch.where(same_sign, won, lost), torch.where(same_sign, lost, won)
            won, lost, tied = map(groups.total, (*sides, tied))
            rows, threshold = groups.merged(rows), take_places(threshold, groups.first)
        # A subclass keeps its class, whose constructor takes no answers.
        factors = copy(self)
        RaoKupperFactors.__init__(factors, rows, (won, lost, tied), threshold)
        return factors

    def log_prob(self, z: Tensor) -> LogDerivatives:
        """See base class."""
        return LogDerivatives(*_log_prob(z, *self._numbers))

    def curvature_gradient(self, z: Tensor, weights: Tensor) -> Tensor:
        """Multiplies third derivatives, of logs of sigmoids, by weights."""
        above, below = z - self.threshold, -z - self.threshold
        return weights * (
            self.wins * _logistic_slope(above) * (above / 2).tanh()
            - self.losses * _logistic_slope(below) * (below / 2).tanh()
        )

    def tilted(self, mean: Tensor, variance: Tensor) -> TiltedMoments:
        """See base class; see :func:`.log_concave_integral`."""
        mean, variance, _ = torch.broadcast_tensors(mean, variance, self._constant)
        return log_concave_integral(self._of_rows, mean, variance)

    def _of_rows(self, places: Tensor | None) -> LogConcave:
        numbers = [values.double() for values in self._numbers]
        if places is not None:
            numbers = [values[..., places] for values in numbers]
        return lambda z: _log_prob(z, *numbers)

    @property
    def _numbers(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.wins, self.losses, self.threshold, self._constant


class LogitFactors(RaoKupperFactors):
    r"""Rows without ties, :math:`p(y_i \mid z_i) = \sigma(z_i)^a \, \sigma(-z_i)^b`.

    There is one win each, and no loss, until equal rows are merged.
    """

    def __init__(self, rows: SparseDesign) -> None:
        none = torch.zeros_like(rows.coefficients[..., 0])
        super().__init__(rows, (none + 1, none, none), none)


def _log_prob(
    z: Tensor, wins: Tensor, losses: Tensor, threshold: Tensor, constant: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Computes logs of ``s(z - t)^wins s(-z - t)^losses e^constant``, two derivatives.

    ``s`` is the logistic function and ``t`` the threshold; derivatives are in ``z``.
    """
    above, below = z - threshold, -z - threshold
    value = wins * logsigmoid(above) + losses * logsigmoid(below) + constant
    up, down = wins * torch.sigmoid(-above), losses * torch.sigmoid(-below)
    slopes = up * torch.sigmoid(above) + down * torch.sigmoid(below)
    return value, up - down, -slopes


def _logistic_slope(z: Tensor) -> Tensor:
    return torch.sigmoid(z) * torch.sigmoid(-z)


@dataclass(frozen=True)
class StageItems:
    """Ragged sets as one row of ``M`` items; without batches there is no padding.

    An item takes a place in the row if its set has it in some element of the batch;
    elements where it is not ``present`` hold a phantom there, at point 0. ``points``
    and ``present`` are ``batch_shape x M``; ``stage`` is the set of each item and
    ``place`` where it stands there, the chosen item at 0, ``M`` long each.
    """

    points: Tensor
    stage: Tensor
    place: Tensor
    present: Tensor
    num_stages: int

    def total(self, values: Tensor) -> Tensor:
        """Sums over each set; ``batch_shape x M`` to ``batch_shape x L``."""
        out = values.new_zeros(*values.shape[:-1], self.num_stages)
        return out.index_add_(-1, self.stage, values)

    def largest(self, values: Tensor) -> Tensor:
        """Finds the maxima of each set; ``batch_shape x M`` to ``batch_shape x L``."""
        out = values.new_full((*values.shape[:-1], self.num_stages), -torch.inf)
        return out.scatter_reduce(-1, self.stage.expand_as(values), values, "amax")

    def spread(self, values: Tensor) -> Tensor:
        """Spreads values of sets to items; ``batch_shape x L`` to ``... x M``."""
        return values.index_select(-1, self.stage)

    def padded(self, values: Tensor) -> Tensor:
        """Arranges values of items as ``... x L x k``, 0 where a set has no item."""
        widest = int(self.place.max()) + 1
        out = values.new_zeros(*values.shape[:-1], self.num_stages, widest)
        out[..., self.stage, self.place] = values
        return out


def in_some_element(mask: Tensor, num_dims: int) -> Tensor:
    """Tells where any element has a True; all but ``num_dims`` dimensions are batch."""
    return mask.flatten(0, -num_dims - 1).any(0) if mask.dim() > num_dims else mask


def stage_items(stages: Tensor) -> StageItems:
    """Lists the items of padded sets, ``batch_shape x L x k``, without empty sets.

    Padding is -1. Sets that are empty in all elements of a batch are left out, so that
    stages of the result are fewer than ``L`` where there are such.
    """
    keep = in_some_element(stages >= 0, 2)
    real = keep.any(-1)
    stages = stages[..., real, :]
    stage, position = keep[real].nonzero(as_tuple=True)
    points = stages[..., stage, position]
    return StageItems(
        points=points.clamp_min(0),
        stage=stage,
        place=position,
        present=points >= 0,
        num_stages=stages.shape[-2],
    )


class SoftmaxFactors(Factors):
    """Choices of the first item of each set, with softmax probabilities.

    ``stages`` are ``batch_shape x L x k`` long, the chosen point first, padded with -1;
    ``answers`` says which answer each is of, ``L`` long, None for one each. To the
    utilities ``offsets`` are added, as long as ``stages``, None for none. The rows take
    the dtype and device of ``like``.
    """

    takes_counts = True
    counts: Tensor | None = None

    def __init__(
        self,
        stages: Tensor,
        num_points: int,
        like: Tensor,
        answers: Tensor | None = None,
        offsets: Tensor | None = None,
    ) -> None:
        """Makes a row for each pair of items of a set, without pairs of padding.

        Rows are in the order of sets, of each those against the chosen item first.
        ``answers`` has the number of the answer that each set is a stage of, None where
        each set is an answer; ``offsets`` are added to the utilities of its items.
        """
        self.stages: Tensor | None = stages
        self._answers, self._offsets = answers, offsets
        k = stages.shape[-1]
        # All pairs (i, j) of places, those of the chosen item first.
        self._first, self._second = torch.triu_indices(
            k, k, offset=1, device=stages.device
        )
        is_pair = stages[..., self._second] >= 0
        keep = in_some_element(is_pair, 2).flatten()
        (self._pair_places,) = keep.nonzero(as_tuple=True)
        # The number of each pair's row; any number for a pair without a row.
        place = (keep.cumsum(0) - 1).clamp_min(0).unflatten(0, (-1, is_pair.shape[-1]))
        self._against_chosen, self._is_pair = place[:, : k - 1], is_pair[..., : k - 1]
        pairs = torch.stack([stages[..., self._first], stages[..., self._second]], -1)
        pairs = torch.where(is_pair.unsqueeze(-1), pairs, 0)
        signs = torch.tensor([1.0, -1.0], dtype=like.dtype, device=like.device)
        coefficients = torch.where(is_pair.unsqueeze(-1), signs, 0.0)
        self.rows = SparseDesign(
            pairs.flatten(-3, -2)[..., self._pair_places, :],
            coefficients.flatten(-3, -2)[..., self._pair_places, :],
            num_points,
        )

    def reindex(self, inverse: Tensor, num_points: int) -> None:
        """Writes rows and sets about distinct points, in place: see base class."""
        super().reindex(inverse, num_points)
        if self.stages is not None:
            moved = inverse[self.stages.clamp_min(0)]
            self.stages = torch.where(self.stages >= 0, moved, -1)

    def see_options(self, points: Tensor, covariates: Tensor, num_points: int) -> None:
        """See base class; sets of options are no sets of points."""
        super().see_options(points, covariates, num_points)
        self.stages = None

    def merged(self, counts: Tensor | None, groups_of: GroupsOf) -> Self:
        """Counts sets as often as they were chosen from; equal sets stay apart.

        Without counts the factors are returned as they are, else a copy.
        """
        if counts is None:
            return self
        set_counts = counts if self._answers is None else counts[..., self._answers]
        copied = copy(self)
        copied.counts = set_counts.to(self.rows.coefficients)
        return copied

    def _weighted(self, of_sets: Tensor) -> Tensor:
        """Multiplies values of each set, ``batch_shape x L x P``, by its count."""
        if self.counts is None:
            return of_sets
        return of_sets * self.counts.unsqueeze(-1)

    def _log_probabilities(self, z: Tensor) -> Tensor:
        """Computes log probabilities of items of each set, ``batch_shape x L x k``.

        ``z`` are the rows, of which those against the chosen item say all; items that a
        set does not have are minus infinity.
        """
        behind = -z[..., self._against_chosen]
        behind = torch.where(self._is_pair, behind, -torch.inf)
        chosen = behind.new_zeros(*behind.shape[:-1], 1)
        utilities = torch.cat([chosen, behind], dim=-1)
        if self._offsets is not None:
            utilities = utilities + self._offsets
        return utilities.log_softmax(-1)

    def _of_pairs(self, log_p: Tensor) -> Tensor:
        """Multiplies ``p_i p_j`` of all pairs of each set, ``batch_shape x L x P``."""
        return (log_p[..., self._first] + log_p[..., self._second]).exp()

    def _rows_of(self, pairs: Tensor) -> Tensor:
        """Arranges ``batch_shape x L x P`` as ``batch_shape x m`` rows."""
        return pairs.flatten(-2)[..., self._pair_places]

    def log_prob(self, z: Tensor) -> LogDerivatives:
        """Computes logs of choice probabilities, gradients and curvatures, by rows.

        The value of a set stands in its first row and its gradient in those against the
        chosen item: sums over rows are right, see `LogDerivatives`.
        """
        log_p = self._log_probabilities(z)
        products = self._of_pairs(log_p)
        value, first = torch.zeros_like(products), torch.zeros_like(products)
        value[..., 0] = log_p[..., 0]
        first[..., : log_p.shape[-1] - 1] = log_p[..., 1:].exp()
        terms = map(self._weighted, (value, first, -products))
        return LogDerivatives(*map(self._rows_of, terms))

    def curvature_gradient(self, z: Tensor, weights: Tensor) -> Tensor:
        r"""Computes the gradient of the weighted curvatures in the rows.

        With the weighted products :math:`w_{ij} p_i p_j`, their sum S over a set and
        :math:`T_j` over the pairs of item j, the derivative in the row of j and the
        chosen item is :math:`T_j - 2 p_j S`.
        """
        log_p = self._log_probabilities(z)
        products = self._of_pairs(log_p)
        sizes = products.shape[-2:]
        pair_weights = weights.new_zeros(*weights.shape[:-1], sizes.numel())
        pair_weights[..., self._pair_places] = weights
        products = self._weighted(products * pair_weights.unflatten(-1, sizes))
        of_item = products.new_zeros(*products.shape[:-1], log_p.shape[-1])
        of_item = of_item.index_add(-1, self._first, products)
        of_item = of_item.index_add(-1, self._second, products)
        out = torch.zeros_like(products)
        total = products.sum(-1, keepdim=True)
        out[..., : log_p.shape[-1] - 1] = (of_item - 2 * log_p.exp() * total)[..., 1:]
        return self._rows_of(out)


class PlackettLuceFactors(SoftmaxFactors):
    """Choices of items, without offsets."""


class GumbelNoise(PreferenceLikelihood[FeedbackT]):
    """Items are heard with Gumbel noise."""

    @property
    def observation_variance(self) -> Tensor:
        r"""Variance of the Gumbel noise of one item, :math:`\pi^2 / 6`."""
        return torch.full_like(self._like, math.pi**2 / 6)


class LogisticDuels(GumbelNoise[FeedbackT]):
    """A choice out of two is a logistic duel."""

    @property
    def link(self) -> LogitLink:
        """See base class."""
        return LogitLink()

    def win_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; right to rounding."""
        return self.link.win_probability(mean, variance)


@register_likelihood
class PairwiseLogitLikelihood(LogisticDuels[Comparisons]):
    r"""Logistic likelihood of duels, in the difference of two utilities.

    .. math:: P(w \succ l) = 1 / (1 + e^{-(f_w - f_l)}).

    It has no noise parameter: the kernel's output scale is the only scale. (Bradley and
    Terry 1952.)
    """

    explains: ClassVar = {Comparisons: LogitFactors}

    def factors(self, feedback: Comparisons, num_points: int) -> LogitFactors:
        """Makes factors of duels without ties.

        Raises:
            UnsupportedFeedbackError: There are ties, which it has no probability for.
        """
        if feedback.ties is not None:
            raise UnsupportedFeedbackError(
                "PairwiseLogitLikelihood has no probability for ties; use "
                "RaoKupperLikelihood(), which EPPreferenceGP and LaplacePreferenceGP "
                "take, or PairwiseProbitLikelihood(tie_threshold=...), which "
                "SkewPreferenceGP takes too."
            )
        assert feedback.pairs is not None, "comparisons without ties have pairs"
        return LogitFactors(pair_rows(feedback.pairs, num_points, self._like))

    def forward(self, function_samples: Tensor) -> Bernoulli:
        """See base class: the probability that the first item wins."""
        return Bernoulli(logits=function_samples)


_ITEM_TIES_SPREAD = 0.2


@register_likelihood
class RaoKupperLikelihood(LogisticDuels[Comparisons]):
    r"""Logistic likelihood of duels with ties, also with a threshold for each item.

    .. math::
        P(w \succ l) = \sigma(f_w - f_l - \delta), \qquad
        P(a \sim b) = (e^{2 \delta} - 1) \,
        \sigma(f_a - f_b - \delta) \, \sigma(f_b - f_a - \delta)

    with :math:`\sigma(u) = 1 / (1 + e^{-u})` (Rao and Kupper 1967). With ``items`` the
    threshold of a pair is :math:`\delta e^{t_a + t_b}`: some items tie more often than
    others that are as close. The shifts :math:`t` have the prior
    :math:`N(0, 0.2^2)`, and a fit learns them.

    It has no noise parameter: the kernel's output scale is the only scale.

    Args:
        tie_threshold: :math:`\delta`, positive: a heard difference of at most
            this size, of either sign, is a tie. Learned.
        tie_threshold_prior: A prior on the threshold.
        items: The item of each datapoint, ``n`` integers from 0, the same for equal
            datapoints; None for one threshold of all pairs. Such a likelihood explains
            answers about these datapoints alone. Where only the utilities of a duel are
            known, as in :meth:`win_probability`, the threshold is :math:`\delta`.

    Raises:
        FeedbackError: A threshold that is not positive, or items that are no integers
            from 0.
    """

    explains: ClassVar = {Comparisons: RaoKupperFactors}
    tie_threshold = PositiveParameter()
    _items: Tensor | None

    def __init__(
        self,
        tie_threshold: float | Tensor = 0.5,
        *,
        tie_threshold_prior: Prior | None = None,
        items: Tensor | None = None,
    ) -> None:
        """Registers the threshold, and with items a shift of its logarithm for each."""
        super().__init__()
        check_kind("items", items, Tensor, NoneType)
        register_positive(
            self, "tie_threshold", tie_threshold, tie_threshold_prior, learned=True
        )
        self.register_buffer("_items", items, persistent=False)
        if items is None:
            return
        if items.dtype != torch.long or items.dim() != 1 or bool((items < 0).any()):
            raise FeedbackError(
                f"items are {items.dtype} of shape {tuple(items.shape)}; give the "
                "number of each datapoint's item, n integers from 0."
            )
        shifts = torch.zeros(int(items.max()) + 1, dtype=torch.float64)
        self.register_parameter("tie_shifts", torch.nn.Parameter(shifts))
        register_prior(self, "tie_shifts", NormalPrior(0.0, _ITEM_TIES_SPREAD))

    def factors(self, feedback: Comparisons, num_points: int) -> RaoKupperFactors:
        """Makes factors of decided duels and then of ties, in the order of counts.

        Raises:
            FeedbackError: The answers are about other datapoints than the items.
        """
        blocks = [b for b in (feedback.pairs, feedback.ties) if b is not None]
        pairs = torch.cat(blocks, dim=-2)
        number = torch.arange(pairs.shape[-2], device=pairs.device)
        is_win = number < (0 if feedback.pairs is None else feedback.pairs.shape[-2])
        threshold = self._thresholds(pairs, num_points)
        wins, ties = is_win.to(threshold), (~is_win).to(threshold)
        # A pair that is no tie has its winner first.
        losses = torch.zeros_like(wins)
        rows = pair_rows(pairs, num_points, threshold)
        return RaoKupperFactors(rows, (wins, losses, ties), threshold)

    def _thresholds(self, pairs: Tensor, num_points: int) -> Tensor:
        """Returns the threshold of each pair, ``batch_shape x m``, of ``m x 2`` places.

        With items it is that of all times the exponential of both items' shifts.
        """
        threshold = self.tie_threshold.unsqueeze(-1)
        if self._items is None:
            return threshold.expand(*threshold.shape[:-1], pairs.shape[-2])
        count = self._items.shape[-1]
        if count != num_points:
            raise FeedbackError(
                f"The likelihood knows the items of {count} datapoints, and the "
                f"answers are about {num_points}; give items of all of these."
            )
        items = take_places(self._items, pairs.flatten(-2)).unflatten(-1, (-1, 2))
        return threshold * self.tie_shifts[items].sum(-1).exp()

    def _of_options(self, points: Tensor) -> RaoKupperLikelihood:
        """Returns the likelihood of options that show the datapoints at places.

        It has the items of these, and shares its parameters with this one.
        """
        if self._items is None:
            return self
        likelihood = copy(self)
        # A new dictionary: a shallow copy shares the buffers of this one.
        likelihood._buffers = {**self._buffers, "_items": self._items[points]}
        return likelihood

    def win_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; right to rounding."""
        return self.link.win_probability(mean - self.tie_threshold, variance)

    def tie_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; a difference of tails that are small both."""
        upper, lower = self.tie_threshold - mean.abs(), -self.tie_threshold - mean.abs()
        win = self.link.win_probability
        return (win(upper, variance) - win(lower, variance)).clamp_min(0.0)

    def forward(self, function_samples: Tensor) -> Bernoulli:
        """See base class: the probability that the first item wins."""
        return Bernoulli(logits=function_samples - self.tie_threshold)


@register_likelihood
class PlackettLuceLikelihood(LogisticDuels[Choices | Rankings]):
    r"""Softmax likelihood of choices and rankings (Plackett and Luce).

    .. math:: P(c \mid S) = e^{f_c} / \sum_{j \in S} e^{f_j}.

    A ranking is a choice of its first item, then of the second out of the rest, and so
    on (Luce 1959; Plackett 1975; equations 3 and 4 of Guo et al. 2020). Pairs are
    Bradley and Terry's: see :class:`PairwiseLogitLikelihood`.

    It has no noise parameter: the kernel's output scale is the only scale.
    """

    explains: ClassVar = {Choices: PlackettLuceFactors, Rankings: PlackettLuceFactors}

    def factors(
        self, feedback: Choices | Rankings, num_points: int
    ) -> PlackettLuceFactors:
        """Makes factors of choices, or of rankings as choices one after the other."""
        return PlackettLuceFactors(
            feedback.stages(), num_points, self._like, feedback.answers_of_stages()
        )

    def log_choice_probability(self, utilities: Tensor) -> Tensor:
        """See base class."""
        return utilities.log_softmax(-1)

    def log_order_probability(self, utilities: Tensor) -> Tensor:
        """See base class: the softmax of each item among those behind it."""
        behind = utilities.flip(-1).logcumsumexp(-1).flip(-1)
        return (utilities - behind).sum(-1)

    def forward(self, function_samples: Tensor) -> Categorical:
        """See base class: which item of a set is chosen."""
        return Categorical(logits=function_samples)
