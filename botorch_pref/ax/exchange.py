"""Logs as files, as copies in other spaces, and in Ax's own storage."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ax.core.experiment import Experiment
from ax.exceptions.core import AxError
from ax.storage.json_store.encoder import object_to_json
from sqlalchemy import create_engine, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from botorch_pref.ax.events import (
    ASKED,
    COLUMNS,
    Chosen,
    Definition,
    Event,
    LoggedQuestion,
    Option,
    json_text,
    now,
    question_number,
    stored_parameters,
)
from botorch_pref.ax.log import Log
from botorch_pref.ax.log_store import SQLITE, file_content, replace_file
from botorch_pref.ax.settings import ParameterConfig
from botorch_pref.ax.space.options import own_design
from botorch_pref.errors import ExperimentError, StorageError


def write_json(log: Log, path: Path) -> None:
    """Writes a log as JSON, which `read_file` reads: the definition and the events.

    What events say is part of the same JSON, and no text in it, for people to read.
    """
    rows = [event.to_row() for event in log.events]
    stored = {
        "definition": asdict(log.definition),
        "events": [{**row, "what": json.loads(row["what"])} for row in rows],
    }
    text = json.dumps(stored, indent=1, ensure_ascii=False)
    replace_file(path, text.encode())


def read_file(path: Path, name: str | None) -> Log:
    """Returns the log of a file that `write_json` wrote, under a ``name`` if given.

    Raises:
        StorageError: It is no such file, or damaged.
    """
    try:
        content = file_content(path)
    # A path that no file can have is a ValueError.
    except (OSError, ValueError) as error:
        raise StorageError(f"Cannot read {path}: {error}") from error
    if content.startswith(SQLITE):
        raise StorageError(
            f"{path} is a database, not what write_json wrote; open it by "
            "PreferenceExperiment.resume, and copy it by its copy."
        )
    try:
        stored: dict[str, Any] = json.loads(content.decode())
        definition = Definition(**stored["definition"])
        rows = [
            {column: event[column] for column in COLUMNS}
            | {"what": json_text(event["what"])}
            for event in stored["events"]
        ]
    # A file that is cut off or no log fails in all kinds of ways.
    except Exception as error:
        raise StorageError(
            f"{path} is no log that write_json wrote, or it is damaged: "
            # The representation of a UnicodeDecodeError would have the whole file.
            f"{type(error).__name__}: {error!s:.200} A table of answers goes to "
            "record_table."
        ) from error
    try:
        log = Log(definition)
        log.append_stored(rows, len(rows))
    except (ExperimentError, StorageError) as error:
        raise StorageError(f"{path} is damaged: {error}") from error
    return log if name in (None, log.name) else repeat_events(log, name)


def repeat_events(
    log: Log,
    name: str | None,
    parameters: Sequence[ParameterConfig] | None = None,
    constraints: Sequence[str] = (),
) -> Log:
    """Tells the events of a log again to a new one, see `PreferenceExperiment.copy`.

    Without ``parameters`` the space stays. Each event is checked there, and the first
    that the new space does not allow is named.
    """
    target = replace(
        log.definition, name=log.name if name is None else name, created=now()
    )
    if parameters is not None:
        if target.catalogue is not None:
            raise ExperimentError(
                "The designs of a catalogue are its rows; leave parameters out."
            )
        stored = stored_parameters(parameters, constraints)
        target = replace(target, parameters=stored, constraints=[*constraints])
    copy = Log(target.read_back())
    for event in log.events:
        try:
            _tell_again(copy, event)
        except (ExperimentError, StorageError) as error:
            raise ExperimentError(
                f"Event {event.number} of {log.name!r} ({event.kind}, question "
                f"{question_number(event.question)}) cannot be taken over: "
                f"{str(error).rstrip('.')}. To copy the answers all the same, create "
                "an experiment, and give "
                "record_table the table of answers() with the columns and the "
                "questions that it can have."
            ) from error
    return copy


def _tell_again(log: Log, event: Event) -> None:
    """Adds an event of another log, whose questions have the same numbers.

    Options are designs of this log's space, and get their names here; times, raters and
    what was said stay.
    """
    if event.kind != ASKED:
        log.add(event.question, event.kind, event.what, event.time)
        return
    content = dict(event.what)
    options = tuple(Option(**fields) for fields in content.pop("options"))
    rater = content.pop("rater", None)
    # New options are named by the order in which they were chosen.
    question = LoggedQuestion(event.question, options, [event])
    designs = [
        dict(own_design(log.space, log.catalogue, option.parameters))
        for option in question.as_chosen
    ]
    log.ask(Chosen(designs, **content), rater, event.time)


def save_to_ax(experiment: Experiment, place: str) -> None:
    """Writes Ax's experiment to Ax's own storage, for Ax's tools to open.

    A ``place`` that ends in ``.json`` is a file, which is replaced. Another one is an
    SQLite file or the URL of a database, to which the experiment is added.

    Raises:
        StorageError: It cannot be written, or has an experiment of that name.
    """
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
