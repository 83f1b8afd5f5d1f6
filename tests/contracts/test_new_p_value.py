"""A p-value is its function and a line in the registry: everything else follows from what it needs."""

import math

import numpy as np
import pytest

import riskfront as rf
from riskfront.statistics._p_values import P_VALUES, PValue
from riskfront.testing import check_p_value


def empirical_bernstein(total, squares, n, alpha):
    """Maurer and Pontil (2009), turned into a p-value: 2 exp(-x), x the root of the bound at alpha."""
    n = np.maximum(n, 0.0)
    many = np.maximum(n - 1, 1e-9)
    mean = total / np.maximum(n, 1e-9)
    variance = np.maximum(squares - total * mean, 0.0) / many
    b, c = np.sqrt(2 * variance / np.maximum(n, 1e-9)), 7 / (3 * many)
    gap = np.maximum(alpha - mean, 0.0)
    root = (-b + np.sqrt(b * b + 4 * c * gap)) / (2 * c)
    return np.where(n > 1, np.minimum(1.0, 2 * np.exp(-(root**2))), 1.0)


@pytest.fixture
def registered(monkeypatch):
    p_value = PValue("empirical-bernstein", "empirical Bernstein", "moments", empirical_bernstein)
    monkeypatch.setitem(P_VALUES, p_value.name, p_value)
    return p_value


def make(risks, n, seed=0):
    mean = np.array(risks)[:, None]
    losses = np.random.default_rng(seed).beta(20 * mean, 20 * (1 - mean), (len(risks), n))
    costs = np.repeat(np.linspace(1, 0.1, len(risks))[:, None], n, axis=1)
    return rf.LossTable([{"level": i} for i in range(len(risks))], {"loss": losses, "cost": costs})


def problem(alpha):
    return rf.Problem([rf.Limit("loss", at_most=alpha, p_value="empirical-bernstein")], ["cost"])


def test_from_a_table_to_a_verified_report(registered, tmp_path):
    table = make([0.02, 0.05, 0.09, 0.13, 0.3], 3_000)
    certificate = rf.calibrate(table, problem(0.1), seed=0)
    assert certificate
    assert set(certificate.measured["test"]) == {"empirical-bernstein"}
    rf.verify(certificate, table)
    rf.write_report(certificate, tmp_path / "report.html")
    assert "empirical Bernstein" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_diagnosis_says_how_many_examples_would_do(registered):
    found = rf.calibrate(make([0.085, 0.086], 60), problem(0.1), method="bonferroni", seed=0)
    assert not found
    assert found.diagnosis["examples_at_this_mean"] > 60
    n, level = found.diagnosis["examples_if_perfect"], found.diagnosis["tested_at"]
    assert empirical_bernstein(0.0, 0.0, n, 0.1) <= level < empirical_bernstein(0.0, 0.0, n - 1, 0.1)


def test_the_contract_of_p_values(registered):
    check_p_value(registered.name)


@pytest.mark.parametrize("name", [name for name, p_value in P_VALUES.items() if p_value.needs == "sum"])
def test_near_misses_ask_the_test_itself(name):
    """At as many examples as are named, the same mean passes; with a tenth fewer it does not."""
    n = P_VALUES[name].examples_like(0.08, None, 0.1, 0.1)
    assert P_VALUES[name].function(0.08 * n, n, 0.1) <= 0.1
    assert P_VALUES[name].function(0.08 * math.floor(0.9 * n), math.floor(0.9 * n), 0.1) > 0.1
