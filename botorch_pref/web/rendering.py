"""Contents of a page: options, a form of designs, kinds of answers."""

from __future__ import annotations

import io
import math
import re
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

from ax.core.parameter import (
    ChoiceParameter,
    FixedParameter,
    Parameter,
    ParameterType,
    RangeParameter,
)
from ax.core.search_space import SearchSpace

from botorch_pref.asking.request import QuestionKind
from botorch_pref.ax import Design, PreferenceExperiment, Question
from botorch_pref.ax.answer_kinds import INVALID, POSITION
from botorch_pref.ax.answers import check_taken, checked_answer
from botorch_pref.ax.space.lines import num_decimals
from botorch_pref.ax.space.options import number_range
from botorch_pref.ax.user_values import checked_truth
from botorch_pref.errors import ExperimentError
from botorch_pref.web.media import Media, media_of_bytes, media_of_file
from botorch_pref.web.worker import JSON, LOGGER


class AskError(ExperimentError):
    """Error with a remedy for the page to offer, in its ``details``.

    They have ``question``, the number of one that can be skipped, or ``needs``.
    """

    def __init__(self, why: str, **details: Any) -> None:
        super().__init__(why)
        self.details = details


# --- Contents of an option


class Markup(str):
    """HTML that is shown as it is; any other text is escaped.

    ``markupsafe.Markup`` and objects with ``_repr_html_`` do as well. Scripts, inline
    styles and anything from other hosts stay without effect on the page.
    """

    __slots__ = ()

    def __html__(self) -> str:
        """Returns the markup, as template engines ask for it."""
        return str(self)


Content = JSON | Media
"""A text, markup or a table as the page takes it, or media, which need an address."""

Contents = tuple[Content, ...]
"""Everything that the page shows of one option, from top to bottom."""

_REPRESENTATIONS = {"_repr_png_": "image/png", "_repr_jpeg_": "image/jpeg"}
_REPRESENTATIONS |= {"_repr_svg_": "image/svg+xml"}
"""Methods by which a notebook draws an object, and what they return."""


def contents_of(value: Any) -> Contents:
    """Translates what a user's function returned to what the page shows, in order.

    It may be one thing or a list, also a nested one; `make_app` says of what.
    """
    if isinstance(value, list | tuple):
        return tuple(content for part in value for content in contents_of(part))
    if hasattr(value, "savefig"):
        # A figure of Matplotlib, which is not imported here.
        stream = io.BytesIO()
        value.savefig(stream, format="png", bbox_inches="tight", dpi=160)
        return (Media("image/png", stream.getvalue()),)
    return (_content(value),)


def _visible(contents: Contents) -> Contents:
    """Checks that of a user's contents something can be seen or heard; returns them."""
    for content in contents:
        text = isinstance(content, dict) and content.get("text", content.get("html"))
        if isinstance(content, Media) or (text and text.strip()):
            return contents
    raise ExperimentError("show returned nothing that can be seen or heard.")


def text_content(text: str) -> JSON:
    """Makes plain text, which a browser never reads as markup."""
    return {"type": "text", "text": text}


def _content(value: Any) -> Content:
    """Translates one thing that a user's function returned to text, markup or media."""
    if hasattr(value, "__html__"):
        return {"type": "markup", "html": str(value.__html__())}
    if isinstance(value, str):
        return text_content(value)
    if isinstance(value, bytes | bytearray):
        return media_of_bytes(bytes(value))
    if isinstance(value, Path):
        return media_of_file(value)
    for name, mime in _REPRESENTATIONS.items():
        drawn = getattr(value, name, lambda: None)()
        if drawn is not None:
            return Media(mime, drawn if isinstance(drawn, bytes) else drawn.encode())
    html = getattr(value, "_repr_html_", lambda: None)()
    if html is not None:
        return {"type": "markup", "html": str(html)}
    raise ExperimentError(
        f"show returned {type(value).__name__}, which is neither text, markup, a "
        "picture, a sound nor a film."
    )


# --- Tables of numbers

_UNIT = re.compile(r"(.*\S)\s*(?:\(([^()]+)\)|\[([^\[\]]+)\])")
"""A name that ends in its unit, as in "dose (g)" and "dose [g]"."""

_MAX_EXTRA_DIGITS = 9
"""Digits that are added at most where options would look the same."""


class NumberTable:
    """Table of parameters, which options are shown as by default.

    Parameters that are fixed are left out. A name that ends in its unit, as "dose (g)"
    does, gives it; others may be given.

    Args:
        units: By name of the parameter.

    Raises:
        ExperimentError: A unit of no parameter, as soon as the experiment is known.
    """

    def __init__(self, units: Mapping[str, str] | None = None) -> None:
        self.units = dict(units or {})


_TRUTHS = {"yes": "yes", "no": "no"}


def number_tables(
    space: SearchSpace,
    options: Sequence[Mapping[str, Any]],
    units: Mapping[str, str],
    words: Mapping[str, str] = _TRUTHS,
    side_by_side: bool = True,
    without: Collection[str] = (),
) -> list[Contents]:
    """Returns the table of each option of a question, a row for each parameter.

    Beside what is written: whether the options differ; ``place``, how far along its
    range the value lies; ``rank``, of options side by side 1 for the largest and -1 for
    the smallest one. ``words`` has what is written for ``yes`` and ``no``. Parameters
    ``without`` a row are left out.
    """
    tables: list[list[JSON]] = [[] for _ in options]
    digits = _further_digits(space, options)
    for parameter in space.parameters.values():
        if isinstance(parameter, FixedParameter) or parameter.name in without:
            continue
        name, unit = named_unit(parameter.name)
        values = [option[parameter.name] for option in options]
        texts = [written(parameter, value, digits) for value in values]
        if any(isinstance(value, bool) for value in values):
            texts = [words[text] for text in texts]
        differs = len(set(texts)) > 1
        ranked = side_by_side and differs and number_range(parameter) is not None
        for table, text, value in zip(tables, texts, values, strict=True):
            rank = (value == max(values)) - (value == min(values)) if ranked else 0
            row = {"name": name, "value": text, "differs": differs, "rank": rank}
            row["unit"] = units.get(parameter.name, unit)
            table.append({**row, "place": _place(parameter, value)})
    return [({"type": "table", "rows": rows},) for rows in tables]


def named_unit(name: str) -> tuple[str, str]:
    """Splits the name of a parameter from its unit; underscores become blanks."""
    match = _UNIT.fullmatch(name)
    if match is None:
        return name.replace("_", " "), ""
    return match[1].replace("_", " "), match[2] or match[3]


def written(parameter: Parameter, value: Any, digits: int = 0) -> str:
    """Writes a value for people, as finely as its bounds need, or with more digits.

    Designs of which the same is written look the same, see `check_looks`.
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, float):
        return str(value)
    if not isinstance(parameter, RangeParameter):
        return str(value).removesuffix(".0")
    # Nobody is shown a negative zero.
    return f"{value:z.{num_decimals(parameter, value) + digits}f}"


def step(parameter: RangeParameter) -> float:
    """Returns the last decimal of a real parameter's values as they are written."""
    return float(10.0 ** -num_decimals(parameter, parameter.lower))


def _place(parameter: Parameter, value: Any) -> float | None:
    """Returns how far along its range a value lies, from 0 to 1, for a bar in a table.

    It is in logarithms where the parameter is; None of a choice without an order.
    """
    if (ends := number_range(parameter)) is None:
        return None
    lower, upper = ends
    if isinstance(parameter, RangeParameter) and parameter.log_scale:
        lower, upper, value = math.log(lower), math.log(upper), math.log(value)
    return float((value - lower) / (upper - lower))


# --- The presenter

Show = Callable[[Design], Any]
"""A user's function, from the parameters of an option to what is shown of it; of a
catalogue, the option has the id of its row as ``id``."""

MediaAddress = Callable[[int, int, int, Media], str]
"""Address at which a browser finds a part of an option of a question, by numbers."""

MOST_POSITIONS = 41
"""Designs on a line that are shown: a hand that stops is off by as much."""

_MAX_DRAWN = 512
"""Options whose contents are kept, so that pictures are not drawn twice."""


def shown_designs(question: Question) -> Sequence[Design]:
    """Returns what is drawn of a question: its options, or designs along its line."""
    if question.line is None:
        return question.options
    return [question.at(place) for place in question.positions(MOST_POSITIONS)]


def place_along(question: Question, position: float) -> int:
    """Returns the place of the design that is shown of a line for a position."""
    positions = question.positions(MOST_POSITIONS)
    return min(range(len(positions)), key=lambda i: abs(positions[i] - position))


class Presenter:
    """Shows options by a user's function or as tables of numbers.

    One thread calls the function, for one option after the other: nothing else waits
    for it, and it need not be made for several threads.
    """

    def __init__(
        self,
        space: SearchSpace,
        show: Show | NumberTable | None,
        address: MediaAddress,
        words: Mapping[str, str] = _TRUTHS,
        measured: Collection[str] = (),
    ) -> None:
        """Checks the user's function or units, and draws nothing yet.

        ``words`` are texts of the page, and ``measured`` parameters get no row.
        """
        show = NumberTable() if show is None else show
        units = show.units if isinstance(show, NumberTable) else {}
        if unknown := sorted(units.keys() - space.parameters.keys()):
            raise ExperimentError(
                f"There are units of {', '.join(unknown)}; the parameters are "
                f"{', '.join(space.parameters)}."
            )
        if not isinstance(show, NumberTable) and not callable(show):
            raise ExperimentError(f"show is {show!r}; give a function of an option.")
        self._space, self._show, self._address = space, show, address
        # Measured parameters are alike in all options, and the page has them above.
        self._words, self._measured = words, measured
        # Whether two options of a question ever were drawn differently.
        self._tells_apart = False
        self._drawings: OrderedDict[int, Future[list[Contents]]] = OrderedDict()
        self._lock = Lock()
        # Drawing by pyplot, say, is not for several threads.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="show")

    def prepare(self, question: Question) -> Future[list[Contents]]:
        """Begins to draw a question unless that was done; returns the future result.

        It has the contents of each option.
        """
        with self._lock:
            drawing = self._drawings.get(question.index)
            if drawing is None:
                drawing = self._thread.submit(self._draw, question)
                self._drawings[question.index] = drawing
            self._drawings.move_to_end(question.index)
            self._forget()
            return drawing

    def contents(
        self, question: Question, patience: float | None = None
    ) -> list[Contents] | None:
        """Returns contents of each option; None if ``patience`` seconds do not suffice.

        Where the user's function failed, the next call tries again.
        """
        drawing = self.prepare(question)
        try:
            return drawing.result(patience)
        except TimeoutError:
            return None
        except Exception:
            with self._lock:
                if self._drawings.get(question.index) is drawing:
                    del self._drawings[question.index]
            raise

    def shown(
        self, question: Question, patience: float | None = None
    ) -> list[list[JSON]] | None:
        """Returns the `contents` as JSON, with an address for each part of media."""
        contents = self.contents(question, patience)
        if contents is None:
            return None

        def as_json(content: Content, option: int, part: int) -> JSON:
            if not isinstance(content, Media):
                return content
            place = self._address(question.index, option, part, content)
            return {"type": content.mime.partition("/")[0], "src": place}

        return [
            [as_json(content, option, part) for part, content in enumerate(parts)]
            for option, parts in enumerate(contents)
        ]

    def draws_alike(self, question: Question) -> bool:
        """Tells whether two options look the same where others were drawn differently.

        A function that draws all options alike is for those that are told apart
        otherwise, as by their taste.
        """
        if question.is_line:
            return False
        contents = self.contents(question) or []
        copies = any(content in contents[:i] for i, content in enumerate(contents))
        return copies and self._tells_apart

    def close(self) -> None:
        """Draws no more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _forget(self) -> None:
        """Forgets the oldest contents, but none in the making, for which calls wait."""
        drawn = {i: _num_drawn(d) for i, d in self._drawings.items() if d.done()}
        excess = sum(drawn.values()) - _MAX_DRAWN
        for index, number in drawn.items():
            if excess <= 0:
                break
            del self._drawings[index]
            excess -= number

    def _draw(self, question: Question) -> list[Contents]:
        """Makes the contents of all options of a question."""
        if isinstance(self._show, NumberTable):
            return number_tables(
                self._space,
                shown_designs(question),
                self._show.units,
                self._words,
                side_by_side=not question.is_line,
                without=self._measured,
            )
        contents: list[Contents] = []
        try:
            for option in shown_designs(question):
                contents.append(_visible(contents_of(self._show(option.copy()))))
        # A user's function may raise anything; sys.exit must not end the server.
        except (Exception, SystemExit) as error:
            ours = isinstance(error, ExperimentError)
            reason = f"{error}" if ours else f"{type(error).__name__}: {error}"
            LOGGER.warning("show failed for %s: %s", option, reason)
            raise ExperimentError(
                "This question cannot be shown. Skip it, and tell whoever runs the "
                f"experiment the reason: {reason}"
            ) from error
        # For `draws_alike`: has the function shown any two designs differently? Options
        # of other types do not show that: a text may stand for a missing picture.
        first = contents[0]
        self._tells_apart |= any(
            content != first and [*map(type, content)] == [*map(type, first)]
            for content in contents
        )
        return contents


def _num_drawn(drawing: Future[list[Contents]]) -> int:
    """Counts options whose contents a drawing that is done holds."""
    failed = drawing.cancelled() or drawing.exception() is not None
    return 0 if failed else len(drawing.result())


# --- Designs of one's own


def design_form(space: SearchSpace, units: Mapping[str, str]) -> list[JSON]:
    """Returns the fields of a form on the page, one for each parameter to be chosen.

    They are for designs of a person's own, and for the context.
    """
    fields = []
    for parameter in _chosen(space):
        name, (label, unit) = parameter.name, named_unit(parameter.name)
        field: JSON = {"name": name, "label": label, "unit": units.get(name, unit)}
        if isinstance(parameter, ChoiceParameter):
            field |= {"type": "choice", "values": list(parameter.values)}
        else:
            is_integer = parameter.parameter_type is ParameterType.INT
            field |= {"type": "number", "step": 1 if is_integer else step(parameter)}
            field |= {key: getattr(parameter, key) for key in ("lower", "upper")}
            field["log"] = parameter.log_scale
        fields.append(field)
    return fields


def check_looks(space: SearchSpace, designs: Sequence[Mapping[str, Any]]) -> None:
    """Checks that people can tell designs apart by what is written of them."""
    if _num_distinct(space, designs, digits=0) < len(designs):
        raise ExperimentError(
            "Two of these designs look the same. Change a value of one, so that they "
            "can be told apart."
        )


def _further_digits(space: SearchSpace, designs: Sequence[Mapping[str, Any]]) -> int:
    """Counts how many more digits tell designs apart; 0 where none do.

    Designs that differ by less than the last decimal need some, as in a catalogue.
    """
    numbers = range(_MAX_EXTRA_DIGITS + 1)
    counts = (_num_distinct(space, designs, digits) for digits in numbers)
    return next((n for n, count in enumerate(counts) if count == len(designs)), 0)


def _num_distinct(
    space: SearchSpace, designs: Sequence[Mapping[str, Any]], digits: int
) -> int:
    """Counts how many designs look different with so many more digits."""
    chosen = _chosen(space)
    return len({tuple(written(p, d[p.name], digits) for p in chosen) for d in designs})


def _chosen(space: SearchSpace) -> list[RangeParameter | ChoiceParameter]:
    kinds = RangeParameter | ChoiceParameter
    return [p for p in space.parameters.values() if isinstance(p, kinds)]


# --- Kinds of answers


def page_kind(kinds: Collection[str] | None, plane: object) -> QuestionKind:
    """Returns what questions of a page show: options, a line or a plane of designs.

    Lines are those of ``kinds`` with ``position``.
    """
    is_plane = checked_truth("plane", plane)
    if kinds is None or POSITION.field not in kinds:
        return "plane" if is_plane else "options"
    if is_plane:
        raise ExperimentError(
            "kinds has position, which is of lines, and plane is True; leave out one "
            "of them."
        )
    return "line"


def offered_kinds(
    experiment: PreferenceExperiment, size: int, kinds: Collection[str] | None = None
) -> tuple[str, ...]:
    """Returns keywords of ``tell`` that the model takes of questions of this size.

    Of ``kinds``, where they are given: the model has to take each of them, and one has
    to compare the options or judge each of them.
    """
    examples = _examples(size, experiment.num_levels)
    if kinds is not None and POSITION.field in kinds:
        if size != 2:
            raise ExperimentError(f"size is {size}; a line has two ends, leave it out.")
        examples = OF_LINES
    if isinstance(kinds, str):
        raise ExperimentError(f"kinds is {kinds!r}; give a list of kinds of answers.")
    if unknown := [kind for kind in kinds or () if kind not in examples]:
        raise ExperimentError(
            f"kinds names {unknown[0]!r}; of {size} options one can say "
            f"{', '.join(examples)}."
        )
    chosen: list[str] = []
    for kind, example in examples.items():
        if kinds is not None and kind not in kinds:
            continue
        try:
            answer = checked_answer(size, experiment.num_levels, **{kind: example})
            check_taken(experiment.settings, answer, size, experiment.num_levels)
            chosen.append(kind)
        except ExperimentError:
            if kinds is not None:
                raise
    if kinds is not None and not set(chosen) - {"cannot_compare", "invalid"}:
        raise ExperimentError(
            f"kinds is {list(kinds)}, by which nothing can be preferred; add one of "
            f"{', '.join(examples)}."
        )
    return tuple(chosen)


OF_LINES: dict[str, Any] = {
    POSITION.field: 0.5,
    "tie": True,
    "cannot_compare": True,
    INVALID.field: [0, 1],
}
"""An answer of each kind that people can give about a line."""

_ALIKE = {"winner": {"best", "ranking"}, "best": {"winner", "strength"}}
"""Kinds of more options or of fewer, for which a kind stands where they are wanted."""


def wanted_kinds(
    experiment: PreferenceExperiment,
    size: int,
    kinds: Collection[str] | None,
    is_line: bool = False,
) -> tuple[str, ...]:
    """Selects kinds of answers that a page offers to a question of any size or a line.

    Designs of a person's own may be more or fewer than ``kinds`` of the page are of: so
    the winner of two stands for the best and for a ranking of more, and the best of
    more for the winner and the strength of two.
    """
    if is_line:
        return tuple(k for k in OF_LINES if kinds is None or k in (*kinds, "position"))
    offered = offered_kinds(experiment, size)
    if kinds is None:
        return offered
    wanted = {*kinds}
    return tuple(k for k in offered if wanted & {k, *_ALIKE.get(k, ())})


def _examples(size: int, num_levels: int | None) -> dict[str, Any]:
    """Makes an answer of each kind that people can give about so many options.

    By them `offered_kinds` tries which ones a model takes.
    """
    of_two: dict[str, Any] = {"winner": 0, "tie": True, "strength": 0.7}
    of_more = {"best": 0, "tie": True, "ranking": [*range(size)]}
    compared = of_two if size == 2 else of_more
    levels = {} if num_levels is None else {"levels": [0] * size}
    judged = {"invalid": [0], "ratings": [0.5] * size} | levels
    return {**compared, "cannot_compare": True, **judged}
