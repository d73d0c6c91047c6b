"""Statements whose truth is known in closed form, and a person who was played."""

import math

import pandas as pd
import pytest
import torch

from benchmarks import calibration, rank_uniformity
from benchmarks.prior_utility import DrawnUtility
from benchmarks.statements import (
    Tally,
    chances_hold,
    coverage,
    favoured,
    intervals_hold,
    table_of_tallies,
    true_ranks,
)
from botorch_pref import DuelKernel

NUMBER = 20_000


def gaussian_tally(overconfidence: float) -> Tally:
    """Intervals of truths from N(m, 1), from a deviation that is stated too small."""
    source = torch.Generator().manual_seed(0)
    mean = torch.randn(NUMBER, generator=source, dtype=torch.double)
    truth = mean + torch.randn(NUMBER, generator=source, dtype=torch.double)
    half = 1.959963985 / overconfidence
    return intervals_hold("toy", mean - half, mean + half, truth)


@pytest.mark.parametrize("overconfidence", [1.0, 2.0, 0.5])
def test_intervals_hold_as_often_as_their_probability(overconfidence: float) -> None:
    tally = gaussian_tally(overconfidence)
    share = math.erf(1.959963985 / overconfidence / math.sqrt(2))
    error = math.sqrt(share * (1 - share) / NUMBER)
    assert abs(tally.held / tally.number - share) < 4 * error
    assert tally.expected == pytest.approx(0.95 * NUMBER)


@pytest.mark.parametrize("overconfidence", [1.0, 2.0])
def test_chances_of_the_favoured_are_too_large_where_a_model_is_too_sure(
    overconfidence: float,
) -> None:
    source = torch.Generator().manual_seed(1)
    z = torch.randn(NUMBER, generator=source, dtype=torch.double)
    stated, truth = torch.special.ndtr(overconfidence * z), torch.special.ndtr(z)
    tally = chances_hold("toy", *favoured(stated, truth))
    # E[Phi(c |z|)] = 1/2 + arctan(c) / pi.
    for counted, c in ((tally.expected, overconfidence), (tally.held, 1.0)):
        expected = 0.5 + math.atan(c) / math.pi
        assert abs(counted / NUMBER - expected) < 4 * 0.5 / math.sqrt(NUMBER)


def test_a_favoured_option_may_be_the_worse_one() -> None:
    stated, truth = torch.tensor([0.2, 0.8, 0.5]), torch.tensor([0.7, 0.6, 0.9])
    of_model, of_person = favoured(stated, truth)
    torch.testing.assert_close(of_model, torch.tensor([0.8, 0.8, 0.5]))
    torch.testing.assert_close(of_person, torch.tensor([0.3, 0.6, 0.9]))


def test_equal_options_share_their_ranks() -> None:
    lowest, highest = true_ranks(torch.tensor([1.0, 3.0, 1.0, 2.0, 1.0]))
    assert lowest.tolist() == [3, 1, 3, 2, 3]
    assert highest.tolist() == [5, 1, 5, 2, 5]
    # Any of the shared ranks will do.
    lower, upper = torch.tensor([5, 1, 1, 3, 2]), torch.tensor([5, 2, 2, 4, 4])
    assert intervals_hold("rank", lower, upper, lowest, highest).held == 3


def test_shares_are_means_over_persons() -> None:
    rows = [
        table_of_tallies([Tally("a", n, 0.95 * n, held), Tally("b", 0, 0, 0)], seed=i)
        for i, (n, held) in enumerate([(10, 10), (40, 20), (20, 15)])
    ]
    (cell,) = coverage(pd.concat(rows), []).to_dict(orient="records")
    assert cell["statement"] == "a"
    assert cell["persons"] == 3
    assert cell["statements"] == 70
    assert cell["expected"] == pytest.approx(0.95)
    # Of 1, 1/2 and 3/4, whose deviation is 1/4.
    assert cell["held"] == pytest.approx(0.75)
    assert cell["error"] == pytest.approx(0.25 / math.sqrt(3))


def test_ranks_of_exact_draws_are_uniform_and_others_are_not() -> None:
    source = torch.Generator().manual_seed(2)
    truth = torch.randn(2_000, generator=source)
    draws = torch.randn(99, 2_000, generator=source)
    p_value, counts, middle = rank_uniformity.uniformity(
        rank_uniformity.rank_among(truth, draws), 99
    )
    assert p_value > 1e-3
    assert sum(counts) == 2_000
    assert abs(middle - 0.9) < 4 * math.sqrt(0.09 / 2_000)
    narrow = rank_uniformity.rank_among(truth, 0.5 * draws)
    p_value, counts, middle = rank_uniformity.uniformity(narrow, 99)
    assert p_value < 1e-6
    # Half of an interval of 1.645 deviations.
    assert abs(middle - math.erf(0.8224 / math.sqrt(2))) < 0.05


def test_a_rank_is_the_number_of_draws_below() -> None:
    truth, draws = torch.tensor([0.0, 9.0]), torch.tensor([[-1.0, 1.0], [0.5, 2.0]])
    assert rank_uniformity.rank_among(truth, draws).tolist() == [1, 2]


@pytest.mark.slow
def test_a_person_is_played_and_asked_after_each_checkpoint() -> None:
    table = calibration.rows_of("choices", "errs", 0, "default", ["default"], (3, 6))
    assert (table["held"] <= table["number"] + 1e-9).all()
    counts = table.set_index(["answers", "statement"])["number"]
    for answers in (3, 6):
        # Two parameters that do nothing: a number, and a choice of three.
        assert counts[answers, "called dead"] == 2
        assert counts[answers, "effect (dead)"] == 2, "a curve is one statement"
        assert counts[answers, "difference"] < 2 * answers
        assert counts[answers, "rank"] == counts[answers, "difference"] + 1


@pytest.mark.parametrize("size", [2, 4])
def test_answers_are_those_of_the_person(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one who does not err, whatever the order in which options are shown."""
    monkeypatch.setattr(calibration, "LAPSES", 0.0)
    source = torch.Generator().manual_seed(3)
    person = calibration.Person(calibration.make_problem("bump"), 1e-9, source)
    played = calibration.play(person, (1, 3), size)
    for (points, answers), questions in zip(played, (1, 3), strict=True):
        orders = answers.pairs if size == 2 else answers.orders
        assert len(orders) == questions
        utilities = person.problem.utility(points)[orders]
        assert bool((utilities.diff(dim=-1) < 0).all())


def test_a_drawn_utility_has_the_covariance_of_its_kernel() -> None:
    """Also of points that are drawn later, given earlier ones, and met again."""
    kernel = DuelKernel(2)
    points = torch.tensor([[0.1, 0.2], [0.4, 0.9], [0.8, 0.3], [0.1, 0.2]]).double()
    source = torch.Generator().manual_seed(6)
    count = 4_000
    draws = torch.stack(
        [DrawnUtility(kernel, points[:2], source)(points) for _ in range(count)]
    )
    assert torch.equal(draws[:, 0], draws[:, 3]), "one point has one utility"
    with torch.no_grad():
        truth = kernel(points[:3]).to_dense()
    sample = draws[:, :3].mT @ draws[:, :3] / count
    # A product of two normals has at most twice the variance of independent ones.
    error = (truth.diagonal().outer(truth.diagonal()) * 2 / count).sqrt()
    assert bool(((sample - truth).abs() < 4.5 * error).all()), f"{sample} of {truth}"
