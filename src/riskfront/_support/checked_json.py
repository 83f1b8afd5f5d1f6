"""JSON that carries a digest of its content, so that damage is found when it is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

DIGEST = "blake3"


class DamagedError(ValueError):
    """What was read is not what was written; the text says why."""


def parse_json(text: str | bytes) -> Any:
    """JSON of any origin; one kind of error for all that can be wrong with it."""
    try:
        return json.loads(text)
    except RecursionError:
        raise DamagedError("its values are nested too deeply") from None
    except UnicodeDecodeError:
        raise DamagedError("it is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise DamagedError(f"it is no JSON: {error.msg} in line {error.lineno}") from None
    except ValueError:  # of a whole number
        raise DamagedError("a number has thousands of digits") from None


def digest_of(content: Any) -> str:
    """The BLAKE3 digest of JSON values, whatever their layout and the order of their keys."""
    return digest_of_bytes(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())


def digest_of_bytes(content: bytes) -> str:
    """The BLAKE3 digest of bytes."""
    from blake3 import blake3  # when it is needed, to keep ``import riskfront`` short

    return str(blake3(content).hexdigest())


def with_digest(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content with its digest, which comes last."""
    written = json.loads(json.dumps(dict(content)))
    return {**written, DIGEST: digest_of(written)}


def without_digest(data: Any, *, required: bool = True) -> dict[str, Any]:
    """The content, compared with its digest. A file that somebody wrote by hand may have none."""
    if not isinstance(data, dict):
        raise DamagedError("it must be an object in braces")
    content = {name: value for name, value in data.items() if name != DIGEST}
    if DIGEST in data or required:
        try:
            found = digest_of(content)
        except RecursionError:
            raise DamagedError("its values are nested too deeply") from None
        if data.get(DIGEST) != found:
            raise DamagedError("its content is not what its digest says")
    return content


def to_bytes(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(with_digest(content), indent=1) + "\n").encode()


def from_bytes(text: str | bytes, *, required: bool = True) -> dict[str, Any]:
    """What ``to_bytes`` wrote."""
    return without_digest(parse_json(text), required=required)
