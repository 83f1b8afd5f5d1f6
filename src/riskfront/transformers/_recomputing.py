"""The certificate of an acceleration again, from the network and the traces that its folder keeps."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from riskfront._calibration.certificates.certificate import Certificate
from riskfront._calibration.certificates.choice import choose
from riskfront._calibration.frontier_plan import ValueGrid
from riskfront._support.sealed_tensors import load_sealed
from riskfront.errors import StoreError
from riskfront.methods import OrderedKnob, make_method
from riskfront.transformers._adaptive_classifier import AdaptiveClassifier
from riskfront.transformers._cascade.cascade_classifier import class_order
from riskfront.transformers._cascade.cascade_trace import CascadeTrace
from riskfront.transformers._cascade.small_pipeline import FILE as PIPELINE
from riskfront.transformers._cascade.small_pipeline import PipelineTrace, read_about
from riskfront.transformers._certifying import (
    CALIBRATION,
    TRACES,
    UNLABELLED,
    Split,
    certify_in_order,
    certify_planned,
    frontier_of,
)
from riskfront.transformers._data.tokens import Tokens
from riskfront.transformers._folder import CASCADE
from riskfront.transformers._pruning.disagreement import TraceWithUnlabelled
from riskfront.transformers._pruning.latency import Clock, clocks_of
from riskfront.transformers._pruning.pruning_trace import PruningTrace


def recompute(certificate: Certificate, folder: str | os.PathLike[str]) -> Certificate:
    """What `accelerate` would certify now, of the settings that were searched then. Passes that the folder lacks are made."""
    configs, source = certificate.searched or [], Path(folder)
    trace: PruningTrace | CascadeTrace | TraceWithUnlabelled
    trace, seed = _cascade_trace(source) if (source / CASCADE).is_file() else single_trace(certificate, source)
    method = make_method(certificate.method, **certificate.parameters)
    if certificate.frontier is not None:
        grid = ValueGrid.of(certificate.problem, certificate.frontier["values"])
        found = frontier_of(trace, _kept(source, "configs"), grid, method, seed, progress=False)
        found = replace(found, notes=(*_kept(source, "notes"), *found.notes))
        return found.choose(certificate.frontier["chosen"], certificate.choice)
    if certificate.method == OrderedKnob.name and isinstance(trace, PruningTrace):
        again = certify_in_order(trace, _kept(source, "configs"), certificate.problem, seed)
        return choose(replace(again, notes=tuple(_kept(source, "notes"))), certificate.choice)
    split = Split.of(trace, method.opt_fraction, seed)
    again = certify_planned(trace, configs, certificate.problem, method, split, progress=False)
    folder_of_notes = source / "large" if (source / CASCADE).is_file() else source
    return choose(replace(again, notes=tuple(_kept(folder_of_notes, "notes"))), certificate.choice)


def _kept(folder: Path, name: str) -> Any:
    """The notes or the settings that the folder keeps beside its examples."""
    _, about = load_sealed(folder / CALIBRATION)
    return json.loads(about.get(name, "[]"))


def single_trace(certificate: Certificate, folder: Path) -> tuple[PruningTrace | TraceWithUnlabelled, int]:
    """Of one network, with the clocks as they were measured then, where the folder keeps them."""
    found, clocks = AdaptiveClassifier.from_pretrained(folder), None
    if "latency" in certificate.problem.losses:
        precisions = sorted({str(config.get("precision", "float32")) for config in certificate.searched or [{}]})
        clocks = clocks_of(found.network, found.max_length, precisions, folder / TRACES)
    trace, seed = _trace(found, folder, clocks)
    if certificate.unlabelled is None:
        return trace, seed
    elsewhere, _ = _trace(found, folder, None, UNLABELLED)
    return TraceWithUnlabelled(trace, elsewhere, seed), seed


def _cascade_trace(folder: Path) -> tuple[CascadeTrace, int]:
    """Of both models of a cascade."""
    if (folder / "small" / PIPELINE).is_file():  # what it said then: whoever verifies has no pipeline
        one = AdaptiveClassifier.from_pretrained(folder / "large")
        large, seed = _trace(one, folder / "large")
        order = class_order(tuple(read_about(folder / "small")["classes"]), one.classes)
        return CascadeTrace(PipelineTrace.load(folder / "small" / CALIBRATION), large, order), seed
    first, second = (AdaptiveClassifier.from_pretrained(folder / name) for name in ("small", "large"))
    (small, _), (large, seed) = _trace(first, folder / "small"), _trace(second, folder / "large")
    return CascadeTrace(small, large, class_order(first.classes, second.classes)), seed


def _trace(
    found: AdaptiveClassifier, folder: Path, clocks: Mapping[str, Clock] | None = None, name: str = CALIBRATION
) -> tuple[PruningTrace, int]:
    try:
        arrays, about = load_sealed(folder / name)
        seed, padding = int(about["seed"]), int(about["padding"])
        ends = np.cumsum(arrays["lengths"])[:-1]
        types, texts = (np.split(arrays[n], ends) if n in arrays else None for n in ("types", "texts"))
        tokens = Tokens(np.split(arrays["ids"], ends), types, padding, texts)
    except (OSError, KeyError, ValueError) as error:
        raise StoreError(
            f"'{folder}' must hold the examples of its certificate; {name} cannot be read ({error}). Restore it from a copy, "
            "or certify again."
        ) from error
    trace = PruningTrace(
        found.network,
        tokens,
        arrays["labels"],
        classes=found.classes,
        folder=folder / TRACES,
        progress=False,
        clocks=clocks,
    )
    return trace, seed
