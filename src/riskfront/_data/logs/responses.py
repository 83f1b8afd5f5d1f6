"""What a response holds that a confidence can rest on. Logs and live answers are read by these same functions."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

#: name -> what it is; each can be computed from a response in the format of OpenAI's chat completions
FROM_RESPONSE = {
    "logprob": "the mean log-probability of the tokens of the answer",
    "response_chars": "the length of the answer's text, in characters",
    "input_tokens": "the tokens of the prompt, as the provider counts them",
    "output_tokens": "the tokens of the answer, as the provider counts them",
    "tokens": "both together",
    "agreement": "the share of the samples of an answer that say the same as most do",
}
#: name -> what it is; each is known of a request before any model is called
FROM_PROMPT = {
    "prompt": "the texts of all messages, joined by line breaks",
    "prompt_chars": "their length, in characters",
}
#: what an evaluation run took depends on the machine that ran it, so that no confidence may rest on it
NEVER = {
    "latency": "it tells how busy the evaluation was, and is another one where the policy runs",
    **dict.fromkeys(
        ("cost", "cost_usd", "total_cost", "price"),
        "a response tells the tokens that it took, and not their price: use input_tokens and output_tokens",
    ),
    "failed": "a failed call has no answer to be sure of",
    "samples": "it is how often the evaluation asked",
    "score": "it is what the confidence must predict",
}


def prompt_text(prompt: Any) -> str | None:
    """The text of a prompt: of messages, their texts joined by line breaks; None if there is none."""
    if isinstance(prompt, str):
        return prompt
    if not isinstance(prompt, Sequence):
        return None
    return "\n".join(_text(part.get("content")) if isinstance(part, Mapping) else str(part) for part in prompt)


def inputs_text(given: Any) -> str | None:
    """The text of what an application was given: of messages as ``prompt_text``; of inputs by name their values, one after the
    other, as a request would hold them."""
    if not isinstance(given, Mapping):
        return prompt_text(given)
    if isinstance(given.get("messages"), list):
        return prompt_text(given["messages"])
    return "\n".join(value if isinstance(value, str) else json.dumps(value) for _, value in sorted(given.items()))


def digest_of(asked: Any) -> str | None:
    """A digest of a question: the texts of a million samples would be held twice. None if nothing is known of it."""
    if asked is None:
        return None
    text = asked if isinstance(asked, str) else json.dumps(asked, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def _text(content: Any) -> str:
    """The text of a message, whose content may be a list of parts, some of which are no text."""
    if not isinstance(content, list):
        return str(content)
    return "\n".join(str(part["text"]) for part in content if isinstance(part, Mapping) and "text" in part)


def about_prompt(text: Any) -> dict[str, Any]:
    """What is known of an example before any model answers: its text and the length of that."""
    return {"prompt": text, "prompt_chars": len(text)} if isinstance(text, str) and text else {}


def mean_logprob(tokens: Iterable[Any]) -> float | None:
    """The mean of the log-probabilities of tokens, each {"logprob": ...}; None if some lack it, or there are none."""
    try:
        numbers = [float(token["logprob"]) for token in tokens]
    except (KeyError, TypeError, ValueError):
        return None
    return math.fsum(numbers) / len(numbers) if numbers else None


def agreement(cells: Any, texts: Any, calls: pd.Series[int]) -> pd.Series[float]:
    """For each cell the share of its calls, failed ones included, whose texts are the one that most of them have. ``cells``:
    (answers,), to which each of the texts belongs."""
    counted = pd.DataFrame({"cell": np.asarray(cells), "text": np.asarray(texts, dtype=object)})
    same = counted.groupby(["cell", "text"]).size().groupby("cell").max()
    return same.reindex(calls.index, fill_value=0) / calls


def measured(completions: Sequence[Mapping[str, Any] | None]) -> dict[str, float]:
    """What one answer took and how sure it is, of its samples: each a chat completion, or None for a call that failed.

    A mean of which a part is unknown is unknown, as in logs; such names are left out.
    """
    parts = [_of_one(completion) for completion in completions]
    names = [name for name in FROM_RESPONSE if all(part.get(name) is not None for part in parts)]
    found = {name: math.fsum(part[name] or 0.0 for part in parts) / len(parts) for name in names}
    texts = [answer_text(completion) for completion in completions if completion is not None]
    if len(completions) > 1 and None not in texts:
        found["agreement"] = float(agreement([0] * len(texts), texts, pd.Series({0: len(completions)})).iloc[0])
    return found


def answer_text(completion: Mapping[str, Any]) -> str | None:
    """The text of the first choice of a chat completion: empty where a provider leaves it out, none where tools are called."""
    try:
        message = completion["choices"][0]["message"]
        content = message["content"]
        called = message.get("tool_calls") or message.get("function_call")
    except (KeyError, IndexError, TypeError, AttributeError):
        return None
    return None if called else "" if content is None else content if isinstance(content, str) else None


def _of_one(completion: Mapping[str, Any] | None) -> dict[str, float | None]:
    if completion is None:
        return {}
    usage = completion.get("usage")
    used = usage if isinstance(usage, Mapping) else {}
    text = answer_text(completion)
    try:
        tokens = completion["choices"][0]["logprobs"]["content"]
    except (KeyError, IndexError, TypeError):
        tokens = None
    return {
        "logprob": None if tokens is None else mean_logprob(tokens),
        "response_chars": None if text is None else len(text),
        "input_tokens": _number(used.get("prompt_tokens")),
        "output_tokens": _number(used.get("completion_tokens")),
        "tokens": _number(used.get("total_tokens")),
    }


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
