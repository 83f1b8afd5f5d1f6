"""Slow and plain: one example at a time through the Hugging Face modules, on whichever of its tokens are left."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from riskfront.transformers import Network, Setting, Tokens


@dataclass
class Run:
    """One example: after each layer that was run the probabilities and the positions of the tokens that entered it."""

    probabilities: list[np.ndarray]
    entered: list[list[int]]


@contextmanager
def without_heads(model: Any, kept: np.ndarray) -> Iterator[None]:
    """The outputs of heads that are not kept are zero, by hooks before the projection that joins them."""
    size = model.config.hidden_size // model.config.num_attention_heads

    def zero(layer: int) -> Any:
        def hook(module: Any, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
            found = inputs[0].clone()
            for head, keeps in enumerate(kept[layer]):
                if not keeps:
                    found[..., head * size : (head + 1) * size] = 0
            return (found,)

        return hook

    modules = [layer.attention.output.dense for layer in model.base_model.encoder.layer]
    hooks = [module.register_forward_pre_hook(zero(j)) for j, module in enumerate(modules)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def softmax(values: Any) -> np.ndarray:
    values = np.asarray(values, dtype=np.float64)
    raised = np.exp(values - values.max())
    return raised / raised.sum()


def small_network(module: Any, values: np.ndarray) -> np.ndarray:
    """Two layers and a ReLU, with the weights of a Sequential."""
    weights = {name: value.double().numpy() for name, value in module.state_dict().items()}
    hidden = np.maximum(0, values @ weights["0.weight"].T + weights["0.bias"])
    return hidden @ weights["2.weight"].T + weights["2.bias"]


@torch.no_grad()
def run(network: Network, tokens: Tokens, example: int, setting: Setting) -> Run:
    """Every layer, tokens pruned after each, without leaving early."""
    model = network.backbone.model
    inputs = {"input_ids": torch.tensor(tokens.ids[example])[None].long()}
    if tokens.types is not None:
        inputs["token_type_ids"] = torch.tensor(tokens.types[example])[None].long()
    states = model.base_model.embeddings(**inputs)
    left = list(range(states.shape[1]))
    cls_history: list[np.ndarray] = []
    histories: list[list[np.ndarray]] = [[] for _ in left]
    found = Run([], [])
    layers = model.base_model.encoder.layer
    with without_heads(model, network.head_scores >= setting.tau_head):
        for j, layer in enumerate(layers):
            found.entered.append(list(left))
            output = layer(states)
            states = output[0] if isinstance(output, tuple) else output
            here = states[0].double().numpy()
            cls_history.append(here[0])
            for place, position in enumerate(left):
                histories[position].append(here[place])
            if j == len(layers) - 1:
                logits = model.classifier(model.base_model.pooler(states))[0]
                found.probabilities.append(softmax(logits.numpy()))
                break
            head = network.exit_heads.heads[j]
            found.probabilities.append(softmax(small_network(head, np.concatenate(cls_history))))
            predictor = network.predictors.predictors[j]
            logits = [small_network(predictor, np.concatenate(histories[position]))[0] for position in left]
            keep = [place for place, score in enumerate(softmax(logits)) if place == 0 or score >= setting.tau_token]
            left = [left[place] for place in keep]
            states = states[:, keep]
    return found


def entropy(probabilities: np.ndarray) -> float:
    return -sum(p * np.log(p) for p in probabilities if p > 0)


def exit_layer(found: Run, tau_layer: float) -> int:
    """From 1: the first whose entropy is below the threshold, or the last."""
    for j, probabilities in enumerate(found.probabilities):
        if entropy(probabilities) < tau_layer:
            return j + 1
    return len(found.probabilities)
