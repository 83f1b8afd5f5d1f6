"""Sequences of tests that share one level, where what keeps a tight limit keeps the looser ones.

A hypothesis is a pair (value, setting): "this setting breaks the limit at this value". Values stand in blocks, one block a
limit, from the loosest to the tightest: to reject (value, setting) is to reject (looser value, setting) of the same block too.

Every sequence has a share of the level and waits at its first hypothesis that is not rejected. A hypothesis is tested at the
sum of the shares of all sequences that wait at it. The shares of sequences that came to their end go in equal parts to the
others.

Why all rejections are right with probability at least 1 - level. Let everything rejected so far be true. Then what follows from
it is true as well, and the next rejection can only be wrong if some sequence waits at a false pair. Take the state in which all
true pairs are rejected: each sequence waits at its first false pair, which is fixed before the data are seen, and the shares of
those that wait add up to one. By the union bound some false pair passes with probability at most ``level``. Rejecting more
never lowers the level of a pair that is still open, so no other state does worse (the sequential rejection principle of Goeman
and Solari, 2010). The p-values may depend on each other in any way.

Pooling. Where the p-value of a setting can only fall as the value gets looser, as that of the exact binomial test, a pair is
tested at the shares of all sequences that wait at it or at the same setting with a tighter value of the same block. A tighter
pair is false whenever the looser one is, and cannot be rejected without it, so its sequences wait as long as the looser pair is
open: levels still never fall. In the state above, let w be the shares that wait at one setting and block. All its pairs there
are tested at w or less, and each passes only if the p-value of the loosest of them, a false one, is at most w times the level:
probability at most w times the level. Over all settings and blocks that adds up to the level again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from riskfront._support.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class TestSequence:
    """Pairs in testing order, fixed before the tested data were seen: ``values`` and ``settings``, (pairs,), and a share."""

    __test__ = False  # no test of pytest's

    values: IntArray
    settings: IntArray
    share: float


def reject_along(
    sequences: Sequence[TestSequence],
    p_value: Callable[[int, int], float],
    level: float,
    held: BoolArray,
    loosest: IntArray,
    pooled: BoolArray | None = None,
) -> tuple[BoolArray, FloatArray]:
    """Which pairs are rejected, (values, settings), and at which level each was; nan where not.

    Args:
        sequences: their shares must add up to at most one.
        p_value: of a value and a setting.
        held: (values, settings) pairs that are rejected by another test, which has a level of its own.
        loosest: (values,) the first, loosest value of the block that each value belongs to.
        pooled: (values,) whether the p-value of every setting can only fall towards looser values of this block; not at all by
            default. Which settings are tested must have been fixed before the tested data were seen, too.
    """
    rejected, at = held.copy(), np.full(held.shape, np.nan)
    places, ended = [0] * len(sequences), 0.0
    open_ = set(range(len(sequences)))
    while True:
        waiting: dict[tuple[int, int], float] = {}
        for index in sorted(open_):
            places[index] = _first_open(sequences[index], places[index], rejected)
            if places[index] == len(sequences[index].values):
                open_.discard(index)
                ended += sequences[index].share
        for index in open_:
            one, place = sequences[index], places[index]
            pair = (int(one.values[place]), int(one.settings[place]))
            waiting[pair] = waiting.get(pair, 0.0) + one.share + ended / len(open_)
        if pooled is not None:
            waiting = _with_tighter(waiting, loosest, pooled)
        passed = {pair: level * share for pair, share in waiting.items() if p_value(*pair) <= level * share}
        for (value, setting), tested_at in passed.items():
            block = slice(int(loosest[value]), value + 1)
            new = ~rejected[block, setting]
            at[block, setting] = np.where(new, tested_at, at[block, setting])
            rejected[block, setting] = True
        if not passed:
            return rejected, at


def _with_tighter(
    waiting: dict[tuple[int, int], float], loosest: IntArray, pooled: BoolArray
) -> dict[tuple[int, int], float]:
    """The shares of each pair, and where they are pooled also those of tighter values at the same setting."""
    found, sums = dict(waiting), dict[tuple[int, int], float]()
    for value, setting in sorted(waiting, reverse=True):  # the tightest first
        if pooled[value]:
            place = int(loosest[value]), setting
            sums[place] = sums.get(place, 0.0) + waiting[value, setting]
            found[value, setting] = sums[place]
    return found


def _first_open(one: TestSequence, place: int, rejected: BoolArray) -> int:
    while place < len(one.values) and rejected[one.values[place], one.settings[place]]:
        place += 1
    return place
