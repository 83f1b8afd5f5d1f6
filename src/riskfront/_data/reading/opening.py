"""From what people name, a path, a glob, a folder, a URL or a data frame, to a source of rows."""

from __future__ import annotations

import glob
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from riskfront._data.reading.batches import (
    LONGEST_ROW,
    InMemory,
    ParquetFiles,
    Source,
    Stream,
    TextFile,
    is_too_long,
    said,
    state_of_file,
    whole,
    with_wider_types,
)
from riskfront._data.reading.json_depth import CheckedLines
from riskfront._data.stores.open_storage import default_options
from riskfront.errors import InvalidInputError, MissingExtraError, RiskfrontError, StoreError

_BLOCK = 1 << 24  # bytes of JSON lines that are parsed at a time
_FIRST_BLOCK = 1 << 22  # bytes of a text file that show the types of its columns, where no other place can be looked at
_PLACES, _PLACE = 4, 1 << 20  # places of a CSV file that are looked at otherwise, and bytes at each
_NUMBERED = re.compile(r"^__index_level_\d+__$")  # how pandas calls an index without a name
_TEXT_FILES = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson", ".json")
_OTHER_TABLES = (".arrow", ".feather", ".ipc", ".orc", ".avro", ".xlsx")
_OPENED = partial(open, mode="rb")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # how Spark and Hive name the folder of rows without a value
_PACKED = (".gz", ".bz2", ".zst", ".lz4")


def read_frame(path: str | os.PathLike[str]) -> pd.DataFrame:
    """All of a file, as a data frame."""
    return with_wider_types(from_path(path), lambda source: whole(source).to_pandas())


def from_frame(data: Any) -> Source | None:
    """A pandas, Polars or Arrow table, a DuckDB relation: anything with the Arrow stream protocol; None for other objects."""
    if isinstance(data, pd.DataFrame):
        _refuse_repeated([str(name) for name in data.columns], "the data frame")
        try:
            return InMemory(_checked(pa.Table.from_pandas(data, preserve_index=False), "the data frame"))
        except (pa.ArrowException, TypeError, OverflowError) as error:
            reason = " ".join(str(part) for part in error.args).rstrip(".")
            raise InvalidInputError(
                f"each column of a data frame must hold values of one kind; {reason}. Convert that column."
            ) from None
    if isinstance(data, pa.Table):
        return InMemory(_checked(data, "the table"))
    if not hasattr(data, "__arrow_c_stream__"):
        return None
    kind = type(data).__name__
    try:
        return InMemory(_checked(pa.table(data), f"the {kind}"))
    except pa.ArrowException as error:
        reason = " ".join(str(error).split())
        raise InvalidInputError(f"a {kind} must hold columns that Arrow knows; {reason}. Convert it.") from None


def from_path(path: str | os.PathLike[str]) -> Source:
    """A Parquet, CSV or JSON-lines file, a folder or a glob of Parquet files, or the URL of any of these."""
    text = os.fspath(path)
    if "://" in text:
        return _from_url(text, default_options())
    if any(sign in text for sign in "*?[") and not Path(text).exists():
        return _one_or_many(text, _named_by(text), str(Path(text).parent))
    if Path(text).is_dir():
        _refuse_others(_data_files(text))
        return _one_or_many(text, parts_of(text), text)
    if not Path(text).exists():
        raise StoreError(f"cannot read '{text}': no such file or folder.")
    if _suffix(text) in _TEXT_FILES and not _begins_like_parquet(text):
        size = None if Path(text).suffix.lower() in _PACKED else os.path.getsize(text)
        return _text_file(text, _suffix(text), lambda: pa.input_stream(text, compression="detect"), size)
    if _suffix(text) in (".parquet", ".pq") or _begins_like_parquet(text):
        return _parquet(text, [text], [{}])
    raise InvalidInputError(
        f"a table must be a Parquet (.parquet), CSV (.csv, .tsv) or JSON-lines (.jsonl) file; got '{text}'."
    )


def _named_by(pattern: str) -> list[str]:
    """The files that a pattern names, and the parts below the folders that it names: Spark writes a folder "x.parquet"."""
    found: set[str] = set()
    for name in map(os.path.normpath, glob.glob(pattern, recursive=True)):
        if not _is_data(os.path.basename(name)) and os.path.basename(pattern)[:1] not in ("_", "."):
            continue
        if os.path.isdir(name):
            _refuse_others(_data_files(name))
            found |= {os.path.normpath(part) for part in parts_of(name)}
        else:
            found.add(name)
    if not found:
        raise StoreError(f"cannot read '{pattern}': no file has such a name.")
    return sorted(found)


def parts_of(folder: str | os.PathLike[str]) -> list[str]:
    """The Parquet files below a folder, sorted; what begins with "_" or "." is not data, as for Spark and DuckDB."""
    return sorted(path for path in _data_files(folder) if _is_part(path))


def _refuse_others(paths: Iterable[str]) -> None:
    """Files of other kinds beside the parts would be left out without a word."""
    for path in paths:
        if _suffix(path) in (*_TEXT_FILES, *_OTHER_TABLES):
            raise InvalidInputError(
                f"a folder that is one table must hold Parquet files alone; '{path}' is of another kind. Name the files with a "
                "pattern, such as 'folder/*.parquet'."
            )


def _refuse_versions(name: str, inside: Iterable[str]) -> None:
    """A Delta or Hudi table keeps files of rows that were replaced or deleted."""
    for log in sorted({"_delta_log", ".hoodie"} & set(inside)):
        raise InvalidInputError(
            f"a folder that is one table must hold its current rows alone; '{name}' has a '{log}', and beside the current "
            "files those of older versions. Read the current version and give its Arrow table, such as "
            "deltalake.DeltaTable(folder).to_pyarrow_table(), or write it to a folder of its own."
        )


def _data_files(folder: str | os.PathLike[str]) -> Iterator[str]:
    """Every file below a folder that may hold data; links are followed, each folder is visited once."""
    visited = set()
    for place, names, files in os.walk(folder, followlinks=True):
        visited.add(os.path.realpath(place))
        _refuse_versions(place, names)
        names[:] = [n for n in names if _is_data(n) and os.path.realpath(os.path.join(place, n)) not in visited]
        yield from (os.path.join(place, name) for name in files if _is_data(name))


def _is_data(name: str) -> bool:
    """Whether a file or folder holds data: hidden ones, and those of Spark itself, do not, but a partition does."""
    return name[0] not in "_." or "=" in name


def _is_part(path: str, opened: Callable[[str], Any] = _OPENED) -> bool:
    return path.lower().endswith((".parquet", ".pq")) or _begins_like_parquet(path, opened)


def _one_or_many(name: str, files: Sequence[str], root: str) -> Source:
    if not files:
        raise StoreError(f"cannot read '{name}': it holds no Parquet file.")
    kinds = {_suffix(file) for file in files}
    if kinds & set(_TEXT_FILES):
        if len(files) == 1:
            return from_path(files[0])
        raise InvalidInputError(
            f"several files that make one table must be Parquet; '{name}' holds {', '.join(sorted(kinds))}."
        )
    return _parquet(name, files, [_partitions(file, root) for file in files])


def _partitions(file: str, root: str) -> dict[str, str | None]:
    """The hive partitions in the path of a file: model=a%2Fb/part-0.parquet has model = a/b."""
    between = os.path.relpath(file, root).split(os.sep)[:-1]
    named = (part.split("=", 1) for part in between if "=" in part)
    return {key: None if value == _NO_VALUE else unquote(value) for key, value in named}


def _parquet(
    name: str,
    files: Sequence[str],
    values: Sequence[Mapping[str, str | None]],
    opened: Callable[[str], Any] = str,
    state: Callable[[str], list[Any]] = state_of_file,
) -> ParquetFiles:
    schemas, rows = [], []
    for path, partition in zip(files, values, strict=True):
        with said(path), pq.ParquetFile(opened(path)) as file:
            kept = [f for f in file.schema_arrow if not _NUMBERED.match(f.name) and f.name not in partition]
            kept += [pa.field(key, pa.string()) for key in partition]
            schemas.append(pa.schema(kept, file.schema_arrow.metadata))
            rows.append(file.metadata.num_rows)
    try:
        schema = schemas[0] if len(schemas) == 1 else pa.unify_schemas(schemas, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidInputError(
            f"the files of '{name}' must be parts of one table; their columns differ ({error})."
        ) from None
    for at, column in enumerate(schema):
        if pa.types.is_decimal(column.type):  # 0.1 in SQL
            schema = schema.set(at, pa.field(column.name, pa.float64()))
    for key in {key for partition in values for key in partition}:
        kind = _kind_of_partition([partition[key] for partition in values if key in partition])
        schema = schema.set(schema.get_field_index(key), pa.field(key, kind))
    _refuse_repeated(schema.names, name)
    return ParquetFiles(name, list(files), list(values), schema, rows, opened, state)


def _kind_of_partition(texts: Sequence[str | None]) -> pa.DataType:
    """Whole numbers, decimals or texts: the first that all values are."""
    for kind in (pa.int64(), pa.float64()):
        try:
            pa.array(list(texts), pa.string()).cast(kind)
            return kind
        except pa.ArrowInvalid:
            continue
    return pa.string()


def _text_file(name: str, suffix: str, opened: Callable[[], Any], size: int | None = None) -> TextFile:
    whole_schema: Callable[[], pa.Schema] | None = None
    if suffix in (".jsonl", ".ndjson", ".json"):

        def lines() -> CheckedLines:
            return CheckedLines(opened(), name)

        stream, whole_schema = _json_stream(lines), lambda: _schema_of_all_lines(lines)
    else:
        stream = _csv_stream(opened, "\t" if suffix == ".tsv" else ",")
    has_places = whole_schema is None and size is not None and size > 2 * _PLACES * _PLACE
    with said(name):
        first = _first_batch(stream, _PLACE if has_places else _FIRST_BLOCK)
        names = [] if first is None else first.schema.names  # they may be no text
    if first is None:
        raise InvalidInputError(f"a table must have at least one row; '{name}' is empty.")
    _refuse_repeated(names, name)
    found = TextFile(name, _without_dates(first.schema), stream, whole_schema)
    if size is None or not has_places:
        return found
    places = [_place_of(opened, size * at // _PLACES, first.schema.names, suffix == ".tsv") for at in range(1, _PLACES)]
    seen = [first, *(batch for batch in places if batch is not None)]
    try:
        schema = pa.unify_schemas(
            [_without_dates(batch.schema, nulls=False) for batch in seen], promote_options="permissive"
        )
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # texts among numbers: reading tells
        return found
    rows = sum(len(batch) for batch in seen) * size // (len(seen) * _PLACE)
    return replace(found, schema=_without_dates(schema), places=seen, expected_rows=rows + rows // 50)


def _place_of(opened: Callable[[], Any], start: int, names: Sequence[str], tabs: bool) -> pa.RecordBatch | None:
    """Rows of a CSV file from about this byte on; None where a line is no row. What they suggest is confirmed by reading."""
    from pyarrow import csv

    with opened() as file:
        file.seek(start)
        lines = file.read(_PLACE).partition(b"\n")[2].rpartition(b"\n")[0]
    try:
        read = csv.ReadOptions(column_names=list(names), use_threads=False, block_size=2 * _PLACE)
        convert = csv.ConvertOptions(null_values=[""], strings_can_be_null=True)
        found = csv.read_csv(pa.BufferReader(lines), read, csv.ParseOptions(delimiter="\t" if tabs else ","), convert)
    except pa.ArrowException:
        return None
    return found.combine_chunks().to_batches()[0] if len(found) else None


def _first_batch(stream: Stream, block: int) -> pa.RecordBatch | None:
    """The first rows; more of them where a single one is longer."""
    try:
        return next(iter(stream(None, None, block)), None)
    except pa.ArrowInvalid as error:
        if not is_too_long(str(error)) or block >= LONGEST_ROW:
            raise
        return _first_batch(stream, 16 * block)


def _csv_stream(opened: Callable[[], Any], separator: str) -> Stream:
    from pyarrow import csv

    def stream(schema: pa.Schema | None, columns: Sequence[str] | None, block: int) -> Iterator[pa.RecordBatch]:
        # only an empty cell is missing: "NA" and "None" may be settings, and are no numbers in a loss
        convert = csv.ConvertOptions(
            column_types={} if schema is None else schema,
            null_values=[""],
            strings_can_be_null=True,
            include_columns=list(columns or []),
        )
        parse = csv.ParseOptions(delimiter=separator, newlines_in_values=True)
        with opened() as file, csv.open_csv(file, csv.ReadOptions(block_size=block), parse, convert) as reader:
            yield from reader

    return stream


def _json_stream(opened: Callable[[], Any]) -> Stream:
    from pyarrow import json

    def stream(schema: pa.Schema | None, columns: Sequence[str] | None, block: int) -> Iterator[pa.RecordBatch]:
        parse = json.ParseOptions(explicit_schema=schema, newlines_in_values=False)
        with (
            closing(opened()) as file,
            json.open_json(file, json.ReadOptions(block_size=max(block, _BLOCK)), parse) as reader,
        ):
            yield from reader

    return stream


def _schema_of_all_lines(opened: Callable[[], Any]) -> pa.Schema:
    """The columns of all JSON lines; whole numbers become decimals where some rows have decimals."""
    from pyarrow import json

    found, rest = pa.schema([]), b""
    with closing(opened()) as file:
        while True:
            read = file.read(_BLOCK)
            lines, _, rest = (rest + read).rpartition(b"\n") if read else (rest, b"", b"")
            if lines.strip():
                options = json.ReadOptions(block_size=len(lines) + 1)
                block = json.read_json(pa.BufferReader(lines), options)
                found = pa.unify_schemas(
                    [found, _without_dates(block.schema, nulls=False)], promote_options="permissive"
                )
            if not read:
                return _without_dates(found)


def _without_dates(schema: pa.Schema, *, nulls: bool = True) -> pa.Schema:
    """Dates and times as the texts they are: a setting is a number, a text or a truth value."""
    for index, known in enumerate(schema):
        if pa.types.is_temporal(known.type) or (nulls and pa.types.is_null(known.type)):
            schema = schema.set(index, pa.field(known.name, pa.string()))
    return schema


def _from_url(url: str, options: dict[str, Any]) -> Source:
    try:
        import fsspec
    except ImportError as error:
        raise MissingExtraError("fsspec", "store") from error
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    try:
        remote, path = fsspec.core.url_to_fs(url, **options)
        remote.invalidate_cache()  # what it listed before may have changed
        found = _remote_files(remote, path)
    except ImportError as error:
        raise MissingExtraError(str(error.name or "fsspec"), "store") from error
    except RiskfrontError:
        raise
    except Exception as error:  # each storage has errors of its own
        raise StoreError(
            f"cannot read '{url}': {type(error).__name__}: {' '.join(str(error).split())[:200]}."
        ) from error
    arrow = PyFileSystem(FSSpecHandler(remote))
    if len(found) == 1 and _suffix(found[0]) in _TEXT_FILES:
        return _text_file(url, _suffix(found[0]), lambda: arrow.open_input_stream(found[0], compression="detect"))
    if not found:
        raise StoreError(f"cannot read '{url}': it holds no Parquet file.")
    opened, partitions = arrow.open_input_file, [_partitions(name, path) for name in found]
    return _parquet(url, found, partitions, opened, lambda name: _state_of_remote(remote.info(name), name, opened))


def _state_of_remote(known: Mapping[str, Any], name: str, opened: Callable[[str], Any]) -> list[Any]:
    """What changes when a file behind a URL is written again: what its storage says of it (size, time, ETag), and its footer,
    which holds sizes and ranges of all columns, for storages that say little."""
    plain = {key: value for key, value in known.items() if isinstance(value, str | bytes | int | float | datetime)}
    told = sorted(f"{key} = {value!r}" for key, value in plain.items() if "access" not in key.lower())
    with said(name), opened(name) as file:
        end = file.size() - 8
        file.seek(end)
        length = int.from_bytes(file.read(4), "little")
        file.seek(end - length)
        return [name, told, hashlib.sha256(file.read(length)).hexdigest()]


def _remote_files(remote: Any, path: str) -> list[str]:
    """The files that a path or a pattern names on another storage, and the parts below the folders that it names."""
    pattern = any(sign in path for sign in "*?[")
    kind = "file" if pattern or not remote.isdir(path) else "directory"
    named = remote.glob(path, detail=True) if pattern else {path: {"type": kind}}
    found: set[str] = set()
    for name, known in named.items():
        if pattern and not _is_data(name.rstrip("/").rpartition("/")[2]):
            continue
        if known["type"] == "directory":
            inside = name.rstrip("/") + "/"
            every = remote.find(name)
            _refuse_versions(name, (part for n in every for part in n.removeprefix(inside).split("/")[:-1]))
            below = [n for n in every if all(map(_is_data, n.removeprefix(inside).split("/")))]
            _refuse_others(below)
            found |= {part for part in below if _is_part(part, remote.open)}
        else:
            found.add(name)
    if len(found) > 1:
        _refuse_others(found)
    return sorted(found)


def holds_parts(url: str) -> bool:
    """Whether a URL is a folder with Parquet files and no store: nothing is read but names."""
    try:
        import fsspec

        remote, path = fsspec.core.url_to_fs(url, **default_options())
        if any(remote.exists(f"{path.rstrip('/')}/{name}") for name in ("zarr.json", "task.json")):
            return False
        return remote.isdir(path) and any(name.lower().endswith((".parquet", ".pq")) for name in remote.find(path))
    except Exception:  # each storage has errors of its own; whoever opens it says which
        return False


def _suffix(path: str) -> str:
    """The kind of a file by its name, whatever it is compressed with; a query ("?signature=...") is no part of a name."""
    kinds = Path(path.partition("?")[0] if "://" in path else path).suffixes
    if kinds and kinds[-1].lower() in _PACKED and len(kinds) > 1:
        return kinds[-2].lower()
    return ".csv" if kinds and kinds[-1].lower() in _PACKED else (kinds[-1].lower() if kinds else "")


def _begins_like_parquet(path: str, opened: Callable[[str], Any] = _OPENED) -> bool:
    try:
        with opened(path) as file:
            return bool(file.read(4) == b"PAR1")
    except OSError:
        return False


def _checked(table: pa.Table, name: str) -> pa.Table:
    _refuse_repeated(table.schema.names, name)
    if table.num_rows == 0:
        raise InvalidInputError("a table must have at least one row; this one is empty.")
    return _without_views(table)


def _without_views(table: pa.Table) -> pa.Table:
    """Columns as Arrow's functions know them: Polars and DuckDB hand over views of texts, and runs may be encoded."""
    for at, known in enumerate(table.schema):
        kind, column = known.type, table.column(at)
        if pa.types.is_string_view(kind):
            column = column.cast(pa.large_string())
        elif pa.types.is_decimal(kind):  # 0.1 in SQL
            column = column.cast(pa.float64())
        elif pa.types.is_run_end_encoded(kind):
            column = pa.chunked_array([pc.run_end_decode(chunk) for chunk in column.chunks], kind.value_type)
        elif pa.types.is_dictionary(kind) and pa.types.is_string_view(kind.value_type):
            chunks = [
                pa.DictionaryArray.from_arrays(
                    chunk.indices, chunk.dictionary.cast(pa.large_string()), ordered=kind.ordered
                )
                for chunk in column.chunks
            ]
            column = pa.chunked_array(chunks, pa.dictionary(kind.index_type, pa.large_string(), kind.ordered))
        table = table if column.type == kind else table.set_column(at, known.name, column)
    return table


def _refuse_repeated(names: Sequence[str], where: str) -> None:
    """Nobody could tell which of two columns with one name was certified."""
    repeated = sorted({str(name) for name in names if list(names).count(name) > 1})
    if repeated:
        raise InvalidInputError(f"column names must differ; '{repeated[0]}' comes more than once in '{where}'.")
