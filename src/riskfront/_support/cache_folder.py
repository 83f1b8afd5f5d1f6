"""Files that can be made again at any time: kept in the user's cache folder, or made each time where there is none."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

from riskfront._support.files import write_text
from riskfront.errors import StoreError


def remembered(name: str, make: Callable[[], str]) -> str:
    """The text of that name, made once and kept. A file that was cut off or changed is made again."""
    file = cache_folder() / name
    try:
        digest, _, text = file.read_text(encoding="utf-8").partition("\n")
        if digest == _digest(text):
            return text
    except (OSError, ValueError):
        pass
    text = make()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, f"{_digest(text)}\n{text}")
    except (OSError, StoreError):
        pass  # a read-only home costs time, nothing else
    return text


def cache_folder() -> Path:
    """Where this system keeps such files of a user."""
    if sys.platform == "win32":
        given, default = os.environ.get("LOCALAPPDATA"), Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        given, default = None, Path.home() / "Library" / "Caches"
    else:
        given, default = os.environ.get("XDG_CACHE_HOME"), Path.home() / ".cache"
    return (Path(given) if given else default) / "riskfront"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
