"""read_runs: the logs of a tool, or a file of runs, as Runs."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from riskfront.errors import InvalidInputError, StoreError
from riskfront.logs.gather import gather
from riskfront.logs.record import Importer
from riskfront.logs.runs import Runs, from_frame
from riskfront.losses.values import known
from riskfront.reading.column_roles import EXAMPLE_NAMES
from riskfront.reading.filters import filtered, must_be_known_beforehand, parse_filters
from riskfront.reading.long_format import read_frame
from riskfront.reading.runs_layout import saved_roles

#: tool -> its module
TOOLS = {
    "lm-eval": "lm_eval",
    "inspect": "inspect_ai",
    "promptfoo": "promptfoo",
    "every-eval-ever": "every_eval_ever",
    "helm": "helm",
    "openai-evals": "openai_evals",
    "routerbench": "routerbench",
    "mlflow": "mlflow",
}
#: tools whose files can be told by their names or first bytes
_TOLD_APART = ("lm-eval", "helm", "inspect", "promptfoo", "every-eval-ever", "openai-evals")


def read_runs(
    path: str | os.PathLike[str],
    tool: str | None = None,
    *,
    score: str | None = None,
    filter: str | None = None,
    where: str | Sequence[str] = (),
) -> Runs:
    """Models (or prompts, or quantisations) x examples: score, cost, latency, tokens, confidence, as far as they were logged.

    Args:
        path: a folder of logs, one log, or a Parquet or CSV file with one row a model and example.
        tool: who wrote the logs: lm-eval, inspect, promptfoo, every-eval-ever, helm, openai-evals, routerbench or mlflow.
            Without it, it is found out where names or first bytes tell.
        score: the metric that becomes the score, where there are several; "task=metric, task=metric" by task.
        filter: the answer filter of lm-eval, where there are several.
        where: which runs and examples count, such as "task == arc"; never by an outcome.

    Examples:
        >>> import tempfile
        >>> import pandas as pd
        >>> log = pd.DataFrame({"model": ["s", "s", "l", "l"], "example": [0, 1, 0, 1], "score": [0.0, 1.0, 1.0, 1.0]})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     log.to_parquet(f"{folder}/runs.parquet")
        ...     runs = read_runs(f"{folder}/runs.parquet")
        >>> runs.names, runs.n_examples
        (['s', 'l'], 2)
    """
    place = Path(path)
    if not place.exists():
        raise StoreError(f"cannot read '{path}': no such file or folder.")
    if tool is None and place.is_file() and place.suffix.lower() in (".parquet", ".pq", ".csv"):
        runs = _long_file(place)
    else:
        importer, found = _found(place, tool)
        runs = gather((record for file in found for record in importer.records(file)), score, filter)
    return _where(runs, where) if where else runs


def _found(path: Path, tool: str | None) -> tuple[Importer, list[Path]]:
    if tool is not None:
        importer = _importer(known(tool, TOOLS, "tool"))
        found = importer.files(path)
        if not found:
            raise InvalidInputError(f"'{path}' must hold logs of {tool}; none were found.")
        return importer, found
    by_tool = {name: _importer(name).files(path) for name in _TOLD_APART}
    named = [name for name, found in by_tool.items() if found]
    if len(named) != 1:
        said = f"logs of {' and '.join(named)}" if named else "none that are known by their names"
        raise InvalidInputError(
            f"one tool must have written the logs in '{path}'; found {said}. Name it: {', '.join(TOOLS)}."
        )
    return _importer(named[0]), by_tool[named[0]]


def _importer(tool: str) -> Importer:
    module: Importer = importlib.import_module(f"riskfront.logs.{TOOLS[tool]}")
    return module


def _long_file(path: Path) -> Runs:
    """A file that ``Runs.save`` wrote, or any other with a column "model" and one that names the examples."""
    about = saved_roles(path)
    frame = read_frame(path)
    if about is not None:
        return from_frame(frame, about["settings"], about["about"])
    if "model" not in frame:
        raise InvalidInputError(
            f"'{path}' must have a column 'model', or be imported from the files of its tool: riskfront import TOOL PATH."
        )
    example = next((c for name in EXAMPLE_NAMES for c in frame.columns if str(c).lower() == name), None)
    if example is None:
        raise InvalidInputError(f"'{path}' must have a column that names the examples, such as 'example'; it has none.")
    frame = frame.rename(columns={example: "example"})
    constant = [c for c in frame if c not in ("example", "model") and _one_each(frame, str(c))]
    return from_frame(frame, ["model"], ["example", *constant])


def _one_each(frame: pd.DataFrame, column: str) -> bool:
    return bool(frame.groupby("example")[column].nunique(dropna=False).max() == 1)


def _where(runs: Runs, where: str | Sequence[str]) -> Runs:
    frame, settings = runs.frame(), list(runs.settings.columns)
    filters = parse_filters(where)
    must_be_known_beforehand(frame, filters, "example", settings, ["score"] if "score" in runs.values else [])
    return from_frame(filtered(frame, filters, list(runs.values)), settings, list(runs.examples.columns))
