"""CHANGELOG, CONTRIBUTING and SECURITY are pages of the site too: written once, where people look for them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

_ROOT = Path(__file__).parents[2]
_PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md"}


def on_files(files: Files, config: Any) -> Files:
    for source, page in _PAGES.items():
        text = (_ROOT / source).read_text(encoding="utf-8")
        text = re.sub(r"\]\(docs/", "](", text)
        files.append(File.generated(config, page, content=text))
    return files
