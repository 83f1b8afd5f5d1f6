"""Outcomes from a growing file or from standard input, each counted once: reading goes on where the last run ended."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd

from riskfront._support.checked_json import DamagedError, parse_json
from riskfront._support.files import check_writable, sync_file, sync_folder
from riskfront.errors import InvalidInputError, StoreError

CHUNK = 4_000_000  # bytes that are read at a time
_KNOWN = 4096  # bytes at the beginning and before the end by which a file is recognised
_TELLING = 1024  # shorter beginnings may be equal by chance
NO_VALUE = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-nan", "NULL", "null", "None")


@dataclass(frozen=True, slots=True)
class Position:
    """Where reading ended.

    offset: in bytes. header: the columns of a CSV file, or the names seen in JSON lines. rows: outcomes before the offset.
    head, tail: digests of what was read at the beginning and just before the offset. open_line: whether the last line had
    no end yet.
    """

    offset: int = 0
    header: tuple[str, ...] = ()
    rows: int = 0
    head: str = ""
    tail: str = ""
    open_line: bool = False

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "header": list(self.header)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Position:
        return cls(**{**data, "header": tuple(data["header"])})


def format_of(name: str, beginning: bytes) -> str:
    """ "json" for JSON lines, else the character that separates columns."""
    suffix = Path(name).suffix.lower()
    if suffix in (".jsonl", ".ndjson", ".json") or (suffix not in (".csv", ".tsv") and beginning.lstrip()[:1] == b"{"):
        return "json"
    return "\t" if suffix == ".tsv" else ","


class OutcomeFile:
    """A file that outcomes are appended to.

    Args:
        position: where the last run ended; from the beginning by default.
        others: where reading of other files ended, so that the same outcomes under another name are refused.
        names: columns that hold names, as of groups: they are read as they are written, "NA" and "01" too.
    """

    def __init__(
        self,
        path: Path,
        position: Position | None = None,
        others: Sequence[Position] = (),
        names: Sequence[str] = (),
    ) -> None:
        self.path, self.position, self._names = path, position or Position(), tuple(names)
        with self._opened() as file:
            self._check(file)
            if position is None:
                self._check_new(file, others)
            file.seek(0)
            self._format = format_of(path.name, file.read(64))

    def _opened(self) -> BinaryIO:
        try:
            return self.path.open("rb")
        except OSError as error:
            raise StoreError(f"cannot read the outcomes '{self.path}': {error.strerror}.") from error

    def _check(self, file: BinaryIO) -> None:
        """What was read must still be there."""
        offset = self.position.offset
        if offset and _tail(file, offset) != self.position.tail:
            raise InvalidInputError(
                f"outcomes may only be appended to a file that is watched; what was read of '{self.path}' before, "
                f"{offset:,} bytes, is not there any more. If it is a new file, give it another name."
            )

    def _check_new(self, file: BinaryIO, others: Sequence[Position]) -> None:
        for other in others:
            length = min(other.offset, _KNOWN)
            if length >= _TELLING and _head(file, length) == other.head:
                raise InvalidInputError(
                    f"every outcome may count once; '{self.path}' begins as a file that was read before under another name."
                )

    def read(self, *, complete: bool = False) -> Iterator[tuple[dict[str, Any], Position]]:
        """New outcomes in parts, each with the position after it; nothing where there are none.

        Args:
            complete: whether a last line without an end counts; while a file is written to, it may be half of one.
        """
        with self._opened() as file:
            self._check(file)
            while True:
                file.seek(self.position.offset)
                data = file.read(CHUNK)
                taken = _lines_of(data, self._format)
                at_end = len(data) < CHUNK
                if taken == 0 and data and not at_end:
                    raise InvalidInputError(f"a line of '{self.path}' is longer than {CHUNK:,} bytes.")
                open_line = complete and at_end and taken < len(data) and bool(data[taken:].strip())
                part = data if open_line else data[:taken]
                if not part:
                    return
                columns, header, rows = parsed(
                    self._after_open_line(part), self.position.header, self._format, self._names
                )
                offset = self.position.offset + len(part)
                self.position = Position(
                    offset,
                    header,
                    self.position.rows + rows,
                    _head(file, min(offset, _KNOWN)),
                    _tail(file, offset),
                    open_line,
                )
                yield columns, self.position

    def _after_open_line(self, part: bytes) -> bytes:
        if not self.position.open_line:
            return part
        if part[:1] not in (b"\n", b"\r"):
            raise InvalidInputError(
                f"the last line of '{self.path}' was counted before its end was written, and it went on. Read files that are "
                "still written to with --follow."
            )
        return part[2:] if part[:2] == b"\r\n" else part[1:]


class OutcomeStream:
    """Outcomes from standard input; they are all new, since nothing can be read twice. ``names`` as of an ``OutcomeFile``."""

    def __init__(self, stream: BinaryIO, names: Sequence[str] = ()) -> None:
        self._stream, self._rest, self._format, self._names = stream, b"", "", tuple(names)
        self.position = Position()

    def read(self) -> Iterator[tuple[dict[str, Any], Position]]:
        """Until the end of the input."""
        ended = False
        while not ended:
            more = self._stream.read1(CHUNK) if hasattr(self._stream, "read1") else self._stream.read(CHUNK)
            ended = not more
            data = self._rest + more
            self._format = self._format or (format_of("", data) if data.strip() else "")
            taken = len(data) if ended else _lines_of(data, self._format or ",")
            part, self._rest = data[:taken], data[taken:]
            if not part.strip():
                continue
            columns, header, rows = parsed(part, self.position.header, self._format, self._names)
            offset = self.position.offset + len(part)
            self.position = replace(self.position, offset=offset, header=header, rows=self.position.rows + rows)
            yield columns, self.position


def _lines_of(data: bytes, kind: str) -> int:
    """How many bytes of whole lines there are; a line of a CSV file does not end inside a quoted cell."""
    end = data.rfind(b"\n")
    if kind == "json" or b'"' not in data:
        return end + 1
    # a cell is quoted if it begins with a quote: one in the middle of a cell, as in 5" pipe, opens nothing
    quoted = [cell.span() for cell in re.finditer(rb'(?:(?<=[\n\r%b])|\A)"(?:[^"]+|"")*"?' % kind.encode(), data)]
    while end >= 0 and quoted:
        start, stop = quoted.pop()
        closed = stop - start > 1 and data[stop - 1 : stop] == b'"'
        if start < end and (end < stop or not closed):
            end = data.rfind(b"\n", 0, start)
    return end + 1


def parsed(
    data: bytes, header: tuple[str, ...], kind: str, names: Sequence[str] = ()
) -> tuple[dict[str, Any], tuple[str, ...], int]:
    """Columns by name, the header, and how many rows there are. In the columns ``names`` cells stay as they are written."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"outcomes must be CSV or JSON lines, as UTF-8 text; these are not ({error.reason}). Write another format, such as "
            "Parquet, as CSV first."
        ) from None
    return _from_json(text, header) if kind == "json" else _from_csv(text, header, kind, names)


def _from_csv(
    text: str, header: tuple[str, ...], separator: str, names: Sequence[str]
) -> tuple[dict[str, Any], tuple[str, ...], int]:
    if not header:
        first = io.StringIO(text, newline="")
        header = tuple(name.strip() for name in next(csv.reader(first, delimiter=separator), []))
        text = first.read()
        if not header or len(set(header)) < len(header):
            raise InvalidInputError(f"outcomes must begin with a line of column names, each once; got {list(header)}.")
    if not text:
        return {name: np.zeros(0) for name in header}, header, 0
    try:
        with warnings.catch_warnings():
            # a row with more cells than the header would lose some
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(
                io.StringIO(text, newline=""),
                sep=separator,
                header=None,
                names=list(header),
                dtype=dict.fromkeys((name for name in names if name in header), str),
                keep_default_na=False,
                na_values={name: NO_VALUE for name in header if name not in names},
                index_col=False,
                on_bad_lines="error",
                skip_blank_lines=len(header) > 1,  # the empty line of a single column is a missing outcome
            )
    except (pd.errors.ParserError, pd.errors.ParserWarning, ValueError) as error:
        found = "a row has more cells" if isinstance(error, pd.errors.ParserWarning) else error
        raise InvalidInputError(f"outcomes must be a table with the columns {list(header)}; {found}.") from None
    return {name: frame[name].to_numpy() for name in header}, header, len(frame)


def _from_json(text: str, header: tuple[str, ...]) -> tuple[dict[str, Any], tuple[str, ...], int]:
    records = []
    for number, line in enumerate(text.split("\n"), 1):  # texts may hold other ends of lines, such as U+2028
        if not line.strip():
            continue
        try:
            record = parse_json(line)
        except DamagedError as error:
            raise InvalidInputError(
                f"every line must be a JSON object; line {number} of the new ones is not: {error}."
            ) from None
        if not isinstance(record, dict):
            raise InvalidInputError(
                f"every line must be a JSON object; line {number} of the new ones is {line[:40]!r}."
            )
        records.append(record)
    names = tuple(dict.fromkeys([*header, *(str(name) for record in records for name in record)]))
    # one cell a line whatever it holds: np.array would make a matrix of lists that are equally long
    columns = {
        name: np.fromiter((record.get(name) for record in records), dtype=object, count=len(records)) for name in names
    }
    return columns, names, len(records)


def _head(file: BinaryIO, length: int) -> str:
    file.seek(0)
    return hashlib.sha256(file.read(length)).hexdigest()


def _tail(file: BinaryIO, offset: int) -> str:
    start = max(0, offset - _KNOWN)
    file.seek(start)
    return hashlib.sha256(file.read(offset - start)).hexdigest()


if sys.platform != "win32":  # there, two processes with one state are not kept apart
    import fcntl


def write_durably(path: str | os.PathLike[str], content: bytes) -> None:
    """Replace a file; after a crash at any moment it holds the old content or the new one.

    The temporary file always has the same name, so that none is left behind by a process that was killed again and again.
    """
    target = Path(os.path.realpath(path))
    check_writable(target)
    temporary = target.with_name(f".{target.name}.new")
    try:
        temporary.write_bytes(content)
        sync_file(temporary)
        os.replace(temporary, target)
        sync_folder(target.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StoreError(f"cannot write '{target}': {error.strerror or error}.") from error


@contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Hold the lock of a state file, which the system takes back when its process dies; an error if another one holds it."""
    if sys.platform == "win32":
        yield
        return
    try:
        written = Path(os.path.realpath(path))  # a link is another name of the same state
        lock = written.with_name(f".{written.name}.lock").open("w")
    except OSError as error:
        raise StoreError(f"cannot lock the state '{path}': {error.strerror}.") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StoreError(
                f"one process at a time may use a state; another one is using '{path}'. Give each its own state."
            ) from None
        yield
