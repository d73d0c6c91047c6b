"""New answers, and gradients in the points that a model is conditioned on."""

import pytest
import torch
from botorch.models.transforms.input import Normalize
from botorch.utils.containers import SliceContainer
from botorch.utils.datasets import RankingDataset, SupervisedDataset
from entries import Engine
from models.contract.duel_models import (
    DOUBLE,
    NEW,
    PAIRS,
    POINTS,
    VALID,
    assert_same_posterior,
    full,
    kernel,
    mixed,
    moments,
    uniform,
)
from torch import Tensor
from truths.gaussian_posteriors import rows_of

from botorch_pref import (
    Comparisons,
    FeedbackError,
    UnsupportedFeedbackError,
)


def test_conditioning_twice_is_a_model_of_all_answers(engine: Engine) -> None:
    bounds = torch.tensor([[0.0, 0.0], [1.0, 2.0]], dtype=DOUBLE)
    transform = Normalize(2, bounds=bounds)
    model = mixed(engine, input_transform=transform)
    before = moments(model.posterior(NEW))
    more = torch.tensor([[0, 1], [3, 2]])
    other = uniform(3, 2, seed=8)
    twice = model.condition_on_observations(NEW, more)
    twice = twice.condition_on_observations(other, more[:1])
    everything = mixed(engine, input_transform=transform)
    pairs, _ = full(engine)
    everything.set_train_data(
        torch.cat([POINTS, NEW, other]),
        Comparisons(torch.cat([pairs.pairs, more + 7, more[:1] + 11]), pairs.ties),
    )
    x = uniform(4, 2, seed=12)
    assert_same_posterior(engine, twice.posterior(x), everything.posterior(x))
    torch.testing.assert_close(twice.datapoints, torch.cat([POINTS, NEW, other]))
    if engine.boxed:
        assert twice.feedback[-1].valid.tolist() == VALID.valid.tolist()
    torch.testing.assert_close(moments(model.posterior(NEW)), before)


def test_conditioning_on_batches_of_answers(engine: Engine) -> None:
    model = engine(POINTS, PAIRS, covar_module=kernel())
    more = torch.tensor([[[0, 1]], [[1, 0]], [[2, 3]]])
    batch = model.condition_on_observations(NEW, more)
    assert batch.batch_shape == (3,)
    mean, covariance = moments(batch.posterior(NEW))
    for i in range(3):
        single = model.condition_on_observations(NEW, more[i])
        assert_same_posterior(engine, (mean[i], covariance[i]), single.posterior(NEW))


def test_conditioning_wants_comparisons(engine: Engine) -> None:
    model = engine(POINTS, PAIRS)
    with pytest.raises(FeedbackError, match="integers"):
        model.condition_on_observations(NEW, torch.randn(4, 1, dtype=DOUBLE))
    with pytest.raises(FeedbackError, match="there are 4 datapoints"):
        model.condition_on_observations(NEW, torch.tensor([[0, 40]]))


def test_inputs_from_botorchs_data_set(engine: Engine) -> None:
    order = torch.tensor([[0, 1]]).expand(len(PAIRS), 2)
    data = RankingDataset(
        X=SliceContainer(values=POINTS, indices=PAIRS, event_shape=torch.Size([2 * 2])),
        Y=order,
        feature_names=["a", "b"],
        outcome_names=["preference"],
    )
    inputs = engine.cls.construct_inputs(data)
    model = engine(**inputs)
    torch.testing.assert_close(model.comparisons, PAIRS)
    assert_same_posterior(
        engine, model.posterior(NEW), engine(POINTS, PAIRS).posterior(NEW)
    )
    # The order column says who won.
    data = RankingDataset(
        X=SliceContainer(
            values=POINTS, indices=PAIRS.flip(-1), event_shape=torch.Size([2 * 2])
        ),
        Y=order.flip(-1),
        feature_names=["a", "b"],
        outcome_names=["preference"],
    )
    inputs = engine.cls.construct_inputs(data)
    torch.testing.assert_close(inputs["comparisons"], PAIRS)


def test_other_data_sets_are_refused(engine: Engine) -> None:
    data = SupervisedDataset(
        POINTS, POINTS[:, :1], feature_names=["a", "b"], outcome_names=["y"]
    )
    with pytest.raises(UnsupportedFeedbackError, match="RankingDataset"):
        engine.cls.construct_inputs(data)


@pytest.mark.slow
def test_gradients_in_the_points_it_is_conditioned_on(engine: Engine) -> None:
    pairs, validity = full(engine)
    threshold = 0.5 if engine.boxed else 0.0
    probe, square = uniform(4, seed=11) - 0.5, uniform(4, 4, seed=12) - 0.5
    direction = uniform(7, 2, seed=13) - 0.5

    def statistics(mean: Tensor, covariance: Tensor) -> Tensor:
        return torch.stack([probe @ mean, (square * covariance).sum()])

    def truth(step: float) -> Tensor:
        joint = torch.cat([POINTS + step * direction, NEW])
        rows = rows_of(pairs, *validity or [None], threshold, (0.3, 0.7), len(joint))
        mean = torch.full((len(joint),), 0.4, dtype=DOUBLE)
        with torch.no_grad():
            covariance = kernel()(joint).to_dense()
        mean, covariance = engine.reference(covariance, mean, rows)
        return statistics(mean[7:], covariance[7:, 7:])

    engine = engine.with_draws(16_384)
    model = mixed(engine)
    step = torch.zeros((), dtype=DOUBLE, requires_grad=True)
    model.set_train_data(POINTS + step * direction)
    posterior = model.posterior(NEW)
    values = statistics(posterior.mean.squeeze(-1), posterior.covariance_matrix)
    actual = torch.stack(
        [torch.autograd.grad(v, step, retain_graph=True)[0] for v in values]
    )
    expected = (truth(1e-3) - truth(-1e-3)) / 2e-3
    assert ((actual - expected).abs() < 1e-5 + engine.sampling_error).all()
