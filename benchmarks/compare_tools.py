"""How each tool is asked, as its documentation would: from calibration examples to the setting to use, or None.

The bodies are what a user would write, and ``lines_of`` counts them. MAPIE is imported where it is used: it is an extra.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import riskfront as rf
from benchmarks.compare_tasks import DELTA, HIGH, LABEL_THRESHOLDS, LOW, Setting
from benchmarks.compare_tasks import THRESHOLDS as GRID
from riskfront.methods._pareto_testing import PAPER_P_VALUE

Tool = Callable[[Any, Any, Any], Setting | None]
PAPER = rf.ParetoTesting.as_in_the_paper()
#: from which end a limit gets harder to keep, said beforehand: no examples are needed for planning
FROM_LOW, FROM_HIGH = (rf.OrderedKnob(safest={"threshold": end}) for end in ("low", "high"))


def lines_of(tool: Tool) -> int:
    """Lines of the body, without its docstring and without the imports."""
    function = ast.parse(textwrap.dedent(inspect.getsource(tool))).body[0]
    assert isinstance(function, ast.FunctionDef)
    body = [part for part in function.body if not isinstance(part, ast.ImportFrom)]
    return sum((part.end_lineno or 0) - part.lineno + 1 for part in body if not _is_text(part))


def _is_text(part: ast.stmt) -> bool:
    return isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)


def quietly(tool: Callable[..., Any], *given: Any) -> Any:
    """What a tool answers; that nothing was certified is counted, not warned of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tool(*given)


# ---------------------------------------------------------------- one threshold of a classifier


def mapie_precision(model: Any, X: Any, y: Any, grid: Any = GRID, by: str = "bonferroni_holm") -> Setting | None:
    from mapie.risk_control import BinaryClassificationController

    safe = BinaryClassificationController(
        model.predict_proba, "precision", 0.9, 1 - DELTA, list_predict_params=grid, fwer_method=by
    ).calibrate(X, y)
    return None if safe.best_predict_param is None else (safe.best_predict_param,)


def mapie_precision_split(model: Any, X: Any, y: Any) -> Setting | None:
    from mapie.risk_control import BinaryClassificationController

    safe = BinaryClassificationController(
        model.predict_proba,
        "precision",
        0.9,
        1 - DELTA,
        list_predict_params=GRID,
        fwer_method="split_fixed_sequence",
    )
    safe.learn_fixed_sequence_order(X[: len(X) * 3 // 10], y[: len(X) * 3 // 10])
    safe.calibrate(X[len(X) * 3 // 10 :], y[len(X) * 3 // 10 :])
    return None if safe.best_predict_param is None else (safe.best_predict_param,)


def our_precision(model: Any, X: Any, y: Any, **more: Any) -> Setting | None:
    safe = rf.RiskControlledClassifier(  # drawn independently from a finite population
        model, repeats="independent", limits="precision >= 0.9", thresholds=GRID, **more
    ).fit(X, y)
    return (safe.config_["threshold"],) if safe.config_ else None


def mapie_recall(model: Any, X: Any, y: Any, by: str = "bonferroni_holm") -> Setting | None:
    from mapie.risk_control import BinaryClassificationController

    safe = BinaryClassificationController(
        model.predict_proba, "recall", 0.8, 1 - DELTA, list_predict_params=GRID, fwer_method=by
    ).calibrate(X, y)
    return None if safe.best_predict_param is None else (safe.best_predict_param,)


def our_recall(model: Any, X: Any, y: Any, **more: Any) -> Setting | None:
    safe = rf.RiskControlledClassifier(  # drawn independently from a finite population
        model, repeats="independent", limits="recall >= 0.8", thresholds=GRID, **more
    ).fit(X, y)
    return (safe.config_["threshold"],) if safe.config_ else None


def paper_threshold(model: Any, X: Any, y: Any, limit: str, objective: rf.Objective) -> Setting | None:
    said, positive = model.predict_proba(X)[:, 1] >= GRID[:, None], np.broadcast_to(y == 1, (81, len(y)))
    losses = {"hit": said & positive, "said": said, "positive": positive}
    problem = rf.Problem(limit, maximize=[objective], delta=DELTA).using(PAPER_P_VALUE)
    found = rf.calibrate(rf.LossTable([{"threshold": at} for at in GRID], losses), problem, method=PAPER)
    return (found.config["threshold"],) if found else None


# ---------------------------------------------------------------- two thresholds

PAIRS = np.stack(np.broadcast_arrays(LOW, HIGH), axis=-1).reshape(-1, 2)
TWO_LIMITS = ["right >= 0.9 given positive", "right >= 0.92 given negative"]


def with_two_thresholds(model: Any, X: Any, low: float, high: float) -> np.ndarray:
    """1 from the upper threshold on, 0 below the lower one, nan between them."""
    score = model.predict_proba(X)[:, 1]
    return np.where(score >= high, 1.0, np.where(score < low, 0.0, np.nan))


def mapie_two(model: Any, X: Any, y: Any) -> Setting | None:
    from mapie.risk_control import BinaryClassificationController

    safe = BinaryClassificationController(
        lambda X, low, high: with_two_thresholds(model, X, low, high),
        ["positive_predictive_value", "negative_predictive_value"],
        [0.9, 0.92],
        1 - DELTA,
        best_predict_param_choice="abstention_rate",
        list_predict_params=PAIRS,
    ).calibrate(X, y)
    return safe.best_predict_param


def mapie_two_split(model: Any, X: Any, y: Any) -> Setting | None:
    from mapie.risk_control import BinaryClassificationController

    safe = BinaryClassificationController(
        lambda X, low, high: with_two_thresholds(model, X, low, high),
        ["positive_predictive_value", "negative_predictive_value"],
        [0.9, 0.92],
        1 - DELTA,
        best_predict_param_choice="abstention_rate",
        list_predict_params=PAIRS,
        fwer_method="split_fixed_sequence",
    )
    safe.learn_fixed_sequence_order(X[: len(X) * 3 // 10], y[: len(X) * 3 // 10])
    safe.calibrate(X[len(X) * 3 // 10 :], y[len(X) * 3 // 10 :])
    return safe.best_predict_param


def our_two(model: Any, X: Any, y: Any) -> Setting | None:
    safe = rf.RiskControlledEstimator(  # drawn independently from a finite population
        model,
        repeats="independent",
        configs=[{"low": low, "high": high} for low, high in PAIRS],
        predict_with=lambda model, config, X: with_two_thresholds(model, X, **config),
        losses=lambda y, said, config: {
            "right": said == y,
            "positive": said == 1,
            "negative": said == 0,
            "unanswered": np.isnan(said),
        },
        limits=TWO_LIMITS,
        minimize="unanswered",
    ).fit(X, y)
    return tuple(safe.config_.values()) if safe.config_ else None


def paper_two(model: Any, X: Any, y: Any) -> Setting | None:
    said = np.stack([with_two_thresholds(model, X, low, high) for low, high in PAIRS])
    losses = {"right": said == y, "positive": said == 1, "negative": said == 0, "unanswered": np.isnan(said)}
    table = rf.LossTable([{"low": low, "high": high} for low, high in PAIRS], losses)
    problem = rf.Problem(TWO_LIMITS, minimize="unanswered", delta=DELTA).using(PAPER_P_VALUE)
    found = rf.calibrate(table, problem, method=PAPER)
    return tuple(found.config.values()) if found else None


# ---------------------------------------------------------------- many labels


def mapie_labels(model: Any, X: Any, y: Any, bound: str | None = None) -> Setting | None:
    from mapie.risk_control import MultiLabelClassificationController

    safe = MultiLabelClassificationController(
        lambda scores: scores, "recall", "rcps", 0.8, 1 - DELTA, bound, LABEL_THRESHOLDS
    ).calibrate(X, y)
    return (float(safe.best_predict_param[0]),)


def mapie_labels_on_average(model: Any, X: Any, y: Any) -> Setting | None:
    from mapie.risk_control import MultiLabelClassificationController

    safe = MultiLabelClassificationController(
        lambda scores: scores, "recall", "crc", 0.8, predict_params=LABEL_THRESHOLDS
    ).calibrate(X, y)
    return (float(safe.best_predict_param[0]),)


def our_labels(model: Any, X: Any, y: Any, method: Any = "pareto-testing", p_value: str = "auto") -> Setting | None:
    said = np.greater(X, LABEL_THRESHOLDS[:, None, None])
    recall = (said & (y == 1)).sum(axis=2) / y.sum(axis=1)
    table = rf.LossTable([{"threshold": at} for at in LABEL_THRESHOLDS], {"recall": recall, "given": said.sum(axis=2)})
    problem = rf.Problem("recall >= 0.8", minimize="given", delta=DELTA).using(p_value)
    found = rf.calibrate(table, problem, method=method)
    return (found.config["threshold"],) if found else None
