"""One call of the user's function at one setting: the losses it returned, checked, or what went wrong, in a sentence."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from riskfront.arrays import Array
from riskfront.errors import EvaluationError, InvalidInputError
from riskfront.evaluation.examples import guarded
from riskfront.spaces.space import Config

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


Outcome = dict[str, Array] | Failure


def outcome_of(losses: Losses, config: Config, examples: Any) -> Outcome:
    """Call the user's function on a copy of the setting."""
    n_examples = len(examples)
    try:
        found = losses(dict(config), guarded(examples))
    except (Exception, SystemExit) as error:  # a script that calls sys.exit would else take all other settings with it
        # the first entry is this very call
        lines = traceback.format_exception(type(error), error, error.__traceback__ and error.__traceback__.tb_next)
        return Failure(f"the losses function failed with {said(error)}{_explained(error)}", "".join(lines))
    try:
        return _checked(found, n_examples)
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


def _checked(found: Any, n_examples: int) -> dict[str, Array]:
    if not isinstance(found, Mapping):
        got = "None (is a return missing?)" if found is None else type(found).__name__
        raise InvalidInputError(
            f"the losses function must return a dictionary, name -> one loss for each example; got {got}"
        )
    if not found:
        raise InvalidInputError("the losses function must return at least one loss; got an empty dictionary")
    return {_name(name): _loss(name, values, n_examples) for name, values in found.items()}


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidInputError(f"names of losses must be texts; got {name!r}")
    return name


def _loss(name: str, values: Any, n_examples: int) -> Array:
    if np.ma.is_masked(values):
        raise InvalidInputError(
            f"loss '{name}' must have a value everywhere; got a masked array with masked values: "
            "decide what a missing outcome costs, or leave that example out for every setting"
        )
    try:
        array = np.asarray(_detached(values))
        if array.dtype == object:
            array = array.astype(np.float64)
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
        if not np.isfinite(array).all():
            example = int(np.argmin(np.isfinite(array)))
            raise InvalidInputError(
                f"loss '{name}' must be finite everywhere; got {array[example]} for example {example}: "
                "decide what a missing outcome costs, or leave that example out for every setting"
            )
    return np.array(array, order="C")  # a copy: the function may use its array again at the next setting


def _detached(values: Any) -> Any:
    """A tensor of torch as one that numpy can read: without gradient, on the CPU, in a precision that numpy has."""
    if not (callable(getattr(values, "detach", None)) and callable(getattr(values, "cpu", None))):
        return values
    tensor = values.detach().cpu()
    return tensor.float() if tensor.is_floating_point() and tensor.element_size() < 4 else tensor
