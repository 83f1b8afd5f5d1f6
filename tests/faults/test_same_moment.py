"""Two processes put different questions to one store at the same moment: their uses of the testing examples add up."""

from __future__ import annotations

import json
import os
import sys
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.faults import servers
from tests.support.processes import Process, started


def ask(
    store: str, options: dict[str, Any] | None, folder: Path, *, askers: int, delay: float, again: bool
) -> list[Any]:
    """What each of several processes is told when all ask at once."""
    folder.mkdir()
    given = {
        "store": store,
        "options": options,
        "meeting": str(folder),
        "delay": delay,
        "askers": askers,
        "again": again,
    }
    asker = [sys.executable, "-m", "tests.faults.asker"]
    told = []
    with ExitStack() as stack:
        limits = [0.1 + 0.01 * number for number in range(askers)]
        commands = [[*asker, json.dumps({**given, "limit": limit})] for limit in limits]
        for run in [stack.enter_context(started(command)) for command in commands]:
            assert run.wait() == 0, run.err
            told.append(json.loads(run.out.splitlines()[-1]))
    return told


def check(told: list[Any], *, again: bool) -> None:
    answered = [one for one in told if "verdict" in one]
    if again:
        assert sorted(one["earlier"] for one in answered) == list(range(len(told)))
        assert sorted(one["verdict"][:9] for one in answered) == sorted(
            f"With {90 - 10 * i} %" for i in range(len(told))
        )
    else:
        assert len(answered) == 1, told
        assert answered[0]["verdict"].startswith("With 90 % confidence, error")
        assert all("used for 1 other question" in one["refused"] for one in told if "refused" in one)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("delay", [0.0, 0.05])
def test_on_a_disk(tmp_path: Path, delay: float, again: bool) -> None:
    """With 50 ms of delay both certified at full delta."""
    told = ask(str(tmp_path / "run.zarr"), None, tmp_path / "meeting", askers=2, delay=delay, again=again)
    check(told, again=again)


def test_without_links_between_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many who create one file on a file system that has no links, one succeeds, and all read it whole."""
    from concurrent.futures import ThreadPoolExecutor

    from riskfront._data.stores.storage import LocalStorage

    def no_links(*_: Any) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", no_links)
    storage = LocalStorage(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda number: storage.create("uses/0000.json", b"%d" % number), range(8)))
    assert sum(made) == 1
    assert storage.read("uses/0000.json") == b"%d" % made.index(True)


def test_in_object_storage(tmp_path: Path) -> None:
    """4 of 4 pairs certified at full delta."""
    with servers.s3() as options:
        for again in (False, True):
            store, meeting = f"s3://bucket/{again}.zarr", tmp_path / str(again)
            check(ask(store, options, meeting, askers=3, delay=0.02, again=again), again=again)


OF_TEXTS = """
import sys, time
from pathlib import Path
from riskfront._calibration.certificates.uses_of_test_set import UseOfTestSet
from riskfront._data.identity.fingerprints import TEXT_BYTES
from riskfront.transformers import _certifying as certifying
from tests.faults.asker import meet

folder, me = Path(sys.argv[1]), int(sys.argv[2])
real = certifying.save_contents

def at_the_same_moment(*given):  # both have looked which texts are known, and found none
    meet(folder / "meeting", str(me), 2)
    time.sleep(0.05 * me)
    real(*given)

certifying.save_contents = at_the_same_moment
texts = [number.to_bytes(TEXT_BYTES, "big") for number in range(50 * me, 50 * me + 100)]
print(len(certifying.record_question(folder / "model", texts, UseOfTestSet(f"question {me}", "a question", 0.1))))
"""


def test_texts_that_overlap_in_one_accelerated_folder(tmp_path: Path) -> None:
    """Two seeds draw texts of one file, half of them the same: neither knew of the other."""
    pytest.importorskip("torch")
    (tmp_path / "meeting").mkdir()
    (tmp_path / "model").mkdir()
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    with ExitStack() as stack:
        commands = [[sys.executable, "-c", OF_TEXTS, tmp_path, me] for me in (0, 1)]
        both = [stack.enter_context(started(command, env=path)) for command in commands]
        assert [run.wait() for run in both] == [0, 0], both[0].err + both[1].err
        assert max(int(run.out) for run in both) == 1, "the later one counts the question of the earlier one"


def test_processes_with_one_state(tmp_path: Path) -> None:
    """The one that wrote last would have forgotten the examples of the other."""
    import numpy as np
    import pandas as pd

    import riskfront as rf

    for day in (0, 1):
        rows = [{"k": k, "example": f"{day}-{i}", "cost": 1 - k / 4} for k in range(3) for i in range(60)]
        wrong = np.random.default_rng(day).random(len(rows)) < 0.05
        pd.DataFrame(rows).assign(error=wrong.astype(int)).to_csv(tmp_path / f"{day}.csv", index=False)
    question = ["--limit", "error <= 0.3", "--minimize", "cost", "--sequential", "s.json", "--examples", "300"]

    def told(day: int) -> AbstractContextManager[Process]:
        return started([sys.executable, "-m", "riskfront", "calibrate", f"{day}.csv", *question], cwd=tmp_path)

    with told(0) as first, told(1) as second:
        refused = [day for day, run in enumerate((first, second)) if run.wait() == 2]
        for run in (first, second):
            assert run.status() in (0, 1) or "one process at a time may use a state" in " ".join(run.err.split())
    for day in refused:
        with told(day) as again:
            assert again.wait() in (0, 1), again.err
    assert rf.Sequential.load(tmp_path / "s.json").n_told == 2 * 3 * 60


def test_storage_that_cannot_reserve(tmp_path: Path) -> None:
    """A server that ignores the condition of a conditional put is found out."""
    import fsspec
    import numpy as np
    from fsspec.implementations.memory import MemoryFileSystem

    import riskfront as rf

    class Careless(MemoryFileSystem):
        def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **more: Any) -> None:
            super().pipe_file(path, value, **more)

    from riskfront._data.stores.open_storage import RemoteStorage

    storage = RemoteStorage("memory://careless", {})
    assert storage.exclusive
    storage = RemoteStorage("memory://careless", {})
    storage._files = Careless()
    assert not storage.exclusive
    fsspec.register_implementation("careless", Careless, clobber=True)

    class Coins:
        fingerprint = "careless"

        def __call__(self, config: dict[str, Any], examples: Any) -> dict[str, Any]:
            return {"error": examples < 0.01, "cost": np.full(len(examples), config["k"] / 400)}

    given: Any = (Coins(), np.random.default_rng(3).random(300), rf.Space(k=rf.Int(0, 9)))
    problem = rf.Problem(["error <= 0.1"], minimize=["cost"])
    with pytest.raises(rf.StoreError, match="create an object only if there is none"):
        rf.tune(*given, problem, search="grid", store="careless://run")
    assert rf.tune(*given, problem, search="grid", store="careless://run", looks=tmp_path / "uses")
