"""What every method must do: yield a certificate, be deterministic, abstain, and keep opt and test data apart."""

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront.methods import BY_NAME, make_method
from tests.support.tables import grid_configs, random_table

SAFEST = {"a": "low", "b": "low"}
CASES = {name: make_method(name) for name in BY_NAME}
CASES |= {
    "sgt, declared": rf.SGT(safest=SAFEST),
    "fallback, declared": rf.Fallback(safest=SAFEST),
    "low-risk-path, declared": rf.LowRiskPath(safest=SAFEST),
    "split-fst, linear": rf.SplitFST(spacing="linear"),
    "split-fst, every setting": rf.SplitFST(spacing="every"),
    "ordered-knob": rf.OrderedKnob(safest={"step": "low"}),
    "ordered-knob, from the other end": rf.OrderedKnob(safest={"minus": "high"}),
    "pareto-testing, few": rf.ParetoTesting(max_settings=5, prune=False),
}
GUARANTEED = [name for name, method in CASES.items() if method.guaranteed]
PROBLEMS = {
    "one limit": rf.Problem([rf.Limit("error", at_most=0.12)], ["cost"]),
    "worst class": rf.Problem([rf.Limit("error", at_most=0.3, per="label")], ["cost"]),
    "selective": rf.Problem(
        [rf.Limit("error", at_most=0.2, given="answered"), rf.Limit("answered", at_least=0.4)], ["cost"]
    ),
    "signed, two objectives": rf.Problem([rf.Limit("drop", at_most=0.35)], ["cost", "latency"]),
    "quantile": rf.Problem([rf.Limit("latency", at_most=110.0, quantile=0.7)], ["error"]),
    "continuous, maximize": rf.Problem([rf.Limit("regret", at_most=0.1)], maximize=["answered"]),
}


def configs_for(name: str) -> list[dict[str, int]]:
    """The grid; for a method of one knob, the same settings with the number of the step as their only knob."""
    grid = grid_configs((4, 5))
    if not name.startswith("ordered-knob"):
        return grid
    steps = np.argsort(np.argsort([sum(config.values()) for config in grid], kind="stable")).tolist()
    return [{"step": step, "minus": -step} for step in steps]


def table_for(name: str, seed: int = 0, n: int = 300) -> rf.LossTable:
    table = random_table(seed, n=n)
    losses = {loss: table.losses(loss) for loss in table.loss_names}
    return rf.LossTable(configs_for(name), losses, {"label": table.group("label")}, {"drop": (-1, 1)})


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("name", CASES)
def test_yields_a_certificate(name: str, problem: str) -> None:
    found = rf.calibrate(table_for(name, n=700), PROBLEMS[problem], method=CASES[name], seed=1)
    assert isinstance(found, rf.Certificate)
    assert found.guaranteed == CASES[name].guaranteed
    assert found.n_opt + found.n_test == 700
    if found:
        assert found.config in configs_for(name)
        if name == "alpha-constrained":  # compares means, has no p-values
            assert found.chosen["p_value"].isna().all()
        else:
            assert found.chosen["p_value"].max() <= 0.1
        assert len(found.chosen) <= len(found.certified) <= len(found.tested)
    else:
        assert found.diagnosis["message"]
    assert rf.Certificate.from_dict(found.to_dict()).to_dict() == found.to_dict()


@pytest.mark.parametrize("name", CASES)
def test_certifies_something_when_it_should(name: str) -> None:
    """Ten times the examples any test needs, and a setting that hardly ever fails."""
    found = rf.calibrate(
        table_for(name, n=3000), rf.Problem([rf.Limit("error", at_most=0.12)], ["cost"]), method=CASES[name]
    )
    assert found
    assert found.certified["error"].max() < 0.12


@pytest.mark.parametrize("name", CASES)
def test_deterministic_by_seed(name: str) -> None:
    one, same = (
        rf.calibrate(table_for(name, n=400), PROBLEMS["one limit"], method=CASES[name], seed=9) for _ in range(2)
    )
    assert one.to_dict() == same.to_dict()
    other = rf.calibrate(table_for(name, n=400), PROBLEMS["one limit"], method=CASES[name], seed=10)
    if CASES[name].opt_fraction > 0:
        assert other.to_dict() != one.to_dict()


@pytest.mark.parametrize("name", GUARANTEED)
def test_abstains_when_no_setting_can_hold(name: str) -> None:
    """All losses are 1, and then: no losses at all but too few examples. Never setting number 0."""
    always = rf.LossTable(configs_for(name), {"error": np.ones((20, 500), dtype=bool), "cost": np.ones((20, 500))})
    few = rf.LossTable(configs_for(name), {"error": np.zeros((20, 9), dtype=bool), "cost": np.ones((20, 9))})
    for table in (always, few):
        found = rf.calibrate(table, PROBLEMS["one limit"], method=CASES[name])
        assert not found
        with pytest.raises(rf.NotCertifiedError):
            _ = found.config


@pytest.mark.parametrize("problem", ["one limit", "worst class", "selective", "signed, two objectives"])
@pytest.mark.parametrize("name", CASES)
def test_the_plan_knows_opt_data_only(name: str, problem: str) -> None:
    """Other test data, the same plan; other opt data, the same p-values of every setting that is tested in both."""
    method, asked = CASES[name], PROBLEMS[problem]
    n = 500
    mine, other = table_for(name, 1, n), table_for(name, 2, n)
    joined = {k: np.concatenate([mine.losses(k), other.losses(k)], axis=1) for k in mine.loss_names}
    labels = np.concatenate([[t.group("label").levels[c] for c in t.group("label").codes] for t in (mine, other)])
    table = rf.LossTable(mine.configs, joined, groups={"label": labels}, bounds={"drop": (-1, 1)})
    cut = round(method.opt_fraction * n)
    opt, test = np.arange(cut), np.arange(cut, n)

    def certificate(opt: np.ndarray, test: np.ndarray) -> tuple[list[int], pd.DataFrame]:
        plan = method.plan(table.subset(opt), asked)
        return plan.rows.tolist(), rf.certify(plan, table.subset(test), asked).tested

    plan, tested = certificate(opt, test)
    same_plan, other_tested = certificate(opt, test + n)
    other_plan, same_tested = certificate(opt + n, test)
    assert plan == same_plan
    if method.opt_fraction == 0:
        assert plan == other_plan
    values = [c for c in tested if c.startswith("p_value")]
    both = tested.merge(same_tested, on=mine.config_names, suffixes=("", " other"))
    for column in values if problem != "signed, two objectives" else ():  # the order of bets is drawn from opt data too
        np.testing.assert_array_equal(both[column], both[f"{column} other"])
    if len(tested) == len(other_tested) and name != "alpha-constrained":
        assert not np.array_equal(tested["p_value"], other_tested["p_value"])


@pytest.mark.parametrize("name", GUARANTEED)
def test_more_delta_or_alpha_certifies_no_less_often(name: str) -> None:
    """On average over splits: a looser question has a better answer."""
    counts = []
    for alpha, delta in ((0.05, 0.05), (0.12, 0.2)):
        problem = rf.Problem([rf.Limit("error", at_most=alpha)], ["cost"], delta=delta)
        frame = rf.experiment.run(table_for(name, n=700), problem, methods=[CASES[name]], trials=10, calibration=500)
        counts.append((frame["n_certified"] > 0).mean())
    assert counts[1] >= counts[0]
