"""What the columns of a long table mean: named by the user, mentioned by the problem, or seen in the data."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from riskfront._data.identity.copies import n_copies
from riskfront._data.identity.fingerprints import ExampleFingerprints
from riskfront._data.reading.batches import Source, whole
from riskfront._data.reading.codes import two_values
from riskfront._data.table_file import open_parquet
from riskfront._problems.terms import Term
from riskfront._support.arrays import FloatArray, IntArray
from riskfront._support.checked_json import DamagedError, check_seal, parse_json, reading
from riskfront._support.values import known
from riskfront.errors import InvalidInputError

_IDS = ("example_id", "sample", "sample_id", "id", "idx", "index", "row", "prompt_id", "question_id", "item")
EXAMPLE_NAMES = ("example", *_IDS)

#: columns that describe examples in nearly every file; as settings they must be named
_EXAMPLE_KINDS: tuple[str, ...] = ("task", "task_name", "dataset", "dataset_name", "subset", "benchmark")
_EXAMPLE_KINDS += ("subject", "language", "domain", "category", "split")

_PAIRS = 50  # rows beyond the first of their example from which on it is no accident that a column tells them apart


@dataclass(frozen=True, slots=True)
class Layout:
    """What the columns of a long table mean. Empty: to be detected."""

    config_columns: tuple[str, ...] = ()
    example_column: str | None = None
    group_columns: tuple[str, ...] = ()
    loss_columns: tuple[str, ...] = ()
    condition_columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        groups = f"; groups {', '.join(self.group_columns)}" if self.group_columns else ""
        return (
            f"settings {', '.join(self.config_columns)}; examples {self.example_column}; "
            f"outcomes {', '.join(self.loss_columns)}{groups}"
        )


def guess_layout(sample: pd.DataFrame, terms: Sequence[Term], given: Layout) -> Layout | None:
    """The role of every column, from some rows of a large table; None where they do not tell.

    Whoever reads all rows must confirm it: every example has one row for each setting.
    """
    named = _named(sample, terms, given)
    example = named.example_column or _example_by_name(sample, named)
    if example is None:
        return None
    codes, examples = pd.factorize(sample[example])
    if (codes < 0).any() or len(examples) == len(sample):
        return None
    blocks = _Blocks(codes, len(examples))
    losses, groups = _losses_and_groups(sample, named, blocks)
    if named.config_columns:
        return Layout(named.config_columns, example, groups, losses)
    rest = [str(c) for c in sample.columns if c not in {example, *losses, *groups}]
    configs = _that_tell_rows_apart(sample, codes, [name for name in rest if not blocks.constant(sample[name])])
    if not configs or not losses:
        return None
    _ask_about(configs, sample, example)
    return Layout(tuple(configs), example, groups, losses)


def _losses_and_groups(frame: pd.DataFrame, named: Layout, blocks: _Blocks) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A condition that varies with the setting is stored like a loss, one that does not like a group."""
    conditions = [name for name in named.condition_columns if name not in named.loss_columns]
    fixed = [name for name in conditions if blocks.constant(frame[name])]
    varying = [name for name in conditions if name not in fixed]
    return (*named.loss_columns, *varying), tuple(dict.fromkeys([*named.group_columns, *fixed]))


def _that_tell_rows_apart(sample: pd.DataFrame, examples: IntArray, columns: Sequence[str]) -> list[str]:
    """Columns that name settings: with the example they tell all rows apart, and each is needed for it or follows from the
    others. What is not needed and does not follow from them is an outcome."""
    codes = {name: pd.factorize(sample[name])[0] for name in columns}
    kept = list(columns)
    for name in sorted(columns, key=lambda name: -int(codes[name].max(initial=0))):
        others = [codes[other] for other in kept if other != name]
        settings = _joint(others, len(sample))
        if _all_differ([settings, examples]) and not _follows(codes[name], settings):
            kept.remove(name)
    settings = _joint([codes[name] for name in kept], len(sample))
    if not _all_differ([settings, examples]):
        return []
    _ask_which_is_the_setting(codes, kept, examples)
    return [name for name in columns if name in kept]


def _ask_which_is_the_setting(codes: Mapping[str, IntArray], kept: Sequence[str], examples: IntArray) -> None:
    """Refuse to guess where a column of few values, such as a rank of the settings on each example, tells rows apart as well as
    one that was taken for a setting: a rank may follow from the outcomes."""
    if len(examples) - len(np.unique(examples)) < _PAIRS:
        return
    most = 2 * len(np.unique(_joint([codes[name] for name in kept], len(examples))))
    for name in (name for name, values in codes.items() if name not in kept and int(values.max(initial=0)) < most):
        for instead in kept:
            others = _joint([codes[name], *(codes[other] for other in kept if other != instead)], len(examples))
            if _all_differ([others, examples]) and not _follows(codes[instead], others):
                raise InvalidInputError(
                    f"is '{instead}' or '{name}' the setting? Each of them tells the rows of every example apart, and neither "
                    "follows from the other. Leave the other column out, or name those of the settings: --config-columns."
                )


def _joint(codes: Sequence[IntArray], n: int) -> IntArray:
    """One code for each combination."""
    found = np.zeros(n, dtype=np.int64)
    for code in codes:
        found = np.unique(found * (int(code.max(initial=0)) + 2) + code + 1, return_inverse=True)[1]
    return found


def _all_differ(codes: Sequence[IntArray]) -> bool:
    return len(np.unique(_joint(codes, len(codes[0])))) == len(codes[0])


def _follows(column: IntArray, settings: IntArray) -> bool:
    """Whether every setting has one value of the column."""
    return len(np.unique(_joint([settings, column], len(column)))) == len(np.unique(settings))


def detect_layout(frame: pd.DataFrame, terms: Sequence[Term], given: Layout) -> Layout:
    """The role of every column that has one, from all rows. Losses, groups and conditions of the terms are columns."""
    named = _named(frame, terms, given)
    example = named.example_column or _detect_example(frame, named)
    codes, examples = pd.factorize(frame[example])
    if (codes < 0).any():
        raise InvalidInputError(f"every row must have a value for '{example}'; row {int(np.argmin(codes))} has none.")
    return _detect(frame, named, example, _Blocks(codes, len(examples)))


def _named(frame: pd.DataFrame, terms: Sequence[Term], given: Layout) -> Layout:
    """The layout with the columns that the terms mention; every named column must exist."""
    losses, groups = list(given.loss_columns), list(given.group_columns)
    for term in terms:
        losses += term.losses
        groups += [name for name in (term.per, term.weights) if name]
    conditions = [term.given for term in terms if term.given]
    asked = [*losses, *groups, *conditions, *given.config_columns, given.example_column]
    for name in filter(None, asked):
        known(name, list(frame.columns), "column")
    clash = set(losses) & {*given.config_columns, given.example_column, *groups}
    if clash:
        raise InvalidInputError(
            f"a column must have one role; '{sorted(map(str, clash))[0]}' is a loss and named as another."
        )
    unique = [tuple(dict.fromkeys(names)) for names in (groups, losses, conditions)]
    return Layout(given.config_columns, given.example_column, *unique)


def _detect_example(frame: pd.DataFrame, named: Layout) -> str:
    """The column that names the examples: by its name, or the only one with every value equally often and most values."""
    free = _free(frame, named)
    # a column that numbers the rows names no examples, unless there is only one setting and so nothing else varies
    several = any(1 < frame[column].nunique() < len(frame) for column in free)
    free = [column for column in free if not (several and frame[column].is_unique)]
    for name in EXAMPLE_NAMES:
        for column in free:
            if column.lower() == name:
                return column
    regular = {}
    for column in free:
        counts = frame[column].value_counts(dropna=False)
        if frame[column].dtype.kind != "f" and len(counts) > 1 and counts.nunique() == 1:
            regular[column] = len(counts)
    best = sorted(regular, key=lambda column: -regular[column])
    if not best or (len(best) > 1 and regular[best[0]] == regular[best[1]]):
        raise InvalidInputError(
            "cannot tell which column names the examples; call it 'example'. "
            f"Columns: {', '.join(map(str, frame.columns))}."
        )
    return best[0]


def _free(frame: pd.DataFrame, named: Layout) -> list[str]:
    """The columns without a role."""
    taken = {*named.config_columns, *named.group_columns, *named.loss_columns}
    return [str(column) for column in frame.columns if column not in taken]


def _example_by_name(sample: pd.DataFrame, named: Layout) -> str | None:
    free = {column.lower(): column for column in _free(sample, named)}
    found = [free[name] for name in EXAMPLE_NAMES if name in free]
    return next((name for name in found if not sample[name].is_unique), None)


class _Blocks:
    """The rows of each example side by side, to see what varies within an example and what across examples."""

    def __init__(self, codes: IntArray, n: int) -> None:
        counts = np.bincount(codes, minlength=n)
        self.order = np.argsort(codes, kind="stable")
        self.even = bool((counts == counts[0]).all())
        self.starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        self.of_row = codes
        self.n = n

    def constant(self, column: pd.Series) -> bool:
        """Whether the column has one value for each example."""
        values = pd.factorize(column)[0]
        return bool((values == values[self.order[self.starts]][self.of_row]).all())

    def repeated(self, column: pd.Series) -> bool:
        """Whether every example has the same values of this column, each as often: then it tells settings apart."""
        if not self.even:
            return False
        values = np.sort(pd.factorize(column)[0][self.order].reshape(self.n, -1), axis=1)
        return bool((values == values[0]).all())


def _detect(frame: pd.DataFrame, named: Layout, example: str, blocks: _Blocks) -> Layout:
    """Setting, group and loss columns. Columns nobody mentioned that fit no role are left out."""
    for name in named.group_columns:
        if not blocks.constant(frame[name]):
            raise two_values(name, example)
    losses, groups = _losses_and_groups(frame, named, blocks)
    rest = [str(c) for c in frame.columns if c not in {example, *losses, *groups, *named.config_columns}]
    configs = named.config_columns
    if not configs:
        if not blocks.even:
            raise InvalidInputError(
                f"every example must have one row for each setting; '{example}' has values with different numbers of rows. "
                "Add the rows that are missing, or leave out columns that are no settings."
            )
        configs = tuple(name for name in rest if blocks.repeated(frame[name]) and not blocks.constant(frame[name]))
        _ask_about(configs, frame, example)
        codes = {name: pd.factorize(frame[name])[0] for name in configs}
        if configs and blocks.n * len(np.unique(_joint(list(codes.values()), len(frame)))) > len(frame):
            _that_tell_rows_apart(frame, blocks.of_row, configs)  # not all can be settings: each would lack examples
        if not configs and len(frame) == blocks.n:  # one row an example: a single setting, which nothing tells apart
            configs = tuple(name for name in rest if frame[name].nunique() == 1)
        if not configs:
            raise InvalidInputError(
                "cannot tell which columns hold the settings: they must have the same values for every example. "
                f"Columns: {', '.join(map(str, frame.columns))}."
            )
    if not named.loss_columns:  # nobody mentioned a loss: every other number that varies is one
        numbers = [name for name in rest if name not in configs and frame[name].dtype.kind in "biuf"]
        losses = (*losses, *(name for name in numbers if not blocks.constant(frame[name])))
    if not losses:
        raise InvalidInputError(f"a table must have at least one loss column; found none among {', '.join(rest)}.")
    return Layout(configs, example, groups, losses)


def _ask_about(configs: Sequence[str], frame: pd.DataFrame, example: str) -> None:
    """Refuse to guess that a task or a data set is a setting: two tasks whose examples have the same names look like it."""
    for name in configs:
        if name.lower() not in _EXAMPLE_KINDS:
            continue
        values = ", ".join(str(value) for value in frame[name].unique()[:3])
        raise InvalidInputError(
            f"is '{name}' a setting? It would count as one: every '{example}' has rows for each of its {frame[name].nunique()} "
            f"values ({values}). If it is a knob of the system, call it by another name, such as '{name}_setting'. If it "
            f"describes examples, '{example}' names different examples alike: keep the rows of one {name}, or name the "
            f"examples by {name} and {example} together."
        )


#: in the metadata of a Parquet file of runs: {"settings": columns, "about": columns of the examples, "left_out": account}
KEY = b"riskfront.runs"


def saved_roles(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """The roles that a file of runs names; None for any other file."""
    if Path(path).suffix.lower() not in (".parquet", ".pq"):
        return None
    text = (open_parquet(path).schema_arrow.metadata or {}).get(KEY)
    if text is None:
        return None
    check_seal(path, required=True)
    with reading("runs", path):
        roles: dict[str, list[str]] = parse_json(text)
        return roles


#: what every call takes, as against what its answer is worth; these have no usual bounds
PAID = ("cost", "cost_usd", "total_cost", "price", "latency", "tokens", "input_tokens", "output_tokens")


def holds_runs(schema: pa.Schema) -> bool:
    """Whether ``import`` wrote these rows, so that columns such as "cost" are what a call took."""
    return KEY in (schema.metadata or {})


def price_bounds(schema: pa.Schema) -> dict[str, tuple[float, float]]:
    """The most that a call costs, where a price was declared for the calls of every run."""
    prices = json.loads((schema.metadata or {}).get(KEY, b"{}")).get("call_prices") or {}
    return {"cost": (0.0, float(max(prices.values())))} if prices and max(prices.values()) > 0 else {}


def recorded_failures(source: Source) -> dict[str, tuple[float, float]]:
    """What failed calls score, as ``recorded_as`` has it, in a table with a row for each model and example that says which
    failed; empty where none failed, or none of these has a score."""
    names = set(source.schema.names)
    if not {"score", "failed"} <= names or not ("model" in names or KEY in (source.schema.metadata or {})):
        return {}
    low, high, scores, shares = np.inf, -np.inf, list[FloatArray](), list[FloatArray]()
    for batch in source.batches(["score", "failed"]):
        columns = (pd.to_numeric(column.to_pandas(), errors="coerce") for column in batch.columns)
        score, share = (np.asarray(column, dtype=np.float64) for column in columns)
        known = np.isfinite(score)
        low, high = np.min(score[known], initial=low), np.max(score[known], initial=high)
        scores.append(score[known & (share > 0)])
        shares.append(share[known & (share > 0)])
    found = recorded_as(np.concatenate(scores), np.concatenate(shares), float(low), float(high)) if scores else None
    return {} if found is None else {"score": found}


def recorded_as(scores: FloatArray, shares: FloatArray, low: float, high: float) -> tuple[float, float] | None:
    """The least that some failed call scores if the others of its mean score as little as they can (``low``), and the most
    that some scores if they score as much (``high``); None without failed calls. ``scores``, (n,), are means over calls, of
    which these ``shares`` failed, in (0, 1]."""
    if not len(scores):
        return None
    return float(((scores - (1 - shares) * low) / shares).min()), float(((scores - (1 - shares) * high) / shares).max())


def refuse_copied_prompts(source: Source) -> None:
    """An error if prompts of a file of runs come again under other names with the same answers, or so often that independent
    draws do not explain it."""
    if KEY not in (source.schema.metadata or {}) or "prompt" not in source.schema.names:
        return
    rows = whole(source).to_pandas()
    rows = rows[rows["prompt"].notna()]
    digests = pd.util.hash_pandas_object(rows.drop(columns=["example", "prompt"]).astype(str), index=False)
    answers = digests.groupby(rows["example"]).sum().sort_index()  # of all models, whichever comes first
    asked = rows.groupby("example")["prompt"].first().sort_index().astype(str)
    found, prompts = ExampleFingerprints.of(asked, answers), ExampleFingerprints.of(asked)
    if found is None or prompts is None:
        return
    found = replace(found, to_the_last_digit=True)  # answers are digests, and prompts no names
    if copies := max(found.n_copies, n_copies(prompts.numbers)):
        raise InvalidInputError(
            f"a guarantee needs every example once; of {len(asked):,} examples {copies:,} have the prompt of another under a "
            "name of their own. Leave copies of a log out; give all answers to one prompt one name: their mean counts then."
        )


def with_saved_roles(schema: pa.Schema, layout: Layout) -> Layout:
    """The layout that the user named; where it is silent, what a file of runs says."""
    text = (schema.metadata or {}).get(KEY)
    if text is None:
        return layout
    try:
        settings = tuple(parse_json(text)["settings"])
    except (DamagedError, KeyError, TypeError):
        raise InvalidInputError(
            "what a file of runs says of its columns must be as it was saved; it was changed or damaged."
        ) from None
    configs, example = layout.config_columns or settings, layout.example_column or "example"
    return replace(layout, config_columns=configs, example_column=example)
