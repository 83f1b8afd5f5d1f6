"""One call of the user's function at one setting: the losses it returned, checked, or what went wrong, in a sentence.

A missing outcome (NaN, or an example on which the function fails) is masked in its loss. ``calibrate`` counts it as the worst
there can be.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from riskfront._data.stores.stored_rows import missing_of
from riskfront._problems.spaces.space import Config
from riskfront._running.evaluation.example_parts import guarded
from riskfront._support.arrays import Array, BoolArray
from riskfront.errors import EvaluationError, InvalidInputError

Losses = Callable[[Config, Any], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong; ``trace`` is where, in the user's code; ``fatal`` if other settings would fare no better."""

    reason: str
    trace: str = ""
    fatal: bool = False

    def error(self, config: Config, advice: str) -> EvaluationError:
        error = EvaluationError(f"{self.reason}, at the setting {config}.", config, advice)
        if self.trace:
            error.__cause__ = _UsersError(f"\n{self.trace}")
        return error


class _UsersError(Exception):
    """The traceback of the user's function, perhaps from another process."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The losses of a setting, each (examples,), a masked array where outcomes are missing; ``failure`` says why they are."""

    losses: Mapping[str, Array]
    failure: Failure | None = None


Outcome = Evaluated | Failure


def outcome_of(losses: Losses, config: Config, examples: Any, *, gaps: bool = False) -> Outcome:
    """Call the user's function on a copy of the setting.

    Args:
        gaps: take NaN, infinite and masked values for missing outcomes; else they are a failure.
    """
    n_examples = len(examples)
    try:
        found = losses(dict(config), guarded(examples))
    except (Exception, SystemExit) as error:  # a script that calls sys.exit would else take all other settings with it
        # the first entry is this very call
        lines = traceback.format_exception(type(error), error, error.__traceback__ and error.__traceback__.tb_next)
        return Failure(f"the losses function failed with {said(error)}{_explained(error)}", "".join(lines))
    try:
        return _checked(found, n_examples, gaps)
    except InvalidInputError as problem:
        return Failure(str(problem))
    except Exception as error:  # what other libraries make of their values is beyond foresight
        return Failure(f"the losses function must return losses that can be read as arrays; got {said(error)}")


def said(error: BaseException) -> str:
    """The name and the text of an exception, even if it cannot say its text."""
    try:
        text = str(error)
    except Exception:
        text = "(its text cannot be shown)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _explained(error: BaseException) -> str:
    if isinstance(error, ValueError) and "read-only" in said(error):
        return " (examples are read-only, so that no setting changes them for the others: write into a copy)"
    return ""


def _checked(found: Any, n_examples: int, gaps: bool) -> Evaluated:
    if not isinstance(found, Mapping):
        got = "None (is a return missing?)" if found is None else type(found).__name__
        raise InvalidInputError(
            f"the losses function must return a dictionary, name -> one loss for each example; got {got}"
        )
    if not found:
        raise InvalidInputError("the losses function must return at least one loss; got an empty dictionary")
    losses: dict[str, Array] = {}
    failure = None
    for name, values in found.items():
        array, missing = _numbers(_name(name), values, n_examples)
        if missing is not None:
            example = int(np.argmax(missing))
            got = "a masked value" if np.ma.isMaskedArray(values) else array[example]
            reason = f"loss '{name}' must be finite everywhere; got {got} for example {example}"
            if not gaps:
                raise InvalidInputError(f"{reason}: return the worst loss for an example that cannot be processed")
            failure = failure or Failure(reason)
            array = masked(array, missing)
        losses[name] = array
    return Evaluated(losses, failure)


def masked(values: Array, missing: BoolArray) -> Array:
    """The values as a masked array, with 0 where they are missing."""
    return np.ma.MaskedArray(np.where(missing, values.dtype.type(0), values), mask=missing)


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidInputError(f"names of losses must be texts; got {name!r}")
    return name


def _numbers(name: str, values: Any, n_examples: int) -> tuple[Array, BoolArray | None]:
    """One value for each example, and which of them are missing; None if none is."""
    missing = missing_of(values)
    try:
        array = np.asarray(_detached(values))
        if array.dtype == object:
            array, missing = _of_objects(array, missing)
    except (TypeError, ValueError):
        array = np.array("text")
    if array.dtype.kind not in "biuf":
        raise InvalidInputError(f"loss '{name}' must hold numbers; got {' '.join(repr(values).split()):.80}")
    if array.shape != (n_examples,):
        raise InvalidInputError(
            f"loss '{name}' must have one value for each of {n_examples} examples, shape ({n_examples},); "
            f"got shape {array.shape}"
        )
    if array.dtype.kind == "f":
        if array.dtype.itemsize not in (4, 8):
            array = array.astype(np.float32 if array.dtype.itemsize < 4 else np.float64)
        finite = np.isfinite(array)
        if not finite.all():
            missing = ~finite if missing is None else missing | ~finite
    # a copy: the function may use its array again at the next setting
    return np.array(array, order="C"), missing


def _of_objects(array: Array, missing: BoolArray | None) -> tuple[Array, BoolArray | None]:
    """Numbers or booleans, and perhaps None, as an array of numbers or booleans."""
    gaps = np.asarray(pd.isna(array))
    if missing is not None:
        gaps |= missing
    known = np.array(array[~gaps].tolist())
    kind = known.dtype if known.size and known.dtype.kind in "biuf" else np.dtype(np.float64)
    found = np.full(array.shape, np.nan if kind.kind == "f" else 0, dtype=kind)
    found[~gaps] = array[~gaps].astype(kind)
    return found, gaps if gaps.any() else None


def _detached(values: Any) -> Any:
    """As numpy can read it: a tensor of torch without gradient, on the CPU, in a precision that numpy has; a series of pandas
    with missing booleans or whole numbers as objects, of which numpy would else make floats."""
    if isinstance(values, pd.Series) and isinstance(values.dtype, pd.api.extensions.ExtensionDtype) and values.hasnans:
        return values.to_numpy(dtype=object)
    if not (callable(getattr(values, "detach", None)) and callable(getattr(values, "cpu", None))):
        return values
    tensor = values.detach().cpu()
    return tensor.float() if tensor.is_floating_point() and tensor.element_size() < 4 else tensor
