"""How good can a plan be? Ways to smooth the risks that a path is planned from, beside the true ones.

    python -m benchmarks.planning_study --trials 100 --out benchmarks/results/planning_study.md
    python -m benchmarks.planning_study --study shares --trials 100 --out benchmarks/results/planning_shares.md
    python -m benchmarks.planning_study --study gaps --trials 100 --tables TABLES --out benchmarks/results/planning_gaps.md

The simulated classifier of `benchmarks.adaptive_classifier`, 6,480 settings on a grid, clipped drop, delta = .1. A share of the
examples plans: a way to smooth gives risks, their front with the costs, in order of risk, is the path. The others test it by
the exact binomial test as a fixed sequence. "The truth" plans on the true risks with the same examples left for testing: what
no plan can beat on average. Draws are the same for all ways; in the study of shares for all shares, too.
"""

from __future__ import annotations

import argparse
import itertools
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from benchmarks.adaptive_classifier import make_world
from riskfront.experiment._paper.stored_tables import CALIBRATION, find_tables
from riskfront.methods._similarity import GridSimilarity, similarity

ALPHAS, DELTA = (0.025, 0.05, 0.1), 0.1
CASES = ((500, 0.15), (1_000, 0.15), (1_000, 0.2), (5_000, 0.1), (5_000, 0.15), (5_000, 0.2))
SIZES, SHARES = (5_000, 1_000, 500), (0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
FEW_WAYS = ("as measured", "twicing, 2 steps", "the truth")  # in the study of shares
GAPS_CASES = ((1_000, 0.2), (5_000, 0.15))
GAPS = {
    f"gaps above {step:.0%} filled, risk up to {slack:.0%} above": (step, slack)
    for step in (0.02, 0.1)
    for slack in (0.1, 0.3)
}
Plan = Callable[[np.ndarray], np.ndarray]  # losses of the planning examples, (settings, examples) -> risks


class Study:
    """The population, and every way to plan on a sample of it."""

    def __init__(self, configs: pd.DataFrame, losses: np.ndarray, costs: np.ndarray) -> None:
        self.loss = np.asarray(losses, dtype=np.float32)
        self.cost = np.asarray(costs, dtype=np.float64).mean(axis=1)
        self.risk = self.loss.mean(axis=1, dtype=np.float64)
        found = similarity(configs)
        assert isinstance(found, GridSimilarity)
        self.like, self.shape = found, found.rows.shape
        self.places = np.stack(np.unravel_index(np.argsort(found.rows.ravel()), self.shape), axis=1).astype(float)
        self.best = [self.cost[self.risk <= alpha].min() for alpha in ALPHAS]

    @classmethod
    def simulated(cls, rows: int) -> Study:
        world = make_world(rows)
        return cls(pd.DataFrame(world.configs), world.losses["drop_clipped"], world.losses["cost"])

    def ways(self) -> dict[str, Plan]:
        mean = measured
        return {
            "as measured": mean,
            "Gaussian, 1 step": lambda x: self.smooth(mean(x), 1.0),
            "Gaussian, 1.5 steps": lambda x: self.smooth(mean(x), 1.5),
            "twicing, 1 step": lambda x: self.repeated(mean(x), 1.0, 2),
            "twicing, 1.5 steps": lambda x: self.repeated(mean(x), 1.5, 2),
            "twicing, 2 steps": lambda x: self.repeated(mean(x), 2.0, 2),
            "thrice, 3 steps": lambda x: self.repeated(mean(x), 3.0, 3),
            "half measured, half twicing": lambda x: 0.5 * mean(x) + 0.5 * self.repeated(mean(x), 2.0, 2),
            "twicing of square roots": lambda x: self.repeated(np.sqrt(mean(x)), 2.0, 2) ** 2,
            "measured where halves disagree with twicing alike": self.weighed,
            "made monotone": lambda x: self.monotone(mean(x)),
            "Gaussian, 1 step, made monotone": lambda x: self.monotone(self.smooth(mean(x), 1.0)),
            "20 singular vectors of the losses": self.low_rank,
            "Gaussian process, noise as the losses'": self.gaussian_process,
            "the truth": lambda x: self.risk,
        }

    def smooth(self, risks: np.ndarray, scale: float) -> np.ndarray:
        return self.like.smooth(risks[:, None], (scale,) * self.like.axes)[:, 0]

    def repeated(self, risks: np.ndarray, scale: float, times: int) -> np.ndarray:
        """1 - (1 - S)^times of the risks, S the average: what an average takes away is put back, and again."""
        left, found = risks, np.zeros_like(risks)
        for _ in range(times):
            part = self.smooth(left, scale)
            found, left = found + part, left - part
        return np.maximum(found, 0.25 * self.smooth(risks, scale))

    def weighed(self, losses: np.ndarray) -> np.ndarray:
        """Between the measured and the smoothed risks: nearer to the measured ones where both halves of the examples deviate
        from the smoothed ones in the same way, so that the deviation is no noise."""
        halves = [measured(losses[:, start::2]) for start in (0, 1)]
        first, second = (half - self.repeated(half, 2.0, 2) for half in halves)
        alike, all_of_it = self.smooth(first * second, 3.0), self.smooth(((first + second) / 2) ** 2, 3.0)
        weight = np.clip(alike / np.maximum(all_of_it, 1e-12), 0.0, 1.0)
        risks = measured(losses)
        return weight * risks + (1 - weight) * self.repeated(risks, 2.0, 2)

    def monotone(self, risks: np.ndarray) -> np.ndarray:
        """Between the largest risk of all settings below and the smallest of all above, along every axis."""
        low = high = risks[self.like.rows]
        for axis in range(low.ndim):
            low = np.maximum.accumulate(low, axis)
            high = np.flip(np.minimum.accumulate(np.flip(high, axis), axis), axis)
        found = np.empty(len(risks))
        found[self.like.rows.ravel()] = ((low + high) / 2).ravel()
        return found

    def low_rank(self, losses: np.ndarray, rank: int = 20) -> np.ndarray:
        """The measured risks as far as the main directions in which settings differ on examples explain them."""
        sketch = losses @ np.random.default_rng(0).standard_normal((losses.shape[1], 2 * rank)).astype(np.float32)
        basis, _ = np.linalg.qr(losses @ (losses.T @ sketch))
        left, _, _ = np.linalg.svd(basis.T @ losses, full_matrices=False)
        basis = (basis @ left[:, :rank]).astype(np.float64)
        return basis @ (basis.T @ measured(losses))

    def gaussian_process(
        self, losses: np.ndarray, length: float = 1.0, size: float = 0.3, most: int = 800
    ) -> np.ndarray:
        """The posterior mean of risks near the smoothed front; the noise of settings is correlated as their losses are."""
        risks = measured(losses)
        guess = self.repeated(risks, 2.0, 2)
        path = front(guess, self.cost)
        above = self.cost / self.cost[path][np.clip(np.searchsorted(guess[path], guess, "right") - 1, 0, None)]
        near = np.argsort(np.where(guess <= 0.2, above, np.inf))[:most]
        centred = losses[near] - losses[near].mean(axis=1, keepdims=True)
        noise = centred @ centred.T / losses.shape[1] ** 2
        apart = ((self.places[near][:, None] - self.places[near]) ** 2).sum(axis=2)
        spread = size * np.maximum(guess[near], 0.005)
        prior = np.outer(spread, spread) * np.exp(-0.5 * apart / length**2)
        found = np.full(len(risks), 1.0)
        found[near] = guess[near] + prior @ np.linalg.solve(
            prior + noise + 1e-8 * np.eye(most), risks[near] - guess[near]
        )
        return found

    def trial(
        self,
        n: int,
        share: float,
        number: int,
        ways: dict[str, Plan],
        same_draws: bool = False,
        fillings: dict[str, tuple[float, float]] | None = None,
    ) -> dict[str, list[float]]:
        """The true cost of what each way gets certified, for each alpha; that of the dearest setting where nothing is."""
        rng = np.random.default_rng([n, number] if same_draws else [n, round(1000 * share), number])
        planning = round(share * n)
        drawn = rng.integers(0, self.loss.shape[1], n)
        errors = self.loss @ np.bincount(drawn[planning:], minlength=self.loss.shape[1]).astype(np.float32)
        losses, found = self.loss[:, drawn[:planning]], {}
        for name, way in ways.items():
            risks = way(losses)
            path = front(risks, self.cost)
            found[name] = self.certified(path, errors, n - planning)
            for filling, (step, slack) in (fillings or {}).items():
                filled = with_gaps_filled(path, risks, self.cost, step, slack)
                found[f"{name}, {filling}"] = self.certified(filled, errors, n - planning)
        return found

    def certified(self, path: np.ndarray, errors: np.ndarray, n: int) -> list[float]:
        """The lowest true cost on the path before the first failure, for each alpha."""
        passed = [np.logical_and.accumulate(errors[path] <= allowed(n, a)) for a in ALPHAS]
        return [float(self.cost[path[p]].min()) if p.any() else float(self.cost.max()) for p in passed]


def measured(losses: np.ndarray) -> np.ndarray:
    found: np.ndarray = losses.mean(axis=1, dtype=np.float64)
    return found


def front(risks: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """Settings that nothing beats in both, safest first."""
    order = np.lexsort((cost, risks))
    lowest = np.minimum.accumulate(cost[order])
    return order[np.r_[True, cost[order][1:] < lowest[:-1]]]


def with_gaps_filled(path: np.ndarray, risks: np.ndarray, cost: np.ndarray, step: float, slack: float) -> np.ndarray:
    """The path, and where the next setting costs less by more than `step`, before it the least risky setting of each `step` of
    cost in between, if its risk is at most `slack` above that of the next one. (A less risky one would be on the front.)"""
    found = [path[0]]
    for above, below in itertools.pairwise(path):
        high = cost[above]
        while high / cost[below] > 1 + step:
            low = high / (1 + step)
            between = np.flatnonzero(
                (cost < high) & (cost >= max(low, cost[below])) & (risks <= risks[below] * (1 + slack))
            )
            between = between[between != below]
            if len(between):
                found.append(between[np.argmin(risks[between])])
            high = low
        found.append(below)
    return np.array(list(dict.fromkeys(found)))


def allowed(n: int, alpha: float) -> int:
    """The largest number of errors whose exact p-value is at most delta."""
    count = int(stats.binom.ppf(DELTA, n, alpha))
    return count - bool(stats.binom.cdf(count, n, alpha) > DELTA)


def lines_of(study: Study, trials: int, cases: tuple[tuple[int, float], ...]) -> list[str]:
    lines = []
    for n, share in cases:
        lines += ["", f"## {n:,} examples, {share:g} of them plan", ""]
        lines += ["| risks | " + " | ".join(f"alpha {a:g}" for a in ALPHAS) + " |", "| --- | --- | --- | --- |"]
        ways = study.ways()
        runs = [study.trial(n, share, number, ways) for number in range(trials)]
        lines += [_line(name, study, [run[name] for run in runs]) for name in ways]
        print("\n".join(lines[-len(ways) - 4 :]), flush=True)
    return lines


def lines_of_shares(study: Study, trials: int) -> list[str]:
    lines, all_ways = [], study.ways()
    ways = {name: all_ways[name] for name in FEW_WAYS}
    for n in SIZES:
        runs = {share: [study.trial(n, share, number, ways, True) for number in range(trials)] for share in SHARES}
        for name in ways:
            lines += ["", f"## {n:,} examples, {name}", ""]
            lines += ["| share | " + " | ".join(f"alpha {a:g}" for a in ALPHAS) + " |", "| --- | --- | --- | --- |"]
            lines += [_line(f"{share:g}", study, [run[name] for run in runs[share]]) for share in SHARES]
            print("\n".join(lines[-len(SHARES) - 4 :]), flush=True)
    return lines


def lines_of_gaps(studies: dict[str, Study], trials: int) -> list[str]:
    """Path by path with gaps filled, beside the same path without."""
    lines = []
    for title, study in studies.items():
        all_ways = study.ways()
        ways = {name: all_ways[name] for name in FEW_WAYS[:2]}
        for n, share in GAPS_CASES:
            runs = [study.trial(n, share, number, ways, True, GAPS) for number in range(trials)]
            lines += ["", f"## {title}: {n:,} examples, {share:g} of them plan", ""]
            lines += ["| path | " + " | ".join(f"alpha {a:g}" for a in ALPHAS) + " |", "| --- | --- | --- | --- |"]
            for name in ways:
                plain = np.array([run[name] for run in runs])
                lines.append(_line(name, study, plain.tolist()))
                for filling in GAPS:
                    more = 100 * (np.array([run[f"{name}, {filling}"] for run in runs]) / plain - 1)
                    error = more.std(axis=0) / np.sqrt(trials)
                    cells = [f"{mean:+.2f} % of it ({e:.2f})" for mean, e in zip(more.mean(axis=0), error, strict=True)]
                    lines.append(f"| {filling} | " + " | ".join(cells) + " |")
            print("\n".join(lines[-2 * len(GAPS) - 6 :]), flush=True)
    return lines


def _line(name: str, study: Study, costs: list[list[float]]) -> str:
    excess = 100 * (np.array(costs) / study.best - 1)
    spread = excess.std(axis=0) / np.sqrt(len(excess))
    cells = [f"+{mean:.1f} % ({error:.1f})" for mean, error in zip(excess.mean(axis=0), spread, strict=True)]
    return f"| {name} | " + " | ".join(cells) + " |"


def real_tables(folder: Path) -> dict[str, Study]:
    found = {}
    for stored in find_tables(folder, tuple(CALIBRATION)):
        table = stored.load()
        flops = table.losses("flops")
        found[stored.title] = Study(
            table.configs, table.losses("accuracy_drop_clipped"), flops / flops.mean(axis=1).max()
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--study", choices=("ways", "shares", "gaps"), default="ways")
    parser.add_argument("--rows", type=int, default=20_000, help="of the population")
    parser.add_argument("--tables", type=Path, help="of the study of gaps")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    study = Study.simulated(given.rows)
    if given.study == "gaps":
        lines = lines_of_gaps({"simulated": study} | (real_tables(given.tables) if given.tables else {}), given.trials)
    else:
        lines = lines_of(study, given.trials, CASES) if given.study == "ways" else lines_of_shares(study, given.trials)
    if given.out:
        command = shlex.join(["python", "-m", "benchmarks.planning_study", *sys.argv[1:]])
        head = [
            f"Made by `{command}`. Mean true cost over the best setting that truly holds (standard error); the dearest"
        ]
        head += ["setting where nothing was certified. Clipped drop, delta = .1, the path alone, no fallback test."]
        given.out.write_text("\n".join(head + lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
