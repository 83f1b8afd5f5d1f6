"""riskfront: choose the settings of a machine-learning system with proof."""

import importlib
from typing import Any

from riskfront import experiment
from riskfront.calibration import calibrate, certify, frontier, verify
from riskfront.certificate import Certificate
from riskfront.errors import InvalidInputError, MissingExtraError, NotCertifiedError, RiskfrontError, StoreError
from riskfront.methods import (
    SGT,
    AlphaConstrained,
    AlphaDeltaConstrained,
    BonferroniTesting,
    ConstrainedPath,
    Fallback,
    HolmTesting,
    LowRiskPath,
    ParetoTesting,
    SplitFST,
)
from riskfront.problem import Limit, Objective, Problem
from riskfront.table import LossTable
from riskfront.version import __version__

__all__ = [
    "SGT",
    "AlphaConstrained",
    "AlphaDeltaConstrained",
    "BonferroniTesting",
    "Certificate",
    "ConstrainedPath",
    "Fallback",
    "HolmTesting",
    "InvalidInputError",
    "Limit",
    "LossTable",
    "LowRiskPath",
    "MissingExtraError",
    "NotCertifiedError",
    "Objective",
    "ParetoTesting",
    "Problem",
    "RiskfrontError",
    "SplitFST",
    "StoreError",
    "__version__",
    "calibrate",
    "certify",
    "experiment",
    "frontier",
    "plots",
    "verify",
    "write_report",
]

# what stands on large libraries is loaded when it is first used
_LATER = {"plots": "riskfront.plots", "write_report": "riskfront.report"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'riskfront' has no attribute '{name}'")
    module = importlib.import_module(_LATER[name])
    return module if name == "plots" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
