"""accelerate --decide: a frontier of limits, a page, and a choice that goes into the folder."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import riskfront as rf
from riskfront._verification.verify import differences
from riskfront.transformers import (
    AdaptiveClassifier,
    Grid,
    HeadTraining,
    Plan,
    Rows,
    Training,
    accelerate,
    accelerate_frontier,
    choose_limits,
)
from riskfront.transformers._recomputing import recompute
from tests.support import tiny_transformers as tiny
from tests.support.command_line import riskfront

PROBLEM = rf.Problem("accuracy_drop <= 0.1", minimize="flops")
VALUES = {"accuracy_drop": [0.0005, 0.05, 0.1, 0.2]}
PLAN = Plan(
    Training(heads=HeadTraining(epochs=2, learning_rate=3e-3), max_length=32), Rows(validation=100), Grid(1, 2, 4)
)


@pytest.fixture(scope="module")
def folder(classifier_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("decide") / "out"
    accelerate_frontier(classifier_folder, tiny.make_frame(900, 20), PROBLEM, VALUES, out, PLAN, progress=False)
    return out


def test_nothing_answers_until_limits_are_chosen(folder: Path) -> None:
    assert not (folder / "certificate.json").exists()
    with pytest.raises(rf.NotCertifiedError, match="riskfront choose"):
        AdaptiveClassifier.from_pretrained(folder).predict(["red"])


def test_a_chosen_certificate_goes_where_certificates_go(folder: Path, tmp_path: Path) -> None:
    frontier = rf.Frontier.load(folder / "frontier.json")
    fresh = tiny.make_frame(120, 24)
    texts, labels = fresh["text"].tolist(), fresh["label"].tolist()
    for value in (0.05, 0.2):
        found = choose_limits(folder, {"accuracy_drop": value})
        certificate = found.certificate
        assert certificate
        assert certificate.frontier["chosen"] == {"accuracy_drop": value}
        assert certificate.to_dict() == frontier.choose({"accuracy_drop": value}).to_dict()
        loaded = AdaptiveClassifier.from_pretrained(folder)
        assert (loaded.predict(texts) == found.predict(texts)).all()
        assert loaded.used_setting.to_config().items() >= certificate.config.items()
        assert differences(recompute(certificate, folder), certificate) == []
        assert loaded.check(fresh).config == certificate.config
        monitor = loaded.monitor(delta=0.05)
        monitor.update(loaded.outcomes(texts, labels))
        assert not monitor.alarm
        rf.write_report(certificate, tmp_path / "report.html")
        assert "chosen after looking" in (tmp_path / "report.html").read_text()
        assert certificate.verdict() in (folder / "README.md").read_text()
        assert json.loads((folder / "gain.json").read_text())["operations"] > 1
    forged = replace(certificate, frontier={**certificate.frontier, "values": {"accuracy_drop": [0.2]}})
    assert differences(recompute(forged, folder), forged), "as if no other value had been looked at"


def test_settings_say_their_speed_and_accuracy(folder: Path) -> None:
    frontier = rf.Frontier.load(folder / "frontier.json")
    config = frontier.choose({"accuracy_drop": 0.2}).config
    said = frontier.rules[json.dumps(config)]
    assert said.startswith("x")
    assert "fewer operations than the full model, accuracy " in said
    assert not frontier.choose({"accuracy_drop": 0.0005})


def test_the_command_line_makes_the_page_and_takes_the_choice_in(folder: Path, tmp_path: Path) -> None:
    tiny.make_frame(900, 20).to_csv(tmp_path / "texts.csv", index=False)
    few = ["--head-thresholds", 1, "--token-thresholds", 2, "--exit-thresholds", 4, "--validation-rows", 100]
    certify = ["transformers", "certify", folder, "--data", tmp_path / "texts.csv", *few]
    refused = riskfront(*certify, "--limit", "accuracy_drop <= 0.05..0.2/2")
    assert (refused.returncode, "add --decide" in refused.stderr) == (2, True), refused.stderr
    done = riskfront(*certify, "--limit", "accuracy_drop <= 0.05..0.2/2", "--decide")
    assert (done.returncode, done.stderr) == (0, "")
    page = (folder / "decide.html").read_text()
    assert "fewer operations than the full model" in page
    frontier = rf.Frontier.load(folder / "frontier.json")
    assert len(frontier.earlier_looks) == 1, "the texts have answered another frontier"
    chosen = riskfront("choose", folder, "--limit", "accuracy_drop <= 0.2")
    assert chosen.returncode == 0, chosen.stderr
    assert "fewer operations" in chosen.stdout
    assert rf.Certificate.load(folder / "certificate.json").frontier["chosen"] == {"accuracy_drop": 0.2}


def test_another_certificate_takes_the_frontier_away(folder: Path, classifier_folder: Path) -> None:
    """It may be of another network: nothing must be chosen from it any more. Its question still counts."""
    found = accelerate(classifier_folder, tiny.make_frame(900, 20), PROBLEM, folder, PLAN, progress=False)
    assert len(found.certificate.earlier_looks) >= 1
    assert not (folder / "frontier.json").exists()
    with pytest.raises(rf.StoreError, match="cannot read the frontier"):
        choose_limits(folder, {"accuracy_drop": 0.2})


@pytest.mark.parametrize(
    ("plan", "values", "words"),
    [
        (replace(PLAN, search="random"), VALUES, "the whole grid"),
        (PLAN, {"error": [0.1]}, "limit"),
        (PLAN, {"accuracy_drop": [0.1, 2.0]}, "accuracy_drop"),
    ],
)
def test_refusals_come_before_training(plan: Plan, values: dict[str, list[float]], words: str, tmp_path: Path) -> None:
    with pytest.raises(rf.InvalidInputError, match=words):
        accelerate_frontier("no model", tiny.make_frame(20, 1), PROBLEM, values, tmp_path / "out", plan)
    assert not (tmp_path / "out").exists()
