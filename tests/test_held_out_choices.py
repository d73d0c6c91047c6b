"""Predictors of held-out choices, as the command line scores them, and folds."""

import itertools
import math

import pytest
import torch
from cases import in_turn
from torch.special import log_ndtr

from benchmarks.choice_scores import HeldOut, fit_bradley_terry
from benchmarks.ranking_measures import folds_by_samples, folds_by_sets
from botorch_pref import (
    Choices,
    Comparisons,
    Rankings,
)
from botorch_pref.commands import choices as module
from botorch_pref.commands.choices import (
    RIDGE,
    clustered_mean,
    explain_choices,
    fit_linear,
    fit_pairwise_gp,
    fit_preference_gp,
    held_out,
)
from botorch_pref.datasets import ComparisonData, FeedbackData
from botorch_pref.errors import FeedbackError
from botorch_pref.models import EPPreferenceGP, LaplacePreferenceGP


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_no_weight_is_more_probable_in_any_units() -> None:
    """What is left to go is Newton's step, by automatic derivatives."""
    draws = generator(4)
    weights = torch.tensor([3.0, -0.5, 0.1, 0.0]).double()
    differences = torch.randn(3000, 4, generator=draws).double()
    wins = torch.rand(3000, generator=draws) < torch.sigmoid(differences @ weights)
    differences = torch.where(wins[:, None], differences, -differences)
    units = torch.tensor([100.0, 0.01, 1.0, 3.0]).double()
    scale = differences.square().mean(0).sqrt()

    def log_posterior(weights: torch.Tensor) -> torch.Tensor:
        answered = torch.nn.functional.logsigmoid(differences / scale @ weights).sum()
        return answered - 0.5 * RIDGE * weights.square().sum()

    fitted = (fit_bradley_terry(differences * units) * units * scale).requires_grad_()
    (slope,) = torch.autograd.grad(log_posterior(fitted), fitted)
    curvature = torch.autograd.functional.hessian(log_posterior, fitted)
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


def numbers(raters: torch.Tensor | None = None) -> ComparisonData:
    items = torch.arange(24.0).double().reshape(12, 2)
    return ComparisonData.from_pairs(items[:, :1], items[:, 1:], ("size",), raters)


def test_scores_by_hand() -> None:
    scores = scores_of([0.8, 0.5, 0.1, 0.6])
    by_hand = -(math.log(0.8) + math.log(0.5) + math.log(0.1) + math.log(0.6)) / 4
    assert scores.log_loss == pytest.approx(by_hand)
    assert scores.accuracy == pytest.approx(2.5 / 4)


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


class Spy:
    """A model by which the size of the first item is the odds of its victory."""

    def __init__(self, learned: set[float]) -> None:
        self.learned = learned

    def eval(self) -> "Spy":
        return self

    def duel_probability(self, X1, X2, observation_noise: bool) -> torch.Tensor:
        assert not self.learned & {*X1.flatten().tolist(), *X2.flatten().tolist()}
        return X1[:, 0] / (X1[:, 0] + X2[:, 0])


def test_no_answer_of_a_fold_is_learnt_from() -> None:
    data = numbers()
    folds = torch.arange(12) % 3
    learned = [(folds != k).nonzero()[:, 0] for k in range(3)]
    sizes: list[int] = []

    def spy(train: ComparisonData) -> Spy:
        sizes.append(len(train))
        return Spy({*train.datapoints.flatten().tolist()})

    scores = held_out(data, folds, learned, spy)
    assert sizes == [8, 8, 8]
    first, second = data.winners[:, 0], data.losers[:, 0]
    assert torch.allclose(scores.exp(), first / (first + second))


def choices(m: int = 40) -> ComparisonData:
    """Draws answers of a noisy judge who likes the first feature alone."""
    draws = generator()
    items = torch.rand(m, 2, 2, generator=draws).double()
    items = items * torch.tensor([50.0, 0.1]) + torch.tensor([10.0, 3.0])
    noise = 5 * torch.randn(m, 2, generator=draws)
    order = (items[..., 0] + noise).argsort(dim=-1, descending=True)
    items = items.gather(1, order[..., None].expand(-1, -1, 2))
    return ComparisonData.from_pairs(items[:, 0], items[:, 1], ("size", "colour"))


@in_turn("model_class", [EPPreferenceGP, LaplacePreferenceGP])
def test_our_models_learn_the_preference(model_class: type) -> None:
    model = fit_preference_gp(model_class, choices(), generator(1))
    large, small = torch.tensor([[55.0, 3.05], [15.0, 3.0]]).double()[:, None]
    assert model.duel_probability(large, small, observation_noise=True) > 0.9


def test_the_posterior_uses_more_answers_than_learning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_LEARN", 10)
    data = choices()
    model = fit_preference_gp(EPPreferenceGP, data, generator(1))
    assert model.comparisons is not None
    assert len(model.comparisons) == len(data)
    scale = model.covar_module.outputscale.item()
    default = EPPreferenceGP().covar_module.outputscale.item()
    assert scale != pytest.approx(default)


def test_pairwise_gp_answers_by_its_own_likelihood() -> None:
    data = choices(15)
    model = fit_pairwise_gp(data)
    rows = torch.arange(15)
    scores = held_out(data, rows // 5, [rows] * 3, lambda train: model)
    for row in (0, 7, 14):
        pair = torch.stack([data.winners[row], data.losers[row]])
        draws = model.posterior(pair).rsample(torch.Size([20_000])).squeeze(-1).detach()
        probabilities = log_ndtr((draws[:, 0] - draws[:, 1]) / 2**0.5).exp()
        error = 4 * float(probabilities.std()) / 20_000**0.5
        assert abs(float(scores[row].exp() - probabilities.mean())) < error


@pytest.mark.filterwarnings("ignore:PlackettLuceRegression has few answers")
def test_ties_are_learned_from_and_not_scored() -> None:
    data = choices()
    apart = (data.winners - data.losers)[:, 0].abs()
    tie = apart < apart.median()
    tied = ComparisonData.from_pairs(
        data.winners, data.losers, data.feature_names, tie=tie
    )
    assert torch.equal(tied.decided, ~tie)
    model = fit_preference_gp(EPPreferenceGP, tied, generator(1))
    pair = tied.winners, tied.losers
    won, lost = (
        model.duel_probability(*duel, observation_noise=True)
        for duel in (pair, pair[::-1])
    )
    # Half of the answers were ties, and what is left is their probability.
    assert ((won + lost)[tie] < 0.9).all()
    halves = torch.arange(len(tied)) // (len(tied) // 2)
    learned = [(halves != k).nonzero()[:, 0] for k in range(2)]
    scores = held_out(tied, halves, learned, lambda train: model)
    # Given that one of them wins, one of them does.
    assert torch.allclose(scores.exp()[~tie], (won / (won + lost))[~tie])
    assert scores[tie].isnan().all()
    # Without its ties the same table has the same scores.
    score = held_out(tied, halves, learned, fit_linear)
    places = (~tie).cumsum(0) - 1
    remaining_places = [places[rows[~tie[rows]]] for rows in learned]
    expected = held_out(tied.subset(~tie), halves[~tie], remaining_places, fit_linear)
    assert torch.allclose(score[~tie], expected)


def test_bradley_terry_is_nearly_the_most_probable_weights() -> None:
    data = choices(400)
    weights = fit_bradley_terry(data.winners - data.losers)
    logits = (data.winners - data.losers) @ weights
    first, second = data.winners, data.losers
    probability = fit_linear(data).duel_probability(
        first, second, observation_noise=True
    )
    assert (probability - torch.sigmoid(logits)).abs().max() < 0.02


@in_turn(
    ("text", "message"),
    [
        ("winner_a,loser_a,tie\n1,2,1\n2,3,1\n", "ties.csv is a tie.*a winner$"),
        ("winner_a,loser_a,tie\n1,2,1\n2,3,0\n", "ties.csv is a tie.*a winner$"),
        (
            "rater,winner_a,loser_a,tie\na,1,2,0\na,2,3,0\nb,3,1,1\n",
            "ties.csv is a tie.*a winner, of other raters$",
        ),
    ],
)
def test_winners_are_not_predicted_from_ties_alone(tmp_path, text, message) -> None:
    table = tmp_path / "ties.csv"
    table.write_text(text)
    with pytest.raises(FeedbackError, match=message):
        explain_choices(str(table), "ep", 0, tmp_path)


ITEMS, FOLDS = 9, 3


def table(feedback, raters=None) -> FeedbackData:
    return FeedbackData(torch.eye(ITEMS), feedback, tuple("abcdefghi"), raters)


def all_sets() -> torch.Tensor:
    """Lists every pair and every triple of items."""
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


@in_turn("split", [folds_by_sets, folds_by_samples])
def test_only_the_generator_decides(split) -> None:
    data = table(Rankings(all_sets()))
    first, again, reseeded = (
        [fold.test.tolist() for fold in split(data, FOLDS, generator(seed))]
        for seed in (0, 0, 1)
    )
    assert first == again != reseeded


@in_turn("num_folds", [1, ITEMS + 1])
def test_folds_need_items(num_folds) -> None:
    data = table(Rankings(all_sets()))
    with pytest.raises(FeedbackError, match="between 2 and 9"):
        folds_by_samples(data, num_folds, generator())
