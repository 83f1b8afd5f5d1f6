"""The runtime of accelerators: the device decides who leaves, and the host never waits for it between two layers.

On a CPU a text that leaves makes the batch smaller at once. On a GPU the host would have to wait for every decision before it
could launch the next layer. Here decisions and answers stay on the device. The host is sent how many texts and tokens are left
and does not wait for it; whenever that news arrives, perhaps layers later, the batch is made as small as it was then, or the
other layers are not launched. Until then texts that have left and dropped tokens are carried along, and nobody attends to them.
The answers of a batch come back in one transfer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from riskfront._support.arrays import IntArray
from riskfront.transformers._backbones.layer import Layer, Packed
from riskfront.transformers._data.tokens import Tokens
from riskfront.transformers._exits import SPECIAL, entropy, log_softmax_by_example, to_scores
from riskfront.transformers._pruning.network import Answers, Network, Setting, Walk, side_by_side


class News:
    """Numbers on their way from the device to the host."""

    def __init__(self, values: Tensor) -> None:
        self._event: Any = None
        if values.device.type == "cuda":
            self._values = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            self._values.copy_(values, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record()
        else:
            self._values = values

    def arrived(self) -> bool:
        """Without waiting."""
        return self._event is None or bool(self._event.query())

    def read(self) -> Tensor:
        """After waiting."""
        if self._event is not None:
            self._event.synchronize()
        return self._values.cpu()


@dataclass(frozen=True)
class Left:
    """What was left of a batch at one depth: the masks on the device, and how many that is, on its way."""

    examples: Tensor  # (examples,), True for those that have not left
    tokens: Tensor  # (tokens,), True for those that were not dropped, of such examples
    counts: News  # examples, tokens, and the most tokens of one example


class StaticWalk(Walk):
    """A walk whose shapes change only when the host is told to: nothing in it waits for the device."""

    def hide_tokens(self, keep: Tensor) -> None:
        """These tokens, (tokens,), are attended to from now on, and [CLS]; the others are carried along."""
        keep = self.shown & keep
        keep = keep.index_fill(0, self.batch.starts, True)
        self.batch = Packed(self.batch.states, self.batch.lengths, self.batch.positions, self._of_shape(), shown=keep)
        self._texts = torch.where(keep, self._texts, SPECIAL)

    @property
    def shown(self) -> Tensor:
        """(tokens,): True for those that were not dropped."""
        found = self.batch.shown
        return torch.ones_like(self._texts, dtype=torch.bool) if found is None else found

    @property
    def n_shown(self) -> Tensor:
        """(examples,): how many tokens of each were not dropped."""
        if self.batch.shown is None:
            return self.batch.lengths
        return torch.zeros_like(self.batch.lengths).index_add(0, self.batch.owner, self.shown.to(torch.int64))

    def importance(self) -> Tensor:
        """(tokens,): the predicted score of each token, among those that were not dropped."""
        seen = Packed(side_by_side(self._history), self.batch.lengths, known=self.batch.known)
        logits = self._network.predictors(self.depth, seen.states)
        return to_scores(log_softmax_by_example(logits.masked_fill(~self.shown, -torch.inf), seen))

    def shrink(self, left: Left, n_examples: int, n_tokens: int, longest: int) -> Tensor:
        """Make the batch as small as it was then; returns which of the examples are still there, (n_examples,)."""
        places = self.batch.places
        lengths = torch.zeros_like(self.batch.lengths).index_add(0, self.batch.owner, left.tokens.to(torch.int64))
        examples = torch.argsort((~left.examples).to(torch.uint8), stable=True)[:n_examples]
        tokens = torch.argsort((~left.tokens).to(torch.uint8), stable=True)[:n_tokens]
        shown = None if self.batch.shown is None else self.batch.shown[tokens]
        known: dict[str, Tensor | None] = {"longest": torch.tensor(longest)}
        self.batch = Packed(self.batch.states[tokens], lengths[examples], places[tokens], known, shown=shown)
        self._texts = self._texts[tokens]
        self._seen = [values[examples] for values in self._seen]
        self._history = [states[tokens] for states in self._history]
        return examples

    def _of_shape(self) -> dict[str, Tensor | None]:
        """What is known of lengths and positions and does not depend on which tokens are shown."""
        kept = ("longest", "starts", "owner", "places", "seat")
        return {name: value for name, value in self.batch.known.items() if name in kept}


def runs_on_device(layers: list[Any]) -> bool:
    """Whether these layers mask what was dropped: those built like BERT's do, whatever their attention."""
    return all(type(layer) is Layer for layer in layers)


@torch.inference_mode()
def answer_on_device(
    network: Network,
    setting: Setting,
    tokens: Tokens,
    *,
    batch_size: int = 32,
    hears: Callable[[News, int], bool] = lambda news, layers: news.arrived(),
) -> Answers:
    """Texts that are tokenised already, in batches of similar length; `hears` says whether the host has heard news sent so many
    layers ago, and by default asks the device, without waiting."""
    layers = network.layers(network.kept_heads(setting.tau_head), setting.precision)
    batches = tokens.batches(batch_size)
    sent = [News(launch(network, layers, setting, tokens, batch, hears)) for batch in batches]
    found = np.zeros((len(tokens), network.backbone.n_classes + 1 + network.backbone.n_layers), dtype=np.float32)
    for batch, answers in zip(batches, sent, strict=True):
        found[batch] = answers.read().numpy()
    n = network.backbone.n_classes
    nobody = np.zeros(len(tokens), dtype=bool)  # left by words: networks with an exit on words do not run here
    return Answers(found[:, :n], found[:, n].astype(np.int64), found[:, n + 1 :].astype(np.int32), nobody)


def launch(
    network: Network,
    layers: list[Any],
    setting: Setting,
    tokens: Tokens,
    batch: IntArray,
    hears: Callable[[News, int], bool],
) -> Tensor:
    """(examples, classes + 1 + layers), on the device: answers, layers run, and tokens that entered each layer."""
    backbone = network.backbone
    place, n_layers = backbone.device, backbone.n_layers
    cut = setting.cut(n_layers) or n_layers
    asked: dict[str, Any] = {
        "exits": setting.tau_layer > 0,
        "prunes": setting.tau_token > 0,
        "cut": setting.cut(n_layers),
    }
    walk = StaticWalk(network, layers, tokens, batch, **asked)
    found = torch.zeros(len(batch), backbone.n_classes, device=place)
    depths = torch.full((len(batch),), cut, device=place)
    entered = torch.zeros(len(batch), n_layers, device=place)
    rows = torch.arange(len(batch), device=place)  # of the examples that are carried along
    stays = torch.ones(len(batch), dtype=torch.bool, device=place)  # of these, who has not left
    on_its_way: list[tuple[int, Left]] = []

    while walk.depth < cut:
        if setting.tau_layer > 0 and walk.at_exit:
            here = walk.probabilities().float()
            leaves = stays & (entropy(here) < setting.tau_layer)
            found[rows] = torch.where(leaves[:, None], here, found[rows])
            depths[rows] = torch.where(leaves, walk.depth, depths[rows])
            stays = stays & ~leaves
        if setting.tau_token > 0 and walk.at_predictor:
            walk.hide_tokens(walk.importance() >= setting.tau_token)
        if walk.depth == 0 or setting.tau_layer > 0 or setting.tau_token > 0:
            on_its_way.append((walk.depth, _left(walk, stays)))
        heard = [left for depth, left in on_its_way if hears(left.counts, walk.depth - depth)]
        if heard:
            n_examples, n_tokens, longest = heard[-1].counts.read().tolist()
            if n_examples == 0:
                break
            if n_tokens < len(walk.batch.states):
                kept = walk.shrink(heard[-1], n_examples, n_tokens, longest)
                rows, stays = rows[kept], stays[kept]
                on_its_way = []  # their masks are of the batch before
        entered[rows, walk.depth] = torch.where(stays, walk.n_shown, 0).to(entered.dtype)
        walk.step()
    else:
        here = walk.probabilities().float()
        found[rows] = torch.where(stays[:, None], here, found[rows])
    return torch.cat([found, depths[:, None], entered], dim=1)


def _left(walk: StaticWalk, stays: Tensor) -> Left:
    tokens = walk.shown & stays[walk.batch.owner]
    most = torch.where(stays, walk.n_shown, 0).max()
    return Left(stays, tokens, News(torch.stack([stays.sum(), tokens.sum(), most])))
