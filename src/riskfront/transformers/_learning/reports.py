"""What training brought: each exit beside the full model and a linear probe, scores of tokens and heads beside chance.

Token predictors and head scores are learnt, so they stand beside the trivial alternative. As many tokens of each text leave at
each depth at random as do by their scores, and as many heads of all layers.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from riskfront._support.arrays import Array, IntArray
from riskfront._support.checked_json import DamagedError, from_bytes, to_bytes
from riskfront._support.files import write_text
from riskfront.transformers._backbones import Packed
from riskfront.transformers._data.tokens import Tokens
from riskfront.transformers._exits import ExitHeads, Layout
from riskfront.transformers._learning.exit_reading import SAMPLE
from riskfront.transformers._learning.head_training import reads
from riskfront.transformers._pruning.network import Network, Walk
from riskfront.transformers._pruning.pruning_trace import PruningTrace, entropies, leaving_depths
from riskfront.transformers._pruning.thresholds import scores_and_entropies

ROWS = 4000  # a probe needs no more, and its cost grows with them
RIDGE = 0.1  # per row and standardised input
DROPS = (0.01, 0.025, 0.05)  # of accuracy, at which exits are compared with and without words
QUANTILES = np.linspace(0.01, 0.99, 60)
TOKENS_BELOW = 0.7  # share of tokens' scores below the threshold
HEADS_DROPPED = 0.5
TEXTS = 200  # that are looked at, at most: five passes


@torch.no_grad()
def probe_accuracy(train: tuple[Tensor, Tensor], held: tuple[Tensor, Tensor]) -> tuple[float, ...]:
    """For each depth the share of held-out examples that a ridge regression on the classes gets right, from what exits read,
    (examples, depths, width), and labels."""
    seen, labels = train[0][:ROWS], train[1][:ROWS]
    classes = int(max(train[1].max(), held[1].max())) + 1
    wanted = functional.one_hot(labels, classes).to(torch.float64)
    return tuple(_probe_right(seen[:, k], wanted, held[0][:, k], held[1]) for k in range(seen.shape[1]))


def _probe_right(seen: Tensor, wanted: Tensor, held: Tensor, labels: Tensor) -> float:
    seen, held = seen.to(torch.float64), held.to(torch.float64)
    mean, deviation = seen.mean(dim=0), seen.std(dim=0, correction=0)
    deviation = torch.where(deviation > 1e-5 * mean.abs().clamp_min(1e-3), deviation, torch.inf)
    x = (seen - mean) / deviation
    centre = wanted.mean(dim=0)
    ridge = RIDGE * len(x) * torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    weights = torch.linalg.solve(x.T @ x + ridge, x.T @ (wanted - centre))
    answers = ((held - mean) / deviation) @ weights + centre
    return float((answers.argmax(dim=1) == labels).double().mean())


CURVE = "learning.json"
WINDOWS = 8  # of the first epoch; the first of them is not fitted, because the learning rate is still rising


Self = TypeVar("Self", bound="_Report")


@dataclass(frozen=True)
class _Report:
    """What a step of training wrote beside its weights, as JSON."""

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls: type[Self], path: Path) -> Self:
        values = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})


@dataclass(frozen=True)
class ExitReport(_Report):
    """On validation examples, nothing pruned unless it says so.

    Args:
        first: depth of the first exit.
        accuracy: of each exit, in the order of depths, `full`: of the full model.
        majority: share of the most frequent class.
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
        """Depths whose exit is not clearly better than the most frequent class."""
        return [self.first + k for k, found in enumerate(self.accuracy) if self._says_nothing(found)]

    @property
    def behind(self) -> list[int]:
        """Depths whose exit is clearly worse than a linear classifier on the same inputs: by two standard errors."""
        pairs = zip(self.accuracy, self.probe, strict=True) if self.probe else ()
        return [self.first + k for k, (own, probe) in enumerate(pairs) if _is_worse(own, probe, self.n)]

    def __str__(self) -> str:
        found = " ".join(map(_short, self.accuracy))
        place = "before the first layer and after each" if self.first == 0 else "after each layer"
        linear = f"; a linear classifier there {' '.join(map(_short, self.probe))}" if self.probe else ""
        pruned = f"; with tokens and heads dropped {' '.join(map(_short, self.pruned))}" if self.pruned else ""
        said = (
            f"exits are right, {place}: {found}{linear}{pruned}; the full model {_short(self.full)}, the most frequent class "
            f"{_short(self.majority)} ({self.n:,} validation texts)"
        )
        if self.learnt_nothing:
            said += (
                ". The full model is right hardly more often than the most frequent class: it has not learnt the task, and a "
                "drop of accuracy from it means little. Train with more epochs, a higher learning rate or more rows, or limit "
                "'error' instead of 'accuracy_drop'"
            )
        if not self.behind:
            return said
        return (
            f"{said}. {len(self.behind)} of {len(self.accuracy)} exits answer worse than a linear classifier on what they "
            f"read, those after {str(self.behind)[1:-1]} layers: train them for more epochs (--exit-epochs, HeadTraining)"
        )

    @property
    def learnt_nothing(self) -> bool:
        """Whether the full model is not clearly better than the most frequent class."""
        return self._says_nothing(self.full)

    def _says_nothing(self, accuracy: float) -> bool:
        """Within one standard error of the most frequent class; fewer than 50 examples cannot tell."""
        return self.n >= 50 and accuracy <= self.majority + math.sqrt(self.majority * (1 - self.majority) / self.n)

    def warning(self) -> str | None:
        if not self.dead:
            return None
        return (
            f"{len(self.dead)} of {len(self.accuracy)} exits answer no better than the most frequent class "
            f"({_short(self.majority)}): those after {str(self.dead)[1:-1]} layers. Nothing can leave there safely; more rows, "
            "exits='pooled' or a weight on early layers may help."
        )


@torch.inference_mode()
def report_exits(network: Network, tokens: Tokens, labels: IntArray, *, batch_size: int = 32) -> ExitReport:
    """One pass over these examples."""
    n_layers, first = network.backbone.n_layers, network.layout.first_exit
    right = np.zeros(n_layers + 1)
    for batch in tokens.batches(batch_size):
        walk = Walk(network, network.layers(network.kept_heads(0.0)), tokens, batch, exits=True, prunes=False)
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


def _is_worse(own: float, other: float, n: int) -> bool:
    """By two standard errors; fewer than 50 examples cannot tell."""
    return n >= 50 and own < other - 2 * math.sqrt((own * (1 - own) + other * (1 - other)) / n)


@dataclass(frozen=True)
class PruningReport(_Report):
    """Accuracy of the full model on validation examples, no exits.

    Args:
        full: nothing dropped.
        tokens_left: share of the tokens that are left, as a mean over layers.
        tokens: with the others dropped by their scores, `tokens_at_random`: as many at random.
        heads: with half of the heads dropped by their scores, `heads_at_random`: as many at random.
    """

    full: float
    tokens_left: float
    tokens: float
    tokens_at_random: float
    heads: float
    heads_at_random: float
    n: int

    def __str__(self) -> str:
        return (
            f"the full model is right with {1 - self.tokens_left:.0%} of the tokens dropped by their scores "
            f"{_short(self.tokens)}, at random {_short(self.tokens_at_random)}; with {HEADS_DROPPED:.0%} of the heads dropped "
            f"by theirs {_short(self.heads)}, at random {_short(self.heads_at_random)}; with nothing dropped "
            f"{_short(self.full)} ({self.n:,} validation texts)"
        )

    def warning(self) -> str | None:
        """What is clearly worse than chance."""
        pairs = {"tokens": (self.tokens, self.tokens_at_random), "heads": (self.heads, self.heads_at_random)}
        worse = [name for name, (own, chance) in pairs.items() if _is_worse(own, chance, self.n)]
        if not worse:
            return None
        return (
            f"dropping {' and '.join(worse)} at random hurts less than by their scores: these scores are worth nothing here. "
            "More rows for them (--token-rows, more validation texts) may help."
        )


@torch.inference_mode()
def report_pruning(
    network: Network, tokens: Tokens, labels: IntArray, *, batch_size: int = 32, seed: int = 0
) -> PruningReport:
    """Five passes over a part of these examples."""
    tokens, labels = tokens.take(np.arange(min(len(tokens), TEXTS))), labels[:TEXTS]
    scores, _ = scores_and_entropies(network, tokens.take(np.arange(min(len(tokens), SAMPLE))), batch_size)
    threshold = float(np.quantile(scores, TOKENS_BELOW))
    drawn = torch.Generator().manual_seed(seed)
    every = network.kept_heads(0.0)
    right, left, layers = np.zeros(2), 0.0, network.layers(every)
    for batch in tokens.batches(batch_size):
        by_score, at_random = (Walk(network, layers, tokens, batch, exits=False, prunes=True) for _ in range(2))
        whole = len(by_score.batch.states)
        while not by_score.is_over:
            if by_score.at_predictor:
                by_score.keep_tokens(by_score.importance() >= threshold)
                at_random.keep_tokens(as_many_at_random(at_random.batch, by_score.batch.lengths, drawn))
            left += len(by_score.batch.states) / whole * len(batch) / (len(tokens) * network.backbone.n_layers)
            by_score.step()
            at_random.step()
        right += [_right(walk, labels[batch]) for walk in (by_score, at_random)]
    by_tokens, tokens_at_random = right / len(tokens)
    fewer = kept_at_random(network.head_scores, HEADS_DROPPED, seed)
    best = network.kept_heads(float(np.quantile(network.head_scores, HEADS_DROPPED)))
    full, heads, heads_at_random = (
        _accuracy(network, tokens, labels, batch_size, kept) for kept in (every, best, fewer)
    )
    return PruningReport(full, left, by_tokens, tokens_at_random, heads, heads_at_random, len(tokens))


def as_many_at_random(batch: Packed, lengths: Tensor, drawn: torch.Generator) -> Tensor:
    """(tokens,): which tokens stay so that each text keeps these many, [CLS] among them and the others drawn."""
    chance = torch.rand(len(batch.states), generator=drawn).to(batch.states.device)
    chance[batch.starts] = -1.0  # comes first
    order = torch.argsort(2.0 * batch.owner + chance.double())
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order), device=order.device) - batch.starts[batch.owner]
    return rank < lengths[batch.owner]


def kept_at_random(head_scores: Array, share: float, seed: int) -> Array:
    """(layers, heads): True but for a random share of all heads."""
    kept = np.ones(head_scores.size, dtype=bool)
    drawn = np.random.Generator(np.random.PCG64([seed, 5])).permutation(head_scores.size)
    kept[drawn[: round(share * head_scores.size)]] = False
    return kept.reshape(head_scores.shape)


def _accuracy(network: Network, tokens: Tokens, labels: IntArray, batch_size: int, kept: Array) -> float:
    right = 0
    for batch in tokens.batches(batch_size):
        walk = Walk(network, network.layers(kept), tokens, batch, exits=False, prunes=False)
        while not walk.is_over:
            walk.step()
        right += _right(walk, labels[batch])
    return right / len(tokens)


def _right(walk: Walk, labels: IntArray) -> int:
    return int((walk.probabilities().argmax(dim=1).cpu().numpy() == labels).sum())


@dataclass(frozen=True)
class WordReport(_Report):
    """What an exit on words brings on validation texts, beside the exits there are without it.

    Args:
        accuracy: of the exit on words.
        first: of the first exit of the network, `full`: of the full model.
        layers: with the exit on words, the fewest layers run on average where at most each of DROPS is lost.
        layers_without: the same without it.
    """

    accuracy: float
    first: float
    full: float
    layers: tuple[float, ...]
    layers_without: tuple[float, ...]
    n: int

    @property
    def kept(self) -> bool:
        """Whether it saves a fiftieth of the layers, or of what stands before them, which is a quarter of one."""
        ratios = [(a + 0.25) / (b + 0.25) for a, b in zip(self.layers, self.layers_without, strict=True)]
        return math.prod(ratios) ** (1 / len(ratios)) < 0.98

    def __str__(self) -> str:
        pairs = zip(DROPS, self.layers, self.layers_without, strict=True)
        runs = ", ".join(f"{a:.2f} layers ({b:.2f} without) where {_short(drop)} is lost" for drop, a, b in pairs)
        end = "it is kept" if self.kept else "it brings nothing and is left out"
        return (
            f"an exit on words is right {_short(self.accuracy)}, the first exit {_short(self.first)}, the full model "
            f"{_short(self.full)}; {runs}: {end} ({self.n:,} validation texts)"
        )


def report_words(network: Network, tokens: Tokens, labels: IntArray) -> WordReport:
    """One pass over these examples; `network` has the exit on words."""
    trace = PruningTrace(network, tokens, labels, progress=False)
    every, found = np.arange(len(tokens)), trace.passes(0.0, 0.0)
    said = network.read_words(tokens, every).numpy()
    unsure = entropies(said)
    right, by_words = found.probabilities.argmax(axis=2) == labels[:, None], said.argmax(axis=1) == labels
    full, best = right[:, -1].mean(), np.full((2, len(DROPS)), float(network.backbone.n_layers))
    for tau in np.unique(np.quantile(np.append(found.entropies[np.isfinite(found.entropies)], unsure), QUANTILES)):
        depth = leaving_depths(found.entropies, tau)
        for row, sure in enumerate((unsure < tau, np.zeros(len(tokens), dtype=bool))):
            lost = full - np.where(sure, by_words, right[every, depth]).mean()
            layers = np.where(sure, 0, depth).mean()
            best[row] = np.where(lost <= np.array(DROPS), np.minimum(best[row], layers), best[row])
    first = right[:, network.layout.first_exit].mean()
    return WordReport(float(by_words.mean()), float(first), float(full), tuple(best[0]), tuple(best[1]), len(tokens))


@dataclass(frozen=True)
class LearningCurve:
    """What more training texts would bring, from what was trained anyway: answers of the first epoch, each given before its
    text was learnt from. That is a learning curve on new texts; dropout is on, and the learning rate still rises at first.

    `texts` is how many there are in each step, `right` how many of them were answered rightly.
    """

    texts: tuple[int, ...]
    right: tuple[int, ...]

    def save(self, folder: Path) -> None:
        write_text(folder / CURVE, to_bytes(asdict(self)).decode())

    @classmethod
    def load(cls, folder: Path) -> LearningCurve | None:
        """None where nothing was fine-tuned here, or by the user's own Trainer, or the file was damaged."""
        try:
            values = from_bytes((folder / CURVE).read_bytes())
            return cls(tuple(values["texts"]), tuple(values["right"]))
        except (OSError, DamagedError, KeyError, TypeError):
            return None

    @property
    def n(self) -> int:
        return sum(self.texts)

    def points(self) -> list[tuple[int, float, int]]:
        """Texts learnt from before, on average, the share of wrong answers, and of how many answers, for each window."""
        texts, right = np.array(self.texts), np.array(self.right)
        before = np.cumsum(texts) - texts
        found = []
        for steps in np.array_split(np.arange(len(texts)), min(WINDOWS, len(texts))):
            n = int(texts[steps].sum())
            found.append((round(float(np.average(before[steps], weights=texts[steps]))), 1 - right[steps].sum() / n, n))
        return found

    def error_at(self, n: int) -> float | None:
        """The share of wrong answers after n texts, on a line through the logarithms of the points; None where no fall is
        clear."""
        points = [(before, wrong, count) for before, wrong, count in self.points()[1:] if before > 0 and wrong > 0]
        if len(points) < 3:
            return None
        before, wrong, counts = (np.array(values, dtype=float) for values in zip(*points, strict=True))
        weights = counts * wrong / np.maximum(1 - wrong, 1 / counts)  # the precision of the logarithm of a share
        x, y = np.log(before), np.log(wrong)
        centre = np.average(x, weights=weights)
        spread = float((weights * (x - centre) ** 2).sum())
        slope = float((weights * (x - centre) * y).sum() / spread)
        if slope > -2 / math.sqrt(spread):
            return None
        return float(np.exp(np.average(y, weights=weights) + slope * (math.log(n) - centre)))

    def sentences(self, n_calibration: int, margin: float | None = None, wrong: float | None = None) -> list[str]:
        """What moving half of the calibration texts to training would bring, and cost.

        The curve ends where the first epoch does. The model that was certified may have had more of them, and learns without
        dropout no longer: from the curve comes only the factor by which wrong answers fall. `wrong` is the share of the wrong
        answers of the full model on the calibration texts, `margin` how far below its limit the drop had to be measured.
        """
        shown = [f"{share:.3f} after {before:,}" for before, share, _ in self.points()[1::2]]
        said = [f"Wrong answers to texts not yet learnt from: {', '.join(shown)} texts."] if shown else []
        half = n_calibration // 2
        now, then = self.error_at(self.n), self.error_at(self.n + half)
        moved = f"Moving {half:,} of {n_calibration:,} calibration texts to training"
        if wrong == 0:
            said.append(
                "The full model has all calibration texts right: more texts to learn from would bring nothing here."
            )
            return said
        if now is None or then is None:
            said.append(f"No fall is clear in the last of them. {moved} may bring little: this curve cannot tell.")
        else:
            wrong = now if wrong is None else wrong
            said.append(
                f"{moved} would take the full model from {wrong:.3f} wrong to about {wrong * then / now:.3f}, if wrong answers "
                "go on falling like this."
            )
        if margin is not None:
            said.append(
                f"It would cost certainty: the drop must be measured about {margin:.3f} below its limit now, and about "
                f"{margin * math.sqrt(2):.3f} with half of the texts."
            )
        return said
