"""Every code block of README and site: Python runs, riskfront commands run, and what is shown is what is printed."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, blocks, pages
from tests.docs.running import run_page
from tests.support.clusters import no_process_stays

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
WITH_CODE = [page for page in pages() if any(block.language in ("python", "console") for block in blocks(page))]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    with no_process_stays(after_errors_only=True):  # a server that a page starts, and would stop further down
        for _, said, printed in run_page(page, tmp_path):
            assert doctest.OutputChecker().check_output(said, printed, FLAGS), (
                f"{page.name} says:\n{said}\nprinted:\n{printed}"
            )


def test_a_wrong_output_is_noticed(tmp_path: Path) -> None:
    assert not doctest.OutputChecker().check_output("With 90 % confidence\n", "With 95 % confidence\n", FLAGS)


def test_most_blocks_run() -> None:
    """Blocks that only stand to be read are the exception."""
    code = [block for page in WITH_CODE for block in blocks(page) if block.language in ("python", "console")]
    assert sum(block.runs for block in code) > 0.8 * len(code)
