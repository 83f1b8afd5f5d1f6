"""The training steps, one after the other, each done once: fine-tuning, head scores, token predictors, exit heads, a report."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.numpy import load_file as load_arrays
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import load_file, save_file
from torch import nn

from riskfront._support.arrays import Array, IntArray
from riskfront.errors import InvalidInputError
from riskfront.transformers._adaptive_classifier import AdaptiveClassifier
from riskfront.transformers._backbones.backbone import (
    DTYPES,
    Backbone,
    load_classifier,
    name_classes,
    pick_device,
    quiet,
)
from riskfront.transformers._data.known_texts import Learnt, is_classifier, weights_digest
from riskfront.transformers._data.texts import Label, TextParts
from riskfront.transformers._data.tokens import Tokens, load_tokenizer, tokenize
from riskfront.transformers._exits import ExitHeads, Layout, TokenPredictors, WordExit, check_kind
from riskfront.transformers._folder import encoder_of
from riskfront.transformers._learning.exit_reading import HeadTraining, Labelled, read_for_exits, without_exits
from riskfront.transformers._learning.fine_tuning import FineTuning, fine_tune
from riskfront.transformers._learning.head_training import (
    fit_exit_heads,
    head_importance,
    train_token_predictors,
    train_word_exit,
)
from riskfront.transformers._learning.own_trainer import LabelledRows, MakeTrainer, identity, train_with
from riskfront.transformers._learning.reports import (
    ExitReport,
    PruningReport,
    WordReport,
    exit_accuracy,
    probe_accuracy,
    report_exits,
    report_pruning,
    report_words,
)
from riskfront.transformers._learning.steps import Steps
from riskfront.transformers._pruning.network import Network

FINE_TUNED = "1-fine-tuned"


@dataclass(frozen=True)
class Training:
    """How to train.

    Args:
        fine_tuning: of the encoder; not needed when the model is a classifier of these classes already.
        again: fine-tune such a classifier too.
        heads: of exit heads and token predictors.
        exits: what exits read: "pooled", the tokens' states at every depth from the embeddings on; "cls", the state of [CLS]
            after each layer, as in the paper.
        max_length: tokens of a text that are read, at most what the model can.
        seed: of new weights, of dropout and of the order of examples.
        dtype: of the encoder's weights once it is trained, when it is certified and when it answers: "float32", "bfloat16" or
            "float16". Training itself is in float32.
        trainer: makes the user's own Trainer for fine-tuning, such as `partial(Trainer, args=TrainingArguments(...))`; called
            with model, train_dataset, eval_dataset and processing_class. `fine_tuning` has no effect then.
        words: of single texts, train one more exit before the embedding, on hashed words and pairs of words; it is left out
            where it saves no layers on validation texts.
    """

    fine_tuning: FineTuning = field(default_factory=FineTuning)
    again: bool = False
    heads: HeadTraining = field(default_factory=HeadTraining)
    exits: str = "pooled"
    max_length: int = 128
    seed: int = 0
    trainer: MakeTrainer | None = None
    words: bool = False
    dtype: str = "float32"

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise InvalidInputError(f"dtype must be one of {sorted(DTYPES)}; got {self.dtype!r}.")
        check_kind(self.exits)
        if self.max_length < 3:
            raise InvalidInputError(f"max_length must be at least 3: a token and two marks; got {self.max_length}.")


def train(
    model: str | os.PathLike[str],
    parts: TextParts,
    folder: str | os.PathLike[str],
    how: Training | None = None,
    *,
    prunes: bool = True,
    device: str | None = None,
    say: Callable[[str], None] = lambda line: None,
    progress: bool | None = None,
) -> AdaptiveClassifier:
    """A classifier before calibration. What is missing in `folder` is trained; the same call later goes on at the first step
    that was not finished.

    Without `prunes` there are no token predictors, and exits learn from whole texts alone: for settings that drop nothing.
    Calibration texts are not touched: a guarantee needs examples that nothing was learnt from.
    """
    how = how or Training()
    if int(os.environ.get("WORLD_SIZE") or 1) > 1:
        raise InvalidInputError(
            f"one process must run this; got {os.environ['WORLD_SIZE']}. Fine-tune with several, by your own Trainer, on the "
            "rows to learn from; then accelerate what it saved in one process, with learnt_from those rows."
        )
    run = _Run.of(encoder_of(model), parts, how, folder, prunes=prunes, device=device, say=say, progress=progress)
    backbone = run.fine_tuned()
    scores = run.head_scores(backbone)
    predictors = run.token_predictors(backbone)
    exits, report = run.exit_heads(backbone, scores, predictors)
    network = Network(backbone, scores, exits, predictors, run.layout, scores_tokens=prunes)
    if how.words and run.layout.pairs:
        say("an exit on words is for single texts; of pairs of texts there is none")
    elif how.words:
        words, brought = run.word_exit(network)
        say(str(brought))
        network = replace(network, words=words if brought.kept else None)
    reports: list[ExitReport | PruningReport] = [report]
    if prunes:
        reports.append(run.pruning_report(network))
    if how.dtype != "float32":
        backbone.to_dtype(how.dtype)
        network = replace(network, _sliced={})
    for said in reports:
        say(str(said))
        if (warning := said.warning()) is not None:
            warnings.warn(warning, stacklevel=2)
    learnt = run.learnt.and_from(parts.validation.contents)
    return AdaptiveClassifier(network, run.tokenizer, run.classes, run.max_length, learnt=learnt)


@dataclass(frozen=True)
class _Run:
    """What training begins with, and its steps, each of which is made or found done.

    `start` is the model, with a new head unless it is `known` to classify into these classes already; `seen` are tokens and
    labels of the training texts, `held` of the validation texts.
    """

    how: Training
    steps: Steps
    device: torch.device
    progress: bool | None
    prunes: bool
    start: Any
    known: bool
    classes: tuple[Label, ...]
    tokenizer: Any
    max_length: int
    seen: Labelled
    held: Labelled
    learnt: Learnt

    @classmethod
    def of(
        cls,
        name: str,
        parts: TextParts,
        how: Training,
        folder: str | os.PathLike[str],
        *,
        prunes: bool,
        device: str | None,
        say: Callable[[str], None],
        progress: bool | None,
    ) -> _Run:
        known = None if how.again else known_classes(name, parts.train.classes)
        classes = known or parts.train.classes
        start = load_classifier(name, len(classes), classes=None if known else classes, seed=how.seed)
        tokenizer = load_tokenizer(name)
        before = Learnt.load(name, start) or Learnt(elsewhere=is_classifier(start.config))
        max_length = min(how.max_length, Backbone(start).max_length)
        if max_length < how.max_length:
            say(
                f"the model reads at most {max_length} tokens; max_length is {how.max_length}, and {max_length} are read"
            )
        texts = [part.reordered(classes) for part in (parts.train, parts.validation)]
        seen, held = ((tokenize(tokenizer, part.examples, max_length), part.labels) for part in texts)
        if known is not None:
            say(
                "the model classifies into these classes already and is not fine-tuned: epochs, learning rate and early "
                "layers are not used; --again fine-tunes it"
            )
        place, learnt = pick_device(device), before.and_from(parts.train.contents)
        own = (start, known is not None, classes, tokenizer, max_length, seen, held, learnt)
        return cls(how, Steps(folder, say), place, progress, prunes, *own)

    @property
    def layout(self) -> Layout:
        return Layout.of(self.how.exits, self.seen[0].pairs)

    @property
    def _options(self) -> dict[str, Any]:
        return {"seed": self.how.seed, "progress": self.progress}

    def fine_tuned(self) -> Backbone:
        made_from = {
            "model": weights_digest(self.start),
            "train": _texts_digest(*self.seen),
            "fine_tuning": None if self.known else _way(self.how),
            "seed": self.how.seed,
        }
        tuned = self.steps.run(FINE_TUNED, made_from, self._fine_tune, lambda p: load_classifier(str(p)))
        name_classes(tuned.config, self.classes)  # the same rows may have been learnt under other names
        return Backbone(tuned.to(self.device))

    def _fine_tune(self, path: Path) -> None:
        how = self.how
        if not self.known and how.trainer is not None:
            rows = (LabelledRows(*self.seen), LabelledRows(*self.held))
            train_with(how.trainer, self.start.to(self.device), self.tokenizer, *rows).to(self.device)
        elif not self.known:
            checkpoint = self.steps.checkpoint(FINE_TUNED)
            more = {"exits": how.exits, "checkpoint": checkpoint, "say": self.steps.say, **self._options}
            curve = fine_tune(self.start.to(self.device), *self.seen, how.fine_tuning, **more)
            if curve is not None:
                curve.save(path)
        with quiet():
            self.start.save_pretrained(path)
        self.tokenizer.save_pretrained(path)
        self.learnt.save(path, self.start)

    def head_scores(self, backbone: Backbone) -> Array:
        name, file = "head_scores", "head_scores.safetensors"

        def make(path: Path) -> None:
            save_arrays({name: head_importance(backbone, *self.held, progress=self.progress)}, path / file)

        def load(path: Path) -> Array:
            return load_arrays(path / file)[name]

        made_from = {"validation": _texts_digest(*self.held)}
        return self.steps.run("2-head-scores", made_from, make, load, after=FINE_TUNED)

    def token_predictors(self, backbone: Backbone) -> TokenPredictors:
        heads, layout, file = self.how.heads, self.layout, "predictors.safetensors"
        new = TokenPredictors(layout, backbone.n_layers, backbone.width)
        if not self.prunes:
            return new.to(self.device).eval()

        def make(path: Path) -> None:
            found = train_token_predictors(backbone, layout, *self.seen, heads, **self._options)
            save_file(found.state_dict(), path / file)

        def load(path: Path) -> TokenPredictors:
            return loaded(new, path / file).to(self.device)

        made_from = {
            "layout": asdict(layout),
            "rows": heads.token_rows,
            "epochs": heads.token_epochs,
            "batch_size": heads.batch_size,
            "learning_rate": heads.learning_rate,
        }
        return self.steps.run("3-token-predictors", made_from, make, load, after=FINE_TUNED)

    def exit_heads(
        self, backbone: Backbone, scores: Array, predictors: TokenPredictors
    ) -> tuple[ExitHeads, ExitReport]:
        heads, layout = self.how.heads, self.layout
        learns_from_pruned = self.prunes and heads.learns_from_pruned(layout.exits, layout.pairs)
        pruner = without_exits(backbone, layout, predictors, scores) if learns_from_pruned else None

        def make(path: Path) -> None:
            read = read_for_exits(backbone, layout, self.seen, self.held, heads, pruned_by=pruner, **self._options)
            found = fit_exit_heads(backbone, layout, read, heads, **self._options)
            save_file(found.state_dict(), path / "exit_heads.safetensors")
            network = Network(backbone, scores, found, predictors, layout, scores_tokens=self.prunes)
            pruned = () if read.pruned is None else exit_accuracy(found, layout, *read.pruned)
            report = replace(report_exits(network, *self.held), probe=probe_accuracy(read.train, read.whole))
            replace(report, pruned=pruned).save(path / "exits.json")

        def load(path: Path) -> tuple[ExitHeads, ExitReport]:
            new = ExitHeads(layout, backbone.n_layers, backbone.width, backbone.n_classes)
            return loaded(new, path / "exit_heads.safetensors").to(self.device), ExitReport.load(path / "exits.json")

        names = ("rows", "epochs", "batch_size", "learning_rate", "standardise", "temperature")
        made_from = {name: getattr(heads, name) for name in names} | {
            "layout": asdict(layout),
            "pruned_by": None if pruner is None else self.steps.made("3-token-predictors"),
        }
        # head scores change with the validation texts, too
        return self.steps.run("4-exit-heads", made_from, make, load, after="2-head-scores")

    def word_exit(self, network: Network) -> tuple[WordExit, WordReport]:
        n_classes = network.backbone.n_classes

        def make(path: Path) -> None:
            found = train_word_exit(self.seen, self.held, n_classes)
            save_file(found.state_dict(), path / "words.safetensors")
            report_words(replace(network, words=found), *self.held).save(path / "words.json")

        def load(path: Path) -> tuple[WordExit, WordReport]:
            return loaded(WordExit(n_classes), path / "words.safetensors"), WordReport.load(path / "words.json")

        made_from = {"exits": self.steps.made("4-exit-heads")}
        return self.steps.run("6-word-exit", made_from, make, load, after="4-exit-heads")

    def pruning_report(self, network: Network) -> PruningReport:
        def make(path: Path) -> None:
            report_pruning(network, *self.held, seed=self.how.seed).save(path / "pruning.json")

        def load(path: Path) -> PruningReport:
            return PruningReport.load(path / "pruning.json")

        made_from = {"predictors": self.steps.made("3-token-predictors")}
        return self.steps.run("5-pruning-report", made_from, make, load, after="2-head-scores")


def _way(how: Training) -> dict[str, Any]:
    """What fine-tuning is made from."""
    if how.trainer is not None:
        return {"trainer": identity(how.trainer)}
    return asdict(how.fine_tuning) | {"exits": how.exits}


def known_classes(name: str, classes: tuple[Label, ...]) -> tuple[Label, ...] | None:
    """The order of the classes in a model that is a classifier of them already; None when it is not."""
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(name)
    except Exception:  # load_classifier says what is wrong
        return None
    if not is_classifier(config) or config.num_labels != len(classes):
        return None
    named = [config.id2label[i] for i in range(len(classes))]
    if all(label == f"LABEL_{i}" for i, label in enumerate(named)):  # nobody named them: they are their positions
        return classes if classes == tuple(range(len(classes))) else None
    by_name = {str(label): label for label in classes}
    return tuple(by_name[label] for label in named) if by_name.keys() == set(named) else None


def loaded(module: nn.Module, path: Path) -> Any:
    """A small network with the weights of a file."""
    module.load_state_dict(load_file(path))
    return module.eval()


def _texts_digest(tokens: Tokens, labels: IntArray) -> str:
    return hashlib.sha256(tokens.fingerprint.encode() + labels.tobytes()).hexdigest()
