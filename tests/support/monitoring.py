"""Certificates to watch, made without data: a monitor reads limits, bounds and groups only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

import riskfront as rf


def certificate(
    *limits: str | rf.Limit,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    groups: Mapping[str, Sequence[Any]] | None = None,
) -> rf.Certificate:
    """One certified setting."""
    problem = rf.Problem(list(limits), minimize=["cost"])
    names = [name for limit in problem.limits for name in limit.bounded]
    path = pd.DataFrame(
        {"k": [0], "cost": [1.0], "p_value": [0.0], "certified": [True], "chosen": [1], "tested_by": ["path"]}
    )
    return rf.Certificate(
        problem=problem,
        method="pareto-testing",
        parameters={},
        guaranteed=True,
        n_opt=100,
        n_test=100,
        seed=0,
        data_sha256="0" * 64,
        version="0",
        setting_columns={"k": "k"},
        path=path,
        measured=pd.DataFrame(),
        groups=dict(groups or {}),
        explored=None,
        diagnosis=None,
        loss_bounds=dict.fromkeys(names, (0.0, 1.0)) | dict(bounds or {}),
    )
