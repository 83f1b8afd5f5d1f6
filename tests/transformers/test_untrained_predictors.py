"""Token predictors are trained only where the grid drops something; elsewhere no token can be dropped by mistake."""

from pathlib import Path

import pytest

import riskfront as rf
from riskfront.errors import InvalidInputError
from riskfront.transformers import AdaptiveClassifier, FineTuning, Grid, HeadTraining, Plan, Rows, Training, accelerate
from tests.support import tiny_transformers as tiny
from tests.support.command_line import riskfront


@pytest.mark.filterwarnings("ignore:.* exits answer")
def test_exits_alone_need_no_token_predictors(tmp_path: Path) -> None:
    encoder, frame = tiny.save_encoder(tmp_path / "encoder"), tiny.make_frame(600, 41)
    how = Training(FineTuning(epochs=1), heads=HeadTraining(epochs=1), max_length=32)
    problem = rf.Problem(["accuracy_drop <= 0.2"], minimize="flops")
    plan = Plan(how, Rows(validation=50), Grid(1, 1, 8))
    made = accelerate(encoder, frame, problem, tmp_path / "out", plan, progress=False)
    steps = {path.name for path in (tmp_path / "out" / "training").iterdir()}
    assert steps == {"1-fine-tuned", "2-head-scores", "4-exit-heads"}
    found = AdaptiveClassifier.from_pretrained(tmp_path / "out")
    texts = frame["text"].tolist()[:20]
    assert found.network.fingerprint == made.network.fingerprint
    assert (found.predict(texts) == made.predict(texts)).all()
    with pytest.raises(InvalidInputError, match="token predictors were trained; here they were not"):
        found.with_setting({"tau_token": 0.1}).predict(texts)
    frame.assign(split="test").to_csv(tmp_path / "data.csv", index=False)
    asked = ["--data", tmp_path / "data.csv", "--limit", "accuracy_drop <= 0.2", "--leave-out-repeats"]
    done = riskfront("transformers", "certify", tmp_path / "out", *asked, "--token-thresholds", 4)
    assert done.returncode == 2
    assert "Train again with several" in done.stderr
