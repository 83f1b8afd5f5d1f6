"""read_runs: the logs of a tool, or a file of runs, as Runs; what cannot be read is said."""

from __future__ import annotations

import gc
import importlib
import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from riskfront._data.identity.fingerprints import normalised
from riskfront._data.logs.gather import gather
from riskfront._data.logs.record import Importer, Record, Unusable
from riskfront._data.logs.runs import FILTERED, OUTCOMES, QUESTIONS, Runs, added, from_frame, is_text
from riskfront._data.logs.tools.json_files import cut_off
from riskfront._data.reading.column_roles import EXAMPLE_NAMES, saved_roles
from riskfront._data.reading.filters import filtered, must_be_known_beforehand, parse_filters
from riskfront._data.reading.opening import read_frame
from riskfront._support.values import known, plain
from riskfront.errors import InvalidInputError, LeftOutWarning, RiskfrontError, StoreError

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
    "deepeval": "deepeval",
    "langfuse": "langfuse",
    "litellm": "litellm",
}
#: tools whose files can be told by their names or first bytes
_TOLD_APART = ("lm-eval", "helm", "inspect", "promptfoo", "every-eval-ever", "openai-evals", "deepeval")

_FEW_SCORES = 256  # different ones of a log that are shared


def read_runs(
    path: str | os.PathLike[str],
    tool: str | None = None,
    *,
    score: str | None = None,
    filter: str | None = None,
    where: str | Sequence[str] = (),
    worst: float | None = None,
    skip_broken: bool = False,
    latest: bool = False,
) -> Runs:
    """Models (or prompts, or quantisations) x examples: score, cost, latency, tokens, confidence, as far as they were logged.

    Args:
        path: a folder of logs, one log, or a Parquet or CSV file with one row a model and example.
        tool: who wrote the logs: lm-eval, inspect, promptfoo, every-eval-ever, helm, openai-evals, routerbench, mlflow,
            deepeval, langfuse or litellm. Without it, it is found out where names or first bytes tell.
        score: the metric that becomes the score, where there are several; "task=metric, task=metric" by task.
        filter: the answer filter of lm-eval, where there are several.
        where: which runs and examples count, such as "task == arc"; never by an outcome.
        worst: what a call that failed scores. Without it 0, if all scores lie in [0, 1]; name it for any other score, and for
            one of which less is better.
        skip_broken: leave out files that cannot be read, and logs of evaluations that did not end, each with a warning that
            names it. Without it the first one is an error, and of an evaluation that did not end everything that it lacks
            counts as the worst.
        latest: of several logs of one run, take the latest, which must hold all examples of those before it; one that does not
            is an error, or left out with ``skip_broken``.

    A failed call scores the worst, what nobody scored is missing (nan) and counts as the worst when it is calibrated; several
    answers of one run to one example become their mean. ``runs.intake`` is the account.

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
    if tool is None and place.is_file() and _is_table(place):
        runs = _long_file(place, worst)
        return _where(runs, where) if where else runs
    importer, found = _found(place, tool)
    with _no_garbage_collection():
        records, skipped = read_files(importer, sorted([*found, *cut_off(place, found)]), skip_broken)
        runs = gather(records, score, filter, parse_filters(where), worst, latest, skip_broken)
    return replace(runs, left_out={**runs.left_out, **skipped})


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Millions of records are made and all of them are kept: to look for garbage among them takes a fifth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _found(path: Path, tool: str | None) -> tuple[Importer, list[Path]]:
    if tool is not None:
        importer = _importer(known(tool, TOOLS, "tool"))
        found = importer.files(path)
        if not found:
            raise InvalidInputError(f"'{path}' must hold logs of {tool}; none were found.")
        return importer, found
    by_tool = {name: _importer(name).files(path) for name in _TOLD_APART}
    # a file whose name does not tell is told by what it holds
    is_log = {name: getattr(_importer(name), "is_log", lambda file: True) for name in by_tool}
    named = [name for name, found in by_tool.items() if found and (path.is_dir() or is_log[name](path))]
    if len(named) != 1:
        said = f"logs of {' and '.join(named)}" if named else "none that are known by their names"
        raise InvalidInputError(
            f"one tool must have written the logs in '{path}'; found {said}. Name it: {', '.join(TOOLS)}."
        )
    return _importer(named[0]), by_tool[named[0]]


def _importer(tool: str) -> Importer:
    module: Importer = importlib.import_module(f"riskfront._data.logs.tools.{TOOLS[tool]}")
    return module


def _is_table(path: Path) -> bool:
    """Whether a file is a table of runs; of JSON lines, such as the log of ``riskfront serve``, the first one tells."""
    if path.suffix.lower() != ".jsonl":
        return path.suffix.lower() in (".parquet", ".pq", ".csv")
    try:
        with path.open(encoding="utf-8") as lines:
            first = json.loads(next(lines, ""))
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and "model" in first and any(name in first for name in EXAMPLE_NAMES)


def _long_file(path: Path, worst: float | None) -> Runs:
    """A file that ``Runs.save`` wrote, or any other with a column "model" and one that names the examples."""
    about = saved_roles(path)
    frame = read_frame(path)
    if about is not None:
        found = from_frame(frame, about["settings"], about["about"], about.get("left_out"))
        return replace(found, call_prices=about.get("call_prices", {}))
    if "model" not in frame:
        raise InvalidInputError(
            f"'{path}' must have a column 'model', or be imported from the files of its tool: riskfront import TOOL PATH."
        )
    example = next((c for name in EXAMPLE_NAMES for c in frame.columns if str(c).lower() == name), None)
    if example is None:
        raise InvalidInputError(f"'{path}' must have a column that names the examples, such as 'example'; it has none.")
    frame = _with_questions(frame.rename(columns={example: "example"}), path)
    return _with_failed_calls(from_frame(frame, ["model"], ["example", *_of_the_example(frame)]), worst)


def _with_questions(frame: pd.DataFrame, path: Path) -> pd.DataFrame:
    """The table, whose questions are known of an example whichever row tells them; an error if one example has several."""
    known = [name for name in QUESTIONS if name in frame and is_text(frame[name])]
    for name in known:
        asked = frame[name].dropna().astype(str).map(normalised).groupby(frame["example"])
        several = asked.nunique() > 1
        if several.any():
            raise InvalidInputError(
                f"'{path}': one example must be one question for all models; {int(several.sum()):,} have several in the column "
                f"'{name}', such as {plain(several.idxmax())!r}. Were the examples shuffled? Give each question a name of its "
                "own. Is it the same question in other words? Leave the column out."
            )
    filled = {name: frame.groupby("example")[name].transform("first") for name in known if frame[name].isna().any()}
    return frame.assign(**filled)


def _with_failed_calls(runs: Runs, worst: float | None) -> Runs:
    """Calls that a file says have failed score the worst, whatever else it says of them; missing where that is not known."""
    if not {"failed", "score"} <= set(runs.values):
        return runs
    failed, score = runs.values["failed"] == 1, runs.values["score"]
    others = score[~failed & ~np.isnan(score)]
    if worst is None:
        worst = 0.0 if ((others >= 0) & (others <= 1)).all() else np.nan
    return replace(runs, values={**runs.values, "score": np.where(failed & ~np.isnan(score), worst, score)})


def _of_the_example(frame: pd.DataFrame) -> list[str]:
    """Columns that are known of an example whatever model answers: the same for all models, and no known outcome."""
    others = [str(name) for name in frame if name not in ("example", "model", *OUTCOMES)]
    if frame["model"].nunique() == 1:
        return [name for name in others if frame[name].dtype.kind not in "biuf"]
    grouped = frame.groupby("example")
    return [name for name in others if grouped[name].nunique(dropna=False).max() == 1]


def _where(runs: Runs, where: str | Sequence[str]) -> Runs:
    frame, settings = runs.frame(), list(runs.settings.columns)
    filters = parse_filters(where)
    kept = filtered(frame, filters, list(runs.values))
    must_be_known_beforehand(frame, filters, "example", settings, ["score"] if "score" in runs.values else [])
    found = from_frame(kept, settings, list(runs.examples.columns), runs.left_out)
    gone = runs.intake.read - found.intake.read
    return replace(found, left_out=added(runs.left_out, FILTERED, gone), call_prices=runs.call_prices)


def read_files(importer: Importer, files: Sequence[Path], skip_broken: bool) -> tuple[list[Record], dict[str, int]]:
    """What all files hold, and for each that is left out why, with the number of answers that could be read of it."""
    kept: list[Record] = []
    skipped: dict[str, int] = {}
    seen: dict[tuple[str, str], Record] = {}
    for file in files:
        try:
            found = _of_log(file, importer, seen)
            if not found:
                raise InvalidInputError(f"'{file}': a log must hold answers; it holds none.")
        except RiskfrontError as error:
            if not skip_broken or len(files) == 1:
                advice = " To go on without such files: skip_broken=True, --skip-broken." if len(files) > 1 else ""
                raise _named(error, file, advice) from None
            reason = str(error).removeprefix(f"'{file}'").lstrip(",: ").removesuffix(".")  # "line 3: must be JSON"
            skipped[f"{file.name}: {reason}"] = 0
            continue
        partial = next((record.partial for record in found if record.partial), None)
        if skip_broken and partial is not None:
            skipped[f"{file.name}: {partial}"] = len(found)
            continue
        kept += found
    for reason in skipped:
        warnings.warn(LeftOutWarning(f"a log was skipped: {reason}"), stacklevel=4)
    if skipped and not kept:
        raise InvalidInputError(f"some log must be readable; all {len(skipped):,} were skipped: {next(iter(skipped))}")
    return kept, skipped


def _of_log(file: Path, importer: Importer, seen: dict[tuple[str, str], Record]) -> list[Record]:
    """What one file holds. What is ``seen`` of an example is kept once: all models are asked the same long prompts, in the
    same order. So are scores, of which most metrics have few."""
    found, log = list[Record](), str(file)
    written = datetime.fromtimestamp(file.stat().st_mtime, tz=timezone.utc)
    scores: dict[Any, Mapping[str, float | Unusable]] = {}
    for record in importer.records(file):
        record.log, record.when = log, record.when or written.isoformat()
        values = tuple(record.scores.items())
        if len(scores) < _FEW_SCORES or values in scores:
            record.scores = scores.setdefault(values, record.scores)
        first = seen.setdefault((record.task, record.example), record)
        record.example = first.example
        if first.about == record.about:
            record.about = first.about
        if type(first.repeat) is type(record.repeat) and first.repeat == record.repeat:
            record.repeat = first.repeat
        if first.where == record.where:
            record.where = first.where
        found.append(record)
    return found


def _named(error: RiskfrontError, file: Path, advice: str) -> RiskfrontError:
    """The error with the name of its file and, where the file itself is wrong, with advice."""
    said = str(error) if file.name in str(error) else f"'{file}': {error}"
    return type(error)(said + (advice if isinstance(error, InvalidInputError) else ""))
