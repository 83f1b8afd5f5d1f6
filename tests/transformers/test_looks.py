"""Texts that have answered a question are spent: a folder writes it down, and the confidence of the next answer says so."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import riskfront as rf
from riskfront._calibration.certificates.uses_of_test_set import UseOfTestSet
from riskfront._data.identity.fingerprints import TEXT_BYTES
from riskfront.errors import StoreError
from riskfront.transformers import FineTuning, Grid, HeadTraining, Plan, Rows, Training, accelerate
from riskfront.transformers._certifying import record_question
from tests.support import tiny_transformers as tiny
from tests.support.command_line import riskfront

FEW = ["--head-thresholds", 1, "--token-thresholds", 1, "--exit-thresholds", 3]


def test_every_other_question_to_the_same_texts_counts(classifier_folder: Path, tmp_path: Path) -> None:
    tiny.make_frame(400, 20).assign(split=["train", "test"] * 200).to_csv(tmp_path / "data.csv", index=False)
    out = tmp_path / "out"
    train = ["transformers", "train", "--model", classifier_folder, "--data", tmp_path / "data.csv", "--out", out]
    assert riskfront(*train).returncode == 0
    command = ["transformers", "certify", out, "--data", tmp_path / "data.csv", *FEW]

    def looks(*more: object) -> tuple[int, str]:
        done = riskfront(*command, *more)
        assert done.returncode == 0, done.stderr
        found = rf.Certificate.load(out / "certificate.json")
        return len(found.earlier_looks), found.verdict()

    first = looks("--limit", "accuracy_drop <= 0.2")
    assert first[0] == 0
    assert first[1].startswith("With 90 % confidence, ")
    assert looks("--limit", "accuracy_drop <= 0.2") == first, "to repeat a question is no new look"
    count, verdict = looks("--limit", "accuracy_drop <= 0.25")
    assert count == 1
    assert verdict.startswith("With 80 % confidence, counting both uses of the same testing examples")
    assert looks("--limit", "accuracy_drop <= 0.2", "--seed", 5)[0] == 2, "another split of the same texts"
    more = [*FEW[:-1], 4]
    assert looks("--limit", "accuracy_drop <= 0.2", *more[-2:])[0] == 3, "other thresholds"
    assert riskfront("verify", out / "certificate.json", out).returncode == 0
    assert looks("--limit", "accuracy_drop <= 0.2", "--calibration-rows", 100)[0] == 4, "some of the same texts"
    assert looks("--limit", "accuracy_drop <= 0.2", "--calibration-rows", 100)[0] == 4, (
        "to repeat a question is no new look"
    )
    assert looks("--limit", "accuracy_drop <= 0.2")[0] == 0, "the first question gives its first answer"
    new = tiny.make_frame(400, 21).assign(split="test")
    new.to_csv(tmp_path / "data.csv", index=False)
    assert looks("--limit", "accuracy_drop <= 0.2")[0] == 0, "new texts are not spent"
    both = pd.concat([new.tail(100), tiny.make_frame(400, 20).iloc[1::2].assign(split="test")])
    both.to_csv(tmp_path / "data.csv", index=False)
    assert looks("--limit", "accuracy_drop <= 0.2")[0] == 6, "some texts of both files"


@pytest.mark.filterwarnings("ignore:.* exits answer no better")
def test_a_model_that_was_trained_again_is_another_question(encoder_folder: Path, tmp_path: Path) -> None:
    """Two exit thresholds are the same numbers for every model; so are those of abstaining."""
    frame = tiny.make_frame(300, 20).assign(split=["train", "test", "test"] * 100)
    problem = rf.Problem(["error <= 0.2"], minimize="flops", delta=0.05)
    for known, epochs in enumerate((1, 2, 3)):
        training = Training(FineTuning(epochs=epochs), heads=HeadTraining(epochs=1), max_length=tiny.MAX_LENGTH)
        plan = Plan(training, Rows(validation=20), Grid(head=1, token=1, layer=2))
        for _ in range(2):
            found = accelerate(encoder_folder, frame, problem, tmp_path, plan, progress=False).certificate
            assert found is not None
            assert len(found.earlier_looks) == known
    assert found.delta_of_all_looks == pytest.approx(0.15)
    other = replace(plan, training=replace(training, seed=1))
    elsewhere = accelerate(encoder_folder, frame, problem, tmp_path / "other", other, progress=False).certificate
    assert elsewhere is not None
    assert len(elsewhere.earlier_looks) == 3, "a process knows what it asked for other folders"


def test_damage_to_what_is_known_of_texts_is_said(tmp_path: Path) -> None:
    use = UseOfTestSet("a", "a limit", 0.1)
    assert record_question(tmp_path, [b"0" * TEXT_BYTES, b"1" * TEXT_BYTES], use) == ()
    assert len(record_question(tmp_path, [b"1" * TEXT_BYTES, b"2" * TEXT_BYTES], use)) == 1
    assert len(record_question(tmp_path / "other", [b"1" * TEXT_BYTES], use)) == 2, "the same process"
    for kind in (3, 4):  # a frequent text comes in every sample
        many = [bytes([kind, i]) * (TEXT_BYTES // 2) for i in range(30)]
        assert record_question(tmp_path, [*many, b"9" * TEXT_BYTES], use) == ()
    first = min((tmp_path / "uses" / "texts").iterdir())
    first.write_bytes(first.read_bytes()[:-1] + b"x")
    with pytest.raises(StoreError, match="must say which texts were used"):
        record_question(tmp_path, [b"3" * TEXT_BYTES], use)
