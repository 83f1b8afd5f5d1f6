"""Why nothing was certified, and what would help."""

from __future__ import annotations

from typing import Any

import numpy as np

from riskfront._calibration.decision import Decision
from riskfront._support.arrays import IntArray
from riskfront.methods import Plan
from riskfront.methods._evidence.limit_tests import Evidence, LimitTest

_SMALL_LIMIT = 0.02  # of the range that a loss may have


def diagnose(plan: Plan, evidence: Evidence, decision: Decision) -> dict[str, Any]:
    """The limit that stood in the way at the most promising setting, how far it was, and how many examples would help."""
    if len(decision.rows) == 0:
        return {
            "message": f"No setting was within the limits on the {plan.opt.n_examples} planning examples: none was tested."
        }
    if plan.by_mean:
        nearest = int(np.argmin(evidence.margin(decision.rows)))
        setting = evidence.table.config(int(decision.rows[nearest]))
        return {"message": f"No setting measured within the limits; the nearest was {setting}."}
    combined = decision.p_values.max(axis=1)
    # a fixed sequence stops at its first setting; elsewhere the setting that came nearest tells most
    reached = np.where(
        np.isnan(decision.levels), np.inf, combined / np.where(decision.levels > 0, decision.levels, np.nan)
    )
    nearest = int(np.nanargmin(reached))
    declared = plan.method.name == "ordered-knob"
    return explain(evidence, decision.rows[nearest : nearest + 1], float(decision.levels[nearest]), declared)


def explain(evidence: Evidence, row: IntArray, level: float, by_sequence: bool = False) -> dict[str, Any]:
    """What stood in the way of one tested setting, in numbers and in words."""
    test, worst = _in_the_way(evidence, row, level)
    by_group = test.p_values(evidence.table, row, np.array([level]))[0]
    sums = test.sums(evidence.table, row)
    n, mean = int(sums.n[0, worst]), float(np.nan_to_num(sums.means()[0, worst], nan=np.nan))
    group = test.groups(evidence.table)[worst]
    measured = float(test.measured(evidence.table, row)[0, worst])
    seen = 1.0 if not test.limit.padded else _share_seen(test, evidence, row, worst)
    if_perfect = test.kind.examples_without_losses(test.alpha, level, 1 - seen)
    at_this_mean = None
    if n and mean < test.alpha:
        losses = None if test.kind.of_totals else test.losses_of(evidence.table, row, worst)
        at_this_mean = test.kind.examples_like(mean, losses, test.alpha, level)
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
    message = _message({**found, "by_sequence": by_sequence}, mean, test.alpha)
    if if_perfect is not None and 0 < n < if_perfect and test.p_value == "betting" and test.alpha < _SMALL_LIMIT:
        message += (
            f" A loss may be as large as {test.high:g}, and so many examples are needed to rule out that it seldom "
            f"is: no test can "
            "do with fewer. A cap on single losses with a limit on the share above it, a quantile, or a ratio needs fewer."
        )
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
        test.kind.needs == "count"
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


def _share_seen(test: LimitTest, evidence: Evidence, row: IntArray, group: int) -> float:
    """The share of examples that a padded limit speaks of."""
    return float(evidence.table.totals(test.term, row).n[0, group] / evidence.table.n_examples)


def _message(found: dict[str, Any], mean: float, alpha: float) -> str:
    where = f" in group {found['group']!r}" if found["group"] is not None else ""
    start = f"The setting that came nearest missed '{found['limit']}'{where}"
    examples, perfect, same = found["examples"], found["examples_if_perfect"], found["examples_at_this_mean"]
    if examples == 0:
        least = f"; at least {perfect:,} are needed" if perfect is not None else ""
        begin = (
            ", or begin at another setting: OrderedKnob(safest=..., start=value), or --start, skips those before a "
            "value that you "
            "choose beforehand."
        )
        more = begin if found["by_sequence"] else "."
        return f"{start}: no testing example speaks of it. Add examples of that kind{least}{more}"
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
