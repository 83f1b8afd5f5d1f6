"""Step 1: fine-tune a pretrained encoder as a classifier. Ordinary training, through the Hugging Face model itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from riskfront._support.arrays import IntArray
from riskfront._support.progress import ProgressBar
from riskfront.errors import InvalidInputError
from riskfront.transformers._data.tokens import Tokens
from riskfront.transformers._exits import check_kind, features, first_exit, n_parts
from riskfront.transformers._learning.reports import LearningCurve
from riskfront.transformers._learning.steps import Checkpoint

ROUNDS = 2  # of trying each number of threads
CLEARLY = 1.15  # times as fast, before fewer threads than the user allows are taken
TRIED = 8  # texts of the steps by which the number of threads is chosen


@dataclass(frozen=True)
class FineTuning:
    """How to train: AdamW with a linear warm-up and a linear fall of the learning rate.

    Args:
        epochs: passes over the training rows.
        batch_size: texts a step.
        learning_rate: its highest value, after the warm-up.
        weight_decay: that of AdamW.
        warmup: share of the steps in which the learning rate rises.
        early_layers: weight of a second loss, the mean over the exits of the cross-entropy of a linear classifier on what the
            exit reads, standardised. Early layers then learn to answer too, and examples can leave earlier. 0 is the paper's
            training.
        bf16: multiply in bfloat16 while training, as `TrainingArguments(bf16=True)` does; weights, their updates and the loss
            stay in float32. Faster on GPUs and on processors that multiply bfloat16 (AMX, AVX-512 BF16), slower on others.
    """

    epochs: int = 1
    batch_size: int = 32
    learning_rate: float = 5e-5
    weight_decay: float = 0.01
    warmup: float = 0.1
    early_layers: float = 0.0
    bf16: bool = False

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_size < 1:
            raise InvalidInputError(
                f"epochs and batch_size must be at least 1; got {self.epochs} and {self.batch_size}."
            )
        if not self.learning_rate > 0 or not 0 <= self.warmup < 1:
            raise InvalidInputError(
                f"learning_rate must be above 0 and warmup from 0 to below 1; got {self.learning_rate} and {self.warmup}."
            )
        if not self.early_layers >= 0:
            raise InvalidInputError(f"early_layers must be a weight of at least 0; got {self.early_layers}.")


def fine_tune(
    model: Any,
    tokens: Tokens,
    labels: IntArray,
    how: FineTuning,
    *,
    exits: str = "pooled",
    seed: int = 0,
    progress: bool | None = None,
    checkpoint: Path | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> LearningCurve | None:
    """Train all weights of a Hugging Face sequence classifier, in place; `exits` is what exits will read, for early layers.

    With the path of a checkpoint, how far the training is gets written there now and then; the same call later goes on from
    there, to the same weights as without a stop. Returns how often each text of the first epoch was answered rightly before it
    was learnt from.
    """
    device = next(model.parameters()).device
    learns = nn.ModuleDict({"model": model})
    if how.early_layers:  # only for the second loss; not kept
        learns["probes"] = Probes(model.config, check_kind(exits), tokens.pairs, seed).to(device)
    optimizer = _optimizer(learns, how)
    rates = [group["lr"] for group in optimizer.param_groups]
    per_epoch = -(-len(tokens) // how.batch_size)
    targets = torch.tensor(labels, dtype=torch.int64)  # a copy: the labels of a data frame are read-only
    batches = _batches(tokens, how, seed)

    def loss_and_right(batch: IntArray) -> tuple[Tensor, Tensor]:
        inputs, texts = tokens.padded(batch, device), tokens.packed_texts(batch, device)
        return _loss(learns, inputs, texts, targets[batch].to(device), how)

    def try_out() -> None:
        """A small step that teaches nothing."""
        with torch.random.fork_rng():
            loss_and_right(np.arange(min(len(tokens), TRIED)))[0].backward()
        optimizer.zero_grad()

    with torch.random.fork_rng(), measured_threads(try_out if device.type == "cpu" else None, say):
        torch.manual_seed(seed)  # of dropout
        kept = Checkpoint(checkpoint, learns, optimizer)
        found = kept.restore() or {"steps": 0, "right": []}
        done, right = found["steps"], found.get("right")  # how many of each step of the first epoch
        sizes = [len(batch) for batch in islice(batches, done)]  # drawn again, but not learnt from twice
        model.train()
        with ProgressBar("fine-tuning", how.epochs * len(tokens), sum(sizes), progress) as bar:
            for step, batch in enumerate(batches, start=done):
                for group, rate in zip(optimizer.param_groups, rates, strict=True):
                    group["lr"] = rate * _share_of_rate(step, how.epochs * per_epoch, how.warmup)
                loss, n_right = loss_and_right(batch)
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                sizes.append(len(batch))
                if right is not None and step < per_epoch:
                    right.append(n_right)
                if kept.is_due():
                    right = None if right is None else [int(n) for n in right]
                    kept.save({"steps": step + 1, "right": right})
                bar.advance(len(batch))
        model.eval()
    return None if right is None else LearningCurve(tuple(sizes[:per_epoch]), tuple(int(n) for n in right))


def _optimizer(learns: nn.ModuleDict, how: FineTuning) -> torch.optim.Optimizer:
    weights = list(learns["model"].parameters())
    decayed = [p for p in weights if p.ndim >= 2]
    plain = [p for p in weights if p.ndim < 2]  # biases and layer norms are not pulled to zero
    groups: list[dict[str, Any]] = [
        {"params": decayed, "weight_decay": how.weight_decay},
        {"params": plain, "weight_decay": 0.0},
    ]
    if "probes" in learns:
        groups.append({"params": list(learns["probes"].parameters()), "lr": 1e-3, "weight_decay": 0.0})
    return torch.optim.AdamW(groups, lr=how.learning_rate, fused=True)


def _batches(tokens: Tokens, how: FineTuning, seed: int) -> Iterator[IntArray]:
    """All batches of all epochs, the same at every call."""
    rng = np.random.Generator(np.random.PCG64(seed))
    for _ in range(how.epochs):
        yield from tokens.shuffled_batches(how.batch_size, rng)


def _share_of_rate(step: int, total: int, warmup: float) -> float:
    """Of the learning rate: rises in a line, then falls in a line."""
    rise = max(1, round(warmup * total))
    return min((step + 1) / rise, max(0.0, (total - step) / max(1, total - rise)))


def _loss(
    learns: nn.ModuleDict, inputs: dict[str, Tensor], texts: Tensor, wanted: Tensor, how: FineTuning
) -> tuple[Tensor, Tensor]:
    """The loss, and how many of the answers are right."""
    with torch.autocast(wanted.device.type, torch.bfloat16, enabled=how.bf16):
        found = learns["model"](**inputs, output_hidden_states="probes" in learns)
    loss = functional.cross_entropy(found.logits.float(), wanted)
    if "probes" in learns and len(wanted) > 1:  # a single example cannot be standardised
        hidden = [states.float() for states in found.hidden_states]
        early = learns["probes"](hidden, inputs["attention_mask"], texts, wanted)
        loss = loss + how.early_layers * early
    if not torch.isfinite(loss):
        raise InvalidInputError(
            f"the training loss must stay finite; it became {loss.item()}. Use a smaller learning rate than "
            f"{how.learning_rate:g}."
        )
    return loss, (found.logits.detach().argmax(dim=1) == wanted).sum()


class Probes(nn.Module):
    """A linear classifier at every exit, on what the exit reads, standardised within the batch."""

    def __init__(self, config: Any, kind: str, pairs: bool, seed: int) -> None:
        super().__init__()
        self.kind, self.pairs, self.first = kind, pairs, first_exit(kind)
        width = n_parts(kind, pairs) * config.hidden_size
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.probes = nn.ModuleList(
                nn.Sequential(nn.BatchNorm1d(width, affine=False), nn.Linear(width, config.num_labels))
                for _ in range(self.first, config.num_hidden_layers)
            )

    def forward(self, hidden: Sequence[Tensor], attention_mask: Tensor, texts: Tensor, labels: Tensor) -> Tensor:
        """The mean of their losses; `hidden` are padded states, those of the embeddings first."""
        mask, lengths = attention_mask.bool(), attention_mask.sum(dim=1)
        losses = [
            functional.cross_entropy(probe(features(self.kind, self.pairs, states[mask], lengths, texts)), labels)
            for probe, states in zip(self.probes, hidden[self.first : -1], strict=True)
        ]
        return torch.stack(losses).mean()


@contextmanager
def measured_threads(step: Callable[[], None] | None, say: Callable[[str], None]) -> Iterator[int]:
    """Inside, torch runs with as many threads as made `step` fastest, at most as many as before; says so where that is fewer.

    None as `step`: nothing is measured, because the work is not the processor's.
    """
    most = torch.get_num_threads()
    try:
        chosen = most if most == 1 or step is None else _fastest(step, most, say)
        torch.set_num_threads(chosen)
        yield chosen
    finally:
        torch.set_num_threads(most)


def _fastest(step: Callable[[], None], most: int, say: Callable[[str], None]) -> int:
    candidates = sorted({most, max(1, most // 2), 1}, reverse=True)
    step()  # the first one makes what all others use
    seconds = dict.fromkeys(candidates, float("inf"))
    for _ in range(ROUNDS):
        for n in candidates:
            torch.set_num_threads(n)
            begin = time.perf_counter()
            step()
            seconds[n] = min(seconds[n], time.perf_counter() - begin)
    best = min(candidates, key=seconds.__getitem__)
    if best == most or seconds[most] < CLEARLY * seconds[best]:
        return most
    say(
        f"training with {best} of {most} threads: the first steps take {seconds[best]:.2f} s with {best} and "
        f"{seconds[most]:.2f} s with {most}, because other programs use the processor"
    )
    return best
