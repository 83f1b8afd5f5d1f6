"""Which examples go where: random splits that are the same in every version of numpy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from riskfront.arrays import IntArray
from riskfront.errors import InvalidInputError

_STREAM = 0x7269736B  # sets the random numbers of splits apart from those of anyone else who uses the same seed


def positions(given: npt.ArrayLike, n: int, kind: str) -> IntArray:
    """Positions as they are, or those where a mask is True."""
    array = np.asarray(given)
    if array.dtype == np.bool_:
        if array.shape != (n,):
            raise InvalidInputError(f"a mask must have one value for each of {n} {kind}s; got shape {array.shape}.")
        array = np.flatnonzero(array)
    if array.size and not (array.min() >= 0 and array.max() < n):
        raise InvalidInputError(f"{kind}s must lie in 0..{n - 1}; got {array.min()}..{array.max()}.")
    return np.array(array, dtype=np.int64)  # a copy: the caller may go on using its own


def split_examples(n: int, opt_fraction: float, seed: int, salt: bytes = b"") -> tuple[IntArray, IntArray]:
    """The positions of planning and of testing examples among n, each in random order.

    Args:
        salt: a digest of the examples. A seed alone picks the same positions in every file, and where files are sorted, by
            label say, these are no random draw: at delta 0.1, seed 0 gave false certificates in .14 to .18 of runs.
    """
    if not 0 <= opt_fraction < 1:
        raise InvalidInputError(f"opt_fraction must lie in [0, 1); got {opt_fraction}.")
    n_opt = round(opt_fraction * n)
    if opt_fraction > 0:
        if n < 2:
            raise InvalidInputError(
                f"a split into planning and testing examples needs at least 2; got {n}. Add examples, "
                "or use a method without a split, such as bonferroni."
            )
        n_opt = min(max(n_opt, 1), n - 1)
    order = permutation(n, seed, salt)
    return order[:n_opt], order[n_opt:]


def permutation(n: int, seed: int, salt: bytes = b"") -> IntArray:
    """0..n-1 in a random order that is the same in every version of numpy.

    The stream is riskfront's own. With the plain stream of the seed, data simulated by ``default_rng(seed)`` would be split
    by the very numbers they were made of: all losses of the first setting into one part.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InvalidInputError(f"seed must be a whole number of at least 0; got {seed!r}.")
    words = [_STREAM, int(seed), *np.frombuffer(salt, dtype="<u4").tolist()]
    return np.argsort(np.random.PCG64(np.random.SeedSequence(words)).random_raw(n), kind="stable")
