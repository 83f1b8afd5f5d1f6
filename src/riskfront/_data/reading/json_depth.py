"""JSON lines whose values are nested thousands deep, refused before Arrow reads them: its parser would run out of stack, and
take the process with it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from riskfront.errors import InvalidInputError

_DEEPEST = 500
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_OPEN, _CLOSE = (np.frombuffer(signs, dtype=np.uint8) for signs in (b"{[", b"}]"))


class CheckedLines:
    """A file of JSON lines, opened for reading bytes, that refuses what would end the process: values that are nested too
    deeply, and a line "null" where a row must be."""

    def __init__(self, file: Any, name: str) -> None:
        self._file, self._name, self._begun = file, name, b""

    @property
    def closed(self) -> bool:
        return bool(self._file.closed)

    def close(self) -> None:
        self._file.close()

    def read(self, size: int = -1) -> bytes:
        found: bytes = self._file.read(size)
        lines, ended, rest = found.rpartition(b"\n")
        self._check(self._begun + lines + ended if ended else b"")
        self._begun = rest if ended else self._begun + rest
        self._check(self._begun)
        return found

    def _check(self, lines: bytes) -> None:
        ends = lines.count(b"\n")
        rows = lines.count(b"\n{") + lines.startswith(b"{")
        if rows < ends + (not lines.endswith(b"\n")):  # some line is no object; the usual file has none
            self._refuse_null(lines)
        opened = lines.count(b"{") + lines.count(b"[")
        if opened <= ends + _DEEPEST:  # no line can be too deep: each has one sign of its own at least
            return
        for line in lines.split(b"\n"):
            if line.count(b"{") + line.count(b"[") > _DEEPEST and _depth(line) > _DEEPEST:
                raise InvalidInputError(
                    f"the values of JSON lines must not be nested more than {_DEEPEST} deep; some in '{self._name}' are. "
                    "Leave that column out where the file is written."
                )

    def _refuse_null(self, lines: bytes) -> None:
        if any(line.lstrip().startswith(b"null") for line in lines.split(b"\n")):
            raise InvalidInputError(
                f'each line of \'{self._name}\' must be a JSON object such as {{"threshold": 0.5, "error": 0}}; one is null. '
                "Leave it out, or write its values."
            )


def _depth(line: bytes) -> int:
    signs = np.frombuffer(_TEXT.sub(b"", line), dtype=np.uint8)
    steps = np.isin(signs, _OPEN).astype(np.int64) - np.isin(signs, _CLOSE)
    return int(np.cumsum(steps).max(initial=0))
