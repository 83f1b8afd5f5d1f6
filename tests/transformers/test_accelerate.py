"""accelerate end to end on a model and data from disk, from Python and on the command line."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import riskfront as rf
from riskfront.transformers import AdaptiveClassifier, FineTuning, Grid, HeadTraining, Plan, Rows, Training, accelerate
from riskfront.transformers._accelerate import read_parts
from riskfront.transformers._backbones.backbone import load_classifier
from riskfront.transformers._learning import training
from riskfront.transformers._learning.training import known_classes
from tests.support import tiny_transformers as tiny
from tests.support.command_line import riskfront
from tests.support.processes import finished

PROBLEM = rf.Problem([rf.Limit("accuracy_drop", at_most=0.1)], minimize="relative_cost")
LIMIT = ["--limit", "accuracy_drop <= 0.1"]
FEW = ["--head-thresholds", 2, "--token-thresholds", 3, "--exit-thresholds", 4]
PLAN = Plan(
    Training(FineTuning(epochs=3, learning_rate=2e-3), heads=HeadTraining(epochs=3, learning_rate=3e-3), max_length=32),
    Rows(validation=100),
    Grid(2, 3, 4),
)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    frame = tiny.make_frame(800, 20)
    frame.to_csv(folder / "random.csv", index=False)
    frame["split"] = np.where(np.arange(800) < 300, "train", "test")
    frame.to_parquet(folder / "marked.parquet")
    tiny.make_pairs(800, 21).to_csv(folder / "pairs.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def trained(classifier_folder: Path, texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `riskfront transformers train` wrote; the tests of the other steps begin here."""
    out = tmp_path_factory.mktemp("out") / "trained"
    done = riskfront(
        "transformers", "train", "--model", classifier_folder, "--data", texts / "marked.parquet", "--out", out
    )
    assert (done.returncode, done.stderr) == (0, "")
    return out


def test_from_an_encoder_without_a_head(encoder_folder: Path, tmp_path: Path) -> None:
    """Fine-tuned, scored, trained, traced and certified in one call; a second call does nothing again."""
    frame = tiny.make_frame(2000, 22)
    lines: list[str] = []
    found = accelerate(encoder_folder, frame, PROBLEM, tmp_path, PLAN, say=lines.append, progress=False)
    assert found.certificate
    assert found.certificate.guaranteed
    steps = ("1-fine-tuned", "2-head-scores", "3-token-predictors", "4-exit-heads", "5-pruning-report")
    assert lines[:5] == [f"{step} ..." for step in steps]
    assert lines[5].startswith("exits are right, before the first layer and after each: ")
    assert lines[6].startswith("the full model is right with ")
    assert lines[7].startswith(f"calibrating on {len(read_parts(frame, PLAN).calibration):,} texts, ")
    fresh = tiny.make_frame(300, 23)
    loaded = AdaptiveClassifier.from_pretrained(tmp_path)
    assert (loaded.predict(fresh["text"].tolist()) == fresh["label"]).mean() > 0.85
    assert loaded.certificate is not None
    assert loaded.certificate.config == found.certificate.config

    lines.clear()
    again = accelerate(encoder_folder, frame, PROBLEM, tmp_path, PLAN, say=lines.append, progress=False)
    assert lines[:5] == [f"{step}: done before" for step in steps]
    assert again.certificate is not None
    assert again.certificate.to_dict() == found.certificate.to_dict()


def test_the_certificate_keeps_its_word_on_fresh_texts(trained: Path, texts: Path) -> None:
    """The certified setting loses at most what it may, and does less work."""
    assert (
        riskfront("transformers", "certify", trained, "--data", texts / "marked.parquet", *LIMIT, *FEW).returncode == 0
    )
    found = AdaptiveClassifier.from_pretrained(trained)
    fresh = tiny.make_frame(400, 24)
    right = (found.predict(fresh["text"].tolist()) == fresh["label"]).mean()
    full = (found.with_setting({}).predict(fresh["text"].tolist()) == fresh["label"]).mean()
    assert full - right <= 0.1
    answers = found.answer(found.tokenize(fresh["text"].tolist()))
    whole = found.with_setting({}).answer(found.tokenize(fresh["text"].tolist()))
    assert answers.tokens.sum() < 0.8 * whole.tokens.sum()


def test_text_labels_are_mapped_and_the_mapping_is_kept(trained: Path) -> None:
    about = json.loads((trained / "adaptive.json").read_text())
    assert about["classes"] == ["blue", "green", "red"]
    config = json.loads((trained / "encoder" / "config.json").read_text())
    assert config["id2label"] == {"0": "blue", "1": "green", "2": "red"}


@pytest.mark.parametrize("name", ["random.csv", "marked.parquet"])
def test_accelerate_on_the_command_line(classifier_folder: Path, texts: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    command = ["accelerate", "--model", classifier_folder, "--data", texts / name, "--out", out, *FEW]
    done = riskfront(*command, *LIMIT, "--minimize", "flops")
    assert (done.returncode, done.stderr) == (0, "")
    text = " ".join(done.stdout.split())
    assert "With 90 % confidence" in text, text
    assert text.count("fewer operations, x") == 1, text
    assert "at most .100 lost with 90 % confidence." in text
    assert "is not fine-tuned: epochs, learning rate and early layers are not used; --again fine-tunes it" in text
    assert str(out) in done.stdout.replace("\n", "")
    machine = riskfront(*command, *LIMIT, "--minimize", "flops", "--json")
    assert machine.stderr == ""
    assert json.loads(machine.stdout)["config"] == rf.Certificate.load(out / "certificate.json").config
    assert json.loads(machine.stdout)["gain"]["operations"] > 1

    assert riskfront("verify", out).returncode == 0, "the folder alone will do"
    verified = riskfront("verify", out / "certificate.json", out)
    assert (verified.returncode, verified.stderr) == (0, ""), verified.stdout
    changed = json.loads((out / "certificate.json").read_text())
    changed["path"]["p_value"][0] += 1e-3
    (tmp_path / "changed.json").write_text(json.dumps(changed))
    assert "path.p_value[0] is" in riskfront("verify", tmp_path / "changed.json", out).stdout
    del changed["blake3"]  # by somebody who knows
    (tmp_path / "changed.json").write_text(json.dumps(changed))
    assert riskfront("verify", tmp_path / "changed.json", out).returncode == 1

    impossible = riskfront(*command, "--limit", "error <= 0.0001")
    assert (impossible.returncode, impossible.stderr) == (1, "")
    assert "Nothing could be certified" in impossible.stdout
    refused = riskfront("transformers", "predict", out, "--data", texts / name)
    assert refused.returncode == 2
    assert "no certified setting" in refused.stderr


def test_the_steps_one_by_one(trained: Path, texts: Path, tmp_path: Path) -> None:
    """trace fills a store that calibrate reads; certify asks the same of the texts themselves; predict uses its setting."""
    pytest.importorskip("zarr", reason="stores need zarr 3, which needs Python 3.11")
    data = ["--data", texts / "marked.parquet"]
    store = tmp_path / "losses.zarr"
    done = riskfront("transformers", "trace", trained, *data, *FEW, "--store", store)
    assert (done.returncode, done.stderr) == (0, "")
    assert "x 500 texts" in done.stdout
    limits = ["--limit", "accuracy_drop <= 0.15", "--limit", "error <= 0.4 per label", "--minimize", "relative_cost"]
    calibrated = riskfront("calibrate", store, *limits, "--out", tmp_path / "c.json")
    assert calibrated.returncode == 0, calibrated.stderr
    certified = riskfront("transformers", "certify", trained, *data, *FEW, *limits)
    assert certified.returncode == 0, certified.stderr
    one, other = (rf.Certificate.load(path) for path in (tmp_path / "c.json", trained / "certificate.json"))
    # a table of losses and the texts behind it are split by what they contain, so each by its own draw
    assert one
    assert other
    assert set(one.config) == set(other.config)
    assert [str(limit) for limit in one.problem.limits] == [str(limit) for limit in other.problem.limits]

    tiny.make_frame(30, 25).to_csv(tmp_path / "new.csv", index=False)
    shown = riskfront("transformers", "predict", trained, "--data", tmp_path / "new.csv")
    assert (shown.returncode, shown.stderr) == (0, "")
    written = riskfront("transformers", "predict", trained, "--data", tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    assert written.returncode == 0
    found = pd.read_csv(tmp_path / "p.csv")
    assert list(found) == ["text", "label", "prediction"]
    wanted = AdaptiveClassifier.from_pretrained(trained).predict(found["text"].tolist())
    assert found["prediction"].tolist() == wanted.tolist() == shown.stdout.split()[1:]


def test_abstaining_under_a_limit_on_what_is_answered(trained: Path, texts: Path) -> None:
    many = ["--head-thresholds", 1, "--token-thresholds", 1, "--exit-thresholds", 9, "--abstain", "0,0.4,0.6,0.9,0.99"]
    data = ["--data", texts / "marked.parquet", *many, "--seed", 1]
    limits = ["--limit", "error <= 0.04 given answered"]
    goals = ["--minimize", "flops", "--maximize", "answered"]
    command = ["transformers", "certify", trained, *data, *limits]

    def certified(*more: Any) -> rf.Certificate:
        done = riskfront(*command, *goals, *more)
        assert (done.returncode, done.stderr) == (0, "")
        found = rf.Certificate.load(trained / "certificate.json")
        assert AdaptiveClassifier.from_pretrained(trained).used_setting.to_config().items() >= found.config.items()
        return found

    usual = certified()
    chosen = usual.chosen
    assert len(chosen) > 1
    full = flops_of_the_full_model(trained, texts)
    costs = chosen["flops"] + (1 - chosen["answered"]) * full
    assert costs.iloc[0] == pytest.approx(costs.min(), rel=1e-3), "the rest would go to the full model"
    assert riskfront("verify", trained / "certificate.json", trained).returncode == 0
    most = certified("--choose", "answered").chosen["answered"]
    assert most.iloc[0] == most.max()
    cheap = certified("--choose", "flops").chosen["flops"]
    assert cheap.iloc[0] == cheap.min()
    refused = riskfront(*command, *goals, "--choose", "answered >= 2")
    assert refused.returncode == 2
    assert "must be met by a certified setting" in refused.stderr


def flops_of_the_full_model(trained: Path, texts: Path) -> float:
    from riskfront.transformers._recomputing import _trace

    trace, _ = _trace(AdaptiveClassifier.from_pretrained(trained), trained)
    return float(trace.losses({}, trace.examples)["flops"].mean())


def test_the_cost_of_answers_alone(trained: Path, texts: Path) -> None:
    """The paper's selective cost, from the command line."""
    data = ["--data", texts / "marked.parquet", *FEW, "--abstain", "0,0.5,0.9"]
    limits = ["--limit", "error <= 0.1 given answered", "--limit", "answered >= 0.5"]
    done = riskfront("transformers", "certify", trained, *data, *limits, "--minimize", "relative_cost given answered")
    assert (done.returncode, done.stderr) == (0, "")
    found = rf.Certificate.load(trained / "certificate.json")
    assert found.problem.objectives == (rf.Objective("relative_cost", given="answered"),)
    free = riskfront(
        "transformers", "certify", trained, *data, *limits[:2], "--minimize", "relative_cost given answered"
    )
    assert free.returncode == 2
    assert "abstaining must cost something" in free.stderr


def test_help_offers_what_can_be_used() -> None:
    from riskfront._cli import adaptive_options
    from riskfront.methods import METHODS
    from riskfront.transformers import _accelerate as acceleration

    assert adaptive_options.LOSSES == acceleration.COLUMNS
    for command in (["accelerate"], ["transformers", "certify"]):
        text = " ".join(riskfront(*command, "--help").stdout.replace("│", " ").split())
        for name, kind in METHODS.items():
            assert (f" {name}," in text or f" {name}." in text) is (kind().opt_fraction > 0), name
        for name in acceleration.COLUMNS:
            assert name in text
        assert "[default: flops]" in text


def test_pairs_of_texts(classifier_folder: Path, texts: Path, tmp_path: Path) -> None:
    command = ["--model", classifier_folder, "--data", texts / "pairs.csv", "--out", tmp_path / "out", *FEW]
    done = riskfront("accelerate", *command, *LIMIT)
    assert (done.returncode, done.stderr) == (0, "")
    predicted = riskfront("transformers", "predict", tmp_path / "out", "--data", texts / "pairs.csv")
    assert (predicted.returncode, predicted.stderr) == (0, "")
    assert set(predicted.stdout.split()[1:]) <= set(tiny.SIGNALS)


def test_a_process_of_its_own(classifier_folder: Path, tmp_path: Path) -> None:
    """Exit status 1 when nothing is certified; texts that are too long are one line each on stderr, without a stack."""
    frame = tiny.make_frame(60, 27)
    frame = frame.assign(text=frame["text"] + " noise1" * 60)
    frame.to_csv(tmp_path / "long.csv", index=False)
    parts = read_parts(frame, Plan())
    command = [sys.executable, "-c", "from riskfront._cli import main; main()", "accelerate", *map(str, FEW)]
    command += ["--model", str(classifier_folder), "--data", str(tmp_path / "long.csv"), "--out", str(tmp_path / "out")]
    done = finished([*command, "--limit", "error <= 0.0001"], 200)
    assert done.returncode == 1, done.stderr
    assert "Nothing could be certified" in done.stdout
    said = [line for line in done.stderr.splitlines() if not line.endswith(" left")]  # where a busy machine takes long
    assert said == [
        f"riskfront: {n} of {n} texts are longer than 40 tokens; what is beyond is not read."
        for n in map(len, (parts.train, parts.validation, parts.calibration))
    ]


def test_a_fine_tuned_classifier_is_not_fine_tuned_again(
    classifier_folder: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*given: Any, **more: Any) -> None:
        raise AssertionError("it was fine-tuned")

    monkeypatch.setattr(training, "fine_tune", forbidden)
    parts = read_parts(texts / "random.csv", PLAN)
    found = training.train(classifier_folder, parts, tmp_path, PLAN.training, progress=False)
    assert found.classes == tiny.SIGNALS
    done = riskfront("accelerate", "--model", classifier_folder, "--data", texts / "random.csv", *LIMIT, *FEW,
                     "--out", tmp_path / "again", "--again")  # fmt: skip
    assert done.returncode == 3, "it would be fine-tuned"
    again = Training(again=True, heads=PLAN.training.heads)
    with pytest.raises(AssertionError, match="fine-tuned"):
        training.train(classifier_folder, parts, tmp_path, again, progress=False)


def test_classes_in_another_order_stay_in_it(
    classifier_folder: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turned = load_classifier(str(classifier_folder))
    with torch.no_grad():
        for values in (turned.classifier.weight, turned.classifier.bias):
            values.copy_(values[[2, 0, 1]].clone())
    model = tiny.save_named(turned, ("red", "blue", "green"), tmp_path / "model")
    monkeypatch.setattr(training, "fine_tune", None)
    found = accelerate(model, texts / "random.csv", PROBLEM, tmp_path / "out", PLAN, progress=False)
    assert found.classes == ("red", "blue", "green")
    assert found.certificate
    fresh = tiny.make_frame(100, 26)
    for classifier in (found, AdaptiveClassifier.from_pretrained(tmp_path / "out")):
        assert (classifier.predict(fresh["text"].tolist()) == fresh["label"]).mean() > 0.85
    done = riskfront("transformers", "certify", tmp_path / "out", "--data", texts / "random.csv", *LIMIT, *FEW)
    assert done.returncode == 0, done.stderr


def test_which_models_know_the_classes_already(classifier_folder: Path, encoder_folder: Path, tmp_path: Path) -> None:
    name = str(classifier_folder)
    assert known_classes(name, ("blue", "green", "red")) == ("blue", "green", "red")
    assert known_classes(name, ("blue", "green", "yellow")) is None
    assert known_classes(name, ("blue", "green")) is None
    assert known_classes(str(encoder_folder), ("blue", "green", "red")) is None
    tiny.new_model().save_pretrained(tmp_path)  # LABEL_0, LABEL_1, LABEL_2: nobody named them
    assert known_classes(str(tmp_path), (0, 1, 2)) == (0, 1, 2)
    assert known_classes(str(tmp_path), (1, 2, 3)) is None
    assert known_classes(str(tmp_path), ("blue", "green", "red")) is None, "their order would be a guess"
