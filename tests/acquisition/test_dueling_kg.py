"""Knowledge gradient of a duel: quadrature, models that know the answer, and bounds."""

import math

import pytest
import torch
from botorch.models import PairwiseGP, SingleTaskGP
from botorch.models.model import Model
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from botorch_pref.acquisition import DuelingEUBO, DuelingKG
from botorch_pref.errors import FeedbackError, UnsupportedFeedbackError
from botorch_pref.likelihoods.links.duel_link import DuelLink
from botorch_pref.likelihoods.links.logit_link import LogitLink
from botorch_pref.likelihoods.links.probit_link import ProbitLink
from botorch_pref.models import EPPreferenceGP, SkewPreferenceGP

X_REF = torch.tensor([[0.4, 0.6]], dtype=torch.double)
ONE = torch.tensor([[1.0, -2.0]], dtype=torch.double)
SEVERAL = torch.tensor([[1.0, -2.0], [4.0, 1.0], [-3.0, 0.5]], dtype=torch.double)
LINKS = [ProbitLink(0.25), LogitLink()]


def points(*shape: int, seed: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, 2, generator=generator, dtype=torch.double)


def knowledge(
    link: DuelLink, centers: Tensor, scale: float, pair: Tensor, choices: Tensor
) -> float:
    """By quadrature over u: ``E[f(x) | u]`` is linear in it, component by component."""
    candidates = torch.cat([choices, pair])
    step = pair[0] - pair[1]
    variance = scale**2 * float(step.square().sum())
    total = {1.0: 0.0, -1.0: 0.0}
    for center in centers:
        mean = float(center @ step)
        u = torch.linspace(-9, 9, 4001, dtype=torch.double) * math.sqrt(variance) + mean
        weight = torch.exp(-0.5 * (u - mean).square() / variance)
        weight = weight / weight.sum()
        slope = scale**2 * (candidates @ step) / variance
        utility = candidates @ center + slope * (u - mean).unsqueeze(-1)
        for sign in total:
            p = link.win_probability(sign * u, torch.zeros_like(u))
            total[sign] = total[sign] + (weight * p) @ utility / len(centers)
    now = (choices @ centers.mean(0)).amax()
    return float(total[1.0].amax() + total[-1.0].amax() - now)


@pytest.mark.parametrize("centers", [ONE, SEVERAL], ids=["Gaussian", "mixture"])
@pytest.mark.parametrize("link", LINKS, ids=["probit", "logit"])
@pytest.mark.parametrize("scale", [0.3, 3.0])
def test_against_quadrature(
    centers: Tensor, link: DuelLink, scale: float, linear_utility
) -> None:
    # Around the origin, where no point is the best whatever is answered.
    X, choices = points(8, 2) - 0.5, points(4, seed=5) - 0.5
    model = linear_utility(centers, scale)
    values = DuelingKG(model, choices=choices, link=link)(X)
    for pair, value in zip(X, values, strict=True):
        truth = knowledge(link, centers, scale, pair, choices)
        assert float(value) == pytest.approx(truth, abs=1e-9)
    assert float(values.max()) > 1e-3


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
                heard = torch.cat([comparisons, torch.tensor([answer])])
                known = answered(EPPreferenceGP, every, heard)
                truth += probability * float(known.posterior(every).mean.amax())
            value = float(DuelingKG(model)(pair))
        assert value == pytest.approx(truth, abs=0.01)


def test_skew_posterior_against_sampling(skew_model: SkewPreferenceGP) -> None:
    generator = torch.Generator().manual_seed(1)
    count, choices = 200_000, points(4, seed=12)
    for pair in points(3, 2, seed=11):
        posterior = skew_model.posterior(torch.cat([pair, choices]))
        means = posterior.component_means.detach()
        root = torch.linalg.cholesky(posterior.component_covariance.detach())
        component = torch.randint(len(means), (count,), generator=generator)
        normal = torch.randn(count, 6, generator=generator, dtype=torch.double)
        f = means[component] + normal @ root.mT
        now = means.mean(0)[2:].argmax() + 2
        # Gains on the choice that is the best now, as the answer is a win or a loss.
        gain = f - f[:, now : now + 1]
        link = ProbitLink(float(skew_model.likelihood.noise))
        u = f[:, 0] - f[:, 1]
        parts = [
            gain * link.win_probability(sign * u, torch.zeros_like(u)).unsqueeze(-1)
            for sign in (1, -1)
        ]
        truth = sum(float(part.mean(0).amax()) for part in parts)
        error = sum(float(part.std(0).amax()) for part in parts) / math.sqrt(count)
        value = float(DuelingKG(skew_model, choices=choices)(pair).detach())
        assert value == pytest.approx(truth, abs=4 * error)


@pytest.mark.parametrize("centers", [ONE, SEVERAL], ids=["Gaussian", "mixture"])
def test_without_noise_it_is_eubo_less_the_best_mean(
    centers: Tensor, linear_utility
) -> None:
    """Of the choices that are the pair itself: the winner is what one would choose."""
    model = linear_utility(centers, 2.0)
    for pair in points(6, 2):
        best = DuelingEUBO(model)(pair) - model.posterior(pair).mean.amax()
        ours = DuelingKG(model, choices=pair, link=ProbitLink(1e-18))(pair)
        torch.testing.assert_close(ours, best, rtol=1e-8, atol=1e-9)


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


def test_noise_of_the_answers_hides_knowledge(linear_utility) -> None:
    """Blackwell's order: a noisier answer is one that was made worse by chance."""
    model, X = linear_utility(ONE, 2.0), points(20, 2) - 0.5
    choices = points(3, seed=5) - 0.5
    values = [
        DuelingKG(model, choices=choices, link=ProbitLink(noise))(X)
        for noise in (0.01, 0.1, 1.0, 10.0)
    ]
    for less, more in zip(values[1:], values[:-1], strict=True):
        assert bool((less <= more + 1e-12).all())
    assert bool((values[3] < values[0]).any())


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


def test_what_is_missing_is_named() -> None:
    with pytest.raises(FeedbackError, match="observed points"):
        DuelingKG(PairwiseGP(None, None), link=ProbitLink(0.5))
    X = points(3)
    model = SingleTaskGP(X, (6 * X).sin().sum(-1, keepdim=True))
    with pytest.raises(UnsupportedFeedbackError, match="link=ProbitLink"):
        DuelingKG(model)
    assert bool((DuelingKG(model, link=ProbitLink(0.1))(points(4, 2)) >= 0).all())
