"""Which examples a policy was made of, so that a check on the same logs is not taken for a check on new ones."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from riskfront.errors import InvalidInputError
from riskfront.logs.runs import Runs

_BYTES = 4
_SAME = 0.9  # from this share on, equal names and numbers are no accident


def fingerprints(runs: Runs, models: Sequence[str], columns: Sequence[str]) -> dict[str, Any]:
    """A few bytes an example, of its name and of what was logged of these models."""
    return {
        "columns": list(columns),
        "examples": base64.b64encode(b"".join(_digests(runs, models, columns))).decode("ascii"),
    }


def contents(runs: Runs, columns: Sequence[str]) -> bytes:
    """A digest of all examples, for splits: a seed alone would pick the same positions in every file, sorted or not. In single
    precision: the last digits of a computed confidence differ between machines."""
    return hashlib.sha256(b"".join(_digests(runs, sorted(runs.names), columns, "<f4"))).digest()


def must_be_new(runs: Runs, models: Sequence[str], made_of: Mapping[str, Any]) -> None:
    """An error if nearly all of these examples are those a policy was made of."""
    columns = [name for name in made_of["columns"] if name in runs.values]
    if columns != list(made_of["columns"]):
        return  # other things were logged: these are other logs
    packed = base64.b64decode(made_of["examples"])
    known = {packed[start : start + _BYTES] for start in range(0, len(packed), _BYTES)}
    found = [digest in known for digest in _digests(runs, models, columns)]
    if found and np.mean(found) >= _SAME:
        raise InvalidInputError(
            f"a check needs new examples; {sum(found):,} of these {len(found):,} are among those the policy was made of. To "
            "recompute its certificate, use verify."
        )


def _digests(runs: Runs, models: Sequence[str], columns: Sequence[str], kind: str = "<f8") -> list[bytes]:
    own = runs.only(list(models))
    numbers = np.ascontiguousarray(np.concatenate([own.value(name) for name in columns]).T.astype(kind))
    names = own.examples["example"].astype(str)
    return [
        hashlib.blake2b(name.encode() + row.tobytes(), digest_size=_BYTES).digest()
        for name, row in zip(names, numbers, strict=True)
    ]
