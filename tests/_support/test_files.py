"""Files are written whole or not at all."""

import os
import tempfile
from pathlib import Path

import pytest

from riskfront._support.files import write_text, written_whole
from riskfront.errors import StoreError


def test_a_whole_file(tmp_path: Path) -> None:
    target = tmp_path / "a.json"
    write_text(target, "größer")
    assert target.read_text(encoding="utf-8") == "größer"
    write_text(target, "again")
    assert target.read_text() == "again"
    assert os.listdir(tmp_path) == ["a.json"]


def test_permissions_are_those_of_any_new_file(tmp_path: Path) -> None:
    write_text(tmp_path / "a", "x")
    (tmp_path / "b").write_text("x")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def write_and_fail(path: Path) -> None:
    with written_whole(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "a.json"
    target.write_text("old")
    with pytest.raises(RuntimeError):
        write_and_fail(target)
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.json"]


def test_bad_targets(tmp_path: Path) -> None:
    with pytest.raises(
        StoreError, match=r"directory of an output must exist; .*nowhere' does not\. Create it first"
    ) as caught:
        write_text(tmp_path / "nowhere" / "a.json", "x")
    assert isinstance(caught.value, OSError)
    with pytest.raises(StoreError, match=r"is a directory. Give a file name in it"):
        write_text(tmp_path, "x")


def test_a_directory_that_may_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    with pytest.raises(StoreError, match=r"cannot write in .*: Permission denied"):
        write_text(tmp_path / "a.json", "x")
