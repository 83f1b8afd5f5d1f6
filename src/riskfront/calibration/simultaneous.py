"""One confidence for a whole frontier: limits that may be chosen after looking.

The statements are pairs (limit, setting): "this setting keeps this limit". With probability at least 1 - delta all pairs
that are certified are true, so that the limit may be picked by what came out.

Every limit has its plan, a sequence of settings, and an equal share of the level. In each sequence settings are tested one
after the other, and the first that fails stops it. Two facts make this cheap. A setting that keeps a tight limit keeps every
looser one: it needs no further test there, and a sequence that waits for it goes on. And a sequence that comes to its end
hands its share on to those that have not.

Why it holds. Let (1 - h) delta go to the sequences and h delta to the net. Sequences: as long as every certified pair is
true, so is what follows from it, and the shares of the sequences that have not ended add up to at most one. A first false
pair can then only be the next of some sequence, at its own share. Take the state in which all true pairs are certified: each
sequence waits at its first false pair, fixed beforehand, and by the union bound one of these passes with probability at most
(1 - h) delta. Certifying more never takes a share away, so no other state does worse (the sequential rejection principle of
Goeman and Solari, 2010). Net: every setting has h delta / m. A pair passes if the p-values of its limit and of all looser
ones in the list are at most that. If any false pair of a setting passes, then so does its loosest false pair, one hypothesis:
probability at most h delta / m, and at most h delta over all settings.

One sequence through the pairs of all limits, at the full level, is valid too, and was a little weaker: it ends for all limits
at the first failure of one (60 settings, 1,500 examples, 5 limits, mean cost .952 / .837 / .717 / .609 / .362 against .947 /
.835 / .713 / .606 / .355 for equal shares; each limit by itself: .939 / .825 / .703 / .585 / .343).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from riskfront.arrays import BoolArray, FloatArray, IntArray
from riskfront.calibration.decision import Decision, chosen_of
from riskfront.errors import InvalidInputError
from riskfront.evidence.evidence import Evidence
from riskfront.evidence.worst_cases import with_thresholds
from riskfront.losses.table import LossTable
from riskfront.methods import Method
from riskfront.problems.problem import Problem
from riskfront.statistics.procedures import Bonferroni

_AT_ONCE = 32  # settings of one limit whose p-values are computed together


@dataclass(frozen=True, slots=True, eq=False)
class Together:
    """What was certified for each limit, in the order in which they were given."""

    evidence: list[Evidence]
    nets: list[Evidence | None]
    decisions: list[Decision]


def decide_together(planner: Method, opt: LossTable, test: LossTable, problems: Sequence[Problem]) -> Together:
    """Test the plans of several limits so that all their statements hold together.

    Args:
        problems: the same problem with other numbers in its first limit.
    """
    loosest_first = _loosest_first(problems)
    ordered = [problems[place] for place in loosest_first]
    plans = [planner.plan(opt, problem) for problem in ordered]
    if not planner.guaranteed or not all(p.procedure.sequential or isinstance(p.procedure, Bonferroni) for p in plans):
        raise InvalidInputError(
            f"limits hold together for methods that test in a sequence, such as pareto-testing, and for bonferroni; got "
            f"'{planner.name}'."
        )
    evidence = [Evidence(with_thresholds(problem, opt), test) for problem in ordered]
    delta, m = problems[0].delta, test.n_configs
    certified, by_net = np.zeros((len(plans), m), dtype=bool), np.zeros((len(plans), m), dtype=bool)
    share = 1.0 if isinstance(plans[0].procedure, Bonferroni) else min(plan.net for plan in plans)
    everything: list[Evidence | None] = [None] * len(plans)
    if share > 0:
        everything = [Evidence(problem, opt.joined_with(test)) for problem in ordered]
        by_net = certified = _in_net([e for e in everything if e is not None], share * delta / m)
    on_path = np.full(len(plans), np.nan)
    if share < 1:
        level = (1 - share) * delta
        tests = [_Lazily(seen, plan.rows, level / len(plans)) for seen, plan in zip(evidence, plans, strict=True)]
        paths = [plan.rows for plan in plans]
        certified, on_path = walk(paths, lambda k, row: tests[k].p_value(row), level, certified)
    levels = np.where(by_net, share * delta / m, on_path[:, None])
    places = np.argsort(loosest_first)
    found = [_decision(evidence[k], everything[k], certified[k], by_net[k], levels[k]) for k in range(len(plans))]
    return Together([evidence[k] for k in places], [everything[k] for k in places], [found[k] for k in places])


def walk(
    paths: Sequence[IntArray],
    p_value: Callable[[int, int], float],
    level: float,
    held: BoolArray,
) -> tuple[BoolArray, FloatArray]:
    """Which pairs are certified, (limits, settings), limits from the loosest to the tightest; and the level of each limit.

    Args:
        paths: for each limit the settings in testing order, fixed before the testing examples were seen.
        p_value: of a limit and a setting.
        held: pairs that hold by another test, which has its own share of delta.
    """
    certified, places = held.copy(), [0] * len(paths)
    levels, open_ = np.full(len(paths), level / len(paths)), set(range(len(paths)))
    going = True
    while going:  # what one path certifies may let another go on
        going = False
        for limit in sorted(open_):
            path = paths[limit]
            while places[limit] < len(path):
                setting = int(path[places[limit]])
                # what keeps a tighter limit needs no test
                if not certified[limit:, setting].any() and p_value(limit, setting) > levels[limit]:
                    break
                certified[: limit + 1, setting] = True
                places[limit] += 1
                going = True
            if places[limit] == len(path):
                open_.discard(limit)
                for other in open_:
                    levels[other] += levels[limit] / len(open_)
                going = True
    return certified, levels


def _loosest_first(problems: Sequence[Problem]) -> IntArray:
    limits = [problem.limits[0] for problem in problems]
    if any(problem.limits[1:] != problems[0].limits[1:] for problem in problems):
        raise InvalidInputError("limits hold together along the first of them; the others must stay as they are.")
    values = np.array([limit.value if limit.at_least is None else -limit.value for limit in limits])
    return np.argsort(-values, kind="stable")


def _in_net(everything: Sequence[Evidence], level: float) -> BoolArray:
    """(limits, settings): all settings on all examples; what fails a loose limit is not asked about a tighter one."""
    m = everything[0].table.n_configs
    passed, alive = np.zeros((len(everything), m), dtype=bool), np.arange(m)
    for limit, evidence in enumerate(everything):
        found = evidence.p_values(alive, np.full(len(alive), level)).max(axis=1)
        alive = alive[found <= level]
        passed[limit, alive] = True
    return passed


class _Lazily:
    """The p-values of the settings of one plan, computed a few at a time, as the walk comes to them."""

    def __init__(self, evidence: Evidence, rows: IntArray, level: float) -> None:
        self._evidence, self._rows, self._level = evidence, rows, level
        self._place = {int(row): place for place, row in enumerate(rows)}
        self._known: dict[int, float] = {}

    def p_value(self, row: int) -> float:
        if row not in self._known:
            start = self._place[row]
            block = self._rows[start : start + _AT_ONCE]
            found = self._evidence.p_values(block, np.full(len(block), self._level)).max(axis=1)
            self._known |= dict(zip(block.tolist(), found.tolist(), strict=True))
        return self._known[row]


def _decision(
    evidence: Evidence, everything: Evidence | None, certified: BoolArray, by_net: BoolArray, levels: FloatArray
) -> Decision:
    """The settings that are certified for one limit, and the best of them."""
    rows = np.flatnonzero(certified)
    p_values = evidence.p_values(rows, levels[rows])
    net = by_net[rows]
    if everything is not None and net.any():
        p_values[net] = everything.p_values(rows[net], levels[rows[net]])
    chosen = chosen_of(evidence, everything, rows, net, p_values.max(axis=1) if len(rows) else np.empty(0))
    return Decision(rows, p_values, levels[rows], np.ones(len(rows), dtype=bool), chosen, net, levels[rows])
