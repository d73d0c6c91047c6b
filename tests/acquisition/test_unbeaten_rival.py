"""Options that nobody beat, and that a model holds for worse than the best."""

import pytest
import torch
from torch import Tensor

from botorch_pref import (
    Choices,
    Comparisons,
    EPPreferenceGP,
    LineChoices,
    Rankings,
    Validity,
    default_model,
    incumbent,
    next_question,
)
from botorch_pref.acquisition.design_space import DesignSpace
from botorch_pref.acquisition.unbeaten_rival import (
    _winners_and_losers,
    unbeaten_rival,
)
from botorch_pref.models import FullyBayesianEPPreferenceGP, GroupUtility

CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
SPACE = DesignSpace.from_bounds(CUBE)
NONE_WAIT = torch.empty(0, 2, dtype=torch.float64)
SMALLEST = torch.full((2,), 0.01, dtype=torch.float64)
HIGH = torch.tensor([0.1, 0.9], dtype=torch.float64)
"""Top of a narrow hump among poor designs, of which one option was shown: row 0."""


def shown() -> Tensor:
    """Lists the options of six questions: three beside the hump, others elsewhere."""
    generator = torch.Generator().manual_seed(2)
    poor = HIGH + 0.12 * torch.randn(3, 2, generator=generator, dtype=torch.float64)
    wide = torch.rand(20, 2, generator=generator, dtype=torch.float64)
    wide = wide * torch.tensor([0.6, 0.6]) + torch.tensor([0.4, 0.0])
    return torch.cat([HIGH.unsqueeze(0), poor.clamp(0, 1), wide])


def utility(X: Tensor) -> Tensor:
    """Evaluates a narrow hump at `HIGH`, and a wide one that is lower."""
    narrow = (-(X - HIGH).square().sum(-1) / (2 * 0.02**2)).exp()
    centre = torch.tensor([0.8, 0.2], dtype=torch.float64)
    wide = 0.75 * (-(X - centre).square().sum(-1) / (2 * 0.3**2)).exp()
    return torch.maximum(narrow, wide)


def ranked() -> Tensor:
    """Ranks the options of the questions, four each, as somebody does without error."""
    places = torch.arange(24).view(6, 4)
    order = utility(shown())[places].argsort(dim=-1, descending=True)
    return places.gather(-1, order)


@pytest.fixture(scope="module")
def model() -> EPPreferenceGP:
    """Knows the answers, and takes the hump's win among poor options for little."""
    model = default_model(shown(), Rankings(ranked()))
    assert isinstance(model, EPPreferenceGP)
    return model


def test_what_was_never_beaten_meets_the_best(model: EPPreferenceGP) -> None:
    X, best = shown(), incumbent(model)
    rival = unbeaten_rival(model, SPACE, best, NONE_WAIT, SMALLEST)
    winners = ranked()[:, 0]
    losers = ranked()[:, 1:].flatten()
    unbeaten = [i for i in winners.tolist() if i not in losers.tolist()]
    with torch.no_grad():
        chance = model.duel_probability(X[unbeaten], best)
    assert 0 in unbeaten
    assert float(chance.min()) < 0.25, "the model believes in all unbeaten options"
    expected = X[unbeaten[int(chance.argmin())]]
    assert torch.equal(rival, expected.unsqueeze(0))


def test_a_search_that_asks_finds_the_narrow_hump(model: EPPreferenceGP) -> None:
    """Somebody who answers is shown the hump's option again; the model learns of it."""
    X, orders, current = shown(), ranked(), model
    assert float(utility(incumbent(current))) < 0.76, "the model knows it already"
    for _ in range(4):
        options = next_question(current, CUBE, 4).options
        order = len(X) + utility(options).argsort(descending=True)
        X, orders = torch.cat([X, options]), torch.cat([orders, order.unsqueeze(0)])
        learned = default_model(X, Rankings(orders))
        assert isinstance(learned, EPPreferenceGP)
        current = learned
    found = float(utility(incumbent(current)))
    assert found > 0.76, f"the incumbent is worth {found}, the option shown first 1"


def test_what_lost_an_answer_is_no_rival(model: EPPreferenceGP) -> None:
    """Whatever the answer: a choice, a duel, a failure, a line; a copy counts too."""
    best = incumbent(model)
    # No other option may be a rival.
    waiting = shown()[1:]
    rival = unbeaten_rival(model, SPACE, best, waiting, SMALLEST)
    assert torch.equal(rival, shown()[:1]), "it lost no answer yet"
    (place,) = (shown() == best).all(-1).nonzero()[0].tolist()
    X = torch.cat([shown(), shown()[:1]])
    copy = len(X) - 1
    for more in (
        Choices(torch.tensor([[place, copy, 5]]), torch.tensor([place])),
        Comparisons(torch.tensor([[place, copy]])),
        Comparisons(torch.tensor([[place, 0]])),
        Validity(torch.tensor([place, 0]), torch.tensor([True, False])),
        LineChoices(torch.tensor([[0, place]]), torch.tensor([0.8])),
        LineChoices(torch.tensor([[place, 0]]), torch.tensor([0.0])),
    ):
        learned = default_model(X, [Rankings(ranked()), more])
        rival = unbeaten_rival(learned, SPACE, incumbent(learned), waiting, SMALLEST)
        assert not len(rival), f"it lost {more}"
    stayed = LineChoices(torch.tensor([[place, 0]]), torch.tensor([1.0]))
    learned = default_model(X, [Rankings(ranked()), stayed])
    assert not bool(_winners_and_losers(learned)[1][0]), (
        "who stopped there left nothing"
    )


def test_an_option_that_the_model_believes_in_is_no_rival(
    model: EPPreferenceGP,
) -> None:
    """The search shows it by itself."""
    best = incumbent(model)
    rival = unbeaten_rival(model, SPACE, best, NONE_WAIT, SMALLEST)
    with torch.no_grad():
        chance = float(model.duel_probability(rival, best))
    for times, number in ((1.01, 1), (0.99, 0)):
        found = unbeaten_rival(
            model, SPACE, best, NONE_WAIT, SMALLEST, disbelief=times * chance
        )
        assert len(found) == number, f"disbelief is {times} times its chance"


def test_a_shorter_ranking_is_no_answer_about_another_option() -> None:
    """It is padded with -1, which is no place of an option."""
    X, orders = shown()[:8], torch.tensor([[1, 2, 3], [4, 5, -1], [7, 6, -1]])
    short = default_model(X, Rankings(orders))
    won, lost = _winners_and_losers(short)
    assert won.nonzero().flatten().tolist() == [1, 4, 7]
    assert lost.nonzero().flatten().tolist() == [2, 3, 5, 6]


def test_what_waits_or_may_not_be_shown_is_no_rival(model: EPPreferenceGP) -> None:
    best = incumbent(model)
    rival = unbeaten_rival(model, SPACE, best, NONE_WAIT, SMALLEST)
    assert len(rival), "there is a rival"
    waiting = torch.cat([rival, shown()[4:7]])
    other = unbeaten_rival(model, SPACE, best, waiting, SMALLEST)
    assert not bool((other == rival).all(-1).any()), "it waits for an answer already"
    half = DesignSpace.from_bounds(
        torch.stack([rival[0] + 0.01, torch.ones(2).double()])
    )
    outside = unbeaten_rival(model, half, best, NONE_WAIT, SMALLEST)
    assert not bool((outside == rival).all(-1).any()), "it is outside the space"


def test_what_nobody_can_tell_from_the_best_is_no_rival(model: EPPreferenceGP) -> None:
    """Nor what nobody can tell from an option that waits for an answer."""
    best = incumbent(model)
    (rival,) = unbeaten_rival(model, SPACE, best, NONE_WAIT, SMALLEST)
    gap = (rival - best.squeeze(0)).abs()
    # Two columns, in each of which they differ by a share of the smallest difference.
    for share, is_told in ((0.72, True), (0.70, False)):
        found = unbeaten_rival(model, SPACE, best, NONE_WAIT, gap / share)
        shows = bool((found == rival).all(-1).any())
        assert shows == is_told, f"differences are {share} of the smallest"
    nearby = rival + 0.5 * SMALLEST
    found = unbeaten_rival(model, SPACE, best, nearby.unsqueeze(0), SMALLEST)
    assert not bool((found == rival).all(-1).any()), "its like waits for an answer"


def test_one_rival_joins_questions_of_three_or_more(model: EPPreferenceGP) -> None:
    best = incumbent(model)
    rival = unbeaten_rival(model, SPACE, best, NONE_WAIT, SMALLEST)

    def shows_rival(size: int, **arguments: object) -> bool:
        question = next_question(model, CUBE, size, **arguments)  # type: ignore[arg-type]
        shows = bool((question.options == rival).all(-1).any())
        says = "won an answer and lost none" in question.reason
        assert shows == says, f"{question.reason} of {question.options.tolist()}"
        return shows

    assert shows_rival(3)
    assert shows_rival(4)
    assert not shows_rival(2)
    assert not shows_rival(4, best=best), "the user says what challengers meet"
    assert not shows_rival(4, beside=best), "the user says what is there"
    assert not shows_rival(4, goal="understand")


def test_an_option_that_one_rater_refuses_is_beaten() -> None:
    """Two raters answer alike; then the second one prefers another option to it."""
    X, orders = shown(), ranked()
    n = len(X)
    both, raters = torch.cat([X, X]), torch.arange(2).repeat_interleave(n)
    alike = Rankings(torch.cat([orders, n + orders]))
    group = default_model(both, alike, raters=raters)
    assert isinstance(group, GroupUtility)
    best, others = incumbent(group), X[1:]
    rival = unbeaten_rival(group, SPACE, best, others, SMALLEST)
    assert torch.equal(rival, X[:1]), "nobody preferred another option to it"
    (place,) = (best == X).all(-1).nonzero()[0].tolist()
    refusal = Comparisons(torch.tensor([[n + place, n]]))
    group = default_model(both, [alike, refusal], raters=raters)
    rival = unbeaten_rival(group, SPACE, incumbent(group), others, SMALLEST)
    assert not len(rival), "the second rater refused it"


def test_an_ensemble_believes_in_an_option_as_its_members_do_on_average() -> None:
    X = shown()
    pairs = torch.cat([ranked()[:, [0, i]] for i in (1, 2, 3)])
    single = EPPreferenceGP(X, pairs)
    ensemble = FullyBayesianEPPreferenceGP(X, pairs)
    factors = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    ensemble.load_mcmc_samples(
        {
            name: value.detach() * factors.reshape(-1, *[1] * value.dim())
            for name, value in single.named_parameters()
        }
    )
    best = incumbent(ensemble.eval())
    unbeaten = X[[i for i in ranked()[:, 0].tolist() if (X[i] != best).any()]]
    with torch.no_grad():
        chance = ensemble.duel_probability(unbeaten, best)
    assert float(chance.min()) < 0.25, "the members believe in all unbeaten options"
    rival = unbeaten_rival(ensemble, SPACE, best, NONE_WAIT, SMALLEST)
    assert torch.equal(rival, unbeaten[chance.argmin()].unsqueeze(0))
    options = next_question(ensemble, CUBE, 4).options
    for design in (best, rival):
        assert bool((options == design).all(-1).any()), f"{options} lack {design}"
