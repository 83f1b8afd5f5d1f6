"""Certificates of the first version, written down by it, are still verified: with its stakes, its plans and its one arm."""

from pathlib import Path

import numpy as np
import pytest

import riskfront as rf

OLD = Path(__file__).parent / "old_certificates"


def table() -> rf.LossTable:
    """What the certificates were made of. No random generator, so that it is the same in every version of numpy."""
    i, j = np.arange(12)[:, None], np.arange(500)[None, :]
    u = ((i * 37 + j * j * 11 + j * 101) % 997) / 997
    regret = np.where(u < 0.5, 0.02 * (i + 1) * u, 0.01)
    losses = {"regret": regret, "error": u < 0.01 * (i + 1), "cost": 1 - 0.05 * i - 0.01 * u}
    return rf.LossTable([{"t": int(k)} for k in range(12)], losses)


@pytest.mark.parametrize("name", ["betting", "binomial"])
def test_old_certificates_are_verified(name: str) -> None:
    old = rf.Certificate.load(OLD / f"{name}.json")
    assert rf.verify(old, table()) == []
    assert old.problem.stakes == "fixed"
    assert set(old.tested["arm"]) == {"path"}


def test_what_is_made_now_differs() -> None:
    """Or the test above would say nothing: the same question has another answer now."""
    old = rf.Certificate.load(OLD / "betting.json")
    now = rf.calibrate(table(), rf.Problem(old.problem.limits, ["cost"]), seed=1)
    assert now.parameters != old.parameters
    both = old.tested.merge(now.tested, on="t")
    assert not np.allclose(both["p_value_x"], both["p_value_y"])
