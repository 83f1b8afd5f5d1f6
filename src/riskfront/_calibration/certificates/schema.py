"""Whether JSON is a certificate that this version reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from riskfront.errors import InvalidInputError

SCHEMA, SCHEMA_VERSION = "riskfront.certificate", 3
_OBJECTS = ("diagnosis", "source", "unlabelled", "frontier", "evaluations")  # or null


def check_schema(data: Mapping[str, Any]) -> None:
    """An error if this is no certificate, or one that this version does not read."""
    if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
        raise InvalidInputError(f"a certificate must be a JSON object with schema '{SCHEMA}'; this is not one.")
    version = data.get("schema_version")
    if version != SCHEMA_VERSION:
        raise InvalidInputError(
            f"this version reads certificates of schema version {SCHEMA_VERSION}; got {version!r}. Make it anew from its data, "
            "or use the version of riskfront that wrote it."
        )
    for name in _OBJECTS:
        if not isinstance(data.get(name), Mapping | None):
            raise InvalidInputError(f"the {name} of a certificate must be an object or null; got {data[name]!r}.")
