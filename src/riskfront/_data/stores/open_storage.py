"""From a path or a URL to the storage behind it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from riskfront._data.stores.local_storage import LocalStorage
from riskfront._data.stores.remote_storage import RemoteStorage
from riskfront._data.stores.storage import Storage
from riskfront._support.checked_json import DamagedError, parse_json
from riskfront.errors import InvalidInputError

VARIABLE = "RISKFRONT_STORAGE_OPTIONS"
_OPTIONS: ContextVar[Mapping[str, Any] | None] = ContextVar("storage_options", default=None)
_EXAMPLE = '{"endpoint_url": "http://localhost:9000"}'


def open_storage(url: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> Storage:
    """A local folder for a path or a file:// URL, anything fsspec knows for other URLs.

    Args:
        options: for fsspec; by default those of ``storage_options`` around the call, or else of the environment variable
            RISKFRONT_STORAGE_OPTIONS, in JSON.
    """
    if not isinstance(url, str | os.PathLike) or not os.fspath(url).strip():
        raise InvalidInputError(f"a store must be given by a path or a URL; got {url!r}.")
    text = os.fspath(url)
    if "://" not in text or text.startswith("file://"):
        return LocalStorage(Path(text.removeprefix("file://")).expanduser())
    return RemoteStorage(text, default_options() if options is None else options)


@contextmanager
def storage_options(options: Mapping[str, Any] | None) -> Iterator[None]:
    """Options for every URL that is opened inside, unless it is given its own."""
    if options is not None and not isinstance(options, Mapping):
        raise InvalidInputError(
            f"storage_options must be a dictionary, such as {_EXAMPLE}; got {type(options).__name__}."
        )
    token = _OPTIONS.set(options if options is not None else _OPTIONS.get())
    try:
        yield
    finally:
        _OPTIONS.reset(token)


def default_options() -> dict[str, Any]:
    """What ``storage_options`` set, or else what RISKFRONT_STORAGE_OPTIONS holds."""
    given = _OPTIONS.get()
    if given is not None:
        return dict(given)
    try:
        options = parse_json(os.environ.get(VARIABLE) or "{}")
    except DamagedError as error:
        raise InvalidInputError(f"{VARIABLE} must be JSON, such as {_EXAMPLE}; {error}.") from None
    if not isinstance(options, dict):
        raise InvalidInputError(f"{VARIABLE} must be a JSON object, such as {_EXAMPLE}; got {type(options).__name__}.")
    return options
