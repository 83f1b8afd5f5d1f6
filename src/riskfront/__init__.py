"""riskfront: choose the settings of a machine-learning system with proof."""

import importlib
from typing import TYPE_CHECKING, Any

from riskfront import experiment
from riskfront.calibration.calibration import calibrate, certify
from riskfront.calibration.frontier import frontier
from riskfront.certificates.certificate import Certificate
from riskfront.errors import (
    EvaluationError,
    InvalidInputError,
    LeftOutWarning,
    MissingExtraError,
    NotCertifiedError,
    NotCertifiedWarning,
    RiskfrontError,
    SpentExamplesError,
    StoreError,
)
from riskfront.losses.table import LossTable
from riskfront.methods import (
    SGT,
    AlphaConstrained,
    AlphaDeltaConstrained,
    BonferroniTesting,
    ConstrainedPath,
    Fallback,
    HolmTesting,
    LowRiskPath,
    OrderedKnob,
    ParetoTesting,
    SplitFST,
)
from riskfront.problems.limits import Limit
from riskfront.problems.objectives import Objective
from riskfront.problems.problem import Problem
from riskfront.reading.long_format import read_table
from riskfront.reading.wide_format import read_wide
from riskfront.spaces.space import Choice, Float, Int, Space
from riskfront.version import __version__

if TYPE_CHECKING:  # what _LATER loads, for type checkers, editors and the reference
    from riskfront import plots
    from riskfront.cascades.cascade import Cascade, Router
    from riskfront.cascades.confidence import LearntConfidence
    from riskfront.cascades.policy import Policy
    from riskfront.estimators import RiskControlledClassifier, RiskControlledEstimator
    from riskfront.evaluation.evaluation import evaluate
    from riskfront.experiments.sample_planning import forecast, plan_sample
    from riskfront.logs.read_runs import read_runs
    from riskfront.reporting.page import write_report
    from riskfront.stores.store import LossStore
    from riskfront.tuning.tuning import tune
    from riskfront.verification.check import check
    from riskfront.verification.verification import verify

__all__ = [
    "SGT",
    "AlphaConstrained",
    "AlphaDeltaConstrained",
    "BonferroniTesting",
    "Cascade",
    "Certificate",
    "Choice",
    "ConstrainedPath",
    "EvaluationError",
    "Fallback",
    "Float",
    "HolmTesting",
    "Int",
    "InvalidInputError",
    "LearntConfidence",
    "LeftOutWarning",
    "Limit",
    "LossStore",
    "LossTable",
    "LowRiskPath",
    "MissingExtraError",
    "NotCertifiedError",
    "NotCertifiedWarning",
    "Objective",
    "OrderedKnob",
    "ParetoTesting",
    "Policy",
    "Problem",
    "RiskControlledClassifier",
    "RiskControlledEstimator",
    "RiskfrontError",
    "Router",
    "Space",
    "SpentExamplesError",
    "SplitFST",
    "StoreError",
    "__version__",
    "calibrate",
    "certify",
    "check",
    "evaluate",
    "experiment",
    "forecast",
    "frontier",
    "plan_sample",
    "plots",
    "read_runs",
    "read_table",
    "read_wide",
    "tune",
    "verify",
    "write_report",
]

# what stands on large libraries is loaded when it is first used
_LATER = {
    "Cascade": "riskfront.cascades.cascade",
    "LearntConfidence": "riskfront.cascades.confidence",
    "Policy": "riskfront.cascades.policy",
    "Router": "riskfront.cascades.cascade",
    "LossStore": "riskfront.stores.store",
    "verify": "riskfront.verification.verification",
    "RiskControlledClassifier": "riskfront.estimators",
    "RiskControlledEstimator": "riskfront.estimators",
    "check": "riskfront.verification.check",
    "evaluate": "riskfront.evaluation.evaluation",
    "forecast": "riskfront.experiments.sample_planning",
    "plan_sample": "riskfront.experiments.sample_planning",
    "plots": "riskfront.plots",
    "read_runs": "riskfront.logs.read_runs",
    "tune": "riskfront.tuning.tuning",
    "write_report": "riskfront.reporting.page",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'riskfront' has no attribute '{name}'")
    module = importlib.import_module(_LATER[name])
    return module if name == "plots" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
