"""Which files a call enters."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def functions_entered(call: Callable[[], Any]) -> set[str]:
    """The files of all Python functions that are entered during a call."""
    found: set[str] = set()

    def enter(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            found.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(enter)
    try:
        call()
    finally:
        sys.setprofile(before)
    return found
