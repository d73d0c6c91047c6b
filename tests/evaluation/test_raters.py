"""Tables of raters, against simulated raters whose noise and tastes are known."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms.input import Normalize
from gpytorch.kernels import ProductKernel, RBFKernel
from scipy.stats import norm
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from botorch_pref import (
    BotorchPrefError,
    Comparisons,
    EPPreferenceGP,
    LaplacePreferenceGP,
    PreferenceMarginalLogLikelihood,
    Strengths,
    UnsupportedFeedbackError,
)
from botorch_pref.evaluation import rater_agreement, rater_reliability
from botorch_pref.evaluation import rater_tables as module
from botorch_pref.evaluation.rater_consistency import (
    are_repeated,
    contradictions,
    rater_consistency,
)
from botorch_pref.models import PreferenceGP, ReliabilityKernel, rater_covar_module
from botorch_pref.models.rater_groups import at_raters

DOUBLE = torch.float64
ITEMS, RATERS, ANSWERS = 8, 5, 25
CROWDS = 10


def crowd_of(seed: int, log_noise: Tensor) -> PreferenceGP:
    """Fits a model of raters who answer by its own kernel, with noise of their own.

    The kernel of utilities is known to it.
    """
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.arange(RATERS)
    kernel = rater_covar_module(2, noisy_raters=numbers).double()
    kernel.kernels[0].outputscale = 9.0
    kernel.kernels[0].base_kernel.lengthscale = 0.4
    kernel.kernels[1].agreement = 0.95
    for part in (kernel.kernels[0], kernel.kernels[1]):
        part.requires_grad_(False)
    items = torch.rand(ITEMS, 2, dtype=DOUBLE, generator=generator)
    points = at_raters(items, numbers).reshape(ITEMS, RATERS, 3)
    points = points.transpose(0, 1).reshape(-1, 3)
    with torch.no_grad():
        covariance = kernel(points).to_dense()
    root = torch.linalg.cholesky(covariance + 1e-8 * torch.eye(len(points)))
    utilities = root @ torch.randn(len(points), dtype=DOUBLE, generator=generator)
    first = torch.randint(ITEMS, (RATERS, ANSWERS), generator=generator)
    offsets = torch.randint(1, ITEMS, (RATERS, ANSWERS), generator=generator)
    pairs = torch.stack([first, (first + offsets) % ITEMS], dim=-1)
    pairs = pairs + ITEMS * numbers[:, None, None]
    noise = torch.randn(RATERS, ANSWERS, dtype=DOUBLE, generator=generator)
    differences = utilities[pairs[..., 0]] - utilities[pairs[..., 1]]
    differences = differences + noise * (2 * log_noise.exp()).sqrt().unsqueeze(-1)
    pairs = torch.where((differences > 0).unsqueeze(-1), pairs, pairs.flip(-1))
    model = LaplacePreferenceGP(points, pairs.reshape(-1, 2), covar_module=kernel)
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    return model


@pytest.mark.slow
def test_intervals_hold_the_noise() -> None:
    generator = torch.Generator().manual_seed(0)
    inside, errors, widths = 0, [], []
    for seed in range(CROWDS):
        log_noise = torch.randn(RATERS, dtype=DOUBLE, generator=generator)
        table = rater_reliability(crowd_of(seed, log_noise))
        truth = (log_noise - log_noise.mean()).numpy()
        estimates = table["noise"].map(math.log).to_numpy()
        low, high = (table[end].map(math.log).to_numpy() for end in ("lower", "upper"))
        inside += int(((low < truth) & (truth < high)).sum())
        errors += ((estimates - truth) ** 2).tolist()
        widths += ((high - low) / 2).tolist()
        assert table["answers"].tolist() == [ANSWERS] * RATERS
    # Of 50 with a probability of 0.95, fewer than 42 have one of 0.001, and the error
    # that intervals promise is that which there is, within a third.
    assert inside >= 42
    promised = sum((w / 1.96) ** 2 for w in widths)
    assert 0.6 < sum(errors) / promised < 1.6


@pytest.mark.slow
def test_who_answers_at_random_is_found_and_others_are_not() -> None:
    log_noise = torch.tensor([20.0, 0.0, 0.0, 0.0, 0.0], dtype=DOUBLE)
    reliabilities = [
        rater_reliability(crowd_of(seed, log_noise)) for seed in range(CROWDS)
    ]
    named = [table["outlier"].tolist() for table in reliabilities]
    assert sum(row[0] for row in named) >= 6
    # Of ten crowds with a rate of 0.05, four have a probability of 0.001.
    assert sum(any(row[1:]) for row in named) < 4
    assert all(table["names_better"].idxmin() == 0 for table in reliabilities)


def test_the_table_says_it_in_its_own_units() -> None:
    """By hand for one crowd: the Hessian from values of the objective alone."""
    log_noise = torch.tensor([0.0, 1.0, -1.0, 0.0, 0.5], dtype=DOUBLE)
    model = crowd_of(0, log_noise)
    table = rater_reliability(model, list("abcde"))
    kernel: Any = model.covar_module.kernels[2]
    best = kernel.raw_noise.detach().clone()
    loss = PreferenceMarginalLogLikelihood(model.likelihood, model.train())
    step = 0.05 * torch.eye(RATERS, dtype=DOUBLE)

    def value(raw: Tensor) -> float:
        kernel.initialize(raw_noise=raw)
        return -float(loss.log_posterior().detach())

    hessian = torch.tensor(
        [
            [
                sum(
                    s * t * value(best + s * step[i] + t * step[j])
                    for s in (1, -1)
                    for t in (1, -1)
                )
                / 0.1**2
                for j in range(RATERS)
            ]
            for i in range(RATERS)
        ]
    ).double()
    centred = torch.eye(RATERS).double() - 1 / RATERS
    deviation = (centred @ hessian.inverse() @ centred).diagonal().sqrt()
    log_found = centred @ best
    # Differences of a fiftieth are right to a thousandth or so.
    for end, sign in (("noise", 0), ("lower", -1), ("upper", 1)):
        expected = (log_found + sign * 1.959964 * deviation).exp().tolist()
        assert table[end].tolist() == pytest.approx(expected, rel=0.01)
    wins = [0.5 * (1 + math.erf(0.5 * math.exp(-0.5 * v))) for v in log_found.tolist()]
    assert table["names_better"].tolist() == pytest.approx(wins)
    assert table.index.tolist() == list("abcde")


def small_crowd() -> EPPreferenceGP:
    """Makes three raters, the last of whom answers otherwise; half a prior's spread."""
    stimulus, agreement = rater_covar_module(1).kernels
    stimulus.base_kernel.requires_grad_(False)
    agreement.requires_grad_(False)
    agreement.agreement = 0.95
    noise = ReliabilityKernel(torch.arange(3), spread=0.5, active_dims=(1,))
    items = torch.linspace(0, 1, 5, dtype=DOUBLE).unsqueeze(-1)
    points = at_raters(items, torch.arange(3)).reshape(5, 3, 2).transpose(0, 1)
    up = torch.combinations(torch.arange(5)).flip(-1)
    mixed = torch.where((torch.arange(10) % 2 == 0).unsqueeze(-1), up, up.flip(-1))
    model = EPPreferenceGP(
        points.reshape(-1, 2),
        torch.cat([up, up[::2] + 5, mixed + 10, mixed.flip(-1)[::3] + 10]),
        covar_module=ProductKernel(stimulus, agreement, noise).double(),
    )
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    return model


def test_noises_under_ep_and_who_stands_out_by_values_of_the_objective_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The Hessian in all that is learned, and each rater's ratio of likelihoods."""
    model = small_crowd()
    table = rater_reliability(model)
    objective = PreferenceMarginalLogLikelihood(model.likelihood, model.train())
    learned = [p for p in model.parameters() if p.requires_grad]
    best = parameters_to_vector(learned).detach()
    kernel: Any = model.covar_module.kernels[2]
    gradients = [torch.full_like(p, p is kernel.raw_noise) for p in learned]
    places = parameters_to_vector(gradients).nonzero().flatten()
    assert len(best) == 4

    def loss(log_noise: Tensor) -> float:
        vector_to_parameters(log_noise, learned)
        return -float(objective.log_posterior().detach())

    step = 0.05 * torch.eye(4, dtype=DOUBLE)
    hessian = torch.zeros(4, 4, dtype=DOUBLE)
    for i, j in torch.cartesian_prod(torch.arange(4), torch.arange(4)).tolist():
        for s, t in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
            hessian[i, j] += s * t * loss(best + s * step[i] + t * step[j]) / 0.1**2
    covariance = hessian.inverse()
    of_noises = covariance[places][:, places]
    centred = torch.eye(3).double() - 1 / 3
    # Raw noises are logarithms in spreads.
    log_found = 0.5 * centred @ best[places]
    deviation = 0.5 * (centred @ of_noises @ centred).diagonal().sqrt()
    for end, sign in (("noise", 0), ("lower", -1), ("upper", 1)):
        expected = (log_found + sign * 1.959964 * deviation).exp().tolist()
        assert table[end].tolist() == pytest.approx(expected, rel=2e-3)
    # Twice the log ratio, without the prior of the noises, which is standard normal.
    contrast = torch.zeros(4, dtype=DOUBLE)
    contrast[places] = torch.tensor([-0.5, -0.5, 1.0], dtype=DOUBLE)
    along = covariance @ contrast
    moved = best - along * (contrast @ best) / (contrast @ along)
    squares = [float(log_noise[places].square().sum()) for log_noise in (best, moved)]
    ratio = 2 * (loss(moved) - loss(best)) + squares[0] - squares[1]
    vector_to_parameters(best, learned)
    # One of three, so that a third of the rate is the level of each test.
    level = float(norm.sf(ratio**0.5))
    for factor, stands_out in ((1.1, True), (0.9, False)):
        monkeypatch.setattr(module, "OUTLIER_RATE", 3 * factor * level)
        outliers = rater_reliability(model)["outlier"].tolist()
        assert outliers == [False, False, stands_out]


def test_two_circles_of_raters_show() -> None:
    """Within a circle all like what the other one dislikes."""
    items = torch.linspace(0, 1, 6, dtype=DOUBLE).unsqueeze(-1)
    numbers = torch.arange(4)
    points = at_raters(items, numbers).reshape(6, 4, 2).transpose(0, 1).reshape(-1, 2)
    up = torch.stack([torch.arange(1, 6), torch.arange(5)], dim=-1)
    answers = torch.cat([up, up + 6, up.flip(-1) + 12, up.flip(-1) + 18]).repeat(3, 1)
    kernel = rater_covar_module(1).double()
    kernel.kernels[1].agreement = 0.3
    model = EPPreferenceGP(points, answers, covar_module=kernel).eval()
    table = rater_agreement(model, items, numbers, ["Ada", "Ben", "Eva", "Fay"])
    alike = table.loc[[("Ada", "Ben"), ("Eva", "Fay")]]
    apart = table.drop(alike.index)
    assert len(apart) == 4
    assert alike["lower"].min() > 0 > apart["upper"].max()


class Members(EPPreferenceGP):
    """A batch of models that count as members of one ensemble."""

    _is_ensemble = True


def test_agreement_by_an_ensemble_of_one_model_twice_is_that_of_the_model() -> None:
    points = at_raters(
        torch.linspace(0, 1, 4, dtype=DOUBLE).unsqueeze(-1), torch.arange(2)
    )
    # Both raters of items in pairs: the one prefers more, the other less.
    answers = torch.tensor([[2, 0], [4, 2], [6, 4], [1, 3], [3, 5], [5, 7]])
    kernels = [
        RBFKernel(batch_shape=torch.Size(shape)).double() for shape in ((), (2,))
    ]
    items, raters = points[::2, :1], torch.arange(2)
    tables = [
        # Members draw 1024 each, which are more than 1500 together.
        rater_agreement(model, items, raters, num_samples=1500)
        for model in (
            EPPreferenceGP(points, answers, covar_module=kernels[0]),
            Members(points, answers.expand(2, -1, -1), covar_module=kernels[1]),
        )
    ]
    # Means and quantiles of 1024 correlations or more, whose deviation is below 1.
    pd.testing.assert_frame_equal(*tables, atol=4 / 1024**0.5, rtol=0)


@pytest.mark.parametrize("is_contrary", [False, True])
def test_two_raters_may_agree_however_much_the_crowd_does(is_contrary: bool) -> None:
    """By a million draws of two utilities, whose correlation is uniform on (-1, 1)."""
    items = torch.tensor([[0.0], [0.3], [0.6], [1.0]], dtype=DOUBLE)
    ada = torch.tensor([[1, 0], [2, 1], [3, 0]])
    ben = torch.tensor([[1, 0], [3, 1], [2, 0]])
    ben = ben.flip(-1) if is_contrary else ben
    kernel = rater_covar_module(1).double()
    kernel.kernels[0].outputscale = 4.0
    kernel.kernels[0].base_kernel.lengthscale = 0.4
    # What the crowd has in common does not matter to two of it.
    kernel.kernels[1].agreement = 0.7
    points = at_raters(items, torch.arange(2))
    answers = torch.cat([2 * ada, 2 * ben + 1])
    model = EPPreferenceGP(points, answers, covar_module=kernel).eval()
    (row,) = rater_agreement(model, items, torch.arange(2)).to_numpy()

    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        covariance = 4.0 * (-0.5 * ((items - items.mT) / 0.4).square()).exp()
        root = torch.linalg.cholesky(covariance + 1e-9 * torch.eye(4, dtype=DOUBLE))
    count = 1_000_000
    rho = 2 * torch.rand(count, 1, generator=generator, dtype=DOUBLE) - 1
    first, second = torch.randn(2, count, 4, generator=generator, dtype=DOUBLE)
    second = rho * first + (1 - rho.square()).sqrt() * second
    of_ada, of_ben = first @ root.mT, second @ root.mT
    weight = torch.ones(count, dtype=DOUBLE)
    for utility, duels in ((of_ada, ada), (of_ben, ben)):
        gap = utility[:, duels[:, 0]] - utility[:, duels[:, 1]]
        weight = weight * torch.special.ndtr(gap / 2**0.5).prod(-1)
    weight = weight / weight.sum()
    away = [f - f.mean(-1, keepdim=True) for f in (of_ada, of_ben)]
    agreement = torch.nn.functional.cosine_similarity(*away, dim=-1)
    # A deviation of .5 over 4,096 draws of weights that differ, and what expectation
    # propagation moves: a hundredth each.
    assert row[0] == pytest.approx(float(weight @ agreement), abs=0.03)
    for end, tail in zip(row[1:], (0.025, 0.975), strict=True):
        below = float(weight[agreement < end].sum())
        assert below == pytest.approx(tail, abs=0.015), f"of the end {end:.3f}"


def test_what_tells_nothing_of_noise_is_refused() -> None:
    kernel = rater_covar_module(1, noisy_raters=torch.arange(2))
    X = torch.tensor([[0.1, 0], [0.9, 0], [0.1, 1], [0.9, 1]], dtype=DOUBLE)
    pairs = torch.tensor([[0, 1], [3, 2]])
    model = EPPreferenceGP(X, pairs, covar_module=kernel)

    def with_kernel(answers: Any, noisy: bool = True, **options: Any) -> PreferenceGP:
        rater_kernel = rater_covar_module(
            1, noisy_raters=torch.arange(2) if noisy else None
        )
        return EPPreferenceGP(
            X, feedback=[answers], covar_module=rater_kernel, **options
        )

    comparisons = Comparisons(pairs)
    wrong: list[tuple[str, Any]] = [
        ("no noise of each rater", with_kernel(comparisons, noisy=False)),
        ("of two raters", with_kernel(Comparisons(torch.tensor([[0, 1], [1, 2]])))),
        (
            "leave their numbers",
            with_kernel(
                comparisons,
                input_transform=Normalize(2, bounds=torch.tensor([[0, -9], [1, 9.0]])),
            ),
        ),
    ]
    for text, arguments in wrong:
        with pytest.raises(BotorchPrefError, match=text):
            rater_reliability(arguments)
    strengths = Strengths(pairs, torch.tensor([0.7, 0.8], dtype=DOUBLE))
    with pytest.raises(UnsupportedFeedbackError, match="Strengths is no noise"):
        rater_reliability(with_kernel(strengths))
    for names, message in (("abc", "3 names, 3"), ("aa", "2 names, 1")):
        with pytest.raises(BotorchPrefError, match=f"2 raters, and {message} of them"):
            rater_reliability(model, list(names))
    kernel.kernels[2].noise = 30.0
    with pytest.raises(BotorchPrefError, match="fit the model first"):
        rater_reliability(model)
    three = torch.tensor([[0.1], [0.5], [0.9]], dtype=DOUBLE)
    # Equal items have equal utilities, which correlate with nothing.
    for items, numbers in ((X[:, :1], torch.arange(2)), (three, torch.arange(1))):
        with pytest.raises(BotorchPrefError, match=r"2 different items|two raters"):
            rater_agreement(model, items, numbers)
    with pytest.raises(BotorchPrefError, match="raters is a list; give a tensor"):
        rater_agreement(model, three, ["Ann", "Ben"])  # type: ignore[arg-type]
    with pytest.raises(BotorchPrefError, match="num_samples is 0"):
        rater_agreement(model, three, torch.arange(2), num_samples=0)


def test_raters_agree_with_the_others_as_often_as_counted() -> None:
    rng = np.random.default_rng(0)
    rows = [
        (*rng.choice([*"abcd"], 2, replace=False), rng.choice([*"xyz"]))
        for _ in range(120)
    ]
    answers = pd.DataFrame(rows, columns=["winner", "loser", "rater"])
    answers = answers.assign(tie=False, count=1)
    merged = answers.groupby(["winner", "loser", "rater", "tie"])
    table = rater_consistency(merged["count"].sum().reset_index())
    for rater in "xyz":
        shared = agreeing = 0
        for first, second, _ in (row for row in rows if row[2] == rater):
            others = [r for r in rows if r[2] != rater and {*r[:2]} == {first, second}]
            lead = sum(1 if r[0] == first else -1 for r in others)
            shared += lead != 0
            agreeing += lead > 0
        assert table.loc[rater].to_dict() == {"shared": shared, "with_others": agreeing}


@pytest.mark.parametrize("has_order", [True, False])
def test_raters_contradict_themselves_as_often_as_counted(has_order: bool) -> None:
    rng = np.random.default_rng(1)
    rows = []
    for _ in range(90):
        winner, loser = rng.choice([*"abc"], 2, replace=False)
        first = rng.choice([winner, loser])
        rows.append((winner, loser, rng.choice([*"xy"]), first, 1))
    columns = ["winner", "loser", "rater", "home", "count"]
    answers = pd.DataFrame(rows, columns=columns)
    if not has_order:
        answers = answers.drop(columns="home")
    chances = rng.uniform(size=90)
    table = contradictions(answers, chances)
    for rater in "xy":
        repeated = clashes = expected = 0.0
        places = [k for k, row in enumerate(rows) if row[2] == rater]
        for i, j in itertools.combinations(places, 2):
            first, second = rows[i], rows[j]
            if {*first[:2]} != {*second[:2]} or (has_order and first[3] != second[3]):
                continue
            repeated += 1
            clashes += first[0] != second[0]
            # That the second answer has the winner of the first.
            p = chances[j] if first[0] == second[0] else 1 - chances[j]
            expected += chances[i] * (1 - p) + (1 - chances[i]) * p
        row = table.loc[rater]
        assert row[["repeated", "contradicted"]].tolist() == [repeated, clashes]
        assert row["expected"] == pytest.approx(expected)
    # An answer with a count stands for as many.
    few = answers[:10]
    questions = [
        (row[2], {*row[:2]}, row[3] if has_order else None) for row in rows[:10]
    ]
    repeated = [questions.count(question) > 1 for question in questions]
    assert {*repeated} == {True, False}
    assert are_repeated(few).tolist() == repeated
    assert are_repeated(few.assign(count=2)).all()
    twice = answers.loc[answers.index.repeat(2)]
    expected = contradictions(twice, np.repeat(chances, 2))
    counted = contradictions(answers.assign(count=2), chances)
    pd.testing.assert_frame_equal(counted, expected)
