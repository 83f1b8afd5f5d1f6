"""What a classifier's outcomes cost: fixed prices, and amounts that differ from example to example."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from riskfront._problems.problem import Problem
from riskfront._support.arrays import Array, FloatArray
from riskfront._support.values import is_number
from riskfront.errors import InvalidInputError
from riskfront.estimators import _decision_thresholds as rule

AMOUNT = "amount"
#: the outcomes that an example can have together: (positive?, answered?, called positive?) as 0 and 1
_TOGETHER = (
    {"correct", "answered", "true_positive", "predicted_positive"},
    {"correct", "answered", "true_negative", "predicted_negative"},
    {"error", "answered", "false_positive", "predicted_positive"},
    {"error", "answered", "false_negative", "missed_positive", "predicted_negative"},
    {"abstained", "missed_positive"},
    {"abstained"},
)


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """Outcome -> what it costs, a number or "amount"; ``amounts`` (n,) where the examples have them."""

    costs: Mapping[str, float | str]
    largest: float | None
    amounts: FloatArray | None

    @classmethod
    def of(cls, costs: Any, largest: Any, problem: Problem, amounts: FloatArray | None) -> Prices | None:
        """Checked; None where nothing is priced."""
        if costs is None:
            if amounts is not None or largest is not None:
                raise InvalidInputError(
                    "amounts need costs, which say what outcomes cost: costs={'missed_positive': 'amount'}; got none."
                )
            return None
        known = (*rule.COMMON, *rule.TWO_CLASSES)
        good = isinstance(costs, Mapping) and costs
        if not good or not all(
            name in known and (price == AMOUNT or (is_number(price) and price >= 0)) for name, price in costs.items()
        ):
            raise InvalidInputError(
                "costs must say what outcomes cost, as {'false_positive': 5, 'missed_positive': 'amount'}, each a number of at "
                f"least 0 or 'amount'; outcomes are {', '.join(known)}; got {costs!r}."
            )
        made = cls(costs, None if largest is None else float(largest), amounts)
        made._check_amounts(problem)
        return made

    def _check_amounts(self, problem: Problem) -> None:
        if AMOUNT in self.costs.values() and self.amounts is None:
            raise InvalidInputError(
                "costs speak of amounts: fit(X, y, amounts=...) must have one for each example; got none."
            )
        if self.amounts is not None and self.largest is not None and self.amounts.max(initial=0) > self.largest:
            raise InvalidInputError(
                f"amounts must be at most largest_amount, {self.largest:g}; got {self.amounts.max():g}. Declare the largest "
                "that can ever come, or cap amounts and limit how often they are larger."
            )
        limited = {name for limit in problem.limits if limit.quantile is None for name in limit.term.losses}
        if (
            self.largest is None
            and self.amounts is not None
            and limited & self.names
            and (AMOUNT in limited or ("cost" in limited and AMOUNT in self.costs.values()))
        ):
            raise InvalidInputError(
                "a limit on a mean of amounts needs the largest that an amount can be: largest_amount=...; a larger one could "
                f"come that none of {len(self.amounts):,} examples showed. Without one, limit a quantile, as "
                "'q0.99(cost) <= 200', or a share of outcomes."
            )

    @property
    def names(self) -> set[str]:
        return {"cost"} if self.amounts is None else {"cost", AMOUNT}

    def columns(self, outcomes: Mapping[str, Array]) -> dict[str, FloatArray]:
        """``cost`` and ``amount``, in the shape of the outcomes: (settings, n) or (n,)."""
        shape = np.shape(next(iter(outcomes.values())))
        cost = np.zeros(shape)
        for name, price in self.costs.items():
            each: Any = self.amounts if price == AMOUNT else price
            cost += np.asarray(outcomes[name], dtype=np.float64) * each
        found: dict[str, FloatArray] = {"cost": cost}
        if self.amounts is not None:
            found[AMOUNT] = np.broadcast_to(self.amounts, shape)
        return found

    def bounds(self, two_classes: bool) -> dict[str, tuple[float, float]]:
        """The smallest and the largest cost that any example could have; of what nobody declared, nothing."""
        found: dict[str, tuple[float, float]] = {}
        if self.largest is not None or AMOUNT not in self.costs.values():
            together = _TOGETHER if two_classes else ({"correct", "answered"}, {"error", "answered"}, {"abstained"})
            largest = self.largest or 0.0
            prices = {name: largest if price == AMOUNT else float(price) for name, price in self.costs.items()}
            most = max(sum(price for name, price in prices.items() if name in some) for some in together)
            found["cost"] = (0.0, most)
        if self.largest is not None:
            found[AMOUNT] = (0.0, self.largest)
        return found
