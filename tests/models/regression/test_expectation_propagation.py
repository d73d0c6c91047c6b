"""Weights by expectation propagation, against grids and a long sampler."""

import numpy as np
import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from torch.nn.functional import pad
from truths.choice_weights import by_a_long_run, on_a_grid

from botorch_pref import (
    Choices,
    Comparisons,
    InferenceWarning,
    PlackettLuceRegression,
    PreferenceMarginalLogLikelihood,
    Rankings,
)

DOUBLE = torch.float64


def choices_of(num_sets, size, num_features, seed, eta=1.0):
    """Draws items ``L x k x d``, the chosen one first, of weights from the prior."""
    generator = torch.Generator().manual_seed(seed)
    options = {"generator": generator, "dtype": DOUBLE}
    weights = torch.randn(num_features, **options) / eta**0.5
    items = torch.randn(num_sets, size, num_features, **options)
    gumbel = -torch.log(-torch.log(torch.rand(num_sets, size, **options)))
    order = (items @ weights + gumbel).argsort(-1, descending=True)
    return items.gather(-2, order.unsqueeze(-1).expand_as(items))


def model_of(items, **settings):
    """Makes a model of choices of the first item of each set."""
    num_sets, size, _ = items.shape
    sets = torch.arange(num_sets * size).reshape(num_sets, size)
    settings.setdefault("inference", "ep")
    return PlackettLuceRegression(
        items.flatten(0, 1), feedback=[Choices(sets, sets[:, 0])], **settings
    )


@pytest.mark.parametrize("eta", [0.3, 2.0])
def test_pairs_sets_and_rankings_against_a_grid(eta) -> None:
    """Few answers, of which each has a wide and skewed say."""
    items = choices_of(4, 4, 2, seed=5, eta=eta)
    pairs = torch.tensor([[0, 5], [9, 2], [9, 7]])
    orders = torch.tensor([[4, 10, 1, 15]])
    points = items.flatten(0, 1)
    sets = torch.arange(16).reshape(4, 4)
    model = PlackettLuceRegression(
        points,
        pairs,
        feedback=[
            Choices(sets, sets[:, 0]),
            Rankings(orders),
        ],
        inference="ep",
        eta=eta,
    )
    stages = [*sets.tolist(), *pairs.tolist()]
    stages += [orders[0, i:].tolist() for i in range(3)]
    entries = [
        pad(points[stage], (0, 0, 0, 4 - len(stage)), value=float("nan"))
        for stage in stages
    ]
    truth = on_a_grid(torch.stack(entries).numpy(), eta, half_width=8 / eta**0.5)
    deviation = np.sqrt(np.diag(truth.covariance))
    error = (model.weights_mean.detach().numpy() - truth.mean) / deviation
    # What expectation propagation leaves of skewness: a few hundredths.
    assert np.abs(error).max() < 0.03
    covariance = model.weights_covariance.detach().numpy()
    # Ten answers about two weights: deviations are 6 % short where the prior is wide.
    assert np.abs(np.sqrt(np.diag(covariance)) / deviation - 1).max() < 0.08
    diagnostics = model.diagnostics()
    assert diagnostics["converged"]
    assert float(diagnostics["log_evidence"]) == pytest.approx(
        truth.log_evidence, abs=0.05
    )


@pytest.mark.slow
def test_twenty_features_and_twenty_choices_against_a_long_run() -> None:
    items = choices_of(20, 4, 20, seed=0)
    model = model_of(items)
    centre = model.weights_mean.detach().numpy()
    covariance = model.weights_covariance.detach().numpy()
    truth = by_a_long_run(items.numpy(), 1.0, centre, covariance)
    distance = centre - truth.mean
    away = distance @ np.linalg.solve(truth.covariance, distance) / 20
    # The mean of 4,000 draws with little correlation is known to 0.02 deviations.
    assert away**0.5 < 0.06
    spread = np.diag(covariance) / np.diag(truth.covariance)
    assert np.sqrt(spread).mean() == pytest.approx(1.0, abs=0.03)
    mode = model.map_estimate().numpy()
    assert np.linalg.norm(mode) < 0.8 * np.linalg.norm(truth.mean)
    with pytest.warns(InferenceWarning, match='20 features.*inference="ep"'):
        laplace = model_of(items, inference="laplace").weights_mean
    torch.testing.assert_close(laplace, torch.from_numpy(mode))


def test_counts_are_repeated_answers_and_absent_items_are_none() -> None:
    points = choices_of(1, 6, 2, seed=1)[0]
    orders = torch.tensor([[0, 1, 2, -1], [3, 4, 5, 0]])
    counted = Rankings(orders, counts=torch.tensor([3, 1]))
    repeated = Rankings(orders[[0, 0, 0, 1]])
    first_model, second_model = (
        PlackettLuceRegression(points, feedback=[answers], inference="ep")
        for answers in (counted, repeated)
    )
    close = {"rtol": 1e-3, "atol": 1e-3}
    torch.testing.assert_close(
        first_model.weights_mean, second_model.weights_mean, **close
    )
    torch.testing.assert_close(
        first_model.weights_covariance, second_model.weights_covariance, **close
    )
    torch.testing.assert_close(
        first_model.log_evidence(), second_model.log_evidence(), **close
    )


def test_elements_of_a_batch_are_as_alone_in_single_precision_too() -> None:
    points = choices_of(1, 6, 3, seed=2)[0]
    pairs = torch.tensor([[[0, 1], [3, 2]], [[5, 4], [4, 4 - 1]]])
    etas = torch.tensor([0.5, 2.0], dtype=DOUBLE)
    batch = PlackettLuceRegression(points, pairs, inference="ep", eta=etas)
    for i in range(2):
        alone = PlackettLuceRegression(
            points.float(), pairs[i], inference="ep", eta=float(etas[i])
        )
        assert alone.weights_mean.dtype == torch.float32
        close = {"rtol": 1e-4, "atol": 1e-5, "check_dtype": False}
        torch.testing.assert_close(batch.weights_mean[i], alone.weights_mean, **close)
        torch.testing.assert_close(
            batch.weights_covariance[i], alone.weights_covariance, **close
        )


def test_the_evidence_of_pairs_has_its_gradient_and_a_fit_ends_there() -> None:
    items = choices_of(12, 2, 3, seed=4)
    model = model_of(items, eta=0.7)
    value = model.log_evidence()
    (gradient,) = torch.autograd.grad(value, model.raw_eta)
    raw, step = model.raw_eta.detach().clone(), 1e-3
    values = []
    for sign in (1, -1):
        with torch.no_grad():
            model.raw_eta.copy_(raw + sign * step)
        values.append(model.log_evidence().detach())
    numeric = (values[0] - values[1]) / (2 * step)
    # Evidences are stationary in sites that match to 1e-6 of a deviation.
    torch.testing.assert_close(gradient, numeric, rtol=1e-4, atol=1e-7)


def test_a_fit_of_sets_ends_where_the_evidence_is_largest() -> None:
    model = model_of(choices_of(30, 3, 3, seed=6, eta=0.5))
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    best, evidence = model.eta.item(), model.log_evidence().item()
    for factor in (0.5, 2.0):
        model.eta = best * factor
        assert model.log_evidence().item() < evidence


def test_duplicate_items_and_dependent_features() -> None:
    """A choice between equals says nothing; equal columns have equal weights."""
    points = choices_of(1, 4, 2, seed=3)[0]
    points = torch.cat([points, points[:1]])
    doubled = torch.cat([points, points[:, :1]], dim=-1)
    pairs = torch.tensor([[0, 1], [2, 3]])
    plain = PlackettLuceRegression(doubled, pairs, inference="ep")
    regression = PlackettLuceRegression(
        doubled,
        Comparisons(torch.cat([pairs, pairs.new_tensor([[0, 4]])])),
        inference="ep",
    )
    torch.testing.assert_close(plain.weights_mean, regression.weights_mean)
    torch.testing.assert_close(plain.weights_mean[0], plain.weights_mean[2])
    torch.testing.assert_close(
        regression.log_evidence() - plain.log_evidence(),
        torch.tensor(0.5).double().log(),
        rtol=1e-4,
        atol=0,
    )


def test_few_features_of_laplace_have_no_warning() -> None:
    """Where it is near exact nothing is said; warnings are errors here."""
    model = model_of(choices_of(100, 4, 3, seed=0), inference="laplace")
    exact = on_a_grid_of_two(choices_of(100, 4, 2, seed=0))
    assert exact < 0.1
    assert model.weights_mean.shape == (3,)


def on_a_grid_of_two(items):
    """Computes the distance of Laplace's mean from the exact one, in deviations."""
    model = model_of(items, inference="laplace")
    truth = on_a_grid(items.numpy(), 1.0, half_width=4.0)
    away = model.weights_mean.detach().numpy() - truth.mean
    return float((away @ np.linalg.solve(truth.covariance, away) / 2) ** 0.5)
