"""riskfront: choose the settings of a machine-learning system with proof."""

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
    "verify",
]
