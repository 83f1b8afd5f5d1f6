"""Which examples a policy was made of, so that a check on the same logs is not taken for a check on new ones."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from riskfront._data.identity.fingerprints import numbers_of, readable
from riskfront._data.logs.runs import Runs
from riskfront.errors import InvalidInputError

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


def must_be_new(runs: Runs, models: Sequence[str], example_fingerprints: Mapping[str, Any]) -> None:
    """An error if nearly all of these examples are those a policy was made of."""
    columns = [name for name in example_fingerprints["columns"] if name in runs.values]
    if columns != list(example_fingerprints["columns"]):
        return  # other things were logged: these are other logs
    packed = base64.b64decode(example_fingerprints["examples"])
    known = {packed[start : start + _BYTES] for start in range(0, len(packed), _BYTES)}
    found = [digest in known for digest in _digests(runs, models, columns)]
    if found and np.mean(found) >= _SAME:
        raise InvalidInputError(
            f"a check needs new examples; {sum(found):,} of these {len(found):,} are among those the policy was made of. To "
            "recompute its certificate, use verify."
        )


def must_be_others(labelled: Runs, unlabelled: Runs, score: str) -> None:
    """An error if some unlabelled examples are among the labelled ones, those included that thresholds were set on."""
    columns = [name for name in unlabelled.values if name in labelled.values and name != score]
    models = sorted(unlabelled.names)
    if not columns:
        return
    shared = np.isin(_numbers(unlabelled, models, columns, "<f8"), _numbers(labelled, models, columns, "<f8"))
    if shared.any():
        raise InvalidInputError(
            "unlabelled examples must be others than the labelled ones, and than those set aside for confidence and "
            f"thresholds; {int(shared.sum()):,} are among them. Leave these out."
        )


def _digests(runs: Runs, models: Sequence[str], columns: Sequence[str], kind: str = "<f8") -> list[bytes]:
    return [number.tobytes()[:_BYTES] for number in _numbers(runs, models, columns, kind)]


def _numbers(runs: Runs, models: Sequence[str], columns: Sequence[str], kind: str) -> Any:
    """(examples,): a number of 64 bits for each, of its name and of what was logged of these models."""
    own = runs.only(list(models))
    numbers = np.concatenate([own.value(name) for name in columns]).astype(kind)
    numbers[np.isnan(numbers)] = np.nan  # the same bytes for every kind of nan
    names = readable(own.examples["example"].astype(str).to_numpy(dtype=object))
    return numbers_of([names, *numbers]).astype("<u8")
