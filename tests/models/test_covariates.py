"""Covariates of answers against a kernel over points and covariates, and integrals."""

import copy
import dataclasses
import itertools
import math
from typing import Any

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.sampling.normal import SobolQMCNormalSampler
from draws import normal
from entries import Cell
from gpytorch.kernels import Kernel, RBFKernel, ScaleKernel
from models.cell_models import (
    NEW,
    PARTS,
    assert_same_moments,
    moments,
    names,
    same_answers,
)
from random_answers import counted
from registry import CELLS, ENGINES
from torch import Generator, Tensor
from truths.answers import CHOICES, NOISE, PAIRS, POINTS
from truths.slopes import central_slopes

from botorch_pref import (
    BotorchPrefError,
    Choices,
    Comparisons,
    EPPreferenceGP,
    FeedbackError,
    PairwiseProbitLikelihood,
    PlackettLuceRegression,
    PreferenceMarginalLogLikelihood,
    Rankings,
    SkewPreferenceGP,
    UnsupportedFeedbackError,
    VariationalPreferenceGP,
)
from botorch_pref.evaluation import cross_validate_model, predictive_log_probability
from botorch_pref.evaluation.scores import HeldOutAnswers, answer_scores
from botorch_pref.feedback import Feedback
from botorch_pref.models import FullyBayesianEPPreferenceGP, PreferenceGP

DOUBLE = torch.float64
SCALES = torch.tensor([0.8, 1.7], dtype=DOUBLE)
SEES = (Comparisons, Choices, Rankings)


def with_covariates(block: Feedback, seed: int = 0, p: int = 2) -> Any:
    """Returns the same answers with random covariates."""
    if isinstance(block, Comparisons):
        rows = sum(len(getattr(block, name)) for name in block.index_fields)
        return dataclasses.replace(block, covariates=normal(rows, p, seed=seed))
    sets = getattr(block, block.index_fields[0])
    return dataclasses.replace(block, covariates=normal(*sets.shape, p, seed=seed))


class WithCovariates(Kernel):
    """A kernel over points and covariates: ``k(x, x') + c' diag(s^2) c'``."""

    def __init__(self, base: Kernel) -> None:
        super().__init__()
        self.base_kernel = base

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **_: Any) -> Tensor:
        of_points = self.base_kernel(x1[..., :1], x2[..., :1], diag=diag)
        scaled = x1[..., 1:] * SCALES.to(x1).square()
        if diag:
            return of_points + (scaled * x2[..., 1:]).sum(-1)
        return of_points.to_dense() + scaled @ x2[..., 1:].mT


def kernel() -> ScaleKernel:
    scaled_kernel = ScaleKernel(RBFKernel()).double()
    scaled_kernel.base_kernel.lengthscale = 0.5
    scaled_kernel.outputscale = 2.0
    return scaled_kernel


def model_of(
    engine: type[PreferenceGP], cell: Cell, block: Feedback, X: Tensor = POINTS
) -> PreferenceGP:
    likelihood = {type(block): cell.likelihood().double()}
    arguments: dict[str, Any] = {"feedback": [block], "likelihood": likelihood}
    if issubclass(engine, SkewPreferenceGP):
        arguments["num_draws"] = 512
    if X.shape[-1] > 1:
        model = engine(X, covar_module=WithCovariates(kernel()), **arguments)
    else:
        model = engine(X, covar_module=kernel(), **arguments)
        if model.num_covariates:
            model.covariate_module.scale = SCALES
    return model.eval()


def as_points(block: Any) -> tuple[Feedback, Tensor]:
    """Makes each option of each answer a datapoint of its own, one by one."""
    rows: list[Tensor] = []

    def add(point: int, covariates: Tensor) -> int:
        rows.append(torch.cat([POINTS[point], covariates]))
        return len(rows) - 1

    if isinstance(block, Comparisons):
        indices = torch.cat([getattr(block, name) for name in block.index_fields])
        options = [
            [add(int(a), c), add(int(b), 0 * c)]
            for (a, b), c in zip(indices, block.covariates, strict=True)
        ]
        numbers = torch.tensor(options)
        num_pairs = 0 if block.pairs is None else len(block.pairs)
        ties = numbers[num_pairs:] if block.ties is not None else None
        comparisons = Comparisons(numbers[:num_pairs] if num_pairs else None, ties)
        return comparisons, torch.stack(rows)
    sets = getattr(block, block.index_fields[0])
    numbers = torch.full_like(sets, -1)
    for i, j in itertools.product(range(len(sets)), range(sets.shape[-1])):
        if sets[i, j] >= 0:
            numbers[i, j] = add(int(sets[i, j]), block.covariates[i, j])
    if isinstance(block, Rankings):
        return Rankings(numbers), torch.stack(rows)
    chosen = numbers[sets == block.chosen.unsqueeze(-1)]
    return Choices(numbers, chosen), torch.stack(rows)


def neutral(X: Tensor) -> Tensor:
    return torch.cat([X, torch.zeros(len(X), 2, dtype=X.dtype)], dim=-1)


SEEN = [
    part
    for part in PARTS
    if type(part.values[1].feedback) in SEES
    and not (
        part.values[0] is VariationalPreferenceGP
        and type(part.values[1].feedback) is not Comparisons
    )
]


@pytest.mark.parametrize(("engine", "cell"), SEEN)
def test_covariates_are_further_features_of_options(engine, cell) -> None:
    block = with_covariates(cell.feedback)
    model = model_of(engine, cell, block)
    answers, points = as_points(block)
    truth = model_of(engine, cell, answers, points)
    torch.testing.assert_close(
        model.log_evidence(), truth.log_evidence(), rtol=1e-7, atol=1e-7
    )
    assert_same_moments(engine, moments(model), moments(truth, neutral(NEW)))
    weights = model.covariate_posterior()
    assert type(weights) is type(model.posterior(NEW))
    # A weight is what a unit of its covariate adds to any point.
    unit = torch.cat([torch.zeros(1, 2), torch.eye(2)]).double()
    three = truth.posterior(torch.cat([POINTS[:1].expand(3, 1), unit], dim=-1))
    step = torch.tensor([[-1.0, 1, 0], [-1, 0, 1]], dtype=DOUBLE)
    expected = (
        (step @ three.mean).squeeze(-1).detach(),
        (step @ three.covariance_matrix @ step.mT).detach(),
    )
    mean, covariance = weights.mean.squeeze(-1), weights.covariance_matrix
    assert_same_moments(engine, (mean.detach(), covariance.detach()), expected)
    covariates = normal(3, 2, seed=3)
    options = model.option_posterior(NEW, covariates)
    expected = moments(truth, torch.cat([NEW, covariates], dim=-1))
    mean, covariance = options.mean.squeeze(-1), options.covariance_matrix
    assert_same_moments(engine, (mean.detach(), covariance.detach()), expected)
    # Answers that were left out, with covariates of their own.
    held_out = with_covariates(cell.feedback, seed=1)
    answers, points = as_points(held_out)
    scores = predictive_log_probability(held_out, model, POINTS)
    wanted = predictive_log_probability(answers, truth, points)
    allowed = torch.full_like(wanted, 1e-5)
    if issubclass(engine, SkewPreferenceGP):
        # Two means of 512 probabilities p, whose variance is below p (1 - p).
        allowed = 4.5 * (2 * (-wanted).expm1() / 512).sqrt()
    assert bool(((scores - wanted).abs() <= allowed).all())


@pytest.mark.parametrize("engine", [e for e in ENGINES if e is not SkewPreferenceGP])
def test_the_evidence_has_a_gradient_in_the_scales(engine) -> None:
    cell = CELLS[1]
    model = model_of(engine, cell, with_covariates(cell.feedback))
    raw = model.covariate_module.raw_scale
    model.log_evidence().backward()
    wanted = central_slopes(model.log_evidence, raw, 1e-4)
    torch.testing.assert_close(raw.grad, wanted, rtol=1e-5, atol=1e-7)


def test_only_answers_with_equal_covariates_are_one() -> None:
    answers = Comparisons(
        torch.tensor([[0, 1]] * 4 + [[1, 0]]),
        covariates=torch.tensor([[1.0], [1.0], [-1.0], [0.0], [-1.0]], dtype=DOUBLE),
    )
    rows = EPPreferenceGP(POINTS, answers).factors().rows
    # The last is a loss of the first.
    assert rows.num_rows == 3
    torch.testing.assert_close(
        rows.dense()[:, -1].sort().values, -torch.tensor([1.0, 0.0, -1.0]).double()
    )


@pytest.mark.parametrize("index", [0, 2, 3], ids=lambda i: names(CELLS[i]))
def test_answers_with_covariates_live_as_others_do(index) -> None:
    cell = CELLS[index]
    block = with_covariates(cell.feedback)
    generator = Generator().manual_seed(0)
    model = model_of(EPPreferenceGP, cell, block)
    expected = moments(model)
    clones = copy.deepcopy(model), model_of(EPPreferenceGP, cell, block)
    clones[1].load_state_dict(model.state_dict())
    for clone in clones:
        assert same_answers(clone.feedback[0], block)
        torch.testing.assert_close(moments(clone), expected, rtol=0, atol=1e-9)
    # One by one, and with counts.
    counted_block = counted(generator, block, largest=4)
    single = counted_block.repeated(1000)
    models = [model_of(EPPreferenceGP, cell, b) for b in (counted_block, single)]
    torch.testing.assert_close(*map(moments, models), rtol=1e-6, atol=1e-8)
    # In batches, and with copies of points.
    twice = POINTS.repeat(2, 1).expand(2, -1, -1)
    pair = with_covariates(cell.feedback, seed=5)
    stacked = [torch.stack([b.covariates for b in (block, pair)])]
    batch = dataclasses.replace(block.shifted(len(POINTS)), covariates=stacked[0])
    batched = moments(model_of(EPPreferenceGP, cell, batch, twice))
    for i, joined_part in enumerate((block, pair)):
        alone = moments(model_of(EPPreferenceGP, cell, joined_part))
        element_parts = tuple(part[i] for part in batched)
        torch.testing.assert_close(element_parts, alone, rtol=0, atol=1e-6)
    model.float()
    assert model.covariate_posterior().mean.dtype == torch.float32
    assert_same_moments(
        EPPreferenceGP,
        tuple(t.double() for t in moments(model, NEW.float())),
        expected,
        3e-3,
    )


@pytest.mark.parametrize("engine", ENGINES, ids=lambda e: e.__name__)
def test_further_answers_join_those_before(engine) -> None:
    """The engine goes on from what it found, with moments of weights behind."""
    cell = CELLS[1 if engine is VariationalPreferenceGP else 0]
    first, second = (with_covariates(cell.feedback, seed=seed) for seed in (0, 1))
    before = model_of(engine, cell, first)
    _ = moments(before)
    new_points = POINTS.flip(0) + 0.1
    model = before.condition_on_observations(new_points, second)
    joined = first.followed_by(second.shifted(len(POINTS)))
    anew = model_of(engine, cell, joined, torch.cat([POINTS, new_points]))
    assert_same_moments(engine, moments(model), moments(anew))
    actual, wanted = (
        (w.mean.squeeze(-1).detach(), w.covariance_matrix.detach())
        for w in (model.covariate_posterior(), anew.covariate_posterior())
    )
    assert_same_moments(engine, actual, wanted)


def test_intervals_of_weights_cover_as_often_as_they_say() -> None:
    """Weights, utilities and answers are drawn from the model, in 512 data sets."""
    generator = Generator().manual_seed(0)
    sets, n, m = 512, 4, 25
    X = torch.rand(sets, n, 1, generator=generator, dtype=DOUBLE)
    covar = kernel()
    with torch.no_grad():
        root = torch.linalg.cholesky(covar(X).to_dense() + 1e-9 * torch.eye(n))
    f = (root @ torch.randn(sets, n, 1, generator=generator, dtype=DOUBLE)).squeeze(-1)
    w = torch.randn(sets, 1, generator=generator, dtype=DOUBLE)
    pairs = torch.rand(sets, m, n, generator=generator).topk(2).indices
    first = 1 - 2.0 * (torch.rand(sets, m, generator=generator) < 0.5).double()
    z = f.gather(-1, pairs[..., 0]) - f.gather(-1, pairs[..., 1]) + first * w
    perceived = z + math.sqrt(2) * torch.randn(
        sets, m, generator=generator, dtype=DOUBLE
    )
    won = (perceived > 0).unsqueeze(-1)
    comparisons = Comparisons(
        torch.where(won, pairs, pairs.flip(-1)),
        covariates=torch.where(won, first.unsqueeze(-1), -first.unsqueeze(-1)),
    )
    model = EPPreferenceGP(X, comparisons, covar_module=covar).eval()
    weights = model.covariate_posterior()
    error = (weights.mean.squeeze(-1) - w) / weights.variance.squeeze(-1).sqrt()
    # Standard normal where the posterior is right: four standard errors.
    assert abs(float(error.mean().detach())) < 4 / math.sqrt(sets)
    assert abs(float(error.square().mean().detach()) - 1) < 4 * math.sqrt(2 / sets)
    low, high = weights.interval(0.95)
    inside = ((low.squeeze(-1) < w) & (w < high.squeeze(-1))).double().mean()
    assert abs(float(inside) - 0.95) < 4 * math.sqrt(0.95 * 0.05 / sets)
    assert float(weights.variance.mean().detach()) < 0.5


def biased_answers(seed: int, m: int, bias: float) -> Comparisons:
    """Draws duels of ``POINTS``, whose utility is three times their only feature."""
    generator = Generator().manual_seed(seed)
    pairs = torch.rand(m, len(POINTS), generator=generator).topk(2).indices
    gap = 3 * (POINTS[pairs[:, 0], 0] - POINTS[pairs[:, 1], 0]) + bias
    noise = torch.randn(m, generator=generator, dtype=DOUBLE)
    won = (gap + math.sqrt(2) * noise > 0).unsqueeze(-1)
    unit = torch.ones(m, 1, dtype=DOUBLE)
    return Comparisons(
        torch.where(won, pairs, pairs.flip(-1)),
        covariates=torch.where(won, unit, -unit),
    )


def test_a_fit_finds_a_bias_and_scores_know_it() -> None:
    answers = biased_answers(0, 300, 1.0)
    model = EPPreferenceGP(POINTS, answers)
    raw = model.covariate_module.raw_scale
    before = raw.detach().clone()
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    assert not torch.equal(raw.detach(), before)
    low, high = model.covariate_posterior().interval(0.95)
    assert 0.6 < low.item() < 1.0 < high.item() < 1.4
    table = cross_validate_model(model, 3, fit=None)
    blind = Comparisons(answers.pairs)
    blind_model = EPPreferenceGP(POINTS, blind, covar_module=model.covar_module)
    without = cross_validate_model(blind_model, 3, fit=None)
    (scores,) = answer_scores(
        [HeldOutAnswers(model.eval(), [answers], POINTS)]
    ).itertuples()
    likely = predictive_log_probability(answers, model, POINTS) > math.log(0.5)
    assert scores.accuracy == pytest.approx(float(likely.double().mean()))
    gain = without.loc["duels", "log_loss"] - table.loc["duels", "log_loss"]
    assert gain > 0.03
    # Fantasies are of options in a neutral position.
    sampler = SobolQMCNormalSampler(torch.Size([3]), seed=0)
    fantasies = model.fantasize(NEW[:2], sampler)
    assert fantasies.feedback[0].covariates[..., -1, :].eq(0).all()
    assert fantasies.covariate_posterior().mean.shape == (3, 1, 1)


def test_an_ensemble_averages_over_its_scales() -> None:
    pytest.importorskip("jax")
    pytest.importorskip("numpyro")
    answers = with_covariates(Comparisons(PAIRS), p=1)
    likelihood = PairwiseProbitLikelihood(NOISE)
    arguments: dict[str, Any] = {"likelihood": likelihood, "covar_module": kernel()}
    ensemble = FullyBayesianEPPreferenceGP(POINTS, answers, **copy.deepcopy(arguments))
    with pytest.raises(BotorchPrefError, match="have not been sampled yet"):
        ensemble.covariate_posterior()
    scales = torch.tensor([0.3, 1.5], dtype=DOUBLE)
    element_model = EPPreferenceGP(POINTS, answers, **copy.deepcopy(arguments)).eval()
    name, raws, means, draws = "covariate_module.raw_scale", [], [], []
    for scale in scales:
        element_model.covariate_module.scale = scale
        raws.append(element_model.covariate_module.raw_scale.detach().clone())
        means.append(element_model.covariate_posterior().mean.detach())
        draws.append(element_model.option_posterior(NEW, NEW).mean.detach())
    samples = {
        n: p.detach().expand(2, *p.shape) for n, p in element_model.named_parameters()
    }
    ensemble.load_mcmc_samples(samples | {name: torch.stack(raws)})
    ensemble.eval()
    weights = ensemble.covariate_posterior()
    torch.testing.assert_close(weights.mixture_mean, torch.stack(means).mean(0))
    options = ensemble.option_posterior(NEW, NEW)
    torch.testing.assert_close(options.mixture_mean, torch.stack(draws).mean(0))
    ensemble.load_state_dict(element_model.state_dict())
    torch.testing.assert_close(ensemble.covariate_module.scale, scales[1:])


def test_covariates_that_cannot_be_are_refused() -> None:
    pairs, sets = PAIRS[:2], CHOICES.sets
    unit = torch.ones(2, 1, dtype=DOUBLE)
    for wrong, match in (
        (unit.long(), "got torch.int64"),
        (unit[0], r"expected batch_shape x 2 x p"),
        (unit[:1], r"shape \(1, 1\)"),
        (unit * torch.nan, r"covariates\[0, 0\] is nan"),
        (
            unit * -1e8,
            r"covariates\[0, 0\] is -1.*e.*of at most 1e\+06, .*standardised",
        ),
        ([[1.0], [1.0]], "got list"),
    ):
        with pytest.raises(FeedbackError, match=match):
            Comparisons(pairs, covariates=wrong)
    with pytest.raises(FeedbackError, match="all options of an answer share"):
        Choices(sets, CHOICES.chosen, covariates=torch.ones(3, 1, dtype=DOUBLE))
    two = Comparisons(pairs, covariates=unit.repeat(1, 2))
    comparisons = Comparisons(pairs, covariates=unit)
    with pytest.raises(FeedbackError, match="1 columns in one block and 2"):
        comparisons.followed_by(two)
    ranked = with_covariates(CELLS[3].feedback)
    with pytest.raises(FeedbackError, match=r"have \[1, 2\] covariates"):
        EPPreferenceGP(POINTS, comparisons, feedback=[ranked])
    model = EPPreferenceGP(POINTS, Comparisons(pairs)).eval()
    with pytest.raises(UnsupportedFeedbackError, match="has weights for 0"):
        model.condition_on_observations(NEW, comparisons)
    with pytest.raises(UnsupportedFeedbackError, match="PlackettLuceRegression"):
        PlackettLuceRegression(POINTS, feedback=[comparisons])
    with pytest.raises(BotorchPrefError, match="no weights of covariates"):
        model.covariate_posterior()
    answered_model = EPPreferenceGP(POINTS, comparisons).eval()
    with pytest.raises(FeedbackError, match="covariates must be a tensor"):
        answered_model.option_posterior(NEW, [[1.0]])
    with pytest.raises(FeedbackError, match="one row a point"):
        answered_model.option_posterior(NEW, torch.ones(2, 1, dtype=DOUBLE))
    choices = with_covariates(CELLS[4].feedback)
    with pytest.raises(UnsupportedFeedbackError, match="takes no covariates"):
        VariationalPreferenceGP(POINTS, feedback=[choices]).log_evidence()
