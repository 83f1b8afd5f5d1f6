"""Small tables that many tests share."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import riskfront as rf
from riskfront.testing._populations import grid_configs
from tests.support.worlds import HardWorld


def random_table(seed: int = 0, shape: tuple[int, ...] = (4, 5), n: int = 300, **kinds: Any) -> rf.LossTable:
    """A grid of settings: risk rises and cost falls from the first to the last; 0/1, signed and continuous losses, classes."""
    rng = np.random.default_rng([seed, 77])
    configs = grid_configs(shape)
    steps = np.array([sum(config.values()) for config in configs], dtype=float)[:, None]
    steps /= max(steps.max(), 1)
    u = rng.random((len(configs), n)) * 0.5 + rng.random(n) * 0.5
    losses = {
        "error": u < np.sqrt((0.01 + 0.15 * steps) / 2),
        "drop": (u < 0.2 + 0.1 * steps).astype(np.int8) - (rng.random((len(configs), n)) < 0.05).astype(np.int8),
        "regret": np.clip(u * (0.05 + 0.2 * steps), 0, 1),
        "cost": np.clip(1 - 0.8 * steps + 0.1 * rng.standard_normal((len(configs), n)), 0, 1),
        "latency": 100 * (1.2 - steps) * rng.random((len(configs), n)),
        "answered": rng.random((len(configs), n)) < 0.9 - 0.4 * steps,
    }
    groups = {"label": rng.choice(["x", "y", "z"], size=n, p=[0.5, 0.3, 0.2])}
    return rf.LossTable(configs, losses, groups=groups, bounds={"drop": (-1, 1)} | kinds.get("bounds", {}))


def table_of(world: HardWorld, rng: np.random.Generator, n: int) -> rf.LossTable:
    """n fresh examples of a hard world as a table; settings by number, or by the axes of the world's grid."""
    drawn = world.sample(rng, n)
    configs = grid_configs(world.shape or (world.true_risks.size,))
    losses = {name: drawn[name] for name in ("loss", "cost", "answered") if name in drawn}
    groups = {"label": drawn["label"]} if "label" in drawn else None
    return rf.LossTable(configs, losses, groups=groups, bounds={"loss": world.bounds})


def rows_with_labels(n: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(n, 20) features and (n, classes) labels of 0 and 1 that a linear model mostly finds.

    scikit-learn's own ``make_multilabel_classification`` takes four milliseconds a row.
    """
    rng = np.random.default_rng([seed, 23])
    x = rng.normal(size=(n, 20))
    return x, (2 * x[:, :classes] + rng.normal(size=(n, classes)) > 0.5).astype(np.int64)


def from_wide(frame: pd.DataFrame, problem: rf.Problem | None = None, **options: Any) -> Any:
    """What ``read_wide`` makes of a data frame in a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "wide.parquet"
        frame.rename(columns=str).to_parquet(path)
        return rf.read_wide(path, problem, **options)
