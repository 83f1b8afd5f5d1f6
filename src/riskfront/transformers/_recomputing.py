"""The certificate of an acceleration again, from the network and the traces that its folder keeps."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from riskfront._calibration.certificates.certificate import Certificate
from riskfront._calibration.certificates.choice import choose
from riskfront._problems.spaces.dimensions import Choice
from riskfront._problems.spaces.space import Config, Space
from riskfront._running.tuning.tune import tune
from riskfront._support.sealed_tensors import load_sealed, save_sealed
from riskfront.errors import StoreError
from riskfront.methods import OrderedKnob, make_method
from riskfront.transformers._adaptive_classifier import AdaptiveClassifier
from riskfront.transformers._cascade.cascade_classifier import FILE as CASCADE
from riskfront.transformers._cascade.cascade_classifier import CascadeClassifier, class_order
from riskfront.transformers._cascade.cascade_trace import CascadeTrace
from riskfront.transformers._data.tokens import Tokens
from riskfront.transformers._declared_order import certify_in_order
from riskfront.transformers._pruning.disagreement import TraceWithUnlabelled
from riskfront.transformers._pruning.latency import Clock, clocks_of
from riskfront.transformers._pruning.pruning_trace import PruningTrace

TRACES = "traces"
UNLABELLED = f"{TRACES}/unlabelled.safetensors"
FILE = f"{TRACES}/calibration.safetensors"  # not needed to answer: whoever deploys the folder may leave traces out


def keep_examples(
    folder: str | os.PathLike[str],
    trace: PruningTrace,
    seed: int,
    name: str = FILE,
    notes: Sequence[str] = (),
    configs: Sequence[Config] = (),
) -> None:
    """Beside a certificate: tokens and labels of the calibration texts, or of unlabelled ones, the seed of the split, what
    was noted when texts were left out, and the settings where the certificate names only those that were tested."""
    tokens = trace.tokens
    arrays = {"ids": np.concatenate(list(tokens.ids)), "lengths": tokens.lengths, "labels": np.asarray(trace.labels)}
    for part, values in (("types", tokens.types), ("texts", tokens.texts)):
        if values is not None:
            arrays[part] = np.concatenate(list(values))
    about = {"seed": str(seed), "padding": str(tokens.padding), "notes": json.dumps(list(notes))}
    if configs:
        about["configs"] = json.dumps(list(configs))
    save_sealed(arrays, Path(folder) / name, about)


def recompute(certificate: Certificate, folder: str | os.PathLike[str]) -> Certificate:
    """What `accelerate` would certify now, of the settings that were searched then. Passes that the folder lacks are made."""
    configs, source = certificate.searched or [], Path(folder)
    trace: PruningTrace | CascadeTrace | TraceWithUnlabelled
    trace, seed = _cascade_trace(source) if (source / CASCADE).is_file() else _single_trace(certificate, source)
    if certificate.method == OrderedKnob.name and isinstance(trace, PruningTrace):
        _, about = load_sealed(source / FILE)
        again = certify_in_order(trace, json.loads(about.get("configs", "[]")), certificate.problem, seed)
        return choose(replace(again, notes=_notes(source)), certificate.choice)
    again = tune(
        trace.losses,
        trace.examples,
        _space(configs),
        certificate.problem,
        search=_Again(configs),
        budget=len(configs),
        n_jobs=1,
        seed=seed,
        groups=trace.groups,
        bounds=trace.bounds,
        method=make_method(certificate.method, **certificate.parameters),
        progress=False,
    )
    if isinstance(trace, TraceWithUnlabelled):
        again = replace(again, unlabelled={**trace.described, **(again.unlabelled or {})})
    folder_of_notes = source / "large" if (source / CASCADE).is_file() else source
    return choose(replace(again, notes=_notes(folder_of_notes)), certificate.choice)


def _notes(folder: Path) -> tuple[str, ...]:
    """What was noted then."""
    _, about = load_sealed(folder / FILE)
    return tuple(json.loads(about["notes"]))


def _single_trace(certificate: Certificate, folder: Path) -> tuple[PruningTrace | TraceWithUnlabelled, int]:
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
    """Of both encoders of a cascade."""
    found = CascadeClassifier.from_pretrained(folder)
    (small, _), (large, seed) = _trace(found.small, folder / "small"), _trace(found.large, folder / "large")
    return CascadeTrace(small, large, class_order(found.small.classes, found.large.classes)), seed


def _trace(
    found: AdaptiveClassifier, folder: Path, clocks: Mapping[str, Clock] | None = None, name: str = FILE
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


def _space(configs: Sequence[Config]) -> Space:
    """Any space that holds these settings."""
    names = list(configs[0])
    return Space.from_dict({name: Choice(sorted({config[name] for config in configs})) for name in names})


class _Again:
    """Proposes the settings that were searched then, in their order."""

    def __init__(self, configs: Sequence[Config]) -> None:
        self._left = list(configs)

    def ask(self, n: int = 1) -> list[Config]:
        found, self._left = self._left[:n], self._left[n:]
        return found

    def tell(self, config: Config, values: Mapping[str, float]) -> None:
        """Nothing to learn: what comes next is known."""
