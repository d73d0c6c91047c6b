"""Experiments that show galleries: which designs, what is kept, and what it teaches."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from pandas import DataFrame

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.errors import ExperimentError

AMOUNT = RangeParameterConfig(name="amount", bounds=(0.0, 1.0), parameter_type="float")
HEAT = RangeParameterConfig(
    name="heat", bounds=(1.0, 100.0), parameter_type="float", scaling="log"
)
CUPS = RangeParameterConfig(name="cups", bounds=(1, 7), parameter_type="int")
MILL = RangeParameterConfig(
    name="mill", bounds=(0.0, 2.0), step_size=0.5, parameter_type="float"
)
BEAN = ChoiceParameterConfig(
    name="bean",
    values=["arabica", "robusta"],
    parameter_type="str",
    is_ordered=False,
)
SPACE = [AMOUNT, HEAT, CUPS, MILL, BEAN]
LIMIT = "amount + 0.1 * cups <= 1"


def created(folder: Path, parameters: Any = SPACE, **given: Any) -> Any:
    return PreferenceExperiment.create(
        "gallery", parameters=parameters, storage=folder / "plane.db", seed=0, **given
    )


def taste(design: Mapping[str, Any]) -> float:
    heat = math.log10(design["heat"]) - 1.2
    cups = (design["cups"] - 3) / 6
    return -((design["amount"] - 0.3) ** 2 + heat**2 + cups**2)


def best(question: Any) -> int:
    return max(range(len(question.options)), key=lambda i: taste(question.options[i]))


@pytest.fixture
def experiment(tmp_path: Path) -> Any:
    return created(tmp_path, parameter_constraints=[LIMIT])


def test_a_gallery_moves_two_parameters_of_the_recommended_design(
    experiment: Any,
) -> None:
    for _ in range(3):
        question = experiment.ask(plane=True)
        assert len(question.options) == 9
        experiment.tell(question, best=best(question))
    for _ in range(2):
        top = experiment.recommend(anywhere=True)
        question = experiment.ask(plane=True)
        assert top in question.options
        moved = [
            name
            for name in top
            if len({option[name] for option in question.options}) > 1
        ]
        rows, columns = (
            [[option[name] for option in question.options] for name in names]
            for names in (moved[:1], moved[1:])
        )
        # One parameter moves from row to row, and the other along each.
        ((first, second),) = zip(rows, columns, strict=True)
        if first[0] == first[3]:
            first, second = second, first
        assert first == sorted(first)
        assert first[::3] == sorted({*first})
        assert second[:3] == sorted({*second})
        assert second == second[:3] * 3
        for option in question.options:
            assert option["amount"] + 0.1 * option["cups"] <= 1 + 1e-9
            assert option["bean"] == top["bean"]
        experiment.tell(question, best=best(question))
    # A design at random is off by 0.6 in the mean.
    assert taste(experiment.recommend()) > -0.1


def test_a_gallery_is_kept_undone_and_exported_as_a_best_of_nine(
    experiment: Any, tmp_path: Path
) -> None:
    for _ in range(4):
        question = experiment.ask(plane=True)
        experiment.tell(question, best=best(question))
    said = best(question)
    assert experiment.undo() == question
    resumed = PreferenceExperiment.resume("gallery", storage=tmp_path / "plane.db")
    assert resumed.pending == [question]
    # Two people are not asked about one plane at the same time.
    other = resumed.ask(plane=True)
    assert other.options != question.options
    resumed.withdraw(other)
    resumed.tell(question, best=said)
    table = resumed.answers()
    assert len(table) == 4 * 9
    assert table["best"].dropna().tolist().count(1) == 4
    resumed.write_answers(tmp_path / "answers.csv")
    copied = PreferenceExperiment.create(
        "copied",
        parameters=SPACE,
        parameter_constraints=[LIMIT],
        storage=tmp_path / "copied.db",
        seed=0,
    )
    assert len(copied.record_table(tmp_path / "answers.csv")) == 4
    assert copied.recommend() == resumed.recommend()


def test_a_gallery_stays_in_its_context(tmp_path: Path) -> None:
    experiment = created(tmp_path, [AMOUNT, HEAT, CUPS], context=["cups"])
    for cups in (2, 5, 2, 5):
        question = experiment.ask(plane=True, context={"cups": cups})
        assert {option["cups"] for option in question.options} == {cups}
        experiment.tell(question, best=best(question))


@pytest.mark.parametrize(
    ("parameters", "arguments", "message"),
    [
        (SPACE, {"line": True}, "plane and line are both there"),
        (SPACE, {"options": [{}, {}]}, "plane and options are both there"),
        (SPACE, {"size": 4}, "size is 4; a plane has 9 designs"),
        ([AMOUNT, BEAN], {}, "chosen, 1 can move"),
    ],
)
def test_what_is_no_gallery_is_refused(
    tmp_path: Path, parameters: Any, arguments: dict[str, Any], message: str
) -> None:
    experiment = created(tmp_path, parameters)
    with pytest.raises(ExperimentError, match=message):
        experiment.ask(plane=True, **arguments)
    assert experiment.log.questions == []


def test_a_catalogue_has_no_galleries(tmp_path: Path) -> None:
    table = DataFrame(
        {"amount": [0.1 * i for i in range(12)]}, index=[*map(str, range(12))]
    )
    catalogue = PreferenceExperiment.create(
        "rows", catalogue=table, storage=tmp_path / "rows.db"
    )
    with pytest.raises(ExperimentError, match="ask without plane=True"):
        catalogue.ask(plane=True)


def test_where_no_plane_has_room_nine_other_designs_are_shown(tmp_path: Path) -> None:
    """Of a mixture that is best pure: no two parameters move freely there."""
    parts = [
        RangeParameterConfig(name=name, bounds=(0.0, 1.0), parameter_type="float")
        for name in "abc"
    ]
    mixture = created(tmp_path, parts, parameter_constraints=["a + b + c <= 1"])
    tops = []
    for _ in range(7):
        question = mixture.ask(plane=True)
        assert len({tuple(option.values()) for option in question.options}) == 9
        assert all(sum(option.values()) <= 1 + 1e-9 for option in question.options)
        amounts = [option["a"] for option in question.options]
        mixture.tell(question, best=amounts.index(max(amounts)))
        tops.append(mixture.recommend(anywhere=True)["a"])
    assert tops[-1] > 0.97
    # At the corner itself there is no plane.
    assert 1.0 in tops[:-1]
