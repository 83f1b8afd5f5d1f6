"""One call of the user's function: whatever it returns or raises is an outcome, said in a sentence."""

import sys
from typing import Any

import numpy as np
import pytest

from riskfront.errors import EvaluationError
from riskfront.evaluation.evaluation import evaluate
from riskfront.evaluation.outcome import Failure, outcome_of

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
            "loss 'error' must have a value everywhere; got a masked array with masked values",
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
    assert outcome(lambda c, x: {"error": np.ma.masked_array(np.ones(6))})["error"].tolist() == [1.0] * 6


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
        found = outcome(lambda c, x, tensor=tensor: {"error": tensor})["error"]
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
    with pytest.warns(UserWarning, match="1 of 4 settings were left out"):
        assert evaluate(leaves, EXAMPLES, configs, n_jobs=n_jobs, on_error="skip").n_configs == 3
