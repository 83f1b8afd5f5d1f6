"""Monitors on streams that keep their limits, some of them just so: a false alarm is a miss.

``benchmarks/monitoring.py`` measures the same streams over 10,000 outcomes each.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import riskfront as rf
from riskfront._calibration.monitoring.outcome_files import OutcomeFile, Position
from tests.support.monitoring import certificate
from tests.support.simulation import Suite, one_by_one

DELTA, ALPHA, N = 0.1, 0.1, 3000
PER = rf.Limit("error", at_most=ALPHA, per="group")

Draw = Callable[[np.random.Generator, int], Any]


def at_the_limit(rng: np.random.Generator, n: int) -> Any:
    return rng.random(n) < ALPHA


def up_and_back(rng: np.random.Generator, n: int) -> Any:
    """From far below slowly up to the limit and back, again and again."""
    waves = np.sin(np.linspace(0, rng.integers(1, 6) * np.pi, n)) ** 2
    return rng.random(n) < ALPHA * waves


def depends_on_the_past(rng: np.random.Generator, n: int) -> Any:
    """Never worse than the limit, and just at it whenever recent outcomes were bad: the past decides, as it may."""
    drawn, found, recent = rng.random(n), np.zeros(n), 0.0
    for t in range(n):
        found[t] = drawn[t] < (ALPHA if recent > 0.5 * ALPHA else 0.2 * ALPHA)
        recent += 0.05 * (found[t] - recent)
    return found


def heavy_tails(rng: np.random.Generator, n: int) -> Any:
    """Small losses nearly always and all of it now and then, with the mean at the limit."""
    share = rng.choice([0.001, 0.01, 0.05])
    small = (ALPHA - share) / (1 - share)
    often = np.clip(rng.exponential(small, n), 0, 2 * small) / (1 - np.exp(-2.0))  # of mean ``small``, clipped as it is
    return np.where(rng.random(n) < share, 1.0, often)


def every_stream(number: int) -> bool:
    draw = (at_the_limit, up_and_back, depends_on_the_past, heavy_tails)[number % 4]
    rng = np.random.default_rng([81, number])
    return rf.Monitor(certificate(f"error <= {ALPHA}"), delta=DELTA).update({"error": np.clip(draw(rng, N), 0, 1)})


def bursts(number: int) -> bool:
    """Twelve groups, each at the limit, that come in bursts; one alarm is one too many."""
    rng = np.random.default_rng([82, number])
    lengths = rng.geometric(0.02, 200)
    groups = np.repeat(rng.integers(0, 12, 200), lengths)[: 2 * N]
    made = rf.Monitor(certificate(PER, groups={"group": list(range(12))}), delta=DELTA)
    for part in np.array_split(np.arange(len(groups)), 5):
        made.update({"error": at_the_limit(rng, len(part)), "group": groups[part]})
    return made.alarm


def run_length(number: int) -> bool:
    """The chance of an alarm before a tenth of the run length is at most a tenth."""
    rng = np.random.default_rng([83, number])
    limits = [rf.Limit("error", at_most=ALPHA), PER]
    made = rf.Monitor(certificate(*limits, groups={"group": [0, 1, 2]}), promise="run-length", run_length=4000)
    return made.update({"error": at_the_limit(rng, 400), "group": rng.integers(0, 3, 400)})


def audited(number: int) -> bool:
    """A tenth has labels. The proxy is good, useless or opposite, and drifts; the risk is at the limit throughout."""
    rng = np.random.default_rng([84, number])
    n, q = 2 * N, 0.1
    error = at_the_limit(rng, n)
    drift = np.linspace(0, 0.4, n) if number % 2 else np.zeros(n)
    proxy = (error, rng.random(n), 1.0 - error)[number % 3] * 0.5 + drift + 0.1 * rng.random(n)
    made = rf.Monitor(certificate(f"error <= {ALPHA} proxy judge"), delta=DELTA, audit=q)
    return made.update({"error": np.where(rng.random(n) < q, error, np.nan), "judge": np.clip(proxy, 0, 1)})


def audited_where_it_hurts(number: int) -> bool:
    """Errors are audited ten times as often as the rest, with probabilities that are known."""
    rng = np.random.default_rng([85, number])
    error = at_the_limit(rng, N)
    q = np.where(error, 0.5, 0.05)
    seen = rng.random(N) < q
    made = rf.Monitor(certificate(f"error <= {ALPHA}"), delta=DELTA, audit_column="q", least_audit=0.05)
    return made.update({"error": np.where(seen, error, np.nan), "q": np.where(seen, q, 0.0)})


def lost_labels(number: int) -> bool:
    """Every third answer is wrong, and wrong answers get no label. A miss is to raise no alarm."""
    rng = np.random.default_rng([86, number])
    error = rng.random(600) < 0.33
    return not rf.Monitor(certificate(f"error <= {ALPHA}"), delta=DELTA).update({"error": np.where(error, np.nan, 0.0)})


def resumed(number: int) -> bool:
    """Outcomes at the limit are appended to a file; a new process goes on from the saved state, ten times.

    A false alarm is a miss, and so is an outcome that was lost or counted twice.
    """
    rng = np.random.default_rng([87, number])
    with tempfile.TemporaryDirectory() as place:
        file, state = Path(place) / "outcomes.csv", Path(place) / "state.json"
        file.write_text("error\n")
        rf.Monitor(certificate(f"error <= {ALPHA}"), delta=DELTA).save(state)
        for _ in range(10):
            with file.open("a") as more:
                more.write("".join(f"{value:d}\n" for value in at_the_limit(rng, 100)))
            made = rf.Monitor.load(state)
            reader = OutcomeFile(file, Position.from_dict(made.sources["file"]) if made.sources else None)
            for columns, position in reader.read():
                made.update(columns)
                made.sources["file"] = position.to_dict()
            made.save(state)
        return made.alarm or made.outcomes != 1000


def scores(number: int) -> bool:
    """Scores that stay exchangeable, with many ties or none; to warn is a miss."""
    rng = np.random.default_rng([88, number])
    drawn = (rng.random(N), rng.integers(0, 5, N).astype(float), rng.pareto(1.0, N))[number % 3]
    made = rf.Monitor(certificate(f"error <= {ALPHA}"), warn_on="sure", warn_delta=DELTA)
    made.update({"error": np.zeros(N), "sure": drawn})
    return made.warning


SUITES = [
    Suite("monitor: hard streams", one_by_one(every_stream), 2000, DELTA),
    Suite("monitor: groups in bursts", one_by_one(bursts), 1000, DELTA),
    Suite("monitor: run length", one_by_one(run_length), 2000, DELTA),
    Suite("monitor: audited, with a proxy", one_by_one(audited), 1000, DELTA),
    Suite("monitor: audited where it hurts", one_by_one(audited_where_it_hurts), 2000, DELTA),
    Suite("monitor: labels of errors are lost", one_by_one(lost_labels), 500, DELTA),
    Suite("monitor: resumed from its state", one_by_one(resumed), 200, DELTA),
    Suite("monitor: scores that stay alike", one_by_one(scores), 1000, DELTA),
]
