"""Copies are told from independent draws that happen to be equal: neither may be taken for the other."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.preprocessing import PolynomialFeatures

from riskfront._data.identity.copies import n_copies
from riskfront._data.identity.fingerprints import ExampleFingerprints

Rng = np.random.Generator
WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]


def _of_levels(rng: Rng, n: int, columns: int, levels: int) -> np.ndarray:
    """Categories that were replaced by numbers with many digits, such as the mean of the target."""
    return rng.random((columns, levels))[np.arange(columns)[:, None], rng.integers(0, levels, (columns, n))].T


def _passengers(rng: Rng, n: int) -> pd.DataFrame:
    fares = np.round(np.exp(rng.normal(2.5, 1, 120)), 4)
    return pd.DataFrame(
        {
            "class": rng.integers(1, 4, n),
            "sex": rng.choice(["m", "f"], n),
            "age": np.round(np.abs(rng.normal(30, 14, n))),
            "fare": rng.choice(fares, n),
            "port": rng.choice(list("SCQ"), n, p=[0.7, 0.2, 0.1]),
        }
    )


def _hours(rng: Rng, n: int) -> np.ndarray:
    angles = 2 * np.pi * np.stack([rng.integers(0, 24, n) / 24, rng.integers(0, 7, n) / 7], axis=1)
    return np.hstack([np.sin(angles), np.cos(angles)])


HONEST: dict[str, Callable[[Rng, int], Any]] = {
    "one constant": lambda rng, n: np.zeros((n, 1)),
    "three flags": lambda rng, n: rng.integers(0, 2, (n, 3)),
    "twelve rare flags": lambda rng, n: rng.random((n, 12)) < 0.2,
    "forty rare flags": lambda rng, n: rng.random((n, 40)) < 0.05,
    "an age": lambda rng, n: rng.integers(18, 90, (n, 1)),
    "a count, standardised": lambda rng, n: (rng.poisson(30, (n, 1)) - 30) / 5.477,
    "an age and its square and logarithm": lambda rng, n: (lambda a: np.c_[np.log(a), a, a**2])(rng.integers(1, 90, n)),
    "one of a thousand": lambda rng, n: rng.integers(0, 1000, n),
    "four numbers with one decimal": lambda rng, n: np.round(rng.normal(5, 0.8, (n, 4)), 1),
    "nine grades": lambda rng, n: np.minimum(10, rng.geometric(0.5, (n, 9))),
    "three categories, one-hot": lambda rng, n: np.hstack([np.eye(5)[rng.integers(0, 5, n)] for _ in range(3)]),
    "flags and their opposites": lambda rng, n: (lambda b: np.hstack([b, 1 - b]))(rng.integers(0, 2, (n, 8))),
    "one category of forty": lambda rng, n: np.eye(40)[rng.integers(0, 40, n)],
    "products of flags": lambda rng, n: PolynomialFeatures(2).fit_transform(rng.integers(0, 2, (n, 5))),
    "six encoded categories": lambda rng, n: _of_levels(rng, n, 6, 8),
    "two encoded categories": lambda rng, n: _of_levels(rng, n, 2, 30),
    "hour and day on circles": _hours,
    "places on a grid": lambda rng, n: np.round(rng.random((n, 2)), 2),
    "zeros for a third of numbers": lambda rng, n: rng.normal(size=(n, 5)) * (rng.random(n) < 0.6)[:, None],
    "numbers": lambda rng, n: rng.normal(size=(n, 4)),
    "a number with three decimals": lambda rng, n: np.c_[np.round(rng.normal(size=n), 3), rng.integers(0, 3, (n, 2))],
    "passengers": _passengers,
    "words, sparse": lambda rng, n: sparse.csr_matrix(rng.random((n, 60)) < 0.03),
    "short texts": lambda rng, n: [" ".join(rng.choice(WORDS, rng.integers(1, 4))) for _ in range(n)],
    "frequent questions": lambda rng, n: [f"q{min(k, 5000)}" for k in rng.zipf(1.5, n)],
    "records": lambda rng, n: [{"a": int(rng.integers(0, 5)), "b": str(rng.choice(["x", "y"]))} for _ in range(n)],
}

RICH: dict[str, Callable[[Rng, int], Any]] = {
    "numbers": lambda rng, n: rng.normal(size=(n, 4)),
    "one number": lambda rng, n: rng.normal(size=n),
    "a number and nine flags": lambda rng, n: np.c_[rng.normal(size=n), rng.integers(0, 2, (n, 9))],
    "thirty flags and a number": lambda rng, n: np.c_[np.eye(30)[rng.integers(0, 30, n)], rng.normal(size=n)],
    "single precision": lambda rng, n: rng.random((n, 3)).astype(np.float32),
    "two decimals": lambda rng, n: np.round(rng.normal(size=(n, 8)), 2),
    "images": lambda rng, n: load_digits().images[rng.permutation(1797)[:n]],
    "texts": lambda rng, n: [" ".join(rng.choice(WORDS, 12)) for _ in range(n)],
    "texts without spaces": lambda rng, n: ["".join(rng.choice(list("abcdefghijklmnop"), 48)) for _ in range(n)],
    "rows with names": lambda rng, n: pd.DataFrame({"id": np.arange(n), "x": rng.normal(size=n)}),
    "sparse numbers": lambda rng, n: sparse.random(n, 40, 0.3, format="csr", random_state=0),
}
WAYS: dict[str, Callable[[Rng, int], np.ndarray]] = {
    "twice": lambda rng, n: np.tile(np.arange(n), 2),
    "five times": lambda rng, n: np.repeat(np.arange(n), 5),
    "half of them twice": lambda rng, n: np.concatenate([np.arange(n), np.arange(n // 2)]),
    "a tenth of them twice": lambda rng, n: np.concatenate([np.arange(n), np.arange(n // 10)]),
    "bootstrap": lambda rng, n: rng.integers(0, n, n),
    "a rare class as often as the others": lambda rng, n: np.concatenate([np.arange(n), rng.integers(0, n // 10, n)]),
}


FEW = (
    "one constant",
    "three flags",
    "records",
)  # contents that are too few to say whether they come in pairs by chance


def _take(examples: Any, rows: np.ndarray) -> Any:
    if isinstance(examples, list):
        return [examples[row] for row in rows]
    return examples.iloc[rows] if isinstance(examples, pd.DataFrame) else examples[rows]


def _copies(examples: Any) -> int:
    found = ExampleFingerprints.of(examples)
    assert found is not None
    return found.n_copies


@pytest.mark.parametrize("n", [100, 1000, 4000])
@pytest.mark.parametrize("kind", HONEST)
def test_independent_draws_pass(kind: str, n: int) -> None:
    for trial in range(3):
        assert _copies(HONEST[kind](np.random.default_rng([trial, n]), n)) == 0


@pytest.mark.parametrize("n", [60, 1000])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", RICH)
def test_copies_are_found(kind: str, way: str, n: int) -> None:
    rng = np.random.default_rng(n)
    rows = WAYS[way](rng, n)
    assert _copies(_take(RICH[kind](rng, n), rows)) == len(rows) - len(np.unique(rows))


@pytest.mark.parametrize("kind", [kind for kind in HONEST if kind not in FEW])
def test_a_file_that_was_written_twice_is_found_whatever_it_holds(kind: str) -> None:
    examples = HONEST[kind](np.random.default_rng(0), 500)
    assert _copies(_take(examples, np.tile(np.arange(500), 2))) >= 500


def test_counts_alone_show_that_half_of_the_contents_come_twice() -> None:
    assert n_copies(np.concatenate([np.arange(600), np.arange(300)])) == 300
    assert n_copies(np.random.default_rng(0).integers(0, 600, 900)) == 0  # as often by chance


def test_chance_is_rarely_taken_for_copies() -> None:
    """The tests on counts have a chance of 1e-9; here they are run on the distribution that is nearest to their limit."""
    rng = np.random.default_rng(0)
    assert not any(n_copies(rng.integers(0, size, 400)) for size in (2, 5, 20, 80, 200, 400, 2000) for _ in range(300))


def test_a_few_copies_that_change_nothing_pass() -> None:
    X = np.random.default_rng(0).normal(size=(5000, 3))
    assert _copies(np.concatenate([X, X[:40]])) == 0
