"""Which texts may be calibrated on: those that nothing was learnt from, each of them once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from riskfront._support.arrays import IntArray
from riskfront.errors import InvalidInputError
from riskfront.transformers._data.learnt import Learnt
from riskfront.transformers._data.texts import LabelledTexts, TextParts

ELSEWHERE = (
    "The model came as a finished classifier, and which texts it learnt from is not known: the guarantee holds only if no "
    "calibration text is among them. To have that checked, name them with --learnt-from."
)
NOT_RECORDED = (
    "a trained folder must say which texts it learnt from, so that none of them is calibrated on; this one does not: it "
    "was saved without that, or its weights have changed since. Train again, or name what it learnt from with --learnt-from."
)


@dataclass(frozen=True)
class FreshTexts:
    """Texts to calibrate on, and sentences on what a guarantee on them speaks of."""

    texts: LabelledTexts
    notes: tuple[str, ...]


def fresh_texts(
    parts: TextParts, learnt: Learnt | None, *, leave_out: bool, unlabelled: Sequence[bytes] = ()
) -> FreshTexts:
    """The calibration texts of which the model knows nothing.

    Args:
        unlabelled: contents of the unlabelled texts that are used too. Of all copies of a text, with a label or without, one
            counts, drawn at random, where it stands: so texts with labels are a random part of all different texts.
        parts: validation texts count as learnt from, because thresholds are laid out by them.
        learnt: what the model learnt from.
        leave_out: whether to go on without the others; if not, one such text is an error.
    """
    if learnt is None:
        raise InvalidInputError(NOT_RECORDED)
    contents, total = parts.calibration.contents, len(parts.calibration)
    known = learnt.contents.union(parts.validation.contents)
    seen = np.array([content in known for content in contents], dtype=bool)
    kept = one_of_each(parts.calibration, np.flatnonzero(~seen), Counter(unlabelled))
    n_seen, n_copies = int(seen.sum()), int((~seen).sum()) - len(kept)
    if (n_seen or n_copies) and not leave_out:
        raise InvalidInputError(_refusal(total, n_seen, n_copies))
    if len(kept) < 2:
        raise InvalidInputError(
            f"there must be at least 2 rows to calibrate on; of {total}, {n_seen} have texts that the model learnt from and "
            f"{n_copies} repeat another row. Give rows that nothing was learnt from."
        )
    return FreshTexts(parts.calibration.take(kept), _notes(parts, learnt, total, n_seen, n_copies))


def one_of_each(texts: LabelledTexts, rows: IntArray, elsewhere: Counter[bytes] | None = None) -> IntArray:
    """Of several rows with the same text one, which the text itself picks: labels that disagree keep their shares. None where
    the one that is picked is among the copies ``elsewhere``."""
    contents, copies, elsewhere = texts.contents, dict[bytes, list[int]](), elsewhere or Counter()
    for row in rows[np.argsort(texts.labels[rows], kind="stable")]:
        copies.setdefault(contents[row], []).append(int(row))
    picked = ((found, picked_copy(content, len(found) + elsewhere[content])) for content, found in copies.items())
    return np.sort(np.array([found[at] for found, at in picked if at < len(found)], dtype=np.int64))


def picked_copy(content: bytes, n_copies: int) -> int:
    """Which of so many copies of a text counts: at random, the same whenever it is asked."""
    return int.from_bytes(content, "big") % n_copies


def _refusal(total: int, n_seen: int, n_copies: int) -> str:
    found = [f"{n_seen:,} have a text that the model learnt from"] if n_seen else []
    found += [f"{n_copies:,} have the text of another calibration row"] if n_copies else []
    return (
        f"rows to calibrate on must be new to the model and differ from each other; of {total:,}, {' and '.join(found)} "
        "(white space, case and the order of a pair do not count). Give other rows, or the data and the --seed of training, or "
        "leave these out with --leave-out-repeats: the guarantee then speaks of texts that were not seen in training."
    )


def _notes(parts: TextParts, learnt: Learnt, total: int, n_seen: int, n_copies: int) -> tuple[str, ...]:
    notes = [ELSEWHERE] if learnt.elsewhere else []
    if n_seen:
        notes.append(
            f"{n_seen:,} of {total:,} calibration rows were left out because the model learnt from their texts: the guarantee "
            "speaks of texts that were not seen in training."
        )
    if n_copies:
        notes.append(
            f"{n_copies:,} of {total:,} calibration rows were left out because another row has the same text, with a label or "
            "without: every text counts once in the guarantee, however often it comes."
        )
    if parts.n_kept_together:
        notes.append(
            f"{parts.n_kept_together:,} rows to learn from share their text with another, and no copy is calibrated on: the "
            "guarantee speaks of texts that were not seen in training."
        )
    return tuple(notes)
