"""Plackett-Luce regression: utilities that are linear in features, in weight space."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, cast

import torch
from botorch.models.transforms.input import InputTransform
from botorch.posteriors.gpytorch import GPyTorchPosterior
from botorch.utils.probability.utils import ndtr
from gpytorch.constraints import Positive
from gpytorch.distributions import MultivariateNormal
from gpytorch.models import GP
from linear_operator.operators import RootLinearOperator
from torch import Tensor
from torch.nn.functional import pad

from botorch_pref.errors import (
    BotorchPrefError,
    FeedbackError,
    InferenceWarning,
    UnsupportedFeedbackError,
    warn_caller,
)
from botorch_pref.feedback import Choices, Comparisons, Feedback, Rankings
from botorch_pref.feedback.container import AnswerFold, answer_folds
from botorch_pref.inference.engine import SolutionCache
from botorch_pref.inference.weight_sites import matched_weights
from botorch_pref.inference.weight_space import (
    WeightEngine,
    WeightSolution,
    laplace_weights,
    variational_weights,
)
from botorch_pref.likelihoods.logit import PlackettLuceLikelihood
from botorch_pref.likelihoods.protocol import IN_LOGS, PositiveParameter, set_positive
from botorch_pref.linalg.covariance import join_rows
from botorch_pref.linalg.sparse_design import take_rows
from botorch_pref.models.answer_likelihoods import register_model
from botorch_pref.models.training_data import TrainingSet, collect_feedback
from botorch_pref.models.utility_model import UtilityModel, check_answered
from botorch_pref.numerics.argument_checks import checked_arguments
from botorch_pref.numerics.logistic_normal import log_expected_sigmoid
from botorch_pref.posteriors.gaussian import Moments, gaussian_posterior


def stages_of(blocks: Sequence[Feedback]) -> Tensor:
    """Splits answers into choices of one out of a set, as Plackett and Luce see them.

    A pair is one choice, a ranking one for each place but the last. The result has
    indices of items, ``batch_shape x L x k``, the chosen one first, -1 at the end.
    """
    stages = [
        cast("Tensor", b.pairs)
        if isinstance(b, Comparisons)
        else cast("Any", b).stages()
        for b in blocks
    ]
    widest = max(s.shape[-1] for s in stages)
    return join_rows(
        [pad(s, (0, widest - s.shape[-1]), value=-1) for s in stages], along=-2
    )


def _stage_counts(
    blocks: Sequence[Feedback], counts: Sequence[Tensor | None] | None = None
) -> Tensor | None:
    """Counts how often each choice of :func:`stages_of` was made, ``... x L``.

    It is the count of the answer that the choice is of. The ``counts`` are given for
    merged blocks, one or None for each; by default they are the blocks' own. None
    stands for answers given once, and in the result for all choices made once.
    """
    if counts is None:
        counts = [b.answer_counts if b.is_counted else None for b in blocks]
    if all(count is None for count in counts):
        return None
    parts = []
    for block, count in zip(blocks, counts, strict=True):
        often = block.answer_counts if count is None else count
        if isinstance(block, Choices | Rankings):
            often = often[..., block.answers_of_stages()]
        parts.append(often)
    return join_rows(parts)


def comparisons_of(stages: Tensor) -> Tensor:
    """Pairs chosen items with the others of their sets, the chosen first.

    It is ``batch_shape x L (k - 1) x 2``, and -1 twice where a set has no more items.
    """
    losers = stages[..., 1:]
    winners = torch.where(losers >= 0, stages[..., :1], -1)
    return torch.stack([winners, losers], dim=-1).flatten(-3, -2)


class EtaLosses(NamedTuple):
    """Candidates, ``E``, and held-out log losses a comparison, ``E x batch_shape``."""

    etas: Tensor
    log_losses: Tensor


def _held_out_losses(
    engine: WeightEngine, features: Tensor, folds: Iterable[AnswerFold], etas: Tensor
) -> EtaLosses:
    """Computes mean log losses of held-out comparisons, for all candidates at once.

    Each of the ``folds`` is answers to learn from and answers that are held out, whose
    choices count as comparisons with each other item of the set. ``etas`` are ``E x 1 x
    ... x 1``, with a 1 for each batch dimension.
    """
    losses, counts = [], []
    for train, held_out in folds:
        with torch.no_grad():
            stages, often = stages_of(train), _stage_counts(train)
            weights = engine.solve(features, stages, etas, often).terms
        stages, often = stages_of(held_out), _stage_counts(held_out)
        pairs = comparisons_of(stages)
        pair_counts = (pairs[..., 0] >= 0).to(features)
        if often is not None:
            pair_counts = pair_counts * often.repeat_interleave(
                stages.shape[-1] - 1, dim=-1
            )
        log_wins = _log_win_probability(features, pairs, weights)
        losses.append(
            -torch.where(pair_counts > 0, pair_counts * log_wins, 0.0).sum(-1)
        )
        counts.append(pair_counts.sum(-1))
    mean = torch.stack(losses).sum(0) / torch.stack(counts).sum(0)
    return EtaLosses(etas.flatten(), mean)


def _log_win_probability(
    features: Tensor, pairs: Tensor, weights: WeightSolution
) -> Tensor:
    """Computes log probabilities that first items win, ``E x batch_shape x m``.

    They are of answers, with the weights integrated out. For pairs of -1 they are any
    numbers, which callers leave out.
    """
    first, second = pairs.clamp_min(0).unbind(-1)
    gap = take_rows(features, first) - take_rows(features, second)
    mean = (gap @ weights.mean.unsqueeze(-1)).squeeze(-1)
    variance = ((gap @ weights.covariance) * gap).sum(-1)
    return log_expected_sigmoid(mean, variance)


MOST_ASYMMETRY = 0.4
"""Largest asymmetry without a warning of Laplace's: see :class:`.WeightSolution`."""

# Of a feature: some by an input transform, one by the difference of two.
_ROUNDINGS = 4

_ENGINES = {
    "laplace": WeightEngine(laplace_weights),
    "ep": WeightEngine(matched_weights),
    "variational": WeightEngine(variational_weights),
}


@register_model()
class PlackettLuceRegression(UtilityModel, GP):
    r"""Choices and rankings with utilities that are linear in the features.

    .. math::
        f(x) = x' \theta, \quad \theta \sim N(0, I / \eta), \quad
        P(c \mid S) = e^{f(x_c)} / \sum_{j \in S} e^{f(x_j)}

    (Guo et al. 2020, equations 9 and 10). The posterior of the ``d`` weights is
    Gaussian; an iteration costs ``O(d^3)`` and ``O(d^2)`` for each item of each set,
    however many items there are. It is :class:`LaplacePreferenceGP` or
    :class:`VariationalPreferenceGP` with a linear kernel of variance :math:`1 / \eta`.

    :math:`\eta` is a parameter: ``fit_gpytorch_mll`` with
    :class:`PreferenceMarginalLogLikelihood` maximises the evidence, or its lower bound,
    without held-out answers, :meth:`cross_validate_eta` chooses by held-out ones, and
    ``raw_eta.requires_grad_(False)`` leaves it as it is.

    Laplace is close to exact where answers are many for each feature, and warns where
    third derivatives say that they are not: expectation propagation (``"ep"``) is
    right there too. The bound of the paper draws weights away from zero and states
    deviations that are too small. Under a weak prior, choices out of ``k``
    nearly equal items give ``k / (k - 1)`` times the mode, and more where the items
    differ.

    With six features and 200 rankings of five among 100 items the bound's mean is 51 %
    off the exact one where it states 2.6 % (exact: 7.1 %), and its 90 % regions cover
    none of 200 data sets; Laplace's mean is 0.9 % off, states 7.1 % and covers 94 %.
    Rankings of ten: 41 %, 1.5 % (exact: 3.9 %), 0 %; Laplace 0.2 %, 3.9 %, 90 %. Pairs:
    2.8 %, 11 % (exact: 19 %), 55 %; Laplace 5.5 %, 19 %, 90 %
    (``benchmarks/plackett_luce_bias.py``).

    Args:
        datapoints: ``batch_shape x n x d`` features. The prior is about the origin and
            the same for all features: centre and scale them, for example with
            ``input_transform=InputStandardize(d)``.
        comparisons: ``batch_shape x m x 2`` integers into ``datapoints``, winner first.
        feedback: :class:`Choices` and :class:`Rankings`.
        inference: ``"laplace"``, the Gaussian around the mode; ``"ep"``, expectation
            propagation, some ten times slower; or ``"variational"``, the lower bound of
            Guo et al., to compare with their work.
        eta: The precision of the prior, positive.
        input_transform: Applied to all inputs, as everywhere in BoTorch.

    Raises:
        FeedbackError: Data that cannot mean anything, ties, or an eta that is not
            positive.
        UnsupportedFeedbackError: Other kinds of answers, or another ``inference``.
    """

    eta = PositiveParameter()
    engine: WeightEngine
    _cache: SolutionCache[WeightSolution]

    @checked_arguments
    def __init__(
        self,
        datapoints: Tensor,
        comparisons: Tensor | Comparisons | None = None,
        *,
        feedback: Sequence[Feedback] = (),
        inference: Literal["laplace", "ep", "variational"] = "laplace",
        eta: float | Tensor = 1.0,
        input_transform: InputTransform | None = None,
    ) -> None:
        """Validates the data, and registers eta, whose raw parameter is its logarithm.

        Data come first, for eta has their batch. A transform that makes several points
        of each is refused.
        """
        super().__init__()
        if inference not in tuple(_ENGINES):
            raise UnsupportedFeedbackError(
                f"inference={inference!r}; there are {', '.join(_ENGINES)}."
            )
        self.engine = _ENGINES[inference]
        self.likelihood = PlackettLuceLikelihood()
        self._set_data(TrainingSet(datapoints, collect_feedback(comparisons, feedback)))
        self.register_parameter(
            "raw_eta", torch.nn.Parameter(datapoints.new_zeros(self.batch_shape))
        )
        cast("Any", self).register_constraint("raw_eta", Positive(**IN_LOGS))
        set_positive(self, "eta", eta)
        if input_transform is not None:
            self.input_transform = input_transform
        self.to(datapoints)
        with torch.no_grad():
            # Learns from the data in train mode only.
            check_answered(datapoints, self.transform_inputs(datapoints))

    def check_feedback(self, feedback: Sequence[Feedback]) -> None:
        """See base class: choices of one out of a set, without ties."""
        for block in feedback:
            if not isinstance(block, Comparisons | Choices | Rankings):
                raise UnsupportedFeedbackError(
                    f"PlackettLuceRegression does not take {type(block).__name__}; "
                    "EPPreferenceGP with a linear kernel does."
                )
            if isinstance(block, Comparisons) and block.ties is not None:
                raise FeedbackError(
                    "PlackettLuceRegression has no probability for ties; use "
                    "EPPreferenceGP with a linear kernel."
                )

    def _solve(self, engine: WeightEngine) -> WeightSolution:
        """Solves for the weights by some engine, and warns of failures.

        The log evidence of the solution has a gradient in eta. It is made anew at each
        call; :meth:`solution` keeps one.
        """
        if not self.feedback:
            raise BotorchPrefError(
                "There are no answers to learn from; pass comparisons= or feedback=."
            )
        answers = cast("TrainingSet", self._data).answers
        blocks, counts = [a.block for a in answers], [a.counts for a in answers]
        often = _stage_counts(blocks, counts)
        solution = engine.solve(
            self._transformed_datapoints(), stages_of(blocks), self.eta, often
        )
        solution.warn(type(self).__name__)
        return solution

    def solution(self) -> WeightSolution:
        """Solves for the weights' posterior at the present parameters; in eval mode.

        Raises:
            BotorchPrefError: There are no answers, or derivatives in the datapoints are
                wanted.
        """
        self.eval()
        if self._is_differentiated and torch.is_grad_enabled():
            raise BotorchPrefError(
                "PlackettLuceRegression has no derivatives in the points that it is "
                "conditioned on, which look-ahead wants; detach them, or take a "
                "Gaussian process such as LaplacePreferenceGP."
            )
        # The mode of a few weights is found as fast from anywhere.
        return self._cache.solution_of(
            self.modules(), self._state(), lambda start: self._solve_for_prediction()
        )

    def _solve_for_prediction(self) -> WeightSolution:
        """Solves for weights to keep, and warns where Laplace's Gaussian is far off.

        A fit, which does not come here, is spared the warning at each step.
        """
        solution = self._solve(self.engine)
        if solution.asymmetry > MOST_ASYMMETRY:
            warn_caller(
                "PlackettLuceRegression has few answers for "
                f"{solution.mean.shape[-1]} features: Laplace's Gaussian, around the "
                "mode, is far from the posterior. Its weights are too small and its "
                'regions too narrow; take inference="ep".',
                InferenceWarning,
            )
        return solution

    @property
    def weights_mean(self) -> Tensor:
        """Posterior mean of the weights, ``batch_shape x d``."""
        return self.solution().terms.mean

    @property
    def weights_covariance(self) -> Tensor:
        """Posterior covariance of the weights, ``batch_shape x d x d``."""
        return self.solution().terms.covariance

    def map_estimate(self) -> Tensor:
        """Finds the weights of largest posterior density, ``batch_shape x d``."""
        self.eval()
        with torch.no_grad():
            return self._solve(_ENGINES["laplace"]).terms.mean

    def log_evidence(self) -> Tensor:
        """Computes the log evidence under Laplace or EP, or a lower bound of it.

        The variational bound is equation 25 of Guo et al. (2020).

        Returns:
            ``batch_shape``; its gradient in eta is exact, but for EP of sets of three
            items and more: there it is as exact as the quadrature of their moments.

        Raises:
            BotorchPrefError: There are no answers.
        """
        return self._solve(self.engine).log_evidence

    def diagnostics(self) -> dict[str, Any]:
        """Reports ``converged``, ``iterations``, ``residual`` and ``log_evidence``.

        The residual is in posterior standard deviations.
        """
        return self.solution().diagnostics()

    def forward(self, x: Tensor) -> MultivariateNormal:
        """Computes the prior at ``x`` in train mode, else the posterior, of utilities.

        Points are ``batch_shape x q x d``, untransformed; it is GPyTorch's contract.
        """
        if not self.training:
            return gaussian_posterior(self.moments(x)).distribution
        x = self.transform_inputs(x)
        root = RootLinearOperator(x * self.eta[..., None, None].rsqrt())
        return MultivariateNormal(torch.zeros_like(x[..., 0]), root)

    def moments(self, X: Tensor) -> Moments:
        """See base class."""
        X = self.check_points("X", X)
        self.eval()
        features = self.transform_inputs(X)
        mean = (features @ self.weights_mean.unsqueeze(-1)).squeeze(-1)
        covariance = features @ self.weights_covariance @ features.mT
        return Moments(mean.unsqueeze(0), covariance)

    def make_posterior(self, moments: Moments) -> GPyTorchPosterior:
        """See base class."""
        return gaussian_posterior(moments)

    def duel_probability(
        self, X1: Tensor, X2: Tensor, observation_noise: bool = False
    ) -> Tensor:
        r"""Computes P(X1 beats X2).

        Of utilities that is :math:`\Phi(g' m / \sqrt{g' S g + \rho})` with the
        difference g of the features and the weights' mean m and covariance S. Without
        :math:`\rho` it would not depend on the length of g; with it, it goes to a half
        where g is below the rounding :math:`r = 4 \epsilon \, (|x_1| + |x_2|)` of its
        entries, :math:`\rho = (r' |m|)^2 + (r' \sqrt{\operatorname{diag} S})^2`.

        Args:
            X1: ``batch_shape x q x d``.
            X2: ``batch_shape x q x d`` or ``batch_shape x 1 x d``.
            observation_noise: Whether of an answer, :math:`E[\sigma(f_1 - f_2)]`, or of
                the utilities themselves.

        Returns:
            ``batch_shape x q``.
        """
        X1, X2 = self._check_duels(("X1", "X2"), X1, X2)
        self.eval()
        first, second = self.transform_inputs(X1), self.transform_inputs(X2)
        gap, weights = first - second, self.weights_mean.unsqueeze(-1)
        covariance = self.weights_covariance
        mean = (gap @ weights).squeeze(-1)
        variance = ((gap @ covariance) * gap).sum(-1).clamp_min(0.0)
        limits = torch.finfo(mean.dtype)
        hidden = _ROUNDINGS * limits.eps * (first.abs() + second.abs())
        deviations = covariance.diagonal(dim1=-2, dim2=-1).sqrt().unsqueeze(-1)
        doubt = hidden @ torch.cat([deviations, weights], dim=-1).abs()
        variance = variance + doubt.square().sum(-1)
        if observation_noise:
            return log_expected_sigmoid(mean, variance).exp()
        # Of equal points at the origin all of it is zero, and the probability a half.
        return ndtr(mean / variance.clamp_min(limits.tiny).sqrt())

    def cross_validate_eta(
        self, etas: Tensor, *, num_folds: int = 3, generator: torch.Generator
    ) -> EtaLosses:
        """Sets eta to the one of least log loss on held-out answers.

        Answers are held out whole. A held-out set counts as the comparisons of the
        chosen item with each other one, predicted with :meth:`duel_probability` of an
        answer.

        Args:
            etas: ``E`` positive candidates.
            num_folds: How many parts the answers are split into.
            generator: The source of randomness of the split, on the processor.

        Returns:
            The losses of all candidates.

        Raises:
            FeedbackError: A candidate that is not positive and finite, or none.
        """
        self.eval()
        usable = isinstance(etas, Tensor) and etas.numel() > 0
        if not usable or not bool((etas.isfinite() & (etas > 0)).all()):
            raise FeedbackError(f"etas is {etas}; give a tensor of positive numbers.")
        grid = etas.to(self.eta).reshape(-1, *[1] * len(self.batch_shape))
        folds = answer_folds(self.feedback, num_folds, generator)
        losses = _held_out_losses(
            self.engine, self._transformed_datapoints(), folds, grid
        )
        self.eta = losses.etas[losses.log_losses.argmin(0)]
        return losses
