r"""How far Markov chains are from one another, and what their draws are worth.

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


def _variances(chains: Tensor) -> tuple[Tensor, Tensor]:
    """Within-chain variance ``W`` and the pooled estimate ``var+`` (eq. 1 to 3)."""
    steps = chains.shape[0]
    within = chains.var(dim=0).mean(dim=0)
    between = chains.mean(dim=0).var(dim=0)
    return within, within * ((steps - 1) / steps) + between


def split_r_hat(draws: Tensor) -> Tensor:
    r"""The potential scale reduction :math:`\hat R` of split chains.

    :math:`\hat R = \sqrt{\widehat{var}^+ / W}`, with :math:`W` the variance within the
    halves of the chains and :math:`\widehat{var}^+` that of all draws (eq. 1 to 4).

    Args:
        draws: ``num_steps x num_chains x batch_shape``, at least four steps.

    Returns:
        ``batch_shape``; near 1 for chains that agree, infinite where no half of a
        chain moves but they differ, NaN where all draws are equal.

    Raises:
        ValueError: On fewer than four steps.
    """
    within, total = _variances(_split(draws))
    return (total / within).sqrt()


def _mean_autocovariance(chains: Tensor) -> Tensor:
    """Autocovariance averaged over chains, biased (divided by the number of steps)."""
    steps = chains.shape[0]
    centred = chains - chains.mean(dim=0)
    spectrum = torch.fft.rfft(centred.movedim(0, -1), n=2 * steps)
    power = torch.view_as_real(spectrum).square().sum(-1).mean(dim=0)
    return torch.fft.irfft(power, n=2 * steps)[..., :steps].movedim(-1, 0) / steps


def effective_sample_size(draws: Tensor) -> Tensor:
    r"""How many independent draws give the mean the same variance.

    With :math:`M` split chains of :math:`N` steps, mean autocovariance
    :math:`\gamma_t` and :math:`\rho_t = 1 - (W - \gamma_t) / \widehat{var}^+`
    (eq. 10), the size is :math:`N M / \tau` with
    :math:`\tau = -1 + 2 \sum_k \min_{j \le k} P_j` over the pairs
    :math:`P_k = \rho_{2k} + \rho_{2k+1}` before the first negative one (eq. 11 to 13;
    Geyer's initial monotone sequence). It exceeds the number of draws where chains
    alternate; :math:`\tau` is kept above :math:`1 / \log_{10}(N M)`, as in the paper's
    implementations.

    Args:
        draws: ``num_steps x num_chains x batch_shape``, at least four steps.

    Returns:
        ``batch_shape``; NaN where all draws are equal.

    Raises:
        ValueError: On fewer than four steps.
    """
    chains = _split(draws)
    steps, count = chains.shape[0], chains.shape[0] * chains.shape[1]
    within, total = _variances(chains)
    covariance = _mean_autocovariance(chains)
    correlation = 1 - (within - covariance) / total
    correlation[0] = torch.where(total.isnan() | (total == 0), torch.nan, 1.0)
    even = steps - steps % 2
    pairs = correlation[:even].unflatten(0, (-1, 2)).sum(dim=1)
    positive = (pairs >= 0).cumprod(dim=0).bool()
    monotone = pairs.cummin(dim=0).values
    kept = torch.where(positive, monotone, torch.zeros_like(pairs))
    time = -1 + 2 * kept.sum(dim=0)
    time = torch.where(pairs[0].isnan(), pairs[0], time)
    shortest = 1 / torch.log10(time.new_tensor(float(count)))
    return count / torch.maximum(time, shortest)
