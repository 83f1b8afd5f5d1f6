"""The benchmark of real logs, on simulated ones: what it counts is right."""

import pandas as pd
import pytest

import riskfront as rf
from benchmarks.language_models import Case, in_memory, markdown, results
from tests.support.runs import simulated_runs


def test_rows_of_a_case():
    cascade = rf.Cascade(simulated_runs(n=800), confidence="confidence", thresholds=4)
    table = in_memory(cascade)
    case = Case("simulated", table, "m2", "cost", (0.05, 0.2))
    rows = pd.DataFrame(results(case, trials=4, n=700, delta=0.1))
    at = rows.set_index(["method", "drop"])["cost"]
    costs, scores = table.means("cost")[:, 0], table.means("score")[:, 0]
    full = table.reference("m2")
    assert at["the reference itself", 0.05] == pytest.approx(costs[full])
    for drop in case.drops:
        holds = scores[full] - scores <= drop + 1e-12
        assert at["the best that truly holds", drop] == pytest.approx(costs[holds].min())
        assert at["the best that truly holds", drop] <= at["the best single model that truly holds (always)", drop]
    assert rows["violated"].between(0, 1).all()
    text = markdown(rows, 0.1, 4, 1.0)
    assert "| pareto-testing |" in text
    assert "drop <= 0.05 | drop <= 0.2 |" in text
