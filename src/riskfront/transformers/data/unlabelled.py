"""Texts without labels, on which an accelerated model is only asked whether it agrees with the full one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from riskfront.errors import InvalidInputError
from riskfront.transformers.data.learnt import Learnt
from riskfront.transformers.data.texts import LabelledTexts, TextParts, one_or_two, read_texts


@dataclass(frozen=True)
class UnlabelledTexts:
    """Texts that neither the model nor the calibration knows, and sentences on what was left out. The labels are all 0."""

    texts: LabelledTexts
    notes: tuple[str, ...]


def unlabelled_texts(
    data: str | os.PathLike[str] | pd.DataFrame | Any, parts: TextParts, learnt: Learnt | None, *, leave_out: bool
) -> UnlabelledTexts:
    """The texts of a file, each once, that nothing was learnt from and that are no calibration texts.

    Calibration texts count once each and are new to the model, so the unlabelled ones must be too: both are to be drawn from
    the same source.

    Args:
        data: as for `accelerate`; a column `label` is not looked at.
        parts: calibration and validation texts are among what is refused.
        learnt: what the model learnt from.
        leave_out: whether to go on without texts that are refused; if not, one such text is an error.
    """
    first, second = one_or_two(read_texts(data))
    found = LabelledTexts(first, second, np.zeros(len(first), dtype=np.int64), parts.calibration.classes)
    if (second is None) != (parts.calibration.second is None):
        raise InvalidInputError("unlabelled texts must be of the kind of the labelled ones: single texts, or pairs.")
    learnt_from = (learnt or Learnt()).contents.union(parts.train.contents, parts.validation.contents)
    taken = {"were learnt from": learnt_from, "are calibration texts": set(parts.calibration.contents)}
    seen = {words: sum(content in known for content in found.contents) for words, known in taken.items()}
    kept = _first_of_each(found.contents, *taken.values())
    seen["repeat another"] = len(found) - len(kept) - sum(seen.values())
    left = [f"{count:,} {words}" for words, count in seen.items() if count > 0]
    if left and not leave_out:
        raise InvalidInputError(
            f"unlabelled texts must be new to the model, other than the calibration texts, and differ from each other; of "
            f"{len(found):,}, {' and '.join(left)}. Give other texts, or leave these out with --leave-out-repeats."
        )
    notes = (f"Of {len(found):,} unlabelled texts some were left out: {' and '.join(left)}.",) if left else ()
    return UnlabelledTexts(found.take(np.array(kept, dtype=np.int64)), notes)


def _first_of_each(contents: Iterable[bytes], *taken: Iterable[bytes]) -> list[int]:
    """Positions of texts that are not taken, one of each."""
    known = set().union(*taken)
    kept = []
    for position, content in enumerate(contents):
        if content not in known:
            known.add(content)
            kept.append(position)
    return kept
