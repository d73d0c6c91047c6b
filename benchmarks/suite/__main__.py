"""The command line of the suite: run, collect, report, check."""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.suite.cell import Cell
from benchmarks.suite.players import check_rule
from benchmarks.suite.schedule import run_cells
from benchmarks.suite.studies import STUDIES
from benchmarks.suite.study import Study

RUNS = Path("benchmarks/results/suite")
RECORDS = Path("benchmarks/records")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit status."""
    options = _parser().parse_args(arguments)
    studies = [STUDIES[name] for name in options.study or STUDIES]
    commands = {"run": _run, "collect": _collect, "report": _report, "check": _check}
    return commands[options.command](studies, options)


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


def _add_cell_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--seeds", default=None, help="FIRST:LAST+1, such as 0:10")
    for name in ("problem", "judge", "model", "acquisition"):
        command.add_argument(f"--{name}", action="append", help="only this, or these")


def _add_run_options(command: argparse.ArgumentParser) -> None:
    _add_cell_options(command)
    command.add_argument("--jobs", type=int, default=-1, help="processes; default all")
    command.add_argument("--scheduler", help="address of a Dask scheduler")
    command.add_argument("--list", action="store_true", help="only say what would run")


def _add_report_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--uncollected", action="store_true", help="from the folder of runs instead"
    )
    command.add_argument("--figures", type=Path, default=RUNS.with_name("figures"))
    command.add_argument(
        "--page", type=Path, help="write the page of all studies instead"
    )


def _add_check_options(command: argparse.ArgumentParser) -> None:
    _add_cell_options(command)
    command.add_argument(
        "--sample", type=int, default=3, help="runs of each study, drawn; default 3"
    )


_add_options = {
    "run": _add_run_options,
    "collect": lambda command: None,
    "report": _add_report_options,
    "check": _add_check_options,
}


def _chosen(studies: Sequence[Study], options: argparse.Namespace) -> Iterator[Cell]:
    """The cells of some studies that the options do not leave out."""
    seeds = None
    if options.seeds is not None:
        first, last = options.seeds.split(":")
        seeds = range(int(first), int(last))
    for study in studies:
        for cell in study.cells():
            named = {
                "problem": cell.setting.problem,
                "judge": cell.setting.judge,
                "model": cell.rule.model,
                "acquisition": cell.rule.acquisition,
            }
            wanted = all(
                getattr(options, what) is None or name in getattr(options, what)
                for what, name in named.items()
            )
            if wanted and (seeds is None or cell.seed in seeds):
                yield cell


def _run(studies: Sequence[Study], options: argparse.Namespace) -> int:
    cells = list(_chosen(studies, options))
    if not cells:
        print("no run has these names; --list without them shows what there is")
        return 2
    for rule in {cell.rule for cell in cells}:
        check_rule(rule)
    if options.list:
        for cell in cells:
            print(f"{cell.study} {cell.key}")
        return 0
    failed = run_cells(
        cells, options.runs, jobs=options.jobs, scheduler=options.scheduler
    )
    print(f"{len(cells) - len(failed)} of {len(cells)} runs are in {options.runs}")
    return 1 if failed else 0


def _collect(studies: Sequence[Study], options: argparse.Namespace) -> int:
    from benchmarks.suite.store import collect, read_runs

    for study in studies:
        if len(read_runs(options.runs, study.name)):
            number = collect(options.runs, study.name, options.records)
            print(f"{study.name}: {number} runs in {options.records}")
    return 0


def _report(studies: Sequence[Study], options: argparse.Namespace) -> int:
    from benchmarks.suite.figures import draw_regrets
    from benchmarks.suite.page import make_page
    from benchmarks.suite.store import read_record, read_runs
    from benchmarks.suite.tables import markdown, table_of

    if options.page is not None:
        page = make_page(
            STUDIES.values(), options.records, options.page.parent / "figures"
        )
        options.page.write_text(page, encoding="utf-8")
        return 0
    for study in studies:
        runs = read_record(study.record, options.records)
        if options.uncollected:
            runs = read_runs(options.runs, study.record)
        if len(runs):
            print(f"## {study.name}\n\n{study.asks}\n")
            print(markdown(table_of(study, runs)))
            for path in draw_regrets(runs, options.figures):
                print(f"figure: {path}")
    return 0


def _check(studies: Sequence[Study], options: argparse.Namespace) -> int:
    from benchmarks.suite.play import play
    from benchmarks.suite.store import differences, read_record

    checked = differing = 0
    for study in studies:
        record = read_record(study.name, options.records)
        chosen = _chosen([study], options)
        cells = [cell for cell in chosen if len(differences(record, cell, ()))]
        for cell in random.sample(cells, min(options.sample, len(cells))):
            duels = differences(record, cell, play(cell).rows)
            print(f"{study.name} {cell.key}: {len(duels)} duels differ")
            checked, differing = checked + 1, differing + bool(duels)
    if not checked:
        print("no run on record has these names")
        return 2
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
