"""What each exit answers, beside the full model, the most frequent class, and a linear classifier on what the exit reads."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from riskfront._support.arrays import IntArray
from riskfront.transformers._data.tokens import Tokens
from riskfront.transformers._exits.heads import ExitHeads
from riskfront.transformers._exits.layout import Layout
from riskfront.transformers._learning.head_training import reads
from riskfront.transformers._pruning.network import Network, Walk


@dataclass(frozen=True)
class ExitReport:
    """On validation examples, nothing pruned unless it says so.

    Args:
        first: depth of the first exit.
        accuracy: of each exit, in the order of depths.
        full: accuracy of the full model.
        majority: share of the most frequent class.
        n: examples.
        probe: accuracy of a linear classifier on what each exit reads; empty where none was trained.
        pruned: accuracy of each exit where tokens and heads were dropped on the way, at random thresholds; empty where exits
            did not learn from such texts.
    """

    first: int
    accuracy: tuple[float, ...]
    full: float
    majority: float
    n: int
    probe: tuple[float, ...] = ()
    pruned: tuple[float, ...] = ()

    @property
    def dead(self) -> list[int]:
        """Depths whose exit is not clearly better than the most frequent class: within one standard error of it.

        Fewer than 50 examples cannot tell.
        """
        if self.n < 50:
            return []
        margin = math.sqrt(self.majority * (1 - self.majority) / self.n)
        return [self.first + k for k, found in enumerate(self.accuracy) if found <= self.majority + margin]

    @property
    def behind(self) -> list[int]:
        """Depths whose exit is clearly worse than a linear classifier on the same inputs: by two standard errors."""
        pairs = zip(self.accuracy, self.probe, strict=True) if self.probe and self.n >= 50 else ()
        return [
            self.first + k
            for k, (own, probe) in enumerate(pairs)
            if own < probe - 2 * math.sqrt((own * (1 - own) + probe * (1 - probe)) / self.n)
        ]

    def __str__(self) -> str:
        found = " ".join(f"{_short(value)}" for value in self.accuracy)
        place = "before the first layer and after each" if self.first == 0 else "after each layer"
        linear = f"; a linear classifier there {' '.join(map(_short, self.probe))}" if self.probe else ""
        pruned = f"; with tokens and heads dropped {' '.join(map(_short, self.pruned))}" if self.pruned else ""
        said = (
            f"exits are right, {place}: {found}{linear}{pruned}; the full model {_short(self.full)}, the most frequent class "
            f"{_short(self.majority)} ({self.n:,} validation texts)"
        )
        if not self.behind:
            return said
        return (
            f"{said}. {len(self.behind)} of {len(self.accuracy)} exits answer worse than a linear classifier on what they "
            f"read, those after {_listed(self.behind)} layers: train them for more epochs (--exit-epochs, HeadTraining)"
        )

    def warning(self) -> str | None:
        if not self.dead:
            return None
        return (
            f"{len(self.dead)} of {len(self.accuracy)} exits answer no better than the most frequent class "
            f"({_short(self.majority)}): those after {_listed(self.dead)} layers. Nothing can leave there safely; more rows, "
            "exits='pooled' or a weight on early layers may help."
        )

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> ExitReport:
        values = json.loads(path.read_text(encoding="utf-8"))
        return cls(**values | {name: tuple(values.get(name, ())) for name in ("accuracy", "probe", "pruned")})


@torch.inference_mode()
def report_exits(network: Network, tokens: Tokens, labels: IntArray, *, batch_size: int = 32) -> ExitReport:
    """One pass over these examples."""
    n_layers, first, place = network.backbone.n_layers, network.layout.first_exit, network.backbone.device
    right = np.zeros(n_layers + 1)
    for batch in tokens.batches(batch_size):
        inputs, texts = tokens.padded(batch, place), tokens.packed_texts(batch, place)
        walk = Walk(network, network.layers(network.kept_heads(0.0)), inputs, texts, exits=True, prunes=False)
        while True:
            if walk.at_exit:
                right[walk.depth] += (walk.probabilities().argmax(dim=1).cpu().numpy() == labels[batch]).sum()
            if walk.depth == n_layers:
                break
            walk.step()
    accuracy = (right / len(tokens)).tolist()
    majority = float(np.bincount(labels).max() / len(labels))
    return ExitReport(first, tuple(accuracy[first:-1]), accuracy[-1], majority, len(tokens))


@torch.no_grad()
def exit_accuracy(heads: ExitHeads, layout: Layout, seen: Tensor, labels: Tensor) -> tuple[float, ...]:
    """Of each exit, on what it reads, (examples, depths, parts x width)."""
    answers = [heads(layout.first_exit + k, reads(layout.history, seen, k)) for k in range(seen.shape[1])]
    return tuple(float((found.argmax(dim=1) == labels).double().mean()) for found in answers)


def _short(share: float) -> str:
    return f"{share:.3f}".removeprefix("0")


def _listed(depths: list[int]) -> str:
    return ", ".join(map(str, depths))
