"""Lines through the best design: their ends, their value, and the question of one."""

import re

import pytest
import torch
from torch import Generator
from torch.quasirandom import SobolEngine

from botorch_pref import (
    BotorchPrefError,
    Comparisons,
    EPPreferenceGP,
    FeedbackError,
    LineChoices,
    LineQuestion,
    default_model,
    incumbent,
    next_question,
)
from botorch_pref.acquisition.design_space import DesignSpace
from botorch_pref.acquisition.line_search import LineEUBO, line_ends, points_on_lines

DOUBLE = torch.float64
BOUNDS = torch.tensor([[0.0, -1.0, 0.0, 0.0], [2.0, 3.0, 1.0, 1.0]], dtype=DOUBLE)
# x_0 + x_1 <= 3
LIMIT = (torch.tensor([0, 1]), torch.tensor([-1.0, -1.0], dtype=DOUBLE), -3.0)
SPACE = DesignSpace.from_bounds(
    BOUNDS, inequality_constraints=[LIMIT], categorical=[[2, 3]]
)


def uniform(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = Generator().manual_seed(seed)
    return torch.rand(*shape, generator=generator, dtype=DOUBLE)


def test_lines_run_through_both_designs_from_edge_to_edge() -> None:
    start, toward = SPACE.features(SPACE.draw(400, seed=1)).split(200)
    ends = line_ends(SPACE, start, toward)
    assert bool(SPACE.allows(ends).all())
    # The category is that of the design at which the line starts.
    assert torch.equal(ends[:, 0, 2:], start[:, 2:])
    assert torch.equal(ends[:, 1, 2:], start[:, 2:])
    first, second = ends[:, 0, :2], ends[:, 1, :2]
    length = (second - first).norm(dim=-1)
    for point in (start[:, :2], toward[:, :2]):
        ways = (point - first).norm(dim=-1) + (second - point).norm(dim=-1)
        torch.testing.assert_close(ways, length)
    # A step on, one is outside.
    for end, far_end in ((first, second), (second, first)):
        beyond = end + 1e-3 * (end - far_end)
        X = torch.cat([beyond, start[:, 2:]], dim=-1)
        assert not bool(SPACE.allows(X).any())


# x_0 + x_1 / 2 is at most, and at least, 1.
SUM = (torch.tensor([0, 1]), torch.tensor([1.0, 0.5], dtype=DOUBLE), 1.0)
PAIR = [SUM, (SUM[0], -SUM[1], -1.0)]


def test_a_line_along_an_equality_runs_from_edge_to_edge() -> None:
    """Rounding leaves it a slope against the edge that it runs along."""
    bounds = torch.tensor([[0.0, 0.0], [2.0, 3.0]], dtype=DOUBLE)
    edges = torch.tensor([[0.0, 2.0], [1.0, 0.0]], dtype=DOUBLE)
    for seed in range(20):
        line = next_question(
            None, bounds, kind="line", inequality_constraints=PAIR, seed=seed
        )
        ends = line.options[line.options[:, 0].argsort()]
        torch.testing.assert_close(ends, edges, rtol=0, atol=1e-12)


def test_a_line_of_single_precision_stays_on_an_equality() -> None:
    """Each of three shares is at most 1, so that an end lacks one of them."""
    bounds = torch.tensor([[0.0] * 3, [1.0] * 3])
    columns, ones = torch.arange(3), torch.ones(3)
    whole = [(columns, ones, 1.0), (columns, -ones, -1.0)]
    space = DesignSpace.from_bounds(bounds, inequality_constraints=whole)
    start, toward = space.features(space.draw(80, seed=0)).split(40)
    ends = line_ends(space, start, toward)
    assert ends.dtype == torch.float32
    torch.testing.assert_close(ends.sum(-1), torch.ones(40, 2), rtol=0, atol=2e-6)
    least = ends.amin(-1)
    torch.testing.assert_close(least, torch.zeros(40, 2), rtol=0, atol=1e-5)


def test_no_line_is_asked_about_where_no_number_can_move(
    model: EPPreferenceGP,
) -> None:
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=DOUBLE)
    with pytest.raises(FeedbackError, match=r"No line has room.*Ask for options"):
        next_question(model, bounds, kind="line", inequality_constraints=PAIR)


def test_what_listed_values_add_leaves_lines_less_room() -> None:
    """x_0 + x_1 is at most 1, and x_1 0, 0.5 or 1."""
    bounds = torch.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], dtype=DOUBLE)
    space = DesignSpace.from_bounds(
        bounds,
        discrete_dims={1: [0.0, 0.5, 1.0]},
        inequality_constraints=[(LIMIT[0], LIMIT[1], -1.0)],
    )
    start, toward = space.features(space.draw(40, seed=0)).split(20)
    ends = line_ends(space, start, toward)
    assert torch.equal(ends[..., 1], start[:, 1:2].expand(20, 2))
    assert float(ends[..., :2].sum(-1).max()) <= 1 + 1e-15
    # Of half the room the line uses all, or it ends at another edge.
    room = torch.stack(
        [ends[..., 0], 1 - ends[..., :2].sum(-1), ends[..., 2], 1 - ends[..., 2]], -1
    )
    torch.testing.assert_close(
        room.amin(-1), torch.zeros(20, 2, dtype=DOUBLE), rtol=0, atol=1e-12
    )


def test_a_line_towards_its_own_start_is_a_point() -> None:
    start = torch.tensor([[1.0, 1.0, 1.0, 0.0]], dtype=DOUBLE)
    ends = line_ends(SPACE, start, start)
    torch.testing.assert_close(ends, start.expand(1, 2, 4))


@pytest.fixture(scope="module")
def model() -> EPPreferenceGP:
    """A utility whose maximum is at the centre of the unit square."""
    X = uniform(12, 2)
    stops = []
    for first, second in X.view(6, 2, 2):
        path = torch.lerp(
            first, second, torch.linspace(0, 1, 201, dtype=DOUBLE)[:, None]
        )
        stops.append((path - 0.5).square().sum(-1).argmin() / 200)
    lines = torch.arange(12).view(6, 2)
    return default_model(X, LineChoices(lines, torch.stack(stops).double()))


def test_a_line_is_worth_the_expected_best_of_it(model: EPPreferenceGP) -> None:
    best, X = incumbent(model), uniform(5, 2, 2, seed=3)
    acquisition = LineEUBO(model, best, generator=Generator().manual_seed(0))
    with torch.no_grad():
        values = acquisition(X)
        for value, ends in zip(values, X, strict=True):
            points = torch.cat([points_on_lines(ends, 11), best])
            posterior = model.posterior(points)
            covariance = posterior.distribution.covariance_matrix
            eigenvalues, vectors = torch.linalg.eigh(covariance)
            root = vectors * eigenvalues.clamp_min(0.0).sqrt()
            normal = torch.randn(
                20_000, 12, generator=Generator().manual_seed(1), dtype=DOUBLE
            )
            draws = posterior.mean.squeeze(-1) + normal @ root.T
            gains = draws.amax(-1) - draws[:, -1]
            # Quasi-random draws, of which `DuelingJointEUBO` has 64, err less than two
            # standard errors of random ones.
            error = 2 * gains.std() / 64**0.5 + 4 * gains.std() / 20_000**0.5
            assert float((value - gains.mean()).abs()) < float(error)


def test_the_gradient_of_a_line_is_that_of_differences(model: EPPreferenceGP) -> None:
    best = torch.tensor([[0.4, 0.45]], dtype=DOUBLE)
    acquisition = LineEUBO(model, best, generator=Generator().manual_seed(0))
    X = torch.tensor([[[0.8, 0.6], [0.1, 0.3]]], dtype=DOUBLE, requires_grad=True)
    (slope,) = torch.autograd.grad(acquisition(X).sum(), X)
    step = 1e-5
    for end, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
        moved = torch.zeros_like(X)
        moved[0, end, column] = step
        with torch.no_grad():
            change = acquisition(X + moved) - acquisition(X - moved)
        assert float(slope[0, end, column]) == pytest.approx(
            float(change) / (2 * step), rel=1e-3, abs=1e-6
        )


@pytest.mark.slow
def test_lines_and_options_find_numbers_and_category() -> None:
    """A line says nothing of categories, which stay along it; two options do."""
    X, lines, stops, pairs = BOUNDS[:0], [], [], []
    model, share = None, torch.linspace(0, 1, 201, dtype=DOUBLE)
    peak = torch.tensor([0.7, 0.2], dtype=DOUBLE)
    space = {"inequality_constraints": [LIMIT], "categorical": [[2, 3]]}

    def utility(design: torch.Tensor) -> torch.Tensor:
        return design[..., 3] - (design[..., :2] - peak).square().sum(-1)

    for number in range(14):
        number_of_points = len(X)
        if number % 2:
            options = next_question(model, BOUNDS, 2, **space).options
            better = int(utility(options).argmax())
            pairs.append([number_of_points + better, number_of_points + 1 - better])
        else:
            question = next_question(model, BOUNDS, kind="line", **space)
            again = next_question(model, BOUNDS, kind="line", **space)
            assert isinstance(question, LineQuestion)
            assert torch.equal(question.options, again.options)
            path, options = question.at(share), question.options
            assert bool(SPACE.allows(path).all())
            stops.append(float(share[utility(path).argmax()]))
            lines.append([number_of_points, number_of_points + 1])
        X = torch.cat([X, options])
        answers = [LineChoices(torch.tensor(lines), torch.tensor(stops).double())]
        if pairs:
            answers.append(Comparisons(torch.tensor(pairs)))
        model = default_model(X, answers, bounds=BOUNDS, categorical=[[2, 3]])
    # Of a range of about ten, and one for the category.
    assert float(utility(incumbent(model))) > 0.9


def test_first_lines_run_through_further_designs_of_the_sequence() -> None:
    """Whether those before them wait for an answer or have one."""
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=DOUBLE)
    lines = bounds.new_zeros(0, 2, 2)
    for _ in range(4):
        line = next_question(None, bounds, kind="line", pending=lines).options
        lines = torch.cat([lines, line[None]])
    through = SobolEngine(2, scramble=True, seed=0).draw(8, dtype=DOUBLE)
    for line, points in zip(lines, through.view(4, 2, 2), strict=True):
        length = (line[0] - line[1]).norm()
        ways = (points.unsqueeze(-2) - line).norm(dim=-1).sum(-1)
        torch.testing.assert_close(ways, length.expand(2))
    answers = LineChoices(torch.tensor([[0, 1]]), torch.tensor([0.3], dtype=DOUBLE))
    model = default_model(lines[0], answers)
    line = next_question(model, bounds, kind="line").options
    assert torch.equal(line, lines[1]), "a line after one answer is not the second"


def test_a_line_that_waits_is_not_asked_again(model: EPPreferenceGP) -> None:
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=DOUBLE)
    first = next_question(model, bounds, kind="line").options
    other = next_question(model, bounds, kind="line", pending=first[None]).options
    moved = [int((line[0] - line[1]).abs().argmax()) for line in (first, other)]
    assert sorted(moved) == [0, 1]


def test_nobody_is_asked_to_turn_one_knob_over_and_over() -> None:
    """Though two designs along it seem equally good, and each stop is at another."""
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=DOUBLE)
    X, stops, moved = bounds[:0], list[float](), []
    for number in range(9):
        lines = torch.arange(len(X)).view(-1, 2)
        answers = LineChoices(lines, torch.tensor(stops, dtype=DOUBLE))
        model = default_model(X, answers) if stops else None
        ends = next_question(model, bounds, kind="line").options
        humps = torch.tensor([[0.5, 0.15], [0.5, 0.85]], dtype=DOUBLE)[number % 2]
        path = points_on_lines(ends, 101)
        stops.append(float((path - humps).square().sum(-1).argmin()) / 100)
        X = torch.cat([X, ends])
        if number >= 3:
            moved.append((ends[0] != ends[1]).nonzero().flatten().tolist())
    assert moved in ([[0], [1]] * 3, [[1], [0]] * 3)


def test_the_only_knob_is_turned_again() -> None:
    bounds = torch.tensor([[0.0], [1.0]], dtype=DOUBLE)
    answers = LineChoices(
        torch.tensor([[0, 1]] * 3), torch.tensor([0.3, 0.4, 0.35], dtype=DOUBLE)
    )
    model = default_model(bounds, answers)
    assert next_question(model, bounds, kind="line").options.sum() == 1


@pytest.mark.parametrize("position", [1.5, -0.1, float("nan")])
def test_no_design_is_beyond_the_ends_of_a_line(position: float) -> None:
    question = next_question(None, BOUNDS, categorical=[[2, 3]], kind="line")
    with pytest.raises(FeedbackError, match="position is"):
        question.at(position)


def test_a_fixed_feature_is_a_number() -> None:
    with pytest.raises(BotorchPrefError, match=r"fixed_features\[0\] is nan"):
        next_question(None, BOUNDS, fixed_features={0: float("nan")})


def test_lines_of_a_catalogue_are_refused() -> None:
    with pytest.raises(FeedbackError, match="A line takes no discrete"):
        next_question(None, BOUNDS, discrete=BOUNDS, kind="line")
    with pytest.raises(FeedbackError, match=re.escape("kind is 'lines'")):
        next_question(None, BOUNDS, kind="lines")


@pytest.mark.parametrize("name", ["choices", "beside", "feasibility_model"])
def test_what_options_are_worth_is_nothing_to_a_line(
    model: EPPreferenceGP, name: str
) -> None:
    value = model if name == "feasibility_model" else uniform(3, 2)
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=DOUBLE)
    with pytest.raises(FeedbackError, match=f"takes no {name}"):
        next_question(model, bounds, kind="line", **{name: value})
