"""Runs in one batch: as the serial loop plays them, and of several options."""

import math
from dataclasses import replace

import pytest
import torch
from botorch.models.pairwise_gp import PairwiseGP
from botorch.optim import optimize_acqf
from torch import Generator, Tensor
from torch.quasirandom import SobolEngine

from benchmarks.suite.cell import Cell, Rule, Setting
from benchmarks.suite.runs import batch_player
from benchmarks.suite.runs.batch import batches, play_batch, play_together
from benchmarks.suite.runs.batch_player import (
    WAYS_OF_BATCHES,
    BatchPlayer,
    answers,
    exploring,
    maximise,
    pairwise_kernel,
    uniform,
)
from benchmarks.suite.runs.judges import errs, make_judge
from benchmarks.suite.runs.play import COLUMNS, Outcome, play
from benchmarks.suite.runs.registry import make_fit
from benchmarks.suite.runs.rivals import RivalOfMany
from benchmarks.suite.runs.search import Search
from botorch_pref.acquisition import (
    DistinctOptions,
    DuelingEIIG,
    DuelingTailedEI,
    incumbent,
)
from botorch_pref.errors import BotorchPrefError
from botorch_pref.feedback import Choices, Comparisons, Rankings
from botorch_pref.simulation import make_problem
from botorch_pref.simulation.duel_loop import index_pairs

DUELS_ALONE = (
    "eubo-pair",
    "exploring-eiig-local",
    "exploring-eiig-turbo",
)
"""Rules that choose both options of a duel, or search where a duel's incumbent is."""

ERRING = Setting("hartmann6", "probit", 0.3)
FIGURES = ("regret_recommended", "regret_best_shown", "distance", "told_apart")


def cells_of(rule: Rule, setting: Setting, seeds: range, duels: int) -> list[Cell]:
    return [Cell("t", setting, rule, seed, 3, duels) for seed in seeds]


def figures(outcome: Outcome, names: tuple[str, ...]) -> Tensor:
    assert not outcome.error, outcome.error
    places = [COLUMNS.index(name) for name in names]
    return torch.tensor([[float(row[i]) for i in places] for row in outcome.rows])


def told_so_far(size: int, runs: int, questions: int) -> Tensor:
    """Draws questions of random points, the best first."""
    problem = make_problem("hartmann6")
    sources = [Generator().manual_seed(seed) for seed in range(runs)]
    X = uniform(sources, questions, size, problem.dim)
    order = problem.utility(X).argsort(-1, descending=True)
    return X.gather(2, order.unsqueeze(-1).expand_as(X))


def learned(rule: Rule, told: Tensor) -> BatchPlayer:
    sources = [Generator().manual_seed(seed) for seed in range(len(told))]
    player = BatchPlayer(rule, make_problem("hartmann6"), True, sources)
    for number in range(2, told.shape[1] + 1):
        player.learn(told[:, :number])
    return player


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "setting"),
    [
        ("ep", ERRING),
        ("ep", Setting("sixhumpcamel-narrow")),
        ("laplace", Setting("branin", "logistic", 2.0)),
    ],
)
def test_runs_of_a_batch_are_those_of_the_serial_loop(
    model: str, setting: Setting
) -> None:
    """Random challengers ask the same of both: all else follows from the models."""
    cells = cells_of(Rule(model, "random"), setting, range(2, 4), 6)
    assert batches(cells) == [cells]
    for cell, outcome in zip(cells, play_together(cells), strict=True):
        torch.testing.assert_close(
            figures(outcome, FIGURES), figures(play(cell), FIGURES)
        )


@pytest.mark.slow
def test_a_batch_asks_what_the_serial_loop_would_ask() -> None:
    """Of the same answers: as good a challenger by the library's own functions."""
    duels = told_so_far(2, 3, 8)
    player = learned(Rule("ep-relevance", "eiig"), duels)
    question = player.ask()
    for run, best in enumerate(player.recommended()):
        points, pairs = index_pairs(*duels[run].unbind(1))
        model = make_fit("ep", errs=True)(points, Comparisons(pairs))
        assert torch.equal(incumbent(model).squeeze(0), best)
        assert torch.equal(question[run, 1], best)
        value = DistinctOptions(DuelingEIIG(model, best.unsqueeze(0), k=0.2))
        torch.manual_seed(0)
        _, reached = optimize_acqf(
            value, torch.tensor([[0.0], [1.0]]).double().expand(2, 6), 1, 8, 512
        )
        mine = value(question[run, :1].unsqueeze(0)).detach()
        # Both may stop at a local maximum; the batch must not do so by much, and the
        # hyper-parameters of both stop near the same maximum of the evidence.
        assert float(mine) > float(reached.detach()) - 0.01


def test_who_explores_is_drawn_for_each_run() -> None:
    duels = told_so_far(2, 40, 4)
    player = learned(Rule("ep", "exploring-eiig"), duels)
    model, best = player.model, player.best
    value = exploring(model, best, player.search)
    X = uniform(player.search.sources, 1, 6)
    refining = DuelingEIIG(model, best, k=0.2)(X)
    tailed = DuelingTailedEI(model, best)(X)
    expected = torch.where(value.explores, tailed, refining)
    torch.testing.assert_close(value(X), expected)
    # A third of forty, within three deviations.
    assert abs(int(value.explores.sum()) - 40 / 3) < 3 * math.sqrt(40 * 2 / 9)


@pytest.mark.slow
def test_near_copies_cost_a_run_what_its_own_values_spread() -> None:
    duels = told_so_far(2, 2, 5)
    together = learned(Rule("ep", "eiig"), duels)
    value = DistinctOptions(DuelingEIIG(together.model, together.best, k=0.2))
    for run in range(2):
        alone = learned(Rule("ep", "eiig"), duels[run : run + 1])
        acquisition = DistinctOptions(DuelingEIIG(alone.model, alone.best, k=0.2))
        torch.testing.assert_close(
            value.weight[run], acquisition.weight[0], rtol=1e-2, atol=0
        )


@pytest.mark.slow
@pytest.mark.usefixtures("short_fits_of_batches")
@pytest.mark.parametrize("acquisition", sorted(WAYS_OF_BATCHES))
def test_every_rule_asks_of_three_distinct_options(
    acquisition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("UNIFORM", "NEAR", "NEARER"):
        monkeypatch.setattr(batch_player, name, 8)
    size = 2 if acquisition in DUELS_ALONE else 3
    rule = Rule("ep", acquisition, size)
    cells = cells_of(rule, Setting("sixhumpcamel-narrow", "probit", 0.2), range(2), 4)
    for outcome in play_together(cells):
        columns = figures(outcome, ("distance", "chosen", "options"))
        assert columns[:, 1].tolist() == [0, 0, 0, 1]
        assert (columns[:, 2] == size).all()
        # qEUBO has no wall between its options.
        assert (columns[:, 0] > 0.005).all() or acquisition.startswith(
            ("qeubo", "joint")
        )


def test_the_best_of_all_options_comes_first() -> None:
    """Choices, rankings and worst ones of the same questions, as feedback."""
    best, order, worst = (
        answers(2, Rule("ep", "eubo", 3, answer))
        for answer in ("best", "order", "worst")
    )
    assert isinstance(best, Choices)
    assert best.chosen.tolist() == [0, 3]
    assert isinstance(order, Rankings)
    assert order.orders.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert isinstance(worst, Comparisons)
    assert worst.pairs.tolist() == [[0, 2], [1, 2], [3, 5], [4, 5]]
    assert isinstance(answers(2, Rule("ep", "eubo")), Comparisons)


def test_a_judge_orders_several_options_as_she_perceives_them() -> None:
    """Thurstone's first places, by shares of many orders and by long sampling."""
    options = torch.tensor([[0.0], [0.3], [1.0]]).double()
    judge = make_judge(Setting("branin", "probit", 0.5), lambda X: X[..., 0], 3)
    first = torch.stack([judge.order(options)[0] for _ in range(4000)])
    shares = torch.bincount(first, minlength=3) / 4000
    draws = torch.randn(200_000, 3, generator=Generator().manual_seed(0))
    winners = (options[:, 0] + 0.5 * draws).argmax(-1)
    frequencies = torch.bincount(winners, minlength=3) / 200_000
    # A share of 4,000 has a deviation of at most 0.008.
    torch.testing.assert_close(shares, frequencies, rtol=0, atol=0.032)
    never = make_judge(Setting("branin"), lambda X: X[..., 0], 0)
    assert never.order(options).tolist() == [2, 1, 0]
    shrugs = make_judge(Setting("branin", "ties", 0.5), lambda X: X[..., 0], 0)
    with pytest.raises(BotorchPrefError, match="cannot order options"):
        shrugs.order(options[:2])
    logistic = make_judge(Setting("branin", "logistic", 0.5), lambda X: X[..., 0], 0)
    with pytest.raises(BotorchPrefError, match="LogisticJudge cannot order 3 options"):
        logistic.order(options)


def test_a_judge_who_lapses_gives_any_order() -> None:
    options = torch.tensor([[0.0], [0.3], [1.0]]).double()
    judge = make_judge(Setting("branin", "lapses", 0.4), lambda X: X[..., 0], 3)
    orders = torch.stack([judge.order(options) for _ in range(3000)])
    # Any of six orders where she lapses, and the true one otherwise.
    _, counts = orders.unique(dim=0, return_counts=True)
    expected = torch.full((6,), 0.4 / 6)
    expected[-1] += 0.6
    assert orders.unique(dim=0)[-1].tolist() == [2, 1, 0]
    # A share of 3,000 has a deviation of at most 0.009.
    torch.testing.assert_close(counts / 3000, expected, rtol=0, atol=0.036)


def test_a_judge_who_sees_no_difference_orders_by_coins() -> None:
    """Two alike are in either order, and neither crosses one that is far from both."""
    options = torch.tensor([[0.3], [1.0], [0.2]]).double()
    judge = make_judge(Setting("branin", "ties", 0.15), lambda X: X[..., 0], 3)
    orders = torch.stack([judge.order(options) for _ in range(2000)])
    assert set(map(tuple, orders.tolist())) == {(1, 0, 2), (1, 2, 0)}
    # A share of 2,000 has a deviation of 0.011.
    assert abs((orders[:, 1] == 0).double().mean() - 0.5) < 0.045
    apart = torch.tensor([[0.3], [1.0], [0.1]]).double()
    assert judge.order(apart).tolist() == [1, 0, 2]


def test_rankings_of_who_sees_no_difference_are_of_a_judge_who_errs() -> None:
    ties = replace(ERRING, judge="ties")
    ranked = cells_of(Rule("ep", "joint-kg", 4, "order"), ties, range(2), 5)
    assert batches(ranked) == [ranked]
    assert errs(ties, 4)
    assert not errs(ties, 2)


def test_what_no_batch_can_play_is_played_run_by_run() -> None:
    ties = replace(ERRING, judge="ties")
    alone = [
        *cells_of(Rule("skew", "eiig"), ERRING, range(2), 5),
        *cells_of(Rule("ep", "eiig"), ties, range(2), 5),
        *cells_of(Rule("ep", "eiig"), Setting("sasena"), range(2), 5),
        *cells_of(Rule("optuna", "sampler", 4, "worst"), ERRING, range(2), 5),
    ]
    assert batches(alone) == [[cell] for cell in alone]


def test_a_batch_that_fails_tells_each_of_its_runs() -> None:
    cells = cells_of(Rule("ep", "eubo"), Setting("branin", "exact", 1.0), range(2), 5)
    outcomes = play_together(cells)
    assert [outcome.cell for outcome in outcomes] == cells
    assert all("an exact judge has noise 0" in o.reason for o in outcomes)


@pytest.mark.slow
@pytest.mark.usefixtures("few_iterations")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "rule", [Rule("optuna", "sampler", 4, "worst"), Rule("pairwise-gp", "qeubo", 4)]
)
def test_other_software_asks_in_its_own_way(rule: Rule) -> None:
    if rule.model == "optuna":
        pytest.importorskip("optuna_dashboard", reason="the rival is not installed")
    (cell,) = cells_of(rule, replace(ERRING, problem="branin"), range(1), 4)
    ours = play_batch([replace(cell, rule=Rule("ep", "random", 4))])
    (outcome,) = play_together([cell])
    first = figures(outcome, ("distance", "told_apart"))[:3]
    assert torch.equal(first, figures(ours[0], ("distance", "told_apart"))[:3])
    duels = told_so_far(4, 1, 3)
    player = RivalOfMany(
        rule, make_problem("hartmann6"), True, [Generator().manual_seed(0)]
    )
    player.learn(duels)
    question = player.ask()
    assert question.shape == (1, 4, 6)
    if rule.model == "optuna":
        assert torch.equal(question[0, :3], duels[0, -1, :3])


def test_a_maximum_is_found_in_every_run() -> None:
    """Quadratic hills with tops of their own."""
    tops = uniform([Generator().manual_seed(s) for s in range(5)], 1, 3)
    search = Search([Generator().manual_seed(s) for s in range(9, 14)])

    class Hills(torch.nn.Module):
        def forward(self, X: Tensor) -> Tensor:
            return -(X - tops).square().sum((-1, -2))

    chosen = maximise(Hills(), torch.full((5, 1, 3), 0.5).double(), 1, search)
    torch.testing.assert_close(chosen, tops, rtol=0, atol=1e-4)


@pytest.mark.slow
@pytest.mark.usefixtures("short_fits_of_batches")
def test_no_point_has_a_larger_mean_than_the_one_recommended_of_the_cube() -> None:
    """Of every run of the batch, by its means at 4,096 points and at those shown."""
    duels = told_so_far(4, 3, 6)
    player = learned(Rule("ep", "joint-eubo", 4, "order"), duels)
    top = player.best_anywhere()
    assert player.model is not None
    points = SobolEngine(6, scramble=True, seed=0).draw(4096, dtype=torch.double)
    everywhere = torch.cat([points.expand(3, -1, -1), duels.flatten(1, 2)], 1)
    with torch.no_grad():
        means = player.model.posterior(everywhere).mean.squeeze(-1)
        reached = player.model.posterior(top.unsqueeze(1)).mean.flatten()
    assert (reached >= means.amax(-1)).all()


@pytest.mark.slow
@pytest.mark.usefixtures("few_iterations")
@pytest.mark.filterwarnings("ignore")
def test_only_the_last_question_has_a_regret_of_the_cube() -> None:
    """The same of a run of ours and of `PairwiseGP`, which `recommend` takes too."""
    setting = Setting("branin", "probit", 0.1)
    rules = Rule("ep", "random", 4), Rule("pairwise-gp", "qeubo", 4)
    for rule in rules:
        (cell,) = cells_of(rule, setting, range(1), 4)
        (outcome,) = play_together([cell])
        assert not outcome.error, outcome.error
        *before, last = (row[COLUMNS.index("regret_anywhere")] for row in outcome.rows)
        assert before == ["", "", ""]
        assert 0.0 <= float(last) < 400.0


def test_each_run_starts_with_the_kernel_of_pairwise_gp_and_its_prior() -> None:
    X = uniform([Generator().manual_seed(0)], 5, 2).squeeze(0)
    theirs = PairwiseGP(X, torch.tensor([[0, 1]])).covar_module
    ours, scales = pairwise_kernel(2, torch.Size([3])), torch.tensor([0.02, 0.5, 3.0])
    for run in ours(X).to_dense():
        # Theirs starts in single precision.
        torch.testing.assert_close(run, theirs(X).to_dense(), rtol=1e-5, atol=1e-6)
    first_log_prob, expected = (
        kernel.base_kernel.lengthscale_prior.log_prob(scales)
        for kernel in (ours, theirs)
    )
    torch.testing.assert_close(first_log_prob, expected, check_dtype=False)


@pytest.mark.usefixtures("short_fits_of_batches")
@pytest.mark.parametrize(
    "rule", [Rule("ep-lapses", "eubo-pair"), Rule("ep", "joint-kg", 4, "order")]
)
def test_questions_of_a_mixed_space_are_designs_that_differ(rule: Rule) -> None:
    setting = Setting("mixed", "probit", 0.1)
    problem = make_problem(setting.problem)
    size, sizes = rule.options, []

    class Watched(BatchPlayer):
        def ask(self) -> Tensor:
            sizes.append(super().ask())
            return sizes[-1]

    outcomes = play_batch(cells_of(rule, setting, range(2), 5), Watched)
    assert not outcomes[0].error, outcomes[0].error
    questions = torch.stack(sizes)
    assert questions.shape == (2, 2, size, 10)
    torch.testing.assert_close(problem.project(questions), questions)
    between = questions.unsqueeze(-2) - questions.unsqueeze(-3)
    apart = between.abs().amax(-1) + torch.eye(size)
    assert apart.min() > 1e-6


def test_a_maximum_in_a_mixed_space_is_a_design() -> None:
    """The best of all designs, by the utility itself."""
    problem = make_problem("mixed")
    search = Search.of(problem, [Generator().manual_seed(s) for s in range(3)])

    class Known(torch.nn.Module):
        def forward(self, X: Tensor) -> Tensor:
            return problem.utility(X).squeeze(-1)

    start = problem.project(torch.full((3, 1, 10), 0.5).double())
    chosen = maximise(Known(), start, 1, search)
    torch.testing.assert_close(problem.project(chosen), chosen)
    assert problem.regret(chosen).max() < 1e-3
