"""A Markdown twin beside every page, and llms.txt, which lists them: for readers that are programs."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

_DIRECTIVE = re.compile(r"^::: (\S+)\n(?:    .*\n)*", re.MULTILINE)
_TWINS: dict[str, tuple[str, str]] = {}  # address of the twin -> (title, text)


def on_pre_build(**_: Any) -> None:
    _TWINS.clear()


def on_page_markdown(markdown: str, page: Any, **_: Any) -> None:
    _TWINS[page.file.src_uri] = (str(page.title), _DIRECTIVE.sub(lambda found: _described(found[1]), markdown + "\n"))


def on_post_build(config: Any, **_: Any) -> None:
    site = Path(config.site_dir)
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", "", "## Pages", ""]
    for address, (title, text) in _TWINS.items():
        (site / address).parent.mkdir(parents=True, exist_ok=True)
        (site / address).write_text(text, encoding="utf-8")
        lines.append(f"- [{title}]({address})")
    (site / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


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
