"""Slow and plain: one example at a time through the Hugging Face modules, on whichever of its tokens are left."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from riskfront.transformers._data.tokens import Tokens
from riskfront.transformers._pruning.network import Network, Setting


@dataclass
class Run:
    """One example: the probabilities at every depth, None where there is no exit, and the tokens that entered each layer."""

    probabilities: list[np.ndarray | None]
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


def read_by_exit(network: Network, states: np.ndarray, texts: list[int]) -> np.ndarray:
    """What an exit reads of the tokens that are left, (tokens, width), with the text each of them is of."""
    if network.layout.exits == "cls":
        return states[0]
    first, second, both = (
        np.mean([row for row, text in zip(states, texts, strict=True) if text in wanted] or [states[0]], axis=0)
        for wanted in ((1,), (2,), (1, 2))
    )
    if not network.layout.pairs:
        return np.concatenate([states[0], both])
    return np.concatenate([states[0], first, second, abs(first - second), first * second])


@torch.no_grad()
def run(network: Network, tokens: Tokens, example: int, setting: Setting) -> Run:
    """Every layer, tokens pruned before each, without leaving early."""
    model, layout = network.backbone.model, network.layout
    inputs = {"input_ids": torch.tensor(tokens.ids[example])[None].long()}
    if tokens.types is not None:
        inputs["token_type_ids"] = torch.tensor(tokens.types[example])[None].long()
    states = model.base_model.embeddings(**inputs)
    texts = tokens.packed_texts(np.array([example])).tolist()
    left = list(range(states.shape[1]))
    seen: list[np.ndarray] = []
    histories: list[list[np.ndarray]] = [[] for _ in left]
    found = Run([], [])
    with without_heads(model, network.head_scores >= setting.tau_head):
        for depth, layer in enumerate(model.base_model.encoder.layer):
            here = states[0].double().numpy()
            if depth < layout.first_exit:
                found.probabilities.append(None)
            else:
                seen.append(read_by_exit(network, here, [texts[position] for position in left]))
                head = network.exit_heads.heads[depth - layout.first_exit]
                inputs_of_exit = np.concatenate(seen) if layout.history else seen[-1]
                found.probabilities.append(softmax(small_network(head, inputs_of_exit)))
            if depth >= layout.first_predictor:
                for place, position in enumerate(left):
                    histories[position] = [*(histories[position] if layout.history else []), here[place]]
                predictor = network.predictors.predictors[depth - layout.first_predictor]
                logits = [small_network(predictor, np.concatenate(histories[position]))[0] for position in left]
                scores = softmax(logits)
                keep = [place for place, score in enumerate(scores) if place == 0 or score >= setting.tau_token]
                left = [left[place] for place in keep]
                states = states[:, keep]
            found.entered.append(list(left))
            output = layer(states)
            states = output[0] if isinstance(output, tuple) else output
        logits = model.classifier(model.base_model.pooler(states))[0]
        found.probabilities.append(softmax(logits.numpy()))
    return found


def entropy(probabilities: np.ndarray) -> float:
    return -sum(p * np.log(p) for p in probabilities if p > 0)


def exit_layer(found: Run, tau_layer: float) -> int:
    """From 0: the layers run before the first exit whose entropy is below the threshold, or all."""
    for depth, probabilities in enumerate(found.probabilities):
        if probabilities is not None and entropy(probabilities) < tau_layer:
            return depth
    return len(found.probabilities) - 1
