"""scikit-learn estimators: a fitted model, and settings of its use chosen under limits. ``fit`` calibrates, never
refits.
"""

from riskfront.estimators.classifier import RiskControlledClassifier
from riskfront.estimators.estimator import RiskControlledEstimator

__all__ = ["RiskControlledClassifier", "RiskControlledEstimator"]
