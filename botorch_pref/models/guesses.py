"""How precise a person is who may guess, by the evidence of her answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from typing import Any, NamedTuple

import torch
from gpytorch.priors import LogNormalPrior
from threadpoolctl import threadpool_limits
from torch import Tensor
from torch.distributions import Normal

from botorch_pref.errors import BotorchPrefError
from botorch_pref.feedback import Choices, Comparisons, Rankings
from botorch_pref.inference.engine import WarmStart
from botorch_pref.models.preference_gp import PreferenceGP

GUESSING, GUESSED = 0.5, 0.9
"""The probability that a person guesses before any answer, and that above which her
answers are taken for guesses. Below it models of a coin among the others would make
statements about people too narrow: half of those who answered thirty chosen duels have
about a half."""

_LOG_NOISE = 8.0
"""Logarithm of the noise of one who guesses: beside an output scale of ten her answers
are those of a coin."""

_NEGLIGIBLE, _FINE = 8.0, 0.6
"""Nats below the most probable value: what is less probable changes no mean; and the
least deviation in steps."""


class _Precision(NamedTuple):
    """The hyper-parameter that says how far utilities spread beside the noise.

    Attributes:
        module: The likelihood, or the kernel.
        name: Of the hyper-parameter.
        guessed: Its logarithm where a person guesses.
    """

    module: Any
    name: str
    guessed: float

    @property
    def prior(self) -> Any:
        """Its prior."""
        return getattr(self.module, f"{self.name}_prior", None)

    @property
    def is_averaged(self) -> bool:
        """Whether it has a prior of which the logarithm is Gaussian."""
        return isinstance(self.prior, LogNormalPrior)

    def set_log(self, value: float) -> None:
        """Sets its logarithm."""
        setattr(self.module, self.name, math.exp(value))


def _noise(model: PreferenceGP) -> _Precision:
    return _Precision(model.likelihood_of(Comparisons), "noise", _LOG_NOISE)


def _precision(model: PreferenceGP) -> _Precision | None:
    """The noise of duels where it is learned, else the output scale; None of others."""
    kinds = {type(block) for block in model.feedback}
    if not kinds or not kinds <= {Comparisons, Choices, Rankings}:
        return None
    output_scale = _Precision(model.covar_module, "outputscale", -_LOG_NOISE)
    for precision in (_noise(model), output_scale):
        if precision.is_averaged:
            return precision
    return None


def average_noise(model: PreferenceGP) -> None:
    r"""Sets the noise of duels to the mean of its logarithm, given the answers.

    A few tens of answers leave open how precise a person is, and the most probable
    noise trusts them too much: who overrates a person foresees her answers worse than
    who underrates her by as much. Before any answer she guesses with the probability
    :math:`\pi = 1/2`, so that her noise is :math:`e^8`, and else has a noise of the
    likelihood's prior. With the other hyper-parameters :math:`\theta` as they are, the
    noise becomes

    .. math:: \exp E[\log \sigma^2 \mid D, \theta], \qquad
        p(\log \sigma^2 \mid D, \theta) \propto p(D \mid \sigma^2, \theta) \,
        \big((1 - \pi) \, N(\log \sigma^2; \mu, \tau^2)
        + \pi \, \delta(\log \sigma^2 - 8)\big),

    a sum over steps of :math:`\tau`, or of parts of it where the posterior is narrow.

    Args:
        model: Fitted, without batches. Of its hyper-parameters only the noise changes.

    Raises:
        BotorchPrefError: The noise of duels has no log-normal prior.
    """
    if not _noise(model).is_averaged:
        likelihood = model.likelihood_of(Comparisons)
        raise BotorchPrefError(
            f"The noise of the {type(likelihood).__name__} has the prior "
            f"{_noise(model).prior}; only one with a log-normal prior is averaged."
        )
    # Where an evidence fails, the model keeps the noise that it has.
    trial = deepcopy(model)
    logs, weights = _posterior_of_logs(trial)
    model.likelihood_of(Comparisons).noise = math.exp(float(weights @ logs))


def guessing_model(model: PreferenceGP) -> PreferenceGP | None:
    """A copy of a model for a person who guesses all duels, choices and rankings.

    Her noise of duels is :math:`e^8`, or where that is fixed, the output scale of her
    utilities is :math:`e^{-8}`. None where other answers are among hers, or where
    neither of both has a log-normal prior.
    """
    guesser = deepcopy(model)
    precision = _precision(guesser)
    if precision is None:
        return None
    precision.set_log(precision.guessed)
    return guesser.eval()


# The matrices are small, so that threads of SciPy's BLAS wait for each other, and long
# where other programs use the cores. BoTorch's own fits have one thread as well.
@threadpool_limits.wrap(limits=1, user_api="blas")
def _posterior_of_logs(model: PreferenceGP) -> tuple[Tensor, Tensor]:
    """Logarithms of noises, and their posterior probabilities; guesses come last.

    They lie around the present value, as far as any probability is left. The model is
    left with one of them.
    """
    noise = _noise(model)
    prior = noise.prior
    of_logs = Normal(prior.loc, prior.scale)
    with torch.no_grad():
        present, evidence = float(noise.module.noise.log()), _evidence(model, noise)
        guessed = evidence(_LOG_NOISE) + math.log(GUESSING)
        logs, heights, step = _integrated(
            lambda log: evidence(log) + float(of_logs.log_prob(torch.tensor(log))),
            present,
            float(prior.scale),
        )
    attentive = heights + math.log((1 - GUESSING) * step)
    logs = torch.cat([logs, logs.new_tensor([_LOG_NOISE])])
    return logs, torch.cat([attentive, logs.new_tensor([guessed])]).softmax(0)


def _integrated(
    log_density: Callable[[float], float], start: float, step: float
) -> tuple[Tensor, Tensor, float]:
    r"""Places at equal steps, log densities there, and the step, for sums over steps.

    From the start they go in both directions to where hardly any probability is left.
    Steps are halved until the trapezoidal rule is right within a thousandth: it errs by
    about :math:`e^{-2 \pi^2 s^2 / h^2}` where a deviation ``s`` has steps ``h``.
    """
    heights = {start: log_density(start)}
    for direction in (-step, step):
        place = start
        while heights[place] > max(heights.values()) - _NEGLIGIBLE:
            place += direction
            heights[place] = log_density(place)
    while True:
        places = torch.tensor(sorted(heights), dtype=torch.float64)
        values = places.new_tensor([heights[place] for place in places.tolist()])
        weights = values.softmax(0)
        if weights @ (places - weights @ places).square() >= (_FINE * step) ** 2:
            return places, values, step
        step /= 2
        likely = places[values > values.max() - _NEGLIGIBLE].tolist()
        for place in {p + side for p in likely for side in (-step, step)} - {*heights}:
            heights[place] = log_density(place)


def _evidence(model: PreferenceGP, noise: _Precision) -> Callable[[float], float]:
    """The log evidence by the logarithm of a noise, which the model has then.

    The prior is the same for all, and each solution starts where the last one ended.
    """
    prior, engine = model.prior(), model.engine.of_evidence
    start: WarmStart | None = None

    def evidence(log_noise: float) -> float:
        nonlocal start
        noise.set_log(log_noise)
        solution = engine.solve(prior, model.factors(), start)
        start = solution.warm_start()
        return float(solution.log_evidence)

    return evidence
