"""Command line of simulated questions and of choices: `python -m botorch_pref`."""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")

NOBODY_READS = 141
"""Exit status, as in shells, of a command that a closed pipe ended, as that to
``head``."""

DEFAULTS: dict[str, Any] = {
    "problem": "hartmann6",
    "options": 4,
    "questions": 30,
    "noise": 0.0,
    "seed": 0,
}
# Thousands of real choices at human noise: exactness costs minutes and shows nowhere.
DATA_MODEL = "ep"

# Other options have no meaning for a table of choices, or for a simulated judge.
OF_DATA, OF_RUN = {"data", "model", "seed", "out"}, {*DEFAULTS, "out"}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; the exit status is 2 for input that cannot be used."""
    if isinstance(sys.stdout, TextIOWrapper):
        # A terminal in another coding lacks letters that names have.
        sys.stdout.reconfigure(errors="backslashreplace")
    arguments = sys.argv[1:] if argv is None else list(argv)
    if arguments[:1] in (["serve"], ["rank"]):
        return _guarded(_command, arguments)
    parser = _make_parser()
    user_options = vars(parser.parse_args(arguments))
    explains = "data" in user_options
    for name in user_options.keys() - (OF_DATA if explains else OF_RUN):
        preposition = "together with" if explains else "without"
        parser.error(f"--{name} has no meaning {preposition} --data")
    return _guarded(_run, user_options)


def _command(arguments: list[str]) -> None:
    # Imports take seconds: each command makes its own, and serve says so before. A
    # missing extra ends in a message like any other error.
    name, *command_arguments = arguments
    getattr(import_module(f"botorch_pref.commands.{name}"), name)(command_arguments)


def _guarded(run: Callable[[T], None], argument: T) -> int:
    """Runs a command on its argument, and returns its exit status.

    It is 0; 2 after an error of this package or of the system, which is printed; 130
    after Ctrl-C; or `NOBODY_READS`. Any other error is one of the program, and is
    raised.
    """
    try:
        run(argument)
        # Else Python finds at its end that nobody reads.
        sys.stdout.flush()
        return 0
    except KeyboardInterrupt:
        # What shells say of a command that Ctrl-C ended.
        return 130
    except BrokenPipeError:
        return NOBODY_READS
    except Exception as error:
        if not isinstance(error, OSError):
            from botorch_pref.errors import BotorchPrefError

            if not isinstance(error, BotorchPrefError):
                raise
        print(f"botorch_pref: error: {error}", file=sys.stderr)
        return 2


def _run(user_options: dict[str, Any]) -> None:
    """Optimises a problem, or explains choices, by the options of the user.

    Options that the user left out have their defaults; the default folder is named
    after the settings of a run, or after the data.
    """
    # Imported here, so that a missing extra ends in a message like any other error.
    from botorch_pref.commands.choices import explain_choices
    from botorch_pref.commands.optimise import optimise
    from botorch_pref.simulation import RunSettings

    out: Path | None = user_options.pop("out", None)
    if "data" in user_options:
        data, model = user_options["data"], user_options.get("model", DATA_MODEL)
        seed = user_options.get("seed", DEFAULTS["seed"])
        explain_choices(data, model, seed, out or Path("runs", Path(data).stem))
    else:
        settings = RunSettings(**DEFAULTS | user_options)
        questions = f"{settings.questions}-of-{settings.options}"
        judge = f"noise-{settings.noise}-seed-{settings.seed}"
        name = f"{settings.problem}-{questions}-{judge}"
        optimise(settings, out or Path("runs", name))


def _make_parser() -> argparse.ArgumentParser:
    """Makes the parser of the command line without a further command."""
    from botorch_pref.commands import program
    from botorch_pref.simulation.problems import PROBLEM_NAMES

    parser = argparse.ArgumentParser(
        prog=program(),
        description="Optimise a function that a simulated judge alone knows, by "
        "questions of four options to rank (the default), or explain real choices "
        "(--data). "
        "To ask a person, on a page: %(prog)s serve --help. "
        "To rank items by many answers: %(prog)s rank --help.",
        # Options that were not given are absent, so that `main` can refuse those that
        # have no meaning beside others.
        argument_default=argparse.SUPPRESS,
    )
    add = parser.add_argument
    exclusive_group = parser.add_mutually_exclusive_group()
    exclusive_group.add_argument(
        "--problem", metavar="NAME", help="one of " + ", ".join(PROBLEM_NAMES)
    )
    exclusive_group.add_argument(
        "--data",
        metavar="FILE.csv|train",
        help="a table with columns winner_<feature> and loser_<feature>, and perhaps "
        "rater and tie; or the choices between train journeys",
    )
    add("--model", help="of --data; default: ep")
    add(
        "--options",
        type=_num_options,
        metavar="N",
        help="of a question, which the judge ranks; default: 4, and 2 for duels",
    )
    add("--questions", type=_positive_int, metavar="N", help="default: 30")
    add(
        "--noise",
        type=_variance,
        metavar="VARIANCE",
        help="of the judge, per option; default: 0, always right",
    )
    add("--seed", type=_seed, help="default: 0")
    add(
        "--out",
        type=Path,
        metavar="DIR",
        help="default: in runs/, a folder for these settings",
    )
    return parser


def _positive_int(text: str) -> int:
    if (value := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return value


def _num_options(text: str) -> int:
    if (value := int(text)) < 2:
        raise argparse.ArgumentTypeError(f"{text} is less than 2")
    return value


def _seed(text: str) -> int:
    # Torch takes those of 64 bits, and NumPy none below 0.
    if not 0 <= (value := int(text)) < 2**63:
        raise argparse.ArgumentTypeError(f"{text} is not from 0 to 2^63 - 1")
    return value


def _variance(text: str) -> float:
    if not 0.0 <= (value := float(text)) < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a finite variance >= 0")
    return value


def run() -> NoReturn:
    """Runs the command line, and ends the process as shells expect."""
    # linear_operator compiles by it as it is imported, and from torch 2.14 on says so.
    warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated")
    status = main()
    # Threads may still be drawing what nobody will see: Ctrl-C ends them in silence.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if status == NOBODY_READS:
        # What is still to be printed goes nowhere, in silence.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(status)


if __name__ == "__main__":
    run()
