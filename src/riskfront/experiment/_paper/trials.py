"""Experiments of repeated trials: every method of every lineup on the same draws, judged by the whole table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from riskfront._data.table import LossTable
from riskfront._problems.objectives import Objective
from riskfront._problems.problem import Problem
from riskfront.experiment._paper.descriptions import Experiment
from riskfront.experiment._paper.stored_tables import Lineup, full_row
from riskfront.experiment._repeated_splits import run, summarize
from riskfront.methods import Method
from riskfront.methods._evidence.limit_tests import Evidence

OR_FULL = "or the full model"


def problem_of(experiment: Experiment, lineup: Lineup) -> Problem:
    """What one lineup faces."""
    minimize, maximize = (
        [Objective.parse(name) for name in names] for names in (experiment.minimize, experiment.maximize)
    )
    return Problem(lineup.limits, minimize, maximize, delta=experiment.delta)


def measure(
    experiment: Experiment,
    data: str,
    table: LossTable,
    *,
    more: Sequence[Method] = (),
    trials: int | None = None,
    seed: int = 0,
    jobs: int = 1,
) -> pd.DataFrame:
    """One row for each method, alpha and trial; limits and objectives under the names that the experiment gives them.

    Args:
        more: methods of the user's, which join the first lineup.
        jobs: processes that share the trials; what comes out does not depend on it.
    """
    asked = range(trials or experiment.trials)
    shares = [share for share in (asked[start::jobs] for start in range(jobs)) if len(share)]
    tasks = [(lineup, index == 0) for index, lineup in enumerate(experiment.lineups)]
    found = Parallel(n_jobs=jobs)(
        delayed(_run)(experiment, data, table, lineup, more if is_first else (), share, seed)
        for lineup, is_first in tasks
        for share in shares
    )
    parts = [pd.concat(found[at : at + len(shares)]) for at in range(0, len(found), len(shares))]
    return pd.concat([part.sort_values("trial", kind="stable") for part in parts], ignore_index=True)


def _run(
    experiment: Experiment,
    data: str,
    table: LossTable,
    lineup: Lineup,
    more: Sequence[Method],
    trials: range,
    seed: int,
) -> pd.DataFrame:
    """Some trials of one lineup."""
    problem = problem_of(experiment, lineup)
    rows = run(
        table,
        problem,
        methods=[*lineup.made_for(table), *more],
        alphas=experiment.alphas,
        trials=trials,
        calibration=experiment.calibration.get(data, 0.5),
        seed=seed,
    )
    named = dict(zip(problem.limit_names, experiment.risks, strict=True))
    named |= dict(zip([o.name for o in problem.objectives], experiment.objectives, strict=True))
    rows = rows.rename(columns=named)
    return rows.assign(method=[lineup.label(name) for name in rows["method"]])


def summary(experiment: Experiment, table: LossTable, results: pd.DataFrame) -> pd.DataFrame:
    """Means over trials. Where nothing is certified the full model runs: one more column counts its cost in those trials, and
    the standard error is that of this column."""
    means, keys = summarize(results), ["method", "p_value", "alpha"]
    at = pd.MultiIndex.from_frame(means[keys])
    full = full_row(table.configs)
    counted = results
    if full is not None and experiment.risks[0] != "relative cost":
        first, spent = experiment.objectives[0], objective_values(experiment, table)[full]
        counted = results.assign(**{first: results[first].fillna(spent)})
        mean = counted.groupby(keys, sort=False)[first].mean().loc[at].to_numpy()
        means[f"{first} {OR_FULL}"] = mean
        if first == "flops":
            means["speed-up"] = spent / mean
    error = counted.groupby(keys, sort=False)[list(experiment.objectives)].sem()
    for name in experiment.objectives:
        means[f"{name}, standard error"] = error.loc[at, name].to_numpy()
    return means.drop(columns=["p_value"])


def objective_values(experiment: Experiment, table: LossTable) -> np.ndarray:
    """(settings,): the first objective in the whole table."""
    first = problem_of(experiment, experiment.lineups[0])
    values: np.ndarray = Evidence(first, table).objectives()[:, 0]
    return -values if first.objectives[0].maximize else values
