"""The contract of a p-value: P(p <= u) <= u whenever the mean of the losses is at or above the limit."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from riskfront._data.table import LossTable
from riskfront._problems.limits import Limit
from riskfront._problems.problem import Problem
from riskfront._support.arrays import Array, FloatArray
from riskfront.errors import InvalidInputError
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.testing._findings import Findings

PValue = Callable[[FloatArray, float], npt.ArrayLike]

LEVELS = (0.01, 0.05, 0.1, 0.2, 0.5)
_LEVEL = 1e-9


def check_p_value(p_value: str | PValue, *, binary: bool = False, tests: int = 2000, seed: int = 0) -> pd.DataFrame:
    """Check a p-value for H: E[L] > alpha on losses that are made to break it.

    The losses are independent and their mean is the limit itself, where a wrong p-value shows first: 0/1 losses, rare ones, few
    of them, a mean far above the limit, Beta, uniform, nearly constant and two-point losses, and signed drops. On each the
    p-value may be at most u in a share u of the tests. It must also be 1 without examples, a number in [0, 1] always, and
    reject a limit that holds with room to spare.

    Args:
        p_value: the name of one of riskfront's, or a function: losses in [0, 1], one row a test, (tests, examples), and the
            limit alpha -> one p-value a test, (tests,). Losses with other bounds are rescaled to [0, 1], and alpha with them.
        binary: whether a function is for 0/1 losses only; the others are then left out. A name knows what it is for.
        tests: how many independent tests to make of each kind.
        seed: of the losses.

    Returns:
        How often the p-value was at most each level, for each kind of losses.

    Raises:
        AssertionError: a rule is broken; says on which losses, how often, and how often is allowed.

    Examples:
        >>> import numpy as np
        >>> from riskfront.testing import check_p_value
        >>> rates = check_p_value("hoeffding-bentkus")
        >>> bool((rates["rate"] <= rates["allowed"]).all())
        True
        >>> def normal(losses, alpha):
        ...     from scipy.stats import norm
        ...     spread = losses.std(axis=1) / np.sqrt(max(losses.shape[1], 1))
        ...     return norm.cdf((losses.mean(axis=1) - alpha) / np.maximum(spread, 1e-12))
        >>> check_p_value(normal, binary=True)
        Traceback (most recent call last):
        AssertionError: the p-value 'normal' breaks ... rules:
        ...
    """
    name = p_value if isinstance(p_value, str) else getattr(p_value, "__name__", repr(p_value))
    found = Findings(f"the p-value '{name}'", _LEVEL)
    rng = np.random.default_rng([seed, 11])
    for where, null in NULLS.items():
        if null.binary or not binary:
            p = _values(p_value, null, null.draw(rng, (tests, null.examples)), found, where)
            if p is not None:
                for level in LEVELS:
                    found.rate(f"{where}, level {level:g}", f"p <= {level:g}", int(np.sum(p <= level)), tests, level)
    _without_examples(p_value, found)
    safe = zero_one(0.02, limit=0.1, examples=1000)
    p = _values(p_value, safe, safe.draw(rng, (200, 1000)), found, "0/1, mean 0.02")
    if p is not None:
        share = float(np.mean(p <= 0.1))
        words = f"0/1, mean 0.02: p <= 0.1 in {share:.3f} of 200 tests of 1,000 examples"
        found.require(
            share > 0.5, f"{words}; a p-value that is of use finds that the mean is below 0.1 in more than half."
        )
    return found.end()


def _values(p_value: str | PValue, null: NullLosses, losses: Array, found: Findings, where: str) -> FloatArray | None:
    """(tests,) p-values; None, with a broken rule noted, where they are no p-values."""
    try:
        if isinstance(p_value, str):
            p = p_value_of_name(p_value, null, losses)
        else:
            low, high = null.bounds
            p = np.asarray(p_value((losses.astype(np.float64) - low) / (high - low), (null.limit - low) / (high - low)))
    except Exception as error:  # the user's function may raise anything
        if not (isinstance(p_value, str) and isinstance(error, InvalidInputError)):  # it says itself what it is not for
            found.broken.append(f"{where}: it raised {type(error).__name__}: {error}")
        return None
    if p.shape != (len(losses),):
        found.broken.append(
            f"{where}: {len(losses):,} tests must give {len(losses):,} p-values; got the shape {p.shape}."
        )
        return None
    outside = int((~((p >= 0) & (p <= 1))).sum())
    if outside:
        found.broken.append(f"{where}: p-values must lie in [0, 1]; {outside:,} of {len(p):,} are outside or nan.")
        return None
    return p.astype(np.float64)


def p_value_of_name(p_value: str, null: NullLosses, losses: Array) -> FloatArray:
    """As every calibration computes it."""
    table = LossTable([{"test": i} for i in range(len(losses))], {"loss": losses}, bounds={"loss": null.bounds})
    problem = Problem([Limit("loss", at_most=null.limit, p_value=p_value)], ["loss"])
    return Evidence(problem, table).combined(np.arange(len(losses)))


def _without_examples(p_value: str | PValue, found: Findings) -> None:
    where, nothing = "no examples", np.zeros((3, 20), dtype=bool)
    try:
        if isinstance(p_value, str):
            table = LossTable([{"test": i} for i in range(3)], {"loss": nothing, "on": nothing})
            problem = Problem([Limit("loss", at_most=0.1, given="on", p_value=p_value)], ["loss"])
            p = Evidence(problem, table).combined(np.arange(3))
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # numpy's, on means of nothing
                p = np.asarray(p_value(np.zeros((3, 0)), 0.1), dtype=np.float64)
    except Exception as error:
        found.broken.append(f"{where}: it raised {type(error).__name__}: {error}")
    else:
        found.require(bool(np.all(p == 1)), f"{where}: without evidence p must be 1; got {np.asarray(p).tolist()}.")


Draw = Callable[[np.random.Generator, tuple[int, int]], Array]


@dataclass(frozen=True, slots=True)
class NullLosses:
    """A distribution of losses within ``bounds``, whose mean is at or above ``limit``.

    Args:
        draw: (rng, (tests, examples)) -> independent losses of that shape.
        binary: whether every loss is 0 or 1.
        examples: how many losses a test has.
    """

    draw: Draw
    limit: float
    bounds: tuple[float, float] = (0.0, 1.0)
    binary: bool = False
    examples: int = 250


def zero_one(mean: float, limit: float | None = None, examples: int = 250) -> NullLosses:
    """0/1 losses."""
    return NullLosses(
        lambda rng, shape: rng.random(shape) < mean, mean if limit is None else limit, (0, 1), True, examples
    )


def beta(mean: float, concentration: float) -> NullLosses:
    """Beta losses; a small concentration is nearly 0/1."""
    return NullLosses(lambda rng, shape: rng.beta(mean * concentration, (1 - mean) * concentration, shape), mean)


def uniform(mean: float) -> NullLosses:
    """Losses uniform on [0, 2 mean]."""
    return NullLosses(lambda rng, shape: 2 * mean * rng.random(shape), mean)


def nearly_constant(mean: float, noise: float = 1e-3) -> NullLosses:
    """The mean plus a little noise: a test that trusts a small variance rejects here."""
    return NullLosses(lambda rng, shape: mean + noise * (2 * rng.random(shape) - 1), mean)


def two_point(mean: float, share: float = 0.05) -> NullLosses:
    """Mostly a constant a little below the mean, and with probability share * mean a loss of 1 that makes up for it.

    Many samples see no 1 at all: no variance, and a mean below the limit.
    """
    rare = share * mean
    low = (mean - rare) / (1 - rare)
    return NullLosses(lambda rng, shape: np.where(rng.random(shape) < rare, 1.0, low), mean)


def signed(mean: float, flips: float) -> NullLosses:
    """The signed drop in {-1, 0, 1}: a share ``flips`` turns correct, flips + mean turn wrong."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
        u = rng.random(shape)
        return (u < flips + mean).astype(np.int8) - (u >= 1 - flips).astype(np.int8)

    return NullLosses(draw, mean, (-1, 1))


NULLS: dict[str, NullLosses] = {
    "0/1": zero_one(0.1),
    "0/1, rare": zero_one(0.01),
    "0/1, 15 examples": zero_one(0.1, examples=15),
    "0/1, mean 0.6": zero_one(0.6, limit=0.1),
    "beta": beta(0.1, 2.0),
    "beta, nearly 0/1": beta(0.1, 0.1),
    "uniform": uniform(0.1),
    "nearly constant": nearly_constant(0.1),
    "two-point": two_point(0.1),
    "signed, 5 % flips": signed(0.1, 0.05),
    "signed, 30 % flips": signed(0.1, 0.3),
    "signed, small limit": signed(0.025, 0.3),
}
