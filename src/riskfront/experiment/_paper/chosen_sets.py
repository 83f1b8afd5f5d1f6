"""Several free objectives: the whole set of settings that each method chooses, and how much of the plane it covers."""

from __future__ import annotations

from collections.abc import Sequence

import moocore
import numpy as np
import pandas as pd

from riskfront._calibration.calibrate import split_and_test
from riskfront._data.table import LossTable
from riskfront.experiment._paper.descriptions import Experiment
from riskfront.experiment._paper.trials import problem_of
from riskfront.experiment._repeated_splits import calibration_examples, true_value
from riskfront.methods import Method
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.methods._plan import resolve_defaults


def measure(
    experiment: Experiment,
    data: str,
    table: LossTable,
    *,
    more: Sequence[Method] = (),
    trials: int | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """One row for each method, trial and chosen setting, with its true risk and objectives; the draws are those of ``run``."""
    size = experiment.calibration.get(data, table.n_examples // 2)
    place = {tuple(row): at for at, row in enumerate(table.configs.itertuples(index=False))}
    names, found = list(table.configs.columns), []
    for index, lineup in enumerate(experiment.lineups):
        problem = problem_of(experiment, lineup).at(experiment.alphas[0])
        judge = Evidence(problem, table)
        signs = np.array([-1.0 if objective.maximize else 1.0 for objective in problem.objectives])
        for method in [*lineup.made_for(table), *(more if index == 0 else ())]:
            planner = resolve_defaults(method, table, size)
            for trial in range(trials or experiment.trials):
                drawn = table.subset(calibration_examples(table.n_examples, size, trial, seed=seed)[0])
                certificate = split_and_test(drawn, problem, planner, trial, split_by="positions")
                chosen = certificate.chosen[names].itertuples(index=False) if certificate else ()
                rows = np.array([place[tuple(row)] for row in chosen], dtype=np.int64)
                about = {"method": lineup.label(method.name), "alpha": experiment.alphas[0], "trial": trial}
                found.append(_truth(experiment, judge, rows, signs).assign(**about, n_chosen=len(rows)))
    return pd.concat(found, ignore_index=True)


def _truth(experiment: Experiment, judge: Evidence, rows: np.ndarray, signs: np.ndarray) -> pd.DataFrame:
    """A row for each chosen setting; one without numbers where there is none."""
    columns = [*experiment.risks, *experiment.objectives]
    if len(rows) == 0:
        return pd.DataFrame([dict.fromkeys(columns, np.nan) | {"violated": False, "covered": 0.0}])
    means = [true_value(test, judge.table, rows) for test in judge.tests]
    objectives = judge.objectives(rows)
    frame = pd.DataFrame(np.column_stack([*means, objectives * signs]), columns=columns)
    worst = np.where(signs > 0, 1.0, 0.0)
    covered = float(moocore.hypervolume(objectives, ref=worst))
    broken = np.any([test.worst_mean(judge.table, rows) > test.alpha + 1e-12 for test in judge.tests], axis=0)
    return frame.assign(violated=broken, covered=covered)


def summary(experiment: Experiment, table: LossTable, results: pd.DataFrame) -> pd.DataFrame:
    """Means over trials: settings chosen, the share of the plane that they dominate, and trials with a broken limit."""
    by_trial = results.groupby(["method", "trial"], sort=False).agg(
        n_chosen=("n_chosen", "first"), covered=("covered", "first"), violated=("violated", "any")
    )
    groups = by_trial.groupby("method", sort=False)
    means = groups.mean()
    means["covered, standard error"] = groups["covered"].sem()
    means["trials"] = groups.size()
    return means.reset_index()
