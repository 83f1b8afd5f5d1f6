"""Texts that have answered a question are spent: a folder writes it down, and the confidence of the next answer says so."""

from pathlib import Path

import riskfront as rf
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
    tiny.make_frame(400, 21).assign(split="test").to_csv(tmp_path / "data.csv", index=False)
    assert looks("--limit", "accuracy_drop <= 0.2")[0] == 0, "new texts are not spent"
