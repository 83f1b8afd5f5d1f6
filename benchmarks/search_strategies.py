"""Every search strategy on one problem: how good is what can be certified after 25, 50, 100, 200 evaluations?

    OMP_NUM_THREADS=1 python benchmarks/search_strategies.py --seeds 5 --strategies random,optuna:tpe,guided

The problem is a simulated adaptive classifier of the paper's kind: an early-exit network with three thresholds. Each
example leaves at the first layer whose confidence passes that layer's threshold. Any function from (number of examples,
seed) to a space and a loss function may take its place. Printed, as means over seeds:

certified    cost of the setting that Pareto Testing with fixed-sequence testing certifies (1 when it certifies none)
opt best     lowest opt cost among settings whose opt risk would be rejected if it were the test risk
hypervolume  of the front below the upper end of the region of interest, as a share of the reference box
seconds      spent in ask and tell so far
"""

import argparse
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import moocore
import numpy as np
import numpy.typing as npt
from scipy.special import betaincc

from riskfront.search import LimitTarget, make_search
from riskfront.space import Config, Float, Space

ALPHA, DELTA, FULL_GRID = 0.05, 0.1, 6480
METRICS = ("certified", "opt best", "hypervolume", "seconds")
FloatArray: TypeAlias = npt.NDArray[np.float64]
Losses: TypeAlias = Callable[[Config], tuple[FloatArray, FloatArray]]  # one error (0 or 1) and one cost an example
Problem: TypeAlias = Callable[[int, int], tuple[Space, Losses]]


def early_exit_classifier(n: int, seed: int) -> tuple[Space, Losses]:
    """A space of three exit thresholds and the losses of n simulated examples at a setting."""
    rng = np.random.default_rng(seed)
    difficulty = rng.normal(size=(n, 1))
    # Deeper layers see more of the signal; a layer is right when its logit is positive.
    logits = np.array([0.8, 1.6, 2.4, 3.2]) - difficulty + rng.normal(scale=[1.2, 1.0, 0.8, 0.6], size=(n, 4))
    right = logits > 0
    confidence = np.tanh(np.abs(logits + rng.normal(scale=0.5, size=logits.shape)) / 2)
    price = np.array([0.25, 0.5, 0.75, 1.0])

    def losses(config: Config) -> tuple[FloatArray, FloatArray]:
        thresholds = np.array([config["exit1"], config["exit2"], config["exit3"], -1.0])
        exits = (confidence >= thresholds).argmax(axis=1)
        error = right[:, 3] & ~right[np.arange(n), exits]
        return error.astype(np.float64), price[exits]

    return Space(exit1=Float(0, 1), exit2=Float(0, 1), exit3=Float(0, 1)), losses


def certified_cost(risks: FloatArray, costs: FloatArray, configs: list[Config], losses: Losses, test: slice) -> float:
    """Walk the front from the lowest opt risk up and stop at the first setting that the exact binomial test keeps."""
    front = np.flatnonzero(moocore.is_nondominated(np.column_stack([risks, costs])))
    best = 1.0
    for i in front[np.argsort(risks[front], kind="stable")]:
        error, cost = losses(configs[i])
        wrong = int(error[test].sum())
        if betaincc(wrong + 1, len(error[test]) - wrong, ALPHA) > DELTA:
            break
        best = float(cost.mean())
    return best


def search_once(strategy: str, seed: int, n: int, budgets: list[int], problem: Problem) -> list[list[float]]:
    """One row of metrics for each budget, all from one search that goes up to the last."""
    space, losses = problem(n, seed)
    opt, test = slice(0, n // 2), slice(n // 2, n)
    target = LimitTarget("error", alpha=ALPHA, n_opt=n // 2, n_test=n - n // 2)
    region = target.region(DELTA)
    name, _, sampler = strategy.partition(":")
    options: dict[str, Any] = {"targets": [target], "delta": DELTA} if name == "guided" else {}
    if sampler:
        options["sampler"] = sampler
    search = make_search(name, space, ["error", "cost"], seed=seed, budget=budgets[-1], **options)
    configs: list[Config] = []
    values: list[tuple[float, float]] = []
    seconds = 0.0
    rows = []
    for i in range(1, budgets[-1] + 1):
        begin = time.perf_counter()
        asked = search.ask()
        seconds += time.perf_counter() - begin
        for config in asked:
            error, cost = losses(config)
            configs.append(config)
            values.append((float(error[opt].mean()), float(cost[opt].mean())))
            begin = time.perf_counter()
            search.tell(config, {"error": values[-1][0], "cost": values[-1][1]})
            seconds += time.perf_counter() - begin
        if i in budgets:
            points = np.array(values)
            risks, costs = points.T
            best = float(costs[risks <= region.r_max].min(initial=1.0))
            share = float(moocore.hypervolume(points, ref=[region.high, 1.0])) / region.high
            rows.append([certified_cost(risks, costs, configs, losses, test), best, share, seconds])
    return rows


def compare(strategies: list[str], seeds: int, n: int, budgets: list[int], problem: Problem) -> None:
    print(f"{'strategy':<14} {'metric':<11} " + " ".join(f"{b:>8}" for b in budgets), flush=True)
    for strategy in ["full grid", *strategies]:
        results = []
        for seed in range(seeds):
            if strategy == "full grid":
                results.append(search_once("grid", seed, n, [FULL_GRID], problem))
            elif strategy == "grid":  # a grid is made for one budget
                results.append([row for b in budgets for row in search_once("grid", seed, n, [b], problem)])
            else:
                results.append(search_once(strategy, seed, n, budgets, problem))
        for metric, means in zip(METRICS, np.array(results).mean(axis=0).T, strict=True):
            print(f"{strategy:<14} {metric:<11} " + " ".join(f"{v:8.4f}" for v in means), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--strategies", default="grid,random,optuna:nsga2,optuna:tpe,optuna:gp,parego,guided")
    parser.add_argument("--budgets", default="25,50,100,200")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--examples", type=int, default=4000)
    arguments = parser.parse_args()
    budgets = [int(b) for b in arguments.budgets.split(",")]
    compare(arguments.strategies.split(","), arguments.seeds, arguments.examples, budgets, early_exit_classifier)


if __name__ == "__main__":
    main()
