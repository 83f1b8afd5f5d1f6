"""riskfront: choose the settings of a machine-learning system with proof."""

import importlib
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:  # what _LATER loads, for type checkers, editors and the reference
    from riskfront import experiment, plots
    from riskfront._calibration.calibrate import calibrate, certify
    from riskfront._calibration.certificates.certificate import Certificate
    from riskfront._calibration.frontier import frontier
    from riskfront._calibration.frontier_result import Frontier
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
    from riskfront._data.reading.sources import read_table
    from riskfront._data.reading.wide_format import read_wide
    from riskfront._data.stores.loss_store import LossStore
    from riskfront._data.table import LossTable
    from riskfront._problems.limits import Limit
    from riskfront._problems.objectives import Objective
    from riskfront._problems.problem import Problem
    from riskfront._problems.spaces.space import Choice, Float, Int, Space
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

# loaded when first used: `import riskfront` takes no time, and a worker process loads only what it runs
_LATER = {
    "calibrate": "riskfront._calibration.calibrate",
    "certify": "riskfront._calibration.calibrate",
    "Certificate": "riskfront._calibration.certificates.certificate",
    "frontier": "riskfront._calibration.frontier",
    "Frontier": "riskfront._calibration.frontier_result",
    "Monitor": "riskfront._calibration.monitoring.monitor",
    "SamplePlan": "riskfront._calibration.sample_planning",
    "plan_sample": "riskfront._calibration.sample_planning",
    "Sequential": "riskfront._calibration.sequential.ask_tell",
    "InspectStopping": "riskfront._calibration.sequential.inspect_stopping",
    "Cascade": "riskfront._cascades.cascade",
    "Router": "riskfront._cascades.cascade",
    "LearntConfidence": "riskfront._cascades.confidence",
    "LearntGain": "riskfront._cascades.gain",
    "Policy": "riskfront._cascades.policy",
    "read_runs": "riskfront._data.logs.read_runs",
    "Runs": "riskfront._data.logs.runs",
    "read_table": "riskfront._data.reading.sources",
    "read_wide": "riskfront._data.reading.wide_format",
    "LossStore": "riskfront._data.stores.loss_store",
    "LossTable": "riskfront._data.table",
    "Limit": "riskfront._problems.limits",
    "Objective": "riskfront._problems.objectives",
    "Problem": "riskfront._problems.problem",
    "Choice": "riskfront._problems.spaces.space",
    "Float": "riskfront._problems.spaces.space",
    "Int": "riskfront._problems.spaces.space",
    "Space": "riskfront._problems.spaces.space",
    "write_decide_page": "riskfront._reporting.decide_page",
    "write_report": "riskfront._reporting.page",
    "evaluate": "riskfront._running.evaluation.evaluate",
    "tune": "riskfront._running.tuning.tune",
    "Check": "riskfront._verification.check",
    "check": "riskfront._verification.check",
    "verify": "riskfront._verification.verify",
    "RiskControlledClassifier": "riskfront.estimators",
    "RiskControlledEstimator": "riskfront.estimators",
    "RiskControlledIntervals": "riskfront.estimators",
    "RiskControlledMultiLabel": "riskfront.estimators",
    "forecast": "riskfront.experiment._forecast",
    "AlphaConstrained": "riskfront.methods",
    "AlphaDeltaConstrained": "riskfront.methods",
    "BonferroniTesting": "riskfront.methods",
    "ConstrainedPath": "riskfront.methods",
    "Fallback": "riskfront.methods",
    "HolmTesting": "riskfront.methods",
    "LowRiskPath": "riskfront.methods",
    "OrderedKnob": "riskfront.methods",
    "ParetoTesting": "riskfront.methods",
    "SGT": "riskfront.methods",
    "SplitFST": "riskfront.methods",
}
_ROOMS = {"estimators", "experiment", "methods", "plots", "search", "statistics", "testing", "transformers"}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"riskfront.{name}")
    if name not in _LATER:
        raise AttributeError(f"module 'riskfront' has no attribute '{name}'")
    globals()[name] = found = getattr(importlib.import_module(_LATER[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
