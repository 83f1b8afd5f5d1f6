"""RouterBench: one row a prompt, ``<model>`` its score, ``<model>|total_cost`` its price; or the same in long format."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from riskfront.errors import InvalidInputError
from riskfront.logs.json_files import below
from riskfront.logs.record import Record, as_score, measures_of
from riskfront.reading.long_format import read_frame

_COST = "|total_cost"


def files(path: Path) -> list[Path]:
    return below(path, "*.parquet", "*.csv")


def records(path: Path) -> Iterator[Record]:
    frame = read_frame(path)
    for name in ("sample_id", "eval_name"):
        if name not in frame:
            raise InvalidInputError(f"'{path}': a table of RouterBench must have a column '{name}'; it has none.")
    if "model" in frame and "score" in frame:
        return _long(frame, str(path))
    models = [str(name).removesuffix(_COST) for name in frame.columns if str(name).endswith(_COST)]
    lacking = [model for model in models if model not in frame]
    if lacking:
        raise InvalidInputError(
            f"'{path}': '{lacking[0]}' has a column of costs and must have one of scores; it has none."
        )
    if not models:
        raise InvalidInputError(f"'{path}': each model must have a column '<model>{_COST}'; none was found.")
    return _wide(frame, models, str(path))


def _wide(frame: pd.DataFrame, models: list[str], path: str) -> Iterator[Record]:
    columns = frame.to_dict("list")
    for row in range(len(frame)):
        for model in models:
            where = f"'{path}', row {row}"
            answer = columns.get(f"{model}|model_response")
            yield Record(
                {"model": model},
                str(columns["eval_name"][row]),
                str(columns["sample_id"][row]),
                {"score": as_score(_known(columns[model][row]), model, where)},
                measures_of(cost=_known(columns[f"{model}{_COST}"][row])),
                repeat=row,
                answer=str(answer[row]) if answer else None,
                about=_about(columns, row, ("prompt",)),
                where=where,
            )


def _long(frame: pd.DataFrame, path: str) -> Iterator[Record]:
    columns = frame.to_dict("list")
    cost = next((name for name in ("cost", "cost_usd", "total_cost") if name in columns), None)
    for row in range(len(frame)):
        yield Record(
            {"model": str(columns["model"][row])},
            str(columns["eval_name"][row]),
            str(columns["sample_id"][row]),
            {"score": as_score(_known(columns["score"][row]), "score", f"'{path}', row {row}")},
            measures_of(cost=_known(columns[cost][row])) if cost else {},
            repeat=row,
            about=_about(columns, row, ("prompt_chars",)),
            where=f"'{path}', row {row}",
        )


def _about(columns: dict[Any, list[Any]], row: int, names: tuple[str, ...]) -> dict[str, Any]:
    """What is known of the example before any model answers; of a prompt its length."""
    found = {name: columns[name][row] for name in names if name in columns}
    if "prompt" in found:
        found = {"prompt_chars": len(str(found["prompt"]))}
    return found


def _known(value: Any) -> Any:
    return None if value != value else value
