"""One limit on outcomes of the deployed setting: which of them count, and their losses on the scale from 0 to 1."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from riskfront._calibration.monitoring.outcome_files import NO_VALUE
from riskfront._calibration.monitoring.promise import Rules
from riskfront._problems.limits import Limit
from riskfront._support.arrays import BoolArray, FloatArray, IntArray
from riskfront._support.values import plain
from riskfront.errors import InvalidInputError
from riskfront.methods._evidence.ranges import tested_range

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """The outcomes of a batch that count for a limit.

    Attributes:
        rows: (n,), their places in the batch.
        losses: (n,) in [0, 1]; the worst is 1.
        measured: (2, n), numerators and denominators of the risk.
        audited: (n,), whether there should be a label. q: (n,), the probability of that.
        proxies: (n,) in [0, 1], nan where unknown; None where no proxy helps.
        groups: (n,), places among ``names``; None for a limit on all outcomes.
        missing: (n,), which counted as the worst.
        everywhere: (n,), which have no group and count in every group, as the worst that is possible: a loss within the limit
            may belong to another group, and a loss above it to this one.
        left_out: how many should have a label or a group, have none and do not count.
        due: how many there were before an audit chose some.
    """

    rows: IntArray
    losses: FloatArray
    measured: FloatArray
    audited: BoolArray
    q: FloatArray
    proxies: FloatArray | None
    groups: IntArray | None
    names: list[str]
    missing: BoolArray
    everywhere: BoolArray
    left_out: int
    due: int


class WatchedLimit:
    """A limit with the bounds of its losses and the rules for missing outcomes.

    A weighted limit speaks of outcomes as they come after deployment, so weights are left out here. A padded one is watched on
    the outcomes it speaks of.
    """

    def __init__(
        self, limit: Limit, bounds: Mapping[str, Sequence[float]], rules: Rules, groups: Collection[str] = ()
    ) -> None:
        _refuse(limit)
        self.limit, self.groups = limit, groups
        plain = replace(limit, weights=None, largest_weight=None, padded=False, proxy_weight=None)
        self._bounds = {name: (float(pair[0]), float(pair[1])) for name, pair in bounds.items()}
        self._rules = rules
        if limit.quantile is not None:
            self.low, self.high, at = 0.0, 1.0, limit.compared_with
        else:
            self.low, self.high, at = tested_range(plain, lambda name: self._bounds.get(name, (0.0, 1.0)))
        self._upper = limit.at_least is None
        self.alpha = ((at - self.low) if self._upper else (self.high - at)) / (self.high - self.low)
        rates = [rate for name in self.losses if (rate := self._rate(name)) is not None]
        # one number is one audit, which labels all losses of an outcome; columns with their own numbers have their own audits
        self.rate = float(np.prod(rates) if isinstance(rules.audit, Mapping) else min(rates)) if rates else 1.0
        self.by_proxy = limit.proxy is not None and bool(rates) and limit.drop_from is None

    @property
    def has_fixed_audit(self) -> bool:
        """Whether each outcome gets a label with one known probability."""
        return self._rules.audit_column is None and self.rate < 1 and self.limit.given is None

    @property
    def reference(self) -> str | None:
        """The column of what the reference loses on the same request, for a drop."""
        return None if self.limit.drop_from is None else f"{self.limit.loss} of {self.limit.drop_from}"

    @property
    def losses(self) -> list[str]:
        """The columns that make the loss."""
        names = [self.limit.loss, *(name for name, _ in self.limit.term.over), self.reference]
        return list(dict.fromkeys(name for name in names if name is not None))

    @property
    def columns(self) -> list[str]:
        """All columns that the limit needs."""
        rules = [self._rules.audit_column] if self._rules.audit_column is not None else []
        others = (self.limit.per, self.limit.given, self.limit.proxy if self.by_proxy else None)
        return [*self.losses, *(name for name in others if name is not None), *rules]

    def read(self, columns: Columns) -> Counted:
        """The outcomes that count; an error if one cannot be: nothing has been counted then."""
        values = {name: columns.numbers(name) for name in self.losses}
        for name, found in values.items():
            self._check(name, found)
        audited = self._audited(columns)
        given, unknown = self._condition(columns)
        missing = np.any([np.isnan(found) for found in values.values()], axis=0) | unknown
        here = given & (audited | self._shown_by_proxy(columns, audited, unknown))
        codes, names = (None, []) if self.limit.per is None else columns.labels(self.limit.per, self.groups)
        groupless = self._groupless(codes, names, columns.number)
        if self._rules.missing == "leave-out":
            left_out = here & audited & (missing | groupless)
            here &= ~left_out
        else:
            left_out = np.zeros(columns.number, dtype=bool)
        losses, measured = self._measure(values)
        losses = np.where(missing, 1.0, losses)
        measured = np.where(missing, self._worst()[:, None], measured)
        q = self._probabilities(columns)
        rows = np.flatnonzero(here)
        labelled = audited[rows]
        return Counted(
            rows,
            losses[rows],
            np.where(labelled, measured[:, rows] / (1.0 if q is None else q[rows]), 0.0),
            labelled,
            np.full(len(rows), self.rate) if q is None else q[rows],
            self._proxies(columns)[rows] if self.by_proxy else None,
            None if codes is None else codes[rows],
            names,
            missing[rows] & labelled,
            (groupless & (losses > self.alpha))[rows] & labelled,
            int(left_out.sum()),
            columns.number,
        )

    def _groupless(self, codes: IntArray | None, names: Sequence[str], n: int) -> BoolArray:
        """(n,): outcomes whose group nobody knows, unless a group of this name was certified."""
        if codes is None or NO_GROUP in self.groups:
            return np.zeros(n, dtype=bool)
        return np.asarray(codes == names.index(NO_GROUP))

    def _measure(self, values: Mapping[str, FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Losses on the scale from 0 to 1, and numerators and denominators; nan where anything is missing."""
        value, ones = values[self.limit.loss], np.ones(len(values[self.limit.loss]))
        if self.limit.quantile is not None:
            above = (value > float(self.limit.at_most or 0.0)).astype(np.float64)
            return above, np.stack([above, ones])
        measured = np.stack([value, ones])
        if self.reference is not None:
            value = values[self.reference] - value
            measured = np.stack([value, ones])
        if self.limit.over:
            below = sum((factor * values[name] for name, factor in self.limit.term.over), np.zeros(len(ones)))
            measured = np.stack([value, below])
            value = value - self.limit.value * below
        distance = value - self.low if self._upper else self.high - value
        return np.clip(distance / (self.high - self.low), 0.0, 1.0), measured

    def _worst(self) -> FloatArray:
        """(2,): numerator and denominator of a missing outcome."""
        if self.limit.quantile is not None:
            return np.array([1.0, 1.0])
        if not self.limit.over:
            return np.array([self.high if self._upper else self.low, 1.0])
        ends = self._bounds.get(self.limit.loss, (0.0, 1.0))
        worst = 0 if self._upper else 1
        below = [factor * self._bounds.get(name, (0.0, 1.0))[worst] for name, factor in self.limit.term.over]
        return np.array([ends[1 - worst], sum(below)])

    def _audited(self, columns: Columns) -> BoolArray:
        """Outcomes that should have a label: all of them, or those that a random audit chose."""
        chosen = np.ones(columns.number, dtype=bool)
        if self._rules.audit_column is not None:
            chosen = columns.numbers(self._rules.audit_column) > 0  # nan is not
        for name in self.losses:
            if self._rate(name) is not None and self._rules.audit_column is None:
                # a label that is no number, such as "timeout", was audited and is missing
                chosen &= columns.given(name)
        return chosen

    def _probabilities(self, columns: Columns) -> FloatArray | None:
        """(n,), where each outcome has its own probability of an audit."""
        if self._rules.audit_column is None:
            return None
        q = np.nan_to_num(columns.numbers(self._rules.audit_column))
        least = float(self._rules.least_audit or 0.0)
        wrong = np.flatnonzero((q > 0) & ((q < least - _ROUNDING) | (q > 1)))
        if len(wrong):
            raise InvalidInputError(
                f"'{self._rules.audit_column}' must hold 0 for outcomes that were not audited and else a probability between "
                f"least_audit = {least:g} and 1; row {wrong[0] + 1} of these outcomes has {q[wrong[0]]:g}."
            )
        return np.where(q > 0, q, 1.0)

    def _rate(self, name: str) -> float | None:
        return self._rules.rate_of(name, is_reference=name == self.reference)

    def _condition(self, columns: Columns) -> tuple[BoolArray, BoolArray]:
        """Whether each outcome meets the limit's condition, and whether that is unknown, which counts as the worst."""
        if self.limit.given is None:
            return np.ones(columns.number, dtype=bool), np.zeros(columns.number, dtype=bool)
        found = columns.numbers(self.limit.given)
        return (found != 0) | np.isnan(found), np.isnan(found)

    def _shown_by_proxy(self, columns: Columns, audited: BoolArray, unknown: BoolArray) -> BoolArray:
        """Outcomes without a label whose proxy helps; it may only help where group and condition are known without labels."""
        if not self.by_proxy:
            return np.zeros(columns.number, dtype=bool)
        if self.limit.per is not None:
            codes, names = columns.labels(self.limit.per, self.groups)
            unknown = unknown | (codes == names.index(NO_GROUP))
        if (unknown & ~audited).any():
            raise InvalidInputError(
                f"with a proxy, the group and the condition of '{self.limit}' must be known for outcomes without a "
                f"label too; row {np.flatnonzero(unknown & ~audited)[0] + 1} of these outcomes lacks one. Leave the proxy out."
            )
        return ~audited

    def _proxies(self, columns: Columns) -> FloatArray:
        name = str(self.limit.proxy)
        low, high = self._bounds.get(name, (0.0, 1.0))
        found = columns.numbers(name)
        self._check(name, found)
        return np.clip((found - low) / (high - low), 0.0, 1.0)

    def _check(self, name: str, found: FloatArray) -> None:
        """Raise an error if a loss lies outside of its bounds."""
        if self.limit.quantile is not None:
            return
        source = self.limit.loss if name == self.reference else name
        low, high = self._bounds.get(source, (0.0, 1.0))
        wrong = np.flatnonzero((found < low - _ROUNDING) | (found > high + _ROUNDING))
        if len(wrong):
            raise InvalidInputError(
                f"'{name}' must lie within the bounds that were certified, [{low:g}, {high:g}]; row {wrong[0] + 1} of these "
                f"outcomes has {found[wrong[0]]:g}. None of them was counted. Correct it, or clip what lies outside."
            )


def part_of(counted: Counted, places: IntArray) -> Counted:
    """Some of the outcomes, as those of one group."""
    by_outcome = ("rows", "losses", "audited", "q", "missing", "everywhere")
    part = {name: getattr(counted, name)[places] for name in by_outcome}
    proxies = None if counted.proxies is None else counted.proxies[places]
    return replace(counted, **part, measured=counted.measured[:, places], proxies=proxies, groups=None)


def by_group(counted: Counted, certified: Collection[str] = ()) -> dict[str | None, Counted]:
    """Group -> its outcomes in their order; all of them under None where the limit is on all.

    What counts everywhere is among the outcomes of every certified group.
    """
    if counted.groups is None:
        return {None: counted}
    order = np.argsort(counted.groups, kind="stable")
    ends = np.searchsorted(counted.groups[order], np.arange(len(counted.names) + 1))
    places = {name: order[ends[i] : ends[i + 1]] for i, name in enumerate(counted.names)}
    everywhere = np.flatnonzero(counted.everywhere)
    if len(everywhere):
        none = np.zeros(0, dtype=np.int64)
        places |= {name: np.union1d(places.get(name, none), everywhere) for name in certified}
    return {name: part_of(counted, here) for name, here in places.items() if len(here)}


def _refuse(limit: Limit) -> None:
    if limit.worst is not None:
        raise InvalidInputError(
            f"'{limit}' cannot be watched: it was certified by testing a stricter condition, and outcomes that break this "
            "condition may still keep the limit. Watch a quantile instead, or compare batches with check."
        )
    if limit.gap_per is not None:
        raise InvalidInputError(
            f"'{limit}' cannot be watched: it compares groups in pairs, which outcomes that come one by one do not form. "
            "Watch a limit per group instead, or compare batches with check."
        )


def _certified_name(value: Any, certified: Collection[str]) -> str:
    """The name of a group, as it was certified where it can be read so."""
    name = label(value)
    if name in certified or name == NO_GROUP:
        return name
    number = _number(value) if isinstance(value, str) and name.lower() not in _TRUTH else np.nan
    others = (
        [label(number)] if np.isfinite(number) else [name.lower(), name.capitalize()] if name.lower() in _TRUTH else []
    )
    return next((other for other in others if other in certified), name)


NO_GROUP = "(missing)"
_TRUTH = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}


class Columns:
    """Equally long columns by name, of a mapping or a data frame."""

    def __init__(self, given: Any) -> None:
        if not hasattr(given, "keys") or not hasattr(given, "__getitem__"):
            raise InvalidInputError(
                "outcomes must be columns by name, such as {'error': [0, 1, 0]}, or a data frame; got "
                f"{type(given).__name__}."
            )
        self._columns: Mapping[str, Any] = {str(name): given[name] for name in given.keys()}  # noqa: SIM118
        lengths = {name: np.size(values) for name, values in self._columns.items()}
        if len(set(lengths.values())) > 1:
            raise InvalidInputError(f"columns of outcomes must be equally long; got {lengths}.")
        self.number = next(iter(lengths.values()), 0)

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    @property
    def names(self) -> list[str]:
        return list(self._columns)

    def numbers(self, name: str) -> FloatArray:
        """(n,): nan where there is no number."""
        values = self._columns[name]
        if isinstance(values, np.ma.MaskedArray):
            return np.ma.filled(values.astype(np.float64), np.nan).reshape(-1)
        found = np.asarray(values).reshape(-1)
        if found.dtype.kind in "bifu":
            return found.astype(np.float64)
        return np.array([_number(value) for value in found], dtype=np.float64)

    def given(self, name: str) -> BoolArray:
        """(n,): whether there is anything, a number or not."""
        values = self._columns[name]
        if isinstance(values, np.ma.MaskedArray) or np.asarray(values).dtype.kind in "bifu":
            return ~np.isnan(self.numbers(name))
        found = np.asarray(values).reshape(-1)
        return np.array(
            [value is not pd.NA and label(value).strip() not in (NO_GROUP, *NO_VALUE) for value in found], dtype=bool
        )

    def labels(self, name: str, certified: Collection[str] = ()) -> tuple[IntArray, list[str]]:
        """The place of each value among the names of groups, (n,), and the names: the same for 1, 1.0, "1" and numpy's 1.

        A file may write the name of a group in another way than the one that was certified: "01" is group 1 unless there is a
        group "01".
        """
        codes, values = pd.factorize(np.asarray(self._columns[name]).reshape(-1))
        places: dict[str, int] = {}
        named = [places.setdefault(_certified_name(value, certified), len(places)) for value in values]
        none = places.setdefault(NO_GROUP, len(places))  # code -1: no value
        return np.array([*named, none], dtype=np.int64)[codes], list(places)

    def texts(self, name: str) -> list[str]:
        return [str(plain(value)) for value in np.asarray(self._columns[name]).reshape(-1)]


def label(value: Any) -> str:
    """The name of a group."""
    value = plain(value)
    if value is None or value != value or value == "":  # nan is not itself
        return NO_GROUP
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _number(value: Any) -> float:
    """nan for what is none: an outcome that cannot be read is missing."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return _TRUTH.get(str(value).strip().lower(), np.nan)
