"""Texts that take long to make are kept for the next process."""

from __future__ import annotations

from pathlib import Path

import pytest

from riskfront._support.files import cache_folder, remembered


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_made_once(home: Path) -> None:
    made: list[int] = []

    def make() -> str:
        made.append(1)
        return "first line\nsecond </line>\n"

    assert [remembered("text.js", make) for _ in range(3)] == ["first line\nsecond </line>\n"] * 3
    assert len(made) == 1
    assert cache_folder() == home / "riskfront"
    assert (home / "riskfront" / "text.js").is_file()


@pytest.mark.parametrize("damage", [b"", b"abc", b"\xff\xfe", b"0" * 64 + b"\nother text"])
def test_a_damaged_file_is_made_again(home: Path, damage: bytes) -> None:
    remembered("text.js", lambda: "good")
    (home / "riskfront" / "text.js").write_bytes(damage)
    assert remembered("text.js", lambda: "good again") == "good again"
    assert remembered("text.js", lambda: pytest.fail("it is there")) == "good again"


def test_where_nothing_can_be_kept_it_is_made_each_time(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "riskfront").write_text("a file stands where the folder should be")
    assert remembered("text.js", lambda: "made") == "made"


def test_other_systems_have_other_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for platform, place in (("linux", ".cache"), ("darwin", "Library/Caches")):
        monkeypatch.setattr("sys.platform", platform)
        assert cache_folder() == tmp_path / place / "riskfront"
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert cache_folder() == tmp_path / "local" / "riskfront"
