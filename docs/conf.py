"""The documentation site: `sphinx-build -W -c docs . build/site`.

Sources are read from the root of the repository, so that links between `docs/`,
`tutorials/` and `CONTRIBUTING.md` are the same on the site as in the repository.
"""

from __future__ import annotations

import base64
import inspect
import json
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx.util.inspect import signature as read_signature
from sphinx.util.inspect import stringify_signature
from sphinx.writers.html5 import HTML5Translator

import botorch_pref

HERE = Path(__file__).parent
TUTORIALS = HERE.parent / "tutorials"
THUMBNAILS = HERE / "thumbnails"
BENCHMARKS = HERE.parent / "benchmarks"
FIGURES = HERE / "logbook" / "figures"

project = "botorch_pref"
author = "The botorch_pref authors"
copyright = f"2026, {author}. MIT licence"  # the name that Sphinx reads
release = version = botorch_pref.__version__

root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "tutorials/*.ipynb",
    "benchmarks/README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
]
exclude_patterns = [".venv*", "build", "dist", "runs", "tests", "**/.ipynb_checkpoints"]
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_design",
]

myst_enable_extensions = ["colon_fence", "dollarmath", "html_image"]
myst_heading_anchors = 4
# Notebooks are shown as they are stored: the tests run them.
nb_execution_mode = "off"
nb_ipywidgets_js: dict[str, str] = {}
# Tables in reports are tables, and what a cell prints is one block.
nb_render_markdown_format = "myst"
nb_merge_streams = True


def repository() -> str | None:
    """The page of the repository on the web, where the remote of this clone has one."""
    command = ["git", "config", "--get", "remote.origin.url"]
    asked = subprocess.run(command, cwd=HERE, capture_output=True, text=True)
    address = re.sub(r"^git@([^:]+):", r"https://\1/", asked.stdout.strip())
    return address.removesuffix(".git") if address.startswith("https://") else None


autosummary_generate = False
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 80
default_role = "py:obj"  # a name between single backticks
napoleon_use_ivar = True
napoleon_attr_annotations = False  # signatures have the types

html_theme = "pydata_sphinx_theme"
html_title = f"botorch_pref {version}"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_search_scorer = str(HERE / "search_scorer.js")
html_extra_path = ["_extra"]
html_show_sourcelink = False
html_copy_source = False
html_domain_indices = False  # two modules: the reference has the names
html_theme_options = {
    "icon_links": [
        {"name": "Repository", "url": url, "icon": "fa-solid fa-code-branch"}
        for url in (repository(),)
        if url
    ],
    "navigation_with_keys": False,
    "show_prev_next": False,
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {
    f"docs/{page}": []
    for page in (
        *("index", "start", "choose", "questions", "reliability", "gallery"),
        *("logbook/lines", "logbook/errata", "logbook/*-[0-9]*"),  # wide tables
    )
}

linkcheck_timeout = 20
linkcheck_anchors = False


LOGGER = logging.getLogger(__name__)

# Commands of TeX as Docutils spells them: it knows no size without a side, and reads
# two digits after a fraction as one number.
SPELLINGS = [
    (re.compile(r"\\([td]?frac)(\d)(\d)"), r"\\\1{\2}{\3}"),
    (re.compile(r"\\dots\b"), r"\\ldots"),
    (re.compile(r"\\[bB]igg?/"), "/"),
    (re.compile(r"\\([bB]igg?)(?=[(\[]|\\\{)"), r"\\\1l"),
    (re.compile(r"\\([bB]igg?)(?![lrm])\b"), r"\\\1r"),
]


def spelled(formula: str) -> str:
    """A formula of TeX in the spelling of Docutils."""
    for theirs, ours in SPELLINGS:
        formula = theirs.sub(ours, formula)
    return formula


def written(node: nodes.math | nodes.math_block, **options: bool) -> str:
    """A formula as MathML, which browsers draw by themselves."""
    formula = spelled(node.astext())
    try:
        return latex2mathml.tex2mathml(formula, **options)
    except MathError as error:
        LOGGER.warning("%s: %s", error, node.astext(), location=node)
        return ""


def write_inline(self: HTML5Translator, node: nodes.math) -> None:
    """Writes a formula in a line."""
    self.body.append(written(node))
    raise nodes.SkipNode


def write_display(self: HTML5Translator, node: nodes.math_block) -> None:
    """Writes a formula of its own."""
    self.body.append(f'<div class="formula">{written(node, as_block=True)}</div>')
    raise nodes.SkipNode


def is_in_parts(cls: type) -> bool:
    """Tells whether a class of `botorch_pref.ax` has bases, which hold some methods."""
    bases = cls.__mro__[1:-1]
    return bool(bases) and all(
        base.__module__.startswith("botorch_pref.ax.") for base in bases
    )


class PublicNames(SphinxDirective):
    """A table of the names in the `__all__` of modules, then the docstring of each.

    A name stands with the shortest path by which it can be imported.
    """

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """The nodes of the table and of the docstrings."""
        paths = []
        for module in self.arguments[0].split():
            for name in import_module(module).__all__:
                shortest = "botorch_pref" if name in botorch_pref.__all__ else module
                paths.append((shortest, name))
        lines = [".. autosummary::", "   :nosignatures:", ""]
        lines += [f"   ~{module}.{name}" for module, name in paths]
        for module, name in paths:
            known = getattr(import_module(module), name)
            kind = "class" if isinstance(known, type) else "function"
            if not callable(known):
                kind = "data"
            lines += ["", f".. auto{kind}:: {module}.{name}"]
            if kind == "class":
                lines += ["   :members:", "   :show-inheritance:"]
                if is_in_parts(known):
                    lines.append("   :inherited-members:")
        return self.parse_text_to_nodes("\n".join(["```{eval-rst}", *lines, "```"]))


def read_notebook(path: Path) -> tuple[str, str, str | None]:
    """The title of a notebook, its first paragraph, and its first figure in base 64."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    said = "".join(cells[0]["source"]).split("\n\n")
    pictures = (
        output["data"]["image/png"]
        for cell in cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    )
    return said[0].lstrip("# "), said[1], next(pictures, None)


class NotebookCards(SphinxDirective):
    """A card for each notebook of `tutorials/`: its title, its figure, what it is."""

    def run(self) -> list[nodes.Node]:
        """The nodes of a grid of cards."""
        THUMBNAILS.mkdir(exist_ok=True)
        lines = ["::::{grid} 1 2 2 3", ":gutter: 3", ""]
        first = TUTORIALS / "quick_start.ipynb"
        others = sorted({*TUTORIALS.glob("*.ipynb")} - {first})
        for path in [first, *others]:
            self.env.note_dependency(str(path))
            title, told, picture = read_notebook(path)
            lines += [f":::{{grid-item-card}} {title}"]
            lines += [f":link: ../tutorials/{path.stem}", ":link-type: doc"]
            if picture is not None:
                thumbnail = THUMBNAILS / f"{path.stem}.png"
                thumbnail.write_bytes(base64.b64decode(picture))
                lines += [f":img-top: thumbnails/{thumbnail.name}"]
                lines += [f":img-alt: A figure of the notebook {title}"]
            lines += [":class-card: notebook", "", told, ":::"]
        return self.parse_text_to_nodes("\n".join([*lines, "::::"]))


def draw_logbook(app: Sphinx) -> None:
    """Draws the figures of the logbook, where records or what draws are newer."""
    records, suite = BENCHMARKS / "records", BENCHMARKS / "suite"
    if not records.is_dir():
        raise ExtensionError(
            f"{records} is not there, of which figures are drawn: build the site in a "
            "clone of the repository, since a source distribution has no records"
        )
    sources = [records, *records.rglob("*"), *suite.rglob("*.py")]
    newest = max(path.stat().st_mtime for path in sources)
    if FIGURES.is_dir() and FIGURES.stat().st_mtime > newest:
        return
    sys.path.insert(0, str(BENCHMARKS.parent))
    draw_figures = import_module("benchmarks.suite.pages.figures").draw_figures
    studies = import_module("benchmarks.suite.studies").STUDIES
    # Drawn elsewhere first, so that a folder of figures has all of them.
    part = FIGURES.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    draw_figures(studies.values(), records, part)
    shutil.rmtree(FIGURES, ignore_errors=True)
    part.rename(FIGURES)


def skip_what_the_base_says(
    app: Sphinx, what: str, name: str, member: object, skip: bool, options: object
) -> bool | None:
    """Leaves out members of which there is nothing to say beyond their base class."""
    told = getattr(member, "__doc__", None) or ""
    return told == "See base class." or told.startswith("Alias for field") or None


def own_signature(known: object) -> str:
    """What a class takes where a base takes anything; nothing for a protocol."""
    own = vars(known).get("__init__")
    if own is None or own.__module__ != known.__module__:
        return ""
    taken = read_signature(own, bound_method=True)
    taken = taken.replace(return_annotation=inspect.Signature.empty)
    return stringify_signature(taken, unqualified_typehints=True)


FUNCTION = re.compile(r"<function (\w+)[^>]*>")


def write_defaults(
    app: Sphinx,
    what: str,
    name: str,
    known: object,
    options: object,
    signature: str | None,
    returns: str | None,
) -> tuple[str | None, str | None]:
    """Writes defaults that are functions, or made anew each time, as Python does."""
    if what == "class" and signature is not None and signature.startswith("(*args"):
        signature = own_signature(known)
    if signature is not None:
        signature = FUNCTION.sub(r"\1", signature.replace("<factory>", "..."))
    return signature, returns


def hide_values(app: Sphinx, doctree: nodes.document) -> None:
    """Leaves out the values of attributes, which are printed as objects in memory."""
    for told in [*doctree.findall(addnodes.desc_annotation)]:
        if told.astext().startswith(" = "):
            told.parent.remove(told)


SETTING = re.compile(r"docs/logbook/.*-\d[\d.]*")


def mark_logbook(app: Sphinx, doctree: nodes.document) -> None:
    """Gives pages of the logbook no list of their sections: they are short, and wide.

    Tables of single settings are left out of the search, since their study links them:
    there are dozens, and their titles have words such as "ties".
    """
    page = app.env.docname
    if page.startswith("docs/logbook/"):
        app.env.metadata[page]["html_theme.sidebar_secondary.remove"] = "true"
    if SETTING.fullmatch(page):
        app.env.metadata[page]["no-search"] = ""


LOOKED_FOR = "## Words that people look for"


def words_that_lead_to(page: Path) -> list[tuple[str, str]]:
    """Words of the glossary whose first link is a page, with its heading."""
    table = (HERE / "glossary.md").read_text(encoding="utf-8").partition(LOOKED_FOR)[2]
    return [
        (word, heading)
        for words, name, heading in re.findall(
            r"^\| (.*?) \| [^(\n]*\]\(([^)#]*)#?([^)]*)\)", table, re.M
        )
        if (HERE / (name or "glossary.md")).resolve() == page
        for word in words.split(", ")
    ]


def index_words(app: Sphinx, doctree: nodes.document) -> None:
    """Lets the search lead from a word that people look for to its heading."""
    page = app.env.docname
    app.env.note_dependency(str(HERE / "glossary.md"))
    for word, heading in words_that_lead_to(Path(app.env.doc2path(page)).resolve()):
        if heading and heading not in doctree.ids:
            LOGGER.warning("%s has no heading %r for %r.", page, heading, word)
        entry = ("single", word, heading, "main", None)
        doctree.insert(0, addnodes.index(entries=[entry]))


IMAGE = re.compile(r"<img(?![^>]*\bloading=)")
NARROW = re.compile(r"<(t[dh]|dt|h1)\b.*?</\1>", re.DOTALL)
NAMES = re.compile(r'(?<=<span class="pre">)[^<]+|(?<=<h1>)botorch_pref[^<]+')
BREAKS = re.compile(
    r"(?<=[a-z\d])(?=[A-Z])|(?<=\w[_/])(?=\w)|(?<=\w\.)(?=[A-Za-z])(?!py\b|md\b|csv\b)"
)

NOT_FOR_READERS = re.compile(
    r"&lt;factory&gt;|&lt;function\b|&lt;class\b|\bobject(?: at \w+)?&gt;|~typing\."
    r'|<(?:img|script|link)[^>]*"https?://[^"]*"'
)
"""Objects as Python prints them, and what a page would fetch from another host."""


def let_names_break(
    app: Sphinx, page: str, template: str, context: dict[str, str], doctree: object
) -> None:
    """Lets long names in cells, signatures and titles break between their words.

    Pictures load where they come into sight.

    A warning names what is not for readers, and so ends a build under ``-W``.
    """

    def broken(narrow: re.Match[str]) -> str:
        return NAMES.sub(lambda name: BREAKS.sub("<wbr>", name[0]), narrow[0])

    if body := context.get("body"):
        body = IMAGE.sub('<img loading="lazy"', body)
        body = NARROW.sub(broken, body)
        if page.startswith("docs/logbook/"):
            body = f'<div class="logbook">{body}</div>'
        context["body"] = body
        for found in NOT_FOR_READERS.findall(body):
            LOGGER.warning("%s.html shows %r.", page, found)


def name_public_bases(
    app: Sphinx, name: str, cls: type, options: object, bases: list[type]
) -> None:
    """Names the bases of a private base instead of itself."""
    bases[:] = [
        public
        for base in bases
        for public in (base.__bases__ if base.__name__.startswith("_") else (base,))
    ]


def setup(app: Sphinx) -> None:
    """Adds what this site needs beyond its extensions."""
    if "<mn>12</mn>" in latex2mathml.tex2mathml(spelled(r"\frac12 x")):
        LOGGER.warning("A half is drawn as twelve over what follows.")
    app.connect("builder-inited", draw_logbook)
    app.connect("autodoc-skip-member", skip_what_the_base_says)
    app.connect("autodoc-process-bases", name_public_bases)
    app.connect("autodoc-process-signature", write_defaults)
    app.connect("doctree-read", hide_values)
    app.connect("doctree-read", mark_logbook)
    app.connect("doctree-read", index_words)
    app.connect("html-page-context", let_names_break)
    app.add_html_math_renderer(
        "mathml",
        inline_renderers=(write_inline, None),
        block_renderers=(write_display, None),
    )
    app.add_directive("public-names", PublicNames)
    app.add_directive("notebook-cards", NotebookCards)
