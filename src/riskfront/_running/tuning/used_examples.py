"""Which examples a question uses: known by what they contain, whatever code asks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from riskfront._calibration.certificates.uses_of_test_set import DataDigests
from riskfront._data.identity.fingerprints import ExampleFingerprints
from riskfront._data.stores.task import fingerprint_code, fingerprint_data
from riskfront._support.data_digest import joined
from riskfront.errors import InvalidInputError

_unreadable: list[Any] = []  # examples that cannot be read are known by themselves, for as long as this process lives


class UsedExamples:
    """The examples of a ``tune`` run. Which of them are tested depends on the seed; all count as used.

    Args:
        examples: what ``tune`` was given.
        losses: the function, which matters where examples are mere positions in data that it holds.
    """

    def __init__(self, examples: Any, losses: Any) -> None:
        self._examples, self._losses = examples, losses

    @cached_property
    def identity(self) -> Mapping[str, str]:
        """By which a record that outlives this process knows them."""
        try:
            return {"examples": fingerprint_data(self._examples)}
        except InvalidInputError:
            known = next((i for i, seen in enumerate(_unreadable) if seen is self._examples), len(_unreadable))
            if known == len(_unreadable):
                _unreadable.append(self._examples)
            return {"examples": f"number {known} of those that cannot be read"}

    @cached_property
    def key(self) -> str:
        """By which this process knows them. Positions say nothing about the data: those of two functions are different
        examples, as far as the content of the functions can be read."""
        own = self.identity["examples"]
        if not _are_positions(self._examples):
            return own
        return joined("positions", [own, self.code])

    @property
    def digests(self) -> DataDigests:
        """By which this process knows them in another order, precision or container too."""
        found = None if _are_positions(self._examples) else ExampleFingerprints.of(self._examples)
        return DataDigests(self.key, () if found is None or found.order_free is None else (found.order_free,))

    @cached_property
    def code(self) -> str:
        """What can be read of the function."""
        try:
            return fingerprint_code(self._losses)
        except InvalidInputError:
            return _name(self._losses)


def _are_positions(examples: Any) -> bool:
    """Whether examples are whole numbers."""
    if isinstance(examples, range):
        return True
    if isinstance(examples, np.ndarray):
        return examples.ndim == 1 and examples.dtype.kind in "iu"
    return isinstance(examples, list | tuple) and all(isinstance(one, int | np.integer) for one in examples)


def _name(function: Any) -> str:
    """What is left to tell a function by when its content cannot be read."""
    named = function if hasattr(function, "__qualname__") else type(function)
    code = getattr(function, "__code__", None)
    return joined("function", [named.__module__ or "", named.__qualname__], b"" if code is None else code.co_code)
