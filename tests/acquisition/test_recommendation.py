"""The point of the largest posterior mean, against optima that are known."""

from typing import Any

import pytest
import torch
from botorch.exceptions.warnings import InputDataWarning
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior
from draws import uniform
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import RBFKernel
from linear_operator import to_linear_operator
from torch import Tensor

from botorch_pref import (
    BotorchPrefError,
    EPPreferenceGP,
    FeedbackError,
    LineChoices,
    SkewPreferenceGP,
    champion,
    default_model,
    incumbent,
    next_question,
    recommend,
)
from botorch_pref.models import GroupUtility, rater_covar_module

TOP = torch.tensor([0.3, 0.6], dtype=torch.double)
BOX = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)


class Quadratic(Model):
    """A utility of mean ``-|x - top|^2``, and covariance ``0.01 x'z + 0.01``."""

    num_outputs = 1
    batch_shape = torch.Size()

    def __init__(self, X: Tensor) -> None:
        super().__init__()
        self.train_inputs = (X,)

    def posterior(self, X: Tensor, *_: Any, **__: Any) -> GPyTorchPosterior:
        mean = -(X - TOP.to(X)).square().sum(-1)
        covariance = 0.01 * (X @ X.mT + 1)
        return GPyTorchPosterior(
            MultivariateNormal(mean, to_linear_operator(covariance))
        )


def quadratic(dtype: torch.dtype = torch.double) -> Quadratic:
    return Quadratic(torch.tensor([[0.9, 0.9], [0.1, 0.5], [0.5, 0.1]], dtype=dtype))


def pairs_of(model: type[EPPreferenceGP], dtype: torch.dtype) -> EPPreferenceGP:
    X = uniform(8, 2, seed=3)
    order = (X - TOP).square().sum(-1).argsort()
    return model(X.to(dtype), torch.stack([order[:-1], order[1:]], dim=-1)).eval()


KINDS = [[2, 3, 4]]
MIXED = torch.tensor([[14.0, 3, 0, 0, 0], [22, 9, 1, 1, 1]], dtype=torch.double)


def mixed_model() -> EPPreferenceGP:
    """Makes a model of thirty duels in a number, a whole number and a choice."""
    source = torch.Generator().manual_seed(5)
    shares = torch.rand(60, 2, generator=source, dtype=torch.double)
    kind = torch.randint(3, (60,), generator=source)
    X = torch.cat([14 + 8 * shares[:, :1], 3 + (6 * shares[:, 1:]).round()], -1)
    X = torch.cat([X, torch.nn.functional.one_hot(kind, 3).double()], -1)
    utility = -(((X[:, 0] - 18) / 4) ** 2) - ((X[:, 1] - 6) / 3) ** 2 + (kind == 1)
    order = utility.view(30, 2).argsort(descending=True)
    pairs = 2 * torch.arange(30).unsqueeze(-1) + order
    return default_model(X, pairs, bounds=MIXED, categorical=KINDS)


def all_mixed(model: EPPreferenceGP, numbers: Tensor) -> tuple[Tensor, Tensor]:
    """Lists all designs of a grid, one by one, and their means."""
    rows = [
        [x, y, *(float(k == kind) for k in range(3))]
        for x in numbers.tolist()
        for y in range(3, 10)
        for kind in range(3)
    ]
    X = torch.tensor(rows, dtype=torch.double)
    with torch.no_grad():
        return X, model.posterior(X).mean.squeeze(-1)


def test_whole_numbers_and_choices_are_recommended_as_they_are() -> None:
    """At least as good as the best of a fine grid, and no design between choices."""
    model = mixed_model()
    steps = {1: [*range(3, 10)]}
    point, mean, _ = recommend(model, MIXED, discrete_dims=steps, categorical=KINDS)
    X, means = all_mixed(model, torch.linspace(14, 22, 161))
    assert mean >= float(means.max()) - 1e-6
    nearest = X[(X[:, 1:] == point[:, 1:]).all(-1)]
    assert len(nearest) == 161, f"{point.tolist()} is none of the designs"
    within = recommend(
        model,
        MIXED,
        discrete_dims=steps,
        categorical=KINDS,
        fixed_features={2: 1.0, 3: 0.0, 4: 0.0},
        inequality_constraints=[
            (torch.tensor([0, 1]), torch.tensor([-1.0, -1.0]).double(), -20.0)
        ],
    )
    allowed = (X[:, 2] == 1) & (X[:, 0] + X[:, 1] <= 20)
    assert within.mean >= float(means[allowed].max()) - 1e-6
    assert float(within.point[:, :2].sum()) <= 20 + 1e-6
    assert within.point[:, 2:].tolist() == [[1.0, 0.0, 0.0]]


def test_the_best_row_of_a_table_is_recommended() -> None:
    model = mixed_model()
    X, means = all_mixed(model, torch.linspace(14, 22, 5))
    point, mean, _ = recommend(model, MIXED, discrete=X)
    assert point.squeeze(0).equal(X[means.argmax()])
    assert mean == pytest.approx(float(means.max()), abs=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_top_of_a_quadratic_is_found(dtype: torch.dtype) -> None:
    point, mean, chance = recommend(quadratic(dtype), BOX)
    assert point.dtype == dtype
    torch.testing.assert_close(point, TOP.to(dtype).unsqueeze(0), atol=1e-3, rtol=0)
    # A step of 1e-3 costs 1e-6.
    assert abs(mean) < 1e-5
    # The incumbent is (0.1, 0.5), of mean -0.05.
    gap = point[0] - torch.tensor([0.1, 0.5], dtype=dtype)
    z = (mean + 0.05) / (0.1 * gap.norm())
    assert chance == pytest.approx(float(torch.special.ndtr(z)), abs=1e-3)


def test_an_end_of_the_box_bounds_the_point() -> None:
    box = torch.tensor([[0.5, 0.0], [1.0, 0.4]], dtype=torch.double)
    point, mean, _ = recommend(quadratic(), box)
    torch.testing.assert_close(point.squeeze(0), BOX.new_tensor([0.5, 0.4]))
    assert mean == pytest.approx(-0.08)


def test_bounds_in_other_units_are_told() -> None:
    box = torch.tensor([[0.0, 14.0], [1.0, 22.0]], dtype=torch.double)
    with pytest.warns(InputDataWarning, match=r"Column 1 .* 14 to 22, .* 0\.1 to 0\.9"):
        point, _, _ = recommend(quadratic(), box)
    assert float(point[0, 1]) == 14.0
    # A column that is fixed away from all points is meant so.
    fixed = torch.tensor([[0.0, 2.0], [1.0, 2.0]], dtype=torch.double)
    assert float(recommend(quadratic(), fixed).point[0, 1]) == 2.0


@pytest.mark.usefixtures("short_walks")
def test_constraints_hold() -> None:
    indices, coefficients = torch.tensor([0, 1]), torch.ones(2, dtype=torch.double)
    # The foot of the perpendicular from the top is (0.55, 0.85).
    above: Any = [(indices, coefficients, 1.4)]
    cases: list[tuple[dict[str, Any], list[float]]] = [
        ({"inequality_constraints": above}, [0.55, 0.85]),
        ({"equality_constraints": above}, [0.55, 0.85]),
        ({"fixed_features": {0: 0.8}}, [0.8, 0.6]),
        ({"fixed_features": {0: 0.8}, "inequality_constraints": above}, [0.8, 0.6]),
    ]
    for constraints, expected in cases:
        recommendation = recommend(
            quadratic(), BOX, num_restarts=2, raw_samples=16, **constraints
        )
        torch.testing.assert_close(
            recommendation.point,
            BOX.new_tensor([expected]),
            atol=1e-3,
            rtol=0,
            msg=str(constraints),
        )


@pytest.mark.parametrize("model_class", [EPPreferenceGP, SkewPreferenceGP])
def test_no_point_of_a_grid_has_a_larger_mean(
    model_class: type[EPPreferenceGP],
) -> None:
    model = pairs_of(model_class, torch.double)
    recommendation = recommend(model, BOX)
    grid = torch.cartesian_prod(*[torch.linspace(0, 1, 21).double()] * 2)
    with torch.no_grad():
        means = model.posterior(grid).mean
        of_champion = model.posterior(champion(model)).mean
        against = model.duel_probability(recommendation.point, incumbent(model))
    assert recommendation.mean >= float(means.max()) - 1e-6
    assert recommendation.mean >= float(of_champion) - 1e-9
    assert recommendation.chance == pytest.approx(float(against), abs=1e-4)


class Needle(Quadratic):
    """A utility that is by 5 larger within a hundredth of the last observed point."""

    def posterior(self, X: Tensor, *_: Any, **__: Any) -> GPyTorchPosterior:
        plain = super().posterior(X).distribution
        off = (X - self.train_inputs[0][-1]).square().sum(-1)
        mean = plain.mean + 5 * (-off / 1e-4).exp()
        return GPyTorchPosterior(MultivariateNormal(mean, plain.lazy_covariance_matrix))


def test_the_champion_is_found_where_no_other_start_leads_to_it() -> None:
    model = Needle(quadratic().train_inputs[0])
    recommendation = recommend(model, BOX, num_restarts=2, raw_samples=16)
    assert recommendation.mean >= float(model.posterior(champion(model)).mean) > 4


def test_equal_seeds_give_equal_points_and_leave_the_global_state() -> None:
    model = pairs_of(EPPreferenceGP, torch.double)
    state = torch.random.get_rng_state()
    first, second = (recommend(model, BOX, raw_samples=16, seed=5) for _ in range(2))
    assert torch.equal(first.point, second.point)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_what_cannot_be_is_named() -> None:
    model = quadratic()
    for bounds in (BOX[:, :1], BOX.flip(0), torch.inf * BOX):
        with pytest.raises(BotorchPrefError, match="give a tensor, 2 x 2"):
            recommend(model, bounds)
    for fixed in ({2: 0.5}, {"a": 0.5}, [0.5]):
        with pytest.raises(BotorchPrefError, match=r"columns by their indices, 0 to 1"):
            recommend(model, BOX, fixed_features=fixed)
    X = torch.rand(2, 3, 2, dtype=torch.double)
    batch = EPPreferenceGP(X, torch.tensor([[0, 1]]).expand(2, 1, 2))
    with pytest.raises(BotorchPrefError, match="a batch of shape"):
        recommend(batch, BOX)
    with pytest.raises(FeedbackError, match="without observed points"):
        recommend(EPPreferenceGP(None, None), BOX)
    with pytest.raises(FeedbackError, match="no answers yet"):
        recommend(EPPreferenceGP(torch.zeros(2, 2).double()), BOX)


def stopped_at(*positions: float) -> Quadratic:
    """Returns the same after stops on the line of which the top is at 0.3."""
    y = float(TOP[1])
    stops = [[position, y] for position in positions]
    model = Quadratic(torch.tensor([[0.0, y], [1.0, y], *stops], dtype=torch.double))
    number = len(positions)
    points = torch.full((number, 7), -1)
    points[:, 0], points[:, 5], points[:, 6] = torch.arange(2, 2 + number), 0, 1
    lines = torch.tensor([[0, 1]]).expand(number, 2)
    chosen = torch.tensor(positions, dtype=torch.double)
    model.feedback = (LineChoices(lines, chosen, points=points),)
    return model


@pytest.mark.parametrize(
    ("positions", "limit", "expected"),
    [
        ((0.319,), 1.0, 0.319),
        ((0.321,), 1.0, 0.3),
        ((0.9, 0.281), 1.0, 0.281),
        ((0.281, 0.9), 1.0, 0.3),
        ((0.319,), 0.31, 0.3),
    ],
    ids=["near", "far", "last of two", "first of two", "forbidden"],
)
def test_a_last_stop_that_no_hand_tells_from_the_top_is_recommended(
    positions: tuple[float, ...], limit: float, expected: float
) -> None:
    """A hand is steady to a fiftieth of a line."""
    constraint = torch.tensor([0]), torch.tensor([-1.0], dtype=torch.double), -limit
    model = stopped_at(*positions)
    point = recommend(model, BOX, inequality_constraints=[constraint]).point
    truth = torch.tensor([[expected, float(TOP[1])]], dtype=torch.double)
    assert torch.allclose(point, truth, atol=1e-4)


@pytest.mark.parametrize(
    ("position", "expected"), [(0.319, 0.319), (0.3186, 0.3), (0.322, 0.3)]
)
def test_a_stop_on_a_step_is_recommended(position: float, expected: float) -> None:
    steps = {0: [step / 1000 for step in range(1001)]}
    point = recommend(stopped_at(0.9, position), BOX, discrete_dims=steps).point
    assert float(point[0, 0]) == expected


def test_lines_run_through_what_is_recommended() -> None:
    X, stops = BOX[:0], list[float]()
    for _ in range(4):
        model = None if not stops else default_model(X, line_choices(stops))
        question = next_question(model, BOX, kind="line")
        path = question.at(torch.linspace(0, 1, 101))
        utilities = -(path - TOP).square().sum(-1)
        X, stops = torch.cat([X, question.options]), [*stops, utilities.argmax() / 100]
    model = default_model(X, line_choices(stops))
    # One number moves, and the step stays.
    space = {"discrete_dims": {0: [step / 20 for step in range(21)]}}
    line = next_question(model, BOX, kind="line", **space)
    assert line.acquisition == "LineEUBO"
    recommended = recommend(model, BOX, **space).point
    assert line.options[:, 0].tolist() == 2 * recommended[:, 0].tolist()


def line_choices(stops: list[float]) -> LineChoices:
    lines = torch.arange(2 * len(stops)).view(-1, 2)
    return LineChoices(lines, torch.tensor(stops, dtype=torch.double))


def of_two_raters(order: list[int]) -> EPPreferenceGP:
    """Stops of two raters on one line, at 0.49 of rater 0 and 0.51 of rater 1."""
    raters = torch.tensor(order, dtype=torch.double)
    lines = torch.arange(2 * len(order)).view(-1, 2)
    points = torch.zeros(len(order), 2, 2, dtype=torch.double)
    points[:, 1, 0] = 1.0
    points[..., 1] = raters.unsqueeze(-1)
    stops = LineChoices(lines, 0.49 + 0.02 * raters)
    kernel = rater_covar_module(1, stimulus=RBFKernel()).double()
    return EPPreferenceGP(points.flatten(0, 1), feedback=[stops], covar_module=kernel)


def test_the_utility_of_a_rater_has_his_stop_and_the_mean_of_several_none() -> None:
    points, bounds = [], BOX[:, :1]
    for order in ([0, 1], [1, 0], [0, 1, 0]):
        model = of_two_raters(order)
        for rater, stop in ((0.0, 0.49), (1.0, 0.51)):
            utility = GroupUtility(model.eval(), torch.tensor([rater]).double())
            point = recommend(utility, bounds).point
            assert float(point) == pytest.approx(stop, abs=1e-12)
        group = GroupUtility(model, torch.tensor([0.0, 1.0]).double())
        points.append(float(recommend(group, bounds).point))
    # Whoever answered last: between both, as near as a search comes.
    assert points[0] == pytest.approx(points[1], abs=1e-4)
    assert all(0.4905 < point < 0.5095 for point in points)
