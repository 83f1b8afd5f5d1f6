"""Step 1: fine-tune a pretrained encoder as a classifier. Ordinary training, through the Hugging Face model itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from riskfront.arrays import IntArray
from riskfront.errors import InvalidInputError
from riskfront.runtime.progress import ProgressBar
from riskfront.transformers.exits.pooling import check_kind, features, first_exit, n_parts
from riskfront.transformers.tokens import Tokens


@dataclass(frozen=True)
class FineTuning:
    """How to train: AdamW with a linear warm-up and a linear fall of the learning rate.

    Args:
        epochs, batch_size, learning_rate, weight_decay: as usual.
        warmup: share of the steps in which the learning rate rises.
        early_layers: weight of a second loss, the mean over the exits of the cross-entropy of a linear classifier on what the
            exit reads, standardised. Early layers then learn to answer too, and examples can leave earlier. 0 is the paper's
            training.
    """

    epochs: int = 1
    batch_size: int = 32
    learning_rate: float = 5e-5
    weight_decay: float = 0.01
    warmup: float = 0.1
    early_layers: float = 0.0

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
) -> None:
    """Train all weights of a Hugging Face sequence classifier, in place; `exits` is what exits will read, for early layers."""
    rng = np.random.Generator(np.random.PCG64(seed))
    decayed = [p for p in model.parameters() if p.ndim >= 2]
    plain = [p for p in model.parameters() if p.ndim < 2]  # biases and layer norms are not pulled to zero
    groups = [{"params": decayed, "weight_decay": how.weight_decay}, {"params": plain, "weight_decay": 0.0}]
    device = next(model.parameters()).device
    # only for the second loss; not kept
    probes = Probes(model.config, check_kind(exits), tokens.pairs, seed).to(device) if how.early_layers else None
    if probes is not None:
        groups.append({"params": list(probes.parameters()), "lr": 1e-3, "weight_decay": 0.0})
    optimizer = torch.optim.AdamW(groups, lr=how.learning_rate, fused=True)
    total = how.epochs * -(-len(tokens) // how.batch_size)
    rise = max(1, round(how.warmup * total))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / rise, max(0.0, (total - step) / max(1, total - rise)))
    )
    targets = torch.tensor(labels, dtype=torch.int64)  # a copy: the labels of a data frame are read-only
    with torch.random.fork_rng(), ProgressBar("fine-tuning", how.epochs * len(tokens), shown=progress) as bar:
        torch.manual_seed(seed)  # of dropout
        model.train()
        for _ in range(how.epochs):
            for batch in tokens.shuffled_batches(how.batch_size, rng):
                inputs = tokens.padded(batch, device)
                found = model(**inputs, output_hidden_states=probes is not None)
                wanted = targets[batch].to(device)
                loss = functional.cross_entropy(found.logits, wanted)
                if probes is not None and len(batch) > 1:  # a single example cannot be standardised
                    texts = tokens.packed_texts(batch, device)
                    loss = loss + how.early_layers * probes(
                        found.hidden_states, inputs["attention_mask"], texts, wanted
                    )
                if not torch.isfinite(loss):
                    raise InvalidInputError(
                        f"the training loss must stay finite; it became {loss.item()}. Use a smaller learning rate than "
                        f"{how.learning_rate:g}."
                    )
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                bar.advance(len(batch))
        model.eval()


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
