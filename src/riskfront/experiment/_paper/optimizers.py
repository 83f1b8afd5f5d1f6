"""Few evaluations instead of a grid: every search is told planning values only, then Pareto Testing certifies what it found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from riskfront._calibration.decision import decide
from riskfront._data.splits import split_examples
from riskfront._data.table import LossTable
from riskfront._problems.problem import Problem
from riskfront._problems.spaces.space import Grid, Int, Space
from riskfront.errors import MissingExtraError
from riskfront.experiment._paper.descriptions import Experiment
from riskfront.experiment._paper.stored_tables import full_row
from riskfront.experiment._paper.trials import objective_values, problem_of
from riskfront.experiment._repeated_splits import calibration_examples
from riskfront.methods import Method
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.search import LimitTarget, Search, make_search

BUDGETS = (25, 50, 100, 200)
STRATEGIES = ("parego", "guided", "optuna", "random")
GRID = "grid of all settings"


def measure(
    experiment: Experiment,
    data: str,
    table: LossTable,
    *,
    more: Sequence[Method] = (),
    trials: int | None = None,
    seed: int = 0,
    strategies: Sequence[str] = STRATEGIES,
    budgets: Sequence[int] = BUDGETS,
) -> pd.DataFrame:
    """One row for each search, number of evaluations (fewer than the grid has), alpha and trial: the true cost of what is
    certified."""
    budgets = [budget for budget in budgets if budget < table.n_configs] or [table.n_configs]
    lineup = experiment.lineups[0]
    problem, method = problem_of(experiment, lineup), lineup.made_for(table)[0]
    size = experiment.calibration.get(data, table.n_examples // 2)
    costs, full = objective_values(experiment, table), full_row(table.configs)
    rows: list[dict[str, Any]] = []
    for trial in range(trials or experiment.trials):
        sample, _ = calibration_examples(table.n_examples, size, trial, seed=seed)
        opt, test = (table.subset(sample[part]) for part in split_examples(size, method.opt_fraction, trial))
        told = np.column_stack([Evidence(problem, opt).risks(), Evidence(problem, opt).objectives()])
        for strategy, evaluations, alpha, asked in _searches(
            experiment, table, problem, told, (opt, test), trial, strategies, budgets
        ):
            plan = method.plan(opt.select(asked), problem.at(alpha))
            decision = decide(plan, Evidence(problem.at(alpha), test.select(asked)))
            best = asked[decision.rows[decision.chosen[:1]]]
            cost = costs[best[0]] if len(best) else (costs[full] if full is not None else np.nan)
            about = {"method": strategy, "evaluations": evaluations, "alpha": alpha, "trial": trial}
            made = {experiment.objectives[0]: float(cost), "n_certified": int(decision.certified.sum())}
            rows.append(about | made)
    return pd.DataFrame(rows)


def _searches(
    experiment: Experiment,
    table: LossTable,
    problem: Problem,
    told: np.ndarray,
    parts: tuple[LossTable, LossTable],
    trial: int,
    strategies: Sequence[str],
    budgets: Sequence[int],
) -> list[tuple[str, int, Any, np.ndarray]]:
    """(search, evaluations, alpha, settings asked for); only guided search knows alpha before."""
    grid = Grid.of(table.configs)
    everything = np.arange(table.n_configs)
    found = [(GRID, table.n_configs, alpha, everything) for alpha in experiment.alphas]
    for strategy in strategies:
        guided = strategy == "guided"
        for alphas in [[alpha] for alpha in experiment.alphas] if guided else [list(experiment.alphas)]:
            targets = [LimitTarget("risk", float(alphas[0]), parts[0].n_examples, parts[1].n_examples)]  # type: ignore[arg-type]
            options = {"targets": targets, "delta": problem.delta} if guided else {}
            try:
                search = make_search(
                    strategy, _space(grid), ["risk", "cost"], seed=trial, budget=max(budgets), **options
                )
            except MissingExtraError:
                break  # whoever has no SMAC still sees the others
            asked = _asked(search, grid, told, max(budgets))
            found += [(strategy, budget, alpha, np.unique(asked[:budget])) for alpha in alphas for budget in budgets]
    return found


def _space(grid: Grid) -> Space:
    """Positions along every axis: thresholds are quantiles, so equal steps mean about equal changes."""
    return Space.from_dict({name: Int(0, n - 1) for name, n in zip(grid.axes, grid.rows.shape, strict=True)})


def _asked(search: Search, grid: Grid, told: np.ndarray, budget: int) -> np.ndarray:
    rows = []
    for _ in range(budget):
        for config in search.ask():
            row = int(grid.rows[tuple(int(config[name]) for name in grid.axes)])
            search.tell(config, {"risk": float(told[row, 0]), "cost": float(told[row, 1])})
            rows.append(row)
    return np.array(rows, dtype=np.int64)


def summary(experiment: Experiment, table: LossTable, results: pd.DataFrame) -> pd.DataFrame:
    """Mean cost with its standard error; where nothing is certified, that of the full model."""
    keys, name = ["method", "evaluations", "alpha"], experiment.objectives[0]
    groups = results.groupby(keys, sort=False)
    means = groups.mean().drop(columns="trial")
    return means.assign(**{f"{name}, standard error": groups[name].sem(), "trials": groups.size()}).reset_index()
