"""The best observed point."""

import pytest
import torch
from botorch.models import PairwiseGP
from botorch.models.model import Model
from botorch.models.transforms import Normalize
from draws import uniform
from scipy.stats import norm
from torch import Tensor

from botorch_pref import Choices, Comparisons
from botorch_pref.acquisition import (
    champion,
    champion_index,
    incumbent,
    incumbent_index,
)
from botorch_pref.acquisition import duels as module
from botorch_pref.errors import FeedbackError
from botorch_pref.models import EPPreferenceGP, SkewPreferenceGP


def copeland(model: Model, X: Tensor) -> list[float]:
    """Fractions of duels won by loops over pairs and mixture components."""
    posterior = model.posterior(X)
    if hasattr(posterior, "component_means"):
        means, covariance = posterior.component_means, posterior.component_covariance
    else:
        means, covariance = posterior.mean.mT, posterior.distribution.covariance_matrix
    means, covariance = means.detach(), covariance.detach()
    scores = []
    for i in range(len(X)):
        total = 0.0
        for j in range(len(X)):
            if i != j:
                variance = covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]
                u = (means[:, i] - means[:, j]) / float(variance) ** 0.5
                total += float(norm.cdf(u.numpy()).mean())
        scores.append(total / (len(X) - 1))
    return scores


def test_it_wins_most_duels(model: Model) -> None:
    (X,) = model.train_inputs
    scores = copeland(model, X)
    best = max(range(len(X)), key=scores.__getitem__)
    assert torch.equal(incumbent(model), X[best : best + 1])
    wins = module._copeland_scores(model, X, torch.ones(len(X), dtype=torch.bool))
    fractions = (wins / (len(X) - 1)).tolist()
    assert fractions == pytest.approx(scores, rel=1e-9)


def test_work_in_small_chunks_changes_nothing(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    best = incumbent(model)
    monkeypatch.setattr(module, "_CHUNK_ELEMENTS", 5)
    assert torch.equal(incumbent(model), best)


@pytest.mark.parametrize("kind", [PairwiseGP, EPPreferenceGP, SkewPreferenceGP])
def test_it_is_a_point_as_the_user_gave_it(kind: type[Model]) -> None:
    X = torch.tensor([[100.0, 3.0], [200.0, 1.0], [300.0, 2.0]], dtype=torch.double)
    pairs = torch.tensor([[1, 0], [1, 2], [1, 0]])
    model = kind(X, pairs, input_transform=Normalize(d=2))
    assert torch.equal(incumbent(model), X[1:2])
    assert torch.equal(incumbent(model.eval()), X[1:2])


def test_duplicates_are_even_and_the_earliest_is_taken() -> None:
    X = torch.tensor([[0.9], [0.2], [0.2], [0.5]], dtype=torch.double)
    pairs = torch.tensor([[1, 0], [2, 0], [1, 3], [2, 3]])
    assert torch.equal(incumbent(EPPreferenceGP(X, pairs)), X[1:2])


def test_without_points_there_is_none() -> None:
    with pytest.raises(FeedbackError, match="observed points"):
        incumbent(PairwiseGP(None, None))


def test_an_ensemble_has_one_incumbent_and_one_champion() -> None:
    """Members that saw the same points are averaged; two of three prefer the last."""
    X = uniform(4, 2, seed=2)
    last = torch.tensor([[3, 0], [3, 1], [3, 2]])
    pairs = torch.stack([last, last.flip(-1), last])
    batch = EPPreferenceGP(X.expand(3, 4, 2), pairs)
    plain = batch.posterior
    batch._is_ensemble = True
    batch.posterior = lambda X, **options: plain(X.unsqueeze(-3), **options)
    assert torch.equal(incumbent(batch), X[3:])
    assert torch.equal(champion(batch), X[3:])


def test_the_champion_has_the_largest_mean(model: Model) -> None:
    (X,) = model.train_inputs
    best = int(model.posterior(X).mean.squeeze(-1).argmax())
    assert torch.equal(champion(model), X[best : best + 1])


def test_rows_that_nobody_was_shown_are_neither() -> None:
    # Between two good rows one that was not shown promises most.
    X = torch.linspace(0, 1, 9, dtype=torch.double).unsqueeze(-1)
    feedback = [
        Comparisons(torch.tensor([[3, 0], [3, 1]]), ties=torch.tensor([[3, 5]])),
        Choices(torch.tensor([[0, 8, 5, -1]]), torch.tensor([5])),
    ]
    model = EPPreferenceGP(X, feedback=feedback).eval()
    visible = [0, 1, 3, 5, 8]
    assert model.posterior(X).mean.argmax() not in visible
    means = model.posterior(X[visible]).mean.squeeze(-1)
    best = visible[int(means.argmax())]
    assert champion_index(model) == best
    assert champion(model).equal(X[best : best + 1])
    scores = copeland(model, X[visible])
    best = visible[max(range(len(visible)), key=scores.__getitem__)]
    assert incumbent_index(model) == best
    assert incumbent(model).equal(X[best : best + 1])


def test_each_of_a_batch_has_shown_points_of_its_own() -> None:
    X = torch.linspace(0, 1, 6, dtype=torch.double).unsqueeze(-1)
    pairs = torch.tensor([[[1, 0], [3, 1]], [[2, 4], [4, 5]]])
    model = EPPreferenceGP(X, pairs).eval()
    visible = [[0, 1, 3], [2, 4, 5]]
    expected = []
    for answers, places in zip(pairs, visible, strict=True):
        single = EPPreferenceGP(X, answers).eval()
        scores = copeland(single, X[places])
        expected.append(places[max(range(3), key=scores.__getitem__)])
    assert incumbent_index(model).tolist() == expected
    assert champion_index(model).tolist() == [3, 2]
    assert incumbent(model).equal(X[expected].unsqueeze(-2))
