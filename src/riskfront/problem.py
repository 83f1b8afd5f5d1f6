"""What the user wants: limits that must hold together, objectives to make as good as possible, and how sure to be."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from riskfront import p_values
from riskfront.columns import is_number, known
from riskfront.errors import InvalidInputError
from riskfront.sums import Term
from riskfront.table import LossTable

#: columns of results, which no loss may be called
_RESERVED = frozenset(
    [
        "p_value",
        "level",
        "certified",
        "chosen",
        "planned",
        "weight",
        "alpha",
        "n_certified",
        "n_tested",
        "n_chosen",
        "method",
        "trial",
        "violated",
        "any_violated",
    ]
)
_LIMIT = re.compile(
    r"^\s*(?:q(?P<quantile>0?\.\d+)\s*\(\s*(?P<inner>.+?)\s*\)|(?P<loss>.+?))\s*(?P<sign><=|>=|≤|≥)\s*(?P<value>[^\s%]+)"
    r"(?:\s*(?P<percent>%))?"
    r"(?:\s+per\s+(?P<per>.+?))?(?:\s+given\s+(?P<given>.+?))?\s*$"
)


@dataclass(frozen=True, slots=True)
class Limit:
    """A bound that a mean loss must keep.

    Args:
        loss: name of the loss.
        at_most: upper limit on its mean; or
        at_least: lower limit on its mean.
        per: name of a group; the limit must hold in every group that occurs in the table or is declared as a category of
            it (worst-class risk). A declared group without test examples cannot be certified.
        given: name of a 0/1 column or group; only examples where it is 1 count (selective risk).
        quantile: q in (0, 1): the q-quantile, not the mean, must be at most ``at_most``. Needs no bounds.
        p_value: one of ``riskfront.p_values.NAMES``; "auto" is binomial for 0/1 losses and betting for all others.
        padded: test a conditional limit in the paper's padded form (loss alpha for excluded examples, all n kept)
            instead of on the selected examples alone. Valid but far weaker; for comparison.
    """

    loss: str
    at_most: float | None = None
    at_least: float | None = None
    per: str | None = None
    given: str | None = None
    quantile: float | None = None
    p_value: str = "auto"
    padded: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.loss, str) or not self.loss:
            raise InvalidInputError(f"a limit must name a loss; got {self.loss!r}.")
        if (self.at_most is None) == (self.at_least is None):
            raise InvalidInputError(
                f"a limit on '{self.loss}' must have either at_most or at_least; got "
                f"at_most={self.at_most}, at_least={self.at_least}."
            )
        number = self.at_most if self.at_most is not None else self.at_least
        if not is_number(number):
            raise InvalidInputError(f"the limit on '{self.loss}' must be a finite number; got {number!r}.")
        object.__setattr__(self, "at_most" if self.at_most is not None else "at_least", self.value)
        known(self.p_value, p_values.NAMES, "p-value")
        if self.padded and self.per is None and self.given is None:
            raise InvalidInputError(
                f"padded=True needs a conditional limit (per or given); the limit on '{self.loss}' has none."
            )
        if self.quantile is not None:
            self._check_quantile(self.quantile)

    def _check_quantile(self, quantile: float) -> None:
        if not 0 < quantile < 1:
            raise InvalidInputError(f"quantile must lie in (0, 1); got {quantile}.")
        if self.at_most is None:
            raise InvalidInputError(f"a limit on a quantile of '{self.loss}' must use at_most.")
        if self.p_value not in ("auto", "binomial") or self.padded:
            raise InvalidInputError(
                f"a limit on a quantile is tested by counting, with p_value 'auto' or 'binomial' and padded=False; "
                f"got p_value='{self.p_value}', padded={self.padded}."
            )

    @classmethod
    def parse(cls, text: str, *, p_value: str = "auto") -> Limit:
        """A limit from a text such as "error <= 0.05", "recall >= 0.9", "error <= 0.15 per label",
        "error <= 0.02 given answered" or "q0.95(latency) <= 300"."""
        match = _LIMIT.match(text)
        try:
            if match is None:
                raise ValueError
            value = float(match["value"]) / (100 if match["percent"] else 1)
        except ValueError:
            raise InvalidInputError(
                f"a limit must read like 'error <= 0.05', 'recall >= 90 %', 'error <= 0.15 per label', "
                f"'error <= 0.02 given answered' or 'q0.95(latency) <= 300', with a decimal point; got {text!r}."
            ) from None
        upper = match["sign"] in ("<=", "≤")
        return cls(
            match["inner"] or match["loss"],
            at_most=value if upper else None,
            at_least=None if upper else value,
            per=match["per"],
            given=match["given"],
            quantile=float(match["quantile"]) if match["quantile"] else None,
            p_value=p_value,
        )

    @property
    def value(self) -> float:
        """The number that must not be crossed."""
        return float(self.at_most if self.at_most is not None else self.at_least)  # type: ignore[arg-type]

    @property
    def name(self) -> str:
        """What is averaged, in words: "error", "error per label", "error given answered", "share of latency above 300"."""
        return self._named(self.loss if self.quantile is None else f"share of {self.loss} above {self.value:.10g}")

    def _named(self, name: str) -> str:
        name += f" per {self.per}" if self.per else ""
        name += f" given {self.given}" if self.given else ""
        return name + (" (padded)" if self.padded else "")

    def __str__(self) -> str:
        sign = "<=" if self.at_least is None else ">="
        name = self.name if self.quantile is None else self._named(f"{self.quantile:g}-quantile of {self.loss}")
        return f"{name} {sign} {self.value:.10g}"

    @property
    def compared_with(self) -> float:
        """The number with which the mean compares: the limit itself, or for a quantile the share that may lie above it."""
        return self.value if self.quantile is None else round(1 - self.quantile, 12)

    def __repr__(self) -> str:
        return _short_repr(self)

    @property
    def term(self) -> Term:
        """What is averaged to test this limit."""
        return Term(self.loss, self.per, self.given, None if self.quantile is None else self.at_most)


@dataclass(frozen=True, slots=True)
class Objective:
    """A mean loss to make as good as possible: in the worst group of ``per``, over the examples where ``given`` is 1."""

    loss: str
    per: str | None = None
    given: str | None = None
    maximize: bool = False

    @property
    def name(self) -> str:
        name = self.loss + (f" per {self.per}" if self.per else "")
        return name + (f" given {self.given}" if self.given else "")

    def __repr__(self) -> str:
        return _short_repr(self)

    @property
    def term(self) -> Term:
        return Term(self.loss, self.per, self.given)


@dataclass(frozen=True, slots=True, init=False)
class Problem:
    """Limits that must all hold with probability at least 1 - delta, and objectives to minimise or maximise.

    Args:
        limits: one or several limits, or their texts ("error <= 0.05 per label").
        minimize: names of losses, or objectives, to make small.
        maximize: names of losses, or objectives, to make large.
        delta: the probability, over the draw of the calibration data, with which some limit may be broken.
    """

    limits: tuple[Limit, ...]
    objectives: tuple[Objective, ...]
    delta: float

    def __init__(
        self,
        limits: Limit | str | Sequence[Limit | str],
        minimize: str | Sequence[str | Objective] = (),
        maximize: str | Sequence[str | Objective] = (),
        delta: float = 0.1,
    ) -> None:
        listed = [limits] if isinstance(limits, Limit | str) or not isinstance(limits, Iterable) else list(limits)
        if not listed or not all(isinstance(limit, Limit | str) for limit in listed):
            raise InvalidInputError(
                f"a problem must have at least one Limit, or a text such as 'error <= 0.05'; got {limits!r}."
            )
        parsed = [Limit.parse(limit) if isinstance(limit, str) else limit for limit in listed]
        objectives = [*_objectives(minimize, maximize=False), *_objectives(maximize, maximize=True)]
        if not objectives:
            raise InvalidInputError(
                "a problem must name at least one free objective in minimize or maximize; got none."
            )
        if not is_number(delta) or not 0 < delta < 1:
            raise InvalidInputError(f"delta must lie in (0, 1); got {delta!r}.")
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

    @property
    def losses(self) -> list[str]:
        """Every column that the problem mentions as a loss."""
        return list(dict.fromkeys(term.loss for term in self.terms))

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
        """Everything that is averaged: one term for each limit and each objective."""
        return [*(limit.term for limit in self.limits), *(objective.term for objective in self.objectives)]

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
        return self._with(limits)

    def using(self, p_value: str) -> Problem:
        """The same problem with every limit (but those on quantiles) tested by another p-value."""
        return self._with([limit if limit.quantile else replace(limit, p_value=p_value) for limit in self.limits])

    def _with(self, limits: Sequence[Limit]) -> Problem:
        small = [objective for objective in self.objectives if not objective.maximize]
        large = [objective for objective in self.objectives if objective.maximize]
        return Problem(limits, small, large, self.delta)

    def check(self, table: LossTable) -> None:
        """Raise a clear error if the problem does not fit the table."""
        self.check_names(table.loss_names, table.group_names)

    def check_names(self, losses: Sequence[str], groups: Sequence[str]) -> None:
        """The same for data of which only the names of losses and groups are known."""
        for term in self.terms:
            known(term.loss, losses, "loss")
            if term.per is not None:
                known(term.per, groups, "group")
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
            data["delta"],
        )

    def __repr__(self) -> str:
        sides = ""
        for side in (False, True):
            named = [o if o.per or o.given else o.loss for o in self.objectives if o.maximize is side]
            sides += f", {'maximize' if side else 'minimize'}={named!r}" if named else ""
        return f"Problem({list(self.limits)!r}{sides}, delta={self.delta!r})"

    def _repr_html_(self) -> str:
        from riskfront import views

        rows = [[limit.name, "at most" if limit.at_least is None else "at least", limit.value] for limit in self.limits]
        goals = [["maximise" if o.maximize else "minimise", o.name] for o in self.objectives]
        return views.card(
            "Problem",
            {"confidence": f"{100 * (1 - self.delta):g} %", "delta": self.delta},
            views.table("Limits that hold together", ["what", "side", "limit"], rows),
            views.table("Free objectives", ["goal", "what"], goals),
        )

    def __str__(self) -> str:
        goals = [f"{'maximize' if o.maximize else 'minimize'} {o.name}" for o in self.objectives]
        return f"{', '.join(map(str, self.limits))} together with probability at least {1 - self.delta:g}; {', '.join(goals)}"


def _short_repr(record: Limit | Objective) -> str:
    """Python that makes it again, without the defaults."""
    named = [part for part in fields(record)[1:] if getattr(record, part.name) != part.default]
    inner = [repr(record.loss), *(f"{part.name}={getattr(record, part.name)!r}" for part in named)]
    return f"{type(record).__name__}({', '.join(inner)})"


def _objectives(names: str | Sequence[str | Objective], *, maximize: bool) -> list[Objective]:
    listed = [names] if isinstance(names, str | Objective) else list(names)
    return [
        replace(part, maximize=maximize) if isinstance(part, Objective) else Objective(part, maximize=maximize)
        for part in listed
    ]
