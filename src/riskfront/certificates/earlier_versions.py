"""Certificates of earlier schema versions, brought into the form of today.

Version 1 called measured values risks, the share of delta of a test its level, and gave each chosen setting an upper
bound and a margin. Those two took no account of the choice, so they are left out; the rest is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from riskfront.certificates.measured_columns import COLUMNS, NO_TEST
from riskfront.problems.limits import Limit

_MEASURED = {"n": "examples", "risk": "measured", "at": "compared_with", "p_value_used": "test"}
_DIAGNOSIS = {
    "n": "examples",
    "risk": "measured",
    "level": "tested_at",
    "n_perfect": "examples_if_perfect",
    "n_at_this_risk": "examples_at_this_mean",
}


def from_version_1(data: Mapping[str, Any]) -> dict[str, Any]:
    """The same certificate in the form of version 2. What version 1 did not say is None or empty."""
    path = {"tested_at" if name == "level" else name: values for name, values in data["path"].items()}
    levels = dict(zip(data["path"]["chosen"], data["path"]["level"], strict=True))
    old = {_MEASURED.get(name, name): values for name, values in data["bounds"].items()}
    old["p_value"] = [None] * len(old["chosen"])
    old["tested_at"] = [levels[rank] for rank in old["chosen"]]
    if path["p_value"] and all(p_value is None for p_value in path["p_value"]):
        old["test"] = [NO_TEST] * len(old["chosen"])
    diagnosis = data["diagnosis"]
    return {
        **{name: value for name, value in data.items() if name != "bounds"},
        "path": path,
        "measured": {name: old[name] for name in COLUMNS},
        "groups": _groups(data),
        "diagnosis": diagnosis and {_DIAGNOSIS.get(name, name): value for name, value in diagnosis.items()},
    }


def _groups(data: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The groups of each limit, as far as the measured values of the best setting name them."""
    found: dict[str, list[Any]] = {}
    names = {str(Limit(**limit)): limit["per"] for limit in data["problem"]["limits"] if limit["per"] is not None}
    bounds = data["bounds"]
    for rank, limit, group in zip(bounds["chosen"], bounds["limit"], bounds["group"], strict=True):
        if rank == 1 and limit in names and group not in found.setdefault(names[limit], []):
            found[names[limit]].append(group)
    return found


def with_arm(path: pd.DataFrame) -> pd.DataFrame:
    """Certificates that are older than the safety net do not say what certified a setting: it was the plan."""
    if "arm" not in path:
        path.insert(path.columns.get_loc("certified"), "arm", "path")  # type: ignore[arg-type]
    return path
