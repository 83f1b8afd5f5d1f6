"""What every method must do: the public contract, on every registered name; a certificate for every kind of limit."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront.methods import METHODS, Plan, make_method
from riskfront.statistics._procedures import FixedSequence, Uncorrected
from riskfront.testing import check_method
from riskfront.testing._populations import CORNER
from tests.support.tables import grid_configs, random_table

#: a knob of one's own: its settings, from the safest on
STEPS = [{"step": step, "minus": -step} for step in range(24)]
#: what the name alone does not say
DECLARED = {"ordered-knob": {"safest": {"step": "low"}}}
CASES = {name: make_method(name, **DECLARED.get(name, {})) for name in METHODS}
CASES |= {
    "sgt, declared": rf.SGT(safest=CORNER),
    "fallback, declared": rf.Fallback(safest=CORNER),
    "low-risk-path, declared": rf.LowRiskPath(safest=CORNER),
    "split-fst, linear": rf.SplitFST(spacing="linear"),
    "split-fst, every setting": rf.SplitFST(spacing="every"),
    "ordered-knob, from the other end": rf.OrderedKnob(safest={"minus": "high"}),
    "pareto-testing, few": rf.ParetoTesting(max_settings=5, prune=False),
    "pareto-testing, in the paper": rf.ParetoTesting.as_in_the_paper(),
    "pareto-testing, path and fallback test": rf.ParetoTesting(holm_share=0.3),
}
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


@pytest.mark.monte_carlo
@pytest.mark.parametrize("name", CASES)
def test_the_contract(name: str) -> None:
    """30 trials find a rate of .8 nearly always; ``make validity`` makes 300 with every p-value that applies."""
    configs = STEPS if "knob" in name else None
    rates = check_method(CASES[name], configs=configs, trials=30 if name in METHODS else 10)
    assert len(rates) >= 10


def configs_for(name: str) -> list[dict[str, int]]:
    """The grid; for a method of one knob, the same settings with the number of the step as their only knob."""
    grid = grid_configs((4, 5))
    if "knob" not in name:
        return grid
    steps = np.argsort(np.argsort([sum(config.values()) for config in grid], kind="stable")).tolist()
    return [{"step": step, "minus": -step} for step in steps]


def table_for(name: str, seed: int = 0, n: int = 300) -> rf.LossTable:
    table = random_table(seed, n=n)
    losses = {loss: table.losses(loss) for loss in table.loss_names}
    return rf.LossTable(configs_for(name), losses, {"label": table.group("label")}, {"drop": (-1, 1)})


@pytest.mark.parametrize("name", CASES)
def test_yields_a_certificate_for_every_kind_of_limit(name: str) -> None:
    table = table_for(name, n=700)
    for problem in PROBLEMS.values():
        found = rf.calibrate(table, problem, method=CASES[name], seed=1)
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


@pytest.mark.slow
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


@dataclass(frozen=True)
class Own:
    """A method with one fault: Pareto Testing's order, judged or made in a wrong way."""

    fault: str
    opt_fraction: float = 0.3
    guaranteed: bool = True
    name: ClassVar[str] = "own"

    def plan(self, opt: rf.LossTable, problem: rf.Problem) -> Plan:
        rows = rf.ParetoTesting().plan(opt, problem).rows
        if self.fault == "draws":
            rows = np.random.default_rng().permutation(opt.n_configs)
        if self.fault == "raises":
            raise KeyError("threshold")
        if self.fault == "refuses":
            raise rf.InvalidInputError("this method needs a column 'depth'.")
        if self.fault == "nothing":
            rows = rows[:0]
        return Plan(self, opt, rows, Uncorrected() if self.fault == "uncorrected" else FixedSequence())


@pytest.mark.monte_carlo
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (
            "uncorrected",
            r"0/1, independent: a certificate contained a setting that breaks a limit in \d+ of \d+ trials",
        ),
        ("draws", "the same examples and the same seed gave two certificates"),
        ("raises", "raised KeyError: 'threshold'"),
        ("refuses", "every population was refused; .* needs a column 'depth'"),
        ("nothing", "nothing was certified"),
    ],
)
def test_a_broken_method_fails_the_contract(fault: str, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_method(Own(fault), trials=60)


@pytest.mark.slow
def test_a_method_without_a_guarantee_is_counted_and_not_judged() -> None:
    rates = check_method(Own("uncorrected", guaranteed=False), trials=30)
    assert rates["rate"].max() > 0.3


def test_what_is_no_method_fails_the_contract() -> None:
    with pytest.raises(AssertionError, match="it lacks name, guaranteed, opt_fraction, plan"):
        check_method(object())
