"""Effects of features and parameters on utility, and how probably each matters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from botorch.models.model import Model
from botorch.utils.transforms import is_ensemble
from gpytorch.kernels import AdditiveKernel, Kernel, ProductKernel, ScaleKernel
from torch import Generator, Tensor

from botorch_pref.errors import BotorchPrefError
from botorch_pref.evaluation.progress import (
    NUM_SAMPLES,
    posterior_samples,
    utility_posterior,
)
from botorch_pref.feedback import Feedback
from botorch_pref.models import (
    AveragedUtility,
    PreferenceGP,
    RelevanceKernel,
)
from botorch_pref.models.plausible import member_batches
from botorch_pref.models.raters import answered_model
from botorch_pref.models.utility_model import check_one_to_one
from botorch_pref.numerics.argument_checks import check_kind, check_probabilities
from botorch_pref.posteriors.gaussian import central_interval, mean_of

QUANTILES = (0.05, 0.95)
"""The range of each feature over which its effect is told."""


@dataclass(frozen=True)
class FeatureEffect:
    """Partial dependence of the utility on the feature ``name``.

    At `g` increasing ``values`` of it, the ``mean`` change of utility against the first
    one, and the posterior standard ``deviation`` of that.
    """

    name: str
    values: Tensor
    mean: Tensor
    deviation: Tensor


def feature_effect(
    model: Model,
    datapoints: Tensor,
    names: tuple[str, ...],
    feature: int,
    generator: Generator,
    num_values: int = 25,
    num_background: int = 16,
) -> FeatureEffect:
    """Averages the utility over the other features: partial dependence on one.

    With `x_b[v]` the drawn item `b` whose feature is set to `v`, the effect at `v` is
    `mean_b f(x_b[v]) - mean_b f(x_b[v_1])` (Friedman, 2001, eq. 53), with the smallest
    value `v_1`. It is linear in `f`, so that its mean and covariance follow from those
    of the joint posterior, and free of the level of utility, which comparisons never
    show.

    Args:
        model: A model with a joint posterior; or an ensemble: then mean and deviation
            are those of the mixture of its members.
        datapoints: `n x d` items in the units that the model takes.
        names: `d` names.
        feature: Which feature moves.
        generator: Source of the drawn items.
        num_values: Number of values `g`, between the quantiles 0.05 and 0.95.
        num_background: Number of items averaged over.
    """
    ends = datapoints[:, feature].quantile(datapoints.new_tensor(QUANTILES))
    values = torch.linspace(0, 1, num_values).to(ends) * (ends[1] - ends[0]) + ends[0]
    drawn = torch.randint(len(datapoints), (num_background,), generator=generator)
    X = datapoints[drawn].expand(num_values, -1, -1).clone()
    X[..., feature] = values[:, None]
    # A row for each value: the mean of its points less that of the first value's.
    averaging = torch.eye(num_values).to(X) - torch.eye(num_values).to(X)[0]
    contrast = (averaging / num_background).repeat_interleave(num_background, dim=-1)
    with torch.no_grad():
        # Any: BoTorch's base class declares neither mean nor covariance.
        posterior: Any = check_one_to_one(model).posterior(X.flatten(end_dim=1))
        mean = (contrast @ posterior.mean).squeeze(-1)
        covariance = contrast @ posterior.covariance_matrix @ contrast.T
    variance = covariance.diagonal(dim1=-2, dim2=-1).clamp_min(0)
    if is_ensemble(model):
        variance = variance.mean(0) + mean.var(0, correction=0)
        mean = mean.mean(0)
    return FeatureEffect(names[feature], values, mean, variance.sqrt())


def inclusion_probabilities(
    model: AveragedUtility, inputs: Sequence[Sequence[int]]
) -> list[float]:
    r"""Computes the probability that an input matters at all; 1/2 before any answer.

    A model in which the relevance of an input is 0 says that it does nothing (see
    `RelevanceKernel`). With draws :math:`\theta_s` of the hyper-parameters given the
    answers :math:`D`, and the same :math:`\theta_s^{-}` but for that relevance,

    .. math:: P(\text{matters} \mid D) = \Big(1 + \frac{1}{S} \sum_s
        \frac{p(D \mid \theta_s^{-})}{p(D \mid \theta_s)}\Big)^{-1} :

    the mean of ratios is that of the evidence without the input to the evidence with
    it. It is called the posterior inclusion probability (Barbieri and Berger 2004); all
    other inputs may matter. An effect that is small beside the noise counts as little
    as none.

    Args:
        model: Of which the members are plausible models.
        inputs: The columns of each input; of several inputs, whether any of them
            matters.

    Returns:
        A probability each. It is NaN where no kernel has relevances of the columns or
        another one depends on them, too, and of all inputs at once, for without any
        nothing is left of the kernel.

    Raises:
        FeedbackError: Another kind of model.
    """
    check_kind("model", model, AveragedUtility)
    log_ratios: list[list[Tensor]] = [[] for _ in inputs]
    with torch.no_grad():
        for batch in member_batches(model.members):
            source = answered_model(batch)
            # A copy, for its relevances change, without the solution, which is large.
            changed = source.with_feedback(source.feedback)
            evidence = changed.evidence_value()
            for ratios, columns in zip(log_ratios, inputs, strict=True):
                without = _evidence_without(changed, columns)
                if without is not None:
                    ratios.append((without - evidence).flatten())
    return [
        float((math.log(sum(map(len, r))) - torch.cat(r).logsumexp(0)).sigmoid())
        if r
        else math.nan
        for r in log_ratios
    ]


def _evidence_without(model: PreferenceGP, columns: Sequence[int]) -> Tensor | None:
    """Computes the log evidence where the inputs of these columns have the relevance 0.

    It is None where there are no such inputs, or no others, or where the columns count
    without these relevances. In the end the model has the relevances that it had.
    """
    with_inputs = _relevant_inputs(model.covar_module, columns)
    kernels, places = [k for k, _ in with_inputs], [inputs for _, inputs in with_inputs]
    before = [kernel.raw_relevance.clone() for kernel in kernels]
    are_all = [len(p) == b.shape[-1] for p, b in zip(places, before, strict=True)]
    if not any(places) or any(are_all):
        return None
    for kernel, inputs in zip(kernels, places, strict=True):
        kernel.raw_relevance[..., inputs] = -torch.inf
    evidence = None if _depends_on(model, columns) else model.evidence_value()
    for kernel, relevance in zip(kernels, before, strict=True):
        kernel.raw_relevance.copy_(relevance)
    return evidence


def _relevant_inputs(
    kernel: Kernel, columns: Sequence[int]
) -> list[tuple[RelevanceKernel, list[int]]]:
    """Finds the kernels with relevances, and which of their inputs have the columns.

    Columns are counted as the ``kernel`` gets them, before it selects any.
    """
    if kernel.active_dims is not None:
        active = kernel.active_dims.tolist()
        columns = [place for place, column in enumerate(active) if column in columns]
    if isinstance(kernel, ScaleKernel):
        # It selects columns in place of its part.
        kernel = kernel.base_kernel
    if isinstance(kernel, RelevanceKernel):
        return [(kernel, kernel.inputs_of(columns))]
    parts = kernel.kernels if isinstance(kernel, AdditiveKernel | ProductKernel) else ()
    return [pair for part in parts for pair in _relevant_inputs(part, columns)]


def _depends_on(model: PreferenceGP, columns: Sequence[int]) -> bool:
    """Tells whether the prior covariance of points depends on some of their columns."""
    points = model.transformed_points()
    moved = points.clone()
    moved[..., [*columns]] = points.roll(1, -2)[..., [*columns]]
    covariances = [model.covar_module(x, points, diag=True) for x in (points, moved)]
    return not torch.equal(*covariances)


_CHUNK, _NEXT_TO = 64, 1e-3
"""Points whose joint posterior is asked for at once, as only each by itself is told;
and a share of a range, nearer than which rounding leaves a difference no variance."""


@dataclass(frozen=True)
class Dimension:
    """A parameter: numbers within bounds, or ``choices`` where there are some.

    ``log`` says whether the scale is logarithmic, ``whole`` whether only whole numbers
    count.
    """

    name: str
    bounds: tuple[float, float] = (0.0, 1.0)
    choices: tuple[Any, ...] = ()
    log: bool = False
    whole: bool = False

    def values(self, number: int, reference: Any = None) -> list[Any]:
        """Lists the choices, or a number of values evenly on the scale, with the ends.

        The ``reference``, the value of a design whose effects are shown, is among
        numbers instead of those next to it. Numbers increase.
        """
        if self.choices:
            return [*self.choices]
        low, high = self.bounds
        scale = math.log if self.log else float
        ends = scale(low), scale(high)
        numbers = torch.linspace(*ends, number, dtype=torch.float64)
        fixed_values = set()
        if reference is not None and low <= reference <= high:
            fixed_values = {reference}
            apart = (numbers - scale(reference)).abs()
            numbers = numbers[apart > _NEXT_TO * (ends[1] - ends[0])]
        numbers = numbers.exp() if self.log else numbers
        # The ends as they were given, which a logarithm could round to outside.
        grid = numbers.clamp(low, high).tolist()
        return sorted(
            fixed_values | {round(value) if self.whole else value for value in grid}
        )


def dimension_of(dimensions: Sequence[Dimension], key: int | str) -> Dimension:
    """Finds the parameter of this name, or of this number from 0."""
    names = [dimension.name for dimension in dimensions]
    if isinstance(key, int) and -len(names) <= key < len(names):
        return dimensions[key]
    if key not in names:
        raise BotorchPrefError(
            f"There is no parameter {key!r}; there are {', '.join(names)}, and "
            f"numbers from 0 to {len(names) - 1}."
        )
    return dimensions[names.index(key)]


class Changes(NamedTuple):
    """Changes of utility from a design to others, ``n`` each.

    Attributes:
        mean: Of each change; 0 where a design is the first one.
        lower: Lower ends of a band that holds all changes at once with the probability
            that was asked for.
        upper: Its upper ends.
    """

    mean: Tensor
    lower: Tensor
    upper: Tensor


def simultaneous_band(draws: Tensor, level: float) -> tuple[Tensor, Tensor]:
    r"""Computes a band that holds a whole curve with the probability ``level``.

    With the central quantiles :math:`l_v` and :math:`u_v` of the draws at each place
    ``v`` of the curve and their medians :math:`m_v`, the band is from :math:`m_v - c
    (m_v - l_v)` to :math:`m_v + c (u_v - m_v)`. The factor :math:`c`, one for all
    places, is the least with which the share ``level`` of the drawn curves is inside
    everywhere (Montiel Olea and Plagborg-Moller 2019). Intervals of single places leave
    a curve out somewhere more often than each of them does.

    Args:
        draws: ``S x n`` curves, which differ from each other at every place.
        level: Probability, in (0, 1).

    Returns:
        Lower and upper ends, ``n`` each.
    """
    check_probabilities("level", torch.tensor(level, dtype=torch.float64))
    parts = draws.new_tensor([(1 - level) / 2, 0.5, (1 + level) / 2])
    lower, middle, upper = draws.quantile(parts, dim=0)
    below, above = middle - lower, upper - middle
    distance = torch.maximum((draws - middle) / above, (middle - draws) / below)
    factor = distance.amax(-1).quantile(level)
    return middle - factor * below, middle + factor * above


def changes_from(model: Model, design: Tensor, moved: Tensor, level: float) -> Changes:
    """Computes how utility changes from a design to others, all at once.

    Args:
        model: With a joint posterior; members of an ensemble count alike.
        design: ``1 x d``.
        moved: ``n x d``.
        level: Probability of the band, in (0, 1), see `simultaneous_band`.
    """
    # The design differs from itself by nothing, and has no quantiles.
    differs = (moved != design).any(-1)
    mean, lower, upper = torch.zeros(3, len(moved), dtype=torch.float64)
    if not differs.any():
        return Changes(mean, lower, upper)
    points = torch.cat([design, moved[differs]])
    # One posterior for means and draws.
    posterior = utility_posterior(model, points)
    means = mean_of(posterior).cpu().double()
    samples = posterior_samples(model, posterior, NUM_SAMPLES, seed=0)
    draws = samples.flatten(end_dim=-2).cpu().double()
    changes, places = draws[:, 1:] - draws[:, :1], differs.nonzero().flatten().cpu()
    mean[places] = lower[places] = upper[places] = means[1:] - means[0]
    # Of inputs that a kernel leaves out, rounding alone makes changes differ.
    rounding = math.sqrt(torch.finfo(samples.dtype).eps)
    varies = changes.std(0) > rounding * draws.std(0).amax()
    if varies.any():
        places, changes = places[varies], changes[:, varies]
        lower[places], upper[places] = simultaneous_band(changes, level)
    return Changes(mean, lower, upper)


@dataclass(frozen=True, eq=False)
class Designs:
    """Designs by the names of the parameters that vary, and the model of their utility.

    ``best`` is the incumbent, ``shown`` has the design of each datapoint of the
    ``feedback``. ``points_of`` makes designs what the model takes, ``n x d``;
    ``is_allowed`` says whether the search space has one.
    """

    model: Any
    dimensions: tuple[Dimension, ...]
    best: Mapping[str, Any]
    shown: Sequence[Mapping[str, Any]]
    feedback: Sequence[Feedback]
    points_of: Callable[[Sequence[Mapping[str, Any]]], Tensor]
    is_allowed: Callable[[Mapping[str, Any]], bool] = lambda _: True

    def intervals(
        self,
        designs: Sequence[Mapping[str, Any]],
        level: float,
        reference: Mapping[str, Any] | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Computes utilities of designs, or differences to that of a reference.

        Returns:
            Means, and the lower and upper ends of intervals of probability ``level``,
            one a design. They are NaN where the search space does not have a design,
            and 0 where it is the reference.
        """
        allowed = torch.tensor([self.is_allowed(design) for design in designs])
        estimates = torch.full((3, len(designs)), torch.nan, dtype=torch.float64)
        rows = allowed.nonzero().squeeze(-1)
        against = None if reference is None else self.points_of([reference])
        with torch.no_grad():
            for part in rows.split(_CHUNK):
                X = self.points_of([designs[row] for row in part.tolist()])
                if against is None:
                    posterior = self.model.posterior(X)
                else:
                    # A design differs from itself by nothing, and has no quantiles.
                    estimates[:, part] = 0.0
                    differs = (against != X).any(-1)
                    X, part = X[differs], part[differs]
                    if len(part) == 0:
                        continue
                    posterior = self.model.duel_posterior(X, against)
                intervals = torch.stack(central_interval(posterior, level))
                estimates[:, part] = intervals.cpu().double()
        return estimates[0], estimates[1], estimates[2]

    def columns(self, dimension: Dimension) -> list[int]:
        """Lists the columns of points that change with a parameter."""
        values = dimension.values(2)
        points = self.points_of([{**self.best, dimension.name: v} for v in values])
        return (points != points[:1]).any(0).nonzero().flatten().tolist()

    def effect(
        self, dimension: Dimension, at: Mapping[str, Any], number: int, level: float
    ) -> tuple[list[Any], Changes]:
        """Lists values of a parameter, and how each changes the utility of ``at``.

        There are as many values as ``number`` says, or all choices, and that of ``at``
        is among them. Changes are NaN where the search space does not have the changed
        design.
        """
        values = dimension.values(number, reference=at[dimension.name])
        moved = [{**at, dimension.name: value} for value in values]
        allowed = torch.tensor([self.is_allowed(design) for design in moved])
        points = self.points_of([at, *(moved[i] for i in allowed.nonzero().flatten())])
        changes = changes_from(self.model, points[:1], points[1:], level)
        curve = torch.full((3, len(values)), torch.nan, dtype=torch.float64)
        curve[:, allowed] = torch.stack(changes)
        return values, Changes(*curve)
