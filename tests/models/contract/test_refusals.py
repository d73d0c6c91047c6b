"""Failures: models that did not converge, and arguments that mean nothing."""

import importlib
import warnings
from copy import copy, deepcopy
from typing import Any

import pytest
import torch
from botorch.models.likelihoods import pairwise as botorch_pairwise
from entries import Engine
from models.contract.duel_models import (
    NEW,
    PAIRS,
    POINTS,
    kernel,
    moments,
    uniform,
)

import botorch_pref
from botorch_pref import (
    Comparisons,
    EPPreferenceGP,
    FeedbackError,
    InferenceWarning,
    LaplacePreferenceGP,
    PairwiseProbitLikelihood,
    PrecisionError,
    SkewPreferenceGP,
    UnsupportedFeedbackError,
    Validity,
)


def test_a_model_that_did_not_converge_says_so(engine: Engine) -> None:
    # Answers nearly without noise, or utilities that are large beside it.
    likelihood = PairwiseProbitLikelihood(1e-3) if engine.boxed else None
    scale = 2.0 if engine.boxed else 1e3
    model = engine(
        POINTS, PAIRS, likelihood=likelihood, covar_module=kernel(outputscale=scale)
    )
    model.engine = engine.capped(model.engine, 1)
    message = rf"{engine.cls.__name__} did not converge: after \d+ iterations .*\d"
    with pytest.warns(InferenceWarning, match=message):
        model.train().log_evidence()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InferenceWarning)
        diagnostics = model.diagnostics()
    assert diagnostics["converged"] is False, (
        "an engine that was stopped after one iteration says that it converged"
    )
    assert diagnostics["iterations"] <= 2, (
        f"an engine that is allowed one iteration took {diagnostics['iterations']}"
    )
    assert diagnostics["residual"] > 1e-3, (
        f"one iteration left a residual of {diagnostics['residual']} only: the case is "
        "too easy"
    )


@pytest.mark.filterwarnings("ignore::botorch.exceptions.InputDataWarning")
def test_digits_that_are_gone_are_warned_of_once_for_the_same_parameters() -> None:
    """The evidence and a posterior find a solution each."""
    x = uniform(12, 2).float()
    chain = torch.stack([torch.arange(11), torch.arange(1, 12)], dim=-1)
    likelihood = PairwiseProbitLikelihood(noise=1e-7)
    model = LaplacePreferenceGP(x, chain, likelihood=likelihood)
    model.covar_module.outputscale = 100.0

    def warned() -> int:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.posterior(x[:3])
            model.log_evidence()
            model.posterior(x[:2])
        return sum("digits are gone" in str(w.message) for w in caught)

    assert warned() == 1, "warnings of the first solutions"
    assert warned() == 0, "warnings where nothing has changed"
    model.covar_module.outputscale = 120.0
    assert warned() == 1, "warnings of another output scale"
    model.set_train_data(x.flip(0))
    assert warned() == 1, "warnings of other data"


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_what_is_no_number_is_never_called_converged(
    engine: Engine, value: float
) -> None:
    names = [name for name, _ in engine(POINTS, PAIRS).named_parameters()]
    for name in names:
        model = engine(POINTS, PAIRS)
        with torch.no_grad():
            dict(model.named_parameters())[name].fill_(value)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                posterior = model.posterior(NEW)
                evidences = [model.log_evidence(), posterior.mean, posterior.variance]
                diagnostics = model.diagnostics()
            except PrecisionError:
                continue
        if not all(bool(part.isfinite().all()) for part in evidences):
            broken = f"the posterior is not finite where {name} is {value}, and"
            assert not diagnostics["converged"], f"{broken} diagnostics say converged"
            assert any(w.category is InferenceWarning for w in caught), (
                f"{broken} no InferenceWarning says so"
            )


def test_diagnostics_of_a_converged_model(engine: Engine) -> None:
    model = engine(POINTS, PAIRS)
    diagnostics = model.diagnostics()
    assert diagnostics["converged"] is True, (
        "an easy model says that it did not converge"
    )
    assert diagnostics["iterations"] >= 1
    assert 0 <= diagnostics["residual"] < 1e-5, (
        f"the residual of a converged model is {diagnostics['residual']}"
    )
    torch.testing.assert_close(
        diagnostics["log_evidence"], engine(POINTS, PAIRS).log_evidence().detach()
    )
    if engine.num_draws is not None:
        assert diagnostics["num_draws"] == engine.num_draws
        assert diagnostics["effective_sample_size"] >= engine.num_draws, (
            f"{engine.num_draws} draws count for "
            f"{diagnostics['effective_sample_size']} only"
        )
        assert diagnostics["r_hat"] < 1.05, (
            f"chains have an R-hat of {diagnostics['r_hat']}"
        )


def test_sampling_that_did_not_converge_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = importlib.import_module("botorch_pref.inference.skew.sampler")
    monkeypatch.setattr(module, "_R_HAT_TARGET", 0.5)
    model = SkewPreferenceGP(POINTS, PAIRS, num_draws=64)
    with pytest.warns(InferenceWarning, match=r"R-hat is \d.* effective .* of 64"):
        model.posterior(NEW)
    assert model.diagnostics()["converged"] is False, (
        "sampling that did not converge says that it did"
    )


def test_ties_have_a_threshold_that_is_learned_by_default(engine: Engine) -> None:
    engine.needs_boxes()
    model = engine(POINTS, Comparisons(PAIRS, ties=PAIRS[:1]))
    (raw,) = [p for n, p in model.named_parameters() if "tie_threshold" in n]
    assert raw.requires_grad, "a tie threshold is not learned by default"
    (gradient,) = torch.autograd.grad(model.log_evidence(), raw)
    assert float(gradient) != 0, (
        "the evidence has no slope in a tie threshold that is learned"
    )
    with pytest.raises(FeedbackError, match="no tie threshold; pass"):
        engine(
            POINTS,
            Comparisons(PAIRS, ties=PAIRS[:1]),
            likelihood=PairwiseProbitLikelihood(),
        )


@pytest.mark.parametrize("logit", [False, True], ids=["probit", "logit"])
def test_likelihoods_of_botorch_stand_for_ours(engine: Engine, logit: bool) -> None:
    theirs, ours = (
        getattr(module, f"Pairwise{'Logit' if logit else 'Probit'}Likelihood")
        for module in (botorch_pairwise, botorch_pref)
    )
    if not engine.cls.engine.accepts(ours.explains[Comparisons]):
        with pytest.raises(UnsupportedFeedbackError, match=r"does not take .* under"):
            engine(POINTS, PAIRS, likelihood=theirs())
        return
    expected = moments(engine(POINTS, PAIRS, likelihood=ours()).posterior(NEW))
    for likelihood in (theirs(), {Comparisons: theirs()}):
        model = engine(POINTS, PAIRS, likelihood=likelihood)
        torch.testing.assert_close(moments(model.posterior(NEW)), expected)
        assert type(model.likelihood) is ours, (
            f"BoTorch's likelihood became a {type(model.likelihood).__name__}, not "
            f"{ours.__name__}"
        )


class _OtherLikelihood(botorch_pairwise.PairwiseProbitLikelihood):
    """Might mean anything."""


def test_other_likelihoods_are_refused(engine: Engine) -> None:
    with pytest.raises(
        UnsupportedFeedbackError, match=r"_OtherLikelihood.*botorch_pref does"
    ):
        engine(POINTS, PAIRS, likelihood=_OtherLikelihood())
    with pytest.raises(UnsupportedFeedbackError, match="does not explain Validity"):
        engine(POINTS, PAIRS, likelihood={Validity: PairwiseProbitLikelihood()})


def test_feedback_that_means_nothing_is_refused(engine: Engine) -> None:
    """Containers and training sets have refusals of their own, in tests/feedback."""
    with pytest.raises(FeedbackError, match="no datapoints"):
        engine(None, PAIRS)
    with pytest.raises(FeedbackError, match="2 blocks of Comparisons"):
        engine(POINTS, PAIRS, feedback=[Comparisons(PAIRS)])
    with pytest.raises(FeedbackError, match="wrap answers in a container"):
        engine(POINTS, feedback=[PAIRS])
    with pytest.raises(FeedbackError, match=r"one Validity; pass it as feedback="):
        engine(POINTS, Validity(torch.tensor([0]), torch.tensor([True])))
    for no_sequence in (Comparisons(PAIRS), 3):
        with pytest.raises(FeedbackError, match="pass a sequence"):
            engine(POINTS, feedback=no_sequence)
    model = engine(POINTS, PAIRS)
    with pytest.raises(FeedbackError, match=r"there are 1 datapoints"):
        model.set_train_data(POINTS[:1], PAIRS)
    torch.testing.assert_close(model.train_inputs[0], POINTS)


def test_answers_of_an_iterator_are_all_heard() -> None:
    expected = moments(EPPreferenceGP(POINTS, PAIRS).posterior(NEW))
    model = EPPreferenceGP(POINTS, feedback=iter([Comparisons(PAIRS)]))
    torch.testing.assert_close(moments(model.posterior(NEW)), expected)
    model.set_train_data(feedback=iter([]))
    model.set_train_data(POINTS, PAIRS)
    assert len(model.feedback) == 1, (
        f"an iterator of one block left {len(model.feedback)} of them"
    )
    blocks = map(copy, [Comparisons(PAIRS)])
    assert len(model.condition_on_observations(POINTS, blocks).comparisons) == 12


VARIANCES = torch.tensor([[1.0], [1.0], [1.0], [0.0]], dtype=torch.float64)


@pytest.mark.parametrize("cls", [EPPreferenceGP, SkewPreferenceGP])
def test_noise_that_is_no_variance_is_refused(cls: Any) -> None:
    model = cls(POINTS, PAIRS)
    for noise in (-1.0, "yes", [1.0]):
        with pytest.raises(FeedbackError, match="observation_noise"):
            model.posterior(NEW, observation_noise=noise)
    for noise in (torch.nan * VARIANCES, torch.inf * VARIANCES, VARIANCES - 1e-9):
        with pytest.raises(FeedbackError, match="negative or not finite"):
            model.posterior(NEW, observation_noise=noise)


def test_numbers_of_draws_and_probabilities_that_cannot_be() -> None:
    for num_draws in (0, 1.5, torch.nan):
        with pytest.raises(FeedbackError, match=r"num_draws is .*(at least 1|integer)"):
            SkewPreferenceGP(POINTS, PAIRS, num_draws=num_draws)
    posterior = SkewPreferenceGP(POINTS, PAIRS, num_draws=64).posterior(NEW)
    for p in (0.0, 1.0, torch.nan):
        with pytest.raises(FeedbackError, match="strictly between 0 and 1"):
            posterior.quantile(torch.tensor([0.5, p]))


def test_what_changes_later_in_place_changes_no_prediction(engine: Engine) -> None:
    points, pairs = POINTS.clone(), PAIRS.clone()
    ties = torch.tensor([[0, 1]])
    answers = Comparisons(pairs, ties if engine.boxed else None)
    model = engine(points, answers)
    expected = moments(engine(points.clone(), answers).posterior(NEW))
    points.mul_(-1)
    pairs.copy_(pairs.flip(-1))
    ties.copy_(torch.tensor([[2, 3]]))
    torch.testing.assert_close(moments(model.posterior(NEW)), expected)
    assert torch.equal(answers.pairs, PAIRS), (
        "answers changed with the tensor that they were made of"
    )


def test_datapoints_keep_their_graph(engine: Engine) -> None:
    points = POINTS.clone().requires_grad_()
    with torch.no_grad():
        model = engine.cls(points, PAIRS, **engine.options)
    assert deepcopy(model).datapoints.requires_grad, (
        "a copy of a model has lost the graph of its datapoints"
    )
    (gradient,) = torch.autograd.grad(model.posterior(NEW).mean.sum(), points)
    assert gradient.abs().max().item() > 0, (
        "predictions have no gradient in datapoints that require one"
    )


def test_an_evidence_that_is_no_number_is_not_converged(engine: Engine) -> None:
    """Whatever the residual says."""
    model = engine(POINTS, PAIRS)
    solution = model.solution()
    assert solution.diagnostics()["converged"], "an easy model did not converge"
    broken = engine.with_evidence(solution, torch.tensor(torch.nan))
    assert broken.diagnostics()["converged"] is False, (
        "an evidence that is no number is called converged"
    )
    with pytest.warns(InferenceWarning, match=r"log evidence is \[nan\], not finite"):
        broken.warn("It")


def test_a_prior_that_is_no_number_is_named(engine: Engine) -> None:
    model = engine(POINTS, PAIRS)
    model.covar_module.base_kernel.raw_lengthscale.data.fill_(torch.nan)
    with pytest.raises(PrecisionError, match=r"prior covariance .* is not finite"):
        model.log_evidence()


def test_an_engine_that_finds_nothing_is_named(engine: Engine) -> None:
    model = engine(POINTS, PAIRS)
    idle = type("Idle", (type(model.engine),), {"solve": lambda *_args: None})
    model.engine = idle()
    with pytest.raises(TypeError, match=r"Idle\.solve returned None"):
        model.posterior(NEW)
