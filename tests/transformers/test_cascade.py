"""A cascade of two encoders: the trace by its definitions, the runtime as the trace says, the way to a certificate."""

import copy
import hashlib
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from torch.utils.flop_counter import FlopCounterMode

import riskfront as rf
from riskfront.errors import InvalidInputError, NotCertifiedError, StoreError
from riskfront.transformers import (
    AdaptiveClassifier,
    CascadeClassifier,
    Grid,
    HeadTraining,
    Plan,
    PruningTrace,
    Rows,
    Training,
    accelerate_cascade,
    pipeline,
)
from riskfront.transformers._cascade import accelerate_cascade as accelerate_cascade_module
from riskfront.transformers._cascade.accelerate_cascade import certify_cascade
from riskfront.transformers._cascade.cascade_trace import CascadeSetting, CascadeTrace, small_thresholds
from riskfront.transformers._cascade.small_pipeline import SmallPipeline
from riskfront.transformers._data.known_texts import Learnt
from riskfront.transformers._data.texts import labelled_texts, split_texts
from riskfront.transformers._pruning.network import Network, Setting
from riskfront.transformers._speed_up import Gain, load_alternatives
from tests.support import tiny_transformers as tiny
from tests.support.command_line import riskfront
from tests.transformers.conftest import Data

TEXTS = tiny.make_frame(200, 4)["text"].tolist()  # those of the fixture `data`
SHARES = (0.0, 0.2, 0.5, 0.8, 1.0)  # of texts that stay with the small encoder
ORDER = [2, 0, 1]  # the small encoder knows the same classes in another order


@pytest.fixture(scope="module")
def cascade(network: Network, paper_network: Network) -> CascadeClassifier:
    """Two networks of the same encoder that leave differently; the classes of the small one stand in another order."""
    tokenizer = tiny.make_tokenizer()
    classes = tuple(tiny.SIGNALS[ORDER.index(i)] for i in range(3))
    small = AdaptiveClassifier(network, tokenizer, classes, tiny.MAX_LENGTH)
    return CascadeClassifier(small, AdaptiveClassifier(paper_network, tokenizer, tiny.SIGNALS, tiny.MAX_LENGTH))


@pytest.fixture(scope="module")
def traced(network: Network, paper_network: Network, data: Data) -> CascadeTrace:
    tokens, labels = data
    small = PruningTrace(network, tokens, np.array(ORDER)[labels], progress=False)
    return CascadeTrace(small, PruningTrace(paper_network, tokens, labels, progress=False), ORDER)


def threshold(trace: CascadeTrace, share: float) -> float:
    """Halfway between two entropies, so that rounding decides nothing."""
    lowest = np.sort(trace.small.passes(0, 0).entropies.min(axis=1))
    k = round(share * len(lowest))
    return 0.0 if k == 0 else 2.0 if k == len(lowest) else float(lowest[k - 1 : k + 1].mean())


LARGE = [Setting(), Setting(tau_layer=0.3), Setting(0.05, 0.1, 0.3), Setting(tau_layer=0.3, abstain=0.7)]


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("large", LARGE, ids=str)
def test_the_runtime_does_what_the_trace_says(
    cascade: CascadeClassifier, traced: CascadeTrace, share: float, large: Setting
) -> None:
    setting = CascadeSetting(threshold(traced, share), large)
    columns = traced.losses(setting.to_config(), traced.examples)
    answers = cascade.with_setting(setting).answer(TEXTS, batch_size=17)
    labels = traced.large.labels
    assert ((answers.probabilities.argmax(axis=1) != labels) == columns["error"]).all()
    np.testing.assert_allclose(answers.probabilities.max(axis=1), columns["confidence"], atol=2e-5)
    silent = cascade.with_setting(setting).predict(TEXTS) == "abstain"
    assert (silent == ~columns["answered"]).all()
    full = traced.large.passes(0, 0).probabilities[:, -1].argmax(axis=1) == labels
    assert (columns["accuracy_drop"] == full.astype(int) - ~columns["error"]).all()
    assert (columns["accuracy_drop_clipped"] == (full & columns["error"])).all()
    assert set(columns) == {"accuracy_drop", "accuracy_drop_clipped", "error", "flops", "answered", "confidence"}


def test_the_small_encoder_answers_where_it_is_sure_and_only_there(
    cascade: CascadeClassifier, traced: CascadeTrace
) -> None:
    for share in SHARES:
        tau = threshold(traced, share)
        answers = cascade.with_setting({"tau_small": tau}).answer(TEXTS)
        assert answers.by_small.mean() == share
        assert (answers.by_small == (traced.small.passes(0, 0).entropies.min(axis=1) < tau)).all()
        assert (0 if answers.large is None else len(answers.large.layers_run)) == (~answers.by_small).sum()
    assert cascade.with_setting({"tau_small": 2.0}).answer(TEXTS).large is None, "nothing was left for it"
    assert cascade.with_setting({"tau_small": 0.0}).answer(TEXTS).small is None, "it was not asked"


def test_the_setting_without_thresholds_is_the_large_encoder_alone(
    cascade: CascadeClassifier, traced: CascadeTrace
) -> None:
    columns, alone = traced.losses({}, traced.examples), traced.large.losses({}, traced.examples)
    for name, values in columns.items():
        assert (values == alone[name]).all(), name
    wanted = cascade.large.with_setting({}).predict_proba(TEXTS)
    np.testing.assert_allclose(cascade.with_setting({}).predict_proba(TEXTS), wanted, atol=1e-6)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_operations_are_those_of_both_encoders(cascade: CascadeClassifier, traced: CascadeTrace, share: float) -> None:
    """Of the matrix products: torch counts no others."""

    def attention(query: Any, key: Any, value: Any, attn_mask: Any = None) -> Any:
        return torch.softmax(query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5, dim=-1) @ value

    rows, tau_small = np.arange(12), threshold(traced, share)
    columns = traced.losses({"tau_small": tau_small, "tau_layer": 0.3}, rows)
    fast = cascade.with_setting({"tau_small": tau_small, "tau_layer": 0.3})
    for i in rows:
        with pytest.MonkeyPatch.context() as patch, FlopCounterMode(display=False) as counter:
            patch.setattr(torch.nn.functional, "scaled_dot_product_attention", attention)
            fast.answer(TEXTS[i : i + 1])
        assert counter.get_total_flops() <= columns["flops"][i]
        assert counter.get_total_flops() > 0.75 * columns["flops"][i] - 30_000, (
            "the rest are sums that torch does not count"
        )


def test_save_and_load(cascade: CascadeClassifier, tmp_path: Path) -> None:
    chosen = cascade.with_setting({"tau_small": 0.3, "tau_layer": 0.2})
    chosen.save_pretrained(tmp_path / "cascade")
    loaded = CascadeClassifier.from_pretrained(tmp_path / "cascade")
    assert loaded.used_setting == CascadeSetting(0.3, Setting(tau_layer=0.2))
    np.testing.assert_array_equal(loaded.predict(TEXTS), chosen.predict(TEXTS))
    piped = pipeline("text-classification", model=tmp_path / "cascade", device="cpu")(TEXTS[:20])
    assert [one["label"] for one in piped] == chosen.predict(TEXTS[:20]).tolist()
    with pytest.raises(NotCertifiedError, match="no certificate yet"):
        AdaptiveClassifier.from_pretrained(tmp_path / "cascade" / "small").predict(TEXTS)
    with pytest.raises(StoreError, match="must be the folder of a cascade"):
        CascadeClassifier.from_pretrained(tmp_path / "cascade" / "small")
    assert "large/encoder" in (tmp_path / "cascade" / "README.md").read_text()


def test_bad_input_in_a_sentence(cascade: CascadeClassifier, traced: CascadeTrace, tmp_path: Path) -> None:
    for value in (-0.1, float("nan"), True, "much"):
        with pytest.raises(InvalidInputError, match="tau_small must be a number at least 0"):
            CascadeSetting.of({"tau_small": value})
    with pytest.raises(InvalidInputError, match="a setting has the thresholds"):
        CascadeSetting.of({"tau_smal": 0.1})
    with pytest.raises(InvalidInputError, match="the same examples with the same labels"):
        CascadeTrace(traced.small, traced.large)
    with pytest.raises(NotCertifiedError, match="no certificate yet"):
        cascade.predict(TEXTS)
    with pytest.raises(InvalidInputError, match="at least 1 threshold of the small encoder"):
        small_thresholds(traced.small, 0)
    fine, large = rf.Problem([rf.Limit("error", at_most=0.2)], minimize="flops"), Plan(grid=Grid(18, 20, 120))
    with pytest.raises(InvalidInputError, match=r"at most 100,000 settings; 1,296,000 were asked for"):
        accelerate_cascade("a", "b", tiny.make_frame(60, 1), fine, tmp_path, large)
    problem = rf.Problem([rf.Limit("error", at_most=0.2)], minimize="relative_cost")
    with pytest.raises(InvalidInputError, match=r"of a cascade must be among .*relative_cost.*minimise flops"):
        accelerate_cascade("a", "b", tiny.make_frame(60, 1), problem, tmp_path)


@pytest.mark.filterwarnings("ignore:.* exits answer no better")
def test_from_two_encoders_to_a_certified_cascade(
    encoder_folder: Path, classifier_folder: Path, tmp_path: Path
) -> None:
    problem = rf.Problem([rf.Limit("accuracy_drop", at_most=0.2)], minimize="flops", delta=0.2)
    training = Training(heads=HeadTraining(epochs=3, token_rows=32), max_length=tiny.MAX_LENGTH)
    plan = Plan(training, Rows(validation=60), Grid(head=1, token=1, layer=6))
    frame = tiny.make_frame(900, 20)
    found = accelerate_cascade(
        encoder_folder,
        classifier_folder,
        frame,
        problem,
        tmp_path / "out",
        plan,
        n_small=6,
        progress=False,
    )
    assert found.certificate
    assert set(found.certificate.config) == {"tau_head", "tau_token", "tau_small", "tau_layer"}
    loaded = CascadeClassifier.from_pretrained(tmp_path / "out")
    fresh = tiny.make_frame(3000, 24)
    right = (loaded.predict(fresh["text"].tolist()) == fresh["label"]).mean()
    full = (loaded.with_setting({}).predict(fresh["text"].tolist()) == fresh["label"]).mean()
    assert full > 0.9
    assert full - right <= 0.2
    assert loaded.small.learnt is not None, "what was learnt from stays beside the weights"
    gain = Gain.load(tmp_path / "out")
    assert gain is not None
    assert gain.operations >= 1
    assert abs(gain.full_accuracy - full) < 0.1
    command = [
        "accelerate",
        "--small",
        encoder_folder,
        "--model",
        classifier_folder,
        "--data",
        tmp_path / "data.parquet",
    ]
    frame.to_parquet(tmp_path / "data.parquet")
    few = ["--head-thresholds", 1, "--token-thresholds", 1, "--exit-thresholds", 6, "--validation-rows", 60]
    limit = ["--limit", "accuracy_drop <= 0.2", "--delta", 0.2, "--max-length", tiny.MAX_LENGTH, "--token-rows", 32]
    done = riskfront(*command, *few, *limit, "--out", tmp_path / "cli")
    assert done.returncode == 0, done.stderr
    assert "fewer operations" in done.stdout
    assert "What else you could do" in done.stdout
    rows = {row.name: row for row in load_alternatives(tmp_path / "out")}
    assert {"certified", "full model", "first layer", "TF-IDF and logistic regression"} <= rows.keys()
    assert abs(rows["full model"].accuracy - full) < 0.1
    data = ["--data", tmp_path / "data.parquet", "--out", tmp_path / "answers.csv"]
    assert riskfront("transformers", "predict", tmp_path / "cli", *data).returncode == 0
    verified = riskfront("verify", tmp_path / "cli" / "certificate.json", tmp_path / "cli")
    assert verified.returncode == 0, verified.stderr
    assert "matches" in verified.stdout
    answers = pd.read_csv(tmp_path / "answers.csv")
    assert (answers["prediction"] == answers["label"]).mean() > 0.7


@pytest.mark.filterwarnings("ignore:.* exits answer no better")
def test_what_is_done_is_not_done_again(encoder_folder: Path, classifier_folder: Path, tmp_path: Path) -> None:
    problem = rf.Problem([rf.Limit("accuracy_drop", at_most=0.2)], minimize="flops", delta=0.2)
    plan = Plan(
        Training(heads=HeadTraining(epochs=1, token_rows=32)), Rows(validation=40), Grid(head=1, token=1, layer=3)
    )
    for wanted in (0, 6):
        said: list[str] = []
        accelerate_cascade(
            *(encoder_folder, classifier_folder, tiny.make_frame(400, 20), problem, tmp_path / "out", plan),
            n_small=3,
            say=said.append,
            progress=False,
        )
        assert sum("done before" in line for line in said) == wanted, (
            "three steps of each encoder: no token or head is dropped"
        )


class ByHash(ClassifierMixin, BaseEstimator):
    """Says which signal word a text has, but another one for this share of all texts, which no one can tell from the others."""

    def __init__(self, wrong: float = 0.0) -> None:
        self.wrong = wrong

    def fit(self, texts: list[str], labels: Any) -> "ByHash":
        self.classes_, self.fitted_to_ = np.unique(labels), len(texts)
        return self

    def predict_proba(self, texts: list[str]) -> np.ndarray:
        number = [int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") / 2**32 for text in texts]
        says = [next((i for i, word in enumerate(tiny.SIGNALS) if word in text), 0) for text in texts]
        said = (np.array(says) + (np.array(number) < self.wrong)) % 3
        return 0.04 + 0.88 * np.eye(3)[said]


def words() -> Any:
    """Few buckets: it is wrong now and then, and unsure."""
    return make_pipeline(HashingVectorizer(n_features=24, alternate_sign=False), LogisticRegression(C=3))


NAMES = ("z", "y", "x")  # of the classes of the large encoder; scikit-learn sorts them


def named(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(label=frame["label"].map(dict(zip(tiny.SIGNALS, NAMES, strict=True))))


@pytest.mark.parametrize("large", LARGE, ids=str)
def test_a_scikit_learn_pipeline_before_an_encoder_does_what_the_trace_says(
    paper_network: Network, large: Setting
) -> None:
    second = AdaptiveClassifier(paper_network, tiny.make_tokenizer(), NAMES, tiny.MAX_LENGTH)
    small = SmallPipeline.fit(words(), labelled_texts(named(tiny.make_frame(1500, 30))))
    assert small.classes == ("x", "y", "z")
    frame = named(tiny.make_frame(200, 31))
    texts, labels = frame["text"].tolist(), frame["label"].map(NAMES.index).to_numpy()
    trace = CascadeClassifier(small, second).trace(texts, labels)
    unsure = np.sort(small.trace(texts, labels).entropies)
    for tau in (float(unsure[60:62].mean()), float(unsure[150:152].mean()), 2.0):
        setting = CascadeSetting(tau, large)
        columns = trace.losses(setting.to_config(), trace.examples)
        for size in (1, 17, 200):
            answers = CascadeClassifier(small, second, setting=setting).answer(texts, batch_size=size)
            assert ((answers.probabilities.argmax(axis=1) != labels) == columns["error"]).all()
            assert answers.by_small.sum() == {0: 61, 1: 151, 2: 200}[int(tau > unsure[100]) + int(tau == 2.0)]
            np.testing.assert_allclose(answers.probabilities.max(axis=1), columns["confidence"], atol=2e-5)
        assert 0 < columns["error"][answers.by_small].mean() < 0.6
        silent = CascadeClassifier(small, second, setting=setting).predict(texts) == "abstain"
        assert (silent == ~columns["answered"]).all()
        alone = trace.large.losses(large, trace.examples)["flops"]
        assert (columns["flops"][answers.by_small] < alone[answers.by_small] / 20).all()
        assert (columns["flops"][~answers.by_small] > alone[~answers.by_small]).all()


def test_a_pipeline_whose_answer_depends_on_the_texts_beside_it_is_refused() -> None:
    """Certified of hundreds of texts at a time, it would answer one text in another way."""
    beside = FunctionTransformer(lambda found: found.toarray() - found.toarray().mean(axis=0))
    centred = make_pipeline(HashingVectorizer(n_features=24), beside, LogisticRegression())
    with pytest.raises(InvalidInputError, match="say the same of a text whatever texts are beside it"):
        SmallPipeline.fit(centred, labelled_texts(tiny.make_frame(300, 30)))


def test_a_pipeline_that_reads_capitals_otherwise_is_another_one(tmp_path: Path) -> None:
    fitted = SmallPipeline.fit(words(), labelled_texts(tiny.make_frame(300, 30)))
    fitted.save(tmp_path, tiny.make_tokenizer())
    assert SmallPipeline.load(tmp_path, fitted.model).classes == fitted.classes
    other = copy.deepcopy(fitted.model)
    other[0].set_params(lowercase=False)
    with pytest.raises(InvalidInputError, match="This one gives other probabilities"):
        SmallPipeline.load(tmp_path, other)


@pytest.mark.filterwarnings("ignore:.* exits answer no better")
def test_from_a_scikit_learn_pipeline_to_a_certified_cascade(classifier_folder: Path, tmp_path: Path) -> None:
    problem = rf.Problem([rf.Limit("accuracy_drop", at_most=0.2)], minimize="flops", delta=0.2)
    training = Training(heads=HeadTraining(epochs=3, token_rows=32), max_length=tiny.MAX_LENGTH)
    plan, own = Plan(training, Rows(validation=60), Grid(head=1, token=1, layer=6)), words()
    frame, new, out = tiny.make_frame(900, 20), tiny.make_frame(1000, 24), tmp_path / "out"
    found = accelerate_cascade(own, classifier_folder, frame, problem, out, plan, n_small=6, progress=False)
    assert found.certificate
    assert found.certificate.config["tau_small"] > 0
    assert not hasattr(own[-1], "classes_"), "a copy was fitted"
    with pytest.raises(InvalidInputError, match="which no folder holds: hand over the one"):
        CascadeClassifier.from_pretrained(out)
    with pytest.raises(InvalidInputError, match="hand over"):
        pipeline("text-classification", model=out)
    for other, why in (
        (words().fit(new["text"], new["label"]), "This one gives other probabilities"),
        (words(), "This one cannot answer"),
        (classifier_folder, "This one cannot answer"),
    ):
        with pytest.raises(InvalidInputError, match=why):
            CascadeClassifier.from_pretrained(out, small=other)
    loaded = CascadeClassifier.from_pretrained(out, small=pickle.loads(pickle.dumps(found.small.model)))  # type: ignore[union-attr]  # noqa: S301 - our own
    np.testing.assert_array_equal(loaded.predict(new["text"]), found.predict(new["text"]))
    assert loaded.check(new).says == "holds"
    with pytest.raises(InvalidInputError, match="are those the certificate was made of"):
        loaded.check(frame.iloc[:600])
    with pytest.raises(InvalidInputError, match="got pairs of texts"):
        loaded.predict([("blue", "noise1")])
    with pytest.warns(UserWarning, match="they get no answer"):
        assert loaded.predict(["blue", None], missing="abstain")[1] == "abstain"  # type: ignore[list-item]
    verified = riskfront("verify", out / "certificate.json", out)
    assert verified.returncode == 0, verified.stderr
    assert "scikit-learn pipeline, which is not here" in (out / "README.md").read_text()
    assert not list(out.rglob("*.pkl")) + list(out.rglob("*.joblib"))
    for wrong in (LogisticRegression(), make_pipeline(HashingVectorizer(), Ridge())):
        with pytest.raises(InvalidInputError, match="must be a scikit-learn pipeline"):
            accelerate_cascade(wrong, classifier_folder, frame, problem, tmp_path / "no", plan)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* exits answer no better")
def test_a_pipeline_that_breaks_the_limit_by_a_hair_is_certified_in_delta_of_runs(
    paper_network: Network, classifier_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The large encoder is hardly ever wrong; who stays with the pipeline loses .105, where .1 is the limit."""
    problem = rf.Problem(["accuracy_drop <= 0.1"], minimize="flops")
    plan = Plan(rows=Rows(validation=40), grid=Grid(head=1, token=1, layer=1))
    monkeypatch.setattr(accelerate_cascade_module, "measure_gain", lambda *of: Gain(1, 1, 1, 1))
    learnt = Learnt()
    large = AdaptiveClassifier(paper_network, tiny.make_tokenizer(), tiny.SIGNALS, tiny.MAX_LENGTH, learnt=learnt)
    small = SmallPipeline(ByHash(0.105).fit([], list(tiny.SIGNALS)), tiny.SIGNALS, pairs=False)
    false = 0
    for seed in range(60):
        parts = split_texts(tiny.make_frame(560, 1000 + seed).assign(split="test"), seed=seed, learning=False)
        found = certify_cascade(small, large, parts, problem, tmp_path / str(seed), plan, n_small=2, progress=False)
        false += bool(found.certificate) and found.certificate.config["tau_small"] > 0
    assert false <= 11, "at delta .1 more than 11 of 60 come once in a hundred times"
