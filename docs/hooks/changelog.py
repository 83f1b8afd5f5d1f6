"""CHANGELOG, CONTRIBUTING and SECURITY are pages of the site too: written once, where people look for them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

_ROOT = Path(__file__).parents[2]
_PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}


def on_files(files: Files, config: Any) -> Files:
    for source, page in _PAGES.items():
        text = (_ROOT / source).read_text(encoding="utf-8")
        text = re.sub(r"\]\(docs/", "](", text)
        # here a list needs an empty line before it, and what goes on in the next line four spaces
        text = re.sub(r"(?m)^((?![-#|]|  ).+)\n(?=- )", r"\1\n\n", text)
        text = re.sub(r"(?m)^  (?=\S)", "    ", text)
        files.append(File.generated(config, page, content=text))
    return files
