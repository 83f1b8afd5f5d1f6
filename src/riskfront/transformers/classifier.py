"""AdaptiveClassifier: a text classifier with its tokenizer, its certificate and its folder."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from riskfront.arrays import Array
from riskfront.certificates.certificate import Certificate
from riskfront.errors import NotCertifiedError, StoreError
from riskfront.runtime.files import make_usual, write_text
from riskfront.transformers.backbones.backbone import Backbone, load_classifier, pick_device
from riskfront.transformers.data.learnt import FILE, Learnt
from riskfront.transformers.data.tokens import Tokens, load_tokenizer, tokenize
from riskfront.transformers.exits.heads import ExitHeads, TokenPredictors
from riskfront.transformers.exits.layout import Layout
from riskfront.transformers.folder import ENCODER, save_encoder
from riskfront.transformers.pruning.network import Network
from riskfront.transformers.pruning.runtime import Answers, answer
from riskfront.transformers.pruning.setting import Setting

Texts = Sequence[str] | Sequence[tuple[str, str]]
FORMAT = 2


@dataclass(frozen=True)
class AdaptiveClassifier:
    """A text classifier that drops tokens, leaves early and skips attention heads.

    Args:
        network: the fine-tuned encoder with its heads.
        tokenizer: of the encoder, from Hugging Face.
        classes: the labels as `predict` returns them.
        max_length: tokens of a text that are read.
        certificate: of the setting in use; None before calibration.
        setting: thresholds; by default those of the certificate.
        learnt: which texts the network learnt from; None where that is not known.
    """

    network: Network
    tokenizer: Any
    classes: tuple[Any, ...]
    max_length: int
    certificate: Certificate | None = None
    setting: Setting | None = None
    learnt: Learnt | None = None

    @property
    def abstain_label(self) -> Any:
        """What `predict` returns where there is no answer: "abstain" for classes that are texts, else a number below
        all of them."""
        if any(isinstance(label, str) for label in self.classes):
            return "abstain" if "abstain" not in self.classes else "no answer"
        return min(-1, int(min(self.classes)) - 1)

    def with_setting(self, setting: Mapping[str, Any] | Setting | None) -> AdaptiveClassifier:
        """The same network at other thresholds, certified or not."""
        return replace(self, setting=None if setting is None else Setting.of(setting))

    def predict(self, texts: Texts, *, batch_size: int = 32) -> Array:
        """The class of each text, or of each pair of texts; `abstain_label` where there is no answer."""
        answers = self.answer(self.tokenize(texts), batch_size=batch_size)
        labels = np.array(self.classes)[answers.probabilities.argmax(axis=1)]
        silent = answers.probabilities.max(axis=1) < self.used_setting.abstain
        return np.where(silent, np.array(self.abstain_label), labels) if silent.any() else labels

    def predict_proba(self, texts: Texts, *, batch_size: int = 32) -> Array:
        """(n, classes): the probabilities of the layer at which each text left, whether it is sure enough or not."""
        return self.answer(self.tokenize(texts), batch_size=batch_size).probabilities

    def tokenize(self, texts: Texts) -> Tokens:
        return tokenize(self.tokenizer, texts, self.max_length)

    @property
    def used_setting(self) -> Setting:
        if self.setting is not None:
            return self.setting
        if self.certificate is None:
            raise NotCertifiedError(
                "there is no certificate yet. Calibrate first, or choose thresholds yourself: with_setting({'tau_layer': 0.1})."
            )
        return Setting.of(self.certificate.config)

    def answer(self, tokens: Tokens, *, batch_size: int = 32) -> Answers:
        """Texts that are tokenised already, in batches of similar length."""
        return answer(self.network, self.used_setting, tokens, batch_size=batch_size)

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """A folder that `from_pretrained` loads; its folder `encoder` holds the fine-tuned model as Hugging Face knows it."""
        target = Path(folder)
        certificate = target / "certificate.json"
        try:
            target.mkdir(parents=True, exist_ok=True)
            certificate.unlink(missing_ok=True)  # that of another network; ours comes last, when all else is there
            (target / ENCODER / FILE).unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"cannot write in '{target}': {error.strerror}.") from error
        save_network(self.network, target)
        self.tokenizer.save_pretrained(target / ENCODER)
        about: dict[str, Any] = {"format": FORMAT, "classes": list(self.classes), "max_length": self.max_length}
        about["layout"] = self.network.layout.to_dict()
        about["setting"] = None if self.setting is None else self.setting.to_config()
        write_text(target / "adaptive.json", json.dumps(about, indent=2) + "\n")
        if self.learnt is not None:
            self.learnt.save(target / ENCODER, self.network.backbone.model)
        if self.certificate is not None:
            self.certificate.save(certificate)

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str], *, device: str | None = None) -> AdaptiveClassifier:
        """Load what `save_pretrained` or `riskfront accelerate` wrote."""
        source = Path(folder)
        try:
            about = json.loads((source / "adaptive.json").read_text(encoding="utf-8"))
            if about["format"] != FORMAT:
                raise ValueError(f"format {about['format']}")
            classes, max_length, setting = tuple(about["classes"]), int(about["max_length"]), about["setting"]
            layout = Layout.from_dict(about["layout"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"'{source}' must be a folder of save_pretrained; adaptive.json says no ({error})."
            ) from error
        file = source / "certificate.json"
        network = load_network(source, layout, device=device)
        return cls(
            network,
            load_tokenizer(str(source / ENCODER)),
            classes,
            max_length,
            Certificate.load(file) if file.is_file() else None,
            None if setting is None else Setting.of(setting),
            Learnt.load(source / ENCODER, network.backbone.model),
        )


def save_network(network: Network, folder: Path) -> None:
    save_encoder(network.backbone.model, folder)
    tensors = {"head_scores": torch.from_numpy(np.ascontiguousarray(network.head_scores))}
    for name, module in (("exit_heads", network.exit_heads), ("predictors", network.predictors)):
        tensors |= {f"{name}.{key}": value.contiguous() for key, value in module.state_dict().items()}
    save_file(tensors, folder / "adaptive.safetensors")
    for path in (*folder.glob("*.safetensors"), *(folder / ENCODER).glob("*.safetensors")):
        make_usual(path)


def load_network(folder: Path, layout: Layout, *, device: str | None = None) -> Network:
    place = pick_device(device)
    backbone = Backbone(load_classifier(str(folder / ENCODER)).to(place))
    exit_heads = ExitHeads(layout, backbone.n_layers, backbone.width, backbone.n_classes)
    predictors = TokenPredictors(layout, backbone.n_layers, backbone.width)
    try:
        tensors = load_file(folder / "adaptive.safetensors")
        scores = tensors.pop("head_scores").numpy()
        for name, module in (("exit_heads", exit_heads), ("predictors", predictors)):
            part = {key.removeprefix(f"{name}."): tensors[key] for key in tensors if key.startswith(f"{name}.")}
            module.load_state_dict(part)
    except (SafetensorError, OSError, KeyError, RuntimeError) as error:
        raise StoreError(
            f"'{folder}' must hold the heads of its model; adaptive.safetensors says no ({error})."
        ) from error
    return Network(backbone, scores, exit_heads.to(place).eval(), predictors.to(place).eval(), layout)
