"""Logs as files, as copies in other spaces, and in Ax's own storage."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ax.core.experiment import Experiment
from ax.exceptions.core import AxError
from ax.storage.json_store.encoder import object_to_json
from pandas import DataFrame
from sqlalchemy import create_engine, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from botorch_pref.ax.answer_table import csv_content, csv_table
from botorch_pref.ax.given import is_text, wrong
from botorch_pref.ax.kept_log import Retelling
from botorch_pref.ax.log import (
    COLUMNS,
    Definition,
    Event,
    Log,
    LoggedQuestion,
    json_text,
    now,
    stored_parameters,
)
from botorch_pref.ax.log_store import SQLITE, file_content, replace_file
from botorch_pref.ax.questions import answers_by_key, taken, told_again
from botorch_pref.ax.settings import ParameterConfig
from botorch_pref.ax.space.constraints import LinearConstraint, linear_form, sum_text
from botorch_pref.ax.space.options import own_design
from botorch_pref.errors import ExperimentError, StorageError

_CREATED = "created"
"""The kind of the first row of a CSV file, which has the definition."""


def write_csv(log: Log, path: Path) -> None:
    """Writes a log as a table: the definition, then a row an event."""
    definition = log.definition
    first = {
        "kind": _CREATED,
        "time": definition.created,
        "what": json_text(asdict(definition)),
        # Without it, the loss of the last rows could not be seen.
        "before": log.head,
        "checksum": definition.checksum(),
    }
    rows = [first, *(event.to_row() for event in log.events)]
    table = DataFrame(rows, columns=[*COLUMNS, "checksum"], dtype=object)
    replace_file(path, csv_content(table))


def write_json(log: Log, path: Path) -> None:
    """Writes a log as JSON: the definition and the events."""
    rows = [event.to_row() for event in log.events]
    stored = {
        "definition": asdict(log.definition),
        "events": [{**row, "what": json.loads(row["what"])} for row in rows],
        "head": log.head,
    }
    text = json.dumps(stored, indent=1, ensure_ascii=False)
    replace_file(path, text.encode())


def read_file(path: Path, name: str | None) -> Log:
    """The log of a file that `write_json` or `write_csv` wrote."""
    try:
        content = file_content(path)
    # A name that cannot be one is a ValueError.
    except (OSError, ValueError) as error:
        raise StorageError(f"Cannot read {path}: {error}") from error
    if content.startswith(SQLITE):
        raise StorageError(
            f"{path} is a database, not what write_json or write_log wrote; open it by "
            "PreferenceExperiment.resume, and copy it by its copy."
        )
    try:
        stored = (_of_csv if path.suffix == ".csv" else _of_json)(content.decode())
        definition, head = Definition(**stored["definition"]), stored["head"]
        columns = (*COLUMNS, "checksum")
        rows = [{name: row[name] for name in columns} for row in stored["events"]]
    # A file that is cut off or no log fails in all kinds of ways.
    except Exception as error:
        raise StorageError(
            f"{path} is no log that write_json or write_log wrote, or it is damaged: "
            # The error of a text that is none has all of it in its representation.
            f"{type(error).__name__}: {error!s:.200}"
        ) from error
    try:
        log = Log(definition)
        log.append_stored(rows, len(rows), head)
    except (ExperimentError, StorageError) as error:
        raise StorageError(f"{path} is damaged: {error}") from error
    return log if name in (None, log.name) else retold(log, name)


def _of_json(text: str) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(text)
    for row in stored["events"]:
        row["what"] = json_text(row["what"])
    return stored


def _of_csv(text: str) -> dict[str, Any]:
    table = csv_table(text)
    if "kind" not in table.columns:
        raise ValueError(
            "it has no column kind; give read a file of write_log, and record_table a "
            "table of answers"
        )
    first, *rows = table.to_dict("records")
    if first["kind"] != _CREATED:
        raise ValueError(f"its first row is {first}")
    for row in rows:
        row["rater"] = row["rater"] or None
        row |= {key: int(row[key]) for key in ("number", "question")}
    definition = json.loads(first["what"])
    return {"definition": definition, "events": rows, "head": first["before"]}


def retold(
    log: Log,
    name: str | None,
    parameters: Sequence[ParameterConfig] | None = None,
    constraints: Sequence[str] = (),
    rename: object = None,
) -> Log:
    """The events of a log told again to a new one, see `PreferenceExperiment.copy`."""
    given = {} if rename is None else rename
    if not isinstance(given, Mapping) or not all(
        is_text(each) and each for pair in given.items() for each in pair
    ):
        wanted = "a dictionary of new names of parameters by their old ones"
        raise wrong("rename", rename, wanted)
    new_names = dict(given)
    target = _renamed(log.definition, new_names)
    if parameters is not None:
        stored = stored_parameters(parameters, constraints)
        target = replace(target, parameters=stored, constraints=[*constraints])
        if target.catalogue is not None:
            raise ExperimentError(
                "The designs of a catalogue are its rows; leave parameters out."
            )
    copy = Log(replace(target, name=log.name if name is None else name).read_back())
    try:
        add_events(copy, log, new_names)
    except ExperimentError as error:
        if parameters is None:
            raise
        names = {new_names.get(p["name"], p["name"]) for p in log.definition.parameters}
        kept = "that column more or less"
        if {p["name"] for p in target.parameters} == names:
            kept = "those questions alone whose designs are in its space"
        raise ExperimentError(
            f"{str(error).rstrip('.')}. To copy the answers all the same, create an "
            f"experiment, and give record_table the table of answers() with {kept}."
        ) from error
    return copy


def _renamed(definition: Definition, rename: dict[str, str]) -> Definition:
    """A definition with other names of parameters, wherever they are named."""
    names = [str(stored["name"]) for stored in definition.parameters]
    if unknown := ", ".join(map(repr, sorted(set(rename) - set(names)))):
        raise ExperimentError(f"rename has {unknown}; there are {', '.join(names)}.")
    definition = replace(definition, created=now())
    if not rename:
        return definition

    def by_name(given: Any) -> Any:
        named = isinstance(given, Mapping)
        return {rename.get(n, n): v for n, v in given.items()} if named else given

    parameters = []
    for stored in definition.parameters:
        fields = {**stored, "name": rename.get(stored["name"], stored["name"])}
        if "expression_str" in fields:
            constant, weights = linear_form(fields["expression_str"], names)
            fields["expression_str"] = sum_text((constant, by_name(weights)))
        parameters.append(fields)
    parsed = [LinearConstraint.parsed(text, names) for text in definition.constraints]
    renamed = [LinearConstraint(by_name(c.constraint_dict), c.bound) for c in parsed]
    settings, catalogue = definition.settings, definition.catalogue
    told = {key: by_name(settings[key]) for key in ("baseline", "smallest_difference")}
    if catalogue is not None:
        catalogue = {**catalogue, "columns": by_name(catalogue["columns"])}
    return replace(
        definition,
        parameters=parameters,
        constraints=[constraint._constraint_str for constraint in renamed],
        settings={**settings, **told},
        catalogue=catalogue,
    )


def add_events(log: Log, source: Log, rename: Mapping[str, str] = {}) -> None:
    """Adds the events of another log to a log, each of them once."""

    def option(parameters: Mapping[str, Any]) -> dict[str, Any]:
        renamed = {rename.get(name, name): v for name, v in parameters.items()}
        return dict(own_design(log.space, log.catalogue, renamed))

    retelling = Retelling(log, option, _shared_questions(log, source))
    for event in source.events:
        try:
            retelling.add(event)
        except (ExperimentError, StorageError) as error:
            raise _refused(source, event, error) from error


def _refused(source: Log, event: Event, error: Exception) -> ExperimentError:
    return ExperimentError(
        f"Event {event.number} of {source.name!r} ({event.kind}, question "
        f"{event.question}) cannot be taken over: {error}"
    )


def merge(log: Log, other: Log) -> None:
    """Adds what another log has, see `PreferenceExperiment.merge`."""
    add_events(log, other)
    for asked in other.questions:
        if (told := asked.standing) is not None:
            try:
                # The other experiment may have another model, and no raters.
                taken(log, len(asked.options), told.what)
            except ExperimentError as error:
                raise _refused(other, told, error) from error


def _shared_questions(log: Log, source: Log) -> dict[int, tuple[int, int]]:
    """Questions of another log that a log has too, as `Retelling` takes them.

    A question is the same where it was asked at the same time about the same options,
    and the events of one log begin with those of the other, as in a log and its copy.
    Each may have got the same answer by itself: as told twice, it counts once. Where it
    was answered otherwise in each, both answers count: it is another question.
    An answer that one of them recorded from a table of the other is the same, too.
    """
    known: dict[object, list[LoggedQuestion]] = {}
    for question in log.questions:
        known.setdefault(_identity(question), []).append(question)
    shared = {}
    for question in source.questions:
        candidates = known.get(_identity(question), [])
        for here in candidates:
            # As far as both go.
            pairs = zip(here.events[1:], question.events[1:], strict=False)
            if all(_is_same(a, b) for a, b in pairs):
                shared[question.index] = (here.index, len(here.events))
                candidates.remove(here)
                break
    found, answered = {here for here, _ in shared.values()}, answers_by_key(log)
    for key, there in answers_by_key(source).items():
        unknown = [one for one in there[::-1] if one[0] not in shared]
        same = [one for one in answered.get(key, [])[::-1] if one[0] not in found]
        for (number, told), (place, said) in zip(unknown, same, strict=False):
            whole = len(source.questions[number].events)
            stands = said == len(log.questions[place].events)
            if stands or told == whole or source.questions[number].standing is None:
                # What followed there follows here, unless something else did here.
                shared[number] = (place, told if stands else whole)
    return shared


def _is_same(first: Event, second: Event) -> bool:
    """Whether two events say the same, perhaps at other times."""
    same_what = told_again(first.what) == told_again(second.what)
    return first.kind == second.kind and same_what


def _identity(question: LoggedQuestion) -> object:
    asked = question.events[0]
    options = tuple(frozenset(o.parameters.items()) for o in question.options)
    return asked.time, asked.what["chosen_by"], asked.rater, options


def save_to_ax(experiment: Experiment, place: str) -> None:
    """Writes Ax's experiment to Ax's own storage, for Ax's tools to open."""
    with warnings.catch_warnings():
        # Ax's storage uses Ax's old names and types.
        warnings.simplefilter("ignore")
        if "://" not in place and Path(place).suffix == ".json":
            text = json.dumps(object_to_json(experiment))
            replace_file(Path(place), text.encode())
            return
        from ax.storage.sqa_store.db import Base
        from ax.storage.sqa_store.encoder import Encoder
        from ax.storage.sqa_store.sqa_classes import SQAExperiment
        from ax.storage.sqa_store.sqa_config import SQAConfig

        name = experiment.name
        url = place if "://" in place else f"sqlite:///{Path(place).absolute()}"
        try:
            engine = create_engine(url)
            Base.metadata.create_all(engine)
            # Ax's functions of saving use a session of the whole process.
            with Session(engine) as session, session.begin():
                if name in session.execute(select(SQAExperiment.name)).scalars():
                    raise StorageError(
                        f"There is an experiment {name!r} of Ax's already; name "
                        "another storage."
                    )
                session.add(Encoder(SQAConfig()).experiment_to_sqa(experiment))
            engine.dispose()
        except (SQLAlchemyError, AxError, ModuleNotFoundError) as error:
            raise StorageError(f"Cannot save {name!r} to Ax: {error}") from error
