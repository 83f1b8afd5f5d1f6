"""The adaptive network at one setting: a walk through its layers, and its answers. What is pruned is really not computed."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from riskfront._support.arrays import Array, IntArray
from riskfront.errors import InvalidInputError
from riskfront.transformers._backbones import Layer, Packed
from riskfront.transformers._backbones.backbone import Backbone
from riskfront.transformers._backbones.precision import check_precision, in_precision
from riskfront.transformers._data.tokens import Tokens
from riskfront.transformers._exits import ExitHeads, Layout, TokenPredictors, WordExit, entropy, features
from riskfront.transformers._pruning.cost import Sizes

THRESHOLDS = ("tau_token", "tau_head", "tau_layer", "lambda")
NAMES = (*THRESHOLDS, "depth", "precision")
TEXTS_PER_BATCH = 8  # times the batch size: so many texts are embedded together, because most of them may need no layer


@dataclass(frozen=True)
class Setting:
    """Thresholds and precision.

    Args:
        tau_token: tokens whose predicted importance is below it leave for good, in [0, 1]; [CLS] stays.
        tau_head: attention heads whose importance is below it are gone, in [0, 1].
        tau_layer: an example leaves after the first layer whose entropy is below it; at least 0.
        abstain: no answer when the top probability is below it, in [0, 1]; called lambda in configs.
        precision: of the layers' matrix products, "float32", "float16" or "int8".
        depth: layers that are run at most; the exit there answers whatever is left. 0 for all.
    """

    tau_token: float = 0.0
    tau_head: float = 0.0
    tau_layer: float = 0.0
    abstain: float = 0.0
    precision: str = "float32"
    depth: int = 0

    def __post_init__(self) -> None:
        check_precision(self.precision)
        depth: Any = self.depth
        if isinstance(depth, bool) or not isinstance(depth, Integral) or int(depth) < 0:
            raise InvalidInputError(f"depth must be a number of layers, or 0 for all; got {depth!r}.")
        object.__setattr__(self, "depth", int(depth))
        values = self.to_config()
        for name, value in ((name, values[name]) for name in THRESHOLDS):
            number = isinstance(value, Real) and not isinstance(value, bool)
            if not number or not math.isfinite(value) or value < 0 or (name != "tau_layer" and value > 1):
                allowed = "at least 0" if name == "tau_layer" else "from 0 to 1"
                raise InvalidInputError(f"{name} must be a number {allowed}; got {value!r}.")
            # plain numbers: NumPy's own would be compared with scores in double precision, torch's are in single
            object.__setattr__(self, "abstain" if name == "lambda" else name, float(value))

    @classmethod
    def of(cls, config: Mapping[str, Any] | Setting | None) -> Setting:
        """From the config of a certificate; thresholds that it lacks are off."""
        if config is None:
            return cls()
        if isinstance(config, Setting):
            return config
        unknown = config.keys() - set(NAMES)
        if unknown:
            raise InvalidInputError(
                f"a setting has the thresholds {list(THRESHOLDS)}, a depth and a precision; got {sorted(unknown)}."
            )
        return cls(**{"abstain" if name == "lambda" else name: value for name, value in config.items()})

    def to_config(self) -> dict[str, Any]:
        """As in a certificate; depth and precision where they are not the model's own."""
        values = asdict(self)
        own = {"depth": 0, "precision": "float32"}
        names = [name for name in NAMES if name not in own or values[name] != own[name]]
        return {name: values["abstain" if name == "lambda" else name] for name in names}

    def cut(self, n_layers: int) -> int | None:
        """The depth at which the exit answers whatever is left; None where that is the model's own end."""
        return self.depth if 0 < self.depth < n_layers else None


@dataclass(frozen=True)
class Network:
    """Everything that pruning needs.

    Args:
        head_scores: (layers, heads), a sum of one in each layer.
        predictors: one at every depth of the layout, as `exit_heads`.
        layout: where they stand and what they read.
        words: the exit before the embedding; None where there is none.
        scores_tokens: whether the predictors were trained; if not, no token can be dropped.
    """

    backbone: Backbone
    head_scores: Array
    exit_heads: ExitHeads
    predictors: TokenPredictors
    layout: Layout
    words: WordExit | None = None
    scores_tokens: bool = True
    _sliced: dict[bytes, list[Layer]] = field(default_factory=dict, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """For pickle, as multiprocessing and joblib need it: layers that were cut to size are made again where they arrive."""
        return {**self.__dict__, "_sliced": {}}

    @property
    def sizes(self) -> Sizes:
        b = self.backbone
        return Sizes(b.n_layers, b.n_heads, b.head_size, b.width, b.inner_width, b.n_classes, self.layout, b.extras)

    @cached_property
    def fingerprint(self) -> str:
        """The digest of all weights and of the layout."""
        digest = hashlib.sha256(np.ascontiguousarray(self.head_scores).tobytes() + repr(self.layout).encode())
        modules = [self.backbone.model, self.exit_heads, self.predictors if self.scores_tokens else None, self.words]
        for module in (module for module in modules if module is not None):
            for name, value in sorted(module.state_dict().items()):
                whole = value.float() if value.dtype in (torch.bfloat16, torch.float16) else value
                digest.update(name.encode() + np.ascontiguousarray(whole.cpu().numpy()).tobytes())
        if self.backbone.dtype != "float32":  # the same weights compute something else
            digest.update(f"torch.{self.backbone.dtype}".encode())
        return digest.hexdigest()

    @torch.inference_mode()
    def read_words(self, tokens: Tokens, positions: IntArray) -> Tensor:
        """(positions, classes): the probabilities of the exit before the embedding, which must be there."""
        if self.words is None:
            raise InvalidInputError("this network has no exit on words; train one: Training(words=True).")
        return torch.softmax(self.words(tokens.words(positions)), dim=1)

    def must_score_tokens(self, tau_token: float) -> None:
        """Raise a clear error where tokens are to be dropped by predictors that were never trained."""
        if tau_token > 0 and not self.scores_tokens:
            raise InvalidInputError(
                "tokens can be dropped where token predictors were trained; here they were not, because no token threshold was "
                "asked for. Train again with several: --token-thresholds, or Grid(token=20)."
            )

    def kept_heads(self, tau_head: float) -> Array:
        """(layers, heads): True where the head's score is at least the threshold."""
        return self.head_scores >= tau_head

    def layers(self, kept_heads: Array, precision: str = "float32") -> list[Layer]:
        """The layers without the other heads, in this precision; the last ones made are remembered."""
        key = precision.encode() + np.packbits(kept_heads).tobytes()
        found = self._sliced.get(key)  # looked up once: another thread may clear it for a setting of its own
        if found is None:
            found = in_precision(self.backbone.layers(kept_heads), precision)
            self._sliced.clear()
            self._sliced[key] = found
        return found


class Walk:
    """Some examples on their way through the layers.

    Args:
        layers: with the heads that are kept.
        tokens: of which the examples at these positions walk.
        exits: whether exit heads will be asked, `prunes`: token predictors, so that what they look at is kept.
        cut: a depth at which the exit will be asked even where no other is.
    """

    def __init__(
        self,
        network: Network,
        layers: list[Layer],
        tokens: Tokens,
        positions: IntArray,
        *,
        exits: bool,
        prunes: bool,
        cut: int | None = None,
    ) -> None:
        self._network, self._layers, self._layout = network, layers, network.layout
        self._exits, self._prunes, self.cut = exits, prunes, cut
        place, lengths = network.backbone.device, np.array([len(tokens.ids[i]) for i in positions])
        self.batch = network.backbone.embed(tokens.padded(positions, place), lengths)
        self._texts = tokens.packed_texts(positions, place)
        self.depth = 0  # layers behind us
        self._seen: list[Tensor] = []  # by exits
        self._history: list[Tensor] = []  # seen by token predictors
        self._look()

    def step(self) -> None:
        """One layer further."""
        self.batch = self._layers[self.depth](self.batch)
        self.depth += 1
        self._look()

    @property
    def is_over(self) -> bool:
        """Whether all layers are behind us."""
        return self.depth == len(self._layers)

    @property
    def at_exit(self) -> bool:
        """Whether an answer can be had here, the model's own after the last layer included."""
        return self.depth >= self._layout.first_exit

    @property
    def at_predictor(self) -> bool:
        """Whether tokens can be dropped here."""
        return self._layout.first_predictor <= self.depth < len(self._layers)

    def probabilities(self) -> Tensor:
        """(examples, classes): what the exit head here says, or after the last layer the model's own classifier."""
        if self.depth == len(self._layers):
            backbone = self._network.backbone
            logits = backbone.classify(backbone.summary(self.batch))
        else:
            logits = self._network.exit_heads(self.depth, side_by_side(self._seen))
        return torch.softmax(logits.float(), dim=1)

    def read_for(self, layout: Layout) -> Tensor:
        """(examples, parts x width): what an exit of this layout reads here."""
        states = self.batch.states.float()  # the small networks are in single precision whatever the layers are in
        return features(layout.exits, layout.pairs, states, self.batch.lengths, self._texts)

    def importance(self) -> Tensor:
        """(tokens,): the predicted score of each token."""
        seen = Packed(side_by_side(self._history), self.batch.lengths)
        return self._network.predictors.importance(self.depth, seen)

    def keep_examples(self, keep: Tensor) -> None:
        """All others have left: (examples,) of truth values."""
        tokens = keep[self.batch.owner]
        self.batch = self.batch.only_examples(keep)
        self._texts = self._texts[tokens]
        self._seen = [values[keep] for values in self._seen]
        self._history = [states[tokens] for states in self._history]

    def keep_tokens(self, keep: Tensor) -> None:
        """All others are gone for good: (tokens,) of truth values. [CLS] always stays."""
        keep = keep.clone()
        keep[self.batch.starts] = True
        if bool(keep.all()):
            return
        self.batch = self.batch.only_tokens(keep)
        self._texts = self._texts[keep]
        self._history = [states[keep] for states in self._history]

    def _look(self) -> None:
        """Keep what the networks here and, if they look back, further on will read."""
        layout = self._layout
        if not layout.history:
            self._seen = []
        if not layout.predictors_look_back:
            self._history = []
        if self.depth == len(self._layers):
            return
        asked = self._exits or self.depth == self.cut or (self.cut is not None and layout.history)
        if asked and self.at_exit:
            self._seen.append(self.read_for(layout))
        if self._prunes and self.at_predictor:
            self._history.append(self.batch.states.float())


def side_by_side(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


@dataclass(frozen=True)
class Answers:
    """What was answered, and what it took.

    Args:
        probabilities: (n, classes), of the exit at which each example left.
        layers_run: (n,), from 0.
        tokens: (n, layers), tokens that entered each layer; 0 for layers that were not run.
        by_words: (n,), whether it left before the embedding.
    """

    probabilities: Array
    layers_run: IntArray
    tokens: Array
    by_words: Array


@torch.inference_mode()
def answer(network: Network, setting: Setting, tokens: Tokens, *, batch_size: int = 32) -> Answers:
    """Texts that are tokenised already, in batches of similar length.

    Texts that leave before the first layer are found first, many at a time, and only the others fill the batches that go
    through the layers.
    """
    network.must_score_tokens(setting.tau_token)
    backbone = network.backbone
    layers = network.layers(network.kept_heads(setting.tau_head), setting.precision)
    found = Answers(
        np.zeros((len(tokens), backbone.n_classes), dtype=np.float32),
        np.full(len(tokens), backbone.n_layers),
        np.zeros((len(tokens), backbone.n_layers), dtype=np.int32),
        np.zeros(len(tokens), dtype=bool),
    )
    left = np.arange(len(tokens))
    if network.words is not None and setting.tau_layer > 0:
        left = _leave_by_words(network, setting, tokens, found)
        if not len(left):
            return found
    sieve = setting.tau_layer > 0 and network.layout.first_exit == 0 and len(left) > batch_size
    if sieve:
        stays = [
            _leave(_walk(network, layers, setting, tokens, batch), setting, batch, found)
            for batch in tokens.batches(TEXTS_PER_BATCH * batch_size, left)
        ]
        left = np.sort(np.concatenate(stays))
    for batch in tokens.batches(batch_size, left):
        _through(_walk(network, layers, setting, tokens, batch), setting, batch, found, asked=sieve)
    return found


def _walk(network: Network, layers: list[Layer], setting: Setting, tokens: Tokens, batch: IntArray) -> Walk:
    cut = setting.cut(network.backbone.n_layers)
    return Walk(network, layers, tokens, batch, exits=setting.tau_layer > 0, prunes=setting.tau_token > 0, cut=cut)


def _through(walk: Walk, setting: Setting, here: IntArray, found: Answers, *, asked: bool) -> None:
    """Until all have left; `asked`: whether those who leave before the first layer have done so already."""
    while not walk.is_over:
        if walk.depth == walk.cut:
            found.layers_run[here] = walk.cut
            break
        if setting.tau_layer > 0 and walk.at_exit and not (asked and walk.depth == 0):
            here = _leave(walk, setting, here, found)
            if not len(here):
                return
        if setting.tau_token > 0 and walk.at_predictor:
            walk.keep_tokens(walk.importance() >= setting.tau_token)
        found.tokens[here, walk.depth] = walk.batch.lengths.cpu().numpy()
        walk.step()
    found.probabilities[here] = walk.probabilities().cpu().numpy()


def _leave_by_words(network: Network, setting: Setting, tokens: Tokens, found: Answers) -> IntArray:
    """Those whose words say enough get their answer before anything is embedded; the others are returned."""
    probabilities = network.read_words(tokens, np.arange(len(tokens)))
    gone = found.by_words[:] = (entropy(probabilities) < setting.tau_layer).numpy()
    found.probabilities[gone] = probabilities.numpy()[gone]
    found.layers_run[gone] = 0
    return np.flatnonzero(~gone)


def _leave(walk: Walk, setting: Setting, here: IntArray, found: Answers) -> IntArray:
    """Those whose entropy is below the threshold get their answer; the others are returned."""
    probabilities = walk.probabilities()
    leaves = entropy(probabilities.float()) < setting.tau_layer
    gone = leaves.cpu().numpy()
    if not gone.any():
        return here
    found.probabilities[here[gone]] = probabilities.cpu().numpy()[gone]
    found.layers_run[here[gone]] = walk.depth
    if not gone.all():
        walk.keep_examples(~leaves)
    return here[~gone]
