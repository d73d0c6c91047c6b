"""What was changed in a store is refused, said, read as far as it is good, mended."""

import json
import logging
import os
import random
import re
import shutil
import sqlite3
from pathlib import Path

import pytest
from showing import PARAMETERS, A, B, C, D, resumed, show, tell, triangle

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.ax.log import digest
from botorch_pref.errors import BotorchPrefError, StorageError

FLIPS = int(os.environ.get("BOTORCH_PREF_TEST_FLIPS", "20"))
SPACE = {"parameters": PARAMETERS, "parameter_constraints": ["a + b <= 2"]}


@pytest.fixture(scope="module")
def played(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("played") / "triangle.db"
    experiment = triangle(path, num_levels=4, seed=3)
    experiment.tell(experiment.ask(2), winner=0, rater="ann", note="sweet")
    tell(experiment, [A, B], winner=1, levels=[1, 2])
    tell(experiment, [A, B, C], ranking=[2, 0, 1], invalid=[])
    tell(experiment, [B, C], strength=1 / 3, ratings=[0.1 + 0.2, None])
    tell(experiment, [A, C], cannot_compare=True)
    tell(experiment, [C, D], tie=True)
    experiment.withdraw(5)
    experiment.tell(5, winner=0)
    experiment.withdraw(show(experiment, D, A))
    show(experiment, B, D)
    return path


@pytest.fixture
def path(played, tmp_path) -> Path:
    return Path(shutil.copy(played, tmp_path))


def facts(experiment: PreferenceExperiment) -> list[object]:
    """Everything that questions, answers and models depend on."""
    table = experiment.answers()
    ax = experiment.experiment
    return [
        experiment.settings,
        experiment.num_levels,
        str(ax.search_space),
        experiment.version,
        experiment.pending,
        table.to_json(),
        [trial.status for trial in ax.trials.values()],
        ax.lookup_data().df["mean"].tolist(),
    ]


def change(path: Path, statement: str) -> None:
    for verb in ("UPDATE ", "DELETE FROM "):
        statement = statement.replace(verb, f"{verb}preference_")
    with sqlite3.connect(path) as connection:
        assert connection.execute(statement).rowcount > 0
    connection.close()


def refused(path: Path, match: str) -> None:
    """It is refused by a message that names the way out, and left as it was."""
    before = path.read_bytes()
    with pytest.raises(StorageError, match=f"(?s){match}.*read_only=True"):
        resumed(path)
    assert path.read_bytes() == before


def test_what_nobody_changed_is_read_as_it_is(path) -> None:
    experiment = resumed(path, read_only=True)
    assert experiment.damage == []
    assert facts(experiment) == facts(resumed(path))
    assert len(experiment.experiment.trials) == 8
    for act in (experiment.ask, experiment.undo, lambda: experiment.tell(7, winner=0)):
        with pytest.raises(StorageError, match=r"opened to be read; copy it"):
            act()
    with pytest.raises(ValueError, match="read_only is 'yes'"):
        resumed(path, read_only="yes")


# For each statement the error's words, and how many of 8 questions and 7 answers are
# good; None where the search space has to be given.
OF_EVENT_3 = {
    "SET what = replace(what, '\"winner\": 1', '\"winner\": 0')": "Event 3 .*winner",
    "SET time = '2020'": "Event 3 .*2020",
    "SET number = 99": "Event 4",
    "SET question = 4": "Event 3",
    "SET question = 'x'": "Event 3",
    "SET what = '{'": "Event 3",
    "SET what = x'80'": "Event 3",
    "SET before = ''": "Event 3",
    "SET checksum = ''": "Event 3",
}
OF_EVENTS = {
    "SET what = replace(what, 'sweet', 'sour')": ("Event 1 .*sour", (8, 5)),
    "SET rater = 'bob' WHERE rater = 'ann'": ("Event 1 .*bob", (8, 5)),
    "SET kind = 'told' WHERE kind = 'withdrawn'": ("Event 12 .*told", (8, 6)),
    "SET what = replace(what, '0.2', '0.6') WHERE number = 2": ("2 .*0.6", (7, 5)),
    "SET what = replace(what, '0.2', 'NaN') WHERE number = 2": ("2 .*NaN", (7, 5)),
}
LOST = {
    "WHERE number = 3": ("Event 4 .*follow", (8, 5)),
    "WHERE number = 2": ("Event 3 .*follow", (7, 5)),
    "WHERE number = 16": ("16 events, and 17 were", (7, 6)),
    "": ("0 events, and 17 were", (0, 0)),
}
WRITTEN = "not what was written"
OF_EXPERIMENTS = {
    "head = ''": ("or other ones", (8, 6)),
    "events = -8": ("and -8 were", (8, 6)),
    "settings = replace(settings, 'seed', 'sead')": (WRITTEN, (8, 6)),
    "settings = replace(settings, 'EPPreferenceGP', 'EIEIO')": (WRITTEN, (8, 6)),
    "settings = '{'": ("JSON", (8, 6)),
    "num_levels = '5'": (WRITTEN, (8, 6)),
    "constraints = 'x'": ("JSON", (8, 6)),
    "constraints = '[\"print(1) <= 2\"]'": (WRITTEN, None),
    "parameters = '[[[['": ("JSON", None),
    "parameters = replace(parameters, 'kind', 'find')": (WRITTEN, None),
    "catalogue = '3'": (WRITTEN, None),
}
CHANGES = {
    **{
        f"UPDATE events {what} WHERE number = 3": (match, (8, 5))
        for what, match in OF_EVENT_3.items()
    },
    **{f"UPDATE events {what}": found for what, found in OF_EVENTS.items()},
    **{f"DELETE FROM events {what}": found for what, found in LOST.items()},
    **{f"UPDATE experiments SET {k}": found for k, found in OF_EXPERIMENTS.items()},
}


# Of each good part, one is taken on.
TAKEN_ON = {found[1]: statement for statement, found in CHANGES.items()}.values()


@pytest.mark.parametrize("statement", CHANGES)
def test_what_differs_is_said_and_the_good_part_goes_on(
    statement, path, capsys
) -> None:
    match, good = CHANGES[statement]
    change(path, statement)
    refused(path, match)
    if good is None and "catalogue" not in statement:
        with pytest.raises(StorageError, match="parameters="):
            resumed(path, read_only=True)
        good = (8, 6)
    space = SPACE if good == (8, 6) else {}
    if "catalogue" in statement:
        good = (8, 6)
    experiment = resumed(path, read_only=True, **space)
    assert experiment.damage
    assert (len(experiment.experiment.trials), experiment.num_answers) == good
    # Nothing that was stored was evaluated.
    assert capsys.readouterr().out == ""
    if statement not in TAKEN_ON:
        return
    experiment.write_json(path.with_name("all.json"))
    experiment.write_log(path.with_name("all.csv"))
    copy = experiment.copy(storage=path.with_name("mended.db"))
    again = resumed(path.with_name("mended.db"))
    assert facts(again) == facts(copy)
    assert again.answers().equals(experiment.answers())
    tell(again, [A, D], winner=0)
    for name in ("all.json", "all.csv"):
        read = PreferenceExperiment.read(
            path.with_name(name), storage=path.with_name(f"{name}.db")
        )
        assert read.answers().equals(experiment.answers())
    assert capsys.readouterr().out == ""


def test_one_missing_event_and_a_long_one_are_said_in_plain_words(path) -> None:
    # Another kind of damage, with a text longer than a message.
    long = json.dumps({"note": "x" * 500})
    change(path, f"UPDATE events SET what = '{long}' WHERE number = 2")
    change(path, "DELETE FROM events WHERE number = 5")
    damage = resumed(path, read_only=True).damage
    assert "Event 5 is missing." in damage
    # What is left out of a long event is marked.
    assert any(re.search(r"Event 2 .*what .* \.\.\.\.$", line) for line in damage)


@pytest.mark.parametrize("written", ["17", "'abc'", "-3", str(2**31 - 1)])
def test_good_events_are_read_beside_a_page_that_cannot_be(written, path) -> None:
    events, page = resumed(path).log.events, 4096
    change(path, f"UPDATE experiments SET events = {written}")
    whole = bytearray(path.read_bytes())
    last = events[-1].time.encode()
    (damaged,) = (
        at for at in range(0, len(whole), page) if last in whole[at : at + page]
    )
    whole[damaged] = 0xFF
    path.write_bytes(whole)
    experiment = resumed(path, read_only=True)
    found = [(one.kind, one.what) for one in experiment.log.events]
    assert found == [(one.kind, one.what) for one in events[: len(found)]]
    assert f"Event {len(found)} cannot be read." in experiment.damage
    assert len(found) == 15


def forged(path: Path, number: int, **values: object) -> None:
    """An event that nobody can have written, with a checksum that fits."""
    with sqlite3.connect(path) as connection:
        connection.row_factory = sqlite3.Row
        rows = connection.execute("SELECT * FROM preference_events ORDER BY number")
        before = ""
        for row in [dict(row) for row in rows]:
            changed = {**row, **(values if row["number"] == number else {})}
            before = changed["before"] = before or row["before"]
            columns = {k: v for k, v in changed.items() if k != "checksum"}
            columns.pop("experiment")
            before = digest(*columns.values())
            connection.execute(
                "UPDATE preference_events SET what=?, kind=?, before=?, checksum=? "
                "WHERE number=?",
                (
                    changed["what"],
                    changed["kind"],
                    changed["before"],
                    before,
                    row["number"],
                ),
            )
        connection.execute("UPDATE preference_experiments SET head=?", (before,))
    connection.close()


def option(name: str, a: object, b: object = 0.2) -> dict[str, object]:
    return {"name": name, "parameters": {"a": a, "b": b}}


NEVER = {
    "winner of none": (3, {"what": '{"winner": 7}'}, "not one of"),
    "no boolean": (9, {"what": '{"cannot_compare": "no"}'}, "True or False"),
    "an answer with more": (3, {"what": '{"winner": 1, "and": 2}'}, "no and"),
    "told twice": (12, {"kind": "told", "what": '{"winner": 0}'}, "told and then told"),
    "undone at once": (1, {"kind": "undone", "what": "{}"}, "asked and then undone"),
}
FIRST, SECOND = option("1_0", 1.0), option("1_1", 1.0)
NEVER |= {
    what: (number, {"what": json.dumps({"options": options, "chosen_by": "person"})}, m)
    for what, (number, options, m) in {
        "outside the space": (2, [option("1_0", 9.0), SECOND], "space"),
        "against a constraint": (2, [option("1_0", 1.9, 1.9), SECOND], "space"),
        "no number": (2, [option("1_0", "x"), SECOND], "search space"),
        "no JSON": (2, [option("1_0", float("nan")), SECOND], "NaN"),
        "no parameter": (2, [{"name": "1_0"}, SECOND], "parameters"),
        "one option": (2, [FIRST], "it shows"),
        "one name": (2, [FIRST, option("1_0", 0.5)], "it shows"),
        "another name": (4, [option("2_0", 0.5), option("2_1", 1.0)], "another opt"),
    }.items()
}


@pytest.mark.parametrize("what", NEVER)
def test_what_nobody_can_have_said_is_refused_under_a_good_checksum(what, path) -> None:
    number, values, match = NEVER[what]
    forged(path, number, **values)
    refused(path, f"Event {number} .*{match}")
    experiment = resumed(path, read_only=True)
    # Options are named anew there, so that a wrong name alone costs no question.
    named = "name" in what
    assert any(named or f"Event {number} " in line for line in experiment.damage)
    assert experiment.num_answers in (5, 6)


def test_the_text_of_an_event_is_kept_as_it_was_written(path, tmp_path) -> None:
    spaced = '{ "winner" : 0,  "note":"sweet"}'
    forged(path, 1, what=spaced)
    experiment = resumed(path)
    assert experiment.log.events[1].said == {"winner": 0}
    table = tmp_path / "log.csv"
    experiment.write_log(table)
    assert spaced.replace('"', '""') in table.read_text()
    again = PreferenceExperiment.read(table, storage=tmp_path / "again.db")
    assert facts(again) == facts(experiment)


def flipped(whole: bytes, at: int, bit: int) -> bytes:
    return whole[:at] + bytes([whole[at] ^ (1 << bit)]) + whole[at + 1 :]


@pytest.mark.slow
def test_no_byte_of_a_database_changes_what_is_loaded(played, tmp_path) -> None:
    whole, where = played.read_bytes(), random.Random(1)
    original = facts(resumed(played))
    # Most of a little database is the empty rest of pages.
    used = [at for at, byte in enumerate(whole) if byte]
    path = tmp_path / "triangle.db"
    refused = opened = 0
    for _ in range(FLIPS):
        path.write_bytes(flipped(whole, where.choice(used), where.randrange(8)))
        try:
            assert facts(resumed(path)) == original
        except BotorchPrefError:
            refused += 1
            try:
                good = resumed(path, read_only=True, **SPACE)
                assert good.damage
                opened += 1
            except StorageError:
                # The database itself, or the name of the experiment.
                pass
    logging.getLogger(__name__).info(
        "%d of %d refused, %d of them read", refused, FLIPS, opened
    )
    assert refused > 0


def test_a_copy_that_fell_behind_is_not_overwritten(played, tmp_path) -> None:
    """Not even one with as many events: of another afternoon, put back."""
    path = Path(shutil.copy(played, tmp_path))
    experiment, other = resumed(path), resumed(path)
    show(other, A, D)
    shutil.copy(path, tmp_path / "other")
    shutil.copy(played, path)
    show(experiment, B, A)
    shutil.copy(tmp_path / "other", path)
    with pytest.raises(StorageError, match="Another process"):
        experiment.tell(8, winner=0)
    assert facts(experiment) == facts(other)
