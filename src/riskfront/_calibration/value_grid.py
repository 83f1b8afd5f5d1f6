"""The values that limits may take on a frontier: which limits vary, and all combinations of their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

import numpy as np

from riskfront._problems.limits import Limit
from riskfront._problems.problem import Problem
from riskfront._support.values import is_number, known
from riskfront.errors import InvalidInputError

#: the most combinations of values on one frontier
MOST_COMBINATIONS = 5_000
_SAME = 1e-9  # values that differ by less, relative to the larger, are one


@dataclass(frozen=True, slots=True)
class VaryingLimit:
    """A limit whose number is chosen after looking: its place in the problem, its name and its values, loosest first."""

    index: int
    name: str
    values: tuple[float, ...]

    def place(self, value: float) -> int:
        """Where a value stands in the list; an error that names the nearest ones if it is not there."""
        if not is_number(value):
            raise InvalidInputError(f"the value of '{self.name}' must be a number; got {value!r}.")
        distance = np.abs(np.array(self.values) - value)
        place = int(np.argmin(distance))
        if distance[place] <= _SAME * max(abs(value), abs(self.values[place])):
            return place
        near = sorted(self.values[at] for at in np.argsort(distance)[:2])
        raise InvalidInputError(
            f"'{self.name}' must have one of the values of the frontier, from {min(self.values):.10g} to "
            f"{max(self.values):.10g}; got {value:.10g}. The nearest are {' and '.join(f'{v:.10g}' for v in near)}."
        )


@dataclass(frozen=True, slots=True)
class ValueGrid:
    """A problem with several values for some of its limits. The other limits keep their numbers everywhere."""

    problem: Problem
    varying: tuple[VaryingLimit, ...]

    @classmethod
    def of(cls, problem: Problem, alphas: Mapping[str, Sequence[float]]) -> ValueGrid:
        """From limit name -> values, in any order; an error if they do not fit the problem."""
        if not alphas:
            raise InvalidInputError("a frontier must name at least one limit with its values; got none.")
        names = problem.limit_names
        for name in alphas:
            known(name, names, "limit")
        grid = cls(
            problem, tuple(_varying(problem, place, alphas[name]) for place, name in enumerate(names) if name in alphas)
        )
        count = prod(len(one.values) for one in grid.varying)
        if count > MOST_COMBINATIONS:
            raise InvalidInputError(
                f"a frontier must have at most {MOST_COMBINATIONS:,} combinations of values; got {count:,}. Give fewer values."
            )
        return grid

    @property
    def values(self) -> dict[str, list[float]]:
        """Limit name -> values, loosest first."""
        return {one.name: list(one.values) for one in self.varying}

    @property
    def fixed(self) -> list[Limit]:
        """The limits that keep their numbers."""
        varying = {one.index for one in self.varying}
        return [limit for place, limit in enumerate(self.problem.limits) if place not in varying]

    def combinations(self) -> Iterator[tuple[int, ...]]:
        """Places of values, one for each limit that varies: the last changes fastest."""
        return product(*(range(len(one.values)) for one in self.varying))

    def at(self, places: Sequence[int]) -> Problem:
        """The problem with these values."""
        limits = list(self.problem.limits)
        for one, place in zip(self.varying, places, strict=True):
            limits[one.index] = with_value(limits[one.index], one.values[place])
        return self.problem.with_limits(limits)

    def alone(self, which: int, place: int) -> Problem:
        """One varying limit at one of its values, with the limits that do not vary. These need no share of delta: a setting
        counts only if it keeps them too."""
        one = self.varying[which]
        limit = with_value(self.problem.limits[one.index], one.values[place])
        return self.problem.with_limits([limit, *self.fixed])

    def places(self, wanted: Mapping[str, float]) -> tuple[int, ...]:
        """Where a choice, limit name -> value, stands. A limit with a single value need not be named."""
        names = [one.name for one in self.varying]
        for name in wanted:
            known(name, names, "limit of this frontier")
        missing = [one.name for one in self.varying if one.name not in wanted and len(one.values) > 1]
        if missing:
            raise InvalidInputError(
                f"a choice must give a value to every limit of the frontier; '{missing[0]}' has none. "
                f"For example: {{{', '.join(f'{one.name!r}: {one.values[0]:.10g}' for one in self.varying)}}}."
            )
        return tuple(one.place(wanted.get(one.name, one.values[0])) for one in self.varying)


def with_value(limit: Limit, value: float) -> Limit:
    """The same limit with another number."""
    upper = limit.at_least is None
    return replace(limit, at_most=value if upper else None, at_least=None if upper else value)


def _varying(problem: Problem, place: int, values: Sequence[float]) -> VaryingLimit:
    limit, name = problem.limits[place], problem.limit_names[place]
    if limit.quantile is not None:
        raise InvalidInputError(
            f"a frontier must vary limits on means; got '{limit}', on a quantile. Limit a 0/1 column instead, or calibrate."
        )
    listed: list[Any] = [values] if is_number(values) else list(values)
    if not listed or not all(is_number(value) for value in listed):
        raise InvalidInputError(f"the values of '{name}' must be finite numbers; got {values!r}.")
    different = sorted({float(value) for value in listed}, reverse=limit.at_least is None)
    return VaryingLimit(place, name, tuple(different))
