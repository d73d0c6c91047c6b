"""What every preference model promises, whatever its engine.

A new model class needs one entry in ``ENGINES``; everything below then holds it to the
same contract.
"""

import copy
import importlib
import math
import pickle
import pkgutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import scipy.optimize
import torch
from botorch.acquisition.objective import (
    PosteriorTransform,
    ScalarizedPosteriorTransform,
)
from botorch.exceptions.errors import UnsupportedError
from botorch.fit import fit_gpytorch_mll
from botorch.models.likelihoods import pairwise as botorch_pairwise
from botorch.models.transforms.input import InputStandardize, Normalize
from botorch.utils.containers import SliceContainer
from botorch.utils.datasets import RankingDataset, SupervisedDataset
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from gpytorch.means import ConstantMean
from gpytorch.priors import GammaPrior, LogNormalPrior, NormalPrior
from torch import Tensor

import botorch_pref
from botorch_pref import (
    AffineProbitLikelihood,
    BotorchPrefError,
    Comparisons,
    EPPreferenceGP,
    FeedbackError,
    InferenceWarning,
    LaplacePreferenceGP,
    PairwiseLogitLikelihood,
    PairwiseProbitLikelihood,
    PreferenceMarginalLogLikelihood,
    SkewNormalPosterior,
    SkewPreferenceGP,
    UnsupportedFeedbackError,
    Validity,
    VariationalPreferenceGP,
)
from botorch_pref.likelihoods.factors.box_factors import BoxFactors
from botorch_pref.models.preference_gp import PreferenceGP

DOUBLE = torch.float64


# --- Independent computations of posteriors, in dense matrices


@dataclass(frozen=True)
class Rows:
    """Boxed answers about a joint Gaussian: ``lower <= matrix f + noise <= upper``."""

    matrix: Tensor
    variance: Tensor
    lower: Tensor
    upper: Tensor

    def log_prob(self, utilities: Tensor) -> Tensor:
        """Log probability of all answers, ``... x n`` to ``...``."""
        z, sd = utilities @ self.matrix.T, self.variance.sqrt()
        # Infinite ends would have NaN for derivatives.
        upper = torch.special.ndtr((self.upper.clamp_max(1e3) - z) / sd)
        lower = torch.special.ndtr((self.lower - z) / sd)
        return (upper - lower).log().sum(-1)


def rows_of(
    pairs: Comparisons,
    validity: Validity | None,
    threshold: float,
    noises: tuple[float, float],
    num_points: int,
) -> Rows:
    """The table of feedback of the design, row by row."""
    matrix, boxes = [], []

    def add(variance: float, lower: float, upper: float, **signs: float) -> None:
        row = torch.zeros(num_points, dtype=DOUBLE)
        for name, sign in signs.items():
            row[int(name[1:])] = sign
        matrix.append(row)
        boxes.append((variance, lower, upper))

    for winner, loser in pairs.pairs.tolist():
        signs = {f"i{winner}": 1.0, f"i{loser}": -1.0}
        add(2 * noises[0], threshold, torch.inf, **signs)
    for first, second in [] if pairs.ties is None else pairs.ties.tolist():
        signs = {f"i{first}": 1.0, f"i{second}": -1.0}
        add(2 * noises[0], -threshold, threshold, **signs)
    if validity is not None:
        for index, valid in zip(validity.indices.tolist(), validity.valid, strict=True):
            add(noises[1], 0.0, torch.inf, **{f"i{index}": 1.0 if valid else -1.0})
    variance, lower, upper = torch.tensor(boxes, dtype=DOUBLE).T
    return Rows(torch.stack(matrix), variance, lower, upper)


def _white_root(covariance: Tensor) -> Tensor:
    values, vectors = torch.linalg.eigh(covariance)
    return vectors * values.clamp_min(0).sqrt()


def _white_mode(root: Tensor, mean: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
    """Mode and Hessian of the negative log posterior of ``w`` in ``f = mean + L w``."""

    def negative_log_posterior(w: Tensor) -> Tensor:
        return 0.5 * w @ w - rows.log_prob(mean + root @ w)

    def numpy_function(function: Callable[[Tensor], Tensor]) -> Callable[[Any], Any]:
        return lambda w: function(torch.from_numpy(w)).numpy()

    mode = scipy.optimize.minimize(
        numpy_function(negative_log_posterior),
        torch.zeros(root.shape[-1], dtype=DOUBLE).numpy(),
        jac=numpy_function(torch.func.grad(negative_log_posterior)),
        hess=numpy_function(torch.func.hessian(negative_log_posterior)),
        method="trust-exact",
        options={"gtol": 1e-10},
    ).x
    w = torch.from_numpy(mode)
    return w, torch.func.hessian(negative_log_posterior)(w)


def laplace_reference(
    covariance: Tensor, mean: Tensor, rows: Rows
) -> tuple[Tensor, Tensor]:
    """The Gaussian around the mode that a generic optimiser finds."""
    root = _white_root(covariance)
    w, hessian = _white_mode(root, mean, rows)
    return mean + root @ w, root @ torch.linalg.solve(hessian, root.T)


def variational_reference(
    covariance: Tensor, mean: Tensor, rows: Rows
) -> tuple[Tensor, Tensor]:
    r"""Jaakkola and Jordan's fixed point, in dense matrices, for logistic answers.

    A pair counts as a Gaussian of precision :math:`\tanh(\zeta / 2) / (2 \zeta)` and
    shift one half, where :math:`\zeta^2 = E[z^2]`.
    """
    zeta = torch.ones(len(rows.matrix), dtype=DOUBLE)
    for _ in range(500):
        tau = torch.tanh(zeta / 2) / (2 * zeta)
        gain = rows.matrix @ covariance
        inverse = torch.linalg.inv(gain @ rows.matrix.T + torch.diag(1 / tau))
        centre = mean + gain.T @ inverse @ (0.5 / tau - rows.matrix @ mean)
        spread = covariance - gain.T @ inverse @ gain
        second = (rows.matrix @ centre).square()
        zeta = (second + (rows.matrix @ spread @ rows.matrix.T).diagonal()).sqrt()
    return centre, spread


def ep_reference(covariance: Tensor, mean: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
    """Textbook EP: one site at a time, rank-one updates, moments by quadrature."""
    tau = torch.zeros_like(rows.variance)
    nu = torch.zeros_like(rows.variance)
    centre, spread = mean.clone(), covariance.clone()
    grid = torch.linspace(-12, 12, 2401, dtype=DOUBLE)
    for _ in range(60):
        for i, row in enumerate(rows.matrix):
            direction = spread @ row
            variance, m = row @ direction, row @ centre
            cavity = 1 / (1 / variance - tau[i])
            shift = cavity * (m / variance - nu[i])
            z, sd = shift + cavity.sqrt() * grid, rows.variance[i].sqrt()
            weight = torch.special.ndtr((rows.upper[i] - z) / sd)
            weight = weight - torch.special.ndtr((rows.lower[i] - z) / sd)
            weight = weight * (-0.5 * grid**2).exp()
            weight = weight / weight.sum()
            tilted_mean = (weight * z).sum()
            tilted = (weight * (z - tilted_mean) ** 2).sum()
            new_tau, new_nu = (
                1 / tilted - 1 / cavity,
                tilted_mean / tilted - shift / cavity,
            )
            change, tau[i] = new_tau - tau[i], new_tau
            shift_change, nu[i] = new_nu - nu[i], new_nu
            gain = 1 / (1 + change * variance)
            centre = centre + direction * gain * (shift_change - change * m)
            spread = spread - gain * change * torch.outer(direction, direction)
    return centre, spread


def exact_reference(
    covariance: Tensor, mean: Tensor, rows: Rows
) -> tuple[Tensor, Tensor]:
    """Importance sampling from a widened Gaussian around the mode."""
    root = _white_root(covariance)
    w, hessian = _white_mode(root, mean, rows)
    factor = torch.linalg.cholesky(1.3 * torch.linalg.inv(hessian))
    normal = torch.randn(
        200_000, len(w), generator=torch.Generator().manual_seed(0), dtype=DOUBLE
    )
    draws = w + normal @ factor.T
    utilities = mean + draws @ root.T
    log_weight = rows.log_prob(utilities) - 0.5 * draws.square().sum(-1)
    weight = torch.softmax(log_weight + 0.5 * normal.square().sum(-1), dim=0)
    assert 1 / weight.square().sum() > 50_000
    centre = weight @ utilities
    deviation = utilities - centre
    return centre, deviation.T @ (weight.unsqueeze(-1) * deviation)


# --- The engines


@dataclass(frozen=True)
class Engine:
    """What the contract has to know of a model class.

    Attributes:
        cls: The class.
        reference: An independent computation of the posterior mean and covariance.
        iteration_cap: Module and name of the constant that limits iterations.
        logit: Whether it takes `PairwiseLogitLikelihood`.
        num_draws: How many draws stand behind a result; None where none do.
        options: Constructor arguments that are its own.
    """

    cls: type[PreferenceGP]
    reference: Callable[..., tuple[Tensor, Tensor]]
    iteration_cap: tuple[str, str]
    logit: bool = True
    num_draws: int | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def __call__(self, *args: Any, **kwargs: Any) -> PreferenceGP:
        return self.cls(*args, **(self.options | kwargs))

    def with_draws(self, num_draws: int) -> "Engine":
        if self.num_draws is None:
            return self
        options = self.options | {"num_draws": num_draws}
        return replace(self, num_draws=num_draws, options=options)

    @property
    def boxed(self) -> bool:
        """Whether it takes probit answers, ties and validity."""
        return BoxFactors in self.cls.takes

    def needs_boxes(self) -> None:
        if not self.boxed:
            pytest.skip("The engine takes no boxed answers.")

    @property
    def sampling_error(self) -> float:
        """Six standard errors of a mean, in posterior standard deviations."""
        return 0.0 if self.num_draws is None else 6 * self.num_draws**-0.5


EP_CAP = ("botorch_pref.inference.ep.expectation_propagation", "_MAX_SWEEPS")
ENGINES = {
    engine.cls: engine
    for engine in (
        Engine(
            LaplacePreferenceGP,
            reference=laplace_reference,
            iteration_cap=("botorch_pref.inference.laplace", "_MAX_ITERATIONS"),
        ),
        Engine(
            EPPreferenceGP,
            reference=ep_reference,
            iteration_cap=EP_CAP,
        ),
        Engine(
            SkewPreferenceGP,
            reference=exact_reference,
            iteration_cap=EP_CAP,
            logit=False,
            num_draws=512,
            options={"num_draws": 512},
        ),
        Engine(
            VariationalPreferenceGP,
            reference=variational_reference,
            iteration_cap=(
                "botorch_pref.inference.variational.bound_ascent",
                "_MAX_ITERATIONS",
            ),
        ),
    )
}


def concrete_models() -> list[type[PreferenceGP]]:
    """Every class of the package with an engine: those without subclasses.

    Ensembles have the engine of their members and a contract of their own.
    """
    parts = botorch_pref.models
    for module in pkgutil.walk_packages(parts.__path__, f"{parts.__name__}."):
        importlib.import_module(module.name)
    found, todo = [], [PreferenceGP]
    while todo:
        cls = todo.pop()
        todo.extend(cls.__subclasses__())
        own = cls.__module__.startswith("botorch_pref") and not cls._is_ensemble
        if own and all(below._is_ensemble for below in cls.__subclasses__()):
            found.append(cls)
    return sorted(found, key=lambda cls: cls.__name__)


def test_every_model_is_under_contract() -> None:
    missing = [cls.__name__ for cls in concrete_models() if cls not in ENGINES]
    assert not missing, f"add {missing} to ENGINES"


@pytest.fixture(params=concrete_models(), ids=lambda cls: cls.__name__)
def engine(request: pytest.FixtureRequest) -> Engine:
    return ENGINES[request.param]


# --- Data


def number(tensor: Tensor) -> float:
    """A scalar; ``float`` would warn where it has a gradient."""
    return tensor.item()


def uniform(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, generator=generator, dtype=DOUBLE)


def answers(points: Tensor, count: int, seed: int = 1) -> Tensor:
    """Duels of random pairs, won by the larger sum of features."""
    generator = torch.Generator().manual_seed(seed)
    n = points.shape[-2]
    pairs = torch.stack(
        [torch.randperm(n, generator=generator)[:2] for _ in range(count)]
    )
    utility = points.sum(-1)[pairs]
    return torch.where((utility[:, 0] > utility[:, 1])[:, None], pairs, pairs.flip(-1))


POINTS = uniform(7, 2)
PAIRS = answers(POINTS, 6)
NEW = uniform(4, 2, seed=5)
FULL = Comparisons(PAIRS, ties=torch.tensor([[0, 1], [5, 2]]))
VALID = Validity(torch.tensor([0, 3, 4]), torch.tensor([True, False, True]))


# As many as there are boxed answers above.
WINS = Comparisons(answers(POINTS, 11))


def full(engine: Engine) -> tuple[Comparisons, list[Validity]]:
    """Answers of every kind that the engine takes of those above."""
    return (FULL, [VALID]) if engine.boxed else (WINS, [])


def kernel(batch_shape: torch.Size = torch.Size(), outputscale: float = 2.0):  # noqa: B008
    """An ARD kernel with fixed, unequal lengthscales."""
    base = RBFKernel(ard_num_dims=2, batch_shape=batch_shape)
    module = ScaleKernel(base, batch_shape=batch_shape).double()
    module.outputscale = outputscale
    base.lengthscale = torch.tensor([0.3, 0.6], dtype=DOUBLE)
    return module


def mixed(engine: Engine, **kwargs: Any) -> PreferenceGP:
    """A model with wins, ties and validity labels, a mean and unequal noises.

    With wins only, where the engine takes no boxed answers.
    """
    mean = ConstantMean().double()
    mean.constant.data.fill_(0.4)
    likelihood = {
        Comparisons: PairwiseProbitLikelihood(0.3, tie_threshold=0.5),
        Validity: AffineProbitLikelihood(0.7),
    }
    pairs, feedback = full(engine)
    arguments = {
        "feedback": feedback,
        "likelihood": likelihood if engine.boxed else None,
        "mean_module": mean,
        "covar_module": kernel(),
    }
    return engine(POINTS, pairs, **(arguments | kwargs))


# --- Comparing posteriors


def moments(posterior: Any) -> tuple[Tensor, Tensor]:
    mean = posterior.mean.squeeze(-1).detach()
    return mean, posterior.covariance_matrix.detach()


def assert_same_posterior(
    engine: Engine, actual: Any, expected: Any, deviations: float = 1e-5
) -> None:
    """Equal up to what the engine's stopping rule and its sampling leave open.

    Args:
        engine: The engine behind both.
        actual: A posterior, or a mean and a covariance.
        expected: A posterior, or a mean and a covariance.
        deviations: Tolerance in posterior standard deviations without sampling.
    """
    pair = actual if isinstance(actual, tuple) else moments(actual)
    truth = expected if isinstance(expected, tuple) else moments(expected)
    tolerance = deviations + engine.sampling_error
    sd = truth[1].diagonal(dim1=-2, dim2=-1).sqrt()
    assert pair[0].shape == truth[0].shape
    assert pair[1].shape == truth[1].shape
    error = (pair[0] - truth[0]) / sd
    assert number(error.abs().max()) < tolerance
    scale = sd.unsqueeze(-1) * sd.unsqueeze(-2)
    # The standard error of a variance is sqrt(2) times that of a mean.
    assert number(((pair[1] - truth[1]) / scale).abs().max()) < 1.5 * tolerance


# --- The posterior itself


@pytest.mark.parametrize("num_points", [7, 12], ids=["points", "rows"])
def test_posterior_is_that_of_dense_formulas(engine: Engine, num_points: int) -> None:
    # 7 points and 11 rows are solved in points, 12 points and 11 rows in rows.
    points = torch.cat([POINTS, uniform(num_points - 7, 2, seed=9)])
    engine = engine.with_draws(16_384)
    model = mixed(engine)
    model.set_train_data(points)
    x = torch.cat([NEW, points[:2]])
    with torch.no_grad():
        actual = moments(model.posterior(x))
        joint = torch.cat([points, x])
        covariance = kernel()(joint).to_dense()
    pairs, validity = full(engine)
    threshold = 0.5 if engine.boxed else 0.0
    rows = rows_of(pairs, *validity or [None], threshold, (0.3, 0.7), len(joint))
    mean = torch.full((len(joint),), 0.4, dtype=DOUBLE)
    truth = engine.reference(covariance, mean, rows)
    n = len(points)
    expected = truth[0][n:], truth[1][n:, n:]
    assert_same_posterior(engine, actual, expected)


def test_t_batches_equal_loops(engine: Engine) -> None:
    model = engine(POINTS, PAIRS)
    x = uniform(3, 2, 4, 2, seed=2)
    mean, covariance = moments(model.posterior(x))
    assert mean.shape == (3, 2, 4)
    for i in range(3):
        for j in range(2):
            one = moments(model.posterior(x[i, j]))
            torch.testing.assert_close(mean[i, j], one[0])
            torch.testing.assert_close(covariance[i, j], one[1])


@pytest.mark.parametrize("own_kernel", [False, True], ids=["batched", "shared"])
def test_model_batches_broadcast_and_equal_loops(
    engine: Engine, own_kernel: bool
) -> None:
    points = uniform(2, 7, 2, seed=3)
    pairs = torch.stack([answers(points[0], 5), answers(points[1], 5, seed=2)])
    arguments = {"covar_module": kernel()} if own_kernel else {}
    model = engine(points, pairs, **arguments)
    assert model.batch_shape == (2,)
    x = uniform(5, 1, 3, 2, seed=4)
    posterior = model.posterior(x)
    assert posterior.mean.shape == (5, 2, 3, 1)
    assert posterior.variance.shape == (5, 2, 3, 1)
    assert posterior.rsample(torch.Size([6])).shape == (6, 5, 2, 3, 1)
    mean, covariance = moments(posterior)
    for i in range(2):
        single = engine(points[i], pairs[i], **arguments)
        batch = mean[:, i], covariance[:, i]
        assert_same_posterior(engine, batch, single.posterior(x[:, 0]))


def test_one_set_of_points_with_batches_of_answers(engine: Engine) -> None:
    pairs = torch.stack([PAIRS, PAIRS.flip(-1)])
    model = engine(torch.cat([POINTS, POINTS[:1]]), pairs)
    mean, covariance = moments(model.posterior(NEW))
    assert mean.shape == (2, 4)
    for i in range(2):
        single = engine(POINTS, pairs[i])
        assert_same_posterior(engine, (mean[i], covariance[i]), single.posterior(NEW))


def test_outputs(engine: Engine) -> None:
    model = engine(POINTS, PAIRS)
    assert model.num_outputs == 1
    plain = moments(model.posterior(NEW))
    for same in (model.posterior(NEW, output_indices=[0]), model.subset_output([0])):
        posterior = same if not isinstance(same, PreferenceGP) else same.posterior(NEW)
        torch.testing.assert_close(moments(posterior), plain)
    with pytest.raises(UnsupportedError, match="output"):
        model.posterior(NEW, output_indices=[1])
    with pytest.raises(UnsupportedError, match="output"):
        model.subset_output([0, 1])


def test_observation_noise_adds_the_noise_of_one_item(engine: Engine) -> None:
    likelihood = PairwiseProbitLikelihood(0.25) if engine.boxed else None
    # Of the Gumbel noise behind a logistic answer.
    noise = 0.25 if engine.boxed else math.pi**2 / 6
    model = engine(POINTS, PAIRS, likelihood=likelihood)
    mean, covariance = moments(model.posterior(NEW))
    noisy = moments(model.posterior(NEW, observation_noise=True))
    torch.testing.assert_close(noisy[0], mean)
    torch.testing.assert_close(
        noisy[1], covariance + noise * torch.eye(4, dtype=DOUBLE)
    )
    levels = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=DOUBLE)
    given = moments(model.posterior(NEW, observation_noise=levels.unsqueeze(-1)))
    torch.testing.assert_close(given[1], covariance + torch.diag(levels))
    one = moments(model.posterior(NEW, observation_noise=levels[1:2].unsqueeze(-1)))
    torch.testing.assert_close(one[1], covariance + 0.2 * torch.eye(4, dtype=DOUBLE))


def test_noise_of_model_batches(engine: Engine) -> None:
    engine.needs_boxes()
    noise = torch.tensor([0.25, 1.5], dtype=DOUBLE)
    points = torch.stack([POINTS, POINTS.flip(0)])
    model = engine(points, PAIRS, likelihood=PairwiseProbitLikelihood(noise))
    x = uniform(5, 1, 2, 2, seed=4)
    clean = moments(model.posterior(x))[1]
    noisy = moments(model.posterior(x, observation_noise=True))[1]
    eye = torch.eye(2, dtype=DOUBLE)
    expected = noise[:, None, None] * eye
    torch.testing.assert_close(noisy - clean, expected.expand(5, 2, 2, 2))
    win = model.duel_probability(x[..., :1, :], x[..., 1:, :], observation_noise=True)
    for i in range(2):
        single = engine(points[i], PAIRS, likelihood=PairwiseProbitLikelihood(noise[i]))
        expected = single.duel_probability(
            x[:, 0, :1], x[:, 0, 1:], observation_noise=True
        )
        error = (win[:, i] - expected).detach().abs().max()
        assert number(error) < 1e-5 + 0.5 * engine.sampling_error


class _Recorder(PosteriorTransform):
    """Returns what it was called with."""

    def forward(self, posterior: Any, X: Tensor | None = None) -> Any:
        return posterior, X

    def evaluate(self, Y: Tensor, X: Tensor | None = None) -> Tensor:
        return Y


def test_posterior_transform_sees_the_posterior_and_untransformed_inputs(
    engine: Engine,
) -> None:
    model = engine(POINTS, PAIRS, input_transform=Normalize(2))
    posterior, x = model.posterior(NEW, posterior_transform=_Recorder())
    torch.testing.assert_close(moments(posterior), moments(model.posterior(NEW)))
    assert x is NEW


def test_a_scaled_posterior_is_of_the_same_kind(engine: Engine) -> None:
    model = engine(POINTS, PAIRS)
    plain = model.posterior(NEW)
    mean, covariance = moments(plain)
    weight = torch.tensor([-2.0], dtype=DOUBLE)
    transform = ScalarizedPosteriorTransform(weight, offset=0.7)
    posterior = model.posterior(NEW, posterior_transform=transform)
    assert type(posterior) is type(plain)
    scaled = moments(posterior)
    torch.testing.assert_close(scaled[0], 0.7 - 2 * mean)
    torch.testing.assert_close(scaled[1], 4 * covariance)
    if isinstance(plain, SkewNormalPosterior):
        torch.testing.assert_close(posterior.skewness, -plain.skewness)
    else:
        theirs = moments(transform(plain))
        torch.testing.assert_close(scaled, theirs)
    twice = ScalarizedPosteriorTransform(torch.ones(2, dtype=DOUBLE))
    with pytest.raises((RuntimeError, NotImplementedError)):
        model.posterior(NEW, posterior_transform=twice)


def test_gpytorchs_own_call(engine: Engine) -> None:
    model = mixed(engine)
    prior = model(*model.train_inputs)
    torch.testing.assert_close(prior.covariance_matrix, kernel()(POINTS).to_dense())
    torch.testing.assert_close(prior.mean, torch.full((7,), 0.4, dtype=DOUBLE))
    normal = model.eval()(NEW)
    posterior = model.posterior(NEW)
    torch.testing.assert_close(normal.mean, posterior.mean.squeeze(-1))
    torch.testing.assert_close(normal.covariance_matrix, posterior.covariance_matrix)


def test_posterior_mean_and_variance_have_the_right_gradient(engine: Engine) -> None:
    model = mixed(engine)

    def statistic(x: Tensor) -> Tensor:
        posterior = model.posterior(x)
        return posterior.mean.sum() + (posterior.covariance_matrix.sin()).sum()

    assert torch.autograd.gradcheck(statistic, (NEW.clone().requires_grad_(),))


# --- Input transforms


RAW = 30 * POINTS - 7


@pytest.mark.parametrize("query_first", [False, True], ids=["fresh", "trained"])
def test_a_learned_normalisation_is_that_of_the_data(
    engine: Engine, query_first: bool
) -> None:
    low, high = RAW.amin(0), RAW.amax(0)
    model = engine(RAW, PAIRS, input_transform=Normalize(2))
    plain = engine((RAW - low) / (high - low), PAIRS)
    if query_first:
        model.train()
        torch.testing.assert_close(model.log_evidence(), plain.log_evidence())
    x = 30 * NEW - 7
    expected = plain.posterior((x - low) / (high - low))
    assert_same_posterior(engine, model.posterior(x), expected, 1e-6)
    torch.testing.assert_close(model.datapoints, RAW)
    torch.testing.assert_close(model.train_inputs[0], (RAW - low) / (high - low))
    model.train()
    torch.testing.assert_close(model.train_inputs[0], RAW)
    torch.testing.assert_close(model.log_evidence(), plain.log_evidence())
    assert_same_posterior(engine, model.posterior(x), expected, 1e-6)


def test_new_data_in_eval_mode_are_untransformed(engine: Engine) -> None:
    model = engine(RAW, PAIRS, input_transform=Normalize(2)).eval()
    model.set_train_data(model.datapoints, PAIRS.flip(-1))
    expected = engine(RAW, PAIRS.flip(-1), input_transform=Normalize(2))
    assert_same_posterior(engine, model.posterior(RAW), expected.posterior(RAW))
    torch.testing.assert_close(model.datapoints, RAW)
    # The bounds stay those that were learned.
    bounds = Normalize(2, bounds=torch.stack([RAW.amin(0), RAW.amax(0)]))
    pair = torch.tensor([[2, 5]])
    model.set_train_data(RAW[:6], pair)
    expected = engine(RAW[:6], pair, input_transform=bounds)
    assert_same_posterior(engine, model.posterior(RAW), expected.posterior(RAW))
    model.train()
    torch.testing.assert_close(model.train_inputs[0], RAW[:6])


def test_duplicates_count_in_a_learned_standardisation(engine: Engine) -> None:
    points = torch.cat([RAW, RAW[:3]])
    model = engine(points, PAIRS, input_transform=InputStandardize(2))
    model.train()
    model.log_evidence()
    torch.testing.assert_close(model.input_transform.means, points.mean(0)[None])
    standard = (points - points.mean(0)) / points.std(0)
    x = 30 * NEW - 7
    expected = engine(standard, PAIRS).posterior((x - points.mean(0)) / points.std(0))
    assert_same_posterior(engine, model.posterior(x), expected)


# --- Duels


def test_duel_posterior_is_the_difference_of_the_joint_posterior(
    engine: Engine,
) -> None:
    model = mixed(engine)
    x, one, each = NEW[:2], NEW[3:], uniform(2, 2, seed=7)
    for reference, sign in (
        (one, torch.tensor([[1, 0, -1], [0, 1, -1]])),
        (each, torch.tensor([[1, 0, -1, 0], [0, 1, 0, -1]])),
    ):
        mean, covariance = moments(model.posterior(torch.cat([x, reference])))
        contrast = sign.to(mean)
        duel = model.duel_posterior(x, reference)
        torch.testing.assert_close(duel.mean.squeeze(-1), contrast @ mean)
        expected = contrast @ covariance @ contrast.T
        torch.testing.assert_close(duel.covariance_matrix, expected)
        # A t-batch of the same gives the same.
        batch = model.duel_posterior(x.expand(3, 2, 2), reference)
        torch.testing.assert_close(batch.covariance_matrix[1], expected)


def test_a_point_differs_from_itself_by_nothing(engine: Engine) -> None:
    model = engine(POINTS, PAIRS)
    half = torch.full((4,), 0.5, dtype=DOUBLE)
    torch.testing.assert_close(model.duel_probability(NEW, NEW), half)
    noisy = model.duel_probability(NEW, NEW, observation_noise=True)
    torch.testing.assert_close(noisy, half)
    duel = model.duel_posterior(NEW, NEW[1:2])
    samples = duel.rsample(torch.Size([3]))
    assert number(samples[:, 1].abs().max()) < 1e-7
    both = model.posterior(NEW[[0, 1, 0]]).rsample(torch.Size([3]))
    torch.testing.assert_close(both[:, 0], both[:, 2])


@pytest.mark.parametrize("logit", [False, True], ids=["probit", "logit"])
def test_duel_probabilities_are_those_of_samples(engine: Engine, logit: bool) -> None:
    if logit and not engine.logit:
        pytest.skip("The engine does not take this likelihood.")
    if not logit:
        engine.needs_boxes()
    likelihood = PairwiseLogitLikelihood() if logit else PairwiseProbitLikelihood(0.3)
    model = engine(POINTS, PAIRS, likelihood=likelihood, covar_module=kernel())
    first, second = NEW[:3], NEW[3:]
    count = 40_000
    with torch.random.fork_rng():
        torch.manual_seed(0)
        samples = model.posterior(NEW).rsample(torch.Size([count])).squeeze(-1)
    difference = samples[:, :3] - samples[:, 3:]
    for noise, per_sample in (
        (False, (difference > 0).double()),
        (True, likelihood(difference).probs.detach()),
    ):
        win = model.duel_probability(first, second, observation_noise=noise)
        loss = model.duel_probability(second, first, observation_noise=noise)
        torch.testing.assert_close(win + loss, torch.ones_like(win))
        standard_error = per_sample.std(0) / count**0.5
        assert bool(((win - per_sample.mean(0)).abs() < 5 * standard_error).all())
    # The batch of all pairs, and a single reference.
    grid = model.duel_probability(NEW.unsqueeze(1), NEW)
    torch.testing.assert_close(grid + grid.T, torch.ones_like(grid))
    torch.testing.assert_close(
        grid[:3, 3:], model.duel_probability(first, second).unsqueeze(-1)
    )


def test_ties_take_probability_from_wins(engine: Engine) -> None:
    engine.needs_boxes()
    model = mixed(engine)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        samples = model.posterior(NEW[:2]).rsample(torch.Size([40_000])).squeeze(-1)
    difference = samples[:, 0] - samples[:, 1]
    win, loss = (
        model.duel_probability(a, b, observation_noise=True)
        for a, b in ((NEW[:1], NEW[1:2]), (NEW[1:2], NEW[:1]))
    )
    scale = (2 * 0.3) ** 0.5
    for probability, sign in ((win, 1), (loss, -1)):
        expected = torch.special.ndtr((sign * difference - 0.5) / scale)
        error = (probability - expected.mean()).abs()
        assert number(error) < 5 * number(expected.std()) / 200
    assert number(win + loss) < 1


def test_a_model_of_validity_alone_has_no_answers_to_duels(engine: Engine) -> None:
    engine.needs_boxes()
    model = engine(POINTS, feedback=[VALID])
    assert model.duel_probability(NEW[:1], NEW[1:2]).shape == (1,)
    with pytest.raises(UnsupportedFeedbackError, match=r"likelihood=.*Comparisons"):
        model.duel_probability(NEW[:1], NEW[1:2], observation_noise=True)
    with pytest.raises(UnsupportedFeedbackError, match=r"likelihood=.*Comparisons"):
        model.condition_on_observations(NEW, torch.tensor([[0, 1]]))


# --- The prior alone


@pytest.mark.parametrize("with_points", [False, True], ids=["nothing", "points"])
@pytest.mark.parametrize("transform", [False, True], ids=["plain", "normalised"])
def test_without_answers_it_predicts_the_prior(
    engine: Engine, with_points: bool, transform: bool
) -> None:
    bounds = torch.tensor([[0.0, 0.0], [2.0, 4.0]], dtype=DOUBLE)
    model = engine(
        POINTS if with_points else None,
        covar_module=kernel(),
        input_transform=Normalize(2, bounds=bounds) if transform else None,
    )
    assert model.num_outputs == 1
    assert model.train_targets is None
    posterior = model.posterior(NEW.expand(3, 4, 2))
    x = NEW / bounds[1] if transform else NEW
    prior = kernel()(x).to_dense().expand(3, 4, 4)
    torch.testing.assert_close(posterior.covariance_matrix, prior)
    torch.testing.assert_close(posterior.mean, torch.zeros(3, 4, 1, dtype=DOUBLE))
    assert model.diagnostics()["converged"]
    with pytest.raises(BotorchPrefError, match="no feedback"):
        model.train().log_evidence()


def test_a_model_of_nothing_learns_by_conditioning(engine: Engine) -> None:
    model = engine()
    conditioned = model.condition_on_observations(POINTS, PAIRS)
    expected = engine(POINTS, PAIRS, covar_module=conditioned.covar_module)
    assert_same_posterior(engine, conditioned.posterior(NEW), expected.posterior(NEW))
    assert model.datapoints is None


# --- Copies, storage, hyper-parameters


@pytest.mark.parametrize(
    "clone",
    [copy.deepcopy, copy.copy, lambda model: pickle.loads(pickle.dumps(model))],
    ids=["deepcopy", "copy", "pickle"],
)
@pytest.mark.parametrize("used", [False, True], ids=["fresh", "used"])
def test_copies_keep_data_and_predictions(
    engine: Engine, clone: Callable[[Any], Any], used: bool
) -> None:
    likelihood = PairwiseProbitLikelihood(
        0.3, 0.5, noise_prior=GammaPrior(2, 2), tie_threshold_prior=GammaPrior(2, 4)
    )
    model = engine(
        POINTS,
        full(engine)[0],
        likelihood=likelihood if engine.boxed else None,
        input_transform=Normalize(2),
    )
    if used:
        model.log_evidence().backward()
        model.posterior(NEW)
    other = clone(model)
    torch.testing.assert_close(
        moments(other.posterior(NEW)), moments(model.posterior(NEW)), rtol=0, atol=1e-5
    )
    torch.testing.assert_close(other.datapoints, POINTS)
    torch.testing.assert_close(other.comparisons, full(engine)[0].pairs)
    priors = [name for name, *_ in other.named_priors()]
    assert priors == [name for name, *_ in model.named_priors()]


def test_a_deep_copy_is_independent(engine: Engine) -> None:
    model = engine(POINTS, PAIRS)
    before = moments(model.posterior(NEW))
    other = copy.deepcopy(model)
    other.covar_module.outputscale = 5.0
    other.set_train_data(POINTS, PAIRS.flip(-1))
    torch.testing.assert_close(moments(model.posterior(NEW)), before)


def test_hyper_parameters_round_trip_through_the_state_dict(engine: Engine) -> None:
    engine.needs_boxes()

    def build() -> PreferenceGP:
        likelihood = {
            Comparisons: PairwiseProbitLikelihood(1.0, tie_threshold=1.0),
            Validity: AffineProbitLikelihood(1.0),
        }
        return engine(
            POINTS,
            FULL,
            feedback=[VALID],
            likelihood=likelihood,
            input_transform=Normalize(2),
        )

    model, other = build(), build()
    model.likelihood.noise = 0.2
    model.likelihood.tie_threshold = 0.3
    model.likelihoods["Validity"].noise = 0.6
    model.mean_module.constant.data.fill_(0.7)
    model.covar_module.outputscale = 3.0
    model.covar_module.base_kernel.lengthscale = torch.tensor([0.2, 0.9])
    stale = moments(other.posterior(NEW))
    other.load_state_dict(model.state_dict())
    assert_same_posterior(engine, other.posterior(NEW), model.posterior(NEW))
    assert number((stale[0] - moments(other.posterior(NEW))[0]).abs().max()) > 0.05


CHANGES: dict[str, Callable[[PreferenceGP], None]] = {
    "scale": lambda model: setattr(model.covar_module, "outputscale", 4.0),
    "length": lambda model: setattr(model.covar_module.base_kernel, "lengthscale", 0.1),
    "mean": lambda model: model.mean_module.constant.data.fill_(-1.0),
    "answers": lambda model: model.set_train_data(comparisons=PAIRS.flip(-1)),
}
BOXED_CHANGES: dict[str, Callable[[PreferenceGP], None]] = {
    "noise": lambda model: setattr(model.likelihood, "noise", 0.05),
    "threshold": lambda model: setattr(model.likelihood, "tie_threshold", 1.5),
    "validity": lambda model: model.set_train_data(
        feedback=[Validity(VALID.indices, ~VALID.valid)]
    ),
}


@pytest.mark.parametrize("name", [*CHANGES, *BOXED_CHANGES])
def test_a_change_in_eval_mode_is_seen(engine: Engine, name: str) -> None:
    if name in BOXED_CHANGES:
        engine.needs_boxes()
    change = (CHANGES | BOXED_CHANGES)[name]
    model = mixed(engine).eval()
    before = moments(model.posterior(NEW))[0]
    change(model)
    after = moments(model.posterior(NEW))
    fresh = copy.deepcopy(model)
    fresh.train()
    fresh.set_train_data(POINTS)
    assert_same_posterior(engine, after, fresh.posterior(NEW))
    assert number((after[0] - before).abs().max()) > 0.02


def test_single_and_double_precision_agree(engine: Engine) -> None:
    double = mixed(engine)
    single = copy.deepcopy(double).to(torch.float32)
    assert single.train_inputs[0].dtype == torch.float32
    posterior = single.posterior(NEW.float())
    assert posterior.mean.dtype == posterior.covariance_matrix.dtype == torch.float32
    mean, covariance = moments(posterior)
    assert_same_posterior(
        engine, (mean.double(), covariance.double()), double.posterior(NEW), 2e-3
    )
    assert single.dtypes_of_buffers == {torch.float32}
    evidence = single.train().log_evidence()
    assert evidence.dtype == torch.float32
    torch.testing.assert_close(
        evidence.double(), double.train().log_evidence(), rtol=1e-4, atol=1e-3
    )
    back = single.double()
    assert_same_posterior(engine, back.posterior(NEW), double.posterior(NEW), 1e-3)


def test_a_change_of_precision_in_eval_mode_keeps_the_transform(
    engine: Engine,
) -> None:
    model = engine(RAW, PAIRS, input_transform=Normalize(2))
    x = 30 * NEW - 7
    expected = moments(model.posterior(x))
    model.to(torch.float32)
    mean, covariance = moments(model.posterior(x.float()))
    actual = mean.double(), covariance.double()
    assert_same_posterior(engine, actual, expected, 2e-3)
    model.train()
    assert model.train_inputs[0].dtype == torch.float32
    torch.testing.assert_close(model.train_inputs[0], RAW.float())


def test_moving_to_where_it_is_computes_nothing_anew(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As BoTorch's analytic acquisition functions do at every call."""
    model = engine(POINTS, PAIRS)
    expected = model.posterior(NEW).mean
    monkeypatch.setattr(model, "_forget", lambda: pytest.fail("computed anew"))
    torch.testing.assert_close(model.to(NEW).posterior(NEW).mean, expected)
    with pytest.raises(pytest.fail.Exception, match="computed anew"):
        model.to(torch.float32)


def test_construction_in_single_precision(engine: Engine) -> None:
    model = engine(POINTS.float(), PAIRS)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert model.posterior(NEW.float()).mean.dtype == torch.float32


def test_equal_seeds_and_an_untouched_global_state(engine: Engine) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(11)
        state = torch.get_rng_state()
        model = engine(POINTS, PAIRS)
        mll = PreferenceMarginalLogLikelihood(model.likelihood, model)
        fit_gpytorch_mll(mll, optimizer_kwargs={"options": {"maxiter": 3}})
        first = moments(model.posterior(NEW))
        model.duel_probability(NEW[:2], NEW[2:], observation_noise=True)
        model.diagnostics()
        assert torch.equal(torch.get_rng_state(), state)
        torch.manual_seed(12)
        again = engine(POINTS, PAIRS)
        mll = PreferenceMarginalLogLikelihood(again.likelihood, again)
        fit_gpytorch_mll(mll, optimizer_kwargs={"options": {"maxiter": 3}})
        torch.testing.assert_close(moments(again.posterior(NEW)), first, rtol=0, atol=0)


# --- What must not matter


def test_the_order_of_answers_and_points_does_not_matter(engine: Engine) -> None:
    engine.needs_boxes()
    model = mixed(engine)
    generator = torch.Generator().manual_seed(0)
    to_old = torch.randperm(7, generator=generator)
    to_new = to_old.argsort()
    rows = torch.randperm(len(PAIRS), generator=generator)
    moved = mixed(engine)
    moved.train()
    moved.set_train_data(
        POINTS[to_old],
        Comparisons(to_new[PAIRS[rows]], ties=to_new[FULL.ties].flip(0).flip(-1)),
        feedback=[Validity(to_new[VALID.indices].flip(0), VALID.valid.flip(0))],
    )
    assert_same_posterior(engine, moved.posterior(NEW), model.posterior(NEW))


def test_copies_of_points_count_as_one(engine: Engine) -> None:
    # Points 0 .. 6, then each of them again; answers are about either copy.
    points = POINTS.repeat(2, 1)
    generator = torch.Generator().manual_seed(0)
    copies = 7 * torch.randint(2, PAIRS.shape, generator=generator)
    spread = engine(points, PAIRS + copies, covar_module=kernel())
    single = engine(POINTS, PAIRS, covar_module=kernel())
    assert_same_posterior(engine, spread.posterior(NEW), single.posterior(NEW))
    torch.testing.assert_close(
        spread.train().log_evidence(), single.train().log_evidence()
    )
    batched = engine(points.expand(2, -1, -1), PAIRS + copies, covar_module=kernel())
    mean, covariance = moments(batched.posterior(NEW))
    assert_same_posterior(engine, (mean[1], covariance[1]), single.posterior(NEW))


def test_a_point_against_its_own_copy_says_nothing(engine: Engine) -> None:
    points = torch.cat([POINTS, POINTS[:1]])
    with_copy = torch.cat([PAIRS, torch.tensor([[0, 7], [7, 0], [0, 7]])])
    model = engine(points, with_copy, covar_module=kernel())
    plain = engine(POINTS, PAIRS, covar_module=kernel())
    assert_same_posterior(engine, model.posterior(NEW), plain.posterior(NEW))
    # Three answers with probability one half each.
    expected = plain.log_evidence() - 3 * torch.tensor(2.0, dtype=DOUBLE).log()
    torch.testing.assert_close(model.train().log_evidence(), expected)


def test_answers_that_contradict_each_other_cancel(engine: Engine) -> None:
    pair = torch.tensor([[0, 1]])
    x = POINTS[:2]
    both = engine(x, torch.cat([pair, pair.flip(-1)]), covar_module=kernel())
    duel = both.duel_posterior(x[:1], x[1:])
    prior = engine(covar_module=kernel()).double().duel_posterior(x[:1], x[1:])
    sd = number(duel.variance.sqrt())
    assert abs(number(duel.mean)) < (1e-6 + engine.sampling_error) * sd
    # They still say that the two are close.
    assert number(duel.variance) < 0.95 * number(prior.variance)


def test_repeated_answers_add_up(engine: Engine) -> None:
    pair, x = torch.tensor([[0, 1]]), POINTS[:2]
    means = []
    for count in (1, 4, 30):
        model = engine(x, pair.expand(count, 2), covar_module=kernel())
        assert model.diagnostics()["converged"]
        means.append(number(model.duel_posterior(x[:1], x[1:]).mean))
    assert means[0] < means[1] < means[2]


# --- New answers


def test_conditioning_twice_is_a_model_of_all_answers(engine: Engine) -> None:
    bounds = torch.tensor([[0.0, 0.0], [1.0, 2.0]], dtype=DOUBLE)
    transform = Normalize(2, bounds=bounds)
    model = mixed(engine, input_transform=transform)
    before = moments(model.posterior(NEW))
    more = torch.tensor([[0, 1], [3, 2]])
    other = uniform(3, 2, seed=8)
    twice = model.condition_on_observations(NEW, more)
    twice = twice.condition_on_observations(other, more[:1])
    everything = mixed(engine, input_transform=transform)
    pairs, _ = full(engine)
    everything.set_train_data(
        torch.cat([POINTS, NEW, other]),
        Comparisons(torch.cat([pairs.pairs, more + 7, more[:1] + 11]), pairs.ties),
    )
    x = uniform(4, 2, seed=12)
    assert_same_posterior(engine, twice.posterior(x), everything.posterior(x))
    torch.testing.assert_close(twice.datapoints, torch.cat([POINTS, NEW, other]))
    if engine.boxed:
        assert twice.feedback[-1].valid.tolist() == VALID.valid.tolist()
    torch.testing.assert_close(moments(model.posterior(NEW)), before)


def test_conditioning_on_batches_of_answers(engine: Engine) -> None:
    model = engine(POINTS, PAIRS, covar_module=kernel())
    more = torch.tensor([[[0, 1]], [[1, 0]], [[2, 3]]])
    batch = model.condition_on_observations(NEW, more)
    assert batch.batch_shape == (3,)
    mean, covariance = moments(batch.posterior(NEW))
    for i in range(3):
        single = model.condition_on_observations(NEW, more[i])
        assert_same_posterior(engine, (mean[i], covariance[i]), single.posterior(NEW))


def test_conditioning_wants_comparisons(engine: Engine) -> None:
    model = engine(POINTS, PAIRS)
    with pytest.raises(FeedbackError, match="integers"):
        model.condition_on_observations(NEW, torch.randn(4, 1, dtype=DOUBLE))
    with pytest.raises(FeedbackError, match="there are 4 datapoints"):
        model.condition_on_observations(NEW, torch.tensor([[0, 40]]))


def test_inputs_from_botorchs_data_set(engine: Engine) -> None:
    order = torch.tensor([[0, 1]]).expand(len(PAIRS), 2)
    data = RankingDataset(
        X=SliceContainer(values=POINTS, indices=PAIRS, event_shape=torch.Size([2 * 2])),
        Y=order,
        feature_names=["a", "b"],
        outcome_names=["preference"],
    )
    inputs = engine.cls.construct_inputs(data)
    model = engine(**inputs)
    torch.testing.assert_close(model.comparisons, PAIRS)
    assert_same_posterior(
        engine, model.posterior(NEW), engine(POINTS, PAIRS).posterior(NEW)
    )
    # The order column says who won.
    data = RankingDataset(
        X=SliceContainer(
            values=POINTS, indices=PAIRS.flip(-1), event_shape=torch.Size([2 * 2])
        ),
        Y=order.flip(-1),
        feature_names=["a", "b"],
        outcome_names=["preference"],
    )
    inputs = engine.cls.construct_inputs(data)
    torch.testing.assert_close(inputs["comparisons"], PAIRS)


def test_other_data_sets_are_refused(engine: Engine) -> None:
    data = SupervisedDataset(
        POINTS, POINTS[:, :1], feature_names=["a", "b"], outcome_names=["y"]
    )
    with pytest.raises(UnsupportedFeedbackError, match="RankingDataset"):
        engine.cls.construct_inputs(data)


# --- Hyper-parameters


def learnable(engine: Engine, **kwargs: Any) -> PreferenceGP:
    """A model whose every parameter is learned and has a prior."""
    pairs, feedback = full(engine)
    likelihood = {
        Comparisons: PairwiseProbitLikelihood(
            0.3,
            tie_threshold=0.5,
            noise_prior=GammaPrior(2.0, 3.0),
            tie_threshold_prior=GammaPrior(2.0, 4.0),
        ),
        Validity: AffineProbitLikelihood(0.7, noise_prior=LogNormalPrior(0.0, 1.0)),
    }
    base = MaternKernel(ard_num_dims=2, lengthscale_prior=GammaPrior(3.0, 6.0))
    covar = ScaleKernel(base, outputscale_prior=GammaPrior(2.0, 0.15))
    mean = ConstantMean(constant_prior=NormalPrior(0.0, 2.0))
    model = engine(
        POINTS,
        pairs,
        feedback=feedback,
        likelihood=likelihood if engine.boxed else None,
        mean_module=mean,
        covar_module=covar,
        **kwargs,
    )
    covar.outputscale = 1.7
    base.lengthscale = torch.tensor([0.4, 0.8])
    mean.constant.data.fill_(0.3)
    return model.train()


def objective(model: PreferenceGP) -> Tensor:
    mll = PreferenceMarginalLogLikelihood(model.likelihood, model)
    return mll(model(*model.train_inputs), model.train_targets)


def test_the_objective_is_the_evidence_plus_the_log_priors(engine: Engine) -> None:
    model = learnable(engine)
    length = model.covar_module.base_kernel.lengthscale
    log_priors = (
        GammaPrior(3.0, 6.0).log_prob(length).sum()
        + GammaPrior(2.0, 0.15).log_prob(model.covar_module.outputscale)
        + NormalPrior(0.0, 2.0).log_prob(model.mean_module.constant)
    )
    if engine.boxed:
        pairs, validity = (model.likelihoods[n] for n in ("Comparisons", "Validity"))
        log_priors = (
            log_priors
            + GammaPrior(2.0, 3.0).log_prob(pairs.noise)
            + GammaPrior(2.0, 4.0).log_prob(pairs.tie_threshold)
            + LogNormalPrior(0.0, 1.0).log_prob(validity.noise)
        )
    expected = model.log_evidence() + log_priors
    torch.testing.assert_close(objective(model), expected)


def finite_differences(function: Callable[[], Tensor], parameters: Any) -> list[Tensor]:
    """Central differences of a function of module parameters."""
    step = 1e-4
    slopes = []
    for parameter in parameters:
        flat = parameter.data.view(-1)
        slope = torch.empty_like(flat)
        for i in range(len(flat)):
            ends = []
            for sign in (1, -1):
                flat[i] += sign * step
                ends.append(number(function().detach()))
                flat[i] -= sign * step
            slope[i] = (ends[0] - ends[1]) / (2 * step)
        slopes.append(slope.view_as(parameter))
    return slopes


def test_the_gradient_is_that_of_the_value(engine: Engine) -> None:
    model = learnable(engine)
    names, parameters = zip(
        *[(k, p) for k, p in model.named_parameters() if p.requires_grad], strict=True
    )
    assert len(names) == (6 if engine.boxed else 3)
    gradients = torch.autograd.grad(objective(model), parameters)
    expected = finite_differences(lambda: objective(model), parameters)
    for name, gradient, slope in zip(names, gradients, expected, strict=True):
        torch.testing.assert_close(
            gradient, slope, rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}"
        )


def test_the_gradient_of_a_logit_model(engine: Engine) -> None:
    if not engine.logit:
        pytest.skip("The engine does not take this likelihood.")
    model = engine(POINTS, PAIRS, likelihood=PairwiseLogitLikelihood())
    parameters = [p for p in model.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(objective(model), parameters)
    expected = finite_differences(lambda: objective(model), parameters)
    for gradient, slope in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, slope, rtol=1e-4, atol=1e-5)


def test_the_objective_of_model_batches_equals_loops(engine: Engine) -> None:
    points = torch.stack([POINTS, POINTS.flip(0), uniform(7, 2, seed=3)])
    value = objective(engine(points, PAIRS))
    assert value.shape == (3,)
    singles = torch.stack([objective(engine(points[i], PAIRS)) for i in range(3)])
    torch.testing.assert_close(value, singles, rtol=1e-6, atol=1e-6)
    # Batches of data under one kernel: its prior counts in each.
    shared = objective(
        engine(points, PAIRS, covar_module=learnable(engine).covar_module)
    )
    for i in range(3):
        covar = learnable(engine).covar_module
        single = objective(engine(points[i], PAIRS, covar_module=covar))
        torch.testing.assert_close(shared[i], single, rtol=1e-6, atol=1e-6)


def test_fitting_climbs_to_a_stationary_point(engine: Engine) -> None:
    points = uniform(15, 2, seed=21)
    model = engine(points, answers(points, 25))
    before = number(objective(model.train()))
    mll = PreferenceMarginalLogLikelihood(model.likelihood, model)
    fit_gpytorch_mll(mll)
    assert not model.training
    model.train()
    after = objective(model)
    assert number(after) > before + 0.1
    parameters = [p for p in model.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(after, parameters)
    # L-BFGS stops at a relative change of the objective of 1e-9 or so.
    assert max(number(g.abs().max()) for g in gradients) < 0.05
    assert model.diagnostics()["converged"]


def test_fitting_a_model_of_validity_alone(engine: Engine) -> None:
    engine.needs_boxes()
    model = engine(POINTS, feedback=[VALID])
    assert model.train_targets is None
    before = number(objective(model.train()))
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    assert number(objective(model.train())) > before


def test_fitting_model_batches_and_lists(engine: Engine) -> None:
    points = torch.stack([POINTS, POINTS.flip(0)])
    batch = engine(points, PAIRS)
    singles = [engine(points[i], PAIRS) for i in range(2)]
    options = {"options": {"maxiter": 50}}
    for model in (batch, *singles):
        mll = PreferenceMarginalLogLikelihood(model.likelihood, model)
        fit_gpytorch_mll(mll, optimizer_kwargs=options)
    expected = torch.stack([objective(m.train()) for m in singles]).detach()
    value = objective(batch.train()).detach()
    torch.testing.assert_close(value, expected, rtol=0, atol=0.02)


def test_exact_evidence_and_its_gradient() -> None:
    exact = learnable(ENGINES[SkewPreferenceGP], exact_evidence=True, num_draws=4096)
    approximate = learnable(ENGINES[EPPreferenceGP])
    value = exact.log_evidence()
    # EP is within 0.3 nats at 200 rows; there are 11 here. The rest is sampling error.
    assert abs((value - approximate.log_evidence()).item()) < 0.05
    parameters = [p for p in exact.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(value, parameters)
    others = torch.autograd.grad(
        approximate.log_evidence(),
        [p for p in approximate.parameters() if p.requires_grad],
    )
    # Equal seeds are common random numbers, so that the noise of the value cancels in
    # differences with a wide step: a few draws do.
    exact.num_draws = 1024
    steps = []
    for parameter in parameters:
        flat, slope = parameter.data.view(-1), []
        for i in range(len(flat)):
            ends = []
            for sign in (0.1, -0.1):
                flat[i] += sign
                ends.append(number(exact.log_evidence().detach()))
                flat[i] -= sign
            slope.append((ends[0] - ends[1]) / 0.2)
        steps.append(torch.tensor(slope, dtype=DOUBLE).view_as(parameter))
    for gradient, slope, other in zip(gradients, steps, others, strict=True):
        # Over seeds a component has a deviation of 0.03 at 1,024 draws: five of them.
        torch.testing.assert_close(gradient, slope, rtol=0, atol=0.07)
        torch.testing.assert_close(other, slope, rtol=0, atol=0.02)


# --- What goes wrong


def test_a_model_that_did_not_converge_says_so(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, name = engine.iteration_cap
    monkeypatch.setattr(importlib.import_module(module), name, 1)
    # Answers nearly without noise, or utilities that are large beside it.
    likelihood = PairwiseProbitLikelihood(1e-3) if engine.boxed else None
    scale = 2.0 if engine.boxed else 1e3
    model = engine(
        POINTS, PAIRS, likelihood=likelihood, covar_module=kernel(outputscale=scale)
    )
    message = rf"{engine.cls.__name__} did not converge: after \d+ iterations .*\d"
    with pytest.warns(InferenceWarning, match=message):
        model.train().log_evidence()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InferenceWarning)
        known = model.diagnostics()
    assert known["converged"] is False
    assert known["iterations"] <= 2
    assert known["residual"] > 1e-3


def test_diagnostics_of_a_converged_model(engine: Engine) -> None:
    model = engine(POINTS, PAIRS)
    known = model.diagnostics()
    assert known["converged"] is True
    assert known["iterations"] >= 1
    assert 0 <= known["residual"] < 1e-5
    torch.testing.assert_close(
        known["log_evidence"], engine(POINTS, PAIRS).log_evidence().detach()
    )
    if engine.num_draws is not None:
        assert known["num_draws"] == engine.num_draws
        assert known["effective_sample_size"] >= engine.num_draws
        assert known["r_hat"] < 1.05


def test_sampling_that_did_not_converge_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = importlib.import_module("botorch_pref.inference.skew.mcmc_stopping")
    monkeypatch.setattr(module, "_R_HAT_TARGET", 0.5)
    model = SkewPreferenceGP(POINTS, PAIRS, num_draws=64)
    with pytest.warns(InferenceWarning, match=r"R-hat is \d.* effective .* of 64"):
        model.posterior(NEW)
    assert model.diagnostics()["converged"] is False


def test_the_exact_model_names_the_engines_that_take_logit() -> None:
    with pytest.raises(
        UnsupportedFeedbackError, match=r"EPPreferenceGP.* LaplacePreferenceGP"
    ):
        SkewPreferenceGP(POINTS, PAIRS, likelihood=PairwiseLogitLikelihood())


def test_ties_have_a_threshold_that_is_learned_by_default(engine: Engine) -> None:
    engine.needs_boxes()
    model = engine(POINTS, Comparisons(PAIRS, ties=PAIRS[:1]))
    (raw,) = [p for n, p in model.named_parameters() if "tie_threshold" in n]
    assert raw.requires_grad
    (gradient,) = torch.autograd.grad(model.log_evidence(), raw)
    assert float(gradient) != 0
    with pytest.raises(FeedbackError, match="no tie threshold; pass"):
        engine(
            POINTS,
            Comparisons(PAIRS, ties=PAIRS[:1]),
            likelihood=PairwiseProbitLikelihood(),
        )


@pytest.mark.parametrize("logit", [False, True], ids=["probit", "logit"])
def test_likelihoods_of_botorch_stand_for_ours(engine: Engine, logit: bool) -> None:
    theirs, ours = (
        getattr(module, f"Pairwise{'Logit' if logit else 'Probit'}Likelihood")
        for module in (botorch_pairwise, botorch_pref)
    )
    if ours.explains[Comparisons] not in engine.cls.takes:
        with pytest.raises(UnsupportedFeedbackError, match=r"does not take .* under"):
            engine(POINTS, PAIRS, likelihood=theirs())
        return
    expected = moments(engine(POINTS, PAIRS, likelihood=ours()).posterior(NEW))
    for likelihood in (theirs(), {Comparisons: theirs()}):
        model = engine(POINTS, PAIRS, likelihood=likelihood)
        torch.testing.assert_close(moments(model.posterior(NEW)), expected)
        assert type(model.likelihood) is ours


class _OtherLikelihood(botorch_pairwise.PairwiseProbitLikelihood):
    """Might mean anything."""


def test_other_likelihoods_are_refused(engine: Engine) -> None:
    with pytest.raises(
        UnsupportedFeedbackError, match=r"_OtherLikelihood.*botorch_pref does"
    ):
        engine(POINTS, PAIRS, likelihood=_OtherLikelihood())
    with pytest.raises(UnsupportedFeedbackError, match="does not explain Validity"):
        engine(POINTS, PAIRS, likelihood={Validity: PairwiseProbitLikelihood()})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, PAIRS), "no datapoints"),
        ((POINTS.long(), PAIRS), "floating point"),
        ((POINTS.tolist(), PAIRS), "floating point"),
        ((POINTS[0], PAIRS), "expected batch_shape x n x d"),
        ((POINTS[:0], PAIRS), "at least one point"),
        ((POINTS.where(POINTS[3, 1] != POINTS, torch.nan), PAIRS), r"\[3, 1\].*row 3"),
        ((POINTS.where(POINTS[3, 1] != POINTS, torch.inf), PAIRS), r"\[3, 1\].*row 3"),
        ((POINTS, torch.tensor([[0, 1], [2, 7]])), r"\[1, 1\] is 7.*7 datapoints"),
        ((POINTS, torch.tensor([[0, 1], [-1, 2]])), r"\[1, 0\] is -1"),
        ((POINTS, torch.tensor([[0, 1], [2, 2]])), r"\[1\] compares point 2"),
        ((POINTS, PAIRS.double()), "indices"),
        ((POINTS, PAIRS[:0]), "no rows"),
        ((POINTS, PAIRS[:, :1]), "m x 2"),
        (
            (POINTS.expand(2, 7, 2), PAIRS.expand(3, *PAIRS.shape)),
            "does not broadcast",
        ),
    ],
)
def test_data_that_mean_nothing_are_refused(
    engine: Engine, arguments: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(FeedbackError, match=message):
        engine(*arguments)


def test_feedback_that_means_nothing_is_refused(engine: Engine) -> None:
    with pytest.raises(FeedbackError, match="2 blocks of Comparisons"):
        engine(POINTS, PAIRS, feedback=[Comparisons(PAIRS)])
    with pytest.raises(FeedbackError, match="wrap answers in a container"):
        engine(POINTS, feedback=[PAIRS])
    with pytest.raises(FeedbackError, match="pass a sequence"):
        engine(POINTS, feedback=Comparisons(PAIRS))
    if engine.boxed:
        with pytest.raises(FeedbackError, match="indices"):
            engine(POINTS, feedback=[Validity(torch.tensor([9]), torch.tensor([True]))])
    model = engine(POINTS, PAIRS)
    with pytest.raises(FeedbackError, match=r"there are 1 datapoints"):
        model.set_train_data(POINTS[:1], PAIRS)
    with pytest.raises(FeedbackError, match="strict"):
        model.set_train_data(POINTS[:1], strict=True)
    torch.testing.assert_close(model.train_inputs[0], POINTS)


def test_gradients_in_the_points_it_is_conditioned_on(engine: Engine) -> None:
    pairs, validity = full(engine)
    threshold = 0.5 if engine.boxed else 0.0
    probe, square = uniform(4, seed=11) - 0.5, uniform(4, 4, seed=12) - 0.5
    direction = uniform(7, 2, seed=13) - 0.5

    def statistics(mean: Tensor, covariance: Tensor) -> Tensor:
        return torch.stack([probe @ mean, (square * covariance).sum()])

    def truth(step: float) -> Tensor:
        joint = torch.cat([POINTS + step * direction, NEW])
        rows = rows_of(pairs, *validity or [None], threshold, (0.3, 0.7), len(joint))
        mean = torch.full((len(joint),), 0.4, dtype=DOUBLE)
        with torch.no_grad():
            covariance = kernel()(joint).to_dense()
        mean, covariance = engine.reference(covariance, mean, rows)
        return statistics(mean[7:], covariance[7:, 7:])

    engine = engine.with_draws(16_384)
    model = mixed(engine)
    step = torch.zeros((), dtype=DOUBLE, requires_grad=True)
    model.set_train_data(POINTS + step * direction)
    posterior = model.posterior(NEW)
    values = statistics(posterior.mean.squeeze(-1), posterior.covariance_matrix)
    actual = torch.stack(
        [torch.autograd.grad(v, step, retain_graph=True)[0] for v in values]
    )
    expected = (truth(1e-3) - truth(-1e-3)) / 2e-3
    assert ((actual - expected).abs() < 1e-5 + engine.sampling_error).all()
