"""The calibration methods. Each differs from the others only in its plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from riskfront.errors import InvalidInputError
from riskfront.losses.values import known
from riskfront.methods.all_settings import AlphaConstrained, AlphaDeltaConstrained, BonferroniTesting, HolmTesting
from riskfront.methods.grids import SGT, Fallback, LowRiskPath
from riskfront.methods.ordered_knob import OrderedKnob
from riskfront.methods.pareto_testing import ParetoTesting
from riskfront.methods.plan import Method, Plan, check_method, parameters, plan_of, settled
from riskfront.methods.sequences import ConstrainedPath, SplitFST

#: name -> method, in the order in which tables list them
METHODS: dict[str, type[Method]] = {
    method.name: method
    for method in (
        ParetoTesting,
        SplitFST,
        SGT,
        Fallback,
        LowRiskPath,
        ConstrainedPath,
        OrderedKnob,
        BonferroniTesting,
        HolmTesting,
        AlphaConstrained,
        AlphaDeltaConstrained,
    )
}

#: the methods that need nothing but their name; an ordered knob must be declared
BY_NAME: tuple[str, ...] = tuple(name for name in METHODS if name != OrderedKnob.name)


def make_method(method: str | Method, **options: Any) -> Method:
    """A method from its name and parameters; an object is returned as it is."""
    if not isinstance(method, str):
        if options:
            raise InvalidInputError(f"options go with a method's name; got {sorted(options)} with {method!r}.")
        return method
    made = METHODS[known(method, METHODS, "method")]
    try:
        return made(**options)
    except TypeError:
        raise InvalidInputError(
            f"{method} takes the parameters {list(parameters(made()))}; got {sorted(options)}."
        ) from None


def make_again(name: str, recorded: Mapping[str, Any]) -> Method:
    """The method that a certificate names, with the parameters that it recorded."""
    return make_method(name, **completed(name, recorded))


def completed(name: str, recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Recorded parameters; those that did not exist yet when they were get the value that does what was done then."""
    return {**getattr(METHODS[known(name, METHODS, "method")], "before", {}), **recorded}


__all__ = [
    "BY_NAME",
    "METHODS",
    "SGT",
    "AlphaConstrained",
    "AlphaDeltaConstrained",
    "BonferroniTesting",
    "ConstrainedPath",
    "Fallback",
    "HolmTesting",
    "LowRiskPath",
    "Method",
    "OrderedKnob",
    "ParetoTesting",
    "Plan",
    "SplitFST",
    "check_method",
    "completed",
    "make_again",
    "make_method",
    "parameters",
    "plan_of",
    "settled",
]
