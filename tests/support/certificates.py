"""Certificates of every kind, to be shown: one and two limits, groups, one to three objectives, nothing, no guarantee."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd

import riskfront as rf
from riskfront._reporting.page import report_html
from riskfront.methods import make_method

HOSTILE = "<script>alert(1)</script>"
ENDING = "</script><script>window.broken=1</script>"
DOTTED = "a.b[0]['c']\\\"d\""
IMAGE = "<img src=x onerror=window.broken=1>"
NAMES = ("one", "per", "two", "three", "quantile", "nothing", "unguaranteed", "uncorrected", "holm", "hostile")


@cache
def table(*, hostile: bool = False) -> rf.LossTable:
    """60 settings x 3,000 examples: a threshold trades error for cost, a batch size trades latency for cost."""
    random = np.random.default_rng(0)
    n = 3000
    names = (HOSTILE, ENDING, DOTTED) if hostile else ("threshold", "batch", "prompt")
    error, cost = (IMAGE, DOTTED + " cost") if hostile else ("error", "cost")
    texts = ("</pre><b>bold</b>", "{{ 7 * 7 }}") if hostile else ("short", "long")
    grid = [(round(i / 10, 2), b, p) for i in range(10) for b in (1, 4, 16) for p in (0, 1)]
    threshold, batch, prompt = (np.array(column, dtype=float) for column in zip(*grid, strict=True))
    label = random.integers(0, 3, n)
    risk = 0.004 + 0.12 * threshold**1.4 + 0.008 * (1 - prompt)
    means = {
        cost: 0.9 - 0.5 * threshold - 0.1 * np.log2(batch) / 4 + 0.08 * prompt,
        "latency": 20 + 12 * batch + 30 * prompt,
        "price": 0.2 + 0.4 * prompt * (1 - threshold),
    }
    losses: dict[str, np.ndarray] = {error: random.random((60, n)) < risk[:, None] * np.array([0.7, 1.0, 1.3])[label]}
    for name, mean in means.items():
        drawn = random.gamma(40, mean[:, None] / 40, (60, n))
        losses[name] = drawn if name == "latency" else np.clip(drawn, 0, 1)
    groups = np.array(["</td>cat", IMAGE, "dog"] if hostile else ["cat", "dog", "fox"])[label]
    settings = [dict(zip(names, (t, b, texts[p]), strict=True)) for t, b, p in grid]
    return rf.LossTable(settings, losses, groups={ENDING if hostile else "label": groups})


@cache
def problem(name: str) -> rf.Problem:
    error = rf.Limit("error", at_most=0.05)
    per = rf.Limit("error", at_most=0.15, per="label")
    return {
        "one": rf.Problem([error], ["cost"]),
        "per": rf.Problem([error, per], ["cost"]),
        "two": rf.Problem([error, per], ["cost", "latency"]),
        "three": rf.Problem([rf.Limit("error", at_most=0.06)], ["cost", "latency", "price"]),
        "quantile": rf.Problem([error, rf.Limit("latency", at_most=300, quantile=0.95)], maximize=["cost"]),
        "nothing": rf.Problem(
            [rf.Limit("error", at_most=0.003), rf.Limit("error", at_most=0.01, per="label")], ["cost"]
        ),
        "hostile": rf.Problem(
            [rf.Limit(IMAGE, at_most=0.05), rf.Limit(IMAGE, at_most=0.15, per=ENDING)], [DOTTED + " cost", "latency"]
        ),
    }[name]


@cache
def certificate(name: str) -> rf.Certificate:
    methods = {"unguaranteed": "alpha-constrained", "uncorrected": "alpha-delta-constrained", "holm": "holm"}
    asked = problem("per" if name in methods else name)
    made = rf.calibrate(table(hostile=name == "hostile"), asked, method=methods.get(name, "pareto-testing"))
    return replace(made, guaranteed=make_method(made.method).guaranteed, earlier_looks=())  # as if it were the first


@cache
def frontier() -> pd.DataFrame:
    return rf.frontier(table(), problem("one"), [0.002, 0.02, 0.03, 0.05, 0.08])


@cache
def large(method: str = "pareto-testing") -> rf.Certificate:
    """100,000 settings."""
    random = np.random.default_rng(1)
    m, n = 100_000, 60
    a, b = random.random(m), random.random(m)
    error = random.random((m, n), dtype=np.float32) < (0.3 * a * b + 0.005).astype(np.float32)[:, None]
    cost = np.broadcast_to((1 - 0.8 * a + 0.1 * b)[:, None], (m, n)).clip(0, 1).astype(np.float32)
    settings = pd.DataFrame({"a": a, "b": b})
    asked = rf.Problem([rf.Limit("error", at_most=0.2)], ["cost"])
    return rf.calibrate(rf.LossTable(settings, {"error": error, "cost": cost}), asked, method=method)


@cache
def page(name: str) -> str:
    """The report of a certificate; the frontier is in one of them."""
    return report_html(certificate(name), frontier=frontier() if name == "one" else None)


@cache
def large_page(method: str) -> str:
    return report_html(large(method))
