"""Stored loss tables: found by name in a folder, and prepared for an experiment."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from riskfront._cascades.cascade import Router
from riskfront._cascades.confidence import LearntConfidence
from riskfront._data.logs.read_runs import read_runs
from riskfront._data.reading.wide_format import read_wide
from riskfront._data.table import LossTable
from riskfront._problems.limits import Limit
from riskfront._problems.problem import Problem
from riskfront._problems.spaces.space import Grid
from riskfront._support.arrays import IntArray
from riskfront._support.checked_json import DamagedError, from_bytes
from riskfront.errors import InvalidInputError, StoreError
from riskfront.methods import (
    SGT,
    AlphaConstrained,
    AlphaDeltaConstrained,
    ConstrainedPath,
    LowRiskPath,
    Method,
    ParetoTesting,
    SplitFST,
)
from riskfront.methods._pareto_testing import PAPER_P_VALUE

#: names in files -> what people call it
WORDS = {
    "ag_news": "AG News",
    "imdb": "IMDB",
    "qnli": "QNLI",
    "qqp": "QQP",
    "mnli": "MNLI",
    "paper": "trained as in the paper",
    "early": "loss on early layers",
    "all": "trained on all rows",
    "mpnet": "all-mpnet-base-v2",
    "cls": "[CLS] exits",
    "pooled": "pooled exits",
}


@dataclass(frozen=True)
class StoredTable:
    """A table of one data set: of one training and one kind of exits where it is of the adaptive Transformer."""

    data: str
    variant: str
    exits: str
    path: Path

    @property
    def title(self) -> str:
        """In words."""
        return ", ".join(WORDS.get(part, part) for part in (self.data, self.variant, self.exits) if part)

    @property
    def file_name(self) -> str:
        return ".".join(part for part in (self.data, self.variant, self.exits) if part)

    @property
    def about(self) -> dict[str, Any]:
        """What it was made from, where that was written down."""
        beside = self.path.with_suffix(".json")
        try:
            return from_bytes(beside.read_bytes(), required=False) if beside.is_file() else {}
        except DamagedError as error:
            raise StoreError(f"'{beside}' must be as it was written; {error}. Make the table again.") from None

    def load(self) -> LossTable:
        return MAKERS[self.data](self.path) if self.data in MAKERS else LossTable.load(self.path)


def find_tables(folder: str | os.PathLike[str], data: Sequence[str]) -> list[StoredTable]:
    """All tables of these data sets in a folder, named DATA.VARIANT.EXITS.parquet; of language models, their logs."""
    place = Path(folder)
    found = [StoredTable(name, "", "", place) for name in data if name in MAKERS]
    for path in sorted(place.glob("*.*.*.parquet")):
        name, variant, exits, _ = path.name.rsplit(".", 3)
        if name in data:
            stored = StoredTable(name, variant, exits, path)
            if (described := stored.about.get("data", name)) != name:
                raise StoreError(
                    f"'{path}' must be a table of {name}; the file beside it says that it is one of {described}."
                )
            found.append(stored)
    if not found:
        raise StoreError(
            f"'{place}' must hold a table of {' or '.join(data)}, named as {data[0]}.paper.cls.parquet; it holds none. Make "
            "one: riskfront reproduce tables."
        )
    return sorted(found, key=lambda table: data.index(table.data))


def full_row(configs: pd.DataFrame) -> int | None:
    """The setting without any pruning; None where settings are no thresholds."""
    numbers = all(kind.kind in "iuf" for kind in configs.dtypes)
    off = np.flatnonzero((configs == 0).all(axis=1)) if numbers else np.empty(0, dtype=np.int64)
    return int(off[0]) if len(off) else None


def with_fewer_exits(table: LossTable, n: int | None) -> LossTable:
    """The same grid with at most n exit thresholds, evenly chosen, both ends included."""
    if "tau_layer" not in table.config_names:
        raise InvalidInputError(f"the settings must have exit thresholds 'tau_layer'; they have {table.config_names}.")
    values = np.unique(table.configs["tau_layer"].to_numpy())
    if n is None or len(values) <= n:
        return table
    kept = values[np.round(np.linspace(0, len(values) - 1, n)).astype(int)]
    return table.select(np.isin(table.configs["tau_layer"].to_numpy(), kept))


def with_abstaining(table: LossTable, lambdas: Sequence[float]) -> LossTable:
    """Every setting with every lambda: below that confidence there is no answer. Losses stay as they are, limits condition."""
    if not lambdas:
        return table
    configs, n = table.configs, len(lambdas)
    rows: IntArray = np.repeat(np.arange(len(configs)), n)
    repeated = configs.iloc[rows].reset_index(drop=True).assign(**{"lambda": np.tile(lambdas, len(configs))})
    losses = {name: table.losses(name)[rows] for name in table.loss_names if name != "confidence"}
    losses["answered"] = table.losses("confidence")[rows] >= repeated["lambda"].to_numpy(dtype=np.float32)[:, None]
    groups = {name: table.group(name) for name in table.group_names}
    return LossTable(repeated, losses, groups, table.declared_bounds)


ROUTERBENCH = "routerbench_0shot_subset.parquet"
QUANTISED = "llama31_8b_mxquant_triviaqa"
BEST = "gpt-4-1106-preview"


def router_table(folder: Path) -> LossTable:
    """Routers between two of eleven models by a confidence that is learnt from the prompts; the best model is the reference."""
    runs = read_runs(_file(folder, ROUTERBENCH), "routerbench")
    learnt = LearntConfidence(["task", "prompt_chars"])
    table = Router(runs, stages=2, confidence=learnt, thresholds=20).table(binary=["score"])
    return with_drops(table, BEST, "cost", np.asarray(table.losses("cost"), dtype=np.float32))


def quantisation_table(folder: Path) -> LossTable:
    """Quantisations of one model; the model itself is the reference, the mean number of bits the cost."""
    problem = Problem(["score drop <= 0.02"], minimize="avg_bitwidth", reference="full")
    settings = _file(folder, f"{QUANTISED}_configs.csv")
    table, _ = read_wide(_file(folder, f"{QUANTISED}.parquet"), problem, example_column="sample_id", settings=settings)
    bits = table.configs["avg_bitwidth"].to_numpy(dtype=np.float32)
    return with_drops(table, "full", "bits", np.repeat(bits[:, None], table.n_examples, axis=1))


def with_drops(table: LossTable, reference: str, objective: str, cost: np.ndarray) -> LossTable:
    """Losses of every setting: how much its score is below that of the reference, signed and clipped, and what it costs."""
    score = table.losses("score")
    kind = np.int8 if score.dtype == np.bool_ else np.float32
    score = score.astype(kind)
    drop = score[table.reference(reference)] - score
    clipped = np.maximum(drop, 0)
    losses = {
        "score_drop": drop,
        "score_drop_clipped": clipped.astype(np.bool_) if kind is np.int8 else clipped,
        objective: cost,
    }
    bounds = {"score_drop": (-1.0, 1.0), objective: (0.0, float(max(1.0, cost.max())))}
    return LossTable(table.configs, losses, None, bounds)


#: name of the data -> its table, from the folder of its logs
MAKERS: dict[str, Callable[[Path], LossTable]] = {"router": router_table, "quantisation": quantisation_table}


def _file(folder: Path, name: str) -> Path:
    if not (folder / name).is_file():
        raise StoreError(
            f"'{folder}' must hold the logs '{name}'; it does not. Give the folder that does with --tables."
        )
    return folder / name


DELTA = 0.1
ALPHAS = (0.025, 0.05, 0.075, 0.1, 0.125, 0.15, 0.175, 0.2)
#: examples that the paper calibrates on
CALIBRATION = {"ag_news": 5000, "imdb": 5000, "qnli": 3400, "qqp": 5000, "mnli": 10_000}


@dataclass(frozen=True)
class FromCorner:
    """A method that walks over the grid from the corner where every threshold is at this end."""

    method: type[Any]
    end: str

    def on(self, table: LossTable) -> Method:
        return self.method(safest=dict.fromkeys(Grid.of(table.configs).axes, self.end))


@dataclass(frozen=True)
class Lineup:
    """Methods that face the same limits.

    Args:
        form: stands behind the names of the methods; empty for the paper's form.
        limits: with the p-value that the form uses.
        methods: as they are, or made for the grid of a table.
    """

    form: str
    limits: tuple[Limit, ...]
    methods: tuple[Method | FromCorner, ...]

    def made_for(self, table: LossTable) -> list[Method]:
        return [method.on(table) if isinstance(method, FromCorner) else method for method in self.methods]

    def label(self, method: str) -> str:
        return f"{method}, {self.form}" if self.form else method


PARETO = ParetoTesting.as_in_the_paper()
UNGUARDED: tuple[Method, ...] = (AlphaConstrained(), AlphaDeltaConstrained())


def paper(*limits: Limit, corner: str | None = "low") -> Lineup:
    """The paper's form: Hoeffding-Bentkus p-values, half of the examples plan, conditional limits are padded.

    Args:
        corner: where methods on the grid start; None leaves them out.
    """
    tested = tuple(
        replace(limit, p_value=PAPER_P_VALUE, padded=limit.per is not None or limit.given is not None)
        for limit in limits
    )
    on_grid = () if corner is None else (FromCorner(SGT, corner), FromCorner(LowRiskPath, corner))
    # section 7 orders all settings by their p-values; a grid of betas would skip most
    split = SplitFST(spacing="every")
    return Lineup("", tested, (PARETO, split, *on_grid, ConstrainedPath(opt_fraction=0.5), *UNGUARDED))


def exact(*limits: Limit) -> Lineup:
    """The paper's plan with riskfront's p-values: exact binomial tests, conditional limits on the examples they speak of."""
    return Lineup("exact p-values", limits, (PARETO,))


def default(*limits: Limit, form: str = "riskfront's default") -> Lineup:
    """Everything as riskfront does it when nothing is said."""
    return Lineup(form, limits, (ParetoTesting(),))
