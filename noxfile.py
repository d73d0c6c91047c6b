"""Sessions of what is run again and again: `nox`, or `nox -s NAME`.

Each makes an environment of its own below `.nox`, from `constraints.txt`. `.ci/run`
calls the same ones. What stands behind `--` goes to pytest, or to `.ci/release`.
"""

from __future__ import annotations

import nox

nox.needs_version = ">=2025.2"
nox.options.sessions = ["lint", "quick"]
nox.options.reuse_venv = "yes"

PYTEST = ("python", "-m", "pytest", "-n", "2")


def install(session: nox.Session, extra: str) -> None:
    """Installs the package from this folder, with an extra and its pinned versions."""
    session.install("-c", "constraints.txt", "-e", f".[{extra}]")


@nox.session
def tests(session: nox.Session) -> None:
    """Runs all tests, as README.md does."""
    install(session, "test")
    session.run(*PYTEST, *session.posargs)


@nox.session
def quick(session: nox.Session) -> None:
    """Runs a part of the tests of all layers, in about a minute."""
    install(session, "test")
    session.run(*PYTEST, "-m", "quick", *session.posargs)


@nox.session
def coverage(session: nox.Session) -> None:
    """Runs all tests, and lists the lines of the package that none of them reaches."""
    install(session, "test")
    python, *pytest = PYTEST
    count = ("-m", "slipcover", "--source", "botorch_pref", "--skip-covered")
    # It is imported before pytest, which cannot rewrite assertions of it then.
    quiet = ("-q", "-W", "ignore::pytest.PytestAssertRewriteWarning")
    session.run(python, *count, *pytest, *quiet, *session.posargs)


@nox.session
@nox.parametrize("capability", ["default", "avx2"])
def rounding(session: nox.Session, capability: str) -> None:
    """Runs the tests of engines as processors without AVX-512 or AVX2 round."""
    install(session, "test")
    folders = ("tests/inference", "tests/models/test_numerical_stability.py")
    environment = {"ATEN_CPU_CAPABILITY": capability}
    session.run(*PYTEST, "-q", *(session.posargs or folders), env=environment)


@nox.session
def lint(session: nox.Session) -> None:
    """Checks style, format and types."""
    install(session, "test")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")


@nox.session
def docs(session: nox.Session) -> None:
    """Builds the documentation site into `build/site`; warnings are errors."""
    install(session, "docs")
    strict = ("-W", "--keep-going")
    session.run("sphinx-build", "-q", *strict, "-c", "docs", ".", "build/site")


@nox.session(venv_backend="none")
def release(session: nox.Session) -> None:
    """Builds wheel and source distribution into `dist`, and tries them."""
    session.run(".ci/release", *session.posargs, external=True)
