"""Why nothing was certified, and what would help."""

from __future__ import annotations

from typing import Any

import numpy as np

from riskfront.arrays import FloatArray, IntArray
from riskfront.calibration.decision import Decision
from riskfront.evidence.evidence import Evidence, LimitTest
from riskfront.methods import Plan
from riskfront.statistics import p_values
from riskfront.statistics.sample_for_bets import examples_to_win

_MOST_EXAMPLES = 10_000_000
_MOST_BETS = 1_000_000


def diagnose(plan: Plan, evidence: Evidence, decision: Decision) -> dict[str, Any]:
    """The limit that stood in the way at the most promising setting, how far it was, and how many examples would help."""
    if len(decision.rows) == 0:
        return {
            "message": f"No setting was within the limits on the {plan.opt.n_examples} planning examples: none was tested."
        }
    if plan.by_mean:
        nearest = int(np.argmin(evidence.excess(decision.rows)))
        setting = evidence.table.config(int(decision.rows[nearest]))
        return {"message": f"No setting measured within the limits; the nearest was {setting}."}
    combined = decision.p_values.max(axis=1)
    # a fixed sequence stops at its first setting; elsewhere the setting that came nearest tells most
    reached = np.where(
        np.isnan(decision.levels), np.inf, combined / np.where(decision.levels > 0, decision.levels, np.nan)
    )
    nearest = int(np.nanargmin(reached))
    return _explained(evidence, decision.rows[nearest : nearest + 1], float(decision.levels[nearest]))


def _explained(evidence: Evidence, row: IntArray, level: float) -> dict[str, Any]:
    """What stood in the way of one tested setting, in numbers and in words."""
    test, worst = _in_the_way(evidence, row, level)
    by_group = test.p_values(evidence.table, row, np.array([level]))[0]
    sums = test.sums(evidence.table, row)
    n, mean = int(sums.n[0, worst]), float(np.nan_to_num(sums.means()[0, worst], nan=np.nan))
    group = test.groups(evidence.table)[worst]
    measured = float(test.measured(evidence.table, row)[0, worst])
    most = _MOST_BETS if test.p_value == "betting" else _MOST_EXAMPLES
    seen = 1.0 if not test.limit.padded else _share_seen(test, evidence, row, worst)
    if_perfect = p_values.smallest_sample(lambda size: _perfect(test, size, seen, level), level, most)
    at_this_mean = None
    if n and mean < test.alpha:
        sequence = _sequence(test, evidence, row, worst)
        if sequence is not None:
            at_this_mean = examples_to_win(sequence, test.alpha, level, _MOST_BETS)
        else:
            at_this_mean = p_values.smallest_sample(lambda size: _same(test, mean, size), level, _MOST_EXAMPLES)
    found = {
        "limit": str(test.limit),
        "group": group,
        "setting": evidence.table.config(int(row[0])),
        "examples": n,
        "measured": None if np.isnan(measured) else measured,
        "p_value": float(by_group[worst]),
        "tested_at": level,
        "examples_if_perfect": if_perfect,
        "examples_at_this_mean": at_this_mean,
    }
    message = _message(found, mean, test.alpha)
    return {**found, "message": message + _about_bounds(test, evidence)}


def _in_the_way(evidence: Evidence, row: IntArray, level: float) -> tuple[LimitTest, int]:
    """The limit and the group with the largest p-value; among equals the one with the fewest examples, perhaps none."""
    found = []
    for test in evidence.tests:
        sums = test.sums(evidence.table, row)
        counts = np.broadcast_to(sums.n, sums.total.shape)[0]
        by_group = test.p_values(evidence.table, row, np.array([level]))[0]
        for group, (p_value, n) in enumerate(zip(by_group, counts, strict=True)):
            found.append((p_value, -n, test, group))
    _, _, test, group = max(found, key=lambda one: one[:2])
    return test, group


def _about_bounds(test: LimitTest, evidence: Evidence) -> str:
    """A hint when values use little of the range that the test has to allow for."""
    if (
        test.p_value == "binomial"
        or test.limit.bounded != [test.limit.loss]
        or (test.low, test.high) != (evidence.table.bounds(test.limit.loss))
    ):
        return ""
    low, high = evidence.table.observed_range(test.limit.loss)
    if high - low > 0.25 * (test.high - test.low):
        return ""
    return (
        f" '{test.limit.loss}' was allowed to range over ({test.low:g}, {test.high:g}) but stays within "
        f"({low:.3g}, {high:.3g}): if it can never leave a smaller range, declare that range as its bounds."
    )


def _perfect(test: LimitTest, n: int, seen: float, level: float) -> float:
    """The p-value of n examples without any loss, of which the share ``seen`` is not padded."""
    if test.p_value == "betting":
        losses = np.where(np.arange(n) < seen * n, 0.0, test.alpha)[None, :]
        return float(test.bet(losses, None, level)[0])
    return float(p_values.OF_SUMS[test.p_value](test.alpha * (1 - seen) * n, n, test.alpha))


def _share_seen(test: LimitTest, evidence: Evidence, row: IntArray, group: int) -> float:
    """The share of examples that a padded limit speaks of."""
    return float(evidence.table.totals(test.limit.term, row).n[0, group] / evidence.table.n_examples)


def _same(test: LimitTest, mean: float, n: int) -> float:
    """The p-value of n examples that look like those seen."""
    total = np.ceil(mean * n) if test.p_value == "binomial" else mean * n
    return float(p_values.OF_SUMS[test.p_value](total, n, test.alpha))


def _sequence(test: LimitTest, evidence: Evidence, row: Any, group: int) -> FloatArray | None:
    if test.p_value != "betting":
        return None
    losses, kept = test.sequences(evidence.table, row)[group]
    return losses[0] if kept is None else losses[0][np.broadcast_to(kept, losses.shape)[0]]


def _message(found: dict[str, Any], mean: float, alpha: float) -> str:
    where = f" in group {found['group']!r}" if found["group"] is not None else ""
    start = f"The setting that came nearest missed '{found['limit']}'{where}"
    examples, perfect, same = found["examples"], found["examples_if_perfect"], found["examples_at_this_mean"]
    if examples == 0:
        least = f"; at least {perfect:,} are needed" if perfect is not None else ""
        return f"{start}: no testing example speaks of it. Add examples of that kind{least}."
    if found["measured"] is None:  # a ratio, or a weighted mean
        return (
            f"{start}: what it is divided by is 0 on all {examples:,} testing examples, so there is nothing to measure."
        )
    seen = (
        f"{start}: it measures {found['measured']:.4g} on {examples:,} testing examples, with a p-value of "
        f"{found['p_value']:.3g} where at most {found['tested_at']:.3g} was needed."
    )
    if perfect is not None and examples < perfect:
        return f"{seen} Even a perfect setting needs at least {perfect:,} such testing examples."
    if same is not None:
        factor = max(same / examples, 1.0)
        return f"{seen} With this mean, about {same:,} such testing examples would pass, {factor:.2g} times as many as now."
    if mean >= alpha:
        advice = "loosen it or offer safer settings; more examples will not help."
        return f"{seen} What was measured is not within the limit: {advice}"
    return f"{seen} What was measured is too near to the limit for any feasible number of examples; loosen the limit."
