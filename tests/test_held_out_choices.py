"""Predictors of held-out choices, as the command line scores them, and folds."""

import itertools
import math

import pytest
import torch
from botorch.models import PairwiseGP
from torch.special import log_ndtr

from benchmarks.ranking_measures import folds_by_samples
from botorch_pref import (
    Choices,
    Comparisons,
    Rankings,
)
from botorch_pref.commands import choices as module
from botorch_pref.commands.choices import (
    RIDGE,
    HeldOut,
    RankingFold,
    bradley_terry,
    clustered_mean,
    coin,
    cross_validate,
    fit_bradley_terry,
    fit_pairwise_gp,
    fit_preference_gp,
    folds_by_sets,
    predict_with,
)
from botorch_pref.datasets import ComparisonData, FeedbackData
from botorch_pref.errors import FeedbackError
from botorch_pref.models import EPPreferenceGP, LaplacePreferenceGP


def test_no_weight_is_more_probable_in_any_units() -> None:
    """What is left to go is Newton's step, by automatic derivatives."""
    generator = torch.Generator().manual_seed(4)
    weights = torch.tensor([3.0, -0.5, 0.1, 0.0]).double()
    differences = torch.randn(3000, 4, generator=generator).double()
    wins = torch.rand(3000, generator=generator) < torch.sigmoid(differences @ weights)
    differences = torch.where(wins[:, None], differences, -differences)
    units = torch.tensor([100.0, 0.01, 1.0, 3.0]).double()
    scale = differences.square().mean(0).sqrt()

    def log_posterior(weights: torch.Tensor) -> torch.Tensor:
        answered = torch.nn.functional.logsigmoid(differences / scale @ weights).sum()
        return answered - 0.5 * RIDGE * weights.square().sum()

    found = (fit_bradley_terry(differences * units) * units * scale).requires_grad_()
    (slope,) = torch.autograd.grad(log_posterior(found), found)
    curvature = torch.autograd.functional.hessian(log_posterior, found)
    assert torch.linalg.solve(curvature, slope).abs().max() < 1e-8


def test_separable_and_constant_features_stay_finite() -> None:
    differences = torch.tensor([[1.0, 0.0], [2.0, 0.0]]).double()
    weights = fit_bradley_terry(differences)
    assert weights.isfinite().all()
    assert weights[0] > 0
    assert weights[1] == 0


def scores_of(probabilities: list[float]) -> HeldOut:
    values = torch.tensor(probabilities).double().log()
    return HeldOut(values, torch.arange(len(values)))


def thirds() -> list[RankingFold]:
    fold = torch.arange(12) % 3
    return [
        RankingFold((fold != k).nonzero()[:, 0], (fold == k).nonzero()[:, 0])
        for k in range(3)
    ]


def numbers(raters: torch.Tensor | None = None) -> ComparisonData:
    items = torch.arange(24.0).double().reshape(12, 2)
    return ComparisonData.from_pairs(items[:, :1], items[:, 1:], ("size",), raters)


def test_scores_by_hand() -> None:
    scores = scores_of([0.8, 0.5, 0.1, 0.6])
    by_hand = -(math.log(0.8) + math.log(0.5) + math.log(0.1) + math.log(0.6)) / 4
    assert scores.log_loss == pytest.approx(by_hand)
    assert scores.accuracy == pytest.approx(2.5 / 4)


def test_a_coin_scores_log_two_and_one_half() -> None:
    scores = cross_validate(numbers(), thirds(), coin)
    assert scores.log_loss == pytest.approx(math.log(2))
    assert scores.accuracy == 0.5


def test_gain_is_positive_where_the_first_is_better() -> None:
    gain, error = scores_of([0.8, 0.9, 0.6]).gain_over(scores_of([0.5, 0.5, 0.5]))
    assert gain == pytest.approx(math.log(0.8 * 0.9 * 0.6 / 0.125) / 3)
    assert error > 0


def test_error_of_singletons_is_the_usual_one_and_copies_do_not_shrink_it() -> None:
    values = torch.randn(50, generator=torch.Generator().manual_seed(0)).double()
    _, alone = clustered_mean(values, torch.arange(50))
    assert alone == pytest.approx(float(values.std()) / math.sqrt(50))
    _, copied = clustered_mean(values.repeat(4), torch.arange(50).repeat(4))
    assert copied == pytest.approx(alone)
    assert clustered_mean(values, torch.zeros(50, dtype=torch.long))[1] == math.inf


def test_no_answer_of_a_fold_is_learnt_from() -> None:
    data = numbers(torch.arange(12) // 2)
    seen: list[set[float]] = []

    def spy(
        train: ComparisonData, first: torch.Tensor, second: torch.Tensor
    ) -> torch.Tensor:
        learnt = set(train.winners.flatten().tolist())
        asked = set(first.flatten().tolist())
        assert not learnt & asked
        assert len(learnt) + len(asked) == len(data)
        seen.append(asked)
        return -first[:, 0]

    scores = cross_validate(data, thirds(), spy)
    assert len(seen) == 3
    assert torch.equal(scores.log_probability, -data.winners[:, 0])
    assert scores.groups.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


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
    monkeypatch.setattr(module, "MAX_LEARN", 10)
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
    # Without its ties the same table has the same scores.
    halves = torch.arange(len(tied)).split(len(tied) // 2)
    folds = [RankingFold(halves[1 - k], halves[k]) for k in range(2)]
    score = cross_validate(tied, folds, bradley_terry)
    places = torch.full((len(tied),), -1)
    places[~tie] = torch.arange(int((~tie).sum()))
    left = [RankingFold(*(places[r][places[r] >= 0] for r in fold)) for fold in folds]
    expected = cross_validate(tied.subset(~tie), left, bradley_terry)
    assert torch.allclose(score.log_probability, expected.log_probability)
    every = ComparisonData.from_pairs(
        data.winners, data.losers, data.feature_names, tie=tie | ~tie
    )
    with pytest.raises(FeedbackError, match="every answer is a tie"):
        cross_validate(every, folds, bradley_terry)


ITEMS, FOLDS = 9, 3


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def table(feedback, raters=None) -> FeedbackData:
    return FeedbackData(torch.eye(ITEMS), feedback, tuple("abcdefghi"), raters)


def all_sets() -> torch.Tensor:
    """Every pair and every triple of items."""
    pairs = [(*pair, -1) for pair in itertools.combinations(range(ITEMS), 2)]
    return torch.tensor(pairs + list(itertools.combinations(range(ITEMS), 3)))


@pytest.mark.parametrize(
    "feedback",
    [Rankings(all_sets()), Choices(all_sets(), all_sets()[:, 1])],
    ids=["rankings", "choices"],
)
def test_sets_remain_only_within_one_part_of_the_items(feedback) -> None:
    data = table(feedback)
    met = []
    for fold in folds_by_samples(data, FOLDS, generator()):
        sides = [
            {i for row in all_sets()[rows].tolist() for i in row if i >= 0}
            for rows in fold
        ]
        # All sets within 6 items, and all within the other 3.
        assert [len(side) for side in sides] == [6, 3]
        assert not sides[0] & sides[1]
        met.extend(sides[1])
        assert len(fold.train) == math.comb(6, 2) + math.comb(6, 3)
        assert len(fold.test) == math.comb(3, 2) + math.comb(3, 3)
    assert sorted(met) == list(range(ITEMS))


def test_no_set_may_remain() -> None:
    everything = torch.arange(ITEMS).unsqueeze(0)
    for fold in folds_by_samples(table(Rankings(everything)), FOLDS, generator()):
        assert [len(rows) for rows in fold] == [0, 0]


def test_every_set_is_held_out_once() -> None:
    pairs = torch.tensor(list(itertools.combinations(range(ITEMS), 2)))
    folds = folds_by_sets(table(Comparisons(pairs)), FOLDS, generator())
    assert sorted(torch.cat([fold.test for fold in folds]).tolist()) == list(range(36))
    for fold in folds:
        assert len(fold.test) == 12
        assert sorted(torch.cat(fold).tolist()) == list(range(36))


@pytest.mark.parametrize("split", [folds_by_sets, folds_by_samples])
def test_only_the_generator_decides(split) -> None:
    data = table(Rankings(all_sets()))
    first, again, other = (
        [fold.test.tolist() for fold in split(data, FOLDS, generator(seed))]
        for seed in (0, 0, 1)
    )
    assert first == again != other


@pytest.mark.parametrize("num_folds", [1, ITEMS + 1])
def test_folds_need_items(num_folds) -> None:
    data = table(Rankings(all_sets()))
    with pytest.raises(FeedbackError, match="between 2 and 9"):
        folds_by_samples(data, num_folds, generator())
