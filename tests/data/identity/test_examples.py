"""One definition of "the same example", whatever examples are kept in."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse

import riskfront as rf
from riskfront._data.identity.fingerprints import ExampleFingerprints, rounding_of, say_enough, significant_digits


def numbers(*parts: object) -> np.ndarray:
    found = ExampleFingerprints.of(*parts)
    assert found is not None
    return found.numbers


def test_equal_values_are_the_same_example_wherever_they_stand() -> None:
    X = np.array([[1.0, 0.0], [2.0, 3.0], [1.0, -0.0], [1.0, np.nan], [1.0, np.nan]])
    found = numbers(X)
    assert found[0] == found[2]
    assert found[3] == found[4]
    assert len(np.unique(found)) == 3
    assert np.array_equal(numbers(X[::-1]), found[::-1])
    assert np.array_equal(numbers(pd.DataFrame(X, index=list("abcde"))), found)
    assert np.array_equal(numbers(X.tolist()), found)


def test_texts_are_compared_without_white_space_and_case() -> None:
    found = numbers(["One  text", "one text\n", "another"])
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize(
    "examples",
    [
        [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 1, "b": "x"}],
        [(1, "x"), (1, "y"), (1, "x")],
        pd.DataFrame({"a": [1, 1, 1], "b": ["x", "y", "x"]}),
        pa.table({"a": [1, 1, 1], "b": ["x", "y", "x"]}),
        sparse.csr_matrix(np.array([[1.0, 0, 0], [0, 1, 0], [1, 0, 0]])),
        np.array([[[1, 2]], [[1, 3]], [[1, 2]]]),
        [np.array([1, 2]), np.array([1]), np.array([1, 2])],
        [["a"], ["a", "b"], ["a"]],
        pd.Series(pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-01"])),
    ],
)
def test_any_container(examples: object) -> None:
    found = numbers(examples)
    assert found[0] == found[2] != found[1]


def test_labels_and_groups_belong_to_an_example() -> None:
    X = np.zeros((3, 2))
    assert len(np.unique(numbers(X, np.array([0, 1, 0])))) == 2


def test_contents_that_cannot_be_read_are_none() -> None:
    class Photos:
        fingerprint = "photos, version 3"

        def __len__(self) -> int:
            return 3

    assert ExampleFingerprints.of(Photos()) is None


def test_what_becomes_of_copies() -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    found = ExampleFingerprints.of(np.concatenate([X, X]))
    assert found is not None
    with pytest.raises(rf.InvalidInputError, match="of 120 examples 60 have exactly the content of another"):
        found.kept("refuse")
    kept = found.kept("keep-one")
    assert kept.positions.tolist() == list(range(60))
    assert kept.copies.tolist() == [1] * 60
    assert "60 of 120 examples repeat others" in kept.notes[0]
    kept = found.kept("independent")
    assert len(kept.positions) == 120
    assert kept.copies.sum() == 0
    assert "only if they are no copies" in kept.notes[0]


def test_copies_share_their_place() -> None:
    X = np.random.default_rng(0).normal(size=(500, 2))
    found = ExampleFingerprints.of(np.concatenate([X, X]))
    assert found is not None
    places = found.places(3)
    assert np.array_equal(places[:500], places[500:])
    assert abs(places.mean() - 0.5) < 0.05
    assert not np.array_equal(places, found.places(4))


@pytest.mark.parametrize(
    ("examples", "enough"),
    [
        (np.arange(500), False),
        (list(range(500)), False),
        (np.linspace(0, 1, 500), False),
        ([f"image {k}.png" for k in range(500)], False),
        (["cat"] * 200 + ["dog"] * 300, False),
        (np.sort(np.random.default_rng(0).integers(0, 2, 500)), False),
        (np.zeros((500, 4)), False),
        (np.c_[np.arange(500), np.arange(500) > 30], False),
        (np.repeat(np.sort(np.random.default_rng(0).integers(0, 2, 500))[:, None], 40, axis=1), False),
        (np.random.default_rng(0).integers(0, 2, 500), True),
        (np.random.default_rng(0).random(60), True),
        (np.random.default_rng(0).random((20, 3)), True),
        (np.sort(np.random.default_rng(0).random(500)), True),
        ([f"text {'x' * int(k)}" for k in np.random.default_rng(0).integers(0, 40, 200)], True),
        (np.c_[np.arange(500), np.random.default_rng(0).random(500)], True),
    ],
)
def test_which_examples_say_more_than_their_positions(examples: object, enough: bool) -> None:
    found = ExampleFingerprints.of(examples)
    assert found is not None
    assert found.say_enough is enough
    assert say_enough([]) is False


@pytest.mark.parametrize(
    "written",
    [
        lambda cost: np.round(cost, 2),
        lambda cost: np.rint(cost),
        lambda cost: np.vectorize(lambda value: float(f"{value:.3g}"))(cost),
        lambda cost: cost.astype(np.float16),
    ],
)
def test_values_with_fewer_digits_are_known_by_the_rounding_that_made_them(written: Callable) -> None:
    cost = np.random.default_rng(0).lognormal(5, 1, (4, 300))
    found = rounding_of(cost, written(cost))
    assert found is not None
    assert (found(cost) == found(written(cost).astype(float))).mean() > 0.99


def test_values_with_as_many_digits_need_no_rounding() -> None:
    cost = np.random.default_rng(0).random((4, 300))
    assert rounding_of(cost, cost[::-1]) is None
    assert rounding_of(cost, cost.astype(np.float32)) is None
    assert rounding_of(cost > 0.5, cost[::-1] > 0.5) is None


def test_significant_digits() -> None:
    assert significant_digits(np.array([0.0123421, -1234.5, 0.0, np.inf]), 4) == pytest.approx(
        [0.01234, -1234, 0, np.inf]
    )


def test_copies_under_names_of_their_own_are_copies() -> None:
    """A file that was put together from five runs numbers its rows anew."""
    rng, n = np.random.default_rng(0), 500
    x, prompts = (
        np.tile(rng.random(100), 5),
        np.tile([" ".join(map(str, some)) for some in rng.integers(0, 999, (100, 12))], 5),
    )
    hashes = [f"{a:016x}{b:016x}" for a, b in rng.integers(0, 2**60, (n, 2))]
    for names in (np.arange(n), [f"q-{i}" for i in range(n)], hashes, np.arange(n) * 1.0):
        for content in ({"x": x}, {"prompt": prompts}):
            rows = pd.DataFrame({"id": names, **content})
            for examples in (rows, rows.to_dict("records"), rows.to_numpy()):
                found = ExampleFingerprints.of(examples)
                assert found is not None
                assert found.n_copies == 400
                assert len(found.kept("keep-one").positions) == 100
                assert np.array_equal(found.places(0)[:100], found.places(0)[100:200])


def test_names_beside_little_else_tell_examples_apart() -> None:
    """Classes of exactly one size are a design, and names then stand for what is kept elsewhere."""
    rng, n = np.random.default_rng(0), 1000
    for rest in (
        {"label": np.arange(n) % 10},
        {"a": np.arange(n) % 20, "b": np.arange(n) // 20 % 10},
        {"x": rng.random(n)},
    ):
        found = ExampleFingerprints.of(pd.DataFrame({"id": rng.permutation(n), **rest}))
        assert found is not None
        assert found.n_copies == 0


def test_copies_in_other_precision_are_copies() -> None:
    """Runs that wrote the same features with other numbers of digits, put together."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 2))
    found = ExampleFingerprints.of(np.concatenate([x, x.astype(np.float32), x.round(7), x.round(6), x.round(5)]))
    assert found is not None
    assert found.n_copies > 350
    honest = ExampleFingerprints.of(rng.normal(size=(500, 2)).round(3))
    assert honest is not None
    assert honest.n_copies == 0
