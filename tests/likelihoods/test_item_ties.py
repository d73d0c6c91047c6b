"""Tie thresholds of items: their factors, and evidence that moves with them."""

from dataclasses import replace

import torch
from cases import in_turn
from truths.slopes import central_slopes

from botorch_pref import (
    Comparisons,
    EPPreferenceGP,
    LaplacePreferenceGP,
    PreferenceMarginalLogLikelihood,
    RaoKupperLikelihood,
)

# The first and the last point are one item as two raters see it.
POINTS = torch.tensor([[0.2], [0.3], [0.9], [0.4]], dtype=torch.float64)
ITEMS = torch.tensor([0, 1, 2, 0])
SHIFTS = [0.3, -0.5, 0.1]
PAIRS = torch.tensor([[0, 2], [2, 1], [3, 2], [2, 0]])
TIES = torch.tensor([[2, 0], [1, 2], [1, 3]])
ANSWERS = Comparisons(
    PAIRS,
    TIES,
    pair_counts=torch.tensor([5, 2, 1, 3]),
    tie_counts=torch.tensor([4, 1, 7]),
)


def made(model_class: type = LaplacePreferenceGP, answers: Comparisons = ANSWERS):
    likelihood = RaoKupperLikelihood(0.4, items=ITEMS)
    model = model_class(POINTS, answers, likelihood=likelihood)
    likelihood.tie_shifts.data = torch.tensor(SHIFTS, dtype=torch.float64)
    return model


@in_turn("weight", [None, 0.6])
def test_each_pair_has_the_threshold_of_its_two_items(weight) -> None:
    """Also where each option is shown with a covariate."""
    f = torch.tensor([0.7, 0.2, -1.1, 0.3], dtype=torch.float64)
    moved, unknowns, answers = torch.zeros(7), f, ANSWERS
    if weight is not None:
        points = torch.linspace(-1, 1, 7, dtype=torch.float64).unsqueeze(-1)
        answers = replace(ANSWERS, covariates=points)
        moved = weight * points.squeeze(-1)
        unknowns = torch.cat([f, f.new_tensor([weight])])
    factors = made(answers=answers).factors()
    got = factors.log_prob(factors.rows.apply(unknowns)).value.sum()
    want = torch.zeros(())
    for answered, counts, is_tie, raters in (
        (PAIRS, ANSWERS.pair_counts, False, moved[:4]),
        (TIES, ANSWERS.tie_counts, True, moved[4:]),
    ):
        columns = zip(answered.tolist(), counts.tolist(), raters, strict=True)
        for (a, b), count, further in columns:
            shift = SHIFTS[int(ITEMS[a])] + SHIFTS[int(ITEMS[b])]
            threshold = 0.4 * torch.tensor(shift).double().exp()
            gap = f[a] - f[b] + further
            win = torch.sigmoid(gap - threshold)
            p = torch.sigmoid(gap + threshold) - win if is_tie else win
            want = want + count * p.log()
    torch.testing.assert_close(got, want)


@in_turn("model_class", [EPPreferenceGP, LaplacePreferenceGP])
def test_evidence_moves_with_the_shifts_as_finite_differences_say(model_class) -> None:
    model = made(model_class)
    shifts = model.likelihood.tie_shifts
    (got,) = torch.autograd.grad(model.log_evidence(), shifts)
    want = central_slopes(model.log_evidence, shifts, 1e-4)
    torch.testing.assert_close(got, want, rtol=2e-5, atol=5e-6)


def test_the_objective_has_one_evidence_and_a_prior_of_each_shift() -> None:
    """Not an evidence for each item, beside which their priors would say nothing."""
    model = made()
    objective = PreferenceMarginalLogLikelihood(model.likelihood, model)
    shifts = model.likelihood.tie_shifts
    got = torch.autograd.grad(objective.log_posterior(), shifts)[0]
    (of_evidence,) = torch.autograd.grad(model.log_evidence(), shifts)
    (prior,) = (p for name, _, p, *_ in model.named_priors() if "tie_shifts" in name)
    of_prior = -(shifts.detach() - prior.loc) / prior.scale**2
    torch.testing.assert_close(got, of_evidence + of_prior)


def test_improbable_ties_keep_their_digits() -> None:
    """By mpmath; the ends are those of a duel that one item is all but sure to win."""
    likelihood = RaoKupperLikelihood(torch.tensor(0.3, dtype=torch.float64))
    mean = torch.tensor([5.0, -45.0, 60.0], dtype=torch.float64)
    variance = torch.tensor([1.0, 0.5, 4.0], dtype=torch.float64)
    truth = torch.tensor([6.3835203e-3, 2.2385571e-20, 3.9406357e-26]).to(mean)
    probability = likelihood.tie_probability(mean, variance)
    torch.testing.assert_close(probability, truth, rtol=1e-6, atol=0.0)
