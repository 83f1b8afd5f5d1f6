"""Options that several commands take as a group: a dataclass in the command, its fields on the command line."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, get_type_hints


def grouped(command: Callable[..., int]) -> Callable[..., int]:
    """The command as Typer should see it: each parameter that is a dataclass stands for its fields."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}

    @functools.wraps(command)
    def flat(**given: Any) -> int:
        made = {
            name: kind(**{part.name: given.pop(part.name) for part in fields(kind)}) for name, kind in groups.items()
        }
        return command(**given, **made)

    options = [
        option
        for name, parameter in inspect.signature(command).parameters.items()
        for option in (_options(groups[name]) if name in groups else [_option(name, hints[name], parameter.default)])
    ]
    flat.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    flat.__annotations__ = {option.name: option.annotation for option in options}
    return flat


def _options(group: Any) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return (_option(part.name, hints[part.name], _default(part)) for part in fields(group))


def _option(name: str, kind: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _default(part: Field[Any]) -> Any:
    if part.default_factory is not MISSING:
        return part.default_factory()
    return inspect.Parameter.empty if part.default is MISSING else part.default
