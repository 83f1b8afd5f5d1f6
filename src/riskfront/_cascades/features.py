"""What a route is learnt from: columns that are known before a call, and what a response says of itself.

An encoder is plain data: columns by kind, with the means, levels and weights that were seen on learning examples. It gives
the same numbers for one prompt as for a matrix of them.
"""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from riskfront._cascades.confidence import first_known, numbers_of, of_example, same_for_all
from riskfront._data.logs.responses import FROM_RESPONSE, NEVER
from riskfront._data.logs.runs import OUTCOMES, Runs
from riskfront._support.arrays import FloatArray
from riskfront._support.values import plain
from riskfront.errors import InvalidInputError

#: what an answer comes with: what a policy computes from a response, or a model or judge says of it; outcomes that need a gold
#: label are not among them, nor prices and latencies, which no response tells
SAID_BY_ANSWERS = (
    *FROM_RESPONSE,
    "confidence",
    "judge",
    "choice_logprob",
    "avg_logprob",
    "margin",
    "answer_agreement",
    "answer_chars",
)
#: what importers compute of logs alone; learnt from only if somebody names it
NAMED_ONLY = ("choice_logprob", "answer_agreement")
_GOLD = re.compile(
    r"(^|[^a-z])(gold|target|targets|label|labels|answer|answers|answer_?key|correct|expected|ideal|solution|reference|"
    r"response|output|outputs|completion|score|oracle.*)([^a-z]|$)"
)
_BUCKETS, _LONGEST = 1024, 4000
_RARE, _FEW, _MOST_PRODUCTS = 5, 50, 60
_TEXT, _NUMBER, _LEVELS, _VECTOR = "text", "number", "levels", "vector"
_DENSE = 3.0  # columns of the table weigh more than the single words of a text


def choose_columns(runs: Runs, *, answers: bool, score: str) -> tuple[list[str], list[str], dict[str, str]]:
    """Columns known of the prompt, columns that an answer says, and why each of the others is left out."""
    before, after, left_out = list[str](), list[str](), dict[str, str]()
    for name in map(str, runs.examples.columns):
        why = _why_not(runs, name)
        if why is None:
            before.append(name)
        else:
            left_out[name] = why
    for name, values in runs.values.items():
        if name == score:
            left_out[name] = "it is the outcome that is limited"
        elif name in NEVER:
            left_out[name] = NEVER[name]
        elif name in SAID_BY_ANSWERS:
            if not answers:
                left_out[name] = "only known with an answer"
            elif name in NAMED_ONLY:
                left_out[name] = "no response of a model holds it; name it where you can supply it with every answer"
            elif bool((np.isnan(values).mean(axis=1) < 0.5).all()):
                after.append(name)
            else:
                left_out[name] = "missing for most answers of a model"
        elif name not in OUTCOMES and same_for_all(values) and np.nanstd(values) > 0:
            before.append(name)
        else:
            left_out[name] = "an outcome, or nothing that a response says at run time"
    return before, after, left_out


def _why_not(runs: Runs, name: str) -> str | None:
    if name == "example":
        return "the name of the example"
    if name in NEVER:
        return NEVER[name]
    if _GOLD.search(name.lower()):
        return "its name is that of a gold label or an outcome"
    column = runs.examples[name]
    kind = _kind(column.to_numpy())
    if kind is None:
        return "neither numbers, nor text, nor vectors of one length"
    if kind in (_NUMBER, _LEVELS) and column.nunique() < 2:
        return "the same everywhere"
    return None


def _kind(values: Any) -> str | None:
    array = np.asarray(values)
    if array.dtype.kind in "biuf":
        return _NUMBER
    if _vectors(values):
        return _VECTOR if len({len(cell) for cell in values}) == 1 else None
    cells = [cell for cell in values if cell is not None and cell == cell] if array.ndim == 1 else []
    if not cells or not all(isinstance(plain(cell), str | bool | int | float) for cell in cells):
        return None
    distinct = len({str(cell) for cell in cells})
    return _TEXT if distinct > max(_FEW, len(cells) / 2) else _LEVELS


def _vectors(values: Any) -> bool:
    return len(values) > 0 and all(isinstance(cell, list | tuple | np.ndarray) for cell in values)


def learn_encoder(values: Mapping[str, Any]) -> dict[str, Any]:
    """Column -> how it becomes numbers, from learning examples."""
    return {name: _learn_column(name, column) for name, column in values.items()}


def _learn_column(name: str, values: Any) -> dict[str, Any]:
    kind = "text" if name == "prompt" else _kind(values)
    if kind == _TEXT:
        counts = np.stack([_counted(text) for text in values])
        seen = (counts != 0).sum(axis=0)
        # a bucket that all prompts fill, such as an instruction before each question, says nothing: log 1 = 0
        return {"kind": _TEXT, "weights": np.log(len(counts) / np.maximum(seen, 1)).tolist()}
    if kind == _LEVELS:
        texts, times = np.unique([str(plain(value)) for value in values], return_counts=True)
        return {"kind": _LEVELS, "levels": [str(text) for text in texts[times >= _RARE]]}
    if kind == _VECTOR:
        array = np.asarray([np.asarray(cell, dtype=np.float64) for cell in values])
        return {"kind": _VECTOR, "mean": array.mean(axis=0).tolist(), "scale": _scale(array).tolist()}
    if kind is None:
        raise InvalidInputError(
            f"a feature must hold numbers, texts, or vectors of one length; '{name}' holds something else. Leave it out."
        )
    numbers = np.asarray(values, dtype=np.float64)
    numbers = numbers[np.isfinite(numbers)]
    numbers = numbers if len(numbers) else np.zeros(1)
    mean, scale = float(numbers.mean()), float(_scale(numbers[:, None])[0])
    knots = np.unique(np.quantile((numbers - mean) / scale, [0.25, 0.5, 0.75]))
    return {"kind": _NUMBER, "mean": mean, "scale": scale, "knots": knots.tolist()}


def _scale(array: FloatArray) -> FloatArray:
    scale = array.std(axis=0)
    return np.where(scale > 0, scale, 1.0)


def encode(
    encoder: Mapping[str, Mapping[str, Any]], values: Mapping[str, Any], n: int
) -> tuple[FloatArray, FloatArray]:
    """(n, columns) of numbers, levels and vectors, and (n, buckets) of words; zeros where something is missing.

    A number enters as it is and by its distance above three quantiles, so that a straight line through these columns may
    rise and fall. Levels of columns with few of them are multiplied with the numbers.
    """
    missing = [name for name in encoder if values.get(name) is None]
    if missing:
        raise InvalidInputError(f"the route rests on {', '.join(encoder)}; '{missing[0]}' was not given.")
    numbers, levels, others, texts = list[FloatArray](), list[FloatArray](), list[FloatArray](), list[FloatArray]()
    for name, how in encoder.items():
        column = values[name]
        if how["kind"] == _TEXT:
            texts.append(np.stack([_weighted(text, np.asarray(how["weights"])) for text in column]))
        elif how["kind"] == _LEVELS:
            known = np.array([str(plain(value)) for value in column])
            levels += [(known == level).astype(np.float64) for level in how["levels"]]
        elif how["kind"] == _VECTOR:
            mean = np.asarray(how["mean"])
            array = np.stack([_vector_of(name, cell, len(mean)) for cell in column])
            others += list(((array - mean) / np.asarray(how["scale"])).T)
        else:
            z = (numbers_of(name, column) - how["mean"]) / how["scale"]
            z = np.clip(np.where(np.isfinite(z), z, 0.0), -10, 10)
            numbers.append(z)
            others += [np.maximum(z - knot, 0.0) for knot in how["knots"]]
    if len(levels) * len(numbers) <= _MOST_PRODUCTS:
        others += [level * number for level in levels for number in numbers]
    columns = [*numbers, *levels, *others]
    dense = np.stack(columns, axis=1) if columns else np.zeros((n, 0))
    return dense, np.concatenate(texts, axis=1) if texts else np.zeros((n, 0))


def _vector_of(name: str, cell: Any, length: int) -> FloatArray:
    numbers = numbers_of(name, cell) if _vectors([cell]) else np.zeros(0)
    if len(numbers) != length:
        raise InvalidInputError(f"'{name}' must be a vector of {length:,} numbers, as in the logs; got {cell!r:.60}.")
    return numbers


def joined(dense: FloatArray, words: FloatArray) -> FloatArray:
    """(n, columns + buckets): the matrix of a linear model."""
    return np.ascontiguousarray(np.concatenate([_DENSE * dense, words], axis=1))


_WORDS = re.compile(r"\w+|[^\w\s]")


def _counted(text: Any) -> FloatArray:
    """(buckets,): hashed words and pairs of words of a text, each with a sign of its own."""
    words = _WORDS.findall(str(text)[-_LONGEST:].lower())
    pairs = [f"{one} {two}" for one, two in itertools.pairwise(words)]
    codes = np.array([zlib.crc32(word.encode("utf-8", "replace")) for word in (*words, *pairs)], dtype=np.int64)
    if not len(codes):
        return np.zeros(_BUCKETS)
    counts: FloatArray = np.bincount(codes % _BUCKETS, np.where(codes >> 31, 1.0, -1.0), _BUCKETS).astype(np.float64)
    return counts


def _weighted(text: Any, weights: FloatArray) -> FloatArray:
    row = _counted(text)
    row = np.sign(row) * np.log1p(np.abs(row)) * weights
    length = float(np.sqrt((row * row).sum()))
    return np.asarray(row / length if length > 0 else row)


def of_examples(runs: Runs, names: Sequence[str]) -> dict[str, Any]:
    """What is known of every prompt: name -> (n,)."""
    return {name: first_known(runs.values[name]) if name in runs.values else of_example(runs, name) for name in names}
