"""What one part of the data says about every setting: risks, p-values and free objectives for one problem."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from riskfront.arrays import BoolArray, FloatArray, IntArray
from riskfront.errors import InvalidInputError
from riskfront.losses.sums import Totals
from riskfront.losses.table import LossTable
from riskfront.problems.limits import Limit
from riskfront.problems.objectives import Objective
from riskfront.problems.problem import Problem
from riskfront.statistics import p_values

_DIGITS = 12  # estimates that differ by rounding alone are ties; a front must not depend on the order of summation
_BETS_AT_ONCE = 1 << 22  # losses that are turned into floats at a time


class Evidence:
    """The evidence of a table for a problem. Everything is computed when asked for, for some or for all settings."""

    def __init__(self, problem: Problem, table: LossTable) -> None:
        problem.check(table)
        self.problem = problem
        self.table = table
        self.tests = tuple(LimitTest.of(limit, table, problem.delta) for limit in problem.limits)

    @property
    def is_costly(self) -> bool:
        """Whether a p-value needs every single loss and not only a sum, or losses must be read from a store."""
        return self.table.is_lazy or any(test.p_value == "betting" for test in self.tests)

    def risks(self, rows: IntArray | None = None) -> FloatArray:
        """(settings, limits): badness in [0, 1], worst group first; 1 where no example was selected."""
        return _side_by_side([_tidy(test.badness(self.table, rows)) for test in self.tests])

    def excess(self, rows: IntArray | None = None) -> FloatArray:
        """(settings,): by how much the worst limit is missed; negative when all empirical risks are below their limits."""
        return self.excess_of(self.risks(rows))

    def excess_of(self, risks: FloatArray) -> FloatArray:
        """The same for risks that are known, (settings, limits)."""
        found: FloatArray = (risks - np.array([test.alpha for test in self.tests])).max(axis=1)
        return found

    def objectives(self, rows: IntArray | None = None) -> FloatArray:
        """(settings, objectives): values to minimise; infinite where no example was selected."""
        return _side_by_side([_tidy(_cost(o, self.table, rows)) for o in self.problem.objectives])

    def p_values(self, rows: IntArray) -> FloatArray:
        """(rows, limits): the p-value of each limit, the largest over its groups."""
        return _side_by_side([test.p_values(self.table, rows).max(axis=1) for test in self.tests])

    def combined(self, rows: IntArray) -> FloatArray:
        """(rows,): the p-value of each setting, the largest over its limits (Lemma A.1 of the paper)."""
        return self.p_values(rows).max(axis=1)


@dataclass(frozen=True, slots=True)
class LimitTest:
    """A limit bound to the declared losses of a table: H says that the badness x of the loss has E[x] > alpha.

    x lies in [0, 1]: (L - low) / (high - low) for "at most", (high - L) / (high - low) for "at least".
    """

    limit: Limit
    low: float
    high: float
    alpha: float
    p_value: str
    delta: float

    @classmethod
    def of(cls, limit: Limit, table: LossTable, delta: float) -> LimitTest:
        if limit.quantile is not None:
            return cls(limit, 0.0, 1.0, 1 - limit.quantile, "binomial", delta)
        low, high = table.bounds(limit.loss)
        if limit.drop_from is not None:  # of values in [low, high]
            low, high = low - high, high - low
        if not low < limit.value < high:
            raise InvalidInputError(
                f"the limit on '{limit.loss}' must lie strictly between its bounds ({low:g}, {high:g}); got {limit.value:g}."
            )
        above = limit.value - low if limit.at_least is None else high - limit.value
        countable = table.is_binary(limit.loss) and (low, high) == (0, 1) and not limit.padded and not limit.drop_from
        p_value = limit.p_value if limit.p_value != "auto" else "binomial" if countable else "betting"
        if p_value == "binomial" and not countable:
            hint = " It holds only 0 and 1: store it as booleans or integers." if table.looks_binary(limit.loss) else ""
            raise InvalidInputError(
                f"the binomial test needs a 0/1 loss with bounds (0, 1) that is not padded; '{limit.loss}' is not declared so."
                f"{hint} Otherwise use p_value='betting'."
            )
        return cls(limit, low, high, above / (high - low), p_value, delta)

    def shown(self, badness: FloatArray) -> FloatArray:
        """Badness in the units of the loss (for a quantile: the share of examples above the limit)."""
        width = self.high - self.low
        return self.low + badness * width if self.limit.at_least is None else self.high - badness * width

    def sums(self, table: LossTable, rows: IntArray | None) -> Totals:
        """Examples, (settings or 1, groups), and summed badness, (settings, groups); whole numbers for 0/1 losses."""
        raw = table.totals(self.limit.term, rows)
        n, total = raw.n, raw.total
        if (self.low, self.high) == (0, 1):
            total = total if self.limit.at_least is None else n - total
        else:
            total = (total - self.low * n if self.limit.at_least is None else self.high * n - total) / (
                self.high - self.low
            )
        if total.dtype.kind == "f":  # rounding may leave the range that every p-value relies on
            total = np.clip(total, 0.0, n)
        if self.limit.padded:
            everyone = np.full_like(n, table.n_examples)
            return Totals(everyone, total + self.alpha * (everyone - n))
        return Totals(n, total)

    def badness(self, table: LossTable, rows: IntArray | None) -> FloatArray:
        """(settings,): the mean badness in the worst group, 1 where some group has no example."""
        worst = self.sums(table, rows).means().max(axis=1)
        return np.where(np.isnan(worst), 1.0, worst)

    def worst_mean(self, table: LossTable, rows: IntArray | None) -> FloatArray:
        """(settings,): the mean badness in the worst group that has examples, nan where none has."""
        means = self.sums(table, rows).means()
        worst = np.fmax.reduce(means, axis=1)  # ignores nan unless there is nothing else
        return np.asarray(worst)

    def p_values(self, table: LossTable, rows: IntArray) -> FloatArray:
        """(rows, groups). A reference needs no test against itself: its drop is 0 by definition, whatever the data."""
        if self.limit.drop_from is None or not self.limit.holds_for_reference:
            return self._tested(table, rows)
        itself = rows == table.reference(self.limit.drop_from)
        return np.where(itself[:, None], 0.0, self._tested(table, rows))

    def _tested(self, table: LossTable, rows: IntArray) -> FloatArray:
        if self.p_value != "betting":
            sums = self.sums(table, rows)
            return p_values.of_sums(self.p_value, sums.total, sums.n, self.alpha)
        step = max(1, _BETS_AT_ONCE // max(1, table.n_examples))
        blocks = [rows[start : start + step] for start in range(0, len(rows), step)] or [rows]
        return np.concatenate([self._bets(table, block) for block in blocks])

    def _bets(self, table: LossTable, rows: IntArray) -> FloatArray:
        sequences = self.sequences(table, rows)
        return np.stack([p_values.betting(losses, self.alpha, self.delta, kept) for losses, kept in sequences], axis=1)

    def upper_bounds(self, table: LossTable, rows: IntArray, levels: FloatArray) -> FloatArray:
        """(rows, groups): the smallest alpha that the same losses would have passed at ``levels``, (rows,), as badness."""
        found = self._inverted(table, rows, levels)
        if self.limit.drop_from is None:
            return found
        nothing = (0.0 - self.low if self.limit.at_least is None else self.high) / (self.high - self.low)
        return np.where((rows == table.reference(self.limit.drop_from))[:, None], nothing, found)

    def _inverted(self, table: LossTable, rows: IntArray, levels: FloatArray) -> FloatArray:
        sums = self.sums(table, rows)
        if self.p_value == "binomial":
            return p_values.binomial_upper_bound(sums.total, sums.n, levels[:, None])
        # a bet may have been won before losses that came later, so its bound can lie below the mean
        means = np.zeros(sums.total.shape) if self.p_value == "betting" else np.nan_to_num(sums.means(), nan=1.0)
        if self.p_value == "betting":
            invert = [partial(_bet, losses, self.delta, kept) for losses, kept in self.sequences(table, rows)]
        else:
            function = p_values.OF_SUMS[self.p_value]
            invert = [partial(function, total, n) for total, n in zip(sums.total.T, sums.n.T, strict=True)]
        return np.stack(
            [p_values.smallest_rejected(p, mean, levels) for p, mean in zip(invert, means.T, strict=True)], axis=1
        )

    def sequences(self, table: LossTable, rows: IntArray) -> list[tuple[FloatArray, BoolArray | None]]:
        """For each group the badness of the examples in their order, (rows, n), and which of them count."""
        values, condition, groups = table.sequences(self.limit.term, rows)
        badness = (values.astype(np.float64) - self.low) / (self.high - self.low)
        badness = np.clip(badness if self.limit.at_least is None else 1 - badness, 0.0, 1.0)
        if self.limit.padded:
            masks = [group[None, :] if condition is None else group & condition for group in groups]
            return [(np.where(kept, badness, self.alpha), None) for kept in masks]
        if condition is None:
            return [(badness if group.all() else badness[:, group], None) for group in groups]
        return [(badness[:, group], condition[:, group]) for group in groups]


def _bet(losses: FloatArray, delta: float, kept: BoolArray | None, alpha: FloatArray) -> FloatArray:
    return p_values.betting(losses, alpha, delta, kept)


def _side_by_side(columns: list[FloatArray]) -> FloatArray:
    return columns[0][:, None] if len(columns) == 1 else np.stack(columns, axis=1)


def _tidy(values: FloatArray) -> FloatArray:
    """Values rounded to twelve digits of the largest of them."""
    largest = np.abs(values[np.isfinite(values)]).max(initial=0.0)
    return np.round(values, _DIGITS - math.ceil(math.log10(largest))) if largest > 0 else values


def _cost(objective: Objective, table: LossTable, rows: IntArray | None) -> FloatArray:
    means = table.means(objective.term, rows)
    signed = -means if objective.maximize else means
    return np.where(np.isnan(signed), np.inf, signed).max(axis=1)
