"""Acquisition functions of one posterior draw: Thompson's and believers'."""

from __future__ import annotations

import torch
from botorch.models.model import Model
from botorch.posteriors.posterior import Posterior
from botorch.sampling.pathwise import draw_matheron_paths
from botorch.utils.transforms import is_ensemble, t_batch_mode_transform
from torch import Generator, Tensor
from torch.nn import ModuleList

from botorch_pref.acquisition.duels import (
    ReferenceAcquisition,
    incumbent,
    observed_points,
    reference_point,
    takes_points,
    with_others,
)
from botorch_pref.acquisition.registration import register_acquisition
from botorch_pref.acquisition.rules import DuelingEUBO, DuelingUCB
from botorch_pref.models.derived_model import DerivedModel
from botorch_pref.models.known_covariance import KnownCovariance
from botorch_pref.numerics.argument_checks import (
    check_finite,
    check_points,
    checked_arguments,
)
from botorch_pref.posteriors.gaussian import (
    Moments,
    gaussian_posterior,
    shared_covariance_mixture,
)
from botorch_pref.posteriors.skew_normal import SkewNormalPosterior


@register_acquisition("thompson", reference=incumbent)
class DuelingThompson(ReferenceAcquisition):
    r"""Dueling Thompson sampling (Benavoli, Azzimonti and Piga 2021, section 5).

    .. math:: \alpha(x) = f_j(x) - f_j(x_r),

    where :math:`f_j` is one function drawn from the posterior when the instance is
    made, by Matheron's rule on a prior draw of random Fourier features. It stays fixed,
    so that :math:`\alpha` is smooth and its gradient exact. Every number of pending
    points has its own function: each member of a batch chosen one by one
    (``sequential=True``) maximises another draw. Of points that are chosen jointly, the
    second has the function of one pending point more, and so on, and the value is their
    mean improvement: the best batch is the same either way. The function of an
    ensemble, such as a fully Bayesian model, is that of one member drawn at random.

    Args:
        model: A model that BoTorch draws Matheron paths of: those of this package,
            ``PairwiseGP``, BoTorch's exact and variational single-output models.
        X_ref: The reference point, ``1 x d`` (or ``d``), or ``batch_shape x 1 x d``.
        generator: Source of the draws, on the CPU; torch's default one if None. It is
            read once, and the state of no other generator changes.

    Raises:
        FeedbackError: ``X_ref`` is no such point.
    """

    X_ref: Tensor
    paths: ModuleList
    _members: list[int]

    @checked_arguments
    def __init__(
        self, model: Model, X_ref: Tensor, generator: Generator | None = None
    ) -> None:
        """Draws the seed of all functions, and the first function."""
        # Before `super().__init__`, which sets pending points and draws with this seed.
        self._seed = int(torch.randint(2**62, (), generator=generator))
        super().__init__(model, reference_point(X_ref, model))

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Draws the function of this number of pending points, ``n x d`` or None."""
        super().set_X_pending(X_pending)
        self.paths, self._members = ModuleList(), []
        self._draw(self._num_pending)

    @property
    def _num_pending(self) -> int:
        return 0 if self.X_pending is None else self.X_pending.shape[-2]

    def _draw(self, number: int) -> None:
        """Adds the function for a point before which ``number`` points are pending.

        It and, of an ensemble, the member that it is drawn from depend on the seed of
        the instance and on ``number`` alone.
        """
        generator = Generator().manual_seed(self._seed)
        seed = int(torch.randint(2**62, (number + 1,), generator=generator)[-1])
        devices = list(range(torch.cuda.device_count()))
        # BoTorch draws features from the global generators, here seeded and restored.
        with torch.random.fork_rng(devices=devices), torch.no_grad():
            torch.manual_seed(seed)
            self.paths.append(draw_matheron_paths(self.model, torch.Size()))
            if is_ensemble(self.model):
                member = int(torch.randint(self.model.batch_shape[-1], ()))
                self._members.append(member)

    @takes_points
    @t_batch_mode_transform()  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """Averages improvements of new points on the reference, each by its own draw.

        The place of a point among the ``q`` chooses its draw.

        Args:
            X: New points, ``batch_shape x q x d``.

        Returns:
            ``batch_shape``, broadcast with the batch of the model.
        """
        while len(self.paths) < X.shape[-2]:
            self._draw(self._num_pending + len(self.paths))
        points = X.split(1, dim=-2)
        return torch.stack([self._gain(x, i) for i, x in enumerate(points)]).mean(0)

    def _gain(self, X: Tensor, place: int) -> Tensor:
        """Computes a point's improvement by the draw of its place, ``batch_shape``."""
        values = self.paths[place](with_others(X, self.X_ref))
        if self._members:
            values = values[..., self._members[place], :]
        return values[..., 0] - values[..., 1]


_TOGETHER = 128
"""Least number of points of several sets that are given a draw at once."""


class HallucinatedModel(DerivedModel):
    r"""A model whose posterior is conditioned on one draw (Takeno et al. 2023).

    Under the exact posterior, a `SkewNormalPosterior`, the draw is one of the latent
    variables :math:`v`: one component at random, a Gaussian process. Under a Gaussian
    posterior, of any model, it is one of the utilities at the observed points
    :math:`X`: with :math:`f(X) \sim N(m, C)`, :math:`C = V \Lambda V^T` and standard
    normal :math:`z`,

    .. math:: E[f(x) \mid z] = \mu(x) + A z, \qquad
        \operatorname{cov} = C_{**} - A A^T, \qquad
        A = C_{*X} V \Lambda^{-1/2} .

    Directions :math:`V` whose variance is below :math:`\epsilon^{2/3}` of the largest
    are known already, up to rounding, and left as they are. The draw is made once, with
    the instance: the posterior is a fixed function.

    Args:
        model: Any BoTorch model with training inputs and one output whose posterior is
            Gaussian or a `SkewNormalPosterior`.
        generator: Source of the draw, on the CPU; torch's default one if None.

    Raises:
        FeedbackError: The model has observed no points.
    """

    _points: Tensor
    _direction: Tensor
    _normal: Tensor

    @checked_arguments
    def __init__(self, model: Model, generator: Generator | None = None) -> None:
        """Draws a component and normals at the observed points, which stay fixed."""
        super().__init__()
        self.model = model
        self._covariance = KnownCovariance()
        points = observed_points(model)
        if not self._is_ensemble:
            # Answers may have a batch that points have not.
            points = points.expand(*model.batch_shape, *points.shape[-2:])
        self.register_buffer("_points", points.detach().clone())
        with torch.no_grad():
            posterior = model.posterior(points)
            # Of a mixture the component counts, else the normals. Both are drawn in any
            # case and in this order, on which results of a seed depend.
            self._is_skew = isinstance(posterior, SkewNormalPosterior)
            means, covariance = shared_covariance_mixture(posterior)
            self._component = int(torch.randint(len(means), (), generator=generator))
            shape = (*means.shape[1:], 1)
            normal = torch.randn(shape, generator=generator, dtype=torch.double)
            self.register_buffer("_normal", normal.to(means))
            self.register_buffer("_direction", _inverse_root(covariance))

    @property
    def _source(self) -> Model:
        return self.model

    @property
    def train_inputs(self) -> tuple[Tensor]:
        """The observed points, before any input transform."""
        return (self._points,)

    def moments(self, X: Tensor) -> Moments:
        """Computes moments of the utilities given the draw, of one component.

        Points are ``... x batch_shape x q x d`` before any input transform; the members
        of an ensemble are a batch.
        """
        has_transform = hasattr(self.model, "input_transform")
        dim = None if has_transform else self._points.shape[-1]
        X = check_finite("X", check_points("X", X, self._points, dim))
        if self._is_skew:
            means, covariance = shared_covariance_mixture(self.model.posterior(X))
            return Moments(means[self._component].unsqueeze(0), covariance)
        extra_dims = X.dim() - self._points.dim()
        if extra_dims <= 0 or self._is_ensemble:
            alone = self._given_draw(X.unsqueeze(0))
            return Moments(alone.means.squeeze(1), alone.covariance.squeeze(0))
        # Several sets share the covariance of the observed points. A posterior of all
        # sets at once would grow with the square of their number, so they are grouped.
        sets, size = X.flatten(0, extra_dims - 1), X.shape[-2]
        group = max(1, max(_TOGETHER, self._points.shape[-2]) // size)
        drawn = [self._given_draw(part) for part in sets.split(group)]
        shape = X.shape[:extra_dims]
        means = torch.cat([set_moments.means for set_moments in drawn], 1).unflatten(
            1, shape
        )
        covariance = torch.cat(
            [set_moments.covariance for set_moments in drawn]
        ).unflatten(0, shape)
        return Moments(means, covariance)

    def _given_draw(self, sets: Tensor) -> Moments:
        r"""Computes moments given the draw, of ``k x batch_shape x q x d`` sets.

        With the covariance :math:`C_{*X}` of a set with the observed points, of which
        :math:`V \Lambda V^T` is the covariance, the ``shift`` is :math:`A = C_{*X} V
        \Lambda^{-1/2}`: the mean moves by :math:`A z`, the covariance loses
        :math:`A A^T`.
        """
        known_covariance = self._covariance(self.model, self._points, self._direction)
        if known_covariance is not None:
            _, covariance_with = known_covariance
            alone, shift = covariance_with(sets)
            means = alone.means + (shift @ self._normal).squeeze(-1)
            return Moments(means, alone.covariance - shift @ shift.mT)
        # All sets in one joint posterior, of which their own blocks are taken.
        k, q = len(sets), sets.shape[-2]
        X = sets.movedim(0, -3).flatten(-3, -2)
        joint = self.model.posterior(with_others(X, self._points))
        means, covariance = shared_covariance_mixture(joint)
        shift = covariance[..., : k * q, k * q :] @ self._direction
        mean = means[..., : k * q] + (shift @ self._normal).squeeze(-1)
        set_covariance = covariance[..., : k * q, : k * q].unflatten(-1, (k, q))
        set_covariance = (
            set_covariance.unflatten(-3, (k, q))
            .diagonal(dim1=-4, dim2=-2)
            .movedim(-1, 0)
        )
        shift = shift.unflatten(-2, (k, q)).movedim(-3, 0)
        mean = mean.unflatten(-1, (k, q)).movedim(-2, 1)
        return Moments(mean, set_covariance - shift @ shift.mT)

    def make_posterior(self, moments: Moments) -> Posterior:
        """See base class: Gaussian, and without observation noise."""
        return gaussian_posterior(moments)


def _inverse_root(covariance: Tensor) -> Tensor:
    """Computes ``V L^-1/2`` of a covariance ``V L V'``, a root of its inverse.

    Columns whose variance is rounding are zeros: no draw moves what is known already.
    """
    values, vectors = torch.linalg.eigh(covariance)
    threshold = torch.finfo(values.dtype).eps ** (2 / 3) * values[..., -1:]
    unknown = values > threshold
    inverse = torch.where(unknown, torch.where(unknown, values, 1.0).rsqrt(), 0.0)
    return vectors * inverse.unsqueeze(-2)


@register_acquisition("hbei", reference=incumbent)
class DuelingHBEI(DuelingEUBO):
    r"""Expected improvement under one draw (Takeno et al. 2023, HB-EI).

    .. math:: \alpha(x) = E\big[\max(f(x) - f(x_r), 0) \mid z\big]

    of a :class:`~botorch_pref.acquisition.HallucinatedModel` with the draw :math:`z`,
    made once for the instance. The draw explores, by chance, as Thompson sampling does;
    the improvement is over what it leaves open. (The published code takes the variance
    of :math:`f(x)` for that of the difference.)

    Args:
        model: See :class:`~botorch_pref.acquisition.HallucinatedModel`.
        X_ref: The reference point, ``1 x d``, such as the winner of the last duel; by
            default the `incumbent` of the model, whatever the draw. See
            :class:`.DuelingAcquisition`, also for batches and pending points.
        generator: Source of the draw, on the CPU; torch's default one if None.

    Raises:
        FeedbackError: The model has observed no points, or ``X_ref`` is no such point.
    """

    def __init__(
        self,
        model: Model,
        X_ref: Tensor | None = None,
        generator: Generator | None = None,
    ) -> None:
        """Makes the draw; the default reference is the model's, whatever the draw."""
        super().__init__(*_believed(model, X_ref, generator))


@register_acquisition("hbucb", reference=incumbent)
class DuelingHBUCB(DuelingUCB):
    r"""Upper credible bound under one draw (Takeno et al. 2023, HB-UCB).

    .. math:: \alpha(x) = E[u \mid z]
        + \Phi^{-1}\big(\tfrac{1 + level}{2}\big) \sqrt{Var[u \mid z]}, \qquad
        u = f(x) - f(x_r),

    of a :class:`~botorch_pref.acquisition.HallucinatedModel` with the draw :math:`z`,
    made once for the instance.

    Args:
        model: See :class:`~botorch_pref.acquisition.HallucinatedModel`.
        X_ref: See `DuelingHBEI`.
        level: Probability of the interval, in (0, 1).
        generator: Source of the draw, on the CPU; torch's default one if None.

    Raises:
        FeedbackError: The model has observed no points.
        ValueError: ``level`` is not in (0, 1) or ``X_ref`` is no such point.
    """

    def __init__(
        self,
        model: Model,
        X_ref: Tensor | None = None,
        level: float = 0.95,
        generator: Generator | None = None,
    ) -> None:
        """Makes the draw; the default reference is the model's, whatever the draw."""
        super().__init__(*_believed(model, X_ref, generator), level)


def _believed(
    model: Model, X_ref: Tensor | None, generator: Generator | None
) -> tuple[HallucinatedModel, Tensor]:
    """Returns the model given a draw, and the reference, by default the incumbent."""
    reference = incumbent(model) if X_ref is None else X_ref
    return HallucinatedModel(model, generator), reference
