"""The pinned versions, against what is declared and what comes with it."""

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement

import botorch_pref

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def name_of(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", Requirement(requirement).name).lower()


def pinned() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    return {name_of(pin): pin for pin in pins}


def needed(requirement: str, visited: set[tuple[str, str]]) -> Iterator[str]:
    """Yields names of a requirement and of all that it needs here, transitively."""
    parsed = Requirement(requirement)
    project = PROJECT["project"]
    for extra in ("", *parsed.extras):
        key = (name_of(requirement), extra)
        if key in visited:
            continue
        visited.add(key)
        if key[0] == project["name"]:
            requirements = (
                project["optional-dependencies"][extra]
                if extra
                else project["dependencies"]
            )
        else:
            yield key[0]
            try:
                requirements = requires(key[0]) or []
            except PackageNotFoundError:
                continue  # of another platform
        for requirement_of_package in requirements:
            marker = Requirement(requirement_of_package).marker
            if marker is None or marker.evaluate({"extra": extra}):
                yield from needed(requirement_of_package, visited)


def test_all_that_the_extras_for_tests_and_docs_install_is_pinned() -> None:
    names = set(needed(f"{PROJECT['project']['name']}[test,docs]", set()))
    assert {"torch", "pandas", "sympy", "hypothesis", "sphinx"} <= names
    # The CPU build of torch is what is pinned; its CUDA build brings these.
    cuda = {name for name in names if re.match(r"nvidia-|cuda-|triton$", name)}
    assert names - cuda <= set(pinned())


def test_pins_are_whole_versions_without_local_ones() -> None:
    for pin in pinned().values():
        assert re.fullmatch(r"[\w.-]+==[\w.]+", pin), f"{pin} is no exact version"


def test_what_the_extra_of_ax_imports_is_declared() -> None:
    declared = PROJECT["project"]["optional-dependencies"]["ax"]
    assert {"ax-platform", "pandas", "sqlalchemy"} <= {
        name_of(requirement) for requirement in declared
    }


def test_a_version_is_said_alike_everywhere() -> None:
    """And the changelog has a dated section of it."""
    version = PROJECT["project"]["version"]
    assert botorch_pref.__version__ == version
    # Pages say it in a clone that was never installed, too.
    assert botorch_pref.__citation__.endswith(f" Version {version}.")
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {version}\n" in cited
    (released,) = re.findall(r"^date-released: (\S+)$", cited, re.M)
    assert f"\n## [{version}] - {released}\n" in (ROOT / "CHANGELOG.md").read_text(
        "utf-8"
    )
