"""Documentation, held to the code."""

import importlib
import importlib.util
import json
import re
from pathlib import Path

import pytest

from botorch_pref.likelihoods.protocol import registered_likelihoods
from botorch_pref.models import engine_table
from botorch_pref.models.answer_likelihoods import registered_models

PACKAGE = "botorch_pref"
DOCS = Path(__file__).parents[1] / "docs"


def _cells(text: str) -> dict[tuple[str, str, str], str]:
    """Marks of a table of engines by kind of answer, likelihood and model."""
    lines = [line.strip("|").split("|") for line in text.splitlines()]
    rows = [[cell.strip(" `") for cell in line] for line in lines]
    (_, _, *models), _, *columns = rows
    return {
        (kind, likelihood, model): mark
        for kind, likelihood, *marks in columns
        for model, mark in zip(models, marks, strict=True)
    }


def test_the_table_of_engines_is_the_one_that_the_code_prints() -> None:
    """Of all classes of the package: other tests register some of their own."""
    page = (DOCS / "feedback.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"^\| feedback \| likelihood .*\n(?:\|.*\n)+", page, re.M)
    stated_cells, printed = _cells(table), _cells(engine_table())
    registered = [
        *registered_likelihoods().values(),
        *(entry.cls for entry in registered_models()),
    ]
    foreign_names = {
        c.__name__ for c in registered if c.__module__.split(".")[0] != PACKAGE
    }
    assert stated_cells == {
        key: mark for key, mark in printed.items() if not foreign_names & set(key[1:])
    }


def _names_in(text: str) -> list[str]:
    return sorted(set(re.findall(r"`(botorch_pref(?:\.\w+)+)`", text)))


def _exists(name: str) -> bool:
    """Tells whether a dotted name is a module or an attribute of one."""
    if importlib.util.find_spec(name.rpartition(".")[0]) is None:
        return False
    owner = importlib.import_module(name.rpartition(".")[0])
    return hasattr(owner, name.rpartition(".")[-1]) or bool(
        importlib.util.find_spec(name)
    )


def test_what_the_glossary_refers_to_exists() -> None:
    names = _names_in((DOCS / "glossary.md").read_text(encoding="utf-8"))
    assert len(names) > 50
    assert [name for name in names if not _exists(name)] == []
    assert not _exists("botorch_pref.models.NoSuchModel")
    assert not _exists("botorch_pref.no_such_folder.module")


ROOT = DOCS.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    ROOT / "benchmarks" / "README.md",
    *sorted(DOCS.rglob("*.md")),
    *sorted((ROOT / "tutorials").glob("*.ipynb")),
]


DRAWN = DOCS / "logbook" / "figures"


def _written(page: Path, kinds: tuple[str, ...] = ("markdown", "code")) -> str:
    """Reads the text of a page, or of a notebook's cells without what they print."""
    text = page.read_text(encoding="utf-8")
    if page.suffix != ".ipynb":
        return text
    cells = json.loads(text)["cells"]
    sources = (cell["source"] for cell in cells if cell["cell_type"] in kinds)
    return "\n\n".join("".join(lines) for lines in sources)


def _prose(page: Path) -> str:
    """Reads the text of a page or of a notebook, without its blocks of code."""
    text = _written(page, ("markdown",))
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


def _anchors(page: Path) -> set[str]:
    """Lists names of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", _prose(page), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def _dangling(page: Path, text: str) -> list[str]:
    """Links that lead to no file or to no heading.

    Figures of the logbook are drawn when the site is built, which fails without one.
    """
    links = re.findall(r'\]\(([^)\s]+)\)|src="([^"]+)"', text)
    lost = []
    for link in ("".join(parts) for parts in links):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if link.startswith(("http:", "https:")) or target.parent == DRAWN:
            continue
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            lost.append(link)
    return lost


def test_links_lead_somewhere() -> None:
    lost = {page.name: _dangling(page, _prose(page)) for page in PAGES}
    assert {name: links for name, links in lost.items() if links} == {}
    text = "[a](models.md#no-such-heading) [b](none.md) [c](models.md#at-the-edges)"
    lost_here = _dangling(DOCS / "feedback.md", text)
    assert lost_here == ["models.md#no-such-heading", "none.md"]


def _comments(text: str) -> list[str]:
    """Lists lines that Markdown of the site takes for comments, and leaves out."""
    return [line for line in text.splitlines() if line.lstrip().startswith("%")]


def test_no_line_is_lost_as_a_comment() -> None:
    """A percentage that is broken before its sign would be."""
    lost = {page.name: _comments(_prose(page)) for page in PAGES}
    assert {name: lines for name, lines in lost.items() if lines} == {}
    assert _comments("held 92\n% of them") == ["% of them"]


HANDBOOK = [
    page
    for page in sorted(DOCS.rglob("*.md"))
    if page.relative_to(DOCS).parts[0] not in ("api", "logbook")
]
"""Pages that users read: all but the reference and the logbook of measurements."""


def _number_of_words(text: str) -> int:
    """Counts words, numbers and formulas of a page outside of its blocks of code."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    return sum(bool(re.search(r"\w", word)) for word in prose.split())


def test_the_handbook_and_its_pages_keep_to_their_lengths() -> None:
    assert _number_of_words("| one | `two` |\n```python\nx = 1\n```\nand $3$ .") == 4
    words = {
        page.relative_to(DOCS).as_posix(): _number_of_words(page.read_text("utf-8"))
        for page in HANDBOOK
    }
    assert {name: number for name, number in words.items() if number > 2_500} == {}
    longest = sorted(words.items(), key=lambda w: -w[1])
    assert sum(words.values()) <= 25_000, f"the handbook is too long: {longest}"


def test_words_that_newcomers_search_stand_in_the_glossary() -> None:
    page = (DOCS / "glossary.md").read_text(encoding="utf-8")
    looked_for = page.partition("## Words that people look for")[2]
    words = ("discrete", "GPU", "tie", "slider", "significance")
    assert [word for word in words if not re.search(rf"\b{word}\b", looked_for)] == []


SCRIPTS = [
    path.relative_to(ROOT).as_posix()
    for folder in (PACKAGE, "benchmarks", "docs", "tests")
    for path in (ROOT / folder).rglob("*.py")
]
ENDS = {
    "/".join(parts[start:])
    # A folder is run by its __main__.
    for path in (*SCRIPTS, *(path.replace("/__main__", "") for path in SCRIPTS))
    for parts in [path.split("/")]
    for start in range(len(parts))
}
"""Endings of the paths of all scripts."""

NOT_OURS = {"flowers.py", "wines.py", "ax/storage/sqa_store/json.py"}
"""The files of a reader and of Ax that pages name."""


def _missing_scripts(text: str) -> list[str]:
    """Scripts and modules that a page names, by the end of their paths, and are not."""
    paths = set(re.findall(r"[\w./-]*\w\.py\b", text))
    modules = re.findall(r"-m ((?:botorch_pref|benchmarks)[\w.]*)", text)
    paths |= {f"{module.replace('.', '/')}.py" for module in modules}
    return sorted(p for p in paths - NOT_OURS - ENDS if "NAME" not in p)


def test_scripts_that_are_named_exist() -> None:
    lost = {page.name: _missing_scripts(_written(page)) for page in PAGES}
    assert {name: paths for name, paths in lost.items() if paths} == {}
    text = "`benchmarks/fit_time.py`, `fit_times.py`, python -m benchmarks.suite.none"
    assert _missing_scripts(text) == ["benchmarks/suite/none.py", "fit_times.py"]


def test_hosts_the_ci_script_and_the_readme_run_the_sessions_of_nox() -> None:
    text = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    sessions = {*re.findall(r"^@nox\.session.*?^def (\w+)", text, re.M | re.S)}
    in_turn = {"tests", "quick", "rounding", "lint", "docs", "release"}
    assert sessions == {*in_turn, "coverage"}
    workflows = (ROOT / ".github" / "workflows").glob("*.yml")
    hosted = {n for p in workflows for n in re.findall(r"nox -s (\w+)", p.read_text())}
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (local,) = re.findall(r"--no-install -s ([\w ]+) ", script)
    # The tests themselves it runs as the README says, and coverage is for nights.
    assert hosted == {*local.split(), "tests", "coverage"} < sessions
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"<!-- test command -->\n```bash\n(.*)\n```", readme)
    (words,) = re.findall(r"^PYTEST = \((.*)\)$", text, re.M)
    assert command.endswith("/" + words.replace('"', "").replace(",", ""))


def _claims() -> dict[tuple[str, str], tuple[str, ...]]:
    """Reads shares of better starts, intervals, and starts, by claim and study."""
    page = (DOCS / "logbook" / "claims.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (.*\.) \| [\w ]+ \| (\d+) \| (\d+) \((\d+) to (\d+)\) \| .*\[(\S+)\]\(",
        page,
        re.M,
    )
    return {(says, study): figures for says, *figures, study in rows}


IN_WORDS = {
    "Rankings of four, rather than BoTorch's `PairwiseGP` with qEUBO's four": (
        "What the library asks, four to rank, is better than `PairwiseGP` with qEUBO "
        "of four."
    ),
    "Rankings of four, rather than optuna-dashboard's four": (
        "What the library asks, four to rank, is better than optuna-dashboard's four, "
        "the worst named."
    ),
    "Rankings of four, rather than as many duels of optuna-dashboard": (
        "What the library asks, four to rank, is better than as many duels of "
        "optuna-dashboard."
    ),
    "Duels, rather than `PairwiseGP` with qEUBO": (
        "What the library asks, duels, is better than `PairwiseGP` with qEUBO."
    ),
}
"""Sentences of the README, and the claim of each in the study of options."""

STATED = re.compile(r"in (\d+) of 100 starts \((\d+) to (\d+), of (\d+)\)")


def test_the_readme_is_short_and_has_the_figures_of_the_claims() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    # Two minutes, at the 238 words a minute that people read (Brysbaert 2019).
    prose = re.sub(r"<[^>]*>", "", _prose(ROOT / "README.md"))
    assert 300 < _number_of_words(prose) <= 2 * 238
    claims = _claims()
    assert len(claims) >= 25
    for item in re.findall(r"^- (.*?: in .*?)(?=^- |\n\n)", readme, re.M | re.S):
        says, _, figures = " ".join(item.split()).partition(": ")
        share, low, high, starts = STATED.match(figures).groups()
        assert [starts, share, low, high] == claims[IN_WORDS[says], "options"], (
            f"the page states other figures than the claim {says!r}"
        )
    assert readme.count(" of 100 starts") == len(IN_WORDS)


@pytest.mark.parametrize("name", ["index.md", "questions.md"])
def test_pages_state_shares_of_starts_as_the_claims_do(name: str) -> None:
    page = " ".join((DOCS / name).read_text(encoding="utf-8").split())
    stated = [(n, *shares) for *shares, n in STATED.findall(page)]
    assert len(stated) == page.count(" of 100 starts") >= 2
    assert {*stated} <= {tuple(figures) for figures in _claims().values()}


RULES_OF_OPTIONS = {
    "two": "ep, exploring-eiig",
    "best of three, one after the other": "ep, exploring-eiig, best of 3",
    "best of four, one after the other": "ep, exploring-eiig, best of 4",
    "best of four, at once by `DuelingJointEUBO`": "ep, joint-eubo, best of 4",
    "four ranked, one after the other": "ep, exploring-eiig, order of 4",
    "four ranked, at once by `DuelingJointEUBO`": "ep, joint-eubo, order of 4",
    "four ranked, at once by `DuelingJointKG` with `choices`": (
        "ep, joint-kg, order of 4"
    ),
}


def _columns(line: str) -> list[str]:
    return [cell.strip(" *") for cell in line.strip("|").split(" | ")]


def _is_rounded(told: str, exact: str) -> bool:
    """Tells whether a mean with its error is another one to fewer digits."""
    pairs = zip(told.split(" ± "), exact.split(" ± "), strict=True)
    return all(
        abs(float(t) - float(e)) < 0.501 * 10.0 ** -len(t.partition(".")[2])
        for t, e in pairs
    )


def test_the_table_of_options_has_the_figures_of_the_benchmarks() -> None:
    page_text = (DOCS / "logbook" / "several-options.md").read_text(encoding="utf-8")
    stated: dict[str, list[str]] = {}
    for setting in ("hartmann6-probit-0.3", "sixhumpcamel-narrow-probit-0.2"):
        page = DOCS / "logbook" / f"options-{setting}.md"
        for cells in map(_columns, page.read_text(encoding="utf-8").splitlines()):
            if len(cells) == 10:
                stated.setdefault(cells[0], []).extend(cells[3:5])
    rows = {
        row[0]: row[1:]
        for row in map(_columns, page_text.splitlines())
        if len(row) == 5
    }
    assert rows.keys() > RULES_OF_OPTIONS.keys()
    for name, rule in RULES_OF_OPTIONS.items():
        for cell, exact in zip(rows[name], stated[rule], strict=True):
            assert _is_rounded(cell, exact), f"{name} has {cell}, which was {exact}"
    assert not _is_rounded("0.33 ± 0.04", "0.336 ± 0.04")
