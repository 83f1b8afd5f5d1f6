"""One call of the user's function at one setting: the losses it returned, checked, or what went wrong, in a sentence."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from riskfront.arrays import Array
from riskfront.errors import EvaluationError, InvalidInputError
from riskfront.space import Config

Losses = Callable[[Config, Any], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong; ``trace`` is where, in the user's code."""

    reason: str
    trace: str = ""

    def error(self, config: Config, advice: str) -> EvaluationError:
        error = EvaluationError(f"{self.reason}, at the setting {config}. {advice}", config)
        if self.trace:
            error.__cause__ = _UsersError(f"\n{self.trace}")
        return error


class _UsersError(Exception):
    """The traceback of the user's function, perhaps from another process."""


Outcome = dict[str, Array] | Failure


def outcome_of(losses: Losses, config: Config, examples: Any) -> Outcome:
    """Call the user's function on a copy of the setting."""
    try:
        found = losses(dict(config), examples)
    except Exception as error:
        # the first entry is this very call
        lines = traceback.format_exception(type(error), error, error.__traceback__ and error.__traceback__.tb_next)
        return Failure(f"the losses function failed with {type(error).__name__}: {error}", "".join(lines))
    try:
        return _checked(found, len(examples))
    except InvalidInputError as problem:
        return Failure(str(problem))


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
    try:
        array = np.asarray(values)
        if array.dtype == object:
            array = array.astype(np.float64)
    except (TypeError, ValueError):
        array = np.array("text")
    if array.dtype.kind not in "biuf":
        raise InvalidInputError(f"loss '{name}' must hold numbers; got {values!r:.80}")
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
    return np.ascontiguousarray(array)
