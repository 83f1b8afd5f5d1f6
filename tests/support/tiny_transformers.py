"""A task small enough to learn in seconds: the class is which of three words occurs in a text; all other words are noise."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

from riskfront.transformers import FineTuning
from riskfront.transformers._backbones.backbone import name_classes, quiet
from riskfront.transformers._data.tokens import Tokens, tokenize
from riskfront.transformers._learning.exit_reading import read_for_exits
from riskfront.transformers._learning.fine_tuning import fine_tune
from riskfront.transformers._learning.head_training import fit_exit_heads

SIGNALS = ("blue", "green", "red")  # also the names of the classes
NOISE = tuple(f"noise{i}" for i in range(40))
SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[UNK]")
MAX_LENGTH = 40
SHAPE = {
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": MAX_LENGTH,
    "num_labels": len(SIGNALS),
    "initializer_range": 0.1,  # a narrow network learns sooner from larger weights
    "hidden_dropout_prob": 0.05,
    "attention_probs_dropout_prob": 0.05,
}


def make_tokenizer(more_words: tuple[str, ...] = ()) -> Any:
    words = {word: i for i, word in enumerate((*SPECIAL, *SIGNALS, *NOISE, *more_words))}
    raw = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    raw.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", words["[CLS]"]), ("[SEP]", words["[SEP]"])],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        unk_token="[UNK]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


def make_frame(n: int, seed: int, shortest: int = 6, longest: int = 20) -> pd.DataFrame:
    """Columns text and label; each text has one signal word at a random place."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        words = [NOISE[i] for i in rng.integers(len(NOISE), size=rng.integers(shortest, longest + 1))]
        signal = SIGNALS[rng.integers(len(SIGNALS))]
        words[rng.integers(len(words))] = signal
        rows.append({"text": " ".join(words), "label": signal})
    return pd.DataFrame(rows)


def make_pairs(n: int, seed: int) -> pd.DataFrame:
    """The same task cut in two: columns text_a, text_b and label."""
    frame = make_frame(n, seed)
    words = frame["text"].str.split()
    return pd.DataFrame(
        {"text_a": words.str[:3].str.join(" "), "text_b": words.str[3:].str.join(" "), "label": frame["label"]}
    )


def tokens_and_labels(frame: pd.DataFrame) -> tuple[Tokens, np.ndarray]:
    labels = frame["label"].map({name: i for i, name in enumerate(SIGNALS)}).to_numpy(dtype=np.int64)
    if "text" in frame:
        return tokenize(make_tokenizer(), frame["text"].tolist(), MAX_LENGTH), labels
    return tokenize(make_tokenizer(), list(zip(frame["text_a"], frame["text_b"], strict=True)), MAX_LENGTH), labels


def train_exit_heads(
    backbone: Any, layout: Any, train: Any, held: Any, how: Any, *, pruned_by: Any = None, progress: bool | None = None
) -> Any:
    """What exits read of these examples, and heads that learnt from it."""
    read = read_for_exits(backbone, layout, train, held, how, pruned_by=pruned_by, progress=progress)
    return fit_exit_heads(backbone, layout, read, how, progress=progress)


def new_model(
    kind: Any = BertForSequenceClassification, config: Any = BertConfig, seed: int = 0, **changes: Any
) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return kind(config(**{**SHAPE, **changes})).eval()


def save_encoder(folder: Path, more_words: tuple[str, ...] = ()) -> Path:
    """A pretrained encoder without a classification head, and its tokenizer, which may know more words."""
    with quiet():
        new_model(vocab_size=SHAPE["vocab_size"] + len(more_words)).bert.save_pretrained(folder)
    make_tokenizer(more_words).save_pretrained(folder)
    return folder


def save_classifier(folder: Path) -> Path:
    """A fine-tuned classifier that names its classes, and its tokenizer."""
    model = new_model()
    fine_tune(model, *tokens_and_labels(make_frame(1500, 1)), FineTuning(epochs=3, learning_rate=2e-3), progress=False)
    return save_named(model, SIGNALS, folder)


def save_named(model: Any, names: tuple[str, ...], folder: Path) -> Path:
    name_classes(model.config, names)
    with quiet():
        model.save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return folder
