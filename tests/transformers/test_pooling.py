"""What exits read: means over the texts' tokens that are left, against loops; and which text a token is of."""

from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import processors

from riskfront.errors import InvalidInputError
from riskfront.transformers._data.tokens import Tokens, tokenize
from riskfront.transformers._exits import Layout, features, first_exit, n_parts
from tests.support import tiny_transformers as tiny

RNG = np.random.default_rng(0)
LENGTHS = [5, 1, 4, 6]
STATES = RNG.normal(size=(16, 3)).astype(np.float32)
TEXTS = [[0, 1, 1, 2, 0], [0], [0, 2, 2, 0], [0, 1, 0, 2, 2, 0]]  # the second has lost its texts, the third its first


def loop(kind: str, pairs: bool, rows: np.ndarray, texts: list[int]) -> np.ndarray:
    if kind == "cls":
        return rows[0]

    def mean(*wanted: int) -> np.ndarray:
        chosen = [row for row, text in zip(rows, texts, strict=True) if text in wanted]
        return np.mean(chosen, axis=0) if chosen else rows[0]

    if not pairs:
        return np.concatenate([rows[0], mean(1, 2)])
    first, second = mean(1), mean(2)
    return np.concatenate([rows[0], first, second, abs(first - second), first * second])


@pytest.mark.parametrize(("kind", "pairs"), [("cls", False), ("pooled", False), ("pooled", True)])
def test_features_against_a_loop_alone_and_in_a_batch(kind: str, pairs: bool) -> None:
    states, texts = torch.from_numpy(STATES), torch.tensor(np.concatenate(TEXTS), dtype=torch.int8)
    found = features(kind, pairs, states, torch.tensor(LENGTHS), texts).numpy()
    assert found.shape == (4, n_parts(kind, pairs) * 3)
    start = 0
    for i, n in enumerate(LENGTHS):
        here = slice(start, start + n)
        np.testing.assert_allclose(found[i], loop(kind, pairs, STATES[here], TEXTS[i]), atol=1e-6)
        alone = features(kind, pairs, states[here], torch.tensor([n]), texts[here]).numpy()[0]
        np.testing.assert_allclose(alone, found[i], atol=1e-6)
        start += n


def test_fast_tokenizers_say_which_text_a_token_is_of(tokenizer: Any) -> None:
    found = tokenize(tokenizer, [("red noise1", "noise2")], 20)
    assert found.pairs
    assert found.packed_texts(np.array([0])).tolist() == [0, 1, 1, 0, 2, 0]
    single = tokenize(tokenizer, ["red noise1", "blue"], 20)
    assert not single.pairs
    assert single.packed_texts(np.array([1, 0])).tolist() == [0, 1, 0, 0, 1, 1, 0]


def test_texts_are_told_apart_without_token_types() -> None:
    """As RoBERTa's: two separators between the texts, and no types."""
    fast = tiny.make_tokenizer()
    fast.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] [SEP] $B [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    fast.model_input_names = ["input_ids", "attention_mask"]
    found = tokenize(fast, [("red noise1", "noise2")], 20)
    assert found.types is None
    assert found.packed_texts(np.array([0])).tolist() == [0, 1, 1, 0, 0, 2, 0]


def test_slow_tokenizers_end_the_first_text_at_the_first_separator() -> None:
    class Slow:
        pad_token_id, sep_token_id, all_special_ids = 0, 2, (0, 1, 2)

        def __call__(self, first: list[str], second: list[str], **how: Any) -> dict[str, Any]:
            return {"input_ids": [[1, 7, 8, 2, 2, 9, 2]]}

    found = tokenize(Slow(), [("a b", "c")], 20)
    assert found.packed_texts(np.array([0])).tolist() == [0, 1, 1, 0, 0, 2, 0]


def test_tokens_made_by_hand_go_by_their_types() -> None:
    found = Tokens([np.arange(4)], [np.array([0, 0, 1, 1])], 0)
    assert found.packed_texts(np.array([0])).tolist() == [0, 1, 2, 2]
    assert found.take(np.array([0])).pairs


def test_layouts_that_cannot_be() -> None:
    assert first_exit("cls") == 1
    with pytest.raises(InvalidInputError, match="exits must read one of"):
        Layout("average")
    with pytest.raises(InvalidInputError, match="must stand after a layer"):
        Layout("cls")
    with pytest.raises(InvalidInputError, match="depth 0 or 1"):
        Layout(first_predictor=2)
