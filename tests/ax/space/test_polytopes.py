"""Search spaces under linear constraints: what is created can be asked about."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from ax.api.configs import RangeParameterConfig
from ax.api.utils.instantiation.from_config import parameter_from_config
from ax.core.search_space import SearchSpace
from espresso import QUICK, QUICK_FIT
from parameters import choice, real, whole

from botorch_pref.acquisition.polytopes import Frame
from botorch_pref.ax import PreferenceExperiment
from botorch_pref.ax.space.constraints import LinearConstraint, check_feasible
from botorch_pref.errors import ExperimentError

Rows = list[tuple[np.ndarray, float]]
"""Inequalities: coefficients, and what their sum must not exceed."""


def random_space(seed: int, share_whole: float = 0.0) -> tuple[list, Rows]:
    """Draws parameters of different sizes, and inequalities about a point in them.

    The room that inequalities leave is anything from none, by two of them, to a lot.
    """
    draws = np.random.default_rng(seed)
    dim = int(draws.integers(2, 6))
    lower = draws.normal(size=dim) * 10.0 ** draws.integers(-2, 3, dim)
    width = 10.0 ** draws.integers(-2, 3, dim)
    is_integer = draws.random(dim) < share_whole
    lower[is_integer], width[is_integer] = (
        lower[is_integer].round(),
        draws.integers(2, 30, is_integer.sum()),
    )
    parameters = [
        RangeParameterConfig(
            name=f"x{i}",
            parameter_type="int" if is_integer[i] else "float",
            bounds=(int(lower[i]), int(lower[i] + width[i]))
            if is_integer[i]
            else (float(lower[i]), float(lower[i] + width[i])),
        )
        for i in range(dim)
    ]
    inside = lower + width * draws.random(dim)
    inside[is_integer] = inside[is_integer].round()
    rows = []
    for _ in range(draws.integers(1, 4)):
        weights = np.where(draws.random(dim) < 0.7, draws.normal(size=dim).round(2), 0)
        if not weights.any():
            continue
        # In units of the range, which a row is then divided by.
        room = float(draws.choice([0.0, 1e-3, 1e-2, 0.3]))
        middle = float((weights / width) @ inside)
        rows.append((weights / width, middle + room))
        if draws.random() < 0.5:
            rows.append((-weights / width, -middle + room / 2))
    return parameters, rows


def text(row: tuple[np.ndarray, float]) -> str:
    terms = [f"{float(w)!r} * x{i}" for i, w in enumerate(row[0]) if w]
    return f"{' + '.join(terms)} <= {row[1]!r}"


def check_served(
    parameters: list, rows: Rows, path: Path, sizes: tuple[int, ...]
) -> PreferenceExperiment:
    experiment = PreferenceExperiment.create(
        "polytope",
        parameters=parameters,
        parameter_constraints=[text(row) for row in rows],
        storage=path,
        initial=len(sizes) - 1,
        optimizer_options=QUICK,
        fit_options=QUICK_FIT,
    )
    for size in sizes:
        question = experiment.ask(size)
        assert len(question.options) == size
        points = np.array([[*option.values()] for option in question.options])
        for weights, limit in rows:
            assert (points @ weights <= limit + 1e-7).all()
        for config, column in zip(parameters, points.T, strict=True):
            low, high = config.bounds
            slack = 1e-9 * (high - low)
            assert ((low - slack <= column) & (column <= high + slack)).all()
        experiment.tell(question, ranking=[*np.argsort(points[:, 0]).tolist()])
    return experiment


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_random_polytopes_are_served(seed, tmp_path) -> None:
    # Around a point of their own, so that none of them is empty.
    check_served(*random_space(seed), tmp_path / "space.db", (2, 3, 2))


@pytest.mark.slow
# No two designs satisfy all of the first.
@pytest.mark.parametrize("seed", [16, 33])
def test_with_whole_numbers_they_are_served_or_refused_at_once(seed, tmp_path) -> None:
    parameters, rows = random_space(seed, share_whole=0.2)
    try:
        check_served(parameters, rows, tmp_path / "space.db", (2, 2))
    except ExperimentError as error:
        # Two designs were not found, and nothing was stored.
        expected = "no two designs that satisfy|no design"
        with pytest.raises(ExperimentError, match=expected):
            raise error from None
        assert not (tmp_path / "space.db").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "rows",
    [
        [((1, 1, 1, 1, 1), 0.01)],
        [((1, 1), 1), ((-1, -1), -1)],
        [((1, -1, 0), 0), ((-1, 1, 0), 0), ((1, 0, 1), 1)],
        [((1, 1), 0.5001), ((-1, -1), -0.5)],
        [((1, 0, 0), 0), ((0, 1, 1), 1)],
    ],
)
def test_thin_and_flat_polytopes_are_served(rows, tmp_path) -> None:
    parameters = [real(f"x{i}") for i in range(len(rows[0][0]))]
    rows = [(np.array(weights, dtype=float), float(limit)) for weights, limit in rows]
    experiment = check_served(parameters, rows, tmp_path / "thin.db", (2, 4, 2))
    assert experiment.answers()["chosen_by"].tolist()[-1] == "Preference"


def test_numbers_in_steps_are_spread_like_others(tmp_path) -> None:
    row, questions = (np.array([1.0, 1.0]), 56.0), []
    for step in (None, 1.0):
        grains = real("x0", 40, 60, step_size=step)
        path = tmp_path / f"{step}.db"
        experiment = check_served([grains, real("x1", 6, 8)], [row], path, (4, 4))
        answers = experiment.answers()
        assert answers["chosen_by"].tolist()[-1] == "Preference"
        questions.append(answers["x0"].to_numpy()[:4])
    # Both of the same Sobol sequence, one rounded.
    assert np.abs(questions[0] - questions[1]).max() <= 1


def test_ranges_fit_what_constraints_leave(tmp_path) -> None:
    parameters = [
        real("x", -5, 5),
        whole("n", 0, 100),
        real("y"),
    ]
    constraints = ["x <= 0.25", "x >= 0.2", "n + y <= 4.5", "y <= 0.6"]

    def created(name: str) -> PreferenceExperiment:
        return PreferenceExperiment.create(
            name,
            parameters=parameters,
            parameter_constraints=constraints,
            storage=tmp_path / f"{name}.db",
        )

    space = created("fit").experiment.search_space.parameters
    bounds = {n: (p.lower, p.upper) for n, p in space.items()}
    # More than a tenth of y is left.
    assert bounds == {"x": (0.2, 0.25), "n": (0, 4), "y": (0.0, 1.0)}
    PreferenceExperiment.resume(
        "fit",
        storage=tmp_path / "fit.db",
        parameters=parameters,
        parameter_constraints=constraints,
    )


@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize(
    ("parameters", "constraints", "match"),
    [
        (
            [real("x")],
            ["x <= 0.5", "x >= 0.5"],
            r"no two designs that satisfy .*x <= 0.5.* Leave more room",
        ),
        (
            [choice("a", [1], is_ordered=True)],
            [],
            "no two designs were found",
        ),
        (
            [whole("n", 0, 9), whole("k", 0, 9)],
            ["n + k <= 0.5"],
            "satisfy n . k <= 0.5",
        ),
        ([whole("n", 0, 3), real("x")], ["n + x >= 4"], "satisfy - n - x <= -4"),
    ],
)
def test_one_design_is_no_experiment(
    parameters, constraints, match, tmp_path, monkeypatch
) -> None:
    def search(*_: object) -> None:
        raise AssertionError("designs were sought, for minutes, that cannot be")

    monkeypatch.setattr("botorch_pref.ax.creation.next_options", search)
    with pytest.raises(ExperimentError, match=match):
        PreferenceExperiment.create(
            "one",
            parameters=parameters,
            parameter_constraints=constraints,
            storage=tmp_path / "one.db",
        )
    assert not (tmp_path / "one.db").exists()


def test_a_choice_is_one_of_its_values() -> None:
    """Of 1, 2, 3 and 5 none is 4, though two of them together are."""
    cup = choice("cup", [1, 2, 3, 5], is_ordered=True)
    space = SearchSpace([parameter_from_config(cup)])
    for constraints, feasible in (
        (["cup <= 4"], True),
        (["cup <= 4", "cup >= 4"], False),
    ):
        space.set_parameter_constraints(
            [LinearConstraint.parsed(text, ["cup"]) for text in constraints]
        )
        if feasible:
            check_feasible(space)
        else:
            with pytest.raises(ExperimentError, match="no design satisfies all of"):
                check_feasible(space)


@pytest.mark.slow
def test_the_walk_is_uniform_in_a_flat_simplex() -> None:
    # x + y + z = 1 by two inequalities: each coordinate is Beta(1, 2), of mean 1/3,
    # variance 1/18 and median 1 - sqrt(1/2).
    A = torch.tensor([[1.0, 1.0, 1.0], [-1.0, -1.0, -1.0]]).double()
    b = torch.tensor([1.0, -1.0]).double()
    bounds = torch.tensor([[0.0] * 3, [1.0] * 3]).double()
    frame = Frame.from_constraints(A, b, bounds)
    assert frame.axes.shape == (3, 2)
    points = frame.spread(200, seed=0)
    assert torch.allclose(points.sum(-1), torch.ones(200).double())
    assert (points >= -1e-12).all()
    for column in points.T:
        # Five standard errors of so many independent draws.
        assert abs(column.mean() - 1 / 3) < 5 * (1 / 18 / 200) ** 0.5
        below = (column < 1 - 0.5**0.5).double().mean()
        assert abs(below - 0.5) < 5 * 0.5 / 200**0.5


@pytest.mark.slow
def test_a_frame_is_as_wide_as_a_slab_in_each_direction() -> None:
    # Between two lines 1e-4 apart: of the walk's coordinates, each varies alike.
    A = torch.tensor([[1.0, 1.0], [-1.0, -1.0]]).double()
    b = torch.tensor([0.5001, -0.5], dtype=torch.float64)
    bounds = torch.tensor([[0.0] * 2, [1.0] * 2]).double()
    points = Frame.from_thin(A, b, bounds).spread(150, seed=1)
    across = (points.sum(-1) - 0.5) / 1e-4
    along = (points[:, 0] - points[:, 1] + 0.5) / 1.0
    for share in (across, along):
        # Uniform from 0 to 1, up to the ends of the slab.
        assert abs(share.mean() - 0.5) < 5 * (1 / 12 / 150) ** 0.5
        assert share.min() < 0.05
        assert share.max() > 0.95


@pytest.mark.slow
def test_few_whole_designs_of_many_are_found(tmp_path) -> None:
    """Six whole numbers whose sum is three at most, 84 of a million designs."""
    parameters = [whole(f"x{i}", 0, 9) for i in range(6)]
    row = (np.ones(6), 3.0)
    check_served(parameters, [row], tmp_path / "whole.db", (2, 3))
    assert sum(sum(w) <= 3 for w in itertools.product(range(4), repeat=6)) == 84
