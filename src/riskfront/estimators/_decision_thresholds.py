"""How class probabilities become answers: a decision threshold for two classes, and abstention.

One function decides in calibration and in prediction alike; otherwise the certificate would speak of another rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from riskfront._support.arrays import Array, BoolArray, FloatArray, IntArray
from riskfront.errors import InvalidInputError

#: thresholds offered when none are given
THRESHOLDS = (
    *(round(0.001 * step, 3) for step in range(1, 10)),
    *(round(0.01 * step, 2) for step in range(1, 100)),
    0.995,
)
FEW_THRESHOLDS = (0.01, 0.02, *(round(0.05 * step, 2) for step in range(1, 20)), 0.98, 0.99)
ABSTAIN = (0.0, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999)

_ROUNDING = 4e-6  # of computed probabilities, relative to the nearer of 0 and 1

COMMON = ("error", "correct", "answered", "abstained")
TWO_CLASSES = (
    "false_positive",
    "false_negative",
    "predicted_positive",
    "true_positive",
    "missed_positive",
    "predicted_negative",
    "true_negative",
)


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """What a model says before it may abstain: class (n,), as a position, and how sure it is of it (n,), in double precision.

    Thresholds are doubles, and lie a little below what they say: models compute a row alone and the same row in a matrix with
    different rounding, and where a score is equal to a threshold, as shares of trees often are, the row would be answered here
    and not there.
    """

    classes: IntArray
    confidence: FloatArray
    rounding: float = 1e-9

    def sure(self, least: npt.ArrayLike) -> BoolArray:
        """Where the model is at least so sure: (n,), or (levels, n) for (levels, 1)."""
        return np.asarray(self.confidence >= below(np.asarray(least, dtype=np.float64), self.rounding))


def below(threshold: FloatArray | float, rounding: float) -> FloatArray:
    """Thresholds on probabilities, moved down by more than their rounding; 0 stays 0."""
    threshold = np.asarray(threshold, dtype=np.float64)
    near = np.maximum(_ROUNDING * np.minimum(threshold, 1 - threshold), rounding)
    return np.where(threshold > 0, threshold - near, threshold)


def rounding_of(probabilities: FloatArray) -> float:
    """By how much a computed probability may be off, by its precision."""
    return max(1e-9, 8 * float(np.finfo(probabilities.dtype).eps)) if probabilities.dtype.kind == "f" else 1e-9


def lowest_positive(threshold: FloatArray, rounding: float) -> FloatArray:
    """The smallest probability that is answered positive at each decision threshold: where ``tilt`` is one half,
    rounding aside."""
    half = below(0.5, rounding)
    return np.asarray(half * threshold / (half * threshold + (1 - half) * (1 - threshold)))


def tilt(positive: FloatArray, threshold: float) -> FloatArray:
    """The probability of the positive class, moved so that ``threshold`` becomes one half: a shift of the log-odds.

    q = p (1 - t) / (p (1 - t) + (1 - p) t). With t = 1/2, q = p. Together with abstention below a confidence, every pair of
    cut-offs on p (negative below the lower, positive above the upper, no answer between) is one threshold and one confidence.
    """
    positive = positive.astype(np.float64, copy=False)
    for_it = positive * (1 - threshold)
    return np.asarray(for_it / (for_it + (1 - positive) * threshold))


def answers(probabilities: FloatArray, threshold: float | None = None, positive: int = 1) -> Answers:
    """The answer to each row of (n, classes) probabilities; ``threshold`` on class ``positive`` is for two classes."""
    rounding = rounding_of(probabilities)
    if threshold is None:
        # of classes that are equally probable up to rounding the first
        nearly = probabilities.max(axis=1, keepdims=True, initial=0) * (1 - max(rounding, _ROUNDING))
        classes = (probabilities >= nearly).argmax(axis=1)
        return Answers(classes, probabilities[np.arange(len(classes)), classes].astype(np.float64), rounding)
    q = tilt(probabilities[:, positive], threshold)
    return Answers(np.where(q >= below(0.5, rounding), positive, 1 - positive), np.maximum(q, 1 - q), rounding)


def numbers(name: str, values: npt.ArrayLike | None, default: Iterable[float], *, open_: bool) -> list[float]:
    """A list of thresholds in ascending order, each once."""
    interval = "(0, 1)" if open_ else "[0, 1]"
    try:
        array = np.unique(np.asarray(list(default) if values is None else values, dtype=np.float64))
    except (TypeError, ValueError):
        raise InvalidInputError(f"{name} must be numbers in {interval}; got {values!r}.") from None
    inside = (array > 0) & (array < 1) if open_ else (array >= 0) & (array <= 1)
    if array.size == 0 or not inside.all():
        raise InvalidInputError(f"{name} must be numbers in {interval}, at least one; got {values!r}.")
    return [float(value) for value in array]


def settings(thresholds: Iterable[float] | None, abstain: Iterable[float]) -> list[dict[str, Any]]:
    """The grid, in the order of the rows of ``outcomes``."""
    if thresholds is None:
        return [{"abstain": least} for least in abstain]
    least_values = list(abstain)
    return [{"threshold": threshold, "abstain": least} for threshold in thresholds for least in least_values]


def outcomes(
    probabilities: FloatArray,
    truth: IntArray,
    thresholds: Iterable[float] | None,
    abstain: Iterable[float],
    positive: int,
    names: Iterable[str],
) -> dict[str, Array]:
    """name -> (settings, n) of the named 0/1 outcomes, for every combination of the thresholds.

    ``truth`` (n,) holds the position of the true class.
    """
    tried = [
        answers(probabilities, threshold, positive) for threshold in ([None] if thresholds is None else thresholds)
    ]
    least = np.asarray(list(abstain))[:, None]
    answered: BoolArray = np.stack([said.sure(least) for said in tried])
    said_class = np.stack([said.classes for said in tried])[:, None, :]
    right, said_positive, is_positive = said_class == truth, said_class == positive, truth == positive
    made: dict[str, Callable[[], BoolArray]] = {
        "error": lambda: answered & ~right,
        "correct": lambda: answered & right,
        "answered": lambda: answered,
        "abstained": lambda: ~answered,
        "false_positive": lambda: answered & said_positive & ~is_positive,
        "false_negative": lambda: answered & ~said_positive & is_positive,
        "predicted_positive": lambda: answered & said_positive,
        "true_positive": lambda: answered & said_positive & is_positive,
        "missed_positive": lambda: ~(answered & said_positive) & is_positive,
        "predicted_negative": lambda: answered & ~said_positive,
        "true_negative": lambda: answered & ~said_positive & ~is_positive,
    }
    return {name: made[name]().reshape(-1, len(truth)) for name in names}
