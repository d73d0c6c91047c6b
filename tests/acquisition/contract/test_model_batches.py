"""Batches of models, ensembles, and single precision."""

import pytest
import torch
from acquisition.contract.closed_forms import X_REF, each, points
from botorch.models.model import Model
from entries import Acquisition
from torch import Tensor

from botorch_pref.acquisition import (
    DuelingAcquisition,
    DuelingEIIG,
)
from botorch_pref.likelihoods import PairwiseProbitLikelihood, ProbitLink
from botorch_pref.models import EPPreferenceGP

PAIRS = torch.tensor([[[2, 0], [2, 1], [3, 1]], [[0, 1], [0, 2], [3, 2]]])


@each()
@pytest.mark.parametrize("pending", [None, points(1, seed=8), points(3, seed=8)])
def test_a_batch_of_models_is_each_of_them(
    kind: Acquisition, pending: Tensor | None
) -> None:
    """Gaussian models: nothing is sampled, so that both ways agree to rounding."""
    datapoints, X = points(2, 4), points(5, 2)
    noise = torch.tensor([0.1, 2.0], dtype=torch.double)
    batch = EPPreferenceGP(
        datapoints, PAIRS, likelihood=PairwiseProbitLikelihood(noise=noise)
    )

    def value(model: Model, X: Tensor, *reference: Tensor) -> Tensor:
        acquisition: DuelingAcquisition = kind(model, *reference)
        acquisition.set_X_pending(pending)
        return acquisition(X)

    for reference in [(X_REF,), ()] if kind.pairs else [(X_REF,)]:
        together = value(batch, X.unsqueeze(-3), *reference)
        assert together.shape == (5, 2), (
            f"values of 5 points under 2 models have the shape {tuple(together.shape)}"
        )
        for i in range(2):
            alone = EPPreferenceGP(
                datapoints[i], PAIRS[i], likelihood=PairwiseProbitLikelihood(noise[i])
            )
            torch.testing.assert_close(
                together[:, i], value(alone, X, *reference), rtol=1e-5, atol=1e-6
            )


@each()
def test_single_precision(kind: Acquisition) -> None:
    double = EPPreferenceGP(points(4), PAIRS[0])
    single = EPPreferenceGP(points(4).float(), PAIRS[0])
    for model in (double, single):
        model.covar_module.outputscale = 0.5
    X = points(6, 1)
    points_given = {k: v.float() for k, v in kind.options.items() if torch.is_tensor(v)}
    value = kind(single, X_REF.float(), **points_given).float()(X.float())
    assert value.dtype == torch.float32, (
        f"a model in single precision gives values in {value.dtype}"
    )
    expected = kind(double, X_REF)(X)
    torch.testing.assert_close(value.double(), expected, rtol=0.0, atol=1e-4)


def test_a_noise_for_each_model_in_the_link(linear_utility) -> None:
    centers = torch.tensor([[1.0, -2.0], [3.0, 0.5]], dtype=torch.double)
    X = points(4, 1)
    noise = torch.tensor([0.1, 0.5, 1.0, 2.0], dtype=torch.double)
    model = linear_utility(centers)
    together = DuelingEIIG(model, X_REF, link=ProbitLink(noise))(X)
    apart = [
        DuelingEIIG(model, X_REF, link=ProbitLink(float(s)))(x.unsqueeze(0))
        for s, x in zip(noise, X, strict=True)
    ]
    torch.testing.assert_close(together, torch.cat(apart))
