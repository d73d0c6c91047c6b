"""Input transforms: learned from the data, kept in evaluation mode."""

import pytest
import torch
from botorch.models.transforms.input import InputStandardize, Normalize
from entries import Engine
from models.contract.duel_models import (
    NEW,
    PAIRS,
    RAW,
    assert_same_posterior,
)


@pytest.mark.parametrize("query_first", [False, True], ids=["fresh", "trained"])
def test_a_learned_normalisation_is_that_of_the_data(
    engine: Engine, query_first: bool
) -> None:
    low, high = RAW.amin(0), RAW.amax(0)
    model = engine(RAW, PAIRS, input_transform=Normalize(2))
    plain = engine((RAW - low) / (high - low), PAIRS)
    if query_first:
        model.train()
        torch.testing.assert_close(model.log_evidence(), plain.log_evidence())
    x = 30 * NEW - 7
    expected = plain.posterior((x - low) / (high - low))
    assert_same_posterior(engine, model.posterior(x), expected, 1e-6)
    torch.testing.assert_close(model.datapoints, RAW)
    torch.testing.assert_close(model.train_inputs[0], (RAW - low) / (high - low))
    model.train()
    torch.testing.assert_close(model.train_inputs[0], RAW)
    torch.testing.assert_close(model.log_evidence(), plain.log_evidence())
    assert_same_posterior(engine, model.posterior(x), expected, 1e-6)


def test_new_data_in_eval_mode_are_untransformed(engine: Engine) -> None:
    model = engine(RAW, PAIRS, input_transform=Normalize(2)).eval()
    model.set_train_data(model.datapoints, PAIRS.flip(-1))
    expected = engine(RAW, PAIRS.flip(-1), input_transform=Normalize(2))
    assert_same_posterior(engine, model.posterior(RAW), expected.posterior(RAW))
    torch.testing.assert_close(model.datapoints, RAW)
    # The bounds stay those that were learned.
    bounds = Normalize(2, bounds=torch.stack([RAW.amin(0), RAW.amax(0)]))
    pair = torch.tensor([[2, 5]])
    model.set_train_data(RAW[:6], pair)
    expected = engine(RAW[:6], pair, input_transform=bounds)
    assert_same_posterior(engine, model.posterior(RAW), expected.posterior(RAW))
    model.train()
    torch.testing.assert_close(model.train_inputs[0], RAW[:6])


def test_duplicates_count_in_a_learned_standardisation(engine: Engine) -> None:
    points = torch.cat([RAW, RAW[:3]])
    model = engine(points, PAIRS, input_transform=InputStandardize(2))
    model.train()
    model.log_evidence()
    torch.testing.assert_close(model.input_transform.means, points.mean(0)[None])
    standard = (points - points.mean(0)) / points.std(0)
    x = 30 * NEW - 7
    expected = engine(standard, PAIRS).posterior((x - points.mean(0)) / points.std(0))
    assert_same_posterior(engine, model.posterior(x), expected)
