"""Planning and testing examples in separate tables, so that planning never sees a test loss."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from riskfront._data.groups import Groups, all_groups
from riskfront._data.identity.fingerprints import ExampleFingerprints, Kept
from riskfront._data.splits import CONTENTS, salt_by, shuffled_by, split_examples
from riskfront._data.stores.header import claim
from riskfront._data.stores.loss_store import LossStore, write_notes
from riskfront._data.stores.open_storage import open_storage
from riskfront._data.stores.storage import Storage
from riskfront._data.stores.task import Task
from riskfront._running.evaluation.example_parts import take, take_groups
from riskfront._running.evaluation.outcome import Bounds, GroupsGiven, MemoryRows, RowsOf
from riskfront._support.checked_json import DamagedError, from_bytes, to_bytes
from riskfront._support.object_digest import fingerprint_data
from riskfront.errors import InvalidInputError, StoreError


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the examples, their groups, and where their evaluated settings are kept."""

    examples: Any
    groups: Mapping[str, Groups]
    rows: RowsOf


@dataclass(frozen=True, slots=True)
class Parts:
    opt: Part
    test: Part


def shuffles(
    examples: Any,
    groups: GroupsGiven,
    seed: int,
    *records: str | os.PathLike[str] | None,
    storage_options: Mapping[str, Any] | None = None,
) -> tuple[str, bytes]:
    """What shuffles the split beside the seed, and the salt. Stores and records keep a draw for whoever goes on with a run."""
    digest, enough = _digest(examples, groups)
    by = shuffled_by(digest, enough)
    if by == CONTENTS:
        return by, salt_by(by, digest or b"")
    name = f"draws/{hashlib.sha256(f'{seed} '.encode() + (digest or b'')).hexdigest()[:32]}.json"
    storages = [open_storage(record, storage_options) for record in records if record is not None]
    storages = [storage for storage in storages if not _is_of_evaluate(storage)]  # which is refused later
    kept = [storage.read(name) for storage in storages]
    by = next((_drawn(storage, name, text) for storage, text in zip(storages, kept, strict=True) if text), by)
    for storage, text in zip(storages, kept, strict=True):
        if text is None and not storage.create(name, to_bytes({"shuffled_by": by})):
            return shuffles(
                examples, groups, seed, *records, storage_options=storage_options
            )  # another process wrote its draw down just now
    return by, salt_by(by, digest or b"")


def _drawn(storage: Storage, name: str, text: bytes) -> str:
    """What shuffled the split of the first run into a store."""
    try:
        return str(from_bytes(text)["shuffled_by"])
    except (DamagedError, KeyError) as error:
        raise StoreError(f"'{storage.url}/{name}' was damaged ({error}). Restore it from a copy.") from None


def _digest(examples: Any, groups: GroupsGiven) -> tuple[bytes | None, bool]:
    """The digest of examples and groups in their order, and whether they say enough; None where they cannot be read."""
    coded = all_groups(groups, len(examples))
    codes = [coded[name].codes for name in sorted(coded)]
    found = ExampleFingerprints.of(examples, *codes)
    if found is not None:
        return found.digest, found.say_enough
    try:
        named = isinstance(getattr(examples, "fingerprint", None), str)
        return bytes.fromhex(fingerprint_data([examples, codes])), named
    except InvalidInputError:
        return None, False


def split(
    examples: Any,
    groups: GroupsGiven,
    bounds: Bounds | None,
    opt_fraction: float,
    seed: int,
    salt: bytes,
    store: str | os.PathLike[str] | None,
    task: Callable[[], Task],
    kept: Kept,
    storage_options: Mapping[str, Any] | None = None,
    *,
    in_chunks: bool = False,
) -> Parts:
    """The two parts at random; the fingerprints of the task are only computed for a store, which gets notes on copies.

    ``in_chunks``: the stores of the chunks of each part are made elsewhere.
    """
    own = None if store is None else _claimed(store, task(), storage_options)
    found = []
    for name, positions in zip(("opt", "test"), split_examples(len(examples), opt_fraction, seed, salt), strict=True):
        part, part_groups = take(examples, positions), take_groups(groups, len(examples), positions)
        copies = int(kept.copies[positions].sum())
        rows: RowsOf = MemoryRows(len(positions), part_groups, bounds, copies)
        if store is not None and own is not None and not in_chunks:
            of_part = replace(
                own, n_examples=len(positions), groups=part_groups, identity={**own.identity, "part": name}
            )
            place = f"{os.fspath(store).rstrip('/')}/{name}"
            rows = LossStore(place, of_part, storage_options=storage_options)
            if kept.notes:
                write_notes(place, kept.notes, storage_options, copies=copies)
        found.append(Part(part, part_groups, rows))
    return Parts(*found)


def _claimed(store: str | os.PathLike[str], task: Task, storage_options: Mapping[str, Any] | None) -> Task:
    """The task, if the folder is its own or nobody's."""
    storage = open_storage(store, storage_options)
    if _is_of_evaluate(storage):
        raise StoreError(f"'{os.fspath(store)}' is a store of evaluate; tune needs one of its own. Give another name.")
    claim(storage, {**task.identity, "command": "tune"})
    return task


def _is_of_evaluate(storage: Storage) -> bool:
    return b"riskfront._data" in (storage.read("zarr.json") or b"")
