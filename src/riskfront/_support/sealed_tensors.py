"""Arrays in a safetensors file that carries a digest of its content, so that damage is found when it is read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from riskfront._support.arrays import Array
from riskfront._support.checked_json import DIGEST, DamagedError
from riskfront._support.files import written_whole
from riskfront.errors import StoreError


def save_sealed(
    arrays: Mapping[str, Array], path: str | os.PathLike[str], metadata: Mapping[str, str] | None = None
) -> None:
    """Write arrays and texts, whole or not at all."""
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    about = dict(metadata or {})
    with written_whole(path) as target:
        try:
            save_file(contiguous, target, metadata={**about, DIGEST: _digest(contiguous, about)})
        except SafetensorError as error:  # of a disk that is full
            raise StoreError(f"cannot write '{path}': {error}.") from None


def load_sealed(path: str | os.PathLike[str]) -> tuple[dict[str, Array], dict[str, str]]:
    """The arrays and the texts; a DamagedError if they are not what was written, an OSError if they cannot be read."""
    try:
        with safe_open(path, "numpy") as file:
            about = dict(file.metadata() or {})
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    except (SafetensorError, ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise DamagedError(f"it is no safetensors file ({error})") from None
    if about.pop(DIGEST, None) != _digest(arrays, about):
        raise DamagedError("its content is not what its digest says")
    return arrays, about


def _digest(arrays: Mapping[str, Array], about: Mapping[str, str]) -> str:
    from blake3 import blake3

    digest = blake3(json.dumps(dict(about), sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.asarray(arrays[name], order="C")
        digest.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        digest.update(array.tobytes())
    return str(digest.hexdigest())
