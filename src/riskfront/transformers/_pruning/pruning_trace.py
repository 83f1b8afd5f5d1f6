"""PruningTrace: one pass for each (tau_token, tau_head, precision) gives every exit and abstention threshold for free."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from riskfront._support.arrays import Array, BoolArray, IntArray
from riskfront._support.checked_json import DamagedError
from riskfront._support.progress import ProgressBar
from riskfront._support.sealed_tensors import load_sealed, save_sealed
from riskfront.errors import InvalidInputError, StoreError
from riskfront.transformers._data.tokens import Tokens
from riskfront.transformers._exits import entropy
from riskfront.transformers._pruning.cost import Work, flops, relative_cost
from riskfront.transformers._pruning.latency import Clock
from riskfront.transformers._pruning.network import Network, Setting, Walk

_CODES = {"float32": 0, "float16": 2, "int8": 3}  # in files; 1 was int8 with a scale for each token
BLOCK = 1024  # examples a file: a killed run loses at most so many of one pass


@dataclass(frozen=True)
class Passes:
    """Examples that went through all layers with the same heads, perhaps with different token thresholds.

    Every threshold above `above` and up to `up_to` keeps the same tokens of that example, so it need not be run again.

    Args:
        examples: (rows,), positions; `above` and `up_to`: (rows,).
        tokens: (rows, layers), tokens that entered each layer.
        probabilities: (rows, layers + 1, classes), by the exit head at each depth and by the classifier after the last layer;
            zeros where there is no exit.
    """

    examples: IntArray
    above: Array
    up_to: Array
    tokens: IntArray
    probabilities: Array

    @classmethod
    def joined(cls, parts: Sequence[Passes]) -> Passes:
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__annotations__))

    def take(self, rows: IntArray) -> Passes:
        return Passes(*(getattr(self, name)[rows] for name in self.__annotations__))

    @cached_property
    def entropies(self) -> Array:
        """(rows, layers + 1): many exit thresholds ask for them."""
        return entropies(self.probabilities)


@dataclass(frozen=True)
class Way:
    """What a pass goes through: heads that are kept, (layers, heads), in one precision."""

    mask: Array
    precision: str

    @property
    def key(self) -> bytes:
        return self.precision.encode() + self.mask.tobytes()


def leaving_depths(found: Array, tau_layer: float, cut: int | None = None) -> IntArray:
    """(examples,), from 0: the layers run before the first exit whose entropy is below the threshold, or all. `found` are
    (examples, layers + 1) entropies, infinite where there is no exit; `cut` is a depth at which all leave that are left."""
    leaves = found < tau_layer
    leaves[:, -1] = True
    if cut is not None:
        leaves[:, cut] = True
    return leaves.argmax(axis=1)


def is_right(probabilities: Array, labels: IntArray) -> BoolArray:
    """(examples,): nan, as 16 bits give where numbers become too large, is no answer and never right."""
    return (probabilities.argmax(axis=1) == labels) & ~np.isnan(probabilities).any(axis=1)


def entropies(probabilities: Array) -> Array:
    """True entropy in nats over the last axis, as the runtime computes it; infinite where there is no exit."""
    found: Array = entropy(torch.from_numpy(np.ascontiguousarray(probabilities))).numpy()
    found[probabilities.sum(axis=-1) == 0] = np.inf
    return found


def must_share_all_but_exits(first: Network, second: Network) -> None:
    """Only then does an example lose the same tokens on its way through both."""
    one, other = first.layout, second.layout
    same = (
        first.backbone is second.backbone
        and first.predictors is second.predictors
        and np.array_equal(first.head_scores, second.head_scores)
        and one.first_predictor == other.first_predictor
        and one.predictors_look_back == other.predictors_look_back
        and one.pairs == other.pairs
    )
    if not same:
        raise InvalidInputError(
            "traces share their passes only if their networks have the same encoder, token predictors and head scores; these "
            "differ. Trace them one after the other."
        )


class ExitsBeside:
    """What the exits of another network say of the examples of one walk; to be asked at every depth, in order."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._seen: list[Tensor] = []

    def probabilities(self, walk: Walk) -> Tensor:
        """(examples, classes); zeros where there is no exit. After the last layer the model itself answers."""
        layout = self._network.layout
        if walk.is_over:
            return walk.probabilities()
        if walk.depth < layout.first_exit:
            return torch.zeros(len(walk.batch.lengths), self._network.backbone.n_classes)
        self._seen = [*(self._seen if layout.history else []), walk.read_for(layout)]
        return torch.softmax(self._network.exit_heads(walk.depth, torch.cat(self._seen, dim=1)), dim=1)


class _NamedPositions(np.ndarray[Any, np.dtype[np.int64]]):
    """Positions with a text attribute `fingerprint`, which names the content of what they are positions of."""

    fingerprint: str


class PruningTrace:
    """What the adaptive network does with each example at every setting.

    Args:
        network: with its exit heads and predictors.
        tokens: the examples.
        labels: (n,), positions of their classes.
        classes: names of the classes, for limits per label; their positions by default.
        folder: where finished passes are kept, so that a killed run goes on; in memory only by default. Passes of other weights
            or other examples in it are left alone and not used.
        batch_size: examples at a time.
        progress: show how far a pass is; by default on a terminal only.
        clocks: of each precision, what its parts take on this machine; then there is a column ``latency``.
        beside: traces of the same examples by networks that differ in their exits only; every pass made here is theirs too.

    `losses` is a function of a setting and of positions of examples, as `rf.evaluate` and `rf.tune` want it. Its columns:

    - ``accuracy_drop``: 1 where only the full model is right, -1 where only the pruned one is, else 0;
      ``accuracy_drop_clipped``: the same without the -1; ``error``;
    - ``relative_cost``: the paper's cost; ``flops``: counted, with the overhead of heads and predictors;
    - ``latency``: milliseconds for one text at a time, added up from what the parts take;
    - ``answered``: whether the top probability, ``confidence``, reaches lambda.
    """

    bounds = {"accuracy_drop": (-1.0, 1.0)}  # noqa: RUF012 - a constant of the class

    def __init__(
        self,
        network: Network,
        tokens: Tokens,
        labels: IntArray,
        *,
        classes: Sequence[Any] | None = None,
        folder: str | os.PathLike[str] | None = None,
        batch_size: int = 32,
        progress: bool | None = None,
        clocks: Mapping[str, Clock] | None = None,
        beside: Sequence[PruningTrace] = (),
    ) -> None:
        if len(tokens) != len(labels):
            raise InvalidInputError(f"there must be a label for each of {len(tokens)} examples; got {len(labels)}.")
        self.network, self.tokens, self.labels = network, tokens, np.asarray(labels)
        self._lengths = tokens.lengths
        self._clocks = clocks
        self._beside = tuple(beside)
        for other in self._beside:
            must_share_all_but_exits(network, other.network)
            if other.tokens.fingerprint != tokens.fingerprint:
                raise InvalidInputError(
                    "traces share their passes only if they are of the same examples; these are not."
                )
        self._classes = range(network.backbone.n_classes) if classes is None else classes
        self._batch_size, self._progress = batch_size, progress
        self._passes: dict[bytes, list[Passes]] = {}
        self.examples_run = 0  # of all passes: what was not known already
        self._recent: dict[Any, Passes] = {}
        self._words: Array | None = None  # what the exit on words says of every example
        digest = hashlib.sha256(f"{network.fingerprint} {tokens.fingerprint}".encode() + self.labels.tobytes())
        self.fingerprint = digest.hexdigest()
        self._folder = None if folder is None else Path(folder) / self.fingerprint[:16]
        if self._folder is not None:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StoreError(f"cannot write traces in '{folder}': {error.strerror}.") from error
            self._read(self._folder)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def examples(self) -> IntArray:
        """Every position: the examples of `rf.evaluate` and `rf.tune`. A split of them rests on the texts that they name."""
        positions = np.arange(len(self)).view(_NamedPositions)
        positions.fingerprint = self.tokens.fingerprint
        return positions

    @property
    def groups(self) -> dict[str, pd.Categorical]:
        """All classes count as groups: one that no example here has cannot be certified."""
        names = [self._classes[label] for label in self.labels]
        return {"label": pd.Categorical(names, categories=list(self._classes))}

    def losses(self, config: Mapping[str, Any] | Setting, examples: IntArray) -> dict[str, Array]:
        """The columns of one setting for the examples at these positions."""
        setting = Setting.of(config)
        positions = np.asarray(examples)
        full = self.passes(0.0, 0.0, positions).probabilities[:, -1]
        found = self.passes(setting.tau_token, setting.tau_head, positions, precision=setting.precision)
        labels = self.labels[positions]
        answer, layers_run, by_words = self.answers(setting, positions)
        right, full_right = is_right(answer, labels), is_right(full, labels)
        sizes, confidence = self.network.sizes, answer.max(axis=1)
        work = Work(
            self.network.kept_heads(setting.tau_head).sum(axis=1),
            self._lengths[positions],
            found.tokens,
            layers_run,
            exits=setting.tau_layer > 0,
            prunes=setting.tau_token > 0,
            cut=setting.cut(self.network.backbone.n_layers),
            by_words=by_words,
        )
        columns = {
            "accuracy_drop": full_right.astype(np.float32) - right.astype(np.float32),
            "accuracy_drop_clipped": full_right & ~right,
            "error": ~right,
            "relative_cost": relative_cost(sizes, work).astype(np.float32),
            "flops": flops(sizes, work).astype(np.float32),
            "answered": confidence >= setting.abstain,
            "confidence": confidence.astype(np.float32),
        }
        if self._clocks is not None and setting.precision in self._clocks:
            spent = self._clocks[setting.precision].milliseconds(self.network, work)
            columns["latency"] = spent.astype(np.float32)
        return columns

    def answers(self, setting: Setting, positions: IntArray) -> tuple[Array, IntArray, Array | None]:
        """Probabilities, (positions, classes), layers run, and who left by words; None where these are not asked."""
        found = self.passes(setting.tau_token, setting.tau_head, positions, precision=setting.precision)
        cut = setting.cut(self.network.backbone.n_layers)
        layers_run = leaving_depths(found.entropies, setting.tau_layer, cut)
        answer = found.probabilities[np.arange(len(positions)), layers_run]
        left = self.left_by_words(setting.tau_layer, positions)
        if left is None:
            return answer, layers_run, None
        by_words, of_words = left
        return np.where(by_words[:, None], of_words, answer), np.where(by_words, 0, layers_run), by_words

    def left_by_words(self, tau_layer: float, positions: IntArray) -> tuple[Array, Array] | None:
        """(positions,): whose words say enough, and what they say, (positions, classes); None where they are not asked."""
        if self.network.words is None or tau_layer == 0:
            return None
        if self._words is None:
            self._words = self.network.read_words(self.tokens, np.arange(len(self))).numpy()
        found = self._words[positions]
        return entropies(found) < tau_layer, found

    def passes(
        self, tau_token: float, tau_head: float, examples: IntArray | None = None, *, precision: str = "float32"
    ) -> Passes:
        """Each example through all layers at these two thresholds. What is known is not run again."""
        setting = Setting(tau_token, tau_head, precision=precision)
        positions = self.examples if examples is None else np.asarray(examples)
        self.network.must_score_tokens(tau_token)
        tau_token = float(np.float32(tau_token))  # as torch compares it with scores
        way = Way(self.network.kept_heads(setting.tau_head), setting.precision)
        asked = (tau_token, way.key, positions.tobytes())
        if asked not in self._recent:
            missing = positions[self._rows(way, tau_token, positions) < 0]
            if len(missing):
                self._run(way, tau_token, missing)
            rows = self._rows(way, tau_token, positions)
            if len(self._recent) > 1:  # this pass and that of the full model
                del self._recent[next(iter(self._recent))]
            self._recent[asked] = self._known(way).take(rows)
        return self._recent[asked]

    def fill(self, store: str | os.PathLike[str], configs: Iterable[Mapping[str, Any]]) -> Any:
        """Write every setting into a LossStore, which `rf.calibrate` and the commands read; a killed run goes on."""
        from riskfront._running.evaluation.evaluate import evaluate

        return evaluate(
            self.losses, self.examples, list(configs), store=store, groups=self.groups, bounds=self.bounds, n_jobs=1
        )

    def _known(self, way: Way) -> Passes:
        """Everything that went through these heads."""
        parts = self._passes[way.key]
        if len(parts) > 1:
            parts[:] = [Passes.joined(parts)]
        return parts[0]

    def _rows(self, way: Way, tau_token: float, positions: IntArray) -> IntArray:
        """The row of each example in what is known of these heads, -1 where there is none."""
        row_of = np.full(len(self), -1)
        if way.key in self._passes:
            known = self._known(way)
            fits = np.flatnonzero((known.above < tau_token) & (tau_token <= known.up_to))
            row_of[known.examples[fits]] = fits
        return row_of[positions]

    def _run(self, way: Way, tau_token: float, positions: IntArray) -> None:
        title = f"tracing tau_token {tau_token:.4g}, {int(way.mask.sum())} heads, {way.precision}"
        with ProgressBar(title, len(positions), shown=self._progress) as bar:
            for start in range(0, len(positions), BLOCK):
                block = positions[start : start + BLOCK]
                batches = self.tokens.batches(self._batch_size, block)
                found = [self._batch(way, tau_token, batch, bar) for batch in batches]
                for trace, passes in zip((self, *self._beside), zip(*found, strict=True), strict=True):
                    trace._keep(way, Passes.joined(passes))

    def _keep(self, way: Way, found: Passes) -> None:
        self._passes.setdefault(way.key, []).append(found)
        self._write(way, found)

    @torch.inference_mode()
    def _batch(self, way: Way, tau_token: float, positions: IntArray, bar: ProgressBar) -> list[Passes]:
        """One batch through all layers: the passes of this trace, then those of the traces beside it."""
        prunes, layers = self.network.scores_tokens, self.network.layers(way.mask, way.precision)
        walk = Walk(self.network, layers, self.tokens, positions, exits=True, prunes=prunes)
        n_layers, n_classes = self.network.backbone.n_layers, self.network.backbone.n_classes
        above, up_to = torch.full((len(positions),), -torch.inf), torch.full((len(positions),), torch.inf)
        others = [ExitsBeside(other.network) for other in self._beside]
        tokens: list[Tensor] = []
        probabilities: list[list[Tensor]] = [[] for _ in range(1 + len(others))]
        while True:
            found = walk.probabilities() if walk.at_exit else torch.zeros(len(positions), n_classes)
            for own, answers in zip(probabilities, [found, *(o.probabilities(walk) for o in others)], strict=True):
                own.append(answers.cpu())
            if walk.depth == n_layers:
                break
            if prunes and walk.at_predictor:
                scores = walk.importance()
                inner = torch.ones_like(scores, dtype=torch.bool)
                inner[walk.batch.starts] = False  # [CLS] stays whatever its score
                owner, kept = walk.batch.owner, scores >= tau_token
                for end, chosen, how in ((above, inner & ~kept, "amax"), (up_to, inner & kept, "amin")):
                    end.scatter_reduce_(0, owner[chosen].cpu(), scores[chosen].cpu(), how)
                walk.keep_tokens(kept)
            tokens.append(walk.batch.lengths.cpu())
            walk.step()
        self.examples_run += len(positions)
        bar.advance(len(positions))
        entered: Any = torch.stack(tokens, dim=1).numpy().astype(np.int32)
        return [
            Passes(
                np.asarray(positions),
                above.double().numpy(),
                up_to.double().numpy(),
                entered,
                torch.stack(answers, dim=1).float().numpy(),
            )
            for answers in probabilities
        ]

    def _write(self, way: Way, found: Passes) -> None:
        if self._folder is None:
            return
        arrays = {name: np.ascontiguousarray(getattr(found, name)) for name in Passes.__annotations__}
        arrays["mask"] = np.ascontiguousarray(way.mask)
        arrays["precision"] = np.array(_CODES[way.precision])
        keys = ("mask", "precision", "examples", "above", "up_to")
        name = hashlib.sha256(b"".join(arrays[key].tobytes() for key in keys))
        save_sealed(arrays, self._folder / f"{name.hexdigest()[:24]}.safetensors")

    def _read(self, folder: Path) -> None:
        names = {code: name for name, code in _CODES.items()}
        for path in sorted(folder.glob("[!.]*.safetensors")):
            try:
                arrays, _ = load_sealed(path)
                way = Way(arrays.pop("mask"), names[int(arrays.pop("precision"))])
                self._passes.setdefault(way.key, []).append(Passes(**arrays))
            except (DamagedError, OSError, KeyError, TypeError) as error:
                raise StoreError(
                    f"'{path}' must be a trace as it was written; it cannot be read ({error}). Delete it: its passes are made "
                    "again."
                ) from error
