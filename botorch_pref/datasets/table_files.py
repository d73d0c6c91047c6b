"""Tables of files of CSV, of JSON, of games of chess, and of data sets of sureal."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from botorch_pref.datasets.tables import CsvTable, text_of
from botorch_pref.errors import FeedbackError

OBJECTS = {".json", ".jsonl", ".ndjson", ".pgn", ".py"}
"""Ends of names of files that have objects, not lines of cells."""

PICKLES = {".pkl", ".pickle", ".p"}
"""Ends of names of files that run code of whoever wrote them when they are read."""


def read_table(path: Path) -> CsvTable:
    """Reads a table of CSV, JSON, lines of JSON or PGN, as the name of a file says."""
    suffix = path.suffix.lower()
    if suffix in PICKLES:
        raise FeedbackError(
            f"{path} is a pickle, which may run any code when it is read: load it if "
            "you trust it, and write a table, as pandas.DataFrame(rows).to_csv(path), "
            "or for sureal a data set in Python, whose dis_videos are read"
        )
    if suffix not in OBJECTS:
        return CsvTable.read(path)
    try:
        text = text_of(path.read_bytes())
        if suffix == ".pgn":
            records = _games(text)
        elif suffix == ".py":
            records = [*enumerate(_opinions(text), 1)]
        elif suffix == ".json":
            records = _records(json.loads(text))
        else:
            lines = enumerate(text.splitlines(), 1)
            records = [(n, _object(n, line)) for n, line in lines if line.strip()]
    except ValueError as error:
        raise FeedbackError(f"{path} cannot be read: {error}") from error
    if not records or not all(isinstance(record, dict) for _, record in records):
        raise FeedbackError(
            f"{path} has no list of objects, one for each answer; give one, or a table"
        )
    cells = [dict(_cells(record)) for _, record in records]
    header = [*dict.fromkeys(name for row in cells for name in row)]
    rows = [[row.get(name, "") for name in header] for row in cells]
    return CsvTable(path, ",", header, [number for number, _ in records], rows)


def _object(number: int, line: str) -> Any:
    """Reads a line of JSON; an error says which line of the file it is."""
    try:
        return json.loads(line)
    except ValueError as error:
        raise ValueError(f"line {number} is no object of JSON, {error}") from error


def _records(value: object) -> list[tuple[int, Any]]:
    """Finds the rows of a table in a value of JSON: its longest list of objects.

    Of lists of one length it is the one whose objects have most names. Tables of pandas
    and of experiment trackers have their names of columns apart, as
    ``{"columns": [...], "data": [[...], ...]}``.

    Returns:
        The objects after their numbers from 1, which messages have for lines.
    """
    if isinstance(value, dict) and {"columns", "data"} <= value.keys():
        pairs = (zip(value["columns"], row, strict=True) for row in value["data"])
        return [*enumerate(map(dict, pairs), 1)]
    lists = sorted(_lists(value), key=lambda rows: (len(rows), *map(len, rows)))
    return [*enumerate(lists[-1] if lists else [], 1)]


def _lists(value: object) -> Iterator[list[Any]]:
    """Yields the lists of objects that a value of JSON is, or has in its objects."""
    if isinstance(value, list) and all(isinstance(part, dict) for part in value):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _lists(part)


MOST_LISTED = 20
"""The longest list in an answer that has a column for each of its values."""


def _cells(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Yields the columns of a row in JSON, with their texts: ``score.ft.1`` and so on.

    Lists of more than 20 values, and those with lists or objects in them, stay one
    cell, a text of JSON; a null has no column.
    """
    parts: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, list) and len(value) <= MOST_LISTED:
        is_flat = not any(isinstance(part, dict | list) for part in value)
        parts = [*enumerate(value, 1)] if is_flat else ()
    if parts:
        for key, part in parts:
            yield from _cells(part, ".".join(filter(None, (name, str(key).strip()))))
    elif value is not None:
        yield name, value if isinstance(value, str) else json.dumps(value)


_TAG = re.compile(r'\[(\w+)\s+"((?:[^"\\]|\\.)*)"\]\s*')


def _games(text: str) -> list[tuple[int, dict[str, str]]]:
    """Returns the tags of games of chess, after the lines in which they begin.

    What is not known, ``?``, and the result of a game that goes on, ``*``, are empty
    (https://www.saremba.de/chessgml/standards/pgn/pgn-complete.htm).
    """
    games: list[tuple[int, dict[str, str]]] = []
    is_head = False
    for number, line in enumerate(text.splitlines(), 1):
        if match := _TAG.fullmatch(line):
            if not is_head:
                games.append((number, {}))
            cell = re.sub(r"\\(.)", r"\1", match[2])
            games[-1][1][match[1]] = "" if cell in ("?", "*") else cell
            is_head = True
        elif line.strip():
            # Moves end the tags of a game: those behind are of the next one.
            is_head = False
    return games


def _opinions(text: str) -> Iterator[dict[str, Any]]:
    """Yields opinions of a data set of sureal, a file of Python that is not run.

    ``dis_videos`` have an ``os`` each: a list of scores, one of each subject; scores by
    subject; or, by subject and the number of another video, 1 where this one is better,
    0 where it is worse and 0.5 for a tie.

    Raises:
        ValueError: The file is no such data set.
    """
    videos = None
    try:
        for statement in ast.parse(text).body:
            if isinstance(statement, ast.Assign):
                names = [getattr(target, "id", "") for target in statement.targets]
                if "dis_videos" in names:
                    videos = ast.literal_eval(statement.value)
    except SyntaxError as error:
        raise ValueError(f"it is no Python, {error}") from error
    if videos is None:
        raise ValueError("it has no dis_videos, as data sets of sureal have")
    try:
        yield from _opinions_of(videos)
    except (AttributeError, LookupError, TypeError) as error:
        raise ValueError(
            "its dis_videos are no list of objects with asset_id, path and os, in "
            f"which asset_id are numbers of videos ({type(error).__name__}: {error})"
        ) from error


_OUTCOMES = {1: "first", 0: "second", 0.5: "tie"}


def _opinions_of(videos: Any) -> Iterator[dict[str, Any]]:
    """Yields rows of a table, of ratings or comparisons, from ``dis_videos``.

    See `_opinions` for what these have. Videos get the names of their files.
    """
    file_names = {video["asset_id"]: Path(str(video["path"])).name for video in videos}
    for video in videos:
        name, scores = file_names[video["asset_id"]], video["os"]
        if not isinstance(scores, dict):
            scores = dict(enumerate(scores, 1))
        for key, score in scores.items():
            if isinstance(key, tuple):
                # The subject, and the number of the other video.
                first, second, rater = name, file_names[key[1]], str(key[0]).strip()
                if score not in _OUTCOMES:
                    raise ValueError(
                        f"{first} has {score!r} from {rater} beside {second}; it is 1 "
                        "where it is better, 0 where it is worse, 0.5 for a tie"
                    )
                yield {
                    "rater": rater,
                    "first": first,
                    "second": second,
                    "winner": _OUTCOMES[score],
                }
            else:
                yield {"rater": str(key), "item": name, "rating": score}
