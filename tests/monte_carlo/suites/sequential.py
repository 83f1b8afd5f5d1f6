"""Sequential testing, looked at after every batch and stopped at the first success: a setting that breaks a limit is a miss."""

from __future__ import annotations

import asyncio
import json
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import riskfront as rf
from tests.support.simulation import Suite, one_by_one

ALPHA, DELTA, HAIR = 0.2, 0.1, 1e-9
N, M = 240, 6
CONFIGS = [{"setting": k} for k in range(M)]
PROBLEM = rf.Problem([rf.Limit("error", at_most=ALPHA)], minimize=["cost"], delta=DELTA)


def errors(kind: str, rng: np.random.Generator, m: int = M, n: int = N) -> np.ndarray:
    """Losses of settings that all break the limit by a hair; with "mixed" the first half keeps it with ease."""
    if kind == "graded":
        rare = 0.02
        small = (ALPHA + HAIR - rare) / (1 - rare)
        return np.where(rng.random((m, n)) < rare, 1.0, small)
    risk = np.full(m, ALPHA + HAIR)
    if kind == "mixed":
        risk[: m // 2] = 0.03
    return rng.random((m, n)) < risk[:, None]


HALF = rf.Problem([rf.Limit("error", at_most=0.5)], minimize=["cost"], delta=DELTA)


def rivals(rng: np.random.Generator, m: int, n: int) -> np.ndarray:
    """On every example half of the settings are wrong: each breaks a limit of .5 by a hair, and one wins where others lose."""
    wrong = np.argsort(rng.random((m, n)), axis=0) < m // 2
    return wrong | (rng.random((m, n)) < HAIR)


def is_wrong(run: rf.Sequential, kind: str) -> bool:
    """Whether a setting that breaks the limit is certified now."""
    return any(config["setting"] >= (M // 2 if kind == "mixed" else 0) for config in run.certified)


def partial(number: int) -> bool:
    """Outcomes come late and in any order, some fail; every batch is looked at, until something is certified."""
    kind = ("binary", "mixed", "graded")[number % 3]
    rng = np.random.default_rng([91, number])
    lost = errors(kind, rng)
    run = rf.Sequential(CONFIGS, PROBLEM, examples=N, planning=60, seed=number)
    waiting: list[Any] = []
    while True:
        waiting += run.ask(48)
        if not waiting:
            return is_wrong(run, kind)
        rng.shuffle(waiting)
        for config, example in waiting[:40]:
            _tell(run, config, example, lost)
        waiting = waiting[40:]
        if is_wrong(run, kind):
            return True


def _tell(run: rf.Sequential, config: dict[str, int], example: int, lost: np.ndarray) -> None:
    outcome = {"error": lost[config["setting"], example], "cost": 1 / (1 + config["setting"])}
    run.tell((config, example), outcome)


def retried(number: int) -> bool:
    """Every outcome is told twice, as by a client that retries, and again after the run was saved and loaded."""
    rng = np.random.default_rng([92, number])
    lost = rivals(rng, 4, 120)
    run = rf.Sequential(CONFIGS[:4], HALF, examples=120, planning=24, seed=number)
    while trials := run.ask(40):
        for config, example in trials:
            for _ in range(2):
                _tell(run, config, example, lost)
        run = rf.Sequential.from_dict(json.loads(json.dumps(run.to_dict())))
        for config, example in trials:
            _tell(run, config, example, lost)
        if run.certified:
            return True
    return bool(run.certificate())


def daily(number: int) -> bool:
    """Every day some examples are labelled, with the losses of all settings, sorted by their label; every day one looks."""
    kind = ("binary", "mixed", "graded")[number % 3]
    rng = np.random.default_rng([93, number])
    run = rf.Sequential(CONFIGS, PROBLEM, examples=N, planning=60, groups={"label": [0, 1]})
    for day in range(8):
        lost = errors(kind, rng, M, N // 8)
        lost = lost[:, np.argsort(lost.mean(axis=0), kind="stable")]  # the easy ones first
        cost = np.repeat(1 / (1 + np.arange(M))[:, None], lost.shape[1], axis=1)
        table = rf.LossTable(CONFIGS, {"error": lost, "cost": cost}, groups={"label": np.arange(lost.shape[1]) % 2})
        run.tell_table(table, ids=[f"{day}, {example}" for example in range(lost.shape[1])])
        run.tell_table(table, ids=[f"{day}, {example}" for example in range(lost.shape[1])])
        if is_wrong(run, kind):
            return True
    return False


def daily_rivals(number: int) -> bool:
    """The same with forty settings, one of which is always ahead: to begin with that one, after looking, would be a miss."""
    rng = np.random.default_rng([96, number])
    configs = [{"setting": k} for k in range(40)]
    run = rf.Sequential(configs, HALF, examples=240, planning=40)
    for day in range(6):
        lost = rivals(rng, 40, 40)
        cost = np.repeat(1 / (1 + np.arange(40))[:, None], 40, axis=1)
        run.tell_table(rf.LossTable(configs, {"error": lost, "cost": cost}), ids=[f"{day}, {k}" for k in range(40)])
        if run.certified:
            return True
    return False


def _told_of(lost: np.ndarray, examples: int) -> rf.Sequential:
    run = rf.Sequential([{"setting": k} for k in range(len(lost))], PROBLEM, examples=examples, planning=40)
    run.tell_table(_table(lost), ids=range(lost.shape[1]))
    return run


def _table(lost: np.ndarray) -> rf.LossTable:
    cost = np.repeat(1 / (1 + np.arange(len(lost)))[:, None], lost.shape[1], axis=1)
    return rf.LossTable([{"setting": k} for k in range(len(lost))], {"error": lost, "cost": cost})


def run_after_run(number: int) -> bool:
    """Ten runs, each in an order of its own, are told the same examples. A miss is a false certificate that states 90 %."""
    lost = errors("binary", np.random.default_rng([99, number]))
    found = [_told_of(lost, N).certificate() for _ in range(10)]
    return any(bool(one) and one.delta_of_all_looks < 1.5 * DELTA for one in found)


def told_again_until_it_passes(number: int) -> bool:
    """A day is told, looked at and, as the process dies before it saves, told again, thirty times."""
    rng = np.random.default_rng([100, number])
    run = _told_of(errors("binary", rng, n=60), 180)
    today = _table(errors("binary", rng, n=120))
    for _ in range(30):
        again = rf.Sequential.from_dict(run.to_dict())
        again.tell_table(today, ids=[f"today {k}" for k in range(120)])
        if again.certified:
            return True
    return False


def checked_on_planning_examples(number: int) -> bool:
    """What was certified is compared with the examples that planned it, as if they were new. A miss is that this is done."""
    rng = np.random.default_rng([103, number])
    losses = {"error": rng.random((M, N)) < 0.05, "cost": 1 / (1 + np.arange(M))[:, None] + 0.1 * rng.random((M, N))}
    table = rf.LossTable(CONFIGS, losses)
    run = rf.Sequential(CONFIGS, PROBLEM, examples=2 * N, planning=100)
    run.tell_table(table.subset(range(100)), ids=range(100))
    run.tell_table(table, ids=range(N))
    found = run.certificate()
    if not found:
        return False
    try:
        return rf.check(found, table.subset(range(100))).says == "holds"
    except rf.errors.InvalidInputError:
        return False


def told_in_parts_without_names(number: int) -> bool:
    """Parts of a table are told after the whole of it, without names; a refusal ends the run."""
    lost = errors("binary", np.random.default_rng([101, number]), n=120)
    run = rf.Sequential(CONFIGS, PROBLEM, examples=600, planning=30)
    for start, stop in ((0, 120), (0, 60), (60, 120), (30, 90), (0, 40), (40, 80), (80, 120)):
        try:
            run.tell_table(_table(lost[:, start:stop]))
        except rf.errors.InvalidInputError:
            return False
        if run.certified:
            return True
    return False


@cache
def _space() -> rf.Space:
    return rf.Space(setting=rf.Int(0, 19))


def adaptive_tune(number: int) -> bool:
    """Racing over twenty settings, each of which breaks the limit by a hair, then early acceptance along the path."""
    kind = ("binary", "graded")[number % 2]
    lost = errors(kind, np.random.default_rng([94, number]), 20, 200)

    def losses(config: dict[str, int], examples: np.ndarray) -> dict[str, np.ndarray]:
        row = lost[config["setting"], examples]
        return {"error": row, "cost": np.full(len(row), 1 / (1 + config["setting"]))}

    return bool(
        rf.tune(losses, np.arange(200), _space(), PROBLEM, search="grid", seed=number, progress=False, adaptive=True)
    )


def some_are_safe(number: int) -> bool:
    """The first settings of the path pass; then comes one that does not hold: only the level is left between it and a miss."""
    rng = np.random.default_rng([95, number])
    risk = np.where(np.arange(20) < 10, 0.02, ALPHA + HAIR)
    lost = rng.random((20, 240)) < risk[:, None]

    def losses(config: dict[str, int], examples: np.ndarray) -> dict[str, np.ndarray]:
        row = lost[config["setting"], examples]
        return {"error": row, "cost": np.full(len(row), 1 / (1 + config["setting"]))}

    found = rf.tune(
        losses, np.arange(240), _space(), PROBLEM, search="grid", seed=number, progress=False, adaptive=True
    )
    return bool((found.certified["setting"] >= 10).any())


def given_up(number: int) -> bool:
    """Rivals are given up one after the other. A miss is a certificate, or a setting that is tested on examples on which one
    that was given up before has bet: what that one lost tells what this one wins there."""
    lost, n = rivals(np.random.default_rng([97, number]), 4, 300), 300
    calls: list[tuple[int, list[int]]] = []

    def losses(config: dict[str, int], examples: np.ndarray) -> dict[str, np.ndarray]:
        calls.append((config["setting"], examples.tolist()))
        row = lost[config["setting"], examples]
        return {"error": row, "cost": np.full(len(row), 1 / (1 + config["setting"]))}

    space = rf.Space(setting=rf.Int(0, 3))
    found = rf.tune(losses, np.arange(n), space, HALF, search="grid", seed=number, progress=False, adaptive=True)
    planning = set(list(dict.fromkeys(one for _, examples in calls for one in examples))[: found.n_opt])
    used: set[int] = set()
    for row in found.tested.itertuples():
        own = {one for setting, examples in calls if setting == row.setting for one in examples} - planning
        if own & used:
            return True
        used |= set() if row.certified else own
    return bool(found)


def asked_by_a_function_that_counts(number: int) -> bool:
    """Six seeds until one passes, of a function that counts its calls. A miss is a false certificate that states 90 %."""
    lost, calls = errors("binary", np.random.default_rng([105, number]), 20, 200), [0]

    def losses(config: dict[str, int], examples: np.ndarray) -> dict[str, np.ndarray]:
        calls[0] += len(examples)
        return {"error": lost[config["setting"], examples], "cost": np.full(len(examples), 1 / (1 + config["setting"]))}

    options: dict[str, Any] = {"search": "grid", "progress": False, "adaptive": bool(number % 2)}
    found = [rf.tune(losses, np.arange(200), _space(), PROBLEM, seed=seed, **options) for seed in range(6)]
    return any(bool(one) and one.delta_of_all_looks < 1.5 * DELTA for one in found)


class _Score(NamedTuple):
    value: float


def inspected(number: int) -> bool:
    """Three models in Inspect's early stopping, each wrong as often as the limit; one looks after every sample."""
    rng = np.random.default_rng([98, number])
    n = 120
    for _ in range(3):
        stopping = rf.InspectStopping("error <= 0.2", delta=DELTA, models=3, loss=lambda score: score.value)
        asyncio.run(_inspect(stopping, rng.random(n) < ALPHA + HAIR))
        if stopping.verdict == "passed":
            return True
    return False


def inspected_twice(number: int) -> bool:
    """A model at the limit is run with the same object until it passes; a refusal ends the attempt."""
    rng = np.random.default_rng([102, number])
    stopping = rf.InspectStopping("error <= 0.2", delta=DELTA, loss=lambda score: score.value)
    for _ in range(6):
        try:
            asyncio.run(_inspect(stopping, rng.random(120) < ALPHA + HAIR))
        except rf.errors.InvalidInputError:
            return False
        if stopping.verdict == "passed":
            return True
    return False


async def _inspect(stopping: rf.InspectStopping, wrong: np.ndarray) -> None:
    await stopping.start_task(None, [_Sample(at) for at in range(len(wrong))], 1)
    for at, error in enumerate(wrong.tolist()):
        if stopping.verdict != "open":
            return
        await stopping.complete_sample(at, 1, {"match": _Score(float(error))})


class _Sample(NamedTuple):
    id: int


SUITES = [
    Suite("sequential: asked and told, every batch looked at", one_by_one(partial), 600, DELTA),
    Suite("sequential: told again after a restart", one_by_one(retried), 300, DELTA),
    Suite("sequential: labels come daily", one_by_one(daily), 600, DELTA),
    Suite("sequential: labels come daily, forty rivals", one_by_one(daily_rivals), 300, DELTA),
    Suite("sequential: run after run on the same examples", one_by_one(run_after_run), 300, DELTA),
    Suite("sequential: told again until it passes", one_by_one(told_again_until_it_passes), 400, DELTA),
    Suite("sequential: parts told again without names", one_by_one(told_in_parts_without_names), 300, DELTA),
    Suite("sequential: checked on planning examples", one_by_one(checked_on_planning_examples), 100, DELTA),
    Suite("tune, adaptive: all break the limit", one_by_one(adaptive_tune), 500, DELTA),
    Suite("tune, adaptive: safe ones first", one_by_one(some_are_safe), 300, DELTA),
    Suite("tune, adaptive: given up one after the other", one_by_one(given_up), 600, DELTA),
    Suite("tune: asked again by a function that counts", one_by_one(asked_by_a_function_that_counts), 150),
    Suite("sequential: Inspect's early stopping", one_by_one(inspected), 600, DELTA),
    Suite("sequential: Inspect, run until it passes", one_by_one(inspected_twice), 400, DELTA),
]
