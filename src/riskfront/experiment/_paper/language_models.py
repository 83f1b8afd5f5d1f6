"""Tables of language models from other people's logs: routers between two models, and quantisations of one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from riskfront._cascades.cascade import Router
from riskfront._cascades.confidence import LearntConfidence
from riskfront._data.logs.read_runs import read_runs
from riskfront._data.reading.wide_format import read_wide
from riskfront._data.table import LossTable
from riskfront._problems.problem import Problem
from riskfront.errors import StoreError

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
