"""Orders of PrefLib's files, as answers."""

from __future__ import annotations

import re
from pathlib import Path

from botorch_pref.datasets.layout_words import Answers, notes_on_lines
from botorch_pref.datasets.tables import Fault, TableFaults, text_of
from botorch_pref.errors import FeedbackError

PREFLIB = {".soc", ".soi", ".toc", ".toi"}
"""Ends of names of files of complete or incomplete orders, strict or with ties."""

_NAME = re.compile(r"#\s*ALTERNATIVE NAME\s+(\d+)\s*:\s*(.*)", re.IGNORECASE)


def read_orders(path: Path) -> tuple[Answers, list[str]]:
    """Reads orders of numbered alternatives, ``count: 3,{1,2},4``, as PrefLib's.

    The names are in the comments above. Alternatives that an order lacks are not
    compared (https://preflib.github.io/PrefLib-Jekyll/format).

    Returns:
        The answers, whose rows are numbers of lines, and sentences for the user on how
        the file was read.
    """
    try:
        lines = text_of(path.read_bytes()).splitlines()
    except ValueError as error:
        raise FeedbackError(f"{path} cannot be read: {error}") from error
    names, answers, faults = dict[str, str](), Answers(), list[Fault]()
    orders, header = 0, _older_header(lines)
    silent = list[int]()
    for number, line in enumerate(lines, 1):
        if number <= header:
            if match := _OLDER_NAME.match(line):
                names[match[1]] = match[2].strip() or match[1]
        elif match := _NAME.match(line):
            names[match[1]] = match[2].strip() or match[1]
        elif line.strip() and not line.startswith("#"):
            try:
                # Files of before 2022 have a comma behind the count.
                text = line.replace(",", ":", 1) if header else line
                count, places = _order_of(text, names)
            except ValueError as error:
                faults.append(Fault(number, "", f"{error}: correct it"))
                continue
            orders += count
            if not answers.add_ranking(number, places, count):
                silent.append(number)
    if faults:
        raise TableFaults(path, faults)
    if not answers.winner:
        raise FeedbackError(
            f"{path} has no orders of two alternatives; give lines such as 3: 1,{{2,4}}"
        )
    notes = [f"Read as: {orders:,} orders of PrefLib's, best first."]
    return answers, notes + notes_on_lines({"without two places to compare": silent})


_OLDER_NAME = re.compile(r"\s*(\d+)\s*,\s*(.*)")


def _older_header(lines: list[str]) -> int:
    """Counts the lines of a head as PrefLib had it before 2022; 0 without one."""
    if not lines or not re.fullmatch(r"\s*\d+\s*", lines[0]):
        return 0
    # The number of alternatives, a line with the name of each, and a line of sums.
    return int(lines[0]) + 2


def _order_of(line: str, names: dict[str, str]) -> tuple[int, list[list[str]]]:
    """Reads a line: how often an order was given, and its names by places, best first.

    Raises:
        ValueError: The line is no order of alternatives that have names.
    """
    count, mark, order = line.partition(":")
    if not mark or not re.fullmatch(r"\s*[1-9]\d*\s*", count):
        raise ValueError(f"{line!r} does not begin with how often the order was given")
    groups = re.findall(r"\{([^{}]*)\}|(\d+)", order)
    places = [re.findall(r"\d+", several or single) for several, single in groups]
    places = [place for place in places if place]
    numbers = [item for place in places for item in place]
    remainder = re.sub(r"[\d\s,{}]", "", order)
    if remainder or len({*numbers}) < len(numbers):
        raise ValueError(f"{line!r} is no order of numbers, each there once")
    if unknown := [item for item in numbers if item not in names]:
        raise ValueError(f"there is no ALTERNATIVE NAME {unknown[0]} above")
    return int(count), [[names[item] for item in place] for place in places]
