"""Inspect's early stopping, with inspect-ai itself and its mock model."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from riskfront._calibration.sequential.inspect_stopping import InspectStopping
from riskfront.errors import InvalidInputError

inspect_ai = pytest.importorskip("inspect_ai")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("right", "verdict"), [(0.99, "passed"), (0.4, "failed")])
def test_samples_of_a_model_that_is_decided_are_not_run(
    right: float, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput, get_model
    from inspect_ai.scorer import match

    monkeypatch.setenv("INSPECT_LOG_DIR", str(tmp_path))
    # Inspect counts the tokens of its mock model with a vocabulary that tiktoken would fetch from the network
    monkeypatch.setattr("tiktoken.get_encoding", lambda name: SimpleNamespace(encode=lambda text, **_: list(text)))
    n = 120
    samples = [Sample(input=f"question {k}", target="yes", id=k) for k in range(n)]
    wrong = {k for k in range(n) if (k * 37) % 100 >= 100 * right}
    outputs = [ModelOutput.from_content("mockllm/model", "no" if k in wrong else "yes") for k in range(n)]
    stopping = InspectStopping("error <= 0.15")
    task = Task(dataset=samples, scorer=match(), early_stopping=stopping)
    logs = eval(task, model=get_model("mockllm/model", custom_outputs=outputs), display="none", max_samples=1)
    assert logs[0].status == "success"
    assert stopping.verdict == verdict
    assert int(stopping.bets.seen[0]) < n / 2
    assert len(logs[0].samples or []) < n / 2
    summary = logs[0].results.early_stopping
    assert summary.manager == "riskfront"
    assert summary.metadata["verdict"] == verdict


def test_other_limits_are_refused() -> None:
    for limit in ("error <= 0.1 per label", "score >= 0.9", "error <= 3"):
        with pytest.raises(InvalidInputError):
            InspectStopping(limit)
