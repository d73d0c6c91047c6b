"""Names of likelihoods in messages and experiments."""

import pytest
from cases import in_turn
from torch import Tensor
from torch.distributions import Bernoulli

from botorch_pref import Comparisons, UnsupportedFeedbackError, Validity, class_table
from botorch_pref.likelihoods import (
    DensityFactors,
    PairwiseProbitLikelihood,
    PreferenceLikelihood,
    register_likelihood,
)
from botorch_pref.likelihoods.protocol import likelihoods_of, registered_likelihoods


def new_class() -> type[PreferenceLikelihood]:
    class OwnLikelihood(PreferenceLikelihood[Comparisons]):
        explains = {Comparisons: DensityFactors}  # noqa: RUF012

        def forward(self, function_samples: Tensor) -> Bernoulli:
            return Bernoulli(logits=function_samples)

    return OwnLikelihood


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_table, "_TABLE", dict(class_table._TABLE))


def test_classes_are_named_once_they_are_registered() -> None:
    likelihood_class = new_class()
    assert likelihood_class not in likelihoods_of(Comparisons)
    assert register_likelihood(likelihood_class) is likelihood_class
    assert likelihood_class in likelihoods_of(Comparisons)
    assert likelihood_class not in likelihoods_of(Validity)
    assert list(registered_likelihoods()) == sorted(registered_likelihoods())


def test_a_cell_that_is_run_again_registers_again() -> None:
    register_likelihood(new_class())
    again = register_likelihood(new_class())
    assert registered_likelihoods()["OwnLikelihood"] is again


def test_what_cannot_be_registered_is_refused() -> None:
    class PairwiseProbit(new_class()):
        pass

    PairwiseProbit.__name__ = PairwiseProbitLikelihood.__name__
    with pytest.raises(ValueError, match="registered already"):
        register_likelihood(PairwiseProbit)
    with pytest.raises(UnsupportedFeedbackError, match="forward"):
        register_likelihood(PreferenceLikelihood)


@in_turn("candidate", [3, dict, PairwiseProbitLikelihood()])
def test_only_classes_of_likelihoods_are_registered(candidate: object) -> None:
    with pytest.raises(TypeError, match="registers classes of PreferenceLikelihood"):
        register_likelihood(candidate)
