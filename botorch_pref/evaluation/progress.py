"""Advice on what is still to be gained by asking, and when to stop."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from botorch.generation.gen import gen_candidates_scipy
from botorch.models.model import Model
from botorch.posteriors.torch import TorchPosterior
from botorch.sampling.get_sampler import get_sampler
from botorch.sampling.pathwise import draw_matheron_paths
from botorch.utils import sampling
from botorch.utils.transforms import is_ensemble
from scipy.sparse import coo_array, csgraph
from torch import Tensor
from torch.nn.functional import one_hot

from botorch_pref.acquisition.design_space import Constraint
from botorch_pref.acquisition.space_arguments import space_of
from botorch_pref.errors import BotorchPrefError, FeedbackError
from botorch_pref.feedback import Comparisons, Feedback
from botorch_pref.likelihoods import DuelLink
from botorch_pref.linalg.covariance import pivoted_root
from botorch_pref.models.answer_likelihoods import check_unbatched, duel_share
from botorch_pref.models.plausible import (
    PlausibleModels,
    member_batches,
    utility_unit,
)
from botorch_pref.models.utility_model import check_one_to_one
from botorch_pref.numerics.argument_checks import check_count, check_points
from botorch_pref.posteriors.gaussian import mean_at


def connected_components(num_points: int, feedback: Sequence[Feedback]) -> Tensor:
    """Finds the connected component into which answers join each point, ``n`` long.

    An answer joins its points; absolute answers, such as ratings, join all theirs. The
    prior alone compares points of different components: a duel across two teaches most.
    Components are numbered from 0 in the order of their first points.

    Args:
        num_points: ``n``.
        feedback: Blocks of answers without batches, with indices below ``n``.
    """
    edges = torch.cat([torch.empty(2, 0).long(), *map(_edges, feedback)], dim=-1)
    ends, weights = tuple(edges.numpy()), torch.ones(edges.shape[-1]).numpy()
    graph = coo_array((weights, ends), shape=(num_points, num_points))
    _, component = csgraph.connected_components(graph, directed=False)
    return torch.as_tensor(component).long()


def _edges(block: Feedback) -> Tensor:
    """Lists edges between the points that answers of a block join, ``2 x e``.

    They are a star for each answer, from its first point to all of it.
    """
    fields = [getattr(block, name) for name in block.index_fields]
    groups = [field.cpu() for field in fields if field is not None]
    # Ratings are on one scale, which compares all points of theirs.
    if not block.relative:
        groups = [torch.cat([group.flatten() for group in groups]).unsqueeze(0)]
    # The chosen item, a field of one dimension, is in its set.
    ends = [(g[:, :1].expand_as(g), g) for g in groups if g.dim() == 2]
    edges = torch.cat([torch.stack(two).flatten(1) for two in ends], dim=-1)
    return edges[:, (edges >= 0).all(0)]


class AnswerAgreement(NamedTuple):
    """Agreement of answers about the same pair of points with each other.

    ``repeated`` is the number of pairs that were asked about repeatedly. ``agreement``
    is the probability that two answers about the same pair of points are equal, over
    all pairs of such answers; NaN where nothing was repeated.
    """

    repeated: int
    agreement: float


def answer_agreement(datapoints: Tensor, comparisons: Comparisons) -> AnswerAgreement:
    r"""Computes the share of repeated duels that were answered alike.

    With :math:`c_{po}` answers ``o`` (first, second, tie) about the pair ``p``,

    .. math:: \sum_{p, o} \binom{c_{po}}{2} \Big/
        \sum_p \binom{\sum_o c_{po}}{2} .

    A person who guesses agrees with herself half of the time (less with ties), one
    without noise always. It needs no model.

    Args:
        datapoints: ``n x d``. Equal rows are one point.
        comparisons: Without batches. An answer with a count is as many answers.
    """
    if not comparisons.num_rows:
        return AnswerAgreement(0, math.nan)
    _, point = torch.unique(datapoints, dim=0, return_inverse=True)
    # Squares of large counts have no room in integers.
    counts = _outcome_counts(point, comparisons).double()
    of_pair = counts.sum(-1)
    agreeing_pairs, answer_pairs = (
        float((c * (c - 1)).sum()) for c in (counts, of_pair)
    )
    return AnswerAgreement(
        int((of_pair > 1).sum()),
        agreeing_pairs / answer_pairs if answer_pairs else math.nan,
    )


def _outcome_counts(point: Tensor, comparisons: Comparisons) -> Tensor:
    """Counts the outcomes of each pair of points, ``num_pairs x 3``.

    They are that the point of the smaller number won, that the other one did, and ties.

    Args:
        point: The number of each datapoint, the same for equal ones, ``n``.
        comparisons: About the datapoints.
    """
    fields = [getattr(comparisons, name) for name in comparisons.index_fields]
    rows = point[torch.cat(fields)]
    # Winners stand first in pairs, which come before the ties.
    outcomes = (rows[:, 0] > rows[:, 1]).long()
    if comparisons.ties is not None:
        outcomes[-len(comparisons.ties) :] = 2
    _, pair = torch.unique(rows.sort(dim=-1).values, dim=0, return_inverse=True)
    often = comparisons.answer_counts.to(pair.device)
    counts = often.new_zeros(int(pair.max()) + 1, 3)
    return counts.index_put((pair, outcomes), often, accumulate=True)


NUM_SAMPLES, _OF_MEMBER = 4096, 1024
"""Joint samples of a model, and the least of each member of an ensemble: members share
their base samples, and so each needs enough for quantiles of its own."""


def best_probability(
    model: Model, points: Tensor, num_samples: int = NUM_SAMPLES, seed: int = 0
) -> Tensor:
    r"""Computes the probability of each point to have the largest utility of all.

    .. math:: P\big(f(x_i) = \max_j f(x_j) \mid D\big),

    the share of joint posterior samples in which the point is the largest; copies of a
    point share it. The standard error of a probability ``p`` is at most
    ``sqrt(p (1 - p) / num_samples)``; of an ensemble, whose members share the samples,
    it can be that of each member's part. Returns ``batch_shape x n``, summing to 1;
    those of an ensemble are the means of its members'.

    Args:
        model: Any BoTorch model with one output.
        points: ``n x d``.
        num_samples: Number of joint samples; of an ensemble see `utility_samples`.
        seed: Of the samples.

    Raises:
        FeedbackError: The points are none, or not ``n x d``.
    """
    points = check_points("points", points)
    if points.dim() != 2 or not len(points):
        raise FeedbackError(
            f"points has shape {tuple(points.shape)}, expected n x d with a point or "
            "more; ask of one set of points at a time."
        )
    distinct, point, copies = torch.unique(
        points, dim=0, return_inverse=True, return_counts=True
    )
    utilities = utility_samples(model, distinct, num_samples, seed)
    wins = one_hot(utilities.argmax(-1), len(distinct)).to(points)
    chances = (wins.mean(0) / copies)[..., point]
    return chances.mean(-2) if is_ensemble(model) else chances


def utility_samples(
    model: Model, points: Tensor, num_samples: int, seed: int
) -> Tensor:
    """Draws joint posterior samples of utilities, ``S x batch_shape x n``.

    ``S`` is ``num_samples``; but members of an ensemble, the last of the
    ``batch_shape``, share the samples: then it is an equal part, of `_OF_MEMBER` at
    least where as many are asked for. One seed always gives the same draws; the global
    random state stays as it is.
    """
    posterior = utility_posterior(model, points)
    return posterior_samples(model, posterior, num_samples, seed)


def utility_posterior(model: Model, points: Tensor) -> TorchPosterior:
    """Computes the joint posterior of utilities at points, without a graph."""
    with torch.no_grad():
        return cast("TorchPosterior", check_one_to_one(model).posterior(points))


def posterior_samples(
    model: Model, posterior: TorchPosterior, num_samples: int, seed: int
) -> Tensor:
    """Draws what `utility_samples` does from a posterior of the model at points."""
    with torch.no_grad():
        count = num_samples
        if is_ensemble(model):
            equal_part = math.ceil(num_samples / model.batch_shape[-1])
            count = min(num_samples, max(equal_part, _OF_MEMBER))
        sampler = get_sampler(posterior, torch.Size([count]), seed=seed)
        samples: Tensor = sampler(posterior)
        return samples.squeeze(-1)


def _samples_of_batch(
    models: Model, points: Tensor, num_samples: int, seed: int
) -> Tensor:
    """Draws joint posterior samples of a batch of plausible models, ``S x M x n``.

    Models have parts of one quasi-random sequence, which together fill the space: draws
    in the same place are no independent ones. Its numbers are of the columns of a root,
    as few as there can be: one with a column for each point, as `utility_samples` needs
    for points that move, takes twice as long.
    """
    with torch.no_grad():
        posterior: Any = check_one_to_one(models).posterior(points)
        mean = posterior.mean.squeeze(-1)
        root = pivoted_root(posterior.distribution.covariance_matrix)
        num_models, rank = len(mean), root.shape[-1]
        normal = sampling.draw_sobol_normal_samples(
            rank, num_models * num_samples, mean.device, mean.dtype, seed
        )
        # Each has numbers that follow each other, for these fill the space.
        drawn = root @ normal.reshape(num_models, num_samples, rank).mT
        return mean + drawn.movedim(-1, 0)


class RemainingGain(NamedTuple):
    """Gain ``expected`` in units of utility, ``batch_shape``, at least 0.

    The ``standard_error`` is that of independent samples; quasi-random ones are closer.
    """

    expected: Tensor
    standard_error: Tensor


def remaining_gain(
    model: Model,
    point: Tensor,
    candidates: Tensor,
    num_samples: int = NUM_SAMPLES,
    seed: int = 0,
) -> RemainingGain:
    r"""Estimates the gain of knowing the best of some candidates, over one point.

    .. math:: E\big[\max_{z \in Z \cup \{x\}} f(z) - f(x) \mid D\big],

    the expected simple regret of ``x`` among the candidates. It grows with their
    number: fill the space. That of an ensemble is the mean of its members'.

    Args:
        model: Any BoTorch model with one output.
        point: ``x``, ``batch_shape x 1 x d``.
        candidates: ``Z``, ``batch_shape x n x d``.
        num_samples: Number of joint samples.
        seed: Of the samples.
    """
    point = check_points("point", point)
    candidates = check_points("candidates", candidates, point, point.shape[-1])
    points = torch.cat([point, candidates], dim=-2)
    utilities = utility_samples(model, points, num_samples, seed)
    gain = utilities.amax(-1) - utilities[..., 0]
    if is_ensemble(model):
        gain = gain.mean(-1)
    return RemainingGain(gain.mean(0), gain.std(0) / len(gain) ** 0.5)


NUM_CANDIDATES = 512
"""The number of points that stand for a whole space."""

NEAR = (0.1, 0.03, 0.01)
"""Deviations of points near another one, in ranges of the inputs."""


def stopping_candidates(
    recommended: Tensor,
    bounds: Tensor,
    num_candidates: int = NUM_CANDIDATES,
    seed: int = 0,
    *,
    inequality_constraints: Sequence[Constraint] | None = None,
    discrete: Tensor | None = None,
    discrete_dims: Mapping[int, Sequence[float]] | None = None,
    categorical: Sequence[Sequence[int]] | None = None,
    fixed_features: Mapping[int, float] | None = None,
) -> Tensor:
    """Draws candidates for the advice to stop: half all over a space, half nearby.

    A better point than the recommended one is on another hill, or further up on its
    own. In several dimensions no number of points all over a box comes near enough
    to it to show the second. So in a box ``n x d`` points are those of a scrambled
    Sobol sequence, then Gaussian ones around the recommended one; in another space
    they are points all over, mixtures of these with the recommended one, and the
    recommended one itself. Of designs that can be listed they are all, or of more than
    ``n`` the ``n / 2`` nearest to the recommended one and as many random others.

    Args:
        recommended: ``1 x d``, in the space.
        bounds: ``2 x d``, lower and upper ends.
        num_candidates: ``n``, at least 2; in a space that is no box, and whose designs
            cannot be listed, the recommended one is added.
        seed: Of the points; the global random state stays as it is.
        inequality_constraints: See `next_question`, as of those below.
        discrete: ``N x d``, the designs that there are.
        discrete_dims: The values that a column may have.
        categorical: The columns of each unordered choice.
        fixed_features: Values of columns.

    Raises:
        BotorchPrefError: Fewer than two candidates, or no point of the space.
    """
    if num_candidates < 2:
        raise BotorchPrefError(
            f"num_candidates is {num_candidates}; give at least 2, one all over the "
            "box and one nearby."
        )
    box = bounds.to(recommended)
    arguments = inequality_constraints, discrete, discrete_dims, categorical
    is_box = all(argument is None for argument in (*arguments, fixed_features))
    space = None if is_box else space_of(box, *arguments, fixed_features)
    allows = partial(_is_inside, box=box) if space is None else space.allows
    if recommended.shape != (1, bounds.shape[-1]) or not allows(recommended).all():
        raise BotorchPrefError(
            f"recommended is {recommended.tolist()}; give one point, 1 x "
            f"{bounds.shape[-1]}, within the bounds {bounds.tolist()}, and what else "
            "designs have to satisfy."
        )
    if space is not None:
        with sampling.manual_seed(seed):
            return space.sample_near(recommended, num_candidates, seed)
    far = num_candidates // 2
    spread = sampling.draw_sobol_samples(box, far, 1, seed=seed).squeeze(-2)
    near = near_points(recommended, box, num_candidates - far, seed)
    return torch.cat([spread, near])


def _is_inside(points: Tensor, box: Tensor) -> Tensor:
    """Tells which points are in a box; from another scale rounding moves them."""
    slack = 1e-6 * (box[1] - box[0])
    return ((points >= box[0] - slack) & (points <= box[1] + slack)).all(-1)


def near_points(point: Tensor, bounds: Tensor, num_points: int, seed: int) -> Tensor:
    """Draws points around another one, Gaussian within a box, ``num_points x d``.

    Equal shares of them have each of the deviations `NEAR`.
    """
    counts = [len(range(i, num_points, len(NEAR))) for i in range(len(NEAR))]
    box = bounds.to(point)
    # BoTorch draws from torch's global generator, here seeded and restored.
    with sampling.manual_seed(seed):
        near = [
            sampling.sample_truncated_normal_perturbations(point, count, deviation, box)
            for count, deviation in zip(counts, NEAR, strict=True)
            if count > 0
        ]
    # BoTorch moves an input whose range is one value as if the range were 1.
    return torch.cat(near).clamp(box[0], box[1])


RESTARTS = 2
"""Starts of each function that are followed uphill."""

_STARTS_AT_ONCE = 32
"""Starts at which all functions are evaluated together."""

STEPS = 20
"""Steps of L-BFGS-B. A hundred, from three starts, moved the probability of a small
gain by at most 0.02 on four models of three and six inputs, which is less than the
error of 128 functions, and took two to four times as long."""


def path_maxima(
    model: Model,
    points: Tensor,
    starts: Tensor,
    bounds: Tensor,
    num_paths: int,
    seed: int = 0,
) -> tuple[Tensor, Tensor]:
    """Draws functions from a posterior, and finds the largest value of each in a box.

    From the best of the ``m x d`` starts L-BFGS-B follows each function uphill.

    Args:
        model: With functions that BoTorch can draw; no ensemble.
        points: Where values are wanted, too, ``n x d``.
        starts: In the box, ``m x d``.
        bounds: Of the box, ``2 x d``.
        num_paths: Number of functions; of each member of a batch.
        seed: Of the functions; the global random state stays as it is.

    Returns:
        The functions' values at the points, ``num_paths x batch_shape x n``, and their
        largest values, ``num_paths x batch_shape``.
    """
    box = bounds.to(starts)
    # BoTorch draws features from torch's global generators, here seeded and restored.
    with sampling.manual_seed(seed), torch.no_grad():
        paths = draw_matheron_paths(model, sample_shape=torch.Size([num_paths]))
    with torch.no_grad():
        # Features of all points of all members at once would not fit in the cache.
        parts = [paths(part) for part in starts.split(_STARTS_AT_ONCE)]
        values, at_starts = paths(points), torch.cat(parts, -1)
    best = at_starts.topk(min(RESTARTS, len(starts)), dim=-1).indices
    _, optima = gen_candidates_scipy(
        starts[best],
        paths,  # type: ignore[arg-type]  # It takes any function of points.
        lower_bounds=box[0],
        upper_bounds=box[1],
        options={"maxiter": STEPS},
        use_parallel_mode=False,
    )
    largest = torch.maximum(optima.detach(), at_starts.gather(-1, best)).amax(-1)
    return values, largest


TOLERANCE, GAIN_TOLERANCE = 0.6, 0.1
"""A chance of regret that need not be lowered (1/2 is none), and a gain that need not
be made, as a share of the range of utilities shown."""

CONFIDENCE = 0.75
"""Posterior probability of a low chance or gain from which the advice is to stop.

Nine in ten of the runs whose model stated so much had found what was promised, in other
settings than those in which the number was chosen (``docs/evaluation.md``)."""

NUM_PATHS = 128
"""Functions whose largest values in a box are found."""


class StoppingAdvice(NamedTuple):
    """Advice whether to stop, with its reasons.

    Attributes:
        stop: Whether ``confidence`` or ``gain_confidence`` is as high as was asked for.
        chance_of_regret: Posterior mean of the chance that the person would prefer the
            best of the candidates to the recommended one, half of a tie counting: 1/2
            where nothing better is left or nobody could tell, 1 where the best is sure
            to be noticed.
        confidence: Posterior probability that the chance is below the tolerance.
        expected_gain: In utility, of the best of the candidates over the recommended
            one, at least 0.
        gain_share: The same as a share of the expected range of utilities shown, from
            the worst to the best design; NaN where one point alone was shown.
        gain_confidence: Posterior probability that the gain is below ``gain_tolerance``
            times the range.
        gain_standard_error: Of the expected gain, for independent draws.
        expected_range: In utility, from the worst to the best design shown. Shares of
            it hold as stated where the noise, and so the unit of utility, is not known.
    """

    stop: bool
    chance_of_regret: float
    confidence: float
    expected_gain: float
    gain_share: float
    gain_confidence: float
    gain_standard_error: float
    expected_range: float = math.nan


def stopping_advice(
    model: Model,
    candidates: Tensor,
    tolerance: float = TOLERANCE,
    confidence: float = CONFIDENCE,
    *,
    recommended: Tensor | None = None,
    shown: Tensor | None = None,
    bounds: Tensor | None = None,
    gain_tolerance: float = GAIN_TOLERANCE,
    link: DuelLink | None = None,
    plausible: Sequence[Model] = (),
    num_samples: int = NUM_SAMPLES,
    seed: int = 0,
) -> StoppingAdvice:
    r"""Advises to stop once the best design there may be is hardly better or preferred.

    With :math:`f^*` the largest utility of the candidates and :math:`f_r` that of the
    recommended one, the chance of regret is

    .. math:: \rho = \Phi\big((f^* - f_r) / \sqrt{2 \sigma^2}\big),

    :math:`\sigma^2` the noise of one presented item (or as another link has it). Where
    the answers have ties, half of the chance of a tie is in it, so that it is low where
    the person would see no difference. A person who never errs prefers anything better
    at all: there the chance stays near 1, and the gain says how much better. With
    :math:`R` the largest less the smallest utility of the points shown, and
    :math:`\gamma` the ``gain_tolerance``, the advice is to stop where

    .. math:: P(\rho < \text{tolerance} \mid D) \ge \text{confidence} \quad
        \text{or} \quad P(f^* - f_r < \gamma R \mid D) \ge \text{confidence} .

    Neither depends on the unit of utility. Both are as good as the model: one that is
    sure of a wrong optimum stops there. With the most probable hyper-parameters a model
    is surer than its answers are; ``plausible`` models, as
    :func:`~botorch_pref.models.plausible_models` draws them, count what is open.
    Candidates stand for the space, but the best of 512 points in six dimensions is far
    below the best of the cube. With ``bounds``, gradients lead each posterior draw from
    its best candidates to a maximum of the box. ``docs/evaluation.md`` says how often
    the advice is wrong.

    Args:
        model: Any BoTorch model with one output: without batches, or an ensemble, of
            which members count alike.
        candidates: ``n x d``.
        tolerance: In (1/2, 1).
        confidence: In (0, 1). Models that stated the default were right nine times in
            ten.
        recommended: ``1 x d``; by default the candidate of the largest posterior mean.
        shown: ``m x d`` points that the person has seen, whose utilities have the
            range; by default all candidates.
        bounds: ``2 x d``, ends of the box that is searched by `NUM_PATHS` functions
            that BoTorch draws of the model, not for an ensemble; without bounds the
            candidates alone are compared.
        gain_tolerance: Share of the range, in (0, 1).
        link: From a difference of utilities to an answer; the model's by default.
        plausible: Models of the same answers whose draws, as many of each and in the
            model's unit of utility, take the place of the model's.
        num_samples: Number of joint samples of the utilities; not used with bounds.
        seed: Of the samples.

    Raises:
        BotorchPrefError: A number outside its range, no candidates or points shown,
            more than one recommended point, a candidate outside the bounds, a batch of
            models, or bounds for an ensemble.
        UnsupportedFeedbackError: The model's likelihood says nothing of duels.
    """
    _check_levels(tolerance, confidence, gain_tolerance)
    # One draw would be sure of itself.
    check_count("num_samples", num_samples, at_least=2)
    _check_compared(candidates, recommended, shown)
    check_unbatched(model)
    best = recommended
    if best is None:
        best = candidates[mean_at(model, candidates).argmax()].unsqueeze(0)
    if bounds is not None:
        _check_searched(model, bounds, torch.cat([best, candidates]))
    observed = candidates if shown is None else shown
    sources = member_batches(plausible) if len(plausible) else [model]
    num_all = num_samples if bounds is None else NUM_PATHS
    num_draws = math.ceil(num_all / max(1, len(plausible)))
    are_batches = isinstance(plausible, PlausibleModels)
    sample = _samples_of_batch if are_batches else utility_samples
    draws = []
    for place, source in enumerate(sources):
        gain, extent = _gains(
            source, best, candidates, observed, bounds, sample, num_draws, seed + place
        )
        share = partial(duel_share, source) if link is None else link.win_probability
        with torch.no_grad():
            chance = share(gain, torch.zeros_like(gain))
        if len(plausible):
            unit = utility_unit(model) / utility_unit(source)
            gain, extent = unit * gain, unit * extent
            # Members of a batch count alike; only means over all draws are taken.
            gain, extent, chance = (t.flatten() for t in (gain, extent, chance))
        draws.append((gain, extent, chance))
    gain, extent, chance = map(torch.cat, zip(*draws, strict=True))
    return _advice_of_draws(gain, extent, chance, tolerance, confidence, gain_tolerance)


def _advice_of_draws(
    gain: Tensor,
    extent: Tensor,
    chance: Tensor,
    tolerance: float,
    confidence: float,
    gain_tolerance: float,
) -> StoppingAdvice:
    """Advises by draws of the gain, of the range shown and of the chance of regret.

    The levels are those of `stopping_advice`.

    Args:
        gain: By how much the best candidate exceeds the recommended point, in utility,
            ``S`` draws, or ``S x M`` of an ensemble; so are the next two.
        extent: The range of the utilities shown.
        chance: That the person would prefer the best candidate.
        tolerance: Of the chance.
        confidence: From which the advice is to stop.
        gain_tolerance: Of the gain, as a share of the range.
    """
    unnoticed = float((chance < tolerance).double().mean())
    little = float((gain < gain_tolerance * extent).double().mean())
    # An ensemble's members count alike.
    mean_gains = gain.reshape(len(gain), -1).mean(-1)
    expected, extent_expected = float(gain.mean()), float(extent.mean())
    return StoppingAdvice(
        stop=max(unnoticed, little) >= confidence,
        chance_of_regret=float(chance.mean()),
        confidence=unnoticed,
        expected_gain=expected,
        gain_share=expected / extent_expected if extent_expected > 0 else math.nan,
        gain_confidence=little,
        gain_standard_error=float(mean_gains.std()) / len(mean_gains) ** 0.5,
        expected_range=extent_expected,
    )


def _check_levels(tolerance: float, confidence: float, gain_tolerance: float) -> None:
    """Checks levels; one half is the chance of regret where nobody could tell."""
    for name, value, lower_end in (
        ("tolerance", tolerance, 0.5),
        ("confidence", confidence, 0),
        ("gain_tolerance", gain_tolerance, 0),
    ):
        if not lower_end < value < 1:
            raise BotorchPrefError(f"{name} is {value}; give one in ({lower_end}, 1).")


def _check_compared(
    candidates: Tensor, recommended: Tensor | None, shown: Tensor | None
) -> None:
    """Checks that there are points to compare."""
    if not len(candidates):
        raise BotorchPrefError("There are no candidates; give n x d, one or more.")
    if shown is not None and not len(shown):
        raise BotorchPrefError("shown has no points; give m x d, or leave it out.")
    if recommended is not None and recommended.shape != candidates[:1].shape:
        raise BotorchPrefError(
            f"recommended has shape {tuple(recommended.shape)}; give one point, 1 x "
            f"{candidates.shape[-1]}."
        )


def _check_searched(model: Model, bounds: Tensor, starts: Tensor) -> None:
    """Checks that the functions of a model can be searched in a box, ``2 x d``."""
    if is_ensemble(model):
        raise BotorchPrefError(
            "bounds are given for an ensemble of models, whose functions cannot be "
            "followed uphill at once: leave bounds out, and give more candidates."
        )
    outside = starts[~_is_inside(starts, bounds.to(starts))]
    if len(outside):
        raise BotorchPrefError(
            f"{outside[0].tolist()}, a candidate or the recommended point, is not "
            f"within the bounds {bounds.tolist()}; give both in the same units."
        )


def _gains(
    model: Model,
    best: Tensor,
    candidates: Tensor,
    observed: Tensor,
    bounds: Tensor | None,
    sample: Callable[[Model, Tensor, int, int], Tensor],
    num_draws: int,
    seed: int,
) -> tuple[Tensor, Tensor]:
    """Draws gains of the best candidate over the recommended point, and ranges shown.

    Args:
        model: Of the utility.
        best: The recommended point, ``1 x d``, which is a candidate, too.
        candidates: ``n x d``, or starts of a search where there are bounds.
        observed: Points whose utilities have the range, ``m x d``.
        bounds: Of the box that is searched; None to compare candidates alone.
        sample: `utility_samples`, or of a batch `_samples_of_batch`.
        num_draws: Number of joint draws.
        seed: Of the draws.

    Returns:
        Gains and ranges in utility, ``S`` draws each, or ``S x M`` of an ensemble or a
        batch, see `utility_samples`.
    """
    every = torch.cat([best, candidates])
    if bounds is None:
        # Points that were shown are mostly candidates too.
        points, place = torch.unique(
            torch.cat([every, observed]), dim=0, return_inverse=True
        )
        utilities = sample(model, points, num_draws, seed)[..., place]
        largest = utilities[..., : len(every)].amax(-1)
    else:
        points = torch.cat([best, observed])
        utilities, largest = path_maxima(model, points, every, bounds, num_draws, seed)
    of_seen = utilities[..., -len(observed) :]
    extent = of_seen.amax(-1) - of_seen.amin(-1)
    return largest - utilities[..., 0], extent
