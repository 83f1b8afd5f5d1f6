"""Faults that were found by review, each with the shortest case that showed it."""

import dataclasses
import json
import sys

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront._data.reading.sources import read_table
from riskfront.methods._registry import BY_NAME
from tests.support.processes import output


def table(n=400, settings=4, seed=0, **more):
    rng = np.random.default_rng(seed)
    error = rng.random((settings, n)) < np.linspace(0.01, 0.05, settings)[:, None]
    cost = np.linspace(1, 0.4, settings)[:, None] * np.ones(n)
    return rf.LossTable([{"a": i} for i in range(settings)], {"error": error, "cost": cost}, **more)


PROBLEM = rf.Problem([rf.Limit("error", at_most=0.1)], minimize=["cost"])


def test_a_declared_class_without_examples_cannot_be_certified():
    labels = pd.Categorical(["a"] * 400, categories=["a", "rare"])
    per_label = rf.Problem([rf.Limit("error", at_most=0.1, per="label")], minimize=["cost"])
    assert rf.calibrate(table(groups={"label": np.array(["a"] * 400)}), per_label)
    declared = table(groups={"label": labels})
    assert declared.group("label").levels == ("a", "rare")
    for method in BY_NAME:
        if rf.methods.METHODS[method].guaranteed:
            assert not rf.calibrate(declared, per_label, method=method)


def test_categories_survive_a_parquet_file(tmp_path):
    rows = [{"a": s, "id": i, "error": 0, "cost": 1.0, "label": "x"} for s in (1, 2) for i in range(30)]
    frame = pd.DataFrame(rows).astype({"label": pd.CategoricalDtype(["x", "y"])})
    frame.to_parquet(tmp_path / "t.parquet")
    problem = rf.Problem([rf.Limit("error", at_most=0.2, per="label")], minimize=["cost"])
    assert read_table(tmp_path / "t.parquet", problem)[0].group("label").levels == ("x", "y")


def test_rows_with_numbers_of_their_own_are_not_one_big_setting():
    rows = [
        {"id": 4 * i + j, "dataset": "d", "threshold": j / 10, "prompt": f"p{i}", "error": 0, "cost": 1.0}
        for i in range(30)
        for j in range(4)
    ]
    found, layout = rf.read_table(pd.DataFrame(rows), PROBLEM)
    assert (found.n_configs, found.n_examples) == (4, 30)
    assert layout.example_column == "prompt"


def test_a_single_setting_is_a_table():
    rows = [{"id": i, "threshold": 0.5, "error": 0, "cost": 1.0} for i in range(30)]
    assert rf.read_table(pd.DataFrame(rows), PROBLEM)[0].n_configs == 1


def test_a_part_keeps_its_own_positions():
    positions = np.arange(10)
    part = table().subset(positions)
    before = part.losses("error").copy()
    positions[:] = 0
    np.testing.assert_array_equal(part.losses("error"), before)


@pytest.mark.parametrize("name", ["hoeffding", "hoeffding-bentkus", "bentkus", "betting"])
def test_sums_that_round_below_zero(name):
    losses = {"q": np.full((2, 30), 0.1), "cost": np.ones((2, 30))}
    problem = rf.Problem([rf.Limit("q", at_least=0.05, p_value=name)], minimize=["cost"])
    found = rf.calibrate(rf.LossTable([{"a": 0}, {"a": 1}], losses, bounds={"q": (0, 0.1)}), problem, method="holm")
    assert len(found.certified) == 2


def test_mixtures_in_small_units():
    rng = np.random.default_rng(0)
    losses = {
        "error": rng.random((2, 400)) < 0.01,
        "usd": np.array([[1e-9], [5e-9]]) * np.ones(400),
        "slow": np.array([[3.0], [1.0]]) * np.ones(400),
    }
    problem = rf.Problem([rf.Limit("error", at_most=0.1)], minimize=["usd", "slow"])
    found = rf.calibrate(rf.LossTable([{"a": 0}, {"a": 1}], losses), problem, method="bonferroni")
    mixed = found.mixture({"usd": 2e-9})
    assert (mixed["weight"] * mixed["usd"]).sum() == pytest.approx(2e-9, rel=1e-6)
    with pytest.raises(rf.InvalidInputError, match="Loosen"):
        found.mixture({"usd": 1e-10})
    for wrong in (float("nan"), "cheap", True):
        with pytest.raises(rf.InvalidInputError, match="finite number"):
            found.mixture({"usd": wrong})


def test_settings_with_the_names_of_results():
    configs = [{"error": i, "setting error": -i, "level": 2 * i} for i in range(3)]
    losses = {"error": np.zeros((3, 100), dtype=bool), "cost": np.arange(3.0)[:, None] * np.ones(100)}
    found = rf.calibrate(rf.LossTable(configs, losses), PROBLEM)
    assert found.config in configs


def test_tiny_costs_are_told_apart():
    losses = {"error": np.zeros((3, 100), dtype=bool), "usd": np.array([[9e-13], [1e-13], [5e-13]]) * np.ones(100)}
    found = rf.calibrate(
        rf.LossTable([{"a": i} for i in range(3)], losses), rf.Problem(PROBLEM.limits, minimize=["usd"])
    )
    assert found.config == {"a": 1}
    assert found.chosen["usd"].item() == pytest.approx(1e-13)


@pytest.mark.slow
def test_threads_leave_linear_algebra_as_they_found_it():
    code = """
import threading, numpy as np, riskfront as rf, scipy.special
from threadpoolctl import threadpool_info
threads = lambda: [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
rng = np.random.default_rng(0)
losses = {"error": rng.random((600, 4000)) < 0.1, "cost": rng.random((600, 4000))}
problem = rf.Problem(["error <= 0.2"], minimize=["cost"])
before = threads()
tables = [rf.LossTable([{"a": i} for i in range(600)], losses) for _ in range(6)]
workers = [threading.Thread(target=lambda t=t: rf.calibrate(t, problem)) for t in tables]
[worker.start() for worker in workers], [worker.join() for worker in workers]
assert threads() == before, (before, threads())
"""
    output([sys.executable, "-c", code], env={"OPENBLAS_NUM_THREADS": "2"})


def test_words_do_not_round_up_to_certainty_or_call_milliseconds_percent():
    certain = rf.calibrate(table(4000), rf.Problem(PROBLEM.limits, minimize=["cost"], delta=1e-9))
    assert certain.verdict().startswith("With 99.9999999 % confidence")
    losses = {"seconds": np.tile([0.1, 0.12], 100)[None, :], "cost": np.ones((1, 200))}
    slow = rf.LossTable([{"a": 0}], losses, bounds={"seconds": (0, 10)})
    found = rf.calibrate(slow, rf.Problem([rf.Limit("seconds", at_most=0.9)], minimize=["cost"]), method="holm")
    assert "seconds stays at or below 0.9." in found.verdict()
    drop = rf.LossTable(
        [{"a": 0}], {"drop": np.zeros((1, 500), dtype=np.int8), "cost": np.ones((1, 500))}, bounds={"drop": (-1, 1)}
    )
    signed = rf.calibrate(drop, rf.Problem([rf.Limit("drop", at_most=0.2)], minimize=["cost"]), method="holm")
    assert "drop (gains offset losses) stays at or below 20 %." in signed.verdict()


def test_a_quantile_is_shown_as_the_share_above_it():
    rng = np.random.default_rng(0)
    losses = {"latency": rng.exponential(50, (2, 500)), "cost": np.ones((2, 500))}
    limit = rf.Limit("latency", at_most=300, quantile=0.9)
    found = rf.calibrate(rf.LossTable([{"a": 0}, {"a": 1}], losses), rf.Problem([limit], minimize=["cost"]))
    assert "share of latency above 300" in found.chosen.columns
    assert found.measured["compared_with"].iloc[0] == 0.1
    assert str(limit) == "0.9-quantile of latency <= 300"


def test_how_many_examples_a_padded_limit_needs():
    labels = np.arange(400) % 20 == 0
    per_label = rf.Limit("error", at_most=0.1, per="rare", padded=True, p_value="hoeffding-bentkus")
    perfect = {"error": np.zeros((1, 400), dtype=bool), "cost": np.ones((1, 400))}
    found = rf.calibrate(
        rf.LossTable([{"a": 0}], perfect, {"rare": labels}), rf.Problem([per_label], minimize=["cost"]), method="holm"
    )
    assert not found
    assert found.diagnosis["examples_if_perfect"] > 400


def test_an_empty_path_and_untested_settings_come_back_from_json(tmp_path):
    hopeless = rf.Problem([rf.Limit("error", at_most=0.001)], minimize=["cost"])
    for method in ("constrained-path", "alpha-constrained"):
        rf.calibrate(table(), hopeless, method=method).save(tmp_path / "c.json")
        again = rf.Certificate.load(tmp_path / "c.json")
        assert not again
        assert len(again.certified) == len(again.chosen) == 0


def test_float_groups_next_to_no_group_come_back_from_json(tmp_path):
    both = rf.Problem([rf.Limit("error", at_most=0.2), rf.Limit("error", at_most=0.3, per="g")], minimize=["cost"])
    found = rf.calibrate(table(groups={"g": np.arange(400) % 2 / 2}), both)
    found.save(tmp_path / "c.json")
    assert rf.Certificate.load(tmp_path / "c.json").measured["group"].tolist() == [None, 0.0, 0.5]


def test_single_precision_at_a_bound():
    losses = {"q": np.full((1, 40), 0.1, dtype=np.float32), "cost": np.ones((1, 40))}
    found = rf.LossTable([{"a": 0}], losses, bounds={"q": (0, 0.1)})
    assert not rf.calibrate(found, rf.Problem([rf.Limit("q", at_most=0.05)], minimize=["cost"]))


def test_numpy_numbers_are_numbers():
    problem = rf.Problem([rf.Limit("error", at_most=np.float32(0.25))], minimize=["cost"], delta=np.float64(0.1))
    assert problem.at(np.float64(0.5)).limits[0].value == 0.5
    assert json.dumps(problem.to_dict())


def test_texts_such_as_none_are_settings(tmp_path):
    rows = [{"prompt": p, "id": i, "error": 0, "cost": 1.0} for p in ("None", "NA", "short") for i in range(20)]
    pd.DataFrame(rows).to_csv(tmp_path / "t.csv", index=False)
    found, _ = read_table(tmp_path / "t.csv", PROBLEM)
    assert found.configs["prompt"].tolist() == ["None", "NA", "short"]


def test_a_method_of_ones_own_without_guarantee_comes_back_from_json(tmp_path):
    found = dataclasses.replace(rf.calibrate(table(), PROBLEM), method="my-own", guaranteed=False)
    found.save(tmp_path / "c.json")
    assert not rf.Certificate.load(tmp_path / "c.json").guaranteed


def test_a_saved_table_takes_no_options_of_long_ones(tmp_path):
    table().save(tmp_path / "t.parquet")
    with pytest.raises(rf.InvalidInputError, match="carries its own"):
        read_table(tmp_path / "t.parquet", PROBLEM, binary=["error"])


REFUSED = {
    "no levels": lambda table: rf.frontier(table, PROBLEM, []),
    "no method": lambda table: rf.experiment.run(table, PROBLEM, methods=[]),
    "no levels of trials": lambda table: rf.experiment.run(table, PROBLEM, alphas=[]),
    "a share that is nan": lambda table: rf.experiment.run(table, PROBLEM, calibration=float("nan")),
    "settings that are not there": lambda table: table.select([99]),
    "some settings of the table that made the plan": lambda table: rf.certify(
        rf.ParetoTesting().plan(table, PROBLEM), table.select(np.arange(4)), PROBLEM
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case):
    with pytest.raises(rf.InvalidInputError):
        REFUSED[case](table())
