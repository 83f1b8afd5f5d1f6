"""The small networks: what they see, what they are trained for, and that the encoder beside them stays as it is."""

from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch

from riskfront.transformers import HeadTraining
from riskfront.transformers._backbones.backbone import Backbone, Packed
from riskfront.transformers._exits import (
    ExitHeads,
    Layout,
    TokenPredictors,
    entropy,
    fold_standardisation,
    log_softmax_by_example,
)
from riskfront.transformers._learning.exit_reading import exit_features
from riskfront.transformers._learning.head_training import (
    Scale,
    best_temperature,
    exit_losses,
    predictor_loss,
    reads,
    train_token_predictors,
)
from riskfront.transformers._pruning.network import Network, Walk
from tests.support import tiny_transformers as tiny
from tests.support.transformer_reference import read_by_exit, small_network, softmax


@pytest.mark.parametrize("kind", ["network", "pair_network", "paper_network"])
def test_exit_heads_read_what_the_layout_says(kind: str, request: Any) -> None:
    network = request.getfixturevalue(kind)
    layout, backbone = network.layout, network.backbone
    tokens, _ = tiny.tokens_and_labels(tiny.make_pairs(90, 4) if layout.pairs else tiny.make_frame(90, 4))
    found = exit_features(backbone, layout, tokens, 32)
    positions = np.array([3, 0, 77])
    inputs = tokens.padded(positions)
    with torch.no_grad():
        hidden = backbone.model(**inputs, output_hidden_states=True).hidden_states
        walk = Walk(network, backbone.layers(), tokens, positions, exits=True, prunes=False)
        for depth in range(4):
            assert walk.at_exit == (depth >= layout.first_exit)
            if walk.at_exit:
                wanted = np.stack(
                    [whole_read(network, hidden, depth, row, tokens, i) for row, i in enumerate(positions)]
                )
                k = depth - layout.first_exit
                np.testing.assert_allclose(
                    reads(layout.history, found[torch.from_numpy(positions)], k), wanted, atol=1e-4
                )
                logits = small_network(network.exit_heads.heads[k], wanted)
                np.testing.assert_allclose(walk.probabilities().numpy(), [softmax(row) for row in logits], atol=1e-3)
            walk.step()


def whole_read(network: Network, hidden: Any, depth: int, row: int, tokens: Any, i: int) -> np.ndarray:
    """What the exit at this depth reads of one example, nothing pruned."""
    layout, n = network.layout, len(tokens.ids[i])
    texts = tokens.packed_texts(np.array([i])).tolist()
    depths = range(layout.first_exit, depth + 1) if layout.history else [depth]
    return np.concatenate([read_by_exit(network, hidden[d][row, :n].double().numpy(), texts) for d in depths])


def test_exit_losses_are_cross_entropies() -> None:
    rng = np.random.default_rng(0)
    for layout in (Layout(), Layout.of("cls", pairs=False)):
        heads = ExitHeads(layout, 3, 4, 5)
        n_exits, width = (3, 8) if layout.exits == "pooled" else (2, 4)
        seen, labels = rng.normal(size=(6, n_exits, width)).astype(np.float32), rng.integers(5, size=6)
        found = exit_losses(heads, layout, torch.from_numpy(seen), torch.from_numpy(labels))
        assert len(found) == n_exits
        for k, loss in enumerate(found):
            read = seen[:, : k + 1].reshape(6, -1) if layout.history else seen[:, k]
            rows = small_network(heads.heads[k], read.astype(float))
            wanted = np.mean([-np.log(softmax(row)[label]) for row, label in zip(rows, labels, strict=True)])
            assert float(loss.detach()) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("history", [False, True])
def test_predictor_loss_is_the_cross_entropy_to_the_scores_of_each_example(history: bool) -> None:
    rng = np.random.default_rng(1)
    layout = Layout(history=history)
    predictors = TokenPredictors(layout, 4, 6)
    lengths = [3, 1, 5]
    seen = rng.normal(size=(9, 4, 6)).astype(np.float32)
    scores = np.concatenate([rng.dirichlet(np.ones(n)) for n in lengths])
    found = predictor_loss(
        predictors, layout, torch.from_numpy(seen), torch.from_numpy(scores).float(), torch.tensor(lengths)
    )
    wanted = 0.0
    for j in range(4):
        start = 0
        for n in lengths:
            rows = seen[start : start + n, (0 if history else j) : j + 1].reshape(n, -1).astype(float)
            predicted = softmax(small_network(predictors.predictors[j], rows)[:, 0])
            wanted += -sum(r * np.log(s) for r, s in zip(scores[start : start + n], predicted, strict=True)) / 3
            start += n
    assert float(found.detach()) == pytest.approx(wanted, rel=1e-5)


def test_folding_the_scale_changes_no_answer() -> None:
    """Inputs that vary by a thousandth of their size, and one that does not vary at all."""
    rng = np.random.default_rng(4)
    seen = torch.from_numpy((3 + 0.003 * rng.normal(size=(200, 1, 6))).astype(np.float32))
    seen[:, 0, 5] = 0.7
    scale = Scale.of(seen)
    scaled = scale(seen)
    np.testing.assert_allclose(scaled[:, 0, :5].std(dim=0, correction=0), 1, rtol=1e-3)
    assert (scaled[:, 0, 5] == 0).all()
    linear = torch.nn.Linear(6, 4)
    wanted = linear(scaled[:, 0]).detach()
    fold_standardisation(linear, scale.mean[0], scale.deviation[0])
    np.testing.assert_allclose(linear(seen[:, 0]).detach(), wanted, atol=2e-3)


def test_exits_learn_from_what_varies_little(data: Any) -> None:
    """States whose differences are a thousandth of their size: without standardising, exits learn nothing."""
    model = tiny.new_model()
    with torch.no_grad():
        norm = model.bert.embeddings.LayerNorm
        norm.weight.mul_(1e-3)
        norm.bias.fill_(0.4)
    tokens, labels = data
    right = []
    for standardise in (True, False):
        how = HeadTraining(epochs=30, learning_rate=3e-3, standardise=standardise)
        heads = tiny.train_exit_heads(Backbone(model), Layout(), data, data, how, progress=False)
        seen = exit_features(Backbone(model), Layout(), tokens, 32)[:, 0]
        right.append((heads(0, seen).argmax(dim=1).numpy() == labels).mean())
    assert right[0] > 0.7
    assert right[1] < 0.5


def test_few_rows_get_as_many_steps_as_many_rows() -> None:
    """Ten passes over a few hundred rows are too few steps: exits then learn less than a linear classifier."""
    left_open = HeadTraining()
    assert left_open.exit_epochs(20_000) == 10
    for rows in (50, 300, 2000):
        steps = left_open.exit_epochs(rows) * max(rows // left_open.exit_batch, 1)
        assert 330 <= steps <= 800
    assert HeadTraining(epochs=3).exit_epochs(50) == 3


def test_the_temperature_is_the_one_with_the_lowest_loss() -> None:
    rng = np.random.default_rng(5)
    logits = rng.normal(size=(4000, 3))
    labels = np.array([rng.choice(3, p=softmax(row)) for row in logits])
    for factor in (0.5, 1.0, 4.0):
        found = best_temperature(torch.from_numpy(factor * logits), torch.from_numpy(labels))
        assert found == pytest.approx(factor, rel=0.15)


def test_softmax_over_the_tokens_of_each_example() -> None:
    rng = np.random.default_rng(2)
    logits = np.concatenate([rng.normal(size=4), 1e4 + rng.normal(size=3), [-1e4]]).astype(np.float32)
    found = log_softmax_by_example(torch.from_numpy(logits), Packed(torch.zeros(8, 1), torch.tensor([4, 3, 1]))).exp()
    wanted = [*softmax(logits[:4]), *softmax(logits[4:7]), 1.0]
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4)


def test_entropy_is_scipys() -> None:
    probabilities = np.random.default_rng(3).dirichlet(np.ones(5), size=40)
    probabilities = np.vstack([probabilities, np.eye(5), np.full((1, 5), 0.2)])
    found = entropy(torch.from_numpy(probabilities)).numpy()
    np.testing.assert_allclose(found, scipy.stats.entropy(probabilities, axis=1), atol=1e-12)
    assert found[-1] == pytest.approx(np.log(5))


def test_training_leaves_the_encoder_as_it_was(network: Network, data: Any) -> None:
    tokens, labels = data
    model = network.backbone.model
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.bert.embeddings.requires_grad_(False)
    few = (tokens.take(np.arange(40)), labels[:40])
    layout = Layout()
    try:
        heads = tiny.train_exit_heads(network.backbone, layout, few, few, HeadTraining(epochs=1), progress=False)
        predictors = train_token_predictors(network.backbone, layout, *few, HeadTraining(), progress=False)
        trains = {name: value.requires_grad for name, value in model.named_parameters()}
        assert trains == {name: not name.startswith("bert.embeddings.") for name in trains}
    finally:
        model.requires_grad_(True)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert [tuple(head[0].weight.shape) for head in heads.heads] == [(32, 64)] * 4
    assert [tuple(p[0].weight.shape) for p in predictors.predictors] == [(32, 32)] * 4
    assert [tuple(head[2].weight.shape) for head in heads.heads] == [(3, 32)] * 4


def test_the_papers_networks_read_all_depths_so_far(paper_network: Network) -> None:
    shapes = [tuple(head[0].weight.shape) for head in paper_network.exit_heads.heads]
    assert shapes == [tuple(p[0].weight.shape) for p in paper_network.predictors.predictors]
    assert shapes == [(32, 32), (32, 64), (32, 96)]


def test_of_each_exit_head_the_best_epoch_is_kept(network: Network, data: Any) -> None:
    """Training on false labels makes every epoch worse on true ones: the first must win, however many follow."""
    tokens, labels = data
    false = (tokens, (labels + 1) % 3)
    one, many = (
        tiny.train_exit_heads(
            network.backbone, Layout(), false, data, HeadTraining(epochs=epochs, learning_rate=3e-3), progress=False
        ).state_dict()
        for epochs in (1, 4)
    )
    for name, value in one.items():
        torch.testing.assert_close(many[name], value)


def test_token_rows_limits_what_predictors_learn_from(network: Network, data: Any, monkeypatch: Any) -> None:
    from riskfront.transformers._learning import head_training

    seen = []
    plain = head_training.token_importance

    def counted(backbone: Any, inputs: Any, labels: Any) -> Any:
        seen.append(len(labels))
        return plain(backbone, inputs, labels)

    monkeypatch.setattr(head_training, "token_importance", counted)
    train_token_predictors(
        network.backbone, Layout(), *data, HeadTraining(token_rows=50, token_epochs=2), progress=False
    )
    assert sum(seen) == 100
