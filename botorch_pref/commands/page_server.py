"""Server of the page of an experiment, which Ctrl-C stops."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import math
import os
import re
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any
from urllib.parse import urlencode

import segno
import uvicorn
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.errors import BotorchPrefError, ExperimentError, StorageError
from botorch_pref.threads import one_thread
from botorch_pref.web import NumberTable, make_app
from botorch_pref.web.worker import LOGGER

EVERYWHERE = ("0.0.0.0", "::")
"""Hosts that stand for every address of this machine."""

HERE = ("127.0.0.1", "localhost", "::1")
"""Hosts that only this machine reaches."""


@one_thread()
def serve_page(arguments: argparse.Namespace, listening: socket.socket) -> None:
    """Serves a page until it is stopped; prints its address."""
    hosts = [arguments.host, *arguments.allow_host]
    if arguments.host in EVERYWHERE:
        name = socket.gethostname()
        # Phones find it in their network by the second one.
        hosts = [name, f"{name}.local", *arguments.allow_host]
    kinds = None if arguments.kinds is None else arguments.kinds.split(",")
    options: dict[str, Any] = {"kinds": kinds, "size": arguments.size, "hosts": hosts}
    options |= {"show": _show(arguments), "plane": arguments.plane}
    texts = ("title", "question", "introduction")
    options |= {name: getattr(arguments, name) for name in texts}
    options["language"] = _language(arguments.language)
    experiment = _experiment(arguments, options)
    notes, token = (
        _note_warnings(arguments.storage, arguments.name),
        _token(arguments.storage),
    )
    app = make_app(experiment, token=token, **options)
    _print_address(arguments.host, listening.getsockname()[1], token)
    print(f"warnings:  {notes}, where models have any, and with the findings")
    print("Stop with Ctrl-C: all that was answered is kept.", flush=True)
    # An access log would have the token in it.
    config = uvicorn.Config(app, log_level="warning", access_log=False)
    # By then uvicorn has shut everything down; it raises the interrupt once more.
    with suppress(KeyboardInterrupt):
        PageServer(config).run(sockets=[listening])


HANG_UP_SECONDS, STOP_SECONDS = 1.0, 2.0
"""Seconds after the signal to stop until clients are hung up on, and the end comes."""


class PageServer(uvicorn.Server):
    """Server that stops within `STOP_SECONDS`, and at once when it is told again.

    Clients that stall, fits and drawings do not hold it up: what was answered is on the
    disk by then, however this process ends. `uvicorn.Server` would wait for all of them
    or cancel them, and print where.
    """

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begins to stop; a second signal, from a timer at last, ends the process."""
        super().handle_exit(sig, frame)
        for handled in (signal.SIGINT, signal.SIGTERM):
            signal.signal(handled, signal.SIG_DFL)
        end = threading.Timer(STOP_SECONDS, signal.raise_signal, [sig])
        # The process need not wait for the timer where all is done before.
        end.daemon = True
        end.start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Hangs up on clients that stall, and shuts down."""
        asyncio.get_running_loop().call_later(HANG_UP_SECONDS, self._hang_up)
        await super().shutdown(sockets)

    def _hang_up(self) -> None:
        """Ends the connections that are still open, as if their clients had left."""
        for connection in [*self.server_state.connections]:
            if (transport := connection.transport) is not None:
                transport.abort()


def _language(text: str) -> str | dict[str, str]:
    """Reads a file of texts, or returns the name of a language."""
    if not text.endswith(".json"):
        return text
    try:
        table = json.loads(Path(text).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BotorchPrefError(f"--language {text}: {error}.") from error
    if not isinstance(table, dict):
        raise BotorchPrefError(f"--language {text} is no table of texts.")
    return table


def _show(
    arguments: argparse.Namespace,
) -> Callable[[dict[str, Any]], Any] | NumberTable:
    """Returns the user's function of a name such as ``espresso:draw``, or a table."""
    if arguments.show is None:
        units = dict(unit.partition("=")[::2] for unit in arguments.unit)
        if not all(units.values()):
            wrong = f"--unit {arguments.unit} should be NAME=UNIT, once for each."
            raise BotorchPrefError(wrong)
        return NumberTable(units)
    if arguments.unit:
        raise BotorchPrefError(
            "--unit has no meaning beside --show: no table is shown."
        )
    # Figures are drawn into files, and need no screen.
    os.environ.setdefault("MPLBACKEND", "Agg")
    module, _, name = arguments.show.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        function: Callable[[dict[str, Any]], Any] = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise BotorchPrefError(
            f"--show {arguments.show}: {error}; give MODULE:FUNCTION, of a module in "
            "this folder or installed."
        ) from error
    return function


def _experiment(
    arguments: argparse.Namespace, options: dict[str, Any]
) -> PreferenceExperiment:
    """Returns the experiment, made if there is none and its parameters are given.

    Where it cannot be served with these options, nothing is left behind.
    """
    name, parameters = arguments.name, [*map(parameter_config, arguments.parameter)]
    if parameters:
        # A `StorageError` says that there is one already, or that none can be kept;
        # `resume` below takes it up or says why not.
        with TemporaryDirectory() as folder, suppress(StorageError):
            trial = PreferenceExperiment.create(
                name,
                storage=Path(folder, "trial.db"),
                parameters=parameters,
                position_bias=arguments.position_bias,
                context=arguments.context,
            )
            # Only checks the options, as below: the app that is served is made later,
            # of the experiment that is returned.
            make_app(trial, **options)
            return trial.copy(storage=arguments.storage)
    elif "://" not in arguments.storage and not Path(arguments.storage).exists():
        raise StorageError(
            f"There is no file {arguments.storage}; put it back, or give --parameter "
            "for each parameter of a new experiment."
        )
    experiment = PreferenceExperiment.resume(
        name, storage=arguments.storage, parameters=parameters or None
    )
    settings = experiment.settings
    for option, is_other in (
        ("--position-bias", arguments.position_bias > settings.position_bias),
        ("--context", arguments.context not in ([], settings.context)),
    ):
        if is_other:
            raise ExperimentError(
                f"The experiment {name!r} was created without {option}, or with "
                "another one: leave it out, or give --name of a new experiment."
            )
    make_app(experiment, **options)
    return experiment


def parameter_config(text: str) -> RangeParameterConfig | ChoiceParameterConfig:
    """Makes Ax's configuration of a parameter, from its name, ``=`` and its values.

    ``14.0:22.0`` are the bounds of real numbers, ``1:3`` those of whole ones, and
    ``14:22:0.5`` has a step besides; ``a,b,c`` are choices without an order.
    """
    name, _, values = map(str.strip, text.partition("="))
    if not name or not values:
        raise ExperimentError(
            f"--parameter {text!r} should be NAME=VALUES, as in 'dose=14.0:22.0' or "
            "'bean=a,b,c'."
        )
    # Bounds with decimal commas, or a dash between them, are refused below: they would
    # be odd choices.
    number, real = r"-?\d+(,\d+)?", r"-?\d+(\.\d+)?"
    bounds = rf"{number}(\s*:\s*{number}){{1,2}}|{real}\s*(-|\u2013|\.\.|to)\s*{real}"
    if not re.fullmatch(bounds, values) and (":" not in values or "," in values):
        choices = [choice.strip() for choice in values.split(",")]
        if "" in choices:
            raise ExperimentError(
                f"--parameter {text!r} has an empty choice; write one between commas "
                "and none at the end, as in 'bean=a,b,c'."
            )
        if twice := [choice for choice in choices if choices.count(choice) > 1]:
            raise ExperimentError(
                f"--parameter {text!r} has the choice {twice[0]!r} twice; give "
                "different ones."
            )
        return ChoiceParameterConfig(
            name=name, parameter_type="str", values=choices, is_ordered=False
        )
    ends = [end.strip() for end in values.split(":")]
    are_integers = all(end.removeprefix("-").isdecimal() for end in ends)
    kind: Any = "int" if are_integers else "float"
    with suppress(ValueError, OverflowError):
        lower, upper, *steps = map(int if are_integers else float, ends)
        if len(steps) < 2 and all(map(math.isfinite, (lower, upper, *steps))):
            return RangeParameterConfig(
                name=name,
                parameter_type=kind,
                bounds=(lower, upper),
                step_size=steps[0] if steps else None,
            )
    raise ExperimentError(
        f"--parameter {text!r}: the bounds {values!r} should be two finite numbers, "
        "as in '14.0:22.0', and a step behind them if there is one, as in '14:22:0.5'; "
        "choices have commas between them."
    )


def _token(storage: str) -> str:
    """Returns the token of a storage, for a file the same after a restart.

    So a page that is open on a phone goes on when the server is back. For a database
    with a URL the token is new each time.
    """
    fresh = secrets.token_urlsafe(16)
    if "://" in storage:
        return fresh
    path = Path(f"{storage}.token")
    if not path.exists():
        path.touch(mode=0o600)
    # On Windows modes say nothing of who can read.
    elif os.name != "nt" and path.stat().st_mode & 0o077:
        path.chmod(0o600)
        # Disks of other systems take no modes, and raise no error.
        if path.stat().st_mode & 0o077:
            now = "and its disk takes no other one"
        else:
            now = "and only its owner can now"
        print(
            f"{path} had a mode by which others could use it, {now}. If somebody may "
            "have read the token, stop this, delete the file and start again, for a "
            "new one."
        )
    # The file is also empty where the command was killed before it wrote the token.
    if not (token := path.read_text(encoding="utf-8").strip()):
        path.write_text(fresh, encoding="utf-8")
    return token or fresh


def _note_warnings(storage: str, name: str) -> Path:
    """Returns the file in which warnings of models are noted instead of the terminal.

    Beside the storage; for a database with a URL in this folder.
    """
    plain = "".join(c if c.isalnum() else "_" for c in name)
    path = Path(f"{plain if '://' in storage else storage}.log")
    # Made when there is something to note.
    handler = logging.FileHandler(path, encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    LOGGER.addHandler(handler)
    LOGGER.propagate = False
    return path


def _print_address(host: str, port: int, token: str) -> None:
    """Prints where the page is, and its QR code where other devices reach it."""
    name = _network_address() if host in EVERYWHERE else host
    name = f"[{name}]" if ":" in name else name
    query = urlencode({"token": token})
    address = f"http://{name}:{port}/?{query}"
    if host not in HERE:
        segno.make(address, micro=False).terminal(compact=True)
    print(f"questions: {address}")
    print(f"findings:  http://{name}:{port}/report?{query}")
    if host in HERE:
        print("For phones in your network, with a QR code: --host 0.0.0.0")


def _network_address() -> str:
    """Returns the address by which the network knows this machine; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # An address of no machine: only the way to other networks is looked up.
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])
