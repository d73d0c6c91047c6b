"""Models without answers: the prior alone."""

import pytest
import torch
from botorch.models.transforms.input import Normalize
from entries import Engine
from models.contract.duel_models import (
    DOUBLE,
    NEW,
    PAIRS,
    POINTS,
    assert_same_posterior,
    kernel,
)

from botorch_pref import (
    BotorchPrefError,
)


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
