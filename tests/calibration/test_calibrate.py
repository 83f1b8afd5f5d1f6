"""calibrate, certify, frontier, verify."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront.errors import InvalidInputError
from riskfront.methods import METHODS
from riskfront.methods._registry import BY_NAME
from tests.support.tables import random_table

PROBLEM = rf.Problem([rf.Limit("error", at_most=0.12)], ["cost"])
TABLE = random_table(n=600)


@pytest.mark.parametrize("name", BY_NAME)
def test_calibrate_is_split_plan_certify(name: str) -> None:
    # certify has no table of all settings on all examples, and so no fallback test
    method = rf.ParetoTesting(opt_fraction=0.3, holm_share=0) if name == "pareto-testing" else METHODS[name]()
    opt, test = TABLE.split(method.opt_fraction, seed=4)
    by_hand = rf.certify(method.plan(opt, PROBLEM), test, PROBLEM)
    batch_size = rf.calibrate(TABLE, PROBLEM, method=method, seed=4)
    pd.testing.assert_frame_equal(by_hand.path, batch_size.path)
    assert by_hand.seed is None
    assert batch_size.seed == 4


def test_certify_on_tables_of_their_own() -> None:
    """Only the planned settings need to be measured on test data, in any order."""
    opt, test = random_table(1), random_table(2, n=500)
    method = rf.ParetoTesting()
    plan = method.plan(opt, PROBLEM)
    few = test.select(plan.rows[::-1])
    one, other = rf.certify(plan, test, PROBLEM), rf.certify(plan, few, PROBLEM)
    pd.testing.assert_frame_equal(one.path, other.path)
    assert one.n_test == 500


def test_planning_data_are_refused_as_test_data() -> None:
    opt, test = TABLE.split(0.3)
    for method in (rf.ParetoTesting(), rf.SplitFST(), rf.LowRiskPath(), rf.ConstrainedPath(), rf.SGT(), rf.Fallback()):
        for data in (opt, TABLE, opt.subset([0])):
            with pytest.raises(InvalidInputError, match=r"must have had no part in the plan"):
                rf.certify(method.plan(opt, PROBLEM), data, PROBLEM)
        assert rf.certify(method.plan(opt, PROBLEM), test, PROBLEM) is not None
    # methods that plan without looking at any loss may be given everything
    assert rf.certify(rf.BonferroniTesting().plan(TABLE, PROBLEM), TABLE, PROBLEM)
    assert rf.certify(rf.SGT(safest={"a": "low", "b": "low"}).plan(TABLE, PROBLEM), TABLE, PROBLEM)


def test_a_class_that_only_opt_data_have_seen_is_not_certified() -> None:
    """The limit speaks of every class. A test table of its own without class z said nothing about it, and passed."""
    problem = rf.Problem([rf.Limit("error", at_most=0.3, per="label")], ["cost"])
    opt, test = random_table(1, n=300), random_table(2, n=600)
    plan = rf.ParetoTesting().plan(opt, problem)
    assert rf.certify(plan, test, problem)
    codes = test.group("label").codes
    without = rf.LossTable(
        test.configs,
        {name: test.losses(name)[:, codes < 2] for name in ("error", "cost")},
        groups={"label": [test.group("label").levels[code] for code in codes[codes < 2]]},
    )
    found = rf.certify(plan, without, problem)
    assert not found
    assert found.diagnosis["group"] == "z"
    assert "no testing example speaks of it" in found.diagnosis["message"]


def test_testing_needs_examples() -> None:
    with pytest.raises(InvalidInputError, match=r"at least one example; the test part has none"):
        rf.certify(rf.HolmTesting().plan(TABLE, PROBLEM), TABLE.subset([]), PROBLEM)


def test_a_single_setting_is_not_bad_input() -> None:
    table = TABLE.select([0])
    for name in BY_NAME:
        assert rf.calibrate(table, PROBLEM, method=name).config == {"a": 0, "b": 0}


def test_explored_shows_every_setting_on_opt_data() -> None:
    found = rf.calibrate(TABLE, PROBLEM, method=rf.ParetoTesting(opt_fraction=0.3, holm_share=0))
    assert len(found.explored) == 20
    assert found.explored["planned"].sum() >= len(found.tested)
    opt, _ = TABLE.split(0.3, seed=0)
    np.testing.assert_allclose(found.explored["error"], opt.means("error")[:, 0])
    assert rf.calibrate(TABLE, PROBLEM, method="holm").explored is None


def test_frontier_is_calibrate_at_each_alpha() -> None:
    alphas = [0.0005, 0.05, 0.08, 0.12, 0.2]
    frame = rf.frontier(TABLE, PROBLEM, alphas, seed=1)
    assert frame["alpha"].tolist() == alphas
    assert frame["n_certified"].iloc[0] == 0
    for alpha in alphas[1:]:
        single = rf.calibrate(TABLE, PROBLEM.at(alpha), seed=1)
        row = frame[frame["alpha"] == alpha]
        assert row["n_certified"].item() == len(single.certified)
        if single:
            assert row[["a", "b"]].astype(int).to_dict("records") == [single.config]
            assert row["p_value"].item() == pytest.approx(single.chosen["p_value"].item())


def test_frontier_with_several_limits_and_objectives() -> None:
    problem = rf.Problem([rf.Limit("error", at_most=0.1), rf.Limit("drop", at_most=0.3)], ["cost", "regret"])
    frame = rf.frontier(TABLE, problem, [(0.1, 0.3), (0.15, 0.35)])
    assert set(frame["alpha"]) == {(0.1, 0.3), (0.15, 0.35)}
    assert len(frame) > 2


@pytest.mark.slow
def test_verify_accepts_what_is_true() -> None:
    for name in BY_NAME:
        assert rf.verify(rf.calibrate(TABLE, PROBLEM, method=name, seed=2), TABLE) == []


def test_verify_finds_what_is_not() -> None:
    found = rf.calibrate(TABLE, PROBLEM, method=rf.ParetoTesting(holm_share=0), seed=2)
    assert "the data differ" in rf.verify(found, random_table(5, n=600))[0]
    path = found.path.copy()
    path.loc[0, "p_value"] = 1e-5
    assert any("path.p_value[0]" in line for line in rf.verify(replace(found, path=path), TABLE))
    path = found.path.copy()
    path.loc[len(path) - 1, "certified"] = True
    assert rf.verify(replace(found, path=path), TABLE)
    assert rf.verify(replace(found, path=found.path.iloc[:-1]), TABLE)
    assert rf.verify(replace(found, guaranteed=False), TABLE)
    assert rf.verify(replace(found, seed=3), TABLE)
    with pytest.raises(InvalidInputError, match=r"tune or certify made it"):
        rf.verify(replace(found, seed=None), TABLE)
