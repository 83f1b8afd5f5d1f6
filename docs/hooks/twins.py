"""A Markdown twin beside every page, and llms.txt, which lists them: for readers that are programs."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

_DIRECTIVE = re.compile(r"^::: (\S+)\n(?:    .*\n)*", re.MULTILINE)
_TWINS: dict[str, str] = {}  # address -> text
_PLACES: list[Any] = []  # the pages in the order of the navigation


def on_pre_build(**_: Any) -> None:
    _TWINS.clear()


def on_nav(nav: Any, **_: Any) -> None:
    _PLACES[:] = nav.pages


def on_page_markdown(markdown: str, page: Any, **_: Any) -> None:
    _TWINS[page.file.src_uri] = _DIRECTIVE.sub(lambda found: _described(found[1]), markdown + "\n")


def on_post_build(config: Any, **_: Any) -> None:
    site = Path(config.site_dir)
    for address, text in _TWINS.items():
        (site / address).parent.mkdir(parents=True, exist_ok=True)
        (site / address).write_text(text, encoding="utf-8")
    lines = [f"# {config.site_name}", "", f"> {config.site_description}"]
    section = None
    for page in _PLACES:
        above = page.ancestors[-1].title if page.ancestors else "Overview"
        if above != section:
            lines += ["", f"## {above}", ""]
            section = above
        lines.append(f"- [{page.title}]({page.file.src_uri})" + _about(_TWINS[page.file.src_uri]))
    (site / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _about(text: str) -> str:
    """The first sentence of a page, if it begins with one."""
    first = " ".join(text.partition("\n\n")[2].partition("\n\n")[0].split())
    sentence = re.match(r"((?!```)[A-Z0-9`*].*?\.)(?:\s|$)", first)
    return f": {re.sub(r'[*`]', '', sentence[1])}" if sentence and "](" not in sentence[1] else ""


def _described(path: str) -> str:
    """What the reference says of a name, in Markdown: how it is called, and its docstring."""
    module, _, name = path.rpartition(".")
    thing = getattr(importlib.import_module(module), name)
    try:
        signature = str(inspect.signature(thing))
    except (TypeError, ValueError):
        signature = ""
    parts = [f"## {path}", "", f"    {name}{signature}", "", inspect.getdoc(thing) or "", ""]
    for member, value in inspect.getmembers(thing) if inspect.isclass(thing) else ():
        if member.startswith("_") or member not in vars(thing) or not inspect.getdoc(value):
            continue
        if inspect.isroutine(value) or isinstance(value, property):
            parts += [f"### {name}.{member}", "", inspect.getdoc(value) or "", ""]
    return "\n".join(parts)
