"""The code blocks of a Markdown page, in their order, and what the page says that they print."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(
    r"(?P<before>[^\n]*\n)?(?P<indent>[ ]*)```(?P<language>\w*)(?P<about>[^\n]*)\n(?P<text>.*?)(?P=indent)```",
    re.DOTALL,
)
#: stands above a block that takes too long, or needs what tests do not have; its names and options are checked all the same
NOT_RUN = re.compile(r"<!-- not run: .+ -->")
#: stands above a block of another tool, which runs where that tool is installed
NEEDS = re.compile(r"<!-- needs: (?P<module>\w+) -->")
LANGUAGES = ("python", "console", "text", "toml", "bibtex", "json", "")


@dataclass(frozen=True)
class Block:
    """``start`` and ``end``: where its text stands in the page."""

    language: str
    about: str
    text: str
    runs: bool
    start: int
    end: int

    @property
    def is_printed(self) -> bool:
        """Whether it shows what the block before it prints."""
        return self.language == "text" and 'title="prints"' in self.about


def pages() -> list[Path]:
    """README, and every page of the site."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        language = match["language"]
        if language not in LANGUAGES:
            raise AssertionError(f"{page}: a block of '{language}', which no test knows; use one of {LANGUAGES}")
        inside = match["text"]
        if match["indent"]:
            inside = re.sub(rf"^{match['indent']}", "", inside, flags=re.MULTILINE)
        above = text[max(0, match.start("language") - 200) : match.start("language")].split("\n\n")[-1]
        needed = NEEDS.search(above)
        runs = not NOT_RUN.search(above) and (needed is None or find_spec(needed["module"]) is not None)
        found.append(Block(language, match["about"], inside, runs, match.start("text"), match.end("text")))
    return found


def commands(block: Block) -> Iterator[tuple[list[str], str]]:
    """Each command of a console block as its words, and the output that the block shows for it."""
    text = re.sub(r"\\\n\s*", "", block.text)
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield shlex.split(command, comments=True), output
