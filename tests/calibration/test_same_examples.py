"""Copies, and examples that come again in another form, at the doors for tables and for labels that come daily."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from tests.support.command_line import riskfront

PROBLEM = rf.Problem("error <= 0.2", minimize="cost")
CONFIGS = [{"k": k} for k in range(4)]


def losses(n: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {"error": (rng.random((4, n)) < 0.05).astype(float), "cost": rng.random((4, n))}


def table(n: int = 300, seed: int = 0, rows: np.ndarray | None = None) -> rf.LossTable:
    found = losses(n, seed)
    return rf.LossTable(CONFIGS, {name: of if rows is None else of[:, rows] for name, of in found.items()})


@pytest.mark.parametrize(
    "rows",
    [np.random.default_rng(1).integers(0, 150, 300), np.r_[0:200, 0:20]],
    ids=["a bootstrap sample", "some examples under new names"],
)
def test_copies_of_rich_losses_are_refused(rows: np.ndarray) -> None:
    with pytest.raises(rf.InvalidInputError, match="a guarantee needs every example once"):
        rf.calibrate(table(rows=rows), PROBLEM)


def test_rows_of_zeros_among_rich_ones_are_no_copies() -> None:
    """Cached answers cost nothing: their losses repeat honestly."""
    found = losses(300)
    found["cost"][:, :90] = 0.0
    assert rf.calibrate(rf.LossTable(CONFIGS, found), PROBLEM).intake is not None


@pytest.mark.parametrize("ids", [False, True])
def test_labels_that_come_daily_are_no_copies(ids: bool) -> None:
    run = rf.Sequential(CONFIGS, PROBLEM, examples=600)
    with pytest.raises(rf.InvalidInputError, match="a guarantee needs every example once"):
        run.tell_table(table(rows=np.repeat(np.arange(100), 3)), ids=range(300) if ids else None)
    assert run.tell_table(table(100), ids=range(100) if ids else None) == 100
    with pytest.raises(rf.InvalidInputError, match="examples must be new"):
        run.tell_table(table(100), ids=range(500, 600) if ids else None)


def test_names_of_examples_may_turn_into_decimals() -> None:
    run = rf.Sequential(CONFIGS, PROBLEM, examples=600)
    assert run.tell_table(table(100), ids=range(100)) == 100
    assert run.tell_table(table(100), ids=np.arange(100.0)) == 0
    assert run.tell_table(table(100), ids=[f"{i}.0" for i in range(100)]) == 0


def test_names_in_a_file_may_turn_into_decimals(tmp_path: Path) -> None:
    found = losses(100)
    frame = pd.DataFrame(
        {
            "k": np.repeat(range(4), 100),
            "id": np.tile(range(100), 4),
            **{name: of.ravel() for name, of in found.items()},
        }
    )
    for day, names in enumerate([frame["id"], frame["id"].astype(float)]):
        frame.assign(id=names).to_csv(tmp_path / f"{day}.csv", index=False)
        done = riskfront(
            *("calibrate", tmp_path / f"{day}.csv", "--sequential", tmp_path / "run.json", "--examples", "600"),
            *("--example-column", "id", "--limit", "error <= 0.2", "--minimize", "cost"),
        )
        assert done.returncode in (0, 1), done.stderr
    assert rf.Sequential.load(tmp_path / "run.json").n_told == 400


def shuffled(of: rf.LossTable) -> rf.LossTable:
    order = np.random.default_rng(3).permutation(of.n_examples)
    return rf.LossTable(CONFIGS, {name: of.losses(name)[:, order] for name in of.loss_names})


FORMS = {
    "another order": shuffled,
    "costs in cents": lambda of: rf.LossTable(CONFIGS, {"error": of.losses("error"), "cost": 0.5 * of.losses("cost")}),
    "single precision": lambda of: rf.LossTable(
        CONFIGS, {name: of.losses(name).astype(np.float32) for name in of.loss_names}
    ),
    "another name of the setting": lambda of: rf.LossTable(
        [{"model": k} for k in range(4)], {name: of.losses(name) for name in of.loss_names}
    ),
}


def many(seed: int = 0) -> rf.LossTable:
    """Settings whose errors differ so much that examples are known by them."""
    rng = np.random.default_rng(seed)
    return rf.LossTable(CONFIGS, {"error": rng.random((4, 400)) ** 8, "cost": rng.random((4, 400))})


@pytest.mark.parametrize("form", FORMS)
def test_a_process_knows_examples_in_another_form(form: str) -> None:
    assert rf.calibrate(many(), PROBLEM).earlier_looks == ()
    again = rf.calibrate(FORMS[form](many()), rf.Problem("error <= 0.21", minimize="cost"))
    assert len(again.earlier_looks) == 1


def test_a_process_knows_examples_with_a_setting_less() -> None:
    rf.calibrate(many(), PROBLEM)
    less = many().select([0, 1, 3])
    again = rf.calibrate(less, rf.Problem("error <= 0.21", minimize="cost"))
    assert len(again.earlier_looks) == 1


def test_the_same_question_in_another_order_is_another_one() -> None:
    """The examples are split in another way, so that the best of many orders could be kept."""
    rf.calibrate(many(), PROBLEM)
    assert len(rf.calibrate(shuffled(many()), PROBLEM).earlier_looks) == 1
    assert rf.calibrate(many(), PROBLEM).earlier_looks == ()


def test_other_examples_with_the_same_costs_are_new() -> None:
    cost = losses(400)["cost"]
    for seed in range(3):
        of = rf.LossTable(CONFIGS, {"error": many(seed).losses("error"), "cost": cost})
        assert rf.calibrate(of, PROBLEM).earlier_looks == ()


@pytest.mark.parametrize("form", [np.flip, np.float32, list, lambda x: pd.DataFrame({"x": x})])
def test_tune_knows_examples_in_another_form(form: object) -> None:
    examples = np.random.default_rng(0).random(400)

    def one(config: dict[str, float], of: object) -> dict[str, np.ndarray]:
        values = np.asarray(of, dtype=float).ravel()
        return {"error": (values < 0.05 * config["x"]).astype(float), "cost": np.full(len(values), 1 - config["x"])}

    space = rf.Space(x=rf.Float(0, 1))
    options = {"search": "random", "budget": 5, "progress": False}
    rf.tune(one, examples, space, PROBLEM, **options)
    again = rf.tune(one, form(examples), space, rf.Problem("error <= 0.21", minimize="cost"), **options)  # type: ignore[operator]
    assert len(again.earlier_looks) == 1
