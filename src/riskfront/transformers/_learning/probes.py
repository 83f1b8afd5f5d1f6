"""What a linear classifier makes of what an exit reads: an exit that answers worse has not learnt what is there."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

ROWS = 4000  # a probe needs no more, and its cost grows with them
RIDGE = 0.1  # per row and standardised input


@torch.no_grad()
def probe_accuracy(train: tuple[Tensor, Tensor], held: tuple[Tensor, Tensor]) -> tuple[float, ...]:
    """For each depth the share of held-out examples that a ridge regression on the classes gets right.

    Args:
        train: see ``held``.
        held: what exits read, (examples, depths, width), and labels.
    """
    seen, labels = train[0][:ROWS], train[1][:ROWS]
    classes = int(max(train[1].max(), held[1].max())) + 1
    wanted = functional.one_hot(labels, classes).to(torch.float64)
    return tuple(_right(seen[:, k], wanted, held[0][:, k], held[1]) for k in range(seen.shape[1]))


def _right(seen: Tensor, wanted: Tensor, held: Tensor, labels: Tensor) -> float:
    seen, held = seen.to(torch.float64), held.to(torch.float64)
    mean, deviation = seen.mean(dim=0), seen.std(dim=0, correction=0)
    deviation = torch.where(deviation > 1e-5 * mean.abs().clamp_min(1e-3), deviation, torch.inf)
    x = (seen - mean) / deviation
    centre = wanted.mean(dim=0)
    ridge = RIDGE * len(x) * torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    weights = torch.linalg.solve(x.T @ x + ridge, x.T @ (wanted - centre))
    answers = ((held - mean) / deviation) @ weights + centre
    return float((answers.argmax(dim=1) == labels).double().mean())
