"""The sparse model: dense priors by hand, the exact model, finite differences."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms.input import Normalize
from botorch.sampling import SobolQMCNormalSampler
from botorch.sampling.pathwise import draw_matheron_paths
from cases import in_turn
from draws import uniform
from models.cell_models import (
    assert_same_moments,
    moments,
)
from registry import ACQUISITIONS
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from truths.slopes import assert_right_along, central_slopes

from botorch_pref import (
    Comparisons,
    DuelKernel,
    EPPreferenceGP,
    FeedbackError,
    PreferenceMarginalLogLikelihood,
    Rankings,
    Ratings,
    SparsePreferenceGP,
    Strengths,
    Validity,
)
from botorch_pref.feedback import Feedback
from botorch_pref.inference import ExpectationPropagation, UtilityPrior
from botorch_pref.inference.inducing import BlurredFactors, inverse_root
from botorch_pref.models import PreferenceGP, rater_covar_module
from botorch_pref.models.engines import spread_places

DOUBLE = torch.float64


def sets(count: int, size: int, n: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    chosen = [torch.randperm(n, generator=generator)[:size] for _ in range(count)]
    return torch.stack(chosen)


def distinct_pairs(count: int, n: int, seed: int) -> Tensor:
    every = torch.combinations(torch.arange(n))
    generator = torch.Generator().manual_seed(seed)
    return every[torch.randperm(len(every), generator=generator)[:count]]


X = uniform(40, 2)
NEW = uniform(6, 2, seed=1)
MANY = [
    Comparisons(sets(60, 2, 40, 2), sets(6, 2, 40, 3)),
    Rankings(sets(8, 4, 40, 4)),
    Strengths(sets(10, 2, 40, 5), uniform(10, seed=6)),
    Validity(torch.arange(12), uniform(12, seed=7) < 0.5),
]


def sparse(
    feedback: list[Feedback], num_inducing: int = 9, points: Tensor = X, **options: Any
) -> SparsePreferenceGP:
    """Makes a model of a prior that ``num_inducing`` points leave partly open."""
    model = SparsePreferenceGP(
        points, feedback=feedback, num_inducing=num_inducing, **options
    )
    model.covar_module.outputscale = 5.0
    model.covar_module.base_kernel.lengthscale = 0.3
    return model


@pytest.fixture(scope="module")
def known() -> SparsePreferenceGP:
    """A model whose solution is found once, for tests that change nothing."""
    model = sparse(MANY).eval()
    _ = model.posterior(NEW), model.log_evidence()
    return model


def assert_same(model: PreferenceGP, expected: PreferenceGP) -> None:
    """Compares posteriors and evidences."""
    moments_pair = moments(model, NEW), moments(expected, NEW)
    assert_same_moments(SparsePreferenceGP, *moments_pair)
    torch.testing.assert_close(
        model.log_evidence(), expected.log_evidence(), rtol=1e-6, atol=1e-6
    )


def learned(model: PreferenceGP) -> list[torch.nn.Parameter]:
    return [p for p in model.parameters() if p.requires_grad]


# --- Where all points are inducing points, the exact model


def all_inducing(model: SparsePreferenceGP, seed: int = 8) -> SparsePreferenceGP:
    """Gives the model all its points as inducing points, in another order."""
    points = model.datapoints
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(points.shape[-2], generator=generator)
    model.inducing_points = points.detach()[..., order, :]
    return model


def test_all_kinds_at_once_give_the_exact_model() -> None:
    model = all_inducing(sparse(MANY, 40))
    exact = EPPreferenceGP(X, feedback=MANY)
    hyperparameters = model.state_dict()
    del hyperparameters["inducing_points"]
    exact.load_state_dict(hyperparameters)
    assert_same(model, exact)


def test_few_points_are_all_inducing_points() -> None:
    model, exact = sparse(MANY, 40), EPPreferenceGP(X, feedback=MANY)
    exact.load_state_dict(model.state_dict())
    assert model.inducing_points is None
    assert torch.equal(model.log_evidence(), exact.log_evidence())
    # Of points that were given twice, one counts.
    twice = SparsePreferenceGP(
        torch.cat([X, X]), torch.tensor([[0, 41]]), num_inducing=40
    )
    assert twice.inducing_points is None


# --- Else the prior of FITC, by hand


def projected(model: SparsePreferenceGP, a: Tensor, b: Tensor) -> Tensor:
    """Computes the covariance of ``a`` and ``b`` by way of the inducing points."""
    z, kernel = model.inducing_points, model.covar_module
    with torch.no_grad():
        first_covariance, right = kernel(a, z).to_dense(), kernel(z, b).to_dense()
        return first_covariance @ torch.linalg.solve(kernel(z).to_dense(), right)


def test_a_fit_of_few_points_is_that_of_the_exact_model() -> None:
    X = uniform(12, 2)
    chain = torch.stack([torch.arange(11), torch.arange(1, 12)], dim=-1)
    # Contradicted, so that a search ends where its tolerance says.
    pairs = torch.cat([chain, torch.tensor([[5, 0], [9, 3]])])
    sparse, exact = (kind(X, pairs) for kind in (SparsePreferenceGP, EPPreferenceGP))
    for model in (sparse, exact):
        fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    values = [[*model.state_dict().values()] for model in (sparse, exact)]
    torch.testing.assert_close(*values, rtol=1e-9, atol=1e-9)


def test_posterior_is_the_exact_one_under_the_prior_of_fitc() -> None:
    # Each point in one answer: what is open of it is heard once.
    feedback = [
        Comparisons(torch.arange(12).reshape(6, 2), torch.tensor([[12, 13]])),
        # Two items share no noise, and are in blocks of it beside others all the same.
        Rankings(torch.tensor([[14, 15, 16, 17], [18, 19, -1, -1], [22, 23, 24, 25]])),
        Validity(torch.arange(26, 30), uniform(4, seed=3) < 0.5),
        Ratings(torch.arange(30, 34), uniform(4, seed=4)),
    ]
    model = sparse(feedback)
    model.mean_module.initialize(constant=0.3)
    with torch.no_grad():
        covar = projected(model, X, X)
        open_ = model.covar_module(X, diag=True) - covar.diagonal()
        prior = UtilityPrior(X, torch.full((40,), 0.3), covar + torch.diag(open_))
        factors = model.factors()
        truth = ExpectationPropagation().solve(prior, factors)
        assert float(open_.mean()) > 0.2  # of 5
        torch.testing.assert_close(
            model.log_evidence(), truth.log_evidence, rtol=1e-7, atol=1e-7
        )
        cross = projected(model, NEW, X)
        known = cross @ truth.terms.root
        covariance = model.covar_module(NEW).to_dense() - known @ known.mT
        mean = 0.3 + (cross @ truth.terms.weights).squeeze(-1)
    assert_same_moments(SparsePreferenceGP, moments(model, NEW), (mean, covariance))


def test_rows_hear_what_is_open_independently() -> None:
    # Each difference as a point of its own, which is positive up to its noise.
    pairs = distinct_pairs(60, 40, 2)
    model = sparse([Comparisons(pairs)])
    design = torch.zeros(60, 40, dtype=DOUBLE)
    design[torch.arange(60), pairs[:, 0]], design[torch.arange(60), pairs[:, 1]] = 1, -1
    with torch.no_grad():
        covar = projected(model, X, X)
        open_ = model.covar_module(X, diag=True) - covar.diagonal()
        of_rows = design @ covar @ design.mT + torch.diag(design.abs() @ open_)
        every = Validity(torch.arange(60), torch.ones(60, dtype=torch.bool))
        alone = EPPreferenceGP(uniform(60, 1), feedback=[every])
        alone.likelihood.noise = 2.0
        prior = UtilityPrior(alone.datapoints, torch.zeros(60, dtype=DOUBLE), of_rows)
        truth = ExpectationPropagation().solve(prior, alone.factors())
        torch.testing.assert_close(
            model.log_evidence(), truth.log_evidence, rtol=1e-7, atol=1e-7
        )
        cross = projected(model, NEW, X) @ design.mT
        known = cross @ truth.terms.root
        covariance = model.covar_module(NEW).to_dense() - known @ known.mT
        mean = (cross @ truth.terms.weights).squeeze(-1)
    assert_same_moments(SparsePreferenceGP, moments(model, NEW), (mean, covariance))


def test_how_much_inducing_points_leave_open_is_said() -> None:
    answers = Comparisons(sets(60, 2, 40, 2), covariates=uniform(60, 2, seed=3))
    for feedback in (MANY, [answers]):
        model = sparse(feedback)
        explained = projected(model, X, X).diagonal().mean() / 5.0
        open_share = model.diagnostics()["left_open"]
        torch.testing.assert_close(open_share, 1 - explained)
    assert float(open_share) > 0.05


def mixed() -> SparsePreferenceGP:
    counted = Comparisons(sets(60, 2, 40, 2), pair_counts=torch.arange(60) % 3 + 1)
    return sparse([counted, *MANY[1:]])


def contradicted() -> SparsePreferenceGP:
    """Makes answers that others make so unlikely that they bend the wrong way."""
    pairs = sets(30, 2, 40, 5)
    first, second = X[pairs].sum(-1).unbind(-1)
    strengths = torch.sigmoid(4 * (first - second))
    contradictions = torch.where(strengths[:4] > 0.5, 0.02, 0.98).double()
    all_strengths = Strengths(
        torch.cat([pairs, pairs[:4]]), torch.cat([strengths, contradictions])
    )
    model = sparse([all_strengths], 20)
    model.likelihood.precision, model.likelihood.noise = 6.0, 0.5
    assert bool((model.solution().sites.precision < 0).any())
    return model


@pytest.mark.parametrize("instance", [mixed, contradicted])
def test_gradient_of_the_evidence_is_that_of_finite_differences(
    instance: Callable[[], SparsePreferenceGP],
) -> None:
    # The noise of the answers too.
    model = instance().requires_grad_()
    parameters = learned(model)
    slopes = torch.autograd.grad(model.log_evidence(), parameters)
    for parameter, slope in zip(parameters, slopes, strict=True):
        entry = parameter.detach().view(-1)[:1]
        expected = central_slopes(model.log_evidence, entry, 1e-4)
        torch.testing.assert_close(slope.view(-1)[:1], expected, rtol=1e-5, atol=1e-5)


def test_blurred_factors_are_integrals_of_their_own() -> None:
    model = sparse([Comparisons(sets(5, 2, 40, 2), sets(3, 2, 40, 3))])
    model.likelihood.tie_threshold = 0.4
    factors = model.factors()
    blur = torch.linspace(0.1, 2.0, 8, dtype=DOUBLE)
    blurred = BlurredFactors(factors, blur, None)
    z = torch.linspace(-2, 2, 8, dtype=DOUBLE)
    x = torch.linspace(-12, 12, 4001, dtype=DOUBLE)

    def value(z: Tensor, variance: Tensor | float) -> Tensor:
        spread = (blur + variance).sqrt()
        of_each = factors.log_prob(z + x.unsqueeze(-1) * spread).value
        return (of_each - 0.5 * x.unsqueeze(-1) ** 2).logsumexp(0) + torch.log(
            (x[1] - x[0]) / (2 * torch.pi) ** 0.5
        )

    with torch.no_grad():
        derivatives = blurred.log_prob(z)
        torch.testing.assert_close(derivatives.value, value(z, 0.0))
        partition = blurred.log_partition(z, torch.full_like(z, 0.7))
        torch.testing.assert_close(partition.value, value(z, 0.7))
        slopes = blurred.tilted(z, torch.full_like(z, 0.7))
        torch.testing.assert_close(slopes.first, partition.first)
        torch.testing.assert_close(slopes.ratio, 1 + 0.7 * partition.second)
        h = 1e-4
        up, down = blurred.log_prob(z + h), blurred.log_prob(z - h)
    torch.testing.assert_close(derivatives.first, (up.value - down.value) / (2 * h))
    torch.testing.assert_close(derivatives.second, (up.first - down.first) / (2 * h))
    third = blurred.curvature_gradient(z, torch.full_like(z, 2.0))
    torch.testing.assert_close(third, (up.second - down.second) / h)


# --- What must not matter, and what must


def test_inducing_points_that_repeat_change_nothing(known: SparsePreferenceGP) -> None:
    second_model = sparse(MANY)
    inducing_points = known.inducing_points
    second_model.inducing_points = torch.cat(
        [inducing_points, inducing_points[:4], inducing_points[:2] + 1e-12]
    )
    assert_same(second_model, known)


def test_directions_within_rounding_are_no_features() -> None:
    covar = torch.diag(torch.tensor([4.0, 1.0, 1e-17, 0.0, -1e-18], dtype=DOUBLE))
    root = inverse_root(covar, torch.finfo(DOUBLE).eps)
    expected = torch.diag(torch.tensor([0.25, 1.0, 0.0, 0.0, 0.0], dtype=DOUBLE))
    torch.testing.assert_close(root @ root.mT, expected)


def test_no_matrix_of_points_by_points_is_made() -> None:
    class Largest(TorchDispatchMode):
        entries = 0

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            out = func(*args, **(kwargs or {}))
            for part in out if isinstance(out, tuple | list) else [out]:
                if isinstance(part, Tensor) and part.layout == torch.strided:
                    self.entries = max(self.entries, part.numel())
            return out

    n, m = 700, 900
    points, pairs = uniform(n, 2), sets(m, 2, n, 1)
    with Largest() as largest_tensor:
        model = sparse([Comparisons(pairs)], 10, points)
        model.log_evidence().backward()
        model.posterior(points[:5])
    assert largest_tensor.entries <= m * 32


@pytest.mark.filterwarnings("ignore:A feature has a range")
def test_points_far_from_all_inducing_points_are_known_by_their_prior() -> None:
    model = sparse(MANY, points=100 * X)
    assert model.diagnostics()["converged"]
    assert bool((projected(model, 100 * X, 100 * X).diagonal() == 0).any())
    far = torch.full((1, 2), 999.0, dtype=DOUBLE)
    mean, covariance = moments(model, far)
    assert mean.item() == model.mean_module.constant.item()
    torch.testing.assert_close(covariance.squeeze(), torch.tensor(5.0, dtype=DOUBLE))


def test_raters_share_what_inducing_points_see() -> None:
    # The last column is who answered.
    points = torch.cat([X, (torch.arange(40) % 4).unsqueeze(-1)], dim=-1)
    kernel = rater_covar_module(2)
    exact = EPPreferenceGP(points, sets(60, 2, 40, 2), covar_module=kernel)
    model = SparsePreferenceGP(points, sets(60, 2, 40, 2), covar_module=kernel)
    x = points[:5] + 0.1 * torch.tensor([1.0, 1.0, 0.0])
    assert_same_moments(
        SparsePreferenceGP, moments(all_inducing(model), x), moments(exact, x)
    )
    small_model = SparsePreferenceGP(
        points, sets(60, 2, 40, 2), covar_module=kernel, num_inducing=12
    )
    assert len(small_model.inducing_points[:, -1].unique()) == 4


def test_noisy_raters_and_covariates_are_those_of_the_exact_model() -> None:
    raters = torch.arange(40) % 4
    points = torch.cat([X, raters.unsqueeze(-1)], dim=-1)
    feedback = [
        Comparisons(sets(60, 2, 40, 2), covariates=uniform(60, 2, seed=3)),
        Rankings(sets(8, 4, 40, 4), covariates=uniform(8, 4, 2, seed=5)),
        Validity(torch.arange(12), uniform(12, seed=7) < 0.5),
    ]
    kernel = rater_covar_module(2, noisy_raters=raters.unique().double())
    kernel.kernels[-1].noise = torch.tensor([0.3, 1.0, 3.0, 0.8], dtype=DOUBLE)
    exact = EPPreferenceGP(points, feedback=feedback, covar_module=kernel)
    model = SparsePreferenceGP(
        points, feedback=feedback, covar_module=copy.deepcopy(kernel), num_inducing=40
    )
    all_inducing(model)
    models = model, exact
    slopes = [
        torch.autograd.grad(tested.log_evidence(), learned(tested)) for tested in models
    ]
    torch.testing.assert_close(*slopes, rtol=1e-6, atol=1e-6)
    x, covariates = points[:5] + 0.1, uniform(5, 2, seed=8)
    for find in (
        lambda tested: tested.posterior(x),
        lambda tested: tested.option_posterior(x, covariates),
        lambda tested: tested.covariate_posterior(),
    ):
        distributions = [find(tested.eval()).distribution for tested in models]
        for part in ("mean", "covariance_matrix"):
            torch.testing.assert_close(
                *(getattr(distribution, part) for distribution in distributions),
                rtol=1e-6,
                atol=1e-6,
            )


# --- The choice of inducing points


def test_inducing_points_are_the_greedy_choice() -> None:
    kernel = DuelKernel(2).double()
    expected: list[int] = []
    covar = kernel(X).to_dense().detach()
    for _ in range(12):
        remaining_variance = covar.diagonal()
        if expected:
            columns = covar[:, expected]
            inner = torch.linalg.solve(covar[expected][:, expected], columns.mT)
            remaining_variance = remaining_variance - (columns * inner.mT).sum(-1)
        expected.append(int(remaining_variance.argmax()))
    # Of equal variances at first, any may be the largest.
    assert spread_places(kernel, X, 12).tolist() == expected


def test_points_that_are_explained_are_chosen_in_further_rounds() -> None:
    kernel = sparse(MANY).covar_module
    kernel.base_kernel.lengthscale = 50.0
    batches = torch.stack([X, X.flip(-2)])
    places = spread_places(kernel, batches, 30)
    assert places.shape == (2, 30)
    for element_places, points in zip(places, batches, strict=True):
        assert len(set(element_places.tolist())) == 30
        torch.testing.assert_close(
            spread_places(kernel, points, 30).sort().values,
            element_places.sort().values,
        )


def test_inducing_points_stay_until_called_for() -> None:
    model = sparse(MANY)
    before = model.inducing_points
    model.covar_module.base_kernel.lengthscale = torch.tensor([0.05, 3.0])
    mean, _ = moments(model, NEW)
    assert model.inducing_points is before
    model.choose_inducing_points()
    assert not torch.equal(model.inducing_points, before)
    assert len(model.inducing_points) == 9
    assert not torch.allclose(moments(model, NEW)[0], mean)


def test_a_state_holds_chosen_inducing_points() -> None:
    """And is loaded where another number was chosen, or all points are seen."""
    model = sparse(MANY)
    model.covar_module.base_kernel.lengthscale = torch.tensor([0.05, 3.0])
    model.choose_inducing_points()
    mean, _ = moments(model, NEW)
    for num_inducing in (9, 12):
        resized = sparse(MANY, num_inducing=num_inducing)
        resized.load_state_dict(model.state_dict())
        torch.testing.assert_close(resized.inducing_points, model.inducing_points)
        torch.testing.assert_close(moments(resized, NEW)[0], mean, rtol=0, atol=1e-6)
    full_model = sparse(MANY, num_inducing=len(X))
    full_model.load_state_dict(model.state_dict())
    assert full_model.inducing_points is None
    chosen = model.inducing_points
    model.load_state_dict(full_model.state_dict())
    assert model.inducing_points is not None
    torch.testing.assert_close(model.inducing_points, chosen)


def test_inducing_points_are_of_the_present_data() -> None:
    model = sparse(MANY, input_transform=Normalize(2))
    chosen = model.inducing_points
    model.posterior(NEW)
    model.train()
    model.log_evidence()
    assert model.inducing_points is chosen
    joined = torch.cat([X, 2 + uniform(20, 2, seed=9)])
    model.set_train_data(joined)
    model.posterior(NEW)
    assert bool((model.inducing_points > 1.5).any())
    model.set_train_data(X[:9], torch.tensor([[0, 1]]), feedback=[])
    model.posterior(NEW)
    assert model.inducing_points is None


def test_input_transforms_learn_from_the_datapoints_alone() -> None:
    low, high = X.amin(0), X.amax(0)
    expected = sparse(MANY, points=(X - low) / (high - low))
    model = sparse(MANY, points=30 * X - 7, input_transform=Normalize(2))
    model.inducing_points = 30 * ((high - low) * expected.inducing_points + low) - 7
    torch.testing.assert_close(model.log_evidence(), expected.log_evidence())
    model.eval()
    torch.testing.assert_close(model.log_evidence(), expected.log_evidence())


def test_a_model_without_points_has_none_to_choose_from() -> None:
    empty = SparsePreferenceGP(num_inducing=9)
    with pytest.raises(FeedbackError, match="datapoints="):
        empty.choose_inducing_points()
    model = empty.condition_on_observations(X, sets(60, 2, 40, 2))
    model.posterior(NEW)
    assert len(model.inducing_points) == 9
    with pytest.raises(FeedbackError, match="num_inducing"):
        SparsePreferenceGP(num_inducing=0)


# --- Behind BoTorch's interface


def test_further_points_become_inducing_points() -> None:
    model = sparse(MANY)
    model.posterior(NEW)
    comparisons = Comparisons(torch.tensor([[0, 1], [0, 1]]))
    new = model.condition_on_observations(NEW[:2], comparisons)
    assert torch.equal(new.inducing_points[-2:], NEW[:2])
    assert new.diagnostics()["converged"]
    joined = [MANY[0].followed_by(comparisons.shifted(40)), *MANY[1:]]
    again = sparse(joined, points=torch.cat([X, NEW[:2]]))
    again.inducing_points = new.inducing_points
    assert_same(again, new)
    assert len(model.inducing_points) == 9
    fantasy = sparse(MANY, 40).condition_on_observations(NEW[:2], comparisons)
    assert fantasy.inducing_points is None


PAIR = Comparisons(torch.tensor([[0, 1]]))
TIE = Comparisons(None, torch.tensor([[0, 1]]))
RANKING = Rankings(torch.tensor([[0, 1, 2, 3]]))
STRENGTH = Strengths(torch.tensor([[0, 1]]), torch.tensor([0.3], dtype=DOUBLE))


def statistics(model: PreferenceGP) -> Tensor:
    """Computes two numbers that depend on all means and covariances."""
    posterior: Any = model.posterior(NEW)
    mean, covariance = (
        getattr(posterior.distribution, part) for part in ("mean", "covariance_matrix")
    )
    weights = uniform(6, 6, seed=3)
    values = (mean * weights[0]).sum(-1), (covariance * weights).sum((-2, -1))
    return torch.stack([part.sum() for part in values])


@pytest.mark.parametrize(
    ("make_model", "further_answers", "count"),
    [
        (mixed, PAIR, 2),
        (lambda: sparse(MANY), TIE, 2),
        (mixed, RANKING, 4),
        (contradicted, STRENGTH, 2),
    ],
)
def test_posteriors_move_with_the_points_of_further_answers(
    make_model: Callable[[], SparsePreferenceGP], further_answers: Feedback, count: int
) -> None:
    # The points are inducing points too, and move as such.
    model = make_model().eval()

    def function(x: Tensor) -> Tensor:
        return statistics(model.condition_on_observations(x, further_answers))

    assert_right_along(function, NEW[:count] + 0.02, atol=1e-6)


def test_posteriors_move_through_transforms_covariates_and_batches() -> None:
    pairs, covariates = sets(30, 2, 40, 2), uniform(30, 1, seed=3)
    answers = Comparisons(pairs, covariates=covariates)
    model = sparse([answers], input_transform=Normalize(2)).eval()
    further_answers = Comparisons(
        torch.tensor([[0, 1], [2, 1]]), covariates=uniform(2, 1, seed=4) - 0.5
    )

    def function(x: Tensor) -> Tensor:
        return statistics(model.condition_on_observations(x, further_answers))

    assert_right_along(function, (NEW + 0.02).reshape(2, 3, 2), atol=1e-6)


def test_fantasies_move_with_their_points() -> None:
    model = sparse([MANY[0]]).eval()
    sampler = SobolQMCNormalSampler(torch.Size([3]), seed=0)

    def function(x: Tensor) -> Tensor:
        mean = model.fantasize(x, sampler).posterior(NEW).mean
        return mean.amax((-2, -1)).mean(0).sum().unsqueeze(0)

    assert_right_along(function, NEW[:4].reshape(2, 2, 2) + 0.02, atol=1e-6)


def test_points_of_all_answers_move_the_posterior_by_way_of_inducing_points() -> None:
    chosen = sparse(MANY).inducing_points

    def function(x: Tensor) -> Tensor:
        model = sparse(MANY, points=x)
        # A choice of others would jump.
        model.inducing_points = chosen
        return statistics(model)

    assert_right_along(function, X + 0.01 * uniform(40, 2, seed=12), atol=1e-6)


def test_movement_is_that_of_the_exact_model() -> None:
    slopes = []
    for cls, options in (
        (SparsePreferenceGP, {"num_inducing": 40}),
        (EPPreferenceGP, {}),
    ):
        model = cls(X, feedback=MANY, **options)
        if isinstance(model, SparsePreferenceGP):
            all_inducing(model)
        x = (NEW[:2] + 0.02).requires_grad_()
        fantasy = model.eval().condition_on_observations(x, PAIR)
        (slope,) = torch.autograd.grad(statistics(fantasy).sum(), x)
        slopes.append(slope)
    torch.testing.assert_close(*slopes, rtol=1e-5, atol=1e-6)


@in_turn("entry", ACQUISITIONS.values())
def test_acquisition_functions_take_it(known: SparsePreferenceGP, entry: Any) -> None:
    x = NEW.unsqueeze(-2).clone().requires_grad_()
    arguments = {"generator": torch.Generator().manual_seed(5)} if entry.drawn else {}
    value = entry(known, X[:1], **arguments)(x)
    assert bool(value.isfinite().all())
    (slope,) = torch.autograd.grad(value.sum(), x)
    assert bool(slope.isfinite().all())


def test_function_draws_have_the_posterior_mean(known: SparsePreferenceGP) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        paths = draw_matheron_paths(known, torch.Size([2000]))
    drawn = paths(NEW).detach()
    mean, covariance = moments(known, NEW)
    error = (drawn.mean(0) - mean) / covariance.diagonal().sqrt()
    assert float(error.abs().max()) < 6 * 2000**-0.5


def test_a_state_has_inducing_points_and_no_other_data() -> None:
    model = sparse(MANY)
    model.covar_module.base_kernel.lengthscale = torch.tensor([0.1, 1.0])
    state = model.state_dict()
    points = state["inducing_points"]
    torch.testing.assert_close(points, model.inducing_points)
    second_model = sparse(MANY)
    second_model.load_state_dict(state)
    assert_same(second_model, model)
    model.choose_inducing_points()
    assert not torch.equal(model.inducing_points, second_model.inducing_points)
    # A copy has them as they are.
    assert torch.equal(copy.deepcopy(model).log_evidence(), model.log_evidence())
