"""Tables larger than memory: the store on disk is the table in memory, made once, resumed, reused, and never half-written."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import riskfront as rf
from riskfront._data.reading import long_format, on_disk
from riskfront._data.reading.sources import read_table
from tests.support.clusters import dask_cluster
from tests.support.processes import output, started, wait_until

LAYOUT = long_format.Layout(("a", "b"), "example")
PROBLEM = rf.Problem([rf.Limit("error", at_most=0.3), rf.Limit("error", at_most=0.5, per="label")], minimize="cost")


@pytest.fixture(autouse=True)
def small_memory(tmp_path: Path, monkeypatch: Any) -> Path:
    """Tables larger than nothing go to the disk, in pieces of some rows."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(long_format, "IN_MEMORY", 0)
    monkeypatch.setattr(on_disk, "_PIECE_ROWS", 400)
    monkeypatch.setattr(on_disk, "_BLOCK_BYTES", 2000)
    return tmp_path / "cache" / "riskfront" / "tables"


def rows(order: str = "shuffled", gaps: bool = True) -> pd.DataFrame:
    random = np.random.default_rng(0)
    data = pd.DataFrame([(a, b, i) for a in range(5) for b in "xy" for i in range(120)], columns=["a", "b", "example"])
    data["label"] = np.array(["p", "q", "r"])[data["example"] % 3]
    data["error"] = (random.random(len(data)) < 0.1).astype(np.int64)
    data["cost"] = random.random(len(data)).astype(np.float32)
    if gaps:
        data.loc[random.choice(len(data), 40, replace=False), "cost"] = np.nan
        data["error"] = data["error"].astype("Int64").mask(random.random(len(data)) < 0.02)
        data = data.drop(index=random.choice(len(data), 7, replace=False))
    if order == "example":
        data = data.sort_values(["example", "a", "b"])
    return data.sample(frac=1, random_state=0) if order == "shuffled" else data


def written(data: pd.DataFrame, folder: Path, files: int = 3) -> Path:
    folder.mkdir(exist_ok=True)
    for part in range(files):
        own = pa.Table.from_pandas(data.iloc[part::files] if files > 3 else data.iloc[_cut(data, part, files)])
        pq.write_table(own, folder / f"{part}.parquet", row_group_size=150)
    return folder


def _cut(data: pd.DataFrame, part: int, files: int) -> slice:
    return slice(len(data) * part // files, len(data) * (part + 1) // files)


def in_memory(folder: Path, monkeypatch: Any, **options: Any) -> rf.LossTable:
    with monkeypatch.context() as patch:
        patch.setattr(long_format, "IN_MEMORY", 1 << 40)
        return read_table(folder, PROBLEM, layout=LAYOUT, **options)[0]


def same(one: rf.LossTable, other: rf.LossTable) -> bool:
    """Whether two tables hold the same settings, groups and outcomes, in the same order."""
    for name in one.loss_names:
        np.testing.assert_array_equal(one.losses(name), other.losses(name))
    for name in one.group_names:
        assert one.group(name).levels == other.group(name).levels
        np.testing.assert_array_equal(one.group(name).codes, other.group(name).codes)
    return bool(one.configs.equals(other.configs.astype(one.configs.dtypes))) and one.intake == other.intake


@pytest.mark.filterwarnings("ignore::riskfront.errors.LeftOutWarning")
@pytest.mark.parametrize("order", ["setting", "example", "shuffled"])
@pytest.mark.parametrize("gaps", [False, True])
def test_the_store_on_disk_is_the_table_in_memory(order: str, gaps: bool, tmp_path: Path, monkeypatch: Any) -> None:
    folder = written(rows(order, gaps), tmp_path / "rows", 4 if order == "shuffled" else 3)
    large, _ = read_table(folder, PROBLEM, layout=LAYOUT)
    assert large.is_lazy
    assert same(in_memory(folder, monkeypatch), large)
    certificate, small = rf.calibrate(large, PROBLEM), rf.calibrate(in_memory(folder, monkeypatch), PROBLEM)
    assert certificate
    assert (certificate.config, certificate.intake) == (small.config, small.intake)
    pd.testing.assert_frame_equal(certificate.tested, small.tested)


def test_losses_that_are_declared_0_1_and_categories_that_no_example_has(tmp_path: Path, monkeypatch: Any) -> None:
    data = rows("example", gaps=False)
    data["error"] = data["error"].astype(np.float64)
    data["label"] = pd.Categorical(data["label"], categories=["p", "q", "r", "never"])
    folder = written(data, tmp_path / "rows")
    large, _ = read_table(folder, PROBLEM, layout=LAYOUT, binary=["error"])
    assert large.is_binary("error")
    assert "never" in large.group("label").levels
    assert same(in_memory(folder, monkeypatch, binary=["error"]), large)
    data.loc[data.index[17], "error"] = 0.5
    with pytest.raises(rf.InvalidInputError, match=r"'error' holds 0\.5"):
        read_table(written(data, tmp_path / "other"), PROBLEM, layout=LAYOUT, binary=["error"])


@pytest.mark.slow
def test_it_is_made_once_and_made_anew_when_a_file_changes(
    tmp_path: Path, monkeypatch: Any, small_memory: Path
) -> None:
    folder = written(rows(), tmp_path / "rows")
    read_table(folder, PROBLEM, layout=LAYOUT)
    (made,) = small_memory.iterdir()
    assert sorted(path.name for path in made.iterdir()) == ["done.json", "store"]
    with monkeypatch.context() as patch:
        patch.setattr(on_disk, "_convert", lambda work: pytest.fail("it is there already"))
        read_table(folder, PROBLEM, layout=LAYOUT)
    changed = pd.read_parquet(folder / "1.parquet")
    changed["error"] = 1 - changed["error"]
    pq.write_table(pa.Table.from_pandas(changed), folder / "1.parquet", row_group_size=150)
    assert same(in_memory(folder, monkeypatch), read_table(folder, PROBLEM, layout=LAYOUT)[0])
    (anew,) = small_memory.iterdir()  # what was made of the old files is gone
    assert anew.name != made.name


@pytest.mark.parametrize("step", ["sort_piece", "merge", "write_settings"])
def test_a_run_that_was_stopped_goes_on_where_it_was(
    step: str, tmp_path: Path, monkeypatch: Any, small_memory: Path
) -> None:
    folder, done, plain = written(rows(), tmp_path / "rows"), [0], getattr(on_disk, step)

    def stopped(*given: Any) -> Any:
        done[0] += 1
        if done[0] == (2 if step != "merge" else 1):
            raise KeyboardInterrupt
        return plain(*given)

    with monkeypatch.context() as patch:
        patch.setattr(on_disk, step, stopped)
        with pytest.raises(KeyboardInterrupt):
            read_table(folder, PROBLEM, layout=LAYOUT)
    (begun,) = small_memory.iterdir()
    assert not (begun / "done.json").exists()
    before = {path: path.stat().st_mtime_ns for path in (begun / "pieces").glob("*/piece.json")}
    assert len(before) == (1 if step == "sort_piece" else len(on_disk.pieces_of(_source(folder))))
    changed = next(begun.glob("pieces/*/example"))
    if step == "merge":  # a piece that was damaged meanwhile is sorted again
        before.pop(changed.with_name("piece.json"))
        changed.write_bytes(bytes([changed.read_bytes()[0] ^ 1]) + changed.read_bytes()[1:])
    for counted in begun.glob("counts/*"):
        counted.write_bytes(counted.read_bytes().replace(b'"rows": ', b'"rows": 1'))
    plain_rmtree = shutil.rmtree
    monkeypatch.setattr(
        on_disk.shutil, "rmtree", lambda path, **given: path.parent.name == "pieces" and plain_rmtree(path, **given)
    )
    assert same(in_memory(folder, monkeypatch), read_table(folder, PROBLEM, layout=LAYOUT)[0])
    assert all(path.stat().st_mtime_ns == changed for path, changed in before.items())


def _source(folder: Path) -> Any:
    from riskfront._data.reading.opening import from_path

    return from_path(folder)


def test_an_interrupt_inside_a_piece_leaves_nothing(tmp_path: Path, monkeypatch: Any, small_memory: Path) -> None:
    folder = written(rows(), tmp_path / "rows")

    def stopped(begun: Path, *_: Any) -> None:
        (begun / "example").write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(on_disk, "sort_rows", stopped)
    with pytest.raises(KeyboardInterrupt):
        read_table(folder, PROBLEM, layout=LAYOUT)
    (begun,) = small_memory.iterdir()
    assert [path for path in begun.rglob("*") if path.is_file()] == []


@pytest.mark.slow
def test_a_process_that_is_killed_is_resumed(tmp_path: Path) -> None:
    """A real process and a real signal, at some moment of the conversion."""
    folder = written(rows("example"), tmp_path / "rows")
    code = (
        "import sys, time; from riskfront._data.reading import long_format, on_disk, sources; import riskfront as rf\n"
        "long_format.IN_MEMORY, on_disk._PIECE_ROWS, on_disk._BLOCK_BYTES = 0, 400, 2000\n"
        "step, calls = on_disk.write_settings, iter((0.0, float(sys.argv[2])))\n"
        "on_disk.write_settings = lambda *given: (time.sleep(next(calls, 0.0)), step(*given))[1]\n"
        "problem = rf.Problem(['error <= 0.3', 'error <= 0.5 per label'], minimize='cost')\n"
        "layout = long_format.Layout(('a', 'b'), 'example')\n"
        "print(sources.read_table(sys.argv[1], problem, layout=layout)[0].sha256)"
    )

    command, counts = [sys.executable, "-c", code, folder], tmp_path / "cache" / "riskfront" / "tables"
    with started([*command, "100"]) as killed:
        wait_until(lambda: list(counts.glob("*/counts/*")) or killed.status() is not None, "a piece is counted")
        killed.send(signal.SIGKILL)
        assert killed.wait() == -signal.SIGKILL
    assert not list(counts.glob("*/done.json"))
    said = output([*command, "0"])
    assert said.strip() == read_table(folder, PROBLEM, layout=LAYOUT)[0].sha256


def test_a_disk_without_room_is_named_before_anything_is_read(tmp_path: Path, monkeypatch: Any) -> None:
    folder = written(rows(), tmp_path / "rows")
    monkeypatch.setattr(on_disk.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 10})())
    with pytest.raises(rf.StoreError, match=r"needs about .* GB of disk while it is sorted; .*XDG_CACHE_HOME"):
        read_table(folder, PROBLEM, layout=LAYOUT)


def test_a_cluster_converts_the_same_table(tmp_path: Path, monkeypatch: Any) -> None:
    """A Dask cluster of two worker processes: a task a piece, and a task a block of settings."""
    import joblib

    folder = written(rows(), tmp_path / "rows")
    here = in_memory(folder, monkeypatch)
    with dask_cluster(), joblib.parallel_config(backend="dask"):
        large, _ = read_table(folder, PROBLEM, layout=LAYOUT)
    made = {path.stem.split(".")[0] for path in (large_store(tmp_path) / "done").glob("*.jsonl")}
    assert len(made) > 1  # more than one process wrote settings
    assert same(here, large)


def large_store(tmp_path: Path) -> Path:
    (found,) = (tmp_path / "cache" / "riskfront" / "tables").glob("*/store")
    return found


@pytest.mark.parametrize("where", ["label == q", "a <= 2", ["label in p, q", "b == x"], "example < 5"])
@pytest.mark.parametrize("order", ["setting", "shuffled"])
def test_filters_leave_the_same_rows_as_in_memory(tmp_path: Path, monkeypatch: Any, where: Any, order: str) -> None:
    folder = written(rows(order), tmp_path / "data")
    found, _ = read_table(folder, PROBLEM, layout=LAYOUT, where=where)
    assert found.is_lazy
    assert same(in_memory(folder, monkeypatch, where=where), found)
    assert sum(found.intake.left_out.values()) == len(rows(order)) - found.intake.used > 0
    again, _ = read_table(folder, PROBLEM, layout=LAYOUT)
    assert again.intake.left_out == {}


def test_rows_that_a_filter_leaves_go_to_memory_if_they_fit(tmp_path: Path, monkeypatch: Any) -> None:
    folder = written(rows("setting"), tmp_path / "data")
    monkeypatch.setattr(long_format, "IN_MEMORY", 2500)
    assert read_table(folder, PROBLEM, layout=LAYOUT)[0].is_lazy
    assert not read_table(folder, PROBLEM, layout=LAYOUT, where="example < 9")[0].is_lazy


def test_a_file_behind_a_url_that_was_written_again_is_read_again(tmp_path: Path) -> None:
    """With as many rows as before: the store of the old rows must not answer for the new ones."""
    remote, data = fsspec.filesystem("memory"), rows(gaps=False)
    url = f"memory://{tmp_path.name}/losses.parquet"
    for error in (0, 1, 0):
        with remote.open(url, "wb") as file:
            data.assign(error=error).to_parquet(file)
        table, _ = read_table(url, PROBLEM)
        assert table.losses("error").mean() == error


def test_files_that_change_while_they_are_read_are_refused(
    tmp_path: Path, monkeypatch: Any, small_memory: Path
) -> None:
    folder, real = written(rows(), tmp_path / "lake"), on_disk.merge

    def written_meanwhile(work: Any, count: int) -> Any:
        (folder / "2.parquet").write_bytes((folder / "2.parquet").read_bytes())
        return real(work, count)

    monkeypatch.setattr(on_disk, "merge", written_meanwhile)
    with pytest.raises(rf.RiskfrontError, match="files must stay as they are while they are read"):
        read_table(folder, PROBLEM, layout=LAYOUT)
    monkeypatch.undo()


def with_status(data: pd.DataFrame) -> pd.DataFrame:
    return data.assign(status=data.groupby("example")["error"].transform("mean"))


REFUSED: dict[str, tuple[Callable[[pd.DataFrame], pd.DataFrame], str | tuple[()], str]] = {
    "a row twice": (lambda d: pd.concat([d, d.iloc[[3]]]), (), "exactly one row for each example"),
    "an example of two groups": (
        lambda d: d.assign(label=np.where(np.arange(len(d)) == 7, "another", d["label"])),
        (),
        "group 'label' must have one value for each example",
    ),
    "no group": (lambda d: d.assign(label=None), (), "group 'label' must have a value for every example"),
    "an infinite cost": (
        lambda d: d.assign(cost=d["cost"].where(d.index != 7, np.inf)),
        (),
        "loss 'cost' must be finite",
    ),
    "a setting that is a date": (
        lambda d: d.assign(a=pd.Timestamp("2024-01-01")),
        (),
        "setting values must be finite numbers, texts or booleans",
    ),
    "a filter by an outcome": (with_status, "status <= 0.1", "'status' is an outcome, or computed from one"),
    "a filter by what does not occur": (with_status, "label in p, z", "every value of a filter must occur"),
    "a filter that leaves nothing": (with_status, "a > 9", "a filter must leave some rows"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str, tmp_path: Path, small_memory: Path) -> None:
    change, where, words = REFUSED[case]
    folder = written(change(rows("setting", gaps=False)), tmp_path / "rows")
    with pytest.raises(rf.InvalidInputError, match=words):
        read_table(folder, PROBLEM, layout=LAYOUT, where=where)
    assert not list(small_memory.glob("*/done.json"))
