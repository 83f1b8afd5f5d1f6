"""pipeline: what people know from `transformers.pipeline("text-classification")`, on a classifier that really leaves early."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import torch

from riskfront.errors import InvalidInputError
from riskfront.transformers._adaptive_classifier import AdaptiveClassifier
from riskfront.transformers._cascade.cascade_classifier import CascadeClassifier, load_accelerated
from riskfront.transformers._data.tokens import is_missing
from riskfront.transformers._deployment import MISSING, is_answered

TASKS = ("text-classification", "sentiment-analysis")
NOT_GIVEN = ""  # of top_k, where None means: all classes


def pipeline(
    task: str = "text-classification",
    model: str | os.PathLike[str] | AdaptiveClassifier | CascadeClassifier | None = None,
    *,
    device: int | str | torch.device | None = None,
    batch_size: int = 32,
    top_k: int | str | None = NOT_GIVEN,
    missing: str = "raise",
) -> AdaptivePipeline:
    """Called as `transformers.pipeline` is.

    Args:
        task: text-classification, or sentiment-analysis, which is the same.
        model: the folder of an accelerated classifier or cascade, or one of these itself.
        device: such as "cuda" or 0; -1 is the CPU. By default CUDA where there is one. A classifier stays where it is.
        batch_size: texts at a time.
        top_k: how many classes of each text to return; None for all.
        missing: what becomes of inputs that are empty, None or nan: "raise" an error, or "abstain" on them and answer the
            others.
    """
    if task not in TASKS:
        raise InvalidInputError(f"task must be one of {list(TASKS)}; got {task!r}.")
    if model is None:
        raise InvalidInputError("model must be the folder of an accelerated classifier; got none.")
    if not isinstance(model, AdaptiveClassifier | CascadeClassifier):
        name = ("cpu" if device < 0 else f"cuda:{device}") if isinstance(device, int) else device
        model = load_accelerated(model, device=None if name is None else str(name))
    return AdaptivePipeline(model, batch_size=batch_size, top_k=top_k, missing=missing)


class AdaptivePipeline:
    """Texts in, labels and scores out, as by the text-classification pipeline of transformers.

    A text is a string, or for pairs of texts a dictionary with `text` and `text_pair`. One text gives a list with one result, a
    dictionary one result, a list a list of results; a generator or a data set is read as results are asked for. A result is
    `{"label": name, "score": probability}`, and with `top_k` a list of those, the most probable first. Where the classifier is
    certified to give no answer, the only label is its abstain label.
    """

    task = TASKS[0]

    def __init__(
        self,
        classifier: AdaptiveClassifier | CascadeClassifier,
        *,
        batch_size: int = 32,
        top_k: int | str | None = NOT_GIVEN,
        missing: str = "raise",
    ) -> None:
        if missing not in MISSING:
            raise InvalidInputError(f"missing must be one of {list(MISSING)}; got {missing!r}.")
        self._missing = missing
        self.classifier, self._top_k = classifier, _checked_top_k(top_k)
        self._batch_size = _checked_batch_size(batch_size)

    @property
    def tokenizer(self) -> Any:
        return self.classifier.tokenizer

    @property
    def device(self) -> torch.device:
        return self.classifier.network.backbone.device

    @property
    def id2label(self) -> dict[int, str]:
        return self.classifier.network.backbone.config.id2label

    def __repr__(self) -> str:
        return f"AdaptivePipeline({self.task}, {self.classifier.used_setting})"

    def __call__(
        self,
        inputs: Any,
        *,
        top_k: int | str | None = NOT_GIVEN,
        batch_size: int | None = None,
        num_workers: int | None = None,
        **options: Any,
    ) -> Any:
        """Results for a text, a dictionary, a list of either, or anything that can be read one by one.

        `top_k` and `batch_size` are for this call only, `num_workers` has no use here, and options of the tokenizer must be
        what the classifier was certified with.
        """
        self._check_options(options)
        asked = self._top_k if top_k == NOT_GIVEN else _checked_top_k(top_k)
        size = self._batch_size if batch_size is None else _checked_batch_size(batch_size)
        if isinstance(inputs, str | Mapping):
            found = self._run([inputs], asked, size)[0]
            return [found] if isinstance(inputs, str) and asked == NOT_GIVEN else found
        if isinstance(inputs, list):
            return self._run(inputs, asked, size)
        if isinstance(inputs, tuple) or not isinstance(inputs, Iterable):
            raise InvalidInputError(
                f"inputs must be a text, a dictionary with text and text_pair, or a list of those; got {inputs!r:.60}."
            )
        return self._stream(inputs, asked, size)

    def _stream(self, inputs: Iterable[Any], top_k: int | str | None, batch_size: int) -> Iterator[Any]:
        """Batch by batch, as results are asked for."""
        remaining = iter(inputs)
        while batch := list(islice(remaining, batch_size)):
            yield from self._run(batch, top_k, batch_size)

    def _run(self, inputs: list[Any], top_k: int | str | None, batch_size: int) -> list[Any]:
        reads_pairs = self.classifier.network.layout.pairs
        texts = [_text(given, i, self._missing, reads_pairs) for i, given in enumerate(inputs)]
        found: list[Any] = [None] * len(texts)
        for pairs in (False, True):  # the tokenizer wants texts or pairs of texts, not both at once
            rows = [i for i, text in enumerate(texts) if isinstance(text, tuple) == pairs and text is not None]
            if rows:
                chosen: Any = [texts[i] for i in rows]
                probabilities = self.classifier.predict_proba(chosen, batch_size=batch_size)
                sure = is_answered(probabilities, self.classifier.used_setting.abstain)
                for i, scores, is_sure in zip(rows, probabilities.tolist(), sure, strict=True):
                    found[i] = self._result(scores, top_k) if is_sure else self._no_answer(max(scores), top_k)
        return [self._no_answer(0.0, top_k) if result is None else result for result in found]

    def _result(self, scores: list[float], top_k: int | str | None) -> Any:
        ranked = sorted(range(len(scores)), key=lambda i: -scores[i])
        results = [{"label": self.id2label[i], "score": scores[i]} for i in ranked]
        if top_k == NOT_GIVEN:
            return results[0]
        return results if top_k is None else results[: int(top_k)]

    def _no_answer(self, score: float, top_k: int | str | None) -> Any:
        found = {"label": str(self.classifier.abstain_label), "score": score}
        return found if top_k == NOT_GIVEN else [found]

    def _check_options(self, options: dict[str, Any]) -> None:
        certified = {"truncation": (True, "longest_first"), "max_length": (self.classifier.max_length,)}
        for name, value in options.items():
            if name == "padding" or (name == "function_to_apply" and value in (None, "default", "softmax")):
                continue  # padding is not needed, and probabilities are what there is
            if name not in certified:
                raise InvalidInputError(
                    f"options can be top_k, batch_size, num_workers, truncation and max_length; got {name}={value!r}."
                )
            if value not in certified[name]:
                raise InvalidInputError(
                    f"{name} must be as when the classifier was certified, {certified[name][0]}; got {value!r}."
                )


def _text(given: Any, position: int, missing: str, reads_pairs: bool) -> str | tuple[str, str] | None:
    """A text, or a pair of texts, from what the pipeline of transformers takes for one; None where there is nothing to read."""
    first, second = (given.get("text"), given.get("text_pair")) if isinstance(given, Mapping) else (given, None)
    is_pair = isinstance(given, Mapping) and (second is not None or (reads_pairs and "text_pair" in given))
    has_text = not isinstance(given, Mapping) or "text" in given  # a misspelt key is no missing text
    if has_text and is_missing((first, second) if is_pair else first):
        if missing == "abstain":
            return None
        raise InvalidInputError(
            f"every text must have at least one character; number {position} is {given!r:.60}. Leave it out, or have the "
            "others answered: pipeline(..., missing='abstain')."
        )
    if isinstance(first, str) and not is_pair:
        return first
    if isinstance(first, str) and isinstance(second, str):
        return first, second
    raise InvalidInputError(
        'each input must be a text or, for two texts, a dictionary {"text": ..., "text_pair": ...}; '
        f"number {position} is {given!r:.60}."
    )


def _checked_top_k(top_k: int | str | None) -> int | str | None:
    if top_k is None or top_k == NOT_GIVEN or (isinstance(top_k, int) and not isinstance(top_k, bool) and top_k >= 1):
        return top_k
    raise InvalidInputError(f"top_k must be at least 1, or None for all classes; got {top_k!r}.")


def _checked_batch_size(batch_size: int) -> int:
    if batch_size < 1:
        raise InvalidInputError(f"batch_size must be at least 1; got {batch_size}.")
    return batch_size
