"""Posteriors and probabilities of duels."""

import pytest
import torch
from entries import Engine
from models.contract.duel_models import (
    DOUBLE,
    NEW,
    PAIRS,
    POINTS,
    VALID,
    kernel,
    mixed,
    moments,
    number,
    uniform,
)

from botorch_pref import (
    PairwiseLogitLikelihood,
    PairwiseProbitLikelihood,
    UnsupportedFeedbackError,
)


def test_duel_posterior_is_the_difference_of_the_joint_posterior(
    engine: Engine,
) -> None:
    model = mixed(engine)
    x, one, each = NEW[:2], NEW[3:], uniform(2, 2, seed=7)
    for reference, sign in (
        (one, torch.tensor([[1, 0, -1], [0, 1, -1]])),
        (each, torch.tensor([[1, 0, -1, 0], [0, 1, 0, -1]])),
    ):
        mean, covariance = moments(model.posterior(torch.cat([x, reference])))
        contrast = sign.to(mean)
        duel = model.duel_posterior(x, reference)
        torch.testing.assert_close(duel.mean.squeeze(-1), contrast @ mean)
        expected = contrast @ covariance @ contrast.T
        torch.testing.assert_close(duel.covariance_matrix, expected)
        # A t-batch of the same gives the same.
        batch = model.duel_posterior(x.expand(3, 2, 2), reference)
        torch.testing.assert_close(batch.covariance_matrix[1], expected)


def test_a_point_differs_from_itself_by_nothing(engine: Engine) -> None:
    model = engine(POINTS, PAIRS)
    half = torch.full((4,), 0.5, dtype=DOUBLE)
    torch.testing.assert_close(model.duel_probability(NEW, NEW), half)
    noisy = model.duel_probability(NEW, NEW, observation_noise=True)
    torch.testing.assert_close(noisy, half)
    duel = model.duel_posterior(NEW, NEW[1:2])
    samples = duel.rsample(torch.Size([3]))
    assert number(samples[:, 1].abs().max()) < 1e-7
    both = model.posterior(NEW[[0, 1, 0]]).rsample(torch.Size([3]))
    torch.testing.assert_close(both[:, 0], both[:, 2])


@pytest.mark.parametrize("logit", [False, True], ids=["probit", "logit"])
def test_duel_probabilities_are_those_of_samples(engine: Engine, logit: bool) -> None:
    if logit and not engine.logit:
        pytest.skip("The engine does not take this likelihood.")
    if not logit:
        engine.needs_boxes()
    likelihood = PairwiseLogitLikelihood() if logit else PairwiseProbitLikelihood(0.3)
    model = engine(POINTS, PAIRS, likelihood=likelihood, covar_module=kernel())
    first, second = NEW[:3], NEW[3:]
    count = 40_000
    with torch.random.fork_rng():
        torch.manual_seed(0)
        samples = model.posterior(NEW).rsample(torch.Size([count])).squeeze(-1)
    difference = samples[:, :3] - samples[:, 3:]
    for noise, per_sample in (
        (False, (difference > 0).double()),
        (True, likelihood(difference).probs.detach()),
    ):
        win = model.duel_probability(first, second, observation_noise=noise)
        loss = model.duel_probability(second, first, observation_noise=noise)
        torch.testing.assert_close(win + loss, torch.ones_like(win))
        standard_error = per_sample.std(0) / count**0.5
        assert bool(((win - per_sample.mean(0)).abs() < 5 * standard_error).all())
    # The batch of all pairs, and a single reference.
    grid = model.duel_probability(NEW.unsqueeze(1), NEW)
    torch.testing.assert_close(grid + grid.T, torch.ones_like(grid))
    torch.testing.assert_close(
        grid[:3, 3:], model.duel_probability(first, second).unsqueeze(-1)
    )


def test_ties_take_probability_from_wins(engine: Engine) -> None:
    engine.needs_boxes()
    model = mixed(engine)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        samples = model.posterior(NEW[:2]).rsample(torch.Size([40_000])).squeeze(-1)
    difference = samples[:, 0] - samples[:, 1]
    win, loss = (
        model.duel_probability(a, b, observation_noise=True)
        for a, b in ((NEW[:1], NEW[1:2]), (NEW[1:2], NEW[:1]))
    )
    scale = (2 * 0.3) ** 0.5
    for probability, sign in ((win, 1), (loss, -1)):
        expected = torch.special.ndtr((sign * difference - 0.5) / scale)
        error = (probability - expected.mean()).abs()
        assert number(error) < 5 * number(expected.std()) / 200
    assert number(win + loss) < 1


def test_a_model_of_validity_alone_has_no_answers_to_duels(engine: Engine) -> None:
    engine.needs_boxes()
    model = engine(POINTS, feedback=[VALID])
    assert model.duel_probability(NEW[:1], NEW[1:2]).shape == (1,)
    with pytest.raises(UnsupportedFeedbackError, match=r"likelihood=.*Comparisons"):
        model.duel_probability(NEW[:1], NEW[1:2], observation_noise=True)
    with pytest.raises(UnsupportedFeedbackError, match=r"likelihood=.*Comparisons"):
        model.condition_on_observations(NEW, torch.tensor([[0, 1]]))
