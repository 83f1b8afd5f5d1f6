"""Examples by what they contain: a digest of each, an order that rests on nothing else, and whether two tables share some.

A table knows no names of its examples, and positions, files and seeds say nothing: a file may be sorted, or loaded twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, filterfalse
from typing import TYPE_CHECKING, Any

import numpy as np

from riskfront._data.identity.copies import n_continuous_copies, n_copies
from riskfront._data.identity.fingerprints import numbers_of, order_free_digest, rounding_of, say_enough
from riskfront._data.identity.shared import shared
from riskfront._data.splits import permutation, shuffled_by
from riskfront._problems.terms import Term
from riskfront._support.arrays import Array, IntArray
from riskfront.errors import InvalidInputError

if TYPE_CHECKING:
    from riskfront._data.table import LossTable

_SETTINGS = 256  # whose losses tell examples apart; more would cost time and tell nothing more
_SALT = 256  # settings whose losses shuffle a split
_BLOCK_SIZE = 1 << 22  # losses that are laid out as floats at a time
_FEW = 16  # settings whose losses tell whether a table is there twice
_LOOKED_AT = 4096  # examples whose losses tell how they were rounded
_SINGLE = 4  # settings whose columns are known one by one


def content_digests(table: LossTable, rows: IntArray, losses: Sequence[str], groups: Sequence[str]) -> list[bytes]:
    """One digest an example, of its losses at these settings and of its groups as they are stored: an order to bet in."""
    named = [_named_groups(table, name) for name in groups]
    beside = np.concatenate([np.empty((table.n_examples, 0), dtype=np.uint8), *named], axis=1)
    hashes = [hashlib.blake2b(example.data, digest_size=16) for example in beside]
    step = max(1, _BLOCK_SIZE // max(1, table.n_examples))
    for name in losses:
        for start in range(0, len(rows), step):
            values, _, _ = table.sequences(Term(name), rows[start : start + step])
            values = values.view(np.uint8) if values.dtype == np.bool_ else values + values.dtype.type(0)  # -0.0 is 0.0
            for digest, example in zip(hashes, np.ascontiguousarray(values.T), strict=True):
                digest.update(example.data)
    return [digest.digest() for digest in hashes]


def contents_digest(table: LossTable, rows: IntArray, contents: Sequence[bytes]) -> str:
    """The SHA-256 of settings and contents, whatever order the examples are in."""
    settings = sorted(json.dumps(table.config(row), sort_keys=True) for row in rows)
    named = json.dumps([settings, sorted(table.loss_names), sorted(table.group_names)]).encode()
    return hashlib.sha256(named + b"".join(sorted(contents))).hexdigest()


def _named_groups(table: LossTable, name: str) -> Array:
    """(examples, 16): a digest of the name of the group of each."""
    groups = table.group(name)
    levels = [hashlib.blake2b(repr(level).encode(), digest_size=16).digest() for level in groups.levels]
    return np.frombuffer(b"".join(levels), dtype=np.complex128)[groups.codes].view(np.uint8).reshape(-1, 16)


def salt_of(table: LossTable) -> bytes:
    """A digest of the examples in their order, by which a split is shuffled: of some settings, so that a store is not read.

    The order of settings does not count where all of them are looked at: a store sorts its own.
    """
    return table.remember("salt", lambda: _salt(table))


def _salt(table: LossTable) -> bytes:
    rows = np.unique(np.linspace(0, table.n_configs - 1, _SALT).astype(np.int64))
    step = max(1, _BLOCK_SIZE // max(1, table.n_examples))
    found: list[bytes] = []
    for name in sorted(table.loss_names):
        for start in range(0, len(rows), step):
            values, _, _ = table.sequences(Term(name), rows[start : start + step])
            kind = "u1" if values.dtype == np.bool_ else "<f8"
            found += [hashlib.sha256(name.encode() + row.astype(kind).tobytes()).digest() for row in values]
    for name in sorted(table.group_names):
        found.append(hashlib.sha256(name.encode() + _named_groups(table, name).tobytes()).digest())
    return hashlib.sha256(b"".join(sorted(found))).digest()


def shuffles(table: LossTable) -> str:
    """What shuffles a split of the table beside the seed: its contents, or a draw where these say too little.

    Whoever knows the examples themselves may say what else shuffles them (``table.shuffled_by``).
    """
    if table.shuffled_by is not None:
        return table.shuffled_by
    rows = some_settings(table)
    losses = (values for name in table.loss_names for values in table.sequences(Term(name), rows)[0])
    columns = chain(losses, (table.group(name).codes for name in table.group_names))
    return shuffled_by(salt_of(table), say_enough(columns))


def content_order(contents: Sequence[bytes], planned_on: Sequence[bytes] = ()) -> IntArray:
    """A random order of the examples that does not depend on the order in which they came.

    They are sorted by content, then shuffled by riskfront's own stream. The shuffle is drawn anew for other data: its seed is
    made of what all the examples contain, and of what the plan was made of. One shuffle for all data would turn examples of
    few different contents into nearly the same sequence in every draw, and a lucky one would win its bet in every draw too.
    """
    by_content = np.array(sorted(range(len(contents)), key=contents.__getitem__), dtype=np.int64)
    drawn = hashlib.sha256(b"".join(sorted(contents)) + b"planned on" + b"".join(sorted(planned_on))).digest()
    return by_content[permutation(len(contents), int.from_bytes(drawn[:16], "big"))]


def shuffled_copy(table: LossTable, rows: IntArray, order: IntArray) -> LossTable:
    """A copy in memory of these settings with the examples in an order of riskfront's own."""
    losses = {name: table.outcomes(name, rows)[:, order] for name in table.loss_names}
    coded = {name: table.group(name) for name in table.group_names}
    groups = {name: of.at(order) for name, of in coded.items()}
    copy = type(table)(table.configs.iloc[rows], losses, groups, table.declared_bounds)
    copy.in_content_order, copy._clusters = True, table.clusters
    return copy


def refuse_repeats(table: LossTable, limited: Collection[str] = ()) -> None:
    """Raise an error if examples were drawn more than once, or if so many lose exactly the same that they must be copies.

    A guarantee counts every example as new evidence. Different examples may well lose the same: how often they do is compared
    with what independent draws can do (``identity.copies``). The ``limited`` losses, and those of them that are 0/1, are looked
    at by themselves, too: the same questions asked again take another time and cost something else. Losses are not looked at
    where the examples themselves were: texts of one length cost the same.
    """
    if table.repeated:
        raise InvalidInputError(
            f"a guarantee needs every example once; {table.repeated:,} of {table.n_examples:,} are repetitions of others (a "
            "bootstrap sample, say). Leave the repetitions out."
        )
    if table.batch_size is not None or table.examples_compared:
        return
    rows, tested = some_settings(table), sorted({*table.loss_names} & {*limited})
    for losses in dict.fromkeys(map(tuple, (table.loss_names, tested, filter(table.is_binary, tested)))):
        if not losses:
            continue
        fingerprints = table.remember(("example fingerprints", losses), partial(loss_fingerprints, table, rows, losses))
        named = "losses" if set(losses) == set(table.loss_names) else " and ".join(map("'{}'".format, losses))
        copies = n_copies(fingerprints)
        if copies:
            raise InvalidInputError(
                f"a guarantee needs every example once; of these {table.n_examples:,} examples {copies:,} have the same "
                f"{named} as others, in a way that independent draws do not explain. Leave the copies out; or, where rows of "
                "one prompt or patient belong together, name what they share: clusters=."
            )
        numbers = list(filterfalse(table.is_binary, losses))
        columns = (values for name in numbers for values in table.sequences(Term(name), rows)[0])
        copies = n_continuous_copies(fingerprints, columns) if numbers else 0
        if copies:
            raise InvalidInputError(
                f"a guarantee needs every example once; of these {table.n_examples:,} examples {copies:,} have the same "
                f"{named} as others to the last digit (a bootstrap sample, say). Leave the copies out. If they are independent "
                "draws all the same, because few different inputs exist, round their losses to the digits that matter."
            )


def order_free_digests(table: LossTable, losses: Collection[str]) -> list[str]:
    """Digests by which examples are known again in another order or precision, or with fewer settings: of each of these
    losses at some settings together, and at single settings. Empty where losses have few different values."""
    few = np.argsort(_setting_digests(table), kind="stable")[:_SINGLE]
    found: list[str | None] = []
    for name in sorted(losses):
        found.append(order_free_digest(loss_fingerprints(table, some_settings(table), [name]), name))
        single = (loss_fingerprints(table, at, [name]) for at in few[:, None])
        found.extend(order_free_digest(numbers, name) for numbers in single)
    return [digest for digest in found if digest is not None]


def some_settings(table: LossTable) -> IntArray:
    """A few settings, spread over the table, whose losses tell examples apart."""
    return np.unique(np.linspace(0, table.n_configs - 1, _FEW).astype(np.int64))


def loss_fingerprints(
    table: LossTable,
    rows: IntArray,
    losses: Sequence[str],
    groups: Sequence[str] = (),
    rounding: Mapping[str, Callable[[Array], Array]] | None = None,
) -> Array:
    """(n,): example fingerprints of losses in single precision, because one of two copies of a file may have been stored so;
    and of the names of groups, whether these were stored as texts or as numbers. With ``rounding``, loss -> function, of
    rounded losses, because costs may have been written with fewer digits."""
    step, roundings = max(1, _BLOCK_SIZE // max(1, table.n_examples)), rounding or {}
    parts = ((name, rows[start : start + step]) for name in losses for start in range(0, len(rows), step))
    named_columns = ((name, column) for name, part in parts for column in table.sequences(Term(name), part)[0])
    columns = (
        (roundings[name](column.astype(np.float64)) if name in roundings else column).astype("<f4")
        for name, column in named_columns
    )
    coded = (table.group(name) for name in groups)
    named = (np.array([str(level) for level in of.levels], dtype=object)[of.codes] for of in coded)
    return numbers_of(chain(columns, named))


def shared_examples(one: LossTable, other: LossTable, limited: Collection[str] = ()) -> int:
    """How many examples two tables of different origin have in common; 0 where chance could explain what agrees.

    Different examples may lose the same, so equal contents alone prove nothing. But if no example is in both, each of several
    equal ones is as likely to be in either table, and the agreement that a shared file brings has a chance of nearly zero.
    All losses and groups are compared, and the ``limited`` losses by themselves: a cost may have been rounded or computed
    anew, and it is in these that examples must not have been seen. Losses that one table has with fewer digits are compared
    in these digits.
    """
    losses = sorted(set(one.loss_names) & set(other.loss_names))
    groups = sorted(set(one.group_names) & set(other.group_names))
    found = _shared(one, other, losses, groups)
    only = [name for name in losses if name in limited]
    return found or (_shared(one, other, only, []) if only else 0)


def _shared(one: LossTable, other: LossTable, losses: Sequence[str], groups: Sequence[str]) -> int:
    """The same by some losses and groups, at the settings that both tables have."""
    mine, others = _settings(one), _settings(other)
    common = sorted(mine.keys() & others.keys())
    if not common or not losses:
        return 0

    def rows(most: int) -> tuple[IntArray, IntArray]:
        kept = [common[i] for i in np.unique(np.linspace(0, len(common) - 1, most).astype(int))]
        return np.array([mine[key] for key in kept]), np.array([others[key] for key in kept])

    few, many = rows(_FEW), rows(_SETTINGS)

    def columns(rounding: Mapping[str, Callable[[Array], Array]]) -> Iterator[Array]:
        for name in losses:
            pairs = zip(one.sequences(Term(name), few[0])[0], other.sequences(Term(name), few[1])[0], strict=True)
            for pair in pairs:
                values = np.concatenate(pair)
                yield rounding[name](values.astype(np.float64)) if name in rounding else values

    def compared(rounding: Mapping[str, Callable[[Array], Array]]) -> int:
        tables = zip((one, other), many, strict=True)
        first, second = (loss_fingerprints(table, at, losses, groups, rounding=rounding) for table, at in tables)
        # copies on both sides come a multiple of so many times in all, and each side alone does not show it
        return shared(first, second, lambda: columns(rounding)) or n_copies(np.concatenate([first, second]))

    if found := compared({}):
        return found
    first = {name: one.sequences(Term(name), few[0])[0][:, :_LOOKED_AT] for name in losses}
    second = {name: other.sequences(Term(name), few[1])[0][:, :_LOOKED_AT] for name in losses}
    roundings = {name: rounding_of(first[name], second[name]) for name in losses}
    known = {name: rounding for name, rounding in roundings.items() if rounding is not None}
    return compared(known) if known else 0


def _settings(table: LossTable) -> dict[str, int]:
    """Rows by what the setting is; 1 and 1.0 are one number."""
    values: list[list[Any]] = [table.configs[name].tolist() for name in sorted(table.configs.columns)]
    plain = (list(map(_number, setting)) for setting in zip(*values, strict=True))
    return {repr(setting): row for row, setting in enumerate(plain)}


def _setting_digests(table: LossTable) -> Array:
    """(n_configs,): a number for each setting, of its values alone; names of columns do not count, their order does.

    Each value of a column is digested once: a grid of thousands of settings has a few dozen of them.
    """
    found = np.zeros(table.n_configs, dtype=np.uint64)
    for name in table.configs.columns:
        values = table.configs[name].tolist()
        of = {value: hashlib.sha256(repr(_number(value)).encode()).digest()[:8] for value in set(values)}
        column = np.frombuffer(b"".join(map(of.__getitem__, values)), dtype="<u8")
        found = found * np.uint64(0x9E3779B97F4A7C15) + column
        found ^= found >> np.uint64(29)
    return found


def _number(value: Any) -> Any:
    return float(value) + 0.0 if isinstance(value, int | float) else value  # -0.0 is 0.0
