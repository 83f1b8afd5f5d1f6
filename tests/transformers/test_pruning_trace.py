"""PruningTrace: the columns by their definitions, what is run and what is not, and that the runtime does the same."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from riskfront.errors import InvalidInputError
from riskfront.transformers import AdaptiveClassifier, PruningTrace
from riskfront.transformers._exits import Layout
from riskfront.transformers._pruning.network import Network, Setting, Walk
from riskfront.transformers._pruning.pruning_trace import entropies, leaving_depths
from tests.support import tiny_transformers as tiny
from tests.support import transformer_reference as reference

TOKEN = (0.0, 0.01, 0.03, 0.05, 0.1, 0.3, 1.0)
HEAD = (0.0, 0.1, 0.25, 0.5, 1.0)
LAYER = (0.0, 0.003, 0.05, 0.4, 2.0)
ABSTAIN = (0.0, 0.6, 0.9, 0.999)


@pytest.mark.parametrize("tau_token", [0.0, 0.03, 0.06, 0.2, 1.0])
@pytest.mark.parametrize("tau_head", [0.0, 0.2])
def test_a_pass_is_the_plain_loop_through_the_modules_of_hugging_face(
    network: Network, traced: PruningTrace, tau_token: float, tau_head: float
) -> None:
    found = traced.passes(tau_token, tau_head)
    for i in range(0, 200, 14):
        wanted = reference.run(network, traced.tokens, i, Setting(tau_token, tau_head))
        assert found.tokens[i].tolist() == [len(entered) for entered in wanted.entered]
        np.testing.assert_allclose(found.probabilities[i], np.stack(wanted.probabilities), atol=1e-4)
        for tau_layer in LAYER:
            assert leaving_depths(entropies(found.probabilities[[i]]), tau_layer)[0] == reference.exit_layer(
                wanted, tau_layer
            )


def test_the_setting_without_pruning_is_the_model_itself(network: Network, traced: PruningTrace) -> None:
    with torch.no_grad():
        logits = network.backbone.model(**traced.tokens.padded(traced.examples)).logits
    wanted = torch.softmax(logits, dim=1).numpy()
    np.testing.assert_allclose(traced.passes(0, 0).probabilities[:, -1], wanted, atol=1e-5)
    columns = traced.losses({}, traced.examples)
    assert (columns["accuracy_drop"] == 0).all()
    assert (columns["relative_cost"] == 1).all()
    assert (columns["error"] == (wanted.argmax(axis=1) != traced.labels)).all()


@pytest.mark.parametrize("kind", ["pair_network", "paper_network"])
def test_pairs_and_the_papers_exits_are_the_plain_loop_too_and_the_runtime_does_the_same(
    kind: str, request: Any
) -> None:
    network = request.getfixturevalue(kind)
    frame = tiny.make_pairs(60, 5) if network.layout.pairs else tiny.make_frame(60, 5)
    trace = PruningTrace(network, *tiny.tokens_and_labels(frame), progress=False)
    classifier = AdaptiveClassifier(network, None, ("b", "g", "r"), 40)
    for tau_token, tau_layer in itertools.product((0.0, 0.05, 0.2, 1.0), (0.0, 0.4, 2.0)):
        setting = Setting(tau_token, 0.1, tau_layer)
        found = trace.passes(tau_token, 0.1)
        for i in range(0, 60, 13):
            wanted = reference.run(network, trace.tokens, i, setting)
            assert found.tokens[i].tolist() == [len(entered) for entered in wanted.entered]
            exits = [np.zeros(3) if p is None else p for p in wanted.probabilities]
            np.testing.assert_allclose(found.probabilities[i], exits, atol=1e-4)
        leaves = leaving_depths(entropies(found.probabilities), tau_layer)
        for batch_size in (1, 17):
            answers = classifier.with_setting(setting).answer(trace.tokens, batch_size=batch_size)
            assert (answers.layers_run == leaves).all(), setting
            assert (answers.tokens == found.tokens * (np.arange(4) < leaves[:, None])).all(), setting
            np.testing.assert_allclose(answers.probabilities, found.probabilities[trace.examples, leaves], atol=2e-5)
    assert leaves.tolist() == [network.layout.first_exit] * 60, "above every entropy: all leave at the first exit"


@pytest.mark.parametrize("tau_head", HEAD)
def test_the_runtime_does_what_the_trace_says_at_every_setting(
    network: Network, traced: PruningTrace, tau_head: float
) -> None:
    classifier = AdaptiveClassifier(network, None, ("b", "g", "r"), 40)
    rows = traced.examples
    for tau_token, tau_layer in itertools.product(TOKEN, LAYER):
        setting = Setting(tau_token, tau_head, tau_layer)
        answers = classifier.with_setting(setting).answer(traced.tokens, batch_size=17)
        found = traced.passes(tau_token, tau_head)
        leaves = leaving_depths(entropies(found.probabilities), tau_layer)
        assert (answers.layers_run == leaves).all(), setting
        run = np.arange(4) < leaves[:, None]
        assert (answers.tokens == found.tokens * run).all(), setting
        np.testing.assert_allclose(answers.probabilities, found.probabilities[rows, leaves], atol=2e-5)
        columns = traced.losses(setting, rows)
        assert ((answers.probabilities.argmax(axis=1) != traced.labels) == columns["error"]).all(), setting
        for abstain in ABSTAIN:
            answered = traced.losses(Setting(tau_token, tau_head, tau_layer, abstain), rows)["answered"]
            assert ((answers.probabilities.max(axis=1) >= abstain) == answered).all(), setting


def test_the_answers_do_not_depend_on_the_batch(network: Network, data: Any) -> None:
    setting = Setting(0.05, 0.1, 0.3)
    classifier = AdaptiveClassifier(network, None, (0, 1, 2), 40, setting=setting)
    one, many = (classifier.answer(data[0].take(np.arange(60)), batch_size=size) for size in (1, 60))
    assert (one.layers_run == many.layers_run).all()
    assert (one.tokens == many.tokens).all()
    np.testing.assert_allclose(one.probabilities, many.probabilities, atol=2e-5)


def test_cls_never_leaves_and_tokens_never_come_back(network: Network, traced: PruningTrace) -> None:
    alone = traced.passes(1.0, 0.0).tokens
    assert (alone == 1).all(), "only [CLS] is left, whatever its own score"
    for tau in TOKEN:
        assert (np.diff(traced.passes(tau, 0.0).tokens, axis=1) <= 0).all()
        for i in range(0, 200, 40):
            entered = reference.run(network, traced.tokens, i, Setting(tau)).entered
            for before, after in itertools.pairwise(entered):
                assert after[0] == 0
                assert set(after) <= set(before)


def test_exit_is_at_the_first_layer_below_the_threshold() -> None:
    sure, unsure = [0.98, 0.01, 0.01], [0.4, 0.3, 0.3]
    probabilities = np.array([[unsure, sure, unsure, unsure], [unsure] * 4, [sure] * 4, [unsure, unsure, unsure, sure]])
    assert leaving_depths(entropies(probabilities), 0.5).tolist() == [1, 3, 0, 3]
    assert leaving_depths(entropies(probabilities), 0.0).tolist() == [3, 3, 3, 3]
    assert leaving_depths(entropies(probabilities), 2.0).tolist() == [0, 0, 0, 0]
    exactly = reference.entropy(np.array(sure))
    assert leaving_depths(entropies(probabilities), exactly * (1 - 1e-12)).tolist() == [3, 3, 3, 3], (
        "below, not at, the threshold"
    )
    probabilities[:, 0] = 0  # no exit there
    assert leaving_depths(entropies(probabilities), 2.0).tolist() == [1, 1, 1, 1]


@pytest.fixture(scope="session")
def wild(network: Network, data: Any) -> PruningTrace:
    """Random labels: the full model is right in a third of the examples, so that every kind of drop occurs."""
    return PruningTrace(network, data[0], np.random.default_rng(0).integers(3, size=200), progress=False)


@pytest.mark.parametrize(
    "setting",
    [Setting(0.3, 0.25, 0.4), Setting(tau_head=1.0), Setting(1.0, 1.0, 2.0, 0.6), Setting(0.05, 0, 0.4, 0.999)],
)
def test_columns_by_their_definitions(network: Network, wild: PruningTrace, setting: Setting) -> None:
    chosen = np.arange(150, 20, -7)
    columns = wild.losses(setting.to_config(), chosen)
    kept = (network.head_scores >= setting.tau_head).sum(axis=1)
    seen = set()
    for row, i in enumerate(chosen):
        full = reference.run(network, wild.tokens, i, Setting()).probabilities[-1]
        found = reference.run(network, wild.tokens, i, setting)
        last = reference.exit_layer(found, setting.tau_layer)
        answer = found.probabilities[last]
        assert answer is not None
        assert full is not None
        label = wild.labels[i]
        drop = int(full.argmax() == label) - int(answer.argmax() == label)
        seen.add(drop)
        assert columns["accuracy_drop"][row] == drop
        assert columns["accuracy_drop_clipped"][row] == max(drop, 0)
        assert columns["error"][row] == (answer.argmax() != label)
        assert columns["confidence"][row] == pytest.approx(answer.max(), abs=1e-4)
        assert columns["answered"][row] == (answer.max() >= setting.abstain)
        squares = sum(int(kept[j]) * len(found.entered[j]) ** 2 for j in range(last))
        assert columns["relative_cost"][row] == pytest.approx(squares / (16 * len(wild.tokens.ids[i]) ** 2), rel=1e-6)
    if setting.tau_head == 1.0:
        assert seen == {-1, 0, 1}, "the example must show every kind"
    kinds = {name: values.dtype.kind for name, values in columns.items()}
    assert [name for name, kind in kinds.items() if kind == "b"] == ["accuracy_drop_clipped", "error", "answered"]
    assert wild.bounds == {"accuracy_drop": (-1, 1)}
    assert (wild.groups["label"] == wild.labels).all()


def test_a_head_mask_is_run_once_whatever_the_threshold(network: Network, trace: PruningTrace) -> None:
    scores = np.sort(network.head_scores.ravel())
    low, high = scores[3] + (scores[4] - scores[3]) * np.array([0.25, 0.75])
    trace.losses({"tau_head": low}, trace.examples)
    assert trace.examples_run == 400, "the full model, and once without four heads"
    again = trace.losses({"tau_head": high, "tau_layer": 0.3, "lambda": 0.9}, trace.examples)
    trace.losses({"tau_head": 0.0, "tau_layer": 0.2}, trace.examples)
    assert trace.examples_run == 400
    fresh = PruningTrace(network, trace.tokens, trace.labels, progress=False)
    for name, values in fresh.losses({"tau_head": high, "tau_layer": 0.3, "lambda": 0.9}, trace.examples).items():
        assert (again[name] == values).all()
    trace.losses({"tau_head": scores[4] + 1e-9}, trace.examples)
    assert trace.examples_run == 600, "a fifth head is gone"


def test_examples_that_keep_the_same_tokens_are_not_run_again(network: Network, trace: PruningTrace) -> None:
    first = trace.passes(0.05, 0.0)
    assert trace.examples_run == 200
    trace.passes(0.05 * (1 + 1e-9), 0.0)
    assert trace.examples_run == 200, "the same number in single precision"
    for tau in (0.0501, 0.052, 0.055, 0.03):
        before = trace.examples_run
        found = trace.passes(tau, 0.0)
        fresh = PruningTrace(network, trace.tokens, trace.labels, progress=False).passes(tau, 0.0)
        assert (found.tokens == fresh.tokens).all()
        np.testing.assert_allclose(found.probabilities, fresh.probabilities, atol=2e-5)
        ran = trace.examples_run - before
        changed = (found.tokens != first.tokens).any(axis=1)
        assert ran <= 200
        if tau == 0.0501:
            assert 0 < ran < 100, "some examples lose a token, most keep the same ones"
            assert ran >= changed.sum()


def test_a_reused_pass_keeps_exactly_the_tokens_of_its_own_threshold(network: Network, trace: PruningTrace) -> None:
    """Thresholds right at the scores of an example: at the score the token stays, above it the token goes."""
    with torch.no_grad():
        walk = Walk(network, network.backbone.layers(), trace.tokens, np.array([0]), exits=False, prunes=True)
        scores = np.sort(walk.importance().numpy()[1:])
    one = np.array([0])
    for score in scores[:6]:
        beyond = float(np.nextafter(score, np.float32(1)))
        counts = [trace.passes(tau, 0.0, one).tokens[0, 0] for tau in (beyond, float(score), beyond, float(score))]
        assert counts[0] == counts[2] == counts[1] - 1 == counts[3] - 1


def test_only_the_examples_that_are_asked_for_are_run(trace: PruningTrace) -> None:
    trace.losses({"tau_token": 0.05}, np.arange(30))
    assert trace.examples_run == 60
    some = trace.losses({"tau_token": 0.05}, np.array([40, 3]))
    assert trace.examples_run == 62
    whole = trace.losses({"tau_token": 0.05}, trace.examples)
    assert trace.examples_run == 400
    for name, values in some.items():
        assert (values == whole[name][[40, 3]]).all()


def test_stronger_pruning_runs_fewer_tokens(trace: PruningTrace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens that are gone are gone: counted where the layers run."""
    ran: list[int] = []
    step = Walk.step

    def counted(walk: Walk) -> None:
        ran.append(len(walk.batch.states))
        step(walk)

    monkeypatch.setattr(Walk, "step", counted)
    totals = []
    for tau in (0.0, 0.03, 0.05, 0.1, 1.0):
        ran.clear()
        fresh = PruningTrace(trace.network, trace.tokens, trace.labels, progress=False)
        assert sum(ran) == 0
        found = fresh.passes(tau, 0.0)
        assert sum(ran) == found.tokens.sum()
        totals.append(sum(ran))
    assert all(after < before for before, after in itertools.pairwise(totals))
    assert totals[-1] == 4 * len(trace)


def test_labels_and_examples_must_match(network: Network, data: Any) -> None:
    with pytest.raises(InvalidInputError, match="a label for each of 200 examples; got 7"):
        PruningTrace(network, data[0], data[1][:7])


def test_the_fingerprint_names_weights_examples_and_labels(network: Network, data: Any) -> None:
    """Other labels, other examples or other weights make another trace."""
    tokens, labels = data
    same = PruningTrace(network, tokens, labels).fingerprint
    assert PruningTrace(network, tokens, labels.copy()).fingerprint == same
    assert PruningTrace(network, tokens, (labels + 1) % 3).fingerprint != same
    assert PruningTrace(network, tokens.take(np.arange(199, -1, -1)), labels).fingerprint != same
    other = replace(network, head_scores=network.head_scores[::-1].copy())
    assert PruningTrace(other, tokens, labels).fingerprint != same
    other = replace(network, layout=Layout(first_exit=1))
    assert PruningTrace(other, tokens, labels).fingerprint != same
