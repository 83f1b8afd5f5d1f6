"""Digests of a fixed set of results, so that a change that should change no number can be compared with the version before.

Run ``python -m benchmarks.same_certificates`` in both versions and compare what it prints. Notes and the version are left out;
settings, risks, p-values, levels, verdicts and orders are in.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import riskfront as rf

#: what may differ between versions that certify the same; "digits" are samples by which ``check`` knows examples again
_WORDS = {"version", "notes", "blake3", "schema_version", "created", "digits"}


def table(n: int = 1200, *, binary: bool = True) -> rf.LossTable:
    """30 settings whose error grows as their cost falls, with labels, weights and missing outcomes."""
    rng = np.random.default_rng(3)
    chance = rng.random(n)
    error = (
        (chance < np.linspace(0.02, 0.3, 30)[:, None]).astype(int)
        if binary
        else chance * np.linspace(0.1, 1, 30)[:, None]
    )
    cost = np.linspace(1, 0.1, 30)[:, None] * rng.uniform(0.5, 1.0, n)
    latency = rng.gamma(2.0, np.linspace(1, 0.2, 30)[:, None], (30, n))
    answered = chance < np.linspace(1.0, 0.6, 30)[:, None]
    late = np.where(rng.random((30, n)) < 0.02, np.nan, chance * np.linspace(0.1, 1, 30)[:, None])
    losses = {"error": error, "cost": cost, "latency": latency, "answered": answered, "late": late}
    groups = {"label": rng.integers(0, 3, n), "w": rng.choice([0.5, 1.0, 1.5], n)}
    return rf.LossTable([{"t": i} for i in range(30)], losses, groups=groups)


LIMITS = {
    "mean": ["error <= 0.12"],
    "per label": ["error <= 0.12", "error <= 0.3 per label"],
    "given": ["error <= 0.2 given answered", "answered >= 0.6"],
    "quantile": ["q0.9(latency) <= 6"],
    "drop": ["error drop from t=29 <= 0.1"],
    "gap": ["error gap between label <= 0.3"],
    "ratio": ["error / answered <= 0.3"],
    "worst cases": ["worst 20 % of error <= 0.9"],
    "weights": ["error weighted by w up to 2 <= 0.2"],
    "missing": ["late <= 0.3"],
}
METHODS = ["pareto-testing", "split-fst", "fallback", "holm", "bonferroni", "low-risk-path", "constrained-path"]
P_VALUES = ["hoeffding", "bentkus", "hoeffding-bentkus", "binomial", "betting"]


def results() -> Iterator[tuple[str, Any]]:
    """Name -> a result that knows how to write itself down."""
    data, floats = table(), table(binary=False)
    for name, limits in LIMITS.items():
        problem = rf.Problem(limits, "cost")
        yield f"{name}, 0/1", _tried(rf.calibrate, data, problem)
        yield f"{name}, float", _tried(rf.calibrate, floats, problem)
    yield "two objectives", _tried(rf.calibrate, data, rf.Problem("error <= 0.15", "cost", maximize="answered"))
    for method in METHODS:
        yield method, _tried(rf.calibrate, data, rf.Problem(LIMITS["per label"], "cost"), method=method)
    for p_value in P_VALUES:
        yield (
            p_value,
            _tried(rf.calibrate, data, rf.Problem([rf.Limit("error", at_most=0.12, p_value=p_value)], "cost")),
        )
    values = {"error": [0.05, 0.1, 0.2]}
    yield "frontier", _tried(rf.frontier, data, rf.Problem("error <= 0.1", "cost"), values, simultaneous=True)
    for adaptive in (False, True):
        yield f"tune, {adaptive}", _tried(_tuned, adaptive)
    yield "cascade", _tried(_cascade)
    yield "demo", _tried(_demo)
    yield "classifier", _tried(_classifier)


def _tuned(adaptive: bool) -> Any:
    examples = np.random.default_rng(0).random(800)

    def run(config: dict[str, float], x: np.ndarray) -> dict[str, np.ndarray]:
        return {"error": (x < config["t"] * 0.3).astype(int), "cost": np.full(len(x), 1 - config["t"])}

    run.fingerprint = "same certificates"  # type: ignore[attr-defined]
    space, problem = rf.Space(t=rf.Float(0.01, 1.0)), rf.Problem(["error <= 0.1"], ["cost"])
    return rf.tune(run, examples, space, problem, budget=12, seed=0, search="random", adaptive=adaptive)


def _cascade() -> Any:
    from tests.support.runs import simulated_runs

    cascade = rf.Cascade(simulated_runs(n=1500), thresholds=5)
    return rf.calibrate(cascade.table(), rf.Problem(["score >= 0.7"], minimize="cost"))


def _demo() -> Any:
    from riskfront._cli.demo import CALIBRATION, PROBLEM, cascade_table, train_cascade

    return rf.calibrate(cascade_table(train_cascade()).subset(np.arange(CALIBRATION)), PROBLEM)


def _classifier() -> Any:
    from sklearn.datasets import make_classification
    from sklearn.linear_model import LogisticRegression

    x, y = make_classification(3000, n_informative=5, n_clusters_per_class=1, class_sep=0.5, random_state=0)
    model = LogisticRegression().fit(x[:1000], y[:1000])
    return (
        rf.RiskControlledClassifier(model, limits="error <= 0.05 given answered").fit(x[1000:], y[1000:]).certificate_
    )


def _tried(make: Callable[..., Any], *given: Any, **options: Any) -> Any:
    try:
        return make(*given, **options)
    except rf.RiskfrontError as error:  # which errors there are is a result, too; their words are not
        return type(error).__name__


def content(result: Any) -> Any:
    """What a result holds, without words."""
    if isinstance(result, str):
        return result
    with tempfile.TemporaryDirectory() as folder:
        result.save(os.path.join(folder, "result.json"))
        with open(os.path.join(folder, "result.json"), encoding="utf-8") as file:
            return _without_words(json.load(file))


def _without_words(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_words(part) for name, part in value.items() if name not in _WORDS}
    return [_without_words(part) for part in value] if isinstance(value, list) else value


def main() -> None:
    warnings.simplefilter("ignore")
    for name, result in results():
        text = json.dumps(content(result), sort_keys=True)
        shown = result if isinstance(result, str) else "certified" if result else "nothing certified"
        print(f"{name:24} {shown:24} {hashlib.sha256(text.encode()).hexdigest()[:16]}", flush=True)


if __name__ == "__main__":
    main()
