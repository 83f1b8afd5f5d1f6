"""After deployment: new texts are checked and watched, used ones are known again, and what cannot be read is said."""

import dataclasses
import json
import multiprocessing
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront._data.identity.fingerprints import text_digests as digests
from riskfront._running.tuning.tune import tune
from riskfront.errors import InvalidInputError, NotCertifiedError, StoreError
from riskfront.transformers import AdaptiveClassifier, CascadeClassifier, PruningTrace, pipeline
from riskfront.transformers._backbones.backbone import load_classifier
from riskfront.transformers._data.known_texts import Learnt
from riskfront.transformers._data.texts import labelled_texts
from riskfront.transformers._pruning.network import Network
from tests.support import tiny_transformers as tiny
from tests.support.command_line import riskfront

CALIBRATION, NEW, LEARNT = tiny.make_frame(200, 4), tiny.make_frame(300, 50), tiny.make_frame(40, 60)
TEXTS = NEW["text"].tolist()


@pytest.fixture(scope="module")
def certified(network: Network, traced: PruningTrace, tokenizer: Any) -> AdaptiveClassifier:
    problem = rf.Problem(["accuracy_drop <= 0.1"], minimize="flops")
    space = rf.Space(tau_layer=rf.Choice([0.0, 0.1, 0.4]))
    certificate = tune(
        *(traced.losses, traced.examples, space, problem),
        search="grid",
        budget=3,
        groups=traced.groups,
        bounds=traced.bounds,
        n_jobs=1,
    )
    assert certificate
    learnt, used = Learnt(frozenset(digests(LEARNT["text"]))), frozenset(digests(CALIBRATION["text"]))
    return AdaptiveClassifier(network, tokenizer, tiny.SIGNALS, 40, certificate, learnt=learnt, calibrated=used)


@pytest.fixture(scope="module")
def folder(certified: AdaptiveClassifier, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("deployed")
    certified.save_pretrained(path)
    return path


def test_new_texts_are_checked_in_both_directions(certified: AdaptiveClassifier) -> None:
    found = certified.check(NEW)
    assert (found.says, found.n, found.config) == ("holds", 300, certified.certificate.config)  # type: ignore[union-attr]
    own = certified.outcomes(TEXTS, NEW["label"])
    assert found.limits["measured"].item() == pytest.approx(own["accuracy_drop"].mean())
    answers = certified.predict(TEXTS)
    full = certified.with_setting({}).predict(TEXTS)
    wanted = (full == NEW["label"]).astype(float) - (answers == NEW["label"]).astype(float)
    np.testing.assert_array_equal(own["accuracy_drop"], wanted)
    never = dict(zip(tiny.SIGNALS, np.roll(tiny.SIGNALS, 1), strict=True))
    worse = NEW.assign(label=[never[label] if i % 3 else label for i, label in enumerate(full)])
    tight = rf.Problem(["error <= 0.1"], minimize="flops")
    other = dataclasses.replace(
        certified,
        certificate=dataclasses.replace(certified.certificate, problem=tight, example_fingerprints={}),  # type: ignore[type-var]
    )
    assert other.check(worse).says == "broken"


def test_thresholds_set_by_hand_are_not_called_certified(certified: AdaptiveClassifier, tmp_path: Path) -> None:
    """The certificate stays in the folder and speaks of other thresholds than those that answer."""
    by_hand = certified.with_setting({"tau_layer": 2.0})
    by_hand.save_pretrained(tmp_path)
    loaded = AdaptiveClassifier.from_pretrained(tmp_path)
    assert loaded.used_setting.tau_layer == 2.0
    page = (tmp_path / "README.md").read_text()
    assert "Nothing is certified of the thresholds in use, `{'tau_token': 0.0" in page
    assert "What was certified" not in page
    with pytest.raises(InvalidInputError, match=r"they were set by hand: .*Check with_setting"):
        loaded.check(NEW)
    assert loaded.with_setting(None).check(NEW).says == "holds"
    certified.with_setting(certified.used_setting).save_pretrained(tmp_path)
    assert "What was certified" in (tmp_path / "README.md").read_text()


def test_the_command(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "new.parquet"
    NEW.to_parquet(file)
    done = riskfront("check", folder, file, "--json")
    assert (done.returncode, json.loads(done.stdout)["says"]) == (0, "holds"), done.stderr
    pd.concat([NEW, CALIBRATION.assign(text="  " + CALIBRATION["text"].str.upper())]).to_parquet(file)
    done = riskfront("check", folder, file)
    assert done.returncode == 2
    assert "of these 500, 200 are those the certificate was made of" in done.stderr
    done = riskfront("check", folder, file, "--leave-out-repeats", "--json")
    assert (done.returncode, json.loads(done.stdout)["n"]) == (0, 300)


def test_texts_that_are_not_new_are_known_by_their_content(certified: AdaptiveClassifier, folder: Path) -> None:
    loaded = AdaptiveClassifier.from_pretrained(folder)
    assert loaded.calibrated == certified.calibrated
    with pytest.raises(InvalidInputError, match="of these 340, 40 were learnt from"):
        loaded.check(pd.concat([NEW, LEARNT]))
    with pytest.raises(InvalidInputError, match="of these 310, 10 come more than once"):
        loaded.check(pd.concat([NEW, NEW.head(10)]))
    with pytest.raises(InvalidInputError, match="at least 2 new texts"):
        loaded.check(CALIBRATION, leave_out_repeats=True)
    with pytest.raises(InvalidInputError, match=r"labels must be among the classes .*; got \['pink'\]"):
        loaded.check(NEW.assign(label=NEW["label"].replace("red", "pink")))
    with pytest.raises(NotCertifiedError, match="no certificate to check"):
        dataclasses.replace(loaded, certificate=None).check(NEW)


def test_outcomes_feed_the_monitor(certified: AdaptiveClassifier) -> None:
    monitor = certified.monitor(delta=0.05)
    monitor.update(certified.outcomes(TEXTS[:100], NEW["label"][:100]))
    assert not monitor.alarm
    some = certified.outcomes(TEXTS[:3], ["blue", None, np.nan])
    assert list(np.isnan(some["error"])) == [False, True, True]
    assert not np.isnan(some["flops"]).any()
    with pytest.raises(InvalidInputError, match="labels must be among"):
        certified.outcomes(TEXTS[:1], ["pink"])
    with pytest.raises(InvalidInputError, match=r"number 1 is empty or missing. Leave it and its label out\.$"):
        certified.outcomes([TEXTS[0], None], ["blue", "red"])  # type: ignore[list-item]
    with pytest.raises(InvalidInputError, match="a label for each of 2 texts; got 1"):
        certified.outcomes(TEXTS[:2], ["blue"])


def test_a_cascade_is_checked_and_watched_too(network: Network, tokenizer: Any, certified: AdaptiveClassifier) -> None:
    turned = AdaptiveClassifier(network, tokenizer, tiny.SIGNALS, 40)
    cascade = CascadeClassifier(turned, turned, setting=None).with_setting({"tau_small": 0.1, "tau_layer": 0.05})
    found = cascade.outcomes(TEXTS[:60], NEW["label"][:60])
    np.testing.assert_array_equal(found["error"], cascade.predict(TEXTS[:60]) != NEW["label"][:60])
    with pytest.warns(UserWarning, match="they get no answer"):
        labels = cascade.predict(["blue", None, TEXTS[0]], missing="abstain")  # type: ignore[list-item]
    assert labels[1] == cascade.abstain_label


def test_a_folder_answers_by_what_was_saved_last(certified: AdaptiveClassifier, tmp_path: Path) -> None:
    """A cascade that was there before would answer by thresholds that were certified of another model."""
    cascade = CascadeClassifier(certified, certified).with_setting({"tau_small": 0.1})
    kept = tmp_path / "report.html"
    kept.write_text("a page of another tool")
    cascade.save_pretrained(tmp_path)
    assert kept.is_file()
    for name in ("gain.json", "alternatives.json", "frontier.json", "decide.html"):
        (tmp_path / name).write_text("of the cascade")
    certified.save_pretrained(tmp_path)
    assert isinstance(pipeline(model=tmp_path).classifier, AdaptiveClassifier)
    assert {path.name for path in tmp_path.iterdir()}.isdisjoint(
        {"cascade.json", "report.html", "gain.json", "alternatives.json", "frontier.json", "decide.html"}
    )
    cascade.save_pretrained(tmp_path)
    assert isinstance(pipeline(model=tmp_path).classifier, CascadeClassifier)
    with pytest.raises(StoreError, match="must be a folder of save_pretrained"):
        AdaptiveClassifier.from_pretrained(tmp_path)


@pytest.mark.parametrize("gap", ["", "  ", None, float("nan"), pd.NA, np.nan])
def test_what_cannot_be_read_does_not_stop_the_others(certified: AdaptiveClassifier, gap: Any) -> None:
    texts: Any = [TEXTS[0], gap, TEXTS[1]]
    with pytest.raises(InvalidInputError, match=r"number 1 is .*missing='abstain'"):
        certified.predict(texts)
    with pytest.warns(
        UserWarning, match="1 of 3 texts are empty or missing, the first is number 1: they get no answer"
    ):
        labels = certified.predict(texts, missing="abstain")
    assert labels[1] == certified.abstain_label == "abstain"
    np.testing.assert_array_equal(labels[[0, 2]], certified.predict(TEXTS[:2]))
    with pytest.warns(UserWarning, match="they get no answer"):
        scores = certified.predict_proba(texts, missing="abstain")
    assert np.isnan(scores[1]).all()
    run = pipeline("text-classification", certified, missing="abstain")
    answers = run(texts)
    assert answers[1] == {"label": "abstain", "score": 0.0}
    assert [answers[0], answers[2]] == run(TEXTS[:2])


def test_a_column_of_a_data_frame_is_read_by_places(certified: AdaptiveClassifier) -> None:
    """Rows that were filtered or shuffled keep their labels, which say nothing of where a text stands."""
    shuffled = NEW["text"].head(30).sample(frac=1, random_state=0)
    cascade = CascadeClassifier(certified, certified).with_setting({"tau_small": 0.3})
    for one in (certified, cascade):
        wanted = one.predict(shuffled.tolist())
        np.testing.assert_array_equal(one.predict(shuffled), wanted)
        np.testing.assert_array_equal(one.predict(shuffled.to_numpy()), wanted)
        np.testing.assert_array_equal(one.predict(text for text in shuffled), wanted)
        gaps = shuffled.astype(object).copy()
        gaps.iloc[3] = None
        with pytest.warns(UserWarning, match="they get no answer"):
            labels = one.predict(gaps, missing="abstain")
        np.testing.assert_array_equal(np.delete(labels, 3), np.delete(wanted, 3))
        assert labels[3] == "abstain"
        found = one.outcomes(shuffled, NEW["label"][shuffled.index])
        np.testing.assert_array_equal(found["error"], wanted != NEW["label"][shuffled.index].to_numpy())
        with pytest.raises(InvalidInputError, match=r"got DataFrame. Give one column: frame\['text'\]"):
            one.predict(NEW)
        with pytest.raises(InvalidInputError, match="got set"):
            one.predict({"a text", "another"})  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="got NoneType"):
            one.predict(None)  # type: ignore[arg-type]


def test_nothing_to_answer_at_all(certified: AdaptiveClassifier) -> None:
    with pytest.warns(UserWarning, match="2 of 2 texts"):
        assert (certified.predict([None, ""], missing="abstain") == "abstain").all()  # type: ignore[list-item]
    with pytest.raises(InvalidInputError, match="batch_size must be at least 1; got 0"):
        certified.predict(TEXTS[:1], batch_size=0)
    with pytest.raises(InvalidInputError, match="missing must be one of"):
        certified.predict(TEXTS[:1], missing="drop")
    with pytest.raises(InvalidInputError, match="missing must be one of"):
        pipeline("text-classification", certified, missing="drop")


def test_pairs_and_single_texts_are_not_mistaken(certified: AdaptiveClassifier, pair_network: Network) -> None:
    with pytest.raises(InvalidInputError, match="trained on single texts and must be given these; got pairs of texts"):
        certified.predict([("a", "b")])
    with pytest.raises(InvalidInputError, match="got pairs of texts"):
        pipeline("text-classification", certified)({"text": "a", "text_pair": "b"})
    with pytest.raises(InvalidInputError, match="got pairs of texts"):
        certified.check(tiny.make_pairs(30, 70))
    pairs = AdaptiveClassifier(pair_network, certified.tokenizer, tiny.SIGNALS, 40).with_setting({})
    with pytest.raises(InvalidInputError, match="trained on pairs of texts and must be given these; got single texts"):
        pairs.predict(["a"])


HALF = "a \ud800 text"
FRAMES = {
    "half a character": (
        NEW.assign(text=pd.Series([HALF, *TEXTS[1:]], dtype=object)),
        "row 0 of column 'text' has a lone surrogate",
    ),
    **{
        f"several labels in a {type(label).__name__}": (
            NEW.assign(label=[label, *NEW["label"][1:]]),
            "and a label for each token are not supported",
        )
        for label in (["a", "b"], (0, 1), np.array([0, 1]), {"a"})
    },
}


@pytest.mark.parametrize("case", FRAMES)
def test_refused_texts(certified: AdaptiveClassifier, case: str) -> None:
    frame, words = FRAMES[case]
    with pytest.raises(InvalidInputError, match=words):
        labelled_texts(frame)
    with pytest.raises(InvalidInputError, match=r"number 1 has a lone surrogate, '\\ud800', at place 2"):
        certified.predict(["fine", HALF])


def test_a_model_of_several_labels_is_refused(classifier_folder: Path, tmp_path: Path) -> None:
    model = load_classifier(str(classifier_folder))
    model.config.problem_type = "multi_label_classification"
    model.save_pretrained(tmp_path)
    with pytest.raises(InvalidInputError, match="must give each text one class"):
        load_classifier(str(tmp_path))


def test_a_folder_is_pushed_with_a_card(certified: AdaptiveClassifier, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the files that are uploaded: there is no hub here."""
    seen: dict[str, Any] = {}

    class Hub:
        def __init__(self, token: str | None = None) -> None:
            seen["token"] = token

        def create_repo(self, repo_id: str, **options: Any) -> Any:
            seen["made"] = options
            return SimpleNamespace(repo_id=f"me/{repo_id.removeprefix('me/')}")

        def upload_folder(self, *, repo_id: str, folder_path: Path, **options: Any) -> str:
            seen["card"] = (folder_path / "README.md").read_text()
            seen["labels"] = AdaptiveClassifier.from_pretrained(folder_path).predict(TEXTS[:5]).tolist()
            return f"https://hub/{repo_id}/commit/1"

    monkeypatch.setattr("huggingface_hub.HfApi", Hub)
    assert certified.push_to_hub("me/colours", private=True, token="t") == "https://hub/me/colours/commit/1"
    assert (seen["token"], seen["made"]) == ("t", {"private": True, "exist_ok": True})
    assert seen["labels"] == certified.predict(TEXTS[:5]).tolist()
    assert certified.certificate is not None
    for words in (
        certified.certificate.verdict(),
        "limit: accuracy_drop <= 0.1",
        "Not promised",
        "library_name: riskfront",
    ):
        assert words in seen["card"]
    for repo_id in ("me/colours", "colours"):  # the hub knows whose it is
        certified.push_to_hub(repo_id)
        assert 'model="me/colours")' in seen["card"]
        assert 'AdaptiveClassifier.from_pretrained("me/colours")' in seen["card"]
        assert 'from_pretrained("me/colours", subfolder="encoder")' in seen["card"]
        assert "transformers predict" not in seen["card"]


def test_a_name_that_is_no_folder_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(StoreError, match="'me/nothing' is no folder here and could not be had from the hub"):
        AdaptiveClassifier.from_pretrained("me/nothing")


class OfManyThreads(dict[bytes, Any]):
    """Another thread forgets these layers as soon as they are kept, for a setting of its own."""

    def __setitem__(self, key: bytes, value: Any) -> None:
        super().__setitem__(key, value)
        self.clear()


def test_threads_with_settings_of_their_own(certified: AdaptiveClassifier) -> None:
    wanted = certified.predict(TEXTS[:5]).tolist()
    network = dataclasses.replace(certified.network, _sliced=OfManyThreads())
    assert dataclasses.replace(certified, network=network).predict(TEXTS[:5]).tolist() == wanted


def labels_in_a_worker(classifier: AdaptiveClassifier) -> list[str]:
    return classifier.predict(TEXTS[:3]).tolist()


def test_pickle_joblib_and_processes(certified: AdaptiveClassifier) -> None:
    for setting in (None, {"precision": "int8", "tau_head": 0.1}):
        one = certified if setting is None else certified.with_setting(setting)
        wanted = labels_in_a_worker(one)  # layers of this setting have been made
        assert labels_in_a_worker(pickle.loads(pickle.dumps(one))) == wanted  # noqa: S301 - our own
    assert joblib.Parallel(2)(joblib.delayed(labels_in_a_worker)(one) for _ in range(2)) == [wanted, wanted]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply_async(labels_in_a_worker, (one,)).get(120) == wanted
