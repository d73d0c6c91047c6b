"""Raters: how reliable each one is, who stands out, and how far any two agree."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from botorch.models.model import Model
from numpy.polynomial.legendre import leggauss
from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch.special import ndtri

from botorch_pref.errors import BotorchPrefError, UnsupportedFeedbackError
from botorch_pref.evaluation.progress import NUM_SAMPLES, utility_samples
from botorch_pref.evaluation.scores import checked_names, table_of
from botorch_pref.feedback import Choices, Comparisons, Rankings
from botorch_pref.models import (
    CrowdPreferenceGP,
    PreferenceGP,
    PreferenceMarginalLogLikelihood,
    ReliabilityKernel,
)
from botorch_pref.models.answer_likelihoods import check_unbatched, model_link
from botorch_pref.models.crowd_noises import crowd_noise_curvature
from botorch_pref.models.rater_groups import at_raters
from botorch_pref.models.raters import (
    agreement_kernel,
    noise_curvature,
    reliability_kernel,
)
from botorch_pref.numerics.argument_checks import check_count

if TYPE_CHECKING:
    from pandas import DataFrame

OUTLIER_RATE = 0.05
"""Largest share of crowds of equally reliable raters in which one is an outlier."""

LEVEL = 0.95
"""Probability of the intervals."""


def rater_reliability(
    model: PreferenceGP,
    names: Sequence[Hashable] | None = None,
) -> DataFrame:
    r"""Makes a table of raters: the noise of each one's answers, and who stands out.

    The noise is relative to the geometric mean of all raters, so that 1 is the typical
    rater. Its interval is that of a Gaussian in the log noises, whose precision is the
    Hessian of the log posterior of all hyper-parameters at the fit (Laplace's
    approximation), exactly or by differences of the exact gradient. The other
    hyper-parameters are integrated out, except in directions that neither answers nor
    priors determine. The evidence has a longer tail towards large noise than this
    Gaussian: of a rater who answers at random the upper end says that the noise is
    large, and not how large.

    An ``outlier`` is a rater whose noise is above that of the others by more than
    chance explains. The likelihood ratio of the fitted noise and of the mean log noise
    of the others, all other hyper-parameters following, is compared with the quantile
    of a one-sided test at the level 0.05 / R: where all are equally reliable, somebody
    is named in one of twenty crowds at most. The test is asymptotic; below ten answers
    of each rater do not rely on it. Where the Gaussian promises less than a quarter of
    the quantile, the ratio is not evaluated.

    The table takes a gradient of the evidence for each hyper-parameter, and an
    evaluation for each rater who may stand out. Where `noise_curvature` or
    `crowd_noise_curvature` computes the Hessian in the noises from the solution, as
    under EP and with the noises as a factor of the whole kernel, the noises need none.

    Args:
        model: Fitted, without batches, of comparisons, choices and rankings, with a
            `ReliabilityKernel` in its kernel, see :func:`.rater_covar_module`.
        names: Of the raters, in the order of their numbers; by default the numbers.

    Returns:
        A row for each rater, with the number of ``answers``; ``noise``, a variance,
        with its interval from ``lower`` to ``upper``; ``names_better``, the probability
        that the rater names the better of two options whose utilities differ by one
        deviation of the typical rater's noise; and whether the rater is an ``outlier``.

    Raises:
        BotorchPrefError: The model has no `ReliabilityKernel`, is a batch or is not
            fitted, an answer is about points of two raters, there is one rater alone,
            or names are not one of each.
        UnsupportedFeedbackError: There are answers of another kind.
    """
    check_unbatched(model)
    kernel = _checked_kernel(model)
    labels = _labels(names, kernel.raters.long().tolist())
    answers = _answers_of_raters(model, kernel)
    fit = _fit_around(model)
    centred = torch.eye(len(labels)).to(fit.covariance) - 1 / len(labels)
    log_noise = kernel.spread * (centred @ fit.raw_noise)
    variance = centred @ fit.covariance[: len(labels), : len(labels)] @ centred
    deviation = kernel.spread * variance.diagonal().clamp_min(0.0).sqrt()
    half = deviation * ndtri(torch.tensor(0.5 + 0.5 * LEVEL).to(deviation))
    limit = ndtri(torch.tensor(OUTLIER_RATE / len(labels)).to(deviation)).square()
    unlike = [
        excess > 0 and fit.differs_from_others(rater, float(limit))
        for rater, excess in enumerate(log_noise.tolist())
    ]
    difference = model.likelihood.observation_variance.sqrt() * (-0.5 * log_noise).exp()
    win = model_link(model).win_probability(difference, torch.zeros_like(difference))
    columns = {
        "answers": answers,
        "noise": log_noise.exp(),
        "lower": (log_noise - half).exp(),
        "upper": (log_noise + half).exp(),
        "names_better": win,
        "outlier": torch.tensor(unlike),
    }
    return table_of(columns, labels)


def _checked_kernel(model: PreferenceGP) -> ReliabilityKernel:
    """Finds the kernel of raters' noises in a model, and checks that answers tell them.

    Raises:
        BotorchPrefError: There is none, it is not learned, or there are no answers.
        UnsupportedFeedbackError: There are answers whose scale is no noise.
    """
    kernel = reliability_kernel(model)
    if kernel is None or not kernel.raw_noise.requires_grad or not model.feedback:
        raise BotorchPrefError(
            "The model has no noise of each rater that answers tell of; give answers, "
            "and covar_module=rater_covar_module(d, noisy_raters=numbers)."
        )
    for block in model.feedback:
        if not isinstance(block, Comparisons | Choices | Rankings):
            raise UnsupportedFeedbackError(
                f"The scale of a rater's {type(block).__name__} is no noise; give "
                "comparisons, choices and rankings alone."
            )
    return kernel


def _answers_of_raters(model: PreferenceGP, kernel: ReliabilityKernel) -> Tensor:
    """Counts how many answers each rater gave, ``R``."""
    column = -1 if kernel.active_dims is None else int(kernel.active_dims[0])
    with torch.no_grad():
        numbers = model.transform_inputs(cast("Tensor", model.datapoints))[:, column]
    place, is_listed = kernel.places(numbers)
    # Raters without a noise of their own are counted behind all others, and left out.
    place = torch.where(is_listed, place, len(kernel.raters))
    total = torch.zeros(len(kernel.raters) + 1, dtype=torch.long, device=place.device)
    for block in model.feedback:
        rows = [getattr(block, names[0]) for names in block.tables.values()]
        for points in rows:
            is_foreign = (numbers[points] != numbers[points[:, :1]]) & (points >= 0)
            if bool(is_foreign.any()):
                answer = int(is_foreign.any(-1).nonzero()[0])
                raise BotorchPrefError(
                    f"Answer {answer} of {type(block).__name__} is about points of two "
                    "raters; give each answer the points of the rater who gave it."
                )
        rater_places = torch.cat([place[points[:, 0]] for points in rows])
        total.index_add_(0, rater_places, block.answer_counts)
    if not bool(total[:-1].any()):
        raise BotorchPrefError(
            f"No answer is of the raters {kernel.raters.tolist()}; an input transform "
            "must leave their numbers as they are."
        )
    return total[:-1]


_STEP = 2e-3
"""Step of differences, in raw parameters: most are logarithms, or those in spreads."""

_FLAT = 0.01
"""Curvature below which nothing determines a raw parameter: its deviation is ten."""

_MOST_SKEWED = 4.0
"""Ratio to the quadratic that a likelihood ratio may have; others are not evaluated."""

_NOT_FITTED = 0.1
"""Nats that the objective may lie below its maximum."""


@dataclass(frozen=True, eq=False)
class _Fit:
    """The objective around a fit, in coordinates that start with the raw log noises.

    ``basis`` has a column of raw parameters for each coordinate. ``covariance`` is the
    inverse Hessian of the loss.
    """

    loss: Callable[[Tensor], Tensor]
    smallest_loss: Tensor
    best: Tensor
    basis: Tensor
    raw_noise: Tensor
    covariance: Tensor

    def differs_from_others(self, rater: int, limit: float) -> bool:
        """Tells whether a rater's noise differs from the others' mean log noise.

        It does where twice the log likelihood ratio is above the limit. With the log
        noise of the rater held at the others' mean, all coordinates are those that
        minimise the quadratic of ``covariance``; the prior of noises does not count.

        Args:
            rater: By place.
            limit: The squared quantile of a standard normal.
        """
        count = len(self.raw_noise)
        contrast = self.best.new_zeros(len(self.covariance))
        contrast[:count] = -1 / (count - 1)
        contrast[rater] = 1.0
        along = self.covariance @ contrast
        excess = contrast[:count] @ self.raw_noise
        # The step to the least of the quadratic where the contrast is zero.
        step = -along * (excess / (contrast @ along))
        # The left side is the ratio by the quadratic. The ratio by the loss takes a
        # posterior, and is hardly ever more than `_MOST_SKEWED` times as large.
        if excess.square() / (contrast @ along) < limit / _MOST_SKEWED:
            return False
        moved = self.raw_noise + step[:count]
        # Takes the standard normal prior of the noises off twice the loss.
        prior = self.raw_noise.square().sum() - moved.square().sum()
        worse = self.loss(self.best + self.basis @ step) - self.smallest_loss
        return bool(2 * worse + prior > limit)


def _hessian(
    gradient: Callable[[Tensor], Tensor],
    best: Tensor,
    best_gradient: Tensor,
    is_noise: Tensor,
    of_noises: Tensor | None,
) -> Tensor:
    """Computes the Hessian of a loss, ``p x p``, by differences of its gradient.

    Args:
        gradient: Computes that of the loss at parameters, ``p``.
        best: The parameters where the Hessian is wanted, ``p``.
        best_gradient: The gradient there, ``p``.
        is_noise: Which parameters are raw noises, ``p``.
        of_noises: The Hessian in these, ``R x R``, which saves their differences; None
            where it is not known.
    """
    hessian = torch.diag_embed(best.new_zeros(len(best)))
    differ = ~is_noise if of_noises is not None else torch.ones_like(is_noise)
    for place in differ.nonzero().flatten().tolist():
        step = torch.zeros_like(best)
        step[place] = _STEP
        hessian[place] = (gradient(best + step) - best_gradient) / _STEP
    if of_noises is not None:
        # Other parameters' rows have the mixed entries; then the noises' own are set.
        hessian[is_noise] = hessian[:, is_noise].mT
        hessian[is_noise.unsqueeze(-1) & is_noise] = of_noises.flatten()
    return 0.5 * (hessian + hessian.mT)


def _fit_around(model: PreferenceGP) -> _Fit:
    """Expands the negative log posterior of hyper-parameters around a model's fit.

    Directions of other parameters in which it is flat are left out. The model stays as
    it is.

    Raises:
        BotorchPrefError: The model is not at a maximum.
    """
    model = deepcopy(model).train()
    objective = PreferenceMarginalLogLikelihood(model.likelihood, model)
    parameters = [p for p in model.parameters() if p.requires_grad]
    kernel = _checked_kernel(model)

    # Both leave the copy at the parameters that they are given: what needs it at the
    # fit comes before `_hessian`, which moves it.
    def gradient(vector: Tensor) -> Tensor:
        """Computes the gradient of the loss in raw parameters, ``p``."""
        vector_to_parameters(vector, parameters)
        loss = -objective.log_posterior()
        gradients = torch.autograd.grad(loss, parameters, materialize_grads=True)
        return parameters_to_vector(gradients)

    @torch.no_grad()
    def loss(vector: Tensor) -> Tensor:
        """Computes the negative log posterior at raw parameters, ``p``."""
        vector_to_parameters(vector, parameters)
        return -objective.log_posterior()

    best = parameters_to_vector(parameters).detach().clone()
    of_noise = [torch.full_like(p, float(p is kernel.raw_noise)) for p in parameters]
    is_noise = parameters_to_vector(of_noise) > 0
    is_crowd = isinstance(model, CrowdPreferenceGP)
    curvature = crowd_noise_curvature(model) if is_crowd else noise_curvature(model)
    best_gradient = gradient(best)
    of_noises = None
    if curvature is not None:
        # The prior of a raw noise, the log noise in spreads, is standard normal. The
        # curvature is that of the log evidence in log noises.
        of_noises = torch.eye(len(curvature)).to(best) - kernel.spread**2 * curvature
    hessian = _hessian(gradient, best, best_gradient, is_noise, of_noises)
    noise_axes, other_axes = (
        torch.eye(len(best)).to(best)[:, k] for k in (is_noise, ~is_noise)
    )
    curvature, directions = torch.linalg.eigh(other_axes.mT @ hessian @ other_axes)
    # The noises stay the first coordinates, as readers of a `_Fit` count on.
    basis = torch.cat(
        [noise_axes, other_axes @ directions[:, curvature > _FLAT]], dim=-1
    )
    root, failed = torch.linalg.cholesky_ex(basis.mT @ hessian @ basis)
    # A fit is a minimum, below which a step of Newton's would hardly get.
    if not int(failed):
        covariance = torch.cholesky_inverse(root)
        downhill = basis.mT @ best_gradient
    if int(failed) or float(downhill @ covariance @ downhill) > 2 * _NOT_FITTED:
        raise BotorchPrefError(
            "The noises of raters are not those with the largest evidence; fit the "
            "model first: fit_gpytorch_mll(PreferenceMarginalLogLikelihood("
            "model.likelihood, model))."
        )
    return _Fit(loss, loss(best), best, basis, best[is_noise], covariance)


def rater_agreement(
    model: Model,
    X: Tensor,
    raters: Tensor,
    names: Sequence[Hashable] | None = None,
    *,
    num_samples: int = NUM_SAMPLES,
    seed: int = 0,
) -> DataFrame:
    r"""Makes a table of pairs of raters: how far their utilities of items agree.

    The agreement of two raters is the correlation

    .. math:: \operatorname{corr}_i\big(f(x_i, u_r), f(x_i, u_s)\big)

    over the items, 1 for two who differ in level and scale only. Of a model with an
    :class:`.AgreementKernel` any two raters may agree more or less than the others do:
    the prior correlation :math:`\rho` of the two is uniform on (-1, 1), whatever the
    crowd's, so that circles and people who want the contrary are not drawn towards
    the others. Of other models joint draws of all utilities give the agreement. Its
    interval is wide for raters who said little.

    Args:
        model: Of stimuli and raters, see :func:`.rater_covar_module`; without batches
            or an ensemble.
        X: ``n x d`` items without columns of raters, three or more.
        raters: ``R`` numbers or ``R x r`` columns, two raters or more.
        names: Of the raters; by default numbers from 0.
        num_samples: Number of joint draws of all utilities.
        seed: Of the draws.

    Returns:
        A row for each pair, by the names of the ``first`` and the ``second``,
        ``agreement``, with its interval from ``lower`` to ``upper``.

    Raises:
        BotorchPrefError: There are too few different items or raters, or names that are
            not one of each.
    """
    check_unbatched(model)
    check_count("num_samples", num_samples, at_least=1)
    count = len(X.unique(dim=0))
    if count < 3:
        raise BotorchPrefError(f"X has {count} different items; give three or more.")
    labels = _labels(names, [*range(len(raters))])
    first, second = torch.triu_indices(len(labels), len(labels), 1)
    of_raters = isinstance(model, PreferenceGP) and agreement_kernel(model) is not None
    if not of_raters:
        utilities = utility_samples(model, at_raters(X, raters), num_samples, seed)
        by_rater = utilities.reshape(-1, len(X), len(labels)).mT
        draws = _correlation(by_rater[:, first], by_rater[:, second]).mT
        weights = torch.full_like(draws, 1 / draws.shape[-1])
    else:
        draws, weights = _agreements_of_pairs(
            cast("PreferenceGP", model), X, raters, (first, second), num_samples, seed
        )
    # Quantiles of weighted draws.
    order = draws.argsort(-1)
    ranked, shares = draws.gather(-1, order), weights.gather(-1, order).cumsum(-1)
    lower, upper = (
        ranked.gather(-1, (shares < tail).sum(-1, keepdim=True)).squeeze(-1)
        for tail in ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
    )
    columns = {"agreement": (weights * draws).sum(-1), "lower": lower, "upper": upper}
    table = table_of(columns)
    for name, places in (("first", first), ("second", second)):
        table[name] = [labels[i] for i in places.tolist()]
    return table.set_index(["first", "second"])


def _correlation(first: Tensor, second: Tensor) -> Tensor:
    """Computes correlations over the last dimension."""
    away = [x - x.mean(-1, keepdim=True) for x in (first, second)]
    first, second = (x / x.norm(dim=-1, keepdim=True) for x in away)
    return (first * second).sum(-1)


@dataclass(frozen=True)
class _RaterAnswers:
    r"""Answers of raters about items, each rater's apart, as Gaussian likelihoods.

    Utilities of the items are :math:`f_r \propto U z_r` with :math:`z_r \sim N(0, I)`
    before any answer, and answers add the precision :math:`A_r` and the shift
    :math:`b_r`.

    Attributes:
        root: :math:`U`, ``n x k``.
        precision: :math:`A_r`, ``R x k x k``.
        shift: :math:`b_r`, ``R x k``.
    """

    root: Tensor
    precision: Tensor
    shift: Tensor

    @classmethod
    @torch.no_grad()
    def from_model(
        cls, model: PreferenceGP, X: Tensor, raters: Tensor
    ) -> _RaterAnswers:
        """Reads the answers off the posterior in which raters have nothing in common.

        There a rater's own answers alone change the rater's utilities: in coordinates
        ``z``, whose prior is standard normal, the precision that the answers add is the
        inverse of the posterior covariance less the identity; the shift is that inverse
        times the posterior mean.

        Args:
            model: With an `AgreementKernel`.
            X: ``n x d`` items.
            raters: ``R`` numbers or ``R x r`` columns.
        """
        apart = deepcopy(model).eval()
        kernel = agreement_kernel(apart)
        assert kernel is not None, "the caller has looked"
        kernel.agreement = _NOTHING_SHARED
        points = at_raters(X, raters)
        # Each item is there for all raters before the next one.
        count, shape = len(raters), (len(X), len(raters))
        posterior: Any = apart.posterior(points)
        inputs = apart.transform_inputs(points)
        prior = apart.covar_module(inputs).to_dense()
        mean = posterior.mean.squeeze(-1) - apart.mean_module(inputs)
        by_rater = [torch.arange(r, len(points), count) for r in range(count)]
        priors, covariances = (
            torch.stack([matrix[i][:, i] for i in by_rater])
            for matrix in (prior, posterior.covariance_matrix)
        )
        # A rater's noise scales the utilities, which correlations do not see.
        scale = (priors.diagonal(dim1=-2, dim2=-1).sum(-1) / priors[0].trace()).sqrt()
        values, vectors = torch.linalg.eigh(priors[0])
        is_positive = values > _RANK_TOLERANCE * values[-1]
        vectors, deviations = vectors[:, is_positive], values[is_positive].sqrt()
        whiten = (vectors / deviations).mT
        white = whiten @ covariances @ whiten.mT / scale.square()[:, None, None]
        # No answer makes a variance larger; above 1 it is rounding.
        variances, axes = torch.linalg.eigh(white)
        precisions = 1 / variances.clamp(_RANK_TOLERANCE, 1.0)
        white_mean = (mean.reshape(shape).mT / scale[:, None]) @ whiten.mT
        along = (axes.mT @ white_mean.unsqueeze(-1)).squeeze(-1)
        return cls(
            vectors * deviations,
            (axes * (precisions - 1).unsqueeze(-2)) @ axes.mT,
            (axes @ (precisions * along).unsqueeze(-1)).squeeze(-1),
        )


_NOTHING_SHARED, _RANK_TOLERANCE, _NODES = 1e-6, 1e-8, 21
"""An agreement of raters who have nothing in common; directions of items and answers
that rounding leaves; and correlations of two raters that are averaged over."""


def _agreements_of_pairs(
    model: PreferenceGP,
    X: Tensor,
    raters: Tensor,
    pairs: tuple[Tensor, Tensor],
    num_samples: int,
    seed: int,
) -> tuple[Tensor, Tensor]:
    r"""Draws agreements of pairs of raters, and their weights, ``pairs x draws``.

    The answers of a rater add the precision :math:`A_r` and the shift :math:`b_r` to
    :math:`k` coordinates :math:`z_r`, see `_RaterAnswers`. With the prior correlation
    :math:`\rho` of two raters the posterior precision of their :math:`(z_r, z_s)` is

    .. math:: Q = \frac{1}{1 - \rho^2}
        \begin{pmatrix} I & -\rho I \\ -\rho I & I \end{pmatrix}
        + \begin{pmatrix} A_r & 0 \\ 0 & A_s \end{pmatrix},

    and the evidence of :math:`\rho` up to a constant, with :math:`b = (b_r, b_s)`,

    .. math:: -\tfrac k2 \log(1 - \rho^2) - \tfrac12 \log |Q|
        + \tfrac12 b^T Q^{-1} b .

    Correlations are Gauss-Legendre nodes, each with as many draws, of the same normal
    numbers for all pairs. The weights of a pair sum to one.

    Args:
        model: With an `AgreementKernel`.
        X: ``n x d`` items.
        raters: ``R`` numbers or ``R x r`` columns.
        pairs: Places of the first and of the second rater of each pair.
        num_samples: Draws of each pair, at least.
        seed: Of the draws.
    """
    answers = _RaterAnswers.from_model(model, X, raters)
    root = answers.root
    rank = root.shape[-1]
    nodes, node_weights = (torch.from_numpy(x).to(root) for x in leggauss(_NODES))
    # The prior of a correlation is uniform: the weights of nodes are its own.
    correlation = torch.ones(_NODES, 2, 2).to(root)
    correlation[:, [0, 1], [1, 0]] = nodes.unsqueeze(-1)
    eye = torch.eye(rank).to(root)
    priors = torch.stack(
        [torch.kron(c, eye) for c in correlation.inverse().contiguous()]
    )
    log_priors = node_weights.log() - 0.5 * rank * (1 - nodes.square()).log()
    # Rounded up.
    per_node = -(-num_samples // _NODES)
    generator = torch.Generator().manual_seed(seed)
    normal = torch.randn(2 * rank, per_node, generator=generator, dtype=torch.double)
    draws, weights = [], []
    for pair in torch.stack(pairs, -1):
        precision = priors + torch.block_diag(*answers.precision[pair])
        factor = torch.linalg.cholesky(precision)
        shift = answers.shift[pair].reshape(1, -1, 1).expand(_NODES, -1, -1)
        mean = torch.cholesky_solve(shift, factor)
        log_evidence = (
            log_priors
            - factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
            + 0.5 * (shift * mean).sum((-2, -1))
        )
        # Draws of N(Q^-1 b, Q^-1), whose halves are the two raters'.
        z = mean + torch.linalg.solve_triangular(factor.mT, normal.to(root), upper=True)
        first, second = (root @ part for part in z.split(rank, dim=-2))
        draws.append(_correlation(first.mT, second.mT).flatten())
        weight = log_evidence.softmax(0) / per_node
        weights.append(weight.repeat_interleave(per_node))
    return torch.stack(draws), torch.stack(weights)


def in_circles(pairs: DataFrame) -> list[int]:
    """Orders raters so that those who agree stand together, by average linkage.

    Figures and reports show them so.

    Args:
        pairs: The table of `rater_agreement`.

    Returns:
        The places of the raters in their new order.
    """
    # SciPy has pairs in the same order.
    apart = 1 - pairs["agreement"].to_numpy()
    tree = optimal_leaf_ordering(linkage(apart, "average"), apart)
    return [int(place) for place in leaves_list(tree)]


def _labels(
    names: Sequence[Hashable] | None, numbers: Sequence[Hashable]
) -> list[Hashable]:
    """Checks the names of raters, two or more; by default they are their numbers."""
    if len(numbers) < 2:
        raise BotorchPrefError(
            f"There are {len(numbers)} raters; give two raters or more."
        )
    labels = numbers if names is None else names
    return checked_names(labels, len(numbers), "raters")
