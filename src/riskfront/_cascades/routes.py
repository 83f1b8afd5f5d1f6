"""The settings of cascades and routers: models in order with thresholds, or levels of gain a dollar; who answers at each."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from riskfront._cascades.comparison import net_values
from riskfront._cascades.gain import LearntGain
from riskfront._data.logs.runs import Runs
from riskfront._support.arrays import BoolArray, FloatArray, IntArray

#: the certified threshold of a route: what a dearer model must add for each unit of price
LEVEL = "least gain a dollar"
_NAMED = 3


@dataclass(frozen=True, slots=True, eq=False)
class Routes:
    """Single models, then a setting for each model asked first (None for a router) and level.

    stages, stops, called: as ``CascadeColumn`` takes them; a gate stops where its model answers. rules: (start, level) of
    every setting, None for a single model.
    """

    stages: Stages
    stops: BoolArray
    called: BoolArray
    configs: pd.DataFrame
    rules: list[tuple[str | None, float] | None]


def setting_name(learnt: LearntGain, start: str | None) -> str:
    """Models as a setting of the table names them: "small > any of 10"."""
    others = learnt.chain(start)[0 if start is None else 1 :]
    anyone = " or ".join(others) if len(others) <= _NAMED else f"any of {len(others)}"
    return anyone if start is None else f"{start}{THEN}{anyone}"


def all_routes(learnt: LearntGain, runs: Runs, alone: Sequence[str], failed: BoolArray, unsaid: BoolArray) -> Routes:
    """Every setting on these runs, which must hold all models of the route.

    failed: (runs, examples), where calls failed. unsaid: where nobody knows how sure a model would have been.
    """
    scores, prices = learnt.before(learnt.known_of(runs), runs.n_examples)
    width = max(len(learnt.models), 1)
    models, gates = list[list[int]](), list[list[int]]()
    stops, called = list[BoolArray](), list[BoolArray]()
    rules: list[tuple[str | None, float] | None] = [None] * len(alone)
    rules += [(start, level) for start in learnt.starts for level in learnt.levels(start)]
    always = (len(rules) - len(alone)) * (width - 1)
    for name in alone:
        models.append([runs.row(name), *[-1] * (width - 1)])
        gates.append([always] * (width - 1))
    for start in learnt.starts:
        chain = learnt.chain(start)
        order = [learnt.models.index(name) for name in chain]
        rows = [runs.row(name) for name in chain]
        seen = scores
        if start is not None:
            after = learnt.after(start, scores, learnt.said_by(runs, start))
            lacks = np.isnan(after[order[0]]) | failed[rows[0]]
            seen = np.where(lacks, scores, after)
        for level in learnt.levels(start):
            net = net_values(seen, prices, level, None if start is None else order[0])[order]
            if start is not None:
                net[0, lacks] = -np.inf  # an answer that failed, or says nothing of itself, is not trusted
                net[0, unsaid[rows[0]]] = np.inf  # it counts as it is, missing
            at, asked = follow(net, failed[rows], first=start is not None)
            gates.append(list(range(len(stops), len(stops) + width - 1)))
            models.append(rows)
            stops += [at == position for position in range(width - 1)]
            called += [asked[position] for position in range(width - 1)]
    last = np.ones(runs.n_examples, dtype=bool)
    stages = Stages(np.array(models, dtype=np.int64), np.array(gates, dtype=np.int64).reshape(len(models), width - 1))
    return Routes(stages, np.stack([*stops, last]), np.stack([*called, last]), _described(learnt, alone, rules), rules)


def follow(net: FloatArray, failed: BoolArray, *, first: bool) -> tuple[IntArray, BoolArray]:
    """(n,) the position that answers, and (models, n) which are called: the best net value, and where that call fails the
    best of those behind it. ``first``: position 0 has been called already."""
    n = net.shape[1]
    each, places = np.arange(n), np.arange(len(net))[:, None]
    called = np.zeros(net.shape, dtype=bool)
    called[0] = first
    at = net.argmax(axis=0)
    called[at, each] = True
    for _ in range(len(net)):
        again = failed[at, each] & (at < len(net) - 1)
        if not again.any():
            break
        at = np.where(again, np.where(places > at, net, -np.inf).argmax(axis=0), at)
        called[at, each] = True
    return at, called


def _described(
    learnt: LearntGain, alone: Sequence[str], rules: Sequence[tuple[str | None, float] | None]
) -> pd.DataFrame:
    names = [*alone, *(setting_name(learnt, rule[0]) for rule in rules if rule is not None)]
    levels: list[object] = ["none" if rule is None else rule[1] for rule in rules]
    return pd.DataFrame({"models": names, LEVEL: pd.Series(levels, dtype=object)})


#: stands between the models of a cascade
THEN = " > "


@dataclass(frozen=True, slots=True, eq=False)
class Stages:
    """Cascades as numbers.

    models: (settings, stages), positions of runs; -1 after the last. gates: (settings, stages - 1), the row of ``trusted``
    that decides whether to stop after a stage; always_stop after the last.
    """

    models: IntArray
    gates: IntArray

    def at(self, rows: IntArray | slice) -> Stages:
        return Stages(self.models[rows], self.gates[rows])


def all_stages(thresholds: Sequence[FloatArray], most: int) -> Stages:
    """Every ordered choice of 1 to ``most`` runs, with every threshold of each but the last."""
    starts = np.cumsum([0, *(len(limits) for limits in thresholds)])
    always = int(starts[-1])
    models, gates = [], []
    for size in range(1, most + 1):
        for order in itertools.permutations(range(len(thresholds)), size):
            own = [np.arange(starts[run], starts[run + 1]) for run in order[:-1]]
            grid = (
                np.stack(np.meshgrid(*own, indexing="ij"), axis=-1).reshape(-1, size - 1)
                if own
                else np.zeros((1, 0), int)
            )
            models.append(np.broadcast_to([*order, *[-1] * (most - size)], (len(grid), most)))
            gates.append(np.pad(grid, ((0, 0), (0, most - size)), constant_values=always))
    return Stages(np.concatenate(models).astype(np.int64), np.concatenate(gates).astype(np.int64))


def described(stages: Stages, names: Sequence[str], thresholds: Sequence[FloatArray]) -> pd.DataFrame:
    """The settings that people read: the models in order, and the threshold after each but the last."""
    numbers = np.concatenate([*thresholds, [np.nan]])
    orders, codes = np.unique(stages.models, axis=0, return_inverse=True)
    texts = np.array([THEN.join(names[run] for run in order if run >= 0) for order in orders], dtype=object)
    columns = {"models": texts[codes.ravel()]}
    for stage in range(stages.gates.shape[1]):
        values = numbers[stages.gates[:, stage]].astype(object)
        values[np.isnan(values.astype(np.float64))] = "none"
        columns[f"threshold {stage + 1}"] = values
    return pd.DataFrame(columns)
