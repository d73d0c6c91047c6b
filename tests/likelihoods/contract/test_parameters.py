"""Parameters of likelihoods: gradients, constraints, priors, batches."""

import itertools
import math

import mpmath as mp
import pytest
import torch
from gpytorch.priors import GammaPrior, LogNormalPrior
from registry import CASES, ENTRIES, TIE
from truths.answer_probabilities import number

from botorch_pref.errors import FeedbackError, UnsupportedFeedbackError
from botorch_pref.feedback import Comparisons
from botorch_pref.likelihoods import (
    AffineProbitLikelihood,
    PairwiseLogitLikelihood,
    PairwiseProbitLikelihood,
    RaoKupperLikelihood,
)


def parameter_cases(cases):
    return [
        pytest.param(case, name, id=f"{label}: {name}")
        for label, case in cases.items()
        for name in case.parameters
    ]


@pytest.mark.parametrize(("case", "name"), parameter_cases(CASES))
def test_gradient_in_parameters(case, name) -> None:
    likelihood = case.build()
    raw = getattr(likelihood, f"raw_{name}").requires_grad_()
    value = number(getattr(likelihood, name))
    factors = likelihood.factors(case.feedback, 3)
    # d natural / d raw of the softplus constraint.
    slope = -math.expm1(-value)
    points = itertools.product(
        (-800.0, -3.0, 0.1, 2.0, 800.0), (("log_prob", 0.0), ("log_partition", 0.8))
    )
    for z, (quantity, variance) in points:
        if variance and "noise" not in case.parameters:
            # Its partition has no closed form; tests of engines have its gradient.
            continue
        mean = torch.tensor([z], dtype=torch.float64)
        arguments = (
            (mean,) if quantity == "log_prob" else (mean, mean.new_tensor([0.8]))
        )
        (got,) = torch.autograd.grad(
            getattr(factors, quantity)(*arguments).value.sum(), raw, retain_graph=True
        )
        # A box under N(z, s): noise and cavity variances add, whatever the parameter.
        share = variance / case.items

        def shifted(x, z=z, share=share):
            changes = {k: mp.mpf(v) for k, v in case.parameters.items()}
            changes[name] = x
            if share:
                changes["noise"] += share
            return mp.log(case.truth(mp.mpf(z), **changes))

        want = float(mp.diff(shifted, mp.mpf(value))) * slope
        assert number(got) == pytest.approx(want, rel=1e-9, abs=1e-9), (
            f"the derivative of {quantity} in {name} at z = {z} is not the truth's"
        )


@pytest.mark.parametrize(("case", "name"), parameter_cases(ENTRIES))
def test_parameters_are_set_read_and_kept_positive(case, name) -> None:
    likelihood = case.build()
    assert number(getattr(likelihood, name)) == pytest.approx(
        case.parameters[name], rel=1e-6
    )
    for value in (1e-4, 0.5, 30.0, torch.tensor(2.0)):
        setattr(likelihood, name, value)
        assert number(getattr(likelihood, name)) == pytest.approx(
            float(value), rel=1e-6
        )
    likelihood.initialize(**{name: 0.25})
    assert number(getattr(likelihood, name)) == pytest.approx(0.25, rel=1e-6)
    for value in (0.0, -1.0, math.nan, math.inf):
        message = f"{name} must be positive and finite"
        with pytest.raises(FeedbackError, match=message):
            setattr(likelihood, name, value)
        with pytest.raises(FeedbackError, match=message):
            case.build(**{name: value})
    assert number(getattr(likelihood, name)) == pytest.approx(0.25, rel=1e-6)


@pytest.mark.parametrize(("case", "name"), parameter_cases(ENTRIES))
def test_priors_see_the_natural_value_and_make_it_learned(case, name) -> None:
    prior = GammaPrior(2.0, 3.0)
    likelihood = case.build(**{f"{name}_prior": prior})
    assert getattr(likelihood, f"raw_{name}").requires_grad, (
        f"{name} has a prior and is not learned"
    )
    # Others may have a prior by default.
    entries = [entry for entry in likelihood.named_priors() if entry[2] is prior]
    ((_, module, _, closure, setting),) = entries
    assert torch.equal(closure(module), getattr(likelihood, name)), (
        f"the prior of {name} does not see its natural value"
    )
    setting(module, torch.tensor(0.4))
    assert number(getattr(likelihood, name)) == pytest.approx(0.4, rel=1e-6)


def test_what_is_learned_by_default() -> None:
    probit = PairwiseProbitLikelihood(tie_threshold=0.1)
    assert not probit.raw_noise.requires_grad, (
        "the noise of a probit is learned by default"
    )
    assert probit.raw_tie_threshold.requires_grad, (
        "a tie threshold is not learned by default"
    )
    assert not AffineProbitLikelihood().raw_noise.requires_grad, (
        "the noise of validity is learned by default"
    )
    assert not list(PairwiseLogitLikelihood().parameters()), "a logit has parameters"


def test_thresholds_that_cannot_mean_anything_are_refused() -> None:
    with pytest.raises(FeedbackError, match="pass its initial value"):
        PairwiseProbitLikelihood(tie_threshold_prior=LogNormalPrior(0.0, 1.0))
    with pytest.raises(FeedbackError, match="construct it with tie_threshold"):
        PairwiseProbitLikelihood().tie_threshold = 0.3
    with pytest.raises(FeedbackError, match="no tie threshold; pass"):
        PairwiseProbitLikelihood().factors(TIE, 3)
    with pytest.raises(FeedbackError, match="give the number of each datapoint's item"):
        RaoKupperLikelihood(items=torch.tensor([0.5, 1.0]))
    with pytest.raises(FeedbackError, match=r"items of 2 datapoints, and .* about 3"):
        RaoKupperLikelihood(items=torch.tensor([0, 1])).factors(TIE, 3)
    with pytest.raises(UnsupportedFeedbackError, match=r"RaoKupper.*EPPreferenceGP"):
        PairwiseLogitLikelihood().factors(TIE, 3)


def test_batches_of_parameters_and_answers_equal_their_elements() -> None:
    noises, thresholds = torch.tensor([0.2, 0.9]).double(), torch.tensor([0.1, 0.4])
    pairs = torch.tensor([[[0, 1], [2, 1]], [[1, 0], [0, 2]]])
    ties = torch.tensor([[1, 2]])
    utilities = torch.tensor([[0.3, -0.2, 1.0], [1.0, 0.0, -1.0]], dtype=torch.float64)
    for noise, threshold in (
        (noises, 0.3),
        (0.5, thresholds),
        (noises, thresholds),
        (0.5, 0.3),
    ):
        module = PairwiseProbitLikelihood(noise, threshold).double()
        factors = module.factors(Comparisons(pairs, ties), 3)
        together = factors.log_prob(factors.rows.apply(utilities)).value
        for i in range(2):
            element_likelihood = PairwiseProbitLikelihood(
                *(
                    float(torch.as_tensor(p).expand(2)[i].to(torch.float32))
                    for p in (noise, threshold)
                )
            ).double()
            single = element_likelihood.factors(Comparisons(pairs[i], ties), 3)
            torch.testing.assert_close(
                together[i], single.log_prob(single.rows.apply(utilities[i])).value,
                rtol=1e-6, atol=1e-6,
            )  # fmt: skip
