r"""The objective of a fit, and the methods by which its user leaves it to us.

Hyper-parameters of a few answers move far from where they start, and what L-BFGS has
learned of the curvature there is soon out of date: with second derivatives Newton's
method in a trust region (Nocedal and Wright 2006, algorithm 4.1) takes half as many
evaluations. Those of a stationary kernel cost less than one: see
:mod:`botorch_pref.inference.evidence_curvature`. Elsewhere SciPy's L-BFGS minimises in
coordinates of the priors. Attempts and warnings are those of BoTorch's fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple, cast
from warnings import WarningMessage

import numpy as np
import torch
from botorch.exceptions.errors import ModelFittingError
from botorch.fit import DEFAULT_WARNING_HANDLER, _fit_fallback
from botorch.optim.utils import get_parameters_and_bounds
from gpytorch.distributions import MultivariateNormal
from gpytorch.likelihoods import Likelihood
from gpytorch.mlls import MarginalLogLikelihood
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, brentq, minimize
from torch import Tensor

from botorch_pref.errors import FeedbackError
from botorch_pref.inference.sweeps import MOST_ROWS
from botorch_pref.linalg.covariance import RowKernel, has_closed_form
from botorch_pref.models.utility_model import UtilityModel
from botorch_pref.numerics.argument_checks import checked_arguments

Array = NDArray[np.float64]
# Beyond so many scales second derivatives take longer than they save.
_MOST_SCALES = 16


def equal(a: Tensor, b: Tensor) -> bool:
    """Tells whether two tensors hold the same, at no cost if they are the same."""
    return a is b or (a.shape == b.shape and bool((a == b).all()))


def check_trainable(model: UtilityModel) -> None:
    """Raises a ``FeedbackError`` where a model has no datapoints."""
    if not model.train_inputs:
        raise FeedbackError(
            "A model without datapoints cannot be trained; pass datapoints= and "
            "comparisons=, or call eval() for predictions of the prior."
        )


class PreferenceMarginalLogLikelihood(MarginalLogLikelihood):
    r"""The log evidence of all answers plus the log priors of hyper-parameters.

    .. math:: \log p(\mathcal{Y} \mid \theta) + \sum_j \log p(\theta_j),

    the regularised evidence of Jensen and Nielsen (2014), section 5. One class for
    every model; use it with ``fit_gpytorch_mll``.

    Args:
        likelihood: ``model.likelihood``, as GPyTorch asks for.
        model: The model.
    """

    model: Any

    @checked_arguments
    def __init__(self, likelihood: Likelihood, model: UtilityModel) -> None:
        super().__init__(likelihood, model)

    def forward(
        self, function_dist: MultivariateNormal, target: Tensor | None, **kwargs: Any
    ) -> Tensor:
        """Computes the objective at the present hyper-parameters.

        Args:
            function_dist: Ignored: the evidence evaluates the prior at distinct points.
            target: The comparisons, ``model.train_targets``.
            kwargs: Ignored.

        Returns:
            ``batch_shape``.

        Raises:
            FeedbackError: Other comparisons than the model's.
        """
        comparisons = self.model.train_targets
        if target is not None and (
            comparisons is None or not equal(target, comparisons)
        ):
            raise FeedbackError(
                "The objective is that of the model's own comparisons, and these "
                "differ from them; set_train_data(comparisons=...) replaces them."
            )
        return self.log_posterior()

    def log_posterior(self) -> Tensor:
        """Computes the objective, ``batch_shape``, of hyper-parameters to a constant.

        Raises:
            FeedbackError: The model has no datapoints.
        """
        check_trainable(self.model)
        return self.with_priors(self.model.log_evidence())

    def with_priors(self, objective: Tensor) -> Tensor:
        """Adds the log priors of hyper-parameters to evidences, ``batch_shape``.

        Priors of a module without batches, such as thresholds of each item, count in
        every element of the batch; others in their own.
        """
        batches = objective.shape
        priors = cast("Callable[[], Iterable[Any]]", self.model.named_priors)
        # A kernel that is a part of two others has its priors once.
        terms = {(row[1], row[3]): row[2] for row in priors()}
        for (module, closure), prior in terms.items():
            log_prior = prior.log_prob(closure(module))
            # Not asked of one model: a kernel's batch shape takes long to compute.
            own_batch = batches and getattr(module, "batch_shape", batches)
            batch_terms = log_prior.reshape(*log_prior.shape[: len(own_batch)], -1)
            objective = objective + batch_terms.sum(-1)
        return objective

    def compute_custom_loss(self, **kwargs: Any) -> Tensor:
        """Computes the loss of ``fit_gpytorch_mll``: minus the objective, per datum.

        As GPyTorch's exact objectives it is divided by the number of data, so that the
        tolerances of an optimiser mean the same for any.

        A hook of BoTorch's, whose keywords are ignored: without it, each evaluation
        would make a prior at all datapoints that the evidence does not use.

        Raises:
            FeedbackError: The model has no datapoints.
        """
        return -self.log_posterior() / self.model.num_data


def fit(
    mll: Any,
    *,
    closure: Callable[..., Any] | None = None,
    optimizer_kwargs: dict[str, Any] | None = None,
    **arguments: Any,
) -> MarginalLogLikelihood:
    """Fits hyper-parameters for ``fit_gpytorch_mll``, by Newton's method or L-BFGS.

    A closure, an ``optimizer`` or keywords of one say how to fit, and BoTorch uses
    them. Without them Newton's method minimises if second derivatives are known, and
    L-BFGS in coordinates of the priors if not. Attempts, restarts from draws of the
    priors and warnings are BoTorch's.

    Args:
        mll: The objective of a `PreferenceGP`.
        closure: See ``fit_gpytorch_mll``.
        optimizer_kwargs: See ``fit_gpytorch_mll``.
        arguments: Its other arguments.
    """
    has_method = closure or optimizer_kwargs or "optimizer" in arguments
    is_ours = isinstance(mll, PreferenceMarginalLogLikelihood) and not has_method
    newton_closure = _newton_closure(mll) if is_ours else None
    if newton_closure is not None:
        closure, optimizer_kwargs = newton_closure, {"method": newton_closure.minimize}
    elif is_ours and mll.model.feedback:
        optimizer_kwargs = {"method": MinimizerByPriors(mll)}
    complaints: list[str] = []
    handler = arguments.pop("warning_handler", DEFAULT_WARNING_HANDLER)

    def note(warning: WarningMessage) -> bool:
        """Keeps warnings that make an attempt fail, for the error message."""
        harmless: bool = handler(warning)
        if not harmless:
            complaints.append(str(warning.message))
        return harmless

    try:
        fitted: MarginalLogLikelihood = _fit_fallback(
            mll,
            closure=closure,
            optimizer_kwargs=optimizer_kwargs,
            warning_handler=note,
            **arguments,
        )
    except ModelFittingError as error:
        raise ModelFittingError(_failure(mll, complaints)) from error
    return fitted


def _failure(mll: Any, complaints: Sequence[str]) -> str:
    """Writes why no attempt to fit a model led to an optimum, and what to do.

    The ``complaints`` are warnings of the attempts, of which the last is repeated.
    """
    reason = complaints[-1] if complaints else "the covariance could not be factored"
    text = (
        "All attempts to fit the model have failed; the last: "
        f"{reason.strip().removesuffix('.')}."
    )
    with_prior = {
        id(parameter)
        for _, module, _, _, _ in mll.named_priors()
        for parameter in module.parameters(recurse=False)
    }
    free = [
        name
        for name, parameter in mll.model.named_parameters()
        if parameter.requires_grad and id(parameter) not in with_prior
    ]
    if free:
        text += (
            f" There is no prior on {', '.join(free)}, so that answers which do not "
            "bound them lead anywhere, and further attempts start where the first one "
            "did: register priors, or requires_grad_(False) to hold them."
        )
    return text


# A fit ends at gains of such a share of the loss, or at slopes of so many nats for a
# deviation of a prior: those of the posterior are no longer, so that about 1e-5 nats
# are left.
_GAIN, _LEVEL = 1e-7, 3e-3
# A prior wider than ten raw units gives a parameter no unit.
_FLAT, _MOST_COORDINATES = 1e-2, 512


class MinimizerByPriors:
    """L-BFGS in coordinates in which log priors have unit curvature.

    Few answers change little of what the priors say, so that the loss is nearly round
    in them. In raw log odds of relevances, which are correlated, it is thirty times
    steeper in one direction than in another, and takes twice as many evaluations.

    Args:
        mll: The objective, at the hyper-parameters where the fit starts.
    """

    def __init__(self, mll: PreferenceMarginalLogLikelihood) -> None:
        """Computes the coordinates, by the priors at the present parameters.

        They are the raw parameters themselves where some of these is bounded, or more
        than `_MOST_COORDINATES` are learned.
        """
        raw_parameters, bounds = get_parameters_and_bounds(mll)
        raw = [value for value in raw_parameters.values() if value.requires_grad]
        count = sum(value.numel() for value in raw)
        ends: Any = chain.from_iterable(bounds.values())
        self._root = np.eye(count)
        # L-BFGS takes bounds of coordinates, which mix the parameters.
        if count <= _MOST_COORDINATES and not any(map(math.isfinite, ends)):
            self._root = _root_of_priors(mll, raw)
        self._num_data = mll.model.num_data
        # In single precision the rounding of the loss exceeds `_GAIN`.
        rounding = max((torch.finfo(value.dtype).eps for value in raw), default=0.0)
        self._gain = max(_GAIN, 100 * rounding)

    def __call__(
        self, fun: Callable[[Array], Any], x0: Array, **options: Any
    ) -> OptimizeResult:
        """Minimises as a method of ``scipy.optimize.minimize``, which calls it.

        L-BFGS moves in coordinates ``c`` of ``x = x0 + root c`` and sees the loss in
        nats, so that the tolerances mean the same for any number of data.

        Args:
            fun: The loss, per datum.
            x0: Raw parameters to start from.
            options: The gradient, ``jac``, ``bounds``, and what does not concern the
                method.
        """
        root, scale = self._root, self._num_data
        jac: Callable[[Array], Array] = options["jac"]

        def in_nats(step: Array) -> tuple[float, Array]:
            x = x0 + root @ step
            return scale * float(fun(x)), scale * (jac(x) @ root)

        bounds = options.get("bounds")
        if bounds is not None:
            # The root is the identity then, unless all of them are infinite.
            bounds = bounds - x0[:, None]
        result = minimize(
            in_nats,
            np.zeros_like(x0),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"ftol": self._gain, "gtol": _LEVEL},
        )
        result.x, result.fun = x0 + root @ result.x, result.fun / scale
        return result


def _root_of_priors(
    mll: PreferenceMarginalLogLikelihood, raw: Sequence[Tensor]
) -> Array:
    """Computes a root of the inverse curvature of log priors in raw parameters.

    Its columns, ``p x p``, are directions in which a step of 1 is about a deviation of
    the prior. Where priors are flat or not concave, the curvature counts as 1.
    """
    with torch.enable_grad():
        like = raw[0].new_zeros(mll.model.batch_shape)
        density = -mll.with_priors(like).sum()
        if not density.requires_grad:
            return np.eye(sum(part.numel() for part in raw))
        options: Any = {"materialize_grads": True, "allow_unused": True}
        slopes = torch.autograd.grad(density, raw, create_graph=True, **options)
        slope = torch.cat([part.flatten() for part in slopes])
        eye = torch.eye(len(slope)).to(slope)
        bends = torch.autograd.grad(slope, raw, eye, is_grads_batched=True, **options)
    # What no prior is about is a zero of the shape of the parameter.
    pairs = zip(bends, raw, strict=True)
    rows = [bend.expand(len(eye), *part.shape) for bend, part in pairs]
    hessian = torch.cat([row.reshape(len(eye), -1) for row in rows], -1).double()
    curvature, directions = torch.linalg.eigh(0.5 * (hessian + hessian.mT))
    curvature = torch.where(curvature > _FLAT, curvature, 1.0)
    root: Array = (directions / curvature.sqrt()).cpu().numpy()
    return root


def _newton_closure(mll: Any) -> NewtonClosure | None:
    """Makes the closure for Newton's method; None where L-BFGS is to fit.

    Second derivatives are known in the raw scales of a stationary kernel, without
    bounds, of one model in double precision with answers and without covariates. They
    save time for up to `_MOST_SCALES` scales, and for up to `MOST_ROWS` rows, no more
    than points.
    """
    model, (raw_parameters, bounds) = mll.model, get_parameters_and_bounds(mll)
    parameters = {
        name: raw for name, raw in raw_parameters.items() if raw.requires_grad
    }
    count = sum(raw.numel() for raw in parameters.values())
    ends: Any = chain.from_iterable(bounds.values())
    if not 0 < count <= _MOST_SCALES or any(map(math.isfinite, ends)):
        return None
    if not model.feedback or model.batch_shape:
        return None
    points, rows = model.transformed_points().detach(), model.factors().rows
    if not has_closed_form(model.covar_module, points):
        return None
    # Weights of covariates are columns behind those of the points.
    if points.dtype != torch.double or rows.num_points > len(points):
        return None
    if rows.num_rows > min(MOST_ROWS, len(points)):
        return None
    kernel = RowKernel(model.covar_module, points, rows.indices, rows.coefficients)
    # Noise or a mean that is learned too has no second derivatives here.
    if not {*map(id, parameters.values())} <= {*map(id, kernel.raw_scales)}:
        return None
    return NewtonClosure(mll, parameters, kernel)


class NewtonClosure:
    """The loss of a model of few answers, with its first and second derivatives.

    ``hessian`` has the second ones where the loss was evaluated last; None where these
    are not known.

    Args:
        mll: The objective.
        parameters: Raw scales of the model's kernel, by name.
        kernel: Of the rows of the answers.
    """

    def __init__(
        self, mll: Any, parameters: dict[str, Tensor], kernel: RowKernel
    ) -> None:
        """Keeps the parts; parameters stay in the order in which a fit has them."""
        self._mll, self._kernel, self._raw = mll, kernel, [*parameters.values()]
        self._places = kernel.places(self._raw)
        self.hessian: Array | None = None
        self._wants_hessian = True

    def __call__(self, **_: Any) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Computes the loss per datum and its gradient, as BoTorch takes them.

        It also sets ``hessian``. With the log scales :math:`l(r)` of raw parameters
        ``r`` that is :math:`l' l'` times the second derivatives in ``l``, and on the
        diagonal the second derivatives of priors and of ``l``: these are taken to be of
        each scale by itself. Where none are known, autograd gives the gradient.
        """
        # A graph takes time, and is needed only where the last call had no Hessian.
        count, has_graph = self._mll.model.num_data, self.hessian is None
        with torch.set_grad_enabled(has_graph):
            solution = self._mll.model.evidence_solution()
        derivatives = None
        if self._wants_hessian:
            derivatives = solution.evidence_derivatives(self._kernel)
        if derivatives is None:
            self.hessian = None
            if not has_graph:
                return self()  # once more, now with a graph
            loss = -self._mll.with_priors(solution.log_evidence).sum() / count
            return loss.detach(), torch.autograd.grad(loss, self._raw)
        first, second = derivatives
        with torch.enable_grad():
            logs = self._kernel.log_scales()
            prior = self._mll.with_priors(logs.new_zeros(()))
            gradient = self._gradient(torch.from_numpy(first) @ logs + prior)
            slope = _flat(self._gradient(logs.sum()))
            bend = _flat(self._gradient(sum(part.sum() for part in gradient)))
        scale_hessian = (
            np.outer(slope, slope) * second[np.ix_(self._places, self._places)]
        )
        self.hessian = -(scale_hessian + np.diag(bend)) / count
        loss = -(solution.log_evidence + prior).detach() / count
        return loss, tuple(-part.detach() / count for part in gradient)

    def _gradient(self, value: Any) -> tuple[Tensor, ...]:
        """Computes the gradient in the raw scales, with its graph."""
        return torch.autograd.grad(value, self._raw, create_graph=True)

    def minimize(
        self, fun: Callable[[Array], Any], x0: Array, **options: Any
    ) -> OptimizeResult:
        """Minimises as a method of ``scipy.optimize.minimize``, by Newton's steps.

        Where second derivatives are not known, or Newton's method finds no optimum,
        L-BFGS goes on from there, without second derivatives.

        Args:
            fun: The loss, which calls this closure, and so sets ``hessian``.
            x0: Raw scales to start from.
            options: The gradient, ``jac``, and what does not concern the method.
        """
        jac: Callable[[Array], Array] = options["jac"]

        def evaluate(x: Array) -> Evaluation:
            # The loss first, for it sets the Hessian. BoTorch writes the next gradient
            # into the same array.
            return Evaluation(float(fun(x)), jac(x).copy(), self.hessian)

        self._wants_hessian = True
        start = evaluate(x0)
        if np.isfinite(start.value) and start.hessian is not None:
            result = minimize_by_newton(evaluate, x0, start)
            if result.success:
                return result
            x0 = result.x
        self.hessian, self._wants_hessian = None, False
        return minimize(fun, x0, jac=jac, method="L-BFGS-B")


def _flat(parts: Sequence[Tensor]) -> Array:
    flat: Array = torch.cat([part.detach().flatten() for part in parts]).numpy()
    return flat


class Evaluation(NamedTuple):
    """A function, its gradient ``p`` and its Hessian ``p x p``, None if not known."""

    value: float
    gradient: Array
    hessian: Array | None


# The share of a value that a step gains, below which it is the last. There the model is
# right to the square of that, and less is left than SciPy's L-BFGS-B leaves; the slope
# is that at which it ends.
_LAST, _SLOPE = 1e-6, 1e-5
# Where that does not lead there, L-BFGS goes on: the optimum may be at infinity.
_MOST_STEPS, _SHORTEST = 25, 1e-8
_ENOUGH, _POOR, _GOOD = 0.1, 0.25, 0.75


def minimize_by_newton(
    evaluate: Callable[[Array], Evaluation], x: Array, current: Evaluation
) -> OptimizeResult:
    """Minimises by Newton's method in a trust region (Nocedal and Wright, alg. 4.1).

    The radius is 1 at first. It shrinks where a step gains little of what the quadratic
    model promises, and grows where the model is good and the step was as long as it may
    be. The last step is taken without a look at the function there.

    Args:
        evaluate: The function; where its value is not a number, the step was too long.
        x: Where to start, ``p``.
        current: The value and the derivatives there.
    """
    radius, evaluations, converged = 1.0, 1, False
    while evaluations < _MOST_STEPS and radius > _SHORTEST:
        if converged := bool(np.abs(current.gradient).max() <= _SLOPE):
            break
        step, gain = _step(current, radius)
        length = float(np.linalg.norm(step))
        is_newton = current.hessian is not None and length < radius
        if is_newton and gain <= _LAST * max(1.0, abs(current.value)):
            x, current, converged = (
                x + step,
                current._replace(value=current.value - gain),
                True,
            )
            break
        trial = evaluate(x + step)
        evaluations += 1
        share = np.nan_to_num((current.value - trial.value) / gain, nan=-np.inf)
        if share < _POOR:
            radius = _POOR * length
        elif share > _GOOD and length > 0.99 * radius:
            radius *= 2
        if share > _ENOUGH:
            x, current = x + step, trial
    end = "There is no more to gain" if converged else "No optimum was found"
    return OptimizeResult(
        x=x,
        fun=current.value,
        nit=evaluations,
        nfev=evaluations,
        success=converged,
        message=f"{end} after {evaluations} evaluations.",
    )


def _step(evaluation: Evaluation, radius: float) -> tuple[Array, float]:
    """Finds the best step of at most ``radius`` by the quadratic model, and its gain.

    It is :math:`-(H + s I)^{-1} g` with the least ``s`` of 0 or more for which ``H + s
    I`` is positive definite and the step is not too long. The gain, in units of the
    function, is positive. A Hessian of None counts as the identity.
    """
    hessian = (
        np.eye(len(evaluation.gradient))
        if evaluation.hessian is None
        else evaluation.hessian
    )
    curvature, directions = np.linalg.eigh(hessian)
    slope = directions.T @ evaluation.gradient

    def excess(shift: float) -> float:
        return float(np.linalg.norm(slope / (curvature + shift))) - radius

    # With a smaller shift the model has no minimum.
    min_shift = max(0.0, -curvature[0]) + 1e-12 * max(1.0, abs(curvature).max())
    shift = 0.0 if curvature[0] > 0 and excess(0.0) <= 0 else min_shift
    if shift and excess(min_shift) > 0:
        max_shift = min_shift + float(np.linalg.norm(slope)) / radius
        shift = brentq(excess, min_shift, max_shift)
    coordinates = -slope / (curvature + shift)
    return directions @ coordinates, -float(
        slope @ coordinates + 0.5 * curvature @ coordinates**2
    )
