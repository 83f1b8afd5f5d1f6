"""Formulas become MathML when the site is built, so that no script has to be fetched or shipped to show them."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

_INLINE = re.compile(r'<span class="arithmatex">\\\((.+?)\\\)</span>', re.DOTALL)
_BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.+?)\\\]\s*</div>', re.DOTALL)


def on_page_content(text: str, **_: Any) -> str:
    text = _BLOCK.sub(lambda found: convert(html.unescape(found[1]).strip(), display="block"), text)
    return _INLINE.sub(lambda found: convert(html.unescape(found[1]).strip()), text)
