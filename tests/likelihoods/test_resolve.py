"""Likelihoods that explain answers: defaults, sharing, and those users name."""

import copy

import pytest
import torch
from gpytorch.priors import GammaPrior

from botorch_pref import (
    AffineProbitLikelihood,
    Choices,
    Comparisons,
    EPPreferenceGP,
    LaplacePreferenceGP,
    OrdinalRatings,
    PairwiseLogitLikelihood,
    PairwiseProbitLikelihood,
    Rankings,
    UnsupportedFeedbackError,
    Validity,
)
from botorch_pref.models.answer_likelihoods import (
    DEFAULT_LIKELIHOODS,
    resolve_likelihoods,
)

POINTS = torch.linspace(0, 1, 4, dtype=torch.float64).unsqueeze(-1)
PAIRS = Comparisons(torch.tensor([[0, 1], [2, 1]]))
CHOICES = Choices(torch.tensor([[0, 1, 2]]), torch.tensor([2]))
RANKINGS = Rankings(torch.tensor([[3, 1, 0]]))
VALIDITY = Validity(torch.tensor([0]), torch.tensor([True]))
LEVELS = OrdinalRatings(torch.tensor([0, 1]), torch.tensor([1, 0]), 5)


def resolve(feedback, likelihood=None):
    return resolve_likelihoods(feedback, likelihood, DEFAULT_LIKELIHOODS)


def test_choices_and_rankings_take_the_noise_of_comparisons() -> None:
    """One likelihood for all, whatever the order of the blocks."""
    likelihood = PairwiseProbitLikelihood(0.2)
    for blocks in ([RANKINGS, CHOICES, PAIRS], [PAIRS, RANKINGS, CHOICES]):
        got = resolve(blocks, {Comparisons: likelihood})
        assert got == {
            Comparisons: likelihood,
            Choices: likelihood,
            Rankings: likelihood,
        }
        got = resolve(blocks, likelihood)
        assert got == {
            Comparisons: likelihood,
            Choices: likelihood,
            Rankings: likelihood,
        }
        shared = resolve(blocks)
        assert len(set(map(id, shared.values()))) == 1


@pytest.mark.parametrize("beside", [None, CHOICES, RANKINGS, VALIDITY])
def test_a_tie_threshold_is_learned_where_duels_tell_it(beside) -> None:
    """Learned from ties alone, or beside sets, it would grow without an end."""
    tie, blocks = torch.tensor([[0, 3]]), [beside] if beside else []
    for pairs in (PAIRS.pairs, None):
        got = resolve([Comparisons(pairs, tie), *blocks])[Comparisons]
        is_learned = pairs is not None and beside in (None, VALIDITY)
        assert got.raw_tie_threshold.requires_grad == is_learned
        assert float(got.tie_threshold.detach()) == pytest.approx(0.5)


def test_a_kind_can_have_a_noise_of_its_own() -> None:
    likelihood = PairwiseProbitLikelihood(0.7, noise_prior=GammaPrior(2.0, 2.0))
    got = resolve([PAIRS, CHOICES, RANKINGS], {Choices: likelihood})
    assert got[Choices] is likelihood
    assert got[Comparisons] is not likelihood
    # What the user did not name goes with the comparisons.
    assert got[Rankings] is got[Comparisons]


def test_a_key_that_is_no_kind_of_feedback_is_refused() -> None:
    with pytest.raises(UnsupportedFeedbackError, match="names 'Choices'"):
        resolve([CHOICES], {"Choices": PairwiseProbitLikelihood()})


def test_choices_do_not_share_with_comparisons_of_another_link() -> None:
    got = resolve([PAIRS, CHOICES], PairwiseLogitLikelihood())
    assert isinstance(got[Comparisons], PairwiseLogitLikelihood)
    assert isinstance(got[Choices], PairwiseProbitLikelihood)


def test_without_feedback_comparisons_are_still_to_come() -> None:
    assert resolve([LEVELS])[OrdinalRatings].num_levels == 5
    assert set(resolve([])) == {Comparisons}
    assert set(resolve([], AffineProbitLikelihood())) == {Comparisons, Validity}
    named = {Choices: PairwiseProbitLikelihood()}
    assert set(resolve([VALIDITY], named)) == {Validity, Choices}
    assert set(resolve([CHOICES], PairwiseProbitLikelihood())) == {Choices}


def test_what_nobody_explains_by_default_is_refused() -> None:
    with pytest.raises(UnsupportedFeedbackError, match=r"Choices.*PairwiseProbit"):
        resolve_likelihoods([CHOICES], None, {Comparisons: PairwiseProbitLikelihood})
    with pytest.raises(UnsupportedFeedbackError, match="does not explain Choices"):
        resolve([CHOICES], {Choices: PairwiseLogitLikelihood()})


def test_a_shared_likelihood_stays_one_through_copies_and_states() -> None:
    model = EPPreferenceGP(
        POINTS,
        PAIRS,
        feedback=[CHOICES],
        likelihood=PairwiseProbitLikelihood(0.5, noise_prior=GammaPrior(2.0, 2.0)),
    )
    for copied in (model, copy.deepcopy(model)):
        assert copied.likelihoods["Choices"] is copied.likelihoods["Comparisons"]
        names = [name for name, _ in copied.named_parameters() if "raw_noise" in name]
        assert len(names) == 1
    loaded = EPPreferenceGP(
        POINTS, PAIRS, feedback=[CHOICES], likelihood=PairwiseProbitLikelihood(0.1)
    )
    loaded.load_state_dict(model.state_dict(), strict=False)
    assert float(loaded.likelihoods["Choices"].noise) == pytest.approx(0.5, rel=1e-6)


def test_a_likelihood_that_explains_nothing_given_is_refused() -> None:
    with pytest.raises(UnsupportedFeedbackError, match=r"none.*Comparisons.*Validity:"):
        resolve([PAIRS], AffineProbitLikelihood())
    with pytest.raises(UnsupportedFeedbackError, match=r"PairwiseLogit.*OrdinalRat"):
        resolve([LEVELS, VALIDITY], PairwiseLogitLikelihood())


def test_duels_after_rankings_are_heard_with_the_same_noise() -> None:
    """Whether they were there from the start or come later."""
    rankings = EPPreferenceGP(
        POINTS,
        feedback=[RANKINGS],
        likelihood={Rankings: PairwiseProbitLikelihood(0.3)},
    )
    later = rankings.condition_on_observations(POINTS[:2], torch.tensor([[0, 1]]))
    joint = EPPreferenceGP(
        torch.cat([POINTS, POINTS[:2]]),
        torch.tensor([[4, 5]]),
        feedback=[RANKINGS],
        likelihood=PairwiseProbitLikelihood(0.3),
    )
    got, want = later.posterior(POINTS), joint.posterior(POINTS)
    torch.testing.assert_close(got.mean, want.mean)
    torch.testing.assert_close(got.variance, want.variance)
    answered = later.duel_probability(POINTS[:1], POINTS[1:2], observation_noise=True)
    expected = joint.duel_probability(POINTS[:1], POINTS[1:2], observation_noise=True)
    torch.testing.assert_close(answered, expected)


def test_what_the_engine_does_not_take_is_not_borrowed() -> None:
    duels = LaplacePreferenceGP(POINTS, PAIRS)
    with pytest.raises(UnsupportedFeedbackError, match="no likelihood for Rankings"):
        duels.set_train_data(feedback=[RANKINGS])
