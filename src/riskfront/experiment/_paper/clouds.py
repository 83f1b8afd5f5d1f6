"""All settings of a table: what each costs, how accurate it is, what it prunes, and whether it is on the front."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from riskfront._data.table import LossTable
from riskfront.experiment._paper.descriptions import Experiment
from riskfront.methods import Method
from riskfront.statistics import _fronts as fronts

PRUNED = {"tau_head": "heads", "tau_token": "tokens", "tau_layer": "layers"}


def measure(
    experiment: Experiment,
    data: str,
    table: LossTable,
    *,
    more: Sequence[Method] = (),
    trials: int | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """One row a setting: its thresholds, accuracy, relative cost, the dimensions it prunes."""
    configs = table.configs
    active = [
        " + ".join(name for axis, name in PRUNED.items() if axis in configs and row[axis] > 0) or "nothing"
        for row in configs.to_dict("records")
    ]
    accuracy = 1 - table.losses("error").mean(axis=1)
    cost = table.losses("relative_cost").mean(axis=1)
    front = np.zeros(len(configs), dtype=bool)
    front[fronts.front(np.column_stack([1 - accuracy, cost]))] = True
    return configs.assign(accuracy=accuracy, **{"relative cost": cost}, pruned=active, front=front)


def summary(experiment: Experiment, table: LossTable, results: pd.DataFrame) -> pd.DataFrame:
    """How many settings prune what, and how many of them are on the front."""
    counts = results.groupby("pruned", sort=False).agg(so_pruned=("front", "size"), on_front=("front", "sum"))
    return counts.reset_index()
