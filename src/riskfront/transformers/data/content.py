"""The identity of a text is its content: digests that do not see white space, case, or the order of the two texts of a pair."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence

import numpy as np

from riskfront.arrays import FloatArray

SIZE = 16  # bytes of a digest: two of a billion texts share one with a probability below 1e-20


def normalised(text: str) -> str:
    """The text as it is compared: compatible characters, lower case, single spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def digests(first: Sequence[str], second: Sequence[str] | None = None) -> list[bytes]:
    """One digest for each text, or for each pair: a pair turned round is the same example."""
    if second is None:
        return [_digest(normalised(text)) for text in first]
    return [_digest(*sorted(map(normalised, pair))) for pair in zip(first, second, strict=True)]


def places(contents: Sequence[bytes], seed: int) -> FloatArray:
    """(n,), in [0, 1): a random place for each content. Copies share one, and no other row of the file has a say in it."""
    key = f"riskfront split {seed}".encode()
    drawn = [int.from_bytes(hashlib.blake2b(c, key=key, digest_size=8).digest(), "big") for c in contents]
    return np.array(drawn, dtype=np.uint64) / 2.0**64


def _digest(*texts: str) -> bytes:
    joined = "".join(f"{len(text)}:{text}" for text in texts)
    return hashlib.blake2b(joined.encode("utf-8", "surrogatepass"), digest_size=SIZE).digest()
