"""Answers with counts against the same answers one by one, and against integrals."""

import copy
import dataclasses
import math
import pickle

import pytest
import torch
from draws import uniform
from entries import Cell
from models.cell_models import (
    build,
    each_part,
    made,
    moments,
    same_answers,
    with_feedback,
)
from random_answers import counted
from torch import Generator, Tensor
from torch.special import log_ndtr
from truths.answers import POINTS

from botorch_pref import (
    Choices,
    Comparisons,
    EPPreferenceGP,
    FeedbackError,
    LaplacePreferenceGP,
    PairwiseLogitLikelihood,
    PairwiseProbitLikelihood,
    PlackettLuceRegression,
    Rankings,
    SkewPreferenceGP,
)
from botorch_pref.evaluation import answer_agreement
from botorch_pref.evaluation.scores import (
    HeldOutAnswers,
    answer_scores,
)
from botorch_pref.feedback import Feedback
from botorch_pref.models import PreferenceGP

DOUBLE = torch.float64


def one_by_one(feedback: Feedback) -> Feedback:
    """Repeats every answer as often as it counts, by torch alone."""
    fields = {}
    for name, counted_field in type(feedback).counted.items():
        counts = getattr(feedback, str(name))
        for field in counted_field:
            value = getattr(feedback, field)
            if value is not None and counts is not None:
                value = value.repeat_interleave(counts, dim=0)
            fields[field] = value
        fields[str(name)] = None
    return dataclasses.replace(feedback, **fields)


@each_part
def test_counts_say_what_as_many_answers_say(
    engine: type[PreferenceGP], cell: Cell
) -> None:
    generator = Generator().manual_seed(4)
    counted_answers = counted(generator, cell.feedback, largest=6)
    if not counted_answers.is_counted:
        pytest.skip("Such answers have no counts.")
    models = [
        made(engine, with_feedback(cell, f))
        for f in (counted_answers, one_by_one(counted_answers))
    ]
    for got, want in zip(*map(moments, models), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-9)
    evidence, expected = (model.log_evidence() for model in models)
    torch.testing.assert_close(evidence, expected, rtol=1e-9, atol=1e-9)


def difference_truth(
    log_likelihood, variance: float, reach: float
) -> tuple[float, float, float]:
    """Computes evidence, mean and deviation of a difference, on a fine grid.

    Args:
        log_likelihood: Of the difference, elementwise.
        variance: Of its prior, whose mean is zero.
        reach: How far from zero the cliffs are, and how wide at most.
    """
    deviation = math.sqrt(variance)
    near = torch.linspace(-2 * reach, 2 * reach, 400_001, dtype=DOUBLE)
    far = torch.linspace(
        2 * reach, max(9 * deviation, 3 * reach), 400_001, dtype=DOUBLE
    )
    total, logs = [], []
    for grid in (-far.flip(0), near, far):
        weights = torch.full_like(grid, float(grid[1] - grid[0]))
        weights[0] = weights[-1] = 0.5 * weights[1]
        prior = -0.5 * grid.square() / variance - 0.5 * math.log(2 * math.pi * variance)
        logs.append(log_likelihood(grid) + prior + weights.log())
        total.append(grid)
    log_terms, grid = torch.cat(logs), torch.cat(total)
    weights = log_terms.softmax(0)
    mean = (weights * grid).sum()
    spread = (weights * (grid - mean).square()).sum().sqrt()
    return float(log_terms.logsumexp(0)), float(mean), float(spread)


def two_points(
    engine: type[PreferenceGP], feedback: Comparisons, likelihood, scale: float
) -> PreferenceGP:
    X = torch.tensor([[0.1], [0.7]], dtype=DOUBLE)
    model = engine(X, feedback, likelihood=likelihood.double())
    model.covar_module.base_kernel.lengthscale = 0.4
    model.covar_module.outputscale = scale
    return model.eval()


def prior_variance(scale: float) -> float:
    return 2 * scale * (1 - math.exp(-0.5 * (0.6 / 0.4) ** 2))


@pytest.mark.parametrize("scale", [1.0, 1e4])
@pytest.mark.parametrize(
    ("wins", "losses"), [(10, 0), (1_000, 0), (100_000, 0), (61_000, 39_000)]
)
@pytest.mark.parametrize("logit", [False, True], ids=["probit", "logit"])
def test_one_pair_is_exact_under_ep(
    logit: bool, wins: int, losses: int, scale: float
) -> None:
    """Ten sites one way were off by a tenth of a deviation; a thousand had none."""
    noise = 0.5
    pairs = torch.tensor([[0, 1], [1, 0]])[: 1 + bool(losses)]
    counts = torch.tensor([wins, losses])[: len(pairs)]
    likelihood = PairwiseLogitLikelihood() if logit else PairwiseProbitLikelihood(noise)
    comparisons = Comparisons(pairs, pair_counts=counts)
    model = two_points(EPPreferenceGP, comparisons, likelihood, scale)

    def log_likelihood(z: Tensor) -> Tensor:
        link = torch.nn.functional.logsigmoid if logit else log_ndtr
        z = z if logit else z / math.sqrt(2 * noise)
        return wins * link(z) + losses * link(-z)

    evidence, mean, deviation = difference_truth(
        log_likelihood, prior_variance(scale), 20.0
    )
    with torch.no_grad():
        duel = model.duel_posterior(*model.train_inputs[0].unsqueeze(-2))
    diagnostics = model.diagnostics()
    assert diagnostics["converged"]
    # Twenty nodes to a deviation of the narrowest, 1 / 300 of the noise's.
    assert float(diagnostics["log_evidence"]) == pytest.approx(evidence, abs=1e-6)
    assert abs(float(duel.mean) - mean) < 1e-4 * deviation
    assert float(duel.variance) == pytest.approx(deviation**2, rel=1e-4)
    if scale == 1.0 and not losses:
        # As far as digits go: with losses too, single precision says that it has none.
        single = copy.deepcopy(model).float()
        points = model.train_inputs[0].float().unsqueeze(-2)
        with torch.no_grad():
            assert abs(float(single.duel_posterior(*points).mean) - mean) < (
                0.01 * deviation
            )


@each_part
def test_conditioning_on_counts_is_learning_from_all(
    engine: type[PreferenceGP], cell: Cell
) -> None:
    generator = Generator().manual_seed(7)
    counted_answers = counted(generator, cell.feedback, largest=5)
    if not counted_answers.is_counted:
        pytest.skip("Such answers have no counts.")
    model = made(engine, cell)
    model.posterior(POINTS)
    after = model.condition_on_observations(POINTS, counted_answers)
    assert after.feedback[0].answer_counts.sum() == (
        cell.feedback.answer_counts.sum() + counted_answers.answer_counts.sum()
    )
    together = cell.feedback.followed_by(counted_answers)
    expected = moments(made(engine, with_feedback(cell, together)))
    deviation = expected[1].diagonal(dim1=-2, dim2=-1).sqrt()
    slack = 6 * 256**-0.5 if issubclass(engine, SkewPreferenceGP) else 1e-4
    gap = (moments(after)[0] - expected[0]) / deviation
    assert float(gap.abs().max()) < slack
    for copied in (copy.deepcopy(after), pickle.loads(pickle.dumps(after))):
        assert same_answers(copied.feedback[0], after.feedback[0])


@pytest.mark.parametrize("engine", [EPPreferenceGP, LaplacePreferenceGP])
def test_repeats_are_merged_across_copies_of_points(
    engine: type[PreferenceGP],
) -> None:
    """Two hundred answers about copies of two points are one row."""
    generator = Generator().manual_seed(1)
    X = torch.tensor([[0.1], [0.7]], dtype=DOUBLE)
    pairs = torch.randint(2, (200, 1), generator=generator)
    pairs = torch.cat([pairs, 1 - pairs], -1)
    apart = engine(X[pairs.flatten()], torch.arange(400).reshape(200, 2))
    won = int((pairs[:, 0] == 0).sum())
    counts = torch.tensor([won, 200 - won])
    once = engine(X, Comparisons(torch.tensor([[0, 1], [1, 0]]), pair_counts=counts))
    assert apart.factors().rows.num_rows == 1
    torch.testing.assert_close(apart.log_evidence(), once.log_evidence())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_ranking_of_two_is_one_more_duel(dtype: torch.dtype) -> None:
    """Two items share no noise, so that EP is exact about both answers together."""
    points = torch.tensor([[0.1], [0.6]], dtype=dtype)
    rows = torch.tensor([[0, 1]])
    model = EPPreferenceGP(points, feedback=[Comparisons(rows), Rankings(rows)])
    twice = EPPreferenceGP(points, Comparisons(rows, pair_counts=torch.tensor([2])))
    evidence, truth = model.log_evidence(), twice.log_evidence()
    torch.testing.assert_close(evidence, truth, rtol=4 * torch.finfo(dtype).eps, atol=0)


def test_regression_counts() -> None:
    X = uniform(5, 2)
    weighted_blocks = [
        Comparisons(torch.tensor([[0, 1], [3, 2]]), pair_counts=torch.tensor([4, 2])),
        Rankings(torch.tensor([[0, 3, 4], [2, 1, -1]]), counts=torch.tensor([3, 5])),
        Choices(torch.tensor([[0, 1, 4]]), torch.tensor([4]), counts=torch.tensor([2])),
    ]
    for inference in ("laplace", "variational"):
        models = [
            PlackettLuceRegression(X, feedback=blocks, inference=inference)
            for blocks in (weighted_blocks, [one_by_one(b) for b in weighted_blocks])
        ]
        for name in ("weights_mean", "weights_covariance"):
            got, want = (getattr(model, name) for model in models)
            torch.testing.assert_close(got, want, rtol=1e-8, atol=1e-10)
        got, want = (model.log_evidence() for model in models)
        torch.testing.assert_close(got, want)


COUNT = torch.tensor([[0, 1], [2, 1]])


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([3, 2], "must be a tensor of positive integers"),
        (torch.tensor([3, 0]), r"pair_counts\[1\] is 0"),
        (torch.tensor([3.0, 2.5]), r"pair_counts\[1\] is 2.5"),
        (torch.tensor([3.0, 0.5]), r"pair_counts\[1\] is 0.5.* goes to Strengths"),
        (torch.tensor([3.0, math.nan]), r"pair_counts\[1\] is nan"),
        (torch.tensor([3, 2, 1]), "one count an answer"),
        (torch.tensor(3), "one count an answer"),
        (torch.tensor([True, True]), "must be a tensor of positive integers"),
    ],
)
def test_counts_that_cannot_be_are_refused(counts, message: str) -> None:
    with pytest.raises(FeedbackError, match=message):
        Comparisons(COUNT, pair_counts=counts)


def test_counts_of_no_answers_and_of_too_many_rows_are_refused() -> None:
    with pytest.raises(FeedbackError, match="tie_counts counts ties"):
        Comparisons(COUNT, tie_counts=torch.tensor([1]))
    counted_rankings = Rankings(
        torch.tensor([[0, 1, 2]]), counts=torch.tensor([60_000])
    )
    with pytest.raises(FeedbackError, match="sees one by one: at most 50000"):
        build(EPPreferenceGP, [Cell(PairwiseProbitLikelihood, counted_rankings)])


def test_blocks_with_and_without_counts_follow_each_other() -> None:
    first = Comparisons(COUNT, COUNT[:1], pair_counts=torch.tensor([3, 4.0]))
    joined = first.followed_by(Comparisons(COUNT[:1]))
    assert joined.pair_counts.tolist() == [3, 4, 1]
    assert joined.tie_counts is None
    assert joined.answer_counts.tolist() == [3, 4, 1, 1]
    selected = joined.take(torch.tensor([0, 2]), torch.tensor([False]))
    assert selected.ties is None
    assert selected.pair_counts.tolist() == [3, 1]


def test_agreement_and_scores_weigh_by_counts() -> None:
    X = uniform(4, 2)
    comparisons = Comparisons(
        torch.tensor([[0, 1], [1, 0], [2, 3]]),
        torch.tensor([[0, 1]]),
        pair_counts=torch.tensor([4, 2, 3]),
        tie_counts=torch.tensor([2]),
    )
    single = one_by_one(comparisons)
    assert answer_agreement(X, comparisons) == answer_agreement(X, single)
    likelihood = PairwiseProbitLikelihood(tie_threshold=0.3).double()
    model = EPPreferenceGP(X, comparisons, likelihood=likelihood).eval()
    got, want = (
        answer_scores([HeldOutAnswers(model, [block], X)])
        for block in (comparisons, single)
    )
    for column in got.columns:
        assert got[column].tolist() == pytest.approx(want[column].tolist(), nan_ok=True)


@pytest.mark.parametrize("num_sets", [1, 4])
def test_rankings_of_two_among_longer_ones_are_comparisons(num_sets: int) -> None:
    """Repeated pairs become one row, which has no noise of a block in any space."""
    draws = Generator().manual_seed(3)
    X, new = (torch.rand(n, 2, generator=draws, dtype=torch.double) for n in (5, 3))
    longer = [[0, 1, 2]] * num_sets
    pairs = [[3, 4], [4, 3], [3, 4]]
    ranked = Rankings(torch.tensor([*longer, *([*pair, -1] for pair in pairs)]))
    apart = [Comparisons(torch.tensor(pairs)), Rankings(torch.tensor(longer))]
    first_model, expected = (
        EPPreferenceGP(X, feedback=blocks) for blocks in ([ranked], apart)
    )
    evidences = [m.log_evidence().item() for m in (first_model, expected)]
    assert evidences[0] == pytest.approx(evidences[1], rel=1e-7)
    for moment in ("mean", "variance"):
        values = [
            getattr(m.eval().posterior(new), moment) for m in (first_model, expected)
        ]
        torch.testing.assert_close(*values, rtol=1e-6, atol=1e-6)


def test_what_was_heard_of_a_row_has_the_signs_of_its_answers() -> None:
    """Three wins and a loss of equal options: each heard a half-normal's mean away."""
    points = torch.tensor([[0.0], [1.0]]).double()
    pairs = torch.tensor([[0, 1], [1, 0]])
    answers = Comparisons(pairs, pair_counts=torch.tensor([3, 1]))
    factors = SkewPreferenceGP(points, answers).factors()
    draws = 20_000
    observed = factors.heard(
        torch.zeros(draws, 1).double(), torch.Generator().manual_seed(0)
    )
    away = (2 * factors.variance * 4 / torch.pi).sqrt()
    # A mean of four has less than the deviation of one.
    assert ((observed.mean(0) - 0.5 * away).abs() < 5 * away / draws**0.5).all()
