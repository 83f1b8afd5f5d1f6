"""AdaptiveClassifier: a text classifier with its tokenizer, its certificate and its folder."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from riskfront._calibration.certificates.certificate import Certificate
from riskfront._calibration.monitoring.monitor import Monitor
from riskfront._support.arrays import Array, BoolArray, IntArray
from riskfront._support.checked_json import check_digests, parse_json, write_digests
from riskfront._support.files import make_usual, write_text
from riskfront._verification.check import Check
from riskfront.errors import InvalidInputError, NotCertifiedError, StoreError
from riskfront.transformers._backbones.backbone import Backbone, load_classifier, pick_device
from riskfront.transformers._data.known_texts import FILE, Learnt, load_contents, save_contents
from riskfront.transformers._data.tokens import Tokens, as_list, is_missing, load_tokenizer, tokenize
from riskfront.transformers._deployment import check_texts, outcomes, set_by_hand
from riskfront.transformers._exits import ExitHeads, Layout, TokenPredictors, WordExit, must_be_of_kind
from riskfront.transformers._folder import (
    CALIBRATED,
    CERTIFICATE,
    CLASSIFIER,
    ENCODER,
    card,
    clear,
    files_of_classifier,
    local_folder,
    must_be_free,
    push_folder,
    save_encoder,
    write_guard,
)
from riskfront.transformers._pruning.latency import clocks_of
from riskfront.transformers._pruning.network import Answers, Network, Setting, answer
from riskfront.transformers._pruning.on_device import answer_on_device, runs_on_device
from riskfront.transformers._pruning.pruning_trace import PruningTrace

Texts = Sequence[str] | Sequence[tuple[str, str]]
FORMAT = 2
MISSING = ("raise", "abstain")


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

    def predict(self, texts: Texts, *, batch_size: int = 32, missing: str = "raise") -> Array:
        """The class of each text, or of each pair of texts; `abstain_label` where there is no answer.

        Args:
            missing: what becomes of texts that are empty, None or nan: "raise" an error, or "abstain" on them, with a warning,
                and answer the others.
        """
        found = self.predict_proba(texts, batch_size=batch_size, missing=missing)
        return labels_of(found, self.classes, self.used_setting.abstain, self.abstain_label)

    def predict_proba(self, texts: Texts, *, batch_size: int = 32, missing: str = "raise") -> Array:
        """(n, classes): the probabilities of the layer at which each text left, whether it is sure enough or not; nan for a
        text without an answer."""
        return answered(
            texts,
            missing,
            len(self.classes),
            lambda kept: self.answer(self.tokenize(kept), batch_size=batch_size).probabilities,
        )

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

    @property
    def learnt_from(self) -> Learnt | None:
        return self.learnt

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

    def monitor(self, **options: Any) -> Monitor:
        """Watch the certified limits after deployment; ``options`` are those of ``riskfront.Monitor``."""
        if self.certificate is None:
            raise NotCertifiedError("there is no certificate yet. Calibrate first.")
        return Monitor(self.certificate, **options)

    def outcomes(self, texts: Texts, labels: Any) -> dict[str, Array]:
        """What `monitor().update` takes, of new texts with their labels: the setting in use and the full model run on them."""
        return outcomes(self, texts, labels)

    def check(
        self,
        data: str | os.PathLike[str] | pd.DataFrame | Any,
        *,
        delta: float | None = None,
        leave_out_repeats: bool = False,
    ) -> Check:
        """Test on new labelled texts whether the certified setting still keeps its limits; see `riskfront.check`."""
        return check_texts(self, data, delta=delta, leave_out_repeats=leave_out_repeats)

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """A folder that `from_pretrained` loads; its folder `encoder` holds the fine-tuned model as Hugging Face knows it."""
        target = Path(folder)
        must_be_free(target)
        clear(target)  # the certificate comes last, when all else is there
        (target / ENCODER / FILE).unlink(missing_ok=True)
        save_network(self.network, target)
        self.tokenizer.save_pretrained(target / ENCODER)
        about: dict[str, Any] = {"format": FORMAT, "classes": list(self.classes), "max_length": self.max_length}
        about["layout"] = self.network.layout.to_dict()
        about["dtype"] = str(next(self.network.backbone.model.parameters()).dtype).removeprefix("torch.")
        about["setting"] = None if self.setting is None else self.setting.to_config()
        write_text(target / CLASSIFIER, json.dumps(about, indent=2) + "\n")
        if self.learnt is not None:
            self.learnt.save(target / ENCODER, self.network.backbone.model)
        if self.calibrated is not None:
            save_contents(target / CALIBRATED, self.calibrated)
        write_digests(target, files_of_classifier(target))
        write_guard(target, "AdaptiveClassifier", ENCODER, self.certificate, by_hand=set_by_hand(self))
        if self.certificate is not None:
            self.certificate.save(target / CERTIFICATE)

    def push_to_hub(self, repo_id: str, **options: Any) -> str:
        """Upload the folder of `save_pretrained` with a model card that holds the verdict and what is not promised.

        Args:
            repo_id: such as "me/my-classifier"; it is made where there is none.
            options: private, token, commit_message, revision, create_pr, as for transformers.
        """
        of_card: dict[str, Any] = {"certificate": self.certificate, "by_hand": set_by_hand(self)}
        describe = partial(card, kind="AdaptiveClassifier", encoder=ENCODER, **of_card, on_hub=True)
        return push_folder(self.save_pretrained, describe, repo_id, **options)

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str], *, device: str | None = None) -> AdaptiveClassifier:
        """Load what `save_pretrained` or `riskfront accelerate` wrote, from a folder or a hub name."""
        source = local_folder(folder)
        try:
            about = parse_json((source / CLASSIFIER).read_bytes())
            if about["format"] != FORMAT:
                raise ValueError(f"format {about['format']}")
            classes, max_length, setting = tuple(about["classes"]), int(about["max_length"]), about["setting"]
            layout, dtype = Layout.from_dict(about["layout"]), str(about.get("dtype", "float32"))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"'{source}' must be a folder of save_pretrained; adaptive.json says no ({error})."
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


def answered(texts: Any, missing: str, n_classes: int, answer: Callable[[Any], Array]) -> Array:
    """(n, classes): probabilities of each text. Where there is nothing to read, an error, or nan and a warning that says so."""
    if missing not in MISSING:
        raise InvalidInputError(f"missing must be one of {list(MISSING)}; got {missing!r}.")
    texts = as_list(texts)
    gone = (
        np.array([is_missing(text) for text in texts], dtype=bool) if missing == "abstain" else np.zeros(1, dtype=bool)
    )
    if not gone.any():
        return answer(texts)
    warnings.warn(
        f"{int(gone.sum()):,} of {len(gone):,} texts are empty or missing, the first is number {int(np.argmax(gone))}: they "
        "get no answer.",
        stacklevel=3,
    )
    found = np.full((len(gone), n_classes), np.nan, dtype=np.float32)
    if not gone.all():
        found[~gone] = answer([texts[int(i)] for i in np.flatnonzero(~gone)])
    return found


def is_answered(probabilities: Array, abstain: float) -> BoolArray:
    """(n,): whether the top probability reaches lambda, compared in single precision, as a trace does."""
    found: BoolArray = probabilities.max(axis=1) >= abstain
    return found


def labels_of(probabilities: Array, classes: Sequence[Any], abstain: float, abstain_label: Any) -> Array:
    """(n,): the most probable class, or the abstain label where it is not probable enough, or where there is no answer."""
    silent = ~is_answered(probabilities, abstain)
    labels = np.array(classes)[probabilities.argmax(axis=1)]
    return np.where(silent, np.array(abstain_label), labels) if silent.any() else labels


def save_network(network: Network, folder: Path) -> None:
    save_encoder(network.backbone.model, folder)
    tensors = {"head_scores": torch.from_numpy(np.ascontiguousarray(network.head_scores))}
    predictors = [("predictors", network.predictors)] if network.scores_tokens else []
    for name, module in (("exit_heads", network.exit_heads), *predictors):
        tensors |= {f"{name}.{key}": value.contiguous() for key, value in module.state_dict().items()}
    if network.words is not None:
        tensors |= {f"words.{key}": value.contiguous() for key, value in network.words.state_dict().items()}
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
        for name, module in ((name, module) for name, module in there.items() if module is not None):
            part = {key.removeprefix(f"{name}."): tensors[key] for key in tensors if key.startswith(f"{name}.")}
            module.load_state_dict(part)
    except (SafetensorError, OSError, KeyError, RuntimeError) as error:
        raise StoreError(
            f"'{folder}' must hold the heads of its model; adaptive.safetensors says no ({error})."
        ) from error
    return Network(
        backbone, scores, exit_heads.to(place).eval(), predictors.to(place).eval(), layout, words, scores_tokens
    )
