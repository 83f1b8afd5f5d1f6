"""A setting of the adaptive Transformer: pruning thresholds, one for abstaining, depth and precision. Zero means: off."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from numbers import Integral, Real
from typing import Any

from riskfront.errors import InvalidInputError
from riskfront.transformers._backbones.precision import check_precision

THRESHOLDS = ("tau_token", "tau_head", "tau_layer", "lambda")
NAMES = (*THRESHOLDS, "depth", "precision")


@dataclass(frozen=True)
class Setting:
    """Thresholds and precision.

    Args:
        tau_token: tokens whose predicted importance is below it leave for good, in [0, 1]; [CLS] stays.
        tau_head: attention heads whose importance is below it are gone, in [0, 1].
        tau_layer: an example leaves after the first layer whose entropy is below it; at least 0.
        abstain: no answer when the top probability is below it, in [0, 1]; called lambda in configs.
        precision: of the layers' matrix products, "float32", "float16" or "int8".
        depth: layers that are run at most; the exit there answers whatever is left. 0 for all.
    """

    tau_token: float = 0.0
    tau_head: float = 0.0
    tau_layer: float = 0.0
    abstain: float = 0.0
    precision: str = "float32"
    depth: int = 0

    def __post_init__(self) -> None:
        check_precision(self.precision)
        depth: Any = self.depth
        if isinstance(depth, bool) or not isinstance(depth, Integral) or int(depth) < 0:
            raise InvalidInputError(f"depth must be a number of layers, or 0 for all; got {depth!r}.")
        object.__setattr__(self, "depth", int(depth))
        values = self.to_config()
        for name, value in ((name, values[name]) for name in THRESHOLDS):
            number = isinstance(value, Real) and not isinstance(value, bool)
            if not number or not math.isfinite(value) or value < 0 or (name != "tau_layer" and value > 1):
                allowed = "at least 0" if name == "tau_layer" else "from 0 to 1"
                raise InvalidInputError(f"{name} must be a number {allowed}; got {value!r}.")
            # plain numbers: NumPy's own would be compared with scores in double precision, torch's are in single
            object.__setattr__(self, "abstain" if name == "lambda" else name, float(value))

    @classmethod
    def of(cls, config: Mapping[str, Any] | Setting | None) -> Setting:
        """From the config of a certificate; thresholds that it lacks are off."""
        if config is None:
            return cls()
        if isinstance(config, Setting):
            return config
        unknown = config.keys() - set(NAMES)
        if unknown:
            raise InvalidInputError(
                f"a setting has the thresholds {list(THRESHOLDS)}, a depth and a precision; got {sorted(unknown)}."
            )
        return cls(**{"abstain" if name == "lambda" else name: value for name, value in config.items()})

    def to_config(self) -> dict[str, Any]:
        """As in a certificate; depth and precision where they are not the model's own."""
        values = asdict(self)
        own = {"depth": 0, "precision": "float32"}
        names = [name for name in NAMES if name not in own or values[name] != own[name]]
        return {name: values["abstain" if name == "lambda" else name] for name in names}

    def cut(self, n_layers: int) -> int | None:
        """The depth at which the exit answers whatever is left; None where that is the model's own end."""
        return self.depth if 0 < self.depth < n_layers else None
