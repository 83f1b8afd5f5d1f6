"""From logged answers to runs: one metric chosen, failed calls scored, repeated answers averaged, examples joined."""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from riskfront._data.logs.record import Record, Unusable
from riskfront._data.logs.responses import agreement
from riskfront._data.logs.runs import FILTERED, Runs
from riskfront._data.reading.filters import Filter, filtered, must_be_known_beforehand
from riskfront._support.arrays import IntArray
from riskfront._support.values import plain
from riskfront.errors import InvalidInputError


def gather(
    records: list[Record],
    score: str | None = None,
    variant: str | None = None,
    where: Sequence[Filter] = (),
    worst: float | None = None,
    latest: bool = False,
    skip_broken: bool = False,
) -> Runs:
    """Runs of all records of one tool, as ``read_runs`` is asked for them; ``variant`` is its filter. The list is emptied, so
    that its memory is free for what comes after."""
    left_out: Counter[str] = Counter()
    kept = _one_variant(_where(_answers(records, left_out), where, left_out), variant, left_out)
    records.clear()
    if not kept:
        raise InvalidInputError("logs must hold at least one answer; none was found.")
    kept = _told_apart(kept)
    kept = _latest(kept, skip_broken, left_out) if latest else kept
    metric_of = _metrics(kept, score)
    settings, codes = _settings(kept)
    examples, of_example = _examples(kept)
    frame = _frame(kept, codes, of_example, metric_of)
    _refuse_twice(frame, kept, examples, settings)
    _refuse_other_questions(frame, kept, examples)
    del kept
    frame.loc[frame["_failed"], "score"] = _worst(frame, worst)
    return _runs(averaged(frame), settings, examples, left_out)


def _frame(
    records: list[Record], settings: Sequence[int], examples: IntArray, metric_of: Mapping[str, str]
) -> pd.DataFrame:
    """One row an answer. Settings and examples are numbers, and the texts of answers those of the records: copies of names
    and prompts for each of millions of rows would take gigabytes."""
    measures = dict.fromkeys(name for record in records for name in record.measures)
    columns: dict[str, Any] = {
        "_setting": settings,
        "_example": examples,
        "_repeat": pd.factorize(np.array([str(record.repeat) for record in records], dtype=object))[0],
        "_answer": np.array([record.answer for record in records], dtype=object),
        "_text": np.array([record.text for record in records], dtype=object),
        "_failed": [record.failed for record in records],
        "score": [np.nan if record.failed else _score(record, metric_of[record.task]) for record in records],
        **_lengths(records),
        **{name: np.array([record.measures.get(name, np.nan) for record in records]) for name in measures},
    }
    return pd.DataFrame(columns)


def _examples(records: list[Record]) -> tuple[pd.DataFrame, IntArray]:
    """One row an example, in the order in which they come: its name, its task and what is known of it; and the number of
    each record's example among them. Examples of several tasks are known by both names."""
    numbers: dict[tuple[str, str], int] = {}
    codes = np.array([numbers.setdefault((record.task, record.example), len(numbers)) for record in records])
    several = len({task for task, _ in numbers}) > 1
    names = dict.fromkeys(name for record in records for name in record.about)
    about: dict[str, list[Any]] = {name: [None] * len(numbers) for name in names}
    for code, record in zip(codes.tolist(), records, strict=True):
        for name, value in record.about.items():
            if about[name][code] is None:
                about[name][code] = value
    columns: dict[str, Any] = {
        "example": [f"{task}/{example}" if several else example for task, example in numbers],
        "task": [task for task, _ in numbers],
    }
    return pd.DataFrame({**columns, **{name: about[name] for name in about if name not in columns}}), codes


def _answers(records: Sequence[Record], left_out: Counter[str]) -> list[Record]:
    left_out.update(record.left_out for record in records if record.left_out is not None)
    return [record for record in records if record.left_out is None]


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


def _latest(records: list[Record], skip_broken: bool, left_out: Counter[str]) -> list[Record]:
    """The records of the latest of several logs of one run, where it holds all examples of those before it."""
    logs: dict[Any, dict[str, tuple[str, set[str]]]] = defaultdict(dict)
    runs = [(tuple(record.setting.items()), record.task) for record in records]
    for run, record in zip(runs, records, strict=True):
        when, examples = logs[run].get(record.log, ("", set()))
        logs[run][record.log] = (max(when, record.when), examples | {record.example})
    replaced, again = set[tuple[Any, str]](), set[tuple[Any, str]]()
    for run, found in logs.items():
        kept: list[str] = []
        for log in sorted(found, key=lambda log: (found[log][0], log)):
            before = [other for other in kept if found[other][1] & found[log][1]]
            lacks = next((other for other in before if not found[other][1] <= found[log][1]), None)
            if lacks is not None and not skip_broken:
                _refuse_second_tries(log, lacks, len(found[log][1] & found[lacks][1]), len(found[lacks][1]))
            if lacks is not None:
                again.add((run, log))
                continue
            replaced |= {(run, other) for other in before}
            kept = [*(other for other in kept if other not in before), log]
    places = [(run, record.log) for run, record in zip(runs, records, strict=True)]
    why = Counter({"answered again in a later log": sum(place in replaced for place in places)})
    why["asked again, in a later log of some examples alone"] = sum(place in again for place in places)
    left_out.update(+why)
    return [r for r, place in zip(records, places, strict=True) if place not in replaced and place not in again]


def _refuse_second_tries(later: str, earlier: str, common: int, examples: int) -> None:
    """Whoever asks again what went wrong, and nothing else, gives these examples a second try that they would not have at
    work."""
    raise InvalidInputError(
        f"'{later}': a later log of a run must hold all examples that the earlier one holds; it has {common:,} "
        f"of the {examples:,} of '{earlier}'. Were those asked again that had failed? That is a second try for them alone. "
        "Run all examples again, or leave the later log out: skip_broken=True, --skip-broken."
    )


def _lengths(records: list[Record]) -> dict[str, Any]:
    """How long answers were, where a tool logged any of their texts; of a failed call nothing is known."""
    found = [np.nan if record.text is None or record.failed else float(len(record.text)) for record in records]
    return {"response_chars": np.array(found)} if not np.isnan(found).all() else {}


def _score(record: Record, metric: str) -> float:
    score = record.scores[metric] if metric in record.scores else record.also.get(metric, np.nan)
    if isinstance(score, Unusable):
        raise InvalidInputError(score.why)
    return score


def _number(score: float | Unusable | None) -> float:
    return float("nan") if score is None or isinstance(score, Unusable) else score


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
    everywhere = set().union(*found.values())
    for task, variants in found.items():
        if wanted is None and len(variants) > 1:
            raise InvalidInputError(
                f"one filter must be chosen for the task '{task}'; its samples have {', '.join(sorted(variants))}. "
                "Name one (--filter)."
            )
        # a task with one filter leaves nothing to choose, as long as some task has the one that is named
        if wanted is not None and wanted not in variants and (len(variants) > 1 or wanted not in everywhere):
            raise InvalidInputError(
                f"the task '{task}' has no filter '{wanted}'; it has {', '.join(sorted(variants))}."
            )
    kept = [r for r in records if wanted is None or r.variant in (None, wanted) or len(found[r.task]) == 1]
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
    pairs = [part.rpartition("=") for part in score.split(",")] if score else []
    wanted = {task.strip(): metric.strip() for task, _, metric in pairs}
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


def _settings(records: list[Record]) -> tuple[list[dict[str, Any]], list[int]]:
    """The settings with the same keys everywhere, the model and whatever differs between runs; and the number of each
    record's setting among them."""
    by_object = {id(record.setting): tuple(record.setting.items()) for record in records}  # one for most of a log
    keys = [by_object[id(record.setting)] for record in records]
    distinct = {key: dict(key) for key in dict.fromkeys(keys)}
    names = list(dict.fromkeys(name for setting in distinct.values() for name in setting))
    varying = {name for name in names if len({str(s.get(name, "none")) for s in distinct.values()}) > 1}
    kept = [name for name in names if name == "model" or name in varying]
    known = {key: {name: plain(setting.get(name, "none")) for name in kept} for key, setting in distinct.items()}
    numbers: dict[tuple[Any, ...], int] = {}
    of = {key: numbers.setdefault(tuple(setting.items()), len(numbers)) for key, setting in known.items()}
    return [dict(setting) for setting in numbers], [of[key] for key in keys]


def _refuse_twice(
    frame: pd.DataFrame, records: list[Record], examples: pd.DataFrame, settings: Sequence[Mapping[str, Any]]
) -> None:
    twice = frame.duplicated(["_setting", "_example", "_repeat"])
    if twice.any():
        first = int(twice.to_numpy().argmax())
        example = examples["example"].iloc[frame["_example"].iloc[first]]
        setting = ", ".join(f"{name} = {value}" for name, value in settings[frame["_setting"].iloc[first]].items())
        raise InvalidInputError(
            f"{records[first].place}: an answer must be logged once; example '{example}' comes more than once for "
            f"{setting} ({int(twice.sum()):,} such answers). Two runs of one setting? Remove the older log, or take the latest "
            "(latest=True, --latest)."
        )


def _refuse_other_questions(frame: pd.DataFrame, records: list[Record], examples: pd.DataFrame) -> None:
    """Ids that are positions name other questions once a dataset is shuffled, and so do names of another version of it: a
    cascade of answers to different questions says nothing."""
    seen: dict[int, str] = {}
    other = [
        at
        for at, (example, record) in enumerate(zip(frame["_example"].tolist(), records, strict=True))
        if record.asked is not None and seen.setdefault(example, record.asked) != record.asked
    ]
    if other:
        example = examples["example"].iloc[frame["_example"].iloc[other[0]]]
        raise InvalidInputError(
            f"{records[other[0]].place}: one id must name one question in all runs; example '{example}' is another question "
            f"here than before ({len(other):,} such answers). Were the examples shuffled? Give them ids of their own. "
            "Is it the same question in other words? Write a table with the columns model, example and score."
        )


def _runs(
    frame: pd.DataFrame, distinct: list[dict[str, Any]], examples: pd.DataFrame, left_out: Mapping[str, int]
) -> Runs:
    """Runs of one row for each setting and example, both given by their numbers."""
    settings = pd.DataFrame(distinct)
    row, column = frame["_setting"].to_numpy(), frame["_example"].to_numpy()
    values = {}
    for name in frame.columns.drop(["_setting", "_example"]):
        values[str(name)] = np.full((len(settings), len(examples)), np.nan)
        values[str(name)][row, column] = frame[name]
    clash = set(settings.columns) & {*values, *examples.columns}
    return Runs(settings.rename(columns={name: f"setting {name}" for name in clash}), examples, values, dict(left_out))


def describe(runs: Runs) -> Mapping[str, Any]:
    """What was gathered, for a table on the terminal: one row a run."""
    score = runs.value("score")
    columns: dict[str, Any] = {"run": runs.names, "examples": (~np.isnan(score)).sum(axis=1)}
    for name, array in runs.values.items():
        with np.errstate(invalid="ignore"):
            counts = np.maximum((~np.isnan(array)).sum(axis=1), 1)
        columns[name] = np.where(np.isnan(array).all(axis=1), np.nan, np.nansum(array, axis=1) / counts)
    return columns


def averaged(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a setting and example, of one row an answer."""
    frame = frame.assign(_cell=frame.groupby(["_setting", "_example"], sort=False).ngroup())
    grouped = frame.groupby("_cell")
    counts = grouped.size()
    numbers = [name for name in frame if not str(name).startswith("_")]
    known = grouped[numbers].count()
    found = grouped[["_setting", "_example"]].first().join(grouped[numbers].mean().where(known.eq(counts, axis=0)))
    if frame["_failed"].any():
        found["failed"] = grouped["_failed"].mean()
    repeated = counts > 1
    if repeated.any() or not (known > 0).any(axis=1).all():  # otherwise each row of numbers is one answer
        found["samples"] = counts.astype(np.float64)
    if repeated.any():
        warnings.warn(
            f"{int(repeated.sum()):,} of {len(counts):,} outcomes are means over several answers to one example (epochs or "
            f"repeats; {len(frame):,} answers in all): answers to one example depend on each other.",
            stacklevel=4,
        )
    if counts.median() > 1:  # a few examples that come twice are no repeated sampling
        given = frame[~frame["_failed"]]
        if not given.empty and not given["_answer"].isna().any():
            # what a grader took out of a response cannot be told from a response when the policy runs
            name = "agreement" if (given["_text"] == given["_answer"]).all() else "answer_agreement"
            found[name] = agreement(given["_cell"], given["_answer"], counts)
    return found.reset_index(drop=True)
