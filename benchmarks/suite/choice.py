"""The runs that the options of a command choose."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence

from benchmarks.suite.cell import Cell
from benchmarks.suite.errors import SuiteError
from benchmarks.suite.studies.study import Study

NAMED = ("problem", "judge", "model", "acquisition", "options", "answer")


def seeds(text: str) -> range:
    """The seeds that an option names.

    Raises:
        ArgumentTypeError: They are not a range, or none.
    """
    first, _, last = text.partition(":")
    if first.isdecimal() and last.isdecimal() and int(first) < int(last):
        return range(int(first), int(last))
    raise argparse.ArgumentTypeError(
        f"{text!r} should be FIRST:LAST+1, such as 0:10 for the first ten"
    )


def add_options(command: argparse.ArgumentParser) -> None:
    """Adds the options that choose runs."""
    command.add_argument("--seeds", type=seeds, help="FIRST:LAST+1, such as 0:10")
    for name in NAMED:
        command.add_argument(f"--{name}", action="append", help="only this, or these")


def chosen(studies: Sequence[Study], options: argparse.Namespace) -> list[Cell]:
    """The runs of some studies that the options do not leave out.

    Args:
        studies: The studies.
        options: Those of `add_options`.

    Raises:
        SuiteError: There is no such run, or a name that no study has.
    """
    cells = [cell for study in studies for cell in study.cells()]
    if not cells:
        (study, *_) = studies
        raise SuiteError(
            f"{study.name} has no runs of its own: they are those of {study.runs_of}"
        )
    for what in NAMED:
        asked = getattr(options, what)
        if asked is not None:
            _check_names(what, asked, cells)
            cells = [cell for cell in cells if names(cell)[what] in asked]
    last = max(cell.seed for cell in cells)
    if options.seeds is not None:
        cells = [cell for cell in cells if cell.seed in options.seeds]
    if not cells:
        raise SuiteError(
            f"no run has a seed from {options.seeds.start} on: the last is {last}"
        )
    return cells


def names(cell: Cell) -> dict[str, str]:
    """Names of a run that options give, by option."""
    return {
        "problem": cell.setting.problem,
        "judge": cell.setting.judge,
        "model": cell.rule.model,
        "acquisition": cell.rule.acquisition,
        "options": str(cell.rule.options),
        "answer": cell.rule.answer,
    }


def _check_names(what: str, asked: Iterable[str], cells: Iterable[Cell]) -> None:
    known = {names(cell)[what] for cell in cells}
    for name in asked:
        if name not in known:
            raise SuiteError(
                f"no run has --{what} {name}: there are {', '.join(sorted(known))}"
            )
