"""The record of uses of the testing examples, and what happens to a second question.

A use is recorded before anything is tested, so that a run that was stopped in between counts too. To repeat a question, or to
go on with it, is no new use.

    uses/<examples>/0000.json, 0001.json, ...    one use each, in the order in which they were reserved

Examples in another order, precision or container share a folder where their content is rich enough to be known by it.

The number of a use is reserved by creating its file, which only one process can do. Whoever finds the number taken reads
what the other asked, and decides again.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from riskfront._calibration.certificates.uses_of_test_set import DataDigests, UseOfTestSet
from riskfront._data.identity.fingerprints import are_positions, digest_in_any_order
from riskfront._data.stores.storage import Storage
from riskfront._problems.spaces.space import Config
from riskfront._support.checked_json import DamagedError, from_bytes, to_bytes
from riskfront._support.object_digest import fingerprint_code, fingerprint_data, joined
from riskfront.errors import InvalidInputError, SpentExamplesError, StoreError

_FOLDER, _ANY_ORDER = "uses", "in any order"
_NUMBER = re.compile(r"(\d{4,})\.json")
_TRIES = 1000
_WAITS, _PAUSE = 20, 0.05  # for a use that is being written


def searched_before(storage: Storage, examples: Mapping[str, str], call: str) -> list[Config] | None:
    """The settings that the same call found when it was made before, so that to repeat it is to repeat its question."""
    uses = _recorded(storage, _folder(examples))
    return next((use["searched"] for use in uses if (use["call"], use["examples"]) == (call, dict(examples))), None)


def record_use(
    storage: Storage,
    examples: Mapping[str, str],
    new: UseOfTestSet,
    call: str,
    searched: Sequence[Config],
    *,
    again: bool,
    parameters: Mapping[str, Any] | None = None,
) -> tuple[UseOfTestSet, ...]:
    """Record a use of testing examples; the uses before it, or an error if there are any and ``again`` is not set.

    Args:
        examples: digests of what the examples contain; other examples have a record of their own. In another order they are
            split in another way, so the question is another one.
        new: the question that is asked now.
        call: a digest of the call that asks, and ``searched`` the settings it found.
        again: ask although the examples were used before; the deltas of all uses add up.
        parameters: of the method, by which a certificate is known again.
    """
    if not storage.exclusive:
        raise StoreError(
            f"'{storage.url}' must be able to create an object only if there is none, so that two runs cannot use the same "
            "testing examples at the same moment unnoticed; this storage cannot. Record uses elsewhere, such as in a local "
            "folder: tune(..., looks='uses')."
        )
    entry: dict[str, Any] = {
        "look": new.to_dict(),
        "examples": dict(examples),
        "call": call,
        "searched": list(searched),
        "parameters": dict(parameters or {}),
    }
    folder = _folder(examples)
    for _ in range(_TRIES):
        uses = _recorded(storage, folder)
        used = [UseOfTestSet(**use["look"]) for use in uses]
        mine = (new.question, dict(examples))
        position = next((i for i, use in enumerate(uses) if (used[i].question, use["examples"]) == mine), None)
        if position is not None:
            return tuple(used[:position])
        _refuse(storage.url, new, used, again=again)
        if storage.create(f"{folder}/{len(used):04d}.json", to_bytes(entry)):
            return tuple(used)
    raise StoreError(
        f"cannot record a use of testing examples in '{storage.url}': others record all the time. Try again."
    )


def recorded_before(
    storage: Storage, asked: str, searched: Sequence[Config], parameters: Mapping[str, Any]
) -> tuple[UseOfTestSet, ...]:
    """The uses that were recorded before this one of the same testing examples; none where this one is not on record.

    Args:
        asked: the question in words, ``searched`` the settings that were found, ``parameters`` those of the method: a
            certificate names these, and not the question's digest. A search has no fallback test.
    """
    wanted = {name: value for name, value in parameters.items() if name != "holm_share"}

    def is_this_one(use: Mapping[str, Any]) -> bool:
        same = {name: value for name, value in use["parameters"].items() if name != "holm_share"} == wanted
        return same and (use["look"]["asked"], use["searched"]) == (asked, list(searched))

    for examples in storage.names(_FOLDER):
        uses = _recorded(storage, f"{_FOLDER}/{examples}")
        mine = next((i for i, use in enumerate(uses) if is_this_one(use)), None)
        if mine is not None:
            return tuple(UseOfTestSet(**use["look"]) for use in uses[:mine])
    return ()


def _folder(examples: Mapping[str, str]) -> str:
    known_by = {_ANY_ORDER: examples[_ANY_ORDER]} if _ANY_ORDER in examples else dict(examples)
    content = hashlib.sha256(json.dumps(known_by, sort_keys=True).encode()).hexdigest()
    return f"{_FOLDER}/{content[:32]}"


def _recorded(storage: Storage, folder: str) -> list[dict[str, Any]]:
    """All uses in order. They are read by number, not as listed: a list may be a moment old."""
    listed = [int(match[1]) for name in storage.names(folder) if (match := _NUMBER.fullmatch(name))]
    uses: list[dict[str, Any]] = []
    while (use := _use(storage, f"{folder}/{len(uses):04d}.json")) is not None:
        uses.append(use)
    if any(number >= len(uses) for number in listed):
        raise _damaged(storage, f"{folder}/{len(uses):04d}.json", "it is missing, and later ones are there")
    return uses


def _use(storage: Storage, name: str) -> dict[str, Any] | None:
    """A recorded use; None if there is none under this name."""
    for last in (*[False] * _WAITS, True):
        text = storage.read(name)
        if text is None:
            return None
        try:
            use = from_bytes(text)
            UseOfTestSet(**use["look"])
            if not {"examples", "call", "searched", "parameters"} <= use.keys():
                raise DamagedError("a part is missing")
            return use
        except (DamagedError, KeyError, TypeError) as error:
            # where there are no links between files, another process may still be writing
            if last or text.endswith(b"}\n"):
                raise _damaged(storage, name, str(error)) from None
            time.sleep(_PAUSE)
    return None


def _damaged(storage: Storage, name: str, reason: str) -> StoreError:
    return StoreError(
        f"the record of uses of testing examples must be whole; '{storage.url}/{name}' was damaged ({reason}). Restore it from "
        "a copy, or use new testing examples."
    )


def _refuse(url: str, new: UseOfTestSet, used: Sequence[UseOfTestSet], *, again: bool) -> None:
    """An error where the examples were used and ``again`` is not set, or where no confidence is left."""
    if not used:
        return
    before = math.fsum(use.delta for use in used)
    if not again:
        listed = " | ".join(use.asked for use in used)
        raise SpentExamplesError(
            f"testing examples must be new to a question; those of '{url}' have already been used for {len(used)} other "
            f"question{'s' if len(used) > 1 else ''}: {listed}. To ask again until something passes breaks the guarantee (at "
            "delta 0.1, ten questions gave false certificates in 0.4 of runs). Use new examples in another store; or repeat "
            "the first question, which gives its answer; or set again=True (--again), and the certificate states the "
            f"confidence that is left after all uses: {100 * max(0.0, 1 - before):.4g} % less the delta of this one."
        )
    if before + new.delta >= 1:
        raise SpentExamplesError(
            "the deltas of all uses of the same testing examples must add up to less than 1; with this one they are "
            f"{before + new.delta:g}. No confidence is left: use new testing examples."
        )


_unreadable: list[Any] = []  # examples that cannot be read are known by themselves, for as long as this process lives


class UsedExamples:
    """The examples of a ``tune`` run. Which of them are tested depends on the seed; all count as used.

    Args:
        examples: what ``tune`` was given.
        losses: the function, which matters where examples are mere positions in data that it holds.
    """

    def __init__(self, examples: Any, losses: Any) -> None:
        self._examples, self._losses = examples, losses
        found = _code_of(losses)
        self.code = _LEFT_AS.get(found, found)  # before it is called: calls may change what it holds

    def called(self) -> None:
        """Know the function again as its calls have left it: with a counter, a cache or random numbers that went on."""
        _LEFT_AS[_code_of(self._losses)] = self.code

    @property
    def identity(self) -> Mapping[str, str]:
        """By which a record that outlives this process knows them, in another order, precision or container too."""
        known = {"examples": self._exact}
        return known if self._in_any_order is None else {**known, _ANY_ORDER: self._in_any_order}

    @cached_property
    def _exact(self) -> str:
        try:
            return fingerprint_data(self._examples)
        except InvalidInputError:
            known = next((i for i, seen in enumerate(_unreadable) if seen is self._examples), len(_unreadable))
            if known == len(_unreadable):
                _unreadable.append(self._examples)
            return f"number {known} of those that cannot be read"

    @cached_property
    def _in_any_order(self) -> str | None:
        return digest_in_any_order(self._examples)

    @property
    def digests(self) -> DataDigests:
        """By which this process knows them, in another order, precision or container too. Positions say nothing about the
        data: those of two functions are different examples, as far as the content of the functions can be read."""
        key = joined("positions", [self._exact, self.code]) if are_positions(self._examples) else self._exact
        return DataDigests(key, () if self._in_any_order is None else (self._in_any_order,))


#: what can be read of a function after a run -> what could be read of it before the first
_LEFT_AS: dict[str, str] = {}


def _code_of(function: Any) -> str:
    """What can be read of a function; its name and byte code where its content cannot be."""
    try:
        return fingerprint_code(function)
    except InvalidInputError:
        named = function if hasattr(function, "__qualname__") else type(function)
        code = getattr(function, "__code__", None)
        return joined("function", [named.__module__ or "", named.__qualname__], b"" if code is None else code.co_code)
