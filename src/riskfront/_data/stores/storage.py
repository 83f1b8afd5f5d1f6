"""Named objects, in a local folder or in object storage. What files can do and object storage cannot is asked for here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from riskfront.errors import StoreError


class Storage(Protocol):
    """Named objects. Names are relative, with slashes."""

    @property
    def url(self) -> str:
        """Where they are."""

    def read(self, name: str) -> bytes | None:
        """The object, or None if there is none."""

    @property
    def readers(self) -> int:
        """How many threads should read at a time."""

    @property
    def in_place(self) -> bool:
        """Whether a piece of an object can be written; if not, an object is written whole."""

    def read_into(self, name: str, offset: int, buffer: memoryview) -> None:
        """Fill the buffer with the bytes of an object from the offset on."""

    def write(self, name: str, data: bytes | memoryview) -> None:
        """Write the object whole; whoever reads at the same time sees the old or the new one."""

    @property
    def exclusive(self) -> bool:
        """Whether of several who ``create`` an object at the same time only one can succeed."""

    def create(self, name: str, data: bytes) -> bool:
        """Write the object whole, and for good, if there is none yet; whether it was written."""

    def write_at(self, name: str, offset: int, size: int, data: memoryview) -> None:
        """Write a piece of an object of ``size`` bytes; what was never written of it is zero."""

    def write_all(self, objects: Mapping[str, bytes | memoryview]) -> None:
        """Write several objects whole, side by side where that is faster."""

    def add_lines(self, folder: str, writer: str, lines: Sequence[bytes]) -> None:
        """Add lines, each whole or not at all, to the files ``*.jsonl`` of a folder. No two processes may share a writer; in
        object storage no two calls may."""

    def lines(self, folder: str, *, to_add: bool) -> Iterator[tuple[str, list[bytes]]]:
        """The files ``*.jsonl`` of a folder with the lines that were added.

        An error if the end of a file is lost, except for whoever goes on ``to_add`` what is missing.
        """

    def names(self, folder: str) -> list[str]:
        """The names of the objects right in a folder, without it."""


def lines_lost(name: str, reason: str) -> StoreError:
    return StoreError(
        f"'{name}' must hold a line for each setting that was added; {reason}. The file was damaged: restore it from a copy, "
        "or run evaluate or tune with this store again, which evaluates what is missing."
    )


def check_size(name: str, got: int, wanted: int) -> None:
    if got != wanted:
        raise StoreError(
            f"'{name}' must have at least {wanted} bytes; got {got}. The file was damaged: restore it from a copy."
        )


def cannot_write(url: str, reason: str) -> str:
    return (
        f"cannot write to the store '{url}': {reason}. What was evaluated before is in the store; "
        "make room or give access, and run the same again to go on."
    )
