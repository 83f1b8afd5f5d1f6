"""Choices of a setting for ``benchmarks.adaptive``: outcomes of every setting on drawn examples, and the truth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import riskfront as rf
from benchmarks.adaptive_classifier import Behaviour, make_world

SHAPE = (18, 20, 18)  # of the classifier's thresholds
#: share of wrong answers of eleven language models in three tasks of RouterBench: what prompts of one task might lose
ROUTERBENCH = "routerbench_0shot_subset.parquet"
QUANTISED = "llama31_8b_mxquant_triviaqa"
DELTA = 0.1


@dataclass(frozen=True, slots=True)
class Case:
    """One draw of examples. loss (settings, examples) must have a mean of at most alpha; cost (settings,) is to be small."""

    name: str
    alpha: float
    loss: NDArray[Any]
    cost: NDArray[np.float64]
    truth: NDArray[np.float64]  # (settings,): the true risk
    bounds: tuple[float, float]
    search: str
    budget: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return int(self.loss.size if self.search == "grid" else self.budget * self.loss.shape[1])

    @property
    def problem(self) -> rf.Problem:
        return rf.Problem([rf.Limit("loss", at_most=self.alpha)], minimize=["cost"], delta=DELTA)

    @property
    def space(self) -> rf.Space:
        return rf.Space(**{f"s{axis}": rf.Int(0, size - 1) for axis, size in enumerate(self.shape)})

    def losses(self, config: dict[str, int], examples: NDArray[np.int64]) -> dict[str, Any]:
        row = int(np.ravel_multi_index(tuple(config.values()), self.shape))
        return {"loss": self.loss[row, examples], "cost": np.full(len(examples), self.cost[row])}

    def best(self) -> float:
        """The cost of the best setting that truly holds."""
        held = self.cost[self.truth <= self.alpha]
        return float(held.min())


def prompts(data: Path, draws: int, n: int = 1500) -> Iterator[Case]:
    """30 to 90 prompts: real loss rates, lengths of their own; some examples are hard for all; each draw has other prompts."""
    table = pd.read_parquet(data / ROUTERBENCH).dropna(subset=["score"])
    rates = 1 - table.groupby(["model", "eval_name"])["score"].mean().to_numpy()
    for number in range(draws):
        m = (30, 45, 60, 75, 90)[number % 5]
        world = np.random.default_rng([24, number])
        risk = np.clip(world.choice(rates, m) + world.normal(0, 0.03, m), 0.02, 0.95)
        words = np.exp(world.normal(3, 0.7, m)).round()
        rng = np.random.default_rng([25, number])
        hard = rng.random((1, n))
        own = rng.random((m, n))
        shared = rng.random((m, n)) < 0.5  # half of the losses come from how hard the example is
        loss = np.where(shared, hard, own) < risk[:, None]
        yield Case("prompts", float(risk.min() + 0.05), loss, words, risk, (0, 1), "grid", m, (m,))


def quantised(data: Path, alpha: float, draws: int, n: int = 4000) -> Iterator[Case]:
    """49 quantisation settings of a real language model; the loss is the drop of its score from the full model's."""
    scores = pd.read_parquet(data / f"{QUANTISED}.parquet")
    configs = pd.read_csv(data / f"{QUANTISED}_configs.csv").set_index("config")
    names = [name for name in scores.columns if name not in ("sample_id", "full")]
    drop = scores["full"].to_numpy()[None, :] - scores[names].to_numpy().T
    bits = configs.loc[names, "avg_bitwidth"].to_numpy()
    for draw in range(draws):
        chosen = np.random.default_rng([26, draw]).choice(drop.shape[1], n, replace=False)
        m = len(names)
        name = f"quantised, drop <= {alpha:g}"
        yield Case(name, alpha, drop[:, chosen], bits, drop.mean(axis=1), (-1, 1), "grid", m, (m,))


def classifier(alpha: float, draws: int, n: int = 5000) -> Iterator[Case]:
    """The simulated adaptive classifier: 6,480 settings, 50 proposals of the guided search."""
    population, cost, truth = _world()
    for draw in range(draws):
        chosen = np.random.default_rng([27, draw]).integers(0, population.shape[1], n)
        name = f"classifier, drop <= {alpha:g}"
        yield Case(name, alpha, population[:, chosen], cost, truth, (0, 1), "guided", 50, SHAPE)


#: classifiers of other accuracy and damage, on which the sizes of the last race were chosen
OTHERS = (
    Behaviour(),
    Behaviour(accuracy=0.86, head_damage=3.4, token_damage=1.8, joint_damage=2.5),
    Behaviour(accuracy=0.95, evidence=1.5, token_damage=3.2, head_damage=1.8, early_noise=0.35),
    Behaviour(accuracy=0.9, individuality=0.9, wobble=0.6, token_power=2.0, head_power=2.5),
)


def other_classifiers(alpha: float, draws: int, n: int = 5000) -> Iterator[Case]:
    """The same with other populations, one after the other."""
    for draw in range(draws):
        kind = draw % len(OTHERS)
        population, cost, truth = _world(100 + kind, OTHERS[kind])
        chosen = np.random.default_rng([900, kind, draw]).integers(0, population.shape[1], n)
        name = f"other classifiers, drop <= {alpha:g}"
        yield Case(name, alpha, population[:, chosen], cost, truth, (0, 1), "guided", 50, SHAPE)


@cache
def _world(
    seed: int = 0, behaviour: Behaviour | None = None
) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.float64]]:
    losses = make_world(n_examples=8000, seed=seed, behaviour=behaviour).losses
    drop = losses["drop_clipped"]
    return drop, losses["cost"].mean(axis=1, dtype=np.float64), drop.mean(axis=1)
