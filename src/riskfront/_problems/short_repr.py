"""The shortest Python that makes a limit or an objective again."""

from __future__ import annotations

from dataclasses import fields
from typing import Any


def short_repr(record: Any) -> str:
    """Python that makes it again, without the defaults."""
    named = [part for part in fields(record)[1:] if getattr(record, part.name) != part.default]
    inner = [repr(record.loss), *(f"{part.name}={getattr(record, part.name)!r}" for part in named)]
    return f"{type(record).__name__}({', '.join(inner)})"
