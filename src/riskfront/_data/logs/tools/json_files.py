"""JSON, JSON Lines, exported rows and members of ZIP files, with errors that name the file, the line and the field."""

from __future__ import annotations

import json
import math
import os
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from riskfront._data.reading.opening import read_frame
from riskfront.errors import InvalidInputError, RiskfrontError, StoreError

_decode, _decode_start = json.JSONDecoder().decode, json.JSONDecoder().raw_decode
_TOO_MUCH = "its values must not be nested thousands deep, nor its numbers have thousands of digits."


def read_json(path: Path) -> Any:
    """What a JSON file holds."""
    with _reading(path):
        text = path.read_text(encoding="utf-8-sig")
    return parse_json(text, f"'{path}'")


def parse_json(text: str | bytes, where: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidInputError(
            f"{where}, line {error.lineno}: must be JSON; it is not, or the file was cut off there ({error.msg})."
        ) from None
    except UnicodeDecodeError:
        raise InvalidInputError(f"{where}: must be JSON in UTF-8; it is another kind of file.") from None
    except (RecursionError, ValueError):
        raise InvalidInputError(f"{where}: {_TOO_MUCH}") from None


def read_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a JSON Lines file, each with the place it comes from; empty lines are skipped."""
    return ((f"'{path}', line {number}", found) for number, found in numbered_lines(path))


def numbered_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The same with the number of each line."""
    for number, line in enumerate(_lines(path), start=1):
        found = _object(line)
        if found is None and line.strip():
            found = _checked(line, f"'{path}', line {number}")
        if found is not None:
            yield number, found


def _object(line: str) -> dict[str, Any] | None:
    """The object that a line consists of; None where it may be something else."""
    try:
        found, end = _decode_start(line)
    except (RecursionError, ValueError):
        return None
    return found if type(found) is dict and (line.endswith("\n", end) and len(line) == end + 1) else None


def _checked(line: str, where: str) -> dict[str, Any]:
    """The object of a line, or a sentence that says what is wrong with it."""
    try:
        found = _decode(line)
    except json.JSONDecodeError as error:
        raise InvalidInputError(
            f"{where}: must be one JSON object; it is not, or the file was cut off there ({error.msg})."
        ) from None
    except (RecursionError, ValueError):
        raise InvalidInputError(f"{where}: {_TOO_MUCH}") from None
    if not isinstance(found, dict):
        raise InvalidInputError(f"{where}: must be one JSON object; got {type(found).__name__}.")
    return found


def _lines(path: Path) -> Iterator[str]:
    """The lines of a file, one at a time. Other signs that end a line for Python may stand in the texts of a JSON line."""
    with _reading(path), path.open(encoding="utf-8-sig", newline="\n") as file:
        yield from file


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"cannot read '{path}': {error.strerror}.") from error
    except UnicodeDecodeError:
        raise InvalidInputError(f"'{path}': must be text in UTF-8; it is another kind of file.") from None


def field(record: Mapping[str, Any], name: str, where: str, tool: str) -> Any:
    """A field that every file of this tool has."""
    if not isinstance(record, Mapping) or name not in record:
        raise InvalidInputError(
            f"{where}: there is no field '{name}'. Is this a file of {tool}, and of a version it can read?"
        )
    return record[name]


def object_of(record: Any, name: str, where: str) -> Mapping[str, Any]:
    """A field that holds an object; without it, or with null, an empty one."""
    found = must_be_object(record, where).get(name)
    return {} if found is None else must_be_object(found, where, f"the field '{name}'")


def list_of(found: Any, where: str, what: str) -> list[Any]:
    """A list, or a sentence that says that it is none."""
    if not isinstance(found, list):
        raise InvalidInputError(f"{where}: {what} must be a list; got {_kind(found)}.")
    return found


def must_be_object(found: Any, where: str, what: str = "it") -> Mapping[str, Any]:
    if not isinstance(found, Mapping):
        raise InvalidInputError(f"{where}: {what} must be a JSON object; got {_kind(found)}.")
    return found


def _kind(value: Any) -> str:
    names = {"NoneType": "nothing", "list": "a list", "str": "a text", "dict": "an object", "bool": "true or false"}
    return names.get(type(value).__name__, f"the number {value}")


def below(path: Path, *patterns: str) -> list[Path]:
    """The file itself, or the files below a folder whose names fit, sorted; links are followed, each folder is visited once."""
    if not path.exists():
        raise StoreError(f"cannot read '{path}': no such file or folder.")
    if path.is_file():
        return [path] if any(path.match(pattern) for pattern in patterns) else []
    found, visited = set[Path](), set[str]()
    for place, folders, names in os.walk(path, followlinks=True):
        visited.add(os.path.realpath(place))
        folders[:] = [name for name in folders if os.path.realpath(os.path.join(place, name)) not in visited]
        files = [Path(place, name) for name in names]
        found |= {file for file in files if any(file.match(pattern) for pattern in patterns) and file.is_file()}
    return sorted(found)


_SMALL = 2**20  # bytes; a log that was cut off later than that is known by what it holds


def cut_off(path: Path, found: Sequence[Path]) -> list[Path]:
    """Files beside the logs that were ``found`` in a folder, with their endings, that are empty or no whole JSON.

    Nobody can tell what they were going to hold, and a log that is lost without a word would be missed.
    """
    if path.is_file():
        return []
    endings = sorted({file.suffix for file in found} & {".json", ".jsonl"})
    others = [] if not endings else sorted({*below(path, *(f"*{ending}" for ending in endings))} - {*found})
    return [file for file in others if not file.name.startswith(".") and _is_cut_off(file)]


def _is_cut_off(file: Path) -> bool:
    size = file.stat().st_size
    if size == 0 or file.suffix != ".json" or size > _SMALL:
        return size == 0
    try:
        read_json(file)
    except RiskfrontError:
        return True
    return False


#: endings of files that are read
KINDS = (".json", ".jsonl", ".csv", ".parquet")


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of an export with names_like_this; texts that are JSON are what they say."""
    if path.suffix.lower() == ".jsonl":
        rows: list[Any] = [row for _, row in read_lines(path)]
    elif path.suffix.lower() == ".json":
        found = read_json(path)
        rows = list_of(found.get("data") if isinstance(found, Mapping) else found, f"'{path}'", "the rows")
    else:
        rows = read_frame(path).to_dict("records")
    objects = (must_be_object(row, f"'{path}'") for row in rows)
    return [
        {re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", str(key)).lower(): _known(value) for key, value in found.items()}
        for found in objects
    ]


def _known(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, str) and value[:1] in "[{":
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


_ZSTD = 93  # Python's zipfile reads it from 3.14 on; Arrow reads it everywhere
_MOST = 512 * 2**20  # bytes of one member: what JSON takes in memory is some ten times that
_MOST_IN_ALL = 8 * 2**30  # bytes of all samples of a log, which are read one after the other


def must_fit(path: Path, members: Sequence[zipfile.ZipInfo]) -> None:
    """An error if the members of a log say that they are too large together."""
    total = sum(member.file_size for member in members)
    if total > _MOST_IN_ALL:
        raise InvalidInputError(_too_large(path, "its samples", total, _MOST_IN_ALL))


def unpacked(path: Path, member: zipfile.ZipInfo) -> bytes:
    """What a member holds, which is never more than it says."""
    if member.file_size > _MOST:
        raise InvalidInputError(_too_large(path, f"'{member.filename}'", member.file_size, _MOST))
    try:
        content = _from_zstd(path, member) if member.compress_type == _ZSTD else _from_zip(path, member)
    except (OSError, pa.ArrowException, zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError):
        raise InvalidInputError(f"'{path}': '{member.filename}' is damaged.") from None
    if len(content) != member.file_size:
        raise InvalidInputError(
            f"'{path}': '{member.filename}' must have {member.file_size:,} bytes, as it says; it has {len(content):,} or more."
        )
    return content


def _from_zip(path: Path, member: zipfile.ZipInfo) -> bytes:
    with zipfile.ZipFile(path) as archive, archive.open(member) as opened:
        return opened.read(member.file_size + 1)


def _from_zstd(path: Path, member: zipfile.ZipInfo) -> bytes:
    with path.open("rb") as file:
        file.seek(member.header_offset + 26)  # the local header tells the lengths of the name and of the extra field
        name, extra = (int.from_bytes(file.read(2), "little") for _ in range(2))
        file.seek(member.header_offset + 30 + name + extra)
        packed = file.read(member.compress_size)
    with pa.input_stream(pa.py_buffer(packed), compression="zstd") as stream:
        found: bytes = stream.read(member.file_size + 1)
    return found


def _too_large(path: Path, what: str, size: int, most: int) -> str:
    return (
        f"'{path}': {what} must unpack to at most {most / 2**20:,.0f} MB; it says {size / 2**20:,.0f} MB. If the log is yours, "
        "convert it with 'inspect log convert --to json'."
    )
