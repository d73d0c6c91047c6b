r"""Hamiltonian draws of what is nearly Gaussian, and when there are enough of them.

The target of :mod:`.coordinates`, :math:`p(x) \propto N(x; \mu, H H') \, e^{\ell(x)}`,
is a standard normal times :math:`e^\ell` in :math:`x = \mu + H w`. The Hamiltonian
:math:`\tfrac12 |w|^2 + \tfrac12 |p|^2 - \ell` splits into the normal part, whose flow
is an exact rotation of :math:`(w, p)`, and the ratio, which only kicks :math:`p`. So
steps are limited by how far the approximation is from the truth, not by the posterior's
width, and the Metropolis test makes the chains exact.

Source: Shahbaba, Lan, Johnson and Neal (2014), "Split Hamiltonian Monte Carlo",
Statistics and Computing 24, section 3; many short chains from an approximation:
Margossian et al. (2024), "Nested R-hat", Bayesian Analysis.

Split R-hat and the effective sample size, of ``num_steps x num_chains x batch_shape``,
follow Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021), "Rank-normalization,
folding, and localization: an improved R-hat for assessing convergence of MCMC",
Bayesian Analysis 16(2), without ranks: rows have light tails.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_pref.inference.skew.coordinates import Target

_FEWEST_STEPS = 4


def _split(draws: Tensor) -> Tensor:
    """Halves each chain to chains of their own; an odd middle step is left out.

    So a chain that drifts counts as two that differ.
    """
    if draws.dim() < 2 or draws.shape[0] < _FEWEST_STEPS:
        raise ValueError(
            "draws must be num_steps x num_chains x batch_shape with at least "
            f"{_FEWEST_STEPS} steps, not {tuple(draws.shape)}"
        )
    half = draws.shape[0] // 2
    return torch.cat([draws[:half], draws[-half:]], dim=1)


def _variances(chains: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Centres chains, ``steps x chains x ...``; computes ``W`` and ``var+``.

    ``W`` is the variance within chains and ``var+`` the pooled one, equations 1 to 3 of
    Vehtari et al. (2021); both are ``...``, for R-hat and effective sizes.
    """
    steps = chains.shape[0]
    means = chains.mean(dim=0)
    centred = chains - means
    within = centred.square().sum(dim=0).mean(dim=0) / (steps - 1)
    return centred, within, within * ((steps - 1) / steps) + means.var(dim=0)


def split_r_hat(draws: Tensor) -> Tensor:
    r"""Computes potential scale reduction :math:`\hat R = \sqrt{\widehat{var}^+ / W}`.

    Chains are split, :math:`W` is the variance within and :math:`\widehat{var}^+` that
    of all draws (eq. 1 to 4): infinite where no half of a chain moves but they differ,
    NaN where all draws are equal.
    """
    _, within, total = _variances(_split(draws))
    return (total / within).sqrt()


def _autocovariance(centred: Tensor, lag: int) -> Tensor:
    """Averages products of steps ``lag`` apart over chains, for an effective size.

    It is biased, divided by the number of steps and not of products, as usual.
    """
    steps, chains = centred.shape[:2]
    product = centred[: steps - lag] * centred[lag:]
    return product.sum(dim=(0, 1)) / (steps * chains)


def _autocorrelation_time(centred: Tensor, within: Tensor, total: Tensor) -> Tensor:
    """Sums Geyer's initial monotone sequence of each of ``num_quantities``.

    It gives ``tau`` of :func:`effective_sample_size` for ``centred`` chains, ``steps x
    chains x num_quantities``, their variance ``within`` and in ``total``. Lag by lag,
    because chains that mix need few: quantities that have seen a negative pair are
    dropped once they are half of what is left.
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
            is_counted = ~ended
            going, centred = going[is_counted], centred[..., is_counted]
            within, total, smallest = (
                within[is_counted],
                total[is_counted],
                smallest[is_counted],
            )
        if not len(going):
            break
    return time


def effective_sample_size(draws: Tensor) -> Tensor:
    r"""Computes the number of independent draws with the same variance of the mean.

    With :math:`M` split chains of :math:`N` steps, mean autocovariance :math:`\gamma_t`
    and :math:`\rho_t = 1 - (W - \gamma_t) / \widehat{var}^+` (eq. 10), it is :math:`N M
    / \tau` with :math:`\tau = -1 + 2 \sum_k \min_{j \le k} P_j` over the pairs
    :math:`P_k = \rho_{2k} + \rho_{2k+1}` before the first negative one (eq. 11 to 13).
    :math:`\tau` is kept above :math:`1 / \log_{10}(N M)`, as in the paper's code. It is
    NaN where all draws are equal.
    """
    chains = _split(draws)
    batch_shape, count = chains.shape[2:], chains.shape[0] * chains.shape[1]
    centred, within, total = _variances(chains.reshape(*chains.shape[:2], -1))
    time = _autocorrelation_time(centred, within, total)
    shortest = 1 / torch.log10(time.new_tensor(float(count)))
    size = count / torch.maximum(time, shortest)
    # Equal draws have no variance to compare.
    return size.masked_fill(total.isnan() | (total == 0), torch.nan).view(batch_shape)


# With many short chains this already means that a chain forgets its start many times
# within its run; it leaves R-hat's own noise, of order 1 / (steps sqrt(chains)), room.
_R_HAT_TARGET = 1.05
# By how much a forecast of either target may be off before it ends a run.
_SLACK = 2.0


def worst_row(rows: Tensor, fixed: Tensor) -> tuple[Tensor, Tensor]:
    """Computes R-hat and effective size of the worst row that is not ``fixed``.

    Both are ``batch_shape``; ``fixed``, ``batch_shape x m``, marks rows without
    variance.

    The ``rows`` are ``num_steps x batch_shape x num_chains x m``.
    """
    steps = rows.movedim(-2, 1)
    size = effective_sample_size(steps).masked_fill(fixed, torch.inf)
    r_hat = split_r_hat(steps).masked_fill(fixed, 1.0)
    return r_hat.amax(-1), size.amin(-1)


def reached(r_hat: Tensor, size: Tensor, num_draws: int) -> Tensor:
    """Tells whether there are as many effective draws, and R-hat is at most 1.05."""
    return (size >= num_draws) & (r_hat <= _R_HAT_TARGET)


def out_of_reach(r_hat: Tensor, size: Tensor, num_draws: int, longer: int) -> Tensor:
    """Tells whether a run ``longer`` times as long misses a target more than twofold.

    While chains mix, the length divides ``R-hat - 1`` and multiplies the effective
    ``size``; the targets are 0.05 and ``num_draws``.
    """
    above = (r_hat - 1) / longer > _SLACK * (_R_HAT_TARGET - 1)
    return above | (_SLACK * longer * size < num_draws)


# A quarter turn replaces w by p: an independent proposal where the ratio is flat. The
# jitter keeps trajectories from resonating with the ratio.
_QUARTER_TURN = 0.5 * math.pi
_ANGLE_JITTER = 0.2
# Efficiency per gradient is flat between 0.8 and 0.95.
_TARGET_ACCEPTANCE = 0.8
_MAX_KICKS = 128
_GLANCE = 2
_BURN_IN = 8
_MIN_STEPS = 16
# Run length over what independent transitions would need.
_LENGTH_FACTOR = 1.5
_MAX_DOUBLINGS = 4


@dataclass(frozen=True)
class LatentDraws:
    """Draws of a target, ``num_draws x batch_shape x m``, thinned from all chains.

    Of each element of the batch: the mean acceptance probability, and R-hat and
    effective sample size of the worst row before thinning. ``num_steps`` are those of a
    chain after warm-up, ``num_kicks`` the gradients in each; ``converged`` says whether
    every element has :func:`reached` its targets.
    """

    draws: Tensor
    target: Target
    acceptance_rate: Tensor
    r_hat: Tensor
    effective_sample_size: Tensor
    num_steps: int
    num_kicks: int
    converged: bool


@dataclass
class _State:
    """Position ``x``, and ratio, covector and force there (see ``_Coordinates``)."""

    position: Tensor
    log_ratio: Tensor
    covector: Tensor
    force: Tensor


class _Coordinates:
    r"""The coordinates of the dynamics: those of the target or the whitened ones.

    Rows, ``z - mean = H w``: the force :math:`H H' \nabla \ell` is one m x m product.
    Whitened, ``x = w``: two m x k products, less work where ``2 k < m``. A kick ``p + c
    force`` changes :math:`\tfrac12 |p|^2` by ``c covector . (p + p_after) / 2``, with
    the covector :math:`\nabla \ell` of rows or :math:`H' \nabla \ell` of ``w``. Tensors
    are ``batch_shape x num_chains x dim``.
    """

    def __init__(self, target: Target) -> None:
        """Chooses rows or the whitened space, whichever takes less work."""
        self._log_ratio, mean, self._root, _ = target
        self._mean, root = mean.unsqueeze(-2), self._root
        self._in_rows = 2 * root.shape[-1] >= root.shape[-2]
        self._covar = root @ root.mT if self._in_rows else None

    def normal(self, num_chains: int, generator: torch.Generator) -> Tensor:
        """Draws the Gaussian part, ``batch_shape x num_chains x dim``, of mean zero.

        Positions and momenta have the same distribution.
        """
        root = self._root
        shape = (*root.shape[:-2], num_chains, root.shape[-1])
        white = torch.randn(
            shape, generator=generator, dtype=root.dtype, device=root.device
        )
        return white @ root.mT if self._in_rows else white

    def rows(self, position: Tensor) -> Tensor:
        """Computes ``z`` at a position."""
        return self._mean + self.of_rows(position)

    def of_rows(self, change: Tensor) -> Tensor:
        """Translates a change of position, or a force, to one of ``z``."""
        return change if self._in_rows else change @ self._root.mT

    def state(self, position: Tensor) -> _State:
        """Computes the ratio and its force at a position."""
        value, gradient = self._log_ratio(self._chains_first(position))
        covector, force = self._as_force(gradient)
        return _State(position, value.movedim(0, -1), covector, force)

    def force(self, position: Tensor) -> tuple[Tensor, Tensor]:
        """Computes covector and force at a position, without the ratio."""
        return self._as_force(self._log_ratio.gradient(self._chains_first(position)))

    def _chains_first(self, position: Tensor) -> Tensor:
        rows = self.rows(position)
        return rows.movedim(-2, 0) if rows.dim() > 2 else rows

    def _as_force(self, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Turns a gradient in rows to covector and force in the coordinates.

        The covector is the gradient in the coordinates, and the force is it times their
        covariance. The gradient comes chains first, and the results have them behind
        the batch. In whitened coordinates both are one tensor, which `_choose` relies
        on.
        """
        if gradient.dim() > 2:
            gradient = gradient.movedim(0, -2)
        if self._covar is not None:
            return gradient, gradient @ self._covar
        force = gradient @ self._root
        return force, force


def _trajectory(
    coordinates: _Coordinates, start: _State, momentum: Tensor, angle: float, kicks: int
) -> tuple[_State, Tensor]:
    """Moves along a Hamiltonian trajectory of ``kicks`` kicks and rotations.

    The first and the last kick are halves, with a rotation between any two. ``angle``
    is that of all rotations together. It returns the end, a proposal, and the log of
    its acceptance probability, ``batch_shape x num_chains``: the change of the log
    ratio less what kicks gained in kinetic energy. Rotations conserve the Gaussian part
    of the energy, so only kicks are accounted. A rotation is three shears.
    """
    step = angle / kicks
    tangent, sine = math.tan(0.5 * step), math.sin(step)
    position, covector, force = start.position, start.covector, start.force
    p, gained = momentum, torch.zeros_like(momentum)
    # In place, so in this order; the momentum that was passed is used up too.
    for i in range(kicks):
        size = step if i else 0.5 * step
        kicked = torch.add(p, force, alpha=size)
        gained.addcmul_(p.add_(kicked), covector, value=0.5 * size)
        position = torch.add(position, kicked, alpha=tangent)
        p = kicked.sub_(position, alpha=sine)
        position.add_(p, alpha=tangent)
        if i + 1 < kicks:
            covector, force = coordinates.force(position)
    end = coordinates.state(position)
    kicked = torch.add(p, end.force, alpha=0.5 * step)
    gained.addcmul_(p.add_(kicked), end.covector, value=0.25 * step)
    return end, end.log_ratio - start.log_ratio - gained.sum(-1)


def _choose(accept: Tensor, new: _State, old: _State) -> _State:
    """Takes the new state of chains that accept, the old one of others.

    ``accept`` is ``batch_shape x num_chains``.
    """
    along = accept.unsqueeze(-1)
    covector = torch.where(along, new.covector, old.covector)
    return _State(
        torch.where(along, new.position, old.position),
        torch.where(accept, new.log_ratio, old.log_ratio),
        covector,
        covector
        if new.force is new.covector
        else torch.where(along, new.force, old.force),
    )


class _Chains:
    """Chains that move together; ``num_kicks`` is what warm-up tunes."""

    def __init__(
        self,
        coordinates: _Coordinates,
        num_chains: int,
        generator: torch.Generator,
    ) -> None:
        """Starts all chains at the mean of the target's Gaussian."""
        self._coordinates, self._generator = coordinates, generator
        self.num_kicks = 1
        # Not at draws of the Gaussian: some lie hundreds of noise deviations behind a
        # wall, where the force is too stiff for any step and a chain would stay.
        # Drawn for its shape alone: without it a seed would give other chains.
        centre = torch.zeros_like(coordinates.normal(num_chains, generator))
        self._state = coordinates.state(centre)

    def run(self, num_steps: int) -> tuple[Tensor, Tensor, Tensor]:
        """Runs chains on; returns rows, forces on them and acceptance, ``batch_shape``.

        Rows and forces are ``num_steps x batch_shape x num_chains x m``. Chains stay
        where they end, for the next run.
        """
        chains = self._state.position.shape[-2]
        jitter = torch.rand(
            num_steps, generator=self._generator, device=self._state.position.device
        )
        angles = _QUARTER_TURN * (1 + _ANGLE_JITTER * (2 * jitter - 1))
        accepted = torch.zeros_like(self._state.log_ratio)
        rows, forces = [], []
        for angle in angles.tolist():
            momentum = self._coordinates.normal(chains, self._generator)
            proposal, log_accept = _trajectory(
                self._coordinates, self._state, momentum, angle, self.num_kicks
            )
            # An overflow in the far tail is NaN: a rejection.
            probability = log_accept.clamp(max=0.0).exp().nan_to_num(nan=0.0)
            accepted += probability
            uniform = torch.empty_like(probability).uniform_(generator=self._generator)
            self._state = _choose(uniform < probability, proposal, self._state)
            rows.append(self._coordinates.rows(self._state.position))
            forces.append(self._coordinates.of_rows(self._state.force))
        rate = accepted.mean(-1) / num_steps
        return torch.stack(rows), torch.stack(forces), rate

    def warm_up(self) -> None:
        """Burns in and adds kicks until every element of the batch accepts 80 %."""
        while self.num_kicks < _MAX_KICKS:
            # A glance first: with too few kicks chains do not move at all.
            if self._accepts(_GLANCE) and self._accepts(_BURN_IN):
                return
            self.num_kicks = max(self.num_kicks + 1, math.ceil(1.4 * self.num_kicks))
        self.run(_BURN_IN)

    def _accepts(self, num_steps: int) -> bool:
        *_, rate = self.run(num_steps)
        return float(rate.min()) >= _TARGET_ACCEPTANCE


# Draws fewer than this times the rows cannot have any covariance.
_LEAST_DRAWS = 1.25
# A row whose variance given those before it is below this share follows from them.
_DEPENDENT = 1e-8


# Standard errors by which a mean that is zero may seem not to be.
_MOST_ERRORS = 5.0


_MOST_SMOOTH_KICKS = 16


def with_control_variates(
    draws: Tensor, all_draws: Tensor, forces: Tensor, target: Target, size: Tensor
) -> Tensor:
    r"""Moves draws to a mean and a covariance with less scatter than their own.

    Of a density :math:`p(x) \propto N(x; \mu, C) e^{\ell(x)}` the mean of :math:`\nabla
    \log p` is zero. Hence, with the force :math:`f = C \nabla \ell`,

    .. math::
        E[x] = \mu + E[f], \qquad \mathrm{Cov}(x) = C + \mathrm{Cov}(x, f),

    whose right sides, control variates, scatter far less over draws where the Gaussian
    is near (Mira, Solgi and Imparato 2013, "Zero variance Markov chain Monte Carlo for
    Bayesian estimators", Statistics and Computing 23). They count in the share that
    gives the mean the least variance, summed over rows in their own units. It is none
    where :math:`\ell` is a steep wall, and where the mean of :math:`x - f` is further
    from :math:`\mu` than it scatters: then no draw came so close to a wall that its
    force is known. With fewer than 1.25 draws a row, or rows that follow from others,
    the covariance stays.

    ``draws``, of ``all_draws``, ``n x batch_shape x m``, are moved; ``forces`` are
    those at all, and ``size`` is the effective number of all, ``batch_shape``.
    """
    x, f, latent = (part.movedim(0, -2) for part in (all_draws, forces, draws))
    mean, pull, from_mean = (
        x.mean(-2),
        f.mean(-2),
        latent - latent.mean(-2, keepdim=True),
    )
    x, f = x - mean.unsqueeze(-2), f - pull.unsqueeze(-2)
    variance, remainder = x.square().mean(-2), x - f
    unit = torch.where(variance > 0, variance, torch.inf).reciprocal()
    # The share is the slope of x on x - f, rows in their own units.
    common = (unit * (x * remainder).mean(-2)).sum(-1)
    scatter = remainder.square().mean(-2)
    share = (common / (unit * scatter).sum(-1)).clamp(0.0, 1.0)
    rounding = torch.finfo(x.dtype).eps * (target.mean.square() + variance)
    # Chains that alternate have more, of which the size may say too much.
    count = size.clamp_max(len(all_draws)).unsqueeze(-1)
    error = scatter / count + rounding
    off = (mean - pull - target.mean).square()
    is_consistent = (off <= _MOST_ERRORS**2 * error).all(-1)
    share = torch.where(is_consistent, share, 0.0).nan_to_num(nan=0.0).unsqueeze(-1)
    mean = torch.lerp(mean, target.mean + pull, share)
    if len(draws) >= _LEAST_DRAWS * draws.shape[-1]:
        near = target.root @ target.root.mT + x.mT @ f / len(all_draws)
        near = 0.5 * (near + near.mT)
        covariance = torch.lerp(x.mT @ x / len(all_draws), near, share.unsqueeze(-1))
        from_mean = _with_covariance(from_mean, covariance)
    return (mean.unsqueeze(-2) + from_mean).movedim(-2, 0)


def _with_covariance(x: Tensor, covariance: Tensor) -> Tensor:
    """Gives deviations, ``batch_shape x n x m``, a ``covariance`` instead of theirs.

    An element of the batch stays as it is where either matrix has rows that follow from
    those before them.
    """
    sample_covariance = x.mT @ x / x.shape[-2]
    (root, bad), (wanted, worse) = map(
        torch.linalg.cholesky_ex, (sample_covariance, covariance)
    )
    free = (bad + worse) == 0
    for factor, square in ((root, sample_covariance), (wanted, covariance)):
        target_variance = factor.diagonal(dim1=-2, dim2=-1).square()
        total = square.diagonal(dim1=-2, dim2=-1)
        free = free & (target_variance > _DEPENDENT * total).all(-1)
    free = free.unsqueeze(-1).unsqueeze(-1)
    eye = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
    root = torch.where(free, root, eye)
    white = torch.linalg.solve_triangular(root, x.mT, upper=False)
    return torch.where(free, (wanted @ white).mT, x)


def sample_latent(
    target: Target,
    *,
    num_draws: int,
    generator: torch.Generator,
) -> LatentDraws:
    r"""Draws from :math:`p(z) \propto N(z; \mu, H H') e^{\ell(z)}`.

    All chains start at the mean. Warm-up adds kicks to the trajectory until 80 % of the
    proposals are accepted or 128 are reached. The first run has half as many steps
    again as independent transitions would need. It doubles until the worst row has
    ``num_draws`` effective draws and an R-hat of at most 1.05, or four doublings are
    spent or would not be enough. There is a chain for each 16 draws, at least 32 and at
    most 256: fewer cost more per draw, more leave each too short to tell whether it
    mixed. With at most 16 kicks, draws get moments :func:`with_control_variates`.
    """
    num_chains = min(256, max(32, num_draws // 16))
    coordinates = _Coordinates(target)
    chains = _Chains(coordinates, num_chains, generator)
    chains.warm_up()
    steps = max(_MIN_STEPS, math.ceil(_LENGTH_FACTOR * num_draws / num_chains))
    rows, forces, rate = chains.run(steps)
    fixed = (target.root == 0).all(dim=-1)
    r_hat, size = worst_row(rows, fixed)
    for num_doublings in range(_MAX_DOUBLINGS, 0, -1):
        enough = reached(r_hat, size, num_draws)
        if bool(
            (enough | out_of_reach(r_hat, size, num_draws, 2**num_doublings)).all()
        ):
            break
        new_draws, new_forces, new_rate = chains.run(rows.shape[0])
        rows, forces = torch.cat([rows, new_draws]), torch.cat([forces, new_forces])
        rate = 0.5 * (rate + new_rate)
        r_hat, size = worst_row(rows, fixed)
    flat, pulls = (part.movedim(-2, 1).flatten(0, 1) for part in (rows, forces))
    picked = torch.arange(num_draws, device=flat.device) * flat.shape[0] // num_draws
    draws = flat[picked]
    # Walls that take so many are too thin for draws to tell their force.
    if chains.num_kicks <= _MOST_SMOOTH_KICKS:
        draws = with_control_variates(draws, flat, pulls, target, size)
    return LatentDraws(
        draws=draws,
        target=target,
        acceptance_rate=rate,
        r_hat=r_hat,
        effective_sample_size=size,
        num_steps=rows.shape[0],
        num_kicks=chains.num_kicks,
        converged=bool(reached(r_hat, size, num_draws).all()),
    )
