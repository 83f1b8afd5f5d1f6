"""verify: recompute a certificate from the data it was made of."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from riskfront._calibration.calibrate import certified, split_and_test
from riskfront._calibration.certificates.certificate import Certificate
from riskfront._calibration.certificates.choice import choose
from riskfront._calibration.certificates.uses_of_test_set import recomputing
from riskfront._calibration.frontier_making import make_frontier
from riskfront._calibration.frontier_plan import ValueGrid
from riskfront._calibration.sequential.ask_tell import Sequential
from riskfront._calibration.sequential.taken_in import SCHEMA as SEQUENTIAL_SCHEMA
from riskfront._data.groups import Groups
from riskfront._data.reading.sources import Data, as_table, as_unlabelled, clustered, is_long_file, is_store, notes_of
from riskfront._data.stores.loss_store import LossStore
from riskfront._data.stores.open_storage import open_storage
from riskfront._data.stores.open_storage import storage_options as options_for_urls
from riskfront._data.table import LossTable
from riskfront._problems.spaces.space import Config
from riskfront._running.evaluation.outcome import Outcome
from riskfront._running.tuning.adaptive import AdaptiveRun
from riskfront._running.tuning.chunked_outcomes import ChunkedOutcomes
from riskfront._running.tuning.opt_and_test_rows import Part
from riskfront._running.tuning.recorded_uses import recorded_before
from riskfront._running.tuning.tune import certify_along, use_of
from riskfront._support.array_digest import BLAKE3
from riskfront._support.progress import ProgressBar
from riskfront._support.version import __version__
from riskfront.errors import InvalidInputError, StoreError
from riskfront.methods._registry import rebuild_method

#: what a certificate says of itself beyond its data; the verdict follows from the rest, and from earlier uses of the testing
#: examples. Notes and earlier uses are compared apart
_NOT_COMPARED = ("version", "source", "earlier_looks", "verdict", "notes")


def verify(
    certificate: Certificate,
    data: Data | tuple[LossTable, LossTable],
    *,
    unlabelled: Data | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> list[str]:
    """Recompute a certificate from the data. Returns sentences on what does not match; empty if all matches.

    Args:
        certificate: made by ``calibrate``, by ``certify``, by ``tune`` with a store, or by a ``Sequential`` run.
        data: what ``calibrate`` had: a table, a store of ``evaluate``, or the path of either; the path or URL of the store of
            ``tune``; the two tables of ``certify``, (opt, test); or the ``Sequential`` run or the file that it was saved to.
            Settings that a store got since, and outcomes that a run was told since, are left out.
        unlabelled: the unlabelled examples that ``calibrate`` had, if any.
        storage_options: for fsspec, of data behind a URL.

    Examples:
        >>> import numpy as np
        >>> import riskfront as rf
        >>> error = np.random.default_rng(0).random((2, 500)) < 0.05
        >>> table = rf.LossTable([{"k": 0}, {"k": 1}], {"error": error, "cost": np.array([[2.0], [1.0]]) + 0 * error})
        >>> certificate = rf.calibrate(table, rf.Problem("error <= 0.1", minimize="cost"))
        >>> rf.verify(certificate, table)
        []
        >>> rf.verify(certificate, table.subset(range(499)))  # doctest: +ELLIPSIS
        ['the data differ: ...']
    """
    with options_for_urls(storage_options):
        return _verified(certificate, data, unlabelled)


def _verified(certificate: Certificate, data: Data | tuple[LossTable, LossTable], unlabelled: Data | None) -> list[str]:
    run = _sequential_run(data)
    if run is not None:
        told = (certificate.evaluations or {}).get("told")
        if not isinstance(told, int):
            raise InvalidInputError("only a certificate of a sequential run is verified with one; this is another.")
        with recomputing():
            return differences(choose(run.as_of(told).certificate(), certificate.choice), certificate)
    if isinstance(data, tuple):
        again = _certified_again(certificate, *data)
    elif certificate.seed is None:
        if not isinstance(data, str | os.PathLike):
            raise InvalidInputError(
                "a single table verifies a certificate of calibrate; this one has no seed, so tune or certify made it. "
                "From tune: give the path of its store, verify(certificate, 'run.zarr'). "
                "From certify: give both tables, verify(certificate, (opt, test))."
            )
        url = os.fspath(data).rstrip("/")
        again = (
            _tuned_again(certificate, url) if certificate.evaluations is None else adaptively_again(certificate, url)
        )
    else:
        table = _table_then(certificate, data)
        table.check()
        if not table.has_fingerprint(certificate.data_sha256):
            own = table.fingerprint if certificate.data_sha256.startswith(BLAKE3) else table.sha256
            return [f"the data differ: their digest is {own[:23]}... instead of {certificate.data_sha256[:23]}..."]
        others = _unlabelled_then(certificate, unlabelled, table)
        if others is not None and not others.has_fingerprint((certificate.unlabelled or {})["sha256"]):
            return ["the unlabelled examples differ from those that the certificate was made with"]
        method = rebuild_method(certificate.method, certificate.parameters)
        if certificate.frontier is not None:
            grid = ValueGrid.of(certificate.problem, certificate.frontier["values"])
            made = make_frontier(table, grid, method, certificate.seed, certificate.split_by, others)
            again = made.choose(certificate.frontier["chosen"])
        else:
            again = split_and_test(table, certificate.problem, method, certificate.seed, certificate.split_by, others)
        # the same data by another kind of digest, perhaps
        again = replace(again, data_sha256=certificate.data_sha256, notes=(*notes_of(data), *again.notes))
    return differences(choose(again, certificate.choice), certificate)


def _sequential_run(data: Data | tuple[LossTable, LossTable]) -> Sequential | None:
    """The run, or the one in a file; None for other data."""
    if isinstance(data, Sequential):
        return data
    if isinstance(data, str | os.PathLike) and os.fspath(data).endswith(".json") and os.path.isfile(data):
        with open(data, "rb") as file:
            if SEQUENTIAL_SCHEMA.encode() in file.read(200):
                return Sequential.load(data)
    return None


def differences(again: Certificate, certificate: Certificate) -> list[str]:
    """Where a certificate that was computed again differs from what is claimed, in words."""
    as_used = again.after(certificate.earlier_looks)  # they may leave no confidence
    recomputed, claimed = (_numbers(one, certificate) for one in (as_used, certificate))
    found = [difference for name in claimed for difference in _differences(name, recomputed[name], claimed[name])]
    return [*found, *_notes_differ(again, certificate), *_looks_differ(again, certificate)]


def _notes_differ(again: Certificate, certificate: Certificate) -> list[str]:
    """Notes stand below the verdict, so each must be one that these data give."""
    added = [
        f"the note {note!r} is not one that these data give" for note in certificate.notes if note not in again.notes
    ]
    return [*added, *(f"the note {note!r} is missing" for note in again.notes if note not in certificate.notes)]


def _looks_differ(again: Certificate, certificate: Certificate) -> list[str]:
    """Uses whose deltas are added to that of the certificate, as far as a store has them on record."""
    claimed, recorded = ({look.question: look for look in one.earlier_looks} for one in (certificate, again))
    return [
        f"an earlier use of the testing examples is on record and not in the certificate, or not with its delta: {look.asked}"
        for question, look in recorded.items()
        if question not in claimed or claimed[question].delta != look.delta
    ]


def _numbers(one: Certificate, claimed: Certificate) -> dict[str, Any]:
    """What is compared: everything that ``claimed`` says. Another version may put the same numbers in other words."""
    said = {name: value for name, value in one.to_dict().items() if name not in _NOT_COMPARED}
    if claimed.version != __version__ and said["diagnosis"] is not None:
        said["diagnosis"] = {name: value for name, value in said["diagnosis"].items() if name != "message"}
    if claimed.seed is None:  # of tune or certify: the split is in the data
        said.pop("split_by")
    return said


def _certified_again(certificate: Certificate, opt: LossTable, test: LossTable) -> Certificate:
    """Plan on one table and test on the other, as certify did."""
    if certificate.seed is not None:
        raise InvalidInputError("a certificate of calibrate is verified with the whole table; got two parts of one.")
    method = rebuild_method(certificate.method, certificate.parameters)
    return certified(method.plan(opt, certificate.problem), test, certificate.problem)


def _table_then(certificate: Certificate, data: Data) -> LossTable:
    """The table. A store gives the settings that the certificate was made of, in their order then, with its bounds."""
    store = LossStore(data) if isinstance(data, str | os.PathLike) and is_store(data) else data
    if not isinstance(store, LossStore):
        bounds = _bounds(certificate) if is_long_file(data) else None
        return as_table(data, certificate.problem, bounds, certificate.clusters)
    table = store.table(certificate.searched, bounds=_bounds(certificate))
    return table if certificate.clusters is None else clustered(table, certificate.clusters, certificate.problem)


def _unlabelled_then(certificate: Certificate, data: Data | None, table: LossTable) -> LossTable | None:
    """The unlabelled examples, where the certificate was made with some."""
    if certificate.unlabelled is None:
        if data is not None:
            raise InvalidInputError("this certificate was made without unlabelled examples; verify it without any.")
        return None
    if data is None:
        raise InvalidInputError(
            f"this certificate was made with {certificate.unlabelled['examples']:,} unlabelled examples; give them too: "
            "verify(certificate, table, unlabelled=...), or --unlabelled FILE."
        )
    return as_unlabelled(data, certificate.problem, table)


def _bounds(certificate: Certificate) -> dict[str, tuple[float, float]]:
    return {name: (low, high) for name, (low, high) in certificate.loss_bounds.items()}


def _tuned_again(certificate: Certificate, url: str) -> Certificate:
    """Plan on the opt part of a store of tune and test on its test part, from what is there, without the user's function."""
    configs = certificate.searched
    if configs is None:
        raise InvalidInputError(
            "a store can only recompute a certificate of tune, which names the settings it searched; this one names none."
        )
    opt_rows, test_rows = LossStore(f"{url}/opt", whole=False), LossStore(f"{url}/test", whole=False)
    opt = opt_rows.table(configs, bounds=_bounds(certificate))
    opt.check()
    plan = rebuild_method(certificate.method, certificate.parameters).plan(opt, certificate.problem)
    bar = ProgressBar("verifying", len(plan), 0, False)
    test = Part(None, test_rows.groups(), test_rows)
    again = certify_along(plan, configs, test, certificate.problem, _Nobody(url), bar)
    asked = use_of(plan, certificate.problem).asked
    looks = recorded_before(open_storage(url), asked, configs, certificate.parameters)
    return replace(again, earlier_looks=looks, notes=(*again.notes, *test_rows.notes))


class _Nobody:
    """Stands in for the workers: what is not in the store cannot be recomputed."""

    count = 1

    def __init__(self, url: str) -> None:
        self._url = url

    def run(self, configs: Iterable[Config]) -> Iterator[tuple[int, Outcome]]:
        raise StoreError(
            f"the store '{self._url}' must hold the test losses of every tested setting; it has none of {next(iter(configs))}. "
            "It is not the store of this certificate, or it was changed."
        )


def _differences(where: str, computed: Any, claimed: Any) -> list[str]:
    """Places where two JSON values differ by more than rounding."""
    if isinstance(computed, Mapping) and isinstance(claimed, Mapping) and computed.keys() == claimed.keys():
        return [d for key in claimed for d in _differences(f"{where}.{key}", computed[key], claimed[key])]
    if isinstance(computed, Sequence) and isinstance(claimed, Sequence) and not isinstance(computed, str):
        if len(computed) != len(claimed):
            return [f"{where} has {len(claimed)} entries, recomputed {len(computed)}"]
        return [
            d
            for i, (a, b) in enumerate(zip(computed, claimed, strict=True))
            for d in _differences(f"{where}[{i}]", a, b)
        ]
    if isinstance(computed, float) and isinstance(claimed, float):
        same = math.isclose(computed, claimed, rel_tol=1e-9, abs_tol=1e-12)
    else:
        same = computed == claimed
    return [] if same else [f"{where} is {claimed!r}, recomputed {computed!r}"]


def adaptively_again(certificate: Certificate, url: str) -> Certificate:
    """Plan on the planning chunks of a store and test on its testing chunks, as far as the certificate did.

    Which settings raced all the way is read off the certificate: the race looked at planning examples only, so that any
    outcome of it is as valid.
    """
    configs = certificate.searched
    if configs is None or certificate.explored is None:
        raise InvalidInputError(
            "a store recomputes a certificate of tune, which names the settings it searched; this one names none."
        )
    bounds = {name: (float(low), float(high)) for name, (low, high) in certificate.loss_bounds.items()}
    own = list(configs)
    opt, test = (_outcomes(url, part, own, bounds) for part in ("opt", "test"))
    n_opt = int(opt.edges[-1])
    finalists = [row for row, n in enumerate(certificate.explored["examples"]) if n == n_opt]
    method = rebuild_method(certificate.method, certificate.parameters)
    run = AdaptiveRun(certificate.problem, method, own, opt, test, finalists=finalists)
    testing = run.testing()
    testing.path.advance()
    if testing.path.wanted():
        row, chunk = testing.path.wanted()[0]
        raise StoreError(
            f"the store '{url}' must hold the test losses of every tested setting; it has none of {own[row]} on chunk {chunk}. "
            "It is not the store of this certificate, or it was changed."
        )
    again = run.certificate(testing, LossStore(f"{url}/test/0", whole=False).notes)
    asked = use_of(testing.plan, certificate.problem).asked
    looks = recorded_before(open_storage(url), asked, run.finalist_configs, certificate.parameters)
    spent = {name: value for name, value in (certificate.evaluations or {}).items() if name in ("spent", "full table")}
    return replace(again, evaluations={**(again.evaluations or {}), **spent}, earlier_looks=looks)


def _outcomes(url: str, part: str, configs: list[Config], bounds: dict[str, tuple[float, float]]) -> ChunkedOutcomes:
    chunks: list[LossStore] = []
    storage = open_storage(url)
    while storage.read(f"{part}/{len(chunks)}/zarr.json") is not None:
        chunks.append(LossStore(f"{url}/{part}/{len(chunks)}", whole=False))
    if not chunks:
        raise StoreError(f"'{url}' must be the store of tune(adaptive=True); it has no chunks of outcomes.")
    edges = np.cumsum([0, *(chunk.n_examples for chunk in chunks)])
    declared = {**chunks[0].bounds, **bounds}  # those of losses without a limit are in the store alone
    return ChunkedOutcomes(None, edges, _joined([chunk.groups() for chunk in chunks]), chunks, configs, declared)


def _joined(groups: Sequence[dict[str, Groups]]) -> dict[str, Groups]:
    return {
        name: Groups(of.levels, np.concatenate([part[name].codes for part in groups])) for name, of in groups[0].items()
    }
