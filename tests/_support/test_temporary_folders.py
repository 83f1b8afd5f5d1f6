"""Temporary folders: gone in the end, and those of killed processes at the next start."""

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from riskfront._support.files import scratch_folder

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
    run = subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    held = Path(run.stdout.readline().strip())
    with scratch_folder():
        assert (held / "payload").exists(), "its process lives"
    run.send_signal(signal.SIGKILL)
    run.communicate()
    assert held.exists()
    with scratch_folder() as folder:
        assert not held.exists()
        assert folder.exists()
    assert [path.name for path in temporary.iterdir()] == ["riskfront-of-someone"]
