"""A certified classifier after deployment: outcomes for a monitor, and a check on new texts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import pandas as pd

from riskfront._calibration.certificates.certificate import Certificate
from riskfront._data.table import LossTable
from riskfront._support.arrays import Array, IntArray
from riskfront._verification.check import Check, check
from riskfront.errors import InvalidInputError, NotCertifiedError
from riskfront.transformers._data.known_texts import Learnt, one_of_each
from riskfront.transformers._data.texts import Label, LabelledTexts, labelled_texts, read_texts
from riskfront.transformers._data.tokens import as_list, is_missing

_NEED_LABELS = ("accuracy_drop", "accuracy_drop_clipped", "error")


class Deployed(Protocol):
    """What a classifier and a cascade have in common."""

    @property
    def certificate(self) -> Certificate | None: ...

    @property
    def calibrated(self) -> frozenset[bytes] | None: ...

    @property
    def classes(self) -> tuple[Any, ...]: ...

    @property
    def used_setting(self) -> Any: ...

    @property
    def setting(self) -> Any: ...

    @property
    def learnt_from(self) -> Learnt | None: ...

    def trace(self, texts: Any, labels: IntArray) -> Any: ...


def outcomes(classifier: Deployed, texts: Any, labels: Any) -> dict[str, Array]:
    """Column -> (n,), for a monitor: the setting in use and the full model run on these texts. What needs a label is nan where
    the label is None or nan."""
    given, texts = np.asarray(labels, dtype=object).reshape(-1), as_list(texts)
    if len(given) != len(texts):
        raise InvalidInputError(f"there must be a label for each of {len(texts)} texts; got {len(given)}.")
    gone = next((i for i, text in enumerate(texts) if is_missing(text)), None)
    if gone is not None:
        raise InvalidInputError(
            f"every text must have at least one character; number {gone} is empty or missing. Leave it and its label out."
        )
    known = ~pd.isna(given)
    trace = classifier.trace(texts, _positions(given, known, classifier.classes))
    found = trace.losses(classifier.used_setting, trace.examples)
    found = {
        name: np.where(known, values, np.nan) if name in _NEED_LABELS else values for name, values in found.items()
    }
    return {**found, "label": given}


def set_by_hand(classifier: Deployed) -> dict[str, Any] | None:
    """The thresholds in use, where they are not those of the certificate."""
    if classifier.setting is None or not classifier.certificate:
        return None
    certified = type(classifier.setting).of(classifier.certificate.config)
    return None if classifier.setting == certified else dict(classifier.setting.to_config())


def check_texts(
    classifier: Deployed,
    data: str | os.PathLike[str] | pd.DataFrame | Any,
    *,
    delta: float | None = None,
    leave_out_repeats: bool = False,
) -> Check:
    """Test the certified setting on new labelled texts, in both directions, beside the full model.

    Args:
        data: a file, a data frame or a data set, as for `accelerate`; every row counts, whatever its column `split` says.
        delta: the probability with which the check may be wrong; that of the certificate without it.
        leave_out_repeats: go on without texts that the model learnt from, that the certificate was made of, or that come more
            than once; an error otherwise.
    """
    certificate = classifier.certificate
    if certificate is None:
        raise NotCertifiedError("there is no certificate to check. Certify first.")
    if (by_hand := set_by_hand(classifier)) is not None:
        raise InvalidInputError(
            f"the thresholds in use must be those of the certificate, which a check tests; they were set by hand: {by_hand}. "
            "Check with_setting(None)."
        )
    texts = _new(classifier, labelled_texts(read_texts(data)), leave_out_repeats)
    unknown = [label for label in texts.classes if label not in classifier.classes]
    if unknown:
        raise InvalidInputError(
            f"labels must be among the classes of the model, {list(classifier.classes)}; got {unknown}."
        )
    both = texts.first if texts.second is None else list(zip(texts.first, texts.second, strict=True))
    trace = classifier.trace(both, texts.reordered(tuple(classifier.classes)).labels)
    config = certificate.config
    columns = {
        name: values[None]
        for name, values in trace.losses(config, trace.examples).items()
        if name in certificate.problem.losses
    }
    table = LossTable([config], columns, trace.groups, {k: v for k, v in trace.bounds.items() if k in columns})
    if classifier.calibrated is not None:  # texts were compared by their content: what they lost tells less
        certificate = replace(certificate, example_fingerprints={})
    return check(certificate, table.with_compared_examples(), delta=delta)


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
