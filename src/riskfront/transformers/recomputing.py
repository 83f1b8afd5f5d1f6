"""The certificate of an acceleration again, from the network and the traces that its folder keeps."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from riskfront.calibration.certificate import Certificate
from riskfront.calibration.choice import choose
from riskfront.errors import StoreError
from riskfront.methods import make_method
from riskfront.runtime.files import written_whole
from riskfront.spaces.dimensions import Choice
from riskfront.spaces.space import Config, Space
from riskfront.transformers.classifier import AdaptiveClassifier
from riskfront.transformers.data.tokens import Tokens
from riskfront.transformers.pruning.latency import Clock, clocks_of
from riskfront.transformers.pruning.trace import PruningTrace
from riskfront.tuning.tuning import tune

TRACES = "traces"
FILE = f"{TRACES}/calibration.safetensors"  # not needed to answer: whoever deploys the folder may leave traces out


def keep_examples(folder: str | os.PathLike[str], trace: PruningTrace, seed: int) -> None:
    """Beside a certificate: the tokens and labels of the calibration texts, and the seed of their split."""
    tokens = trace.tokens
    arrays = {"ids": np.concatenate(list(tokens.ids)), "lengths": tokens.lengths, "labels": np.asarray(trace.labels)}
    for name, values in (("types", tokens.types), ("texts", tokens.texts)):
        if values is not None:
            arrays[name] = np.concatenate(list(values))
    with written_whole(Path(folder) / FILE) as path:
        save_file(arrays, path, metadata={"seed": str(seed), "padding": str(tokens.padding)})


def recompute(certificate: Certificate, folder: str | os.PathLike[str]) -> Certificate:
    """What `accelerate` would certify now, of the settings that were searched then. Passes that the folder lacks are made."""
    found = AdaptiveClassifier.from_pretrained(folder)
    configs = certificate.searched or []
    clocks = None
    if "latency" in certificate.problem.losses:  # as they were measured then, where the folder keeps them
        precisions = sorted({str(config.get("precision", "float32")) for config in configs})
        clocks = clocks_of(found.network, found.max_length, precisions, Path(folder) / TRACES)
    trace, seed = _trace(found, Path(folder), clocks)
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
    return choose(again, certificate.choice)


def _trace(
    found: AdaptiveClassifier, folder: Path, clocks: Mapping[str, Clock] | None = None
) -> tuple[PruningTrace, int]:
    try:
        with safe_open(folder / FILE, "numpy") as file:
            about = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        seed, padding = int(about["seed"]), int(about["padding"])
        ends = np.cumsum(arrays["lengths"])[:-1]
        types, texts = (np.split(arrays[n], ends) if n in arrays else None for n in ("types", "texts"))
        tokens = Tokens(np.split(arrays["ids"], ends), types, padding, texts)
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise StoreError(
            f"'{folder}' must hold the examples of its certificate; {FILE} cannot be read ({error}). An earlier version kept "
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
