"""A disk that is full: a sentence, nothing half-written, what was there stays, and the same call goes on when there is room."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import riskfront as rf
from riskfront._data.stores.loss_store import LossStore
from riskfront._support.sealed_tensors import save_sealed
from tests.faults.bit_flips import _monitor, _policy, _runs, _table
from tests.support.processes import finished, output

PROBLEM = rf.Problem("error <= 0.3", minimize="cost")
SIZE = 1 << 20


class Disk:
    """A disk of a megabyte, which can be filled up and emptied."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._filler = root / "filler"

    def fill(self, left: int = 0) -> None:
        with open(self._filler, "ab", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                file.truncate(max(0, file.tell() - left))

    def make_room(self) -> None:
        self._filler.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    root = tmp_path / "disk"
    root.mkdir()
    try:
        done = finished(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", root], 20)
    except OSError as error:
        pytest.skip(f"a small disk cannot be mounted here: {error}")
    if done.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {done.stderr.strip()} (root may)")
    try:
        yield Disk(root)
    finally:
        output(["umount", "-l", root], 20)


def _certificate() -> rf.Certificate:
    return rf.calibrate(_table(), PROBLEM)


WRITERS: dict[str, Callable[[Path], Any]] = {
    "certificate": lambda path: _certificate().save(path),
    "report": lambda path: rf.write_report(_certificate(), path),
    "policy": lambda path: _policy().save(path),
    "monitor": lambda path: _monitor().save(path),
    "table": lambda path: _table().save(path),
    "traces": lambda path: save_sealed({"a": np.arange(3000.0)}, path),
    "runs": lambda path: _runs().save(path),
}


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("before", [b"", b"what was there"])
def test_a_file_is_written_whole_or_not_at_all(kind: str, before: bytes, disk: Disk) -> None:
    path = disk.root / ("t.parquet" if kind in ("table", "runs") else "file")
    if before:
        path.write_bytes(before)
    disk.fill()
    with pytest.raises(rf.StoreError, match="No space left"):
        WRITERS[kind](path)
    assert {found.name for found in disk.root.iterdir()} == {"filler", *([path.name] if before else [])}
    assert not before or path.read_bytes() == before
    disk.make_room()
    WRITERS[kind](path)
    assert path.stat().st_size > len(before)


class Losses:
    fingerprint = "full disk"

    def __init__(self, disk: Disk | None = None, after: int = 0) -> None:
        self.disk, self.after, self.calls = disk, after, 0

    def __call__(self, config: dict[str, Any], examples: Any) -> dict[str, Any]:
        self.calls += 1
        if self.disk is not None and self.calls == self.after:
            self.disk.fill(left=8192)
        return {"error": examples < config["level"], "cost": examples * (1 - config["level"])}


EXAMPLES = np.random.default_rng(0).random(900)
SETTINGS = [{"level": i / 100} for i in range(30)]


def test_evaluate_goes_on_when_there_is_room(disk: Disk) -> None:
    store = disk.root / "run.zarr"
    with pytest.raises(rf.StoreError, match="No space left"):
        rf.evaluate(Losses(disk, 12), EXAMPLES, SETTINGS, store=store)
    disk.make_room()
    kept = len(LossStore(store, whole=False))
    assert 0 < kept < 30
    rest = Losses()
    table = rf.evaluate(rest, EXAMPLES, SETTINGS, store=store)
    assert rest.calls == 30 - kept
    assert table.sha256 == rf.evaluate(Losses(), EXAMPLES, SETTINGS).sha256


def test_a_use_that_cannot_be_recorded_is_not_made(disk: Disk) -> None:
    """Nothing is tested before the use of the testing examples is on the disk."""
    space, losses = rf.Space(level=rf.Float(0.0, 0.3)), Losses()
    call: dict[str, Any] = {"search": "random", "budget": 5, "looks": disk.root / "uses"}
    disk.fill()
    with pytest.raises(rf.StoreError, match="No space left"):
        rf.tune(losses, EXAMPLES, space, PROBLEM, **call)
    assert losses.calls == 5, "planning examples only"
    disk.make_room()
    assert rf.tune(Losses(), EXAMPLES, space, PROBLEM, **call).earlier_looks == ()


def test_the_command_line_says_it_in_a_line(disk: Disk, tmp_path: Path) -> None:
    _table().save(tmp_path / "t.parquet")
    disk.fill()
    command = ["calibrate", tmp_path / "t.parquet", "--limit", "error <= 0.3", "--minimize", "cost"]
    done = finished([sys.executable, "-m", "riskfront", *command, "--out", disk.root / "c.json"])
    assert done.returncode == 2
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr
    assert os.listdir(disk.root) == ["filler"]
