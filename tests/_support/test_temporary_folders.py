"""Temporary folders: gone in the end, and those of killed processes at the next start."""

import sys
import tempfile
from pathlib import Path

import pytest

from riskfront._support.files import scratch_folder
from tests.support.processes import started

HOLD = """
import sys, time
from riskfront._support.files import scratch_folder
with scratch_folder() as folder:
    (folder / "payload").write_text("examples")
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_a_folder_is_removed_in_the_end(temporary: Path) -> None:
    with scratch_folder() as folder:
        (folder / "payload").touch()
        assert folder.parent == temporary
    assert not list(temporary.iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="needs locks that end with their process")
def test_folders_of_killed_processes_are_removed_and_no_others(temporary: Path) -> None:
    (temporary / "riskfront-of-someone").mkdir()
    with started([sys.executable, "-c", HOLD]) as run:
        held = Path(run.line(str.strip))
        with scratch_folder():
            assert (held / "payload").exists(), "its process lives"
        run.kill()
    assert held.exists()
    with scratch_folder() as folder:
        assert not held.exists()
        assert folder.exists()
    assert [path.name for path in temporary.iterdir()] == ["riskfront-of-someone"]
