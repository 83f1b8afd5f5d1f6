"""Settings with missing outcomes stay out of the table, and it is said: examples are never dropped for their sake."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping

import numpy as np

from riskfront.arrays import Array, BoolArray, IntArray
from riskfront.errors import InvalidInputError, LeftOutWarning

_NAMED = 5  # settings that a notice lists


def complete_part(has: BoolArray, name_of: Callable[[int], str]) -> tuple[IntArray, IntArray]:
    """The settings and the examples of the complete part of (settings, examples), where ``has`` tells what is there.

    Examples without any outcome go first: they say nothing of any setting. Then every setting that lacks an example goes.
    To drop examples that one setting lacks would leave the easy ones to it, if it failed on the hard ones.
    """
    if has.all():
        return np.arange(has.shape[0]), np.arange(has.shape[1])
    examples = np.flatnonzero(has.any(axis=0))
    if len(examples) < has.shape[1]:
        warnings.warn(
            LeftOutWarning(
                f"{has.shape[1] - len(examples):,} of {has.shape[1]:,} examples have no complete outcome of any setting and "
                "were left out: what is certified speaks of examples like the others."
            ),
            stacklevel=2,
        )
    lacks = (~has[:, examples]).sum(axis=1)
    settings = np.flatnonzero(lacks == 0)
    gone = np.flatnonzero(lacks > 0)
    if len(settings) == 0:
        nearest = int(np.argmin(lacks))
        raise InvalidInputError(
            f"some setting must have an outcome on every example; none has. The most complete, {name_of(nearest)}, lacks "
            f"{int(lacks[nearest]):,} of {len(examples):,}. Decide what a missing outcome costs and fill it in, or leave out "
            "kinds of examples with a filter (where=, --where)."
        )
    if len(gone):
        listed = ", ".join(f"{name_of(int(row))} ({int(lacks[row]):,} missing)" for row in gone[:_NAMED])
        more = f" and {len(gone) - _NAMED:,} more" if len(gone) > _NAMED else ""
        warnings.warn(
            LeftOutWarning(
                f"{len(gone):,} of {len(has):,} settings lack outcomes on some of {len(examples):,} examples and were left "
                f"out: {listed}{more}. To keep them, fill in what a missing outcome costs."
            ),
            stacklevel=2,
        )
    return settings, examples


def where_known(arrays: Mapping[str, Array], has: BoolArray) -> BoolArray:
    """(settings, examples): where every array has a value."""
    for array in arrays.values():
        if array.dtype.kind == "f":
            has = has & ~np.isnan(array)
    return has
