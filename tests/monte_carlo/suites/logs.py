"""The doors through which logs of evaluation tools go: calls that fail, prices that are missing, answers that nobody scored.

Every setting that can be certified breaks its limit once failures count, and would keep it if they were left out.
"""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binom

import riskfront as rf
from riskfront.errors import InvalidInputError
from tests.data.logs.made import inspect_log
from tests.support.simulation import Suite, one_by_one

N, RIGHT, FAILS = 300, 0.96, 0.1  # truth: .864 of calls are answered and right
PROBLEM = rf.Problem(["score >= 0.9"], minimize="latency")
MODELS = ("small", "large")


def inspect_epochs(trial: int) -> bool:
    """Three epochs a sample; a call that fails is logged with an error beside epochs that were scored."""
    rng = np.random.default_rng([71, trial])

    def write(folder: Path) -> None:
        for model in MODELS:
            log = inspect_log(model, [1.0] * N, epochs=3)
            log["samples"] = [_inspect_sample(sample, rng) for sample in log["samples"]]
            (folder / f"{model}.json").write_text(json.dumps(log))

    return _certifies_anything(write, trial)


def stopped_early(trial: int) -> bool:
    """Inspect's early stopping ends a run as soon as its answers so far would pass, at a score a hair below its limit. To
    refuse the log is right."""
    n, exact = 2 * N, rf.Problem([rf.Limit("score", at_least=0.9, p_value="binomial")], minimize="latency")
    right, seen = np.random.default_rng([104, trial]).random(n) < 0.9 - 1e-9, np.arange(1, n + 1)
    good = np.flatnonzero((binom.cdf(np.cumsum(~right), seen, 0.1) <= exact.delta) & (seen >= 30))
    ran = int(good[0]) + 1 if len(good) else n
    log = inspect_log("small", right[:ran].astype(float).tolist())
    stops = [{"id": f"q{left}", "epoch": 1, "reason": "good enough"} for left in range(ran, n)]
    log["results"] = {"early_stopping": {"manager": "own", "early_stops": stops, "metadata": {}}}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (Path(folder) / "small.json").write_text(json.dumps(log))
        try:
            rf.read_runs(folder).save(f"{folder}/runs.parquet")
        except InvalidInputError:
            return False
        table, _ = rf.read_table(f"{folder}/runs.parquet", exact, binary=["score"])
        return bool(rf.calibrate(table, exact, method="holm", seed=trial))


def _inspect_sample(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    if rng.random() < FAILS:
        return {**sample, "scores": {}, "error": {"message": "rate limit"}, "model_usage": {}}
    sample["scores"]["match"]["value"] = "C" if rng.random() < RIGHT else "I"
    return sample


def inspect_alone(trial: int) -> bool:
    """One epoch: the only call of an example may fail, for some examples with every model."""
    rng = np.random.default_rng([72, trial])

    def write(folder: Path) -> None:
        down = rng.random(N) < FAILS
        for model in MODELS:
            log = inspect_log(model, [float(right) for right in rng.random(N) < RIGHT])
            for sample, failed in zip(log["samples"], down, strict=True):
                sample |= {"scores": {}, "error": {"message": "timeout"}, "total_time": None} if failed else {}
            (folder / f"{model}.json").write_text(json.dumps(log))

    return _certifies_anything(write, trial)


def promptfoo_repeats(trial: int) -> bool:
    """``--repeat 5``: a provider that fails is logged with score 0 and failureReason 2."""
    rng = np.random.default_rng([73, trial])

    def write(folder: Path) -> None:
        rows = [_promptfoo_row(model, test, rng) for model in MODELS for test in range(N) for _ in range(5)]
        log = {"evalId": "e", "results": {"version": 3, "results": rows, "prompts": [], "stats": {}}, "config": {}}
        (folder / "results.json").write_text(json.dumps(log))

    return _certifies_anything(write, trial)


def _promptfoo_row(model: str, test: int, rng: np.random.Generator) -> dict[str, Any]:
    row = {
        "promptIdx": 0,
        "promptId": "p",
        "testIdx": test,
        "vars": {"q": test},
        "provider": {"id": model},
        "namedScores": {},
    }
    if rng.random() < FAILS:
        return row | {"score": 0, "success": False, "failureReason": 2, "error": "429", "latencyMs": 10}
    right = bool(rng.random() < RIGHT)
    return row | {"score": int(right), "success": right, "failureReason": 0 if right else 1, "latencyMs": 900}


def _certifies_anything(write: Callable[[Path], None], trial: int) -> bool:
    """Whether anything is certified from logs of which no model, and no cascade, reaches the limit."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write(Path(folder))
        runs = rf.read_runs(folder)
        runs.save(f"{folder}/runs.parquet")
        again = rf.read_runs(f"{folder}/runs.parquet")
        again.values["confidence"] = again.values["latency"]
        cascade = rf.Cascade(again, confidence="confidence", thresholds=[1.0])
        found = rf.calibrate(cascade.table(), PROBLEM, seed=trial)
        return bool(found) or bool(rf.calibrate(f"{folder}/runs.parquet", PROBLEM, seed=trial))


def refused_calls(kind: type[rf.Cascade], seed: int, *, price: bool, sure: bool) -> Callable[[int], bool]:
    """A provider refuses a tenth of the prompts: the score is 0, nothing is billed, no confidence is logged."""

    def miss(trial: int) -> bool:
        rng = np.random.default_rng([seed, trial])
        refused = rng.random(N) < FAILS
        parts = []
        for model, cost in zip(MODELS, (1.0, 10.0), strict=True):
            columns = {
                "model": model,
                "example": np.arange(N),
                "score": ((rng.random(N) < RIGHT) & ~refused).astype(float),
                "cost": np.where(refused & price, np.nan, cost),
                "sure": np.where(refused & sure, np.nan, rng.random(N)),
            }
            parts.append(pd.DataFrame(columns))
        frame = pd.concat(parts)
        if kind is rf.Router:
            frame["sure"] = frame.groupby("example")["sure"].transform("first")
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            frame.to_parquet(f"{folder}/runs.parquet")
            made = kind(rf.read_runs(f"{folder}/runs.parquet"), confidence="sure", thresholds=[0.3, 0.6])
            problem = rf.Problem(["score >= 0.9"], minimize="cost")
            return bool(rf.calibrate(made.table(), problem, seed=trial))

    return miss


def easy_questions_alone(trial: int) -> bool:
    """The small model was run on easy questions alone, all of which it gets right. Of hard ones it knows none and is as sure,
    so that every cascade that begins with it breaks the limit."""
    rng = np.random.default_rng([77, trial])
    hard = rng.random(N) < 0.3
    parts = []
    for model, cost in zip(MODELS, (1.0, 10.0), strict=True):
        columns = {"model": model, "example": np.arange(N), "score": 1.0, "cost": cost, "sure": rng.random(N)}
        parts.append(pd.DataFrame(columns)[~hard if model == "small" else np.ones(N, dtype=bool)])
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pd.concat(parts).to_parquet(f"{folder}/runs.parquet")
        made = rf.Cascade(rf.read_runs(f"{folder}/runs.parquet"), confidence="sure", thresholds=[0.3, 0.6])
        certificate = rf.calibrate(made.table(), rf.Problem(["score >= 0.9"], minimize="cost"), seed=trial)
    return bool(certificate.certified["models"].str.startswith("small").any())


def scored_failures(trial: int) -> bool:
    """A file says which calls failed, and scores most of them all the same, as the answers that a fallback gave."""
    rng = np.random.default_rng([78, trial])
    parts = []
    for model, cost in zip(MODELS, (1.0, 10.0), strict=True):
        failed = rng.random(N) < FAILS
        score = ((rng.random(N) < RIGHT) | failed).astype(float)
        score[np.flatnonzero(failed)[0]] = 0
        columns = {"model": model, "example": np.arange(N), "score": score, "cost": cost, "failed": failed}
        parts.append(pd.DataFrame({**columns, "sure": 1.0}))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pd.concat(parts).to_parquet(f"{folder}/runs.parquet")
        made = rf.Cascade(rf.read_runs(f"{folder}/runs.parquet"), confidence="sure", thresholds=[0.5])
        certificate = rf.calibrate(made.table(), rf.Problem(["score >= 0.9"], minimize="cost"), seed=trial)
    return bool(certificate.certified["models"].isin(MODELS).any())


def asked_again(trial: int) -> bool:
    """Tests that failed are run once more (promptfoo's --filter-failing), and the latest answers are taken: no model reaches
    the limit at its first try."""
    rng = np.random.default_rng([79, trial])
    right = rng.random((len(MODELS), N)) < RIGHT - FAILS
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for time, asked in enumerate((np.ones_like(right), ~right)):
            found = right if time == 0 else rng.random(right.shape) < RIGHT - FAILS
            rows = [
                {**_promptfoo_row(model, test, rng), "score": int(found[m, test]), "failureReason": 0}
                for m, model in enumerate(MODELS)
                for test in np.flatnonzero(asked[m]).tolist()
            ]
            results = {"version": 3, "timestamp": f"2026-01-0{time + 1}", "results": rows, "prompts": [], "stats": {}}
            for row in rows:
                row.pop("error", None)
            Path(folder, f"{time}.json").write_text(json.dumps({"evalId": "e", "results": results, "config": {}}))
        try:
            rf.read_runs(folder, latest=True).save(f"{folder}/runs.parquet")
        except rf.InvalidInputError:
            return False
        return bool(rf.calibrate(f"{folder}/runs.parquet", PROBLEM, seed=trial))


def failed_calls_as_the_best(trial: int) -> bool:
    """A table of runs, as a frame or a file, in which calls that failed score as a right answer: because an error is 0 and less
    is better, in every case or in one of two repeats, or because a fallback answered. To refuse is right."""
    rng, kind = np.random.default_rng([79, trial]), trial % 3
    parts = []
    for model, cost in zip(MODELS, (1.0, 10.0), strict=True):
        share = (rng.random(N) < FAILS) * (0.5 if kind == 1 else 1.0)
        right = rng.random(N) < RIGHT
        score = np.where(share > 0, 1.0, right) if kind == 2 else (1 - share) * ~right
        columns = {"model": model, "example": np.arange(N), "score": score, "cost": cost, "failed": share}
        parts.append(pd.DataFrame(columns))
    limit = "score >= 0.9" if kind == 2 else f"score <= {1 - RIGHT + FAILS / (4 if kind == 1 else 2)}"
    with tempfile.TemporaryDirectory() as folder:
        data: Any = pd.concat(parts, ignore_index=True)
        if trial % 2:
            data.to_parquet(f"{folder}/runs.parquet")
            data = f"{folder}/runs.parquet"
        try:
            return bool(rf.calibrate(data, rf.Problem([limit], minimize="cost"), seed=trial))
        except InvalidInputError:
            return False


SUITES = [
    Suite("logs: failures were asked again", one_by_one(asked_again), 100),
    Suite("calibrate: failed calls score as the best", one_by_one(failed_calls_as_the_best), 100),
    Suite("cascade: failed calls with a score", one_by_one(scored_failures), 100),
    Suite("cascade: a model ran on easy questions alone", one_by_one(easy_questions_alone), 100),
    Suite("logs: a run that was stopped when it looked good", one_by_one(stopped_early), 100),
    Suite("logs: an epoch of Inspect that failed", one_by_one(inspect_epochs), 100),
    Suite("logs: the only call of an example failed", one_by_one(inspect_alone), 100),
    Suite("logs: a repeat of promptfoo that failed", one_by_one(promptfoo_repeats), 100),
    Suite("cascade: a price is missing", one_by_one(refused_calls(rf.Cascade, 74, price=True, sure=False)), 100),
    Suite("cascade: a confidence is missing", one_by_one(refused_calls(rf.Cascade, 75, price=False, sure=True)), 100),
    Suite("router: a price is missing", one_by_one(refused_calls(rf.Router, 76, price=True, sure=False)), 100),
]
