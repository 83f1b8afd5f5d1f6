"""LossStore: complete rows only, many writers, one task, the same table lazily and in memory."""

import importlib.util
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import riskfront as rf
from riskfront._data.stores import header
from riskfront._data.stores.loss_store import LossStore
from riskfront._data.stores.storage import Storage
from riskfront._data.stores.task import Task
from riskfront._problems.spaces.space import config_id
from riskfront._support.object_digest import fingerprint_code, fingerprint_data
from riskfront.errors import InvalidInputError, RiskfrontError, StoreError
from tests.support.processes import output, started

zarr = pytest.importorskip("zarr", reason="stores need zarr 3, which needs Python 3.11")

N = 400


def task(n: int = N, **identity: str) -> Task:
    labels = np.array(["a", "b", "c"])[np.arange(n) % 3]
    return Task(
        n, {"code": "c", "examples": "e", **identity}, {"label": labels, "half": np.arange(n) % 2}, {"cost": (0, 2)}
    )


def row(i: int, n: int = N) -> dict[str, np.ndarray]:
    random = np.random.default_rng(i)
    return {
        "error": random.random(n) < 0.2 * i / 40,
        "cost": np.float32(2 / (1 + i)) * random.random(n, dtype=np.float32),
    }


@pytest.fixture(params=["local", "file", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    local = str(tmp_path / "run.zarr")
    return {"local": local, "file": f"file://{local}", "memory": f"memory://{tmp_path.name}/run.zarr"}[request.param]


@pytest.fixture
def filled(url: str) -> LossStore:
    store = LossStore(url, task())
    for i in range(40):
        store.write({"i": i, "kind": "x"}, row(i))
    return store


def problem() -> rf.Problem:
    limits = [
        rf.Limit("error", at_most=0.2),
        rf.Limit("error", at_most=0.35, per="label"),
        rf.Limit("cost", at_most=1.5),
    ]
    return rf.Problem(limits, minimize="cost")


def test_what_is_written_is_read_by_a_new_store_and_by_zarr(filled: LossStore) -> None:
    store = LossStore(filled.url)
    assert len(store) == 40
    assert {"i": 7, "kind": "x"} in store
    assert {"i": 99, "kind": "x"} not in store
    configs = [{"i": i, "kind": "x"} for i in (5, 3)]
    table = store.table(configs)
    np.testing.assert_array_equal(table.losses("error"), [row(5)["error"], row(3)["error"]])
    np.testing.assert_array_equal(table.losses("cost"), [row(5)["cost"], row(3)["cost"]])
    assert table.bounds("cost") == (0, 2)
    assert table.group("label").levels == ("a", "b", "c")
    group = zarr.open_group(filled.url, mode="r")
    marker = store._markers[config_id(configs[0])]
    np.testing.assert_array_equal(group[f"{marker.part}/cost"][marker.row], row(5)["cost"])


def test_lazy_and_in_memory_tables_give_one_certificate_and_one_fingerprint(filled: LossStore) -> None:
    lazy, held = filled.table(lazy=True), filled.table(lazy=False)
    assert lazy.is_lazy
    assert not held.is_lazy
    certificates = [rf.calibrate(table, problem(), seed=3) for table in (lazy, held)]
    said = [replace(found, data_sha256="", earlier_looks=()).to_dict() for found in certificates]
    assert said[0] == said[1]
    assert lazy.sha256 == held.sha256 == certificates[0].data_sha256
    assert all(table.has_fingerprint(found.data_sha256) for table in (lazy, held) for found in certificates)
    assert rf.verify(certificates[0], filled.table(lazy=True)) == []


def test_experiments_run_on_a_lazy_table(filled: LossStore) -> None:
    found = [
        rf.experiment.run(filled.table(lazy=lazy), problem(), methods=["pareto-testing", "holm"], trials=5)
        for lazy in (True, False)
    ]
    assert found[0].equals(found[1])


def test_blocks_cover_every_setting_once(filled: LossStore) -> None:
    seen = [
        (config["i"], losses)
        for configs, block in filled.blocks("cost", rows=7)
        for config, losses in zip(configs, block, strict=True)
    ]
    assert sorted(i for i, _ in seen) == list(range(40))
    for i, losses in seen:
        np.testing.assert_array_equal(losses, row(i)["cost"])


def test_windows_are_read_ahead_in_order(filled: LossStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("riskfront._data.stores.lazy_column._WINDOW_BYTES", 5 * N * 4)  # five rows of the float column
    lazy, held = filled.table(lazy=True), filled.table(lazy=False)
    column = lazy._sample.column("cost")
    pieces = [column[slice(start, start + 3)] for start in range(0, 40, 3)]
    np.testing.assert_array_equal(np.concatenate(pieces), held.losses("cost"))
    assert lazy.sha256 == held.sha256


def test_rows_without_a_marker_do_not_exist(tmp_path: Path) -> None:
    store = LossStore(tmp_path / "run.zarr", task())
    store.write({"i": 1}, row(1))
    store.write({"i": 2}, row(2))
    (lines,) = (tmp_path / "run.zarr" / "done").glob("*.jsonl")
    lines.write_bytes(lines.read_bytes()[:-5])  # killed while writing the last line
    again = LossStore(tmp_path / "run.zarr", task())
    assert again.configs == [{"i": 1}]
    again.write({"i": 2}, row(3))
    np.testing.assert_array_equal(again.table([{"i": 2}]).losses("cost")[0], row(3)["cost"])


def test_a_setting_is_never_written_over(filled: LossStore) -> None:
    filled.write({"i": 4, "kind": "x"}, row(5))
    np.testing.assert_array_equal(filled.table([{"i": 4, "kind": "x"}]).losses("cost")[0], row(4)["cost"])


def test_damage_is_found(tmp_path: Path) -> None:
    store = LossStore(tmp_path / "run.zarr", task())
    store.write({"i": 1}, row(1))
    chunk = next((tmp_path / "run.zarr" / "parts").glob("*/cost/0.0"))
    chunk.write_bytes(bytes(chunk.stat().st_size))
    with pytest.raises(StoreError, match="SHA-256 differs"):
        store.table()
    chunk.write_bytes(b"short")
    with pytest.raises(StoreError, match="must have at least 1600 bytes; got 5"):
        store.table()
    (lines,) = (tmp_path / "run.zarr" / "done").glob("*.jsonl")
    lines.write_text('{"config"\n')
    with pytest.raises(StoreError, match="damaged"):
        LossStore(tmp_path / "run.zarr")


def test_threads_go_through_a_column_side_by_side(filled: LossStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("riskfront._data.stores.lazy_column._WINDOW_BYTES", 3 * N * 4)
    held = filled.table(lazy=False).losses("cost")
    starts = [start for start in range(39) for _ in range(3)]
    for _ in range(5):
        column = filled.table(lazy=True)._sample.column("cost")
        with ThreadPoolExecutor(max_workers=8) as pool:
            found = list(pool.map(lambda start, column=column: column[start : start + 2], starts))
        for start, part in zip(starts, found, strict=True):
            np.testing.assert_array_equal(part, held[start : start + 2])


def damage(folder: Path, loss: str, position: int) -> None:
    """Turn around one byte of a row of the only part."""
    (chunk,) = (folder / "parts").glob(f"*/{loss}/0.0")
    data = bytearray(chunk.read_bytes())
    data[position * N * (1 if loss == "error" else 4)] ^= 1  # so little that the plan stays the same
    chunk.write_bytes(data)


def test_damage_to_a_tested_row_of_a_large_store_is_found(tmp_path: Path) -> None:
    for loss in ("error", "cost"):
        store = LossStore(tmp_path / loss, task())
        for i in range(40):
            store.write({"i": i, "kind": "x"}, row(i))
        tested = int(rf.calibrate(store.table(lazy=True), problem()).path["i"].iloc[0])
        damage(tmp_path / loss, loss, tested)
        with pytest.raises(StoreError, match="SHA-256 differs"):
            rf.calibrate(LossStore(tmp_path / loss).table(lazy=True), problem())


def test_sums_that_were_read_in_passing_are_checked_before_a_certificate_rests_on_them(tmp_path: Path) -> None:
    store = LossStore(tmp_path / "run.zarr", task())
    for i in range(40):
        store.write({"i": i, "kind": "x"}, row(i))
    opt, test = store.table(lazy=True).split(0.3)
    plan = rf.ParetoTesting().plan(opt, problem())
    tested = rf.certify(plan, test, problem()).path["i"].iloc[0]
    damage(tmp_path / "run.zarr", "error", int(tested))
    damaged = LossStore(tmp_path / "run.zarr").table(lazy=True)
    with pytest.raises(StoreError, match="SHA-256 differs"):
        damaged.split(0.3)  # which is shuffled by what the examples hold
    opt, test = damaged.split(0.3, split_by="positions")
    for term in problem().terms:
        test.means(term)  # of all settings, now in memory
    plan = rf.ParetoTesting().plan(opt, problem())
    with pytest.raises(StoreError, match="SHA-256 differs"):
        rf.certify(plan, test, problem())


def test_damage_to_a_row_that_was_only_planned_over_is_found(tmp_path: Path) -> None:
    store = LossStore(tmp_path / "run.zarr", task())
    for i in range(40):
        store.write({"i": i, "kind": "x"}, row(i))
    certificate = rf.calibrate(store.table(lazy=True), problem())
    assert rf.verify(certificate, store.table(lazy=True)) == []
    (passed_over,) = {39} - set(certificate.path["i"])
    damage(tmp_path / "run.zarr", "error", passed_over)
    for use in (
        lambda table: rf.calibrate(table, problem()),
        lambda table: rf.verify(certificate, table),
        lambda table: table.losses("error"),
    ):
        with pytest.raises(StoreError, match="SHA-256 differs"):
            use(LossStore(tmp_path / "run.zarr").table(lazy=True))


def test_types_that_change_from_setting_to_setting(tmp_path: Path) -> None:
    store = LossStore(tmp_path / "run.zarr", Task(3, {}))
    store.write({"i": 0}, {"x": np.array([0, 1, 1])})
    assert store.table().is_binary("x")
    assert store.table(lazy=True).is_binary("x")
    store.write({"i": 1}, {"x": np.array([True, False, True])})
    assert store.table().is_binary("x")
    store.write({"i": 2}, {"x": np.array([0, 1000, 1])})
    store.write({"i": 3}, {"x": np.array([0.5, 1, 1])})
    configs = [{"i": i} for i in range(4)]
    lazy, held = store.table(configs, lazy=True), store.table(configs)
    np.testing.assert_array_equal(held.losses("x"), [[0, 1, 1], [1, 0, 1], [0, 1000, 1], [0.5, 1, 1]])
    np.testing.assert_array_equal(lazy.losses("x"), held.losses("x"))
    assert lazy.sha256 == held.sha256
    store.write({"i": 4}, {"x": np.array([0, 7, 1])})  # goes to a part of wider numbers
    assert store.table([{"i": 4}], lazy=True).sha256 == store.table([{"i": 4}]).sha256


def test_names_that_are_no_file_names(tmp_path: Path) -> None:
    store = LossStore(tmp_path / "run.zarr", Task(2, {}, {"a/b": [0, 1]}))
    store.write({"i": 0}, {"../error %": np.array([0.5, 1])})
    table = LossStore(tmp_path / "run.zarr").table()
    assert table.loss_names == ["../error %"]
    assert table.group_names == ["a/b"]


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from tests.data.stores.test_loss_store import row, task
from riskfront._data.stores.loss_store import LossStore
store = LossStore(sys.argv[1], task())
for i in range(int(sys.argv[2]), int(sys.argv[2]) + 60):
    store.write({"i": i}, row(i))
"""


def test_many_processes_write_at_once(tmp_path: Path) -> None:
    root = str(Path(__file__).parents[3])
    starts = (0, 30, 60)  # they overlap: some settings are evaluated by two
    with ExitStack() as stack:
        commands = [[sys.executable, "-c", WRITER, tmp_path / "run.zarr", start, root] for start in starts]
        writers = [stack.enter_context(started(command)) for command in commands]
        assert [writer.wait() for writer in writers] == [0, 0, 0]
    store = LossStore(tmp_path / "run.zarr", task())
    table = store.table([{"i": i} for i in range(120)])
    assert len(store) == 120
    for i in range(120):
        np.testing.assert_array_equal(table.losses("cost")[i], row(i)["cost"])


def _source(first: str, second: str = "") -> str:
    other = f"CONSTANT = 1\n\ndef other(x):\n    return x{second}\n\n"
    return f"{other}def losses(config, x):\n    return other({first}) + CONSTANT\n"


def _fingerprint(tmp_path: Path, name: str, source: str) -> str:
    (tmp_path / f"{name}.py").write_text(source)
    spec = importlib.util.spec_from_file_location(name, tmp_path / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return fingerprint_code(module.losses)


def test_the_fingerprint_of_code_is_the_same_in_another_process(tmp_path: Path) -> None:
    here = _fingerprint(tmp_path, "one", _source("x"))
    here_first = f"import sys; sys.path.insert(0, {str(tmp_path)!r})"
    run = f"{here_first}; import one; from riskfront._support.object_digest import fingerprint_code as f"
    command = [sys.executable, "-c", f"{run}; print(f(one.losses))"]
    assert here == output(command).strip()


def test_the_fingerprint_of_code_follows_what_it_does(tmp_path: Path) -> None:
    first = _fingerprint(tmp_path, "one", _source("x"))
    assert first == _fingerprint(tmp_path, "two", "# a comment\n" + _source("x").replace("(x)", "( x )"))
    assert first != _fingerprint(tmp_path, "three", _source("x + 1"))
    assert first != _fingerprint(tmp_path, "four", _source("x", " * 2")), "a function that it calls"
    assert first != _fingerprint(tmp_path, "five", _source("x").replace("CONSTANT = 1", "CONSTANT = 2"))


def test_the_fingerprint_of_a_closure_follows_what_it_holds() -> None:
    def make(model: object):  # type: ignore[no-untyped-def]
        return lambda config, examples: (model, examples)

    weights = np.arange(5.0)
    assert fingerprint_code(make(weights)) == fingerprint_code(make(weights.copy()))
    assert fingerprint_code(make(weights)) != fingerprint_code(make(weights + 1))


def test_the_fingerprint_of_data() -> None:
    import pandas as pd

    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    assert fingerprint_data(frame) == fingerprint_data(frame.copy())
    assert fingerprint_data(frame) != fingerprint_data(frame.assign(a=[1, 3]))
    assert fingerprint_data(frame) != fingerprint_data(frame.rename(columns={"a": "c"}))
    assert fingerprint_data([{"text": "a"}]) == fingerprint_data([{"text": "a"}])
    assert fingerprint_data(["a", "b"]) != fingerprint_data(["b", "a"])
    assert fingerprint_data(np.array(["2020-01-01"], dtype="M8[D]")) != fingerprint_data(
        np.array(["2020-01-02"], dtype="M8[D]")
    )

    class Remote:
        fingerprint = "version 3"

        def __reduce__(self) -> str:
            raise TypeError("cannot be pickled")

    assert fingerprint_data(Remote()) == fingerprint_data(Remote())
    del Remote.fingerprint
    with pytest.raises(InvalidInputError, match="text attribute 'fingerprint'"):
        fingerprint_data(Remote())


def test_an_object_that_cannot_be_pickled_is_known_by_what_it_holds() -> None:
    class Model:
        def __init__(self, weights: float) -> None:
            self.weights = weights

        def __call__(self, config: object, examples: object) -> None: ...

    assert fingerprint_code(Model(1.0)) == fingerprint_code(Model(1.0))
    assert fingerprint_code(Model(1.0)) != fingerprint_code(Model(2.0))


@pytest.mark.parametrize("links", [True, False])
def test_of_two_tasks_that_make_a_store_at_one_moment_one_has_it(
    url: str, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(source: object, target: object) -> None:
        raise OSError(95, "Operation not supported")

    if not links:
        monkeypatch.setattr("os.link", no_links)
    made = header._create

    def slow(storage: Storage, own: Task) -> header.Header:
        """Another task comes while this one makes the store, and sees nothing of it but its claim."""
        monkeypatch.setattr(header, "_create", made)
        with pytest.raises(StoreError, match="belongs to another task: its code differ"):
            LossStore(url, task(code="other"))
        LossStore(url, task()).write({"i": 1}, row(1))  # the same task is welcome
        return made(storage, own)

    monkeypatch.setattr(header, "_create", slow)
    LossStore(url, task()).write({"i": 2}, row(2))
    assert len(LossStore(url)) == 2


def something_else(folder: Path) -> LossStore:
    (folder / "zarr.json").write_text('{"attributes": {"riskfront": {"schema": "else"}}}')
    return LossStore(folder)


def a_file(folder: Path) -> LossStore:
    (folder / "file").write_text("x")
    return LossStore(folder / "file", task())


def one_row(folder: Path) -> LossStore:
    store = LossStore(folder / "run.zarr", task())
    store.write({"i": 1}, row(1))
    return store


REFUSED: dict[str, tuple[Callable[[Path], object], type[RiskfrontError], str]] = {
    "no store": (lambda folder: LossStore(folder / "none.zarr"), StoreError, "no store of losses"),
    "no name": (lambda folder: LossStore(" ", task()), InvalidInputError, "must be given by a path or a URL"),
    "a file": (a_file, StoreError, "must be a folder"),
    "something else": (something_else, StoreError, "something else"),
    "no setting yet": (
        lambda folder: LossStore(folder / "run.zarr", task()).table(),
        StoreError,
        "no complete setting yet",
    ),
    "a setting without losses": (
        lambda folder: one_row(folder).table([{"i": 5}]),
        StoreError,
        "no losses of the setting",
    ),
    "a row without a loss": (
        lambda folder: one_row(folder).write({"i": 2}, {"cost": row(1)["cost"]}),
        InvalidInputError,
        r"must have the losses of the store, \['cost', 'error'\]; got \['cost'\]",
    ),
    "a row of other examples": (
        lambda folder: one_row(folder).write({"i": 2}, row(1, 7)),
        InvalidInputError,
        "one value for each of 400 examples",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str, tmp_path: Path) -> None:
    use, kind, words = REFUSED[case]
    with pytest.raises(kind, match=words):
        use(tmp_path)
    if (tmp_path / "run.zarr").exists():  # what was refused left nothing behind
        assert all(config == {"i": 1} for config in LossStore(tmp_path / "run.zarr").configs)
