"""What a store says about itself, in its zarr.json and its groups: the task it belongs to, its examples, its bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from riskfront._data.columns import Bounds
from riskfront._data.groups import Groups, as_groups
from riskfront._data.stores.storage import Storage
from riskfront._data.stores.stored_rows import array_name, zarr_metadata
from riskfront._data.stores.task import Task
from riskfront._support.checked_json import (
    DamagedError,
    digest_of_bytes,
    from_bytes,
    parse_json,
    to_bytes,
    with_digest,
    without_digest,
)
from riskfront.errors import InvalidInputError, StoreError

_SCHEMA = "riskfront._data"
_VERSION = 1
_CLAIM = "task.json"  # whose store this is; written before anything else


@dataclass(frozen=True, slots=True)
class Header:
    """Number of examples, identity of the task, levels of each group, and declared bounds of losses."""

    n_examples: int
    task: Mapping[str, Any]
    levels: Mapping[str, Sequence[Any]]
    bounds: Mapping[str, Bounds]
    codes: Mapping[str, str]  # digests

    @classmethod
    def from_attributes(cls, about: Mapping[str, Any]) -> Header:
        bounds = {name: (low, high) for name, (low, high) in about["bounds"].items()}
        return cls(int(about["n_examples"]), about["task"], about["groups"], bounds, about["codes"])

    def groups(self, storage: Storage) -> dict[str, Groups]:
        """The groups of the examples."""
        found = {}
        for name, levels in self.levels.items():
            text = storage.read(_codes_of(name)) or b""
            if digest_of_bytes(text) != self.codes[name]:
                raise StoreError(
                    f"'{storage.url}/{_codes_of(name)}' must hold the group '{name}' of {self.n_examples} examples as it was "
                    "written; it was changed or damaged. Restore it from a copy, or evaluate into a new store."
                )
            found[name] = Groups(tuple(levels), np.frombuffer(text, dtype="<i8").astype(np.int64))
        return found


def open_header(storage: Storage, task: Task | None) -> Header:
    """The header of a store, which is made if it does not exist, and refused if it belongs to another task."""
    header = _read(storage)
    if header is None:
        if task is None:
            parts = [f"'{storage.url}/{name}'" for name in storage.names("") if name in ("opt", "test")]
            if parts:
                raise StoreError(
                    f"'{storage.url}' is the store of a tune run: run tune again to go on, or verify its certificate with it. "
                    f"Its losses are in the parts {' and '.join(parts)}."
                )
            raise StoreError(f"there is no store of losses at '{storage.url}'. Make one with evaluate(..., store=...).")
        claim(storage, task.identity)
        header = _create(storage, task)
    if task is not None:
        _check_same(task.identity, header.task, storage.url)
    return header


def claim(storage: Storage, identity: Mapping[str, Any]) -> None:
    """Of several tasks that make one store at the same moment, the first has it; the others are refused."""
    own = to_bytes(identity)
    if not storage.create(_CLAIM, own):
        try:
            known = from_bytes(storage.read(_CLAIM) or own)
        except DamagedError as error:
            raise _damaged(storage, _CLAIM, error) from None
        _check_same(from_bytes(own), known, storage.url)


def _read(storage: Storage) -> Header | None:
    text = storage.read("zarr.json")
    if text is None:
        return None
    try:
        about: Any = parse_json(text)["attributes"].get("riskfront")
    except (ValueError, KeyError, AttributeError, TypeError):
        about = {}
    if about is None:
        return None
    if not isinstance(about, dict) or (about.get("schema"), about.get("version")) != (_SCHEMA, _VERSION):
        raise StoreError(
            f"'{storage.url}' must be a store of losses, version {_VERSION}; it is something else, or was damaged."
        )
    try:
        return Header.from_attributes(without_digest(about))
    except (DamagedError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise _damaged(storage, "zarr.json", error) from None


def _create(storage: Storage, task: Task) -> Header:
    if task.n_examples < 1:
        raise InvalidInputError("a store needs at least one example; got none.")
    coded = {name: as_groups(name, values, task.n_examples) for name, values in task.groups.items()}
    about = {"schema": _SCHEMA, "version": _VERSION, "n_examples": task.n_examples, "task": dict(task.identity)}
    about |= {"groups": {name: list(groups.levels) for name, groups in coded.items()}, "bounds": dict(task.bounds)}
    codes = {name: groups.codes.astype("<i8").tobytes() for name, groups in coded.items()}
    about |= {"codes": {name: digest_of_bytes(text) for name, text in codes.items()}}
    shape = (task.n_examples,)
    arrays = {array_name("groups", name): (shape, shape, np.dtype("<i8")) for name in coded}
    metadata = zarr_metadata(arrays, ["done", "parts"], {"riskfront": with_digest(about)})
    for name, text in codes.items():
        storage.write(_codes_of(name), text)
    # the group itself comes last: whoever sees it sees the whole store; only who has the same task writes it too
    for name in sorted(metadata, key=lambda name: name == "zarr.json"):
        storage.write(name, metadata[name])
    return Header.from_attributes(about)


def _damaged(storage: Storage, name: str, reason: Exception) -> StoreError:
    return StoreError(
        f"'{storage.url}/{name}' was changed or damaged ({reason}). Restore it from a copy, or evaluate into a new store."
    )


def _codes_of(group: str) -> str:
    return f"{array_name('groups', group)}/0"


def _check_same(task: Mapping[str, Any], known: Mapping[str, Any], url: str) -> None:
    different = [name for name in {**known, **task} if known.get(name) != task.get(name)]
    if different:
        listed = " and ".join([", ".join(different[:-1]), different[-1]] if len(different) > 1 else different)
        verb = "differ" if listed.endswith("s") or len(different) > 1 else "differs"
        hint = "use another store, or go back to what this one was made with."
        if {"code", "packages"} & set(different):
            hint += (
                " (A function counts as changed when anything it refers to did, such as a model or a cache; "
                "if that is wrong, name its version yourself, with a text attribute 'fingerprint' of the function.)"
            )
        raise StoreError(
            f"the store '{url}' belongs to another task: its {listed} {verb} from what is given now. "
            f"Losses of different tasks are never mixed: {hint}"
        )
