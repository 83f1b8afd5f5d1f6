"""The calibration methods. Each differs from the others only in its plan.

``METHODS`` knows them by name and ``make_method`` makes one. A method of your own has the attributes and the ``plan`` of
``Method``; ``riskfront.statistics`` has the procedures that a plan is tested by.
"""

from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.methods._grids import SGT, Fallback, LowRiskPath
from riskfront.methods._ordered_knob import OrderedKnob
from riskfront.methods._pareto_testing import ParetoTesting
from riskfront.methods._plan import Method, Plan
from riskfront.methods._registry import METHODS, make_method
from riskfront.methods._sequences import (
    AlphaConstrained,
    AlphaDeltaConstrained,
    BonferroniTesting,
    ConstrainedPath,
    HolmTesting,
    SplitFST,
)

__all__ = [
    "METHODS",
    "SGT",
    "AlphaConstrained",
    "AlphaDeltaConstrained",
    "BonferroniTesting",
    "ConstrainedPath",
    "Evidence",
    "Fallback",
    "HolmTesting",
    "LowRiskPath",
    "Method",
    "OrderedKnob",
    "ParetoTesting",
    "Plan",
    "SplitFST",
    "make_method",
]
