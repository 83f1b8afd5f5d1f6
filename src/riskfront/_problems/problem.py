"""What the user wants: limits that must hold together, objectives to make as good as possible, and how sure to be."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from riskfront._problems.limits import Limit, split_limits
from riskfront._problems.objectives import Objective
from riskfront._problems.targets import parsed_weights
from riskfront._problems.terms import Term
from riskfront._support.values import is_number, known
from riskfront.errors import InvalidInputError

#: columns of results, which no loss may be called
_RESERVED = {"p_value", "level", "tested_at", "tested_by", "certified", "picked", "chosen", "planned"}
_RESERVED |= {"weight", "alpha", "n_certified", "n_picked", "n_tested", "n_chosen", "method", "trial"}
_RESERVED |= {"violated", "any_violated", "held_out_above", "held_out_shown"}


@dataclass(frozen=True, slots=True, init=False)
class Problem:
    """Limits that must all hold with probability at least 1 - delta, and objectives to minimise or maximise.

    Args:
        limits: one or several limits, or their texts ("error <= 0.05 per label").
        minimize: names of losses, or objectives, to make small.
        maximize: names of losses, or objectives, to make large.
        delta: the probability, over the draw of the calibration data, with which some limit may be broken.
        reference: the setting that texts such as "score drop <= 0.02" compare with.
        weights: a group with the known weight of each example and the largest that a weight can be, as "w <= 10": every limit
            and every objective is then weighted (see ``Limit.weights``).

    Examples:
        >>> problem = Problem(["error <= 0.05", "error <= 0.15 per label"], minimize="cost")
        >>> print(problem)
        error <= 0.05, error per label <= 0.15 together with probability at least 0.9; minimize cost
    """

    limits: tuple[Limit, ...]
    objectives: tuple[Objective, ...]
    delta: float

    def __init__(
        self,
        limits: Limit | str | Sequence[Limit | str],
        minimize: str | Sequence[str | Objective] = (),
        maximize: str | Sequence[str | Objective] = (),
        *,
        delta: float = 0.1,
        reference: str | None = None,
        weights: str | None = None,
    ) -> None:
        listed = [limits] if isinstance(limits, Limit | str) or not isinstance(limits, Iterable) else list(limits)
        if not listed or not all(isinstance(limit, Limit | str) for limit in listed):
            raise InvalidInputError(
                f"a problem must have at least one Limit, or a text such as 'error <= 0.05'; got {limits!r}."
            )
        listed = [part for limit in listed for part in (split_limits(limit) if isinstance(limit, str) else [limit])]
        parsed = [Limit.parse(limit, reference=reference) if isinstance(limit, str) else limit for limit in listed]
        objectives = [*_objectives(minimize, maximize=False), *_objectives(maximize, maximize=True)]
        if weights is not None:
            name, largest = parsed_weights(weights)
            parsed = [replace(limit, weights=name, largest_weight=largest) for limit in parsed]
            objectives = [replace(objective, weights=name) for objective in objectives]
        if not objectives:
            raise InvalidInputError(
                "a problem must name at least one free objective in minimize or maximize; got none."
            )
        if not is_number(delta) or not 0 < delta < 1:
            raise InvalidInputError(f"delta must lie in (0, 1); got {delta!r}.")
        sides = [(limit.name, limit.at_least is None) for limit in parsed]
        if len(set(sides)) < len(sides):
            raise InvalidInputError(f"limits must speak of different things; got {', '.join(map(str, parsed))}.")
        _check_sides(parsed)
        if delta > 0.5:
            warnings.warn(
                f"delta is the probability with which a limit may be broken; got {delta:g}. For {100 * delta:g} % confidence "
                f"give delta={1 - delta:.10g}.",
                UserWarning,
                stacklevel=2,
            )
        names = [objective.name for objective in objectives]
        if len(set(names)) < len(names):
            raise InvalidInputError(f"objectives must differ from each other; got {', '.join(names)}.")
        for part in [limit.name for limit in parsed] + names:
            if part in _RESERVED:
                raise InvalidInputError(
                    f"a loss must not be called '{part}': results have a column of that name. Rename it."
                )
        object.__setattr__(self, "limits", tuple(parsed))
        object.__setattr__(self, "objectives", tuple(objectives))
        object.__setattr__(self, "delta", float(delta))

    @property
    def losses(self) -> list[str]:
        """Every column that the problem mentions as a loss."""
        return list(dict.fromkeys(loss for term in self.terms for loss in term.losses))

    @property
    def limit_names(self) -> list[str]:
        """A different name for each limit: the column of its risk in data frames."""
        names = [limit.name for limit in self.limits]
        return [
            f"{name} ({'at most' if limit.at_least is None else 'at least'})" if names.count(name) > 1 else name
            for name, limit in zip(names, self.limits, strict=True)
        ]

    @property
    def terms(self) -> list[Term]:
        """Everything that is averaged: one term for each limit and each objective, and for each proxy."""
        proxies = [Term(limit.proxy, limit.per, limit.given) for limit in self.limits if limit.proxy is not None]
        return [*(limit.term for limit in self.limits), *(objective.term for objective in self.objectives), *proxies]

    def at(self, alpha: float | Sequence[float]) -> Problem:
        """The same problem with another number in its first limit, or with one number for each limit."""
        values = list(alpha) if isinstance(alpha, Sequence) else [alpha]
        if len(values) > len(self.limits):
            raise InvalidInputError(
                f"there must be at most one alpha for each of {len(self.limits)} limits; got {values}."
            )
        limits = list(self.limits)
        for index, value in enumerate(values):
            upper = limits[index].at_least is None
            limits[index] = replace(limits[index], at_most=value if upper else None, at_least=None if upper else value)
        return self.with_limits(limits)

    def using(self, p_value: str) -> Problem:
        """The same problem with every limit (but those on quantiles, on gaps and with proxies) tested by another p-value."""
        own = [bool(limit.quantile or limit.gap_per or limit.proxy) for limit in self.limits]
        return self.with_limits(
            [limit if keep else replace(limit, p_value=p_value) for limit, keep in zip(self.limits, own, strict=True)]
        )

    def with_limits(self, limits: Sequence[Limit]) -> Problem:
        """The same objectives under other limits."""
        small = [objective for objective in self.objectives if not objective.maximize]
        large = [objective for objective in self.objectives if objective.maximize]
        return Problem(limits, small, large, delta=self.delta)

    def check_names(self, losses: Sequence[str], groups: Sequence[str]) -> None:
        """Raise a clear error where the problem names a loss or a group that the data do not have."""
        for term in self.terms:
            for loss in term.losses:
                known(loss, losses, "loss")
            for group in (term.per, term.weights):
                if group is not None and not groups:
                    raise InvalidInputError(
                        f"there is no group '{group}'; known: none. Give the {group} of each example: "
                        f"groups={{'{group}': values}}, or of a file the column, --group-columns {group}."
                    )
                if group is not None:
                    known(group, groups, "group")
            if term.given is not None:
                known(term.given, [*losses, *groups], "condition")

    def to_dict(self) -> dict[str, Any]:
        return {
            "limits": [asdict(limit) for limit in self.limits],
            "objectives": [asdict(objective) for objective in self.objectives],
            "delta": self.delta,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Problem:
        objectives = [Objective(**objective) for objective in data["objectives"]]
        return cls(
            [Limit(**limit) for limit in data["limits"]],
            [objective for objective in objectives if not objective.maximize],
            [objective for objective in objectives if objective.maximize],
            delta=data["delta"],
        )

    def __repr__(self) -> str:
        sides = ""
        for side in (False, True):
            named = [
                o if o.per or o.given or o.weights or o.said else o.loss for o in self.objectives if o.maximize is side
            ]
            sides += f", {'maximize' if side else 'minimize'}={named!r}" if named else ""
        return f"Problem({list(self.limits)!r}{sides}, delta={self.delta!r})"

    def _repr_html_(self) -> str:
        from riskfront._support import notebook

        rows = [[limit.name, "at most" if limit.at_least is None else "at least", limit.value] for limit in self.limits]
        goals = [["maximise" if o.maximize else "minimise", o.name] for o in self.objectives]
        return notebook.card(
            "Problem",
            {"confidence": f"{100 * (1 - self.delta):g} %", "delta": self.delta},
            notebook.table("Limits that hold together", ["what", "side", "limit"], rows),
            notebook.table("Free objectives", ["goal", "what"], goals),
        )

    def __str__(self) -> str:
        goals = [f"{'maximize' if o.maximize else 'minimize'} {o.name}" for o in self.objectives]
        return f"{', '.join(map(str, self.limits))} together with probability at least {1 - self.delta:g}; {', '.join(goals)}"


def check_problem(problem: object) -> None:
    """Raise an error that says how to make a problem, where something else was given."""
    if not isinstance(problem, Problem):
        raise InvalidInputError(
            f"problem must be a Problem, as Problem('error <= 0.05', minimize='cost'); got {type(problem).__name__} "
            f"{problem!r}."
        )


def _check_sides(limits: Sequence[Limit]) -> None:
    """Raise an error where one limit must stay below what another must reach."""
    most = {limit.name: limit for limit in limits if limit.at_least is None}
    for limit in limits:
        other = most.get(limit.name)
        if limit.at_least is not None and other is not None and limit.value > other.value:
            raise InvalidInputError(f"limits must not contradict each other; got '{limit}' and '{other}'.")


def _objectives(names: str | Sequence[str | Objective], *, maximize: bool) -> list[Objective]:
    listed = [names] if isinstance(names, str | Objective) or not isinstance(names, Iterable) else list(names)
    for part in listed:
        if not isinstance(part, str | Objective):
            raise InvalidInputError(f"minimize and maximize must name losses, as 'cost'; got {part!r}.")
    return [
        replace(part, maximize=maximize) if isinstance(part, Objective) else Objective(part, maximize=maximize)
        for part in listed
    ]
