"""Texts without labels, on which an accelerated model is only asked whether it agrees with the full one."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from riskfront._data.identity.fingerprints import text_digests
from riskfront.errors import InvalidInputError
from riskfront.transformers._data.fresh import picked_copy
from riskfront.transformers._data.learnt import Learnt
from riskfront.transformers._data.texts import LabelledTexts, TextParts, one_or_two, read_texts


@dataclass(frozen=True)
class UnlabelledTexts:
    """Texts that neither the model nor the calibration knows, and sentences on what was left out. The labels are all 0."""

    texts: LabelledTexts
    notes: tuple[str, ...]


def unlabelled_texts(
    data: str | os.PathLike[str] | pd.DataFrame | Any, parts: TextParts, learnt: Learnt | None, *, leave_out: bool
) -> UnlabelledTexts:
    """The texts of a file, each once, that nothing was learnt from and that do not count as calibration texts.

    Labelled and unlabelled texts must have the same mean of the proxy. To leave out what is a calibration text would leave
    frequent texts on one side only (.31 false certificates at delta .1). So one copy of each text counts, drawn from all its
    copies in both files, where it stands: `fresh_texts(..., unlabelled=contents)` leaves out the others there. And where some
    texts are left out, so are those that the random split would not have put among the calibration texts.

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
    copies, labelled = Counter(found.contents), Counter(parts.calibration.contents)
    new = {content: at for at, content in reversed(list(enumerate(found.contents))) if content not in learnt_from}
    n_learnt = sum(content in learnt_from for content in found.contents)
    n_labelled = sum(copies[content] for content in new if labelled[content])
    n_repeated = sum(copies[content] - 1 for content in new if not labelled[content])
    counted = ((n_learnt, "were learnt from"), (n_labelled, "are calibration texts"), (n_repeated, "repeat another"))
    left = " and ".join(f"{count:,} {words}" for count, words in counted if count)
    if left and not leave_out:
        raise InvalidInputError(
            f"unlabelled texts must be new to the model, other than the calibration texts, and differ from each other; of "
            f"{len(found):,}, {left}. Give other texts, or use each once with --leave-out-repeats."
        )
    if not left:
        return UnlabelledTexts(found, ())
    could = parts.could_calibrate(found.contents)
    kept = [
        at
        for content, at in new.items()
        if could[at] and picked_copy(content, labelled[content] + copies[content]) >= labelled[content]
    ]
    said = (
        f"Of {len(found):,} unlabelled texts {len(kept):,} were used: {left}. Each text counts once, with a label or without, "
        "and only where the split of the labelled texts would have kept it for calibration."
    )
    return UnlabelledTexts(found.take(np.sort(np.array(kept, dtype=np.int64))), (said,))


def unlabelled_contents(data: str | os.PathLike[str] | pd.DataFrame | Any | None) -> list[bytes]:
    """The contents of unlabelled texts, of which there may be none."""
    return [] if data is None else text_digests(*one_or_two(read_texts(data)))
