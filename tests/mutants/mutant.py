"""What a mutant is, and how it gets into the library: names are replaced wherever they were imported."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from riskfront.statistics._p_values import P_VALUES


@dataclass(frozen=True)
class Mutant:
    """A fault, and the suite that must notice it. ``apply`` breaks the library for the rest of the process."""

    name: str
    suite: str
    apply: Callable[[], None]


def everywhere(function: Any, replacement: Any) -> None:
    """Replace a function in every module of riskfront that knows it, under whatever name, and in the registry of p-values."""
    for p_value in P_VALUES.values():
        if p_value.function is function:
            P_VALUES[p_value.name] = replace(p_value, function=replacement)
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "riskfront" and module is not None:
            for attribute, value in list(vars(module).items()):
                if value is function:
                    setattr(module, attribute, replacement)


def method(owner: type, name: str, make: Callable[[Any], Any]) -> None:
    """Replace a method of a class by what ``make`` makes of it; it must be there."""
    setattr(owner, name, make(getattr(owner, name)))
