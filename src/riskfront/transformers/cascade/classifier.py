"""CascadeClassifier: the runtime of a cascade. The large encoder reads only what the small one is not sure of."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from riskfront.arrays import Array, BoolArray
from riskfront.certificates.certificate import Certificate
from riskfront.errors import NotCertifiedError, StoreError
from riskfront.runtime.files import write_text
from riskfront.transformers.cascade.trace import SMALL, CascadeSetting
from riskfront.transformers.classifier import AdaptiveClassifier, Texts
from riskfront.transformers.exits.heads import entropy
from riskfront.transformers.folder import must_be_free, write_guard
from riskfront.transformers.pruning.runtime import Answers

FORMAT, FILE = 1, "cascade.json"


@dataclass(frozen=True)
class CascadeAnswers:
    """What was answered, and by whom.

    Args:
        probabilities: (n, classes), in the order of the large encoder's classes.
        by_small: (n,), True where the small encoder answered.
        small: what the small encoder did with all texts; None when it was not run.
        large: what the large encoder did with the others; None when there are none.
    """

    probabilities: Array
    by_small: BoolArray
    small: Answers | None
    large: Answers | None


@dataclass(frozen=True)
class CascadeClassifier:
    """A text classifier of two encoders with the same classes.

    Args:
        small, large: the encoders with their exits; their own certificates and settings are not used.
        certificate: of the setting in use; None before calibration.
        setting: thresholds; by default those of the certificate.
    """

    small: AdaptiveClassifier
    large: AdaptiveClassifier
    certificate: Certificate | None = None
    setting: CascadeSetting | None = None

    @property
    def classes(self) -> tuple[Any, ...]:
        return self.large.classes

    @property
    def max_length(self) -> int:
        return self.large.max_length

    @property
    def tokenizer(self) -> Any:
        return self.large.tokenizer

    @property
    def network(self) -> Any:
        """Of the large encoder."""
        return self.large.network

    @property
    def abstain_label(self) -> Any:
        return self.large.abstain_label

    @property
    def used_setting(self) -> CascadeSetting:
        if self.setting is not None:
            return self.setting
        if self.certificate is None:
            raise NotCertifiedError(
                "there is no certificate yet. Calibrate first, or choose thresholds yourself: "
                f"with_setting({{'{SMALL}': 0.1}})."
            )
        return CascadeSetting.of(self.certificate.config)

    def with_setting(self, setting: Mapping[str, Any] | CascadeSetting | None) -> CascadeClassifier:
        """The same encoders at other thresholds, certified or not."""
        return replace(self, setting=None if setting is None else CascadeSetting.of(setting))

    def predict(self, texts: Texts, *, batch_size: int = 32) -> Array:
        """The class of each text, or of each pair of texts; `abstain_label` where there is no answer."""
        found = self.predict_proba(texts, batch_size=batch_size)
        labels = np.array(self.classes)[found.argmax(axis=1)]
        silent = found.max(axis=1) < self.used_setting.abstain
        return np.where(silent, np.array(self.abstain_label), labels) if silent.any() else labels

    def predict_proba(self, texts: Texts, *, batch_size: int = 32) -> Array:
        """(n, classes): the probabilities of the exit at which each text left."""
        return self.answer(texts, batch_size=batch_size).probabilities

    def answer(self, texts: Texts, *, batch_size: int = 32) -> CascadeAnswers:
        """Texts through the small encoder, and those that it is not sure of through the large one."""
        setting = self.used_setting
        stays = np.zeros(len(texts), dtype=bool)
        found = np.zeros((len(texts), len(self.classes)), dtype=np.float32)
        small = large = None
        if setting.tau_small > 0:
            quick = self.small.with_setting({"tau_layer": setting.tau_small})
            small = quick.answer(quick.tokenize(texts), batch_size=batch_size)
            stays = (entropy(torch.from_numpy(small.probabilities)) < setting.tau_small).numpy()
            found[stays] = small.probabilities[stays][:, class_order(self.small.classes, self.classes)]
        rest = np.flatnonzero(~stays)
        if len(rest):
            thorough = self.large.with_setting(setting.large)
            chosen: Any = [texts[int(i)] for i in rest]
            large = thorough.answer(thorough.tokenize(chosen), batch_size=batch_size)
            found[rest] = large.probabilities
        return CascadeAnswers(found, stays, small, large)

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """A folder that `from_pretrained` loads, with a folder for each encoder."""
        target = Path(folder)
        must_be_free(target)
        try:
            target.mkdir(parents=True, exist_ok=True)
            (target / "certificate.json").unlink(missing_ok=True)  # that of others; ours comes last
        except OSError as error:
            raise StoreError(f"cannot write in '{target}': {error.strerror}.") from error
        for name, part in (("small", self.small), ("large", self.large)):
            replace(part, certificate=None, setting=None).save_pretrained(target / name)
        about = {"format": FORMAT, "setting": None if self.setting is None else self.setting.to_config()}
        write_text(target / FILE, json.dumps(about, indent=2) + "\n")
        write_guard(target, "CascadeClassifier", "large/encoder")
        if self.certificate is not None:
            self.certificate.save(target / "certificate.json")

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str], *, device: str | None = None) -> CascadeClassifier:
        """Load what `save_pretrained` wrote."""
        source = Path(folder)
        try:
            about = json.loads((source / FILE).read_text(encoding="utf-8"))
            if about["format"] != FORMAT:
                raise ValueError(f"format {about['format']}")
            setting = about["setting"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"'{source}' must be the folder of a cascade; {FILE} says no ({error}).") from error
        file = source / "certificate.json"
        return cls(
            AdaptiveClassifier.from_pretrained(source / "small", device=device),
            AdaptiveClassifier.from_pretrained(source / "large", device=device),
            Certificate.load(file) if file.is_file() else None,
            None if setting is None else CascadeSetting.of(setting),
        )


def load_accelerated(
    folder: str | os.PathLike[str], *, device: str | None = None
) -> AdaptiveClassifier | CascadeClassifier:
    """The classifier or the cascade of a folder."""
    if (Path(folder) / FILE).is_file():
        return CascadeClassifier.from_pretrained(folder, device=device)
    return AdaptiveClassifier.from_pretrained(folder, device=device)


def class_order(small: tuple[Any, ...], large: tuple[Any, ...]) -> list[int]:
    """Where each class of the large encoder stands among those of the small one."""
    if set(small) != set(large):
        raise StoreError(f"both encoders must have the same classes; got {list(small)} and {list(large)}.")
    return [small.index(label) for label in large]
