"""A cascade of two encoders: the small one answers where it is sure, the large one reads the rest. Trace and settings.

The small encoder has its exits too: a text leaves it at the first depth, its last included, where the entropy is below
`tau_small`. Texts that never do go to the large encoder, which prunes as its own thresholds say. One pass through the small
encoder gives all values of `tau_small`, so that the cascade is one more dimension of the same trace, and costs no pass.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np

from riskfront._problems.spaces.space import Choice, Space
from riskfront._support.arrays import Array, BoolArray, IntArray
from riskfront.errors import InvalidInputError
from riskfront.transformers._cascade.small_pipeline import PipelineTrace
from riskfront.transformers._pruning.cost import Work, flops
from riskfront.transformers._pruning.network import Setting
from riskfront.transformers._pruning.pruning_trace import PruningTrace, is_right
from riskfront.transformers._pruning.thresholds import Thresholds, exit_thresholds, rounded

SMALL = "tau_small"
COLUMNS = ("accuracy_drop", "accuracy_drop_clipped", "error", "flops", "answered", "confidence")


@dataclass(frozen=True)
class CascadeSetting:
    """Thresholds of a cascade.

    Args:
        tau_small: a text stays with the small encoder where its entropy falls below; 0: the small encoder is not run at all.
        large: the thresholds of the large encoder; its `lambda` holds for all answers.
    """

    tau_small: float = 0.0
    large: Setting = field(default_factory=Setting)

    def __post_init__(self) -> None:
        value: Any = self.tau_small
        number = isinstance(value, Real) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or value < 0:
            raise InvalidInputError(f"{SMALL} must be a number at least 0; got {value!r}.")
        object.__setattr__(self, SMALL, float(value))

    @classmethod
    def of(cls, config: Mapping[str, Any] | CascadeSetting | None) -> CascadeSetting:
        """From the config of a certificate; thresholds that it lacks are off."""
        if isinstance(config, CascadeSetting):
            return config
        values = dict(config or {})
        return cls(values.pop(SMALL, 0.0), Setting.of(values))

    def to_config(self) -> dict[str, Any]:
        return {SMALL: self.tau_small, **self.large.to_config()}

    @property
    def abstain(self) -> float:
        return self.large.abstain


class CascadeTrace:
    """What a cascade does with each example at every setting; used as `PruningTrace` is.

    Args:
        small: of an encoder or of a pipeline, `large`: of the same examples.
        order: (classes,), where each class of the large encoder stands among those of the small one; the same by default.

    Columns are those of `PruningTrace` without `relative_cost`, which compares a model with itself. The full model, against
    which accuracy drops, is the large encoder alone. `flops` are of both encoders, where both run; a small pipeline
    counts as a linear classifier on words.
    """

    bounds = PruningTrace.bounds

    def __init__(
        self, small: PruningTrace | PipelineTrace, large: PruningTrace, order: Sequence[int] | None = None
    ) -> None:
        self.small, self.large = small, large
        self._order = np.arange(large.network.backbone.n_classes) if order is None else np.asarray(order)
        same = len(small) == len(large) and (self._order[large.labels] == small.labels).all()
        if not same:
            raise InvalidInputError("both encoders must have traced the same examples with the same labels.")

    def __len__(self) -> int:
        return len(self.large)

    @property
    def examples(self) -> IntArray:
        return self.large.examples

    @property
    def fingerprint(self) -> str:
        """Of both models and the examples."""
        return f"{self.small.fingerprint} {self.large.fingerprint}"

    @property
    def groups(self) -> Any:
        return self.large.groups

    def losses(self, config: Mapping[str, Any] | CascadeSetting, examples: IntArray) -> dict[str, Array]:
        """The columns of one setting for the examples at these positions."""
        setting, positions = CascadeSetting.of(config), np.asarray(examples)
        found = {
            name: values for name, values in self.large.losses(setting.large, positions).items() if name in COLUMNS
        }
        if setting.tau_small == 0:
            return found
        stays, answer, spent = self._by_small(setting.tau_small, positions)
        labels = self.large.labels[positions]
        right = np.where(stays, answer.argmax(axis=1) == labels, ~found["error"])
        full_right = is_right(self.large.passes(0.0, 0.0, positions).probabilities[:, -1], labels)
        confidence = np.where(stays, answer.max(axis=1), found["confidence"]).astype(np.float32)
        return {
            "accuracy_drop": full_right.astype(np.float32) - right.astype(np.float32),
            "accuracy_drop_clipped": full_right & ~right,
            "error": ~right,
            "flops": (spent + np.where(stays, 0, found["flops"])).astype(np.float32),
            "answered": confidence >= setting.abstain,
            "confidence": confidence,
        }

    def _by_small(self, tau: float, positions: IntArray) -> tuple[BoolArray, Array, Array]:
        """Of these examples: who stays with the small model, its probabilities, (positions, classes), and its operations."""
        if isinstance(self.small, PipelineTrace):
            n_classes = self.large.network.backbone.n_classes
            spent: Array = 2.0 * n_classes * self.large.tokens.lengths[positions]
            unsure, answer = self.small.entropies[positions], self.small.probabilities[positions]
            return np.asarray(unsure < tau), answer[:, self._order], spent
        passes, n_layers = self.small.passes(0.0, 0.0, positions), self.small.network.backbone.n_layers
        sure = passes.entropies < tau
        stays = np.asarray(sure.any(axis=1))
        depth = np.where(stays, sure.argmax(axis=1), n_layers)
        answer = passes.probabilities[np.arange(len(positions)), depth]
        left, by_words = self.small.left_by_words(tau, positions), None
        if left is not None:
            by_words, of_words = left
            stays, depth = stays | by_words, np.where(by_words, 0, depth)
            answer = np.where(by_words[:, None], of_words, answer)
        heads, lengths = self.small.network.kept_heads(0.0).sum(axis=1), self.small.tokens.lengths[positions]
        work = Work(heads, lengths, passes.tokens, depth, exits=True, prunes=False, by_words=by_words)
        return stays, answer[:, self._order], flops(self.small.network.sizes, work)


def cascade_space(large: Thresholds, small: Sequence[float]) -> Space:
    """The settings of a cascade; thresholds that need a pass change slowest on the grid."""
    dimensions = {**large.space.dimensions, SMALL: Choice(list(small))}
    order = ("tau_head", "tau_token", SMALL, "tau_layer", "depth", "precision", "lambda")
    return Space.from_dict({name: dimensions[name] for name in order if name in dimensions})


def small_thresholds(validation: PruningTrace | PipelineTrace, n: int) -> tuple[float, ...]:
    """0, and quantiles of the lowest entropy so far, the last depth included; the largest lets all texts stay."""
    if n < 1:
        raise InvalidInputError(f"there must be at least 1 threshold of the small encoder, 0; got {n}.")
    if n == 1:
        return (0.0,)
    if isinstance(validation, PipelineTrace):
        lowest, n_classes = validation.entropies, validation.probabilities.shape[1]
    else:
        lowest = np.minimum.accumulate(validation.passes(0.0, 0.0).entropies, axis=1)
        n_classes = validation.network.backbone.n_classes
    return rounded(exit_thresholds(lowest[np.isfinite(lowest)], n, n_classes))
