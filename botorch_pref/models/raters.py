"""Several raters in one model: kernels, their noise, the utility of one or a group."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, cast

import torch
from botorch.posteriors.posterior import Posterior
from botorch.utils.transforms import is_ensemble
from gpytorch.constraints import Interval, Positive
from gpytorch.kernels import Kernel, ProductKernel
from gpytorch.priors import GammaPrior, NormalPrior
from torch import Tensor
from torch.nn.functional import one_hot, pad
from torch.special import ndtr

from botorch_pref.errors import BotorchPrefError, FeedbackError
from botorch_pref.inference.gaussian_solution import GaussianSolution, GaussianTangent
from botorch_pref.likelihoods.protocol import (
    PositiveParameter,
    in_spreads,
    register_positive,
    register_prior,
)
from botorch_pref.linalg.covariance import join_rows
from botorch_pref.linalg.sparse_design import take_places
from botorch_pref.models.derived_model import DerivedModel
from botorch_pref.models.duel_pairs import duel_pairs
from botorch_pref.models.kernels import CovariateWeights, default_covar_module
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.models.rater_groups import at_raters, rater_columns
from botorch_pref.models.utility_model import check_one_to_one
from botorch_pref.numerics.argument_checks import (
    check_kind,
    check_point_pairs,
    check_points,
)
from botorch_pref.posteriors.gaussian import Moments, contrast

# A normal of this deviation on the log odds is nearly flat in the agreement itself: its
# density stays within 9 % of 1 on (0.1, 0.9) and falls to 0 at both ends, where
# a handful of answers would otherwise put the estimate.
_LOG_ODDS_DEVIATION = 1.6


class AgreementKernel(Kernel):
    r"""Covariance between raters who are known by number only.

    .. math:: k(u, u') = \rho + (1 - \rho) \, 1[u = u'],

    so that the utility of rater :math:`u` is
    :math:`\sqrt\rho \, g(x) + \sqrt{1 - \rho} \, h_u(x)`: something all share and
    something of his own, independent draws of the same process. :math:`\rho`, the
    *agreement*, is the correlation of two raters' utilities: with 1 they are one
    person, with 0 they have nothing to do with each other.

    One parameter for any number of raters, where a free covariance between them
    (GPyTorch's ``IndexKernel``) has some for each: it is identified by a few answers
    per rater, and it says what a rater without any answers prefers.

    Args:
        batch_shape: Of the model.
        active_dims: The column with the rater's number.
    """

    has_lengthscale = False
    agreement = PositiveParameter()
    r""":math:`\rho`, of the model's batch shape, in (0, 1)."""

    def __init__(
        self,
        batch_shape: torch.Size | None = None,
        active_dims: tuple[int, ...] | None = None,
    ) -> None:
        """Registers the agreement, at first 1/2, with a normal prior on its log odds.

        The log odds are the raw parameter.
        """
        shape = torch.Size() if batch_shape is None else batch_shape
        super().__init__(batch_shape=shape, active_dims=active_dims)
        self.register_parameter("raw_agreement", torch.nn.Parameter(torch.zeros(shape)))
        self.register_constraint("raw_agreement", Interval(0.0, 1.0))
        register_prior(self, "raw_agreement", NormalPrior(0.0, _LOG_ODDS_DEVIATION))

    def forward(
        self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any
    ) -> Tensor:
        """Computes 1 for equal raters, and the agreement for others.

        Points are ``batch_shape x n x 1`` numbers of raters.
        """
        if diag:
            same_rater = (x1 == x2).all(-1)
            agreement = self.agreement.unsqueeze(-1)
        else:
            same_rater = (x1.unsqueeze(-2) == x2.unsqueeze(-3)).all(-1)
            agreement = self.agreement[..., None, None]
        return torch.where(same_rater, 1.0, agreement)


class ReliabilityKernel(Kernel):
    r"""Scales of raters who answer with more or less noise.

    .. math:: k(u, u') = (\sigma_u^2 \, \sigma_{u'}^2)^{-1/2}

    multiplies the kernel of utilities, so that the utility of rater :math:`u` is
    :math:`f_u(x) / \sigma_u`, in deviations of this rater's noise. Answers tell no more
    than the ratio of utility and noise: this is the model in which rater :math:`u`
    has the utility :math:`f_u` and a noise :math:`\sigma_u^2` times the likelihood's.
    It holds under every likelihood of comparisons, choices and rankings, and with every
    engine. A tie threshold is in deviations of the rater's noise. The prior mean has to
    be zero, as it is by default for such answers.

    The log noises have one normal prior, :math:`\log \sigma_u^2 \sim N(0, s^2)`, and
    are learned with the evidence. A rater whose number is not known has
    :math:`\sigma_u = 1`, the median of the prior.

    Args:
        raters: The numbers of the raters, ``R`` different ones, as they stand in the
            points.
        spread: :math:`s` of the prior. With 1, 95 in 100 raters have between a seventh
            of the median noise and seven times as much.
        batch_shape: Of the model.
        active_dims: The column with the rater's number.

    Raises:
        FeedbackError: There are no raters, a number is not finite, two have one number,
            or the spread is not positive and finite.
    """

    has_lengthscale = False
    raters: Tensor
    noise = PositiveParameter()
    r""":math:`\sigma_u^2` over the likelihood's noise, ``batch_shape x R``, in the
    order of :attr:`raters`, which is that of their numbers."""

    def __init__(
        self,
        raters: Tensor,
        *,
        spread: float = 1.0,
        batch_shape: torch.Size | None = None,
        active_dims: tuple[int, ...] | None = None,
    ) -> None:
        """Sorts the raters, and registers the noise of each, 1 at first, with a prior.

        Raw noises are logs in spreads of the prior. The numbers become a buffer that
        ascends, in which those of points are searched.
        """
        shape = torch.Size() if batch_shape is None else batch_shape
        super().__init__(batch_shape=shape, active_dims=active_dims)
        check_kind("raters", raters, Tensor)
        check_kind("spread", spread, Real)
        if not 0 < spread < math.inf:
            raise FeedbackError(f"spread is {spread}; give a positive finite number.")
        # Single precision would round numbers that double precision has in the points.
        numbers = raters.detach().flatten().double().sort().values
        is_valid = bool(numbers.isfinite().all()) and bool((numbers.diff() > 0).all())
        if raters.dim() != 1 or not len(numbers) or not is_valid:
            raise FeedbackError(
                f"raters is {raters.tolist()}; give the finite number of each rater "
                "once, R long."
            )
        self.register_buffer("raters", numbers)
        raw = torch.zeros(*shape, len(numbers))
        self.register_parameter("raw_noise", torch.nn.Parameter(raw))
        self.register_constraint("raw_noise", Positive(**in_spreads(spread)))
        # Of the log noise in spreads, for which the prior is the same for all.
        register_prior(self, "raw_noise", NormalPrior(0.0, 1.0))
        self.spread = spread

    def places(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Finds where each number stands in :attr:`raters`, and whether it is there."""
        numbers = numbers.detach().contiguous().to(self.raters)
        place = torch.searchsorted(self.raters, numbers)
        place = place.clamp_max(len(self.raters) - 1)
        return place, self.raters[place] == numbers

    def deviations(self, numbers: Tensor) -> Tensor:
        r"""Returns :math:`\sigma_u` of raters by number, ``batch_shape x n``, or 1."""
        place, is_listed = self.places(numbers)
        return torch.where(is_listed, take_places(self.noise.sqrt(), place), 1.0)

    def forward(
        self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any
    ) -> Tensor:
        """Computes one over the product of the noise deviations of two raters.

        Points are ``batch_shape x n x 1`` numbers of raters.
        """
        first = self.deviations(x1.squeeze(-1)).reciprocal()
        second = self.deviations(x2.squeeze(-1)).reciprocal()
        if diag:
            return first * second
        return first.unsqueeze(-1) * second.unsqueeze(-2)


class RaterWeights(CovariateWeights):
    r"""Weights of covariates, and how far each rater's differs in the first of them.

    .. math:: w_r \sim N(0, \tau^2), \qquad \tau \sim \mathrm{Gamma}(2, 4),

    so that raters with few answers are taken for the typical one, as far as the others
    are alike. The density of the spread :math:`\tau` rises from 0: the most probable
    one of few raters is no zero, under which all would be surely alike (Chung,
    Rabe-Hesketh, Dorie, Gelman and Liu 2013).

    Args:
        num_covariates: ``p``, without those of raters.
        num_raters: ``R``.
    """

    spread = PositiveParameter()

    def __init__(self, num_covariates: int, num_raters: int) -> None:
        super().__init__(num_covariates, torch.Size())
        self.num_raters = num_raters
        start = torch.tensor(0.5, dtype=torch.float64)
        register_positive(self, "spread", start, GammaPrior(2.0, 4.0))

    @property
    def num_covariates(self) -> int:
        """``p + R``."""
        return super().num_covariates + self.num_raters

    @property
    def covariance(self) -> Tensor:
        """The diagonal one, ``(p + R) x (p + R)``."""
        spreads = self.spread.expand(self.num_raters)
        return torch.cat([self.scale, spreads]).square().diag()


def reliability_kernel(model: PreferenceGP) -> ReliabilityKernel | None:
    """Finds the part of a model's kernel that scales its raters, if there is one."""
    modules = model.covar_module.modules()
    return next((m for m in modules if isinstance(m, ReliabilityKernel)), None)


def agreement_kernel(model: PreferenceGP) -> AgreementKernel | None:
    """Finds the part of a model's kernel in which raters agree, if there is one."""
    modules = model.covar_module.modules()
    return next((m for m in modules if isinstance(m, AgreementKernel)), None)


@torch.no_grad()
def noise_curvature(model: PreferenceGP) -> Tensor | None:
    r"""Computes the Hessian of the log evidence in raters' log noises, ``R x R``.

    With the points of rater :math:`u` picked by the diagonal :math:`E_u`, a log noise
    moves the prior covariance by :math:`K_u = -(E_u K + K E_u) / 2`. Where the evidence
    is stationary in the sites its gradient is
    :math:`\tfrac12 \langle w w' - M, K_u \rangle`, with the solution's weights ``w``
    and precision ``M``. Differentiated once more, with the changes of both as in
    :mod:`.gaussian_solution`, that needs one solution only. From it a table of raters
    tells whose noise differs.

    None where no solution has it in this form: of Laplace's evidence and of inducing
    points, or where noises do not scale the whole kernel.
    """
    kernel, parts = reliability_kernel(model), [model.covar_module]
    while isinstance(parts[0], ProductKernel):
        parts = [*parts[0].kernels, *parts[1:]]
    solution = model.solution()
    if kernel is None or not any(part is kernel for part in parts):
        return None
    if type(solution) is not GaussianSolution or solution.evidence_pull is not None:
        return None
    prior = solution.prior.in_double()
    column = -1 if kernel.active_dims is None else int(kernel.active_dims[0])
    place, is_listed = kernel.places(prior.points[:, column])
    indicators = one_hot(place, len(kernel.raters)).to(
        prior.covar
    ) * is_listed.unsqueeze(-1)
    # Weights of covariates stand behind the points, and have no rater.
    indicators = pad(indicators, (0, 0, 0, len(prior.covar) - len(indicators)))
    tangent = GaussianTangent(prior.mean, solution)
    covar, w, m, s = prior.covar, solution.weights, tangent.precision, tangent.influence
    # K_u w, a column for each rater, and the changes diag(S K_u S') of row variances.
    moved = -0.5 * (
        (covar @ w).unsqueeze(-1) * indicators + covar @ (w.unsqueeze(-1) * indicators)
    )
    of_variance = -((s @ covar) * s) @ indicators
    sites = tangent.site_change((s @ moved).mT, of_variance.mT)
    # w' K_u dw, then -<dM, K_u> / 2, and last what the second derivatives of K make.
    hessian = moved.mT @ (sites.force @ s).mT - moved.mT @ m @ moved
    q = covar @ m
    squared = 0.5 * indicators.mT @ (q * q.mT + m * (q @ covar)) @ indicators
    hessian = hessian + 0.5 * (squared - of_variance.mT @ sites.precision.mT)
    weighted_covar = (torch.outer(w, w) - m) * covar
    return hessian + 0.25 * (
        indicators.mT @ weighted_covar @ indicators
        + torch.diag(weighted_covar.sum(-1) @ indicators)
    )


def rater_covar_module(
    stimulus_dim: int,
    *,
    rater_dim: int | None = None,
    noisy_raters: Tensor | None = None,
    batch_shape: torch.Size | None = None,
    stimulus: Kernel | None = None,
) -> ProductKernel:
    r"""Makes a kernel for answers of several people: stimulus times rater.

    .. math:: k\big((x, u), (x', u')\big) = k(x, x') \, k(u, u')

    (Jensen and Nielsen 2014, equation 14). Points carry the rater in their last
    columns. The stimulus has the package's default kernel. The rater has

    - by default one column with a number, and :class:`AgreementKernel`. Numbers need
      not be known beforehand: one never seen is a person about whom nothing is known;
    - with ``rater_dim`` that many columns of features and an RBF-ARD kernel of unit
      scale over them: people alike in these features have like utilities, and people
      equal in them have one.

    Give it as ``covar_module=`` to any model.

    Args:
        stimulus_dim: Number of leading columns that describe the stimulus.
        rater_dim: Number of columns after them that describe the rater.
        noisy_raters: Numbers of the raters whose noise is learned, each his own, by a
            :class:`ReliabilityKernel`; None for the same noise of all.
        batch_shape: Of the model.
        stimulus: The kernel of the stimulus instead of the default; its
            ``active_dims`` are set to the leading columns.

    Raises:
        FeedbackError: ``noisy_raters`` of raters who are described by features.
    """
    shape = torch.Size() if batch_shape is None else batch_shape
    stimulus = stimulus or default_covar_module(stimulus_dim, shape)
    stimulus.active_dims = torch.arange(stimulus_dim)
    if rater_dim is None:
        place = (stimulus_dim,)
        parts = [stimulus, AgreementKernel(shape, place)]
        if noisy_raters is not None:
            scales = ReliabilityKernel(
                noisy_raters, batch_shape=shape, active_dims=place
            )
            parts.append(scales)
        return ProductKernel(*parts)
    if noisy_raters is not None:
        raise FeedbackError(
            "A noise of each rater needs raters with numbers, and rater_dim is "
            f"{rater_dim}; leave out rater_dim or noisy_raters."
        )
    rater = default_covar_module(rater_dim, shape).base_kernel
    rater.active_dims = torch.arange(stimulus_dim, stimulus_dim + rater_dim)
    return ProductKernel(stimulus, rater)


class GroupUtility(DerivedModel):
    r"""The mean utility of some raters, as a BoTorch model over stimuli alone.

    .. math:: \bar f(x) = \frac{1}{R} \sum_{r=1}^R f(x, u_r)

    (with a :class:`ReliabilityKernel` of :math:`\sigma_{u_r} f(x, u_r)`, so that
    utilities of all raters have one unit, whatever their noise)

    has the posterior that the model of all raters implies, jointly over stimuli: with
    all raters it is their consensus, with one his own utility, with one who has not
    answered yet (a new number, or his features) what the others let expect of him.
    Anything that takes a BoTorch model takes it: acquisition functions, their gradients
    in the stimulus, :func:`botorch_pref.incumbent`. It follows the model: a later fit
    or more answers need no new one. Under another kernel than a product of stimulus and
    rater, and with an input transform, a prediction evaluates it at all ``q R`` points.

    Args:
        model: Of stimuli and raters, see :func:`rater_covar_module`: the last columns
            of its points are the rater's.
        raters: ``R x r``, the columns of each rater; or ``R`` numbers.

    Raises:
        BotorchPrefError: There are no raters, they are not finite, or no columns are
            left for the stimulus.
    """

    raters: Tensor

    def __init__(self, model: PreferenceGP, raters: Tensor) -> None:
        """Checks and copies the raters' columns; the model itself is kept."""
        super().__init__()
        columns = rater_columns(raters)
        if 0 in columns.shape or columns.dim() != 2:
            raise BotorchPrefError(
                f"raters has shape {tuple(raters.shape)}; give R x r, the columns of "
                "at least one rater, or R numbers."
            )
        if not bool(columns.isfinite().all()):
            raise BotorchPrefError(
                f"raters holds {columns[~columns.isfinite()].tolist()}; give finite "
                "numbers or features."
            )
        if model.dim is not None and model.dim <= columns.shape[-1]:
            raise BotorchPrefError(
                f"Points have {model.dim} columns and raters {columns.shape[-1]}: none "
                "is left for the stimulus."
            )
        self.rater_model = check_one_to_one(model)
        self.register_buffer("raters", columns.detach().clone())

    @property
    def _source(self) -> PreferenceGP:
        return self.rater_model

    @property
    def datapoints(self) -> Tensor | None:
        """The distinct stimuli that any rater met, as they were given."""
        return self.train_inputs[0] if self.train_inputs else None

    @property
    def train_inputs(self) -> tuple[Tensor, ...]:
        """The :attr:`datapoints` in a tuple; empty for a model of the prior alone."""
        points = self.rater_model.datapoints
        if points is None:
            return ()
        stimuli = points[..., : -self.raters.shape[-1]]
        return (stimuli if stimuli.dim() > 2 else torch.unique(stimuli, dim=0),)

    def of_own_points(self, marks: Tensor) -> Tensor:
        """Translates marks of the rater model's points to marks of its stimuli.

        Both are booleans. A stimulus, one of :attr:`datapoints`, is marked where it is
        for any rater. In a batch each point is a stimulus, and the marks stay.
        """
        points = cast("Tensor", self.rater_model.datapoints)
        if points.dim() > 2:
            return marks
        stimuli = points[:, : -self.raters.shape[-1]]
        distinct, place = torch.unique(stimuli, dim=0, return_inverse=True)
        none = marks.new_zeros(*marks.shape[:-1], len(distinct), dtype=torch.long)
        return none.index_add(-1, place, marks.long()) > 0

    @property
    def _num_features(self) -> int | None:
        of_both = self.rater_model._num_features
        return None if of_both is None else of_both - self.raters.shape[-1]

    def _check_points(self, name: str, X: Tensor) -> Tensor:
        return check_points(name, X, self.rater_model.datapoints, self._num_features)

    def _check_duels(
        self, names: tuple[str, str], X1: Tensor, X2: Tensor
    ) -> tuple[Tensor, Tensor]:
        points = self.rater_model.datapoints
        return check_point_pairs(names, X1, X2, points, self._num_features)

    def moments(self, X: Tensor) -> Moments:
        """Computes moments of mean utilities, of each component of a mixture.

        Where raters have noises of their own, utilities are in deviations of these, and
        are multiplied by the deviations, so that all are in one unit.
        """
        X = self._check_points("X", X)
        scales = self.scales()
        weights = X.new_ones(len(self.raters)) if scales is None else scales
        weights = weights / len(self.raters)
        return self.rater_model.group_moments(X, self.raters, weights)

    def scales(self) -> Tensor | None:
        """Returns the raters' noise deviations, ``batch_shape x R``; None without."""
        kernel = reliability_kernel(self.rater_model)
        return None if kernel is None else kernel.deviations(self.raters[:, -1])

    def make_posterior(self, moments: Moments) -> Posterior:
        """See base class: of the class that the model of all raters has."""
        return self.rater_model.make_posterior(moments)

    def _mean(self, values: Tensor, scales: Tensor | None = None) -> Tensor:
        """Averages values of each rater, ``... x q R x k``, to ``... x q x k``.

        Each counts times the rater's scale, if scales are given.
        """
        of_each = values.unflatten(-2, (-1, len(self.raters)))
        if scales is not None:
            of_each = of_each * scales[..., None, :, None]
        return of_each.mean(-2)

    def duel_posterior(self, X: Tensor, X_ref: Tensor) -> Posterior:
        """Computes the posterior of differences of mean utilities, ``f(X) - f(X_ref)``.

        Args:
            X: ``batch_shape x q x d`` stimuli.
            X_ref: ``batch_shape x 1 x d`` or ``batch_shape x q x d``.
        """
        X, X_ref = self._check_duels(("X", "X_ref"), X, X_ref)
        means = self.moments(join_rows([X, X_ref], along=-2))
        return self.make_posterior(contrast(means, X.shape[-2]))

    def duel_probability(
        self, X1: Tensor, X2: Tensor, observation_noise: bool = False
    ) -> Tensor:
        r"""Computes P(X1 beats X2), of mean utilities or in the answer of one rater.

        Args:
            X1: ``batch_shape x q x d`` stimuli.
            X2: ``batch_shape x q x d`` or ``batch_shape x 1 x d``.
            observation_noise: Whether of an answer that one of the raters gives, each
                as likely as the others, or of the mean utilities.

        Returns:
            ``batch_shape x q``.
        """
        X1, X2 = torch.broadcast_tensors(*self._check_duels(("X1", "X2"), X1, X2))
        model = self.rater_model
        if observation_noise:
            first, second = (at_raters(X, self.raters) for X in (X1, X2))
            probabilities = model.duel_probability(
                first, second, observation_noise=True
            )
            return self._mean(probabilities.unsqueeze(-1)).squeeze(-1)
        pairs = duel_pairs(X1, X2, model)
        # The prior variance only bounds what rounding hides of a difference.
        prior = model.prior_variance(at_raters(pairs.points, self.raters))
        scales = self.scales()
        squares = None if scales is None else scales.square()
        prior = self._mean(prior.unsqueeze(-1), squares).squeeze(-1)
        means, variance = pairs.differences(self.moments(pairs.points), prior)
        win = ndtr(means / variance.sqrt()).mean(0).movedim(0, -1)
        return win.mean(-2) if is_ensemble(model) else win


def answered_model(model: Any) -> Any:
    """Returns the model that has a model's answers: of a group that of all raters."""
    return model.rater_model if isinstance(model, GroupUtility) else model
