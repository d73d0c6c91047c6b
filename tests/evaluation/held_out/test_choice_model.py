import pytest
import torch
from botorch.models import PairwiseGP
from torch.special import log_ndtr

from botorch_pref.datasets import ComparisonData
from botorch_pref.evaluation.held_out import choice_model
from botorch_pref.evaluation.held_out.choice_model import (
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
