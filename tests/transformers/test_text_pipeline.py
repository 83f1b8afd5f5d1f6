"""The pipeline gives what that of transformers gives, for every form of input, and really leaves early."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers

from riskfront.errors import InvalidInputError, StoreError
from riskfront.transformers import AdaptiveClassifier, pipeline
from riskfront.transformers._backbones.backbone import quiet
from riskfront.transformers._deployment import labels_of
from riskfront.transformers._pruning.network import Network
from riskfront.transformers._text_pipeline import AdaptivePipeline
from tests.support import tiny_transformers as tiny

TEXTS = tiny.make_frame(12, 5)["text"].tolist()
PAIRS = [{"text": a, "text_pair": b} for a, b in tiny.make_pairs(5, 6)[["text_a", "text_b"]].to_numpy()]


@pytest.fixture(scope="module")
def folder(network: Network, tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier that prunes nothing, so that the plain model must agree with it."""
    found = tmp_path_factory.mktemp("pipelines") / "accelerated"
    classifier = AdaptiveClassifier(network, tokenizer, tiny.SIGNALS, tiny.MAX_LENGTH)
    classifier.with_setting({}).save_pretrained(found)
    return found


@pytest.fixture(scope="module")
def pair_folder(pair_network: Network, tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("pipelines") / "pairs"
    AdaptiveClassifier(pair_network, tokenizer, tiny.SIGNALS, tiny.MAX_LENGTH).with_setting({}).save_pretrained(found)
    return found


@pytest.fixture(scope="module")
def ours(folder: Path) -> AdaptivePipeline:
    return pipeline("text-classification", model=folder, device=-1)


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Any:
    with quiet():
        return transformers.pipeline("text-classification", model=str(folder / "encoder"), device=-1)


def assert_same(found: Any, wanted: Any) -> None:
    """Lists, dictionaries and labels to the letter, scores nearly."""
    assert type(found) is type(wanted)
    if isinstance(wanted, list):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_same(one, other)
    else:
        assert found.keys() == wanted.keys() == {"label", "score"}
        assert found["label"] == wanted["label"]
        assert isinstance(found["score"], float)
        assert found["score"] == pytest.approx(wanted["score"], abs=1e-4)


INPUTS = {
    "a text": TEXTS[0],
    "texts": TEXTS,
    "one in a list": TEXTS[:1],
    "a dictionary": {"text": TEXTS[0]},
    "a pair": PAIRS[0],
    "pairs": PAIRS,
    "both ways to write a text": [TEXTS[0], {"text": TEXTS[1]}],
}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"top_k": None},
    {"top_k": 1},
    {"top_k": 2},
    {"top_k": 99},
    {"batch_size": 4},
    {"top_k": 2, "truncation": True},
    {"function_to_apply": "softmax"},
]


@pytest.mark.filterwarnings("ignore")  # of transformers, about tokenizers
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", INPUTS)
def test_outputs_are_those_of_transformers(
    ours: AdaptivePipeline, pair_folder: Path, theirs: Any, name: str, options: dict[str, Any]
) -> None:
    with quiet():
        wanted = theirs(INPUTS[name], **options)
    own = pipeline("text-classification", model=pair_folder, device=-1) if "pair" in name else ours
    assert_same(own(INPUTS[name], **options), wanted)


@pytest.mark.filterwarnings("ignore")
def test_generators_are_read_as_results_are_asked_for(ours: AdaptivePipeline, theirs: Any) -> None:
    with quiet():
        wanted = list(theirs((text for text in TEXTS), batch_size=2))
    assert_same(list(ours((text for text in TEXTS), batch_size=2)), wanted)
    read: list[str] = []

    def texts() -> Any:
        for text in itertools.cycle(TEXTS):
            read.append(text)
            yield text

    first = list(itertools.islice(ours(texts(), batch_size=3), 4))
    assert len(first) == 4
    assert len(read) == 6, "two batches, not all of an endless stream"


def test_defaults_are_those_of_the_constructor(folder: Path, ours: AdaptivePipeline) -> None:
    two = pipeline("sentiment-analysis", model=folder, top_k=2, batch_size=5)
    assert_same(two(TEXTS), ours(TEXTS, top_k=2))
    assert_same(two(TEXTS, top_k=None), ours(TEXTS, top_k=None))
    assert ours([]) == []


def test_it_really_leaves_early_drops_tokens_and_skips_heads(network: Network, tokenizer: Any) -> None:
    classifier = AdaptiveClassifier(network, tokenizer, tiny.SIGNALS, tiny.MAX_LENGTH)
    setting = {"tau_layer": 0.5, "tau_token": 0.05, "tau_head": 0.2}
    fast = classifier.with_setting(setting)
    ran: list[Any] = []
    answer = AdaptiveClassifier.answer
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            AdaptiveClassifier,
            "answer",
            lambda self, tokens, **options: (ran.append(answer(self, tokens, **options)), ran[-1])[1],
        )
        found = pipeline(model=fast)(TEXTS)
    assert ran[0].layers_run.mean() < 3.5
    assert ran[0].tokens.sum() < tiny_total(ran[0]), "tokens were dropped"
    assert [one["label"] for one in found] == fast.predict(TEXTS).tolist()
    np.testing.assert_allclose([one["score"] for one in found], fast.predict_proba(TEXTS).max(axis=1), atol=1e-6)


def tiny_total(answers: Any) -> int:
    return int((answers.tokens[:, 0] * 4).sum())


def test_where_there_is_no_answer_the_only_label_says_so(network: Network, tokenizer: Any) -> None:
    classifier = AdaptiveClassifier(network, tokenizer, tiny.SIGNALS, tiny.MAX_LENGTH)
    first = classifier.with_setting({"tau_layer": 2.0})
    between = float(np.median(first.predict_proba(TEXTS).max(axis=1)))
    unsure = first.with_setting({"tau_layer": 2.0, "lambda": between})
    silent = unsure.predict(TEXTS) == "abstain"
    assert 0 < silent.sum() < len(TEXTS), "some, not all"
    pipe = pipeline(model=unsure)
    assert [one["label"] == "abstain" for one in pipe(TEXTS)] == silent.tolist()
    assert [len(ranked) for ranked in pipe(TEXTS, top_k=None)] == [1 if no else 3 for no in silent]
    assert all(one["score"] < between for one, no in zip(pipe(TEXTS), silent, strict=True) if no)


@pytest.mark.parametrize(
    ("given", "options", "words"),
    [
        ([["a", "b"]], {}, "number 0 is"),
        (("a", "b"), {}, "inputs must be a text"),
        (17, {}, "inputs must be a text"),
        ([{"text_a": "x"}], {}, "text_pair"),
        ([{"text": "x", "text_pair": 3}], {}, "number 0 is"),
        (["blue", 3], {}, "number 1 is 3"),
        ("blue", {"max_length": 512}, "max_length must be as when the classifier was certified, 40; got 512"),
        ("blue", {"truncation": False}, "truncation must be as when"),
        ("blue", {"function_to_apply": "none"}, "function_to_apply='none'"),
        ("blue", {"return_all_scores": True}, "options can be top_k"),
        ("blue", {"top_k": 0}, "top_k must be at least 1"),
        ("blue", {"batch_size": 0}, "batch_size must be at least 1"),
    ],
)
def test_bad_input_in_a_sentence(ours: AdaptivePipeline, given: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError) as error:
        ours(given, **options)
    assert words in str(error.value)


def test_bad_pipelines_in_a_sentence(folder: Path) -> None:
    with pytest.raises(InvalidInputError, match="task must be one of"):
        pipeline("fill-mask", model=folder)
    with pytest.raises(InvalidInputError, match="model must be the folder"):
        pipeline("text-classification")


@pytest.mark.parametrize(
    "load",
    [
        lambda folder: transformers.pipeline("text-classification", model=folder),
        transformers.AutoModel.from_pretrained,
        transformers.AutoModelForSequenceClassification.from_pretrained,
        transformers.AutoConfig.from_pretrained,
    ],
    ids=["pipeline", "AutoModel", "AutoModelForSequenceClassification", "AutoConfig"],
)
def test_transformers_itself_refuses_the_folder_in_words_that_help(folder: Path, load: Any) -> None:
    """Otherwise it would run all layers on all tokens, and nothing would say so."""
    with pytest.raises(ValueError, match=r"riskfront.transformers.pipeline\('text-classification', model=folder\)"):
        load(str(folder))
    assert 'classify = pipeline("text-classification", model="accelerated")' in (folder / "README.md").read_text()


def test_the_folder_of_another_model_is_not_overwritten(
    network: Network, tokenizer: Any, classifier_folder: Path, tmp_path: Path
) -> None:
    classifier = AdaptiveClassifier(network, tokenizer, tiny.SIGNALS, tiny.MAX_LENGTH).with_setting({})
    before = {path.name: path.read_bytes() for path in classifier_folder.iterdir()}
    with pytest.raises(StoreError, match="holds another model, which would be lost"):
        classifier.save_pretrained(classifier_folder)
    assert {path.name: path.read_bytes() for path in classifier_folder.iterdir()} == before
    classifier.save_pretrained(tmp_path)
    classifier.save_pretrained(tmp_path)  # its own can be


class _Says:
    """A classifier whose probabilities are known."""

    def __init__(self, classifier: AdaptiveClassifier, probabilities: list[list[float]]) -> None:
        self.network, self.used_setting = classifier.network, classifier.used_setting
        self.abstain_label, self.max_length = classifier.abstain_label, classifier.max_length
        self._probabilities = np.array(probabilities, dtype=np.float32)

    def predict_proba(self, texts: Any, **_: Any) -> Any:
        return self._probabilities[: len(texts)]


def test_it_abstains_where_predict_does(network: Network, tokenizer: Any) -> None:
    """A forest of ten trees says .9 to the letter, which is a little less in single precision."""
    classifier = AdaptiveClassifier(network, tokenizer, tiny.SIGNALS, tiny.MAX_LENGTH).with_setting({"lambda": 0.9})
    said = [[0.9, 0.1, 0.0], [0.1, 0.89, 0.01], [np.nan] * 3]
    answers = AdaptivePipeline(_Says(classifier, said))(TEXTS[:3])  # type: ignore[arg-type]
    labels = labels_of(np.array(said, dtype=np.float32), tiny.SIGNALS, 0.9, "abstain")
    assert [one["label"] for one in answers] == labels.tolist()
    assert labels.tolist() == [tiny.SIGNALS[0], "abstain", "abstain"]


def test_a_second_text_that_is_none(ours: AdaptivePipeline, pair_folder: Path) -> None:
    """As columns of a data set have it: for a model of single texts there is none, for one of pairs it is missing."""
    given = [{"text": TEXTS[0], "text_pair": None}, TEXTS[1]]
    for missing in ("raise", "abstain"):
        assert pipeline(model=ours.classifier, missing=missing)(given) == ours(TEXTS[:2])
    gap = [PAIRS[0], {"text": "a", "text_pair": None}]
    pairs = pipeline(model=pair_folder, missing="abstain")(gap)
    assert pairs[0] == pipeline(model=pair_folder)([PAIRS[0]])[0]
    assert pairs[1] == {"label": "abstain", "score": 0.0}
    with pytest.raises(InvalidInputError, match=r"number 1 is .*pipeline\(\.\.\., missing='abstain'\)"):
        pipeline(model=pair_folder)(gap)
    with pytest.raises(InvalidInputError, match="each input must be a text or"):
        pipeline(model=ours.classifier, missing="abstain")([{"texts": "a misspelt key"}])
