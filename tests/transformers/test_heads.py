"""The small networks: what they see, what they are trained for, and that the encoder beside them stays as it is."""

from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch

from riskfront.transformers import HeadTraining, Network, train_exit_heads, train_token_predictors
from riskfront.transformers.backbone import Packed
from riskfront.transformers.head_training import cls_states, exit_losses, predictor_loss
from riskfront.transformers.heads import ExitHeads, TokenPredictors, entropy, log_softmax_by_example
from riskfront.transformers.network import Walk
from tests.support.transformer_reference import small_network, softmax


def test_exit_heads_see_the_cls_states_of_this_and_all_earlier_layers(network: Network, data: Any) -> None:
    tokens, _ = data
    backbone = network.backbone
    found = cls_states(backbone, tokens, 32)
    positions = np.array([3, 0, 77])
    inputs = tokens.padded(positions)
    with torch.no_grad():
        hidden = backbone.model(**inputs, output_hidden_states=True).hidden_states[1:]
        walk = Walk(network, backbone.layers(), inputs, exits=True, prunes=False)
        for j in range(3):
            wanted = np.concatenate([hidden[k][:, 0].double().numpy() for k in range(j + 1)], axis=1)
            seen = found[torch.from_numpy(positions), : (j + 1) * 32]
            np.testing.assert_allclose(seen.numpy(), wanted, atol=1e-4)
            walk.step()
            logits = small_network(network.exit_heads.heads[j], wanted)
            np.testing.assert_allclose(walk.probabilities().numpy(), [softmax(row) for row in logits], atol=1e-4)


def test_exit_losses_are_cross_entropies() -> None:
    rng = np.random.default_rng(0)
    heads = ExitHeads(3, 4, 5)
    history, labels = rng.normal(size=(6, 12)).astype(np.float32), rng.integers(5, size=6)
    found = exit_losses(heads, torch.from_numpy(history), torch.from_numpy(labels))
    assert len(found) == 2
    for j, loss in enumerate(found):
        rows = small_network(heads.heads[j], history[:, : 4 * (j + 1)].astype(float))
        wanted = np.mean([-np.log(softmax(row)[label]) for row, label in zip(rows, labels, strict=True)])
        assert float(loss.detach()) == pytest.approx(wanted, rel=1e-5)


def test_predictor_loss_is_the_cross_entropy_to_the_scores_of_each_example() -> None:
    rng = np.random.default_rng(1)
    predictors = TokenPredictors(4, 6)
    lengths = [3, 1, 5]
    states = [torch.from_numpy(rng.normal(size=(9, 6)).astype(np.float32)) for _ in range(4)]
    scores = np.concatenate([rng.dirichlet(np.ones(n)) for n in lengths])
    found = predictor_loss(predictors, states, torch.from_numpy(scores).float(), torch.tensor(lengths))
    wanted = 0.0
    for j in range(3):
        start = 0
        for n in lengths:
            seen = np.concatenate([states[k].double().numpy()[start : start + n] for k in range(j + 1)], axis=1)
            predicted = softmax(small_network(predictors.predictors[j], seen)[:, 0])
            wanted += -sum(r * np.log(s) for r, s in zip(scores[start : start + n], predicted, strict=True)) / 3
            start += n
    assert float(found.detach()) == pytest.approx(wanted, rel=1e-5)


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
    try:
        heads = train_exit_heads(network.backbone, few, few, HeadTraining(epochs=1), progress=False)
        predictors = train_token_predictors(network.backbone, *few, HeadTraining(), progress=False)
        trains = {name: value.requires_grad for name, value in model.named_parameters()}
        assert trains == {name: not name.startswith("bert.embeddings.") for name in trains}
    finally:
        model.requires_grad_(True)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
    shapes = [tuple(head[0].weight.shape) for head in heads.heads]
    assert shapes == [tuple(p[0].weight.shape) for p in predictors.predictors] == [(32, 32), (32, 64), (32, 96)]
    assert [tuple(head[2].weight.shape) for head in heads.heads] == [(3, 32)] * 3


def test_of_each_exit_head_the_best_epoch_is_kept(network: Network, data: Any) -> None:
    """Training on false labels makes every epoch worse on true ones: the first must win, however many follow."""
    tokens, labels = data
    false = (tokens, (labels + 1) % 3)
    one, many = (
        train_exit_heads(
            network.backbone, false, data, HeadTraining(epochs=epochs, learning_rate=3e-3), progress=False
        ).state_dict()
        for epochs in (1, 4)
    )
    for name, value in one.items():
        torch.testing.assert_close(many[name], value)


def test_token_rows_limits_what_predictors_learn_from(network: Network, data: Any, monkeypatch: Any) -> None:
    from riskfront.transformers import head_training

    seen = []
    plain = head_training.token_importance

    def counted(backbone: Any, inputs: Any, labels: Any) -> Any:
        seen.append(len(labels))
        return plain(backbone, inputs, labels)

    monkeypatch.setattr(head_training, "token_importance", counted)
    train_token_predictors(network.backbone, *data, HeadTraining(token_rows=50, token_epochs=2), progress=False)
    assert sum(seen) == 100
