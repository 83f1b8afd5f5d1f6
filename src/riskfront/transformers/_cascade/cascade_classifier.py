"""CascadeClassifier: the runtime of a cascade. The large encoder reads only what the small model is not sure of."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from riskfront._calibration.certificates.certificate import Certificate
from riskfront._support.arrays import Array, BoolArray, IntArray
from riskfront._support.checked_json import check_digests, parse_json, write_digests
from riskfront._support.files import write_text
from riskfront.errors import NotCertifiedError, StoreError
from riskfront.transformers._adaptive_classifier import AdaptiveClassifier
from riskfront.transformers._cascade.cascade_trace import SMALL, CascadeSetting, CascadeTrace
from riskfront.transformers._cascade.small_pipeline import FILE as PIPELINE
from riskfront.transformers._cascade.small_pipeline import SmallPipeline
from riskfront.transformers._data.known_texts import Learnt, load_contents, save_contents
from riskfront.transformers._data.tokens import as_list
from riskfront.transformers._deployment import Deployed, Texts
from riskfront.transformers._exits import entropy
from riskfront.transformers._folder import CALIBRATED, CASCADE, CERTIFICATE, clear, local_folder, must_be_free
from riskfront.transformers._pruning.network import Answers

FORMAT = 1
LARGE = "large/encoder"
NEEDS = (
    "Its small model is a scikit-learn pipeline, which is not here: load all of it with "
    "`CascadeClassifier.from_pretrained(..., small=pipeline)`, the pipeline that was fitted for it."
)


@dataclass(frozen=True)
class CascadeAnswers:
    """What was answered, and by whom.

    Args:
        probabilities: (n, classes), in the order of the large encoder's classes.
        by_small: (n,), True where the small encoder answered.
        small: what the small encoder did with all texts; None when it was not run, or is a pipeline.
        large: what the large encoder did with the others; None when there are none.
    """

    probabilities: Array
    by_small: BoolArray
    small: Answers | None
    large: Answers | None


@dataclass(frozen=True)
class CascadeClassifier(Deployed):
    """A text classifier of two encoders with the same classes.

    Args:
        small: an encoder with its exits, or a scikit-learn pipeline; see ``large``.
        large: the encoder that reads the rest; their own certificates and settings are not used.
        certificate: of the setting in use; None before calibration.
        setting: thresholds; by default those of the certificate.
        calibrated: as in `AdaptiveClassifier`.
    """

    small: AdaptiveClassifier | SmallPipeline
    large: AdaptiveClassifier
    certificate: Certificate | None = None
    setting: CascadeSetting | None = None
    calibrated: frozenset[bytes] | None = None
    _encoder = LARGE

    @cached_property
    def _needs(self) -> str:
        return NEEDS if isinstance(self.small, SmallPipeline) else ""

    @cached_property
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

    @cached_property
    def used_setting(self) -> CascadeSetting:
        """The thresholds in use, read off the certificate once."""
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

    def _probabilities(self, texts: Texts, batch_size: int) -> Array:
        return self.answer(texts, batch_size=batch_size).probabilities

    def trace(self, texts: Texts, labels: IntArray) -> CascadeTrace:
        """What both encoders do with these texts at every setting; labels are positions in `classes`."""
        order = class_order(self.small.classes, self.classes)
        small = self.small.trace(texts, np.asarray(order)[labels])
        return CascadeTrace(small, self.large.trace(texts, labels), order)

    @property
    def learnt_from(self) -> Learnt | None:
        """What either encoder learnt from."""
        if isinstance(self.small, SmallPipeline):  # fitted to texts that the large one learnt from
            return self.large.learnt
        return both_learnt(self.small.learnt, self.large.learnt)

    def answer(self, texts: Texts, *, batch_size: int = 32) -> CascadeAnswers:
        """Texts through the small encoder, and those that it is not sure of through the large one."""
        setting, texts = self.used_setting, as_list(texts)
        stays = np.zeros(len(texts), dtype=bool)
        found = np.zeros((len(texts), len(self.classes)), dtype=np.float32)
        small = large = None
        if setting.tau_small > 0:
            if isinstance(self.small, SmallPipeline):
                said = self.small.probabilities(texts)
            else:
                quick = self.small.with_setting({"tau_layer": setting.tau_small})
                small = quick.answer(quick.tokenize(texts), batch_size=batch_size)
                said = small.probabilities
            stays = (entropy(torch.from_numpy(said)) < setting.tau_small).numpy()
            found[stays] = said[stays][:, class_order(self.small.classes, self.classes)]
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
        clear(target)  # the certificate comes last
        if isinstance(self.small, SmallPipeline):
            self.small.save(target / "small", self.tokenizer)
        else:
            (target / "small" / PIPELINE).unlink(missing_ok=True)
            replace(self.small, certificate=None, setting=None, calibrated=None).save_pretrained(target / "small")
        replace(self.large, certificate=None, setting=None, calibrated=None).save_pretrained(target / "large")
        about = {"format": FORMAT, "setting": None if self.setting is None else self.setting.to_config()}
        write_text(target / CASCADE, json.dumps(about, indent=2) + "\n")
        if self.calibrated is not None:
            save_contents(target / CALIBRATED, self.calibrated)
        write_digests(target, [CASCADE, *([CALIBRATED] if self.calibrated is not None else [])])
        self._certify_folder(target)

    @classmethod
    def from_pretrained(
        cls, folder: str | os.PathLike[str], *, device: str | None = None, small: Any = None
    ) -> CascadeClassifier:
        """Load what `save_pretrained` wrote, from a folder or a hub name.

        Args:
            folder: a folder, or a hub name.
            device: such as "cuda".
            small: where the small model is a scikit-learn pipeline, the one that was fitted; the folder does not hold it.
        """
        source = local_folder(folder)
        try:
            about = parse_json((source / CASCADE).read_bytes())
            if about["format"] != FORMAT:
                raise ValueError(f"format {about['format']}")
            setting = about["setting"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"'{source}' must be the folder of a cascade; {CASCADE} says no ({error}).") from error
        check_digests(source)
        file = source / CERTIFICATE
        first: AdaptiveClassifier | SmallPipeline
        if (source / "small" / PIPELINE).is_file():
            first = SmallPipeline.load(source / "small", small)
        else:
            first = AdaptiveClassifier.from_pretrained(source / "small", device=device)
        return cls(
            first,
            AdaptiveClassifier.from_pretrained(source / "large", device=device),
            Certificate.load(file) if file.is_file() else None,
            None if setting is None else CascadeSetting.of(setting),
            load_contents(source / CALIBRATED),
        )


def load_accelerated(
    folder: str | os.PathLike[str], *, device: str | None = None
) -> AdaptiveClassifier | CascadeClassifier:
    """The classifier or the cascade of a folder."""
    folder = local_folder(folder)
    if (folder / CASCADE).is_file():
        return CascadeClassifier.from_pretrained(folder, device=device)
    return AdaptiveClassifier.from_pretrained(folder, device=device)


def both_learnt(small: Learnt | None, large: Learnt | None) -> Learnt | None:
    """What either encoder learnt from; None where that of one is not known."""
    if small is None or large is None:
        return None
    return replace(large, elsewhere=small.elsewhere or large.elsewhere).and_from(small.contents)


def class_order(small: tuple[Any, ...], large: tuple[Any, ...]) -> list[int]:
    """Where each class of the large encoder stands among those of the small one."""
    if set(small) != set(large):
        raise StoreError(f"both encoders must have the same classes; got {list(small)} and {list(large)}.")
    return [small.index(label) for label in large]
