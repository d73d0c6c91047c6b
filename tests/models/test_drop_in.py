"""BoTorch's own uses of `PairwiseGP`, with nothing but the two class names replaced."""

import copy
from typing import Any

import pytest
import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.active_learning import PairwiseMCPosteriorVariance
from botorch.acquisition.analytic import LogExpectedImprovement, PosteriorMean
from botorch.acquisition.logei import (
    qLogExpectedImprovement,
    qLogNoisyExpectedImprovement,
)
from botorch.acquisition.monte_carlo import qSimpleRegret, qUpperConfidenceBound
from botorch.acquisition.objective import (
    GenericMCObjective,
    LearnedObjective,
)
from botorch.acquisition.preference import (
    AnalyticExpectedUtilityOfBestOption,
    qExpectedUtilityOfBestOption,
)
from botorch.exceptions.warnings import InputDataWarning
from botorch.fit import fit_gpytorch_mll
from botorch.models.deterministic import FixedSingleSampleModel, PosteriorMeanModel
from botorch.models.gp_regression import SingleTaskGP
from botorch.models.model import ModelList
from botorch.models.model_list_gp_regression import ModelListGP
from botorch.models.pairwise_gp import (
    PairwiseGP,
    PairwiseLaplaceMarginalLogLikelihood,
)
from botorch.models.transforms.input import Normalize, OneHotToNumeric
from botorch.optim import optimize_acqf
from botorch.sampling.get_sampler import get_sampler
from botorch.sampling.normal import SobolQMCNormalSampler
from botorch.sampling.pathwise import draw_matheron_paths
from botorch.utils.transforms import is_ensemble, is_fully_bayesian
from draws import uniform
from gpytorch.kernels import RBFKernel, ScaleKernel
from torch import Tensor

from botorch_pref import (
    DuelKernel,
    EPPreferenceGP,
    LaplacePreferenceGP,
    PreferenceMarginalLogLikelihood,
    SkewPreferenceGP,
    UnsupportedFeedbackError,
)

POSTERIORS = [EPPreferenceGP, SkewPreferenceGP]
BOUNDS = torch.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], dtype=torch.float64)


@pytest.fixture(params=POSTERIORS, ids=lambda cls: cls.__name__)
def cls(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(autouse=True)
def _own_random_state() -> Any:
    """BoTorch's optimisers draw from torch's global generator."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def utility(x: Tensor) -> Tensor:
    return -((x - 0.6) ** 2).sum(-1)


def duels(x: Tensor) -> Tensor:
    """Comparisons of neighbours, as in BoTorch's tutorial."""
    values = utility(x).view(-1, 2)
    pairs = torch.arange(len(x)).view(-1, 2)
    return torch.where((values[:, 0] > values[:, 1])[:, None], pairs, pairs.flip(-1))


def points(count: int = 16) -> Tensor:
    return uniform(count, 3, seed=3)


def fitted(model_class: Any, mll_class: Any, x: Tensor) -> Any:
    """Fits the tutorial's function, word for word but for the names."""
    model = model_class(x, duels(x), input_transform=Normalize(d=x.shape[-1]))
    mll = mll_class(model.likelihood, model)
    fit_gpytorch_mll(mll)
    return model


@pytest.fixture(scope="module", params=POSTERIORS, ids=lambda cls: cls.__name__)
def model(request: pytest.FixtureRequest) -> Any:
    """A fitted model with each kind of posterior."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return fitted(request.param, PreferenceMarginalLogLikelihood, points())


def optimised(acqf: AcquisitionFunction, q: int) -> tuple[Tensor, Tensor]:
    return optimize_acqf(
        acq_function=acqf,
        bounds=BOUNDS,
        q=q,
        # Some values have several maxima, of which some are below the best of 64.
        num_restarts=8,
        raw_samples=64,
        options={"maxiter": 30},
    )


def assert_better_than_random(acqf: AcquisitionFunction, q: int) -> Tensor:
    candidates, value = optimised(acqf, q)
    assert candidates.shape == (q, 3)
    assert bool(((candidates >= BOUNDS[0]) & (candidates <= BOUNDS[1])).all())
    random = uniform(64, q, 3, seed=1)
    with torch.no_grad():
        assert value.item() >= acqf(random).max().item()
        torch.testing.assert_close(acqf(candidates), value.reshape(1))
    return candidates


def test_laplace_predicts_what_pairwise_gp_does() -> None:
    # Small differences, where PairwiseGP's clamps do not act; equal hyper-parameters.
    x = points()
    theirs = PairwiseGP(x, duels(x))
    ours = LaplacePreferenceGP(x, duels(x), covar_module=theirs.covar_module)
    new = points(40)[20:].view(10, 2, 3)
    expected, actual = theirs.posterior(new), ours.posterior(new)
    # PairwiseGP stops its mode search early.
    torch.testing.assert_close(actual.mean, expected.mean, rtol=0, atol=2e-3)
    torch.testing.assert_close(
        actual.covariance_matrix, expected.covariance_matrix, rtol=0, atol=2e-3
    )


@pytest.mark.parametrize(
    "name", ["eubo", "noisy", "improvement", "regret", "ucb", "default"]
)
def test_monte_carlo_acquisition_functions(model: Any, name: str) -> None:
    x = points()
    sampler = SobolQMCNormalSampler(torch.Size([32]), seed=0)
    best = model.posterior(x).mean.max().detach()
    acqf = {
        "eubo": lambda: qExpectedUtilityOfBestOption(model, sampler=sampler),
        "noisy": lambda: qLogNoisyExpectedImprovement(model, x, sampler=sampler),
        "improvement": lambda: qLogExpectedImprovement(model, best, sampler=sampler),
        "regret": lambda: qSimpleRegret(model, sampler=sampler),
        "ucb": lambda: qUpperConfidenceBound(model, beta=2.0, sampler=sampler),
        # The sampler that GetSampler finds.
        "default": lambda: qLogExpectedImprovement(model, best),
    }[name]()
    assert_better_than_random(acqf, q=2)


def test_analytic_acquisition_functions(model: Any) -> None:
    assert_better_than_random(PosteriorMean(model), q=1)
    # Gaussian improvement; for the skewed posterior it matches two moments.
    acqf = LogExpectedImprovement(model, best_f=0.0)
    assert_better_than_random(acqf, q=1)
    # Both points of a comparison, or one of them.
    acqf = AnalyticExpectedUtilityOfBestOption(pref_model=model)
    assert_better_than_random(acqf, q=2)
    acqf = AnalyticExpectedUtilityOfBestOption(model, previous_winner=points()[:1])
    assert_better_than_random(acqf, q=1)


def test_membership_in_model_lists(model: Any) -> None:
    reversed_model = type(model)(points(), duels(points()).flip(-1))
    model_list = ModelList(model, reversed_model)
    assert model_list.num_outputs == 2
    new = points(40)[20:].view(10, 2, 3)
    posterior = model_list.posterior(new)
    expected = torch.cat(
        [m.posterior(new).mean for m in (model, reversed_model)], dim=-1
    )
    torch.testing.assert_close(posterior.mean, expected)
    sampler = get_sampler(posterior, torch.Size([4]), seed=0)
    assert sampler(posterior).shape == (4, 10, 2, 2)
    only = model_list.subset_output([1]).posterior(new)
    torch.testing.assert_close(only.mean, reversed_model.posterior(new).mean)


def test_a_model_of_nothing_cannot_be_trained(cls: Any) -> None:
    model = cls(None, None)
    for refused in (
        lambda: model(points()),
        lambda: fit_gpytorch_mll(objective(model)),
    ):
        with pytest.raises(RuntimeError, match="without datapoints cannot be trained"):
            refused()
    # Points that nobody has compared yet are a prior, too.
    model = cls(datapoints=points(), comparisons=None)
    with pytest.raises(Exception, match="has no feedback"):
        fit_gpytorch_mll(objective(model))


def test_what_preference_exploration_reads(cls: Any) -> None:
    # LearnedObjective and the input constructors of preference exploration.
    model = cls(points(), duels(points()))
    assert model.dim == 3
    assert model.dtypes_of_buffers == {torch.float64}
    assert copy.deepcopy(model).dim == 3


def test_membership_in_gaussian_model_lists(cls: Any) -> None:
    x = points()
    models = cls(x, duels(x)), cls(x, duels(x).flip(-1))
    joint_list = ModelListGP(*models)
    assert joint_list.num_outputs == 2
    if cls is SkewPreferenceGP:
        with pytest.raises(AttributeError, match=r"ModelListGP.*ModelList takes"):
            joint_list.posterior(x[:3])
        return
    posterior = joint_list.posterior(x[:3])
    expected = torch.cat([m.posterior(x[:3]).mean for m in models], dim=-1)
    torch.testing.assert_close(posterior.mean, expected)


# --- What BoTorch's own tests ask of PairwiseGP, in our words


def objective(model: Any) -> PreferenceMarginalLogLikelihood:
    return PreferenceMarginalLogLikelihood(model.likelihood, model)


def test_training_is_about_the_training_data(cls: Any) -> None:
    x = points()
    model = cls(x, duels(x))
    mll = objective(model)
    with pytest.raises(RuntimeError, match="training inputs only"):
        model(points(17)[1:])
    with pytest.raises(RuntimeError, match="training inputs only"):
        model(x, x)
    prior = model(x.clone())
    value = mll(prior, duels(x).clone())
    torch.testing.assert_close(value, mll(model(*model.train_inputs), None))
    with pytest.raises(RuntimeError, match="model's own comparisons"):
        mll(prior, duels(x).flip(-1))
    with pytest.raises(RuntimeError, match="model's own comparisons"):
        mll(prior, duels(x)[1:])


def test_strict_new_data_have_the_shapes_of_the_old(cls: Any) -> None:
    x = points()
    model = cls(x, duels(x))
    for data in ((x[None], duels(x)[None]), (x, duels(x)[None]), (x, duels(x)[:3])):
        with pytest.raises(RuntimeError, match="strict=True"):
            model.set_train_data(*data, strict=True)
    model.set_train_data(x.flip(0), duels(x.flip(0)), strict=True)
    torch.testing.assert_close(model.datapoints, x.flip(0))


def test_a_transform_that_changes_the_number_of_features(cls: Any) -> None:
    x = points()
    kinds = torch.nn.functional.one_hot((x[:, 0] > 0.5).long(), 2).to(x)
    joined = torch.cat([x, kinds], dim=-1)
    model = cls(joined, duels(x), input_transform=OneHotToNumeric(5, {3: 2})).eval()
    numbers = torch.cat([x, kinds[:, 1:]], dim=-1)
    expected = cls(numbers, duels(x)).eval().posterior(numbers[:4])
    torch.testing.assert_close(model.posterior(joined[:4]).mean, expected.mean)
    path = draw_matheron_paths(model, sample_shape=torch.Size([3]))
    assert bool(path(joined).isfinite().all())


def test_warnings_about_inputs_point_to_the_line_that_gave_them(cls: Any) -> None:
    """A range of 500; a transform mends it, and a kernel is one's own."""
    x, pairs = points(), duels(points())
    unequal = x * torch.tensor([1.0, 500.0, 0.001]).to(x)
    for wrong, message in (
        (x.float(), "double precision"),
        (unequal, "range of .* the default kernel .*Normalize"),
    ):
        with pytest.warns(InputDataWarning, match=message) as caught:
            cls(wrong, pairs)
        assert [w.filename for w in caught] == [__file__]
    cls(unequal, pairs, input_transform=Normalize(3))
    cls(unequal, pairs, covar_module=ScaleKernel(RBFKernel(ard_num_dims=3)))
    with pytest.warns(InputDataWarning, match="range of .* DuelKernel.*Normalize"):
        cls(500.0 * x, pairs, covar_module=DuelKernel(dim=3))
    cls(x, pairs, covar_module=DuelKernel(dim=3))
    # In the cube a narrow range may be meant.
    cls(unequal / 500.0, pairs)


def test_the_objective_of_pairwise_gp_names_ours(cls: Any) -> None:
    model = cls(points(), duels(points()))
    theirs = PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model)
    with pytest.raises(UnsupportedFeedbackError, match="PreferenceMarginalLogLik"):
        fit_gpytorch_mll(theirs)


def test_the_variance_of_answers_is_of_pairs(cls: Any) -> None:
    model = cls(points(2), torch.tensor([[0, 1]]))
    answer = GenericMCObjective(lambda samples, X: torch.special.ndtr(samples[..., 0]))
    acqf = PairwiseMCPosteriorVariance(model=model, objective=answer)
    assert acqf(points(32).view(8, 4, 3)).shape == (8,)


def test_the_mean_of_a_model_is_a_learned_objective(cls: Any) -> None:
    x = points()
    preference = cls(x, duels(x), input_transform=Normalize(3))
    samples = points(48).view(3, 2, 8, 3)
    drawn = LearnedObjective(pref_model=preference, sample_shape=torch.Size([5]))
    assert drawn(samples).shape == (15, 2, 8)
    torch.testing.assert_close(drawn(samples), drawn(samples))
    mean = LearnedObjective(pref_model=PosteriorMeanModel(model=preference))
    expected = preference.posterior(samples).mean.squeeze(-1)
    torch.testing.assert_close(mean(samples), expected)
    # Outcomes of another model, compared by this one.
    outcomes = SingleTaskGP(x[:, :2], x.double())
    eubo = AnalyticExpectedUtilityOfBestOption(
        preference, outcome_model=FixedSingleSampleModel(model=outcomes)
    )
    assert eubo(x[:2, :2]).shape == (1,)


def test_designs_are_valued_by_preferences_over_their_outcomes(cls: Any) -> None:
    """Draws have the posterior's moments, and a search climbs in batches of designs."""
    x = points()
    preference = cls(x, duels(x)).eval()
    draws = LearnedObjective(preference, sample_shape=torch.Size([4000]), seed=0)
    paths = draws(x.expand(1, *x.shape))
    posterior = preference.posterior(x)
    mean, variance = (m.flatten() for m in (posterior.mean, posterior.variance))
    # Five standard errors; a variance has the most of them, under skewed posteriors.
    assert bool(((paths.mean(0) - mean).abs() < 5 * (variance / 4000).sqrt()).all())
    torch.testing.assert_close(
        paths.var(0), variance, rtol=5 * (4 / 4000) ** 0.5, atol=0
    )
    designs = x[:, :2].double()
    outcomes = SingleTaskGP(designs, x.double(), torch.full_like(x, 1e-3))
    worth = qLogNoisyExpectedImprovement(
        outcomes,
        designs,
        sampler=SobolQMCNormalSampler(torch.Size([16]), seed=0),
        objective=LearnedObjective(preference, sample_shape=torch.Size([4]), seed=0),
        prune_baseline=False,
        # With the cache the best design so far is drawn apart.
        cache_root=False,
    )
    new = uniform(3, 2, 2)
    new.requires_grad_()
    values = worth(new)
    assert values.shape == (3,)
    torch.testing.assert_close(values[:1], worth(new[:1]))
    (slope,) = torch.autograd.grad(values.sum(), new)
    step = (
        1e-5
        * torch.randn(new.shape, generator=torch.Generator().manual_seed(1)).double()
    )
    with torch.no_grad():
        rise = (worth(new + step) - worth(new - step)).sum() / 2
    torch.testing.assert_close(rise, (slope * step).sum(), rtol=1e-3, atol=0)
    # What was tried already is no improvement; what was not tried may be one.
    tried = worth(designs[:4].unsqueeze(-2) + 1e-3).exp()
    assert bool((tried < 0.1 * values.exp().max()).all())


def test_it_is_no_ensemble(cls: Any) -> None:
    x = points()
    model = cls(x, None)
    model_list = ModelList(model, SingleTaskGP(x, utility(x).unsqueeze(-1)))
    for single in (model, model_list, ModelList(model_list, model)):
        assert not is_ensemble(single)
        assert not is_fully_bayesian(single)
