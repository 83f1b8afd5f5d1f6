"""Texts as token numbers, held without padding and handed out in batches of similar length."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch

from riskfront._support.arrays import Array, IntArray
from riskfront.errors import InvalidInputError
from riskfront.transformers._exits import FIRST, SECOND, SPECIAL

TEXTS = "texts must be a list with at least one text, or one pair of texts"


@dataclass(frozen=True)
class Tokens:
    """Tokenised examples.

    Args:
        ids: of each example, (length,), with the special tokens, [CLS] first.
        types: of each example, (length,), 0 for the first text and 1 for the second; None for models without.
        padding: the number of the padding token.
        texts: of each example, (length,), 1 and 2 for tokens of the first and of the second text, 0 for special ones; by
            default every token but [CLS] is of the text that its type says.
    """

    ids: Sequence[Array]
    types: Sequence[Array] | None
    padding: int
    texts: Sequence[Array] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def lengths(self) -> IntArray:
        return np.array([len(ids) for ids in self.ids], dtype=np.int64)

    @property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(str(self.padding).encode())
        for part in (self.ids, self.types or (), self.texts or ()):
            for values in part:
                digest.update(np.asarray(values, dtype=np.int32).tobytes() + b"|")
        return digest.hexdigest()

    def take(self, positions: IntArray) -> Tokens:
        types, texts = (None if part is None else [part[i] for i in positions] for part in (self.types, self.texts))
        return Tokens([self.ids[i] for i in positions], types, self.padding, texts)

    @property
    def pairs(self) -> bool:
        """Whether there is a second text anywhere."""
        return any((self._texts_of(i) == SECOND).any() for i in range(len(self)))

    def packed_texts(self, positions: IntArray, device: torch.device | str = "cpu") -> torch.Tensor:
        """(tokens,): which text each token of these examples is of, one example after the other."""
        return torch.from_numpy(np.concatenate([self._texts_of(i) for i in positions])).to(device)

    def words(self, positions: IntArray) -> list[Array]:
        """Of each of these examples, its tokens without special ones."""
        return [np.asarray(self.ids[i])[self._texts_of(i) != SPECIAL] for i in positions]

    def _texts_of(self, i: int) -> Array:
        if self.texts is not None:
            return np.asarray(self.texts[i], dtype=np.int8)
        found = np.full(len(self.ids[i]), FIRST, dtype=np.int8)
        if self.types is not None:
            found[np.asarray(self.types[i]) > 0] = SECOND
        found[0] = SPECIAL
        return found

    def padded(self, positions: IntArray, device: torch.device | str = "cpu") -> dict[str, torch.Tensor]:
        """The inputs of a Hugging Face model for these examples."""
        longest = max(len(self.ids[i]) for i in positions)
        ids = np.full((len(positions), longest), self.padding, dtype=np.int64)
        mask = np.zeros((len(positions), longest), dtype=np.int64)
        types = np.zeros((len(positions), longest), dtype=np.int64)
        for row, i in enumerate(positions):
            ids[row, : len(self.ids[i])] = self.ids[i]
            mask[row, : len(self.ids[i])] = 1
            if self.types is not None:
                types[row, : len(self.ids[i])] = self.types[i]
        found = {"input_ids": ids, "attention_mask": mask}
        if self.types is not None:
            found["token_type_ids"] = types
        return {name: torch.from_numpy(values).to(device) for name, values in found.items()}

    def batches(self, batch_size: int, positions: IntArray | None = None) -> list[IntArray]:
        """Positions in batches, longest first: little padding, and memory runs out at once or never."""
        if batch_size < 1:
            raise InvalidInputError(f"batch_size must be at least 1; got {batch_size}.")
        chosen = np.arange(len(self)) if positions is None else np.asarray(positions)
        order = chosen[np.argsort(-self.lengths[chosen], kind="stable")]
        return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]

    def shuffled_batches(self, batch_size: int, rng: np.random.Generator) -> Iterator[IntArray]:
        """Every example once, in random batches whose examples have similar lengths."""
        order = rng.permutation(len(self))
        lengths = self.lengths
        pools = [order[start : start + 50 * batch_size] for start in range(0, len(order), 50 * batch_size)]
        batches = []
        for pool in pools:
            pool = pool[np.argsort(lengths[pool], kind="stable")]
            batches += [pool[start : start + batch_size] for start in range(0, len(pool), batch_size)]
        for i in rng.permutation(len(batches)):
            yield batches[i]


def load_tokenizer(name: str) -> Any:
    """The Hugging Face tokenizer of a folder or hub name."""
    from transformers import AutoTokenizer

    try:
        found = AutoTokenizer.from_pretrained(name)
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise InvalidInputError(f"'{name}' must hold a tokenizer; it cannot be read: {reason}") from error
    if len(found) <= len(found.all_special_tokens):  # made up by transformers where there are no files
        raise InvalidInputError(
            f"'{name}' must hold a tokenizer; it has no vocabulary. Save the tokenizer beside the model."
        )
    return found


def tokenize(tokenizer: Any, texts: Sequence[str] | Sequence[tuple[str, str]], max_length: int) -> Tokens:
    """Texts or pairs of texts; those longer than `max_length` tokens are cut, with one warning."""
    texts = as_list(texts)
    pairs = must_be_readable(texts)
    inputs = [[text[0] for text in texts], [text[1] for text in texts]] if pairs else [list(texts)]
    found = tokenizer(*inputs, truncation=True, max_length=max_length, verbose=False)
    ids = [np.asarray(values, dtype=np.int32) for values in found["input_ids"]]
    full = [i for i, values in enumerate(ids) if len(values) >= max_length]
    if full:
        cut = tokenizer(*[[part[i] for i in full] for part in inputs], verbose=False)
        n_cut = sum(len(values) > max_length for values in cut["input_ids"])
        if n_cut:
            warnings.warn(
                f"{n_cut} of {len(ids)} texts are longer than {max_length} tokens; what is beyond is not read.",
                stacklevel=1,  # the same texts are said once, whoever asks
            )
    types = found.get("token_type_ids")
    types = None if types is None else [np.asarray(values, dtype=np.int8) for values in types]
    padding = tokenizer.pad_token_id
    return Tokens(ids, types, 0 if padding is None else padding, _texts(tokenizer, found, ids, pairs))


def must_be_readable(texts: Sequence[Any]) -> bool:
    """Raise a clear error unless these are all texts or all pairs of texts with something to read; returns whether pairs."""
    if not texts:
        raise InvalidInputError(f"{TEXTS}; got none.")
    pairs = isinstance(texts[0], tuple | list)
    for i, text in enumerate(texts):
        if is_missing(text):
            raise InvalidInputError(
                f"every text must have at least one character; number {i} is "
                f"{'empty' if isinstance(text, str | tuple | list) else 'missing'}. "
                "Leave it out, or have the others answered: missing='abstain'."
            )
        parts = text if isinstance(text, tuple | list) else (text,)
        fine = len(parts) == 1 + pairs and all(isinstance(part, str) for part in parts)
        if not fine or isinstance(text, tuple | list) != pairs:
            raise InvalidInputError(f"texts must be all texts or all pairs of texts; number {i} is {text!r:.60}.")
        for part in parts:
            must_be_unicode(part, f"number {i}")
    return pairs


def as_list(texts: Any) -> list[Any]:
    """Texts in their order, whatever holds them: a column of a data frame would be asked by its labels, not by places."""
    if isinstance(texts, list):
        return texts
    if isinstance(texts, str | Mapping | set | frozenset | pd.DataFrame) or not isinstance(texts, Iterable):
        hint = " Give one column: frame['text']." if isinstance(texts, pd.DataFrame) else ""
        raise InvalidInputError(f"{TEXTS}; got {type(texts).__name__}.{hint}")
    return texts.tolist() if isinstance(texts, np.ndarray) else list(texts)


def must_be_unicode(text: str, which: str) -> None:
    """Half of a character, as a broken JSON file gives, belongs to no text; tokenizers fail on it in words of their own."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"every text must be made of whole characters; {which} has a lone surrogate, {text[error.start]!r}, at place "
            f"{error.start}. Replace it: text.encode('utf-8', 'replace').decode()."
        ) from None


def is_missing(text: Any) -> bool:
    """Whether there is nothing to read: None, nan, an empty text, or a pair with such a part."""
    if isinstance(text, tuple | list):
        return any(is_missing(part) for part in text)
    if isinstance(text, str):
        return not text.strip()
    return text is None or text is pd.NA or (isinstance(text, float) and math.isnan(text))


def _texts(tokenizer: Any, found: Any, ids: list[Array], pairs: bool) -> list[Array]:
    """Which text each token is of. Fast tokenizers know; of others, the first separator ends the first text."""
    if getattr(found, "is_fast", False):
        of_none = {None: SPECIAL, 0: FIRST, 1: SECOND}
        return [np.array([of_none[n] for n in found.sequence_ids(i)], dtype=np.int8) for i in range(len(ids))]
    texts = []
    for values in ids:
        here = np.full(len(values), FIRST, dtype=np.int8)
        ends = np.flatnonzero(values == tokenizer.sep_token_id)
        if pairs and len(ends):
            here[ends[0] :] = SECOND
        here[np.isin(values, tokenizer.all_special_ids)] = SPECIAL
        texts.append(here)
    return texts
