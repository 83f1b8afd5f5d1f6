"""The training steps, one after the other, each done once: fine-tuning, head scores, token predictors, exit heads, a report."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file as load_arrays
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import load_file, save_file
from torch import nn

from riskfront.errors import InvalidInputError
from riskfront.transformers._backbones.backbone import Backbone, load_classifier, name_classes, pick_device, quiet
from riskfront.transformers._data.learnt import Learnt, is_classifier, weights_digest
from riskfront.transformers._data.texts import Label, LabelledTexts, TextParts
from riskfront.transformers._data.tokens import Tokens, load_tokenizer, tokenize
from riskfront.transformers._exits.heads import ExitHeads, TokenPredictors
from riskfront.transformers._exits.layout import Layout
from riskfront.transformers._exits.pooling import check_kind, must_be_of_kind
from riskfront.transformers._folder import encoder_of
from riskfront.transformers._learning.exit_reading import Pruner, read_for_exits
from riskfront.transformers._learning.exit_report import ExitReport, exit_accuracy, report_exits
from riskfront.transformers._learning.fine_tuning import FineTuning, fine_tune
from riskfront.transformers._learning.head_options import HeadTraining
from riskfront.transformers._learning.head_training import new_exit_heads, train_token_predictors
from riskfront.transformers._learning.importance import head_importance
from riskfront.transformers._learning.own_trainer import LabelledRows, MakeTrainer, identity, train_with
from riskfront.transformers._learning.probes import probe_accuracy
from riskfront.transformers._learning.pruning_report import PruningReport, report_pruning
from riskfront.transformers._learning.steps import Steps
from riskfront.transformers._pruning.network import Network


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
        trainer: makes the user's own Trainer for fine-tuning, such as `partial(Trainer, args=TrainingArguments(...))`; called
            with model, train_dataset, eval_dataset and processing_class. `fine_tuning` has no effect then.
    """

    fine_tuning: FineTuning = field(default_factory=FineTuning)
    again: bool = False
    heads: HeadTraining = field(default_factory=HeadTraining)
    exits: str = "pooled"
    max_length: int = 128
    seed: int = 0
    trainer: MakeTrainer | None = None

    def __post_init__(self) -> None:
        check_kind(self.exits)
        if self.max_length < 3:
            raise InvalidInputError(f"max_length must be at least 3: a token and two marks; got {self.max_length}.")


@dataclass(frozen=True)
class Trained:
    """A network, the order of its classes, what its texts become, and which texts it learnt from (None: not known)."""

    network: Network
    classes: tuple[Label, ...]
    tokenizer: Any
    max_length: int
    learnt: Learnt | None = None

    def tokens(self, texts: LabelledTexts) -> Tokens:
        must_be_of_kind(self.network.layout.pairs, texts.second is not None)
        return tokens_of(self.tokenizer, texts, self.max_length)


def train(
    model: str | os.PathLike[str],
    parts: TextParts,
    folder: str | os.PathLike[str],
    how: Training | None = None,
    *,
    device: str | None = None,
    say: Callable[[str], None] = lambda line: None,
    progress: bool | None = None,
) -> Trained:
    """Train what is missing in `folder`; the same call later goes on at the first step that was not finished.

    Calibration texts are not touched: a guarantee needs examples that nothing was learnt from.
    """
    how = how or Training()
    name = encoder_of(model)
    place = pick_device(device)
    known = None if how.again else known_classes(name, parts.train.classes)
    classes = known or parts.train.classes
    training, validation = (part.reordered(classes) for part in (parts.train, parts.validation))
    start = load_classifier(name, len(classes), classes=None if known else classes, seed=how.seed)
    tokenizer = load_tokenizer(name)
    before = Learnt.load(name, start) or Learnt(elsewhere=is_classifier(start))
    learnt = before.and_from(training.contents)
    max_length = min(how.max_length, Backbone(start).max_length)
    if max_length < how.max_length:
        say(f"the model reads at most {max_length} tokens; max_length is {how.max_length}, and {max_length} are read")
    seen, held = (tokens_of(tokenizer, part, max_length) for part in (training, validation))
    made_from = {
        "model": weights_digest(start),
        "train": _texts_digest(seen, training),
        "fine_tuning": None if known else _way(how),
        "seed": how.seed,
    }
    steps = Steps(folder, say)
    if known is not None:
        say(
            "the model classifies into these classes already and is not fine-tuned: epochs, learning rate and early layers "
            "are not used; --again fine-tunes it"
        )

    def fine_tuned(path: Path) -> None:
        if known is None and how.trainer is not None:
            rows = (LabelledRows(seen, training.labels), LabelledRows(held, validation.labels))
            train_with(how.trainer, start.to(place), tokenizer, *rows).to(place)
        elif known is None:
            start.to(place)
            kept, way = steps.checkpoint("1-fine-tuned"), how.fine_tuning
            fine_tune(
                *(start, seen, training.labels, way),
                exits=how.exits,
                seed=how.seed,
                progress=progress,
                checkpoint=kept,
            )
        with quiet():
            start.save_pretrained(path)
        tokenizer.save_pretrained(path)
        learnt.save(path, start)

    tuned = steps.run("1-fine-tuned", made_from, fine_tuned, lambda p: load_classifier(str(p)))
    name_classes(tuned.config, classes)  # the same rows may have been learnt under other names
    backbone = Backbone(tuned.to(place))
    layout = Layout.of(how.exits, seen.pairs)

    def scored(path: Path) -> None:
        save_arrays(
            {"head_scores": head_importance(backbone, held, validation.labels, progress=progress)},
            path / "head_scores.safetensors",
        )

    held_out = {"validation": _texts_digest(held, validation)}
    scores = steps.run(
        "2-head-scores",
        held_out,
        scored,
        lambda p: load_arrays(p / "head_scores.safetensors")["head_scores"],
        after="1-fine-tuned",
    )

    def predictors_trained(path: Path) -> None:
        found = train_token_predictors(
            backbone, layout, seen, training.labels, how.heads, seed=how.seed, progress=progress
        )
        save_file(found.state_dict(), path / "predictors.safetensors")

    predictors = steps.run(
        "3-token-predictors",
        {
            "layout": layout.to_dict(),
            "rows": how.heads.token_rows,
            "epochs": how.heads.token_epochs,
            "batch_size": how.heads.batch_size,
            "learning_rate": how.heads.learning_rate,
        },
        predictors_trained,
        lambda p: _loaded(TokenPredictors(layout, backbone.n_layers, backbone.width), p / "predictors.safetensors"),
        after="1-fine-tuned",
    ).to(place)
    pruner = Pruner(predictors, scores) if how.heads.learns_from_pruned(layout.exits, layout.pairs) else None

    def exits_trained(path: Path) -> None:
        parts = ((seen, training.labels), (held, validation.labels))
        options: dict[str, Any] = {"seed": how.seed, "progress": progress}
        read = read_for_exits(backbone, layout, *parts, how.heads, pruned_by=pruner, **options)
        found = new_exit_heads(backbone, layout, read.train, read.validation, how.heads, **options)
        save_file(found.state_dict(), path / "exit_heads.safetensors")
        report = report_exits(Network(backbone, scores, found, predictors, layout), held, validation.labels)
        pruned = () if read.pruned is None else exit_accuracy(found, layout, *read.pruned)
        report = replace(report, probe=probe_accuracy(read.train, read.whole), pruned=pruned)
        report.save(path / "exits.json")

    exits, report = steps.run(
        "4-exit-heads",
        {
            "layout": layout.to_dict(),
            "rows": how.heads.rows,
            "epochs": how.heads.epochs,
            "batch_size": how.heads.batch_size,
            "learning_rate": how.heads.learning_rate,
            "standardise": how.heads.standardise,
            "temperature": how.heads.temperature,
            "pruned_by": None if pruner is None else steps.made("3-token-predictors"),
        },
        exits_trained,
        lambda p: (
            _loaded(
                ExitHeads(layout, backbone.n_layers, backbone.width, backbone.n_classes), p / "exit_heads.safetensors"
            ),
            ExitReport.load(p / "exits.json"),
        ),
        after="2-head-scores",  # which change with the validation texts, too
    )

    network = Network(backbone, scores, exits.to(place), predictors, layout)
    pruning = steps.run(
        "5-pruning-report",
        {"predictors": steps.made("3-token-predictors")},
        lambda p: report_pruning(network, held, validation.labels, seed=how.seed).save(p / "pruning.json"),
        lambda p: PruningReport.load(p / "pruning.json"),
        after="2-head-scores",
    )
    for said in (report, pruning):
        say(str(said))
        if (warning := said.warning()) is not None:
            warnings.warn(warning, stacklevel=2)
    return Trained(network, classes, tokenizer, max_length, learnt.and_from(validation.contents))


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


def tokens_of(tokenizer: Any, texts: LabelledTexts, max_length: int) -> Tokens:
    both = texts.first if texts.second is None else list(zip(texts.first, texts.second, strict=True))
    return tokenize(tokenizer, both, max_length)


def _loaded(module: nn.Module, path: Path) -> Any:
    module.load_state_dict(load_file(path))
    return module.eval()


def _texts_digest(tokens: Tokens, texts: LabelledTexts) -> str:
    return hashlib.sha256(tokens.fingerprint.encode() + texts.labels.tobytes()).hexdigest()
