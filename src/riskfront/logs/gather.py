"""From logged answers to runs: one metric chosen, repeated answers to one example averaged, examples joined."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from riskfront.errors import InvalidInputError
from riskfront.logs.record import Record, Unusable
from riskfront.logs.runs import Runs, from_frame
from riskfront.losses.values import plain


def gather(records: Iterable[Record], score: str | None = None, variant: str | None = None) -> Runs:
    """Runs of all records.

    Args:
        records: of one tool, of any number of files.
        score: the metric that becomes "score"; "task=metric, task=metric" for several tasks with metrics of their own.
            Without it, the only metric there is.
        variant: the filter to take where a tool looked at answers in several ways.
    """
    kept = _one_variant(list(records), variant)
    if not kept:
        raise InvalidInputError("logs must hold at least one scored answer; none was found.")
    metric_of = _metrics(kept, score)
    rows, settings = [], _settings(kept)
    several = len({record.task for record in kept}) > 1
    for record, setting in zip(kept, settings, strict=True):
        rows.append(
            {
                "_setting": tuple(setting.items()),
                "example": f"{record.task}/{record.example}" if several else record.example,
                "task": record.task,
                "_repeat": str(record.repeat),
                "_where": record.where,
                "_asked": record.asked,
                "_answer": record.answer,
                **{f"about {name}": value for name, value in record.about.items()},
                "score": _usable(record.scores.get(metric_of[record.task], np.nan)),
                **record.measures,
            }
        )
    frame = pd.DataFrame(rows)
    _refuse_twice(frame)
    _refuse_other_questions(frame)
    return _runs(_averaged(frame))


def _usable(score: float | Unusable) -> float:
    if isinstance(score, Unusable):
        raise InvalidInputError(score.why)
    return score


def _one_variant(records: list[Record], wanted: str | None) -> list[Record]:
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
    return [record for record in records if wanted is None or record.variant in (None, wanted)]


def _metrics(records: list[Record], score: str | None) -> dict[str, str]:
    """The metric of each task that becomes its score."""
    known: dict[str, dict[str, None]] = defaultdict(dict)
    for record in records:
        known[record.task].update(dict.fromkeys(record.scores))
    wanted = _by_task(score) if score else {}
    found: dict[str, str] = {}
    for task, metrics in known.items():
        name = wanted.get(task, wanted.get("")) or (next(iter(metrics)) if len(metrics) == 1 else None)
        if name is None or name not in metrics:
            listed = ", ".join(metrics)
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


def _settings(records: list[Record]) -> list[dict[str, Any]]:
    """The settings with the same keys everywhere: the model, and whatever differs between runs."""
    distinct = {tuple(record.setting.items()): dict(record.setting) for record in records}
    names = list(dict.fromkeys(name for setting in distinct.values() for name in setting))
    varying = {name for name in names if len({str(s.get(name, "none")) for s in distinct.values()}) > 1}
    kept = [name for name in names if name == "model" or name in varying]
    known = {key: {name: plain(setting.get(name, "none")) for name in kept} for key, setting in distinct.items()}
    return [known[tuple(record.setting.items())] for record in records]


def _refuse_twice(frame: pd.DataFrame) -> None:
    key = ["_setting", "example", "_repeat"]
    twice = frame.duplicated(key)
    if twice.any():
        first = frame[twice].iloc[0]
        setting = ", ".join(f"{name} = {value}" for name, value in first["_setting"])
        raise InvalidInputError(
            f"{first['_where']}: an answer must be logged once; example '{first['example']}' comes more than once for "
            f"{setting} "
            f"({int(twice.sum()):,} such answers). Two runs of one setting? Remove the older log."
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


def _averaged(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a setting and example. Repeated answers depend on each other, so only their mean counts."""
    scored = frame["score"].notna()
    without = ~scored.groupby([frame["_setting"], frame["example"]]).transform("any")
    frame = frame[scored | without]  # what was never scored says nothing beside an answer that was
    grouped = frame.groupby(["_setting", "example"], sort=False)
    numbers = [name for name in frame if name not in ("example", "task") and not str(name).startswith("_")]
    about = [name for name in numbers if str(name).startswith("about ")]
    means = grouped[[name for name in numbers if name not in about]].mean()
    found = means.join(grouped[["task", *about]].first())
    counts = grouped["score"].count()
    if counts.median() > 1:  # a few examples that come twice are no repeated sampling
        found["samples"] = counts.clip(lower=1)
        if frame["_answer"].notna().all():
            found["agreement"] = grouped["_answer"].agg(lambda answers: answers.value_counts().iloc[0] / len(answers))
    return found.reset_index()


def _runs(frame: pd.DataFrame) -> Runs:
    settings = pd.DataFrame([dict(pairs) for pairs in frame["_setting"]], index=frame.index)
    about = [name for name in frame if str(name).startswith("about ")]
    renamed = {name: str(name).removeprefix("about ") for name in about}
    rest = frame.drop(columns="_setting").rename(columns=renamed)
    clash = set(settings.columns) & set(rest.columns)
    settings = settings.rename(columns={name: f"setting {name}" for name in clash})
    return from_frame(
        pd.concat([settings, rest], axis=1), list(settings.columns), ["example", "task", *renamed.values()]
    )


def describe(runs: Runs) -> Mapping[str, Any]:
    """What was gathered, for a table on the terminal: one row a run."""
    score = runs.value("score")
    columns: dict[str, Any] = {"run": runs.names, "examples": (~np.isnan(score)).sum(axis=1)}
    for name, array in runs.values.items():
        with np.errstate(invalid="ignore"):
            counts = np.maximum((~np.isnan(array)).sum(axis=1), 1)
        columns[name] = np.where(np.isnan(array).all(axis=1), np.nan, np.nansum(array, axis=1) / counts)
    return columns
