"""The testing examples of a task are spent by the first question they answer."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import riskfront as rf
from riskfront.errors import SpentExamplesError, StoreError

SPACE = rf.Space(k=rf.Int(0, 400))
PROBLEM = rf.Problem(["error <= 0.2"], minimize=["cost"])


class Coins:
    """Every setting errs on 21 % of examples, each in its own way: no setting may be certified at 20 %."""

    def __init__(self, seed: int, rate: float = 0.21) -> None:
        self.fingerprint, self.rate = f"coins {seed} {rate}", rate

    def __call__(self, config: dict[str, Any], examples: Any) -> dict[str, Any]:
        rng = np.random.default_rng([config["k"], 11])
        thresholds = rng.random(100_000)[np.asarray(examples)]
        return {"error": thresholds < self.rate, "cost": np.full(len(examples), 1 - config["k"] / 400)}


def run(seed: int, store: Path | None, budget: int, **options: Any) -> rf.Certificate:
    examples = np.random.default_rng([seed, 3]).choice(100_000, 300, replace=False)
    given = {"problem": PROBLEM, "search": "random", **options}
    return rf.tune(Coins(0), examples, SPACE, given.pop("problem"), budget=budget, store=store, **given)


def test_a_larger_budget_until_something_passes_is_refused(tmp_path: Path) -> None:
    """Ten looks at one store gave .40 false certificates at delta .1; the second look is refused now."""
    first = run(1, tmp_path / "run.zarr", 5)
    with pytest.raises(SpentExamplesError, match=r"answered 1 other question: error <= 0.2 .*5 settings searched"):
        run(1, tmp_path / "run.zarr", 40)
    assert run(1, tmp_path / "run.zarr", 5).to_dict() == first.to_dict()


@pytest.mark.parametrize(
    "other",
    [
        {"problem": rf.Problem(["error <= 0.3"], minimize=["cost"])},
        {"problem": rf.Problem(["error <= 0.2"], minimize=["cost"], delta=0.2)},
        {"method": "split-fst"},
    ],
    ids=["another limit", "another delta", "another method"],
)
def test_other_questions_are_refused(other: dict[str, Any], tmp_path: Path) -> None:
    run(1, tmp_path / "run.zarr", 30, method=rf.ParetoTesting(opt_fraction=0.5))
    options = {"method": rf.ParetoTesting(opt_fraction=0.5), **other}
    options["method"] = rf.SplitFST(opt_fraction=0.5) if options["method"] == "split-fst" else options["method"]
    with pytest.raises(SpentExamplesError, match="--again"):
        run(1, tmp_path / "run.zarr", 30, **options)


def test_again_states_what_is_left_of_the_confidence(tmp_path: Path) -> None:
    loose = rf.Problem(["error <= 0.5"], minimize=["cost"])
    first = run(2, tmp_path / "run.zarr", 8, problem=loose)
    second = run(2, tmp_path / "run.zarr", 30, problem=loose, again=True)
    assert first.verdict().startswith("With 90 % confidence, error")
    assert second.verdict().startswith("With 80 % confidence, counting all 2 looks at the same testing examples, error")
    assert second.delta_of_all_looks == pytest.approx(0.2)
    second.save(tmp_path / "c.json")
    loaded = rf.Certificate.load(tmp_path / "c.json")
    assert loaded.verdict() == second.verdict()
    assert rf.verify(loaded, tmp_path / "run.zarr") == []
    assert run(2, tmp_path / "run.zarr", 30, problem=loose).to_dict() == second.to_dict()
    changed = json.loads((tmp_path / "c.json").read_text())
    changed["earlier_looks"] = []
    with pytest.raises(rf.InvalidInputError, match="must agree with itself; its verdict"):
        rf.Certificate.from_dict(changed)


def test_no_confidence_left(tmp_path: Path) -> None:
    sure = rf.Problem(["error <= 0.5"], minimize=["cost"], delta=0.6)
    run(3, tmp_path / "run.zarr", 4, problem=sure)
    with pytest.raises(SpentExamplesError, match=r"add up to less than 1; with this one they are 1\.2"):
        run(3, tmp_path / "run.zarr", 9, problem=sure, again=True)


def test_stores_of_a_version_without_a_record(tmp_path: Path) -> None:
    """Settings that were tested and are not on the plan give an earlier look away."""
    loose = rf.Problem(["error <= 0.5"], minimize=["cost"])
    run(4, tmp_path / "run.zarr", 5, problem=loose)
    for file in (tmp_path / "run.zarr" / "looks").iterdir():
        file.unlink()
    with pytest.raises(SpentExamplesError, match="settings that this plan does not test"):
        run(4, tmp_path / "run.zarr", 60, problem=loose)


def test_a_damaged_record_is_no_way_around(tmp_path: Path) -> None:
    run(5, tmp_path / "run.zarr", 5)
    next((tmp_path / "run.zarr" / "looks").iterdir()).write_text("{")
    with pytest.raises(StoreError, match="record of looks"):
        run(5, tmp_path / "run.zarr", 50)


def test_looks_can_be_recorded_without_a_store(tmp_path: Path) -> None:
    run(6, None, 5, looks=tmp_path / "record")
    with pytest.raises(SpentExamplesError, match="answered 1 other question"):
        run(6, None, 50, looks=tmp_path / "record")
    assert run(7, None, 50, looks=tmp_path / "record") is not None  # other examples are not spent


def test_without_a_record_the_certificate_says_what_this_process_asked() -> None:
    run(8, None, 5)
    second = run(8, None, 50)
    assert [look.asked.rpartition(", ")[2] for look in second.earlier_looks] == ["5 settings searched"]
    assert second.delta_of_all_looks == PROBLEM.delta  # said, and left to the reader


def test_calibrate_says_what_else_was_asked_of_a_table() -> None:
    losses = np.random.default_rng(12).random((5, 400)) < 0.1
    table = rf.LossTable([{"t": i} for i in range(5)], {"error": losses, "cost": losses})
    seeds = [rf.calibrate(table, PROBLEM, seed=seed) for seed in (0, 1, 2, 0)]
    assert [len(found.earlier_looks) for found in seeds] == [0, 1, 2, 0]
    assert seeds[2].earlier_looks[1].asked.endswith("pareto-testing, seed 1")
    assert seeds[3].to_dict() == seeds[0].to_dict()


def test_a_record_that_several_sets_of_examples_share_keeps_them_apart(tmp_path: Path) -> None:
    from riskfront.certificates.looks import Look
    from riskfront.stores.open_storage import open_storage
    from riskfront.tuning.looks import look_once

    storage = open_storage(tmp_path)
    look = Look.of(PROBLEM, "pareto-testing", {}, decided_by=[], said="once")
    for examples in ({"texts": "one"}, {"texts": "other"}, {"texts": "one"}):
        assert look_once(storage, examples, look, "", [], again=False) == ()
    other = Look.of(PROBLEM, "pareto-testing", {}, decided_by=[1], said="twice")
    with pytest.raises(SpentExamplesError):
        look_once(storage, {"texts": "other"}, other, "", [], again=False)


def test_other_stores_and_seeds_are_other_looks_at_the_same_examples(tmp_path: Path) -> None:
    """What this process asked of the same examples is listed, wherever it was kept and however they were split."""
    first = run(31, tmp_path / "one", 4)
    second = run(31, tmp_path / "two", 9)
    examples = np.random.default_rng([31, 3]).choice(100_000, 300, replace=False)
    third = rf.tune(Coins(0), examples, SPACE, PROBLEM, search="random", budget=4, seed=1)
    assert first.earlier_looks == ()
    assert ["4 settings searched" in look.asked for look in second.earlier_looks] == [True]
    assert len(third.earlier_looks) == 2
    assert not any(look.counts for look in (*second.earlier_looks, *third.earlier_looks))
    assert run(31, tmp_path / "one", 4).to_dict() == first.to_dict()
