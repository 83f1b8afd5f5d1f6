"""scikit-learn estimators: a fitted model, and settings of its use chosen under limits. ``fit`` calibrates, never refits."""

from riskfront.estimators._classifier import RiskControlledClassifier
from riskfront.estimators._estimator import RiskControlledEstimator
from riskfront.estimators._intervals import RiskControlledIntervals
from riskfront.estimators._multilabel import RiskControlledMultiLabel

__all__ = [
    "RiskControlledClassifier",
    "RiskControlledEstimator",
    "RiskControlledIntervals",
    "RiskControlledMultiLabel",
]
