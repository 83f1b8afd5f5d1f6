"""Parts of the user's examples, whatever they are kept in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from riskfront import columns
from riskfront.arrays import IntArray
from riskfront.columns import Groups
from riskfront.errors import InvalidInputError


def take(examples: Any, positions: IntArray) -> Any:
    """The examples at these positions, in this order, in the same kind of container where there is one."""
    if isinstance(examples, pd.DataFrame | pd.Series):
        return examples.iloc[positions]
    if isinstance(examples, np.ndarray):
        return examples[positions]
    if isinstance(examples, list | tuple):
        return [examples[position] for position in positions]
    if callable(getattr(examples, "select", None)):  # data sets of Hugging Face
        return examples.select(positions.tolist())
    return _indexed(examples, positions)


def take_groups(groups: Mapping[str, npt.ArrayLike] | None, n_examples: int, positions: IntArray) -> dict[str, Groups]:
    """The groups of these examples. Levels that none of them has stay: a limit in every group speaks of them too."""
    coded = {name: columns.groups(name, values, n_examples) for name, values in (groups or {}).items()}
    return {name: Groups(whole.levels, whole.codes[positions]) for name, whole in coded.items()}


def _indexed(examples: Any, positions: IntArray) -> Any:
    """By a list of positions if the container understands one, one by one otherwise."""
    try:
        part = examples[positions]
        if not isinstance(part, Mapping) and len(part) == len(positions):
            return part
    except Exception:  # containers refuse lists of positions in many ways
        part = None
    try:
        return [examples[int(position)] for position in positions]
    except Exception as error:
        raise InvalidInputError(
            f"examples must be a sequence with positions from 0 to {len(examples) - 1}; {type(examples).__name__} cannot be "
            f"indexed so ({type(error).__name__}: {error}). Give a list, an array or a data frame."
        ) from error
