"""Command that asks people the questions of an experiment, on a page."""

from __future__ import annotations

import argparse
import logging
import os
import secrets
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import torch

from botorch_pref.commands.given_parameters import given_parameters
from botorch_pref.errors import BotorchPrefError, StorageError

EVERYWHERE = ("0.0.0.0", "::")
"""Hosts that stand for every address of this machine."""


def serve(argv: Sequence[str]) -> None:
    """Serves the page of an experiment until it is stopped; prints its address.

    Args:
        argv: The arguments after ``serve``.

    Raises:
        BotorchPrefError: The experiment, its parameters or ``--show`` cannot be used.
        OSError: The address is taken.
        SystemExit: With status 2, by argparse, for arguments that it refuses.
    """
    given = _make_parser().parse_args(argv)
    # What Ax notes in passing, from its import on, is not for who serves a page.
    logging.disable(logging.INFO)
    try:
        import uvicorn

        from botorch_pref.commands.page_server import PageServer
        from botorch_pref.web import NumberTable, make_app
    except ImportError as error:
        raise BotorchPrefError(
            f"serve needs {error.name}: pip install 'botorch-pref[ax,web]'"
        ) from error
    torch.set_num_threads(1)
    experiment = _experiment(given)
    notes = _note_warnings(given.storage, given.name)
    token = _token(given.storage)
    show = NumberTable(_pairs(given.unit)) if given.show is None else _shown(given.show)
    kinds = None if given.kinds is None else given.kinds.split(",")
    app = make_app(experiment, show=show, token=token, kinds=kinds, size=given.size)
    listening = _listening(given.host, given.port)
    _print_address(given.host, listening.getsockname()[1], token)
    print(f"warnings:  {notes}, where models have any, and with the findings")
    print("Stop with Ctrl-C: all that was answered is kept.", flush=True)
    # An access log would have the token in it.
    config = uvicorn.Config(app, log_level="warning", access_log=False)
    # As it was told to: uvicorn has shut everything down, and says again what for.
    with suppress(KeyboardInterrupt):
        PageServer(config).run(sockets=[listening])


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m botorch_pref serve",
        description="Ask people the questions of an experiment, on a page for the "
        "phone and the desk.",
    )
    add = parser.add_argument
    add(
        "storage", help="where the experiment is kept: a file, or the URL of a database"
    )
    add("--name", required=True, help="of the experiment")
    add(
        "--parameter",
        action="append",
        default=[],
        metavar="NAME=VALUES",
        help="of a new experiment, once for each: 'dose=14.0:22.0' for real numbers, "
        "'shots=1:3' for whole ones, 'bean=a,b,c' for a choice",
    )
    add(
        "--show",
        metavar="MODULE:FUNCTION",
        help="from the parameters of an option to what is shown of it; a table by "
        "default",
    )
    add(
        "--unit",
        action="append",
        default=[],
        metavar="NAME=UNIT",
        help="of a parameter in the table, once for each",
    )
    add("--size", type=int, default=2, help="options of a question; default: 2")
    add("--kinds", metavar="KIND,...", help="answers offered; default: all there are")
    add("--host", default="127.0.0.1", help="default: 127.0.0.1, this machine alone")
    add("--port", type=int, default=8000, help="default: 8000; 0 for any that is free")
    return parser


def _experiment(given: argparse.Namespace) -> Any:
    """The experiment, made if there is none and its parameters are given."""
    from botorch_pref.ax import PreferenceExperiment

    parameters = given_parameters(given.parameter)
    if parameters:
        # There is one already, or it cannot be kept: what follows says which.
        with suppress(StorageError):
            return PreferenceExperiment.create(
                given.name, parameters=parameters, storage=given.storage
            )
    return PreferenceExperiment.resume(
        given.name, storage=given.storage, parameters=parameters or None
    )


def _pairs(given: Sequence[str]) -> dict[str, str]:
    found = dict(one.partition("=")[::2] for one in given)
    if not all(found.values()):
        raise BotorchPrefError(f"--unit {given} should be NAME=UNIT, once for each.")
    return found


def _shown(name: str) -> Callable[[dict[str, Any]], Any]:
    """The user's function of a name such as ``espresso:draw``."""
    # Figures are drawn into files, beside whatever screen there is.
    os.environ.setdefault("MPLBACKEND", "Agg")
    module, _, function = name.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise BotorchPrefError(
            f"--show {name}: {error}; give MODULE:FUNCTION, of a module in this folder "
            "or installed."
        ) from error
    return found


def _token(storage: str) -> str:
    """The token of a storage, the same after a restart.

    A page that is open on a phone goes on when the server is back.
    """
    fresh = secrets.token_urlsafe(16)
    if "://" in storage:
        return fresh
    path = Path(f"{storage}.token")
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(fresh, encoding="utf-8")
    return path.read_text(encoding="utf-8").strip() or fresh


def _note_warnings(storage: str, name: str) -> Path:
    """The file in which warnings of models are noted instead of the terminal.

    Beside the storage; for a database with a URL in this folder.
    """
    from botorch_pref.web.modelling.model_notes import LOGGER

    plain = "".join(c if c.isalnum() else "_" for c in name)
    path = Path(f"{plain if '://' in storage else storage}.log")
    # Made when there is something to note.
    handler = logging.FileHandler(path, encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    LOGGER.addHandler(handler)
    LOGGER.propagate = False
    return path


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        # Whoever has the address may come: they wait until the page is there.
        listening.listen(128)
    except OSError as error:
        raise OSError(
            f"{host}:{port} cannot be had: {error}; try another --port."
        ) from error
    return listening


def _print_address(host: str, port: int, token: str) -> None:
    """Prints where the page is, and its QR code."""
    import segno

    name = _own_address() if host in EVERYWHERE else host
    name = f"[{name}]" if ":" in name else name
    query = urlencode({"token": token})
    address = f"http://{name}:{port}/?{query}"
    segno.make(address, micro=False).terminal(compact=True)
    print(f"questions: {address}")
    print(f"findings:  http://{name}:{port}/report?{query}")
    if host not in EVERYWHERE:
        print("For phones in your network: --host 0.0.0.0")


def _own_address() -> str:
    """The address by which the network knows this machine; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])
