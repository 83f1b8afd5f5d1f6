"""What a model learnt from, kept beside its weights, so that nothing is ever calibrated on what was learnt."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from riskfront._data.identity.fingerprints import TEXT_BYTES
from riskfront._support.checked_json import DamagedError
from riskfront._support.sealed_tensors import load_sealed, save_sealed
from riskfront.errors import InvalidInputError, StoreError

FILE = "learnt_from.safetensors"
_VERSION = "1"  # of the digests: another way to normalise texts would need another number


@dataclass(frozen=True)
class Learnt:
    """The contents of all texts that had a part in making a model.

    Args:
        contents: digests of the texts that any step learnt from or chose anything by: fine-tuning, head scores, exit heads,
            token predictors, and whatever comes to stand beside them.
        elsewhere: the model is a classifier that was fine-tuned on texts nobody named.
    """

    contents: frozenset[bytes] = frozenset()
    elsewhere: bool = False

    def and_from(self, contents: Iterable[bytes]) -> Learnt:
        """The same model after it learnt from these texts too."""
        return replace(self, contents=self.contents.union(contents))

    def check_new(self, contents: Sequence[bytes]) -> None:
        """An error if one of these was learnt from."""
        n_seen = sum(content in self.contents for content in contents)
        if n_seen:
            raise InvalidInputError(
                f"texts to calibrate on must be new to the model; it learnt from {n_seen:,} of these {len(contents):,}. Leave "
                "them out: fresh_texts(parts, trained.learnt, leave_out=True)."
            )

    def save(self, folder: str | os.PathLike[str], model: Any) -> None:
        """Beside the weights of this model, to which alone it belongs."""
        rows = np.frombuffer(b"".join(sorted(self.contents)), dtype=np.uint8).reshape(-1, TEXT_BYTES)
        about = {"version": _VERSION, "elsewhere": str(self.elsewhere), "weights": weights_digest(model)}
        save_sealed({"contents": rows}, Path(folder) / FILE, about)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], model: Any = None) -> Learnt | None:
        """What is known of a model that was loaded from a folder; None where nothing is, or where its weights have changed.

        Without the model itself its weights are taken to be those of the folder.
        """
        path = Path(folder) / FILE
        if not path.is_file():
            return None
        try:
            arrays, about = load_sealed(path)
            rows = arrays["contents"]
        except (DamagedError, OSError, KeyError) as error:
            raise StoreError(f"'{path}' must say which texts were learnt from; it cannot be read ({error}).") from error
        if about.get("version") != _VERSION:
            return None
        if model is not None and about.get("weights") != weights_digest(model):
            return None
        return cls(frozenset(row.tobytes() for row in rows), about.get("elsewhere") == "True")


def save_contents(path: Path, contents: Iterable[bytes]) -> None:
    """Digests of texts in a file that checks itself."""
    rows = np.frombuffer(b"".join(sorted(contents)), dtype=np.uint8).reshape(-1, TEXT_BYTES)
    save_sealed({"contents": rows}, path, {"version": _VERSION})


def load_contents(path: Path) -> frozenset[bytes] | None:
    """What `save_contents` wrote; None where there is no file."""
    if not path.is_file():
        return None
    try:
        arrays, about = load_sealed(path)
        return frozenset(row.tobytes() for row in arrays["contents"]) if about.get("version") == _VERSION else None
    except (DamagedError, OSError, KeyError) as error:
        raise StoreError(f"'{path}' must say which texts were used; it cannot be read ({error}).") from error


def weights_digest(model: Any) -> str:
    """The digest of all weights of a torch module."""
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode() + value.contiguous().cpu().numpy().tobytes())
    return digest.hexdigest()


def is_classifier(model: Any) -> bool:
    """Whether the files of a model are those of a text classifier, which must have learnt from somebody's labels."""
    return any(str(kind).endswith("ForSequenceClassification") for kind in model.config.architectures or ())
