"""Inspect's early stopping, with inspect-ai itself and its mock model."""

from collections.abc import Callable, Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from riskfront._calibration.sequential.inspect_stopping import InspectStopping
from riskfront.errors import InvalidInputError

inspect_ai = pytest.importorskip("inspect_ai")


N = 120


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs questions with a mock model that is right so often; the log."""
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput, get_model
    from inspect_ai.scorer import match
    from inspect_ai.solver import solver

    monkeypatch.setenv("INSPECT_LOG_DIR", str(tmp_path))
    # Inspect counts the tokens of its mock model with a vocabulary that tiktoken would fetch from the network
    monkeypatch.setattr("tiktoken.get_encoding", lambda name: SimpleNamespace(encode=lambda text, **_: list(text)))

    def run(stopping: InspectStopping, right: float, fails: Collection[int] = (), **options: Any) -> Any:
        @solver
        def sometimes_failing() -> Any:
            async def solve(state: Any, generate: Any) -> Any:
                if state.sample_id in fails:
                    raise RuntimeError("this sample fails")
                return await generate(state)

            return solve

        samples = [Sample(input=f"question {k}", target="yes", id=k) for k in range(N)]
        wrong = {k for k in range(N) if (k * 37) % 100 >= 100 * right}
        outputs = [ModelOutput.from_content("mockllm/model", "no" if k in wrong else "yes") for k in range(N)]
        task = Task(
            dataset=samples, solver=sometimes_failing(), scorer=match(), early_stopping=stopping, fail_on_error=False
        )
        model = get_model("mockllm/model", custom_outputs=outputs)
        return eval(task, model=model, display="none", max_samples=1, **options)[0]

    return run


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("right", "verdict"), [(0.99, "passed"), (0.4, "failed")])
def test_samples_of_a_model_that_is_decided_are_not_run(right: float, verdict: str, ran: Callable[..., Any]) -> None:
    stopping = InspectStopping("error <= 0.15")
    log = ran(stopping, right)
    assert log.status == "success"
    assert stopping.verdict == verdict
    assert int(stopping.bets.seen[0]) < N / 2
    assert len(log.samples or []) < N / 2
    summary = log.results.early_stopping
    assert summary.manager == "riskfront"
    assert summary.metadata["verdict"] == verdict


@pytest.mark.filterwarnings("ignore")
def test_samples_that_fail_count_as_the_worst_at_the_end(ran: Callable[..., Any]) -> None:
    few, many, scored = (InspectStopping("error <= 0.15") for _ in range(3))
    assert ran(few, 0.99, fails=[0, 7]).results.early_stopping.metadata["verdict"] == "passed"
    assert few.bets.total[0] >= 2
    assert ran(many, 0.99, fails=range(60)).results.early_stopping.metadata["verdict"] == "failed"
    log = ran(scored, 0.99, fails=[0, 7], score_on_error=True)
    assert scored.verdict == "passed"
    assert len(log.samples) < 0.7 * N  # nothing waited


@pytest.mark.filterwarnings("ignore")
def test_a_second_run_with_one_object_is_an_error(ran: Callable[..., Any]) -> None:
    stopping = InspectStopping("error <= 0.15")
    assert ran(stopping, 0.4).status == "success"
    again = ran(stopping, 0.99)
    assert again.status == "error"
    assert "serves one run of one model" in again.error.message


def test_other_limits_are_refused() -> None:
    for limit in ("error <= 0.1 per label", "score >= 0.9", "error <= 3"):
        with pytest.raises(InvalidInputError):
            InspectStopping(limit)
