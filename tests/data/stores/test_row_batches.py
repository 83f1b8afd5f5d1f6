"""In object storage, rows that are written together share their objects; none is lost, overwritten or half-read."""

from __future__ import annotations

import os
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riskfront._data.stores import row_batches
from riskfront._data.stores import stored_rows as rows
from riskfront._data.stores.loss_store import LossStore
from riskfront._data.stores.open_storage import RemoteStorage
from riskfront._data.stores.task import Task
from riskfront.errors import StoreError
from tests.support.processes import wait_until

zarr = pytest.importorskip("zarr", reason="stores need zarr 3, which needs Python 3.11")
N = 50


def row(i: int, missing: bool = False) -> dict[str, Any]:
    random = np.random.default_rng(i)
    cost: Any = random.random(N)
    return {
        "error": random.random(N) < 0.3,
        "cost": np.ma.MaskedArray(cost, random.random(N) < 0.2) if missing else cost,
    }


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"memory://{tmp_path.name}/run.zarr"


def store(url: str) -> LossStore:
    return LossStore(url, Task(N, {"code": "c"}, {"half": np.arange(N) % 2}))


def check(found: LossStore, settings: range, missing: bool = False) -> None:
    table = found.table([{"i": i} for i in settings])
    for place, i in enumerate(settings):
        cost = row(i, missing and i % 3 == 0)["cost"]
        np.testing.assert_array_equal(table.losses("error")[place], row(i)["error"])
        np.testing.assert_array_equal(table.losses("cost")[place], np.ma.filled(cost, np.nan))


@pytest.mark.parametrize("missing", [False, True])
def test_rows_that_wait_are_read_and_rows_that_are_written_too(
    url: str, missing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "_TOGETHER", 7)
    written: list[int] = []
    real = RemoteStorage.write_all
    monkeypatch.setattr(RemoteStorage, "write_all", lambda self, found: (written.append(len(found)), real(self, found)))
    here = store(url)
    with here.writing_together():
        for i in range(40):
            here.write({"i": i}, row(i, missing and i % 3 == 0))
            check(here, range(max(0, i - 9), i + 1), missing)
    assert len(written) <= 1 + missing + 6
    for i in range(40, 45):  # each at once
        here.write({"i": i}, row(i, missing and i % 3 == 0))
        assert len(LossStore(url)) == i + 1
    check(LossStore(url), range(45), missing)
    group = zarr.open_group(url, mode="r")
    for marker in LossStore(url)._markers.values():
        found = group[f"{marker.part}/error"][marker.row]
        np.testing.assert_array_equal(found, row(int(marker.config["i"]))["error"])
        if marker.losses["cost"].missing:
            gaps = group[f"{marker.part.replace('parts', 'missing')}/cost"][marker.row]
            np.testing.assert_array_equal(gaps, np.ma.getmaskarray(row(int(marker.config["i"]), True)["cost"]))


def test_a_row_waits_for_others_no_longer_than_a_moment(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_batches, "_SECONDS", 0.05)
    here = store(url)
    with here.writing_together():
        for i in range(3):
            here.write({"i": i}, row(i))
            wait_until(lambda i=i: len(LossStore(url)) > i, "the clock has written the row")
            check(LossStore(url), range(i + 1))
    check(here, range(3))


def test_writers_flush_while_others_write(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock may write a batch at any moment, also between the rows that it was about to have."""
    monkeypatch.setattr(row_batches, "_SECONDS", 0.0005)
    here = store(url)
    with here.writing_together():
        for i in range(300):
            here.write({"i": i}, row(i))
    check(LossStore(url), range(300))


def test_an_error_keeps_what_waits(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_batches, "_SECONDS", 0.05)
    here, real, tried = store(url), RemoteStorage.write_all, threading.Event()

    def down(self: RemoteStorage, objects: Any) -> None:
        by_the_clock = threading.current_thread() is not threading.main_thread()
        if not by_the_clock and not tried.is_set():
            return real(self, objects)  # what describes a batch, before its first row waits
        tried.set()
        raise StoreError("the service is down")

    monkeypatch.setattr(RemoteStorage, "write_all", down)
    with pytest.raises(StoreError, match="down"), here.writing_together():  # noqa: PT012
        here.write({"i": 0}, row(0))
        assert tried.wait(timeout=60), "the clock tries"
        here.write({"i": 1}, row(1))
    assert len(LossStore(url)) == 0
    monkeypatch.setattr(RemoteStorage, "write_all", real)
    with here.writing_together():
        here.write({"i": 2}, row(2))
    check(LossStore(url), range(3))


def test_what_was_written_before_an_error_of_others_is_in_the_store(url: str) -> None:
    here = store(url)
    with pytest.raises(KeyboardInterrupt), here.writing_together():  # noqa: PT012
        for i in range(5):
            here.write({"i": i}, row(i))
        raise KeyboardInterrupt
    check(LossStore(url), range(5))


def test_another_process_gets_all(url: str) -> None:
    here = store(url)
    with here.writing_together():
        for i in range(5):
            here.write({"i": i}, row(i))
        table = pickle.loads(pickle.dumps(here.table([{"i": i} for i in range(5)], lazy=True)))  # noqa: S301
        assert len(LossStore(url)) == 5
        np.testing.assert_array_equal(table.losses("cost")[3], row(3)["cost"])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_leaves_to_its_parent_what_waits_there(tmp_path: Path) -> None:
    url, options = f"local://{tmp_path}/run.zarr", {"auto_mkdir": True}
    here = LossStore(url, Task(N, {"code": "c"}), storage_options=options)
    with here.writing_together():
        here.write({"i": 0}, row(0))
        child = os.fork()
        if not child:
            with here.writing_together():
                here.write({"i": 1}, row(1))
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        here.write({"i": 2}, row(2))
    check(LossStore(url, storage_options=options), range(3))


def test_a_batch_of_markers_that_lost_its_end(url: str) -> None:
    here = store(url)
    with here.writing_together():
        for i in range(5):
            here.write({"i": i}, row(i))
    storage = here.storage
    (name,) = [name for name in storage.names("done") if name.endswith(".jsonl")]
    text = storage.read(f"done/{name}") or b""
    lines = text.splitlines(keepends=True)
    for damaged in (text[:-9], b"".join(lines[:-1]), b"", b"\n" * 5):
        storage.write(f"done/{name}", damaged)
        with pytest.raises(StoreError, match="must hold"):
            LossStore(url)


def test_another_type_begins_another_part(url: str) -> None:
    here = store(url)
    with here.writing_together():
        for i in range(6):
            found = row(i)
            here.write({"i": i}, {**found, "error": found["error"].astype(float) / 2 if i % 2 else found["error"]})
    table = LossStore(url).table([{"i": i} for i in range(6)])
    np.testing.assert_array_equal(table.losses("error")[3], row(3)["error"] / 2)
