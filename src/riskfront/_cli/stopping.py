"""Commands that go on where they were stopped say so, and clear away what is half-made, whoever stops them."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class _Ended(BaseException):
    """What SIGTERM becomes, so that everything on the way out is closed and removed as after Ctrl-C."""


@contextmanager
def resumable(place: str | os.PathLike[str]) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the command in a sentence that says where its work is; status 130 and 143."""
    with _sigterm_is_raised():
        try:
            yield
        except (KeyboardInterrupt, _Ended) as stop:
            said = f"stopped. What is done is in '{os.fspath(place)}': the same command goes on from there."
            print(f"riskfront: {said}", file=sys.stderr)
            raise SystemExit(130 if isinstance(stop, KeyboardInterrupt) else 143) from None


@contextmanager
def _sigterm_is_raised() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # only there can signals be handled
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise _Ended

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
