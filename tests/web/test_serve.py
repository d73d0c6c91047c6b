"""The command that serves, up to where it serves."""

import os
import runpy
import signal
import socket
import stat
import subprocess
import sys
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn
from starlette.testclient import TestClient
from tea import create, log, stored

from botorch_pref.__main__ import main
from botorch_pref.ax import PreferenceExperiment
from botorch_pref.commands.page_server import given_parameters
from botorch_pref.web import make_app
from botorch_pref.web.worker import ModelNotes

LOADING = "Loading the models, which takes some seconds ..."


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Applications, which are not run."""
    found: list[Any] = []

    def run(server: uvicorn.Server, sockets: list[Any]) -> None:
        found.append(server.config.app)
        for one in sockets:
            one.close()

    monkeypatch.setattr(uvicorn.Server, "run", run)
    return found


def serve(storage: Path, *more: str) -> int:
    return main(["serve", str(storage), "--name", "tea", "--port", "0", *more])


def test_parameters_make_an_experiment_and_find_it_again(
    tmp_path: Path, served: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    place, given = tmp_path / "tea.db", ["leaf (g)=1.5:9", "cups=1:4", "kind=a, b"]
    options = [f"--parameter={one}" for one in given]
    assert serve(place, *options) == 0
    experiment = stored(place)
    space = experiment.experiment.search_space.parameters
    assert (space["leaf (g)"].lower, space["leaf (g)"].upper) == (1.5, 9)
    assert space["cups"].parameter_type.name == "INT"
    assert space["kind"].values == ["a", "b"]
    question = experiment.ask()
    first, second = (address(capsys), serve(place, *options) or address(capsys))
    # The token of an open page is good after a restart.
    assert first.partition("token")[2] == second.partition("token")[2]
    assert stored(place).pending == [question]
    assert serve(place, "--parameter=cups=1:5") == 2
    assert len(served) == 2


@pytest.mark.slow
def test_nothing_is_said_beside_the_reason(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "botorch_pref", "serve", "tea.db"]
    found = subprocess.run(
        [*command, "--name", "tea"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        check=False,
    )
    (line,) = found.stderr.splitlines()
    assert line.startswith("botorch_pref: error: There is no file")
    assert found.stdout.splitlines() == [LOADING]


FIRST_IMPORT = """
import runpy, sys

class Heavy:
    def find_spec(self, name, *more):
        if name.partition(".")[0] in ("torch", "botorch", "ax", "pandas", "numpy"):
            print("importing", name)
            sys.exit(3)

sys.meta_path.insert(0, Heavy())
sys.argv = ["botorch_pref", "serve", "tea.db", "--name", "tea", *sys.argv[1:]]
runpy.run_module("botorch_pref", run_name="__main__")
"""


@pytest.mark.parametrize(
    ("more", "said"), [(["--port=0"], LOADING), (["--help"], "usage: python -m")]
)
def test_it_speaks_before_it_imports_what_takes_long(
    tmp_path: Path, more: list[str], said: str
) -> None:
    found = subprocess.run(
        [sys.executable, "-c", FIRST_IMPORT, *more],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        check=False,
    )
    first, *_, last = found.stdout.splitlines()
    assert first.startswith(said)
    assert last.startswith("importing") == (said == LOADING)
    assert found.stderr == ""


def test_a_port_that_is_taken_is_said_before_anything_is_imported(
    tmp_path: Path,
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = subprocess.run(
            [sys.executable, "-c", FIRST_IMPORT, f"--port={port}"],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            check=False,
        )
    assert (found.stdout, found.returncode) == ("", 2)
    assert f"127.0.0.1:{port} cannot be had" in found.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])
def test_browsers_may_ask_by_the_names_of_this_machine_and_those_allowed(
    tmp_path: Path, served: list[Any], host: str
) -> None:
    create(tmp_path / "tea.db")
    given = ("--host", host, "--allow-host", "tea.example", "--allow-host", "t.example")
    assert serve(tmp_path / "tea.db", *given) == 0
    token = (tmp_path / "tea.db.token").read_text()
    name = socket.gethostname()
    with TestClient(served[0]) as client:

        def status(asked: str) -> int:
            headers = {"Authorization": f"Bearer {token}", "Host": asked}
            return client.get("/api/progress", headers=headers).status_code

        for known in ("localhost:1", "127.0.0.1:1", "tea.example", "t.example"):
            assert status(known) == 200
        own = 200 if host == "0.0.0.0" else 421
        assert [status(name), status(f"{name}.local:80")] == [own, own]
        assert status("example") == 421


def test_stopping_it_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Uvicorn ends with the interrupt that it was ended by."""
    create(tmp_path / "tea.db")

    def run(server: uvicorn.Server, sockets: list[Any]) -> None:
        for one in sockets:
            one.close()
        raise KeyboardInterrupt

    monkeypatch.setattr(uvicorn.Server, "run", run)
    assert serve(tmp_path / "tea.db") == 0
    assert "Stop with Ctrl-C" in capsys.readouterr().out


@pytest.mark.slow
def test_a_second_interrupt_ends_it_at_once_and_in_silence(tmp_path: Path) -> None:
    """While a page waits for a question whose options are drawn for an hour."""
    create(tmp_path / "tea.db")
    drawing = "import time\n\n\ndef draw(option):\n    time.sleep(3600)\n"
    (tmp_path / "slowly.py").write_text(drawing)
    command = [sys.executable, "-m", "botorch_pref", "serve", "tea.db"]
    with subprocess.Popen(
        [*command, "--name", "tea", "--port", "0", "--show", "slowly:draw"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    ) as server:
        assert server.stdout is not None
        try:
            line = next(one for one in server.stdout if one.startswith("questions: "))
            place = urlsplit(line.split()[1])
            with closing(HTTPConnection(place.netloc, timeout=60)) as page:
                for patience in (0, 8):
                    asks = f"/api/question?patience={patience}&{place.query}"
                    page.request("GET", asks)
                    if not patience:
                        assert b"waited" in page.getresponse().read()
                server.send_signal(signal.SIGINT)
                while is_open(place.port):
                    pass
                server.send_signal(signal.SIGINT)
                _, said = server.communicate(timeout=60)
        finally:
            server.kill()
    assert (server.returncode, said) == (-signal.SIGINT, "")


def is_open(port: int | None) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port or 0)) == 0


def test_what_is_left_to_do_when_it_has_stopped_is_interrupted_in_silence(
    tmp_path: Path, served: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As what the threads do that the interpreter waits for."""
    create(tmp_path / "tea.db")
    given = ["serve", str(tmp_path / "tea.db"), "--name", "tea", "--port", "0"]
    monkeypatch.setattr(sys, "argv", ["botorch_pref", *given])
    before = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(main.__code__.co_filename, run_name="__main__")
        assert ended.value.code == 0
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGINT, before)


def test_warnings_of_models_go_to_a_file_beside_the_storage(
    tmp_path: Path, served: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    create(tmp_path / "tea.db")
    assert serve(tmp_path / "tea.db") == 0
    log_file = tmp_path / "tea.db.log"
    assert f"warnings:  {log_file}" in capsys.readouterr().out
    assert not log_file.exists()
    ModelNotes().add(["InferenceWarning: did not converge"])
    assert log_file.read_text().endswith("InferenceWarning: did not converge\n")
    assert capsys.readouterr().err == ""


def address(capsys: pytest.CaptureFixture[str]) -> str:
    (line,) = [
        line
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("questions: http://127.0.0.1:")
    ]
    return line


def test_the_token_is_for_its_owner_alone(tmp_path: Path, served: list[Any]) -> None:
    create(tmp_path / "tea.db")
    assert serve(tmp_path / "tea.db") == 0
    path = tmp_path / "tea.db.token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(path.read_text()) >= 22


def test_the_users_function_shows_options(
    tmp_path: Path, served: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    create(tmp_path / "tea.db")
    (tmp_path / "teahouse.py").write_text("def draw(option):\n    return 'a cup'\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    more = ("--show", "teahouse:draw", "--kinds", "winner,tie")
    assert serve(tmp_path / "tea.db", *more) == 0
    token = (tmp_path / "tea.db.token").read_text()
    with TestClient(served[0], "http://localhost") as client:
        question = client.get("/api/question", params={"token": token}).json()
    assert question["shown"] == [[{"type": "text", "text": "a cup"}]] * 2
    assert question["kinds"] == ["winner", "tie"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--port", "99999"], "127.0.0.1:99999 cannot be had"),
        (["--show", "no_such_module:draw"], "no_such_module"),
        (["--show", "json:draw"], "json"),
        (["--show", "draw"], "MODULE:FUNCTION"),
        (["--kinds", "beauty"], "beauty"),
        (["--unit", "leaf"], "NAME=UNIT"),
        (["--parameter", "leaf"], "NAME=VALUES"),
        (["--parameter", "leaf=1.2.3:4"], "1.2.3"),
        (["--parameter", "leaf=nan:1.0"], "two finite numbers"),
        (["--parameter", "leaf=0:inf"], "two finite numbers"),
        (["--parameter", "leaf=0.0:1e999"], "finite"),
    ],
)
def test_what_cannot_be_served_is_one_line_and_exit_status_two(
    tmp_path: Path,
    served: list[Any],
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    said: str,
) -> None:
    create(tmp_path / "tea.db")
    capsys.readouterr()
    assert serve(tmp_path / "tea.db", *more) == 2
    line = capsys.readouterr().err.strip()
    assert line.startswith("botorch_pref: error: ")
    assert said in line
    assert "\n" not in line
    assert served == []


def test_an_experiment_that_is_not_there_is_not_made_up(
    tmp_path: Path, served: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert serve(tmp_path / "tea.db") == 2
    assert "tea.db" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_bounds_written_as_whole_numbers_are_of_whole_numbers() -> None:
    whole, real, small = given_parameters(["a=-3:3", "b=0:1.0", "c=1e-4:0.5"])
    assert (whole.parameter_type, whole.bounds) == ("int", (-3, 3))
    assert (real.parameter_type, real.bounds) == ("float", (0, 1))
    assert small.bounds == (1e-4, 0.5)


def test_experiments_of_the_command_are_like_any_other(
    tmp_path: Path, served: list[Any]
) -> None:
    place = tmp_path / "tea.db"
    assert serve(place, "--parameter=cups=1:4") == 0
    experiment = PreferenceExperiment.resume("tea", storage=place)
    experiment.tell(experiment.ask(), winner=0)
    assert [kind for kind, *_ in log(stored(place))] == ["told"]


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Options of a question of each page that is made."""
    found: list[int] = []

    def making(*arguments: Any, **options: Any) -> object:
        found.append(options["size"])
        return make_app(*arguments, **options)

    monkeypatch.setattr("botorch_pref.commands.page_server.make_app", making)
    return found


@pytest.mark.parametrize(
    ("given", "size"),
    [
        ([], 4),
        (["--size", "2"], 2),
        (["--kinds", "best"], 4),
        # Nobody says of four which of two is better.
        (["--kinds", "winner,tie"], 2),
        (["--parameter=cups=1:7"], 2),
        (["--parameter=cups=1:8"], 4),
        (["--parameter=cups=1:2", "--parameter=leaf=0.5:9"], 4),
    ],
)
def test_four_options_are_shown_where_that_can_be(
    tmp_path: Path, served: list[Any], sizes: list[int], given: list[str], size: int
) -> None:
    if not any(one.startswith("--parameter") for one in given):
        create(tmp_path / "tea.db")
    assert serve(tmp_path / "tea.db", *given) == 0
    assert sizes == [size]


def test_two_options_are_shown_where_the_model_takes_duels_alone(
    tmp_path: Path,
    served: list[Any],
    sizes: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "botorch_pref.commands.page_server.offered_kinds",
        lambda experiment, size: ("cannot_compare", "invalid"),
    )
    create(tmp_path / "tea.db")
    assert serve(tmp_path / "tea.db") == 0
    assert sizes == [2]
