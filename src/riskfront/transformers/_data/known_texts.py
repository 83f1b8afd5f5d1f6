"""Texts that the model knows, by their content: what it learnt from is kept out of the calibration texts, labelled or not."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from riskfront._data.identity.fingerprints import TEXT_BYTES, text_digests
from riskfront._support.arrays import IntArray
from riskfront._support.checked_json import DamagedError
from riskfront._support.sealed_tensors import load_sealed, save_sealed
from riskfront.errors import InvalidInputError, StoreError
from riskfront.transformers._data.texts import LabelledTexts, TextParts, one_or_two, read_texts

FILE = "learnt_from.safetensors"
_VERSION = "1"  # of the digests: another way to normalise texts would need another number
ELSEWHERE = (
    "The model came as a finished classifier, and which texts it learnt from is not known: the guarantee holds only if no "
    "calibration text is among them. To have that checked, name them with --learnt-from."
)
NOT_RECORDED = (
    "a trained folder must say which texts it learnt from, so that none of them is calibrated on; this one does not: it "
    "was saved without that, or its weights have changed since. Train again, or name what it learnt from with --learnt-from."
)


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
        about = {"elsewhere": str(self.elsewhere), "weights": weights_digest(model)}
        save_contents(Path(folder) / FILE, self.contents, about)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], model: Any = None) -> Learnt | None:
        """What is known of a model that was loaded from a folder; None where nothing is, or where its weights have changed.

        Without the model itself its weights are taken to be those of the folder.
        """
        contents, about = _read(Path(folder) / FILE, "learnt from")
        if contents is None or (model is not None and about.get("weights") != weights_digest(model)):
            return None
        return cls(contents, about.get("elsewhere") == "True")


def save_contents(path: Path, contents: Iterable[bytes], about: Mapping[str, str] | None = None) -> None:
    """Digests of texts in a file that checks itself."""
    rows = np.frombuffer(b"".join(sorted(contents)), dtype=np.uint8).reshape(-1, TEXT_BYTES)
    save_sealed({"contents": rows}, path, {"version": _VERSION, **(about or {})})


def load_contents(path: Path) -> frozenset[bytes] | None:
    """What `save_contents` wrote; None where there is no file, or one of another version."""
    return _read(path, "used")[0]


def _read(path: Path, what: str) -> tuple[frozenset[bytes] | None, dict[str, str]]:
    if not path.is_file():
        return None, {}
    try:
        arrays, about = load_sealed(path)
        contents = frozenset(row.tobytes() for row in arrays["contents"])
    except (DamagedError, OSError, KeyError) as error:
        raise StoreError(f"'{path}' must say which texts were {what}; it cannot be read ({error}).") from error
    return (contents if about.get("version") == _VERSION else None), about


def weights_digest(model: Any) -> str:
    """The digest of all weights of a torch module."""
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        whole = value.float() if value.dtype in (torch.bfloat16, torch.float16) else value  # as it is read again
        digest.update(name.encode() + whole.contiguous().cpu().numpy().tobytes())
    return digest.hexdigest()


def is_classifier(config: Any) -> bool:
    """Whether this is the configuration of a text classifier, which must have learnt from somebody's labels."""
    return any(str(kind).endswith("ForSequenceClassification") for kind in config.architectures or ())


@dataclass(frozen=True)
class FreshTexts:
    """Texts that the model did not learn from, to calibrate on or unlabelled, and sentences on what was left out of them."""

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


def unlabelled_texts(
    data: str | os.PathLike[str] | pd.DataFrame | Any, parts: TextParts, learnt: Learnt | None, *, leave_out: bool
) -> FreshTexts:
    """The texts of a file, each once, that nothing was learnt from and that do not count as calibration texts.

    Labelled and unlabelled texts must have the same mean of the proxy. To leave out what is a calibration text would leave
    frequent texts on one side only (.31 false certificates at delta .1). So one copy of each text counts, drawn from all its
    copies in both files, where it stands: `fresh_texts(..., unlabelled=contents)` leaves out the others there. And where some
    texts are left out, so are those that the random split would not have put among the calibration texts.
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
        return FreshTexts(found, ())
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
    return FreshTexts(found.take(np.sort(np.array(kept, dtype=np.int64))), (said,))


def unlabelled_contents(data: str | os.PathLike[str] | pd.DataFrame | Any | None) -> list[bytes]:
    """The contents of unlabelled texts, of which there may be none."""
    return [] if data is None else text_digests(*one_or_two(read_texts(data)))
