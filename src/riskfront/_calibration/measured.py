"""What was measured for every chosen setting, limit and group.

There is no confidence bound here on purpose. The chosen setting is the best of many, so a bound computed as if it had
been fixed beforehand would be broken far more often than delta says. What holds for the chosen setting is the limit
itself, for all certified settings together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from riskfront._calibration.decision import Decision
from riskfront.methods._evidence.limit_tests import Evidence, LimitTest


def measured_values(evidence: Evidence, decision: Decision) -> pd.DataFrame:
    """One row for each chosen setting, limit and group, in the columns ``COLUMNS``; the best setting first."""
    parts = [_of_limit(test, evidence, decision) for test in evidence.tests]
    return pd.concat(parts, ignore_index=True).sort_values("chosen", kind="stable", ignore_index=True)


def covered_groups(evidence: Evidence) -> dict[str, list[Any]]:
    """Group name -> its values, for every limit that must hold in each of them. No other value is covered."""
    names = dict.fromkeys(name for test in evidence.tests for name in (test.limit.per, test.limit.gap_per))
    return {name: list(evidence.table.group(name).levels) for name in names if name is not None}


def _of_limit(test: LimitTest, evidence: Evidence, decision: Decision) -> pd.DataFrame:
    rows = decision.rows[decision.chosen]
    sums = test.sums(evidence.table, rows)
    examples, measured = np.broadcast_to(sums.n, sums.total.shape), test.measured(evidence.table, rows)
    target_levels = None if decision.target_levels is None else decision.target_levels[decision.chosen]
    untested = bool(np.isnan(decision.p_values[decision.chosen]).all())  # settings that were picked by their means
    p_values = np.full(measured.shape, np.nan) if untested else test.p_values(evidence.table, rows, target_levels)
    groups = test.groups(evidence.table)
    count = len(groups)
    return pd.DataFrame(
        {
            "chosen": np.tile(np.arange(1, len(rows) + 1), count),
            "limit": str(test.limit),
            "group": pd.Series([group for group in groups for _ in rows], dtype=object),
            "examples": examples.T.ravel(),
            "measured": measured.T.ravel(),
            "compared_with": test.limit.compared_with,
            "p_value": p_values.T.ravel(),
            "tested_at": np.tile(decision.levels[decision.chosen], count),
            "test": NO_TEST if untested else test.p_value,
        },
        columns=list(COLUMNS),
    )


COLUMNS = ("chosen", "limit", "group", "examples", "measured", "compared_with", "p_value", "tested_at", "test")
NO_TEST = "none"
