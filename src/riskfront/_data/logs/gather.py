"""From logged answers to runs: one metric chosen, failed calls scored, repeated answers averaged, examples joined."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from riskfront._data.logs.record import Record, Unusable
from riskfront._data.logs.repeats import averaged
from riskfront._data.logs.runs import FILTERED, Runs, from_frame
from riskfront._data.reading.filters import Filter, filtered, must_be_known_beforehand
from riskfront._support.values import plain
from riskfront.errors import InvalidInputError


def gather(
    records: Iterable[Record],
    score: str | None = None,
    variant: str | None = None,
    where: Sequence[Filter] = (),
    worst: float | None = None,
    latest: bool = False,
) -> Runs:
    """Runs of all records.

    Args:
        records: of one tool, of any number of files.
        score: the metric that becomes "score"; "task=metric, task=metric" for several tasks with metrics of their own.
            Without it, the only metric there is.
        variant: the filter to take where a tool looked at answers in several ways.
        where: which runs and examples count.
        worst: what a failed call scores; 0 without it, if all scores lie in [0, 1].
        latest: of several logs of one run, take the latest answers to each example.
    """
    left_out: Counter[str] = Counter()
    kept = _one_variant(_where(_answers(records, left_out), where, left_out), variant, left_out)
    if not kept:
        raise InvalidInputError("logs must hold at least one answer; none was found.")
    kept = _told_apart(kept)
    kept = _latest(kept, left_out) if latest else kept
    metric_of = _metrics(kept, score)
    settings, codes = _settings(kept)
    frame = _frame(kept, codes, metric_of)
    _refuse_twice(frame, settings)
    _refuse_other_questions(frame)
    frame.loc[frame["_failed"], "score"] = _worst(frame, worst)
    return _runs(averaged(frame), settings, left_out)


def _frame(records: list[Record], settings: Sequence[int], metric_of: Mapping[str, str]) -> pd.DataFrame:
    """One row an answer. Column by column: a dictionary for each of millions of rows would take gigabytes."""
    several = len({record.task for record in records}) > 1
    about = dict.fromkeys(name for record in records for name in record.about)
    measures = dict.fromkeys(name for record in records for name in record.measures)
    columns: dict[str, Any] = {
        "_setting": settings,
        "example": [f"{record.task}/{record.example}" if several else record.example for record in records],
        "task": [record.task for record in records],
        "_repeat": [str(record.repeat) for record in records],
        "_where": [record.where for record in records],
        "_asked": [record.asked for record in records],
        "_answer": [record.answer for record in records],
        "_text": [record.text for record in records],
        "_failed": [record.failed for record in records],
        **{f"about {name}": [record.about.get(name) for record in records] for name in about},
        "score": [np.nan if r.failed else _usable(_score(r, metric_of[r.task])) for r in records],
        **_lengths(records),
        **{name: np.array([record.measures.get(name, np.nan) for record in records]) for name in measures},
    }
    return pd.DataFrame(columns)


def _answers(records: Iterable[Record], left_out: Counter[str]) -> list[Record]:
    found = list(records)
    left_out.update(record.left_out for record in found if record.left_out is not None)
    return [record for record in found if record.left_out is None]


def _where(records: list[Record], where: Sequence[Filter], left_out: Counter[str]) -> list[Record]:
    """The records that filters leave, before a metric or a variant is asked for."""
    if not where or not records:
        return records
    metrics = {f"score {name}": name for record in records for name in record.scores}
    rows = [
        {
            **record.setting,
            **record.of_task,
            **record.about,
            "task": record.task,
            "example": f"{record.task}/{record.example}",
            **record.measures,
            **{column: _number(record.scores.get(name)) for column, name in metrics.items()},
        }
        for record in records
    ]
    frame = pd.DataFrame(rows).assign(_record=np.arange(len(rows)))
    settings = list(dict.fromkeys(str(name) for record in records for name in record.setting))
    settings += [name for name in dict.fromkeys(str(n) for r in records for n in r.of_task) if name not in settings]
    for name in settings:
        if frame[name].isna().any():
            frame[name] = frame[name].astype(object).where(frame[name].notna(), "none")
    outcomes = {"score", *metrics.values(), *(name for record in records for name in record.measures)}
    known = filtered(frame, where, outcomes - set(settings))
    must_be_known_beforehand(frame, where, "example", settings, list(metrics))
    left_out[FILTERED] += len(records) - len(known)
    return [records[row] for row in known["_record"]]


def _told_apart(records: list[Record]) -> list[Record]:
    """The records with settings that tell runs apart: how a task was run is among them if it was run in several ways."""
    seen: dict[tuple[Any, ...], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    names = dict.fromkeys(name for record in records for name in record.of_task)
    for record in records if names else ():
        ways = seen[record.task, tuple(record.setting.items())]
        for name in names:
            ways[name].add(str(record.of_task.get(name, "none")))
    varying = {name for ways in seen.values() for name, values in ways.items() if len(values) > 1}
    if not varying:
        return records
    return [
        replace(record, setting={**record.setting, **{name: record.of_task.get(name, "none") for name in varying}})
        for record in records
    ]


def _latest(records: list[Record], left_out: Counter[str]) -> list[Record]:
    newest: dict[Any, tuple[str, str]] = {}
    keys = [(tuple(record.setting.items()), record.task, record.example) for record in records]
    for key, record in zip(keys, records, strict=True):
        newest[key] = max(newest.get(key, ("", "")), (record.when, record.log))
    kept = [r for key, r in zip(keys, records, strict=True) if newest[key] == (r.when, r.log)]
    if len(kept) < len(records):
        left_out["answered again in a later log"] += len(records) - len(kept)
    return kept


def _lengths(records: list[Record]) -> dict[str, Any]:
    """How long answers were, where a tool logged any of their texts; of a failed call nothing is known."""
    found = [np.nan if record.text is None or record.failed else float(len(record.text)) for record in records]
    return {"response_chars": np.array(found)} if not np.isnan(found).all() else {}


def _score(record: Record, metric: str) -> float | Unusable:
    return record.scores[metric] if metric in record.scores else record.also.get(metric, np.nan)


def _number(score: float | Unusable | None) -> float:
    return float("nan") if score is None or isinstance(score, Unusable) else score


def _usable(score: float | Unusable) -> float:
    if isinstance(score, Unusable):
        raise InvalidInputError(score.why)
    return score


def _worst(frame: pd.DataFrame, declared: float | None) -> float:
    """What a failed call scores."""
    scores = frame.loc[~frame["_failed"], "score"].dropna()
    failed = int(frame["_failed"].sum())
    if not failed:
        return np.nan
    low, high = (float(scores.min()), float(scores.max())) if len(scores) else (0.0, 1.0)
    if declared is not None:
        if low < declared < high:
            raise InvalidInputError(
                f"the worst score must not lie between others; got {declared:g}, and scores run from {low:g} to {high:g}."
            )
        return declared
    if low < 0 or high > 1:
        raise InvalidInputError(
            f"{failed:,} calls failed and must score the worst there is; scores run from {low:g} to {high:g}, which does not "
            "tell it. Name it: worst=..., or --worst."
        )
    return 0.0


def _one_variant(records: list[Record], wanted: str | None, left_out: Counter[str]) -> list[Record]:
    found: dict[str, set[str]] = defaultdict(set)
    for record in records:
        if record.variant is not None:
            found[record.task].add(record.variant)
    for task, variants in found.items():
        if wanted is None and len(variants) > 1:
            raise InvalidInputError(
                f"one filter must be chosen for the task '{task}'; its samples have {', '.join(sorted(variants))}. "
                "Name one (--filter)."
            )
        if wanted is not None and wanted not in variants:
            raise InvalidInputError(
                f"the task '{task}' has no filter '{wanted}'; it has {', '.join(sorted(variants))}."
            )
    kept = [record for record in records if wanted is None or record.variant in (None, wanted)]
    if len(kept) < len(records):
        left_out[f"seen through another filter than '{wanted}'"] += len(records) - len(kept)
    return kept


def _metrics(records: list[Record], score: str | None) -> dict[str, str]:
    """The metric of each task that becomes its score; of a task in which every call failed, none."""
    known: dict[str, dict[str, None]] = defaultdict(dict)
    also: dict[str, dict[str, None]] = defaultdict(dict)
    for record in records:
        known[record.task].update(dict.fromkeys(record.scores))
        also[record.task].update(dict.fromkeys(record.also))
    answered = {record.task for record in records if not record.failed}
    wanted = _by_task(score) if score else {}
    found: dict[str, str] = {}
    for task, metrics in known.items():
        name = wanted.get(task, wanted.get("")) or (next(iter(metrics)) if len(metrics) == 1 else None)
        if task not in answered and answered:
            found[task] = name or ""
            continue
        if name is None or name not in {**metrics, **also[task]}:
            listed = ", ".join({**metrics, **also[task]})
            if not metrics:
                raise InvalidInputError(
                    f"logs of the task '{task}' must hold scores; no answer was scored. Did the evaluation end with an error?"
                )
            got = f"'{name}' is not among them" if name else "none was named"
            raise InvalidInputError(
                f"one metric must be the score of the task '{task}'; it has {listed}, and {got}. Name it (--score NAME, or "
                f"--score '{task}=NAME' for this task alone)."
            )
        found[task] = name
    return found


def _by_task(score: str) -> dict[str, str]:
    pairs = [part.rpartition("=") for part in score.split(",")]
    return {task.strip(): metric.strip() for task, _, metric in pairs}


def _settings(records: list[Record]) -> tuple[list[dict[str, Any]], list[int]]:
    """The settings with the same keys everywhere, the model and whatever differs between runs; and the number of each
    record's setting among them."""
    keys = [tuple(record.setting.items()) for record in records]
    distinct = {key: dict(key) for key in dict.fromkeys(keys)}
    names = list(dict.fromkeys(name for setting in distinct.values() for name in setting))
    varying = {name for name in names if len({str(s.get(name, "none")) for s in distinct.values()}) > 1}
    kept = [name for name in names if name == "model" or name in varying]
    known = {key: {name: plain(setting.get(name, "none")) for name in kept} for key, setting in distinct.items()}
    numbers: dict[tuple[Any, ...], int] = {}
    of = {key: numbers.setdefault(tuple(setting.items()), len(numbers)) for key, setting in known.items()}
    return [dict(setting) for setting in numbers], [of[key] for key in keys]


def _refuse_twice(frame: pd.DataFrame, settings: Sequence[Mapping[str, Any]]) -> None:
    key = ["_setting", "example", "_repeat"]
    twice = frame.duplicated(key)
    if twice.any():
        first = frame[twice].iloc[0]
        setting = ", ".join(f"{name} = {value}" for name, value in settings[first["_setting"]].items())
        raise InvalidInputError(
            f"{first['_where']}: an answer must be logged once; example '{first['example']}' comes more than once for "
            f"{setting} ({int(twice.sum()):,} such answers). Two runs of one setting? Remove the older log, or take the latest "
            "(latest=True, --latest)."
        )


def _refuse_other_questions(frame: pd.DataFrame) -> None:
    """Ids that are positions name other questions once a dataset is shuffled; answers to them must not be compared."""
    asked = frame[frame["_asked"].notna()]
    other = asked["_asked"] != asked.groupby("example")["_asked"].transform("first")
    if other.any():
        first = asked[other].iloc[0]
        raise InvalidInputError(
            f"{first['_where']}: one id must name one question in all runs; example '{first['example']}' is another question "
            f"here than before ({int(other.sum()):,} such answers). Were the examples shuffled? Give them ids of their own."
        )


def _runs(frame: pd.DataFrame, distinct: list[dict[str, Any]], left_out: Mapping[str, int]) -> Runs:
    settings = pd.DataFrame(distinct).iloc[frame["_setting"].to_numpy()].set_index(frame.index)
    about = [name for name in frame if str(name).startswith("about ")]
    renamed = {name: str(name).removeprefix("about ") for name in about}
    rest = frame.drop(columns="_setting").rename(columns=renamed)
    clash = set(settings.columns) & set(rest.columns)
    settings = settings.rename(columns={name: f"setting {name}" for name in clash})
    found = pd.concat([settings, rest], axis=1)
    return from_frame(found, list(settings.columns), ["example", "task", *renamed.values()], left_out)


def describe(runs: Runs) -> Mapping[str, Any]:
    """What was gathered, for a table on the terminal: one row a run."""
    score = runs.value("score")
    columns: dict[str, Any] = {"run": runs.names, "examples": (~np.isnan(score)).sum(axis=1)}
    for name, array in runs.values.items():
        with np.errstate(invalid="ignore"):
            counts = np.maximum((~np.isnan(array)).sum(axis=1), 1)
        columns[name] = np.where(np.isnan(array).all(axis=1), np.nan, np.nansum(array, axis=1) / counts)
    return columns
