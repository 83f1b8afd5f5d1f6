"""All cascades of up to a number of stages: which models, in which order, with which thresholds."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from riskfront._support.arrays import FloatArray, IntArray

#: stands between the models of a cascade
THEN = " > "


@dataclass(frozen=True, slots=True, eq=False)
class Stages:
    """Cascades as numbers.

    models: (settings, stages), positions of runs; -1 after the last. gates: (settings, stages - 1), the row of ``trusted``
    that decides whether to stop after a stage; always_stop after the last.
    """

    models: IntArray
    gates: IntArray


def all_stages(thresholds: Sequence[FloatArray], most: int) -> Stages:
    """Every ordered choice of 1 to ``most`` runs, with every threshold of each but the last."""
    starts = np.cumsum([0, *(len(limits) for limits in thresholds)])
    always = int(starts[-1])
    models, gates = [], []
    for size in range(1, most + 1):
        for order in itertools.permutations(range(len(thresholds)), size):
            own = [np.arange(starts[run], starts[run + 1]) for run in order[:-1]]
            grid = (
                np.stack(np.meshgrid(*own, indexing="ij"), axis=-1).reshape(-1, size - 1)
                if own
                else np.zeros((1, 0), int)
            )
            models.append(np.broadcast_to([*order, *[-1] * (most - size)], (len(grid), most)))
            gates.append(np.pad(grid, ((0, 0), (0, most - size)), constant_values=always))
    return Stages(np.concatenate(models).astype(np.int64), np.concatenate(gates).astype(np.int64))


def described(stages: Stages, names: Sequence[str], thresholds: Sequence[FloatArray]) -> pd.DataFrame:
    """The settings that people read: the models in order, and the threshold after each but the last."""
    numbers = np.concatenate([*thresholds, [np.nan]])
    orders, codes = np.unique(stages.models, axis=0, return_inverse=True)
    texts = np.array([THEN.join(names[run] for run in order if run >= 0) for order in orders], dtype=object)
    columns = {"models": texts[codes.ravel()]}
    for stage in range(stages.gates.shape[1]):
        values = numbers[stages.gates[:, stage]].astype(object)
        values[np.isnan(values.astype(np.float64))] = "none"
        columns[f"threshold {stage + 1}"] = values
    return pd.DataFrame(columns)
