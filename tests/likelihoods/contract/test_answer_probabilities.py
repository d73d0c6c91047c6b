"""Probabilities of wins, ties, levels and of answers about sets."""

import itertools
import math

import mpmath as mp
import numpy
import pytest
import torch
from likelihoods.contract.parametrised import CAVITIES
from registry import CASES, SET_CASES, TIE, VALID, WIN
from scipy import integrate
from scipy.stats import multivariate_normal
from truths.answer_probabilities import number, tilted_moments

from botorch_pref.feedback import Choices, OrdinalRatings, Rankings, Validity
from botorch_pref.likelihoods import (
    AffineProbitLikelihood,
    PairwiseLogitLikelihood,
    PairwiseProbitLikelihood,
)
from botorch_pref.likelihoods.factors import CorrelatedBoxFactors


@pytest.mark.parametrize(
    "case", [c for c in CASES.values() if c.feedback in (WIN, TIE)], ids=lambda c: c.row
)
def test_wins_and_ties_have_their_expected_probabilities(case) -> None:
    likelihood = case.build()
    ties = case.feedback is TIE
    probability = likelihood.tie_probability if ties else likelihood.win_probability
    for cavity in CAVITIES:
        value, _, _ = tilted_moments(case, *cavity)
        got = probability(*torch.tensor(cavity, dtype=torch.float64))
        assert number(got) == pytest.approx(math.exp(value), rel=1e-8), cavity


@pytest.mark.parametrize("level", range(4))
@pytest.mark.parametrize("variance", [0.0, 0.7])
def test_levels_have_the_probabilities_of_their_intervals(level, variance) -> None:
    case = CASES[f"ordinal {level}"]
    z = torch.tensor([-20.0, -1.0, 0.3, 2.0, 20.0], dtype=torch.float64)
    got = case.build().level_probabilities(z, torch.full_like(z, variance))[..., level]
    want = [float(case.truth(mp.mpf(float(x)), noise=0.3 + variance)) for x in z]
    assert got.tolist() == pytest.approx(want, rel=1e-9)
    if not variance:
        torch.testing.assert_close(case.build()(z).probs[..., level], got)


BINARY = [
    case for case in CASES.values() if not isinstance(case.feedback, OrdinalRatings)
]


@pytest.mark.parametrize("case", BINARY, ids=lambda c: c.likelihood.__name__)
def test_forward_is_the_probability_of_the_positive_answer(case) -> None:
    """Of a win of the first item, or of a valid trial."""
    z = torch.linspace(-4, 4, 9, dtype=torch.float64)
    probability = case.build()(z).probs
    positive = VALID if Validity in case.likelihood.explains else WIN
    truth = next(
        c for c in CASES.values()
        if c.likelihood is case.likelihood and c.feedback is positive
    )  # fmt: skip
    expected = [float(truth.truth(mp.mpf(float(x)), **case.parameters)) for x in z]
    assert probability.tolist() == pytest.approx(expected, rel=1e-6)


def test_observation_variance_is_that_of_one_item() -> None:
    """Twice it is the variance of the noise of a difference."""
    assert number(PairwiseProbitLikelihood(0.3).observation_variance) == pytest.approx(
        0.3
    )
    assert number(AffineProbitLikelihood(0.3).observation_variance) == pytest.approx(
        0.3
    )
    # A logistic variable, the difference of two Gumbels, has variance pi^2 / 3.
    second_moment = (
        2
        * integrate.quad(
            lambda t: t * t * math.exp(-t) / (1 + math.exp(-t)) ** 2, 0, 60
        )[0]
    )
    gumbel = float(PairwiseLogitLikelihood().observation_variance)
    assert 2 * gumbel == pytest.approx(second_moment, rel=1e-6)


def set_answers(kind):
    if kind is Choices:
        items = torch.tensor([[0, 1, 2]])
        return [Choices(items, torch.tensor([c])) for c in range(3)]
    orders = itertools.permutations(range(3))
    return [Rankings(torch.tensor([order])) for order in orders]


def set_log_probability(factors, utilities):
    """Given utilities; shared noise, of rank one for three items, by Gauss-Hermite."""
    z = factors.rows.apply(utilities)
    if factors.noise is None:
        return number(factors.log_prob(z).value.sum())
    values, vectors = torch.linalg.eigh(factors.noise.dense())
    assert values[0].abs() < 1e-12
    nodes, weights = numpy.polynomial.hermite_e.hermegauss(80)
    shifts = torch.tensor(nodes).unsqueeze(-1) * (values[1].sqrt() * vectors[:, 1])
    log_values = factors.log_prob(z + shifts).value.sum(-1)
    weights = torch.tensor(weights / math.sqrt(2 * math.pi))
    return number((log_values + weights.log()).logsumexp(0))


def heard(kind, utilities, noise):
    """Probabilities of all answers by brute force: orthants of heard differences."""
    for answer in set_answers(kind):
        order = answer.stages()[0].tolist()
        size = torch.zeros(2, 3, dtype=torch.float64)
        for row in range(2):
            size[row, order[0 if kind is Choices else row]] = 1
            size[row, order[row + 1]] = -1
        yield multivariate_normal(
            mean=(-size @ utilities).numpy(), cov=(noise * size @ size.mT).numpy()
        ).cdf([0, 0])


@pytest.mark.parametrize("case", SET_CASES, ids=lambda c: c.kind.__name__)
@pytest.mark.parametrize("utilities", [[0.0, 0.0, 0.0], [0.8, -0.3, 1.0]])
def test_answers_about_a_set(case, utilities) -> None:
    likelihood = case.likelihood(**case.parameters).double()
    utilities = torch.tensor(utilities, dtype=torch.float64)
    got = []
    for answer in set_answers(case.kind):
        factors = likelihood.factors(answer, 3)
        assert type(factors) is case.factors
        got.append(math.exp(set_log_probability(factors, utilities)))
    assert sum(got) == pytest.approx(1.0, abs=1e-8)
    if case.factors is CorrelatedBoxFactors:
        want = list(heard(case.kind, utilities, case.parameters["noise"]))
        assert got == pytest.approx(want, abs=1e-5)
