"""What an acceleration brought, in one sentence: operations, time on this machine, and accuracy before and after."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from riskfront._calibration.certificates.verdict import confidence
from riskfront._problems.problem import Problem
from riskfront._support.arrays import Array, IntArray
from riskfront._support.checked_json import DamagedError, from_bytes, to_bytes
from riskfront._support.files import write_text
from riskfront.errors import StoreError
from riskfront.transformers._adaptive_classifier import AdaptiveClassifier
from riskfront.transformers._backbones.backbone import Backbone
from riskfront.transformers._data.tokens import Tokens
from riskfront.transformers._pruning.pruning_trace import PruningTrace

FILE = "gain.json"
CLOCKED = 128  # texts whose time is taken
BATCH, ALONE = 32, 24  # at a time; so many of them also one by one


@dataclass(frozen=True)
class Gain:
    """Means over the test texts, and one measurement of time.

    Args:
        operations: of the full model, divided by those of the certified setting.
        seconds: of the plain model, divided by those of the certified setting, on this machine, in batches of 32 by length.
        full_accuracy: see ``accuracy``.
        accuracy: of the full model and at the certified setting, of all texts, answered or not.
        answered: the share of texts that get an answer.
        seconds_alone: as ``seconds``, one text at a time, as a single caller waits for it; None where it was not measured.
    """

    operations: float
    seconds: float
    full_accuracy: float
    accuracy: float
    answered: float = 1.0
    seconds_alone: float | None = None

    def sentence(self, problem: Problem, delta: float | None = None) -> str:
        """For people; `delta` is that of all looks at the same texts, by default that of the problem."""
        parts = [
            f"x{self.operations:.3g} fewer operations",
            _times(self.seconds, f"here in batches of {BATCH}"),
            f"accuracy {_share(self.full_accuracy)} to {_share(self.accuracy)}",
        ]
        if self.seconds_alone is not None:
            parts.insert(2, _times(self.seconds_alone, "one text at a time"))
        if self.answered < 1:
            parts.append(f"{100 * self.answered:.3g} % of texts answered")
        drops = [limit for limit in problem.limits if limit.loss.startswith("accuracy_drop")]
        lost = [limit.value for limit in drops if limit.at_most is not None and not (limit.per or limit.given)]
        if lost:
            parts.append(f"at most {_share(min(lost))} lost with {confidence(delta or problem.delta)} confidence")
        return ", ".join(parts) + "."

    def save(self, folder: str | os.PathLike[str]) -> None:
        write_text(Path(folder) / FILE, to_bytes(asdict(self)).decode())

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Gain | None:
        """What the last certificate in a folder brought; None where nothing was certified."""
        path = Path(folder) / FILE
        if not path.is_file():
            return None
        try:
            return cls(**from_bytes(path.read_bytes()))
        except (DamagedError, TypeError) as error:
            raise StoreError(
                f"'{path}' must be as it was written; {error}. Remove it to have it measured again."
            ) from None


def measure_gain(found: AdaptiveClassifier, trace: PruningTrace, test: IntArray) -> Gain:
    """Of a classifier with a certified setting, on the test texts."""
    tokens, backbone = trace.tokens.take(few_of(test)), found.network.backbone
    seconds = times_as_fast(backbone, tokens, lambda: found.answer(tokens))
    each = [tokens.take(np.array([i])) for i in some_alone(len(tokens))]
    alone = times_as_fast(
        *(backbone, tokens.take(some_alone(len(tokens))), lambda: [found.answer(one) for one in each]), batch_size=1
    )
    return gain_of(trace.losses({}, test), trace.losses(found.used_setting, test), seconds, alone)


def few_of(test: IntArray) -> IntArray:
    """The texts whose time is taken."""
    return test[np.linspace(0, len(test) - 1, min(len(test), CLOCKED)).astype(int)]


def some_alone(n: int) -> IntArray:
    """Which of the clocked texts are also run one at a time."""
    return np.linspace(0, n - 1, min(n, ALONE)).astype(int)


def gain_of(full: Mapping[str, Array], now: Mapping[str, Array], seconds: float, alone: float | None = None) -> Gain:
    """From the columns of the full model and of the certified setting, (test texts,) each."""
    means = {name: (float(np.mean(full[name])), float(np.mean(now[name]))) for name in ("flops", "error", "answered")}
    return Gain(
        operations=means["flops"][0] / means["flops"][1],
        seconds=seconds,
        full_accuracy=1 - means["error"][0],
        accuracy=1 - means["error"][1],
        answered=means["answered"][1],
        seconds_alone=alone,
    )


def times_as_fast(backbone: Backbone, tokens: Tokens, adaptive: Callable[[], Any], batch_size: int = BATCH) -> float:
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


def _times(ratio: float, how: str) -> str:
    return f"x{ratio:.3g} {'faster' if ratio >= 1 else 'as fast'} {how}"


def _share(value: float) -> str:
    return f"{value:.3g}" if value >= 1 else f"{value:.3f}".removeprefix("0")
