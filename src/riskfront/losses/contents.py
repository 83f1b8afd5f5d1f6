"""Examples by what they contain: a digest of each, an order that rests on nothing else, and whether two tables share some.

A table knows no names of its examples, and positions, files and seeds say nothing: a file may be sorted, or loaded twice.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from riskfront.arrays import Array, FloatArray, IntArray
from riskfront.errors import InvalidInputError
from riskfront.identity.content_numbers import content_numbers
from riskfront.identity.sketch import seen_before, sketch
from riskfront.losses.groups import Groups
from riskfront.losses.splits import permutation
from riskfront.losses.sums import Term

if TYPE_CHECKING:
    from riskfront.losses.table import LossTable

_SETTINGS = 256  # whose losses tell examples apart; more would cost time and tell nothing more
_SALT = 256  # settings whose losses shuffle a split
_AT_ONCE = 1 << 22  # losses that are laid out as floats at a time
_FEW = 16  # settings whose losses tell whether a table is there twice
_CONTENTS = 40  # that all come a multiple of so many times: a chance of about 2 to the power of -39
_IMPOSSIBLE = 1e-9  # chance below which agreement between two tables is no chance


def content_digests(
    table: LossTable, rows: IntArray, losses: Sequence[str], groups: Sequence[str], kind: str | None = None
) -> list[bytes]:
    """One digest an example, of its losses at these settings and of its groups; if ``kind`` is given, numbers are compared as
    such and groups by their names alone, whether these were stored as texts or as numbers."""
    named = [_named_groups(table, name, repr if kind is None else str) for name in groups]
    hashes = [hashlib.blake2b(b"".join(of[i] for of in named), digest_size=16) for i in range(table.n_examples)]
    step = max(1, _AT_ONCE // max(1, table.n_examples))
    for name in losses:
        for start in range(0, len(rows), step):
            values, _, _ = table.sequences(Term(name), rows[start : start + step])
            values = values.view(np.uint8) if values.dtype == np.bool_ else values + values.dtype.type(0)  # -0.0 is 0.0
            laid_out = np.ascontiguousarray((values if kind is None else values.astype(kind)).T)
            for digest, example in zip(hashes, laid_out, strict=True):
                digest.update(example.data)
    return [digest.digest() for digest in hashes]


def contents_digest(table: LossTable, rows: IntArray, contents: Sequence[bytes]) -> str:
    """The SHA-256 of settings and contents, whatever order the examples are in."""
    settings = sorted(json.dumps(table.config(row), sort_keys=True) for row in rows)
    named = json.dumps([settings, sorted(table.loss_names), sorted(table.group_names)]).encode()
    return hashlib.sha256(named + b"".join(sorted(contents))).hexdigest()


def _named_groups(table: LossTable, name: str, named: Callable[[Any], str] = repr) -> list[bytes]:
    groups = table.group(name)
    levels = [hashlib.blake2b(named(level).encode(), digest_size=16).digest() for level in groups.levels]
    return [levels[code] for code in groups.codes]


def salt_of(table: LossTable) -> bytes:
    """A digest of the examples in their order, by which a split is shuffled: of some settings, so that a store is not read.

    The order of settings does not count where all of them are looked at: a store sorts its own.
    """
    rows = np.unique(np.linspace(0, table.n_configs - 1, _SALT).astype(np.int64))
    found: list[bytes] = []
    for name in sorted(table.loss_names):
        values, _, _ = table.sequences(Term(name), rows)
        values = np.ascontiguousarray(values.astype("u1" if values.dtype == np.bool_ else "<f8"))
        found.extend(_digest(name.encode(), row) for row in values)
    for name in sorted(table.group_names):
        found.append(hashlib.sha256(name.encode() + b"".join(_named_groups(table, name))).digest())
    return hashlib.sha256(b"".join(sorted(found))).digest()


def _digest(name: bytes, values: Array) -> bytes:
    digest = hashlib.sha256(name)
    digest.update(values.data)
    return digest.digest()


def own_order(contents: Sequence[bytes], planned_on: Sequence[bytes] = ()) -> IntArray:
    """A random order of the examples that does not depend on the order in which they came.

    They are sorted by content, then shuffled by riskfront's own stream. The shuffle is drawn anew for other data: its seed is
    made of what all the examples contain, and of what the plan was made of. One shuffle for all data would turn examples of
    few different contents into nearly the same sequence in every draw, and a lucky one would win its bet in every draw too.
    """
    by_content = np.array(sorted(range(len(contents)), key=contents.__getitem__), dtype=np.int64)
    drawn = hashlib.sha256(b"".join(sorted(contents)) + b"planned on" + b"".join(sorted(planned_on))).digest()
    return by_content[permutation(len(contents), int.from_bytes(drawn[:16], "big"))]


def laid_out(table: LossTable, rows: IntArray, order: IntArray) -> LossTable:
    """A copy in memory of these settings with the examples in an order of riskfront's own."""
    losses = {name: table.sequences(Term(name), rows)[0][:, order] for name in table.loss_names}
    coded = {name: table.group(name) for name in table.group_names}
    groups = {name: Groups(of.levels, of.codes[order]) for name, of in coded.items()}
    copy = type(table)(table.configs.iloc[rows], losses, groups, table.declared_bounds)
    copy._in_own_order, copy._clusters = True, table.clusters
    return copy


def refuse_repeats(table: LossTable) -> None:
    """Raise an error if examples were drawn more than once, or if the whole table is there twice, three times, ...

    A guarantee counts every example as new evidence. Different examples may well lose the same; but if they were drawn
    independently, the contents of forty of them do not all come an even number of times.
    """
    if table.repeated:
        raise InvalidInputError(
            f"a guarantee needs every example once; {table.repeated:,} of {table.n_examples:,} are repetitions of others (a "
            "bootstrap sample, say). Leave the repetitions out."
        )
    if table.at_once is not None or table.n_examples < 2 * _CONTENTS:
        return
    rows = np.unique(np.linspace(0, table.n_configs - 1, _FEW).astype(np.int64))
    columns = (column for name in table.loss_names for column in table.sequences(Term(name), rows)[0])
    counts = np.unique(content_numbers(columns, table.n_examples), return_counts=True)[1]
    times = int(np.gcd.reduce(counts))
    if times > 1 and len(counts) >= _CONTENTS:
        raise InvalidInputError(
            f"a guarantee needs every example once; these {table.n_examples:,} are {table.n_examples // times:,}, each of "
            f"them {times} times, with the very same losses. Leave the copies out; or, where rows of one prompt or patient "
            "belong together, name what they share: clusters=."
        )


def sketch_of(table: LossTable, row: int, losses: Sequence[str]) -> dict[str, Any] | None:
    """By which the examples are known again, from what one setting lost on them."""
    return sketch(_numbers(table, row, losses))


def seen_in(made_of: Mapping[str, Any], table: LossTable, row: int, losses: Sequence[str]) -> int:
    """About how many examples of a table are among those that a sketch was made of."""
    return seen_before(made_of, _numbers(table, row, losses))


def _numbers(table: LossTable, row: int, losses: Sequence[str]) -> Array:
    columns = (table.sequences(Term(name), np.array([row]))[0][0] for name in losses)
    return content_numbers(columns, table.n_examples)


def shared_examples(one: LossTable, other: LossTable, limited: Collection[str] = ()) -> int:
    """How many examples two tables of different origin have in common; 0 where chance could explain what agrees.

    Different examples may lose the same, so equal contents alone prove nothing. But if no example is in both, each of several
    equal ones is as likely to be in either table, and the agreement that a shared file brings has a chance of nearly zero.
    All losses and groups are compared, and the ``limited`` losses by themselves: a cost may have been rounded or computed
    anew, and it is in these that examples must not have been seen.
    """
    losses = sorted(set(one.loss_names) & set(other.loss_names))
    groups = sorted(set(one.group_names) & set(other.group_names))
    found = _in_common(*_comparable(one, other, losses, groups))
    only = [name for name in losses if name in limited]
    return found or (_in_common(*_comparable(one, other, only, [])) if only else 0)


def _in_common(first: list[bytes], second: list[bytes]) -> int:
    if not first or not second:
        return 0
    count, others = Counter(first), Counter(second)
    if first == second and _log_chance_of_same_sequence(count) < np.log(_IMPOSSIBLE):
        return len(first)
    if count == others and _log_chance_of_same_contents(count) < np.log(_IMPOSSIBLE):
        return len(first)
    return _pairs_across(count, others, len(first), len(second))


def _comparable(
    one: LossTable, other: LossTable, losses: Sequence[str], groups: Sequence[str]
) -> tuple[list[bytes], list[bytes]]:
    """The contents of both in the settings that both have, as single precision: one of two copies may have been stored so."""
    mine, others = _settings(one), _settings(other)
    common = sorted(mine.keys() & others.keys())
    if not common or not losses:
        return [], []
    kept = [common[i] for i in np.unique(np.linspace(0, len(common) - 1, _SETTINGS).astype(int))]
    return (
        content_digests(one, np.array([mine[key] for key in kept]), losses, groups, "<f4"),
        content_digests(other, np.array([others[key] for key in kept]), losses, groups, "<f4"),
    )


def _settings(table: LossTable) -> dict[str, int]:
    """Rows by what the setting is; 1 and 1.0 are one number."""
    configs = table.configs
    values: list[list[Any]] = [configs[name].tolist() for name in sorted(configs.columns)]
    plain = ([float(v) if isinstance(v, int | float) else v for v in setting] for setting in zip(*values, strict=True))
    return {repr(setting): row for row, setting in enumerate(plain)}


def _log_chance_of_same_sequence(count: Counter[bytes]) -> float:
    """That two independent samples agree example by example, given what both hold together."""
    n = np.array(list(count.values()))
    return float(
        _log_factorial(n.sum()) - _log_factorial(2 * n.sum()) + (_log_factorial(2 * n) - _log_factorial(n)).sum()
    )


def _log_chance_of_same_contents(count: Counter[bytes]) -> float:
    """That two independent samples hold the same contents equally often, given what both hold together."""
    n = np.array(list(count.values()))
    ways = _log_factorial(2 * n) - 2 * _log_factorial(n)
    return float(ways.sum() - (_log_factorial(2 * n.sum()) - 2 * _log_factorial(n.sum())))


def _pairs_across(count: Counter[bytes], others: Counter[bytes], n: int, n_other: int) -> int:
    """Contents that occur twice in all, once in each table, if there are more of them than of those twice in one table."""
    from scipy.special import bdtrc

    across = sum(1 for content, times in count.items() if times == 1 and others[content] == 1)
    inside = sum(1 for content, times in count.items() if times == 2 and others[content] == 0)
    inside += sum(1 for content, times in others.items() if times == 2 and count[content] == 0)
    total = n + n_other
    chance = 2 * n * n_other / (total * (total - 1))
    return across if across and bdtrc(across - 1, across + inside, chance) < _IMPOSSIBLE else 0


def _log_factorial(n: IntArray | int) -> FloatArray:
    from scipy.special import gammaln

    return np.asarray(gammaln(np.asarray(n, dtype=np.float64) + 1))
