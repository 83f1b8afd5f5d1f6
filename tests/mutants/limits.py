"""Faults of the evidence for a limit: what is counted, among how many, against which number."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from riskfront._data.sums import Totals
from riskfront.methods._evidence.limit_tests import Evidence, LimitTest
from riskfront.statistics import _p_values as p_values
from tests.mutants.mutant import Mutant, everywhere, method
from tests.validity.broken import kelly


def combine(how: Any) -> Any:
    """How the p-values of the limits, (settings, limits), become one; every limit then says the same."""
    return lambda: method(Evidence, "p_values", lambda real: lambda *given: _all_alike(how, real(*given)))


def over_groups(how: Any) -> Any:
    """The same for the groups of a limit, (settings, groups)."""
    return lambda: method(LimitTest, "p_values", lambda real: lambda *given: _all_alike(how, real(*given)))


def _all_alike(how: Any, p: np.ndarray) -> np.ndarray:
    return np.broadcast_to(how(p)[:, None], p.shape).copy()


def n_of_all() -> None:
    """The sum of the selected examples among all examples."""

    def make(real: Any) -> Any:
        def sums(self: LimitTest, table: Any, rows: Any) -> Totals:
            found = real(self, table, rows)
            return Totals(np.full_like(found.n, table.n_examples), found.total)

        return sums

    method(LimitTest, "sums", make)


def condition_forgotten() -> None:
    """Bets on all examples, whether they were answered or not."""
    method(
        LimitTest,
        "sequences",
        lambda real: lambda self, table, rows: [(losses, None) for losses, _ in real(self, table, rows)],
    )


def _of(change: Any) -> Any:
    """A mutant of a limit bound to a table: change(test) -> what it becomes."""

    def apply() -> None:
        real = LimitTest.of.__func__
        LimitTest.of = classmethod(lambda cls, *given: change(real(cls, *given)))

    return apply


at_least_flipped = _of(lambda test: test if test.limit.at_least is None else replace(test, alpha=1 - test.alpha))
at_least_as_at_most = _of(
    lambda test: test if test.limit.at_least is None else replace(test, alpha=1 - test.alpha, upper=True)
)
quantile_as_share = _of(lambda test: test if test.limit.quantile is None else replace(test, alpha=test.limit.quantile))


def not_rescaled() -> None:
    """Signed losses are bet on as they are, cut off at 0, against the limit on the scale from 0 to 1."""

    def make(real: Any) -> Any:
        def sequences(self: LimitTest, table: Any, rows: Any) -> Any:
            width = self.high - self.low
            return [(np.clip(self.low + x * width, 0, 1), kept) for x, kept in real(self, table, rows)]

        return sequences

    method(LimitTest, "sequences", make)


def quantile_off_by_one() -> None:
    """One example too few above the quantile."""

    def make(real: Any) -> Any:
        def sums(self: LimitTest, table: Any, rows: Any) -> Totals:
            found = real(self, table, rows)
            return found if self.limit.quantile is None else Totals(found.n, np.maximum(found.total - 1, 0))

        return sums

    method(LimitTest, "sums", make)


def bets_in_order_of_size() -> None:
    """The smallest losses are bet on first."""
    bet = p_values.betting
    everywhere(bet, lambda losses, *rest, **named: bet(np.sort(losses, axis=1), *rest, **named))


def bets_see_their_own_loss() -> None:
    """The loss that is bet on enters its own stake."""

    def broken(losses: Any, alpha: Any, level: Any, selected: Any = None, of: Any = None) -> Any:
        bets = losses if of is None else losses[of]
        rows = zip(bets.astype(float), np.broadcast_to(alpha, len(bets)), strict=True)
        return np.array([kelly(row[None], limit)[0] for row, limit in rows])

    everywhere(p_values.betting, broken)


def empty_passes() -> None:
    """No example, no objection: p = 0 where a group has no examples."""
    method(
        p_values.PValue,
        "from_totals",
        lambda honest: lambda self, total, n, *rest: np.where(n > 0, honest(self, total, n, *rest), 0.0),
    )


MUTANTS = [
    Mutant(
        "limits: smallest p-value instead of the largest", "calibrate: three limits", combine(lambda p: p.min(axis=1))
    ),
    Mutant("limits: only the first is tested", "calibrate: three limits", combine(lambda p: p[:, 0])),
    Mutant("limits: mean p-value instead of the largest", "calibrate: three limits", combine(lambda p: p.mean(axis=1))),
    Mutant(
        "classes: mean p-value instead of the largest", "calibrate: worst class", over_groups(lambda p: p.mean(axis=1))
    ),
    Mutant("classes: the last is left out", "calibrate: worst class", over_groups(lambda p: p[:, :-1].max(axis=1))),
    Mutant("classes: n of all examples", "calibrate: worst class", n_of_all),
    Mutant("given answered: n of all examples", "calibrate: given answered", n_of_all),
    Mutant("given answered: bets on all examples", "calibrate: given answered, bets", condition_forgotten),
    Mutant("at least: compared with the wrong side", "calibrate: at least", at_least_flipped),
    Mutant("at least: tested as at most", "calibrate: something is found", at_least_as_at_most),
    Mutant("signed losses not rescaled", "calibrate: signed", not_rescaled),
    Mutant("quantile: q for 1 - q", "calibrate: quantile", quantile_as_share),
    Mutant("quantile: off by one", "calibrate: quantile", quantile_off_by_one),
    Mutant("bets: smallest losses first", "calibrate: continuous losses", bets_in_order_of_size),
    Mutant("bets: stakes know their own loss", "certify: examples of two contents", bets_see_their_own_loss),
    Mutant("classes without examples pass", "calibrate: class lost in the split", empty_passes),
]
