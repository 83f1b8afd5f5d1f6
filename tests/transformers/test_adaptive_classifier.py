"""AdaptiveClassifier as a user meets it: predict, save and load, and no answer without a certificate."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import riskfront as rf
from riskfront._running.tuning.tune import tune
from riskfront.errors import InvalidInputError, NotCertifiedError, StoreError
from riskfront.transformers import AdaptiveClassifier, PruningTrace, pipeline
from riskfront.transformers._pruning.network import Network, Setting
from tests.faults.bit_flips import Kind, flip
from tests.support import tiny_transformers as tiny
from tests.support.calls import functions_entered

TEXTS = tiny.make_frame(40, 9)["text"].tolist()


def certificate_of(trace: PruningTrace, limit: float) -> rf.Certificate:
    problem = rf.Problem([rf.Limit("error", at_most=limit)], minimize="relative_cost")
    space = rf.Space(tau_token=rf.Choice([0.0, 0.05]), tau_layer=rf.Choice([0.0, 0.1, 0.4]))
    return tune(trace.losses, trace.examples, space, problem, search="grid", budget=6, groups=trace.groups, n_jobs=1)


@pytest.fixture(scope="module")
def certificate(traced: PruningTrace) -> rf.Certificate:
    found = certificate_of(traced, 0.1)
    assert found
    return found


@pytest.fixture
def classifier(network: Network, tokenizer: Any) -> AdaptiveClassifier:
    return AdaptiveClassifier(network, tokenizer, tiny.SIGNALS, 40)


def test_save_and_load(classifier: AdaptiveClassifier, certificate: rf.Certificate, tmp_path: Path) -> None:
    certified = AdaptiveClassifier(classifier.network, classifier.tokenizer, classifier.classes, 40, certificate)
    certified.save_pretrained(tmp_path)
    loaded = AdaptiveClassifier.from_pretrained(tmp_path)
    assert loaded.certificate is not None
    assert loaded.certificate.to_dict() == certificate.to_dict()
    assert loaded.used_setting == Setting.of(certificate.config)
    assert loaded.network.fingerprint == classifier.network.fingerprint
    assert (loaded.predict(TEXTS) == certified.predict(TEXTS)).all()
    np.testing.assert_array_equal(loaded.predict_proba(TEXTS), certified.predict_proba(TEXTS))
    assert {path.suffix for path in tmp_path.rglob("*") if path.is_file()} <= {".safetensors", ".json", ".txt", ".md"}
    other = tmp_path / "again"
    loaded.with_setting({"tau_layer": 0.2, "lambda": 0.5}).save_pretrained(other)
    assert AdaptiveClassifier.from_pretrained(other).used_setting == Setting(tau_layer=0.2, abstain=0.5)


def test_the_encoder_in_the_folder_is_an_ordinary_model(classifier: AdaptiveClassifier, tmp_path: Path) -> None:
    from transformers import pipeline

    classifier.save_pretrained(tmp_path)
    plain = pipeline("text-classification", model=str(tmp_path / "encoder"), device="cpu")
    wanted = classifier.with_setting({}).predict(TEXTS)
    assert [found["label"] for found in plain(TEXTS)] == wanted.tolist()


def test_a_certificate_of_an_earlier_network_does_not_stay(
    classifier: AdaptiveClassifier, certificate: rf.Certificate, tmp_path: Path
) -> None:
    AdaptiveClassifier(classifier.network, classifier.tokenizer, tiny.SIGNALS, 40, certificate).save_pretrained(
        tmp_path
    )
    classifier.save_pretrained(tmp_path)
    with pytest.raises(NotCertifiedError):
        AdaptiveClassifier.from_pretrained(tmp_path).predict(TEXTS)


def test_predict_texts_with_the_names_of_the_classes(classifier: AdaptiveClassifier) -> None:
    frame = tiny.make_frame(60, 10)
    found = classifier.with_setting({"tau_token": 0.03, "tau_layer": 0.05}).predict(
        frame["text"].tolist(), batch_size=7
    )
    assert (found == frame["label"]).mean() > 0.95
    probabilities = classifier.with_setting({}).predict_proba(frame["text"].tolist())
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)


def test_predict_pairs(pair_network: Network, tokenizer: Any) -> None:
    pairs = tiny.make_pairs(60, 11)
    full = AdaptiveClassifier(pair_network, tokenizer, tiny.SIGNALS, 40).with_setting({})
    texts = list(zip(pairs["text_a"], pairs["text_b"], strict=True))
    tokens = full.tokenize(texts)
    assert tokens.types is not None
    first = pairs["text_a"][0].split()
    assert tokens.types[0].tolist() == [0] * (len(first) + 2) + [1] * (len(tokens.ids[0]) - len(first) - 2)
    assert (full.predict(texts) == pairs["label"]).mean() > 0.8
    assert (full.predict([list(pair) for pair in texts]) == full.predict(texts)).all()


def test_abstaining(network: Network, tokenizer: Any) -> None:
    noise = ["noise1 noise2 noise3"] * 3
    full = AdaptiveClassifier(network, tokenizer, tiny.SIGNALS, 40).with_setting({})
    middle = float(np.median(full.predict_proba([*noise, *TEXTS]).max(axis=1)))
    setting = {"lambda": middle}
    named = AdaptiveClassifier(network, tokenizer, tiny.SIGNALS, 40).with_setting(setting)
    probabilities = named.predict_proba([*noise, *TEXTS])
    silent = probabilities.max(axis=1) < np.float32(middle)
    assert 0.3 < silent.mean() < 0.7
    found = named.predict([*noise, *TEXTS])
    assert (found == np.where(silent, "abstain", np.array(tiny.SIGNALS)[probabilities.argmax(axis=1)])).all()
    for classes, label in (((0, 1, 2), -1), ((1, 2, 3), -1), ((-1, 0, 1), -2), ((-1.5, 0.5, 2.0), -2)):
        numbered = AdaptiveClassifier(network, tokenizer, classes, 40).with_setting(setting)
        assert numbered.abstain_label == label
        assert label not in classes
        assert ((numbered.predict([*noise, *TEXTS]) == label) == silent).all()


def test_a_class_called_abstain_is_not_an_abstention(network: Network, tokenizer: Any) -> None:
    classifier = AdaptiveClassifier(network, tokenizer, ("abstain", "green", "red"), 40)
    assert classifier.abstain_label not in classifier.classes


def test_no_answer_without_a_certified_setting(
    classifier: AdaptiveClassifier, traced: PruningTrace, tmp_path: Path
) -> None:
    with pytest.raises(NotCertifiedError, match="no certificate yet"):
        classifier.predict(TEXTS)
    empty = certificate_of(traced, 0.001)
    assert not empty
    uncertified = AdaptiveClassifier(classifier.network, classifier.tokenizer, tiny.SIGNALS, 40, empty)
    uncertified.save_pretrained(tmp_path)
    for found in (uncertified, AdaptiveClassifier.from_pretrained(tmp_path)):
        with pytest.raises(NotCertifiedError, match="no certified setting"):
            found.predict(TEXTS)
        assert len(found.with_setting({}).predict(TEXTS)) == len(TEXTS)
        with pytest.raises(NotCertifiedError):
            found.with_setting({}).with_setting(None).predict(TEXTS)


def texts(given: Any) -> Callable[[AdaptiveClassifier], Any]:
    return lambda classifier: classifier.with_setting({}).predict(given)


def setting(name: str, value: Any) -> Callable[[AdaptiveClassifier], Any]:
    return lambda classifier: classifier.with_setting({name: value})


REFUSED: dict[str, tuple[Callable[[AdaptiveClassifier], Any], str]] = {
    "no texts": (texts([]), "at least one text"),
    "one text alone": (texts("one text"), "must be a list"),
    "an empty text": (texts(["fine", ""]), "number 1 is empty"),
    "a blank text": (texts(["fine", " \n"]), "number 1 is empty"),
    "half a pair that is empty": (texts([("a", "")]), "number 0 is empty"),
    "None as a text": (texts(["fine", None]), "number 1 is missing"),
    "nan as a text": (texts(["fine", float("nan")]), "number 1 is missing"),
    "a number as a text": (texts(["fine", 3]), "number 1 is 3"),
    "a text and a pair": (texts(["fine", ("a", "b")]), "all texts or all pairs"),
    "three texts": (texts([("a", "b", "c")]), "all texts or all pairs"),
    "a pair of a text and a number": (texts([("a", 1)]), "all texts or all pairs"),
    "a share of tokens above 1": (setting("tau_token", 1.5), "tau_token must be a number from 0 to 1; got 1.5"),
    "a share of heads below 0": (setting("tau_head", -0.1), "tau_head must be a number from 0 to 1; got -0.1"),
    "an exit below 0": (setting("tau_layer", -1), "tau_layer must be a number at least 0; got -1"),
    "an exit at infinity": (setting("tau_layer", float("inf")), "tau_layer must be a number"),
    "a threshold of nan": (setting("lambda", float("nan")), "lambda must be a number from 0 to 1; got nan"),
    "a threshold as a truth value": (setting("lambda", True), "lambda must be a number"),
    "a threshold as a text": (setting("tau_token", "high"), "tau_token must be a number"),
    "an unknown threshold": (setting("tau", 0.1), "has the thresholds"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(classifier: AdaptiveClassifier, case: str) -> None:
    use, words = REFUSED[case]
    with pytest.raises(InvalidInputError, match=words):
        use(classifier)


def test_long_texts_are_cut_with_a_warning(classifier: AdaptiveClassifier) -> None:
    long = " ".join(["blue", *["noise1"] * 100])
    full = classifier.with_setting({})
    with pytest.warns(UserWarning, match="^1 of 2 texts are longer than 40 tokens; what is beyond is not read"):
        tokens = full.tokenize([long, "red noise1"])
    assert tokens.lengths.tolist() == [40, 4]
    with pytest.warns(UserWarning, match="1 of 1 texts"):
        assert full.predict([long]).tolist() == ["blue"]
    exactly = " ".join(["blue", *["noise1"] * 37])
    assert full.tokenize([exactly]).lengths.tolist() == [40]


def test_numbers_of_numpy_are_numbers() -> None:
    setting = Setting(np.float64(0.1), np.float32(0.5), np.int64(1))
    assert [type(value) for value in setting.to_config().values()] == [float] * 4
    assert Setting.of({"lambda": 0.5}).to_config() == {"tau_token": 0, "tau_head": 0, "tau_layer": 0, "lambda": 0.5}


@pytest.mark.parametrize("damage", ["nothing", "no json", "newer", "cut", "no heads", "no tokenizer", "no weights"])
def test_folders_that_cannot_be_loaded(classifier: AdaptiveClassifier, tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "model"
    if damage != "nothing":
        classifier.save_pretrained(folder)
    if damage == "no json":
        (folder / "adaptive.json").write_text("{")
    elif damage == "newer":
        about = json.loads((folder / "adaptive.json").read_text())
        (folder / "adaptive.json").write_text(json.dumps({**about, "format": 99}))
    elif damage == "cut":
        (folder / "adaptive.safetensors").write_bytes((folder / "adaptive.safetensors").read_bytes()[:500])
    elif damage == "no heads":
        (folder / "adaptive.safetensors").unlink()
    elif damage == "no tokenizer":
        (folder / "encoder" / "tokenizer.json").unlink()
        (folder / "encoder" / "tokenizer_config.json").unlink()
    elif damage == "no weights":
        (folder / "encoder" / "model.safetensors").unlink()
    with pytest.raises((StoreError, InvalidInputError), match=str(folder)):
        AdaptiveClassifier.from_pretrained(folder)


def test_one_bit_turned_around(classifier: AdaptiveClassifier, certificate: rf.Certificate, tmp_path: Path) -> None:
    """Weights, configuration and tokenizer: 47 of 50 flips were not noticed, and some changed answers."""
    certified = AdaptiveClassifier(classifier.network, classifier.tokenizer, classifier.classes, 40, certificate)
    few = TEXTS[:4]

    def read(folder: Path) -> str:
        loaded = AdaptiveClassifier.from_pretrained(folder)
        return f"{loaded.predict_proba(few).tolist()} {loaded.used_setting} {loaded.classes}"

    kept = ("adaptive.json", "adaptive.safetensors", "digests.json", "encoder/*")
    for number, files in enumerate(kept):
        (tmp_path / str(number)).mkdir()
        kind = Kind("accelerated folder", certified.save_pretrained, read, files)
        result = flip(kind, tmp_path / str(number), places=25)
        assert result.survived, result
        assert result.found > 20


def test_a_file_in_the_place_of_the_folder(classifier: AdaptiveClassifier, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write"):
        classifier.save_pretrained(tmp_path / "file")


def test_a_call_never_enters_pandas(classifier: AdaptiveClassifier, certificate: rf.Certificate) -> None:
    """The setting is read off the certificate once; data frames take longer than the layers."""
    certified = dataclasses.replace(classifier, certificate=certificate)
    run = pipeline("text-classification", certified)
    certified.predict(TEXTS[:1])
    entered = functions_entered(lambda: (certified.predict(TEXTS[:1]), run(TEXTS[:2]), certified.predict_proba(TEXTS)))
    assert any("riskfront" in file for file in entered)
    assert not [file for file in entered if "pandas" in file or "certificate" in file]
