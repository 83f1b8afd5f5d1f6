"""LossStore: losses of settings on examples, on disk or in object storage, written by many processes, never half-read.

A Zarr group (format 3):

    task.json              the task's identity: who writes it first has the store
    notes.json             perhaps: sentences on what these examples are, which certificates repeat
    zarr.json              attributes: the same, number of examples, groups, bounds
    groups/<name>          (examples,) codes of a group; its levels are in the attributes
    parts/<writer>/<loss>  (rows, examples); each writer appends to parts of its own, so none waits for another
    done/<writer>.jsonl    a line a setting, written last: the setting, its row, range and SHA-256 of each of its losses

A row exists once its line does. Whatever moment a run is killed at, rows without a line are never read. Zarr describes the
arrays; rows of its uncompressed chunks are written and read directly, at a tenth of the cost of its event loop. In object
storage, which takes whole objects only, a row is a chunk and each line has a file of its own, done/<setting>.jsonl.
"""

from __future__ import annotations

import json
import os
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from riskfront.arrays import Array
from riskfront.errors import InvalidInputError, StoreError
from riskfront.losses.groups import Groups
from riskfront.losses.table import LossTable
from riskfront.losses.values import known, plain
from riskfront.spaces.space import Config, config_id
from riskfront.stores.header import open_header
from riskfront.stores.lazy_column import LazyColumn
from riskfront.stores.open_storage import open_storage
from riskfront.stores.rows import (
    ROWS,
    Loss,
    Marker,
    Part,
    array_name,
    common_type,
    place,
    rows_in_chunk,
    stored,
    zarr_metadata,
)
from riskfront.stores.task import Task

_NOTES = "notes.json"
_LAZY_BYTES = 1 << 30  # tables beyond this stay in the store


def write_notes(url: str | os.PathLike[str], notes: Sequence[str]) -> None:
    """Beside the losses that a store has or will have: what a guarantee on its examples speaks of."""
    open_storage(url).write(_NOTES, json.dumps(list(notes)).encode())


class LossStore:
    """The losses of settings, in a folder or behind an fsspec URL.

    Args:
        url: a path, or a URL such as "s3://bucket/run.zarr".
        task: what the store belongs to; it is made if it does not exist, and refused if it belongs to another task.
            Without it an existing store is opened for reading.
        storage_options: for fsspec.

    Examples:
        >>> import tempfile
        >>> import riskfront as rf
        >>> def losses(config, examples):
        ...     return {"error": [x < config["level"] for x in examples]}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     table = rf.evaluate(losses, [0.1, 0.5, 0.9], [{"level": 0.3}, {"level": 0.6}], store=f"{folder}/run.zarr")
        ...     LossStore(f"{folder}/run.zarr").configs
        [{'level': 0.3}, {'level': 0.6}]
    """

    def __init__(
        self,
        url: str | os.PathLike[str],
        task: Task | None = None,
        *,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._storage = open_storage(url, storage_options)
        self._lock = threading.Lock()
        self._part: Part | None = None
        self._header = open_header(self._storage, task)
        self._markers: dict[str, Marker] = {}
        self.refresh()

    @property
    def url(self) -> str:
        return self._storage.url

    @property
    def n_examples(self) -> int:
        return self._header.n_examples

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what a guarantee on these examples speaks of."""
        text = self._storage.read(_NOTES)
        return () if text is None else tuple(map(str, json.loads(text)))

    @property
    def configs(self) -> list[Config]:
        """The complete settings, as of the last ``refresh``."""
        return [dict(marker.config) for marker in self._markers.values()]

    @property
    def loss_names(self) -> list[str]:
        """The losses of the settings so far; empty before the first."""
        return list(next(iter(self._markers.values())).losses) if self._markers else []

    @property
    def part(self) -> str | None:
        """ "opt" or "test" in the store of a tune run; its settings were chosen by these very losses."""
        part = self._header.task.get("part")
        return None if part is None else str(part)

    def __len__(self) -> int:
        return len(self._markers)

    def __contains__(self, config: Mapping[str, Any]) -> bool:
        return config_id(config) in self._markers

    def __repr__(self) -> str:
        return f"LossStore('{self.url}', {len(self):,} settings x {self.n_examples:,} examples)"

    def refresh(self) -> None:
        """See what other processes have completed since."""
        names = [name for name in self._storage.names("done") if name.endswith(".jsonl")]
        with ThreadPoolExecutor(max_workers=self._storage.readers) as pool:
            texts = pool.map(self._storage.read, [f"done/{name}" for name in names])
            for name, text in zip(names, texts, strict=True):
                # a line without an end is what a killed process was about to write
                for line in (text or b"").split(b"\n")[:-1]:
                    marker = self._parsed(name, line)
                    self._markers.setdefault(config_id(marker.config), marker)

    def _parsed(self, name: str, line: bytes) -> Marker:
        try:
            return Marker.from_json(line)
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"'{self.url}/done/{name}' must hold markers of settings; a line is damaged ({error}). "
                "Delete that line: its setting will be evaluated again."
            ) from None

    # ---------------------------------------------------------------- writing

    def write(self, config: Mapping[str, Any], losses: Mapping[str, Array]) -> None:
        """Add a setting: its losses first, its marker last. A setting that is there already is left as it is."""
        name = config_id(config)
        with self._lock:
            if name in self._markers:
                return
            rows = {loss: stored(np.asarray(values)) for loss, values in losses.items()}
            self._check_losses(config, rows)
            part = self._part_for(rows)
            self._part = None  # until all went well: after an error nothing more is written where it happened
            row = part.next_row()
            known = {}
            for loss, values in rows.items():
                values = values.astype(part.dtypes[loss], copy=False)
                together = part.chunks[loss]
                chunk, offset = place(part.name, loss, row, together, values.nbytes)
                self._storage.write_at(chunk, offset, together * values.nbytes, values.data)
                known[loss] = Loss.of(values, together)
            marker = Marker({str(k): plain(v) for k, v in config.items()}, part.name, row, known)
            self._storage.add_line("done", part.name.rpartition("/")[2], name, marker.to_json())
            self._markers[name] = marker
            self._part = part

    def _check_losses(self, config: Mapping[str, Any], rows: Mapping[str, Array]) -> None:
        names = self.loss_names
        if names and set(rows) != set(names):
            raise InvalidInputError(
                f"every setting must have the losses of the store, {sorted(names)}; got {sorted(rows)} for {dict(config)}."
            )
        for name, values in rows.items():
            if values.shape != (self.n_examples,):
                raise InvalidInputError(
                    f"loss '{name}' must have one value for each of {self.n_examples} examples; got shape "
                    f"{values.shape} for {dict(config)}."
                )

    def _part_for(self, rows: Mapping[str, Array]) -> Part:
        """The part this process writes to; a new one if it is full, if types do not fit, or in a forked process."""
        part = self._part
        if part is None or not part.takes(rows):
            dtypes = {name: values.dtype.newbyteorder("<") for name, values in rows.items()}
            n, in_place = self.n_examples, self._storage.in_place
            chunks = {name: rows_in_chunk(n * kind.itemsize, in_place) for name, kind in dtypes.items()}
            part = self._part = Part(f"parts/{uuid.uuid4().hex}", dtypes, chunks, os.getpid())
            arrays = {array_name(part.name, name): ((ROWS, n), (chunks[name], n), dtypes[name]) for name in dtypes}
            for name, text in zarr_metadata(arrays).items():
                if name != "zarr.json":  # the group itself was made before
                    self._storage.write(name, text)
        return part

    # ---------------------------------------------------------------- reading

    def table(
        self,
        configs: Sequence[Mapping[str, Any]] | None = None,
        *,
        lazy: bool | None = None,
        bounds: Mapping[str, tuple[float, float]] | None = None,
    ) -> LossTable:
        """The losses of all complete settings, or of the given ones in their order.

        Args:
            configs: which settings; by default all, in an order that does not depend on who wrote them when.
            lazy: leave the losses in the store and read them a block at a time; by default for more than 1 GB. The SHA-256 of
                a row is then compared with its losses when it is tested, and by ``verify``, not when it is only planned over.
            bounds: of some losses, instead of those that the store was made with.
        """
        markers = self._chosen(configs)
        types = {name: common_type([m.losses[name] for m in markers]) for name in markers[0].losses}
        size = sum(np.dtype(kind).itemsize for kind in types.values()) * len(markers) * self.n_examples
        settings = [dict(marker.config) for marker in markers]
        declared = {**self._header.bounds, **(bounds or {})}
        limits = {name: (low, high) for name, (low, high) in declared.items()}
        lazy = size > _LAZY_BYTES if lazy is None else lazy
        columns = {name: self._column(name, kind, markers, limits, trusting=lazy) for name, kind in types.items()}
        if lazy:
            return LossTable.of_columns(settings, columns, self.groups(), limits)
        arrays = {name: column[slice(None)] for name, column in columns.items()}
        return LossTable(settings, arrays, self.groups(), limits)

    def blocks(self, loss: str, rows: int = 64) -> Iterator[tuple[list[Config], Array]]:
        """The settings and the losses of one column, (rows, examples), a block at a time."""
        table = self.table(lazy=True)
        known(loss, table.loss_names, "loss")
        markers = self._chosen(None)
        column = self._column(loss, common_type([m.losses[loss] for m in markers]), markers, {})
        for start in range(0, len(markers), rows):
            block = markers[start : start + rows]
            yield [dict(marker.config) for marker in block], column[slice(start, start + len(block))]

    def _chosen(self, configs: Sequence[Mapping[str, Any]] | None) -> list[Marker]:
        names = sorted(self._markers) if configs is None else [config_id(config) for config in configs]
        for index, name in enumerate(names):
            if name not in self._markers and configs is not None:
                raise StoreError(f"the store '{self.url}' has no losses of the setting {dict(configs[index])}.")
        if not names:
            raise StoreError(f"the store '{self.url}' has no complete setting yet. Run evaluate with it first.")
        markers = [self._markers[name] for name in names]
        for marker in markers:
            if marker.losses.keys() != markers[0].losses.keys():
                raise StoreError(
                    f"all settings in the store '{self.url}' must have the same losses; got {sorted(markers[0].losses)} "
                    f"for {markers[0].config} and {sorted(marker.losses)} for {marker.config}. Evaluate into a new store."
                )
        return markers

    def _column(
        self,
        name: str,
        kind: np.dtype[Any],
        markers: Sequence[Marker],
        bounds: Mapping[str, tuple[float, float]],
        *,
        trusting: bool = False,
    ) -> LazyColumn:
        known = [marker.losses[name] for marker in markers]
        low, high = min(loss.low for loss in known), max(loss.high for loss in known)
        if kind.kind in "iu" and low >= -128 and high <= 127:
            kind = np.dtype(np.int8)  # as a table in memory holds them
        binary = kind.kind in "iu" and bounds.get(name, (0.0, 1.0)) == (0.0, 1.0) and low >= 0 and high <= 1
        return LazyColumn(
            self._storage,
            [
                place(marker.part, name, marker.row, loss.rows, self.n_examples * np.dtype(loss.dtype).itemsize)
                for marker, loss in zip(markers, known, strict=True)
            ],
            [np.dtype(loss.dtype) for loss in known],
            [bytes.fromhex(loss.sha256) for loss in known],
            np.dtype(np.bool_) if binary else kind,
            self.n_examples,
            (0.0, 1.0) if binary or kind == np.bool_ else (low, high),
            trusting,
        )

    def groups(self) -> dict[str, Groups]:
        """The groups of the examples."""
        return self._header.groups(self._storage)
