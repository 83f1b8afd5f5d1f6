"""Methods and p-values broken on purpose in the trials of experiment.run, each caught by counting the misses."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront.experiment import _repeated_splits as repeated_splits
from riskfront.methods import Plan
from riskfront.methods._evidence import limit_tests as evidence
from riskfront.statistics import _p_values as p_values
from riskfront.statistics._procedures import FixedSequence
from riskfront.testing._findings import too_many
from riskfront.testing._populations import POPULATIONS, SHAPE, Population
from tests.validity.broken import kelly

pytestmark = pytest.mark.monte_carlo
TRIALS = 300


def caught(found: pd.DataFrame, delta: float = 0.1) -> list[str]:
    """The methods that miss too often: the check that correct methods pass and broken ones fail."""
    misses = found.groupby("method")["any_violated"].agg(["sum", "size"])
    return [
        str(name)
        for name, (missed, trials) in misses.iterrows()
        if too_many(int(missed), int(trials), delta, level=1e-5)
    ]


def measured(world: Population, *methods: object, p_value: str = "as given", trials: int = TRIALS) -> pd.DataFrame:
    return world.trials(methods, p_value, trials, seed=99)


@dataclass(frozen=True)
class Judged:
    """A procedure that judges all hypotheses by a function of their p-values and delta."""

    rule: object
    sequential: ClassVar[bool] = False

    def levels(self, p: np.ndarray, delta: float) -> np.ndarray:
        return np.where(self.reject(p, delta), delta, np.nan)

    def reject(self, p: np.ndarray, delta: float) -> np.ndarray:
        return np.asarray(self.rule(p, delta))


@dataclass(frozen=True)
class Mutant:
    """The order of Pareto Testing or of the grid, judged by a broken procedure."""

    name: str
    procedure: Judged
    of_the_grid: bool = False
    opt_fraction: float = 0.3
    guaranteed: ClassVar[bool] = True

    def plan(self, opt: rf.LossTable, problem: rf.Problem) -> Plan:
        rows = np.arange(opt.n_configs) if self.of_the_grid else rf.ParetoTesting().plan(opt, problem).rows
        return Plan(self, opt, rows, self.procedure)


def goes_on(p: np.ndarray, delta: float) -> np.ndarray:
    """A fixed sequence that goes on after a failure."""
    return p <= delta


def either_end(p: np.ndarray, delta: float) -> np.ndarray:
    """The direction of the sequence read off the tested data."""
    forward = p[0] <= p[-1]
    found = FixedSequence().reject(p if forward else p[::-1], delta)
    return found if forward else found[::-1]


def keeps_its_budget(p: np.ndarray, delta: float) -> np.ndarray:
    """A graph whose nodes hand on their budget in full to every neighbour, and so make more of it."""
    budget = np.zeros(SHAPE)
    budget[0, 0] = delta
    rejected = np.zeros(SHAPE, dtype=bool)
    for cell in np.ndindex(*SHAPE):
        if p.reshape(SHAPE)[cell] <= budget[cell]:
            rejected[cell] = True
            for ahead in ((cell[0] + 1, cell[1]), (cell[0], cell[1] + 1)):
                if ahead[0] < SHAPE[0] and ahead[1] < SHAPE[1]:
                    budget[ahead] += budget[cell]
    return rejected.ravel()


MUTANTS = [
    ("0/1, independent", Mutant("goes on after a failure", Judged(goes_on))),
    ("0/1, independent, all null", Mutant("direction read off the tested data", Judged(either_end), of_the_grid=True)),
    ("0/1, independent", Mutant("budget handed on twice", Judged(keeps_its_budget), of_the_grid=True)),
]


@pytest.mark.parametrize(("world", "mutant"), MUTANTS, ids=[mutant.name for _, mutant in MUTANTS])
def test_broken_procedures_are_caught(world: str, mutant: Mutant) -> None:
    # an exact test of counts stays a little below delta, so two ends make less than .19: more trials show it
    trials = 2500 if mutant.procedure.rule is either_end else TRIALS
    assert caught(measured(POPULATIONS[world](), mutant, trials=trials)) == [mutant.name]


def test_no_split_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans made on the data that are then tested."""
    split = repeated_splits.split_examples
    monkeypatch.setattr(repeated_splits, "split_examples", lambda *given: (split(*given)[1],) * 2)
    found = measured(POPULATIONS["0/1, independent"](), rf.ParetoTesting(), rf.SplitFST(), rf.ConstrainedPath())
    assert set(caught(found)) == {"pareto-testing", "split-fst", "constrained-path"}


def test_stakes_that_see_their_own_loss_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def seeing(losses: np.ndarray, alpha: float, delta: float, kept: object, of: np.ndarray) -> np.ndarray:
        return kelly(losses[of].astype(float), alpha)

    monkeypatch.setitem(p_values.P_VALUES, "betting", replace(p_values.P_VALUES["betting"], function=seeing))
    assert caught(measured(POPULATIONS["0/1, independent"](), rf.ParetoTesting(), p_value="betting")) == [
        "pareto-testing"
    ]


def test_signed_losses_as_if_they_were_counts_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean of signed drops fed to Hoeffding-Bentkus against alpha itself."""
    world = POPULATIONS["signed, 30 % flips"]()
    honest = p_values.PValue.from_totals

    def raw(self: p_values.PValue, total: np.ndarray, n: np.ndarray, alpha: float, squares: object) -> np.ndarray:
        drops = np.maximum(np.rint(2 * total - n), 0)  # back from (D + 1) / 2
        return honest(self, drops, n, 2 * alpha - 1)

    monkeypatch.setattr(p_values.PValue, "from_totals", raw)
    assert caught(measured(world, rf.ParetoTesting(), p_value="hoeffding-bentkus")) == ["pareto-testing"]


def test_forgetting_the_condition_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit given "answered" tested on the mean of loss and answered over all examples."""

    def forgetful(self: evidence.LimitTest, table: rf.LossTable, rows: np.ndarray, *target_levels: Any) -> np.ndarray:
        return p_values.binomial(self.sums(table, rows).total, table.n_examples, self.alpha)

    monkeypatch.setattr(evidence.LimitTest, "p_values", forgetful)
    assert caught(measured(POPULATIONS["selective"](), rf.ParetoTesting())) == ["pareto-testing"]


def test_floor_in_bentkus_is_caught() -> None:
    """One count too few: on losses of .99 the mean is alpha, yet the sum of one of them is floored to none."""
    rng = np.random.default_rng(5)
    trials, n, alpha = 6000, 33, 0.1
    totals = 0.99 * (rng.random((trials, n)) < alpha / 0.99).sum(axis=1)
    floored = np.minimum(np.e * p_values.binomial(np.floor(totals), n, alpha), 1)
    for p, broken in ((floored, True), (p_values.bentkus(totals, n, alpha), False)):
        frame = pd.DataFrame({"method": "bentkus", "any_violated": p <= 0.1})
        assert caught(frame) == (["bentkus"] if broken else [])
