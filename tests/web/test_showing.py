"""Options as the page is told to show them, by what a user's function returns."""

import io
import wave
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import matplotlib.figure
import numpy as np
import pandas as pd
import pytest
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.core.parameter import ParameterType, RangeParameter
from calling import Page
from PIL import Image
from tea import OWN, create

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.errors import ExperimentError
from botorch_pref.web import Markup, NumberTable, make_app
from botorch_pref.web import rendering as presenter
from botorch_pref.web.media import Media
from botorch_pref.web.rendering import (
    contents_of,
    named_unit,
    number_tables,
    offered_kinds,
    step,
    written,
)
from botorch_pref.web.widget import data_address
from botorch_pref.web.worker import findings_of, packed_state

Serve = Callable[..., Page]


def number(lower: float, upper: float, log_scale: bool = False) -> RangeParameter:
    return RangeParameter("x", ParameterType.FLOAT, lower, upper, log_scale=log_scale)


def test_numbers_in_steps_are_shown_as_numbers(tmp_path: Path) -> None:
    steps = RangeParameterConfig(
        name="x", parameter_type="float", bounds=(180, 400), step_size=2.5
    )
    kind = ChoiceParameterConfig(
        name="kind", parameter_type="str", values=["a", "b", "1.0"], is_ordered=True
    )
    experiment = PreferenceExperiment.create(
        "steps", parameters=[steps, kind], storage=tmp_path / "steps.db"
    )
    space = experiment.experiment.search_space
    options = [{"x": x, "kind": "1.0"} for x in (180.0, 235.0, 252.5)]
    rows = [[*contents[0]["rows"]] for contents in number_tables(space, options, {})]
    assert [row["value"] for row, _ in rows] == ["180", "235", "252.5"]
    assert [row["place"] for row, _ in rows] == [0, 0.25, pytest.approx(72.5 / 220)]
    assert [row["rank"] for row, _ in rows] == [-1, 0, 1]
    assert [kind["value"] for _, kind in rows] == ["1.0"] * 3
    assert [kind["place"] for _, kind in rows] == [None] * 3
    experiment.record(options[:2], winner=0)
    findings = findings_of(packed_state(experiment))
    assert [e["is_choice"] for e in findings["effects"]] == [False, True]
    # One answer names neither.
    assert all("not known" in e["caption"] for e in findings["effects"])


def test_a_parameter_called_name_does_not_rename_options(tmp_path: Path) -> None:
    values = ["Ann", "Bob"]
    name = ChoiceParameterConfig(
        name="name", parameter_type="str", values=values, is_ordered=True
    )
    experiment = PreferenceExperiment.create(
        "names", parameters=[name], storage=tmp_path / "names.db"
    )
    experiment.record([{"name": value} for value in values], winner=1)
    findings = findings_of(packed_state(experiment))
    (column,) = findings["parameters"]
    rows = [(row["name"], row[column]) for row in findings["options"]]
    assert rows == [("1 B", "Bob"), ("1 A", "Ann")]


def test_tables_have_units_and_mark_what_differs(
    experiment: PreferenceExperiment,
) -> None:
    space = experiment.experiment.search_space
    three = [*OWN, {**OWN[1], "leaf (g)": 9.0, "minutes": 32.0}]
    tables = number_tables(space, three, {"minutes": "min"})
    rows = [{row["name"]: row for row in contents[0]["rows"]} for contents in tables]
    assert list(rows[0]) == ["leaf", "minutes", "cups", "kind"]
    assert [row["leaf"]["value"] for row in rows] == ["4.00", "5.00", "9.00"]
    assert {row["leaf"]["unit"] for row in rows} == {"g"}
    assert {row["minutes"]["unit"] for row in rows} == {"min"}
    assert [row["leaf"]["rank"] for row in rows] == [-1, 0, 1]
    assert [row["leaf"]["place"] for row in rows] == [3 / 8, 4 / 8, 1]
    # Of 0.5 to 32, on a log scale.
    assert [row["minutes"]["place"] for row in rows][::2] == pytest.approx(
        [0.43083, 1], abs=1e-5
    )
    assert [row["cups"]["differs"] for row in rows] == [False] * 3
    assert [row["kind"]["value"] for row in rows] == ["green", "oolong", "oolong"]
    assert [row["kind"]["place"] for row in rows] == [None] * 3


def test_options_that_differ_look_different(tmp_path: Path) -> None:
    """Prices within a hundredth of their range."""
    wines = pd.DataFrame({"price": [9.95, 10.2, 149.0]}, index=[*"abc"])
    wine_experiment = PreferenceExperiment.create(
        "w", catalogue=wines, storage=tmp_path / "w.db"
    )
    space = wine_experiment.experiment.search_space
    prices = [{"price": 9.95}, {"price": 10.2}]
    tables = number_tables(space, prices, {})
    (first,), (second,) = (contents[0]["rows"] for contents in tables)
    assert first["differs"]
    assert first["value"] != second["value"]
    assert abs(float(first["value"]) - 9.95) <= 0.05


def test_numbers_are_as_fine_as_their_bounds_need() -> None:
    """The last decimal is a hundredth to a thousandth of what lies between them."""
    for lower, upper, value, text in [
        (14, 22, 18.123456, "18.12"),
        (0, 1, 0.5, "0.50"),
        (0, 0.01, 0.00512345, "0.0051"),
        (0, 100_000, 51234.5, "51234"),
        (-1, 1, -0.0013, "0.00"),
    ]:
        parameter = number(lower, upper)
        assert written(parameter, value) == text
        apart = (upper - lower) / step(parameter)
        assert 100 <= apart <= 1000 or step(parameter) == 1, f"steps of {text}"
    # Rounding of the bounds, here 9.999999999999996 apart, adds no decimal.
    assert written(number(22.3, 32.3), 24.0) == "24.0"
    assert written(number(2.0, 2.01), 2.005) == "2.0050"
    parameter = number(1e-4, 10, log_scale=True)
    texts = [written(parameter, v) for v in (0.00012345, 1.2345, 9.876)]
    assert texts == ["0.000123", "1.23", "9.88"]
    # Of a narrow range no fewer than on a linear scale.
    narrow = number(100, 110, log_scale=True)
    assert [written(narrow, v) for v in (103.14, 103.36)] == ["103.1", "103.4"]
    assert step(narrow) == 0.1


def test_a_name_may_end_in_its_unit(experiment: PreferenceExperiment) -> None:
    names = ["dose (g)", "dose [m/s]", "brew_time", "(g)"]
    assert [*map(named_unit, names)] == [
        ("dose", "g"),
        ("dose", "m/s"),
        ("brew time", ""),
        ("(g)", ""),
    ]
    with pytest.raises(ExperimentError, match="units of dose"):
        make_app(experiment, show=NumberTable({"dose": "g"}))


def test_media_come_from_addresses_of_their_own(
    experiment: PreferenceExperiment, served: Serve, tmp_path: Path
) -> None:
    path = tmp_path / "picture.gif"
    path.write_bytes(b"GIF89a of a file;")

    def show(option: dict[str, Any]) -> list[Any]:
        return ["text", f"GIF89a {option['cups']};".encode(), path]

    client = served(experiment, show=show, token="right&strange").client
    bearer = {"Authorization": "Bearer right&strange"}
    question = client.get("/api/question", headers=bearer).json()
    for option, content in zip(question["options"], question["shown"], strict=True):
        text, keywords, file = content
        assert text == {"type": "text", "text": "text"}
        reply = client.get(f"/{keywords['src']}")
        assert keywords["type"] == "image"
        assert reply.headers["content-type"] == "image/gif"
        assert reply.content == f"GIF89a {option['cups']};".encode()
        assert client.get(f"/{file['src']}").content == b"GIF89a of a file;"
        assert client.get("/" + keywords["src"].partition("?")[0]).status_code == 403
    path.unlink()
    assert client.get(f"/{file['src']}").status_code == 404
    for absent in ("0/0/0", "0/0/9", "0/9/0", "9/0/0"):
        assert client.get(f"/media/{absent}", headers=bearer).status_code == 404


def test_a_question_that_cannot_be_shown_can_be_skipped(
    experiment: PreferenceExperiment, served: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    def show(option: dict[str, Any]) -> str:
        if option in question.options and not mended:
            raise failures.pop(0)
        return "a cup"

    failures = [KeyError("dose"), SystemExit("a script's end")]
    question, mended = experiment.ask(2), False
    page = served(experiment, show=show)
    # It is tried again each time.
    for reason in ("KeyError: 'dose'", "SystemExit: a script's end"):
        refused = page.get("question", 400)
        assert refused["question"] == 0
        assert "Skip it" in refused["error"]
        assert refused["error"].endswith(f"the reason: {reason}")
        assert f"show failed for {question.options[0]}: {reason}" in caplog.text
    mended = True
    assert page.ask()["question"] == 0
    assert page.post("skip", question=0)["skipped"] == 0
    assert page.ask()["question"] != 0


def test_a_function_that_takes_long_holds_up_no_answer_and_is_called_once_ahead(
    experiment: PreferenceExperiment, served: Serve
) -> None:
    free, begun, calls = Event(), Event(), []

    def show(option: dict[str, Any]) -> str:
        calls.append(option)
        if option not in question.options:
            begun.set()
            free.wait(60)
        return "a cup"

    question = experiment.ask(2)
    page = served(experiment, show=show)
    first = page.ask()
    # The second is drawn while the first is on display, of which all still works.
    assert begun.wait(60)
    reply = page.post("answer", question=0, winner=0)
    assert reply == {"stored": 0, "next": None}
    page.get("question", 202, patience=0)
    free.set()
    second = page.ask()
    assert first["question"] == 0
    assert second["question"] == 1
    assert [option for option in calls if option in second["options"]] == list(
        second["options"]
    )


def test_an_option_that_cannot_be_shown_any_more_leaves_the_others_in_the_history(
    experiment: PreferenceExperiment, served: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presenter, "_MAX_DRAWN", 0)

    def show(option: dict[str, Any]) -> str:
        if experiment.experiment.trials[0].status.is_completed:
            raise OSError("disk is gone")
        return "a cup"

    page = served(experiment, show=show)
    page.answer()
    (answer,) = page.get("history")["answers"]
    texts = [part[0]["text"] for part in answer["shown"]]
    assert [text.endswith("disk is gone") for text in texts] == [True, True]


KINDS = {"winner", "tie", "strength", "cannot_compare", "invalid", "ratings"}


@pytest.mark.parametrize(
    ("model", "size", "levels", "kinds"),
    [
        ("EPPreferenceGP", 2, 5, KINDS | {"levels"}),
        ("EPPreferenceGP", 2, None, KINDS),
        ("SkewPreferenceGP", 2, 5, {*KINDS, "levels"} - {"strength", "ratings"}),
        ("EPPreferenceGP", 3, None, None),
    ],
)
def test_offered_kinds_are_those_that_tell_takes(
    tmp_path: Path, model: str, size: int, levels: int | None, kinds: set[str] | None
) -> None:
    experiment = create(tmp_path / "tea.db", model=model, num_levels=levels)
    judged = {
        "cannot_compare": True,
        "invalid": [0],
        "ratings": [0.5] * size,
        "levels": [0] * size,
    }
    # A pair has no best one but its winner, more than two no winner but the best.
    compared: dict[str, Any] = {"winner": 0, "tie": True, "strength": 0.7}
    if size > 2:
        compared = {"best": 0, "tie": True, "ranking": [*range(size)]}
    names = set()
    for kind, answer in (judged | compared).items():
        with suppress(ExperimentError):
            experiment.tell(experiment.ask(size), **{kind: answer})
            names.add(kind)
    assert set(offered_kinds(experiment, size)) == names
    assert kinds is None or names == kinds


def test_only_the_kinds_that_are_wanted_are_offered(
    tmp_path: Path, served: Serve
) -> None:
    experiment = create(tmp_path / "tea.db", num_levels=None)
    wrong: list[tuple[Any, str]] = [
        (["winner", "beauty"], "beauty"),
        (["best"], "best"),
        ("winner", "list of kinds"),
        (["cannot_compare"], "nothing can be preferred"),
        (["winner", "levels"], "levels"),
    ]
    for kinds, message in wrong:
        with pytest.raises(ExperimentError, match=message):
            make_app(experiment, kinds=kinds, size=2)
    page = served(experiment, kinds=["tie", "winner"])
    assert page.ask()["kinds"] == ["winner", "tie"]


def test_what_is_being_drawn_is_not_drawn_again_however_many_wait(
    experiment: PreferenceExperiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, drawn = Event(), []

    def slow(option: dict[str, Any]) -> str:
        free.wait(60)
        drawn.append(option)
        return "a cup"

    monkeypatch.setattr(presenter, "_MAX_DRAWN", 1)
    drawing = presenter.Presenter(
        experiment.experiment.search_space, slow, lambda *part: ""
    )
    questions = [experiment.ask(2) for _ in range(2)]
    for question in questions * 2:
        assert drawing.contents(question, patience=0.0) is None
    free.set()
    for question in questions:
        assert drawing.contents(question)
    drawing.close()
    assert drawn == [option for question in questions for option in question.options]


def png(width: int = 2) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (width, 1), (10, 20, 30)).save(stream, "png")
    return stream.getvalue()


def size(media: Any) -> tuple[int, int]:
    data = media.data if isinstance(media.data, bytes) else media.data.read_bytes()
    with Image.open(io.BytesIO(data)) as image:
        return image.size


def test_text_stays_text_and_marked_markup_markup() -> None:
    text = "<b>not bold</b>"
    marked = {"type": "markup", "html": text}
    assert contents_of(text) == ({"type": "text", "text": text},)
    assert contents_of(Markup(text)) == (marked,)
    assert contents_of(SimpleNamespace(_repr_html_=lambda: text)) == (marked,)
    # Joining a text to marked markup marks nothing.
    joined = {"type": "text", "text": f"<i>{text}"}
    assert contents_of(Markup("<i>") + text) == (joined,)


BYTES = [
    (png(), "image/png"),
    (b"\xff\xd8\xff\xe0rest\xff\xda\xff\xd9", "image/jpeg"),
    (b"GIF89a;", "image/gif"),
    (b"RIFF\7\0\0\0WEBPVP8", "image/webp"),
    (b"RIFF\7\0\0\0WAVEfmt", "audio/wav"),
    # As a stream is written, whose length is not known.
    (b"RIFF\xff\xff\xff\xffWAVEfmt", "audio/wav"),
    (b"ID3\x04", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"\0\0\0\x0cftypisom", "video/mp4"),
    (b"\0\0\0\x0cftypisom\0\0\0\0mdat to the end", "video/mp4"),
    (b"\0\0\0\x0cftypisom\0\0\0\1mdat\0\0\0\0\0\0\0\x11.", "video/mp4"),
    (b"\x1aE\xdf\xa3", "video/webm"),
    (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml"),
    (b"<?xml version='1.0'?><svg/>", "image/svg+xml"),
]


def test_bytes_are_known_by_how_they_begin() -> None:
    for data, mime in BYTES:
        (content,) = contents_of(data)
        assert content == Media(mime, data)
        assert data_address(0, 0, 0, content).startswith(f"data:{mime};base64,")


def pictures() -> dict[str, bytes]:
    """Files of a noisy picture, and of a noisy second, by their suffixes."""
    draws = np.random.default_rng(0)
    image = Image.fromarray(draws.integers(0, 256, (40, 60, 3), dtype=np.uint8))
    pictures = {}
    for suffix in ("png", "jpeg", "gif", "webp"):
        stream = io.BytesIO()
        # With a thumbnail, which has an end of its own.
        options = {"exif": exif_with_thumbnail(image)} if suffix == "jpeg" else {}
        image.save(stream, suffix, **options)
        pictures[suffix] = stream.getvalue()
    with wave.open(stream := io.BytesIO(), "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(draws.bytes(16_000))
    return {**pictures, "wav": stream.getvalue()}


def exif_with_thumbnail(image: Image.Image) -> bytes:
    image.resize((8, 8)).save(stream := io.BytesIO(), "jpeg")
    exif = Image.Exif()
    # A maker's note, in which any bytes may be.
    exif.get_ifd(0x8769)[0x927C] = stream.getvalue()
    return exif.tobytes()


def test_a_medium_that_was_cut_off_or_is_empty_cannot_be_shown(tmp_path: Path) -> None:
    """Browsers show the beginning of it, and say nothing."""
    for suffix, data in pictures().items():
        path = tmp_path / f"medium.{suffix}"
        path.write_bytes(data)
        assert [medium.data for medium in contents_of([data, path])] == [data, path]
        for length in (len(data) // 2, len(data) - 3):
            path.write_bytes(data[:length])
            for cut in (data[:length], path):
                with pytest.raises(ExperimentError, match="end is missing"):
                    contents_of(cut)
        path.write_bytes(b"")
        with pytest.raises(ExperimentError, match="file is empty"):
            contents_of(path)
    film = b"\0\0\0\x0cftypisom\0\0\0\x10mdat"
    with pytest.raises(ExperimentError, match="end is missing"):
        contents_of(film)


@pytest.mark.parametrize("empty", [[], "", " \n", Markup(""), ["", Markup(" ")]])
def test_an_option_of_which_nothing_is_shown_is_asked_about_by_nobody(
    experiment: PreferenceExperiment, empty: Any
) -> None:
    drawing = presenter.Presenter(
        experiment.experiment.search_space, lambda option: empty, lambda *part: ""
    )
    with pytest.raises(ExperimentError, match="nothing that can be seen or heard"):
        drawing.contents(experiment.ask(2))
    drawing.close()


def test_pictures_and_figures_are_drawn(tmp_path: Path) -> None:
    (picture,) = contents_of(Image.new("RGB", (7, 5)))
    assert size(picture) == (7, 5)
    figure = matplotlib.figure.Figure(figsize=(2, 1))
    figure.subplots().plot([0, 1])
    (drawn,) = contents_of(figure)
    width, height = size(drawn)
    assert width > 1.5 * height
    path = tmp_path / "picture.png"
    path.write_bytes(png(3))
    (content,) = contents_of(path)
    assert size(content) == (3, 1)


def test_a_list_is_shown_from_top_to_bottom() -> None:
    contents = contents_of(["above", (png(), "below")])
    assert [type(content) for content in contents] == [dict, Media, dict]


def test_what_cannot_be_shown_says_so() -> None:
    for value, message in [
        (b"what is this", "no known type"),
        (Path("tea.txt"), "by its suffix"),
        (Path("absent.png"), "no such file"),
        (None, "NoneType"),
        (3.5, "float"),
        ({"leaf": 2}, "dict"),
    ]:
        with pytest.raises(ExperimentError, match=message):
            contents_of(value)


def test_no_two_options_are_shown_that_look_the_same(
    experiment: PreferenceExperiment, served: Callable[..., Page]
) -> None:
    page = served(experiment, show=lambda option: f"{option['minutes'] > 20}")
    # Once options were told apart by their looks, they are in all that follows.
    differ = []
    for _ in range(24):
        first, second = page.ask()["shown"]
        differ.append(first != second)
        page.answer()
    assert True in differ
    assert all(differ[differ.index(True) :])
    looks = [
        {option.parameters["minutes"] > 20 for option in question.options}
        for question in experiment.log.questions
        if question.withdrawn
    ]
    assert looks
    assert {len(look) for look in looks} == {1}
    # A person's own designs are hers to compare.
    own = page.post("own", options=[OWN[0], {**OWN[0], "leaf (g)": 7.0}])
    assert own["shown"][0] == own["shown"][1]


def test_what_is_always_drawn_alike_is_told_apart_otherwise(
    experiment: PreferenceExperiment, served: Callable[..., Page]
) -> None:
    page = served(experiment, show=lambda option: "Taste it.")
    for index in range(3):
        assert page.answer() == index
    assert page.happened == ["told"] * 3
