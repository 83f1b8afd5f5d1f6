"""The user's examples, whatever they are kept in: how many, and parts of them."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from riskfront._data.groups import Groups, all_groups
from riskfront._data.identity.fingerprints import ExampleFingerprints, Kept, Repeats, are_positions, check_repeats
from riskfront._support.arrays import IntArray
from riskfront.errors import InvalidInputError

_WRITES_THROUGH = int(pd.__version__.partition(".")[0]) < 3  # what is written to a shallow copy
_MEANT = {  # what is no sequence of examples, and what was probably meant
    Mapping: "Give a data frame, as pandas.DataFrame(examples), or a list of dictionaries, one for each example.",
    str: "Give a list of texts, one for each example.",
    bytes: "Give a list, one for each example.",
    Set: "Its order changes from process to process: give a list, as sorted(examples).",
}


def check(examples: Any) -> None:
    """Examples have a length and an order."""
    got = type(examples).__name__
    for kind, advice in _MEANT.items():
        if isinstance(examples, kind):
            raise InvalidInputError(
                f"examples must be a sequence, like a list, an array or a data frame; got {got}. {advice}"
            )
    try:
        n_examples = len(examples)
    except TypeError as error:
        raise InvalidInputError(
            f"examples must be a sequence, like a list, an array or a data frame; got {got} ({error})."
        ) from None
    if n_examples == 0:
        raise InvalidInputError("there must be at least one example; got none.")


def guarded(examples: Any) -> Any:
    """The examples such that a function that writes into them cannot change them for the settings that come later.

    Arrays are read-only, as they are in other processes that share their memory; data frames are copies (shallow ones, which
    pandas copies when they are written to, from version 3 on).
    """
    if type(examples) in (np.ndarray, np.memmap):
        view = examples.view()
        view.flags.writeable = False
        return view
    if isinstance(examples, pd.DataFrame | pd.Series):
        return examples.copy(deep=_WRITES_THROUGH)
    return examples


def take(examples: Any, positions: IntArray) -> Any:
    """The examples at these positions, in this order, in the same kind of container where there is one."""
    part = _part(examples, positions)
    if _length(part) != len(positions):
        raise InvalidInputError(
            f"a part of {len(positions)} examples must have that length; {type(examples).__name__} gave one of length "
            f"{_length(part)}. Give a list, an array or a data frame."
        )
    return part


def examples_that_count(examples: Any, groups: Any, repeats: Repeats) -> tuple[Any, Any, Kept]:
    """The examples and their groups without copies, or an error, as ``repeats`` says; and what was kept."""
    check_repeats(repeats)
    coded = all_groups(groups, len(examples))
    own = ExampleFingerprints.of(examples)  # once: some examples are slow to read
    found = None if own is None else ExampleFingerprints.of_columns([*own.columns, *(g.codes for g in coded.values())])
    kept = Kept.all(len(examples)) if found is None else found.kept(repeats)
    if own is not None and not are_positions(examples):
        counted = ExampleFingerprints.of_columns([column[kept.positions] for column in own.columns])
        kept = replace(kept, in_any_order=counted.order_free)
    if len(kept.positions) == len(examples):
        return examples, groups, kept
    return take(examples, kept.positions), take_groups(groups, len(examples), kept.positions), kept


def take_groups(
    groups: Mapping[str, Any] | pd.DataFrame | None, n_examples: int, positions: IntArray
) -> dict[str, Groups]:
    """The groups of these examples. Levels that none of them has stay: a limit in every group speaks of them too."""
    coded = all_groups(groups, n_examples)
    return {name: whole.at(positions) for name, whole in coded.items()}


def _part(examples: Any, positions: IntArray) -> Any:
    library = type(examples).__module__.partition(".")[0]
    if isinstance(examples, pd.DataFrame | pd.Series):
        return examples.iloc[positions]
    if isinstance(examples, list | tuple):
        return [examples[position] for position in positions]
    if library == "pyarrow":  # whose tables take positions in brackets for columns
        return examples.take(positions)
    if library == "polars":
        return examples[positions.tolist()]
    if hasattr(examples, "column_names") and hasattr(examples, "features"):  # data sets of Hugging Face
        return examples.select(positions.tolist())
    return _indexed(examples, positions)


def _indexed(examples: Any, positions: IntArray) -> Any:
    """By all positions at once if the result is beyond doubt a part of the container, one by one otherwise."""
    try:
        part = examples[positions]
        if _is_part(part, examples, len(positions)):
            return part
    except Exception:  # containers refuse lists of positions in many ways
        part = None
    try:
        return [examples[int(position)] for position in positions]
    except Exception as error:
        raise InvalidInputError(
            f"examples must be a sequence with positions from 0 to {_length(examples) - 1}; {type(examples).__name__} "
            f"cannot be indexed so ({type(error).__name__}: {error}). Give a list, an array or a data frame."
        ) from error


def _is_part(part: Any, examples: Any, length: int) -> bool:
    """Of arrays and tensors by their shape; of other containers by type, for a pair (inputs, labels) has a length too."""
    shape = getattr(examples, "shape", None)
    if shape is not None:
        return tuple(part.shape) == (length, *shape[1:])
    return type(part) is type(examples) and not isinstance(part, Mapping) and len(part) == length


def _length(examples: Any) -> int:
    """Rows of what has a shape: sparse matrices have no other length."""
    shape = getattr(examples, "shape", None)
    return int(shape[0]) if shape else len(examples)
