"""``python -m tests.docs [PAGE ...]``: run the pages, and write into them what their blocks print."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from tests.docs.blocks import pages
from tests.docs.running import run_page


def refresh(page: Path) -> None:
    """Replaces every shown output by the real one; from the end on, so that places stay."""
    text = page.read_text(encoding="utf-8")
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            found = list(run_page(page, Path(folder)))
        finally:
            os.chdir(here)
    for block, _, printed in reversed(found):
        if block.language == "console":
            lines, inside = [], False
            for line in block.text.splitlines(keepends=True):
                if line.startswith("$ ") or inside:
                    lines.append(line)
                    inside = line.rstrip().endswith("\\")
            printed = "".join(lines) + printed
        text = text[: block.start] + printed.rstrip() + "\n" + text[block.end :]
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    os.environ["COLUMNS"] = "80"
    wanted = [Path(name).resolve() for name in sys.argv[1:]] or pages()
    for each in wanted:
        started = time.perf_counter()
        refresh(each)
        print(f"{each.name}: {time.perf_counter() - started:.1f} s")
