r"""Diagnostics of Markov chains: split R-hat and effective sample size.

All functions take ``num_steps x num_chains x batch_shape``, treat every element of
``batch_shape`` as a quantity of its own, and follow Vehtari, Gelman, Simpson, Carpenter
and Buerkner (2021), "Rank-normalization, folding, and localization: an improved R-hat
for assessing convergence of MCMC", Bayesian Analysis 16(2). Their ranks are left out:
the quantities that we sample have log-concave densities, hence light tails.
"""

from __future__ import annotations

import torch
from torch import Tensor

_MIN_STEPS = 4


def _split(draws: Tensor) -> Tensor:
    """Halves of each chain as chains of their own; an odd middle step is left out."""
    if draws.dim() < 2 or draws.shape[0] < _MIN_STEPS:
        raise ValueError(
            "draws must be num_steps x num_chains x batch_shape with at least "
            f"{_MIN_STEPS} steps, not {tuple(draws.shape)}"
        )
    half = draws.shape[0] // 2
    return torch.cat([draws[:half], draws[-half:]], dim=1)


def _variances(chains: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Chains less their means; ``W`` within them and pooled ``var+`` (eq. 1 to 3)."""
    steps = chains.shape[0]
    means = chains.mean(dim=0)
    centred = chains - means
    within = centred.square().sum(dim=0).mean(dim=0) / (steps - 1)
    return centred, within, within * ((steps - 1) / steps) + means.var(dim=0)


def split_r_hat(draws: Tensor) -> Tensor:
    r"""The potential scale reduction :math:`\hat R` of split chains.

    :math:`\hat R = \sqrt{\widehat{var}^+ / W}`, with :math:`W` the variance within the
    halves of the chains and :math:`\widehat{var}^+` that of all draws (eq. 1 to 4). It
    is near 1 for chains that agree, infinite where no half of a chain moves but they
    differ, NaN where all draws are equal.

    Raises:
        ValueError: On fewer than four steps.
    """
    _, within, total = _variances(_split(draws))
    return (total / within).sqrt()


def _autocovariance(centred: Tensor, lag: int) -> Tensor:
    """Averaged over chains, biased (divided by the number of steps)."""
    steps, chains = centred.shape[:2]
    product = centred[: steps - lag] * centred[lag:]
    return product.sum(dim=(0, 1)) / (steps * chains)


def _autocorrelation_time(centred: Tensor, within: Tensor, total: Tensor) -> Tensor:
    """Sum of Geyer's initial monotone sequence; all of ``num_quantities``.

    Lag by lag, because chains that mix need few: quantities that have seen a negative
    pair are dropped once they are half of what is left.
    """
    steps = centred.shape[0]
    time = torch.full_like(total, -1.0)
    smallest = torch.full_like(total, torch.inf)
    going = torch.arange(total.shape[0], device=total.device)
    for lag in range(0, steps - 1, 2):
        # rho_t = 1 - (W - gamma_t) / var+, and rho_0 = 1.
        odd = 1 - (within - _autocovariance(centred, lag + 1)) / total
        even = 1 - (within - _autocovariance(centred, lag)) / total if lag else 1.0
        pair = even + odd
        smallest = torch.minimum(smallest, pair)
        # Once negative, the smallest stays so.
        ended = ~(smallest >= 0)
        time[going] += 2 * smallest.masked_fill(ended, 0.0)
        if 2 * int(ended.sum()) >= len(going):
            kept = ~ended
            going, centred = going[kept], centred[..., kept]
            within, total, smallest = within[kept], total[kept], smallest[kept]
        if not len(going):
            break
    return time


def effective_sample_size(draws: Tensor) -> Tensor:
    r"""Number of independent draws that would give the mean the same variance.

    With :math:`M` split chains of :math:`N` steps, mean autocovariance
    :math:`\gamma_t` and :math:`\rho_t = 1 - (W - \gamma_t) / \widehat{var}^+`
    (eq. 10), the size is :math:`N M / \tau` with
    :math:`\tau = -1 + 2 \sum_k \min_{j \le k} P_j` over the pairs
    :math:`P_k = \rho_{2k} + \rho_{2k+1}` before the first negative one (eq. 11 to 13;
    Geyer's initial monotone sequence). It exceeds the number of draws where chains
    alternate; :math:`\tau` is kept above :math:`1 / \log_{10}(N M)`, as in the paper's
    implementations. It is NaN where all draws are equal.

    Raises:
        ValueError: On fewer than four steps.
    """
    chains = _split(draws)
    batch_shape, count = chains.shape[2:], chains.shape[0] * chains.shape[1]
    centred, within, total = _variances(chains.reshape(*chains.shape[:2], -1))
    time = _autocorrelation_time(centred, within, total)
    shortest = 1 / torch.log10(time.new_tensor(float(count)))
    size = count / torch.maximum(time, shortest)
    # Equal draws have no variance to compare.
    return size.masked_fill(total.isnan() | (total == 0), torch.nan).view(batch_shape)
