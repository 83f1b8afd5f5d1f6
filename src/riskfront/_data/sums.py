"""Sums of losses over weighted examples, for many settings at once: one matrix product a block of settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock, get_ident
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from riskfront._support.arrays import Array, BoolArray, FloatArray, IntArray

Rows = IntArray | slice
# rows are converted to floats in blocks: of the size of a core's own cache for a few sums, when converting is most of the
# work; larger for many, so that a matrix product has something to multiply
_BLOCK_BYTES, _LARGE_BLOCK_BYTES = 1 << 20, 1 << 23
_FEW_SUMS = 16
_FEW_USED = 3  # one in this many examples has a weight: the others are left out
_MANY_BYTES = 1 << 26  # fewer are done before the threads have started
_TASKS = 8  # that each core is given: enough that none waits long for the last, few enough to cost nothing
_EXACT_SINGLE = 1 << 24  # every count below this is exact in single precision


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums of one term: ``n`` examples, (settings or 1, groups), and their ``total``, (settings, groups), integer for 0/1."""

    n: Array
    total: Array

    def means(self) -> FloatArray:
        """(settings, groups), nan where no example was selected."""
        if self.n.size and self.n.min() > 0:
            return self.total / self.n
        n = np.broadcast_to(self.n, self.total.shape)
        return np.divide(self.total, n, out=np.full(self.total.shape, np.nan), where=n > 0)

    def at(self, rows: IntArray) -> Totals:
        return Totals(self.n if len(self.n) == 1 else self.n[rows], self.total[rows])

    def __add__(self, other: Totals) -> Totals:
        """The sums over the examples of both."""
        return Totals(self.n + other.n, self.total + other.total)

    @classmethod
    def stack(cls, parts: Sequence[Totals], *, same_n: bool) -> Totals:
        """Sums of blocks of settings as one; with ``same_n`` the examples are the same for all settings."""
        n = parts[0].n if same_n else np.concatenate([part.n for part in parts])
        return cls(n, np.concatenate([part.total for part in parts]))


class PartialTotals:
    """Sums that are known for some of the settings so far."""

    def __init__(self, n_configs: int) -> None:
        self.known: BoolArray = np.zeros(n_configs, dtype=bool)
        self._sums: Totals | None = None

    def lacks(self, rows: IntArray) -> bool:
        return self._sums is None or not self.known[rows].all()

    def at(self, rows: IntArray, compute: Callable[[IntArray], Totals]) -> Totals:
        """The sums of these settings; those not known yet are computed."""
        missing = np.unique(rows[~self.known[rows]])
        sums = self.put(missing, compute(missing)) if self._sums is None or len(missing) else self._sums
        return sums.at(rows)

    def put(self, rows: IntArray, found: Totals) -> Totals:
        """Remember the sums of these settings; all that are known."""
        if self._sums is None:
            shape = (len(self.known), found.total.shape[1])
            self._sums = Totals(np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=found.total.dtype))
        self._sums.n[rows], self._sums.total[rows] = found.n, found.total
        self.known[rows] = True
        return self._sums


def weighted_sums(
    values: Callable[[Rows], Array],
    condition: Callable[[Rows], BoolArray] | None,
    weights: Array,
    rows: IntArray | range,
    binary: bool,
) -> Totals:
    """Sums of ``values(rows)``, (rows, examples), with ``weights``, (examples, sums), where ``condition(rows)`` holds.

    0/1 losses are multiplied in single precision as long as every count is exact in it, and returned as integers;
    all other losses in double precision. A few sums of 0/1 losses are counted bit by bit instead.
    """
    # packing losses into bits pays where weights are 0 or 1, and not so many that a product is as fast
    few = hasattr(np, "bitwise_count") and weights.shape[1] <= _FEW_SUMS and weights.max(initial=0) <= 1
    if binary and few:
        return _counts(values, condition, weights, rows)
    kind = _precision(weights, binary)
    used = _used(weights)
    factors = (weights if used is None else weights[used]).astype(kind, order="C")
    total = np.empty((len(rows), weights.shape[1]), dtype=np.int64 if binary else np.float64)
    n = np.empty(total.shape, dtype=np.int64) if condition else weights.sum(axis=0, dtype=np.int64)[None, :]

    def add(block: slice) -> None:
        at: Rows = block if isinstance(rows, range) else rows[block]
        floats = _of(values(at), used).astype(kind)
        if condition:
            kept = _of(condition(at), used).astype(kind)
            n[block] = np.rint(kept @ factors)
            floats *= kept
        product = floats @ factors
        total[block] = np.rint(product) if binary else product

    row_bytes = len(factors) * factors.itemsize
    blocks = list(row_blocks(len(rows), row_bytes, _block_bytes(weights)))
    _for_each(add, blocks, in_threads=len(rows) * row_bytes >= _MANY_BYTES)
    return Totals(n, total)


def _counts(
    values: Callable[[Rows], Array],
    condition: Callable[[Rows], BoolArray] | None,
    weights: Array,
    rows: IntArray | range,
) -> Totals:
    """``weighted_sums`` of 0/1 losses with 0/1 weights: eight examples a byte, and the bits of 64 counted at a time."""
    masks = _packed(weights.T)
    total = np.empty((len(rows), len(masks)), dtype=np.int64)
    n = np.empty(total.shape, dtype=np.int64) if condition else weights.sum(axis=0, dtype=np.int64)[None, :]

    def add(block: slice) -> None:
        at: Rows = block if isinstance(rows, range) else rows[block]
        bits = _packed(values(at))
        if condition:
            kept = _packed(condition(at))
            bits &= kept
            n[block] = _bits_in(kept, masks)
        total[block] = _bits_in(bits, masks)

    blocks = list(row_blocks(len(rows), len(weights)))
    _for_each(add, blocks, in_threads=len(rows) * len(weights) >= _MANY_BYTES)
    return Totals(n, total)


def _packed(values: Array) -> Array:
    """(rows, words): one bit an example; those that fill the last word are 0."""
    found = np.zeros((len(values), -(-values.shape[1] // 64) * 8), dtype=np.uint8)
    found[:, : -(-values.shape[1] // 8)] = np.packbits(values.astype(bool, copy=False), axis=1)
    return found.view(np.uint64)


def _bits_in(bits: Array, masks: Array) -> IntArray:
    """(rows, masks): how many bits of each row are in each mask."""
    counted = [np.bitwise_count(bits & mask).sum(axis=1, dtype=np.int64) for mask in masks]
    return np.stack(counted, axis=1)


def _used(weights: Array) -> IntArray | None:
    """The examples that have a weight, if picking them out is less work than multiplying all; None for all of them.

    A plan is made on a small part of the examples, and converting losses to floats is most of the work of a few sums.
    """
    used = np.flatnonzero(weights.any(axis=1))
    return used if len(used) * _FEW_USED <= len(weights) else None


def _of(values: Array, used: IntArray | None) -> Array:
    return values if used is None else values.take(used, axis=1)


def rows_per_block(weights: Array, binary: bool) -> int:
    """How many settings ``weighted_sums`` takes at a time; parts of a multiple of it give the same sums as the whole."""
    used = _used(weights)
    examples = len(weights) if used is None else len(used)
    return _rows_of(examples * np.dtype(_precision(weights, binary)).itemsize, _block_bytes(weights))


def _block_bytes(weights: Array) -> int:
    return _BLOCK_BYTES if weights.shape[1] <= _FEW_SUMS else _LARGE_BLOCK_BYTES


def _precision(weights: Array, binary: bool) -> type[np.floating[Any]]:
    return np.float32 if binary and weights.sum(axis=0).max(initial=0) < _EXACT_SINGLE else np.float64


def _for_each(function: Callable[[slice], None], blocks: list[slice], in_threads: bool) -> None:
    """Run over blocks of rows, one after the other or on all cores.

    The cores share the blocks, not each matrix product: then the conversion to floats is shared too, and other work on the
    machine does not make the threads of the linear-algebra library wait for each other.
    """
    with SINGLE_THREADED:
        if not in_threads:
            for block in blocks:
                function(block)
            return

        def one_run(some: list[slice]) -> None:
            for block in some:
                function(block)

        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        run = -(-len(blocks) // (_TASKS * cores))
        with ThreadPoolExecutor(max_workers=cores) as pool:
            runs = [blocks[first : first + run] for first in range(0, len(blocks), run)]
            list(pool.map(one_run, runs))


class _SingleThreadedBlas:
    """Holds the linear-algebra library to one thread while the first to enter is inside.

    The limit is one for the whole process, and only the thread that set it may lift it. Others that enter meanwhile leave it
    alone: if they stay longer, they go on with the library's own threads, which is slower at worst.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._owner: int | None = None
        self._depth = 0
        self._controller: ThreadpoolController | None = None
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._owner is None:
                # looking through every loaded library is slow: once is enough
                self._controller = self._controller or ThreadpoolController()
                self._limit = self._controller.limit(limits=1, user_api="blas")
                self._limit.__enter__()
                self._owner = get_ident()
            self._depth += self._owner == get_ident()

    def __exit__(self, *error: object) -> None:
        with self._lock:
            if self._owner == get_ident():
                self._depth -= 1
                if self._depth == 0:
                    self._limit.__exit__(*error)
                    self._owner = None


#: enter it around many small sums, so that not each of them has to
SINGLE_THREADED = _SingleThreadedBlas()


def row_blocks(rows: int, row_bytes: int, size: int = _BLOCK_BYTES) -> Iterator[slice]:
    """Slices of rows of about this many bytes, by default the size of a cache."""
    step = _rows_of(row_bytes, size)
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def _rows_of(row_bytes: int, size: int) -> int:
    return max(1, size // max(1, row_bytes))
