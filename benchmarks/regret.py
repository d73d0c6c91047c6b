"""Simple regret of one rule with a judge of choice, beside random challengers.

    python -m benchmarks.regret [--problem hartmann6] [--judge probit --noise 0.3]
        [--model skew] [--acquisition exploring-eiig] [--starts 50] [--chosen 25]

Prints the suite's table: regret of what the model recommends after the last duel, runs
that end at a wrong optimum, and of the questions how many are near copies, repeated, or
of points that the judge can hardly tell apart. All names are those of ``python -m
benchmarks.suite``, which keeps its runs and compares many rules.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.suite.cell import Rule, Setting
from benchmarks.suite.pages.tables import markdown, table_of
from benchmarks.suite.runs.judges import JUDGES
from benchmarks.suite.runs.players import check_rule
from benchmarks.suite.runs.schedule import run_cells
from benchmarks.suite.runs.store import read_runs
from benchmarks.suite.studies.study import Study
from botorch_pref.simulation.problems import PROBLEM_NAMES

_RANDOM = Rule("ep", "random")


def main() -> None:
    """Plays the runs and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problem", choices=PROBLEM_NAMES, default="hartmann6")
    parser.add_argument("--judge", choices=sorted(JUDGES), default="exact")
    parser.add_argument("--noise", type=float, default=0.0, help="the judge's")
    parser.add_argument("--model", default="skew")
    parser.add_argument("--acquisition", default="exploring-eiig")
    parser.add_argument("--starts", type=int, default=50)
    parser.add_argument("--chosen", type=int, default=25, help="after 5 at random")
    parser.add_argument("--jobs", type=int, default=-1, help="processes; default all")
    options = parser.parse_args()
    rule = Rule(options.model, options.acquisition)
    check_rule(rule)
    study = Study(
        "regret",
        "What does this rule leave?",
        settings=(Setting(options.problem, options.judge, options.noise),),
        rules=(rule, _RANDOM),
        reference=_RANDOM,
        num_seeds=options.starts,
        num_chosen=options.chosen,
    )
    with TemporaryDirectory() as name:
        failed = run_cells(study.cells(), Path(name), jobs=options.jobs)
        if failed:
            raise SystemExit(f"{len(failed)} runs failed")
        print(markdown(table_of(study, read_runs(Path(name), study.name))))


if __name__ == "__main__":
    main()
