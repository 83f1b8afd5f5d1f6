"""The examples on which a function fails are found, those beside them keep their outcomes, and chance is no way out."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import riskfront as rf
from riskfront._data.stores.loss_store import LossStore
from riskfront._running.evaluation import failing_examples
from riskfront._running.evaluation.failing_examples import MOST_CALLS, MOST_PASSES, outcome_with_gaps
from riskfront._running.evaluation.outcome import Evaluated, Failure

BAD_ONES = st.integers(1, 3000).flatmap(
    lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1), max_size=min(n, 40)))
)


class Crashes:
    """Fails whenever a bad example is among those it is called with; counts calls, and how often it sees each example."""

    def __init__(self, n: int, bad: set[int]) -> None:
        self.bad, self.calls, self.seen = bad, 0, np.zeros(n, dtype=int)

    def __call__(self, config: dict[str, Any], examples: Any) -> dict[str, Any]:
        numbers = np.asarray(examples)
        self.calls += 1
        self.seen[numbers] += 1
        if self.bad & set(numbers.tolist()):
            raise RuntimeError("crash")
        return {"error": numbers % 2 == 0, "cost": numbers / 10}


def missing(outcome: Any, name: str = "error") -> list[int]:
    return np.flatnonzero(np.ma.getmaskarray(outcome.losses[name])).tolist()


@given(BAD_ONES)
@settings(max_examples=60, deadline=None)
def test_exactly_the_bad_examples_are_missing(given_ones: tuple[int, set[int]]) -> None:
    n, bad = given_ones
    losses = Crashes(n, bad)
    outcome = outcome_with_gaps(losses, {"t": 1}, np.arange(n))
    assert losses.calls <= 1 + MOST_CALLS + n
    if len(bad) == n:
        assert isinstance(outcome, Failure)
        return
    if isinstance(outcome, Failure):  # one example of each part was tried alone
        assert len(bad) >= 16
        return
    assert missing(outcome) == missing(outcome, "cost") == sorted(bad)
    good = np.setdiff1d(np.arange(n), list(bad))
    assert outcome.losses["error"].dtype == bool
    assert np.array_equal(np.ma.getdata(outcome.losses["error"])[good], good % 2 == 0)
    assert np.array_equal(np.ma.getdata(outcome.losses["cost"])[good], good / 10)
    assert losses.seen.max() <= 1 + np.ceil(np.log(max(n, 2)) / np.log(16)) + 2


@pytest.mark.parametrize("kind", [list, tuple, pd.Series, np.asarray])
def test_parts_of_any_container(kind: Callable[[Any], Any]) -> None:
    outcome = outcome_with_gaps(Crashes(100, {3, 97}), {"t": 1}, kind(range(100)))
    assert missing(outcome) == [3, 97]


def test_a_setting_that_fails_everywhere_takes_few_calls() -> None:
    losses = Crashes(10_000, set(range(10_000)))
    assert isinstance(outcome_with_gaps(losses, {"t": 1}, np.arange(10_000)), Failure)
    assert losses.calls == 1 + 16 + 16


def test_calls_are_bounded_and_what_was_not_looked_into_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failing_examples, "MOST_CALLS", -6_000)
    n = 8_000
    bad = set(np.random.default_rng(0).choice(n, n // 10, replace=False).tolist())
    losses = Crashes(n, bad)
    outcome = outcome_with_gaps(losses, {"t": 1}, np.arange(n))
    assert losses.calls <= 1 + 2_000
    assert bad < set(missing(outcome)) < set(range(n))


def test_a_part_whose_failure_cannot_be_found_again_is_missing() -> None:
    """Memory enough for seven examples, not for more: nobody knows which one was too many."""
    seen = []

    def losses(config: dict[str, Any], examples: Any) -> dict[str, Any]:
        seen.append(len(examples))
        if len(examples) > 7 and 0 in examples:
            raise MemoryError
        return {"error": np.zeros(len(examples))}

    found = outcome_with_gaps(losses, {"t": 1}, np.arange(1600))
    assert isinstance(found, Evaluated)
    assert missing(found) == list(range(100))
    assert sum(seen) <= 1600 * (1 + MOST_PASSES)
    together = outcome_with_gaps(lambda c, x: losses(c, x) if len(x) < 8 else {}[0], {"t": 1}, np.arange(100))
    assert isinstance(together, Failure)
    assert "on all examples together, and on none of 16 parts of them" in together.reason


@pytest.mark.parametrize("rate", [0.005, 0.08, 0.3])
def test_failures_of_chance_are_missing_as_often_as_they_happen_and_independently(rate: float) -> None:
    """Each call fails anew. What is missing is distributed as if each example had been called once and alone."""
    random = np.random.default_rng(7)
    rates = np.where(np.arange(40) % 2 == 0, rate, rate / 2)

    def losses(config: dict[str, Any], examples: Any) -> dict[str, Any]:
        if (random.random(len(examples)) < rates[examples]).any():
            raise TimeoutError
        return {"error": np.zeros(len(examples))}

    runs = 1500
    gaps = np.ones((runs, 40), dtype=bool)
    for run in range(runs):
        outcome = outcome_with_gaps(losses, {"t": 1}, np.arange(40))
        if isinstance(outcome, Evaluated):
            gaps[run] = np.ma.getmaskarray(outcome.losses["error"])
    for kind in (0, 1):
        share, slack = gaps[:, kind::2].mean(), 4 * np.sqrt(rates[kind] / (20 * runs))
        assert share > rates[kind] - slack
        if rate > 0.05:  # else the search for an example is given up now and then, and all are missing
            assert share < rates[kind] + slack
    none = ~gaps[:, ::2].any(axis=1), ~gaps[:, 1::2].any(axis=1)  # of the planning examples, of the testing examples
    both = (none[0] & none[1]).mean()
    assert both == pytest.approx(none[0].mean() * none[1].mean(), abs=4 * np.sqrt(both / runs) + 1e-3)


def test_a_part_with_other_losses_or_shapes_fails() -> None:
    def losses(config: dict[str, Any], examples: Any) -> dict[str, Any]:
        if 5 in examples:
            return {"error": np.zeros(len(examples)), "more": 1} if len(examples) > 1 else {"eror": np.zeros(1)}
        return {"error": np.zeros(len(examples))}

    assert missing(outcome_with_gaps(losses, {"t": 1}, np.arange(40))) == [5]


def test_nan_in_a_cost_touches_nothing_else() -> None:
    def losses(config: dict[str, Any], examples: Any) -> dict[str, Any]:
        if 5 in examples:
            raise RuntimeError("crash")
        return {"error": examples % 2 == 0, "cost": np.where(examples == 7, np.nan, 1.0)}

    outcome = outcome_with_gaps(losses, {"t": 1}, np.arange(40))
    assert (missing(outcome), missing(outcome, "cost")) == ([5], [5, 7])


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_tables_and_stores_hold_what_is_missing(n_jobs: int, tmp_path: Any) -> None:
    def losses(config: dict[str, Any], examples: Any) -> dict[str, Any]:
        if config["t"] == 2 and 5 in examples:
            raise RuntimeError("crash")
        if config["t"] == 0:
            raise RuntimeError("always")
        cost = np.where((examples == 7) & (config["t"] == 1), np.nan, config["t"])
        return {"error": examples % 3 < config["t"] / 2, "cost": cost}

    configs = [{"t": t} for t in range(4)]
    options: dict[str, Any] = {"on_error": "skip", "n_jobs": n_jobs, "bounds": {"cost": (0.5, 5)}}
    with pytest.warns(UserWarning, match="failed at 3 of 4 settings"):
        memory = rf.evaluate(losses, np.arange(40), configs, **options)
    with pytest.warns(UserWarning, match="failed at 3 of 4 settings"):
        stored = rf.evaluate(losses, np.arange(40), configs, store=tmp_path / "run.zarr", **options)
    lazy = LossStore(tmp_path / "run.zarr").table(configs, lazy=True)
    for table in (memory, stored, lazy):
        assert table.is_binary("error")
        error, cost = np.isnan(table.losses("error")), np.isnan(table.losses("cost"))
        assert np.argwhere(error[1:]).tolist() == [[1, 5]]
        assert np.argwhere(cost[1:]).tolist() == [[0, 7], [1, 5]]
        assert error[0].all()
        assert cost[0].all()
    assert memory.sha256 == stored.sha256 == lazy.sha256
    one = np.random.default_rng(0).integers(0, 4, 7)
    for name in ("error", "cost"):
        assert np.array_equal(lazy.select(one).losses(name), stored.losses(name)[one], equal_nan=True)


def test_a_changed_mask_is_found(tmp_path: Any) -> None:
    def losses(config: dict[str, Any], examples: Any) -> dict[str, Any]:
        return {"error": np.where(examples == 5, np.nan, 0.0)}

    with pytest.warns(UserWarning, match="nan for example 5"):
        rf.evaluate(losses, np.arange(40), [{"t": 1}], store=tmp_path / "run.zarr", on_error="skip")
    (chunk,) = (tmp_path / "run.zarr" / "missing").glob("*/error/0.0")
    data = bytearray(chunk.read_bytes())
    data[5] = 0
    chunk.write_bytes(data)
    for lazy in (True, False):
        with pytest.raises(rf.StoreError, match="SHA-256 differs"):
            LossStore(tmp_path / "run.zarr").table(lazy=lazy).losses("error")


def test_examples_without_parts_are_said() -> None:
    class Odd:
        def __len__(self) -> int:
            return 40

    def losses(config: dict[str, Any], examples: Any) -> dict[str, Any]:
        raise RuntimeError("crash")

    outcome = outcome_with_gaps(losses, {"t": 1}, Odd())
    assert isinstance(outcome, Failure)
    assert outcome.fatal
    assert "must be a sequence with positions" in outcome.reason


def test_what_the_docstring_of_evaluate_says() -> None:
    said = " ".join((rf.evaluate.__doc__ or "").split())
    assert f"{MOST_CALLS:,} times and once for each example, with no more than {MOST_PASSES} times" in said
