"""RouterBench: one row a prompt, ``<model>`` its score, ``<model>|total_cost`` its price; or the same in long format."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from riskfront._data.logs.record import Record, as_score, measures_of
from riskfront._data.logs.responses import about_prompt
from riskfront._data.logs.tools.json_files import below
from riskfront._data.reading.opening import read_frame
from riskfront.errors import InvalidInputError

_COST = "|total_cost"
_COPY = "second rows of a prompt that no model was scored on"


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
    unscored = _unscored_copies(frame, frame[models].isna().all(axis=1))
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
                left_out=_COPY if unscored[row] else None,
            )


def _long(frame: pd.DataFrame, path: str) -> Iterator[Record]:
    columns = frame.to_dict("list")
    cost = next((name for name in ("cost", "cost_usd", "total_cost") if name in columns), None)
    known = frame.groupby(["sample_id", "eval_name", "model"])["score"].agg(["count", "size"])
    once = known["size"].eq(known["count"] + 1).groupby(level=[0, 1]).all()  # each model has one row without a score
    prompt = pd.MultiIndex.from_frame(frame[["sample_id", "eval_name"]])
    unscored = _unscored_copies(frame, frame["score"].isna() & once.reindex(prompt).to_numpy())
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
            left_out=_COPY if unscored[row] else None,
        )


def _unscored_copies(frame: pd.DataFrame, unscored: pd.Series[bool]) -> list[bool]:
    """(rows,): where no model was scored, although each was on another row of the same prompt: a fault of the published table,
    which doubles the text and the price there, and no answer."""
    scored = (~unscored).groupby([frame["sample_id"], frame["eval_name"]]).transform("any")
    return [bool(value) for value in unscored & scored]


def _about(columns: dict[Any, list[Any]], row: int, names: tuple[str, ...]) -> dict[str, Any]:
    """What is known of the example before any model answers."""
    found = {name: columns[name][row] for name in names if name in columns}
    return about_prompt(str(found["prompt"])) if "prompt" in found else found


def _known(value: Any) -> Any:
    return None if value != value else value
