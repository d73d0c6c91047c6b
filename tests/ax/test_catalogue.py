"""Experiments whose designs are the rows of a table."""

import logging
import pickle
import sqlite3
from io import StringIO

import numpy as np
import pandas as pd
import pytest
import torch
from ax.core.observation import ObservationFeatures
from botorch.exceptions.warnings import InputDataWarning
from cases import in_turn
from espresso import QUICK_FIT
from showing import A, B, short_report, tell, triangle

from botorch_pref.ax import Design, PreferenceExperiment
from botorch_pref.ax.space.options import catalogue_parameters
from botorch_pref.ax.summary import candidate_points
from botorch_pref.errors import ExperimentError, StorageError
from botorch_pref.evaluation.progress import NUM_CANDIDATES

NUM = 12
_DRAWS = np.random.default_rng(4)
WINES = pd.DataFrame(
    {
        "price": (_DRAWS.gamma(2, 5, NUM) / 3).tolist(),
        "year": _DRAWS.integers(1990, 2020, NUM),
        "grape": _DRAWS.choice(["riesling", "merlot", "pinot"], NUM),
        "size": pd.Categorical(
            _DRAWS.choice(["small", "middle", "large"], NUM),
            categories=["small", "middle", "large", "huge"],
            ordered=True,
        ),
        "organic": _DRAWS.random(NUM) < 0.5,
        "country": "France",
    },
    index=[f"wine {i}" for i in range(NUM)],
)


def cellar(storage, table=WINES, **settings) -> PreferenceExperiment:
    return PreferenceExperiment.create(
        "cellar", catalogue=table, storage=storage, fit_options=QUICK_FIT, **settings
    )


def check_rows(question, table=WINES) -> None:
    for name, option in zip(question.names, question.options, strict=True):
        assert option == table.loc[name].to_dict()


@pytest.mark.parametrize("acquisition", ["DuelingEIIG", "DuelingEUBO"])
@pytest.mark.slow
def test_options_are_rows_also_of_the_model_and_after_a_restart(
    acquisition, tmp_path
) -> None:
    storage = tmp_path / "cellar.db"
    experiment = cellar(storage, initial=3, acquisition=acquisition)
    questions = []
    for number in range(5):
        question = experiment.ask(3 if number == 4 else 2)
        check_rows(question)
        questions.append(frozenset(question.names))
        best = int(np.argmax([option["price"] for option in question.options]))
        experiment.tell(question, **{"best" if number == 4 else "winner": best})
        experiment = PreferenceExperiment.resume("cellar", storage=storage)
    assert len(set(questions)) == len(questions)
    for anywhere in (False, True):
        assert experiment.recommend(anywhere=anywhere) in WINES.to_dict("records")
    assert set(short_report(experiment).options.index) <= set(WINES.index)
    assert all(name == title for name, title in experiment.titles.items())


def test_numbers_are_numbers_whatever_pandas_keeps_them_in() -> None:
    """As of a table whose rows were its columns before."""
    parameters = catalogue_parameters(WINES.astype({"price": object, "year": object}))
    assert parameters == catalogue_parameters(WINES)


def test_what_is_spread_are_rows_and_ids_name_them(tmp_path) -> None:
    experiment = cellar(tmp_path / "cellar.db")
    for _ in range(4):
        check_rows(experiment.ask(2))
    resumed = PreferenceExperiment.resume("cellar", storage=tmp_path / "cellar.db")
    assert resumed.pending == experiment.pending
    assert [q.names for q in resumed.pending] == [q.names for q in experiment.pending]
    question = resumed.ask(options=["wine 3", WINES.loc["wine 5"].to_dict()])
    assert question.names == ("wine 3", "wine 5")
    check_rows(question)
    with pytest.raises(ExperimentError, match="no row 'wine 99'"):
        resumed.ask(options=["wine 3", "wine 99"])
    between = WINES.loc["wine 3"].to_dict() | {"year": int(WINES["year"].min())}
    with pytest.raises(ExperimentError, match="is no row of the catalogue"):
        resumed.ask(options=["wine 3", between])


def test_the_features_of_the_model_are_the_scaled_columns(tmp_path) -> None:
    experiment = cellar(tmp_path / "cellar.db")
    experiment.tell(experiment.ask(options=["wine 1", "wine 2"]), winner=0)
    adapter = experiment.fitted_adapter()
    points = dict(
        zip((arm.name for arm in adapter.arms), adapter.datapoints, strict=True)
    )
    price, year = WINES["price"], WINES["year"]
    used = [s for s in ("small", "middle", "large") if s in set(WINES["size"])]
    for name, point in points.items():
        row = WINES.loc[name]
        expected = {
            "price": (row["price"] - price.min()) / (price.max() - price.min()),
            "year": (row["year"] - year.min()) / (year.max() - year.min()),
            "size": used.index(row["size"]) / (len(used) - 1),
            "organic": float(row["organic"]),
        }
        for column, number in expected.items():
            value = float(point[adapter.parameters.index(column)])
            assert value == pytest.approx(number, abs=1e-9)
        grapes = [c for c in adapter.parameters if c.startswith("grape")]
        one_hot = point[[adapter.parameters.index(c) for c in grapes]]
        assert sorted(one_hot.tolist()) == [0, 0, 1]
    assert not any("country" in column for column in adapter.parameters)
    # All rows are made at once, and are what Ax's transforms make of each.
    by_ax = adapter.points_of(experiment.log.catalogue.rows.values())
    torch.testing.assert_close(adapter.design_space().rows, by_ax, rtol=0, atol=1e-12)
    assert len(points) == 2
    assert not torch.equal(*points.values())


def test_ids_alone_are_a_catalogue(tmp_path) -> None:
    table = pd.DataFrame(index=pd.Index([3, 10, 7], name="song"))
    experiment = cellar(tmp_path / "cellar.db", table)
    question = experiment.ask(options=[3, 7])
    assert question.options == ({"song": "3"}, {"song": "7"})
    assert question.names == ("3", "7")


@pytest.mark.slow
def test_the_report_recommends_by_id_among_rows_alone(tmp_path) -> None:
    draws = np.random.default_rng(5)
    table = pd.DataFrame({"x": draws.random(600), "y": draws.random(600)})
    table.index = [f"design {i}" for i in range(600)]
    experiment = cellar(tmp_path / "cellar.db", table)
    experiment.record(["design 3", "design 7"], winner=1)
    value = experiment.report().summary["value"]
    assert value["recommended of those shown"] == "design 7"
    best = experiment.recommend(anywhere=True)
    assert table.loc[value["recommended of all"]].to_dict() == best
    adapter = experiment.fitted_adapter()
    candidates = candidate_points(experiment._stored.projection, adapter, best)
    scaled = (table - table.min()) / (table.max() - table.min())
    rows = torch.tensor(scaled[list(adapter.parameters)].to_numpy())
    nearest = torch.cdist(candidates, rows, p=1).min(-1)
    assert nearest.values.max() < 1e-9
    # So many different ones as are taken, the best and the two that were judged.
    assert len(candidates) == NUM_CANDIDATES + 3
    assert len(set(nearest.indices[:NUM_CANDIDATES].tolist())) == NUM_CANDIDATES


def test_a_changed_row_is_found(tmp_path) -> None:
    storage = tmp_path / "cellar.db"
    experiment = cellar(storage)
    experiment.ask(options=["wine 1", "wine 2"])
    year = experiment.question(0).options[0]["year"]
    with sqlite3.connect(storage) as connection:
        connection.execute(
            "UPDATE preference_experiments SET catalogue = replace(catalogue, ?, ?)",
            (str(year), str(year - 1)),
        )
    connection.close()
    with pytest.raises(StorageError, match="no row of its table"):
        PreferenceExperiment.resume("cellar", storage=storage)


def test_an_experiment_without_the_rows_of_its_table_is_refused(tmp_path) -> None:
    storage = tmp_path / "cellar.db"
    experiment = cellar(storage)
    experiment.record(["wine 1", "wine 2"], winner=1)
    with sqlite3.connect(storage) as connection:
        empty = ('{"ids": [], "columns": {}}',)
        change = "UPDATE preference_experiments SET catalogue = ?"
        connection.execute(change, empty)
    connection.close()
    with pytest.raises(StorageError, match="'cellar' cannot be read"):
        PreferenceExperiment.resume("cellar", storage=storage)


@in_turn(
    ("table", "message"),
    [
        (WINES.iloc[:1], "two rows or more"),
        ([{"price": 3}], "must be a DataFrame"),
        (pd.concat([WINES, WINES.iloc[:1]]), "a different id"),
        (WINES.rename(index={"wine 0": None}), "a different id"),
        (pd.DataFrame({"x": [1, 2]}, index=[1, "1"]), "the same as texts"),
        (pd.DataFrame({"x": [1, 2]}, index=["a", "b\0"]), "a text that files"),
        (pd.DataFrame({"x": [1, 2, 1]}, index=["a", "b", "c"]), "'a' and 'c'"),
        (pd.DataFrame({"x": [1.0, None]}, index=["a", "b"]), "no 'x' of 'b'"),
        (pd.DataFrame({"x": [1.0, np.inf]}), "'x' .*has inf for '1'"),
        (pd.DataFrame({0: [1.0, 2.0]}), "name each"),
        (pd.read_csv(StringIO(WINES.to_csv())), "column 'Unnamed: 0', .* index_col=0"),
        (pd.DataFrame({"x": pd.to_datetime(["2020", "2021"])}), "holds datetime"),
        (pd.DataFrame({"x": [1, "b"]}), "holds object"),
        (pd.DataFrame({"x": [f"t{i}" for i in range(1001)]}), "1001 different texts"),
    ],
)
def test_what_is_no_catalogue(table, message) -> None:
    with pytest.raises(ExperimentError, match=message):
        catalogue_parameters(table)


def test_ids_among_the_features_are_warned_of() -> None:
    # As read_csv has them without index_col: the best of 200 wines was found by twelve
    # questions with the ids in the index, and not by as many with them in a column.
    wines = pd.DataFrame({"id": [f"w{i}" for i in range(21)], "price": range(21)})
    with pytest.warns(InputDataWarning, match=r"'id' .* set_index\('id'\)"):
        catalogue_parameters(wines)
    for silent in (wines.set_index("id"), wines[["id"]]):
        catalogue_parameters(silent)


@pytest.mark.parametrize("ids", [[*"abc"], [0, 1, 2], [1, 2, 3]])
def test_ids_of_a_table_without_an_index_are_warned_of(ids) -> None:
    table = pd.DataFrame({"id": ids, "price": [3.0, 9.0, 5.0]})
    with pytest.warns(InputDataWarning, match=r"'id' .* set_index\('id'\)"):
        catalogue_parameters(table)
    of_items = table.set_index(pd.Index([*"xyz"]))
    later, apart = table[["price", "id"]], table.assign(id=[1, 2, 4])
    silent = [of_items, apart, *([] if ids == [*"abc"] else [later])]
    for table in silent:
        catalogue_parameters(table)


def test_a_catalogue_has_no_other_parameters(tmp_path) -> None:
    with pytest.raises(ExperimentError, match="leave out parameters"):
        cellar(tmp_path / "cellar.db", parameter_constraints=["year <= 2000"])
    with pytest.raises(ExperimentError, match="parameters is None"):
        PreferenceExperiment.create("cellar", storage=tmp_path / "cellar.db")


SONGS = pd.DataFrame(
    {"length": [2.5, 3.0, 4.5], "loud": [0.1, 0.9, 0.4]},
    index=["aria", "march", "waltz"],
)


def test_what_is_shown_and_recommended_has_its_id(tmp_path) -> None:
    experiment = PreferenceExperiment.create(
        "songs", catalogue=SONGS, storage=tmp_path / "songs.db"
    )
    question = experiment.record(["waltz", "aria"], winner=0)
    assert [option.id for option in question.options] == ["waltz", "aria"]
    assert [option.id for option in experiment.ask(2).options] == [
        *experiment.pending[0].names
    ]
    assert experiment.recommend().id == "waltz"
    best = experiment.recommend(anywhere=True)
    assert best == SONGS.loc[best.id].to_dict()
    assert "id='waltz'" in repr(experiment.recommend())
    # As any design, it can be asked about.
    assert experiment.ask(options=[best, "aria"]).names == (best.id, "aria")


def test_a_design_is_a_dictionary(tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.db")
    tell(experiment, [A, B], winner=1)
    best = experiment.recommend()
    assert best == {"a": B[0], "b": B[1]}
    assert best.id is None
    assert repr(best) == repr(dict(best))
    design = Design({"x": 1}, "one")
    for copied in (design.copy(), pickle.loads(pickle.dumps(design))):
        assert copied == design
        assert copied.id == "one"


def test_all_rows_of_a_small_table_are_asked_without_a_warning(
    tmp_path, caplog: pytest.LogCaptureFixture
) -> None:
    experiment = cellar(tmp_path / "cellar.db", WINES[:4], initial=10)
    ax = logging.getLogger("ax")
    ax.addHandler(caplog.handler)
    try:
        for _ in range(3):
            question = experiment.ask(4)
            assert {*question.names} == {*WINES.index[:4]}
            experiment.tell(question, best=0)
    finally:
        ax.removeHandler(caplog.handler)
    assert [
        record.message for record in caplog.records if record.levelname != "INFO"
    ] == []


def test_the_model_chooses_rows_that_differ_by_little(tmp_path) -> None:
    """As beside one price that is far above all others: each row is shown itself."""
    near = pd.DataFrame({"price": [*np.linspace(5.0, 5.1, 9), 9_000.0]})
    experiment = cellar(tmp_path / "cellar.db", near, initial=1)
    experiment.tell(experiment.ask(options=[0, 9]), winner=0)
    adapter = experiment.fitted_adapter()
    rows = near.to_dict("records")
    features = [ObservationFeatures(parameters=dict(row)) for row in rows]
    for transform in adapter.transforms.values():
        features = transform.transform_observation_features(features)
    for transform in reversed(adapter.transforms.values()):
        features = transform.untransform_observation_features(features)
    assert [feature.parameters for feature in features] == rows


def test_rows_beside_one_far_away_are_asked_about_and_warned_of(tmp_path) -> None:
    """Nearly every point of a Sobol sequence is next to the row far away."""
    prices = [*np.linspace(5.0, 50.0, 40), 20_000.0]
    far = pd.DataFrame({"price": prices}).rename("wine {}".format)
    with pytest.warns(InputDataWarning, match="'price' lie within 0.1 % of its range"):
        experiment = cellar(tmp_path / "cellar.db", far)
    names = set()
    for _ in range(3):
        question = experiment.ask(4)
        check_rows(question, far)
        names.add(frozenset(question.names))
        experiment.tell(question, best=0)
    assert len(names) == 3


@pytest.mark.parametrize(
    "prices",
    [[0.0] * 40 + [1.0, 2.0], [1.0] * 42, np.geomspace(1.0, 1e3, 42), [0.0, 1.0] * 21],
)
def test_columns_whose_values_are_few_or_spread_are_not_warned_of(
    prices, tmp_path
) -> None:
    """Warnings are errors."""
    table = pd.DataFrame({"price": prices, "sweet": np.linspace(0.0, 1.0, 42)})
    table = table.rename("wine {}".format)
    check_rows(cellar(tmp_path / "cellar.db", table).ask(2), table)
