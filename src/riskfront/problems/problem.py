"""What the user wants: limits that must hold together, objectives to make as good as possible, and how sure to be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from riskfront.errors import InvalidInputError
from riskfront.losses.sums import Term
from riskfront.losses.table import LossTable
from riskfront.losses.values import is_number, known
from riskfront.problems import proxies
from riskfront.problems.limits import Limit
from riskfront.problems.objectives import Objective
from riskfront.problems.targets import parsed_weights

__all__ = ["Limit", "Objective", "Problem"]

#: how the betting test may stake
STAKES = ("target", "fixed")

#: columns of results, which no loss may be called
_RESERVED = frozenset(
    [
        "p_value",
        "level",
        "tested_at",
        "arm",
        "certified",
        "picked",
        "chosen",
        "planned",
        "weight",
        "alpha",
        "n_certified",
        "n_picked",
        "n_tested",
        "n_chosen",
        "method",
        "trial",
        "violated",
        "any_violated",
        "held_out_above",
        "held_out_shown",
    ]
)


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
        stakes: how the betting test stakes: "target" re-aims after every loss at what is still missing to certify; "fixed" is
            tuned once, as in the first version of riskfront, for comparison and to verify certificates of that time.

    Examples:
        >>> problem = Problem(["error <= 0.05", "error <= 0.15 per label"], minimize="cost")
        >>> print(problem)
        error <= 0.05, error per label <= 0.15 together with probability at least 0.9; minimize cost
    """

    limits: tuple[Limit, ...]
    objectives: tuple[Objective, ...]
    delta: float
    stakes: str

    def __init__(
        self,
        limits: Limit | str | Sequence[Limit | str],
        minimize: str | Sequence[str | Objective] = (),
        maximize: str | Sequence[str | Objective] = (),
        *,
        delta: float = 0.1,
        reference: str | None = None,
        weights: str | None = None,
        stakes: str = "target",
    ) -> None:
        listed = [limits] if isinstance(limits, Limit | str) or not isinstance(limits, Iterable) else list(limits)
        if not listed or not all(isinstance(limit, Limit | str) for limit in listed):
            raise InvalidInputError(
                f"a problem must have at least one Limit, or a text such as 'error <= 0.05'; got {limits!r}."
            )
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
        known(stakes, STAKES, "way to stake")
        if stakes == "fixed" and any(limit.proxy is not None for limit in parsed):
            raise InvalidInputError("a limit with a proxy must be tested with stakes that have a target; got 'fixed'.")
        sides = [(limit.name, limit.at_least is None) for limit in parsed]
        if len(set(sides)) < len(sides):
            raise InvalidInputError(f"limits must speak of different things; got {', '.join(map(str, parsed))}.")
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
        object.__setattr__(self, "stakes", stakes)

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
        return Problem(limits, small, large, delta=self.delta, stakes=self.stakes)

    def check(self, table: LossTable) -> None:
        """Raise a clear error if the problem does not fit the table."""
        for loss in (loss for limit in self.limits for loss in limit.term.losses):
            if table.belongs_to_settings(loss):
                raise InvalidInputError(
                    f"a limit must be on a loss; '{loss}' is a column of the settings, which needs no test. "
                    "Keep only the settings you want, with where= or --where, or make it an objective."
                )
        for limit in self.limits:
            if limit.drop_from is not None:
                table.reference(limit.drop_from)
            if table.clusters is not None:
                _check_means(limit, table.clusters)
            proxies.check_batches(limit, table.loss_names)
        own = [o.loss for o in self.objectives if table.belongs_to_settings(o.loss)]
        self.check_names([*table.loss_names, *own], table.group_names)

    def check_names(self, losses: Sequence[str], groups: Sequence[str]) -> None:
        """The same for data of which only the names of losses and groups are known."""
        for term in self.terms:
            for loss in term.losses:
                known(loss, losses, "loss")
            for group in (term.per, term.weights):
                if group is not None:
                    known(group, groups, "group")
            if term.given is not None:
                known(term.given, [*losses, *groups], "condition")

    def to_dict(self) -> dict[str, Any]:
        return {
            "limits": [asdict(limit) for limit in self.limits],
            "objectives": [asdict(objective) for objective in self.objectives],
            "delta": self.delta,
            "stakes": self.stakes,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Problem:
        objectives = [Objective(**objective) for objective in data["objectives"]]
        return cls(
            [Limit(**limit) for limit in data["limits"]],
            [objective for objective in objectives if not objective.maximize],
            [objective for objective in objectives if objective.maximize],
            delta=data["delta"],
            stakes=data.get("stakes", "fixed"),  # problems that do not say it are older than the choice
        )

    def __repr__(self) -> str:
        sides = ""
        for side in (False, True):
            named = [o if o.per or o.given or o.weights else o.loss for o in self.objectives if o.maximize is side]
            sides += f", {'maximize' if side else 'minimize'}={named!r}" if named else ""
        stakes = "" if self.stakes == "target" else f", stakes={self.stakes!r}"
        return f"Problem({list(self.limits)!r}{sides}, delta={self.delta!r}{stakes})"

    def _repr_html_(self) -> str:
        from riskfront.runtime import notebook

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


def _objectives(names: str | Sequence[str | Objective], *, maximize: bool) -> list[Objective]:
    listed = [names] if isinstance(names, str | Objective) else list(names)
    return [
        replace(part, maximize=maximize) if isinstance(part, Objective) else Objective(part, maximize=maximize)
        for part in listed
    ]


def _check_means(limit: Limit, clusters: str) -> None:
    """A quantile of means, or a mean of the worst of them, is not that of the rows: averages hide the extremes."""
    if limit.quantile is not None:
        raise InvalidInputError(
            f"rows of one {clusters} are averaged, and a quantile of averages is not one of rows; got '{limit}'. Limit a 0/1 "
            f"column that says whether '{limit.loss}' is above {limit.value:.10g}, at most {limit.compared_with:.10g}; "
            f"or average the rows yourself, one row a {clusters}, if you mean the averages."
        )
    if limit.worst is not None:
        raise InvalidInputError(
            f"rows of one {clusters} are averaged, which hides the worst of them; got '{limit}'. Keep one row of each "
            f"{clusters}; or average the rows yourself, if you mean the averages."
        )
