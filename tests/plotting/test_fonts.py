"""Fonts of names that matplotlib's own font cannot write."""

from matplotlib.font_manager import FontProperties, findfont, get_font

from botorch_pref.plotting.drawing import readable_fonts


def test_families_have_every_character_that_some_font_has() -> None:
    plain, special = (
        get_font(findfont(FontProperties(family=[name]))).get_charmap().keys()
        for name in ("DejaVu Sans", "STIXGeneral")
    )
    character = chr(min(special - plain))
    families, lacking = readable_fonts(["oak", f"{character}\U0010fffd"])
    assert lacking == "\U0010fffd"
    fonts = {get_font(findfont(FontProperties(family=[name]))) for name in families}
    assert any(ord(character) in font.get_charmap() for font in fonts)
    assert readable_fonts(["oak"])[0] == families[:1]
