"""What a call costs, for logs that hold no prices: lm-eval, HELM and OpenAI evals log none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from riskfront._data.logs.record import OF_ALL_CALLS
from riskfront._data.logs.runs import Runs
from riskfront._data.reading.opening import read_frame
from riskfront._support.arrays import FloatArray
from riskfront._support.values import is_number
from riskfront.errors import InvalidInputError

#: how a price may be given -> the column of the runs that it multiplies, and by how much; None multiplies each call
_KINDS = {
    "per_call": (None, 1.0),
    "per_million_input": ("input_tokens", 1e-6),
    "per_million_output": ("output_tokens", 1e-6),
}
Prices = Mapping[str, "float | Mapping[str, float]"]


def priced(runs: Runs, prices: Prices) -> Runs:
    """The runs with a column "cost".

    Args:
        runs: one run a model.
        prices: name of a run, or model -> the price of a call, or {"per_call", "per_million_input", "per_million_output"},
            of which the last two need logged tokens.
    """
    parts = {}
    for name, model in zip(runs.names, runs.settings.iloc[:, 0].astype(str), strict=True):
        if name not in prices and model not in prices:
            raise InvalidInputError(
                f"every run must have a price; '{name}' has none. Prices: {', '.join(prices) or 'none'}."
            )
        given = prices[name if name in prices else model]
        parts[name] = given if isinstance(given, Mapping) else {"per_call": given}
    cost = np.stack([_cost(runs, row, name, parts[name]) for row, name in enumerate(runs.names)])
    # by tokens there is no largest price of a call
    by_token = any(price for of in parts.values() for kind, price in of.items() if kind != "per_call")
    by_call = {} if by_token else {name: float(of.get("per_call", 0.0)) for name, of in parts.items()}
    return replace(runs, values={**runs.values, "cost": cost}, call_prices=by_call)


def _cost(runs: Runs, row: int, name: str, parts: Mapping[str, float]) -> FloatArray:
    """(examples,)."""
    total = np.zeros(runs.n_examples)
    for kind, price in parts.items():
        if kind not in _KINDS or not is_number(price) or price < 0:
            raise InvalidInputError(
                f"a price must be a number of at least 0, {', '.join(_KINDS)}; got {kind} = {price!r} for '{name}'."
            )
        column, share = _KINDS[kind]
        if column is not None and column not in runs.values:
            raise InvalidInputError(f"a price {kind} needs logged tokens; the runs have no '{column}'. Use per_call.")
        total += price * share * (1.0 if column is None else _tokens(runs, column)[row])
    return total


def _tokens(runs: Runs, name: str) -> FloatArray:
    """(runs, examples): of all calls that an answer took, where more is known than what its response tells."""
    of_all = runs.values.get(OF_ALL_CALLS[name])
    return runs.value(name) if of_all is None else np.where(np.isnan(of_all), runs.value(name), of_all)


def read_prices(text: str) -> Prices:
    """Prices from a file with a column "model" and one or more of the kinds of prices, or from "small=0.001, large=0.03"."""
    if Path(text).is_file():
        frame = read_frame(Path(text))
        kinds = [name for name in _KINDS if name in frame]
        if "model" not in frame or not kinds:
            raise InvalidInputError(
                f"'{text}' must have a column 'model' and one of {', '.join(_KINDS)}; it has {', '.join(map(str, frame))}."
            )
        filled = frame.fillna(dict.fromkeys(kinds, 0.0))
        return {str(row["model"]): {kind: row[kind] for kind in kinds} for row in filled.to_dict("records")}
    found: dict[str, float] = {}
    for part in text.split(","):
        name, sign, price = part.rpartition("=")
        try:
            found[name.strip()] = float(price) if sign else float("nan")
        except ValueError:
            found[name.strip()] = float("nan")
    if not all(np.isfinite(price) for price in found.values()):
        raise InvalidInputError(f"prices must read 'small=0.001, large=0.03', or name a file; got '{text}'.")
    return found
