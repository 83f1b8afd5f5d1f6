"""The best setting that failed: named with the limit that stopped it and the examples it would take."""

import json

import numpy as np
import pytest

import riskfront as rf
from riskfront._reporting import sentences
from riskfront.statistics._sample_size import power

ERRORS = (0.0, 0.01, 0.04, 0.3)


def table(n: int = 1000, bets: bool = False) -> rf.LossTable:
    """Cheaper and cheaper settings with exactly these error rates; the third is too near to the limit to be certified."""
    error = np.zeros((4, n), dtype=bool)
    for row, rate in zip(error, ERRORS, strict=True):
        row[:: round(1 / rate) if rate else n + 1] = bool(rate)
    cost = np.array([1.0, 0.8, 0.5, 0.1])[:, None] + 0.001 * np.random.default_rng(0).random((4, n))
    return rf.LossTable([{"k": k} for k in range(4)], {"error": error * 1.0 if bets else error, "cost": cost})


@pytest.fixture(params=[False, True], ids=["0/1", "bets"])
def certificate(request) -> rf.Certificate:
    problem = rf.Problem("error <= 0.05", minimize="cost")
    return rf.calibrate(table(bets=request.param), problem, method=rf.ParetoTesting(opt_fraction=0.3, holm_share=0.0))


def test_it_is_named(certificate: rf.Certificate) -> None:
    assert certificate.config == {"k": 1}
    (miss,) = certificate.near_misses
    assert miss["setting"] == {"k": 2}
    assert miss["limit"] == "error <= 0.05"
    assert miss["p_value"] > miss["tested_at"] == 0.1
    assert miss["examples_needed"] > miss["examples"] == certificate.n_test
    if certificate.measured["test"].iloc[0] == "binomial":
        reached = power(miss["examples_needed"], miss["measured"], 0.05, 0.1)
        assert 0.45 < reached < 0.6


def test_it_is_shown_and_verified(certificate: rf.Certificate, tmp_path) -> None:
    (words,) = sentences.near_misses(certificate)
    assert "A near miss: k = 2" in words
    assert "failed 'error <= 0.05'" in words
    rf.write_report(certificate, tmp_path / "page.html")
    assert "A near miss: k = 2" in (tmp_path / "page.html").read_text()
    certificate.save(tmp_path / "c.json")
    again = rf.Certificate.load(tmp_path / "c.json")
    data = table(bets=certificate.measured["test"].iloc[0] == "betting")
    assert rf.verify(again, data) == []
    claimed = json.loads((tmp_path / "c.json").read_text())
    claimed["near_misses"][0]["measured"] = 0.01
    assert rf.verify(rf.Certificate.from_dict(claimed), data) != []


def test_what_measures_beyond_the_limit_is_no_near_miss() -> None:
    problem = rf.Problem("error <= 0.02", minimize="cost")
    found = rf.calibrate(table(), problem, method=rf.ParetoTesting(opt_fraction=0.3, holm_share=0.0))
    assert found
    assert found.near_misses == []
