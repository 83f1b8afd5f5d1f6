"""Unlabelled examples: each labelled example gets a batch of them for its own, and the mean of a proxy over that batch.

The means are one more column of the labelled table. So whatever splits, sums or shuffles labelled examples takes their batches
along, and no unlabelled example ever speaks for two labelled ones: a mean shared by all of them would tie them together.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from riskfront._data.contents import salt_of, shuffled_copy
from riskfront._data.splits import permutation
from riskfront._data.table import LossTable
from riskfront._problems.terms import Term
from riskfront._support.arrays import Array, BoolArray, IntArray
from riskfront._support.values import known
from riskfront.errors import InvalidInputError

_BLOCK_SIZE = 1 << 22  # proxies that are looked at at a time


@dataclass(frozen=True, slots=True)
class ProxyMeans:
    """A column to make: means of ``proxy`` over batches of the same group ``per``, where the condition ``given`` holds."""

    name: str
    proxy: str
    per: str | None = None
    given: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Batches:
    """For some labelled examples, (n,), the unlabelled ones that belong to each of them, (n, size)."""

    labelled: IntArray
    unlabelled: IntArray


def with_batch_means(
    table: LossTable, unlabelled: LossTable, wanted: Sequence[ProxyMeans], seed: int
) -> tuple[LossTable, int]:
    """The labelled table with the means as further losses, and how many unlabelled examples they were made of, at most.

    Which unlabelled example goes to which batch is drawn at random, by the seed and by what both tables hold, so that it does
    not matter how files are sorted. Where an example has no batch, for want of others of its group, its own proxy stands for
    the mean: the two cancel, and it is tested by its label alone.
    """
    if table.shares_examples(unlabelled):
        raise InvalidInputError(
            "unlabelled examples must be others than the labelled ones; some are both, or have the very same outcomes and "
            "groups. Leave the labelled ones out."
        )
    rows = _same_settings(table, unlabelled)
    salt = hashlib.sha256(salt_of(table) + salt_of(unlabelled)).digest()
    order = permutation(unlabelled.n_examples, seed, salt)
    made, used = {}, 0
    for means in wanted:
        batches = list(_batches(table, unlabelled, means, order))
        if not batches:
            where = f" in some {means.per}" if means.per else ""
            raise InvalidInputError(
                f"there must be at least as many unlabelled examples as labelled ones{where}, so that each of these has one "
                f"of its own; got {unlabelled.n_examples:,} for {table.n_examples:,}. With so few they could not help: leave "
                "the proxy out."
            )
        made[means.name] = _means(table, unlabelled, means, batches, rows)
        used = max(used, sum(batch.unlabelled.size for batch in batches))
    bounds = {means.name: _bounds(table, unlabelled, means.proxy) for means in wanted}
    return _with_losses(table, made, bounds), used


def _batches(table: LossTable, unlabelled: LossTable, means: ProxyMeans, order: IntArray) -> Iterator[Batches]:
    """Within each kind of examples all batches have one size, as large as there are unlabelled examples for."""
    mine, others = _kinds(table, means), _kinds(unlabelled, means)
    others_in_order, of_kind = defaultdict[Hashable, list[int]](list), defaultdict[Hashable, list[int]](list)
    for position in order.tolist():
        others_in_order[others[position]].append(position)
    for position, kind in enumerate(mine):
        of_kind[kind].append(position)
    for kind, labelled in of_kind.items():
        found = others_in_order.get(kind, [])
        size = len(found) // len(labelled)
        if size and kind is not None:
            yield Batches(np.array(labelled), np.array(found[: size * len(labelled)]).reshape(-1, size))


def _kinds(table: LossTable, means: ProxyMeans) -> list[Hashable]:
    """What each example must have in common with its batch; None for one that the limit does not speak of."""
    kinds: list[Any] = [()] * table.n_examples
    if means.per is not None:
        groups = table.group(known(means.per, table.group_names, "group"))
        kinds = [(str(groups.levels[code]),) for code in groups.codes]
    if means.given is not None and means.given in table.group_names:
        groups = table.group(means.given)
        holds = [level in (1, True) for level in groups.levels]
        kinds = [kind if holds[code] else None for kind, code in zip(kinds, groups.codes, strict=True)]
    return kinds


def _means(
    table: LossTable, unlabelled: LossTable, means: ProxyMeans, batches: Sequence[Batches], rows: IntArray
) -> Array:
    """(settings, labelled examples)."""
    varies = means.given is not None and means.given not in unlabelled.group_names
    if varies:
        known(str(means.given), unlabelled.loss_names, "condition")
    term = Term(means.proxy, given=means.given if varies else None)
    found = np.empty((table.n_configs, table.n_examples), dtype=np.float32)
    step = max(1, _BLOCK_SIZE // max(1, unlabelled.n_examples))
    for start in range(0, table.n_configs, step):
        block = np.arange(start, min(start + step, table.n_configs))
        found[block] = table.sequences(Term(means.proxy), block)[0]
        proxies, condition, _ = unlabelled.sequences(term, rows[block])
        for batch in batches:
            found[block[:, None], batch.labelled] = _of_batch(proxies, condition, batch, found[block])
    return found


def _of_batch(proxies: Array, condition: BoolArray | None, batch: Batches, own: Array) -> Array:
    """(settings, labelled examples of these batches): mean proxies; an example's own where its batch has none that counts."""
    values = proxies[:, batch.unlabelled]
    if condition is None:
        return np.asarray(values.mean(axis=2, dtype=np.float64))
    kept = condition[:, batch.unlabelled]
    counts = kept.sum(axis=2)
    totals = values.sum(axis=2, where=kept, dtype=np.float64)
    return np.where(counts > 0, totals / np.maximum(counts, 1), own[:, batch.labelled])


def _bounds(table: LossTable, unlabelled: LossTable, proxy: str) -> tuple[float, float]:
    """What a mean of a proxy can be: anything that either table declares."""
    known(proxy, unlabelled.loss_names, "proxy among the unlabelled examples")
    (low, high), (other_low, other_high) = table.bounds(proxy), unlabelled.bounds(proxy)
    return min(low, other_low), max(high, other_high)


def _same_settings(table: LossTable, unlabelled: LossTable) -> IntArray:
    """(settings of the table,): where each of them is among those of the unlabelled examples."""
    mine, others = table.configs, unlabelled.configs
    names = list(mine.columns)
    missing = [name for name in names if name not in others.columns]
    if missing:
        raise InvalidInputError(
            f"unlabelled examples must have the settings of the labelled ones; the column '{missing[0]}' is missing."
        )
    place = {setting: row for row, setting in enumerate(zip(*(others[name].tolist() for name in names), strict=True))}
    settings = list(zip(*(mine[name].tolist() for name in names), strict=True))
    rows = [place.get(setting) for setting in settings]
    if None in rows:
        lost = dict(zip(names, settings[rows.index(None)], strict=True))
        raise InvalidInputError(f"unlabelled examples must have every setting of the labelled ones; {lost} is missing.")
    return np.array(rows, dtype=np.int64)


def _with_losses(table: LossTable, made: dict[str, Array], bounds: dict[str, tuple[float, float]]) -> LossTable:
    """The same table with further losses."""
    taken = [name for name in made if name in (*table.loss_names, *table.group_names)]
    if taken:
        raise InvalidInputError(
            f"the name '{taken[0]}' is needed for means over unlabelled examples; rename the column."
        )
    if table._sample.examples is not None:  # a part of a larger table, whose columns have more examples
        table = shuffled_copy(table, np.arange(table.n_configs), np.arange(table.n_examples))
    joined = table._part(replace(table._sample, losses={**table._sample.losses, **made}))
    ranges = {name: (float(array.min()), float(array.max())) for name, array in made.items()}
    joined._ranges, joined._bounds = {**table._ranges, **ranges}, {**table._bounds, **bounds}
    return joined
