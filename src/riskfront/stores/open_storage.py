"""From a path or a URL to the storage behind it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from riskfront.errors import InvalidInputError
from riskfront.stores.local_storage import LocalStorage
from riskfront.stores.remote_storage import RemoteStorage
from riskfront.stores.storage import Storage


def open_storage(url: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> Storage:
    """A local folder for a path or a file:// URL, anything fsspec knows for other URLs."""
    if not isinstance(url, str | os.PathLike) or not os.fspath(url).strip():
        raise InvalidInputError(f"a store must be given by a path or a URL; got {url!r}.")
    text = os.fspath(url)
    if "://" not in text or text.startswith("file://"):
        return LocalStorage(Path(text.removeprefix("file://")).expanduser())
    return RemoteStorage(text, options)
