"""What an acceleration brought, in one sentence: operations, time on this machine, and accuracy before and after."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from riskfront.arrays import Array, IntArray
from riskfront.certificates.verdict import confidence
from riskfront.problems.problem import Problem
from riskfront.runtime.files import write_text
from riskfront.transformers.backbones.backbone import Backbone
from riskfront.transformers.classifier import AdaptiveClassifier
from riskfront.transformers.data.tokens import Tokens
from riskfront.transformers.pruning.trace import PruningTrace

FILE = "gain.json"
CLOCKED = 128  # texts whose time is taken


@dataclass(frozen=True)
class Gain:
    """Means over the test texts, and one measurement of time.

    Args:
        operations: of the full model, divided by those of the certified setting.
        seconds: of the plain model, divided by those of the certified setting, on this machine, in batches by length.
        full_accuracy, accuracy: of the full model and at the certified setting, of all texts, answered or not.
        answered: the share of texts that get an answer.
    """

    operations: float
    seconds: float
    full_accuracy: float
    accuracy: float
    answered: float = 1.0

    def sentence(self, problem: Problem, delta: float | None = None) -> str:
        """For people; `delta` is that of all looks at the same texts, by default that of the problem."""
        parts = [
            f"x{self.operations:.3g} fewer operations",
            f"x{self.seconds:.3g} {'faster' if self.seconds >= 1 else 'as fast'} here",
            f"accuracy {_share(self.full_accuracy)} to {_share(self.accuracy)}",
        ]
        if self.answered < 1:
            parts.append(f"{100 * self.answered:.3g} % of texts answered")
        drops = [limit for limit in problem.limits if limit.loss.startswith("accuracy_drop")]
        lost = [limit.value for limit in drops if limit.at_most is not None and not (limit.per or limit.given)]
        if lost:
            parts.append(f"at most {_share(min(lost))} lost with {confidence(delta or problem.delta)} confidence")
        return ", ".join(parts) + "."

    def save(self, folder: str | os.PathLike[str]) -> None:
        write_text(Path(folder) / FILE, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Gain | None:
        """What the last certificate in a folder brought; None where nothing was certified."""
        path = Path(folder) / FILE
        return cls(**json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None


def measure_gain(found: AdaptiveClassifier, trace: PruningTrace, test: IntArray) -> Gain:
    """Of a classifier with a certified setting, on the test texts."""
    tokens = trace.tokens.take(few_of(test))
    seconds = times_as_fast(found.network.backbone, tokens, lambda: found.answer(tokens))
    return gain_of(trace.losses({}, test), trace.losses(found.used_setting, test), seconds)


def few_of(test: IntArray) -> IntArray:
    """The texts whose time is taken."""
    return test[np.linspace(0, len(test) - 1, min(len(test), CLOCKED)).astype(int)]


def gain_of(full: Mapping[str, Array], now: Mapping[str, Array], seconds: float) -> Gain:
    """From the columns of the full model and of the certified setting, (test texts,) each."""
    means = {name: (float(np.mean(full[name])), float(np.mean(now[name]))) for name in ("flops", "error", "answered")}
    return Gain(
        operations=means["flops"][0] / means["flops"][1],
        seconds=seconds,
        full_accuracy=1 - means["error"][0],
        accuracy=1 - means["error"][1],
        answered=means["answered"][1],
    )


def times_as_fast(backbone: Backbone, tokens: Tokens, adaptive: Callable[[], Any], batch_size: int = 32) -> float:
    """The time of the plain Hugging Face model over that of `adaptive`: each twice, in both orders, the faster counts."""

    @torch.inference_mode()
    def plain() -> None:
        for batch in tokens.batches(batch_size):
            backbone.model(**tokens.padded(batch, backbone.device))

    first_plain, first, second, second_plain = (_seconds(run) for run in (plain, adaptive, adaptive, plain))
    return min(first_plain, second_plain) / min(first, second)


def _seconds(run: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    run()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - begin


def _share(value: float) -> str:
    return f"{value:.3g}" if value >= 1 else f"{value:.3f}".removeprefix("0")
