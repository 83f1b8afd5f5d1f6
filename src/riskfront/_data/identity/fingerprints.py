"""Example fingerprints: one definition of "the same example" for rows of numbers, data frames, texts, records and losses.

Two examples are the same if all their values are: numbers by value (-0.0 is 0.0), texts without regard to white space, case and
compatible characters. Position, file, index and container do not count. ``evaluate``, ``tune``, ``fit`` and sequential runs
compare the examples themselves, ``accelerate`` texts, tables and ``check`` losses, cascades names and logged numbers.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
import pandas as pd

from riskfront._data.identity.copies import are_rich, mixed, n_copies
from riskfront._support.arrays import Array, FloatArray, IntArray
from riskfront._support.object_digest import Description
from riskfront._support.values import plain
from riskfront.errors import InvalidInputError

Repeats = Literal["refuse", "keep-one", "independent"]
REPEATS = ("refuse", "keep-one", "independent")
COPIES = "copies of other examples (repeats='keep-one')"  # why rows are left out
_SURPRISES = 32  # examples that break a line: two data sets agree in all of them with a chance far below 1e-9
_DIFFERENT = 32  # contents: two data sets have as many of each with a chance far below 1e-9
_DIGITS = re.compile(r"\d+")
_NAME = re.compile(r"\D*\d+\D*|'?[0-9a-f-]{16,64}'?")  # of a row: "q-17", or a hash
_SOME_COLUMNS, _FEW_DIGITS = 16, (4, 2)  # by which copies are looked for that were stored with other precision
_SOME_ROWS = 256  # that tell whether a column may name rows
_LARGE = 1 << 24  # entries of a sparse matrix from which on its rows are told apart by digests
TEXT_BYTES = 16  # of the digest of a text: two of a billion texts share one with a probability below 1e-20


@dataclass(frozen=True, eq=False)
class Kept:
    """The examples that count.

    Args:
        positions: where they are, ascending.
        copies: how many copies of each were left out.
        notes: sentences on what a guarantee on them speaks of.
        in_any_order: a digest by which they are known again; None where they cannot be.
    """

    positions: IntArray
    copies: IntArray
    notes: tuple[str, ...] = ()
    in_any_order: str | None = None

    @classmethod
    def all(cls, n: int, *notes: str) -> Kept:
        return cls(np.arange(n), np.zeros(n, dtype=np.int64), notes)


@dataclass(frozen=True, eq=False)
class ExampleFingerprints:
    """What examples contain.

    Args:
        numbers: (n,), 64 bits each: the same for the same example.
        columns: (n,) each: what examples are made of, where that is known.
        is_rounded: whether decimals were rounded to few digits.
        to_the_last_digit: whether other names or last digits make another example: several answers to one prompt may be close.
    """

    numbers: Array
    columns: Sequence[Array] = ()
    is_rounded: bool = False
    to_the_last_digit: bool = False

    @classmethod
    def of(cls, *parts: Any) -> ExampleFingerprints | None:
        """Of n examples, given in parts such as X, y and groups; None where their contents cannot be read."""
        try:
            found = [_columns(part) for part in parts if part is not None]
        except Exception:  # objects of all kinds are taken apart, and each may fail in its own way
            return None
        if not found or any(columns is None for columns in found):
            return None
        columns = [column for some in found for column in some or ()]
        return cls.of_columns(columns) if columns else None

    @classmethod
    def of_columns(cls, columns: Sequence[Array]) -> ExampleFingerprints:
        """Of n examples, given by their columns (n,)."""
        return cls(numbers_of(columns), columns)

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, positions: IntArray) -> ExampleFingerprints:
        return ExampleFingerprints(self.numbers[positions], [np.asarray(column)[positions] for column in self.columns])

    @cached_property
    def n_copies(self) -> int:
        """How many examples are copies of others; 0 where independent draws could explain what is equal."""
        found = self._by_content
        return n_copies(found.numbers, () if found.is_rounded else found.columns)

    @cached_property
    def _by_content(self) -> ExampleFingerprints:
        """The same without what may differ between copies, if there are any: names of rows, and all but a few digits.

        Names count, unless the other columns hold so much that only copies agree in them. Whatever is left out, independent
        examples stay independent, so that the tests for copies hold.
        """
        if self.to_the_last_digit or n_copies(self.numbers, self.columns):
            return self
        others = [column for column in self.columns if not _names_rows(column)]
        without = ExampleFingerprints.of_columns(others) if others else self
        kept = [self] if len(others) == len(self.columns) or not without.are_rich else [without, self]
        for found in kept:
            if n_copies(found.numbers, found.columns):
                return found
        for rounded in (one._rounded(digits) for one in kept for digits in _FEW_DIGITS):
            # without columns: rounded numbers are no longer rich, however they look
            if rounded is not None and n_copies(rounded.numbers):
                return rounded
        return self

    def _rounded(self, digits: int) -> ExampleFingerprints | None:
        """Some of the columns, with decimals rounded to so many digits; None without decimals."""
        if not self.columns:
            return None
        at = np.unique(np.linspace(0, len(self.columns) - 1, _SOME_COLUMNS).astype(np.int64))
        some = [np.asarray(self.columns[i]) for i in at]
        if not any(column.dtype.kind == "f" for column in some):
            return None
        columns = [significant_digits(column, digits) if column.dtype.kind == "f" else column for column in some]
        return ExampleFingerprints(numbers_of(columns), columns, is_rounded=True)

    @cached_property
    def are_rich(self) -> bool:
        """Whether examples hold so much that two independent ones would not be equal."""
        first = np.unique(self.numbers, return_index=True)[1]
        return are_rich([np.asarray(column)[first] for column in self.columns])

    @cached_property
    def say_enough(self) -> bool:
        """Whether the examples in their order say so much that no other data set has the same digest."""
        return say_enough(self.columns)

    def kept(self, repeats: Repeats) -> Kept:
        """The examples that count.

        "refuse": all, or an error where some are copies; "keep-one": one of each content; "independent": all, because the user
        says that equal ones were drawn independently of each other.
        """
        n = len(self)
        if repeats == "keep-one":
            first, counts = np.unique(self._by_content.numbers, return_index=True, return_counts=True)[1:]
            order = np.argsort(first)
            said = (
                f"{n - len(first):,} of {n:,} examples repeat others and were left out: every content counts once in the "
                "guarantee, however often it comes."
            )
            return Kept(first[order], counts[order] - 1, (said,)) if len(first) < n else Kept.all(n)
        if not self.n_copies:
            return Kept.all(n)
        if repeats == "independent":
            said = (
                f"{self.n_copies:,} of {n:,} examples are equal to others. They count as independent draws because that was "
                "declared (repeats='independent'): the guarantee holds only if they are no copies."
            )
            return Kept.all(n, said)
        raise InvalidInputError(
            f"a guarantee needs every example once; of {n:,} examples {self.n_copies:,} have exactly the content of another, "
            "which independent draws do not explain. Leave the copies out, or say what they are: repeats='keep-one' keeps one "
            "of each content; repeats='independent' declares that equal examples were drawn independently of each other."
        )

    def places(self, seed: int) -> FloatArray:
        """(n,), in [0, 1): a random place for each content, which its copies share."""
        key = hashlib.blake2b(f"riskfront split {seed}".encode(), digest_size=8).digest()
        drawn = mixed(mixed(self._by_content.numbers, np.frombuffer(key, dtype="<u8")[0]), np.uint64(0x7269736B))
        return np.asarray(drawn / 2.0**64)

    @property
    def order_free(self) -> str | None:
        """Of all examples in any order and however their numbers are stored; None where few of them differ."""
        return order_free_digest(numbers_of(map(_in_single_precision, self.columns)))

    @property
    def ranks(self) -> list[IntArray]:
        """(n,) for each column: labels, whether they are called 0 and 1 or "no" and "yes"."""
        return [np.unique(_in_single_precision(column), return_inverse=True)[1] for column in self.columns]

    @property
    def digest(self) -> bytes:
        """Of all examples in their order."""
        return hashlib.sha256(self.numbers.astype("<u8").tobytes()).digest()


def _names_rows(column: Array) -> bool:
    """Whether a column names or numbers its rows: whole numbers, hashes or texts with one number ("q-17"), all different."""
    values = np.asarray(column)
    some = values[:_SOME_ROWS]
    if values.dtype.kind == "f":
        named = bool((some % 1 == 0).all())
    elif values.dtype.kind == "O":
        named = all(isinstance(one, str) and _NAME.fullmatch(one) for one in some.tolist())
    else:
        named = values.dtype.kind in "iu"
    return named and len(pd.unique(some)) == len(some) and len(pd.unique(values)) == len(values)


def order_free_digest(numbers: Array, named: str = "examples") -> str | None:
    """A digest of fingerprints, (n,), in any order; None where so few differ that other data may have the same."""
    values, counts = np.unique(numbers, return_counts=True)
    if len(values) < _DIFFERENT:
        return None
    return hashlib.sha256(named.encode() + values.tobytes() + counts.astype("<i8").tobytes()).hexdigest()


def _in_single_precision(column: Array) -> Array:
    """(n,): numbers as they are however they were stored, as whole numbers, decimals or texts; texts as they are."""
    if column.dtype.kind == "O":
        try:
            column = column.astype(np.float64)
        except (TypeError, ValueError):
            return column
    with np.errstate(over="ignore"):
        return column.astype(np.float32)


def numbers_of(columns: Iterable[Array]) -> Array:
    """(n,): 64 bits for each example, the same for the same values in all of its columns (n,)."""
    numbers = np.zeros(1, dtype=np.uint64)
    for column in columns:
        numbers = mixed(numbers, _hashed(column))
    return numbers


def significant_digits(values: Array, digits: int) -> Array:
    """(n,): numbers rounded to so many significant digits, 0.01234 for 0.0123421 and four of them."""
    numbers = np.asarray(values, dtype=np.float64)
    plain = np.isfinite(numbers) & (numbers != 0)
    exponents = np.floor(np.log10(np.abs(np.where(plain, numbers, 1.0)))) - (digits - 1)
    rounded = np.rint(np.where(plain, numbers, 0.0) * 10.0**-exponents) * 10.0**exponents
    return np.where(plain, rounded, numbers).astype(np.float32)


def rounding_of(one: Array, other: Array) -> Callable[[Array], Array] | None:
    """The rounding by which the values of one table can be those of another, if one of the two was written with fewer digits:
    decimals, significant digits, or half precision. None where both have as many."""
    for short, long in ((one, other), (other, one)):
        possible = [rounding for rounding in _ROUNDINGS if _keeps(rounding, short) and not _keeps(rounding, long)]
        if possible:  # several keep what has few digits: the coarsest is the one that was used
            return min(possible, key=lambda rounding: len(np.unique(rounding(np.asarray(long, dtype=np.float64)))))
    return None


def _keeps(rounding: Callable[[Array], Array], values: Array) -> bool:
    """Whether values are already rounded, up to single precision."""
    numbers = np.asarray(values, dtype=np.float64)
    numbers = numbers[np.isfinite(numbers)]
    return bool(np.allclose(rounding(numbers), numbers, rtol=1e-6, atol=0))


def _to_decimals(values: Array, decimals: int) -> Array:
    return np.asarray(np.round(values, decimals))


def _in_half_precision(values: Array) -> Array:
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float64)


_ROUNDINGS: list[Callable[[Array], Array]] = [
    *(partial(_to_decimals, decimals=decimals) for decimals in range(7)),
    *(partial(significant_digits, digits=digits) for digits in range(2, 6)),
    _in_half_precision,
]


def normalised(text: str) -> str:
    """The text as it is compared: compatible characters, lower case, single spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def text_digests(first: Sequence[str], second: Sequence[str] | None = None) -> list[bytes]:
    """One digest for each text, or for each pair, to be kept in files: a pair turned round is the same example."""
    if second is None:
        return [_text_digest(normalised(text)) for text in first]
    return [_text_digest(*sorted(map(normalised, pair))) for pair in zip(first, second, strict=True)]


def _text_digest(*texts: str) -> bytes:
    joined = "".join(f"{len(text)}:{text}" for text in texts)
    return hashlib.blake2b(joined.encode("utf-8", "surrogatepass"), digest_size=TEXT_BYTES).digest()


def text_places(digests: Sequence[bytes], seed: int) -> FloatArray:
    """(n,), in [0, 1): a random place for each text. Copies share one, and no other row of the file has a say in it."""
    key = f"riskfront split {seed}".encode()
    drawn = [int.from_bytes(hashlib.blake2b(c, key=key, digest_size=8).digest(), "big") for c in digests]
    return np.array(drawn, dtype=np.uint64) / 2.0**64


def digest_in_any_order(examples: Any) -> str | None:
    """A digest of the examples in any order, precision or container; None where they are positions, or cannot be read."""
    found = None if are_positions(examples) else ExampleFingerprints.of(examples)
    return None if found is None else found.order_free


def are_positions(examples: Any) -> bool:
    """Whether examples are whole numbers, which say nothing about the data."""
    if isinstance(examples, range):
        return True
    if isinstance(examples, np.ndarray):
        return examples.ndim == 1 and examples.dtype.kind in "iu"
    return isinstance(examples, list | tuple) and all(isinstance(one, int | np.integer) for one in examples)


def say_enough(columns: Iterable[Array]) -> bool:
    """Whether enough examples, given by their columns (n,) in their order, cannot be told from the two before them.

    Positions, and sorted columns of few values, can: a straight line goes on. Of texts with numbers ("image 12") the numbers
    must break a line, or the rest must change. Enough are so many examples, or, where examples are few and hold several
    numbers, so many different breaks.
    """
    surprising, breaks = np.zeros(0, dtype=bool), set[float]()
    for column in columns:
        if len(column) < 3:
            return False
        surprising = surprising if surprising.size else np.zeros(len(column) - 2, dtype=bool)
        for line in [column] if column.dtype.kind in "biuf" else _lines(column):
            values = np.nan_to_num(np.asarray(line, dtype=np.float64), posinf=0, neginf=0)
            span = float(np.ptp(values))
            if span > 0:
                bent = np.diff(values / span, 2)
                broken = np.abs(bent) > 1e-6
                surprising |= broken
                breaks.update(np.round(bent[broken][:_SURPRISES], 6).tolist())
        if max(surprising.sum(), len(breaks)) >= _SURPRISES:
            return True
    return False


def _lines(texts: Array) -> list[Array]:
    """Texts as two columns of numbers: which they are without their digits, and what the digits say."""
    named = [str(text) for text in texts]
    bare = pd.factorize(np.array([_DIGITS.sub("", text) for text in named], dtype=object))[0]
    digits = np.array([float("0" + "".join(_DIGITS.findall(text))[-15:]) for text in named])
    return [pd.util.hash_array(bare) / 2.0**64, digits]


def _columns(part: Any) -> list[Array] | None:
    if isinstance(getattr(part, "fingerprint", None), str) and not isinstance(part, pd.DataFrame):
        return None  # an object that names its content itself may be too large to read
    if hasattr(part, "to_pandas"):  # tables of Arrow, Polars, Hugging Face
        part = part.to_pandas()
    if isinstance(part, pd.Series | pd.Index):
        part = part.to_frame()
    if isinstance(part, pd.DataFrame):
        return [readable(part.iloc[:, at].to_numpy()) for at in range(part.shape[1])]
    if isinstance(part, Mapping):
        return _columns(pd.DataFrame({name: list(values) for name, values in part.items()}))
    if hasattr(part, "tocsr"):
        if part.shape[0] * part.shape[1] > _LARGE:
            return _columns_of_sparse(part.tocsr())
        part = part.toarray()
    if hasattr(part, "detach"):
        part = part.detach().cpu().numpy()
    if not isinstance(part, np.ndarray) and hasattr(part, "__array__"):
        part = np.asarray(part)
    if isinstance(part, list | tuple | range):
        part = _as_array(list(part))
        if isinstance(part, pd.DataFrame):
            return _columns(part)
    if not isinstance(part, np.ndarray) or part.ndim == 0:
        return None
    if part.dtype.names is not None:
        return [readable(part[name]) for name in part.dtype.names]
    wide = part.reshape(len(part), -1) if len(part) else part
    return [readable(column) for column in wide.T]


def _as_array(examples: list[Any]) -> Any:
    """A list of numbers, of texts, of rows, or of records as an array, or as a frame."""
    if examples and all(isinstance(one, Mapping) for one in examples):
        return pd.DataFrame(examples)
    with contextlib.suppress(ValueError):  # rows of different lengths
        found = np.array(examples)
        if found.dtype.kind in "biuf":
            return found
    holds = np.empty(len(examples), dtype=object)
    holds[:] = examples
    if all(isinstance(one, list | tuple) and len(one) == len(examples[0]) for one in examples) and examples[0]:
        return pd.DataFrame([list(one) for one in examples])
    return holds


def readable(column: Array) -> Array:
    """Numbers as they are; texts normalised; other objects by the digest of what they are."""
    if column.dtype.kind in "biuf":
        return column
    if column.dtype.kind in "mM":
        return column.view(np.int64)
    values = column.tolist()
    if values and all(type(value) in (int, float) for value in values):  # numbers, in an array of all kinds of things
        numbers = np.array(values)
        if numbers.dtype.kind in "iuf":
            return numbers
    return np.array([_text_of(value) for value in values], dtype=object)


def _text_of(value: Any) -> Any:
    if isinstance(value, str):
        return normalised(value)
    value = plain(value)
    if value is None or value is pd.NA or value is pd.NaT or isinstance(value, bool | int | float):
        return repr(value)
    return f"object {Description(value).digest}"  # no name of a row


def _columns_of_sparse(matrix: Any) -> list[Array]:
    """Few columns that tell rows of a sparse matrix apart: digests of its entries, dealt out to sixteen of them."""
    matrix = matrix.copy()
    matrix.sum_duplicates()
    entries = matrix.tocoo()
    values = mixed(_hashed(entries.data), entries.col.astype(np.uint64))
    columns = np.zeros((16, matrix.shape[0]), dtype=np.uint64)
    np.add.at(columns, (entries.col % 16, entries.row), np.where(entries.data == 0, np.uint64(0), values))
    return list(columns)


def _hashed(column: Array) -> Array:
    if column.dtype.kind in "biu":
        return column.astype(np.int64, copy=False).view(np.uint64)
    if column.dtype.kind == "f":
        values = column.astype(np.float64)
        values += 0.0  # -0.0 is 0.0
        if (gaps := np.isnan(values)).any():  # nan has many forms
            values[gaps] = np.nan
        return values.view(np.uint64)
    return np.asarray(pd.util.hash_array(column, categorize=True), dtype=np.uint64)


def check_repeats(repeats: str) -> None:
    if repeats not in REPEATS:
        raise InvalidInputError(f"repeats must be one of {', '.join(map(repr, REPEATS))}; got {repeats!r}.")
