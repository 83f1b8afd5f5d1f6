"""Every search strategy on one problem: how good is what can be certified after 25, 50, 100, 200 evaluations?

    python benchmarks/search_strategies.py --seeds 5 --strategies random,optuna,guided

The problem is a simulated adaptive classifier of the paper's kind: an early-exit network with three thresholds. Each
example leaves at the first layer whose confidence passes that layer's threshold. `losses` may be replaced by any
function from a setting to one error (0 or 1) and one cost for each example.
"""

import argparse
import sys
import time
from collections.abc import Callable

import moocore
import numpy as np
import numpy.typing as npt
from scipy.special import betaincc

from riskfront.search import make_search
from riskfront.search.region import LimitTarget
from riskfront.space import Config, Float, Space

ALPHA, DELTA = 0.05, 0.1
BUDGETS = (25, 50, 100, 200)
Array = npt.NDArray[np.float64]
Losses = Callable[[Config], tuple[Array, Array]]


def early_exit_classifier(n: int, seed: int) -> tuple[Space, Losses]:
    """A space of three exit thresholds and the losses of n simulated examples at a setting."""
    rng = np.random.default_rng(seed)
    difficulty = rng.normal(size=n)
    # Deeper layers see more of the signal; a layer is right when its logit is positive.
    strength = np.array([0.8, 1.6, 2.4, 3.2])
    logits = strength - difficulty[:, None] + rng.normal(scale=[1.2, 1.0, 0.8, 0.6], size=(n, 4))
    right = logits > 0
    sure = 1 / (1 + np.exp(-np.abs(logits + rng.normal(scale=0.5, size=logits.shape))))
    confidence = 2 * sure - 1
    price = np.array([0.25, 0.5, 0.75, 1.0])

    def losses(config: Config) -> tuple[Array, Array]:
        thresholds = np.array([config["exit1"], config["exit2"], config["exit3"], -1.0])
        exits = (confidence >= thresholds).argmax(axis=1)
        rows = np.arange(n)
        error = (right[:, 3] & ~right[rows, exits]).astype(float)
        return error, price[exits]

    return Space(exit1=Float(0, 1), exit2=Float(0, 1), exit3=Float(0, 1)), losses


def certified_cost(risks: Array, costs: Array, losses: Losses, configs: list[Config], test: slice) -> float:
    """The cost, on all data, of the setting that Pareto Testing with fixed-sequence testing certifies; 1 if none."""
    front = np.flatnonzero(moocore.is_nondominated(np.column_stack([risks, costs])))
    best = 1.0
    for i in front[np.argsort(risks[front], kind="stable")]:
        error, cost = losses(configs[i])
        error = error[test]
        if betaincc(error.sum() + 1, max(len(error) - error.sum(), 1e-9), ALPHA) > DELTA:
            break
        best = float(cost.mean())
    return best


def run(strategy: str, seed: int, n: int, problem: Callable[[int, int], tuple[Space, Losses]]) -> list[list[float]]:
    """Rows of (certified cost, cost of the best setting with opt risk at most r_max, seconds), one for each budget."""
    space, losses = problem(n, seed)
    opt, test = slice(0, n // 2), slice(n // 2, n)
    target = LimitTarget("error", alpha=ALPHA, n_opt=n // 2, n_test=n - n // 2)
    name, _, option = strategy.partition(":")
    rows = []
    options = {"targets": [target], "delta": DELTA} if name == "guided" else {}
    if option:
        options["sampler" if name == "optuna" else "variant"] = option
    budgets = BUDGETS if name != "grid" else [*BUDGETS, 6480]
    searches = {b: b for b in budgets} if name == "grid" else {max(budgets): max(budgets)}
    for total in searches:
        search = make_search(name, space, ["error", "cost"], seed=seed, budget=total, **options)
        configs, risks, costs = [], [], []
        begin = time.perf_counter()
        while len(configs) < total and (asked := search.ask()):
            error, cost = losses(asked[0])
            configs += asked
            risks.append(error[opt].mean())
            costs.append(cost[opt].mean())
            search.tell(asked[0], {"error": risks[-1], "cost": costs[-1]})
        for b in [total] if name == "grid" else budgets:
            r, c = np.array(risks[:b]), np.array(costs[:b])
            allowed = c[r <= target.region(DELTA).r_max]
            rows.append(
                [
                    certified_cost(r, c, losses, configs[:b], test),
                    float(allowed.min(initial=1.0)),
                    time.perf_counter() - begin,
                ]
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--strategies", default="grid,random,optuna:nsga2,optuna:tpe,optuna:gp,parego,guided")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--examples", type=int, default=4000)
    parser.add_argument("--most", type=int, default=200, help="leave out budgets above this one")
    arguments = parser.parse_args()
    global BUDGETS
    BUDGETS = tuple(b for b in BUDGETS if b <= arguments.most)
    print(f"{'strategy':<14} {'metric':<10} " + " ".join(f"{b:>8}" for b in BUDGETS) + "   (+6480 for grid)")
    for strategy in arguments.strategies.split(","):
        results = np.array(
            [run(strategy, s, arguments.examples, early_exit_classifier) for s in range(arguments.seeds)]
        )
        for i, metric in enumerate(["certified", "opt best", "seconds"]):
            print(f"{strategy:<14} {metric:<10} " + " ".join(f"{v:8.4f}" for v in results[:, :, i].mean(axis=0)))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
