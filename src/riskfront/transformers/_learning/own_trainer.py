"""Fine-tuning by the user's own `transformers.Trainer`, on the rows that are there to learn from and on no other."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch.utils.data import Dataset

from riskfront._support.arrays import IntArray
from riskfront._support.object_digest import Description, UnreadableError
from riskfront.errors import InvalidInputError
from riskfront.transformers._data.tokens import Tokens

MakeTrainer = Callable[..., Any]
PLACES = ("output_dir", "logging_dir", "run_name")  # say where a training writes, not how it trains


class LabelledRows(Dataset[dict[str, Any]]):
    """Tokenised examples as a Trainer reads them, without padding: its collator pads."""

    def __init__(self, tokens: Tokens, labels: IntArray) -> None:
        self._tokens, self._labels = tokens, labels

    def __len__(self) -> int:
        return len(self._tokens)

    def __getitem__(self, i: int) -> dict[str, Any]:
        ids = self._tokens.ids[i].tolist()
        row = {"input_ids": ids, "attention_mask": [1] * len(ids), "labels": int(self._labels[i])}
        if self._tokens.types is not None:
            row["token_type_ids"] = self._tokens.types[i].tolist()
        return row


def train_with(make: MakeTrainer, model: Any, tokenizer: Any, train: LabelledRows, validation: LabelledRows) -> Any:
    """The model after the user's training. What `make` holds of its own data is replaced: what is learnt from must be known."""
    trainer = make(model=model, train_dataset=train, eval_dataset=validation, processing_class=tokenizer)
    if not callable(getattr(trainer, "train", None)):
        raise InvalidInputError(
            "trainer must make a Trainer of transformers, such as functools.partial(Trainer, args=...); it made "
            f"{type(trainer).__name__}."
        )
    if getattr(trainer, "train_dataset", train) is not train:
        raise InvalidInputError(
            "the Trainer must learn from the train_dataset that it is given, so that no row to calibrate on is learnt from."
        )
    trainer.train()
    found = trainer.model
    if type(found) is not type(model):
        raise InvalidInputError(
            f"the Trainer must train the model itself, {type(model).__name__}; it left {type(found).__name__}. Merge adapters."
        )
    if found is not model:  # such as from a model_init of the user's
        model.load_state_dict(found.state_dict())
    return model.eval()


def identity(make: MakeTrainer) -> str:
    """The digest of what a training does; the same for the same training in another folder."""
    if isinstance(make, functools.partial):
        options = {name: _described(value) for name, value in sorted(make.keywords.items())}
        return Description((make.func, make.args, options)).digest
    try:
        return Description(make).digest
    except UnreadableError as error:
        raise InvalidInputError(f"trainer must be a function whose code can be read; {error}.") from error


def _described(value: Any) -> Any:
    """The arguments of a training without the places where it writes; anything else as it is."""
    if hasattr(value, "output_dir") and callable(getattr(value, "to_dict", None)):
        return {name: repr(part) for name, part in sorted(value.to_dict().items()) if name not in PLACES}
    return value
