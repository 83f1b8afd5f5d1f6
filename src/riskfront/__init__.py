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
    name: f"riskfront.{module}"
    for module, names in {
        "_calibration.calibrate": "calibrate certify",
        "_calibration.certificates.certificate": "Certificate",
        "_calibration.frontier": "frontier",
        "_calibration.frontier_result": "Frontier",
        "_calibration.monitoring.monitor": "Monitor",
        "_calibration.sample_planning": "SamplePlan plan_sample",
        "_calibration.sequential.ask_tell": "Sequential",
        "_calibration.sequential.inspect_stopping": "InspectStopping",
        "_cascades.cascade": "Cascade Router",
        "_cascades.confidence": "LearntConfidence",
        "_cascades.gain": "LearntGain",
        "_cascades.policy": "Policy",
        "_data.logs.read_runs": "read_runs",
        "_data.logs.runs": "Runs",
        "_data.reading.sources": "read_table",
        "_data.reading.wide_format": "read_wide",
        "_data.stores.loss_store": "LossStore",
        "_data.table": "LossTable",
        "_problems.limits": "Limit",
        "_problems.objectives": "Objective",
        "_problems.problem": "Problem",
        "_problems.spaces.space": "Choice Float Int Space",
        "_reporting.decide_page": "write_decide_page",
        "_reporting.page": "write_report",
        "_running.evaluation.evaluate": "evaluate",
        "_running.tuning.tune": "tune",
        "_verification.check": "Check check",
        "_verification.verify": "verify",
        "estimators": "RiskControlledClassifier RiskControlledEstimator RiskControlledIntervals RiskControlledMultiLabel",
        "experiment._forecast": "forecast",
        "methods": "AlphaConstrained AlphaDeltaConstrained BonferroniTesting ConstrainedPath Fallback HolmTesting LowRiskPath "
        "OrderedKnob ParetoTesting SGT SplitFST",
    }.items()
    for name in names.split()
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
