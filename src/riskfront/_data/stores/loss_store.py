"""LossStore: losses of settings on examples, on disk or in object storage, written by many processes, never half-read.

A Zarr group (format 3):

    task.json              the task's identity: who writes it first has the store
    notes.json             perhaps: sentences on what these examples are, which certificates repeat
    zarr.json              attributes: the same, number of examples, groups, bounds
    groups/<name>          (examples,) codes of a group; its levels are in the attributes
    parts/<writer>/<loss>  (rows, examples); each writer appends to parts of its own, so none waits for another
    missing/<writer>/<loss>  (rows, examples), only where outcomes are missing: True there
    done/<writer>.jsonl    a line a setting: the setting, its row, range and SHA-256 of each of its losses, a digest of the line
    done/<writer>.count    how many lines there are at least, written last

A row exists once its line does. Whatever moment a run is killed at, rows without a line are never read. Zarr describes the
arrays; rows of its uncompressed chunks are written and read directly, at a tenth of the cost of its event loop. Object storage
takes whole objects only: there a chunk is a shard with the rows of up to 64 settings, and their lines are an object,
done/<writer>.<first row>.<lines>.jsonl (``stores/row_batches.py``).
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any

import numpy as np

from riskfront._data.groups import Groups
from riskfront._data.stores.header import open_header
from riskfront._data.stores.lazy_column import LazyColumn, MissingColumn
from riskfront._data.stores.open_storage import open_storage
from riskfront._data.stores.row_batches import RowBatches
from riskfront._data.stores.stored_rows import (
    SHARDED_ROWS,
    Gaps,
    Loss,
    Marker,
    Part,
    array_name,
    common_type,
    gaps_folder,
    missing_of,
    place,
    rows_in_chunk,
    rows_in_shard,
    stored,
    zarr_metadata,
)
from riskfront._data.stores.task import Task
from riskfront._data.table import LossTable
from riskfront._problems.spaces.space import Config, config_id
from riskfront._support.arrays import Array
from riskfront._support.checked_json import DamagedError, from_bytes, to_bytes
from riskfront._support.values import known, plain
from riskfront.errors import InvalidInputError, StoreError

_NOTES = "notes.json"
_LAZY_BYTES = 1 << 30  # tables beyond this stay in the store


def write_notes(
    url: str | os.PathLike[str],
    notes: Sequence[str],
    storage_options: Mapping[str, Any] | None = None,
    *,
    copies: int = 0,
) -> None:
    """Beside the losses that a store has or will have: what a guarantee on its examples speaks of, and how many copies of
    them were left out."""
    open_storage(url, storage_options).write(_NOTES, to_bytes({"notes": list(notes), "copies": copies}))


class LossStore:
    """The losses of settings, in a folder or behind an fsspec URL.

    Args:
        url: a path, or a URL such as "s3://bucket/run.zarr".
        task: what the store belongs to; it is made if it does not exist, and refused if it belongs to another task.
            Without it an existing store is opened for reading.
        storage_options: for fsspec.
        whole: refuse a store that has lost settings. Not needed where settings are named: a lost one is then an error.

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
        whole: bool = True,
    ) -> None:
        self.storage = open_storage(url, storage_options)  # also for what belongs beside its losses
        self.url = self.storage.url
        self._lock = threading.Lock()
        self._part: Part | None = None
        self._batches = None if self.storage.in_place else RowBatches(self.storage)
        self._header = open_header(self.storage, task)
        self.n_examples = self._header.n_examples
        self._to_add = task is not None or not whole
        self._markers: dict[str, Marker] = {}
        self.refresh()

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """Loss -> the range that the store was made with; (0, 1) where it has none."""
        return dict(self._header.bounds)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what a guarantee on these examples speaks of."""
        return tuple(map(str, self._noted["notes"]))

    @property
    def copies(self) -> int:
        """How many copies of these examples were left out, as the user declared beforehand."""
        return int(self._noted.get("copies", 0))

    @cached_property
    def _noted(self) -> Mapping[str, Any]:
        text = self.storage.read(_NOTES)
        try:
            found = {"notes": []} if text is None else from_bytes(text)
            return {**found, "notes": list(found["notes"])}
        except (DamagedError, KeyError, TypeError) as error:
            raise StoreError(f"'{self.url}/{_NOTES}' was damaged: {error}. Restore it from a copy.") from None

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
        for name, lines in self.storage.lines("done", to_add=self._to_add):
            for line in lines:
                try:
                    marker = Marker.from_json(line)
                except DamagedError as error:
                    raise StoreError(
                        f"'{self.url}/done/{name}' must hold markers of settings; a line is damaged ({error}). Restore the "
                        "file from a copy, or delete the line and run evaluate or tune with this store again."
                    ) from None
                self._markers.setdefault(config_id(marker.config), marker)

    def writing_together(self) -> AbstractContextManager[None]:
        """In object storage, settings that are written inside may wait a second for others, so that few requests are made.

        Local stores write each setting at once.
        """
        return nullcontext() if self._batches is None else self._batches.together()

    # ---------------------------------------------------------------- writing

    def write(self, config: Mapping[str, Any], losses: Mapping[str, Array]) -> None:
        """Add a setting: its losses first, its marker last. A setting that is there already is left as it is. It is in the
        store when this returns, except inside ``writing_together``. Masked values are missing outcomes."""
        name = config_id(config)
        with self._lock:
            if name in self._markers:
                return
            rows = {loss: stored(np.asarray(values)) for loss, values in losses.items()}
            self._check_losses(config, rows)
            if self._batches is None:
                self._markers[name] = self._write_in_place(config, losses, rows)
            else:
                self._markers[name] = self._write_in_batch(self._batches, config, losses, rows)

    def _write_in_place(
        self, config: Mapping[str, Any], losses: Mapping[str, Array], rows: Mapping[str, Array]
    ) -> Marker:
        part = self._part_for(rows)
        self._part = None  # until all went well: after an error nothing more is written where it happened

        def write(chunk: str, offset: int, together: int, values: Array) -> None:
            self.storage.write_at(chunk, offset, together * values.nbytes, values.data)

        marker = self._written(config, losses, rows, part, rows_in_chunk(self.n_examples), write)
        self.storage.add_lines("done", part.name.rpartition("/")[2], [marker.to_json()])
        self._part = part
        return marker

    def _write_in_batch(
        self, batches: RowBatches, config: Mapping[str, Any], losses: Mapping[str, Array], rows: Mapping[str, Array]
    ) -> Marker:
        with batches.lock:  # from the choice of a place until the row is there, nothing may be flushed in between
            if self._part is not None and not self._part.takes(rows):
                batches.flush()
            part = self._part_for(rows)
            if not len(batches):
                part.to_next_object()
            data: dict[str, bytes] = {}

            def write(chunk: str, offset: int, together: int, values: Array) -> None:
                data[chunk] = values.tobytes()

            marker = self._written(config, losses, rows, part, part.together, write)
            name = f"{part.name.rpartition('/')[2]}.{marker.row}"
            batches.add(data, marker.to_json(), marker=name, room=part.together)
        return marker

    def _written(
        self,
        config: Mapping[str, Any],
        losses: Mapping[str, Array],
        rows: Mapping[str, Array],
        part: Part,
        gaps_together: int,
        write: Callable[[str, int, int, Array], None],
    ) -> Marker:
        """The marker of a setting whose rows were written: each to its chunk, from an offset on, with so many to a chunk."""
        row, known = part.next_row(), {}
        for loss, values in rows.items():
            values, together = values.astype(part.dtypes[loss], copy=False), part.chunks[loss]
            write(*place(part.name, loss, row, together, values.nbytes), together, values)
            missing, gaps = missing_of(losses[loss]), None
            if missing is not None:
                self._make_gaps(part, loss, gaps_together)
                gaps_place = place(gaps_folder(part.name), loss, row, gaps_together, len(missing))
                write(*gaps_place, gaps_together, missing)
                gaps = Gaps.of(missing, gaps_together)
            known[loss] = Loss.of(values, together, missing, gaps)
        return Marker({str(name): plain(value) for name, value in config.items()}, part.name, row, known)

    def _make_gaps(self, part: Part, loss: str, together: int) -> None:
        """An array for missing outcomes, which is made for the first row that needs it."""
        if loss in part.gapped:
            return
        name, n = array_name(gaps_folder(part.name), loss), self.n_examples
        self._make_arrays({name: ((part.size, n), (together, n), np.dtype(np.bool_))})
        part.gapped.add(loss)

    def _make_arrays(self, arrays: Mapping[str, tuple[tuple[int, int], tuple[int, int], np.dtype[Any]]]) -> None:
        made = zarr_metadata(arrays, sharded=self._batches is not None)
        self.storage.write_all({name: made[name] for name in made if name != "zarr.json"})  # the group is there

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
            part, n = self._new_part(dtypes), self.n_examples
            shapes = {name: ((part.size, n), (part.chunks[name], n), dtypes[name]) for name in dtypes}
            self._make_arrays({array_name(part.name, name): shape for name, shape in shapes.items()})
            self._part = part
        return part

    def _new_part(self, dtypes: Mapping[str, np.dtype[Any]]) -> Part:
        name = f"parts/{uuid.uuid4().hex}"
        row_bytes = {loss: self.n_examples * kind.itemsize for loss, kind in dtypes.items()}
        if self._batches is None:
            return Part(name, dtypes, {loss: rows_in_chunk(size) for loss, size in row_bytes.items()}, os.getpid())
        together = rows_in_shard(max(row_bytes.values()))
        return Part(name, dtypes, dict.fromkeys(dtypes, together), os.getpid(), SHARDED_ROWS)

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
        limits = {name: (low, high) for name, (low, high) in {**self._header.bounds, **(bounds or {})}.items()}
        lazy = size > _LAZY_BYTES if lazy is None else lazy
        columns = {name: self._column(name, kind, markers, limits, trusting=lazy) for name, kind in types.items()}
        gaps = {name: self._gaps(name, markers) for name in types if any(m.losses[name].missing for m in markers)}
        if lazy:
            table = LossTable.of_columns(settings, columns, self.groups(), limits, missing=gaps)
        else:
            arrays = {name: column[slice(None)] for name, column in columns.items()}
            arrays |= {name: np.ma.MaskedArray(arrays[name], column[slice(None)]) for name, column in gaps.items()}
            table = LossTable(settings, arrays, self.groups(), limits)
        table.copies_left_out = self.copies
        return table

    def blocks(self, loss: str, rows: int = 64) -> Iterator[tuple[list[Config], Array]]:
        """The settings and the losses of one column, (rows, examples), a block at a time."""
        markers = self._chosen(None)
        known(loss, markers[0].losses, "loss")
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
        low = min((loss.low for loss in known if loss.low is not None), default=0.0)
        high = max((loss.high for loss in known if loss.high is not None), default=1.0)
        if kind.kind in "iu" and low >= -128 and high <= 127:
            kind = np.dtype(np.int8)  # as a table in memory holds them
        binary = kind.kind in "iu" and bounds.get(name, (0.0, 1.0)) == (0.0, 1.0) and low >= 0 and high <= 1
        return LazyColumn(
            self._batches or self.storage,
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

    def _gaps(self, name: str, markers: Sequence[Marker]) -> MissingColumn:
        rows = {row: gaps for row, marker in enumerate(markers) if (gaps := marker.losses[name].missing) is not None}
        n = self.n_examples
        places = [place(gaps_folder(markers[row].part), name, markers[row].row, g.rows, n) for row, g in rows.items()]
        digests = [bytes.fromhex(gaps.sha256) for gaps in rows.values()]
        kind = np.dtype(np.bool_)
        held = LazyColumn(self._batches or self.storage, places, [kind] * len(rows), digests, kind, n, (0.0, 1.0))
        return MissingColumn(held, np.array(list(rows), dtype=np.int64), len(markers))

    def groups(self) -> dict[str, Groups]:
        """The groups of the examples."""
        return self._header.groups(self.storage)
