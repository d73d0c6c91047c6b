"""Judges who drift, favour what is shown first, throw coins, or are several raters."""

import math

import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm
from torch import Generator

from benchmarks.suite.cell import Setting
from benchmarks.suite.errors import SuiteError
from benchmarks.suite.runs.judges import ShuffledLayout, errs, make_judge
from botorch_pref.errors import BotorchPrefError
from botorch_pref.simulation import DriftingJudge, Judge, Panel, ProbitJudge
from botorch_pref.simulation.judges import panel_with_contrarian

HIGH, LOW = (torch.tensor([x], dtype=torch.double) for x in (0.7, 0.2))
OPTIONS = torch.tensor([[0.2], [0.5], [0.7]], dtype=torch.double)


def total(X: torch.Tensor) -> torch.Tensor:
    return X.sum(-1)


def reversed_total(X: torch.Tensor) -> torch.Tensor:
    return -X.sum(-1)


def deviation(law: float, number: int) -> float:
    """Computes four standard deviations of a share."""
    return 4 * math.sqrt(law * (1 - law) / number)


def first_place(utilities: list[float], sigma: float, place: int) -> float:
    """Computes Thurstone's probability that an option is perceived as the best."""
    rivals = [u for i, u in enumerate(utilities) if i != place]

    def density(x: float) -> float:
        below = math.prod(norm.cdf((x - u) / sigma) for u in rivals)
        return below * norm.pdf((x - utilities[place]) / sigma) / sigma

    return quad(density, -10, 10, points=[utilities[place]])[0]


def share_of_first(judge: Judge, number: int) -> torch.Tensor:
    best = torch.stack([judge.order(OPTIONS)[0] for _ in range(number)])
    return torch.bincount(best, minlength=3) / number


def test_what_is_shown_first_has_an_advantage() -> None:
    judge = ProbitJudge(total, 0.5, Generator().manual_seed(0), advantage=0.3)
    for pair, gap in (((HIGH, LOW), 0.5), ((LOW, HIGH), -0.5)):
        law = norm.cdf(gap + 0.3)
        assert judge.probability(*pair) == pytest.approx(law, abs=1e-12)
        share = sum(bool(judge(*pair)) for _ in range(4000)) / 4000
        assert abs(share - law) < deviation(law, 4000)
    perceived = [0.2 + 0.3, 0.5, 0.7]
    shares = share_of_first(judge, 4000)
    for place, share in enumerate(shares.tolist()):
        law = first_place(perceived, 0.5**0.5, place)
        assert abs(share - law) < deviation(law, 4000)
    steady = ProbitJudge(total, 0.0, Generator(), advantage=0.6)
    assert steady(LOW, HIGH) is True
    assert steady.probability(LOW, HIGH) == 1.0


def test_a_random_layout_hides_the_advantage_from_the_rule() -> None:
    judge = make_judge(Setting("bump", "first", 0.5**0.5), total, 3)
    assert isinstance(judge, ShuffledLayout)
    advantage = 0.5**0.5
    law = (norm.cdf(0.5 + advantage) + norm.cdf(0.5 - advantage)) / 2
    assert judge.probability(HIGH, LOW) == pytest.approx(law, abs=1e-12)
    assert judge.probability(LOW, HIGH) == pytest.approx(1 - law, abs=1e-12)
    share = sum(bool(judge(HIGH, LOW)) for _ in range(4000)) / 4000
    assert abs(share - law) < deviation(law, 4000)
    shares = share_of_first(judge, 4000)
    for place, share in enumerate(shares.tolist()):
        laws = []
        for first in range(3):
            perceived = [0.2, 0.5, 0.7]
            perceived[first] += advantage
            laws.append(first_place(perceived, 0.5**0.5, place))
        assert abs(share - sum(laws) / 3) < deviation(sum(laws) / 3, 4000)


def test_a_taste_drifts_from_one_utility_to_another() -> None:
    """Each answer by the utility of its time, from the definition."""
    laws = [norm.cdf(0.5 - t * 0.25) for t in range(5)] + [norm.cdf(-0.5)]
    runs = 1500
    won = [0] * 6
    for seed in range(runs):
        source = Generator().manual_seed(seed)
        judge = DriftingJudge(total, reversed_total, 4, 0.5, source)
        for t in range(6):
            assert judge.probability(HIGH, LOW) == pytest.approx(laws[t], abs=1e-12)
            won[t] += bool(judge(HIGH, LOW))
    for number, law in zip(won, laws, strict=True):
        assert abs(number / runs - law) < deviation(law, runs)
    ranks = DriftingJudge(total, reversed_total, 2, 0.0, Generator())
    orders = [ranks.order(OPTIONS).tolist() for _ in range(3)]
    # Half way all are the same, and stay in their places.
    assert orders == [[2, 1, 0], [0, 1, 2], [0, 1, 2]]


def test_raters_of_a_panel_answer_in_turn() -> None:
    sources = [Generator().manual_seed(seed) for seed in range(6)]
    panel = panel_with_contrarian(total, lambda X: 2 * X.sum(-1), 0.5, sources)
    laws = [norm.cdf(0.5)] * 3 + [norm.cdf(1.0)] * 2 + [norm.cdf(-0.5)]
    law = sum(laws) / 6
    assert panel.probability(HIGH, LOW) == pytest.approx(law, abs=1e-12)
    answers = torch.tensor([bool(panel(HIGH, LOW)) for _ in range(6 * 1500)])
    shares = answers.view(1500, 6).double().mean(0).tolist()
    for share, law in zip(shares, laws, strict=True):
        assert abs(share - law) < deviation(law, 1500)
    quiet = panel_with_contrarian(total, total, 0.0, sources)
    orders = [quiet.order(OPTIONS).tolist() for _ in range(7)]
    assert orders == [[2, 1, 0]] * 5 + [[0, 1, 2]] + [[2, 1, 0]]
    with pytest.raises(BotorchPrefError, match="6 raters has 5 generators: give one"):
        panel_with_contrarian(total, total, 0.5, sources[1:])
    with pytest.raises(BotorchPrefError, match="has no rater"):
        Panel([])


def test_a_coin_knows_nothing() -> None:
    judge = make_judge(Setting("bump", "coin"), total, 0)
    assert judge.probability(HIGH, LOW) == 0.5
    share = sum(bool(judge(HIGH, LOW)) for _ in range(4000)) / 4000
    assert abs(share - 0.5) < deviation(0.5, 4000)
    for share in share_of_first(judge, 4000).tolist():
        assert abs(share - 1 / 3) < deviation(1 / 3, 4000)
    with pytest.raises(SuiteError, match="a coin has noise 0, not 1"):
        make_judge(Setting("bump", "coin", 1.0), total, 0)


def test_the_suites_judges_of_a_task() -> None:
    """Who drifts, and a clique, have the utility of shifted points."""
    drifts = make_judge(Setting("bump", "drift", 0.5**0.5), torch.Tensor.sin, 0)
    torch.testing.assert_close(drifts.before(HIGH), (HIGH + 0.15).sin())
    torch.testing.assert_close(drifts.after(HIGH), HIGH.sin())
    panel = make_judge(Setting("bump", "panel", 0.5**0.5), torch.Tensor.cos, 0)
    tastes = [rater.utility(HIGH) for rater in panel.raters]
    expected = [HIGH.cos()] * 3 + [torch.ones(1).double().cos()] * 2 + [-HIGH.cos()]
    torch.testing.assert_close(torch.stack(tastes), torch.stack(expected))
    for kind in ("coin", "drift", "first", "panel"):
        assert errs(Setting("bump", kind), 2)


def test_a_course_of_no_answer_is_refused() -> None:
    with pytest.raises(BotorchPrefError, match="for 0 answers: give 1 or more"):
        DriftingJudge(total, total, 0, 0.5, Generator())
    with pytest.raises(BotorchPrefError, match="noise is -1: give a finite variance"):
        DriftingJudge(total, total, 1, -1, Generator())
    with pytest.raises(BotorchPrefError, match="advantage is -1: give a finite"):
        ProbitJudge(total, 1.0, Generator(), advantage=-1)
