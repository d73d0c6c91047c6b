"""Independent samplers and evidences that count as the truth in the benchmarks.

All work on ``v ~ N(0, Gamma)`` kept to the positive orthant and share no code with the
package. Run as a script, they are compared with each other:

    python benchmarks/truth.py
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from synthetic_problems import NOISES, synthetic_comparisons
from torch import Tensor

_SQRT_HALF = math.sqrt(0.5)


def _positive_normal(mean: Tensor, scale: Tensor, generator: torch.Generator) -> Tensor:
    """Normals above zero by inversion; for means above -37 deviations."""
    uniform = 1 - torch.rand(mean.shape, generator=generator, dtype=mean.dtype)
    mass = torch.special.ndtr(mean / scale)
    return mean - scale * torch.special.ndtri(uniform * mass)


def gibbs(
    covariance: Tensor,
    start: Tensor,
    num_steps: int,
    generator: torch.Generator,
) -> Tensor:
    """Chains side by side, one row of ``v`` at a time (Geweke 1991).

    Given the others, row i is normal with mean ``-sum_(j != i) P_ij v_j / P_ii`` and
    variance ``1 / P_ii``, with ``P`` the inverse covariance, kept above zero.

    Args:
        covariance: ``m x m``.
        start: ``num_chains x m``, positive.
        num_steps: Sweeps over all rows.
        generator: Source of randomness.

    Returns:
        ``num_steps x num_chains x m``.
    """
    precision = torch.cholesky_inverse(torch.linalg.cholesky(covariance))
    variance = precision.diagonal().reciprocal()
    scale = variance.sqrt()
    weights = -precision * variance.unsqueeze(-1)
    weights.fill_diagonal_(0.0)
    state = start.mT.contiguous()
    draws = start.new_empty(num_steps, *start.shape)
    for step in range(num_steps):
        for i in range(len(state)):
            state[i] = _positive_normal(weights[i] @ state, scale[i], generator)
        draws[step] = state.mT
    return draws


def exact_hamiltonian(
    covariance: Tensor,
    start: Tensor,
    num_steps: int,
    generator: torch.Generator,
) -> Tensor:
    r"""Exact Hamiltonian dynamics with bounces off the walls (Pakman, Paninski 2014).

    In the rows themselves: a quarter turn of ``v(t) = v cos t + s sin t`` with velocity
    ``s ~ N(0, Gamma)``. Row j meets its wall at :math:`\pi / 2 + atan2(s_j, v_j)`; the
    reflection there in whitened coordinates is
    ``s <- s - 2 s_j Gamma_j / Gamma_jj``.

    Args:
        covariance: ``m x m``.
        start: ``num_chains x m``, positive.
        num_steps: Quarter turns of each chain.
        generator: Source of randomness.

    Returns:
        ``num_steps x num_chains x m``.
    """
    root = torch.linalg.cholesky(covariance)
    reflection = 2 * covariance / covariance.diagonal().unsqueeze(-1)
    state, draws = start, start.new_empty(num_steps, *start.shape)
    for step in range(num_steps):
        white = torch.randn(start.shape, generator=generator, dtype=start.dtype)
        state = _quarter_turn(state, white @ root.mT, reflection)
        draws[step] = state
    return draws


def _quarter_turn(start: Tensor, velocity: Tensor, reflection: Tensor) -> Tensor:
    """Each chain to its next wall, until none has time left."""
    end = start.clone()
    moving = torch.arange(len(start))
    position, left = start, start.new_full((len(start),), 0.5 * math.pi)
    while moving.numel():
        wall_time, wall = (torch.atan2(velocity, position) + 0.5 * math.pi).min(-1)
        time = torch.minimum(wall_time, left).unsqueeze(-1)
        cosine, sine = time.cos(), time.sin()
        position, velocity = (
            position * cosine + velocity * sine,
            velocity * cosine - position * sine,
        )
        # Rounding can leave a row just behind its wall.
        position = position.clamp_min(0.0)
        bounces = wall_time < left
        end[moving[~bounces]] = position[~bounces]
        moving, left, wall = moving[bounces], (left - wall_time)[bounces], wall[bounces]
        position, velocity = position[bounces], velocity[bounces]
        at_wall = wall.unsqueeze(-1)
        position = position.scatter(-1, at_wall, 0.0)
        speed = velocity.gather(-1, at_wall)
        velocity = velocity - speed * reflection[wall]
        velocity = velocity.scatter(-1, at_wall, -speed)
    return end


@dataclass(frozen=True)
class TiltingEstimate:
    """An estimate of a log probability.

    Attributes:
        log_probability: The estimate.
        standard_error: Of the log probability.
    """

    log_probability: float
    standard_error: float


def _ordered_cholesky(covariance: Tensor) -> Tensor:
    """Cholesky factor with the least likely row next (Gibson, Glasbey, Elston 1994)."""
    m = len(covariance)
    covar, root = covariance.clone(), torch.zeros_like(covariance)
    mean = torch.zeros(m, dtype=covariance.dtype)
    for k in range(m):
        variance = covar.diagonal()[k:] - root[k:, :k].square().sum(-1)
        shift = root[k:, :k] @ mean[:k]
        j = k + int(torch.argmin(shift / variance.sqrt()))
        order = torch.arange(m)
        order[k], order[j] = j, k
        covar, root = covar[order][:, order], root[order]
        root[k, k] = (covar[k, k] - root[k, :k].square().sum()).sqrt()
        column = covar[k + 1 :, k] - root[k + 1 :, :k] @ root[k, :k]
        root[k + 1 :, k] = column / root[k, k]
        level = float(root[k, :k] @ mean[:k] / root[k, k])
        mean[k] = _hazard(torch.tensor(level, dtype=covariance.dtype))
    return root


def _log_ndtr(x: Tensor) -> Tensor:
    return torch.special.log_ndtr(x)


def _hazard(x: Tensor) -> Tensor:
    log_density = -0.5 * x.square() - 0.5 * math.log(2 * math.pi)
    return torch.exp(log_density - _log_ndtr(x))


def _saddle_point(lower: Tensor) -> tuple[Tensor, Tensor]:
    r"""Solves Botev's (2017) eq. 11 for the orthant by damped Newton.

    With the strictly lower triangular ``B`` the stationary point of
    :math:`\psi = \sum_k \mu_k^2 / 2 - x_k \mu_k + \log \Phi(\mu_k + (B x)_k)` in
    ``x`` and ``mu``, whose last components are zero.
    """
    m = len(lower)
    b, free = lower[:, :-1], m - 1
    eye = torch.eye(m, dtype=lower.dtype)[:, :-1]

    def equations(both: Tensor) -> tuple[Tensor, Tensor]:
        x, mu = both[:free], both[free:]
        t = eye @ mu + b @ x
        h = _hazard(t)
        residual = torch.cat([b.mT @ h - mu, mu - x + eye.mT @ h])
        slope = -h * (t + h)
        scaled_b, scaled_eye = slope.unsqueeze(-1) * b, slope.unsqueeze(-1) * eye
        one = torch.eye(free, dtype=lower.dtype)
        jacobian = torch.cat(
            [
                torch.cat([b.mT @ scaled_b, b.mT @ scaled_eye - one], dim=1),
                torch.cat([eye.mT @ scaled_b - one, one + eye.mT @ scaled_eye], dim=1),
            ]
        )
        return residual, jacobian

    both = lower.new_zeros(2 * free)
    residual, jacobian = equations(both)
    for _ in range(200):
        size = float(residual.norm())
        if size < 1e-9:
            return both[:free], both[free:]
        step, rate = torch.linalg.solve(jacobian, residual), 1.0
        while rate > 1e-8:
            candidate = equations(both - rate * step)
            if float(candidate[0].norm()) < size:
                break
            rate *= 0.5
        both = both - rate * step
        residual, jacobian = candidate
    raise RuntimeError("the saddle point of minimax tilting was not found")


def log_orthant_probability(
    covariance: Tensor, num_draws: int, generator: torch.Generator
) -> TiltingEstimate:
    """Minimax tilting (Botev 2017) of ``log P(v >= 0)``, ``v ~ N(0, Gamma)``.

    Sequential importance sampling whose shifts minimise the worst log weight.

    Args:
        covariance: ``m x m``, ``m >= 2``.
        num_draws: Importance draws.
        generator: Source of randomness.

    Returns:
        The estimate and its standard error.
    """
    root = _ordered_cholesky(covariance)
    lower = (root / root.diagonal().unsqueeze(-1)).tril(-1)
    _, mu = _saddle_point(lower)
    mu = torch.cat([mu, mu.new_zeros(1)])
    white = root.new_zeros(len(root), num_draws)
    log_weight = root.new_zeros(num_draws)
    for k, shift in enumerate(mu):
        # White noise k must exceed -level; it is proposed around the shift.
        level = lower[k, :k] @ white[:k]
        above = level + shift
        white[k] = _positive_normal(above, torch.ones_like(above), generator) - level
        log_weight += 0.5 * shift**2 - white[k] * shift + _log_ndtr(above)
    peak = log_weight.max()
    weight = torch.exp(log_weight - peak)
    mean = weight.mean()
    error = weight.std() / mean / math.sqrt(num_draws)
    return TiltingEstimate(float(mean.log() + peak), float(error))


def _compare_samplers(num_pairs: int, noise: float) -> None:
    """Prints the largest difference of means in standard errors, over all rows."""
    covariance = synthetic_comparisons(num_pairs, noise, seed=0).row_covariance()
    generator = torch.Generator().manual_seed(0)
    start = covariance.new_ones(256, num_pairs)
    means, errors = [], []
    for sampler, steps in ((gibbs, 400), (exact_hamiltonian, 40)):
        # Chains are independent: their means give the standard error.
        means_of_chains = sampler(covariance, start, steps, generator)[steps // 4 :]
        means_of_chains = means_of_chains.mean(0)
        means.append(means_of_chains.mean(0))
        errors.append(means_of_chains.var(0) / len(start))
    ratio = (means[0] - means[1]).abs() / (errors[0] + errors[1]).sqrt()
    print(
        f"m = {num_pairs:3d}, noise {noise:4.2f}: Gibbs and exact Hamiltonian means "
        f"differ by {float(ratio.max()):.1f} standard errors at most over the rows"
    )


def _check_tilting() -> None:
    """Prints minimax tilting beside the closed form of equicorrelated halves."""
    for m in (2, 10, 50):
        # Correlation 1/2 makes every order of m + 1 independent normals equal.
        covariance = 0.5 * (torch.eye(m, dtype=torch.float64) + 1)
        generator = torch.Generator().manual_seed(m)
        estimate = log_orthant_probability(covariance, 20_000, generator)
        print(
            f"m = {m:3d}: minimax tilting {estimate.log_probability:.4f} "
            f"+- {estimate.standard_error:.4f}, exact {-math.log(m + 1):.4f}"
        )


def main() -> None:
    """Compares the truths with each other."""
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, 1 thread")
    _check_tilting()
    for num_pairs in (20, 50):
        for noise in NOISES.values():
            _compare_samplers(num_pairs, noise)


if __name__ == "__main__":
    main()
