"""The fingerprint changes with everything it describes, and with nothing else."""

import numpy as np
import pytest

from riskfront.identity import array_digest as module
from riskfront.identity.array_digest import fingerprint


def test_sees_names_types_shapes_and_values() -> None:
    array = np.arange(6, dtype=np.int16)
    variants = [
        fingerprint({}, {"a": array}),
        fingerprint({"x": 1}, {"a": array}),
        fingerprint({}, {"b": array}),
        fingerprint({}, {"a": array.astype(np.int32)}),
        fingerprint({}, {"a": array.view(np.uint16)}),
        fingerprint({}, {"a": array.reshape(2, 3)}),
        fingerprint({}, {"a": array + 1}),
        fingerprint({}, {"a": array[:3].copy(), "b": array[3:].copy()}),
        fingerprint({}, {}),
    ]
    assert len(set(variants)) == len(variants)
    assert all(len(digest) == 64 for digest in variants)
    assert fingerprint({}, {"a": array.copy()}) == variants[0]


def test_empty_arrays_count_too() -> None:
    assert fingerprint({}, {"a": np.empty((0, 3))}) != fingerprint({}, {"a": np.empty((3, 0))})


def test_blocks_see_every_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK", 64)
    array = np.arange(1000, dtype=np.float64)
    before = fingerprint({}, {"a": array})
    for index in (0, 8, 511, 999):
        changed = array.copy()
        changed[index] += 1e-9
        assert fingerprint({}, {"a": changed}) != before
