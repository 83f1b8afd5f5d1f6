"""What a certified classifier lost on new examples, as columns for a monitor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from riskfront._support.arrays import Array, FloatArray
from riskfront.estimators import _decision_thresholds as rule
from riskfront.estimators._classifier_table import _positions

_WITHOUT_LABELS = ("answered", "abstained", "predicted_positive")


def deployed_outcomes(
    probabilities: FloatArray, y: Any, classes: Array, positive: int, config: Mapping[str, Any]
) -> dict[str, Array]:
    """Column -> (n,). Where y is None or nan, what needs a label is nan."""
    labels = np.asarray(y, dtype=object).reshape(-1)
    known = ~pd.isna(labels)
    truth = np.zeros(len(labels), dtype=np.int64)
    truth[known] = _positions(np.array(labels[known].tolist()), classes)
    two = len(classes) == 2
    names = [*rule.COMMON, *(rule.TWO_CLASSES if two else ())]
    thresholds = [config["threshold"]] if "threshold" in config else None
    found: dict[str, Array] = {
        name: values[0] if name in _WITHOUT_LABELS else np.where(known, values[0], np.nan)
        for name, values in rule.outcomes(
            probabilities, truth, thresholds, [config["abstain"]], positive, names
        ).items()
    }
    found["label"] = labels
    if two:
        found["positive"] = np.where(known, truth == positive, np.nan)
        found["negative"] = np.where(known, truth != positive, np.nan)
    return found
