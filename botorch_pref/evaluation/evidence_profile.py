"""Profiles of the evidence, which tell whether answers identify a parameter."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, cast

import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch import Module
from torch import Tensor
from torch.nn import Parameter

from botorch_pref.errors import BotorchPrefError
from botorch_pref.models import PreferenceGP, PreferenceMarginalLogLikelihood

DROP = 1.9207
"""Half the 95 % quantile of a chi-square with one degree of freedom, in nats."""


@dataclass(frozen=True, eq=False)
class EvidenceProfile:
    """Profile of the log evidence: its maximum at each value of one parameter.

    Attributes:
        parameter: Dotted name in the model, for example
            ``likelihoods.Comparisons.noise``.
        values: `g` increasing values of it.
        log_evidence: `g` log evidences, every other parameter fitted to each value.
        priors: Whether the log priors of those other parameters are added to it.
    """

    parameter: str
    values: Tensor
    log_evidence: Tensor
    priors: bool = False

    @property
    def best(self) -> float:
        """The value on the grid with the largest log evidence."""
        return float(self.values[self.log_evidence.argmax()])

    @property
    def interval(self) -> tuple[float, float]:
        """Outermost values within 1.92 nats of the best, interpolated in the grid.

        A 95 % interval where there are answers enough for the evidence to be quadratic
        around its maximum (Wilks 1938). It ends with the grid where the grid does.
        """
        inside = self._inside
        lower, upper = int(inside[0]), int(inside[-1])
        return self._crossing(lower, lower - 1), self._crossing(upper, upper + 1)

    @property
    def identified(self) -> bool:
        """Whether both ends of the interval lie inside the grid."""
        inside = self._inside
        return bool(inside[0] > 0) and bool(inside[-1] < len(self.values) - 1)

    @property
    def _inside(self) -> Tensor:
        return (self._below_best <= DROP).nonzero().squeeze(-1)

    @property
    def _below_best(self) -> Tensor:
        return self.log_evidence.max() - self.log_evidence

    def _crossing(self, inside: int, outside: int) -> float:
        """Finds where the profile drops by 1.92 nats between two places of the grid.

        Where ``outside`` is beyond the grid, it is the value at the grid's end.
        """
        if not 0 <= outside < len(self.values):
            return float(self.values[inside])
        low, high = self._below_best[[inside, outside]]
        share = (DROP - low) / (high - low)
        return float(torch.lerp(self.values[inside], self.values[outside], share))

    def __str__(self) -> str:
        """Prints the table of the profile and its verdict."""
        head = f"{'value':>12} {'log evidence':>14} {'below best':>12}"
        rows = zip(self.values, self.log_evidence, self._below_best, strict=True)
        lines = [f"{v:12.4g} {e:14.3f} {b:12.3f}" for v, e, b in rows]
        lower, upper = self.interval
        evidence_sources = (
            "answers and priors of other parameters" if self.priors else "answers"
        )
        verdict = f"identified by {evidence_sources}"
        if not self.identified:
            verdict = f"not {verdict}: the grid does not contain both ends"
        best = f"best {self.best:.4g}, within {DROP:.2f} nats from {lower:.4g} to "
        best += f"{upper:.4g}: {verdict}"
        return "\n".join([f"log evidence by {self.parameter}", head, *lines, best])


def evidence_profile(
    model: PreferenceGP, parameter: str, values: Tensor, *, priors: bool = False
) -> EvidenceProfile:
    r"""Fits all other parameters at each value of one: a profile of the evidence.

    .. math:: \ell(\theta_1) = \max_{\theta_2}
        \log p(\mathcal{Y} \mid \theta_1, \theta_2)

    By default no prior counts. The profile of a parameter that is confounded with
    another one, as the noise of comparisons is with the kernel's output scale, is then
    flat. With ``priors=True`` the log priors of all other parameters are added, as in a
    fit, and give it a shape; that of the parameter itself never counts. Each fit starts
    from that of the neighbouring value, outwards from the value that the model has.

    Args:
        model: With answers, and without batches. It stays as it is.
        parameter: Dotted name of a scalar parameter by its natural value:
            ``likelihoods.Comparisons.noise``, ``covar_module.outputscale``. It may be
            one that the model does not learn.
        values: `g >= 3` increasing values.
        priors: Whether the priors of the other parameters count.

    Raises:
        BotorchPrefError: There is no such parameter, it is not a scalar, or the values
            are not increasing.
    """
    if len(values) < 3 or not bool((values.diff() > 0).all()):
        raise BotorchPrefError(
            f"values are {values.tolist()}; give at least three, increasing."
        )
    model = deepcopy(model)
    module, name, raw = _find(model, parameter)
    # Its prior is found by a gradient; then the fits are to leave it alone.
    raw.requires_grad_(True)
    _drop_priors(model, raw if priors else None)
    raw.requires_grad_(False)
    values = values.to(raw)
    start = int((values - getattr(module, name)).abs().argmin())
    log_evidence = torch.empty_like(values)

    for direction in (range(start, len(values)), range(start - 1, -1, -1)):
        for step in direction:
            setattr(module, name, values[step])
            log_evidence[step] = _maximum(model)
            if step == start:
                state = deepcopy(model.state_dict())
        # Downwards the fits begin where the first one ended, not at the largest value.
        model.load_state_dict(state)
    return EvidenceProfile(parameter, values.detach(), log_evidence, priors)


def _find(model: PreferenceGP, parameter: str) -> tuple[Module, str, Parameter]:
    """Finds a scalar parameter of a model by its dotted name.

    Returns:
        The module that has it, its name there, by which its natural value is set, and
        the raw parameter that holds it.
    """
    path, _, name = parameter.rpartition(".")
    raw_name = f"{path}.raw_{name}".lstrip(".")
    raw = dict(model.named_parameters()).get(raw_name)
    if raw is None or raw.numel() != 1 or model.batch_shape:
        scalars = [key for key, p in model.named_parameters() if p.numel() == 1]
        parameter_names = ", ".join(
            k.replace("raw_", "") for k in scalars if "raw_" in k
        )
        raise BotorchPrefError(
            f"{parameter!r} is not a scalar parameter of this {type(model).__name__} "
            f"of batch shape {tuple(model.batch_shape)}; known are "
            f"{parameter_names}, of models without batches."
        )
    return model.get_submodule(path), name, raw


def _drop_priors(model: PreferenceGP, parameter: Parameter | None) -> None:
    """Removes all priors from a model, or those of one parameter."""
    priors = cast("Callable[[], Iterable[Any]]", model.named_priors)
    for name, module, _, closure, _ in list(priors()):
        if parameter is None or _is_of(closure(module), parameter):
            del module._priors[name.rpartition(".")[-1]]


def _is_of(value: Tensor, parameter: Parameter) -> bool:
    """Tells whether a value, such as a prior's, depends on a parameter by gradients."""
    if not value.requires_grad:
        return False
    (gradient,) = torch.autograd.grad(value.sum(), parameter, allow_unused=True)
    return gradient is not None


def _maximum(model: PreferenceGP) -> Tensor:
    """Fits all learned parameters in place, and returns the largest objective, in nats.

    It is the log evidence, plus the log priors that the model still has.
    """
    mll = PreferenceMarginalLogLikelihood(model.likelihood, model)
    if any(p.requires_grad for p in model.parameters()):
        fit_gpytorch_mll(mll)
    mll.train()
    with torch.no_grad():
        return mll.forward(model.forward(*model.train_inputs), model.train_targets)
