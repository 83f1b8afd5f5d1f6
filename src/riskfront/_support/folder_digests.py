"""A list of digests of the files in a folder, checked before they are loaded."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from riskfront._support.checked_json import DamagedError, from_bytes, to_bytes
from riskfront._support.files import write_text
from riskfront.errors import StoreError

FILE = "digests.json"


def write_digests(folder: str | os.PathLike[str], files: Iterable[str | os.PathLike[str]]) -> None:
    """Write down the BLAKE3 digests of these files, which are named relative to the folder."""
    root = Path(folder)
    digests = {Path(name).as_posix(): _digest(root / name) for name in sorted(str(Path(name)) for name in files)}
    write_text(root / FILE, to_bytes({"files": digests}).decode())


def check_digests(folder: str | os.PathLike[str]) -> None:
    """An error if a file is missing or is not what was written."""
    root = Path(folder)
    try:
        digests = from_bytes((root / FILE).read_bytes())["files"]
        for name, digest in digests.items():
            if _digest(root / name) != digest:
                raise DamagedError(f"'{name}' was changed")
    except (OSError, DamagedError, KeyError, TypeError, AttributeError) as error:
        reason = f"'{Path(error.filename).name}' cannot be read" if isinstance(error, OSError) else str(error)
        raise StoreError(
            f"the files in '{root}' must be as they were written; {reason}. Restore the folder from a copy, or make it again."
        ) from None


def _digest(path: Path) -> str:
    from blake3 import blake3

    if path.stat().st_size == 0:
        return str(blake3(b"").hexdigest())
    return str(blake3(max_threads=blake3.AUTO).update_mmap(path).hexdigest())
