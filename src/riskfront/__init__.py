"""riskfront: choose the settings of a machine-learning system with proof."""

import importlib
from typing import TYPE_CHECKING, Any

from riskfront import experiment
from riskfront._calibration.calibrate import calibrate, certify
from riskfront._calibration.certificates.certificate import Certificate
from riskfront._calibration.frontier import frontier
from riskfront._calibration.frontier_result import Frontier
from riskfront._data.reading.sources import read_table
from riskfront._data.reading.wide_format import read_wide
from riskfront._data.table import LossTable
from riskfront._problems.limits import Limit
from riskfront._problems.objectives import Objective
from riskfront._problems.problem import Problem
from riskfront._problems.spaces.space import Choice, Float, Int, Space
from riskfront._support.version import __version__
from riskfront.errors import (
    DependentRowsWarning,
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

if TYPE_CHECKING:  # what _LATER loads, for type checkers, editors and the reference
    from riskfront import plots
    from riskfront._calibration.monitoring.monitor import Monitor
    from riskfront._calibration.sample_planning import SamplePlan, plan_sample
    from riskfront._calibration.sequential.ask_tell import Sequential
    from riskfront._calibration.sequential.inspect_stopping import InspectStopping
    from riskfront._cascades.cascade import Cascade, Router
    from riskfront._cascades.confidence import LearntConfidence
    from riskfront._cascades.gain import LearntGain
    from riskfront._cascades.policy import Policy
    from riskfront._data.logs.read_runs import read_runs
    from riskfront._data.logs.runs import Runs
    from riskfront._data.stores.loss_store import LossStore
    from riskfront._reporting.decide_page import write_decide_page
    from riskfront._reporting.page import write_report
    from riskfront._running.evaluation.evaluate import evaluate
    from riskfront._running.tuning.tune import tune
    from riskfront._verification.check import Check, check
    from riskfront._verification.verify import verify
    from riskfront.estimators import (
        RiskControlledClassifier,
        RiskControlledEstimator,
        RiskControlledIntervals,
        RiskControlledMultiLabel,
    )
    from riskfront.experiment._forecast import forecast

__all__ = [
    "SGT",
    "AlphaConstrained",
    "AlphaDeltaConstrained",
    "BonferroniTesting",
    "Cascade",
    "Certificate",
    "Check",
    "Choice",
    "ConstrainedPath",
    "DependentRowsWarning",
    "EvaluationError",
    "Fallback",
    "Float",
    "Frontier",
    "HolmTesting",
    "InspectStopping",
    "Int",
    "InvalidInputError",
    "LearntConfidence",
    "LearntGain",
    "LeftOutWarning",
    "Limit",
    "LossStore",
    "LossTable",
    "LowRiskPath",
    "MissingExtraError",
    "Monitor",
    "NotCertifiedError",
    "NotCertifiedWarning",
    "Objective",
    "OrderedKnob",
    "ParetoTesting",
    "Policy",
    "Problem",
    "RiskControlledClassifier",
    "RiskControlledEstimator",
    "RiskControlledIntervals",
    "RiskControlledMultiLabel",
    "RiskfrontError",
    "Router",
    "Runs",
    "SamplePlan",
    "Sequential",
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
    "write_decide_page",
    "write_report",
]

# what stands on large libraries is loaded when it is first used
_LATER = {
    "Cascade": "riskfront._cascades.cascade",
    "LearntConfidence": "riskfront._cascades.confidence",
    "LearntGain": "riskfront._cascades.gain",
    "Policy": "riskfront._cascades.policy",
    "Router": "riskfront._cascades.cascade",
    "LossStore": "riskfront._data.stores.loss_store",
    "Monitor": "riskfront._calibration.monitoring.monitor",
    "InspectStopping": "riskfront._calibration.sequential.inspect_stopping",
    "Sequential": "riskfront._calibration.sequential.ask_tell",
    "verify": "riskfront._verification.verify",
    "RiskControlledClassifier": "riskfront.estimators",
    "RiskControlledEstimator": "riskfront.estimators",
    "Check": "riskfront._verification.check",
    "Runs": "riskfront._data.logs.runs",
    "SamplePlan": "riskfront._calibration.sample_planning",
    "RiskControlledIntervals": "riskfront.estimators",
    "RiskControlledMultiLabel": "riskfront.estimators",
    "check": "riskfront._verification.check",
    "evaluate": "riskfront._running.evaluation.evaluate",
    "forecast": "riskfront.experiment._forecast",
    "plan_sample": "riskfront._calibration.sample_planning",
    "plots": "riskfront.plots",
    "read_runs": "riskfront._data.logs.read_runs",
    "tune": "riskfront._running.tuning.tune",
    "write_decide_page": "riskfront._reporting.decide_page",
    "write_report": "riskfront._reporting.page",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'riskfront' has no attribute '{name}'")
    module = importlib.import_module(_LATER[name])
    return module if name == "plots" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
