"""Planning and testing examples, each with rows of its own: what one part lost can never get into the other."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from riskfront.arrays import IntArray
from riskfront.errors import InvalidInputError, StoreError
from riskfront.evaluation.evaluation import Bounds, GroupsGiven, MemoryRows, RowsOf
from riskfront.evaluation.examples import take, take_groups
from riskfront.losses.groups import Groups, all_groups
from riskfront.losses.splits import split_examples
from riskfront.stores.header import claim
from riskfront.stores.open_storage import open_storage
from riskfront.stores.store import LossStore
from riskfront.stores.task import Task, fingerprint_data


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


def split(
    examples: Any,
    groups: GroupsGiven,
    bounds: Bounds | None,
    opt_fraction: float,
    seed: int,
    store: str | os.PathLike[str] | None,
    task: Callable[[], Task],
) -> Parts:
    """The two parts at random; the fingerprints of the task are only computed for a store."""
    own = None if store is None else _claimed(store, task())
    found = []
    for name, positions in zip(("opt", "test"), positions_of(examples, groups, opt_fraction, seed), strict=True):
        part, part_groups = take(examples, positions), take_groups(groups, len(examples), positions)
        rows: RowsOf = MemoryRows(len(positions), part_groups, bounds)
        if store is not None and own is not None:
            of_part = replace(
                own, n_examples=len(positions), groups=part_groups, identity={**own.identity, "part": name}
            )
            rows = LossStore(f"{os.fspath(store).rstrip('/')}/{name}", of_part)
        found.append(Part(part, part_groups, rows))
    return Parts(*found)


def positions_of(examples: Any, groups: GroupsGiven, opt_fraction: float, seed: int) -> tuple[IntArray, IntArray]:
    """The positions of planning and of testing examples; shuffled by their contents too, as far as these can be read."""
    coded = all_groups(groups, len(examples))
    try:
        read = fingerprint_data([examples, [[name, coded[name].levels, coded[name].codes] for name in sorted(coded)]])
    except InvalidInputError:
        return split_examples(len(examples), opt_fraction, seed)
    return split_examples(len(examples), opt_fraction, seed, bytes.fromhex(read))


def _claimed(store: str | os.PathLike[str], task: Task) -> Task:
    """The task, if the folder is its own or nobody's."""
    storage = open_storage(store)
    if b"riskfront.losses" in (storage.read("zarr.json") or b""):
        raise StoreError(f"'{os.fspath(store)}' is a store of evaluate; tune needs one of its own. Give another name.")
    claim(storage, {**task.identity, "command": "tune"})
    return task
