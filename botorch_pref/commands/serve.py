"""Command that asks people the questions of an experiment, on a page."""

from __future__ import annotations

import argparse
import logging
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

# This module imports what is there at once, so that it can print before the rest is.
from botorch_pref.commands import program


def serve(argv: Sequence[str]) -> None:
    """Serves the page of an experiment until it is stopped; prints its address."""
    arguments = _make_parser().parse_args(argv)
    with (
        suppress(KeyboardInterrupt),
        _listening(arguments.host, arguments.port) as listening,
    ):
        print("Loading the models, which takes some seconds ...", flush=True)
        # Ax logs messages from its import on, which do not concern the server.
        logging.disable(logging.INFO)
        try:
            # Before Ax, whose error says nothing under python -OO.
            import botorch_pref.ax  # noqa: F401
            from botorch_pref.commands.page_server import serve_page
        except ImportError as error:
            from botorch_pref.errors import BotorchPrefError

            raise BotorchPrefError(
                f"serve needs {error.name}: pip install 'botorch-pref[ax,web]'"
            ) from error
        serve_page(arguments, listening)


def _make_parser() -> argparse.ArgumentParser:
    """Makes the parser of ``serve``."""
    parser = argparse.ArgumentParser(
        prog=f"{program()} serve",
        description="Ask people the questions of an experiment, on a page for the "
        "phone and the desk.",
    )
    _add_experiment(parser.add_argument)
    _add_page(parser.add_argument)
    _add_address(parser.add_argument)
    return parser


_REPEATED: dict[str, Any] = {"action": "append", "default": []}


def _add_experiment(add: Callable[..., Any]) -> None:
    """Adds options of the experiment and its questions."""
    add("storage", help="of the experiment: a file, or the URL of a database")
    add("--name", required=True, help="of the experiment")
    add(
        "--parameter",
        **_REPEATED,
        metavar="NAME=VALUES",
        help="of a new experiment, once for each: 'dose=14.0:22.0' for real numbers, "
        "'shots=1:3' for whole ones, 'dose=14:22:0.5' with a step, 'bean=a,b,c' for a "
        "choice",
    )
    add(
        "--context",
        **_REPEATED,
        metavar="NAME",
        help="a parameter of a new experiment that is measured and not chosen, as the "
        "room, once for each: people say what it is before they are asked",
    )
    add(
        "--size",
        type=int,
        help="options of a question; default: 4, or 2 where --kinds has neither best "
        "nor ranking, the model takes neither of four, or there are fewer than 8 "
        "designs",
    )
    add(
        "--kinds",
        metavar="KIND,...",
        help="answers offered, of winner and strength (of two options), best and "
        "ranking (of more), tie, cannot_compare, invalid, ratings and levels; or "
        "position, of a slider that moves along lines; default: all that the model "
        "takes, side by side",
    )
    add(
        "--plane",
        action="store_true",
        help="galleries: nine designs, or --size 25, in rows, in which two parameters "
        "of the recommended design move",
    )
    add(
        "--position-bias",
        action="store_true",
        help="a new experiment learns how much being shown first adds to an option",
    )


def _add_page(add: Callable[..., Any]) -> None:
    """Adds options of what the page shows."""
    add(
        "--show",
        metavar="MODULE:FUNCTION",
        help="from the parameters of an option to what is shown of it; a table by "
        "default",
    )
    scope = "of a parameter in the table, once for each"
    add("--unit", **_REPEATED, metavar="NAME=UNIT", help=scope)
    add("--title", help="of the page; default: the name of the experiment")
    add("--question", help="what is asked of the options: 'Which tastes better?'")
    add("--introduction", help="a text above the first question of each person")
    add(
        "--language",
        default="en",
        metavar="LANGUAGE",
        help="of the page: en, de, or a JSON file of all of its texts; default: en",
    )


def _add_address(add: Callable[..., Any]) -> None:
    """Adds options of where the page is served."""
    add("--host", default="127.0.0.1", help="default: 127.0.0.1, this machine alone")
    add(
        "--allow-host",
        **_REPEATED,
        metavar="NAME",
        help="a name under which browsers may ask for the page beside those of this "
        "machine, as that of a server with TLS before it; once for each",
    )
    add("--port", type=int, default=8000, help="default: 8000; 0 for any that is free")


def _listening(host: str, port: int) -> socket.socket:
    """Opens a socket that listens at an address, before the models are loaded.

    That takes seconds, after which an error would come late.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        # Whoever has the address may come: they wait until the page is there.
        listening.listen(128)
    # A number that no port has is an OverflowError.
    except (OSError, OverflowError) as error:
        listening.close()
        raise OSError(f"{host}:{port} cannot be had: {error}; try another.") from error
    return listening
