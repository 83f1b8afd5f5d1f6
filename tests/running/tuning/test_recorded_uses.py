"""The testing examples of a task serve one question: the first one they answer."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import riskfront as rf
from riskfront._calibration.certificates.uses_of_test_set import ASKED
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
    """Ten questions to one store gave .40 false certificates at delta .1; the second is refused now."""
    first = run(1, tmp_path / "run.zarr", 5)
    with pytest.raises(SpentExamplesError, match=r"used for 1 other question: error <= 0.2 .*5 settings searched"):
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
    assert second.verdict().startswith("With 80 % confidence, counting both uses of the same testing examples, error")
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


@pytest.mark.parametrize("adaptive", [False, True])
def test_a_function_is_known_again_however_its_calls_change_what_it_holds(adaptive: bool) -> None:
    """Positions are told apart by the function that looks them up; its counters and random numbers are no other data."""
    calls, noise, level = [0], np.random.default_rng(3), 0.05 + 0.01 * adaptive

    def losses(config: dict[str, Any], examples: Any) -> dict[str, Any]:
        calls[0] += len(examples)
        return {"error": noise.random(len(examples)) < level, "cost": np.full(len(examples), config["k"] / 400)}

    def asked(limit: float) -> rf.Certificate:
        problem, options = rf.Problem([f"error <= {limit}"], minimize=["cost"]), {"search": "random", "budget": 5}
        return rf.tune(losses, np.arange(200), SPACE, problem, adaptive=adaptive, **options)

    assert [len(asked(limit).earlier_looks) for limit in (0.2, 0.18, 0.16)] == [0, 1, 2]

    def failing(config: dict[str, Any], examples: Any) -> dict[str, Any]:
        raise RuntimeError("the service is down")

    with pytest.raises(rf.errors.EvaluationError):
        rf.tune(failing, np.arange(200), SPACE, PROBLEM, adaptive=adaptive, search="random", budget=5)


@pytest.mark.filterwarnings("ignore:.*delta")  # so large a delta is warned of
def test_no_confidence_left(tmp_path: Path) -> None:
    sure = rf.Problem(["error <= 0.5"], minimize=["cost"], delta=0.6)
    run(3, tmp_path / "run.zarr", 4, problem=sure)
    with pytest.raises(SpentExamplesError, match=r"add up to less than 1; with this one they are 1\.2"):
        run(3, tmp_path / "run.zarr", 9, problem=sure, again=True)


def test_a_record_that_was_deleted(tmp_path: Path) -> None:
    """Settings that were tested and are not on the plan give an earlier use away."""
    loose = rf.Problem(["error <= 0.5"], minimize=["cost"])
    run(6, tmp_path / "run.zarr", 5, problem=loose)
    shutil.rmtree(tmp_path / "run.zarr" / "uses")
    with pytest.raises(SpentExamplesError, match="settings that this plan does not test"):
        run(6, tmp_path / "run.zarr", 60, problem=loose)


def test_a_damaged_record_is_no_way_around(tmp_path: Path) -> None:
    run(5, tmp_path / "run.zarr", 5)
    (recorded,) = (tmp_path / "run.zarr" / "uses").glob("*/0000.json")
    whole = recorded.read_text()
    recorded.write_text("{")
    with pytest.raises(StoreError, match="record of uses of testing examples must be whole"):
        run(5, tmp_path / "run.zarr", 50)
    recorded.write_text(whole.replace('"delta": 0.1', '"delta": 0.0'))
    with pytest.raises(StoreError, match="not what its digest says"):
        run(5, tmp_path / "run.zarr", 50)
    recorded.rename(recorded.with_name("0001.json"))
    with pytest.raises(StoreError, match="missing, and later ones are there"):
        run(5, tmp_path / "run.zarr", 50)


def test_looks_can_be_recorded_without_a_store(tmp_path: Path) -> None:
    run(6, None, 5, looks=tmp_path / "record")
    with pytest.raises(SpentExamplesError, match="used for 1 other question"):
        run(6, None, 50, looks=tmp_path / "record")
    assert run(7, None, 50, looks=tmp_path / "record") is not None  # other examples are not spent


def test_without_a_record_the_certificate_says_what_this_process_asked() -> None:
    run(8, None, 5)
    second = run(8, None, 50)
    assert [use.asked.rpartition(", ")[2] for use in second.earlier_looks] == ["5 settings searched"]
    assert second.delta_of_all_looks == pytest.approx(0.2)
    assert run(8, None, 5).earlier_looks == ()  # a repeated question gives its answer again


def test_other_code_uses_the_same_examples() -> None:
    """Uses are recorded by the examples: neither a model that changed nor one that cannot be read hides them."""
    examples = np.random.default_rng(1).random(300)

    def asked(level: float, held: Any) -> rf.Certificate:
        def losses(config: dict[str, Any], examples: Any) -> dict[str, Any]:
            return {"error": examples * (held is not None) < level, "cost": np.full(len(examples), config["k"] / 400)}

        return rf.tune(losses, examples, SPACE, PROBLEM, search="random", budget=5)

    found = [asked(0.1, 1), asked(0.11, 2), asked(0.12, (i for i in ())), asked(0.1, 1)]
    assert [len(one.earlier_looks) for one in found] == [0, 1, 2, 0]


@pytest.mark.parametrize("examples", [np.arange(300), np.random.default_rng(2).random(300), list("abc") * 100])
def test_a_function_that_cannot_be_read(examples: Any) -> None:
    """It holds a generator; the second question was not recorded."""
    held = (i for i in range(3))

    def losses(config: dict[str, Any], examples: Any) -> dict[str, Any]:
        wrong = np.random.default_rng(config["k"]).random(len(examples)) < config["k"] / 2000
        return {"error": wrong & (held is not None), "cost": np.full(len(examples), 1 - config["k"] / 400)}

    first, second = (rf.tune(losses, examples, SPACE, PROBLEM, search="random", budget=n) for n in (5, 20))
    assert (len(first.earlier_looks), len(second.earlier_looks)) == (0, 1)
    assert second.verdict().startswith("With 80 % confidence")


def test_positions_of_other_data_are_other_examples() -> None:
    def asked(seed: int) -> rf.Certificate:
        return rf.tune(Coins(seed), np.arange(300), SPACE, PROBLEM, search="random", budget=5)

    assert [len(asked(seed).earlier_looks) for seed in (0, 1)] == [0, 0]


def test_calibrate_counts_uses_as_tune_does() -> None:
    """After six questions it said "With 90 % confidence"; after ten there is none left."""
    errors = np.random.default_rng(13).random((5, 2000)) < 0.02
    table = rf.LossTable([{"t": i} for i in range(5)], {"error": errors, "cost": errors})
    found = [rf.calibrate(table, PROBLEM, seed=seed) for seed in range(12)]
    assert found[0].verdict() == "With 90 % confidence, error stays at or below 20 %."
    counted = "With 40 % confidence, counting all six uses of the same testing examples, error stays at or below 20 %."
    assert found[5].verdict() == counted
    assert [bool(one.guaranteed) for one in found] == [True] * 9 + [False] * 3
    assert (
        found[9]
        .verdict()
        .startswith("NO GUARANTEE: no confidence is left, counting all ten uses of the same testing examples")
    )
    assert "certified" not in found[9].tested
    assert rf.verify(found[9], table) == []
    loaded = rf.Certificate.from_dict(json.loads(json.dumps(found[9].to_dict())))
    assert loaded.verdict() == found[9].verdict()
    with pytest.raises(rf.InvalidInputError, match="must agree with itself"):
        rf.Certificate.from_dict({**found[9].to_dict(), "guaranteed": True})
    assert rf.calibrate(table, PROBLEM, seed=0).to_dict() == found[0].to_dict()


def test_limits_that_hold_together_are_one_use() -> None:
    errors = np.random.default_rng(14).random((5, 2000)) < 0.02
    table = rf.LossTable([{"t": i} for i in range(5)], {"error": errors, "cost": errors})
    rf.frontier(table, PROBLEM, [0.05, 0.1, 0.15, 0.2, 0.3], simultaneous=True)
    assert rf.calibrate(table, PROBLEM).verdict().startswith("With 80 % confidence, counting both uses")


def test_calibrate_says_what_else_was_asked_of_a_table() -> None:
    losses = np.random.default_rng(12).random((5, 400)) < 0.1
    table = rf.LossTable([{"t": i} for i in range(5)], {"error": losses, "cost": losses})
    seeds = [rf.calibrate(table, PROBLEM, seed=seed) for seed in (0, 1, 2, 0)]
    assert [len(found.earlier_looks) for found in seeds] == [0, 1, 2, 0]
    assert seeds[2].earlier_looks[1].asked.endswith("pareto-testing, seed 1")
    assert seeds[3].to_dict() == seeds[0].to_dict()


def test_a_record_that_several_sets_of_examples_share_keeps_them_apart(tmp_path: Path) -> None:
    from riskfront._calibration.certificates.uses_of_test_set import UseOfTestSet
    from riskfront._data.stores.open_storage import open_storage
    from riskfront._running.tuning.recorded_uses import record_use

    storage = open_storage(tmp_path)
    use = UseOfTestSet.of(PROBLEM, "pareto-testing", {}, decided_by=[], said="once")
    for examples in ({"texts": "one"}, {"texts": "other"}, {"texts": "one"}):
        assert record_use(storage, examples, use, "", [], again=False) == ()
    other = UseOfTestSet.of(PROBLEM, "pareto-testing", {}, decided_by=[1], said="twice")
    with pytest.raises(SpentExamplesError):
        record_use(storage, {"texts": "other"}, other, "", [], again=False)


def test_other_stores_and_seeds_are_other_looks_at_the_same_examples(tmp_path: Path) -> None:
    """What this process asked of the same examples is listed, wherever it was kept and however they were split."""
    first = run(31, tmp_path / "one", 4)
    second = run(31, tmp_path / "two", 9)
    examples = np.random.default_rng([31, 3]).choice(100_000, 300, replace=False)
    third = rf.tune(Coins(0), examples, SPACE, PROBLEM, search="random", budget=4, seed=1)
    assert first.earlier_looks == ()
    assert ["4 settings searched" in use.asked for use in second.earlier_looks] == [True]
    assert len(third.earlier_looks) == 2
    assert third.delta_of_all_looks == pytest.approx(0.3)
    assert run(31, tmp_path / "one", 4).to_dict() == first.to_dict()


@pytest.mark.parametrize(
    "form", [lambda x: x[::-1], lambda x: x.astype(np.float32), list], ids=["order", "precision", "list"]
)
def test_a_record_knows_examples_in_another_form(form: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what this process remembers: to another process, a list of the same numbers was a new data set."""
    examples, space = np.random.default_rng(0).random(400), rf.Space(k=rf.Int(0, 20))

    def losses(config: dict[str, Any], given: Any) -> dict[str, Any]:
        return {"error": np.asarray(given) < config["k"] / 400, "cost": np.full(len(given), 1 - config["k"] / 20)}

    def asked(given: Any, **more: Any) -> rf.Certificate:
        monkeypatch.setattr(ASKED, "_uses", [])
        return rf.tune(losses, given, space, PROBLEM, search="grid", looks=tmp_path, **more)

    assert asked(examples).earlier_looks == ()
    assert asked(examples).earlier_looks == (), "the same question gives its answer"
    with pytest.raises(SpentExamplesError, match="used for 1 other question"):
        asked(form(examples))
    assert len(asked(form(examples), again=True).earlier_looks) == 1
