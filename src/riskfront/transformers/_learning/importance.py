"""What matters to the fine-tuned model: attention heads, by the loss, and tokens, by the probability of the true class."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from riskfront._support.arrays import Array, IntArray
from riskfront._support.progress import ProgressBar
from riskfront.transformers._backbones.backbone import Backbone
from riskfront.transformers._data.tokens import Tokens


def head_importance(
    backbone: Backbone, tokens: Tokens, labels: IntArray, *, batch_size: int = 32, progress: bool | None = None
) -> Array:
    """(layers, heads): the mean over examples of |Attn^T dL/dAttn|, scaled to a sum of one in each layer.

    The output of a head enters the next projection linearly, so its product with the gradient is the same before and after
    that projection; here it is taken before, where the heads stand side by side.
    """
    total = torch.zeros(backbone.n_layers, backbone.n_heads, dtype=torch.float64)
    outputs: list[Tensor] = []  # of the heads, layer after layer; a layer may run several times

    def catch(module: Any, inputs: tuple[Tensor, ...]) -> None:
        outputs.append(inputs[0])

    hooks = [linear.register_forward_pre_hook(catch) for linear in dict.fromkeys(backbone.attention_outputs)]
    try:
        with ProgressBar("scoring heads", len(tokens), shown=progress) as bar, torch.enable_grad():
            for batch in tokens.batches(batch_size):
                outputs.clear()
                logits = backbone.model(**tokens.padded(batch, backbone.device)).logits
                wanted = torch.from_numpy(labels[batch]).to(backbone.device)
                # summed, so that each example has the gradient of its own loss
                loss = torch.nn.functional.cross_entropy(logits, wanted, reduction="sum")
                for j, (output, gradient) in enumerate(zip(outputs, torch.autograd.grad(loss, outputs), strict=True)):
                    product = (output.detach() * gradient).view(len(batch), -1, backbone.n_heads, backbone.head_size)
                    total[j] += product.sum(dim=(1, 3)).abs().double().sum(dim=0).cpu()
                bar.advance(len(batch))
    finally:
        for hook in hooks:
            hook.remove()
    scores: Array = (total / total.sum(dim=1, keepdim=True).clamp_min(1e-300)).numpy()
    return scores


def token_importance(backbone: Backbone, inputs: dict[str, Tensor], labels: Tensor) -> tuple[Tensor, list[Tensor]]:
    """One pass through the model: the scores r of a padded batch, and the states at every depth, both packed.

    r_l = || df(x, y)/de_l * e_l ||_2, scaled to a sum of one over each example; f is the probability of the true class y and
    e_l the word embedding of token l. The gradient of log f is the same up to that scale, and stays where f is near 1.
    """
    words = backbone.word_embeddings(inputs["input_ids"]).detach().requires_grad_()

    def replace(module: Any, given: Any, output: Tensor) -> Tensor:
        return words

    hook = backbone.word_embeddings.register_forward_hook(replace)
    try:
        with torch.enable_grad():
            found = backbone.model(**inputs, output_hidden_states=True)
            true = torch.log_softmax(found.logits.double(), dim=1).gather(1, labels[:, None]).sum()
            (gradient,) = torch.autograd.grad(true, words)
    finally:
        hook.remove()
    mask = inputs["attention_mask"].bool()
    scores = (gradient * words).detach().double().norm(dim=2) * mask
    scores = scores / scores.sum(dim=1, keepdim=True).clamp_min(1e-300)
    return scores[mask].float(), [states.detach()[mask] for states in found.hidden_states]
