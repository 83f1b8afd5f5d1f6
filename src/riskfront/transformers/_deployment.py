"""A certified classifier or cascade in use: its answers, outcomes for a monitor, and a check on new texts."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from riskfront._calibration.certificates.certificate import Certificate
from riskfront._calibration.monitoring.monitor import Monitor
from riskfront._data.table import LossTable
from riskfront._support.arrays import Array, BoolArray, IntArray
from riskfront._verification.check import Check, check
from riskfront.errors import InvalidInputError, NotCertifiedError
from riskfront.transformers._data.known_texts import Learnt, one_of_each
from riskfront.transformers._data.texts import Label, LabelledTexts, labelled_texts, read_texts
from riskfront.transformers._data.tokens import as_list, is_missing
from riskfront.transformers._folder import CERTIFICATE, ENCODER, card, push_folder, write_guard

Texts = Sequence[str] | Sequence[tuple[str, str]]
MISSING = ("raise", "abstain")
_NEED_LABELS = ("accuracy_drop", "accuracy_drop_clipped", "error")


class Deployed:
    """What a classifier and a cascade have in common: answers, and the life after deployment."""

    classes: Any
    certificate: Certificate | None
    setting: Any
    calibrated: frozenset[bytes] | None
    used_setting: Any
    learnt: Any
    _encoder = ENCODER  # the folder of the encoder to which accuracy drops refer
    _needs: Any = ""  # what a saved folder lacks, in the words of its page

    @property
    def abstain_label(self) -> Any:
        """What `predict` returns where there is no answer: "abstain" for classes that are texts, else a number below
        all of them."""
        if any(isinstance(label, str) for label in self.classes):
            return "abstain" if "abstain" not in self.classes else "no answer"
        return min(-1, int(min(self.classes)) - 1)

    @property
    def learnt_from(self) -> Learnt | None:
        """What the model learnt from; None where that is not known."""
        return self.learnt

    def trace(self, texts: Any, labels: IntArray) -> Any:
        """What happens to these texts at every setting; labels are positions in `classes`."""
        raise NotImplementedError

    def _probabilities(self, texts: Any, batch_size: int) -> Array:
        """(n, classes), of texts with something to read."""
        raise NotImplementedError

    def predict(self, texts: Texts, *, batch_size: int = 32, missing: str = "raise") -> Array:
        """The class of each text, or of each pair of texts; `abstain_label` where there is no answer.

        Args:
            missing: what becomes of texts that are empty, None or nan: "raise" an error, or "abstain" on them, with a warning,
                and answer the others.
        """
        found = self.predict_proba(texts, batch_size=batch_size, missing=missing)
        return labels_of(found, self.classes, self.used_setting.abstain, self.abstain_label)

    def predict_proba(self, texts: Texts, *, batch_size: int = 32, missing: str = "raise") -> Array:
        """(n, classes): the probabilities of the exit at which each text left, whether it is sure enough or not; nan for a
        text without an answer."""
        if missing not in MISSING:
            raise InvalidInputError(f"missing must be one of {list(MISSING)}; got {missing!r}.")
        given = as_list(texts)
        gone = np.array([missing == "abstain" and is_missing(text) for text in given], dtype=bool)
        if not gone.any():
            return self._probabilities(given, batch_size)
        warnings.warn(
            f"{int(gone.sum()):,} of {len(gone):,} texts are empty or missing, the first is number {int(np.argmax(gone))}: "
            "they get no answer.",
            stacklevel=2,
        )
        found = np.full((len(gone), len(self.classes)), np.nan, dtype=np.float32)
        if not gone.all():
            found[~gone] = self._probabilities([given[int(i)] for i in np.flatnonzero(~gone)], batch_size)
        return found

    def monitor(self, **options: Any) -> Monitor:
        """Watch the certified limits after deployment; ``options`` are those of ``riskfront.Monitor``."""
        if self.certificate is None:
            raise NotCertifiedError("there is no certificate yet. Calibrate first.")
        return Monitor(self.certificate, **options)

    def outcomes(self, texts: Texts, labels: Any) -> dict[str, Array]:
        """What `monitor().update` takes, of new texts with their labels: the setting in use and the full model run on them.
        What needs a label is nan where the label is None or nan."""
        given, texts = np.asarray(labels, dtype=object).reshape(-1), as_list(texts)
        if len(given) != len(texts):
            raise InvalidInputError(f"there must be a label for each of {len(texts)} texts; got {len(given)}.")
        gone = next((i for i, text in enumerate(texts) if is_missing(text)), None)
        if gone is not None:
            raise InvalidInputError(
                f"every text must have at least one character; number {gone} is empty or missing. Leave it and its label out."
            )
        known = ~pd.isna(given)
        trace = self.trace(texts, _positions(given, known, self.classes))
        found = trace.losses(self.used_setting, trace.examples)
        for name in _NEED_LABELS:
            found[name] = np.where(known, found[name], np.nan)
        return {**found, "label": given}

    def check(
        self,
        data: str | os.PathLike[str] | pd.DataFrame | Any,
        *,
        delta: float | None = None,
        leave_out_repeats: bool = False,
    ) -> Check:
        """Test on new labelled texts whether the certified setting still keeps its limits; see `riskfront.check`.

        Args:
            data: a file, a data frame or a data set, as for `accelerate`; every row counts, whatever its column `split` says.
            delta: the probability with which the check may be wrong; that of the certificate without it.
            leave_out_repeats: go on without texts that the model learnt from, that the certificate was made of, or that come
                more than once; an error otherwise.
        """
        certificate = self.certificate
        if certificate is None:
            raise NotCertifiedError("there is no certificate to check. Certify first.")
        if (by_hand := self._set_by_hand()) is not None:
            raise InvalidInputError(
                f"the thresholds in use must be those of the certificate, which a check tests; they were set by hand: "
                f"{by_hand}. Check with_setting(None)."
            )
        texts = _new(self, labelled_texts(read_texts(data)), leave_out_repeats)
        unknown = [label for label in texts.classes if label not in self.classes]
        if unknown:
            raise InvalidInputError(
                f"labels must be among the classes of the model, {list(self.classes)}; got {unknown}."
            )
        trace = self.trace(texts.examples, texts.reordered(tuple(self.classes)).labels)
        losses = trace.losses(certificate.config, trace.examples)
        columns = {name: values[None] for name, values in losses.items() if name in certificate.problem.losses}
        bounds = {name: ends for name, ends in trace.bounds.items() if name in columns}
        table = LossTable([certificate.config], columns, trace.groups, bounds)
        if self.calibrated is not None:  # texts were compared by their content: what they lost tells less
            certificate = replace(certificate, example_fingerprints={})
        return check(certificate, table.with_compared_examples(), delta=delta)

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """A folder that `from_pretrained` loads."""
        raise NotImplementedError

    def push_to_hub(self, repo_id: str, **options: Any) -> str:
        """Upload the folder of `save_pretrained` with a model card that holds the verdict and what is not promised.

        Args:
            repo_id: such as "me/my-classifier"; it is made where there is none.
            options: private, token, commit_message, revision, create_pr, as for transformers.
        """
        return push_folder(self.save_pretrained, partial(card, **self._card(), on_hub=True), repo_id, **options)

    def _certify_folder(self, folder: Path) -> None:
        """The last files of a folder: its card and, when all else is there, the certificate."""
        write_guard(folder, **self._card())
        if self.certificate is not None:
            self.certificate.save(folder / CERTIFICATE)

    def _card(self) -> dict[str, Any]:
        about = {"kind": type(self).__name__, "encoder": self._encoder, "needs": self._needs}
        return {**about, "certificate": self.certificate, "by_hand": self._set_by_hand()}

    def _set_by_hand(self) -> dict[str, Any] | None:
        """The thresholds in use, where they are not those of the certificate."""
        if self.setting is None or not self.certificate:
            return None
        certified = type(self.setting).of(self.certificate.config)
        return None if self.setting == certified else dict(self.setting.to_config())


def is_answered(probabilities: Array, abstain: float) -> BoolArray:
    """(n,): whether the top probability reaches lambda, compared in single precision, as a trace does."""
    return probabilities.max(axis=1) >= abstain


def labels_of(probabilities: Array, classes: Sequence[Any], abstain: float, abstain_label: Any) -> Array:
    """(n,): the most probable class, or the abstain label where it is not probable enough, or where there is no answer."""
    silent = ~is_answered(probabilities, abstain)
    labels = np.array(classes)[probabilities.argmax(axis=1)]
    return np.where(silent, np.array(abstain_label), labels) if silent.any() else labels


def _new(classifier: Deployed, texts: LabelledTexts, leave_out: bool) -> LabelledTexts:
    """The texts that nothing was learnt from and nothing was certified by, each of them once."""
    learnt = frozenset() if classifier.learnt_from is None else classifier.learnt_from.contents
    used = classifier.calibrated or frozenset()
    seen = np.array([content in learnt for content in texts.contents])
    tested = ~seen & np.array([content in used for content in texts.contents])
    kept = one_of_each(texts, np.flatnonzero(~seen & ~tested))
    counts = {
        "were learnt from": int(seen.sum()),
        "are those the certificate was made of": int(tested.sum()),
        "come more than once": len(texts) - int((seen | tested).sum()) - len(kept),
    }
    found = " and ".join(f"{n:,} {what}" for what, n in counts.items() if n)
    if found and not leave_out:
        raise InvalidInputError(
            f"a check needs new texts, each of them once; of these {len(texts):,}, {found} (white space, case and the order "
            "of a pair do not count). Give other texts, or leave these out: --leave-out-repeats."
        )
    if len(kept) < 2:
        raise InvalidInputError(f"there must be at least 2 new texts to check with; of these {len(texts):,}, {found}.")
    return texts.take(kept)


def _positions(labels: Array, known: Array, classes: Sequence[Label]) -> IntArray:
    place = {label: i for i, label in enumerate(classes)}
    unknown = sorted({repr(label) for label in labels[known] if label not in place})
    if unknown:
        raise InvalidInputError(f"labels must be among {list(classes)}, or None; got {', '.join(unknown[:5])}.")
    return np.array([place[label] if here else 0 for label, here in zip(labels, known, strict=True)], dtype=np.int64)
