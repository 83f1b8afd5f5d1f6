"""The losses that one call of the user's function returned, checked; and where they go, memory or a store."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from riskfront._data.columns import declared_bounds
from riskfront._data.groups import all_groups
from riskfront._data.stores.loss_store import LossStore
from riskfront._data.stores.stored_rows import missing_of, range_of
from riskfront._data.table import LossTable
from riskfront._problems.spaces.space import Config, config_id
from riskfront._running.evaluation.example_parts import check as check_sequence
from riskfront._running.evaluation.example_parts import guarded
from riskfront._support.arrays import Array, BoolArray
from riskfront._support.values import plain
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
    try:
        found = losses(dict(config), guarded(examples))
    except (Exception, SystemExit) as error:  # a script that calls sys.exit would else take all other settings with it
        # the first entry is this very call
        lines = traceback.format_exception(type(error), error, error.__traceback__ and error.__traceback__.tb_next)
        return Failure(f"the losses function failed with {said(error)}{_explained(error)}", "".join(lines))
    try:
        return _checked(found, examples, gaps)
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


def _checked(found: Any, examples: Any, gaps: bool) -> Evaluated:
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
        array, missing = _numbers(_name(name), values, len(examples))
        _must_be_in_order(name, values, examples)
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


def _must_be_in_order(name: str, values: Any, examples: Any) -> None:
    """Losses have no names of examples but their order; an index of pandas tells where that was lost, by sorting or merging."""
    if not isinstance(values, pd.Series) or values.index.equals(pd.RangeIndex(len(values))):
        return
    if isinstance(examples, pd.Series | pd.DataFrame):
        in_order = values.index.equals(examples.index)
    else:  # an index of positions, or of the examples where they are ids, in another order; any other tells nothing
        given, ids = values.index.tolist(), _ids(examples)
        in_order = given == ids or {*given} not in ({*range(len(given))}, {*ids})
    if not in_order:
        raise InvalidInputError(
            f"loss '{name}' must have its values in the order of the examples; its index is not that of the examples. Sort it "
            "back with .reindex(examples.index), or return .to_numpy() where the order is right"
        )


def _ids(examples: Any) -> list[Any]:
    """The examples where they are ids, numbers or texts; else none."""
    if not isinstance(examples, list | tuple | np.ndarray):
        return []
    ids = [plain(one) for one in examples]
    return ids if all(isinstance(one, int | float | str) for one in ids) else []


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


Bounds = Mapping[str, tuple[float, float]]
GroupsGiven = Mapping[str, Any] | pd.DataFrame | None  # name -> one value for each example


class MemoryRows:
    """Evaluated settings that are held in memory: what a store is, without one."""

    def __init__(self, n_examples: int, groups: GroupsGiven, bounds: Bounds | None, copies: int = 0) -> None:
        self.n_examples, self.copies = n_examples, copies
        self._groups = all_groups(groups, n_examples)
        check_bounds(bounds)
        self._bounds = dict(bounds or {})
        self._rows: dict[str, tuple[Config, Mapping[str, Array]]] = {}

    def __contains__(self, config: Mapping[str, Any]) -> bool:
        return config_id(config) in self._rows

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def configs(self) -> list[Config]:
        return [dict(config) for config, _ in self._rows.values()]

    @property
    def loss_names(self) -> list[str]:
        return list(next(iter(self._rows.values()))[1]) if self._rows else []

    def write(self, config: Mapping[str, Any], losses: Mapping[str, Array]) -> None:
        check_declared(losses, self._groups, self._bounds)
        self._rows.setdefault(config_id(config), (dict(config), losses))

    def writing_together(self) -> AbstractContextManager[None]:
        """Nothing is written."""
        return nullcontext()

    def table(self, configs: Sequence[Mapping[str, Any]], *, bounds: Bounds | None = None) -> LossTable:
        rows = [self._rows[config_id(config)][1] for config in configs]
        losses = {name: _stacked([row[name] for row in rows]) for name in self.loss_names}
        table = LossTable(configs, losses, self._groups, self._bounds if bounds is None else bounds)
        table.copies_left_out = self.copies
        return table


def _stacked(rows: Sequence[Array]) -> Array:
    """(rows, examples), a masked array if an outcome is missing."""
    return (np.ma.stack if any(map(np.ma.isMaskedArray, rows)) else np.stack)(rows)


RowsOf = LossStore | MemoryRows


def check_examples(examples: Any, groups: GroupsGiven) -> None:
    check_sequence(examples)
    all_groups(groups, len(examples))


def check_bounds(bounds: Bounds | None) -> None:
    if bounds is not None and not isinstance(bounds, Mapping):
        raise InvalidInputError(
            f"bounds must be a dictionary, name of a loss -> (low, high); got {type(bounds).__name__}."
        )
    declared_bounds(bounds or {}, bounds or {})  # each pair keeps to itself, if it is one


def check_declared(losses: Mapping[str, Array], groups: Iterable[str], bounds: Bounds) -> None:
    """What a table of these losses would refuse: said at the first setting, not when all are evaluated."""
    for name in groups:
        if name in losses:
            raise InvalidInputError(
                f"a name must stand for one thing; got '{name}' as a loss and as a group. Rename one."
            )
    if bounds:
        ranges = {name: range_of(values) or bounds.get(name, (0.0, 1.0)) for name, values in losses.items()}
        declared_bounds(bounds, ranges, {name: values.dtype for name, values in losses.items()})
