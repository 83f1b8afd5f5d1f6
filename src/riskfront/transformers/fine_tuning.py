"""Step 1: fine-tune a pretrained encoder as a classifier. Ordinary training, through the Hugging Face model itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from riskfront.arrays import IntArray
from riskfront.errors import InvalidInputError
from riskfront.progress import ProgressBar
from riskfront.transformers.tokens import Tokens


@dataclass(frozen=True)
class FineTuning:
    """How to train: AdamW with a linear warm-up and a linear fall of the learning rate."""

    epochs: int = 1
    batch_size: int = 32
    learning_rate: float = 5e-5
    weight_decay: float = 0.01
    warmup: float = 0.1

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_size < 1:
            raise InvalidInputError(
                f"epochs and batch_size must be at least 1; got {self.epochs} and {self.batch_size}."
            )
        if not self.learning_rate > 0 or not 0 <= self.warmup < 1:
            raise InvalidInputError(
                f"learning_rate must be above 0 and warmup from 0 to below 1; got {self.learning_rate} and {self.warmup}."
            )


def fine_tune(
    model: Any, tokens: Tokens, labels: IntArray, how: FineTuning, *, seed: int = 0, progress: bool | None = None
) -> None:
    """Train all weights of a Hugging Face sequence classifier, in place."""
    rng = np.random.Generator(np.random.PCG64(seed))
    decayed = [p for p in model.parameters() if p.ndim >= 2]
    plain = [p for p in model.parameters() if p.ndim < 2]  # biases and layer norms are not pulled to zero
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": how.weight_decay}, {"params": plain, "weight_decay": 0.0}],
        lr=how.learning_rate,
        fused=True,
    )
    total = how.epochs * -(-len(tokens) // how.batch_size)
    rise = max(1, round(how.warmup * total))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / rise, max(0.0, (total - step) / max(1, total - rise)))
    )
    device = next(model.parameters()).device
    targets = torch.tensor(labels, dtype=torch.int64)  # a copy: the labels of a data frame are read-only
    with torch.random.fork_rng(), ProgressBar("fine-tuning", how.epochs * len(tokens), shown=progress) as bar:
        torch.manual_seed(seed)  # of dropout
        model.train()
        for _ in range(how.epochs):
            for batch in tokens.shuffled_batches(how.batch_size, rng):
                logits = model(**tokens.padded(batch, device)).logits
                loss = torch.nn.functional.cross_entropy(logits, targets[batch].to(device))
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
