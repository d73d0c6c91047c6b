"""Likelihoods by name, and with options."""

import pytest
import torch
from gpytorch.priors import GammaPrior

from botorch_pref import (
    Choices,
    Comparisons,
    PairwiseLogitLikelihood,
    PairwiseProbitLikelihood,
    PlackettLuceLikelihood,
    Rankings,
    Ratings,
)
from botorch_pref.ax.naming import (
    likelihoods_named,
    with_likelihoods,
)
from botorch_pref.errors import ExperimentError
from botorch_pref.likelihoods import base as registry
from botorch_pref.likelihoods import register_likelihood


def test_one_name_is_of_all_that_it_explains() -> None:
    found = likelihoods_named("PairwiseProbitLikelihood")
    assert set(found) == {Comparisons, Choices, Rankings}
    assert len({id(likelihood) for likelihood in found.values()}) == 1
    assert isinstance(found[Comparisons], PairwiseProbitLikelihood)
    assert float(found[Comparisons].noise) == pytest.approx(1)


def test_names_by_kinds_of_answers() -> None:
    found = likelihoods_named(
        {
            "Rankings": "PlackettLuceLikelihood",
            "Comparisons": {
                "PairwiseProbitLikelihood": {
                    "noise": 0.25,
                    "tie_threshold": 0.5,
                    "tie_threshold_prior": {
                        "GammaPrior": {"concentration": 3.0, "rate": 2.0}
                    },
                }
            },
        }
    )
    assert set(found) == {Rankings, Comparisons}
    assert isinstance(found[Rankings], PlackettLuceLikelihood)
    duels = found[Comparisons]
    assert float(duels.noise) == pytest.approx(0.25)
    assert float(duels.tie_threshold.detach()) == pytest.approx(0.5)
    prior = duels.tie_threshold_prior
    assert isinstance(prior, GammaPrior)
    assert (float(prior.concentration), float(prior.rate)) == (3, 2)


def test_lists_of_numbers_are_tensors() -> None:
    (levels,) = likelihoods_named(
        {"OrdinalProbitLikelihood": {"cutpoints": [-1.0, 0.5]}}
    ).values()
    expected = torch.tensor([-1.0, 0.5], dtype=torch.float64)
    torch.testing.assert_close(levels.cutpoints.detach(), expected)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ("Probit", "no likelihood or prior 'Probit'.*PairwiseProbitLikelihood"),
        ("PreferenceLikelihood", "no likelihood"),
        ({"Ranking": "PlackettLuceLikelihood"}, "no kind of answer 'Ranking'"),
        ({"Rankings": "PlackettLuce"}, "no likelihood or prior 'PlackettLuce'"),
        ({"Rankings": 3}, "3 is no likelihood"),
        (3, "3 is no likelihood"),
        ({"PairwiseProbitLikelihood": {"noise": -1.0}}, "does not take.*positive"),
        ({"PairwiseProbitLikelihood": {"nose": 1.0}}, "does not take.*nose"),
        ({"PairwiseProbitLikelihood": 1.0}, "does not take 1.0"),
        (
            {"PairwiseProbitLikelihood": {"noise_prior": "GammaPrior"}},
            "GammaPrior does not take",
        ),
        ({"PairwiseProbitLikelihood": {"noise_prior": "exit"}}, "or prior 'exit'"),
    ],
)
def test_what_is_no_likelihood_is_refused(given, match) -> None:
    with pytest.raises(ExperimentError, match=match):
        likelihoods_named(given)


def test_options_that_are_no_names_stay() -> None:
    logit = PairwiseLogitLikelihood()
    for likelihood in (None, logit, {Ratings: logit}, {}):
        options = {"likelihood": likelihood, "num_draws": 3}
        assert with_likelihoods(options) == options
    assert with_likelihoods({}) == {}
    named = with_likelihoods({"likelihood": "PairwiseLogitLikelihood", "num_draws": 3})
    assert named["num_draws"] == 3
    assert isinstance(named["likelihood"][Comparisons], PairwiseLogitLikelihood)


def test_a_registered_likelihood_has_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_REGISTERED", dict(registry._REGISTERED))

    @register_likelihood
    class OwnLikelihood(PairwiseLogitLikelihood):
        pass

    assert type(likelihoods_named("OwnLikelihood")[Comparisons]) is OwnLikelihood
