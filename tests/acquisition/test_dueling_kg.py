"""Knowledge gradient of a duel: quadrature, models that know the answer, and bounds."""

import pytest
import torch
from acquisition.contract.closed_forms import ONE, SEVERAL, X_REF, points
from botorch.models import PairwiseGP
from botorch.models.model import Model
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from botorch_pref.acquisition import DuelingKG
from botorch_pref.errors import FeedbackError
from botorch_pref.likelihoods import LogitLink, ProbitLink
from botorch_pref.models import EPPreferenceGP

LINKS = [ProbitLink(0.25), LogitLink()]


def answered(kind: type, X: Tensor, comparisons: Tensor) -> Model:
    model = kind(X, comparisons)
    model.covar_module.base_kernel.lengthscale = 0.5
    model.covar_module.outputscale = 10.0
    return model.eval()


def test_against_models_that_know_the_answer() -> None:
    """What it foresees of the best mean is what EP finds when it hears the answer.

    EP of one answer more is another approximation, and by its account the mean of the
    two answers' means is not quite today's: within 0.01 of utilities of deviation 3.
    """
    X, comparisons = points(8), torch.tensor([[0, 1], [2, 3], [4, 5], [6, 7]])
    model = answered(EPPreferenceGP, X, comparisons)
    for pair in points(3, 2, seed=11):
        every = torch.cat([X, pair])
        with torch.no_grad():
            win = float(model.duel_probability(*pair.split(1), observation_noise=True))
            truth = -float(model.posterior(X).mean.amax())
            for probability, answer in ((win, [8, 9]), (1 - win, [9, 8])):
                answers = torch.cat([comparisons, torch.tensor([answer])])
                informed = answered(EPPreferenceGP, every, answers)
                truth += probability * float(informed.posterior(every).mean.amax())
            value = float(DuelingKG(model)(pair))
        assert value == pytest.approx(truth, abs=0.01)


@settings(
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 10_000), scale=st.floats(1e-6, 1e6), probit=st.booleans())
def test_it_is_never_negative(
    linear_utility, seed: int, scale: float, probit: bool
) -> None:
    model = linear_utility(SEVERAL, scale)
    link = ProbitLink(0.1) if probit else LogitLink()
    X, choices = points(5, 2, seed=seed), points(6, seed=seed + 1)
    value = DuelingKG(model, choices=choices, link=link)(X)
    assert bool((value >= 0).all())
    assert bool(value.isfinite().all())


def test_a_certain_duel_gains_what_is_better_already(linear_utility) -> None:
    model = linear_utility(ONE, 0.0)
    X, choices = points(6, 2), points(4, seed=5)
    value = DuelingKG(model, choices=choices, link=ProbitLink(0.5))(X)
    better = (X @ ONE[0]).amax(-1) - (choices @ ONE[0]).amax()
    torch.testing.assert_close(value, better.clamp_min(0.0))


def test_choices_are_the_observed_points_by_default(model: Model) -> None:
    X = 0.3 + 0.4 * points(40, 2)
    (observed,) = model.train_inputs
    value = DuelingKG(model)(X)
    torch.testing.assert_close(value, DuelingKG(model, choices=observed)(X))
    assert bool((value > 0).any())


def test_choices_of_each_batch() -> None:
    pairs = torch.tensor([[[2, 0], [2, 1], [3, 1]], [[0, 1], [0, 2], [3, 2]]])
    datapoints, X, choices = points(2, 4), points(5, 2), points(2, 3, seed=5)
    batch = EPPreferenceGP(datapoints, pairs)
    together = DuelingKG(batch, X_REF, choices=choices)(X[:, :1].unsqueeze(-3))
    for i in range(2):
        alone = DuelingKG(
            EPPreferenceGP(datapoints[i], pairs[i]), X_REF, choices=choices[i]
        )
        torch.testing.assert_close(
            together[:, i], alone(X[:, :1]), rtol=1e-5, atol=1e-6
        )


def test_without_observed_points_choices_are_wanted() -> None:
    with pytest.raises(FeedbackError, match="observed points"):
        DuelingKG(PairwiseGP(None, None), link=ProbitLink(0.5))
