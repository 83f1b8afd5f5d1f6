"""How long a monitor takes to find a change, how often it alarms falsely, and how many outcomes a second it takes in.

Delays: 0/1 losses against a limit of .10; the risk is .05 for 0 to 10,000 outcomes, then .20 or .15. MAPIE's RiskMonitoring
watches the same streams with threshold .10 and the whole of delta for its online bound; it is far slower, so it sees the first
of them only. Two detectors are written down here for comparison: a bet that starts at the first outcome and never again, and
weighted Shiryaev-Roberts with weights by time alone.

False alarms: streams that keep the limit, some of them just so, 2,000 each over 10,000 outcomes, delta .05.

    python -m benchmarks.monitoring [--quick]

It writes benchmarks/results/monitoring.md.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import riskfront as rf
from riskfront.statistics._change_detection import stakes
from tests.monte_carlo.suites import monitoring as streams
from tests.support.monitoring import certificate

LIMIT, DELTA, RUN_LENGTH = 0.10, 0.05, 10_000
PASTS = (0, 500, 2_000, 10_000)
CHANGES = {0.20: (85, 190, 230, 270), 0.15: (340, 680, 780, 1_000)}  # the targets
HORIZON = {0.20: 1_500, 0.15: 4_000}
ABOUT = (
    "400 streams; the two other detectors see a quarter of them, MAPIE's the first 20. Before: the share of streams with an "
    "alarm before the change, which are left out of the median."
)
OTHERS = (
    "The weight that starts at once and the weights of stakes were last chosen on the 400 streams above, so these are the "
    "numbers to go by: rf.Monitor, no false alarm ever, with the standard error of the median."
)
OUT = Path("benchmarks/results/monitoring.md")

Delay = Callable[[Any, int], float]


def stream(seed: int, past: int, risk: float, horizon: int) -> Any:
    rng = np.random.default_rng([seed, past, int(1000 * risk)])
    return np.concatenate([rng.random(past) < 0.05, rng.random(horizon) < risk]).astype(float)


def ours(losses: Any, past: int, **promise: Any) -> float:
    monitor = rf.Monitor(certificate(f"error <= {LIMIT}"), delta=DELTA, **promise)
    monitor.update({"error": losses})
    alarm = monitor.watches[0].detector.alarm
    return np.inf if alarm is None else alarm.row + 1 - past


def from_the_start(losses: Any, past: int) -> float:
    """One mixture of bets that never restarts."""
    shares, weights = stakes(LIMIT)
    logs = np.cumsum(np.log1p(shares[:, None] * (losses - LIMIT) / LIMIT), axis=1)
    return _first(np.logaddexp.reduce(logs + np.log(weights)[:, None], axis=0) >= np.log(1 / DELTA), past)


def by_time_alone(losses: Any, past: int) -> float:
    """Weighted Shiryaev-Roberts with weights 1 / ((s + 9) ln(s + 9)^2)."""
    shares, weights = stakes(LIMIT)
    s = np.arange(1, len(losses) + 1)
    starts = 1 / ((s + 9) * np.log(s + 9) ** 2)
    starts *= 1 / (
        np.sum(1 / ((np.arange(1, 200_000) + 9) * np.log(np.arange(1, 200_000) + 9) ** 2)) + 1 / np.log(200_009)
    )
    bets, left, hit = np.zeros(len(shares)), 1.0, np.zeros(len(losses), dtype=bool)
    for t, (x, w) in enumerate(zip(losses, starts, strict=True)):
        bets, left = (bets + w) * (1 + shares * (x - LIMIT) / LIMIT), left - w
        hit[t] = weights @ bets + left >= 1 / DELTA
        if hit[t]:
            break
    return _first(hit, past)


def mapie(losses: Any, past: int) -> float:
    """Its bound after every outcome is a function of the outcomes up to it, so that one update is as good as many."""
    from mapie.exchangeability_testing import RiskMonitoring

    # half of test_level is kept for a reference that is not used here
    watched = RiskMonitoring(risk="accuracy", test_level=2 * DELTA, threshold=LIMIT, warn=False)
    watched.update(np.ones(len(losses), dtype=int), 1 - losses.astype(int))
    return _first(watched.online_risk_lower_bound_sequence_history > LIMIT, past)


def _first(hits: Any, past: int) -> float:
    return float(np.argmax(hits)) + 1 - past if hits.any() else np.inf


def median(delay: Delay, past: int, risk: float, count: int, horizon: int) -> str:
    """The median delay of streams without an alarm before the change; how many had one."""
    found = np.array([delay(stream(seed, past, risk, horizon), past) for seed in range(count)])
    late = found[found > 0]
    early = f" ({(found <= 0).mean():.3f} before)" if (found <= 0).any() else ""
    middle = float(np.median(late))
    return (f"{middle:,.0f}" if np.isfinite(middle) else f"over {horizon:,}") + early


def delays(count: int, of_mapie: int) -> list[str]:
    lines = []
    for risk, targets in CHANGES.items():
        header = " | ".join(f"{past:,}" for past in PASTS)
        lines += [
            f"### {LIMIT - 0.05:.2f} to {risk:.2f}",
            "",
            f"| good outcomes before | {header} |",
            "| --- |" + " --- |" * len(PASTS),
        ]
        rows: dict[str, tuple[Delay, int, tuple[int, ...]]] = {
            "**rf.Monitor**, no false alarm ever": (ours, count, (HORIZON[risk],) * 4),
            f"**rf.Monitor**, run length {RUN_LENGTH:,}": (
                lambda x, past: ours(x, past, promise="run-length", run_length=RUN_LENGTH),
                count,
                (HORIZON[risk],) * 4,
            ),
            "weighted Shiryaev-Roberts by time alone": (by_time_alone, count // 4, (HORIZON[risk],) * 4),
            "a bet from the start": (from_the_start, count // 4, (3_000, 6_000, 12_000, 60_000)),
            "MAPIE's RiskMonitoring": (mapie, of_mapie, (1_500, 3_000, 6_000, 20_000)),
        }
        lines.append(f"| target | {' | '.join(f'{target:,}' for target in targets)} |")
        for name, (delay, number, horizons) in rows.items():
            if number:
                cells = [median(delay, past, risk, number, h) for past, h in zip(PASTS, horizons, strict=True)]
                lines.append(f"| {name} | {' | '.join(cells)} |")
                print(lines[-1], flush=True)
        lines.append("")
    return lines


def on_other_streams(count: int) -> list[str]:
    """Two constants, the weight that starts at once and the weights of stakes, were last chosen on the streams above."""
    lines = [
        "| good outcomes before | " + " | ".join(f"{past:,}" for past in PASTS) + " |",
        "| --- |" + " --- |" * len(PASTS),
    ]
    for risk in CHANGES:
        cells = []
        for past in PASTS:
            drawn = (stream(100_000 + seed, past, risk, HORIZON[risk]) for seed in range(count))
            found = np.array([ours(losses, past) for losses in drawn])
            late = found[found > 0]
            rng = np.random.default_rng(0)
            error = np.std([np.median(rng.choice(late, len(late))) for _ in range(200)])
            cells.append(f"{np.median(late):,.0f} ± {error:.0f}")
        lines.append(f"| {LIMIT - 0.05:.2f} to {risk:.2f} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return lines


def false_alarms(count: int, n: int = 10_000) -> list[str]:
    kinds: dict[str, Callable[[Any, int], bool]] = {
        "at the limit": lambda rng, n: _alarms(streams.at_the_limit(rng, n)),
        "slowly up to the limit and back": lambda rng, n: _alarms(streams.up_and_back(rng, n)),
        "at the limit whenever the past was bad": lambda rng, n: _alarms(streams.depends_on_the_past(rng, n)),
        "heavy tails, mean at the limit": lambda rng, n: _alarms(np.clip(streams.heavy_tails(rng, n), 0, 1)),
        "twelve groups in bursts, each at the limit": _in_bursts,
    }
    lines = ["| stream | share with an alarm |", "| --- | --- |"]
    for kind, (name, alarms) in enumerate(kinds.items()):
        found = np.mean([alarms(np.random.default_rng([kind, seed]), n) for seed in range(count)])
        lines.append(f"| {name} | {found:.4f} |")
        print(lines[-1], flush=True)
    return lines


def _alarms(losses: Any) -> bool:
    return rf.Monitor(certificate(f"error <= {LIMIT}"), delta=DELTA).update({"error": losses})


def _in_bursts(rng: np.random.Generator, n: int) -> bool:
    groups = np.repeat(rng.integers(0, 12, 2 * n // 50), rng.geometric(0.02, 2 * n // 50))[:n]
    made = rf.Monitor(certificate(streams.PER, groups={"group": list(range(12))}), delta=DELTA)
    return made.update({"error": streams.at_the_limit(rng, len(groups)), "group": groups})


def run_lengths(count: int, run_length: int = 1_000) -> str:
    """The mean number of outcomes to the first alarm at the limit."""
    found = []
    for seed in range(count):
        rng, total = np.random.default_rng([9, seed]), 0
        made = rf.Monitor(certificate(f"error <= {LIMIT}"), promise="run-length", run_length=run_length)
        while not made.update({"error": streams.at_the_limit(rng, 2_000)}) and total < 200_000:
            total += 2_000
        alarm = made.watches[0].detector.alarm
        found.append(total if alarm is None else alarm.row + 1)
    return (
        f"Promised {run_length:,} outcomes to a false alarm on average, at the limit: {np.mean(found):,.0f} measured."
    )


def speed(n: int = 1_000_000) -> list[str]:
    rng = np.random.default_rng(0)
    outcomes = {"error": (rng.random(n) < 0.05).astype(float), "label": rng.choice(["a", "b", "c"], n)}
    both = [rf.Limit("error", at_most=LIMIT), rf.Limit("error", at_most=0.2, per="label")]
    cases = {
        "one limit": certificate(both[0]),
        "two limits, one in three groups": certificate(*both, groups={"label": ["a", "b", "c"]}),
    }
    lines = ["| | batches of 100,000 | batches of 1,000 | one at a time |", "| --- | --- | --- | --- |"]
    for name, made in cases.items():
        cells = []
        for batch, total in ((100_000, n), (1_000, n // 5), (1, 2_000)):
            best = 0.0
            for _ in range(3):
                monitor, started = rf.Monitor(made), time.perf_counter()
                for start in range(0, total, batch):
                    monitor.update({column: values[start : start + batch] for column, values in outcomes.items()})
                best = max(best, total / (time.perf_counter() - started))
            cells.append(f"{best:,.0f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few streams, without MAPIE; writes nothing")
    quick = parser.parse_args().quick
    warnings.simplefilter("ignore")
    parts = [
        "# Monitoring",
        "",
        f"Made by `python -m benchmarks.monitoring`. Limit {LIMIT:g}, delta {DELTA:g}.",
        "",
        "## Median delay in outcomes",
        "",
        ABOUT,
        "",
        *delays(20 if quick else 400, 0 if quick else 20),
        "### The same on 1,000 other streams",
        "",
        OTHERS,
        "",
        *on_other_streams(20 if quick else 1_000),
        "",
        "## False alarms",
        "",
        "2,000 streams of 10,000 outcomes each, all of which keep the limit.",
        "",
        *false_alarms(20 if quick else 2_000),
        "",
        run_lengths(20 if quick else 1_000),
        "",
        "## Outcomes a second, one core",
        "",
        *speed(100_000 if quick else 1_000_000),
        "",
    ]
    if not quick:
        OUT.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
