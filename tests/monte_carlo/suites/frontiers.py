"""frontier(simultaneous=True): someone looks at the whole frontier and takes the limit that suits, a false one if there is."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pandas as pd

import riskfront as rf
from riskfront._calibration.frontier_plan import ValueGrid
from tests.monte_carlo.suites.procedures import DELTA, HAIR, settings, table_of
from tests.support.simulation import Suite, one_by_one, sharp_size

LIMITS = (0.1, 0.2, 0.3)
#: settings in groups of five: never failing, then a hair above each limit in turn
RISKS = np.repeat([0.0, *(alpha + HAIR for alpha in LIMITS)], 5)
PROBLEM = rf.Problem([rf.Limit("loss", at_most=LIMITS[0])], minimize=["cost"], delta=DELTA)
_PATH_N = sharp_size(LIMITS[0], DELTA / 3, 300, 0.3)


def _false_row(found: pd.DataFrame, risks: np.ndarray) -> bool:
    """Whether the frontier has a row that someone who looks for it could take to their harm."""
    named = found.dropna(subset="a")
    return bool((risks[named["a"].astype(int)] > named["alpha"]).any())


def _losses(rng: np.random.Generator, risks: np.ndarray, n: int) -> np.ndarray:
    return rng.random((len(risks), n), dtype=np.float32) < risks[:, None]


def paths_together(trial: int) -> bool:
    """Behind the settings that keep a limit stands one that breaks it by a hair, for every limit: three chances to err."""
    loss = _losses(np.random.default_rng([21, trial]), RISKS, _PATH_N)
    method = rf.ParetoTesting(opt_fraction=0.3, holm_share=0.0)
    table = table_of(loss, settings(len(RISKS)))
    return _false_row(rf.frontier(table, PROBLEM, LIMITS, method=method, seed=trial, simultaneous=True), RISKS)


def fallback_together(trial: int, n: int = 250) -> bool:
    """Thirty settings, all null at some limit and none of them safe, and half of delta for the fallback test."""
    risks = np.repeat([alpha + HAIR for alpha in LIMITS], 10)
    loss = _losses(np.random.default_rng([22, trial]), risks, n)
    method = rf.ParetoTesting(opt_fraction=0.3, holm_share=0.5)
    table = table_of(loss, settings(len(risks)))
    return _false_row(rf.frontier(table, PROBLEM, LIMITS, method=method, seed=trial, simultaneous=True), risks)


#: settings that every value tests in one order: safe ones, then one that breaks each third value by a hair
_WAITED_AT = np.array([0.0, 0.0, *(alpha + HAIR for alpha in LIMITS)])
_NINE = [alpha - below for alpha in LIMITS for below in (0.03, 0.015, 0.0)]


def waiting_at_one_setting(trial: int) -> bool:
    """Nine values and few settings: three sequences wait at each null, and pool what they have."""
    loss = _losses(np.random.default_rng([26, trial]), _WAITED_AT, _PATH_N)
    table, method = table_of(loss, settings(len(_WAITED_AT))), rf.ParetoTesting(opt_fraction=0.3, holm_share=0.0)
    return _false_row(rf.frontier(table, PROBLEM, _NINE, method=method, seed=trial, simultaneous=True), _WAITED_AT)


TWO_LIMITS = rf.Problem(["loss <= 0.1", "other <= 0.1"], minimize=["cost"], delta=DELTA)
VALUES = {"loss": [0.1, 0.2, 0.3], "other": [0.1, 0.2]}
_TWO_N = sharp_size(0.1, DELTA / 4, 240, 0.3)
#: (settings,) true risks: some keep everything, the cheaper ones break one limit by a hair at one of its values
_LOSS = np.array([0.0, 0.0, 0.0, *(alpha + HAIR for alpha in VALUES["loss"] for _ in range(4)), *[0.0] * 8])
_OTHER = np.array([0.0, 0.0, 0.0, *[0.0] * 12, *(alpha + HAIR for alpha in VALUES["other"] for _ in range(4))])


def chosen_after_looking(trial: int) -> bool:
    """Someone looks at all combinations of two limits, takes the certificate of the one that suits, a false one if there is."""
    rng = np.random.default_rng([23, trial])
    m = len(_LOSS)
    losses = {"loss": _losses(rng, _LOSS, _TWO_N), "other": _losses(rng, _OTHER, _TWO_N)}
    losses["cost"] = np.linspace(0.9, 0.1, m)[:, None] + 1e-3 * rng.random(_TWO_N)
    table = rf.LossTable(settings(m), losses)
    method = rf.ParetoTesting(opt_fraction=0.3, holm_share=0.0)
    found = rf.frontier(table, TWO_LIMITS, VALUES, method=method, seed=trial, simultaneous=True)
    named = found.frame.dropna(subset="a")
    rows = named["a"].astype(int).to_numpy()
    false = (_LOSS[rows] > named["limit on loss"]) | (_OTHER[rows] > named["limit on other"])
    if not false.any():
        return False
    at = named[false].iloc[0]
    certificate = found.choose({"loss": float(at["limit on loss"]), "other": float(at["limit on other"])})
    row = int(certificate.config["a"])
    loss, other = (limit.value for limit in certificate.problem.limits)
    return bool(certificate.guaranteed and (_LOSS[row] > loss or _OTHER[row] > other))


JUDGED = rf.Problem("loss <= 0.1 proxy judge", minimize=["cost"], delta=DELTA)


def with_unlabelled(trial: int, n: int = 120, times: int = 3) -> bool:
    """Bets with a judge on unlabelled examples, at three limits at once; the judge is right in five of six cases."""
    rng = np.random.default_rng([25, trial])
    judged = [_losses(rng, RISKS, size) for size in (n, times * n)]
    judge, elsewhere = (loss ^ (rng.random(loss.shape) < 1 / 6) for loss in judged)
    losses = {
        "loss": judged[0],
        "judge": judge,
        "cost": np.linspace(0.9, 0.1, len(RISKS))[:, None] + rng.random(n) / 1e3,
    }
    table, others = rf.LossTable(settings(len(RISKS)), losses), rf.LossTable(settings(len(RISKS)), {"judge": elsewhere})
    values, method = {"loss": list(LIMITS)}, rf.ParetoTesting(opt_fraction=0.3, holm_share=0.0)
    found = rf.frontier(table, JUDGED, values, method=method, seed=trial, simultaneous=True, unlabelled=others)
    named = found.frame.dropna(subset="a")
    return bool((RISKS[named["a"].astype(int)] > named["limit on loss"]).any())


class _Traced:
    """A trace of a model whose losses are known."""

    bounds: ClassVar = {"drop": (-1.0, 1.0)}

    def __init__(self, rng: np.random.Generator, risks: np.ndarray, n: int) -> None:
        self.examples, self.groups = np.arange(n), {"label": np.arange(n) % 2}
        self._lost, self._costs = (
            _losses(rng, risks, n),
            np.linspace(0.9, 0.1, len(risks))[:, None] + rng.random(n) / 1e3,
        )

    def __len__(self) -> int:
        return len(self.examples)

    def losses(self, config: dict[str, int], examples: np.ndarray) -> dict[str, np.ndarray]:
        return {"loss": self._lost[config["a"], examples], "cost": self._costs[config["a"], examples]}


def accelerated_model(trial: int) -> bool:
    """The door of accelerate --decide: the same hard settings, behind a trace; a false statement is chosen if there is one."""
    from riskfront.transformers._certifying import frontier_of  # loads torch

    trace, configs = _Traced(np.random.default_rng([24, trial]), RISKS, _PATH_N), [{"a": k} for k in range(len(RISKS))]
    grid = ValueGrid.of(PROBLEM, {"loss": list(LIMITS)})
    found = frontier_of(trace, configs, grid, rf.ParetoTesting(opt_fraction=0.3, holm_share=0.0), trial, progress=False)
    named = found.frame.dropna(subset="a")
    false = named[RISKS[named["a"].astype(int)] > named["limit on loss"]]
    if false.empty:
        return False
    return bool(found.choose({"loss": float(false["limit on loss"].iloc[0])}).guaranteed)


SUITES = [
    Suite("frontier: accelerated model", one_by_one(accelerated_model), 600),
    Suite("frontier: chosen after looking", one_by_one(chosen_after_looking), 240),
    Suite("frontier: with unlabelled examples", one_by_one(with_unlabelled), 400),
    Suite("frontier: paths together", one_by_one(paths_together), 2400),
    Suite("frontier: waiting at one setting", one_by_one(waiting_at_one_setting), 2400),
    Suite("frontier: fallback test together", one_by_one(fallback_together), 2000),
]
