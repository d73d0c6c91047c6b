"""The command that serves, up to where it serves, and the code of its pages."""

import os
import re
import runpy
import shlex
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
from tea import create, stored

from botorch_pref.__main__ import main
from botorch_pref.ax import PreferenceExperiment
from botorch_pref.ax.answer_kinds import KINDS
from botorch_pref.commands.page_server import parameter_config
from botorch_pref.web.worker import LOGGER

LOADING = "Loading the models, which takes some seconds ..."
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


def interpreter(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs another interpreter with these arguments, in a folder."""
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env=ENVIRONMENT,
        check=False,
    )


def not_run(server: uvicorn.Server, sockets: list[Any]) -> None:
    for listener in sockets:
        listener.close()


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Applications, which are not run."""
    servers: list[Any] = []

    def run(server: uvicorn.Server, sockets: list[Any]) -> None:
        servers.append(server.config.app)
        not_run(server, sockets)

    monkeypatch.setattr(uvicorn.Server, "run", run)
    return servers


def serve(storage: Path, *options: str) -> int:
    return main(["serve", str(storage), "--name", "tea", "--port", "0", *options])


def test_parameters_make_an_experiment_and_find_it_again(
    tmp_path: Path, served: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    place, parameter_texts = (
        tmp_path / "tea.db",
        ["leaf (g)=1.5:9", "cups=1:4", "kind=a, b"],
    )
    options = [f"--parameter={parameter_text}" for parameter_text in parameter_texts]
    assert serve(place, *options) == 0
    experiment = stored(place)
    space = experiment.experiment.search_space.parameters
    assert space["leaf (g)"].lower == 1.5
    assert space["leaf (g)"].upper == 9
    assert space["cups"].parameter_type.name == "INT"
    assert space["kind"].values == ["a", "b"]
    question = experiment.ask(2)
    experiment.tell(experiment.ask(2), winner=0)
    first, second = (address(capsys), serve(place, *options) or address(capsys))
    # The token of an open page is good after a restart.
    assert first.partition("token")[2] == second.partition("token")[2]
    assert stored(place).pending == [question]
    assert serve(place, "--parameter=cups=1:5") == 2
    assert len(served) == 2


def test_a_context_is_of_a_new_experiment(tmp_path: Path, served: list[Any]) -> None:
    of_parameters = ("--parameter=cups=1:4", "--parameter=room=a,b,c")
    assert serve(tmp_path / "tea.db", *of_parameters, "--context=room") == 0
    assert stored(tmp_path / "tea.db").settings.context == ["room"]
    assert serve(tmp_path / "tea.db", "--context=room") == 0


def test_position_bias_is_of_a_new_experiment(
    tmp_path: Path, served: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    place, arguments = tmp_path / "tea.db", ("--parameter=cups=1:4", "--position-bias")
    assert serve(place, *arguments) == 0
    assert stored(place).settings.position_bias
    assert serve(place) == 0
    assert serve(place, *arguments) == 0
    create(tmp_path / "plain.db")
    assert serve(tmp_path / "plain.db", "--position-bias") == 2
    assert "created without --position-bias" in capsys.readouterr().err
    assert serve(place, "--context=cups") == 2
    assert "created without --context" in capsys.readouterr().err
    assert serve(place, "--size=2", "--kinds=strength") == 2
    assert "position_bias adds to" in capsys.readouterr().err
    assert len(served) == 3


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


def test_it_speaks_before_it_imports_what_takes_long(tmp_path: Path) -> None:
    process = interpreter(tmp_path, "-c", FIRST_IMPORT, "--port=0")
    first, *_, last = process.stdout.splitlines()
    assert first == LOADING
    assert last.partition(" ")[0] == "importing"
    assert process.stderr == ""
    process = interpreter(tmp_path, "-c", FIRST_IMPORT, "--help")
    assert process.stdout.startswith("usage: python -m")
    assert "importing" not in process.stdout
    assert process.stderr == ""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        process = interpreter(tmp_path, "-c", FIRST_IMPORT, f"--port={port}")
    assert process.stdout == ""
    assert process.returncode == 2
    assert f"127.0.0.1:{port} cannot be had" in process.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])
def test_browsers_may_ask_by_the_names_of_this_machine_and_those_allowed(
    tmp_path: Path, served: list[Any], host: str
) -> None:
    create(tmp_path / "tea.db")
    arguments = (
        "--host",
        host,
        "--allow-host",
        "tea.example",
        "--allow-host",
        "t.example",
    )
    assert serve(tmp_path / "tea.db", *arguments) == 0
    token = (tmp_path / "tea.db.token").read_text()
    name = socket.gethostname()
    with TestClient(served[0]) as client:

        def status(host_name: str) -> int:
            headers = {"Authorization": f"Bearer {token}", "Host": host_name}
            return client.get("/api/progress", headers=headers).status_code

        for host_name in ("localhost:1", "127.0.0.1:1", "tea.example", "t.example"):
            assert status(host_name) == 200
        expected_status = 200 if host == "0.0.0.0" else 421
        assert [status(name), status(f"{name}.local:80")] == [
            expected_status,
            expected_status,
        ]
        assert status("example") == 421


def test_stopping_it_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Uvicorn ends with the interrupt that it was ended by."""
    create(tmp_path / "tea.db")

    def run(server: uvicorn.Server, sockets: list[Any]) -> None:
        not_run(server, sockets)
        raise KeyboardInterrupt

    monkeypatch.setattr(uvicorn.Server, "run", run)
    assert serve(tmp_path / "tea.db") == 0
    assert "Stop with Ctrl-C" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_ends_it_in_silence_whoever_stalls(
    tmp_path: Path, number: signal.Signals
) -> None:
    """Half a body, options that are drawn for an hour, and a page that waits for them.

    It was alive for as long as the client was.
    """
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
        env=ENVIRONMENT,
    ) as server:
        assert server.stdout is not None
        try:
            line = next(
                printed_line
                for printed_line in server.stdout
                if printed_line.startswith("questions: ")
            )
            place = urlsplit(line.split()[1])
            with (
                closing(HTTPConnection(place.netloc, timeout=60)) as page,
                socket.create_connection((place.hostname, place.port)) as stalled,
            ):
                head = f"POST /api/answer?{place.query} HTTP/1.1\r\nHost: localhost\r\n"
                kind = "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"
                stalled.sendall(f"{head}{kind}{{".encode())
                for patience in (0, 8):
                    asks = f"/api/question?patience={patience}&{place.query}"
                    page.request("GET", asks)
                    if not patience:
                        assert b"waited" in page.getresponse().read()
                server.send_signal(number)
                _, errors = server.communicate(timeout=60)
        finally:
            server.kill()
    assert server.returncode == -number
    assert errors == ""


def test_what_is_left_to_do_when_it_has_stopped_is_interrupted_in_silence(
    tmp_path: Path, served: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As what the threads do that the interpreter waits for."""
    create(tmp_path / "tea.db")
    arguments = ["serve", str(tmp_path / "tea.db"), "--name", "tea", "--port", "0"]
    monkeypatch.setattr(sys, "argv", ["botorch_pref", *arguments])
    before = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(main.__code__.co_filename, run_name="__main__")
        assert ended.value.code == 0
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_token_and_warnings_of_models_are_files_beside_the_storage(
    tmp_path: Path, served: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    create(tmp_path / "tea.db")
    assert serve(tmp_path / "tea.db") == 0
    token = tmp_path / "tea.db.token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    assert len(token.read_text()) >= 22
    log_file = tmp_path / "tea.db.log"
    assert f"warnings:  {log_file}" in capsys.readouterr().out
    assert not log_file.exists()
    LOGGER.warning("InferenceWarning: did not converge")
    assert log_file.read_text().endswith("InferenceWarning: did not converge\n")
    assert capsys.readouterr().err == ""


@pytest.mark.skipif(os.name == "nt", reason="modes say nothing there")
def test_a_token_that_others_can_read_is_its_owners_again(
    tmp_path: Path,
    served: list[Any],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    create(tmp_path / "tea.db")
    token = tmp_path / "tea.db.token"
    token.write_text("a-long-secret")
    token.chmod(0o644)
    messages = []
    for _ in range(2):
        assert serve(tmp_path / "tea.db") == 0
        assert stat.S_IMODE(token.stat().st_mode) == 0o600
        messages.append(capsys.readouterr().out)
        assert "?token=a-long-secret" in messages[-1]
    assert [f"{token} had a mode" in message for message in messages] == [True, False]
    assert "only its owner can now" in messages[0]
    # As on a disk of another system.
    token.chmod(0o644)
    monkeypatch.setattr(Path, "chmod", lambda path, mode: None)
    assert serve(tmp_path / "tea.db") == 0
    output = capsys.readouterr().out
    assert "its disk takes no other one" in output
    assert "only its owner can now" not in output


def test_the_token_is_kept_where_the_command_was_killed_before_it_was_written(
    tmp_path: Path, served: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    create(tmp_path / "tea.db")
    token = tmp_path / "tea.db.token"
    token.touch()
    printed = []
    for _ in range(2):
        assert serve(tmp_path / "tea.db") == 0
        printed += re.findall(r"/\?token=(.+)", capsys.readouterr().out)
    assert printed == [token.read_text()] * 2


def test_a_code_is_shown_where_a_phone_can_follow_it(
    tmp_path: Path, served: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "tea.db"
    assert serve(place, "--parameter=leaf=1.5:9") == 0
    alone = capsys.readouterr().out
    assert "▀" not in alone
    assert "--host 0.0.0.0" in alone
    assert serve(place, "--host", "0.0.0.0") == 0
    assert "▀" in capsys.readouterr().out


def address(capsys: pytest.CaptureFixture[str]) -> str:
    (line,) = [
        line
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("questions: http://127.0.0.1:")
    ]
    return line


def test_the_users_function_shows_options(
    tmp_path: Path, served: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "teahouse.py").write_text("def draw(option):\n    return 'a cup'\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    # The number of options follows from the kinds where it is not given.
    for kinds, size, options in (
        ("winner,tie", 2, []),
        ("best,ranking", 4, []),
        ("best,ranking", 3, ["--size", "3"]),
    ):
        place = tmp_path / f"{size}.db"
        create(place)
        options = ["--show", "teahouse:draw", "--kinds", kinds, *options]
        options += ["--question", "Which is tastier?", "--title", "Tea"]
        assert serve(place, *options) == 0
        token = Path(f"{place}.token").read_text(encoding="utf-8")
        with TestClient(served.pop(), "http://localhost") as client:
            question = client.get("/api/question", params={"token": token}).json()
        assert question["shown"] == [[{"type": "text", "text": "a cup"}]] * size
        assert question["kinds"] == kinds.split(",")
        assert question["prompt"] == "Which is tastier?"


def test_the_help_names_all_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    _, listed = capsys.readouterr().out.split("answers offered")
    offered = re.findall(r"\w+", listed.split("--position-bias")[0])
    assert {"cannot_compare", *(kind.field for kind in KINDS)} <= {*offered}


WRONG = [
    ("--port 99999", "127.0.0.1:99999 cannot be had"),
    ("--show no_such_module:draw", "no_such_module"),
    ("--show json:draw", "json"),
    ("--show draw", "MODULE:FUNCTION"),
    ("--kinds beauty", "beauty"),
    ("--size 1", "size"),
    ("--unit leaf", "NAME=UNIT"),
    ("--unit leaf=g", "units of leaf"),
    ("--unit leaf=g --show json:loads", "--unit"),
    ("--parameter leaf", "NAME=VALUES"),
    ("--parameter leaf=1.2.3:4", "1.2.3"),
    ("--parameter leaf=1:2:3", "step"),
    ("--parameter leaf=1:2:3:4", "1:2:3:4"),
    ("--parameter leaf=nan:1.0", "two finite numbers"),
    ("--parameter leaf=0:inf", "two finite numbers"),
    ("--parameter leaf=0,5:12", "two finite numbers"),
    ("--parameter leaf=14.0-22.0", "two finite numbers"),
    ("--parameter leaf=14\u201322", "two finite numbers"),
    ("--parameter leaf=14..22", "two finite numbers"),
    ("--parameter leaf=-0,5:1,5", "two finite numbers"),
    ("--parameter leaf=0.0:1e999", "finite"),
    ("--parameter leaf=black,,green", "empty choice"),
    ("--parameter leaf=black,black", "give different ones"),
    ("--parameter leaf=black,green,black", "'black' twice"),
]


@pytest.mark.parametrize("is_present", [True, False])
def test_what_cannot_be_served_is_one_line_and_leaves_nothing_behind(
    tmp_path: Path,
    served: list[Any],
    capsys: pytest.CaptureFixture[str],
    is_present: bool,
) -> None:
    place = tmp_path / "tea.db"
    if is_present:
        create(place)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    capsys.readouterr()
    for options, message in WRONG:
        new = [] if is_present else ["--parameter", "cups=1:4"]
        assert serve(place, *new, *options.split()) == 2, f"status after {options}"
        line = capsys.readouterr().err.strip()
        assert line.startswith("botorch_pref: error: ")
        assert message in line, f"error after {options}"
        assert "\n" not in line
        assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before, (
            f"files changed after {options}"
        )
    assert served == []
    if not is_present:
        # An experiment is not made up either.
        assert serve(place) == 2
        assert "tea.db" in capsys.readouterr().err
        assert list(tmp_path.iterdir()) == []


def test_more_options_than_there_are_designs_are_refused_at_the_start(
    tmp_path: Path, served: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "tea.db"
    new = "--parameter=leaf=black,green"
    for arguments in ([new, "--size=7"], [new], ["--size=3"], ["--size=2"]):
        refused = arguments[-1] in ("--size=7", "--size=3")
        assert serve(place, *arguments) == (2 if refused else 0)
        message = "fewer designs that a person can tell apart; give a smaller size"
        assert (message in capsys.readouterr().err) == refused
        assert place.exists() == (arguments != [new, "--size=7"])
    assert len(served) == 2


def test_bounds_written_as_whole_numbers_are_of_whole_numbers() -> None:
    texts = ["a=-3:3", "b=0:1.0", "c=1e-4:0.5"]
    integer, real, small = map(parameter_config, texts)
    assert integer.parameter_type == "int"
    assert integer.bounds == (-3, 3)
    assert real.parameter_type == "float"
    assert real.bounds == (0, 1)
    assert small.bounds == (1e-4, 0.5)


def test_choices_may_have_dashes_between_numbers() -> None:
    assert parameter_config("crop=2019-20,2020-21").values == ["2019-20", "2020-21"]
    assert parameter_config("crop=A-7").values == ["A-7"]


def test_a_step_stands_behind_the_bounds() -> None:
    real, integer = map(parameter_config, ["dose=14:22:0.5", "n=1:9:2"])
    assert real.parameter_type == "float"
    assert real.bounds == (14, 22)
    assert real.step_size == 0.5
    assert integer.parameter_type == "int"
    assert integer.bounds == (1, 9)
    assert integer.step_size == 2


def test_a_file_that_is_not_there_is_made_with_parameters(
    tmp_path: Path, served: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert serve(tmp_path / "tea.db") == 2
    assert "give --parameter for each parameter" in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


ROOT = Path(__file__).parents[2]


def serve_commands(name: str) -> list[list[str]]:
    """Reads the arguments of each command that serves and makes an experiment."""
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    commands = re.findall(r"python -m botorch_pref (serve .*--parameter.*)", text)
    return [shlex.split(line) for line in commands]


def test_the_commands_of_all_pages_serve_one_experiment(
    tmp_path: Path, served: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader who tries page after page in one folder goes on with it."""
    monkeypatch.chdir(tmp_path)
    for name in ("README.md", "docs/start.md", "docs/web.md"):
        (arguments,) = serve_commands(name)
        assert main([*arguments, "--port", "0"]) == 0
    experiment = PreferenceExperiment.resume("tasting", storage="tasting.db")
    names = [*experiment.experiment.search_space.parameters]
    assert names == ["dose (g)", "shots", "bean"]


def test_the_code_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs/web.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.M))
    findings: dict[str, Any] = {}
    exec(code + "\nshown = show({'x': 0.5})", findings)
    assert [type(content).__name__ for content in findings["shown"]] == [
        "Figure",
        "str",
        "Markup",
    ]


def test_without_docstrings_it_says_how_to_start(tmp_path: Path) -> None:
    """Another interpreter, since this one has its docstrings."""
    command = ["-OO", "-m", "botorch_pref", "serve", "tea.db", "--name", "tea"]
    done = interpreter(tmp_path, *command, "--port", "0")
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "start python -O, or python" in done.stderr
