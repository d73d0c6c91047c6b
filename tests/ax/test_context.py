"""Contexts, measured and not chosen: asked in one, learned in all of them."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from parameters import choice, real, whole
from showing import averaged_draws

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.ax.space.context import context_of, context_text, in_context
from botorch_pref.ax.summary import candidate_points
from botorch_pref.errors import ExperimentError
from botorch_pref.web.worker import findings_of, packed_state

BEST_DOSE = {"a": 16.0, "b": 20.0}
ROOM = choice("room", ["a", "b"], is_ordered=False)
PARAMETERS = [real("dose", 14, 22), whole("pressure", 3, 9), ROOM]


def liked(design: Mapping[str, Any]) -> float:
    """Computes the utility of a person whose best dose depends on the room."""
    off = design["dose"] - BEST_DOSE[design["room"]]
    return -((off / 4) ** 2) - ((design["pressure"] - 8) / 3) ** 2


def create(folder: Path, name: str = "rooms", **settings: Any) -> PreferenceExperiment:
    arguments = {"parameters": PARAMETERS, "context": ["room"], **settings}
    return PreferenceExperiment.create(name, storage=folder / f"{name}.db", **arguments)


def order(question) -> list[int]:
    utilities = torch.tensor([liked(option) for option in question.options])
    return utilities.argsort(descending=True).tolist()


@pytest.fixture(scope="module")
def asked(tmp_path_factory) -> PreferenceExperiment:
    """Five rankings of four in each room, in turn; the model chose six of the ten."""
    experiment = create(tmp_path_factory.mktemp("context"), seed=1, initial=4)
    for number in range(10):
        question = experiment.ask(context={"room": "ab"[number % 2]})
        experiment.tell(question, ranking=order(question))
    return experiment


def test_all_options_of_a_question_are_in_the_context(asked) -> None:
    for number, question in enumerate(map(asked.question, range(10))):
        rooms = {option["room"] for option in question.options}
        assert rooms == {"ab"[number % 2]}, f"question {number} is in the rooms {rooms}"
        assert question.context == {"room": "ab"[number % 2]}
    assert asked.log.questions[9].content["chosen_by"] == "Preference"


def test_the_best_design_of_each_context_is_recommended(asked) -> None:
    for room, dose in BEST_DOSE.items():
        best = asked.recommend(anywhere=True, context={"room": room})
        assert best["room"] == room
        # Ten per cent of the ranges: of 20 designs in a room the nearest is that near.
        assert best["dose"] == pytest.approx(dose, abs=0.8), f"in room {room}"
        assert abs(best["pressure"] - 8) <= 1


def test_a_report_says_which_context_it_is_of(asked) -> None:
    values = asked.report().summary["value"]
    assert values["context"] == "room = b"
    assert "room = b" in values["recommended of those shown"]
    assert "room = a" in values["recommended where room = a"]
    report = asked.report(context={"room": "a"})
    assert "This holds where room = a." in report.advice
    # One name of the best, in the sentence and in the table.
    best = report.summary["value"]["recommended of those shown"].partition(":")[0]
    assert (best, best) == (report.reference, report.options.index[0])
    assert set(report.options["room"]) == {"a"}
    # A room is no choice of anybody's.
    assert set(report.effects["parameter"]) == {"dose", "pressure"}
    dose = report.effects.query("parameter == 'dose'")
    assert abs(dose.loc[dose["change"].idxmax(), "value"] - 16) < 1
    # What is one design here is in one part, whatever room it was seen in.
    assert report.options["wins"].sum() == 10 * 6


def test_a_context_is_written_as_designs_are() -> None:
    context = {"age": 28.0, "dose": 0.1 + 0.2, "room": "b", "open": True}
    assert (
        context_text(context) == "age = 28 and dose = 0.3 and room = b and open = True"
    )


def test_answers_in_one_context_help_in_another(tmp_path) -> None:
    """Thirty duels in room a make duels in room b foreseen better, beside five there.

    The person likes doses of 17 and 19 in them, and one pressure in both; of four such
    people, the mean log-loss was 0.29 with room a and 0.40 without.
    """
    losses = {"both": 0.0, "alone": 0.0}
    for seed in (2, 3):
        source = torch.Generator().manual_seed(seed)

        def utility(design: Mapping[str, Any]) -> float:
            off = design["dose"] - {"a": 17, "b": 19}[design["room"]]
            return -((off / 4) ** 2) - ((design["pressure"] - 8) / 3) ** 2

        def pair(room: str, source: torch.Generator = source) -> list[dict[str, Any]]:
            shares = torch.rand(2, 2, generator=source, dtype=torch.double).tolist()
            designs = [
                {"dose": 14 + 8 * x, "pressure": 3 + round(6 * y), "room": room}
                for x, y in shares
            ]
            return sorted(designs, key=utility, reverse=True)

        here, elsewhere = ([pair(room) for _ in range(n)] for room, n in HELP)
        better, worse = zip(*(pair("b") for _ in range(300)), strict=True)
        for name, duels in (("both", [*here, *elsewhere]), ("alone", here)):
            experiment = create(tmp_path, f"{name} {seed}")
            for duel in duels:
                experiment.record(duel, winner=0)
            adapter = experiment.fitted_adapter()
            points = adapter.points_of(better), adapter.points_of(worse)
            with torch.no_grad():
                chance: Any = adapter.utility.duel_probability(*points)
            losses[name] -= float(chance.log().mean()) / 2
    assert losses["both"] < losses["alone"], "answers in another room do not help"
    assert losses["both"] < math.log(2), "no better than a coin"


HELP = (("b", 5), ("a", 30))
"""Rooms, and how many duels are told of each."""


def test_a_context_is_kept_and_goes_along(asked, tmp_path) -> None:
    asked.write_json(tmp_path / "rooms.json")
    read = PreferenceExperiment.read(
        tmp_path / "rooms.json", storage=tmp_path / "read.db"
    )
    resumed = PreferenceExperiment.resume("rooms", storage=tmp_path / "read.db")
    assert resumed.settings.context == ["room"]
    assert resumed.question(3).context == {"room": "b"}
    assert set(read.answers()["room"]) == {"a", "b"}
    there = {"room": "a"}
    assert resumed.ask(context=there).options == asked.ask(context=there).options


def test_numbers_in_a_context_and_in_constraints(tmp_path) -> None:
    """An age of beans is any number; with it the dose is limited."""
    experiment = create(
        tmp_path,
        parameters=[real("dose", 14, 22), real("age", 0, 20), real("x", 0, 1)],
        parameter_constraints=["dose + age <= 30"],
        context=["age"],
        initial=2,
    )
    for age in (3.25, 7.123456789, 14.0, 15.5):
        for size in (2, 4):
            question = experiment.ask(size, context={"age": age})
            for option in question.options:
                assert option["age"] == age
                assert option["dose"] + age <= 30
            experiment.tell(question, best=0) if size > 2 else experiment.tell(
                question, winner=0
            )
    best = experiment.recommend(anywhere=True, context={"age": 15.9})
    assert best["age"] == 15.9
    assert best["dose"] <= 14.1


def test_the_search_has_the_designs_of_the_context(asked) -> None:
    """Designs of it are those of the whole space that are in room b."""
    adapter = asked.fitted_adapter(context={"room": "b"})
    space = adapter.design_space()
    points = space.features(space.draw(64, seed=0))
    designs = adapter.designs_of(points)
    assert {design["room"] for design in designs} == {"b"}
    everywhere = adapter.design_space({})
    assert bool(everywhere.allows(points).all())
    in_room = adapter.points_of(
        in_context(asked.log.space, design, {"room": "a"}) for design in designs
    )
    assert not bool(space.allows(in_room).any())
    assert bool(everywhere.allows(in_room).all())


def test_a_line_stays_in_the_context(asked) -> None:
    question = asked.ask(line=True, context={"room": "a"})
    for position in (0.0, 0.3, 1.0):
        assert question.at(position)["room"] == "a"


def test_a_stop_is_recommended_in_the_context_of_the_call(tmp_path) -> None:
    parameters = [real("dose", 0, 9), real("heat", 0, 40)]
    experiment = create(tmp_path, parameters=parameters, context=["heat"])
    here, warmer = {"heat": 20.0}, {"heat": 20.3}
    ends = [{"dose": 0.0, **here}, {"dose": 9.0, **here}]
    experiment.tell(experiment.ask(options=ends, line=True), position=0.4)
    best = experiment.recommend(anywhere=True, context=warmer)
    # Less than a hundredth of the line, and of the range of heat, beside it.
    position = round(best["dose"] / 9, 2) - 0.005
    experiment.tell(experiment.ask(options=ends, line=True), position=position)
    best = experiment.recommend(anywhere=True, context=warmer)
    # But for digits that nobody is shown.
    assert best == {"dose": pytest.approx(9 * position, abs=5.1e-3), **warmer}


def test_own_options_take_the_context_of_the_call(asked) -> None:
    options = [{"dose": 15.0, "pressure": 4}, {"dose": 18.0, "pressure": 4}]
    question = asked.ask(options=options, context={"room": "a"})
    assert [context_of(option, ["room"]) for option in question.options] == [
        {"room": "a"}
    ] * 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "give a value for room"),
        ({"context": {"room": "c"}}, "it is 'a' or 'b'"),
        ({"context": {"hall": "a"}}, "give a value for room"),
        ({"context": "a"}, "a value for each parameter"),
        (
            {
                "options": [
                    {"dose": 15.0, "pressure": 4, "room": "a"},
                    {"dose": 15.0, "pressure": 4, "room": "b"},
                ]
            },
            "give all of them the same",
        ),
        (
            {
                "options": [
                    {"dose": 15.0, "pressure": 4, "room": "a"},
                    {"dose": 16.0, "pressure": 4, "room": "a"},
                ],
                "context": {"room": "b"},
            },
            "give all of them the same",
        ),
    ],
)
def test_wrong_contexts_of_a_question(asked, arguments, words) -> None:
    before = len(asked.log.questions)
    with pytest.raises(ExperimentError, match=words):
        asked.ask(**arguments)
    assert len(asked.log.questions) == before


def test_a_recommendation_needs_the_context(asked) -> None:
    with pytest.raises(ExperimentError, match="give a value for room"):
        asked.recommend()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"context": "room"}, "a list of names"),
        ({"context": ["hall"]}, "name parameters that vary"),
        ({"context": ["room", "dose", "pressure"]}, "nothing is left to choose"),
        (
            {"baseline": {"dose": 15.0, "pressure": 4, "room": "a"}},
            "context goes with no baseline",
        ),
    ],
)
def test_wrong_names_of_a_context(tmp_path, settings, words) -> None:
    with pytest.raises(ExperimentError, match=words):
        create(tmp_path, **settings)


def test_an_experiment_without_a_context_takes_none(played) -> None:
    with pytest.raises(ExperimentError, match="has none"):
        played.recommend(context={"room": "a"})


def test_a_context_that_no_design_satisfies_is_refused(tmp_path) -> None:
    """With constraints on numbers, whole numbers and values of a choice."""
    parameters = [
        real("dose", 14, 22),
        real("age", 0, 20),
        whole("cups", 0, 5),
        choice("size", [1, 2, 4], is_ordered=True),
    ]
    experiment = create(
        tmp_path,
        parameters=parameters,
        parameter_constraints=["dose + age + cups + size <= 30"],
        context=["age", "cups", "size"],
        initial=2,
    )
    # The least dose is 14, and 16 is left for the others.
    for age, cups, size in ((8.0, 5, 2), (10.0, 1, 4), (0.5, 5, 4)):
        context = {"age": age, "cups": cups, "size": size}
        question = experiment.ask(2, context=context)
        assert question.context == context
        experiment.tell(question, winner=0)
    for age, cups, size in ((14.0, 1, 2), (12.5, 2, 2), (12.0, 1, 4)):
        context = {"age": age, "cups": cups, "size": size}
        for call in (experiment.ask, experiment.recommend, experiment.report):
            with pytest.raises(
                ExperimentError, match=f"No design .* age = {age:g} and"
            ):
                call(context=context)
    # One dose is left, and nothing to compare.
    with pytest.raises(ExperimentError, match="no two designs that differ"):
        experiment.ask(2, context={"age": 10.0, "cups": 2, "size": 4})


def test_what_constraints_forbid_in_a_context_is_not_recommended(
    tmp_path,
) -> None:
    experiment = create(
        tmp_path,
        parameters=[real("x", 0, 1), real("y", 0, 1)],
        parameter_constraints=["x + y <= 0.5"],
        context=["x"],
    )
    better, worse = [{"x": 0.05, "y": y} for y in (0.45, 0.2)]
    experiment.record([better, worse], winner=0)
    assert experiment.recommend(context={"x": 0.05}) == better
    assert experiment.recommend(context={"x": 0.25}) == {"x": 0.25, "y": 0.2}
    assert len(experiment.report(context={"x": 0.05}).options) == 2
    here = experiment.report(context={"x": 0.25}).options
    assert here["y"].to_dict() == {"1 B": 0.2}
    assert here["best"].tolist() == [1.0]
    # The one option that is allowed here has no range of utilities.
    values = experiment.report(context={"x": 0.25}).summary["value"]
    assert values["expected range"] == 0
    assert math.isnan(values["gain as a share of the range"])
    findings = findings_of(packed_state(experiment), {"x": 0.25})
    assert findings["recommended"]["name"] == "1 B"
    assert findings["asked"] == [{"question": 1, "options": ["1 B"]}]
    assert findings["duels"] == []
    adapter = experiment.fitted_adapter(context={"x": 0.25})
    projection = experiment._stored.projection
    candidates = candidate_points(projection, adapter, {"x": 0.25, "y": 0.2})
    assert adapter.design_space().allows(candidates).all()
    for call in (experiment.recommend, experiment.report):
        with pytest.raises(ExperimentError, match="No option shown so far"):
            call(context={"x": 0.4})
    anywhere = experiment.recommend(anywhere=True, context={"x": 0.4})
    assert anywhere["x"] == 0.4
    assert anywhere["y"] <= 0.1


def test_the_range_is_of_options_that_constraints_allow(tmp_path) -> None:
    """Not of the option with the largest utility, which they forbid where x is 0.25."""
    experiment = create(
        tmp_path,
        parameters=[real("x", 0, 1), real("y", 0, 1)],
        parameter_constraints=["x + y <= 0.5"],
        context=["x"],
    )
    designs = [{"x": 0.05, "y": y} for y in (0.2, 0.15, 0.45)]
    experiment.record(designs, ranking=[2, 0, 1])
    context = {"x": 0.25}
    values = experiment.report(context=context).summary["value"]
    adapter = experiment.fitted_adapter(context=context)
    points = adapter.points_of([design | context for design in designs])
    draws = averaged_draws(adapter.botorch_model, points, 40_000)
    extent = (draws[:, 0] - draws[:, 1]).abs()
    # The report has 128 draws.
    tolerance = 4 * float(extent.std()) / 128**0.5
    assert abs(values["expected range"] - float(extent.mean())) < tolerance
    of_all = draws.amax(-1) - draws.amin(-1)
    assert float(of_all.mean()) > values["expected range"] + tolerance


def test_numbers_alone_in_a_context_are_reported(tmp_path) -> None:
    """The context is no number that the best design is sought in."""
    numbers = [real("x", 0, 1), real("y", 0, 1)]
    experiment = create(tmp_path, parameters=[*numbers, ROOM])
    designs = [{"x": x, "y": 0.5, "room": "a"} for x in (0.1, 0.5, 0.9)]
    experiment.record(designs, ranking=[1, 0, 2])
    report = experiment.report()
    assert report.options["x"].tolist()[0] == 0.5
    searched = report.summary["value"]["searched for the best"]
    assert searched != "the whole space", "the other room is searched too"
