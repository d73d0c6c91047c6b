"""The examples of ``docs/extending.md``, run as they are printed."""

import re
from pathlib import Path

import pytest
import torch

from botorch_pref import class_table

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"
IMPORT = re.compile(r"^(?:from|import) botorch_pref(\S*)(?: import (.*))?$")


def _examples(text: str) -> dict[str, str]:
    """Reads the code of each section, by its title."""
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    blocks = {
        section.partition("\n")[0]: re.findall(r"```python\n(.*?)```", section, re.S)
        for section in sections
    }
    return {title: "\n".join(lines) for title, lines in blocks.items()}


EXAMPLES = _examples(PAGE.read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def _forgotten_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_table, "_TABLE", dict(class_table._TABLE))


def test_each_part_has_an_example_of_public_names_alone() -> None:
    """Of the package and its parts, not of modules within them."""
    parts = ["A likelihood", "An engine", "An acquisition function", "A kind of answer"]
    assert list(EXAMPLES) == parts
    for title, code in EXAMPLES.items():
        assert "\nassert " in code, f"{title} shows no outcome"
        imports = [IMPORT.match(line) for line in code.splitlines()]
        paths = [match[1] for match in imports if match]
        assert paths, f"{title} imports nothing"
        assert all(path.count(".") <= 1 for path in paths), f"{title} takes modules"
        assert not re.search(r"\._[a-z]", code), f"{title} takes a private name"


@pytest.mark.parametrize("title", EXAMPLES)
def test_it_runs_as_it_is_printed(title: str) -> None:
    code = compile(EXAMPLES[title], f"{PAGE.name}: {title}", "exec")
    with torch.random.fork_rng():
        exec(code, {"__name__": "extending"})
