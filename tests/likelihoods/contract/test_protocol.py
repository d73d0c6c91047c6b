"""Closed forms of likelihoods, which follow from their ``forward``."""

import itertools
from copy import deepcopy

import pytest
import torch
from likelihoods.contract.parametrised import each_entry
from registry import CELLS, SET_CASES

from botorch_pref.errors import UnsupportedFeedbackError
from botorch_pref.feedback import Choices, Comparisons, Rankings, Validity
from botorch_pref.likelihoods import DuelLink, PreferenceLikelihood
from botorch_pref.likelihoods.lapses import LapsingLink

DOUBLE = torch.float64
ZERO = torch.zeros((), dtype=DOUBLE)
MEANS = torch.tensor([-12.0, -1.3, 0.0, 0.4, 6.0], dtype=DOUBLE).unsqueeze(-1)
VARIANCES = torch.tensor([1e-6, 0.01, 0.5, 3.0, 400.0], dtype=DOUBLE)
UTILITIES = torch.tensor([[0.3, -0.2, 1.0], [4.0, 0.0, 4.5]], dtype=DOUBLE)

LIKELIHOODS = {
    f"{type(instance).__name__} of {type(cell.feedback).__name__}": instance.double()
    for cell in CELLS
    for instance in [cell.likelihood()]
}
each_likelihood = pytest.mark.parametrize(
    "likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS.keys()
)
each_of_sets = pytest.mark.parametrize(
    "likelihood",
    [case.likelihood(**case.parameters).double() for case in SET_CASES],
    ids=lambda likelihood: type(likelihood).__name__,
)


def has_duels(likelihood: PreferenceLikelihood) -> bool:
    return any(kind in likelihood.explains for kind in (Comparisons, Choices, Rankings))


@each_likelihood
def test_links_are_their_own_quadrature(likelihood) -> None:
    if not has_duels(likelihood):
        with pytest.raises(UnsupportedFeedbackError, match=type(likelihood).__name__):
            _ = likelihood.link
        return
    if not torch.equal(getattr(likelihood, "tie_threshold", ZERO), ZERO):
        # The link is that without ties, which no answer of a person who ties shows.
        likelihood = deepcopy(likelihood)
        likelihood.tie_threshold = 1e-12
    link, by_default = likelihood.link, PreferenceLikelihood.link.fget(likelihood)
    assert isinstance(link, DuelLink), (
        f"{type(likelihood).__name__}.link is a {type(link).__name__}, no DuelLink"
    )
    entropy_error = 4e-6 if isinstance(link, LapsingLink) else 1e-7
    for method in ("win_probability", "expected_entropy", "win_slope", "win_variance"):
        torch.testing.assert_close(
            getattr(link, method)(MEANS, VARIANCES),
            getattr(by_default, method)(MEANS, VARIANCES),
            rtol=1e-8,
            # What closed forms of entropies promise.
            atol=entropy_error if method == "expected_entropy" else 1e-9,
        )


@each_likelihood
def test_wins_and_ties_are_their_own_quadrature(likelihood) -> None:
    if not has_duels(likelihood):
        for method in (likelihood.win_probability, likelihood.tie_probability):
            with pytest.raises(UnsupportedFeedbackError, match="not known"):
                method(MEANS, VARIANCES)
        return
    for name in ("win_probability", "tie_probability"):
        probability = getattr(likelihood, name)(MEANS, VARIANCES)
        by_default = getattr(PreferenceLikelihood, name)(likelihood, MEANS, VARIANCES)
        torch.testing.assert_close(probability, by_default, rtol=1e-8, atol=1e-9)
    wins = likelihood.win_probability(MEANS, VARIANCES)
    losses = likelihood.win_probability(-MEANS, VARIANCES)
    ties = likelihood.tie_probability(MEANS, VARIANCES)
    torch.testing.assert_close(wins + losses + ties, torch.ones_like(wins))


@each_entry
def test_partitions_are_their_own_quadrature(case) -> None:
    """Of each answer in the registry, but for ties, which ``forward`` leaves out."""
    likelihood = case.build()
    if getattr(case.feedback, "ties", None) is not None:
        with pytest.raises(UnsupportedFeedbackError, match="ties"):
            PreferenceLikelihood.factors(likelihood, case.feedback, 3)
        return
    factors = likelihood.factors(case.feedback, 3)
    by_default = PreferenceLikelihood.factors(likelihood, case.feedback, 3)
    sign = factors.rows.coefficients.sum() if case.items == 1 else 1.0
    mean = MEANS.expand(-1, len(VARIANCES)).reshape(-1, 1)
    variance = VARIANCES.expand(len(MEANS), -1).reshape(-1, 1)
    want = factors.log_partition(sign * mean, variance).value
    # Below, a probability of failing is lost beside that of a valid trial.
    (likely,) = (want[:, 0] > -20).nonzero(as_tuple=True)
    got = by_default.log_partition(mean[likely], variance[likely]).value
    torch.testing.assert_close(got, want[likely], rtol=1e-7, atol=1e-7)


@each_likelihood
def test_the_noise_of_an_item_is_positive_where_it_is_known(likelihood) -> None:
    variance = likelihood.observation_variance
    assert bool((variance > 0).all()), (
        f"the variance of an item's noise is {variance.tolist()}"
    )
    if has_duels(likelihood) or Validity in likelihood.explains:
        by_default = PreferenceLikelihood.observation_variance.fget(likelihood)
        # The same for Gaussian noise, and near it for Gumbel's, whose tails are longer.
        assert float(by_default / variance) == pytest.approx(0.9, abs=0.1 + 1e-8), (
            f"observation_variance is {float(variance)}, and by quartiles of wins "
            f"{float(by_default)}"
        )


@each_of_sets
def test_choices_and_orders_of_a_set_have_probability_one(likelihood) -> None:
    chosen = likelihood.log_choice_probability(UTILITIES).exp()
    torch.testing.assert_close(chosen.sum(-1), torch.ones(2, dtype=DOUBLE))
    orders = [
        likelihood.log_order_probability(UTILITIES[:, list(order)]).exp()
        for order in itertools.permutations(range(3))
    ]
    torch.testing.assert_close(sum(orders), torch.ones(2, dtype=DOUBLE))
    # The orders that begin with an item are all in which it is chosen.
    torch.testing.assert_close(orders[0] + orders[1], chosen[:, 0])
    pair = likelihood.log_choice_probability(UTILITIES[:, :2])[:, 0].exp()
    difference = UTILITIES[:, 0] - UTILITIES[:, 1]
    won = likelihood.link.win_probability(difference, torch.zeros_like(difference))
    torch.testing.assert_close(pair, won)


@each_likelihood
def test_likelihoods_without_sets_say_so(likelihood) -> None:
    if {Choices, Rankings} & likelihood.explains.keys():
        return
    for method, quantity in (
        (likelihood.log_choice_probability, "choice"),
        (likelihood.log_order_probability, "ranking"),
    ):
        name = type(likelihood).__name__
        with pytest.raises(UnsupportedFeedbackError, match=f"{quantity} under {name}"):
            method(UTILITIES)
