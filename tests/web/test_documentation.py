"""The commands and the code of the documentation, as they are printed."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from botorch_pref.__main__ import main
from botorch_pref.ax import PreferenceExperiment

ROOT = Path(__file__).parents[2]


def serve_commands(name: str) -> list[list[str]]:
    """The arguments of each command that serves and makes an experiment."""
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    found = re.findall(r"python -m botorch_pref (serve .*--parameter.*)", text)
    return [shlex.split(line) for line in found]


@pytest.mark.parametrize("name", ["README.md", "docs/web.md"])
def test_the_command_serves_a_new_experiment(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def run(server: uvicorn.Server, sockets: list[Any]) -> None:
        for one in sockets:
            one.close()

    monkeypatch.setattr(uvicorn.Server, "run", run)
    (arguments,) = serve_commands(name)
    assert main([*arguments, "--port", "0"]) == 0
    experiment = PreferenceExperiment.resume("espresso", storage="espresso.db")
    names = [*experiment.experiment.search_space.parameters]
    assert names == ["dose (g)", "shots", "bean"]


def test_the_code_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs/web.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.M))
    found: dict[str, Any] = {}
    exec(code + "\nshown = show({'x': 0.5})", found)
    assert [type(one).__name__ for one in found["shown"]] == ["Figure", "str", "Markup"]
