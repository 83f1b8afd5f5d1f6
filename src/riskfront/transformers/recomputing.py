"""The certificate of an acceleration again, from the network and the traces that its folder keeps."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from riskfront.certificates.certificate import Certificate
from riskfront.certificates.choice import choose
from riskfront.errors import StoreError
from riskfront.methods import make_method
from riskfront.runtime.files import written_whole
from riskfront.spaces.dimensions import Choice
from riskfront.spaces.space import Config, Space
from riskfront.transformers.cascade.classifier import FILE as CASCADE
from riskfront.transformers.cascade.classifier import CascadeClassifier, class_order
from riskfront.transformers.cascade.trace import CascadeTrace
from riskfront.transformers.classifier import AdaptiveClassifier
from riskfront.transformers.data.tokens import Tokens
from riskfront.transformers.pruning.disagreement import TraceWithUnlabelled
from riskfront.transformers.pruning.latency import Clock, clocks_of
from riskfront.transformers.pruning.trace import PruningTrace
from riskfront.tuning.tuning import tune

TRACES = "traces"
UNLABELLED = f"{TRACES}/unlabelled.safetensors"
FILE = f"{TRACES}/calibration.safetensors"  # not needed to answer: whoever deploys the folder may leave traces out


def keep_examples(
    folder: str | os.PathLike[str], trace: PruningTrace, seed: int, name: str = FILE, notes: Sequence[str] = ()
) -> None:
    """Beside a certificate: tokens and labels of the calibration texts, or of unlabelled ones, the seed of the split, and what
    was noted when texts were left out."""
    tokens = trace.tokens
    arrays = {"ids": np.concatenate(list(tokens.ids)), "lengths": tokens.lengths, "labels": np.asarray(trace.labels)}
    for part, values in (("types", tokens.types), ("texts", tokens.texts)):
        if values is not None:
            arrays[part] = np.concatenate(list(values))
    with written_whole(Path(folder) / name) as path:
        save_file(
            arrays, path, metadata={"seed": str(seed), "padding": str(tokens.padding), "notes": json.dumps(list(notes))}
        )


def recompute(certificate: Certificate, folder: str | os.PathLike[str]) -> Certificate:
    """What `accelerate` would certify now, of the settings that were searched then. Passes that the folder lacks are made."""
    configs, source = certificate.searched or [], Path(folder)
    trace: PruningTrace | CascadeTrace | TraceWithUnlabelled
    trace, seed = _cascade_trace(source) if (source / CASCADE).is_file() else _single_trace(certificate, source)
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
    return choose(replace(again, notes=_notes(folder_of_notes, certificate)), certificate.choice)


def _notes(folder: Path, certificate: Certificate) -> tuple[str, ...]:
    """What was noted then; folders of earlier versions keep no notes, so that those of the certificate stay unconfirmed."""
    with safe_open(folder / FILE, "numpy") as file:
        about = file.metadata() or {}
    return tuple(json.loads(about["notes"])) if "notes" in about else tuple(certificate.notes)


def _single_trace(certificate: Certificate, folder: Path) -> tuple[PruningTrace | TraceWithUnlabelled, int]:
    """Of one network, with the clocks as they were measured then, where the folder keeps them."""
    found, clocks = AdaptiveClassifier.from_pretrained(folder), None
    if "latency" in certificate.problem.losses:
        precisions = sorted({str(config.get("precision", "float32")) for config in certificate.searched or []})
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
        with safe_open(folder / name, "numpy") as file:
            about = file.metadata() or {}
            arrays = {part: file.get_tensor(part) for part in file.keys()}  # noqa: SIM118 - no mapping
        seed, padding = int(about["seed"]), int(about["padding"])
        ends = np.cumsum(arrays["lengths"])[:-1]
        types, texts = (np.split(arrays[n], ends) if n in arrays else None for n in ("types", "texts"))
        tokens = Tokens(np.split(arrays["ids"], ends), types, padding, texts)
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise StoreError(
            f"'{folder}' must hold the examples of its certificate; {name} cannot be read ({error}). An earlier version kept "
            "none: certify again."
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
