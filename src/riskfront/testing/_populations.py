"""Finite populations with exactly known risks, for drawing calibration examples with replacement.

Every population is a 4 x 6 grid of settings in C order. The safest corner is the origin; settings fewer than three steps away
from it hold the limit with room to spare; all the others are null, their population mean a hair above the limit (one
count, or one part in a million). Cost falls with each step, so whoever certifies a null setting also ships it.
With ``safe=False`` every setting is null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from riskfront._data.table import LossTable
from riskfront._problems.limits import Limit
from riskfront._problems.problem import Problem
from riskfront._support.arrays import Array
from riskfront.errors import InvalidInputError
from riskfront.experiment import run

SHAPE, N = (4, 6), 6000
STEPS = np.indices(SHAPE).reshape(2, -1).sum(axis=0)
CORNER = {"a": "low", "b": "low"}
HAIR = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """A table that is the whole truth, a problem, how many examples to draw, and which p-values apply to its limits."""

    table: LossTable
    problem: Problem
    calibration: int
    p_values: tuple[str, ...]

    def with_settings(self, configs: Sequence[Mapping[str, Any]]) -> Population:
        """The same losses under other settings, which are given from the safest to the riskiest."""
        if len(configs) != STEPS.size:
            raise InvalidInputError(f"configs must be {STEPS.size} settings, from the safest on; got {len(configs)}.")
        place = np.argsort(np.argsort(STEPS, kind="stable"))
        named = {name: self.table.losses(name) for name in self.table.loss_names}
        levels = {name: self.table.group(name) for name in self.table.group_names}
        groups = {name: np.asarray(group.levels)[group.codes] for name, group in levels.items()}
        bounds = self.table.declared_bounds
        return replace(self, table=LossTable([configs[i] for i in place], named, groups, bounds))

    def trials(self, methods: Sequence[Any], p_value: str, trials: int | range, seed: int) -> pd.DataFrame:
        """What each method does on many samples from the population, judged by the whole of it."""
        return run(
            self.table,
            self.problem,
            methods=methods,
            p_values=[p_value],
            trials=trials,
            calibration=self.calibration,
            seed=seed,
        )


def grid_configs(shape: tuple[int, ...]) -> list[dict[str, int]]:
    """Settings of a full grid in C order; axes a, b, c, ..."""
    names = "abcdefgh"
    cells = np.indices(shape).reshape(len(shape), -1).T
    return [{names[axis]: int(value) for axis, value in enumerate(cell)} for cell in cells]


def risks(alpha: float, safe: bool = True) -> Array:
    """(settings,): alpha / 50 to alpha / 5 in the safe corner, a hair above alpha elsewhere."""
    inside = alpha * (0.02 + 0.06 * STEPS)
    return np.where((STEPS < 3) & safe, inside, alpha * (1 + HAIR))


def counted(risk: Array, order: Array) -> Array:
    """0/1 losses: setting j fails on the first ceil(risk_j n) examples of its row of ``order``, (settings, n)."""
    ranks = np.argsort(order, axis=1)
    return ranks < np.ceil(risk[:, None] * order.shape[1] - 1e-9)


def orders(kind: str, n: int = N, seed: int = 0) -> Array:
    """(settings, n): independent, equal, or mirrored (every other setting fails where its neighbours are surest)."""
    rng = np.random.default_rng([seed, 5])
    size = STEPS.size
    if kind == "independent":
        return np.stack([rng.permutation(n) for _ in range(size)])
    one = rng.permutation(n)
    return np.stack([one if kind == "equal" or j % 2 else one[::-1] for j in range(size)])


def with_mean(values: Array, risk: Array) -> Array:
    """The same values, (settings, n), rescaled to have exactly these means."""
    return values * (risk / values.mean(axis=1))[:, None]


def assemble(losses: dict[str, Array], **more: Any) -> LossTable:
    n = next(iter(losses.values())).shape[1]
    cost = np.repeat((1 - 0.1 * STEPS)[:, None], n, axis=1) + np.linspace(0, 0.05, STEPS.size)[:, None]
    return LossTable(grid_configs(SHAPE), {**losses, "cost": cost}, **more)


def problem(*limits: Limit, free: tuple[str, ...] = ("cost",)) -> Problem:
    return Problem(limits, list(free), delta=0.1)


def binary(kind: str, *p_values: str, safe: bool = True, alpha: float = 0.1, calibration: int = 400) -> Population:
    table = assemble({"loss": counted(risks(alpha, safe), orders(kind))})
    return Population(table, problem(Limit("loss", at_most=alpha)), calibration, p_values)


def rare_class(alpha: float = 0.2) -> Population:
    """Three classes; only the rarest, 6 % of the examples, reaches the limit."""
    label = np.repeat([0, 1, 2], [int(0.74 * N), int(0.2 * N), N - int(0.74 * N) - int(0.2 * N)])
    class_risks = [risks(alpha) / 4, risks(alpha) / 4, risks(alpha)]
    parts = [counted(risk, orders("independent", int((label == y).sum()), y)) for y, risk in enumerate(class_risks)]
    table = assemble({"loss": np.concatenate(parts, axis=1)}, groups={"label": label})
    limit = Limit("loss", at_most=alpha, per="label")
    return Population(table, problem(limit), 700, ("binomial", "betting"))


def selective(alpha: float = 0.15, per: bool = False) -> Population:
    """Settings answer 90 % down to 20 %, the surest first; unanswered examples fail far more often."""
    rng = np.random.default_rng(8)
    confidence, rates = rng.permutation(N), np.linspace(0.9, 0.2, STEPS.size)
    answered = confidence < np.floor(rates[:, None] * N)
    label = np.arange(N) % 2
    loss = np.zeros(answered.shape, dtype=bool)
    for j, risk in enumerate(risks(alpha)):
        for group in ((label == 0), (label == 1)):
            inside, outside = np.flatnonzero(answered[j] & group), np.flatnonzero(~answered[j] & group)
            loss[j, rng.permutation(inside)[: int(np.ceil(risk * inside.size - 1e-9))]] = True
            loss[j, outside[: int(0.6 * outside.size)]] = True
    table = assemble({"loss": loss, "answered": answered}, groups={"label": label})
    limit = Limit("loss", at_most=alpha, given="answered", per="label" if per else None)
    return Population(table, problem(limit), 600, ("binomial",) if per else ("binomial", "betting"))


def continuous(kind: str, alpha: float = 0.1) -> Population:
    """Beta losses, nearly constant losses, and mostly-constant losses with a rare 1 that makes up the mean."""
    rng = np.random.default_rng(9)
    risk, shape = risks(alpha), (STEPS.size, N)
    if kind == "beta":
        values = np.minimum(rng.beta(0.3, 2.7, shape), 0.6)
    elif kind == "nearly constant":
        values = 1 + 0.02 * (2 * rng.random(shape) - 1)
    else:  # two-point: as 1s cannot be scaled, the constant takes what they leave
        ones = counted(0.05 * risk, orders("independent", N, 4))
        rest = (risk - ones.mean(axis=1)) / (1 - ones.mean(axis=1))
        return _bounded(np.where(ones, 1.0, rest[:, None] * (1 + HAIR)), alpha)
    return _bounded(with_mean(values, risk * (1 + HAIR)), alpha)


def _bounded(values: Array, alpha: float) -> Population:
    return Population(
        assemble({"loss": values}), problem(Limit("loss", at_most=alpha)), 400, ("betting", "hoeffding-bentkus")
    )


def signed(alpha: float = 0.2, flips: float = 0.3) -> Population:
    """The drop in {-1, 0, 1}: 30 % of the examples turn correct, 30 % and the risk turn wrong."""
    ranks = np.argsort(orders("independent", N, 6), axis=1)
    wrong = np.ceil((flips + risks(alpha))[:, None] * N - 1e-9)
    drop = (ranks < wrong).astype(np.int8) - (ranks >= N - int(flips * N)).astype(np.int8)
    table = assemble({"loss": drop}, bounds={"loss": (-1, 1)})
    return Population(table, problem(Limit("loss", at_most=alpha)), 600, ("betting", "hoeffding-bentkus"))


def several(free: tuple[str, ...] = ("cost",)) -> Population:
    """Three limits, each broken by other settings: a count, a share that must be high, and a continuous loss."""
    turn = np.arange(STEPS.size) % 3
    safe = risks(0.1)
    base = np.where(STEPS < 3, safe, 0.02)
    error = np.where((turn == 0) & (STEPS >= 3), 0.1 * (1 + HAIR), base)
    missed = np.where((turn == 1) & (STEPS >= 3), 0.2 * (1 + HAIR), base)
    regret = np.where((turn == 2) & (STEPS >= 3), 0.15 * (1 + HAIR), base)
    losses = {
        "error": counted(error, orders("independent", N, 1)),
        "recall": ~counted(missed, orders("independent", N, 2)),
        "regret": with_mean(
            np.minimum(np.random.default_rng(3).beta(0.5, 4.5, (STEPS.size, N)), 0.6), regret * (1 + HAIR)
        ),
        "other": np.repeat((0.2 + 0.1 * (STEPS % 4))[:, None], N, axis=1),
    }
    limits = (
        Limit("error", at_most=0.1),
        Limit("recall", at_least=0.8),
        Limit("regret", at_most=0.15, p_value="betting"),
    )
    return Population(assemble(losses), problem(*limits, free=free), 500, ("as given",))


def quantile(alpha: float = 0.1) -> Population:
    """The .9-quantile of a time without bounds: nulls exceed 1 on a hair more than a tenth of the examples."""
    late = counted(risks(alpha), orders("independent", N, 7))
    times = np.where(late, 3.0, 0.5) + 0.4 * np.random.default_rng(7).random(late.shape)
    return Population(assemble({"time": times}), problem(Limit("time", at_most=1.0, quantile=0.9)), 400, ("as given",))


POPULATIONS: dict[str, Callable[[], Population]] = {
    "0/1, independent": lambda: binary("independent", "binomial", "hoeffding-bentkus", "betting"),
    "0/1, equal": lambda: binary("equal", "binomial"),
    "0/1, mirrored": lambda: binary("mirrored", "binomial", "betting"),
    "0/1, independent, all null": lambda: binary("independent", "binomial", "betting", safe=False),
    "0/1, small limit": lambda: binary("independent", "binomial", "hoeffding-bentkus", alpha=0.03, calibration=600),
    "rare class": rare_class,
    "selective": selective,
    "selective, per class": lambda: selective(0.25, per=True),
    "beta": lambda: continuous("beta"),
    "nearly constant": lambda: continuous("nearly constant"),
    "two-point": lambda: continuous("two-point"),
    "signed, 30 % flips": signed,
    "three limits, two free objectives": lambda: several(("cost", "other")),
    "quantile": quantile,
}
