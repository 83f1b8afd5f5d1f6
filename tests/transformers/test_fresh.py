"""Nothing is calibrated on what was learnt: refused with a count, or left out and said wherever the result is read."""

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront.errors import InvalidInputError
from riskfront.transformers import AdaptiveClassifier, Plan, accelerate
from riskfront.transformers._data.known_texts import ELSEWHERE, FILE, Learnt, fresh_texts
from riskfront.transformers._data.texts import TextParts, labelled_texts
from riskfront.transformers._folder import ENCODER
from riskfront.transformers._learning import training
from tests.support import tiny_transformers as tiny
from tests.support.command_line import Done, riskfront

LIMIT = ["--limit", "accuracy_drop <= 0.2", "--minimize", "flops"]
FEW = ["--head-thresholds", 1, "--token-thresholds", 1, "--exit-thresholds", 3]
NEW = Learnt()
UNSEEN = "speaks of texts that were not seen in training"


def parts_of(train: pd.DataFrame, calibration: pd.DataFrame) -> TextParts:
    learn, kept = labelled_texts(train), labelled_texts(calibration)
    return TextParts(learn.take(np.arange(10, len(learn))), learn.take(np.arange(10)), kept)


def plain(text: str) -> str:
    return " ".join(text.split())


class TestFreshTexts:
    train, calibration = tiny.make_frame(60, 1), tiny.make_frame(40, 2)

    def fresh(self, calibration: pd.DataFrame, *, leave_out: bool = False, learnt: Learnt | None = NEW) -> Any:
        parts = parts_of(self.train, calibration)
        known = None if learnt is None else learnt.and_from(parts.train.contents)
        return fresh_texts(parts, known, leave_out=leave_out)

    def test_new_texts_are_taken_as_they_are(self) -> None:
        found = self.fresh(self.calibration)
        assert found.texts.first == self.calibration["text"].tolist()
        assert found.notes == ()

    def test_texts_that_were_learnt_or_validated_on_are_counted_and_refused(self) -> None:
        mixed = pd.concat([self.calibration, self.train.iloc[[3, 30, 31]]])  # row 3 is for validation
        with pytest.raises(InvalidInputError, match="of 43, 3 have a text that the model learnt from") as refused:
            self.fresh(mixed)
        assert "--leave-out-repeats" in str(refused.value)
        found = self.fresh(mixed, leave_out=True)
        assert found.texts.first == self.calibration["text"].tolist()
        assert len(found.notes) == 1
        assert found.notes[0].startswith("3 of 43 calibration rows were left out")
        assert UNSEEN in found.notes[0]

    def test_copies_among_the_calibration_rows_too(self) -> None:
        """Half of them could plan and the other half test: the same text on both sides."""
        twice = pd.concat([self.calibration, self.calibration.assign(text=self.calibration["text"].str.upper())])
        with pytest.raises(InvalidInputError, match="of 80, 40 have the text of another calibration row"):
            self.fresh(twice)
        found = self.fresh(twice, leave_out=True)
        assert len(found.texts) == len(set(found.texts.contents)) == 40
        assert "every text counts once" in found.notes[0]

    def test_of_copies_with_other_labels_the_text_picks_one(self) -> None:
        """Whatever their order, and so that labels keep their shares."""
        texts = [f"text {i}" for i in range(300)]
        rows = [{"text": text, "label": label} for text in texts for label in ("blue", "blue", "red")]
        rows += [{"text": "a", "label": "green"}, {"text": "b", "label": "green"}]
        frame = pd.DataFrame(rows)
        one = self.fresh(frame, leave_out=True).texts
        other = self.fresh(frame.iloc[::-1], leave_out=True).texts
        label = dict(zip(one.contents, one.labels, strict=True))
        assert label == dict(zip(other.contents, other.labels, strict=True))
        assert 0.55 < Counter(one.labels.tolist())[0] / 300 < 0.78

    def test_nothing_left_is_said(self) -> None:
        with pytest.raises(InvalidInputError, match="at least 2 rows to calibrate on"):
            self.fresh(self.train, leave_out=True)

    def test_what_is_not_known_is_said(self) -> None:
        assert self.fresh(self.calibration, learnt=Learnt(elsewhere=True)).notes == (ELSEWHERE,)
        with pytest.raises(InvalidInputError, match="must say which texts it learnt from"):
            self.fresh(self.calibration, learnt=None)


@pytest.fixture(scope="module")
def made(encoder_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with random.csv, on which `trained` was trained, and marked.csv, the same rows with a column split."""
    folder = tmp_path_factory.mktemp("fresh")
    frame = tiny.make_frame(400, 20)
    frame.to_csv(folder / "random.csv", index=False)
    frame.assign(split=np.where(np.arange(400) < 200, "train", "test")).to_csv(folder / "marked.csv", index=False)
    done = riskfront("transformers", "train", "--model", encoder_folder, "--data", folder / "random.csv",
                     "--epochs", 3, "--learning-rate", "2e-3", "--seed", 3, "--out", folder / "trained")  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


def certify(made: Path, data: str, *more: Any, folder: Path | None = None) -> Done:
    model = made / "trained" if folder is None else folder
    return riskfront("transformers", "certify", model, "--data", made / data, *LIMIT, *FEW, *more)


def test_the_file_and_seed_of_training_are_fine_in_any_order(made: Path) -> None:
    pd.read_csv(made / "random.csv").sample(frac=1, random_state=0).to_csv(made / "shuffled.csv", index=False)
    for name in ("random.csv", "shuffled.csv"):
        done = certify(made, name, "--seed", 3)
        assert (done.returncode, done.stderr) == (0, "")
        assert "Note" not in done.stdout


@pytest.mark.parametrize(
    "options", [["random.csv"], ["random.csv", "--seed", 4], ["marked.csv"], ["marked.csv", "--seed", 3]]
)
def test_another_seed_or_a_column_split_would_calibrate_on_rows_that_were_learnt_from(
    made: Path, options: list[Any]
) -> None:
    refused = certify(made, *options)
    assert refused.returncode == 2
    assert "have a text that the model learnt from" in refused.stderr
    traced = riskfront("transformers", "trace", made / "trained", "--data", made / options[0], *options[1:], *FEW,
                       "--store", made / "refused.zarr")  # fmt: skip
    assert traced.returncode == 2
    assert not (made / "refused.zarr").exists()


def test_left_out_and_said_in_terminal_certificate_report_and_store(made: Path, tmp_path: Path) -> None:
    done = certify(made, "marked.csv", "--leave-out-repeats")
    assert (done.returncode, done.stderr) == (0, "")
    assert UNSEEN in plain(done.stdout)
    certificate = rf.Certificate.load(made / "trained" / "certificate.json")
    assert UNSEEN in certificate.notes[0]
    seen = set(AdaptiveClassifier.from_pretrained(made / "trained").learnt.contents)  # type: ignore[union-attr]
    texts = labelled_texts(pd.read_csv(made / "marked.csv").iloc[200:])
    fresh = [content for content in texts.contents if content not in seen]
    assert certificate.n_opt + certificate.n_test == len(fresh)
    rf.write_report(certificate, tmp_path / "report.html")
    assert UNSEEN in plain((tmp_path / "report.html").read_text())

    pytest.importorskip("zarr", reason="stores need zarr 3, which needs Python 3.11")
    store = tmp_path / "losses.zarr"
    traced = riskfront("transformers", "trace", made / "trained", "--data", made / "marked.csv", *FEW,
                       "--leave-out-repeats", "--store", store)  # fmt: skip
    assert UNSEEN in plain(traced.stdout)
    calibrated = riskfront("calibrate", store, *LIMIT, "--out", tmp_path / "c.json")
    assert UNSEEN in plain(calibrated.stdout)
    assert rf.Certificate.load(tmp_path / "c.json").notes == certificate.notes
    assert rf.calibrate(store, certificate.problem).notes == certificate.notes
    assert riskfront("verify", tmp_path / "c.json", store).returncode == 0


def test_rows_that_are_all_new_need_no_row_to_learn_from(made: Path) -> None:
    tiny.make_frame(200, 30).assign(split="test").to_csv(made / "new.csv", index=False)
    done = certify(made, "new.csv")
    assert (done.returncode, done.stderr) == (0, "")
    certificate = rf.Certificate.load(made / "trained" / "certificate.json")
    assert certificate.n_opt + certificate.n_test == 160, "a fifth lays out the thresholds"


def test_a_record_of_what_was_learnt_that_is_gone_is_damage(made: Path, tmp_path: Path) -> None:
    """Without it, texts that were learnt from could be certified on: riskfront wrote it, so riskfront misses it."""
    folder = tmp_path / "trained"
    shutil.copytree(made / "trained", folder, ignore=shutil.ignore_patterns("training"))
    (folder / ENCODER / FILE).unlink()
    refused = certify(made, "random.csv", "--seed", 3, folder=folder)
    assert refused.returncode == 2
    assert f"must be as they were written; '{FILE}' cannot be read" in plain(refused.stderr)


def test_folders_that_do_not_say_what_they_learnt_from(made: Path, tmp_path: Path) -> None:
    """A network that was put together elsewhere and saved: nothing is known, so nothing is certified before it is named."""
    folder = tmp_path / "own"
    replace(AdaptiveClassifier.from_pretrained(made / "trained"), learnt=None, certificate=None).save_pretrained(folder)
    refused = certify(made, "random.csv", "--seed", 3, folder=folder)
    assert refused.returncode == 2
    assert "--learnt-from" in refused.stderr
    named = certify(made, "random.csv", "--seed", 3, "--learnt-from", made / "random.csv", folder=folder)
    assert named.returncode == 2
    assert "have a text that the model learnt from" in named.stderr
    pd.read_csv(made / "random.csv").to_csv(made / "all.csv", index=False)
    tiny.make_frame(400, 30).to_csv(made / "other.csv", index=False)
    assert certify(made, "other.csv", "--learnt-from", made / "all.csv", folder=folder).returncode in (0, 1)
    assert certify(made, "random.csv", "--seed", 3, folder=folder).returncode == 2, "what was named is remembered"


def test_weights_that_changed_since_are_those_of_another_model(made: Path, tmp_path: Path) -> None:
    found = AdaptiveClassifier.from_pretrained(made / "trained")
    assert found.learnt is not None
    record = (made / "trained" / ENCODER / FILE).read_bytes()
    found.network.backbone.model.classifier.bias.data += 1
    replace(found, learnt=None).save_pretrained(tmp_path)
    (tmp_path / ENCODER / FILE).write_bytes(record)
    assert AdaptiveClassifier.from_pretrained(tmp_path).learnt is None


def test_a_classifier_from_elsewhere_is_said_and_can_be_declared(
    classifier_folder: Path, made: Path, tmp_path: Path
) -> None:
    command = ["accelerate", "--model", classifier_folder, "--data", made / "random.csv", *LIMIT, *FEW]
    done = riskfront(*command, "--out", tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert plain(ELSEWHERE) in plain(done.stdout)
    assert "--learnt-from" in ELSEWHERE
    assert json.loads((tmp_path / "out" / "certificate.json").read_text())["notes"] == [ELSEWHERE]
    tiny.make_frame(1500, 1).to_csv(tmp_path / "earlier.csv", index=False)
    named = riskfront(*command, "--out", tmp_path / "named", "--learnt-from", tmp_path / "earlier.csv")
    assert named.returncode == 0
    assert "Note" not in named.stdout


def test_a_folder_of_riskfront_as_the_model_brings_what_it_learnt_from(made: Path, tmp_path: Path) -> None:
    """Both the folder itself and its fine-tuned encoder: with another seed, rows change sides."""
    for model in (made / "trained", made / "trained" / "training" / "1-fine-tuned"):
        done = riskfront("accelerate", "--model", model, "--data", made / "random.csv", *LIMIT, *FEW, "--out", tmp_path)
        assert done.returncode == 2
        assert "have a text that the model learnt from" in done.stderr


def test_repeats_between_the_parts_are_said_before_anything_is_trained(
    encoder_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "fine_tune", None)
    frame = tiny.make_frame(100, 40).assign(split=["train", "test"] * 50)
    frame.loc[1, "text"] = frame.loc[0, "text"]
    problem = rf.Problem("error <= 0.2", minimize="flops")
    with pytest.raises(InvalidInputError, match="of 50, 1 have a text that the model learnt from"):
        accelerate(encoder_folder, frame, problem, tmp_path / "out", Plan(), progress=False)
    assert not (tmp_path / "out").exists()
