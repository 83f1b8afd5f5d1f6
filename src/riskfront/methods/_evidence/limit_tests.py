"""What one part of the data says about every setting: risks, p-values and free objectives for one problem."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from riskfront._data import derived_losses
from riskfront._data.problem_fit import check_fit, ends_of_missing
from riskfront._data.sums import Totals
from riskfront._data.table import LossTable
from riskfront._problems.limits import Limit
from riskfront._problems.objectives import Objective
from riskfront._problems.problem import Problem
from riskfront._problems.terms import Term
from riskfront._support.arrays import Array, BoolArray, FloatArray, IntArray
from riskfront.errors import InvalidInputError
from riskfront.methods._evidence.prediction_powered import prediction_powered_p_values, with_proxy_weights
from riskfront.methods._evidence.ranges import check_groups, measured_worst_cases, tested_range, with_thresholds
from riskfront.statistics._p_values import P_VALUES, PValue

_DIGITS = 12  # estimates that differ by rounding alone are ties; a front must not depend on the order of summation
ROUNDING = 1e-9  # a mean above its limit by less is at its limit
BLOCK_SIZE = 1 << 22  # losses that are turned into floats at a time
MANY_GROUPS = 100  # from so many on, groups bet side by side


class Evidence:
    """The evidence of a table for a problem. Everything is computed when asked for, for some or for all settings."""

    def __init__(self, problem: Problem, table: LossTable) -> None:
        check_fit(problem, table)
        self.problem = problem
        self.table = table
        self.tests = tuple(LimitTest.of(limit, table, problem.delta) for limit in problem.limits)

    @classmethod
    def of_planning(cls, problem: Problem, opt: LossTable) -> Evidence:
        """The evidence of planning examples, which may choose what testing examples must not: thresholds of worst cases, and
        how far to believe a proxy."""
        return cls(with_proxy_weights(with_thresholds(problem, opt), opt), opt)

    @property
    def bets(self) -> bool:
        """Whether a p-value needs every single loss and not only a sum."""
        return any(test.kind.needs == "sequence" for test in self.tests)

    @property
    def is_costly(self) -> bool:
        """Whether p-values are worth computing one by one: for bets, or where losses must be read from a store."""
        return self.table.is_lazy or self.bets

    def risks(self, rows: IntArray | None = None) -> FloatArray:
        """(settings, limits): normalised loss in [0, 1], worst group first; 1 where no example was selected."""
        return _side_by_side([_tidy(test.normalised_loss(self.table, rows)) for test in self.tests])

    def margin(self, rows: IntArray | None = None) -> FloatArray:
        """(settings,): by how much the worst limit is missed; negative when all measured risks are below their limits."""
        return self.margin_of(self.risks(rows))

    def margin_of(self, risks: FloatArray) -> FloatArray:
        """The same for risks that are known, (settings, limits)."""
        return (risks - np.array([test.alpha for test in self.tests])).max(axis=1)

    def objectives(self, rows: IntArray | None = None) -> FloatArray:
        """(settings, objectives): values to minimise; infinite where no example was selected."""
        return _side_by_side([_tidy(_cost(o, self.table, rows)) for o in self.problem.objectives])

    def p_values(self, rows: IntArray, target_levels: FloatArray | None = None) -> FloatArray:
        """(rows, limits): the p-value of each limit, the largest over its groups.

        Args:
            target_levels: (rows,) the levels that stakes are made for, fixed before the losses were seen; by default delta.
        """
        return _side_by_side([test.p_values(self.table, rows, target_levels).max(axis=1) for test in self.tests])

    def combined(self, rows: IntArray) -> FloatArray:
        """(rows,): the p-value of each setting, the largest over its limits (Lemma A.1 of the paper)."""
        return self.p_values(rows).max(axis=1)


@dataclass(frozen=True, slots=True)
class LimitTest:
    """A limit bound to the declared losses of a table: H says that the normalised loss x of the loss has E[x] > alpha.

    x lies in [0, 1]: (L - low) / (high - low) for "at most" (``upper``), (high - L) / (high - low) for "at least". L is what
    the limit averages: a loss, or what a ratio, a gap or a mean of worst cases is tested on (``methods/_evidence/ranges.py``).
    """

    limit: Limit
    low: float
    high: float
    alpha: float
    p_value: str
    delta: float
    upper: bool = True
    missing: tuple[tuple[str, float, float], ...] = ()

    @classmethod
    def of(cls, limit: Limit, table: LossTable, delta: float) -> LimitTest:
        missing = ends_of_missing(limit, table)
        if limit.quantile is not None:
            return cls(limit, 0.0, 1.0, 1 - limit.quantile, "binomial", delta, missing=missing)
        low, high, at = tested_range(limit, table.bounds)
        check_groups(limit, table)
        upper = limit.at_least is None or limit.worst is not None
        above = at - low if upper else high - at
        plain = not (limit.padded or limit.drop_from or limit.gap_per or limit.worst or limit.proxy)
        plain = plain and not limit.term.is_ratio
        countable = plain and table.is_binary(limit.loss) and (low, high) == (0, 1)
        p_value = limit.p_value if limit.p_value != "auto" else "binomial" if countable else "betting"
        if P_VALUES[p_value].needs == "count" and not countable:
            hint = " It holds only 0 and 1: store it as booleans or integers." if table.looks_binary(limit.loss) else ""
            raise InvalidInputError(
                f"the {P_VALUES[p_value].words} test needs a 0/1 loss with bounds (0, 1) that is not padded; '{limit.loss}' is "
                "not declared so."
                f"{hint} Otherwise use p_value='betting'."
            )
        return cls(limit, low, high, above / (high - low), p_value, delta, upper, missing)

    @property
    def kind(self) -> PValue:
        """The p-value that it is tested by."""
        return P_VALUES[self.p_value]

    @property
    def term(self) -> Term:
        """What is averaged to test the limit, with missing outcomes counted as the worst."""
        return replace(self.limit.term, fill=self.missing)

    @property
    def at(self) -> float:
        """What the mean of the averaged values must not cross."""
        return float(self.shown(np.array(self.alpha)))

    @property
    def opposite(self) -> LimitTest:
        """The test of the other side: H says that the limit is kept."""
        limit = replace(self.limit, padded=False)
        best = tuple((loss, best, worst) for loss, worst, best in self.missing)
        return replace(self, limit=limit, alpha=1 - self.alpha, upper=not self.upper, missing=best)

    def groups(self, table: LossTable) -> list[Any]:
        """The groups, or pairs of groups, that the limit must hold in; None for all examples together."""
        if self.limit.gap_per is not None:
            return [*derived_losses.pair_names(table.group(self.limit.gap_per).levels)]
        return [None] if self.limit.per is None else list(table.group(self.limit.per).levels)

    def shown(self, normalised_loss: FloatArray) -> FloatArray:
        """Normalised loss in the units of what is averaged (for a quantile: the share of examples above the limit)."""
        width = self.high - self.low
        return self.low + normalised_loss * width if self.upper else self.high - normalised_loss * width

    def measured(self, table: LossTable, rows: IntArray | None) -> FloatArray:
        """(settings, groups): the measured value that the limit bounds, nan without examples."""
        if self.limit.term.is_ratio:
            return table.means(self.term, rows)
        if self.limit.worst is not None:
            return measured_worst_cases(self.limit, self.term, table, rows)
        return self.shown(self.sums(table, rows).means())

    def worst_measured(self, table: LossTable, rows: IntArray | None) -> FloatArray:
        """(settings,): the same in the worst group that has examples."""
        found = self.measured(table, rows)
        return np.asarray((np.fmax if self.limit.at_least is None else np.fmin).reduce(found, axis=1))

    def sums(self, table: LossTable, rows: IntArray | None) -> Totals:
        """Examples, (settings or 1, groups), and summed normalised loss, (settings, groups); whole numbers for 0/1 losses."""
        return self.as_normalised_losses(table.totals(self.term, rows), table.n_examples)

    def squares(self, table: LossTable, rows: IntArray) -> FloatArray:
        """(rows, groups): sums of squared normalised losses."""
        step, found = max(1, BLOCK_SIZE // max(1, table.n_examples)), []
        for start in range(0, len(rows), step):
            parts = self.sequences(table, rows[start : start + step])
            found.append(
                np.stack([np.sum(x * x, axis=1, where=True if kept is None else kept) for x, kept in parts], axis=1)
            )
        return np.concatenate(found) if found else np.zeros((0, 1))

    def as_normalised_losses(self, raw: Totals, n_examples: int) -> Totals:
        """Sums of losses over ``n_examples`` as sums of normalised loss."""
        n, total = raw.n, raw.total
        if (self.low, self.high) == (0, 1):
            total = total if self.upper else n - total
        else:
            total = (total - self.low * n if self.upper else self.high * n - total) / (self.high - self.low)
        if total.dtype.kind == "f":  # rounding may leave the range that every p-value relies on
            total = np.clip(total, 0.0, n)
        if self.limit.padded:
            everyone = np.full_like(n, n_examples)
            return Totals(everyone, total + self.alpha * (everyone - n))
        return Totals(n, total)

    def normalised_loss(self, table: LossTable, rows: IntArray | None) -> FloatArray:
        """(settings,): the mean normalised loss in the worst group, 1 where some group has no example."""
        worst = self.sums(table, rows).means().max(axis=1)
        return np.where(np.isnan(worst), 1.0, worst)

    def worst_mean(self, table: LossTable, rows: IntArray | None) -> FloatArray:
        """(settings,): the mean normalised loss in the worst group that has examples, nan where none has."""
        means = self.sums(table, rows).means()
        return np.asarray(np.fmax.reduce(means, axis=1))  # ignores nan unless there is nothing else

    def p_values(self, table: LossTable, rows: IntArray, target_levels: FloatArray | None = None) -> FloatArray:
        """(rows, groups). 1 wherever the measured mean is above the limit, whatever a bet had won before its last losses. A
        reference needs no test against itself: its drop is 0 by definition, whatever the data."""
        if self.limit.drop_from is None or not self.limit.holds_for_reference:
            return self._tested(table, rows, target_levels)
        itself = rows == table.reference(self.limit.drop_from)
        return np.where(itself[:, None], 0.0, self._tested(table, rows, target_levels))

    def _tested(self, table: LossTable, rows: IntArray, target_levels: FloatArray | None) -> FloatArray:
        if self.kind.needs != "sequence":
            sums = self.sums(table, rows)
            squares = None if self.kind.of_totals else self.squares(table, rows)
            found = self.kind.from_totals(sums.total, sums.n, self.alpha, squares)
            return np.where(sums.total > (self.alpha + ROUNDING) * sums.n, 1.0, found)
        levels = np.full(len(rows), self.delta) if target_levels is None else target_levels
        step = max(1, BLOCK_SIZE // max(1, table.n_examples))
        starts = range(0, len(rows), step) or range(1)
        blocks = [slice(start, start + step) for start in starts]
        found = np.concatenate([self._bets(table, rows[block], levels[block]) for block in blocks])
        if self.limit.gap_per is None:
            return found
        # pairs leave some examples with less weight than others; what is measured counts all alike
        sums = self.sums(table, rows)
        return np.where(sums.total > (self.alpha + ROUNDING) * sums.n, 1.0, found)

    def _bets(self, table: LossTable, rows: IntArray, target_levels: FloatArray) -> FloatArray:
        if self.limit.proxy is not None:
            return prediction_powered_p_values(self, table, rows, target_levels)
        groups = self.sequences(table, rows)
        if (
            len(groups) >= MANY_GROUPS and not self.limit.padded
        ):  # padded losses are as long as the table in every group
            return self._bets_of_many(groups, target_levels)
        return np.stack([self.bet(losses, kept, target_levels) for losses, kept in groups], axis=1)

    def _bets_of_many(self, groups: list[tuple[FloatArray, BoolArray | None]], target_levels: FloatArray) -> FloatArray:
        """(rows, groups): groups with equally many examples bet side by side, as rows of one array."""
        found = np.ones((len(target_levels), len(groups)))
        by_size: dict[int, list[int]] = {}
        for place, (losses, _) in enumerate(groups):
            by_size.setdefault(losses.shape[1], []).append(place)
        for places in by_size.values():
            losses = np.concatenate([groups[place][0] for place in places])
            masks = [
                np.broadcast_to(kept, own.shape) for own, kept in map(groups.__getitem__, places) if kept is not None
            ]
            p_values = self.bet(losses, np.concatenate(masks) if masks else None, np.tile(target_levels, len(places)))
            found[:, places] = p_values.reshape(len(places), len(target_levels)).T
        return found

    def bet(self, losses: FloatArray, kept: BoolArray | None, target_levels: float | FloatArray) -> FloatArray:
        """(rows,): the betting p-value of losses in [0, 1], (rows, n), against the limit."""
        total = losses.sum(axis=1) if kept is None else losses.sum(axis=1, where=kept)
        n = losses.shape[1] if kept is None else kept.sum(axis=1)
        hopeful = np.flatnonzero(total <= (self.alpha + ROUNDING) * n)
        found = np.ones(len(losses))
        levels = np.broadcast_to(target_levels, found.shape)[hopeful]
        found[hopeful] = self.kind.function(losses, self.alpha, levels, kept, hopeful)
        return found

    def sequences(self, table: LossTable, rows: IntArray) -> list[tuple[FloatArray, BoolArray | None]]:
        """For each group the normalised loss of the examples in their order, (rows, n), and which of them count."""
        values, condition, groups = table.sequences(self.term, rows)
        if self.limit.gap_per is not None:
            return [(self._normalised(d), kept) for d, kept in derived_losses.paired(values, condition, groups)]
        losses, n = self._normalised(values), values.shape[1]
        if self.limit.padded:
            return [(np.where(kept, losses, self.alpha), None) for kept in _masks(groups, condition, n)]
        if condition is None:
            return [(losses if len(group) == n else losses[:, group], None) for group in groups]
        return [(losses[:, group], condition[:, group]) for group in groups]

    def losses_of(self, table: LossTable, row: IntArray, group: int) -> FloatArray:
        """(n,): the normalised losses of one setting that a group counts, in their order."""
        losses, kept = self.sequences(table, row)[group]
        return losses[0] if kept is None else losses[0][np.broadcast_to(kept, losses.shape)[0]]

    def _normalised(self, values: Array) -> FloatArray:
        normalised_loss = (values.astype(np.float64) - self.low) / (self.high - self.low)
        return np.clip(normalised_loss if self.upper else 1 - normalised_loss, 0.0, 1.0)


def _masks(groups: list[IntArray], condition: BoolArray | None, n: int) -> list[BoolArray]:
    """For each group which of n examples count, (1, n) or (rows, n)."""
    found = []
    for group in groups:
        mask = np.zeros((1, n), dtype=bool)
        mask[0, group] = True
        found.append(mask if condition is None else mask & condition)
    return found


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
