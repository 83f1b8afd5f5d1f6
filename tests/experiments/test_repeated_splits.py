"""The repeated-splits harness against calibrating by hand."""

import numpy as np
import pytest

import riskfront as rf
from riskfront import experiment
from riskfront.calibration.decision import decide
from riskfront.errors import InvalidInputError
from riskfront.evidence.evidence import Evidence
from riskfront.methods import METHODS
from tests.support.tables import random_table

PROBLEM = rf.Problem([rf.Limit("error", at_most=0.12), rf.Limit("drop", at_most=0.4)], ["cost"])
TABLE = random_table(n=500)


def test_a_tidy_frame() -> None:
    frame = experiment.run(TABLE, PROBLEM, alphas=[0.1, 0.12], trials=3, calibration=300)
    assert len(frame) == len(METHODS) * 2 * 3
    assert set(frame["method"]) == set(METHODS)
    assert {"p_value", "alpha", "trial", "error", "drop", "cost", "violated", "any_violated", "n_certified"} <= set(
        frame
    )
    again = experiment.run(TABLE, PROBLEM, alphas=[0.1, 0.12], trials=3, calibration=300)
    assert frame.equals(again)
    assert not frame.equals(experiment.run(TABLE, PROBLEM, alphas=[0.1, 0.12], trials=3, calibration=300, seed=1))


@pytest.mark.parametrize("replace", [False, True])
def test_as_by_hand(replace: bool) -> None:
    """The batched sums give what plan and decide give on each split alone."""
    methods = [rf.ParetoTesting(), rf.SGT(), rf.HolmTesting()]
    frame = experiment.run(TABLE, PROBLEM, methods=methods, trials=4, calibration=300, replace=replace)
    rows = iter(frame.itertuples())
    for trial in range(4):
        rng = np.random.default_rng([experiment._STREAM, 0, trial])
        order = rng.integers(0, 500, 300) if replace else rng.permutation(500)
        sample, rest = order[:300], TABLE if replace else TABLE.subset(order[300:])
        for method in methods:
            cut = round(method.opt_fraction * 300)
            opt, test = TABLE.subset(sample[:cut]), TABLE.subset(sample[cut:])
            decision = decide(method.plan(opt, PROBLEM), Evidence(PROBLEM, test))
            row = next(rows)
            assert (row.method, row.trial) == (method.name, trial)
            assert row.n_certified == decision.certified.sum()
            if len(decision.chosen):
                best = decision.rows[decision.chosen[0]]
                assert row.error == pytest.approx(rest.losses("error")[best].mean())
                assert row.cost == pytest.approx(rest.losses("cost")[best].mean())
                risks = [rest.losses("error").mean(axis=1), rest.losses("drop").mean(axis=1)]
                broken = (risks[0] > 0.12 + 1e-12) | (risks[1] > 0.4 + 1e-12)
                assert row.violated == broken[best]
                assert row.any_violated == broken[decision.rows[decision.certified]].any()


def test_variants_of_one_method_are_told_apart() -> None:
    methods = [rf.ParetoTesting(opt_fraction=0.3), rf.ParetoTesting(opt_fraction=0.5), rf.HolmTesting()]
    frame = experiment.run(TABLE, PROBLEM, methods=methods, trials=2)
    names = ["pareto-testing (opt_fraction=0.3)", "pareto-testing (opt_fraction=0.5)", "holm"]
    assert list(dict.fromkeys(frame["method"])) == names
    assert experiment.summarize(frame)["method"].tolist() == names


def test_summary() -> None:
    frame = experiment.run(
        TABLE, PROBLEM, methods=["holm"], alphas=[0.001, 0.12], trials=5, p_values=["hoeffding-bentkus"]
    )
    summary = experiment.summarize(frame)
    assert summary["alpha"].tolist() == [0.001, 0.12]
    assert summary["certified_something"].tolist()[0] == 0
    assert set(summary["p_value"]) == {"hoeffding-bentkus"}
    assert summary["cost"].iloc[1] == pytest.approx(frame[frame["alpha"] == 0.12]["cost"].mean())


def test_nothing_certified_is_no_violation() -> None:
    hopeless = rf.Problem([rf.Limit("error", at_most=0.0001)], ["cost"])
    frame = experiment.run(TABLE, hopeless, methods=["pareto-testing"], trials=2)
    assert not frame["violated"].any()
    assert frame["cost"].isna().all()


def test_calibration_sizes() -> None:
    for bad in (0, 1, 500, 1000, 0.0):
        with pytest.raises(InvalidInputError, match=r"calibration must take at least 2 of 500 examples"):
            experiment.run(TABLE, PROBLEM, calibration=bad, trials=1)
    assert len(experiment.run(TABLE, PROBLEM, methods=["holm"], calibration=1000, replace=True, trials=1)) == 1


def test_draws_are_independent_of_data_simulated_with_the_same_seed() -> None:
    """default_rng([0, 0]) is default_rng(0): numpy pads seeds with zeros. The harness has a stream of its own."""
    assert np.random.default_rng([0, 0]).random() == np.random.default_rng(0).random()
    assert np.random.default_rng([experiment._STREAM, 0, 0]).random() != np.random.default_rng(0).random()
