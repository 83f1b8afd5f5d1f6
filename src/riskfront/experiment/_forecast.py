"""How many examples, from a pilot table: its examples are drawn with replacement, as many as you might have, and calibrated.

That takes what the pilot measured as the truth. Of many settings on few pilot examples some are
lucky, so read it as what can be hoped for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from riskfront._data.reading.sources import Bounds, Data, as_table
from riskfront._problems.problem import Problem
from riskfront._support.values import is_number
from riskfront.errors import InvalidInputError
from riskfront.experiment._repeated_splits import run
from riskfront.methods import Method


def forecast(
    pilot: Data,
    problem: Problem,
    *,
    factors: Sequence[float] = (1, 2, 10),
    method: str | Method = "pareto-testing",
    trials: int = 40,
    seed: int = 0,
    bounds: Bounds | None = None,
    clusters: str | None = None,
) -> pd.DataFrame:
    """What more labels would bring, from a pilot table: one row for each multiple of its examples.

    Args:
        pilot: as the table of ``calibrate``, and so are ``bounds`` and ``clusters``.
        problem: limits, objectives and delta.
        factors: how many times the examples of the pilot.
        method: a method or its name.
        trials: how often to draw and calibrate for each.
        seed: of the draws.

    Returns:
        ``examples``; ``certified``, the share of draws that certified something; and the mean of every limit and objective of
        the chosen setting over these draws. What the pilot measured is taken as the truth, which flatters lucky settings.

    Examples:
        >>> import numpy as np
        >>> import riskfront as rf
        >>> random = np.random.default_rng(0)
        >>> error = random.random((20, 300)) < np.linspace(0.01, 0.2, 20)[:, None]
        >>> cost = np.linspace(1, 0, 20)[:, None] + 0.01 * random.random((20, 300))
        >>> pilot = rf.LossTable([{"k": k} for k in range(20)], {"error": error, "cost": cost})
        >>> found = forecast(pilot, rf.Problem("error <= 0.1", minimize="cost"), trials=10)
        >>> bool(found["cost"].is_monotonic_decreasing)
        True
    """
    if not factors or not all(is_number(factor) and factor > 0 for factor in factors):
        raise InvalidInputError(f"factors must be numbers above 0, such as (1, 2, 10); got {factors!r}.")
    table = as_table(pilot, problem, bounds, clusters)
    rows = []
    names = [*problem.limit_names, *(objective.name for objective in problem.objectives)]
    for factor in factors:
        size = max(2, round(factor * table.n_examples))
        found = run(table, problem, methods=[method], trials=trials, calibration=size, seed=seed)
        row: dict[str, Any] = {"examples": size, "certified": float((found["n_certified"] > 0).mean())}
        rows.append(row | {name: float(found[name].mean()) for name in names})
    return pd.DataFrame(rows)


def forecast_words(found: pd.DataFrame, problem: Problem) -> str:
    """The forecast in a sentence."""
    goal = problem.objectives[0].name
    parts = [
        f"{row['examples']:,.0f} examples certify something in {100 * row['certified']:.0f} % of draws"
        + (f", with {goal} {row[goal]:.4g}" if row["certified"] > 0 else "")
        for _, row in found.iterrows()
    ]
    return "; ".join(parts) + ". This takes what the pilot measured as the truth: read it as what can be hoped for."
