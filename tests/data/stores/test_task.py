"""A task: a store is continued for the same one, in any process, and refused for another."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront._data.stores.task import Task
from riskfront._support.object_digest import fingerprint_code, fingerprint_data
from riskfront.errors import InvalidInputError, StoreError

EXAMPLES = np.random.default_rng(0).random(600)
LETTERS = np.array(["a", "b"] * 300)


def losses(config: dict, examples: np.ndarray) -> dict[str, np.ndarray]:
    return {"error": np.asarray(examples) > 0.9, "cost": np.full(len(examples), config["t"])}


def test_a_category_that_no_example_has_makes_another_task(tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    configs, store = [{"t": 0.1}, {"t": 0.5}], tmp_path / "run.zarr"
    seen = {"label": pd.Categorical(LETTERS)}
    declared = {"label": pd.Categorical(LETTERS, categories=["a", "b", "c"])}
    rf.evaluate(losses, EXAMPLES, configs, store=store, groups=seen)
    rf.evaluate(losses, EXAMPLES, configs, store=store, groups={"label": LETTERS})
    with pytest.raises(StoreError, match="its groups differ"):
        rf.evaluate(losses, EXAMPLES, configs, store=store, groups=declared)
    problem = rf.Problem([rf.Limit("error", at_most=0.2, per="label")], minimize=["cost"])
    table = rf.evaluate(losses, EXAMPLES, configs, store=tmp_path / "other.zarr", groups=declared)
    assert not rf.calibrate(table, problem)


def test_groups_are_a_mapping_or_a_data_frame() -> None:
    frame = pd.DataFrame({"label": pd.Categorical(LETTERS, categories=["a", "b", "c"]), "half": np.arange(600) % 2})
    mapping = {name: frame[name] for name in frame}
    assert Task.of(losses, EXAMPLES, frame).identity == Task.of(losses, EXAMPLES, mapping).identity
    assert Task.of(losses, EXAMPLES, frame).groups["label"].levels == ("a", "b", "c")
    reordered = Task.of(losses, EXAMPLES, dict(reversed(mapping.items())))
    assert reordered.identity == Task.of(losses, EXAMPLES, mapping).identity
    for wrong in (LETTERS, list(LETTERS), pd.Series(LETTERS)):
        with pytest.raises(InvalidInputError, match=r"groups must be a dictionary or a data frame.*got"):
            Task.of(losses, EXAMPLES, wrong)  # type: ignore[arg-type]


def test_data_frames_with_lists_in_them_can_be_examples(tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    frame = pd.DataFrame({"tokens": [[1, 2], [3]] * 300})
    for _ in range(2):
        table = rf.evaluate(lambda c, x: {"error": x["tokens"].map(len) > 1}, frame, [{"t": 1}], store=tmp_path / "s")
    assert table.means("error")[0, 0] == 0.5
    assert fingerprint_data(frame) != fingerprint_data(pd.DataFrame({"tokens": [[1, 2], [4]] * 300}))


def test_a_store_is_not_continued_by_another_lambda_of_the_same_line(tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    above, below = (lambda c, x: {"error": x > c["t"]}), (lambda c, x: {"error": x < c["t"]})
    rf.evaluate(above, EXAMPLES, [{"t": 0.2}], store=tmp_path / "run.zarr")
    with pytest.raises(StoreError, match="its code differ"):
        rf.evaluate(below, EXAMPLES, [{"t": 0.2}, {"t": 0.3}], store=tmp_path / "run.zarr")


def test_a_function_that_names_itself_is_known_by_that_alone() -> None:
    def one(config: object, examples: object) -> object:
        return np.exp(1)

    def two(config: object, examples: object) -> object:
        return pd.DataFrame()

    one.fingerprint = two.fingerprint = "version 3"  # type: ignore[attr-defined]
    assert Task.of(one, EXAMPLES).identity == Task.of(two, EXAMPLES).identity


def test_what_cannot_be_read_is_refused_in_one_sentence() -> None:
    import ctypes

    handle = ctypes.pointer(ctypes.c_int(3))
    with pytest.raises(
        InvalidInputError, match=r"losses function refers to.*ctypes.*Give it, or the function, a text"
    ) as caught:
        fingerprint_code(lambda config, examples: handle)
    assert "\n" not in str(caught.value)
    with pytest.raises(InvalidInputError, match=r"examples must be data.*ctypes.*text attribute 'fingerprint'"):
        fingerprint_data([handle])
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(InvalidInputError, match=r"list is not \(RecursionError"):
        fingerprint_data(deep)
