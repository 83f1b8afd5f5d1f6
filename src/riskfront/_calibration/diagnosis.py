"""Why nothing was certified, and what would help."""

from __future__ import annotations

from typing import Any

import numpy as np

from riskfront._calibration.decision import Decision
from riskfront._support.arrays import IntArray
from riskfront.methods import Plan
from riskfront.methods._evidence.limit_tests import Evidence, LimitTest
from riskfront.methods._evidence.prediction_powered import spread_with_proxy
from riskfront.statistics._sample_size import examples_for

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
    equally = np.flatnonzero(
        reached == np.nanmin(reached)
    )  # p-values of 1 say nothing: there the distance to the limits does
    nearest = int(equally[np.argmin(evidence.margin(decision.rows[equally]))]) if len(equally) > 1 else int(equally[0])
    declared, row = plan.method.name == "ordered-knob", decision.rows[nearest : nearest + 1]
    return explain(evidence, row, float(decision.levels[nearest]), declared, _limits_conflict(plan, evidence))


def _limits_conflict(plan: Plan, evidence: Evidence) -> bool:
    """Whether each limit is kept by some setting, as measured on planning examples, and all of them by none."""
    table = plan.opt if plan.opt.n_examples else evidence.table
    if len(evidence.tests) < 2 or table.is_lazy:
        return False
    kept = Evidence(evidence.problem, table).risks() < np.array([test.alpha for test in evidence.tests])
    return bool(kept.any(axis=0).all() and not kept.all(axis=1).any())


def explain(
    evidence: Evidence, row: IntArray, level: float, by_sequence: bool = False, conflict: bool = False
) -> dict[str, Any]:
    """What stood in the way of one tested setting, in numbers and in words."""
    test, worst, p_value = _in_the_way(evidence, row, level)
    sums = test.sums(evidence.table, row)
    n, mean = int(sums.n[0, worst]), float(np.nan_to_num(sums.means()[0, worst], nan=np.nan))
    group = test.groups(evidence.table)[worst]
    measured = float(test.measured(evidence.table, row)[0, worst])
    seen = 1.0  # the share of examples that the limit speaks of, which others pad
    if test.limit.padded:
        seen = float(evidence.table.totals(test.term, row).n[0, worst] / evidence.table.n_examples)
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
        "p_value": p_value,
        "tested_at": level,
        "examples_if_perfect": if_perfect,
        "examples_at_this_mean": at_this_mean,
    }
    # elsewhere on the knob a condition that depends on the setting covers more examples; any other covers the same
    begins = by_sequence and test.limit.given in evidence.table.loss_names
    message = _message({**found, "begins_with_few": begins, "conflict": conflict}, mean, test.alpha)
    if if_perfect is not None and 0 < n < if_perfect and test.p_value == "betting" and test.alpha < _SMALL_LIMIT:
        message += (
            f" A single loss may be as large as {test.high:g}. To rule out that losses of this size are rare but frequent "
            "enough to break the limit, every valid test needs so many examples. A limit on a quantile, or on a ratio, needs "
            "fewer."
        )
    return {**found, "message": message + _about_bounds(test, evidence)}


def _in_the_way(evidence: Evidence, row: IntArray, level: float) -> tuple[LimitTest, int, float]:
    """The limit and the group with the largest p-value, which comes too; among equals those with the fewest examples."""
    found = []
    for test in evidence.tests:
        sums = test.sums(evidence.table, row)
        counts = np.broadcast_to(sums.n, sums.total.shape)[0]
        by_group = test.p_values(evidence.table, row, np.array([level]))[0]
        for group, (p_value, n) in enumerate(zip(by_group, counts, strict=True)):
            found.append((p_value, -n, test, group))
    p_value, _, test, group = max(found, key=lambda one: one[:2])
    return test, group, float(p_value)


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
        f" The declared bounds of '{test.limit.loss}' are ({test.low:g}, {test.high:g}), but its values lie in "
        f"({low:.3g}, {high:.3g}). If they can never leave a smaller range, declare that range as its bounds."
    )


_BEGIN_LATER = (
    " The declared order begins at settings whose limit covers too few examples. Begin at a value where it covers more of "
    "them, chosen without the losses: OrderedKnob(safest=..., start=value), or --start. Or let planning examples find the "
    'order: method="pareto-testing".'
)


def _message(found: dict[str, Any], mean: float, alpha: float) -> str:
    where = f" in group {found['group']!r}" if found["group"] is not None else ""
    start = f"The setting that came nearest missed '{found['limit']}'{where}"
    examples, perfect, same = found["examples"], found["examples_if_perfect"], found["examples_at_this_mean"]
    if examples == 0:
        least = f"; at least {perfect:,} are needed" if perfect is not None else ""
        advice = _BEGIN_LATER if found["begins_with_few"] else f" Add examples of that kind{least}."
        return f"{start}: no testing example speaks of it.{advice}"
    if found["measured"] is None:  # a ratio, or a weighted mean
        return (
            f"{start}: what it is divided by is 0 on all {examples:,} testing examples, so there is nothing to measure."
        )
    seen = (
        f"{start}: it measures {found['measured']:.4g} on {examples:,} testing example{'s' * (examples != 1)}, "
        f"with a p-value of {found['p_value']:.3g} where at most {found['tested_at']:.3g} was needed."
    )
    if perfect is not None and examples < perfect:
        advice = _BEGIN_LATER if found["begins_with_few"] else ""
        return f"{seen} Even a perfect setting needs at least {perfect:,} such testing examples.{advice}"
    if same is not None:
        factor = same / examples
        as_now = "about as many as now: as many new ones would give it an even chance"
        more = f"{_times(factor)} as many as now" if factor >= 1.05 else as_now
        return f"{seen} With this mean, about {same:,} such testing examples would pass, {more}."
    if mean >= alpha and found["conflict"]:
        return (
            f"{seen} The limits conflict: each is kept by some setting, all together by none. Loosen one of them, or offer "
            "settings that keep all; more examples will not help."
        )
    if mean >= alpha:
        advice = "loosen it or offer safer settings; more examples will not help."
        return f"{seen} What was measured is not within the limit: {advice}"
    return f"{seen} What was measured is too near to the limit for any feasible number of examples; loosen the limit."


def _times(factor: float) -> str:
    return f"{factor:,.0f} times" if factor >= 9.5 else f"{factor:.2g} times"


_EVEN = 0.5  # the power at the number of examples that is named


def near_misses(evidence: Evidence, decision: Decision) -> list[dict[str, Any]]:
    """The best setting in the free objectives of those that were tested and failed although they measure within the limits,
    if it would have been chosen. Empty where there is none."""
    failed = np.flatnonzero(~decision.certified & ~np.isnan(decision.levels) & ~decision.by_holm)
    if failed.size == 0 or decision.chosen.size == 0 or np.isnan(decision.p_values).any():
        return []
    within = failed[evidence.margin(decision.rows[failed]) < 0]
    if within.size == 0:
        return []
    chosen, values = evidence.objectives(decision.rows[decision.chosen]), evidence.objectives(decision.rows[within])
    better = [at for at in range(len(within)) if not (chosen <= values[at]).all(axis=1).any()]
    if not better:
        return []
    best = within[min(better, key=lambda at: tuple(values[at]))]
    return [_miss(evidence, decision, int(best))]


def _miss(evidence: Evidence, decision: Decision, at: int) -> dict[str, Any]:
    """The limit with the largest p-value at a setting that failed, and what would have let it pass."""
    row, level = decision.rows[at : at + 1], float(decision.levels[at])
    test = evidence.tests[int(np.argmax(decision.p_values[at]))]
    groups = test.groups(evidence.table)
    worst = int(np.argmax(test.p_values(evidence.table, row)[0])) if len(groups) > 1 else 0
    sums = test.sums(evidence.table, row)
    n, mean = int(np.broadcast_to(sums.n, sums.total.shape)[0, worst]), float(sums.means()[0, worst])
    needed = _examples_needed(test, evidence, row, worst, mean, level) if mean < test.alpha else None
    return {
        "setting": evidence.table.config(int(row[0])),
        "limit": str(test.limit),
        "group": groups[worst],
        "examples": n,
        "measured": float(test.measured(evidence.table, row)[0, worst]),
        "p_value": float(decision.p_values[at].max()),
        "tested_at": level,
        "examples_needed": None if needed is None else max(needed, n + 1),
        "objectives": {
            objective.name: float(-value if objective.maximize else value)
            for objective, value in zip(evidence.problem.objectives, evidence.objectives(row)[0], strict=True)
            if np.isfinite(value)
        },
    }


def _examples_needed(
    test: LimitTest, evidence: Evidence, row: IntArray, group: int, mean: float, level: float
) -> int | None:
    """With how many examples a setting such as this one passes in half of the cases."""
    if test.kind.needs == "count":  # its power is known exactly
        return examples_for(mean, test.alpha, level, _EVEN)
    if test.limit.proxy is not None:
        return examples_for(mean, test.alpha, level, _EVEN, spread_with_proxy(test, evidence.table, row, group))
    losses = None if test.kind.of_totals else test.losses_of(evidence.table, row, group)
    if losses is not None and test.kind.needs == "sequence":
        return examples_for(mean, test.alpha, level, _EVEN, float(np.std(losses)))
    # half of the samples have a sum below the expected one, and a test of sums passes all of those
    return test.kind.examples_like(mean, losses, test.alpha, level)
