"""Formulas become MathML when the site is built, so that no script has to be fetched or shipped to show them.

Browsers place indices and stretch brackets by tables that only mathematical fonts have, and many systems have none. So the
glyphs that the pages use are cut out of STIX Two Math (which ziamath brings along) and shipped inside a style sheet.
"""

from __future__ import annotations

import base64
import html
import importlib.util
import io
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

_INLINE = re.compile(r'<span class="arithmatex">\\\((.+?)\\\)</span>', re.DOTALL)
_BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.+?)\\\]\s*</div>', re.DOTALL)
_BEFORE = re.compile(r"(?<![{(,\\ ])\s*(\\(?:ln|log)\b)")  # thin spaces around logarithms
_AFTER = re.compile(r"(\\(?:ln|log)\b)\s+(?=[\w\\])")
_SHEET = "assets/mathematics.css"
#: what single letters are shown as, and the root, which is drawn and not written
_ALWAYS = [*range(0x1D434, 0x1D468), *range(0x1D6E2, 0x1D71C), 0x210E, 0x221A]
_used: set[str] = set()


def on_pre_build(**_: Any) -> None:
    _used.clear()


def on_page_content(text: str, **_: Any) -> str:
    text = _BLOCK.sub(lambda found: _mathml(found[1], "block"), text)
    return _INLINE.sub(lambda found: _mathml(found[1], "inline"), text)


def on_post_build(config: Any, **_: Any) -> None:
    font = _font(_used)
    rule = (
        f'@font-face {{ font-family: "Mathematics"; src: url(data:font/woff;base64,{font}); }}\n'
        if font
        else ""
    )
    sheet = (
        rule
        + 'math { font-family: "Mathematics", "STIX Two Math", "Cambria Math", "Latin Modern Math", math; }\n'
    )
    (Path(config.site_dir) / _SHEET).write_text(sheet, encoding="utf-8")


def _mathml(latex: str, display: str) -> str:
    spaced = _AFTER.sub(r"\1\\,", _BEFORE.sub(r"\\,\1", html.unescape(latex).strip()))
    found = convert(spaced, display=display)
    _used.update(html.unescape(re.sub(r"<[^>]*>", "", found)))
    return str(found)


def _font(used: set[str]) -> str:
    """The font with these characters alone, in base64; "" where there is none to cut it from."""
    package = importlib.util.find_spec("ziamath")
    if package is None or package.origin is None:
        return ""
    from fontTools import subset, ttLib

    font = ttLib.TTFont(
        Path(package.origin).parent / "fonts" / "STIXTwoMath-Regular.ttf", recalcTimestamp=False
    )
    options = subset.Options(
        hinting=False, layout_features=["ssty"], name_IDs=[0, 1, 2, 13, 14]
    )  # its licence stays
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=[*map(ord, used), *_ALWAYS])
    cutter.subset(font)
    font.flavor = "woff"
    written = io.BytesIO()
    font.save(written)
    return base64.b64encode(written.getvalue()).decode()
