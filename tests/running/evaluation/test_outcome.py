"""One call of the user's function: whatever it returns or raises is an outcome, said in a sentence."""

import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest

from riskfront._running.evaluation.evaluate import evaluate
from riskfront._running.evaluation.outcome import Evaluated, Failure, outcome_of
from riskfront.errors import EvaluationError

EXAMPLES = np.linspace(0, 1, 6)


def outcome(function: Any) -> Any:
    return outcome_of(function, {"t": 1}, EXAMPLES)


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def raises(error: BaseException) -> Any:
    def function(config: dict[str, Any], examples: Any) -> Any:
        raise error

    return function


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (raises(UnspeakableError()), "failed with UnspeakableError: (its text cannot be shown)"),
        (raises(SystemExit("bye")), "failed with SystemExit: bye"),
        (raises(StopIteration()), "failed with StopIteration"),
        (lambda c, x: sys.exit(3), "failed with SystemExit: 3"),
        (
            lambda c, x: {"error": np.ma.masked_array(np.zeros(6), mask=np.arange(6) == 2)},
            "loss 'error' must be finite everywhere; got a masked value for example 2: return the worst loss for an example",
        ),
        (lambda c, x: {"error": np.zeros(6, complex)}, "'error' must hold numbers; got array([0.+0.j, 0.+0.j, 0.+0.j"),
    ],
)
def test_what_goes_wrong_is_a_failure(function: Any, sentence: str) -> None:
    failure = outcome(function)
    assert isinstance(failure, Failure)
    assert sentence in failure.reason
    assert "\n" not in failure.reason


def test_a_masked_array_without_masked_values_holds_numbers() -> None:
    assert outcome(lambda c, x: {"error": np.ma.masked_array(np.ones(6))}).losses["error"].tolist() == [1.0] * 6


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0.5, np.nan, 1, 0, 0, 0], np.float64),
        ([0.5, np.inf, 1, 0, 0, 0], np.float64),
        (np.float32([0.5, -np.inf, 1, 0, 0, 0]), np.float32),
        (np.ma.masked_array(np.ones(6, bool), mask=np.arange(6) == 1), np.bool_),
        (np.ma.masked_array(np.arange(6), mask=np.arange(6) == 1), np.int64),
        ([True, None, False, True, False, False], np.bool_),
        (pd.Series([1, None, 0, 1, 0, 0], dtype="Int8"), np.int64),
        (pd.Series([True, None, False, True, False, False], dtype="boolean"), np.bool_),
        ([0.5, None, 1, 0, 0, 0], np.float64),
    ],
)
def test_values_that_are_no_number_are_missing_if_gaps_are_allowed(values: Any, kind: Any) -> None:
    assert isinstance(outcome(lambda c, x: {"error": values}), Failure)
    found = outcome_of(lambda c, x: {"error": values, "cost": np.ones(6)}, {"t": 1}, EXAMPLES, gaps=True)
    assert isinstance(found, Evaluated)
    assert found.losses["error"].dtype == kind
    assert np.ma.getmaskarray(found.losses["error"]).tolist() == [False, True, False, False, False, False]
    assert np.ma.getdata(found.losses["error"])[1] == 0
    assert not np.ma.isMaskedArray(found.losses["cost"])
    assert found.failure is not None
    assert "loss 'error' must be finite everywhere" in found.failure.reason


def test_tensors_are_read_whatever_their_precision_and_gradient() -> None:
    torch = pytest.importorskip("torch")
    for tensor, kind in (
        (torch.ones(6, requires_grad=True), np.float32),
        (torch.nn.Parameter(torch.ones(6, dtype=torch.float64)), np.float64),
        (torch.ones(6, dtype=torch.bfloat16), np.float32),
        (torch.ones(6, dtype=torch.float16), np.float32),
        (torch.ones(6, dtype=torch.bool), np.bool_),
        (torch.ones(6, dtype=torch.int64), np.int64),
    ):
        found = outcome(lambda c, x, tensor=tensor: {"error": tensor}).losses["error"]
        assert found.dtype == kind
        assert found.tolist() == [1] * 6
    sparse = outcome(lambda c, x: {"error": torch.ones(6).to_sparse()})
    assert "must return losses that can be read as arrays" in sparse.reason or "must hold numbers" in sparse.reason


def test_a_function_may_use_its_array_again() -> None:
    buffer = np.zeros(6)

    def reuses(config: dict[str, Any], examples: Any) -> dict[str, Any]:
        buffer[:] = config["t"]
        return {"error": buffer}

    table = evaluate(reuses, EXAMPLES, [{"t": t} for t in (0.1, 0.5, 0.9)])
    assert table.losses("error")[:, 0].tolist() == [0.1, 0.5, 0.9]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_sys_exit_is_a_failure_at_its_setting(n_jobs: int) -> None:
    def leaves(config: dict[str, Any], examples: Any) -> dict[str, Any]:
        if config["t"] == 2:
            sys.exit("enough")
        return {"error": examples > 0.5}

    configs = [{"t": t} for t in range(4)]
    with pytest.raises(EvaluationError, match=r"SystemExit: enough, at the setting {'t': 2}"):
        evaluate(leaves, EXAMPLES, configs, n_jobs=n_jobs)
    with pytest.warns(UserWarning, match="failed at 1 of 4 settings"):
        table = evaluate(leaves, EXAMPLES, configs, n_jobs=n_jobs, on_error="skip")
    assert np.isnan(table.losses("error")).all(axis=1).tolist() == [False, False, True, False]


@pytest.mark.parametrize("examples", [[5, 2, 9], np.array([5, 2, 9]), ["c", "a", "b"], range(3), np.zeros((3, 2))])
def test_series_in_another_order_than_ids_or_positions_are_refused(examples: Any) -> None:
    """Examples without an index: that of the series tells nevertheless, where it is of their names or positions."""
    ids = list(examples) if np.ndim(examples) == 1 else [0, 1, 2]

    def failure(index: list[Any]) -> bool:
        return isinstance(
            outcome_of(lambda config, given: {"error": pd.Series([1.0, 0.0, 0.0], index)}, {}, examples), Failure
        )

    assert failure(ids[::-1])
    assert failure([2, 0, 1])
    assert not any(map(failure, (ids, [0, 1, 2], [70, 90, 80])))


def test_series_in_another_order_are_refused() -> None:
    """Sorted, and neither sorted back nor told so: the loss of one example would stand with the group of another."""
    examples = pd.DataFrame({"a": [3.0, 1.0, 2.0]}, index=[7, 8, 9])
    found = outcome_of(lambda config, given: {"error": given.sort_values("a")["a"] > 1}, {}, examples)
    assert isinstance(found, Failure)
    assert "in the order of the examples" in found.reason
    for losses in (
        lambda config, given: {"error": given["a"] > 1},
        lambda config, given: {"error": pd.Series(given["a"].to_numpy() > 1)},
        lambda config, given: {"error": given.sort_values("a")["a"].reindex(given.index) > 1},
    ):
        kept = outcome_of(losses, {}, examples)
        assert isinstance(kept, Evaluated)
        assert kept.losses["error"].tolist() == [True, False, True]
