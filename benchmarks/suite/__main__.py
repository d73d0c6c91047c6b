"""The command line of the suite: run, collect, report, check."""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from benchmarks.suite.cell import Cell
from benchmarks.suite.choice import add_options, chosen
from benchmarks.suite.errors import SuiteError
from benchmarks.suite.runs.batch import batches, play_together
from benchmarks.suite.runs.judges import make_judge
from benchmarks.suite.runs.players import check_rule, needs
from benchmarks.suite.runs.schedule import missing_runs, run_cells
from benchmarks.suite.runs.store import (
    collect,
    differences,
    num_runs,
    on_record,
    read_record,
    read_runs,
)
from benchmarks.suite.studies import STUDIES
from benchmarks.suite.studies.study import Study
from botorch_pref.errors import BotorchPrefError
from botorch_pref.simulation.problems import make_problem

RUNS = Path("benchmarks/results/suite")
RECORDS = Path("benchmarks/records")
INSTALL = "pip install 'botorch-pref[benchmarks,glis]' brings it"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command.

    Returns:
        Exit status: 0; 1 where runs failed or differ; 2 for input that cannot be used;
        130 where somebody interrupted it.

    Raises:
        SystemExit: With status 2, by argparse, for arguments that it refuses.
    """
    options = _parser().parse_args(arguments)
    studies = [STUDIES[name] for name in options.study or STUDIES]
    commands = {"run": _run, "collect": _collect, "report": _report, "check": _check}
    try:
        return commands[options.command](studies, options)
    except (BotorchPrefError, OSError) as error:
        print(f"benchmarks.suite: error: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        print(f"benchmarks.suite: error: {error}; {INSTALL}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.suite", description=__doc__
    )
    commands = parser.add_subparsers(dest="command", required=True)
    helps = {
        "run": "run what has not been run, and write a file for each run",
        "collect": "put finished runs into the committed records",
        "report": "make tables and figures from the committed records",
        "check": "run some committed runs again and compare their figures",
    }
    for name, says in helps.items():
        command = commands.add_parser(name, help=says)
        command.add_argument("--study", action="append", choices=sorted(STUDIES))
        command.add_argument(
            "--runs", type=Path, default=RUNS, help=f"folder of runs, default {RUNS}"
        )
        command.add_argument(
            "--records", type=Path, default=RECORDS, help=argparse.SUPPRESS
        )
        _add_options[name](command)
    return parser


def processes(text: str) -> int:
    """A number of processes, as joblib counts them."""
    if int(text) == 0:
        raise argparse.ArgumentTypeError("0 processes run nothing: -1 is all cores")
    return int(text)


def sample_size(text: str) -> int:
    """A number of runs, at least one."""
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} runs check nothing: 1 or more")
    return int(text)


def _add_run_options(command: argparse.ArgumentParser) -> None:
    add_options(command)
    where = command.add_mutually_exclusive_group()
    where.add_argument(
        "--jobs", type=processes, default=-1, help="processes; default all"
    )
    where.add_argument("--scheduler", help="address of a Dask scheduler")
    command.add_argument("--list", action="store_true", help="only say what would run")


def _add_report_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--uncollected", action="store_true", help="from the folder of runs instead"
    )
    command.add_argument("--figures", type=Path, default=RUNS.with_name("figures"))
    command.add_argument(
        "--pages",
        type=Path,
        help="write the pages of all studies into a folder instead, without figures",
    )


def _add_check_options(command: argparse.ArgumentParser) -> None:
    add_options(command)
    command.add_argument(
        "--sample",
        type=sample_size,
        default=3,
        help="runs of each study, drawn; default 3",
    )


_add_options = {
    "run": _add_run_options,
    "collect": lambda command: None,
    "report": _add_report_options,
    "check": _add_check_options,
}


def _run(studies: Sequence[Study], options: argparse.Namespace) -> int:
    cells = _installed(chosen(studies, options))
    for setting in {cell.setting for cell in cells}:
        make_judge(setting, make_problem(setting.problem).utility, 0)
    for rule in {cell.rule for cell in cells}:
        check_rule(rule)
    if options.list:
        for cell in missing_runs(options.runs, cells):
            print(f"{cell.study} {cell.key}")
        return 0
    interrupted, failed = False, []
    try:
        failed = run_cells(
            cells, options.runs, jobs=options.jobs, scheduler=options.scheduler
        )
    except KeyboardInterrupt:
        interrupted = True
        print("interrupted; the same command goes on where this one ends")
    for reason, number in Counter(outcome.reason for outcome in failed).items():
        print(f"{number} failed: {reason}")
    left = len(missing_runs(options.runs, cells))
    print(f"{len(cells) - left} of {len(cells)} runs are in {options.runs}")
    return 130 if interrupted else int(bool(failed))


def _installed(cells: Sequence[Cell]) -> list[Cell]:
    """Runs whose rule needs nothing that is not installed; says what is left out."""
    kept = [cell for cell in cells if not needs(cell.rule)]
    absent = {needs(cell.rule) for cell in cells} - {""}
    if absent:
        number, names = len(cells) - len(kept), ", ".join(sorted(absent))
        print(f"{number} runs are left out, without {names}; {INSTALL}")
    return kept


def _collect(studies: Sequence[Study], options: argparse.Namespace) -> int:
    found = 0
    for study in studies:
        new = num_runs(read_runs(options.runs, study.name))
        if new:
            found += new
            number = collect(options.runs, study.name, options.records)
            kept = f"{number - new} of them kept from before"
            print(f"{study.name}: {number} runs in {options.records}, {kept}")
    return 0 if found else _nothing(studies, options.runs)


def _nothing(studies: Sequence[Study], folder: Path) -> int:
    names = ", ".join(study.name for study in studies)
    print(f"no such run of {names} is in {folder}", file=sys.stderr)
    return 2


def _report(studies: Sequence[Study], options: argparse.Namespace) -> int:
    # Without matplotlib there is no report, but runs.
    from benchmarks.suite.pages.figures import draw_regrets
    from benchmarks.suite.pages.logbook import make_pages, write_pages
    from benchmarks.suite.pages.study import study_pages

    if options.pages is not None and (options.study or options.uncollected):
        raise SuiteError(
            "--pages shows all studies on record: not --study, --uncollected"
        )
    if options.pages is not None:
        pages = make_pages(STUDIES.values(), options.records)
        write_pages(pages, options.pages)
        return 0
    shown = 0
    for study in studies:
        if options.uncollected:
            runs = read_runs(options.runs, study.record)
        else:
            runs = read_record(study.record, options.records)
        if len(runs):
            shown += 1
            print("\n".join(study_pages(study, runs).values()))
            for path in draw_regrets(study, runs, options.figures):
                print(f"figure: {path}")
    folder = options.runs if options.uncollected else options.records
    return 0 if shown else _nothing(studies, folder)


def _check(studies: Sequence[Study], options: argparse.Namespace) -> int:
    cells, differing, checked = chosen(studies, options), 0, 0
    for study in studies:
        record = read_record(study.name, options.records)
        of_study = on_record(record, [c for c in cells if c.study == study.name])
        together = batches(on_record(record, list(study.cells())))
        for cell in random.sample(of_study, min(options.sample, len(of_study))):
            (batch,) = (cells for cells in together if cell in cells)
            checked += 1
            differing += not _comes_out_again(cell, batch, record)
    return int(differing > 0) if checked else _nothing(studies, options.records)


def _comes_out_again(cell: Cell, batch: Sequence[Cell], record: pd.DataFrame) -> bool:
    """Whether a run has the figures on record, with the batch it is of; says so."""
    outcome = play_together(batch)[batch.index(cell)]
    duels = [] if outcome.error else differences(record, cell, outcome.rows)
    says = f"{len(duels)} duels differ" + (f", from {duels[0]} on" if duels else "")
    print(f"{cell.study} {cell.key}: {outcome.error or says}")
    return not outcome.error and not duels


if __name__ == "__main__":
    sys.exit(main())
