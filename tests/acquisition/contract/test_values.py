"""Values of duels by brute force, and what must not change them."""

import pytest
import torch
from acquisition.contract.closed_forms import ONE, SEVERAL, X_REF, each, points
from botorch.exceptions.errors import UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from entries import Acquisition
from scipy.special import ndtr
from torch import Tensor

from botorch_pref.errors import UnsupportedFeedbackError
from botorch_pref.likelihoods import (
    PairwiseLogitLikelihood,
    PairwiseProbitLikelihood,
    ProbitLink,
)
from botorch_pref.posteriors import SkewNormalPosterior


def probit(noise: float):
    """Makes the probability of a win, in double precision, of a noise in each item."""
    return lambda u: torch.from_numpy(ndtr((u / (2 * noise) ** 0.5).numpy()))


LINKS = {
    "probit": (lambda: PairwiseProbitLikelihood(noise=0.25), probit(0.25)),
    "logit": (PairwiseLogitLikelihood, torch.sigmoid),
}


@pytest.mark.parametrize("centers", [ONE, SEVERAL], ids=["Gaussian", "mixture"])
@pytest.mark.parametrize("scale", [0.01, 0.3, 2.0, 20.0])
@pytest.mark.parametrize("link", LINKS)
@each()
def test_against_quadrature(
    kind: Acquisition, link: str, scale: float, centers: Tensor, linear_utility
) -> None:
    likelihood, win = LINKS[link]
    model = linear_utility(centers, scale, likelihood())
    # Around the origin, where no choice is the best whatever is answered.
    X = points(6, 2) - 0.5
    values = kind(model, X[:, 1:])(X[:, :1])
    for pair, value in zip(X, values, strict=True):
        truth, error = kind.value(win, centers, scale, pair)
        assert float(value) == pytest.approx(truth, abs=error), (
            f"the value of the duel {pair.tolist()} under the {link} link is "
            f"{float(value)}, by quadrature {truth} +- {error}"
        )
    if kind.pairs:
        level = X[:, 1] @ centers.mean(0) if kind.level else 0.0
        torch.testing.assert_close(kind(model)(X) - level, values, rtol=0, atol=1e-7)
    if scale >= 0.3:
        assert float(values.abs().max()) > 1e-3, f"nothing to compare in {values}"


@each()
def test_a_level_of_utility_is_not_seen(kind: Acquisition, linear_utility) -> None:
    class Raised(linear_utility):
        def posterior(self, X: Tensor, **_: object) -> SkewNormalPosterior:
            plain = super().posterior(X)
            means = plain.component_means + 7
            return SkewNormalPosterior(means, plain.component_covariance)

    X, likelihood = points(6, 2), PairwiseProbitLikelihood(noise=0.25)
    plain, raised = (c(SEVERAL, 0.5, likelihood) for c in (linear_utility, Raised))
    against = [kind(m, X_REF)(X[:, :1]) for m in (plain, raised)]
    torch.testing.assert_close(*against)
    if kind.pairs:
        expected = kind(plain)(X) + (7 if kind.level else 0)
        torch.testing.assert_close(kind(raised)(X), expected)


@each()
def test_a_point_against_itself(kind: Acquisition, model: Model) -> None:
    X = X_REF.clone().unsqueeze(0).requires_grad_()
    value = kind(model, X_REF)(X)
    (gradient,) = torch.autograd.grad(value.sum(), X)
    assert bool(gradient.isfinite().all()), (
        f"the gradient of a point against itself is {gradient.tolist()}"
    )
    expected = kind.itself
    if "choices" in kind.options:
        # The point may be better than they are.
        choices = model.posterior(kind.options["choices"]).mean.amax()
        gain = model.posterior(X_REF).mean - choices
        expected = float(gain.detach().clamp_min(0.0))
    # PairwiseGP adds 1e-6 output scales to its diagonal: bits gain as much, and
    # utilities the deviation of it, twice.
    allowed = 2e-2 if kind.power else 1e-5
    assert float(value.detach()) == pytest.approx(expected, abs=allowed), (
        f"a point against itself is worth {float(value.detach())}, not {expected} +- "
        f"{allowed}"
    )


@each(linked=True)
def test_the_noise_is_the_likelihoods(kind: Acquisition, linear_utility) -> None:
    """Also after it has changed."""
    X = points(6, 1)
    likelihood = PairwiseProbitLikelihood(noise=0.3)
    acquisition = kind(linear_utility(ONE, 1.0, likelihood), X_REF)
    for noise in (0.3, 2.0):
        likelihood.noise = noise
        linked = kind(linear_utility(ONE), X_REF, link=ProbitLink(noise))
        torch.testing.assert_close(acquisition(X), linked(X))


@each(linked=True)
def test_an_unknown_likelihood_needs_a_link(kind: Acquisition) -> None:
    X = points(3)
    model = SingleTaskGP(X, (6 * X).sin().sum(-1, keepdim=True))
    with pytest.raises(UnsupportedFeedbackError, match="a ProbitLink or LogitLink"):
        kind(model, X_REF)
    value = kind(model, X_REF, link=ProbitLink(0.1))(points(4, 1))
    assert bool(value.isfinite().all()), (
        f"with a link of its own the value is {value.tolist()}"
    )


@each(pairs=True)
def test_a_point_without_an_opponent_is_worth_its_utility_or_refused(
    kind: Acquisition, model: Model
) -> None:
    X = points(4, 1)
    if kind.level:
        expected = model.posterior(X).mean.flatten()
        torch.testing.assert_close(kind(model)(X), expected)
        return
    with pytest.raises(UnsupportedError, match="two points to compare"):
        kind(model)(X)


@each()
def test_nothing_is_sampled(kind: Acquisition, model: Model) -> None:
    cases = [(kind(model, X_REF), points(6, 1))]
    if kind.pairs:
        cases.append((kind(model), points(6, 2)))
    for acquisition, X in cases:
        value, state = acquisition(X), torch.get_rng_state()
        assert torch.equal(acquisition(X), value), (
            "the same points have another value the second time"
        )
        assert torch.equal(torch.get_rng_state(), state), (
            "a value has drawn from torch's global generator"
        )
        torch.testing.assert_close(acquisition(X[2:4]), value[2:4])
