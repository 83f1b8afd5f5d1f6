"""JSON and JSON Lines with errors that name the file, the line and the field."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from riskfront.errors import InvalidInputError, StoreError

_decode = json.JSONDecoder().decode
_TOO_MUCH = "its values must not be nested thousands deep, nor its numbers have thousands of digits."


def read_json(path: Path) -> Any:
    """What a JSON file holds."""
    return parse_json(_text(path), f"'{path}'")


def parse_json(text: str | bytes, where: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidInputError(
            f"{where}, line {error.lineno}: must be JSON; it is not, or the file was cut off there ({error.msg})."
        ) from None
    except UnicodeDecodeError:
        raise InvalidInputError(f"{where}: must be JSON in UTF-8; it is another kind of file.") from None
    except (RecursionError, ValueError):
        raise InvalidInputError(f"{where}: {_TOO_MUCH}") from None


def read_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a JSON Lines file, each with the place it comes from; empty lines are skipped."""
    name = f"'{path}', line"
    for number, line in enumerate(_lines(path), start=1):
        if line.strip():
            where = f"{name} {number}"
            try:
                found = _decode(line)
            except json.JSONDecodeError as error:
                raise InvalidInputError(
                    f"{where}: must be one JSON object; it is not, or the file was cut off there ({error.msg})."
                ) from None
            except (RecursionError, ValueError):
                raise InvalidInputError(f"{where}: {_TOO_MUCH}") from None
            if not isinstance(found, dict):
                raise InvalidInputError(f"{where}: must be one JSON object; got {type(found).__name__}.")
            yield where, found


def _lines(path: Path) -> Iterator[str]:
    """The lines of a file, one at a time. Other signs that end a line for Python may stand in the texts of a JSON line."""
    try:
        with path.open(encoding="utf-8-sig", newline="\n") as file:
            yield from file
    except OSError as error:
        raise StoreError(f"cannot read '{path}': {error.strerror}.") from error
    except UnicodeDecodeError:
        raise InvalidInputError(f"'{path}': must be text in UTF-8; it is another kind of file.") from None


def field(record: Mapping[str, Any], name: str, where: str, tool: str) -> Any:
    """A field that every file of this tool has."""
    if not isinstance(record, Mapping) or name not in record:
        raise InvalidInputError(
            f"{where}: there is no field '{name}'. Is this a file of {tool}, and of a version it can read?"
        )
    return record[name]


def object_of(record: Any, name: str, where: str) -> Mapping[str, Any]:
    """A field that holds an object; without it, or with null, an empty one."""
    found = must_be_object(record, where).get(name)
    return {} if found is None else must_be_object(found, where, f"the field '{name}'")


def list_of(found: Any, where: str, what: str) -> list[Any]:
    """A list, or a sentence that says that it is none."""
    if not isinstance(found, list):
        raise InvalidInputError(f"{where}: {what} must be a list; got {_kind(found)}.")
    return found


def must_be_object(found: Any, where: str, what: str = "it") -> Mapping[str, Any]:
    if not isinstance(found, Mapping):
        raise InvalidInputError(f"{where}: {what} must be a JSON object; got {_kind(found)}.")
    return found


def _kind(value: Any) -> str:
    names = {"NoneType": "nothing", "list": "a list", "str": "a text", "dict": "an object", "bool": "true or false"}
    return names.get(type(value).__name__, f"the number {value}")


def below(path: Path, *patterns: str) -> list[Path]:
    """The file itself, or the files below a folder whose names fit, sorted; links are followed, each folder is visited once."""
    if not path.exists():
        raise StoreError(f"cannot read '{path}': no such file or folder.")
    if path.is_file():
        return [path] if any(path.match(pattern) for pattern in patterns) else []
    found, visited = set[Path](), set[str]()
    for place, folders, names in os.walk(path, followlinks=True):
        visited.add(os.path.realpath(place))
        folders[:] = [name for name in folders if os.path.realpath(os.path.join(place, name)) not in visited]
        files = [Path(place, name) for name in names]
        found |= {file for file in files if any(file.match(pattern) for pattern in patterns) and file.is_file()}
    return sorted(found)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise StoreError(f"cannot read '{path}': {error.strerror}.") from error
    except UnicodeDecodeError:
        raise InvalidInputError(f"'{path}': must be text in UTF-8; it is another kind of file.") from None
