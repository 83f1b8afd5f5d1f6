"""How many files and functions of riskfront a call passes, and in which order it enters the files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import riskfront

SOURCE = Path(riskfront.__file__).parent


def trace(call: Callable[[], Any]) -> list[tuple[str, str]]:
    """(file, function) of every function of riskfront that was entered, in order."""
    passed: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(SOURCE)) and not code.co_name.startswith("<"):
            passed.append((str(Path(code.co_filename).relative_to(SOURCE)), f"{code.co_name}:{code.co_firstlineno}"))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return passed


def in_this_order(named: Sequence[str], entered: Sequence[str]) -> bool:
    """Whether the files were entered one after the other, whatever came in between."""
    rest = iter(entered)
    return all(file in rest for file in named)
