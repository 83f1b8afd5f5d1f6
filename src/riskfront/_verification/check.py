"""check: does a certified setting still keep its limits on new data? A test with a confidence of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from riskfront._calibration.certificates.certificate import Certificate
from riskfront._calibration.certificates.known_examples import known_examples
from riskfront._calibration.monitoring.watched_limit import label
from riskfront._data import derived_losses
from riskfront._data.contents import content_digests, content_order, refuse_repeats, shuffled_copy
from riskfront._data.problem_fit import check_fit, limited_losses
from riskfront._data.reading.sources import Data, as_table
from riskfront._data.table import LossTable
from riskfront._problems.problem import Problem
from riskfront._support.arrays import FloatArray, IntArray
from riskfront._support.values import is_number, plain
from riskfront.errors import InvalidInputError
from riskfront.methods._evidence.limit_tests import Evidence, LimitTest
from riskfront.statistics import binomial

HOLDS, BROKEN, UNCLEAR = "holds", "broken", "unclear"
NOT_COVERED = "not covered"  # of a group that the certificate says nothing of


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Check:
    """What new data say of a certified setting.

    Attributes:
        says: "holds" (every limit is confirmed), "broken" (some limit is not kept) or "unclear" (too few examples to tell).
            If every limit is kept, "broken" is said with probability at most delta; if one is broken, "holds" is.
        config: the setting.
        limits: data frame, a row for each limit and group: examples, measured value, the p-values of "kept" and of "broken",
            and what they say. A certified group without a new example is "unclear"; a group that was not certified is "not
            covered", and nothing follows from it.
        n: new examples.
        delta: the confidence of this check is 1 - delta.
    """

    says: str
    config: dict[str, Any]
    limits: pd.DataFrame
    n: int
    delta: float

    def __repr__(self) -> str:
        return f"Check({self.says!r}: {self.verdict()})"

    def _repr_html_(self) -> str:
        from riskfront._support import notebook

        facts = {"new examples": self.n, "delta": self.delta, **self.config}
        return notebook.card(f"Check: {self.says}", facts, notebook.frame("Limits", self.limits), note=self.verdict())

    def verdict(self) -> str:
        """The result in a sentence, and another one where new groups are not those that were certified."""
        return " ".join([self._said(), *self._groups_said()])

    def _groups_said(self) -> list[str]:
        """Groups without a new example, and groups that the certificate does not cover."""
        absent = self.limits[(self.limits["n"] == 0) & (self.limits["says"] == UNCLEAR) & self.limits["group"].notna()]
        others = self.limits[self.limits["says"] == NOT_COVERED]
        return [
            *(f"No new example speaks of '{one['limit']}' in group {one['group']!r}." for one in _rows(absent)),
            *(f"'{one['limit']}' was not certified for group {one['group']!r}: left out." for one in _rows(others)),
        ]

    def _said(self) -> str:
        sure = f"With {100 * (1 - self.delta):.10g} % confidence"
        if self.says == HOLDS:
            return f"{sure}, the setting keeps every limit on data like these {self.n:,} new examples."
        if self.says == BROKEN:
            broken = self.limits[self.limits["says"] == BROKEN].iloc[0]
            where = f" in group {broken['group']!r}" if broken["group"] is not None else ""
            return f"{sure}, the limit '{broken['limit']}' is broken{where} on data like these {self.n:,} new examples."
        return (
            f"The {self.n:,} new examples do not tell whether every limit is kept: nothing says no, nothing proves it."
        )


def check(certificate: Certificate, data: Data, *, delta: float | None = None) -> Check:
    """Test the best setting of a certificate on new examples, in both directions.

    Args:
        certificate: whose setting is checked.
        data: outcomes of at least this setting (and of the references that its limits compare with) on new examples.
        delta: the probability with which the check may be wrong; that of the certificate without it.

    Examples:
        >>> import numpy as np
        >>> import riskfront as rf
        >>> def month(seed, risks):
        ...     error = np.random.default_rng(seed).random((2, 1000)) < np.array(risks)[:, None]
        ...     return rf.LossTable([{"model": "a"}, {"model": "b"}], {"error": error, "cost": [[2] * 1000, [1] * 1000]})
        >>> certificate = rf.calibrate(month(0, [0.02, 0.05]), rf.Problem("error <= 0.1", minimize="cost"))
        >>> rf.check(certificate, month(1, [0.02, 0.2])).says
        'broken'
    """
    level = certificate.problem.delta if delta is None else delta
    if not is_number(level) or not 0 < level < 1:
        raise InvalidInputError(f"delta must lie in (0, 1); got {delta!r}.")
    problem = _at(certificate, level)
    table = as_table(data, problem, clusters=certificate.clusters)
    if certificate.data_sha256 and table.has_fingerprint(certificate.data_sha256):
        raise InvalidInputError(
            "a check needs new examples; these are the very data the certificate was made of. To recompute it, use verify."
        )
    check_fit(problem, table)
    refuse_repeats(table, limited_losses(problem))
    row = _row_of(certificate.config, table)
    if known := known_examples(certificate, table, row):
        raise InvalidInputError(
            f"a check needs new examples; about {min(known, table.n_examples):,} of these {table.n_examples:,} are among those "
            "the certificate was made of, by what the setting lost on them. Leave them out; to recompute it, use verify."
        )
    references = [table.reference(limit.drop_from) for limit in problem.limits if limit.drop_from is not None]
    rows = np.array(list(dict.fromkeys([row, *references])), dtype=np.int64)
    # bets must not depend on the order in which examples came
    contents = content_digests(table, rows, table.loss_names, table.group_names)
    own = shuffled_copy(table, rows, content_order(contents))
    tests = Evidence(problem, own).tests
    covered = [_covered(test, own, certificate.groups) for test in tests]
    several = max(1, sum(int(np.sum(here)) for here, _ in covered))
    judged = [
        one
        for test, (here, absent) in zip(tests, covered, strict=True)
        for one in [*_judged(test, own, level, several, here), *_without_examples(test, absent)]
    ]
    # objects: in a column of texts, no group would become a group called nan
    found = pd.DataFrame(judged).assign(group=pd.Series([one["group"] for one in judged], dtype=object))
    kept = found["says"].isin([HOLDS, NOT_COVERED]).all() and (found["says"] == HOLDS).any()
    says = BROKEN if (found["says"] == BROKEN).any() else HOLDS if kept else UNCLEAR
    return Check(says, certificate.config, found, own.n_examples, level)


def _at(certificate: Certificate, delta: float) -> Problem:
    """The same problem with another delta, at which bets are tuned, and with the thresholds that were chosen then. New
    examples are judged by their labels alone."""
    problem, chosen = certificate.problem, certificate.thresholds
    limits = [replace(limit, threshold=chosen.get(str(limit), limit.threshold), proxy=None) for limit in problem.limits]
    small = [objective for objective in problem.objectives if not objective.maximize]
    large = [objective for objective in problem.objectives if objective.maximize]
    return Problem(limits, small, large, delta=delta)


def _covered(test: LimitTest, table: LossTable, certified: Mapping[str, Sequence[Any]]) -> tuple[list[bool], list[Any]]:
    """Which groups of the new examples, or pairs of groups, the certificate covers, and which it covers beside them."""
    groups, name = test.groups(table), test.limit.per or test.limit.gap_per
    if name is None or not certified.get(name):
        return [True] * len(groups), []
    levels = tuple(certified[name])
    known = derived_losses.pair_names(levels) if test.limit.gap_per is not None else levels
    names, found = {label(group) for group in known}, {label(group) for group in groups}
    return [label(group) in names for group in groups], [group for group in known if label(group) not in found]


def _without_examples(test: LimitTest, groups: Sequence[Any]) -> list[dict[str, Any]]:
    """Certified groups that have no new example: nothing is known of them."""
    nothing = {"n": 0, "measured": math.nan, "p_value kept": 1.0, "p_value broken": 1.0, "says": UNCLEAR}
    return [{"limit": str(test.limit), "group": group, **nothing} for group in groups]


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def _judged(
    test: LimitTest, table: LossTable, delta: float, several: int, covered: Sequence[bool]
) -> list[dict[str, Any]]:
    """Each group of a limit. "Broken" is said of any of them, so each has its share of delta; "holds" only of all together."""
    row = np.array([0])
    kept = test.p_values(table, row)[0]
    broken = _p_broken(test, table, row, delta / several)[0]
    sums = test.sums(table, row)
    n, measured = np.broadcast_to(sums.n, sums.total.shape)[0], test.measured(table, row)[0]
    groups = test.groups(table)
    says = np.where(broken <= delta / several, BROKEN, np.where(kept <= delta, HOLDS, UNCLEAR))
    says = np.where(covered, says, NOT_COVERED)
    return [
        {
            "limit": str(test.limit),
            "group": group,
            "n": int(n[index]),
            "measured": float(measured[index]),
            "p_value kept": float(kept[index]),
            "p_value broken": float(broken[index]),
            "says": str(says[index]),
        }
        for index, group in enumerate(groups)
    ]


def _p_broken(test: LimitTest, table: LossTable, row: IntArray, delta: float) -> FloatArray:
    """(1, groups): p-values of H: the limit is kept."""
    limit = test.limit
    sums = test.sums(table, row)
    if limit.drop_from is not None and table.reference(limit.drop_from) == int(row[0]):
        return np.ones(sums.total.shape)  # a reference never drops from itself
    if limit.quantile is not None:  # too many examples above the limit are too few at or below it
        return binomial(sums.n - sums.total, sums.n, limit.quantile)
    if limit.worst is not None:  # that one threshold fails proves nothing: another might do
        return np.ones(sums.total.shape)
    return replace(test.opposite, delta=delta).p_values(table, row)


def _row_of(config: dict[str, Any], table: LossTable) -> int:
    configs = table.configs
    names = [name for name in config if name in configs.columns]
    same = np.ones(len(configs), dtype=bool)
    for name in names:
        same &= np.array([plain(value) == config[name] for value in configs[name]], dtype=bool)
    if not names or same.sum() != 1:
        found = "is missing" if not names or not same.any() else "comes more than once"
        raise InvalidInputError(f"the new data must hold the certified setting once; {config} {found}.")
    return int(np.argmax(same))
