"""AdaptiveClassifier: a text classifier with its tokenizer, its certificate and its folder."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from riskfront._calibration.certificates.certificate import Certificate
from riskfront._support.arrays import Array, IntArray
from riskfront._support.checked_json import check_digests, parse_json, write_digests
from riskfront._support.files import make_usual, write_text
from riskfront.errors import NotCertifiedError, StoreError
from riskfront.transformers._backbones.backbone import Backbone, load_classifier, pick_device
from riskfront.transformers._data.known_texts import FILE, Learnt, load_contents, save_contents
from riskfront.transformers._data.tokens import Tokens, as_list, load_tokenizer, tokenize
from riskfront.transformers._deployment import Deployed, Texts
from riskfront.transformers._exits import ExitHeads, Layout, TokenPredictors, WordExit, must_be_of_kind
from riskfront.transformers._folder import (
    CALIBRATED,
    CERTIFICATE,
    CLASSIFIER,
    ENCODER,
    clear,
    files_of_classifier,
    local_folder,
    must_be_free,
    save_encoder,
)
from riskfront.transformers._pruning.latency import clocks_of
from riskfront.transformers._pruning.network import Answers, Network, Setting, answer
from riskfront.transformers._pruning.on_device import answer_on_device, runs_on_device
from riskfront.transformers._pruning.pruning_trace import PruningTrace

FORMAT = 2


@dataclass(frozen=True)
class AdaptiveClassifier(Deployed):
    """A text classifier that drops tokens, leaves early and skips attention heads.

    Args:
        network: the fine-tuned encoder with its heads.
        tokenizer: of the encoder, from Hugging Face.
        classes: the labels as `predict` returns them.
        max_length: tokens of a text that are read.
        certificate: of the setting in use; None before calibration.
        setting: thresholds; by default those of the certificate.
        learnt: which texts the network learnt from; None where that is not known.
        calibrated: which texts the certificate was made of, by digests of their content; None where that is not known.
    """

    network: Network
    tokenizer: Any
    classes: tuple[Any, ...]
    max_length: int
    certificate: Certificate | None = None
    setting: Setting | None = None
    learnt: Learnt | None = None
    calibrated: frozenset[bytes] | None = None

    def with_setting(self, setting: Mapping[str, Any] | Setting | None) -> AdaptiveClassifier:
        """The same network at other thresholds, certified or not."""
        return replace(self, setting=None if setting is None else Setting.of(setting))

    def _probabilities(self, texts: Texts, batch_size: int) -> Array:
        return self.answer(self.tokenize(texts), batch_size=batch_size).probabilities

    def tokenize(self, texts: Texts) -> Tokens:
        texts = as_list(texts)
        found = tokenize(self.tokenizer, texts, self.max_length)
        must_be_of_kind(self.network.layout.pairs, isinstance(texts[0], tuple | list))
        return found

    def trace(self, texts: Texts, labels: IntArray) -> PruningTrace:
        """What the network does with these texts at every setting; labels are positions in `classes`."""
        clocks = None
        if self.certificate is not None and "latency" in self.certificate.problem.losses:
            clocks = clocks_of(self.network, self.max_length, sorted({"float32", self.used_setting.precision}))
        tokens = self.tokenize(texts)
        return PruningTrace(self.network, tokens, labels, classes=self.classes, progress=False, clocks=clocks)

    @cached_property
    def used_setting(self) -> Setting:
        """The thresholds in use: ``setting``, or those of the certificate. Read once: a certificate is made of data frames,
        which take longer to ask than a layer takes to run."""
        if self.setting is not None:
            return self.setting
        if self.certificate is None:
            raise NotCertifiedError(
                "there is no certificate yet. Calibrate first; or, of a folder with a frontier, choose the limits: riskfront "
                "choose FOLDER; or choose thresholds yourself: with_setting({'tau_layer': 0.1})."
            )
        return Setting.of(self.certificate.config)

    def answer(self, tokens: Tokens, *, batch_size: int = 32) -> Answers:
        """Texts that are tokenised already, in batches of similar length."""
        network, setting = self.network, self.used_setting
        on_cpu = network.backbone.device.type == "cpu" or network.words is not None  # words are read on the processor
        if on_cpu or not runs_on_device(network.layers(network.kept_heads(setting.tau_head), setting.precision)):
            return answer(network, setting, tokens, batch_size=batch_size)
        return answer_on_device(network, setting, tokens, batch_size=batch_size)

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """A folder that `from_pretrained` loads; its folder `encoder` holds the fine-tuned model as Hugging Face knows it."""
        target = Path(folder)
        must_be_free(target)
        clear(target)  # the certificate comes last, when all else is there
        (target / ENCODER / FILE).unlink(missing_ok=True)
        save_network(self.network, target)
        self.tokenizer.save_pretrained(target / ENCODER)
        about: dict[str, Any] = {"format": FORMAT, "classes": list(self.classes), "max_length": self.max_length}
        about["layout"] = asdict(self.network.layout)
        about["dtype"] = self.network.backbone.dtype
        about["setting"] = None if self.setting is None else self.setting.to_config()
        write_text(target / CLASSIFIER, json.dumps(about, indent=2) + "\n")
        if self.learnt is not None:
            self.learnt.save(target / ENCODER, self.network.backbone.model)
        if self.calibrated is not None:
            save_contents(target / CALIBRATED, self.calibrated)
        write_digests(target, files_of_classifier(target))
        self._certify_folder(target)

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str], *, device: str | None = None) -> AdaptiveClassifier:
        """Load what `save_pretrained` or `riskfront accelerate` wrote, from a folder or a hub name."""
        source = local_folder(folder)
        try:
            about = parse_json((source / CLASSIFIER).read_bytes())
            if about["format"] != FORMAT:
                raise ValueError(f"format {about['format']}")
            classes, max_length, setting = tuple(about["classes"]), int(about["max_length"]), about["setting"]
            layout, dtype = Layout(**about["layout"]), str(about.get("dtype", "float32"))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"'{source}' must be a folder of save_pretrained; {CLASSIFIER} says no ({error})."
            ) from error
        check_digests(source)
        file = source / CERTIFICATE
        network = load_network(source, layout, device=device, dtype=dtype)
        return cls(
            network,
            load_tokenizer(str(source / ENCODER)),
            classes,
            max_length,
            Certificate.load(file) if file.is_file() else None,
            None if setting is None else Setting.of(setting),
            Learnt.load(source / ENCODER, network.backbone.model),
            load_contents(source / CALIBRATED),
        )


def save_network(network: Network, folder: Path) -> None:
    save_encoder(network.backbone.model, folder)
    tensors = {"head_scores": torch.from_numpy(np.ascontiguousarray(network.head_scores))}
    predictors = network.predictors if network.scores_tokens else None
    for name, module in (("exit_heads", network.exit_heads), ("predictors", predictors), ("words", network.words)):
        of_module = {} if module is None else module.state_dict()
        tensors |= {f"{name}.{key}": value.contiguous() for key, value in of_module.items()}
    save_file(tensors, folder / "adaptive.safetensors")
    for path in (*folder.glob("*.safetensors"), *(folder / ENCODER).glob("*.safetensors")):
        make_usual(path)


def load_network(folder: Path, layout: Layout, *, device: str | None = None, dtype: str = "float32") -> Network:
    place = pick_device(device)
    backbone = Backbone(load_classifier(str(folder / ENCODER)).to(place))
    if dtype != "float32":
        backbone.to_dtype(dtype)
    exit_heads = ExitHeads(layout, backbone.n_layers, backbone.width, backbone.n_classes)
    predictors = TokenPredictors(layout, backbone.n_layers, backbone.width)
    try:
        tensors = load_file(folder / "adaptive.safetensors")
        scores = tensors.pop("head_scores").numpy()
        words = WordExit(backbone.n_classes).eval() if "words.weight" in tensors else None
        scores_tokens = any(key.startswith("predictors.") for key in tensors)
        there = {"exit_heads": exit_heads, "predictors": predictors if scores_tokens else None, "words": words}
        for name, module in there.items():
            part = {key.removeprefix(f"{name}."): tensors[key] for key in tensors if key.startswith(f"{name}.")}
            if module is not None:
                module.load_state_dict(part)
    except (SafetensorError, OSError, KeyError, RuntimeError) as error:
        raise StoreError(
            f"'{folder}' must hold the heads of its model; adaptive.safetensors says no ({error})."
        ) from error
    return Network(
        backbone, scores, exit_heads.to(place).eval(), predictors.to(place).eval(), layout, words, scores_tokens
    )
