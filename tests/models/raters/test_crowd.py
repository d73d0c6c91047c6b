"""Crowds: the dense model of the same kernel, and the formulas of tastes by hand."""

import copy
import pickle
from dataclasses import replace

import pytest
import torch
from botorch.exceptions.warnings import InputDataWarning
from botorch.fit import fit_gpytorch_mll
from draws import uniform
from gpytorch.kernels import RBFKernel
from torch import Tensor

from botorch_pref import (
    BotorchPrefError,
    Comparisons,
    EPPreferenceGP,
    FeedbackError,
    PreferenceMarginalLogLikelihood,
    Rankings,
)
from botorch_pref.linalg.sparse_design import NoiseBlocks
from botorch_pref.models import (
    CrowdKernel,
    CrowdPreferenceGP,
    GroupUtility,
    ReliabilityKernel,
    TasteKernel,
)
from botorch_pref.models import crowd as crowd_module
from botorch_pref.models.crowd_noises import crowd_noise_curvature
from botorch_pref.models.kernels import default_covar_module
from botorch_pref.posteriors.gaussian import moments_of

DOUBLE = torch.float64
NUM_ITEMS = 7
RATERS = torch.tensor([8.0, 3.0, 40.0, 5.0, 7.0], dtype=DOUBLE)


ITEMS = uniform(NUM_ITEMS, 2)
# Every item as every rater meets it, and one of them a second time.
POINTS = torch.cat(
    [ITEMS.repeat(5, 1), RATERS.repeat_interleave(NUM_ITEMS)[:, None]], 1
)
POINTS = torch.cat([POINTS, POINTS[:1]])
NEW = torch.cat([uniform(4, 2, seed=1), ITEMS[:2]])
# A newcomer, twice, among those who are known.
NEW = torch.cat([NEW, torch.tensor([[3.0, 3, 6, 40, 8, 6]], dtype=DOUBLE).mT], dim=1)


def answers(*numbers: int) -> list[Comparisons | Rankings]:
    """Makes answers of some raters, more of the later ones."""
    generator = torch.Generator().manual_seed(sum(numbers))
    drawn = [
        [r * NUM_ITEMS + torch.randperm(NUM_ITEMS, generator=generator) for _ in "abc"]
        for r in numbers
    ]
    pairs = [
        order[:2]
        for r, rater_orders in enumerate(drawn)
        for order in rater_orders[: r + 1]
    ]
    ties = torch.stack([rater_orders[2][2:4] for rater_orders in drawn[1:]])
    orders = torch.stack([rater_orders[0][:4] for rater_orders in drawn[-2:]])
    blocks = [torch.tensor([35, 1]), torch.tensor([0, 1])] if 0 in numbers else []
    return [Comparisons(torch.stack([*pairs, *blocks]), ties), Rankings(orders)]


# The last rater has a number and says nothing.
FEEDBACK = answers(0, 1, 2, 3)


def with_factors(rank: int, items: Tensor = ITEMS) -> CrowdKernel:
    shared = default_covar_module(items.shape[-1], torch.Size()).double()
    return CrowdKernel(shared, TasteKernel(items, rank))


def crowd(
    feedback: list[Comparisons | Rankings] = FEEDBACK, *, noisy: bool = False
) -> CrowdPreferenceGP:
    kernel = with_factors(2)
    if noisy:
        # The first rater is not among those who have a noise.
        kernel.reliability = ReliabilityKernel(RATERS[1:]).double()
        kernel.reliability.noise = torch.tensor([0.4, 2.5, 1.3, 0.7]).double()
    model = CrowdPreferenceGP(POINTS, feedback=feedback, covar_module=kernel)
    model.covar_module.shared.outputscale = 2.5
    return model


def dense(model: CrowdPreferenceGP) -> EPPreferenceGP:
    """Makes the same prior and the same answers, without blocks."""
    twin = EPPreferenceGP(
        model.datapoints,
        feedback=model.feedback,
        covar_module=copy.deepcopy(model.covar_module),
    )
    twin.load_state_dict(model.state_dict())
    return twin


def test_utilities_are_in_deviations_of_the_noise_of_each_rater() -> None:
    noisy, even = crowd(noisy=True).covar_module, crowd().covar_module
    noise = {8: 1.0, 3: 0.4, 5: 2.5, 7: 1.3, 40: 0.7}
    of_rows = [noise[int(rater)] for rater in POINTS[:, -1]]
    scale = torch.tensor(of_rows, dtype=DOUBLE).rsqrt()
    expected = scale[:, None] * scale * even(POINTS).to_dense()
    torch.testing.assert_close(noisy(POINTS).to_dense(), expected)
    torch.testing.assert_close(noisy(POINTS, diag=True), expected.diagonal())


@pytest.mark.parametrize("noisy", [False, True])
def test_the_posterior_is_that_of_the_dense_model(noisy: bool) -> None:
    model = crowd(noisy=noisy)
    exact = dense(model)
    for X in (NEW, NEW.reshape(3, 2, 3), POINTS[28:]):
        posterior, expected = model.posterior(X), exact.posterior(X)
        # Each stops where moments match to 1e-7 posterior deviations.
        torch.testing.assert_close(posterior.mean, expected.mean, rtol=0, atol=1e-7)
        covariance = posterior.distribution.covariance_matrix
        truth = expected.distribution.covariance_matrix
        torch.testing.assert_close(covariance, truth, rtol=0, atol=1e-7)
    for noisy in (False, True):
        wins, truth = (
            m.duel_probability(NEW[:3], NEW[3:], observation_noise=noisy)
            for m in (model, exact)
        )
        torch.testing.assert_close(wins, truth, rtol=0, atol=1e-7)
    # Who says nothing, and a newcomer, are of the group, and one counts twice.
    group = torch.cat([RATERS[:4], RATERS[1:2], RATERS[:1] + 1])
    for X in (ITEMS, NEW[:, :2].reshape(3, 2, 2)):
        first, second = (GroupUtility(m, group).moments(X) for m in (model, exact))
        torch.testing.assert_close(first.mean, second.mean, rtol=0, atol=1e-7)
        torch.testing.assert_close(
            first.covariance, second.covariance, rtol=0, atol=1e-7
        )
    x = NEW.clone().requires_grad_()
    slopes = [
        torch.autograd.grad(m.posterior(x).mean.sum(), x)[0] for m in (model, exact)
    ]
    torch.testing.assert_close(slopes[0][:, :2], slopes[1][:, :2], rtol=0, atol=1e-7)


def test_weights_of_covariates_are_those_of_the_dense_model() -> None:
    """Items have a category behind them here, over which groups average too."""
    category = torch.arange(len(POINTS)).remainder(2).unsqueeze(-1)
    points = torch.cat([POINTS[:, :2], category.double(), POINTS[:, 2:]], dim=-1)
    duels, rankings = answers(1, 2, 3)
    duels = replace(duels, covariates=uniform(duels.num_rows, 2, seed=3) - 0.5)
    kernel = CrowdKernel(*(default_covar_module(3, torch.Size()) for _ in "ab"))
    model = CrowdPreferenceGP(
        points, feedback=[duels, rankings], covar_module=kernel.double()
    )
    exact = dense(model)
    evidences = [m.log_evidence() for m in (model, exact)]
    torch.testing.assert_close(*evidences, rtol=1e-8, atol=0)
    slopes = [
        torch.autograd.grad(evidence, m.covariate_module.raw_scale)[0]
        for evidence, m in zip(evidences, (model, exact), strict=True)
    ]
    torch.testing.assert_close(*slopes, rtol=0, atol=1e-6)
    weights = [m.covariate_posterior().distribution for m in (model, exact)]
    torch.testing.assert_close(weights[0].mean, weights[1].mean, rtol=0, atol=1e-7)
    first, second = (w.covariance_matrix for w in weights)
    torch.testing.assert_close(first, second, rtol=0, atol=1e-7)
    group = torch.tensor([[0.0, 3], [1, 3], [1, 40], [0, 6]], dtype=DOUBLE)
    for predict in (
        lambda m: m.moments(points[7:20]),
        lambda m: GroupUtility(m, group).moments(ITEMS),
        lambda m: moments_of(
            m.option_posterior(points[7:9], torch.ones(2, 2).double() / 3)
        ),
    ):
        first, second = predict(model), predict(exact)
        torch.testing.assert_close(first.mean, second.mean, rtol=0, atol=1e-7)
        torch.testing.assert_close(
            first.covariance, second.covariance, rtol=0, atol=1e-7
        )


def test_raters_of_any_number_of_answers_share_buckets(monkeypatch) -> None:
    """Each size has its own bucket here, down to that of one who says nothing."""
    monkeypatch.setattr(crowd_module, "_LEAST_WIDTH", 0)
    model, exact = crowd(), dense(crowd())
    noise = model.factors().noise
    sizes = [(part.rows < noise.num_rows).sum(-1) for part in noise.parts]
    assert len(sizes) > 2
    assert all(bool((of_part >= 0.8 * of_part.max()).all()) for of_part in sizes[1:])
    posterior, expected = model.posterior(NEW), exact.posterior(NEW)
    torch.testing.assert_close(posterior.mean, expected.mean, rtol=0, atol=1e-7)
    torch.testing.assert_close(
        posterior.distribution.covariance_matrix,
        expected.distribution.covariance_matrix,
        rtol=0,
        atol=1e-7,
    )
    evidences, slopes = [], []
    for tested in (model, exact):
        raw = [p for _, p in sorted(tested.named_parameters()) if p.requires_grad]
        evidences.append(tested.log_evidence())
        slopes.append(torch.autograd.grad(evidences[-1], raw))
    torch.testing.assert_close(*evidences, rtol=0, atol=1e-7)
    torch.testing.assert_close(*slopes, rtol=1e-5, atol=1e-6)
    # What asks for one width gets it.
    torch.testing.assert_close(
        NoiseBlocks.dense(noise), noise.dense(), rtol=0, atol=1e-14
    )


def test_single_precision_is_near_double() -> None:
    with pytest.warns(InputDataWarning):
        model = CrowdPreferenceGP(POINTS.float(), feedback=FEEDBACK)
    posterior = model.posterior(NEW.float())
    expected = CrowdPreferenceGP(POINTS, feedback=FEEDBACK).posterior(NEW)
    assert posterior.mean.dtype == torch.float32
    torch.testing.assert_close(
        posterior.mean.double(), expected.mean, rtol=0, atol=1e-3
    )
    variance = posterior.variance.double()
    torch.testing.assert_close(variance, expected.variance, rtol=0, atol=1e-3)


def test_who_asks_in_inference_mode_leaves_derivatives_to_others() -> None:
    rater_model, slopes = crowd(), []
    with torch.inference_mode():
        rater_model.posterior(NEW).variance.sum()
    for model in (rater_model, crowd()):
        X = NEW.clone().requires_grad_()
        posterior = model.posterior(X)
        value = (posterior.mean + posterior.variance).sum()
        slopes.append(torch.autograd.grad(value, X)[0])
    torch.testing.assert_close(*slopes)


def test_tastes_much_wider_than_the_noise_keep_their_digits() -> None:
    """The dense model conditions on rows, whose digits do not depend on tastes."""
    model = crowd()
    model.likelihood.noise, model.likelihood.tie_threshold = 1e-6, 3e-4
    model.covar_module.own.scale = model.covar_module.shared.outputscale = 100.0
    exact = dense(model)
    # Both have converged, else they would warn.
    first_mean, expected = (m.posterior(NEW).mean for m in (model, exact))
    deviation = exact.posterior(NEW).variance.sqrt()
    away = (first_mean - expected).detach() / deviation.detach()
    assert float(away.abs().max()) < 1e-7


@pytest.mark.parametrize("noisy", [False, True])
def test_the_evidence_and_its_gradient_are_those_of_the_dense_model(
    noisy: bool,
) -> None:
    model = crowd(noisy=noisy)
    exact = dense(model)
    values, slopes = [], []
    for tested in (model, exact):
        value = tested.log_evidence()
        learned = [p for p in tested.parameters() if p.requires_grad]
        slopes.append(torch.autograd.grad(value, learned))
        values.append(value.detach())
    torch.testing.assert_close(*values, rtol=0, atol=1e-9)
    for slope, expected in zip(*slopes, strict=True):
        # The fixed point is reached to 1e-7, and the gradient follows it.
        torch.testing.assert_close(slope, expected, rtol=0, atol=1e-6)


def noise_hessian(model: CrowdPreferenceGP) -> Tensor:
    """Differences of the gradient of the evidence in log noises."""
    kernel, step = model.covar_module.reliability, 1e-3
    start, rows = kernel.raw_noise.detach().clone(), []
    for change in step * torch.eye(len(start)).double():
        ends = []
        for raw in (start + change, start - change):
            # The raw noise is the log noise in spreads, of 1 here.
            kernel.raw_noise.data.copy_(raw)
            ends += torch.autograd.grad(model.log_evidence(), kernel.raw_noise)
        rows.append((ends[0] - ends[1]) / (2 * step))
    kernel.raw_noise.data.copy_(start)
    return torch.stack(rows)


def test_the_curvature_of_the_evidence_in_the_noises() -> None:
    pairs, ties = FEEDBACK[0].pairs, FEEDBACK[0].ties
    model = crowd([Comparisons(pairs, ties)], noisy=True)
    # Where raters share nothing, nothing is left out.
    model.covar_module.shared.outputscale = 1e-6
    curvature = crowd_noise_curvature(model)
    assert curvature is not None
    expected = noise_hessian(model)
    torch.testing.assert_close(curvature, expected, rtol=1e-3, atol=1e-5)
    # Nor where each rater has weights of her own.
    shown = torch.linspace(-1, 1, len(pairs) + len(ties)).double().unsqueeze(-1)
    answerer = POINTS[torch.cat([pairs, ties])[:, :1], -1]
    apart = shown * (answerer == RATERS)
    model = crowd([Comparisons(pairs, ties, covariates=apart)], noisy=True)
    model.covar_module.shared.outputscale = 1e-6
    torch.testing.assert_close(
        crowd_noise_curvature(model), noise_hessian(model), rtol=1e-3, atol=1e-5
    )
    model = crowd([Comparisons(pairs, ties, covariates=shown)], noisy=True)
    model.covar_module.shared.outputscale = 2.5
    variances = [
        torch.linalg.inv(torch.eye(4).double() - hessian).diagonal()
        for hessian in (crowd_noise_curvature(model), noise_hessian(model))
    ]
    # Squares of covariances between raters are a few percent.
    torch.testing.assert_close(*variances, rtol=0.05, atol=0)


def test_the_curvature_in_the_noises_is_not_known_of_answers_that_share_noise() -> None:
    assert crowd_noise_curvature(crowd(noisy=True)) is None
    assert crowd_noise_curvature(crowd(FEEDBACK[:1])) is None


def test_more_answers_of_old_and_new_raters_are_taken() -> None:
    model = crowd()
    _ = model.posterior(NEW)
    further_answers = [Comparisons(torch.tensor([[7, 8], [28, 30]])), *FEEDBACK[1:]]
    posterior = model.condition_on_observations(POINTS, further_answers).posterior(NEW)
    expected = (
        dense(model).condition_on_observations(POINTS, further_answers).posterior(NEW)
    )
    torch.testing.assert_close(posterior.mean, expected.mean, rtol=0, atol=1e-7)
    torch.testing.assert_close(posterior.variance, expected.variance, rtol=0, atol=1e-7)
    twin = pickle.loads(pickle.dumps(copy.deepcopy(model)))
    assert torch.equal(twin.posterior(NEW).mean, model.posterior(NEW).mean)


def test_without_answers_there_is_the_prior() -> None:
    model = CrowdPreferenceGP(POINTS, covar_module=with_factors(2))
    X = torch.cat([NEW, POINTS[:1]])
    covariance = model.posterior(X).distribution.covariance_matrix
    shared, rater_kernel = (
        k(X[:, :2]) for k in (model.covar_module.shared, model.covar_module.own)
    )
    is_same = torch.eye(7, dtype=torch.bool)
    for i, j in ((0, 1), (2, 5), (4, 6)):
        is_same[i, j] = is_same[j, i] = True
    expected = shared.to_dense() + torch.where(is_same, rater_kernel.to_dense(), 0.0)
    torch.testing.assert_close(covariance, expected)


def test_tastes_are_factors_and_what_is_left() -> None:
    base = RBFKernel().double()
    kernel = TasteKernel(ITEMS, rank=3, base_kernel=base, seed=4)
    assert torch.equal(kernel.factors, TasteKernel(ITEMS, rank=3, seed=4).factors)
    delta, scale = kernel.nugget, kernel.scale
    X = NEW[:, :2]
    every = torch.cat([ITEMS, X])
    is_same_point = (every[:, None] == every).all(-1).double()
    g = (1 - delta) * base(every).to_dense() + delta * is_same_point
    z, x = slice(0, NUM_ITEMS), slice(NUM_ITEMS, None)
    factors = torch.linalg.cholesky(g[z, z]) @ kernel.factors
    # At other items the factors are what a regression on those of the items expects.
    elsewhere = g[x, z] @ torch.linalg.solve(g[z, z], factors)
    expected = elsewhere @ elsewhere.mT + scale * g[x, x]
    torch.testing.assert_close(kernel(X).to_dense(), expected)
    torch.testing.assert_close(kernel(X, diag=True), expected.diagonal())
    between = kernel(X, ITEMS).to_dense()
    torch.testing.assert_close(between, elsewhere @ factors.mT + scale * g[x, z])
    torch.testing.assert_close(elsewhere[-2:], factors[:2])


def test_a_fit_finds_two_camps() -> None:
    items = torch.linspace(0, 1, 6, dtype=DOUBLE)[:, None]
    people = torch.arange(16, dtype=DOUBLE)
    points = torch.cat([items.repeat(16, 1), people.repeat_interleave(6)[:, None]], 1)
    generator = torch.Generator().manual_seed(0)
    pairs = []
    for person in range(16):
        for _ in range(4):
            low, high = torch.randperm(6, generator=generator)[:2].sort().values
            pair = [low, high] if person % 2 else [high, low]
            pairs.append([6 * person + int(item) for item in pair])
    kernel = with_factors(1, items)
    model = CrowdPreferenceGP(points, torch.tensor(pairs), covar_module=kernel)
    fit_gpytorch_mll(
        PreferenceMarginalLogLikelihood(model.likelihood, model),
        optimizer_kwargs={"options": {"ftol": 1e-3}},
    )
    ends = torch.stack([points[0::6], points[5::6]], dim=1)
    first = model.duel_probability(ends[:, :1], ends[:, 1:]).squeeze(-1)
    assert bool(((first > 0.5) == (people % 2 == 1)).all())
    newcomer = torch.tensor([[[0.0, 99.0], [1.0, 99.0]]], dtype=DOUBLE)
    of_all = model.duel_probability(newcomer[:, :1], newcomer[:, 1:])
    # Nobody knows a newcomer's camp.
    assert 0.3 < float(of_all.detach()) < 0.7


def test_a_crowd_says_what_it_does_not_take() -> None:
    with pytest.raises(FeedbackError, match=r"raters \[3.0, 8.0\]"):
        CrowdPreferenceGP(POINTS, torch.tensor([[0, 1], [0, 8]]))
    with pytest.raises(FeedbackError, match=r"items with the number of the rater"):
        CrowdPreferenceGP(ITEMS[:, :1], torch.tensor([[0, 1]]))
    with pytest.raises(FeedbackError, match=r"no batches"):
        CrowdPreferenceGP(POINTS, torch.tensor([[[0, 1]], [[1, 2]]]))
    with pytest.raises(FeedbackError, match=r"rank"):
        TasteKernel(ITEMS, rank=0)
    with pytest.raises(FeedbackError, match=r"of 3 features, and the model has .* 2;"):
        TasteKernel(torch.cat([ITEMS, ITEMS[:, :1]], -1))(ITEMS).to_dense()
    for items, match in (
        (torch.cat([ITEMS, ITEMS[:1]]), r"none of them twice"),
        (ITEMS[:0], r"at least one row"),
        (ITEMS[None], r"items has shape \(1, 7, 2\)"),
        (ITEMS[:, 0], r"items has shape \(7,\)"),
        (ITEMS / 0, r"items\[0, 0\] is inf"),
        (torch.arange(4)[:, None], r"pass items.to\(torch.float64\)"),
    ):
        with pytest.raises(FeedbackError, match=match):
            TasteKernel(items)
    for points in (None, [[0.1, 1.0], [0.2, 1.0]]):
        with pytest.raises(FeedbackError, match=r"datapoints must be a tensor"):
            CrowdPreferenceGP(points, torch.tensor([[0, 1]]))  # type: ignore[arg-type]
    with pytest.raises(FeedbackError, match=r"own is 1; give an instance"):
        CrowdKernel(RBFKernel(), 1)  # type: ignore[arg-type]
    moved = POINTS.clone().requires_grad_()
    with pytest.raises(FeedbackError, match=r"derivatives in the points"):
        crowd().condition_on_observations(moved, FEEDBACK).posterior(NEW)
    with pytest.raises(BotorchPrefError, match=r"whole utilities and look-ahead"):
        crowd().posterior_terms()


def test_tastes_have_a_kernel_of_their_own_by_default() -> None:
    model = CrowdPreferenceGP(POINTS, feedback=FEEDBACK)
    model.covar_module.own.outputscale = 2.0
    posterior, expected = model.posterior(NEW), dense(model).posterior(NEW)
    torch.testing.assert_close(posterior.variance, expected.variance, rtol=0, atol=1e-7)
    assert float(model.covar_module.shared.outputscale.detach()) > 6
