"""Missing outcomes count as the worst that can be, and it is said: nothing is left out by what happened to be missing.

An evaluation that crashed or ran out of time often leaves no outcome. To drop the examples that a setting lacks would leave
the easy ones to it. To drop the settings that lack an example keeps those that were lucky: 200 settings that each failed or
gave no answer on a tenth of 300 examples, one in ten of these failures missing, were certified at a limit of .1 in .21 of
draws at delta .1.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping

import numpy as np

from riskfront.arrays import Array, BoolArray, IntArray
from riskfront.errors import InvalidInputError, LeftOutWarning

_NAMED = 5  # settings that a notice lists
_LITTLE = 0.5  # a setting without this share of the outcomes was not evaluated, rather than lacks some


def complete_part(
    has: BoolArray, name_of: Callable[[int], str], worst: Mapping[str, float] | None = None
) -> tuple[IntArray, IntArray]:
    """The settings and the examples that stay of (settings, examples), where ``has`` tells which outcomes are there.

    Examples without any outcome go first: they say nothing of any setting. Then settings with less than half of the outcomes.
    If the ``worst`` outcomes are known, others stay, to be ``filled``; if not, every setting that lacks an example goes.
    """
    if has.all():
        return np.arange(has.shape[0]), np.arange(has.shape[1])
    examples = np.flatnonzero(has.any(axis=0))
    if len(examples) < has.shape[1]:
        _say(
            f"{has.shape[1] - len(examples):,} of {has.shape[1]:,} examples have no complete outcome of any setting and were "
            "left out: what is certified speaks of examples like the others."
        )
    lacks = (~has[:, examples]).sum(axis=1)
    most = 0 if worst is None else int(_LITTLE * len(examples))
    settings, gone = np.flatnonzero(lacks <= most), np.flatnonzero(lacks > most)
    if len(settings) == 0:
        nearest = int(np.argmin(lacks))
        raise InvalidInputError(
            f"some setting must have an outcome on every example; none has. The most complete, {name_of(nearest)}, lacks "
            f"{int(lacks[nearest]):,} of {len(examples):,}. Decide what a missing outcome costs and fill it in, or leave out "
            "kinds of examples with a filter (where=, --where)."
        )
    of = f"of {len(has):,} settings lack outcomes on some of {len(examples):,} examples"
    if len(gone):
        _say(
            f"{len(gone):,} {of} and were left out: {_listed(gone, lacks, name_of)}. If outcomes are missing where a setting "
            "failed, those that are left were lucky, and the guarantee does not cover that: fill in what a missing one costs."
        )
    partly = settings[lacks[settings] > 0]
    if len(partly) and worst is not None:
        counted = ", ".join(f"{name} {value:.4g}" for name, value in worst.items())
        _say(
            f"{len(partly):,} {of}: {_listed(partly, lacks, name_of)}. What is missing counts as the worst there can be "
            f"({counted}). To count it otherwise, fill it in."
        )
    return settings, examples


def filled(array: Array, has: BoolArray, worst: float) -> Array:
    """The array with the worst outcome wherever one is missing."""
    if has.all():
        return array
    if array.dtype.kind != "f" and not float(worst).is_integer():
        array = array.astype(np.float64)
    return np.where(has, array, array.dtype.type(worst))


def where_known(arrays: Mapping[str, Array], has: BoolArray) -> BoolArray:
    """(settings, examples): where every array has a value."""
    for array in arrays.values():
        if array.dtype.kind == "f":
            has = has & ~np.isnan(array)
    return has


def _listed(settings: IntArray, lacks: IntArray, name_of: Callable[[int], str]) -> str:
    named = ", ".join(f"{name_of(int(row))} ({int(lacks[row]):,} missing)" for row in settings[:_NAMED])
    return named + (f" and {len(settings) - _NAMED:,} more" if len(settings) > _NAMED else "")


def _say(words: str) -> None:
    warnings.warn(LeftOutWarning(words), stacklevel=3)
