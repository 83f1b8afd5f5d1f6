"""The methods by name, and how a method is made from a name and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from riskfront._support.values import known
from riskfront.errors import InvalidInputError
from riskfront.methods._grids import SGT, Fallback, LowRiskPath
from riskfront.methods._ordered_knob import OrderedKnob
from riskfront.methods._pareto_testing import ParetoTesting
from riskfront.methods._plan import Method, parameters
from riskfront.methods._sequences import (
    AlphaConstrained,
    AlphaDeltaConstrained,
    BonferroniTesting,
    ConstrainedPath,
    HolmTesting,
    SplitFST,
)

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


def rebuild_method(name: str, recorded: Mapping[str, Any]) -> Method:
    """The method that a certificate names, with the parameters that it recorded."""
    return make_method(known(name, METHODS, "method"), **recorded)
