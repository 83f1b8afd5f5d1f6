"""The exit before the embedding: trained with the others, kept only where it saves layers, and run as it was traced."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import riskfront as rf
from riskfront.transformers import AdaptiveClassifier, FineTuning, Grid, HeadTraining, Plan, Rows, Training, accelerate
from riskfront.transformers._exits import WordExit, word_buckets
from riskfront.transformers._learning.head_training import train_word_exit
from riskfront.transformers._learning.reports import WordReport
from riskfront.transformers._pruning.cost import Work
from riskfront.transformers._pruning.latency import Clock
from riskfront.transformers._pruning.network import Setting, answer
from riskfront.transformers._pruning.pruning_trace import PruningTrace
from tests.support import tiny_transformers as tiny

pytestmark = pytest.mark.filterwarnings("ignore:.* exits answer")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    folder, said = tmp_path_factory.mktemp("words"), []
    how = Training(FineTuning(epochs=1), heads=HeadTraining(epochs=1), max_length=32, words=True)
    problem = rf.Problem(["accuracy_drop <= 0.1"], minimize="flops")
    encoder, frame = tiny.save_encoder(folder / "encoder"), tiny.make_frame(700, 31)
    plan = Plan(how, Rows(validation=60), Grid(1, 2, 6))
    accelerate(encoder, frame, problem, folder / "out", plan, say=said.append, progress=False)
    return folder / "out", said


def test_it_is_compared_with_the_exits_there_are(made: tuple[Path, list[str]]) -> None:
    said = next(line for line in made[1] if line.startswith("an exit on words is right"))
    report = WordReport.load(made[0] / "training" / "6-word-exit" / "words.json")
    assert str(report) == said
    assert (AdaptiveClassifier.from_pretrained(made[0]).network.words is not None) is report.kept


def test_one_that_saves_nothing_is_left_out() -> None:
    useless = WordReport(0.5, 0.8, 0.9, (3.0, 2.0, 1.0), (3.0, 2.0, 1.0), 100)
    assert not useless.kept
    assert "left out" in str(useless)
    assert replace(useless, layers=(2.0, 1.5, 0.8)).kept


@pytest.mark.parametrize(
    "setting", [{"tau_layer": 0.3}, {"tau_layer": 0.65, "tau_token": 0.05}, {"tau_layer": 9.0}, {}]
)
def test_trace_and_runtime_agree_row_by_row_in_any_batch(
    made: tuple[Path, list[str]], setting: dict[str, float]
) -> None:
    found = AdaptiveClassifier.from_pretrained(made[0])
    frame = tiny.make_frame(90, 77)
    tokens = found.tokenize(frame["text"].tolist())
    labels = frame["label"].map(found.classes.index).to_numpy()
    words = train_word_exit((tokens, labels), (tokens, labels), len(found.classes))
    network = replace(found.network, words=words)
    trace, chosen = PruningTrace(network, tokens, labels, progress=False), Setting.of(setting)
    wanted, layers, by_words = trace.answers(chosen, trace.examples)
    assert (by_words is None) is (not setting)
    for batch_size in (1, 7, 32):
        ran = answer(network, chosen, tokens, batch_size=batch_size)
        np.testing.assert_array_equal(ran.layers_run, layers)
        np.testing.assert_array_equal(ran.by_words, np.zeros(90, dtype=bool) if by_words is None else by_words)
        np.testing.assert_allclose(ran.probabilities, wanted, atol=1e-5)
        np.testing.assert_array_equal(ran.probabilities[ran.by_words], wanted[ran.by_words])
    alone = [network.read_words(tokens, np.array([i])) for i in range(90)]
    torch.testing.assert_close(torch.cat(alone), network.read_words(tokens, np.arange(90)), rtol=0, atol=0)
    if setting == {"tau_layer": 9.0}:
        assert by_words is not None
        assert by_words.all()
        costs = trace.losses(setting, trace.examples)
        np.testing.assert_array_equal(costs["flops"], 2.0 * len(found.classes) * tokens.lengths)
        assert (costs["relative_cost"] == 0).all()


def test_texts_that_leave_by_words_pay_for_nothing_else(made: tuple[Path, list[str]]) -> None:
    network: Any = AdaptiveClassifier.from_pretrained(made[0]).network
    n = network.backbone.n_layers
    ones = np.ones(2)
    clock = Clock(np.array([1, 9]), np.array([0, 4]), np.ones((2, 2)), ones, ones, ones, 0.01 * ones)
    work = Work(np.full(n, 4), np.array([5, 5]), np.full((2, n), 5), np.array([0, 0]), exits=True, prunes=False)
    assert clock.milliseconds(network, work).tolist() == [2.0, 2.0]
    asked = replace(work, by_words=np.array([True, False]))
    assert clock.milliseconds(network, asked) == pytest.approx([0.01, 2.01])


def test_words_and_pairs_have_buckets() -> None:
    assert len(word_buckets(np.array([5, 6, 7]))) == 5
    assert word_buckets(np.array([5, 6]))[2] != word_buckets(np.array([6, 5]))[2], "pairs have an order"
    assert len(word_buckets(np.array([], dtype=np.int64))) == 0
    empty = WordExit(3)([np.array([], dtype=np.int64), np.array([4])])
    assert empty.shape == (2, 3)
