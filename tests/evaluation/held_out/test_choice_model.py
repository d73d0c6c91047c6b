import pytest
import torch
from botorch.models import PairwiseGP
from torch.special import log_ndtr

from botorch_pref.datasets import ComparisonData
from botorch_pref.errors import FeedbackError
from botorch_pref.evaluation import held_out as choice_model
from botorch_pref.evaluation.held_out import (
    bradley_terry,
    cross_validate,
    fit_pairwise_gp,
    fit_preference_gp,
    predict_with,
)
from botorch_pref.models import EPPreferenceGP, LaplacePreferenceGP


def choices(m: int = 40) -> ComparisonData:
    """Answers of a noisy judge who likes the first feature and ignores the second."""
    generator = torch.Generator().manual_seed(0)
    items = torch.rand(m, 2, 2, generator=generator).double()
    items = items * torch.tensor([50.0, 0.1]) + torch.tensor([10.0, 3.0])
    noise = 5 * torch.randn(m, 2, generator=generator)
    order = (items[..., 0] + noise).argsort(dim=-1, descending=True)
    items = items.gather(1, order[..., None].expand(-1, -1, 2))
    return ComparisonData.from_pairs(items[:, 0], items[:, 1], ("size", "colour"))


@pytest.mark.parametrize("model_class", [EPPreferenceGP, LaplacePreferenceGP])
def test_our_models_learn_the_preference(model_class: type) -> None:
    fit = lambda train: fit_preference_gp(  # noqa: E731
        model_class, train, torch.Generator().manual_seed(1)
    )
    large, small = torch.tensor([[55.0, 3.05], [15.0, 3.0]]).double()[:, None]
    won = predict_with(fit)(choices(), large, small)
    lost = predict_with(fit)(choices(), small, large)
    assert won.exp() > 0.9
    assert torch.allclose(won.exp() + lost.exp(), torch.ones(1).double())


def test_the_posterior_uses_more_answers_than_learning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(choice_model, "MAX_LEARN", 10)
    data = choices()
    model = fit_preference_gp(EPPreferenceGP, data, torch.Generator().manual_seed(1))
    assert model.comparisons is not None
    assert len(model.comparisons) == len(data)
    scale = model.covar_module.outputscale.item()
    default = EPPreferenceGP().covar_module.outputscale.item()
    assert scale != pytest.approx(default)


def test_pairwise_gp_answers_by_its_own_likelihood() -> None:
    data = choices(15)
    fitted: list[PairwiseGP] = []

    def fit(train: ComparisonData) -> PairwiseGP:
        fitted.append(fit_pairwise_gp(train))
        return fitted[0]

    first, second = data.winners[:3] + 0.5, data.losers[:3]
    log_probability = predict_with(fit)(data, first, second)
    for row in range(3):
        posterior = fitted[0].posterior(torch.stack([first[row], second[row]]))
        draws = posterior.rsample(torch.Size([20_000])).squeeze(-1).detach()
        each = log_ndtr((draws[:, 0] - draws[:, 1]) / 2**0.5).exp()
        error = 4 * float(each.std()) / 20_000**0.5
        assert abs(float(log_probability[row].exp() - each.mean())) < error


def test_ties_are_learned_from_and_not_scored() -> None:
    data = choices()
    apart = (data.winners - data.losers)[:, 0].abs()
    tie = apart < apart.median()
    tied = ComparisonData.from_pairs(
        data.winners, data.losers, data.feature_names, tie=tie
    )
    assert torch.equal(tied.decided, ~tie)
    generator = torch.Generator().manual_seed(1)
    model = fit_preference_gp(EPPreferenceGP, tied, generator)
    either = sum(
        model.duel_probability(*pair, observation_noise=True)
        for pair in ((tied.winners, tied.losers), (tied.losers, tied.winners))
    )
    # Half of the answers were ties, and what is left is their probability.
    assert (either[tie] < 0.9).all()
    fit = lambda train: model  # noqa: E731
    first, second = tied.winners, tied.losers
    won = predict_with(fit)(tied, first, second).exp()
    lost = predict_with(fit)(tied, second, first).exp()
    # Given that one of them wins, one of them does.
    assert torch.allclose(won + lost, torch.ones(len(tied)).double())
    folds = torch.arange(len(tied)) % 2
    rows = [(folds != fold).nonzero()[:, 0] for fold in range(2)]
    score = cross_validate(tied, folds, bradley_terry, rows)
    without = tied.subset(tied.decided)
    decided = [(folds[~tie] != fold).nonzero()[:, 0] for fold in range(2)]
    expected = cross_validate(without, folds[~tie], bradley_terry, decided)
    assert torch.allclose(score.log_probability, expected.log_probability)
    every = ComparisonData.from_pairs(
        data.winners, data.losers, data.feature_names, tie=tie | ~tie
    )
    with pytest.raises(FeedbackError, match="every answer is a tie"):
        cross_validate(every, folds, bradley_terry, rows)
