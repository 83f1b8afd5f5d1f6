"""The contract of a procedure: the family-wise error is at most delta, whatever the dependence of the p-values."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import norm

from riskfront._support.arrays import Array, BoolArray, FloatArray
from riskfront.statistics._procedures import Procedure
from riskfront.testing._findings import Findings

DEPENDENCE = ("independent", "equal", "positive", "pairwise negative", "negative")
_LEVEL = 1e-9
_PAIRS = 150  # random pairs of p-values for each law that is no rate


def check_procedure(
    procedure: Procedure, *, hypotheses: int = 12, delta: float = 0.1, trials: int = 1500, seed: int = 0
) -> pd.DataFrame:
    """Check that a procedure keeps the family-wise error at delta, and the laws that testing relies on.

    True hypotheses get uniform p-values, under five kinds of dependence; false ones get 0, which is the hardest case: all
    their budget arrives at the true ones. One rejected true hypothesis is a miss.

    Lower p-values and a larger delta never lose a rejection; nothing is rejected where all p-values are 1; ``reject`` is
    ``p <= levels``; and if ``sequential``, nothing after the first failure matters.

    Args:
        procedure: an object with ``sequential``, ``levels(p_values, delta)`` and ``reject(p_values, delta)``.
        hypotheses: how many hypotheses to test; for a graph, the number of its nodes.
        delta: the level.
        trials: how often to draw p-values in each case.
        seed: of the p-values.

    Returns:
        The family-wise error in each case.

    Raises:
        AssertionError: a rule is broken; says in which case, how often, and how often is allowed.

    Examples:
        >>> from riskfront.statistics import Holm
        >>> from riskfront.testing import check_procedure
        >>> bool(check_procedure(Holm())["rate"].max() < 0.13)
        True
    """
    found = Findings(f"the procedure {procedure!r}", _LEVEL)
    try:
        _laws(procedure, hypotheses, delta, np.random.default_rng([seed, 4]), found)
        _errors(procedure, hypotheses, delta, trials, seed, found)
    except Exception as error:  # the user's procedure may raise anything
        found.broken.append(f"it raised {type(error).__name__}: {error}")
    return found.end()


def uniforms(dependence: str, rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    """(trials, hypotheses) uniform p-values, of one kind of dependence within a trial."""
    trials, m = shape
    if dependence == "independent":
        return rng.random(shape)
    if dependence == "equal":
        return np.repeat(rng.random((trials, 1)), m, axis=1)
    if dependence == "pairwise negative":
        half = rng.random((trials, (m + 1) // 2))
        return np.concatenate([half, 1 - half], axis=1)[:, :m]
    if dependence == "positive":
        normal = np.sqrt(0.8) * rng.standard_normal((trials, 1)) + np.sqrt(0.2) * rng.standard_normal(shape)
    else:  # as negative as m normals can be: correlation -1 / (m - 1)
        normal = rng.standard_normal(shape)
        if m > 1:
            normal = (normal - normal.mean(axis=1, keepdims=True)) * np.sqrt(m / (m - 1))
    return np.asarray(norm.cdf(normal))


def true_hypotheses(m: int) -> dict[str, BoolArray]:
    """Which hypotheses are true, by the name of the case."""
    return {
        "all true": np.ones(m, dtype=bool),
        "the second half true": np.arange(m) >= m // 2,
        "every other one true": np.arange(m) % 2 == 0,
        "only the last one true": np.arange(m) == m - 1,
    }


def misses(procedure: Procedure, p_values: FloatArray, true: BoolArray, delta: float) -> int:
    """In how many rows of p-values, (trials, hypotheses), a true hypothesis is rejected."""
    return sum(bool(np.asarray(procedure.reject(row, delta))[true].any()) for row in p_values)


def _errors(procedure: Procedure, m: int, delta: float, trials: int, seed: int, found: Findings) -> None:
    for dependence in DEPENDENCE:
        drawn = uniforms(dependence, np.random.default_rng([seed, 3]), (trials, m))
        for case, true in true_hypotheses(m).items():
            missed = misses(procedure, np.where(true, drawn, 0.0), true, delta)
            found.rate(f"{case}, {dependence} p-values", "a true hypothesis was rejected", missed, trials, delta)


def _laws(procedure: Procedure, m: int, delta: float, rng: np.random.Generator, found: Findings) -> None:
    rejected = np.asarray(procedure.reject(np.zeros(m), delta))
    if rejected.shape != (m,) or rejected.dtype != np.bool_:
        raise TypeError(f"reject must return {m} booleans; got {rejected.dtype} of the shape {rejected.shape}")
    found.require(bool(rejected.any()), "p-values of 0: nothing was rejected; a procedure that is of use rejects some.")
    ones = int(np.asarray(procedure.reject(np.ones(m), delta)).sum())
    found.require(ones == 0, f"p-values of 1: {ones} of {m} hypotheses were rejected.")
    lost: dict[str, int] = {}
    for _ in range(_PAIRS):
        p = rng.beta(0.2, 3, size=m)
        first = np.asarray(procedure.reject(p, delta))
        lower = np.where(rng.random(m) < 0.3, p * rng.random(m), p)
        for law, holds in {
            "a lower p-value lost a rejection": not (first & ~procedure.reject(lower, delta)).any(),
            "a larger delta lost a rejection": not (procedure.reject(p, delta / 2) & ~first).any(),
            "reject is not p <= levels": np.array_equal(
                first, p <= np.nan_to_num(procedure.levels(p, delta), nan=-1.0)
            ),
            "a p-value after the first failure changed what was rejected": not procedure.sequential
            or np.array_equal(first, procedure.reject(_changed_after_failure(p, first, rng), delta)),
        }.items():
            lost[law] = lost.get(law, 0) + (not holds)
    for law, count in lost.items():
        found.require(count == 0, f"random p-values: {law}, in {count} of {_PAIRS} cases.")


def _changed_after_failure(p: FloatArray, rejected: BoolArray, rng: np.random.Generator) -> Array:
    """The p-values with others after the first hypothesis that was not rejected."""
    failures = np.flatnonzero(~rejected)
    after = failures[0] + 1 if failures.size else p.size
    return np.concatenate([p[:after], rng.random(p.size - after)])
