"""A small space whose settings are quickly evaluated is evaluated whole; a budget that was given is kept."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import riskfront as rf
from riskfront._running.tuning import search_loop

PROBLEM = rf.Problem(["error <= 0.3"], minimize=["cost"])
EXAMPLES = np.random.default_rng(0).random(400)
SPACE = rf.Space(k=rf.Int(0, 299))


def losses(config: dict[str, Any], examples: Any) -> dict[str, Any]:
    return {
        "error": np.asarray(examples) < 0.5 * config["k"] / 299,
        "cost": np.full(len(examples), 1 - config["k"] / 299),
    }


CLOCK = [0.0]


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time passes in slow settings only, whatever else the machine does."""
    monkeypatch.setattr(search_loop, "time", SimpleNamespace(monotonic=lambda: CLOCK[0]))


def slow(config: dict[str, Any], examples: Any) -> dict[str, Any]:
    CLOCK[0] += 0.03
    return losses(config, examples)


@pytest.mark.parametrize(
    ("function", "budget", "expected"),
    [(losses, None, 300), (losses, 12, 12), (slow, 12, 12)],
    ids=["all", "kept", "slow"],
)
def test_how_many_settings_are_evaluated(function: Any, budget: int | None, expected: int) -> None:
    certificate = rf.tune(function, EXAMPLES, SPACE, PROBLEM, budget=budget)
    assert certificate
    assert certificate.explored is not None
    assert len(certificate.explored) == expected


def test_a_slow_small_space_is_searched() -> None:
    certificate = rf.tune(slow, EXAMPLES, rf.Space(k=rf.Int(0, 4000)), PROBLEM, budget=None, search="random")
    assert certificate.explored is not None
    assert len(certificate.explored) == 200
