"""Milliseconds on this machine: what each part of the network takes for one text, measured once, then added up along a trace.

FLOPs do not know small matrices, memory or 8-bit integers; a clock does. Parts are timed alone at a few lengths, in rounds that
take turns, and the fastest of the rounds counts, so that other programs on the machine disturb little.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from riskfront._support.arrays import Array
from riskfront._support.checked_json import DamagedError, from_bytes, to_bytes
from riskfront._support.files import write_text
from riskfront.errors import StoreError
from riskfront.transformers._backbones import Packed
from riskfront.transformers._data.tokens import Tokens
from riskfront.transformers._exits import FIRST, SECOND, entropy, features
from riskfront.transformers._pruning.cost import Work, until_leaving
from riskfront.transformers._pruning.network import Network

ROUNDS = 7


@dataclass(frozen=True)
class Clock:
    """Milliseconds of each part for one text of so many tokens.

    Args:
        tokens: (lengths,), rising from 1.
        heads: (counts,), numbers of heads at which a layer was timed, rising from 0.
        layer: (counts, lengths), `embedding`, `exit`, `predictor`, `words`: (lengths,).
    """

    tokens: Array
    heads: Array
    layer: Array
    embedding: Array
    exit: Array
    predictor: Array
    words: Array = field(default_factory=lambda: np.zeros(0))

    def milliseconds(self, network: Network, work: Work) -> Array:
        """(examples,): the parts that were run of each example, one text at a time."""
        kept = work.heads
        layers = np.stack([self._layer(work.tokens[:, j], int(kept[j])) for j in range(len(kept))], axis=1)
        depths = np.arange(len(kept))
        exits = self._at(self.exit, work.read) * work.asked(network.layout.first_exit)
        predictors = self._at(self.predictor, work.read) * (work.prunes & (depths >= network.layout.first_predictor))
        total = (
            self._at(self.embedding, work.lengths)
            + until_leaving(layers + predictors, work.layers_run)
            + until_leaving(exits, np.minimum(work.layers_run + 1, len(kept)))
        )
        if work.by_words is None:
            return total
        return np.where(work.by_words, 0.0, total) + self._at(self.words, work.lengths)

    def save(self, path: Path) -> None:
        values = {name: np.asarray(getattr(self, name)).tolist() for name in self.__annotations__}
        write_text(path, to_bytes(values).decode())

    @classmethod
    def load(cls, path: Path) -> Clock:
        try:
            values = from_bytes(path.read_bytes())
            return cls(**{name: np.array(values[name]) for name in cls.__annotations__})
        except (OSError, DamagedError, KeyError) as error:
            raise StoreError(
                f"'{path}' must hold times as they were measured; it cannot be read ({error}). Delete it, and certify again."
            ) from None

    def _layer(self, tokens: Array, heads: int) -> Array:
        at = [self._at(row, tokens) for row in self.layer]
        place = int(np.clip(np.searchsorted(self.heads, heads), 1, len(self.heads) - 1))
        share = (heads - self.heads[place - 1]) / (self.heads[place] - self.heads[place - 1])
        return (1 - share) * at[place - 1] + share * at[place]

    def _at(self, values: Array, tokens: Array) -> Array:
        return np.interp(tokens, self.tokens, values)


@torch.inference_mode()
def measure_clock(network: Network, max_length: int, precision: str = "float32") -> Clock:
    """Time every part at a few lengths up to `max_length`; takes seconds."""
    tokens = np.unique(np.geomspace(1, max(2, max_length), 8).round().astype(int))
    n_heads = network.backbone.n_heads
    heads = np.array([0, n_heads // 2, n_heads])
    masks = [np.zeros((network.backbone.n_layers, n_heads), dtype=bool) for _ in heads]
    for mask, count in zip(masks, heads, strict=True):
        mask[:, :count] = True
    layers = [network.layers(mask, precision)[1] for mask in masks]
    runs: list[Callable[[], Any]] = []
    for n in tokens:
        batch = _some_tokens(network, int(n))
        runs += [partial(layer, batch) for layer in layers]
        runs += [partial(_some_tokens, network, int(n))]
        runs += [partial(_ask_exit, network, batch), partial(_ask_predictor, network, batch)]
        runs += [partial(_ask_words, network, int(n))]
    found = fastest(runs).reshape(len(tokens), -1).T
    return Clock(tokens, heads, found[:3], found[3], found[4], found[5], found[6])


def clocks_of(
    network: Network, max_length: int, precisions: Sequence[str], folder: Path | None = None
) -> dict[str, Clock]:
    """A clock for each precision; kept in `folder`, so that a run that goes on later reads the same times."""
    found = {}
    for precision in precisions:
        path = None if folder is None else folder / f"latency-{network.fingerprint[:16]}-{precision}.json"
        if path is not None and path.is_file():
            found[precision] = Clock.load(path)
            continue
        found[precision] = measure_clock(network, max_length, precision)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            found[precision].save(path)
    return found


def fastest(runs: list[Callable[[], Any]]) -> Array:
    """Milliseconds of each, the lowest of several rounds in which all take turns."""
    best = np.full(len(runs), np.inf)
    for _ in range(ROUNDS):
        for i, run in enumerate(runs):
            begin = time.perf_counter()
            run()
            best[i] = min(best[i], 1000 * (time.perf_counter() - begin))
    return best


def _some_tokens(network: Network, n: int) -> Packed:
    place, backbone = network.backbone.device, network.backbone
    ids = torch.arange(n, device=place)[None] % (int(backbone.config.vocab_size) - 4) + 4
    return backbone.embed({"input_ids": ids, "attention_mask": torch.ones_like(ids)})


def _ask_exit(network: Network, batch: Packed) -> bool:
    """As the runtime does it, at the last depth."""
    layout, depth = network.layout, network.backbone.n_layers - 1
    texts = torch.full((len(batch.states),), FIRST, device=batch.states.device)
    texts[len(texts) // 2 :] = SECOND
    read = features(layout.exits, layout.pairs, batch.states.float(), batch.lengths, texts)
    parts = layout.exit_parts(depth) * batch.states.shape[1] // read.shape[1]
    found = torch.softmax(network.exit_heads(depth, read.repeat(1, parts)), dim=1)
    return bool((entropy(found) < 0.1).any())


def _ask_words(network: Network, n: int) -> bool:
    if network.words is None:
        return False
    tokens = Tokens([np.arange(n + 1)], None, 0)
    return bool((entropy(network.read_words(tokens, np.array([0]))) < 0.1).any())


def _ask_predictor(network: Network, batch: Packed) -> Packed:
    depth = network.backbone.n_layers - 1
    seen = batch.with_states(batch.states.float().repeat(1, network.layout.predictor_parts(depth)))
    keep = network.predictors.importance(depth, seen) >= 0.0
    return batch.only_tokens(keep)
