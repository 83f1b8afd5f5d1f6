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

from riskfront._support.arrays import Array
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
from riskfront.transformers._data.texts import Label, LabelledTexts, TextParts
from riskfront.transformers._data.tokens import Tokens, load_tokenizer, tokenize
from riskfront.transformers._exits import ExitHeads, Layout, TokenPredictors, WordExit, check_kind
from riskfront.transformers._folder import encoder_of
from riskfront.transformers._learning.exit_reading import HeadTraining, Pruner, read_for_exits
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
    task = _Task.of(encoder_of(model), parts, how, say)
    place = pick_device(device)  # before anything is written
    run = _Run(task, how, Steps(folder, say), place, progress, prunes)
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
    learnt = task.learnt.and_from(task.validation.contents)
    return AdaptiveClassifier(network, task.tokenizer, task.classes, task.max_length, learnt=learnt)


@dataclass(frozen=True)
class _Task:
    """What training begins with: a classifier, its classes in their order, and the texts as the model reads them.

    Args:
        start: the model; a new head where it is none of these classes.
        known: whether it classifies into these classes already.
        seen: tokens of the training texts, `held`: of the validation texts.
    """

    start: Any
    known: bool
    classes: tuple[Label, ...]
    training: LabelledTexts
    validation: LabelledTexts
    tokenizer: Any
    max_length: int
    seen: Tokens
    held: Tokens
    learnt: Learnt

    @classmethod
    def of(cls, name: str, parts: TextParts, how: Training, say: Callable[[str], None]) -> _Task:
        known = None if how.again else known_classes(name, parts.train.classes)
        classes = known or parts.train.classes
        training, validation = (part.reordered(classes) for part in (parts.train, parts.validation))
        start = load_classifier(name, len(classes), classes=None if known else classes, seed=how.seed)
        tokenizer = load_tokenizer(name)
        before = Learnt.load(name, start) or Learnt(elsewhere=is_classifier(start))
        max_length = min(how.max_length, Backbone(start).max_length)
        if max_length < how.max_length:
            say(
                f"the model reads at most {max_length} tokens; max_length is {how.max_length}, and {max_length} are read"
            )
        seen, held = (tokenize(tokenizer, part.examples, max_length) for part in (training, validation))
        if known is not None:
            say(
                "the model classifies into these classes already and is not fine-tuned: epochs, learning rate and early "
                "layers are not used; --again fine-tunes it"
            )
        return cls(
            start,
            known is not None,
            classes,
            *(training, validation, tokenizer, max_length, seen, held),
            before.and_from(training.contents),
        )


@dataclass(frozen=True)
class _Run:
    """The steps, each of which is made or found done."""

    task: _Task
    how: Training
    steps: Steps
    device: torch.device
    progress: bool | None
    prunes: bool

    @property
    def layout(self) -> Layout:
        return Layout.of(self.how.exits, self.task.seen.pairs)

    def fine_tuned(self) -> Backbone:
        task, how = self.task, self.how
        made_from = {
            "model": weights_digest(task.start),
            "train": _texts_digest(task.seen, task.training),
            "fine_tuning": None if task.known else _way(how),
            "seed": how.seed,
        }
        tuned = self.steps.run(FINE_TUNED, made_from, self._fine_tune, lambda p: load_classifier(str(p)))
        name_classes(tuned.config, task.classes)  # the same rows may have been learnt under other names
        return Backbone(tuned.to(self.device))

    def _fine_tune(self, path: Path) -> None:
        task, how = self.task, self.how
        if not task.known and how.trainer is not None:
            rows = (LabelledRows(task.seen, task.training.labels), LabelledRows(task.held, task.validation.labels))
            train_with(how.trainer, task.start.to(self.device), task.tokenizer, *rows).to(self.device)
        elif not task.known:
            curve = fine_tune(
                *(task.start.to(self.device), task.seen, task.training.labels, how.fine_tuning),
                exits=how.exits,
                seed=how.seed,
                progress=self.progress,
                checkpoint=self.steps.checkpoint(FINE_TUNED),
                say=self.steps.say,
            )
            if curve is not None:
                curve.save(path)
        with quiet():
            task.start.save_pretrained(path)
        task.tokenizer.save_pretrained(path)
        task.learnt.save(path, task.start)

    def head_scores(self, backbone: Backbone) -> Array:
        task, name = self.task, "head_scores"

        def make(path: Path) -> None:
            found = head_importance(backbone, task.held, task.validation.labels, progress=self.progress)
            save_arrays({name: found}, path / f"{name}.safetensors")

        made_from = {"validation": _texts_digest(task.held, task.validation)}
        load = lambda path: load_arrays(path / f"{name}.safetensors")[name]  # noqa: E731
        return self.steps.run("2-head-scores", made_from, make, load, after=FINE_TUNED)

    def token_predictors(self, backbone: Backbone) -> TokenPredictors:
        task, heads, layout = self.task, self.how.heads, self.layout
        if not self.prunes:
            return TokenPredictors(layout, backbone.n_layers, backbone.width).to(self.device).eval()

        def make(path: Path) -> None:
            options: dict[str, Any] = {"seed": self.how.seed, "progress": self.progress}
            found = train_token_predictors(backbone, layout, task.seen, task.training.labels, heads, **options)
            save_file(found.state_dict(), path / "predictors.safetensors")

        made_from = {
            "layout": asdict(layout),
            "rows": heads.token_rows,
            "epochs": heads.token_epochs,
            "batch_size": heads.batch_size,
            "learning_rate": heads.learning_rate,
        }
        load = lambda path: _loaded(  # noqa: E731
            TokenPredictors(layout, backbone.n_layers, backbone.width), path / "predictors.safetensors"
        )
        return self.steps.run("3-token-predictors", made_from, make, load, after=FINE_TUNED).to(self.device)

    def exit_heads(
        self, backbone: Backbone, scores: Array, predictors: TokenPredictors
    ) -> tuple[ExitHeads, ExitReport]:
        task, heads, layout = self.task, self.how.heads, self.layout
        learns_from_pruned = self.prunes and heads.learns_from_pruned(layout.exits, layout.pairs)
        pruner = Pruner(predictors, scores) if learns_from_pruned else None

        def make(path: Path) -> None:
            parts = ((task.seen, task.training.labels), (task.held, task.validation.labels))
            options: dict[str, Any] = {"seed": self.how.seed, "progress": self.progress}
            read = read_for_exits(backbone, layout, *parts, heads, pruned_by=pruner, **options)
            found = fit_exit_heads(backbone, layout, read.train, read.validation, heads, **options)
            save_file(found.state_dict(), path / "exit_heads.safetensors")
            report = report_exits(
                Network(backbone, scores, found, predictors, layout, scores_tokens=self.prunes), *parts[1]
            )
            pruned = () if read.pruned is None else exit_accuracy(found, layout, *read.pruned)
            replace(report, probe=probe_accuracy(read.train, read.whole), pruned=pruned).save(path / "exits.json")

        made_from = {
            "layout": asdict(layout),
            "rows": heads.rows,
            "epochs": heads.epochs,
            "batch_size": heads.batch_size,
            "learning_rate": heads.learning_rate,
            "standardise": heads.standardise,
            "temperature": heads.temperature,
            "pruned_by": None if pruner is None else self.steps.made("3-token-predictors"),
        }

        def load(path: Path) -> tuple[ExitHeads, ExitReport]:
            new = ExitHeads(layout, backbone.n_layers, backbone.width, backbone.n_classes)
            return _loaded(new, path / "exit_heads.safetensors").to(self.device), ExitReport.load(path / "exits.json")

        # head scores change with the validation texts, too
        return self.steps.run("4-exit-heads", made_from, make, load, after="2-head-scores")

    def word_exit(self, network: Network) -> tuple[WordExit, WordReport]:
        task, n_classes = self.task, network.backbone.n_classes

        def make(path: Path) -> None:
            parts = ((task.seen, task.training.labels), (task.held, task.validation.labels))
            found = train_word_exit(*parts, n_classes)
            save_file(found.state_dict(), path / "words.safetensors")
            report_words(replace(network, words=found), *parts[1]).save(path / "words.json")

        def load(path: Path) -> tuple[WordExit, WordReport]:
            return _loaded(WordExit(n_classes), path / "words.safetensors"), WordReport.load(path / "words.json")

        return self.steps.run(
            "6-word-exit", {"exits": self.steps.made("4-exit-heads")}, make, load, after="4-exit-heads"
        )

    def pruning_report(self, network: Network) -> PruningReport:
        task = self.task

        def make(path: Path) -> None:
            report_pruning(network, task.held, task.validation.labels, seed=self.how.seed).save(path / "pruning.json")

        made_from = {"predictors": self.steps.made("3-token-predictors")}
        load = lambda path: PruningReport.load(path / "pruning.json")  # noqa: E731
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
    if not any(kind.endswith("ForSequenceClassification") for kind in config.architectures or ()):
        return None
    if config.num_labels != len(classes):
        return None
    named = [config.id2label[i] for i in range(len(classes))]
    if all(label == f"LABEL_{i}" for i, label in enumerate(named)):  # nobody named them: they are their positions
        return classes if classes == tuple(range(len(classes))) else None
    by_name = {str(label): label for label in classes}
    return tuple(by_name[label] for label in named) if by_name.keys() == set(named) else None


def _loaded(module: nn.Module, path: Path) -> Any:
    module.load_state_dict(load_file(path))
    return module.eval()


def _texts_digest(tokens: Tokens, texts: LabelledTexts) -> str:
    return hashlib.sha256(tokens.fingerprint.encode() + texts.labels.tobytes()).hexdigest()
