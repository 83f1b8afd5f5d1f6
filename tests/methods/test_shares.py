"""Shares by the numbers of examples and settings alone."""

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront.methods._plan import default_holm_share, parameters, planning_share, resolve_defaults
from riskfront.methods._similarity import similarity
from tests.support.tables import random_table


@pytest.mark.parametrize(
    ("n", "m", "share", "holm"),
    [
        (1000, 17, 0.3, 0.05),
        (1000, 400, 0.3, 0.01),
        (5000, 6480, 0.15, 0.01),
        (200, 6480, 0.25, 0.01),
        (200, 810, 0.258, 0.01),
        (10, 10, 0.3, 0.05),
    ],
)
def test_by_numbers(n: int, m: int, share: float, holm: float) -> None:
    assert planning_share(n, m) == share
    assert default_holm_share(n, m) == holm


def test_fall_with_the_number_of_settings() -> None:
    shares = [planning_share(5000, m) for m in (10, 400, 800, 2000, 6480, 10**6)]
    assert shares == sorted(shares, reverse=True)
    assert all(0.15 <= share <= 0.3 for share in shares)


def test_what_counts_is_how_many_settings_are_alike() -> None:
    """Twenty thresholds of each of a hundred pairs of models: smoothing has twenty settings to average, not two thousand."""
    assert planning_share(1582, 2211, alike=20) == 0.3
    pairs = [{"pair": f"p{i}", "t": t / 7 + i} for i in range(100) for t in range(20)]
    assert similarity(pd.DataFrame([*pairs, {"pair": "alone", "t": "none"}])).together == 20


def test_only_what_was_left_open_is_settled() -> None:
    method = rf.ParetoTesting(opt_fraction=0.4).resolve_defaults(1000, 6480)
    assert (method.opt_fraction, method.holm_share) == (0.4, 0.01)
    table = random_table()
    assert resolve_defaults(method, table, 10) == method
    assert resolve_defaults(rf.HolmTesting(), table, 10) == rf.HolmTesting()


def test_settings_that_are_not_alike_get_a_larger_net() -> None:
    table = random_table()
    names = rf.LossTable([{"prompt": f"p{i}"} for i in range(20)], {"cost": table.losses("cost")})
    assert resolve_defaults(rf.ParetoTesting(), names, 200).holm_share == 0.5
    assert resolve_defaults(rf.ParetoTesting(), table, 200).holm_share == 0.05


def test_the_paper_s_form_is_one_name_away() -> None:
    paper = rf.ParetoTesting.as_in_the_paper()
    assert resolve_defaults(paper, random_table(), 1000) == paper
    assert parameters(paper) | {"max_settings": 0} == {
        "opt_fraction": 0.5,
        "max_settings": 0,
        "prune": True,
        "smooth": False,
        "holm_share": 0.0,
        "by_p_value": False,
    }
    assert paper.in_words() == "Pareto testing as in the paper"
    assert "fallback test" in rf.ParetoTesting().in_words()


def test_certificates_record_what_was_settled() -> None:
    losses = {"error": np.zeros((3, 200), dtype=bool), "cost": np.ones((3, 200))}
    found = rf.calibrate(rf.LossTable([{"t": i} for i in range(3)], losses), rf.Problem("error <= 0.1", "cost"))
    assert found.parameters["opt_fraction"] == planning_share(200, 3)
    assert found.parameters["holm_share"] == default_holm_share(200, 3)
