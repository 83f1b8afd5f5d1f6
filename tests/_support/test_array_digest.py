"""The fingerprint changes with everything it describes, and with nothing else."""

import numpy as np
import pytest

from riskfront._support import array_digest as module
from riskfront._support.array_digest import BLAKE3, fast_fingerprint, fingerprint
from tests.support.tables import random_table


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


def test_fast_digests_tell_content_apart_and_say_what_they_are() -> None:
    rng = np.random.default_rng(0)
    array = rng.random((40, 9000))
    digest = fast_fingerprint({"a": 1}, {"x": array})
    assert digest.startswith(BLAKE3)
    assert digest == fast_fingerprint({"a": 1}, {"x": array.copy(order="F")})
    changed = array.copy()
    changed[39, 8999] += 1e-9
    for other in ({"x": changed}, {"y": array}, {"x": array.astype(np.float32)}, {"x": array.reshape(80, 4500)}):
        assert fast_fingerprint({"a": 1}, other) != digest
    assert fast_fingerprint({"a": 2}, {"x": array}) != digest


def test_a_table_is_known_by_either_kind_of_digest() -> None:
    table = random_table(n=50)
    assert table.fingerprint.startswith(BLAKE3)
    assert table.has_fingerprint(table.fingerprint)
    assert table.has_fingerprint(table.sha256)
    assert not random_table(1, n=50).has_fingerprint(table.fingerprint)
    assert not random_table(1, n=50).has_fingerprint(table.sha256)
