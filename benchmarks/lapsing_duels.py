"""Expectation propagation on duels of people whose attention lapses, of many runs.

The models of `batched_duels.py` with another likelihood, for `lapse_rates.py`: a share
of the answers is a coin's, with or without noise in the others. Such an answer's
likelihood is not log-concave, and precisions of sites may be negative.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from batched_duels import SHORTEST, BatchedDuels, Prior, _minimised
from torch import Tensor

from botorch_pref.likelihoods.base import binary_entropy
from botorch_pref.numerics.normal import log_ndtr

SWEEPS, TOLERANCE, DAMPING = 60, 1e-5, 0.8
LONGEST = 6.0
NO_LAPSE = -40.0
"""Logit of a rate that is none."""
NOISE_MODE, NOISE_SPREAD = 0.03, 2.0
"""Of the noise where it is learned, in logarithms: both of the command line's are in
its reach."""
BETA = 2.0, 18.0
"""Prior of the lapse rate where it is learned: a mean of 0.1."""
_SQRT_2PI = math.sqrt(2 * math.pi)
_EXPONENTS = torch.logspace(-1.2, 0.9, 12, dtype=torch.double)
_GRID = torch.linspace(0, 9, 400, dtype=torch.double)


@dataclass(frozen=True)
class Errors:
    """Beliefs of a model about a person's errors.

    Attributes:
        noise: Variance per item, or where it starts.
        lapse: Share of the answers that a coin gives, or where it starts.
        learns_noise: Whether the noise is learned, under a log-normal prior.
        learns_lapse: Whether the lapse rate is, under a Beta prior.
    """

    noise: float
    lapse: float = 0.0
    learns_noise: bool = False
    learns_lapse: bool = False


def log_win(z: Tensor, lapse: Tensor) -> Tensor:
    """Logarithm of ``lapse / 2 + (1 - lapse) Phi(z)``."""
    return torch.logaddexp((0.5 * lapse).log(), torch.log1p(-lapse) + log_ndtr(z))


class LapsingDuels(BatchedDuels):
    """Models of the duels of several runs, fitted when made.

    Args:
        prior: Of utilities.
        winners: ``num_runs x num_duels x d``.
        losers: The same.
        errors: What is believed of the person.
        before: The models of fewer duels, to start from.
    """

    def __init__(
        self,
        prior: Prior,
        winners: Tensor,
        losers: Tensor,
        errors: Errors,
        before: LapsingDuels | None = None,
    ) -> None:
        self.errors = errors
        rate = errors.lapse
        raw = NO_LAPSE if rate == 0 else math.log(rate / (1 - rate))
        start = winners.new_tensor([math.log(errors.noise), raw])
        self.raw = start.repeat(len(winners), 1) if before is None else before.raw
        super().__init__(prior, winners, losers, errors.noise, before)

    def noise_and_lapse(self) -> tuple[Tensor, Tensor]:
        """Noise and lapse rate of each run, both ``num_runs x 1``."""
        return self.raw[:, :1].exp(), self.raw[:, 1:].sigmoid()

    def of(self, runs: Tensor) -> LapsingDuels:
        """See base class."""
        some = super().of(runs)
        assert isinstance(some, LapsingDuels)
        some.raw, some.entropy = self.raw[runs], self.entropy[runs]
        some.middle = self.middle[runs]
        return some

    def _sites(
        self, covar: Tensor, runs: Tensor, noise: Tensor, lapse: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Precisions and shifts of sites, precisions and shifts of cavities."""
        precision, shift = self.precision[runs], self.shift[runs]
        identity = torch.eye(self.duels, dtype=covar.dtype)
        step = torch.ones(len(covar), 1, dtype=covar.dtype)
        for _ in range(SWEEPS):
            product = identity + covar * precision.unsqueeze(-2)
            posterior = torch.linalg.solve(product, covar)
            variance = posterior.diagonal(dim1=-2, dim2=-1)
            mean = (posterior @ shift.unsqueeze(-1)).squeeze(-1)
            rest, pull = 1 / variance - precision, mean / variance - shift
            lost = ((variance <= 0) | (rest <= 0)).any(-1, keepdim=True)
            if lost.any():
                # No posterior: from the answers that pull, in shorter steps.
                precision = torch.where(lost, precision.clamp_min(0.0), precision)
                step = torch.where(lost, 0.5 * step, step)
                if not (precision < 0)[lost.squeeze(-1)].any():
                    shift = torch.where(lost, 0.5 * shift, shift)
                    precision = torch.where(lost, 0.5 * precision, precision)
                continue
            left, centre = 1 / rest, pull / rest
            spread = (2 * noise + left).sqrt()
            z = centre / spread
            hazard = torch.exp(-0.5 * z * z - log_win(z, lapse)) / _SQRT_2PI
            hazard = (1 - lapse) * hazard
            bend = -hazard * (z + hazard) / spread.square()
            new = -bend / (1 + left * bend)
            moved = (hazard / spread - centre * bend) / (1 + left * bend)
            change = ((new - precision) * variance).abs().amax()
            change = change.maximum(((moved - shift) * variance.sqrt()).abs().amax())
            precision = precision + step * (new - precision)
            shift = shift + step * (moved - shift)
            step = step.clamp_max(DAMPING)
            if float(change) < TOLERANCE:
                break
        self.precision[runs], self.shift[runs] = precision, shift
        return precision, shift, rest, pull

    def evidence(self, logs: Tensor, raw: Tensor, runs: Tensor) -> Tensor:
        """Log evidences, with the gradients of expectation propagation's optimum."""
        covar = self._between_duels(logs, runs)
        noise, lapse = raw[:, :1].exp(), raw[:, 1:].sigmoid()
        with torch.no_grad():
            found = self._sites(covar.detach(), runs, noise, lapse)
        precision, shift, rest, pull = found
        left, centre = 1 / rest, pull / rest
        constant = log_win(centre / (2 * noise + left).sqrt(), lapse)
        widened = 1 + precision * left
        square = shift**2 * left + 2 * shift * centre - precision * centre**2
        constant = constant + 0.5 * widened.log() - 0.5 * square / widened
        identity = torch.eye(self.duels, dtype=covar.dtype)
        product = identity + covar * precision.unsqueeze(-2)
        given = shift.unsqueeze(-1)
        mean = torch.linalg.solve(product, covar @ given)
        quadratic = (given * mean).sum((-1, -2))
        log_det = torch.linalg.slogdet(product).logabsdet
        return constant.sum(-1) - 0.5 * log_det + 0.5 * quadratic

    def _objective(self, x: Tensor, runs: Tensor) -> Tensor:
        logs, raw = x[:, : 1 + self.dim], x[:, 1 + self.dim :]
        value = self.evidence(logs, raw, runs)
        value = value + self.prior.lengthscale(logs[:, 1:]).sum(-1)
        value = value + self.prior.scale(logs[:, 0])
        if self.errors.learns_noise:
            far = (raw[:, 0] - math.log(NOISE_MODE)) / NOISE_SPREAD
            value = value - 0.5 * far.square()
        if self.errors.learns_lapse:
            log_rate = torch.nn.functional.logsigmoid(raw[:, 1])
            log_rest = torch.nn.functional.logsigmoid(-raw[:, 1])
            value = value + (BETA[0] - 1) * log_rate + (BETA[1] - 1) * log_rest
        return value

    def _fit(self) -> None:
        learned = [True] * (1 + self.dim)
        learned += [self.errors.learns_noise, self.errors.learns_lapse]
        mask = torch.tensor(learned, dtype=torch.double)

        def objective(x: Any, batch_indices: list[int]) -> tuple[Any, Any]:
            at = torch.tensor(x, requires_grad=True)
            value = self._objective(at, torch.tensor(batch_indices))
            (slope,) = torch.autograd.grad(value.sum(), at)
            return -value.detach().numpy(), -(mask * slope).numpy()

        bounds = [(-12.0, 14.0), *self.dim * [(SHORTEST, LONGEST)]]
        bounds += [(-12.0, 6.0), (NO_LAPSE, 2.0)]
        start = torch.cat([self.logs, self.raw], 1).numpy()
        found = torch.tensor(_minimised(objective, start, bounds, 1e-3, 30)[0])
        self.logs, self.raw = found[:, : 1 + self.dim], found[:, 1 + self.dim :]
        self._prepare()

    def _prepare(self) -> None:
        """Precomputed matrices for predictions."""
        everyone = torch.arange(self.runs)
        with torch.no_grad():
            covar = self._between_duels(self.logs, everyone)
            noise, lapse = self.noise_and_lapse()
            precision, shift, _, _ = self._sites(covar, everyone, noise, lapse)
            identity = torch.eye(self.duels, dtype=covar.dtype)
            product = identity + covar * precision.unsqueeze(-2)
            lost = torch.linalg.solve(product.mT, torch.diag_embed(precision))
            self.middle = 0.5 * (lost + lost.mT)
            given = self.middle @ (covar @ shift.unsqueeze(-1))
            self.weights = shift - given.squeeze(-1)
            # `BatchedDuels` has a root, which there is none of.
            self.root = self.middle
            self.entropy = _entropy_terms(lapse)

    def joint(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """See base class."""
        cross = self._with_duels(X)
        mean = (cross @ self.weights.unsqueeze(-1)).squeeze(-1)
        return mean, self._covariance(X, X) - cross @ self.middle @ cross.mT

    def difference(self, X: Tensor, X_ref: Tensor) -> tuple[Tensor, Tensor]:
        """See base class."""
        cross = self._with_duels(X) - self._with_duels(X_ref)
        mean = (cross @ self.weights.unsqueeze(-1)).squeeze(-1)
        scale = self.logs[:, :1].exp()
        variance = 2 * scale - 2 * self._covariance(X, X_ref)[..., 0]
        variance = variance - ((cross @ self.middle) * cross).sum(-1)
        return mean, variance.clamp_min(1e-12 * float(scale.max()))

    def information(self, X: Tensor, X_ref: Tensor) -> tuple[Tensor, Tensor]:
        """Log probability that a challenger wins, and what the answer tells.

        Args:
            X: ``num_runs x n x d``.
            X_ref: ``num_runs x 1 x d``.

        Returns:
            Both ``num_runs x n``, as `win_and_information` has them.
        """
        mean, variance = self.difference(X, X_ref)
        noise, lapse = self.noise_and_lapse()
        z = mean / (2 * noise + variance).sqrt()
        win, loss = log_win(z, lapse), log_win(-z, lapse)
        square = (mean.square() / (2 * noise)).unsqueeze(-1)
        widened = 1 + (variance / noise).unsqueeze(-1) * _EXPONENTS
        bumps = widened.rsqrt() * torch.exp(-_EXPONENTS / widened * square)
        constant, terms = self.entropy[:, :1], self.entropy[:, 1:]
        remaining = constant + (bumps @ terms.unsqueeze(-1)).squeeze(-1)
        return win, binary_entropy(win, loss) - remaining


def _entropy_terms(lapse: Tensor) -> Tensor:
    """Entropy of an answer as a constant and Gaussians of the standardised difference.

    Least squares at equal distances; within 2e-5 nats of the entropy.

    Args:
        lapse: ``num_runs x 1``.

    Returns:
        ``num_runs x 13``.
    """
    far = torch.full_like(lapse, torch.inf)
    certain = binary_entropy(log_win(far, lapse), log_win(-far, lapse))
    entropy = binary_entropy(log_win(_GRID, lapse), log_win(-_GRID, lapse))
    design = torch.exp(-_GRID.square().unsqueeze(-1) * _EXPONENTS)
    terms = torch.linalg.lstsq(design, (entropy - certain).mT, driver="gelsd").solution
    return torch.cat([certain, terms.mT], 1)
